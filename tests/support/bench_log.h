/* bench_log.h - runs numalloc-bench on the counting allocator and reads what it called.
 *
 * Needs the definitions BENCH_PROGRAM and BENCH_COUNTING (paths of numalloc-bench and of
 * libcounting_malloc.so). Only calls made by the program itself are looked at: what the C library
 * allocates for a thread or a stream is not a benchmark's work. */
#ifndef NUMALLOC_TESTS_SUPPORT_BENCH_LOG_H
#define NUMALLOC_TESTS_SUPPORT_BENCH_LOG_H

#include "support/child.h"
#include "support/counting.h"

#include <sys/mman.h>

#define BENCH_LOG_THREADS 1024

typedef struct bench_log_tally {
    uint64_t allocations, frees, reallocs; /* reallocs: of a block, not of NULL */
    uint64_t foreign_frees;                /* of blocks that another thread allocated */
    uint64_t bytes;                        /* asked for, by all calls but free */
} bench_log_tally_t;

typedef struct bench_log {
    const counting_log_t *log;
    uint64_t count; /* records, of the program or not */
    bench_log_tally_t all, by_thread[BENCH_LOG_THREADS];
    uint64_t left;       /* blocks not freed at the end */
    uint64_t wrong;      /* frees of what was not allocated, and blocks given out twice */
    uint64_t peak_bytes; /* asked for and live at the same time, by the order of the records */
    child_result_t child;
} bench_log_t;

typedef struct bench_log_block {
    uint64_t block; /* 0: this place was never used */
    uint64_t size;
    uint32_t thread;
    bool live;
} bench_log_block_t;

/* A power of two, above the number of different addresses that a log can hold. */
#define BENCH_LOG_PLACES (2 * COUNTING_CAPACITY)

__attribute__((unused)) static bench_log_block_t *bench_log_find(bench_log_block_t *table,
                                                                 uint64_t block) {
    uint64_t place = (block >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> 32;
    for (;; place++) {
        bench_log_block_t *at = &table[place % BENCH_LOG_PLACES];
        if (at->block == block || at->block == 0) return at;
    }
}

__attribute__((unused)) static void bench_log_add(bench_log_t *out, bench_log_block_t *table,
                                                  const counting_record_t *record,
                                                  uint64_t *live_bytes) {
    bench_log_block_t *at = bench_log_find(table, record->block);
    bench_log_tally_t *mine = &out->by_thread[record->thread];
    bool grown = record->kind == COUNTING_REALLOC && record->old != 0;
    if (at->live) out->wrong++;
    *at = (bench_log_block_t){record->block, record->size, record->thread, true};
    out->left++;
    *live_bytes += record->size;
    if (*live_bytes > out->peak_bytes) out->peak_bytes = *live_bytes;
    mine->reallocs += grown;
    mine->allocations += !grown;
    mine->bytes += record->size;
}

__attribute__((unused)) static void bench_log_remove(bench_log_t *out, bench_log_block_t *table,
                                                     const counting_record_t *record,
                                                     uint64_t *live_bytes) {
    if (record->block == 0) return; /* free(NULL) */
    bench_log_block_t *at = bench_log_find(table, record->block);
    bench_log_tally_t *mine = &out->by_thread[record->thread];
    if (at->block == 0 || !at->live) {
        out->wrong++;
        return;
    }
    at->live = false;
    out->left--;
    *live_bytes -= at->size;
    if (record->kind != COUNTING_FREE) return;
    mine->frees++;
    mine->foreign_frees += at->thread != record->thread;
}

/* Runs `numalloc-bench` with the arguments (ending with NULL) and gathers its calls. The test ends
 * when the program fails or the log is too small. */
__attribute__((unused)) static bench_log_t *bench_log_run(char *const arguments[]) {
    static char preload[PATH_MAX + 32], variable[128], path[64];
    char *argv[32] = {(char *)(uintptr_t)BENCH_PROGRAM};
    const char *env[] = {preload, variable, NULL};
    size_t count = 1;
    while (arguments[count - 1] != NULL && count < 31) {
        argv[count] = arguments[count - 1];
        count++;
    }
    snprintf(path, sizeof path, "/tmp/numalloc-bench-log-XXXXXX");
    int file = mkstemp(path);
    REQUIRE(file >= 0);
    snprintf(preload, sizeof preload, "LD_PRELOAD=%s", BENCH_COUNTING);
    snprintf(variable, sizeof variable, "%s=%s", COUNTING_LOG_ENV, path);

    bench_log_t *out = calloc(1, sizeof *out);
    REQUIRE(out != NULL);
    child_run(&out->child, argv, env, NULL, NULL);
    unlink(path);
    child_expect_ok(&out->child, arguments[0]);
    REQUIRE(check_status() == 0);
    void *memory = mmap(NULL, sizeof(counting_log_t), PROT_READ, MAP_SHARED, file, 0);
    close(file);
    REQUIRE(memory != MAP_FAILED);
    out->log = memory;
    out->count = out->log->next;
    REQUIRE(out->count != 0 && out->count <= COUNTING_CAPACITY);

    bench_log_block_t *table = calloc(BENCH_LOG_PLACES, sizeof *table);
    uint64_t live_bytes = 0;
    REQUIRE(table != NULL);
    for (uint64_t i = 0; i < out->count; i++) {
        const counting_record_t *record = &out->log->record[i];
        REQUIRE(record->kind != COUNTING_NONE && record->thread < BENCH_LOG_THREADS);
        if (!record->program) continue;
        if (record->kind == COUNTING_FREE || record->kind == COUNTING_REALLOC_BEGIN)
            bench_log_remove(out, table, record, &live_bytes);
        else
            bench_log_add(out, table, record, &live_bytes);
    }
    free(table);
    for (size_t t = 0; t < BENCH_LOG_THREADS; t++) {
        const bench_log_tally_t *mine = &out->by_thread[t];
        out->all.allocations += mine->allocations;
        out->all.frees += mine->frees;
        out->all.reallocs += mine->reallocs;
        out->all.foreign_frees += mine->foreign_frees;
        out->all.bytes += mine->bytes;
    }
    return out;
}

#define BENCH_LOG(...) bench_log_run((char *[]){__VA_ARGS__, NULL})

/* Whether two runs made the same calls: each thread of one the same kinds and sizes, in the same
 * order, as a thread of the other. Threads are numbered by their first call, so that the numbers of
 * one run need not be those of the other: the threads' sums are compared as a set. */
__attribute__((unused)) static uint64_t bench_log_fingerprint(const bench_log_t *run) {
    uint64_t each[BENCH_LOG_THREADS] = {0}, sum = 0;
    for (uint64_t i = 0; i < run->count; i++) {
        const counting_record_t *record = &run->log->record[i];
        if (!record->program || record->kind == COUNTING_REALLOC_BEGIN) continue;
        uint64_t *mine = &each[record->thread];
        *mine = (*mine ^ (record->size * 8 + record->kind)) * UINT64_C(0x100000001b3) + 1;
    }
    for (size_t t = 0; t < BENCH_LOG_THREADS; t++)
        sum += each[t] * (each[t] >> 7 | 1);
    return sum;
}

#endif
