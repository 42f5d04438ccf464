/* gives_back.c - freed memory returns to the system within seconds: 300 MiB are made, touched and
 * freed, then a thread that does hardly anything (one malloc and free each 100 ms) has little more
 * resident than at the start. One kind of blocks a run: small, medium, large, shrunk, threads; or
 * asleep: half as much in small blocks, which another thread frees in no order. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>

#include "support/alloc_api.h"

#define TOTAL     ((size_t)300 << 20)
#define WAIT_MS   3000
#define SLACK_KIB (30 * 1024) /* a tenth of what was freed, */
#define NODE_KIB  (10 * 1024) /* or as much for each node: the thread may have been on any */

/* Static, and touched before the measurement, so that it does not count. */
static void *blocks[TOTAL / 128];

static size_t make(uint64_t seed, size_t from, size_t total, unsigned bits, size_t least) {
    uint64_t random = seed;
    size_t sum = 0;
    size_t i = from;
    for (; sum < total; i++) {
        size_t size = fill_random_size(&random, bits);
        if (size < least) size = least;
        REQUIRE(i < sizeof blocks / sizeof blocks[0]);
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 3, size);
        sum += size;
    }
    return i;
}

static void give(size_t from, size_t to) {
    for (size_t i = from; i < to; i++)
        free(blocks[i]);
}

static pthread_barrier_t barrier;

/* Makes a quarter, frees it, and stays: its caches may keep little. */
static void *quarter(void *argument) {
    size_t index = (size_t)(uintptr_t)argument;
    size_t from = index * (sizeof blocks / sizeof blocks[0] / 4);
    size_t to = make(index + 1, from, TOTAL / 4, 10, 200);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier); /* what is full was measured */
    give(from, to);
    pthread_barrier_wait(&barrier);
    pthread_barrier_wait(&barrier);
    return NULL;
}

/* Frees so many blocks in no order; who made them waits for that, and makes no call. */
static void *stranger(void *count) {
    size_t left = (size_t)(uintptr_t)count;
    for (uint64_t random = 7; left > 0; left--) {
        size_t i = fill_random(&random) % left;
        free(blocks[i]);
        blocks[i] = blocks[left - 1];
    }
    return NULL;
}

static long slack_kib(void) {
    long nodes = 0;
    char path[64];
    for (int i = 0; i < 64; i++) {
        snprintf(path, sizeof path, "/sys/devices/system/node/node%d", i);
        nodes += access(path, F_OK) == 0;
    }
    return nodes * NODE_KIB > SLACK_KIB ? nodes * NODE_KIB : SLACK_KIB;
}

static void run(const char *kind) {
    pthread_t ids[4];
    bool threads = strcmp(kind, "threads") == 0;
    memset(blocks, 0, sizeof blocks);
    free(check_opaque(malloc(100)));
    long start = proc_rss_kib();
    long full = 0, made_kib = TOTAL / 1024;
    if (threads) {
        pthread_barrier_init(&barrier, NULL, 5);
        for (size_t i = 0; i < 4; i++)
            REQUIRE(pthread_create(&ids[i], NULL, quarter, (void *)i) == 0);
        pthread_barrier_wait(&barrier);
        full = proc_rss_kib();
        pthread_barrier_wait(&barrier);
        pthread_barrier_wait(&barrier);
    } else if (strcmp(kind, "shrunk") == 0) {
        for (size_t i = 0; i < 10; i++) {
            blocks[i] = malloc(TOTAL / 10);
            REQUIRE(blocks[i] != NULL);
            memset(blocks[i], 3, TOTAL / 10);
        }
        full = proc_rss_kib();
        for (size_t i = 0; i < 10; i++)
            REQUIRE((blocks[i] = realloc(blocks[i], 5000)) != NULL);
    } else if (strcmp(kind, "asleep") == 0) {
        made_kib /= 2;
        size_t to = make(1, 0, TOTAL / 2, 7, 64);
        full = proc_rss_kib();
        REQUIRE(pthread_create(&ids[0], NULL, stranger, (void *)to) == 0);
        REQUIRE(pthread_join(ids[0], NULL) == 0);
    } else {
        bool small = strcmp(kind, "small") == 0;
        bool medium = strcmp(kind, "medium") == 0;
        size_t to = small    ? make(1, 0, TOTAL, 10, 200)
                    : medium ? make(1, 0, TOTAL, 16, 4000)
                             : make(1, 0, TOTAL, 22, 300000);
        full = proc_rss_kib();
        give(0, to);
    }
    CHECK_MSG(full - start > made_kib / 10 * 9, "%s: only %ld KiB were resident", kind,
              full - start);
    for (int i = 0; i < WAIT_MS / 100; i++) {
        proc_sleep_ms(100);
        free(check_opaque(malloc(100)));
    }
    long end = proc_rss_kib();
    CHECK_MSG(end - start < slack_kib(), "%s: %ld KiB at the start, %ld full, %ld at the end", kind,
              start, full, end);
    if (threads) {
        pthread_barrier_wait(&barrier);
        for (size_t i = 0; i < 4; i++)
            pthread_join(ids[i], NULL);
    }
}

int main(int argc, char **argv) {
    check_begin();
    if (argc != 2) {
        check_say("usage: gives_back small|medium|large|shrunk|threads|asleep\n");
        return 2;
    }
    run(argv[1]);
    return check_status();
}
