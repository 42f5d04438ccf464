/* test_estimate.c - do the intervals of estimates from watchpoints hold the truth as often as they
 * say? 300 runs of a program whose accesses are known one by one: steady ones, bursts that are
 * longer than a window has room for, and sweeps over memory much larger than what is ever watched,
 * among memory that nobody uses.
 * Words are drawn by the recorder's own code, the windows follow its rules (access_watch.c), the
 * profiles are read by the reader. Nothing but the seeds differs from run to run: the result is
 * always the same. */
#include <math.h>

#include "pagemap/pagemap.h"
#include "profiler/analyze/accesses/estimate.h"
#include "profiler/record/sources/watch/access_watch_draw.h"
#include "tests/support/access_judge.h"
#include "tests/support/own_memory.h"
#include "tests/support/sanitized.h"

TestSuite(estimate, .timeout = 300);

#define RUNS     (SANITIZED ? 30 : 300) /* with sanitizers for what they see: no shares */
#define ROUNDS   500
#define INTERVAL UINT64_C(20000000) /* ns */
#define WORDS    2                  /* a round */
#define MOST     32                 /* hits of a thread in a window */
#define FIRST    UINT64_C(2000000)  /* ns: of the first window of a kind */
#define SHORTEST UINT64_C(200000)
#define THREADS  3

/* ---- the program ---- */

/* Each word of `blocks` blocks is accessed by two threads, `burst` times in a row `period` ns
 * apart, every `every` ns; a word's first time is spread over `spread` ns by its number. */
typedef struct site {
    uint32_t stack;
    uint64_t base;
    uint32_t blocks, block_bytes, capacity;
    uint32_t threads[2];
    uint64_t every, period, spread;
    uint32_t burst;
    uint8_t cls;
} site_t;

static const site_t sites[] = {
    {4, 0x10000000, 40, 512, 64, {1, 2}, 2000000, 0, 2000000, 1, 8},
    {5, 0x20000000, 16, 2048, 16, {1, 3}, 50000000, 20000, 45000000, 200, 20},
    {3, 0x30000000, 1, 262144, 1, {2, 3}, 40000000, 0, 40000000, 1, 0},
};
enum { SITES = sizeof sites / sizeof sites[0] };

/* Nobody touches what else there is: in each of many size classes some blocks, as processes have
 * them. Draws go there as well. */
enum { IDLE = 12, IDLE_BLOCKS = 16, IDLE_BYTES = 512 };

static na_span_t spans[SITES + IDLE];
static na_record_t records[SITES][64], idle[IDLE_BLOCKS];
_Atomic(uint8_t) na_profile_epoch = 7;

static void each_records(void (*visit)(const na_span_t *, na_record_t *, uint32_t, void *),
                         void *arg) {
    for (int i = 0; i < SITES; i++)
        visit(&spans[i], records[i], sites[i].capacity, arg);
    for (int i = SITES; i < SITES + IDLE; i++)
        visit(&spans[i], idle, IDLE_BLOCKS, arg);
}

static uint64_t usable(const na_span_t *span) {
    return span - spans < SITES ? sites[span - spans].block_bytes : IDLE_BYTES;
}

/* When a thread accesses a word first; one thread comes some time after the other. */
static uint64_t phase(const site_t *s, uint64_t word, uint32_t which) {
    uint64_t words = (uint64_t)s->blocks * s->block_bytes / 8;
    return s->spread * word / words + which * (s->every / 3);
}

/* Accesses in [from, to): how many, and the times of the first `room`. */
static uint64_t accesses(const site_t *s, uint64_t word, uint32_t which, uint64_t from, uint64_t to,
                         uint64_t *times, uint64_t room) {
    uint64_t count = 0, first = phase(s, word, which), length = s->burst * s->period;
    uint64_t k = from > first + length ? (from - first - length) / s->every : 0;
    for (; first + k * s->every < to; k++)
        for (uint32_t j = 0; j < s->burst; j++) {
            uint64_t t = first + k * s->every + j * s->period;
            if (t < from || t >= to) continue;
            if (count < room) times[count] = t;
            count++;
        }
    return count;
}

/* What a hit costs its thread. The last thread makes up for it in its sleep; the others do what
 * follows later by as much. */
static uint64_t hit_cost;

static bool keeps_to_timetable(uint32_t thread) {
    return thread == THREADS;
}

/* ---- the recorder ---- */

