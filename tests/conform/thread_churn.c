/* thread_churn.c - a thousand short threads, one after the other, leave nothing behind: no memory,
 * no address space, no heap each. Half of what a thread makes is freed by the main thread. */
#include "support/check.h"
#include "support/fill.h"
#include "support/proc_mem.h"

#include <pthread.h>

#include <numalloc/numalloc.h>

#include "support/alloc_api.h"

#define THREADS 1000
#define WARM_UP 100
#define BLOCKS  400

static void *blocks[BLOCKS];

static void *work(void *argument) {
    uint64_t random = (uint64_t)(uintptr_t)argument + 1;
    for (size_t i = 0; i < BLOCKS; i++) {
        size_t size = fill_random_size(&random, i % 40 == 0 ? 17 : 11);
        blocks[i] = malloc(size);
        REQUIRE(blocks[i] != NULL);
        memset(blocks[i], 1, size);
    }
    for (size_t i = 0; i < BLOCKS; i += 2) {
        free(blocks[i]);
        blocks[i] = NULL;
    }
    return NULL;
}

int main(void) {
    check_begin();
    long rss = 0;
    long virtual_ = 0;
    for (size_t t = 0; t < THREADS; t++) {
        pthread_t id;
        REQUIRE(pthread_create(&id, NULL, work, (void *)t) == 0);
        REQUIRE(pthread_join(id, NULL) == 0);
        for (size_t i = 0; i < BLOCKS; i++)
            free(blocks[i]);
        if (t == WARM_UP) {
            rss = proc_rss_kib();
            virtual_ = proc_status_kib("VmSize:");
        }
    }
    long rss_grown = proc_rss_kib() - rss;
    long virtual_grown = proc_status_kib("VmSize:") - virtual_;
#ifdef NA_PREFIXED
    (void)rss_grown; /* a sanitizer's own memory grows with each thread */
    (void)virtual_grown;
    void (*read_stats)(numalloc_stats_t *, size_t) = numalloc_read_stats;
#else
    CHECK_MSG(rss_grown < 8 * 1024, "resident memory grew by %ld KiB", rss_grown);
    CHECK_MSG(virtual_grown < 128 * 1024, "address space grew by %ld KiB", virtual_grown);
    void *symbol = dlsym(RTLD_DEFAULT, "numalloc_read_stats");
    void (*read_stats)(numalloc_stats_t *, size_t);
    memcpy(&read_stats, &symbol, sizeof read_stats);
    CHECK(read_stats != NULL || !check_is_ours());
#endif
    if (read_stats != NULL) {
        numalloc_stats_t stats;
        read_stats(&stats, sizeof stats);
        /* At most two threads lived at once; a node each on machines with several. */
        CHECK_MSG(stats.thread_caches > 0 && stats.thread_caches <= 16, "%llu thread caches",
                  (unsigned long long)stats.thread_caches);
    }
    return check_status();
}
