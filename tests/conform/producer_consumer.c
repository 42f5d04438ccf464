/* producer_consumer.c - memory that another thread frees comes back to those who allocate: in long
 * runs where one thread only makes and another only frees, where both do both, and where the maker
 * has ended before its blocks are freed, resident memory stays near what is live. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>
#include <sched.h>

#include "support/alloc_api.h"

#define RING      4096 /* blocks on their way; at most RING x 2 KiB = 8 MiB are live */
#define RUN_MS    3000
#define SLACK_KIB (64 * 1024)

static void *_Atomic ring[RING];
static long end_ms;
static long peak_kib; /* written by the main thread only */

typedef struct flow {
    bool makes_too; /* the consumer also allocates and frees blocks of its own */
} flow_t;

static bool over(unsigned turn) {
    return turn % 1024 == 0 && proc_now_ms() >= end_ms;
}

static void *produce(void *argument) {
    uint64_t random = 11;
    unsigned spins = 0;
    (void)argument;
    for (unsigned at = 0;;) {
        if (ring[at % RING] != NULL) {
            if (over(spins++)) return NULL;
            sched_yield();
            continue;
        }
        size_t size = fill_random_size(&random, 11);
        unsigned char *block = malloc(size);
        REQUIRE(block != NULL);
        block[0] = (unsigned char)size;
        block[size - 1] = (unsigned char)size;
        ring[at % RING] = block;
        at++;
        if (over(at)) return NULL;
    }
}

static void *consume(void *argument) {
    const flow_t *flow = argument;
    uint64_t random = 13;
    unsigned spins = 0;
    for (unsigned at = 0;;) {
        void *block = ring[at % RING];
        if (block == NULL) {
            if (over(spins++)) return NULL;
            sched_yield();
            continue;
        }
        ring[at % RING] = NULL;
        at++;
        free(block);
        if (flow->makes_too) {
            void *own = malloc(fill_random_size(&random, 11));
            REQUIRE(own != NULL);
            free(own);
        }
        if (over(at)) return NULL;
    }
}

static void drain(void) {
    for (size_t i = 0; i < RING; i++) {
        free(ring[i]);
        ring[i] = NULL;
    }
}

static void watch(long until_ms) {
    while (proc_now_ms() < until_ms) {
        long now = proc_rss_kib();
        if (now > peak_kib) peak_kib = now;
        proc_sleep_ms(20);
    }
}

static void pair(flow_t flow, const char *name) {
    pthread_t producer;
    pthread_t consumer;
    long start = proc_rss_kib();
    peak_kib = 0;
    end_ms = proc_now_ms() + RUN_MS;
    REQUIRE(pthread_create(&producer, NULL, produce, NULL) == 0);
    REQUIRE(pthread_create(&consumer, NULL, consume, &flow) == 0);
    watch(end_ms);
    pthread_join(producer, NULL);
    pthread_join(consumer, NULL);
    drain();
    CHECK_MSG(peak_kib - start < SLACK_KIB, "%s: %ld KiB above the start of %ld", name,
              peak_kib - start, start);
}

#define BATCH 40000

static void *batch[BATCH];

static void *make_and_end(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 5;
    for (size_t i = 0; i < BATCH; i++) {
        size_t size = fill_random_size(&random, 9);
        batch[i] = malloc(size);
        REQUIRE(batch[i] != NULL);
        memset(batch[i], 2, size);
    }
    return NULL;
}

static void *free_batch(void *argument) {
    (void)argument;
    for (size_t i = 0; i < BATCH; i++)
        free(batch[i]);
    return NULL;
}

/* Where the maker ends first, its blocks are freed by a new thread or by the main thread. */
static void maker_ends_first(bool by_thread) {
    long start = proc_rss_kib();
    long peak = 0;
    for (size_t round = 0; round < 150; round++) {
        pthread_t id;
        REQUIRE(pthread_create(&id, NULL, make_and_end, (void *)round) == 0);
        pthread_join(id, NULL);
        if (by_thread) {
            REQUIRE(pthread_create(&id, NULL, free_batch, NULL) == 0);
            pthread_join(id, NULL);
        } else {
            free_batch(NULL);
        }
        long now = proc_rss_kib();
        if (now > peak) peak = now;
    }
    /* A round lives in about 6 MiB. */
    CHECK_MSG(peak - start < SLACK_KIB, "%ld KiB above the start of %ld", peak - start, start);
}

int main(void) {
    check_begin();
    pair((flow_t){.makes_too = false}, "the consumer only frees");
    pair((flow_t){.makes_too = true}, "the consumer allocates too");
    maker_ends_first(true);
    maker_ends_first(false);
    return check_status();
}
