/* drawn.c - mode sample is unbiased, and its intervals hold what they promise: on programs whose
 * sites are known, the 95 % intervals hold the truth in 92.5 to 97.5 % of 1,000 seeded runs.
 *
 *   loop    one site allocates and frees in one size class in a loop, never leaving one bin
 *   mixed   three sites: small blocks of many sizes, blocks of one size half of which stay, large
 * ones */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "tests/profile/truth.h"

enum { LOOP = 11, SMALL = 12, STAYS = 13, LARGE = 14 };

#define DRAWN_SITE(n)                                                                              \
    static TRUTH_SITE(n) void *drawn_##n(size_t size) {                                            \
        void *p = malloc(size);                                                                    \
        __asm__ volatile("# drawn " #n : : "r"(p) : "memory");                                     \
        return p;                                                                                  \
    }                                                                                              \
    extern const char __start_truth_site_##n[], __stop_truth_site_##n[];

DRAWN_SITE(11)
DRAWN_SITE(12)
DRAWN_SITE(13)
DRAWN_SITE(14)

static void *took(unsigned site, void *p, size_t size) {
    truth->site[site].alloc_count++;
    truth->site[site].alloc_bytes += size;
    return p;
}

static void gave(unsigned site, void *p, size_t size) {
    free(p);
    truth->site[site].free_count++;
    truth->site[site].free_bytes += size;
}

static void loop(void) {
    for (unsigned i = 0; i < 100000; i++)
        gave(LOOP, took(LOOP, drawn_11(64), 64), 64);
}

static void mixed(void) {
    enum { SLOTS = 64 };
    static struct {
        void *p;
        size_t size;
    } slot[SLOTS];
    uint32_t random = 1;
    for (unsigned i = 0; i < 40000; i++) {
        random = random * 1664525u + 1013904223u;
        unsigned k = random >> 20 & (SLOTS - 1);
        if (slot[k].p != NULL) gave(SMALL, slot[k].p, slot[k].size);
        size_t size = 1 + (random >> 8) % 600;
        slot[k].p = took(SMALL, drawn_12(size), size);
        slot[k].size = size;
        if (i % 4 == 0) {
            void *p = took(STAYS, drawn_13(256), 256);
            if (i % 8 == 0) gave(STAYS, p, 256);
        }
        if (i % 100 == 0) {
            size = 33000 + random % 30000;
            gave(LARGE, took(LARGE, drawn_14(size), size), size);
        }
    }
}

void drawn_child(const char *which) {
#define BOUNDS(n)                                                                                  \
    truth->site[n].start = (uintptr_t)__start_truth_site_##n;                                      \
    truth->site[n].end = (uintptr_t)__stop_truth_site_##n
    BOUNDS(11);
    BOUNDS(12);
    BOUNDS(13);
    BOUNDS(14);
    if (strcmp(which, "loop") == 0)
        loop();
    else
        mixed();
    truth->finished = true;
}

/* How often the interval of one figure held the truth, and what the estimates were on average. */
typedef struct tally {
    int runs, held;
    double sum, squares, truth;
} tally_t;

static void note(tally_t *t, double estimate, double in_truth, double error) {
    t->runs++;
    t->held += fabs(estimate - in_truth) <= error * estimate;
    t->sum += estimate;
    t->squares += estimate * estimate;
    t->truth = in_truth;
}

static const char *const figures[] = {"bytes", "count", "live bytes", "live count"};

static void judge(const char *program, unsigned site, unsigned figure, const tally_t *t) {
    if (t->runs == 0) return;
    double mean = t->sum / t->runs, share = 100.0 * t->held / t->runs;
    double deviation = sqrt(fmax(t->squares / t->runs - mean * mean, 0));
    double bias = (mean - t->truth) / (deviation / sqrt(t->runs));
    printf("%s, site %u, %-10s: held %5.1f %%, mean %.4g of %.4g (%+.1f standard errors)\n",
           program, site, figures[figure], share, mean, t->truth, bias);
    /* Fewer runs than a thousand: the same limits, and 3.5 standard errors of a share of 95 %. */
    double room = t->runs >= 1000 ? 2.5 : 350 * sqrt(0.95 * 0.05 / t->runs);
    truth_check(share >= 95 - room && share <= 95 + room,
                "%s, site %u, %s: held in %.1f %% of runs", program, site, figures[figure], share);
    truth_check(fabs(bias) < 4.5, "%s, site %u, %s: biased by %.1f standard errors", program, site,
                figures[figure], bias);
}

static void try_program(const char *program, int runs, unsigned first, unsigned last) {
    static tally_t tally[TRUTH_SITES][4];
    memset(tally, 0, sizeof tally);
    for (int run = 1; run <= runs; run++) {
        char seed[64];
        snprintf(seed, sizeof seed, "NUMALLOC_SAMPLE_SEED=%d", run);
        truth_run(&(truth_run_t){.mode = "sample",
                                 .words = {"child", "drawn", program},
                                 .settings = {"NUMALLOC_SAMPLE_INTERVAL=16K", seed}});
        seen_t seen;
        seen_open(&seen);
        truth_check(truth->finished, "%s: the child did not finish", program);
        for (unsigned site = first; site <= last; site++) {
            const truth_site_t *t = &truth->site[site];
            const na_site_t *at;
            na_counters_t s = seen_sum(&seen, t, &at);
            uint32_t scale = seen.header->count_scale;
            const double is[] = {(double)s.alloc_bytes, (double)s.alloc_count / scale,
                                 (double)s.live_bytes, (double)s.live_count / scale};
            const double should[] = {(double)t->alloc_bytes, (double)t->alloc_count,
                                     (double)truth_live(t),
                                     (double)(t->alloc_count - t->free_count)};
            static const na_estimate_t kinds[] = {NA_ESTIMATE_ALLOC_BYTES, NA_ESTIMATE_ALLOC_COUNT,
                                                  NA_ESTIMATE_LIVE_BYTES, NA_ESTIMATE_LIVE_COUNT};
            /* What lives of a few dozen blocks is no more than a handful of draws. */
            unsigned most = site == STAYS ? 4 : 2;
            for (unsigned f = 0; f < most; f++)
                note(&tally[site][f], is[f], should[f],
                     na_counters_estimate_error(&s, kinds[f], scale));
        }
        seen_close(&seen);
    }
    for (unsigned site = first; site <= last; site++)
        for (unsigned f = 0; f < 4; f++)
            judge(program, site, f, &tally[site][f]);
}

void drawn_test(int runs) {
    try_program("loop", runs, LOOP, LOOP);
    try_program("mixed", runs, SMALL, LARGE);
}