static uint64_t length_of[NA_DRAW_SLOTS];

static void adapt(uint32_t slot, uint64_t length, uint64_t most) {
    if (most >= MOST / 2)
        length /= 2;
    else if (most == 0)
        length += length / 16;
    uint64_t longest = INTERVAL / 10 * 7;
    length_of[slot] = length < SHORTEST ? SHORTEST : length > longest ? longest : length;
}

static const site_t *site_at(uint64_t address, uint32_t *block) {
    for (int i = 0; i < SITES; i++) {
        const site_t *s = &sites[i];
        if (address < s->base) continue;
        *block = (uint32_t)((address - s->base) / s->block_bytes);
        if (*block < s->blocks) return s;
    }
    return NULL;
}

static void watch(made_t *m, const uint32_t *first_object, uint32_t round, const na_draw_t *draw,
                  uint64_t opened, uint64_t length) {
    uint32_t block;
    const site_t *s = site_at(draw->address, &block);
    uint32_t object = s == NULL ? 0 : first_object[s - sites] + block;
    m->windows = reallocarray(m->windows, m->window_count + 1, sizeof *m->windows);
    cr_assert_not_null(m->windows);
    na_nprof_access_window_t *w = &m->windows[m->window_count++];
    *w = (na_nprof_access_window_t){.start_ns = opened,
                                    .watched_ns = length,
                                    .address = draw->address,
                                    .object = object,
                                    .threads = THREADS,
                                    .length = 8,
                                    .round = round,
                                    .inverse = draw->inverse / WORDS,
                                    .interval_ns = INTERVAL};
    uint64_t most = 0, all = 0;
    for (uint32_t which = 0; s != NULL && which < 2; which++) {
        /* Times by the clock; `own`: as the recorder takes it that they would have been. */
        uint64_t times[MOST], own[MOST], hits = 0;
        bool kept = keeps_to_timetable(s->threads[which]);
        uint64_t found = accesses(s, (draw->address - s->base) / 8, which, opened,
                                  opened + length + (kept ? MOST * hit_cost : 0), times, MOST);
        for (uint64_t i = 0; i < found && i < MOST; i++) {
            own[i] = times[i];
            if (kept)
                own[i] -= i * hit_cost;
            else
                times[i] += i * hit_cost;
            if (own[i] < opened + length) hits++;
        }
        double over = (double)length;
        if (hits >= MOST) {
            over = (double)(own[MOST - 1] - opened) * MOST / (MOST - 1);
            w->flags = NA_NPROF_WINDOW_CENSORED;
        }
        for (uint64_t i = 0; i < hits; i++) {
            na_nprof_access_sample_t *to =
                made_touch(m, object, s->threads[which], (int)which, (int)which);
            to->ns = times[i];
            to->address = draw->address;
            to->window = m->window_count;
            to->weight = w->inverse * (double)INTERVAL / over;
        }
        if (hits > most) most = hits;
        all += hits;
    }
    w->hits = (uint32_t)all;
    adapt(draw->slot, length, most);
    uint32_t fresh = na_draw_learn(draw, (double)all / (double)length);
    if (fresh != UINT32_MAX) adapt(fresh, length, most);
}

static void record(made_t *m, uint64_t seed) {
    made_begin(m);
    m->source = NA_NPROF_SOURCE_WATCH;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    m->unit = NA_NPROF_UNIT_ACCESSES;
    m->level = NA_NPROF_LEVEL_UNKNOWN;
    uint32_t first_object[SITES];
    for (uint32_t i = 0; i < SITES; i++) {
        const site_t *s = &sites[i];
        spans[i] = (na_span_t){
            .start = s->base, .cls = s->cls, .capacity = (uint16_t)s->capacity, .pages = 1};
        for (uint32_t b = 0; b < s->blocks; b++) {
            uint32_t id = made_object(m, s->stack, 1, 0, s->block_bytes);
            m->objects[id - 1].base = s->base + (uint64_t)b * s->block_bytes;
            records[i][b].site = s->stack;
            records[i][b].epoch = na_profile_epoch;
            if (b == 0) first_object[i] = id;
        }
    }
    for (uint32_t i = 0; i < IDLE; i++) {
        idle[0].site = 6;
        idle[0].epoch = na_profile_epoch;
        spans[SITES + i] = (na_span_t){.start = 0x40000000 + i * UINT64_C(0x10000),
                                       .cls = (uint8_t)(30 + i),
                                       .capacity = IDLE_BLOCKS,
                                       .pages = 1};
    }
    memset(length_of, 0, sizeof length_of);
    cr_assert(na_draw_start(seed));
    const na_profile_config_t config = {.each_records = each_records, .usable = usable};
    cr_assert_eq(na_draw_look(&config), SITES + IDLE);
    for (uint32_t round = 1; round <= ROUNDS; round++) {
        na_draw_t draws[WORDS];
        uint64_t length[WORDS], longest = 0;
        for (uint32_t k = 0; k < WORDS; k++) {
            cr_assert(na_draw(&draws[k]));
            if (length_of[draws[k].slot] == 0) length_of[draws[k].slot] = FIRST;
            length[k] = length_of[draws[k].slot];
            if (length[k] > longest) longest = length[k];
        }
        uint64_t opened = (round - 1) * INTERVAL + na_draw_below(INTERVAL - longest);
        for (uint32_t k = 0; k < WORDS; k++)
            watch(m, first_object, round, &draws[k], opened, length[k]);
    }
}

