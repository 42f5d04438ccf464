/* mpi_stencil.c - a heat equation on a square, split into strips of rows: each step exchanges halo
 * rows with the neighbours and averages. The grid is allocated once, halo buffers in every step, as
 * codes that pack their messages do. Prints the sum of the field, which does not depend on the
 * number of ranks. Usage: mpi_stencil [SIDE [STEPS]]. */
#include <mpi.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define SITE __attribute__((noinline, noclone))

typedef struct strip {
    int side, rows, first; /* rows of ours, the first's number in the whole */
    double *now, *next;    /* (rows + 2) * side */
} strip_t;

SITE static double *new_grid(int rows, int side) {
    return calloc((size_t)(rows + 2) * (size_t)side, sizeof(double));
}

SITE static double *new_halo(int side) {
    return malloc((size_t)side * sizeof(double));
}

static void exchange_with(strip_t *s, int neighbour, const double *edge, double *halo, int tag) {
    size_t bytes = (size_t)s->side * sizeof(double);
    double *out = new_halo(s->side), *in = new_halo(s->side);
    memcpy(out, edge, bytes);
    MPI_Sendrecv(out, s->side, MPI_DOUBLE, neighbour, tag, in, s->side, MPI_DOUBLE, neighbour, tag,
                 MPI_COMM_WORLD, MPI_STATUS_IGNORE);
    memcpy(halo, in, bytes);
    free(out);
    free(in);
}

static void step(strip_t *s, int rank, int ranks) {
    int n = s->side;
    /* Even ranks turn down first, odd ones up: no chain of waiting. */
    for (int turn = 0; turn < 2; turn++) {
        if ((rank + turn) % 2 == 0) {
            if (rank + 1 < ranks)
                exchange_with(s, rank + 1, s->now + s->rows * n, s->now + (s->rows + 1) * n, 1);
        } else if (rank > 0) {
            exchange_with(s, rank - 1, s->now + n, s->now, 1);
        }
    }
    for (int i = 1; i <= s->rows; i++) {
        int row = s->first + i - 1;
        for (int j = 0; j < n; j++) {
            double *c = s->now + i * n + j;
            int edge = row == 0 || row == n - 1 || j == 0 || j == n - 1;
            s->next[i * n + j] = edge ? *c : (c[-1] + c[1] + c[-n] + c[n]) / 4;
        }
    }
    double *old = s->now;
    s->now = s->next;
    s->next = old;
}

int main(int argc, char **argv) {
    MPI_Init(&argc, &argv);
    int rank, ranks;
    MPI_Comm_rank(MPI_COMM_WORLD, &rank);
    MPI_Comm_size(MPI_COMM_WORLD, &ranks);
    int n = argc > 1 ? atoi(argv[1]) : 256, steps = argc > 2 ? atoi(argv[2]) : 100;
    strip_t s = {.side = n, .first = (int)((long)n * rank / ranks)};
    s.rows = (int)((long)n * (rank + 1) / ranks) - s.first;
    s.now = new_grid(s.rows, n);
    s.next = new_grid(s.rows, n);
    for (int j = 0; s.first == 0 && j < n; j++)
        s.now[n + j] = 100; /* one hot edge */
    for (int i = 0; i < steps; i++)
        step(&s, rank, ranks);
    double mine = 0, all = 0;
    for (int i = n; i < (s.rows + 1) * n; i++)
        mine += s.now[i];
    MPI_Reduce(&mine, &all, 1, MPI_DOUBLE, MPI_SUM, 0, MPI_COMM_WORLD);
    if (rank == 0) printf("sum %.6f\n", all);
    free(s.now);
    free(s.next);
    MPI_Finalize();
    return 0;
}
