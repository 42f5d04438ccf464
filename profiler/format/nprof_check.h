/* nprof_check.h - checksums of entries that one thread writes at a time, so that damage is told in
 * a file that nobody could finish: that of a process which was killed, or still runs.
 *
 * Whoever changes such an entry says so first (NA_NPROF_CHECK_OPEN), then changes it, then stores
 * the checksum. A kill in between leaves an open entry, which nobody can check, and never a wrong
 * one. A sealed checksum has its two lowest bits set, so that no single bit makes an open one of
 * it. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_CHECK_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_CHECK_H

#include "profiler/format/nprof.h"
#include "profiler/format/nprof_access.h"

#define NA_NPROF_CHECK_OPEN   1u /* 0: never sealed */
#define NA_NPROF_CHECK_SEALED 3u

/* Of `bytes` (a multiple of 8). Each word is multiplied by an odd number, so that a change of one
 * bit always changes it; as fast as memory is read, for it is made while others wait. */
static inline uint64_t na_nprof_check(const void *data, size_t bytes) {
    const uint8_t *p = (const uint8_t *)data;
    uint64_t sum = UINT64_C(0x6e70726f66636b73);
    for (size_t i = 0; i < bytes; i += 8) {
        uint64_t word;
        __builtin_memcpy(&word, p + i, 8);
        sum = (sum + word) * UINT64_C(0x9e3779b97f4a7c15);
    }
    return sum | NA_NPROF_CHECK_SEALED;
}

/* Is `now` what it should be, or not to be checked? */
static inline int na_nprof_check_holds(uint64_t now, uint64_t right) {
    return now <= NA_NPROF_CHECK_OPEN || now == right;
}

/* ---- entries that end with their check: those of accesses ---- */

static inline uint64_t *na_nprof_check_of(void *entry, size_t size) {
    return (uint64_t *)(void *)((uint8_t *)entry + size - 8);
}

static inline void na_nprof_open(void *entry, size_t size) {
    __atomic_store_n(na_nprof_check_of(entry, size), NA_NPROF_CHECK_OPEN, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void na_nprof_seal(void *entry, size_t size) {
    __atomic_store_n(na_nprof_check_of(entry, size), na_nprof_check(entry, size - 8),
                     __ATOMIC_RELEASE);
}

/* ---- the peak, of the header ---- */

static inline uint64_t na_nprof_peak_check(const na_nprof_header_t *h) {
    const uint64_t words[] = {h->peak_epoch, (uint64_t)h->peak_bytes, (uint64_t)h->peak_count,
                              h->peak_ms};
    return na_nprof_check(words, sizeof words);
}

/* ---- what is missing: a sum. (Not truncated stacks and frees of blocks from before, of which each
 * event may be one.) ---- */

static inline uint64_t na_nprof_missing(const na_nprof_header_t *h) {
    return h->lost_events + h->lost_stacks + h->lost_threads + h->lost_modules + h->dropped_events +
           h->merged_events;
}

/* ---- THREADS: who it was, and when ---- */

static inline uint64_t na_nprof_thread_check(const na_nprof_thread_t *t) {
    uint64_t words[7] = {t->tid, t->start_ms, t->end_ms, t->stack_resident, t->stack_ms};
    __builtin_memcpy(&words[5], t->name, sizeof t->name);
    return na_nprof_check(words, sizeof words);
}

static inline void na_nprof_thread_open(na_nprof_thread_t *t) {
    __atomic_store_n(&t->check, NA_NPROF_CHECK_OPEN, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void na_nprof_thread_seal(na_nprof_thread_t *t) {
    __atomic_store_n(&t->check, na_nprof_thread_check(t), __ATOMIC_RELEASE);
}

/* ---- TIMELINE: its head, and each point ---- */

/* 32 bits, for `check` of the head. */
static inline uint32_t na_nprof_timeline_check(const na_nprof_timeline_t *line) {
    const uint64_t words[] = {line->active, line->interval_ms[0], line->interval_ms[1],
                              line->count[0], line->count[1]};
    return (uint32_t)(na_nprof_check(words, sizeof words) >> 32) | NA_NPROF_CHECK_SEALED;
}

/* The flags of a sealed point. */
static inline uint32_t na_nprof_point_flags(const na_nprof_point_t *point) {
    na_nprof_point_t copy = *point;
    copy.flags &= NA_NPROF_POINT_KINDS;
    uint32_t check = (uint32_t)(na_nprof_check(&copy, sizeof copy) >> 34) | NA_NPROF_CHECK_SEALED;
    return copy.flags | check << NA_NPROF_POINT_CHECK_SHIFT;
}

static inline void na_nprof_point_open(na_nprof_point_t *point) {
    uint32_t kinds = point->flags & NA_NPROF_POINT_KINDS;
    __atomic_store_n(&point->flags, kinds | NA_NPROF_CHECK_OPEN << NA_NPROF_POINT_CHECK_SHIFT,
                     __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static inline void na_nprof_point_seal(na_nprof_point_t *point) {
    __atomic_store_n(&point->flags, na_nprof_point_flags(point), __ATOMIC_RELEASE);
}

/* An empty point (flags 0) has nothing to check: all that is in it is left out. */
static inline int na_nprof_point_holds(const na_nprof_point_t *point) {
    return point->flags == 0 || point->flags >> NA_NPROF_POINT_CHECK_SHIFT == NA_NPROF_CHECK_OPEN ||
           point->flags == na_nprof_point_flags(point);
}

/* ---- SERIES: an entry and the check behind it (NA_NPROF_CHECK_SERIES) ---- */

/* The sum of the entry's words, each times an odd number of its own: whoever stores a word adds
 * what it changes, and need not go through the thousands of others. */
static inline uint64_t na_nprof_series_factor(size_t word) {
    return (2 * (uint64_t)word + 1) * UINT64_C(0x9e3779b97f4a7c15);
}

static inline uint64_t na_nprof_series_sum(const void *entry, size_t size) {
    uint64_t sum = 0;
    for (size_t i = 0; i < size / 8; i++) {
        uint64_t word;
        __builtin_memcpy(&word, (const uint8_t *)entry + 8 * i, 8);
        sum += word * na_nprof_series_factor(i);
    }
    return sum;
}

static inline uint64_t na_nprof_series_check(uint64_t sum) {
    return sum | NA_NPROF_CHECK_SEALED;
}

#endif