/* ---- how often the intervals hold it ---- */

enum { ALL, SITE, THREAD = SITE + SITES, PAIR = THREAD + THREADS, CASES = PAIR + 2 * SITES };

static void find_truth(double *truth) {
    if (SANITIZED) { /* half of the time, and nothing is held against it */
        for (int i = 0; i < CASES; i++)
            truth[i] = 1;
        return;
    }
    for (uint32_t i = 0; i < SITES; i++)
        for (uint32_t which = 0; which < 2; which++) {
            uint64_t count = 0, words = (uint64_t)sites[i].blocks * sites[i].block_bytes / 8;
            for (uint64_t word = 0; word < words; word++)
                count += accesses(&sites[i], word, which, 0, ROUNDS * INTERVAL, NULL, 0);
            truth[ALL] += (double)count;
            truth[SITE + i] += (double)count;
            truth[THREAD + sites[i].threads[which] - 1] += (double)count;
            truth[PAIR + 2 * i + which] += (double)count;
        }
}

static uint32_t site_of(const na_flows_t *f, const na_touch_t *a) {
    uint32_t block;
    const site_t *s = site_at(f->objects[a->object].base, &block);
    cr_assert_not_null(s);
    cr_assert_eq(na_flow_group_of(f, a)->site, s->stack);
    return (uint32_t)(s - sites);
}

/* The generator of the draws adds a constant times the seed: seeds that follow each other would
 * give the same draws, shifted by one. */
static uint64_t seed_of(uint64_t run) {
    uint64_t z = run * UINT64_C(0xd1342543de82ef95) + 1;
    z = (z ^ z >> 32) * UINT64_C(0xaef17502108ef2d9);
    return z ^ z >> 29;
}

static void estimate_run(uint64_t seed, na_interval_t *to) {
    made_t m;
    record(&m, seed);
    na_reader_t *reader = made_reader(&m);
    na_flows_t f;
    cr_assert(na_flows_read(&reader, 1, &f));
    cr_assert_eq(na_reader_issue_count(reader), 0);
    na_watched_t e[CASES] = {{0}};
    for (uint32_t i = 0; i < f.count; i++) {
        const na_touch_t *a = &f.items[i];
        uint32_t site = site_of(&f, a), thread = f.threads[a->thread].tid - 101;
        na_watched_add(&e[ALL], a);
        na_watched_add(&e[SITE + site], a);
        na_watched_add(&e[THREAD + thread], a);
        na_watched_add(&e[PAIR + 2 * site + (sites[site].threads[1] == thread + 1)], a);
    }
    for (int i = 0; i < CASES; i++) {
        to[i] = na_watched_take(&e[i], &f);
        na_watched_free(&e[i]);
    }
    na_flows_free(&f);
    na_reader_close(reader);
}

static double truth[CASES], mean[CASES], width[CASES];
static unsigned held[CASES], below[CASES], above[CASES], none[CASES];

