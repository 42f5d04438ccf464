/* truth.h - what the tests of recorded profiles share: this program runs itself again under the
 * library with a profile on, the child keeps the truth about every allocation in shared memory, and
 * the parent holds the profile against it.
 *
 * A site is a function of its own, called from one place, in a section of its own: the linker gives
 * its bounds, so that no symbol has to be looked up. The truth lies in memory that malloc knows
 * nothing of. */
#ifndef NUMALLOC_TESTS_PROFILE_TRUTH_H
#define NUMALLOC_TESTS_PROFILE_TRUTH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/site_sums.h"

#define TRUTH_SITES 16u

/* `static` functions; the attribute keeps each where it is and whole. */
#ifdef __clang__ /* makes no clones */
#define TRUTH_SITE(n) __attribute__((noinline, used, section("truth_site_" #n)))
#else
#define TRUTH_SITE(n) __attribute__((noinline, noclone, used, section("truth_site_" #n)))
#endif

typedef struct truth_site {
    uintptr_t start, end; /* of its code */
    uint64_t alloc_count, alloc_bytes, alloc_usable, free_count, free_bytes, free_usable;
    uint64_t size_min, size_max, temporary, cross_thread, realloc_count, grow, shrink, copy;
    uint64_t growth_count, growth_bytes, growth_copied, aligned, align_mask;
    int64_t local_peak, peak_bytes, peak_count;
    uint64_t life_least,
        life_most; /* sums over freed blocks: what each lived at least, at most; ns */
    uint64_t freed_here_count, freed_here_bytes;
} truth_site_t;

/* In memory that parent and child share. */
typedef struct truth {
    truth_site_t site[TRUTH_SITES];
    int64_t live_bytes, live_count, peak_bytes, peak_count;
    uint64_t calls[NA_NPROF_ENTRIES];
    uint64_t sizes[NA_NPROF_SIZE_BUCKETS];
    bool finished;
    uint64_t held_ms;                   /* how long what the case is about was there */
    _Atomic uint64_t begun[4], done[4]; /* events by thread, for the tests that kill */
    uint64_t figure[16];                /* what else a case wants to tell */
} truth_t;

extern truth_t *truth; /* NULL in a program that nobody watches */
extern const char *truth_self, *truth_library;

static inline int64_t truth_live(const truth_site_t *s) {
    return (int64_t)(s->alloc_bytes - s->free_bytes);
}

/* Runs this program with these words (the last NULL) under the library, mode as given, and further
 * "NAME=value" settings (the last NULL). The profile is then at truth_path. */
typedef struct truth_run {
    const char *mode;
    const char *words[8];
    const char *settings[8];
} truth_run_t;
pid_t truth_start(const truth_run_t *run);
/* Until it ends; fails the test unless it ends well. */
void truth_finish(pid_t pid);
void truth_run(const truth_run_t *run);
extern char truth_path[512];
void truth_begin(void); /* in the parent: makes shared memory and a directory */
void truth_clear(void); /* forgets the truth and the profile of the last run */
void truth_end(void);

/* A profile that was read. */
typedef struct seen {
    na_reader_t *reader;
    const na_nprof_header_t *header;
    na_sites_t sites;
    na_lives_table_t lives;
} seen_t;
void seen_open(seen_t *seen);
void seen_close(seen_t *seen);
/* The innermost frame that is not the allocator's lies in the site's code. */
bool seen_is(const seen_t *seen, const na_site_t *site, const truth_site_t *where);
/* All sites of the profile with this function innermost, put together; `first`: the first of them.
 */
na_counters_t seen_sum(const seen_t *seen, const truth_site_t *where, const na_site_t **first);

/* Fails the test with a line, and goes on; truth_failures counts. */
__attribute__((format(printf, 2, 3))) void truth_check(bool good, const char *format, ...);
extern unsigned truth_failures;

/* The tests, one file each. */
void oracle_child(int threads, uint64_t seed, uint64_t events);
void oracle_test(void);
/* Not a test: leaves a profile (known.nprof) and what the program itself counted, by function
 * (known.json), for those that test what is made of profiles. */
void oracle_figures(const char *directory);
void killed_child(void);
void killed_test(int times);
void drawn_child(const char *which);
void drawn_test(int runs);
void case_child(const char *which);
void case_test(void);
void moves_child(const char *which);
void moves_test(void);
void moments_child(const char *which);
void moments_test(void);

#endif
