/* gdb_heap.c - a program whose heap is known and that then aborts, for gdb_heap.sh. With an
 * argument it has written to a freed block. */
#include <pthread.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

typedef struct holder {
    char before[24];
    char *inner;
} holder_t;

enum { BLOCKS = 100, FREED = 40, LARGE = 1 << 20 };

char *keep, *large, *gone;
char *blocks[BLOCKS];
holder_t *holder;

/* Frees what another thread allocated, and keeps a pointer on its stack. */
static void *other(void *stop) {
    char *volatile on_stack = keep + 7;
    for (int i = 0; i < FREED; i++)
        free(blocks[i]);
    pthread_barrier_wait(stop);
    pthread_barrier_wait(stop);
    return on_stack;
}

int main(int argc, char **argv) {
    (void)argv;
    pthread_t thread;
    pthread_barrier_t stop;
    pthread_barrier_init(&stop, NULL, 2);
    keep = malloc(100);
    strcpy(keep, "kept");
    for (int i = 0; i < BLOCKS; i++)
        blocks[i] = malloc(48);
    holder = malloc(sizeof *holder);
    holder->inner = keep + 5;
    large = malloc(LARGE);
    memset(large, 1, LARGE);
    pthread_create(&thread, NULL, other, &stop);
    pthread_barrier_wait(&stop);
    gone = malloc(700);
    free(gone);
    if (argc > 1) memset(gone + 8, 'x', 8);
    abort();
}
