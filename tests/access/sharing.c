/* sharing.c - threads that never pause, and what they use: access-sharing KIND THREADS. Runs until
 * standard input ends. What is to be said of each kind, sharing.py knows.
 *
 *   array    counters of 8 bytes in one array, one a thread (wrong; mended: padded)
 *   ints     the same of 4 bytes
 *   static   the same in a variable of the program's
 *   blocks   a block of 8 bytes for each
 *   beside   one thread counts, the others read the word beside it
 *   padded   an array with a line for each thread
 *   atomic   one counter of all
 *   atomics  several counters of all, in one line
 *   few      one word each, far apart in 16 MiB
 *   readers  a table that all read, and one writes now and then */
#include <pthread.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { MOST = 8, LINE = 64, BYTES = 16 << 20 };

static atomic_bool over;
static const char *kind;
static char *table;
static void *block[MOST];
static long counters[MOST] __attribute__((aligned(LINE)));

static void *work(void *argument) {
    size_t me = (size_t)argument;
    volatile long *mine = NULL;
    long sum = 0;
    if (strcmp(kind, "array") == 0) mine = (long *)(void *)table + me;
    if (strcmp(kind, "static") == 0) mine = counters + me;
    if (strcmp(kind, "blocks") == 0) mine = block[me];
    if (strcmp(kind, "padded") == 0) mine = (long *)(void *)(table + LINE * me);
    if (strcmp(kind, "few") == 0) mine = (long *)(void *)(table + (BYTES / MOST) * me);
    if (strcmp(kind, "beside") == 0 && me == 0) mine = (long *)(void *)table;
    volatile int *small = (int *)(void *)table + me;
    _Atomic long *all = (_Atomic long *)(void *)table;
    volatile long *words = (long *)(void *)table;
    bool ints = strcmp(kind, "ints") == 0, atomic = strcmp(kind, "atomic") == 0;
    bool atomics = strcmp(kind, "atomics") == 0, beside = strcmp(kind, "beside") == 0;
    for (uint64_t i = 0; !atomic_load_explicit(&over, memory_order_relaxed); i++) {
        if (mine != NULL)
            (*mine)++;
        else if (ints)
            (*small)++;
        else if (atomic)
            atomic_fetch_add(all, 1);
        else if (atomics)
            atomic_fetch_add(all + i % 4, 1);
        else if (beside)
            sum += words[1];
        else if (me == 0 && i % 1000000 == 0)
            words[i % 8]++;
        else
            sum += words[i % 8];
    }
    return (void *)(uintptr_t)sum;
}

int main(int argc, char **argv) {
    size_t threads = argc == 3 ? (size_t)atoi(argv[2]) : 0;
    if (threads == 0 || threads > MOST) {
        fprintf(stderr, "usage: access-sharing KIND THREADS\n");
        return 2;
    }
    kind = argv[1];
    table = strcmp(kind, "few") == 0 ? calloc(1, BYTES) : aligned_alloc(LINE, MOST * LINE);
    if (table == NULL) return 1;
    memset(table, 0, MOST * LINE);
    for (size_t i = 0; i < threads; i++)
        block[i] = malloc(sizeof(long));
    pthread_t thread[MOST];
    for (size_t i = 0; i < threads; i++)
        if (pthread_create(&thread[i], NULL, work, (void *)i) != 0) return 1;
    char end;
    while (read(0, &end, 1) > 0) {
    }
    atomic_store(&over, true);
    for (size_t i = 0; i < threads; i++)
        pthread_join(thread[i], NULL);
    return 0;
}
