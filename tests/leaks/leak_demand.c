/* leak_demand.c - asks for a scan itself, in a program whose threads go on. */
#define NUMALLOC_WEAK
#include <numalloc/numalloc.h>
#pragma weak numalloc_heap_create
#pragma weak numalloc_heap_malloc
#include "leak_cases.h"

#include <pthread.h>
#include <stdatomic.h>
#include <sys/wait.h>
#include <unistd.h>

static atomic_ulong turns;
static atomic_bool stop;
void *volatile kept;

static void *work(void *unused) {
    (void)unused;
    void *held[32] = {0};
    for (unsigned long i = 0; !atomic_load(&stop); i++) {
        free(held[i % 32]);
        held[i % 32] = malloc(16 + i % 3000);
        atomic_fetch_add(&turns, 1);
    }
    for (unsigned i = 0; i < 32; i++)
        free(held[i]);
    return NULL;
}

static void fails(const char *what) {
    fprintf(stderr, "%s\n", what);
    exit(1);
}

static __attribute__((noinline)) void lose(size_t size) {
    void *p = malloc(size);
    memset(p, 0, size);
    __asm__ volatile("" : : "r"(p) : "memory");
}

static int scan(numalloc_leaks_t *leaks) {
    scrub();
    return NUMALLOC_IF(numalloc_scan_leaks, -1, (leaks, sizeof *leaks, 0));
}

/* Each scan sees what is lost so far, and the threads go on after it. */
static void by_call(unsigned count) {
    pthread_t threads[4];
    numalloc_leaks_t leaks;
    for (unsigned i = 0; i < 4; i++)
        pthread_create(&threads[i], NULL, work, NULL);
    while (atomic_load(&turns) < 1000)
        usleep(1000);
    for (unsigned i = 1; i <= count; i++) {
        lose(100);
        unsigned long before = atomic_load(&turns);
        if (scan(&leaks) != 0) fails("no scan");
        /* The block lost last may have left a word behind. */
        if (leaks.lost_blocks > i || leaks.lost_blocks + 1 < i) {
            fprintf(stderr, "%u: %lu lost\n", i, (unsigned long)leaks.lost_blocks);
            fails("not those");
        }
        if (leaks.missed != 0 || leaks.threads != 5) fails("threads");
        for (unsigned wait = 0; atomic_load(&turns) == before; wait++) {
            if (wait == 100000) fails("the threads do not go on");
            usleep(1000);
        }
    }
    atomic_store(&stop, 1);
    for (unsigned i = 0; i < 4; i++)
        pthread_join(threads[i], NULL);
    puts("done");
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    numalloc_leaks_t leaks;
    if (strcmp(what, "call") == 0) {
        by_call((unsigned)atoi(argv[2]));
        fflush(stdout);
        _exit(0);
    }
    if (strcmp(what, "without") == 0) { /* the option is not set */
        if (scan(&leaks) != -1) fails("a scan without NUMALLOC_LEAKS");
        puts("done");
    }
    if (strcmp(what, "heap") == 0) { /* a heap's blocks go with it */
        numalloc_heap_t *heap = numalloc_heap_create(NULL);
        for (unsigned i = 0; i < 100; i++)
            *(void **)numalloc_heap_malloc(heap, 64) = malloc(32);
        kept = heap;
        for (unsigned i = 0; i < 5; i++)
            lose(100);
    }
    if (strcmp(what, "children") == 0) {
        lose(30); /* the parent's, in the child too */
        scrub();
        pid_t child = fork();
        if (child == 0) {
            lose(50);
            lose(50);
            scrub();
            exit(0);
        }
        waitpid(child, NULL, 0);
        lose(60);
        scrub();
    }
    if (strcmp(what, "trigger") == 0) { /* until the line is there */
        lose(70);
        scrub();
        for (unsigned i = 0; access(argv[2], F_OK) == 0; i++) {
            free(malloc(100 + i % 50));
            if (i % 1000 == 0) usleep(1000);
        }
        _exit(0);
    }
    if (strcmp(what, "output") == 0) { /* what streams hold is written all the same */
        printf("kept in a buffer");
        lose(70);
        scrub();
        return 3;
    }
    return 0;
}
