/* app.c - asks numalloc where a block lies. */
#include <numalloc/numalloc.h>
#include <stdio.h>
#include <stdlib.h>

int main(void) {
    void *block = malloc(1000);
    int node = numalloc_node_of(block);
    free(block);
    if (node < 0) {
        puts("malloc is not numalloc's");
        return 1;
    }
    printf("numalloc %s, node %d\n", numalloc_version(), node);
    return 0;
}
