/* profile_load.c - a program whose allocations are known: what the profile tests run.
 *
 * Each alloc_* function is one site (or says how many), marked "site: NAME" on the line of the
 * call. Built with -g -O2; noinline keeps a frame for each, and `keep` keeps the calls from being
 * dropped. Output and exit status are fixed, so that a test can see that the profiler leaves them
 * alone. */
#include <pthread.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#define SITE         __attribute__((noinline))
#define SMALL_COUNT  1000
#define SMALL_SIZE   48
#define BIG_COUNT    3
#define BIG_SIZE     ((size_t)10 << 20)
#define THREADS      4
#define THREAD_COUNT 10000
#define THREAD_SIZE  64
#define MANY_COUNT   200000
#define MANY_SIZE    512
#define LARGE_COUNT  20
#define LARGE_SIZE   ((size_t)8 << 20)

static void *volatile keep;

static void *checked(void *block) {
    if (block == NULL) {
        fprintf(stderr, "profile_load: out of memory\n");
        exit(99);
    }
    keep = block;
    return block;
}

static void *small[SMALL_COUNT];
static void *big[BIG_COUNT];

/* 1000 blocks of 48 bytes, live at the peak. */
SITE static void alloc_small(void) {
    for (int i = 0; i < SMALL_COUNT; i++)
        small[i] = checked(malloc(SMALL_SIZE)); /* site: alloc_small */
}

/* 5000 blocks of 100 bytes, one after the other: nothing at the peak. */
SITE static void alloc_temp(void) {
    for (int i = 0; i < 5000; i++) {
        char *block = checked(malloc(100)); /* site: alloc_temp */
        memset(block, i, 100);
        free(block);
    }
}

/* 200 blocks of 330 bytes that are never freed. */
SITE static void alloc_zeroed(void) {
    static void *all[200];
    for (int i = 0; i < 200; i++)
        all[i] = checked(calloc(10, 33)); /* site: alloc_zeroed */
    keep = all;
}

/* 10 blocks of 1000 bytes that are never freed. */
SITE static void alloc_aligned(void) {
    for (int i = 0; i < 10; i++) {
        void *block = NULL;
        if (posix_memalign(&block, 64, 1000) != 0) exit(99); /* site: alloc_aligned */
        keep = block;
    }
}

/* 16 bytes, doubled ten times: 1 malloc and 10 reallocs, 32752 bytes in all, then freed. */
SITE static void alloc_grow(void) {
    char *block = checked(malloc(16)); /* site: alloc_grow */
    for (size_t size = 32; size <= 16384; size *= 2)
        block = checked(realloc(block, size)); /* site: alloc_regrow */
    free(block);
}

/* 3 blocks of 10 MiB: with them the program is at its peak. */
SITE static void alloc_big(void) {
    for (int i = 0; i < BIG_COUNT; i++)
        big[i] = checked(malloc(BIG_SIZE)); /* site: alloc_big */
}

SITE static void alloc_child(void) {
    static void *all[500];
    for (int i = 0; i < 500; i++)
        all[i] = checked(malloc(80)); /* site: alloc_child */
    keep = all;
}

static void *(*blocks)[THREAD_COUNT];
static pthread_barrier_t barrier;

SITE static void alloc_thread(size_t thread) {
    for (int i = 0; i < THREAD_COUNT; i++)
        blocks[thread][i] = checked(malloc(THREAD_SIZE)); /* site: alloc_thread */
}

/* Every thread frees what its neighbour allocated. */
static void *thread_main(void *arg) {
    size_t thread = (size_t)(uintptr_t)arg;
    alloc_thread(thread);
    pthread_barrier_wait(&barrier);
    for (int i = 0; i < THREAD_COUNT; i++)
        free(blocks[(thread + 1) % THREADS][i]);
    return NULL;
}

SITE static void alloc_many(void) {
    static void *all[MANY_COUNT];
    for (int i = 0; i < MANY_COUNT; i++)
        all[i] = checked(malloc(MANY_SIZE)); /* site: alloc_many */
    for (int i = 0; i < MANY_COUNT; i += 2)
        free(all[i]);
    keep = all;
}

SITE static void alloc_large(void) {
    static void *all[LARGE_COUNT];
    for (int i = 0; i < LARGE_COUNT; i++)
        all[i] = checked(malloc(LARGE_SIZE)); /* site: alloc_large */
    for (int i = 0; i < LARGE_COUNT / 2; i++)
        free(all[i]);
    keep = all;
}

static void run_sites(void) {
    alloc_small();
    alloc_temp();
    alloc_zeroed();
    alloc_aligned();
    alloc_grow();
    alloc_big();
    for (int i = 0; i < BIG_COUNT; i++)
        free(big[i]);
    for (int i = 0; i < SMALL_COUNT; i++)
        free(small[i]);
}

static void run_threads(void) {
    pthread_t threads[THREADS];
    blocks = checked(calloc(THREADS, sizeof *blocks));
    pthread_barrier_init(&barrier, NULL, THREADS);
    for (size_t i = 0; i < THREADS; i++)
        if (pthread_create(&threads[i], NULL, thread_main, (void *)(uintptr_t)i) != 0) exit(99);
    for (size_t i = 0; i < THREADS; i++)
        pthread_join(threads[i], NULL);
}

/* Says so when all known sites are there, and then allocates until it is killed. */
static void run_forever(void) {
    alloc_small();
    alloc_zeroed();
    alloc_temp();
    printf("ready\n");
    fflush(stdout);
    for (;;)
        alloc_temp();
}

/* The parent's blocks, a forked child with some of its own, and a child of that by exec. */
static void run_fork(const char *self) {
    alloc_small();
    fflush(stdout);
    pid_t child = fork();
    if (child < 0) exit(99);
    if (child == 0) {
        alloc_child();
        for (int i = 0; i < SMALL_COUNT; i++)
            free(small[i]); /* the parent's: from before this profile */
        pid_t other = fork();
        if (other < 0) exit(99);
        if (other == 0) {
            execl(self, self, "exec", (char *)NULL);
            _exit(98);
        }
        int status = 0;
        waitpid(other, &status, 0);
        printf("forked %ld exec %ld status %d\n", (long)getpid(), (long)other, WEXITSTATUS(status));
        fflush(stdout);
        exit(4);
    }
    int status = 0;
    waitpid(child, &status, 0);
    alloc_zeroed();
    printf("parent %ld child status %d\n", (long)getpid(), WEXITSTATUS(status));
}

int main(int argc, char **argv) {
    const char *what = argc > 1 ? argv[1] : "";
    if (strcmp(what, "sites") == 0)
        run_sites();
    else if (strcmp(what, "threads") == 0)
        run_threads();
    else if (strcmp(what, "sample") == 0) {
        alloc_many();
        alloc_large();
    } else if (strcmp(what, "forever") == 0)
        run_forever();
    else if (strcmp(what, "fork") == 0)
        run_fork(argv[0]);
    else if (strcmp(what, "exec") == 0)
        alloc_child();
    else {
        fprintf(stderr, "usage: profile_load sites|threads|sample|forever|fork|exec\n");
        return 2;
    }
    printf("done: %s\n", what);
    return 5;
}
