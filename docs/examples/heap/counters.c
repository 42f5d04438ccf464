/* counters.c - two threads count, each in a counter of its own. Where the counters share a cache
 * line the threads take it from each other; in a heap with lines of their own they do not. */
#include <numalloc/numalloc.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

enum { THREADS = 2, LINE = 64, COUNTS = 50000000 };

static void *count(void *counter) {
    volatile uint64_t *value = counter;
    for (long i = 0; i < COUNTS; i++)
        ++*value;
    return NULL;
}

static double seconds(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (double)now.tv_sec + (double)now.tv_nsec / 1e9;
}

static void measure(const char *what, void *counters[THREADS]) {
    pthread_t thread[THREADS];
    double from = seconds();
    for (int i = 0; i < THREADS; i++)
        if (counters[i] == NULL || pthread_create(&thread[i], NULL, count, counters[i]) != 0)
            exit(1);
    for (int i = 0; i < THREADS; i++)
        pthread_join(thread[i], NULL);
    printf("%-26s %.2f s\n", what, seconds() - from);
    for (int i = 0; i < THREADS; i++)
        free(counters[i]);
}

int main(void) {
    void *counters[THREADS];
    numalloc_heap_t *heap =
        numalloc_heap_create(&(numalloc_heap_options_t){.flags = NUMALLOC_HEAP_OWN_LINES});
    if (heap == NULL) return 1;
    printf("numalloc %s\n", numalloc_version());

    for (int i = 0; i < THREADS; i++)
        counters[i] = malloc(sizeof(uint64_t));
    measure("malloc", counters);
    for (int i = 0; i < THREADS; i++)
        counters[i] = aligned_alloc(LINE, LINE);
    measure("padded by hand", counters);
    for (int i = 0; i < THREADS; i++)
        counters[i] = numalloc_heap_malloc(heap, sizeof(uint64_t));
    measure("a heap with lines of its own", counters);
    numalloc_heap_destroy(heap);
}
