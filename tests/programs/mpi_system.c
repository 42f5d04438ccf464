/* mpi_system.c - each rank allocates what its number says, and runs another program or two. */
#include <mpi.h>
#include <stdlib.h>
#include <string.h>

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    size_t size = (size_t)(rank + 8) << 20;
    char *block = malloc(size);
    if (block == NULL) return 1;
    memset(block, rank, size);
    if (system("sort /dev/null | cat") != 0) return 1;
    free(block);
    MPI_Finalize();
    return 0;
}