static void estimate_runs(void) {
    find_truth(truth);
    for (uint64_t run = 0; run < RUNS; run++) {
        na_interval_t found[CASES];
        estimate_run(seed_of(run + 1), found);
        for (int i = 0; i < CASES; i++) {
            const na_interval_t *x = &found[i];
            if (isnan(x->low)) { /* too few rounds */
                none[i]++;
                continue;
            }
            mean[i] += x->sum / truth[i] / RUNS;
            width[i] += x->high / x->low / RUNS;
            if (x->high < truth[i])
                below[i]++;
            else if (x->low > truth[i])
                above[i]++;
            else
                held[i]++;
        }
    }
    for (int i = 0; i < CASES; i++)
        cr_log_info(
            "case %d: %.0f accesses, held by %u of %d (%u below, %u above), mean %.3f of it, "
            "high / low %.2f",
            i, truth[i], held[i], RUNS, below[i], above[i], mean[i], width[i]);
}

Test(estimate, holds_the_truth_as_often_as_it_says) {
    estimate_runs();
    for (int i = 0; i < CASES && !SANITIZED; i++) {
        cr_expect(held[i] >= 0.91 * RUNS && held[i] <= 0.98 * RUNS, "case %d: held by %u of %d", i,
                  held[i], RUNS);
        cr_expect(below[i] >= 1 && above[i] >= 1, "case %d: misses on one side only", i);
        cr_expect_eq(none[i], 0);
        cr_expect(fabs(mean[i] - 1) < 0.05, "case %d: %.3f of the truth on average", i, mean[i]);
    }
}

/* Hits cost half of the time between two accesses of a burst. One of the threads that make bursts
 * is late for it, the other is not: nothing in a window tells. */
Test(estimate, holds_it_whether_threads_are_late_or_not) {
    hit_cost = 10000;
    estimate_runs();
    if (SANITIZED) return;
    for (int i = 0; i < CASES; i++) {
        cr_expect(held[i] >= 0.91 * RUNS, "case %d: held by %u of %d", i, held[i], RUNS);
        cr_expect_eq(none[i], 0);
    }
    /* Taken for late, the thread that is not has twice its bursts; the other's are right. */
    cr_expect(fabs(mean[PAIR + 2] - 1) < 0.05, "late: %.3f of the truth", mean[PAIR + 2]);
    cr_expect(mean[PAIR + 3] > 1.5, "not late: %.3f of the truth", mean[PAIR + 3]);
}

/* Few rounds, many alike, and what is no estimate. */
Test(estimate, ends) {
    na_flows_t set = {.rounds = 1000};
    na_watched_t e = {0};
    cr_expect(isnan(na_watched_take(&e, &set).low));
    for (uint32_t round = 1; round < NA_WATCHED_ROUNDS; round++)
        na_watched_add(&e, &(na_touch_t){.round = round, .weight = 7});
    na_interval_t few = na_watched_take(&e, &set);
    cr_expect(isnan(few.low) && isnan(few.high));
    cr_expect_eq(few.rounds, NA_WATCHED_ROUNDS - 1);
    /* One sample of another source, and there is none. */
    for (uint32_t round = 1; round < 100; round++)
        na_watched_add(&e, &(na_touch_t){.round = round, .weight = 7});
    na_watched_add(&e, &(na_touch_t){.weight = 7});
    cr_expect(isnan(na_watched_take(&e, &set).low));
    /* The hits of a round are one, in any order; rounds of two processes are not. */
    for (uint32_t i = 0; i < 400; i++)
        na_watched_add(&e,
                       &(na_touch_t){.round = 1 + i % 100, .process = i % 400 < 200, .weight = 1});
    na_interval_t twice = na_watched_take(&e, &set);
    cr_expect_eq(twice.rounds, 200);
    cr_expect_eq(twice.sum, 400);
    /* Counts of Poisson: 10000 of weight 1 are 10000 +- 196; with 10, what tables say: below by the
     * mid-p interval 5.08, above by the exact one 18.39. */
    na_interval_t many = na_watched_interval(10000, 10000, 1, 10000, 0);
    cr_expect(fabs(many.low - 9805) < 2 && fabs(many.high - 10198) < 2, "%g %g", many.low,
              many.high);
    na_interval_t ten = na_watched_interval(10, 10, 1, 10, 0);
    cr_expect(fabs(ten.low - 5.08) < 0.02 && fabs(ten.high - 18.39) < 0.01, "%g %g", ten.low,
              ten.high);
    /* All rounds alike: no variance was seen, and still it is not taken for certain. */
    na_interval_t alike = na_watched_interval(20, 20, 1, 20, 20);
    cr_expect(alike.low < 18.5 && alike.high > 21.5, "%g %g", alike.low, alike.high);
    na_watched_free(&e);
}
