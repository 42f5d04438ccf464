/* dump_views.c - a program whose profile is the same in every run, for the kept outputs of
 * dump_views.sh: recursion, wrappers, leaks, temporaries. Nothing of it writes to a stream: the C
 * library's buffers would be in the profile. Argument: small, large, or thread: a second thread,
 * whose blocks the first one frees. */
#define _GNU_SOURCE 1 /* pthread_setname_np */
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

static void *volatile views_keep;
static int scale = 1;

/* A wrapper: two functions allocate through it. */
static void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (block == NULL) abort();
    views_keep = block;
    return block;
}

static void *views_table[100];

static void build_table(void) {
    for (int i = 0; i < 100; i++)
        views_table[i] = xmalloc((size_t)(400 * scale));
}

static void drop_table(void) {
    for (int i = 0; i < 100; i++)
        free(views_table[i]);
}

/* Recursion: ten deep, a block of 100 bytes at each depth, never freed. */
static void walk(int depth) {
    static void *all[10];
    all[depth] = xmalloc(100);
    if (depth > 0) walk(depth - 1);
    views_keep = all;
}

static void keep_cache(void) {
    static void *cache;
    cache = calloc((size_t)scale, 2000);
    views_keep = cache;
}

/* 500 blocks, each freed at once. */
static void parse(void) {
    for (int i = 0; i < 500; i++) {
        char *line = malloc(80);
        if (line == NULL) abort();
        memset(line, i, 80);
        views_keep = line;
        free(line);
    }
}

static void grow(void) {
    char *block = NULL;
    for (size_t size = 64; size <= 8192; size *= 2) {
        block = realloc(block, size);
        views_keep = block;
    }
    free(block);
}

static void *views_blocks[40];

static void *worker(void *arg) {
    pthread_setname_np(pthread_self(), "worker");
    for (int i = 0; i < 40; i++)
        views_blocks[i] = xmalloc(64);
    return arg;
}

static int run_thread(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL) != 0 || pthread_join(thread, NULL) != 0)
        return 1;
    for (int i = 0; i < 40; i++)
        free(views_blocks[i]);
    return 0;
}

int main(int argc, char **argv) {
    if (argc > 1 && strcmp(argv[1], "large") == 0) scale = 3;
    keep_cache();
    walk(9);
    parse();
    grow();
    build_table();
    drop_table();
    if (argc > 1 && strcmp(argv[1], "thread") == 0) return run_thread();
    return 0;
}
