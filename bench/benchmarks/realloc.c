/* realloc.c - the realloc benchmark: what grows in programs.
 *
 * Three kinds, each by every thread, N things of a kind of which W grow side by side, in turn (so
 * that none can simply grow into the free space behind it):
 *
 *   vectors    of 8-byte elements: room for 4, doubled each time until it has the largest length
 *   strings    a piece of 1 to 64 bytes is appended at a time, and the string is reallocated to
 *              exactly its new length, until it has the largest length
 *   arrays     of 64 KiB at first, longer by a quarter each time (whole pages) until it has the
 *              largest size; every page of the new part is touched
 *
 * A call of realloc() is one operation; the first one of each thing is of NULL. The last byte
 * before each call is checked after it: a realloc that loses contents ends the run. A thing is
 * freed when it is complete. The new part is written at its end and, in arrays, once in each page;
 * that, the check and the free are in the figures.
 *
 * How often a block moved is counted (details): growing in place and moving pages instead of bytes
 * is what an allocator can do here. */
#include "bench/load/prng.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

enum {
    K_THREADS,
    K_KIND,
    K_WIDTH,
    K_VECTORS,
    K_ELEMENTS,
    K_STRINGS,
    K_LENGTH,
    K_ARRAYS,
    K_ARRAY,
    K_SHARE,
    K_SEED,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

typedef enum kind { VECTORS, STRINGS, ARRAYS, KINDS } kind_t;

static const char *const kind_names[KINDS] = {"vectors", "strings", "arrays"};

#define WIDTH_MAX   1024
#define ARRAY_FIRST (UINT64_C(64) * 1024)
#define PIECES      4096 /* entries of a thread's table of string pieces, a power of two */
#define PIECE_MAX   64

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_KIND] = {"kind", "", NA_KNOB_CHOICE, 0, 0, 0, "all|vectors|strings|arrays", "what grows"},
    [K_WIDTH] = {"width", "things", NA_KNOB_NUMBER, 8, 1, WIDTH_MAX, NULL,
                 "vectors and strings that a thread grows side by side (arrays: 2 at most)"},
    [K_VECTORS] = {"vectors", "vectors", NA_KNOB_NUMBER, 1000, 1, 100000000, NULL,
                   "vectors of each thread in one repetition"},
    [K_ELEMENTS] = {"elements", "elements", NA_KNOB_NUMBER, 2048, 4, UINT64_C(1) << 28, NULL,
                    "elements (8 bytes) of a complete vector"},
    [K_STRINGS] = {"strings", "strings", NA_KNOB_NUMBER, 500, 1, 100000000, NULL,
                   "strings of each thread in one repetition"},
    [K_LENGTH] = {"length", "bytes", NA_KNOB_NUMBER, 2000, 1, UINT64_C(1) << 30, NULL,
                  "length of a complete string"},
    [K_ARRAYS] = {"arrays", "arrays", NA_KNOB_NUMBER, 4, 1, 1000000, NULL,
                  "arrays of each thread in one repetition"},
    [K_ARRAY] = {"array", "KiB", NA_KNOB_NUMBER, 8192, 64, UINT64_C(1) << 26, NULL,
                 "size of a complete array"},
    [K_SHARE] = {"share", "%", NA_KNOB_NUMBER, 100, 1, 100000, NULL,
                 "of the numbers of vectors, strings and arrays, that a repetition has"},
    [K_SEED] = NA_KNOB_SEED,
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(1),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(9),
};

typedef struct thing {
    unsigned char *block;
    uint64_t size;
} thing_t;

typedef struct grower {
    uint64_t calls, moves; /* of the present phase */
    thing_t thing[WIDTH_MAX];
    unsigned char piece[PIECES];
} __attribute__((aligned(64))) grower_t;

typedef struct growth {
    grower_t *grower;
    kind_t kind;
    uint64_t count, width, complete; /* complete: bytes */
} growth_t;

/* The size after `size` of a thing of the kind; the same sequence for all things, but for strings,
 * whose pieces are taken one after the other from the table. */
static uint64_t next_size(const growth_t *growth, const grower_t *self, uint64_t size) {
    uint64_t next;
    switch (growth->kind) {
    case VECTORS:
        next = size == 0 ? 4 * sizeof(uint64_t) : 2 * size;
        break;
    case STRINGS:
        next = size + self->piece[self->calls % PIECES];
        break;
    default:
        next = size == 0 ? ARRAY_FIRST
                         : (size + size / 4 + NA_WORK_PAGE - 1) & ~(uint64_t)(NA_WORK_PAGE - 1);
        break;
    }
    return next < growth->complete ? next : growth->complete;
}

static void grow_thing(const growth_t *growth, grower_t *self, thing_t *thing) {
    uint64_t before = thing->size, size = next_size(growth, self, before);
    unsigned char mark = (unsigned char)(before ^ (before >> 8));
    if (before != 0) thing->block[before - 1] = mark;
    uintptr_t old = (uintptr_t)thing->block;
    unsigned char *block = realloc(thing->block, size);
    if (block == NULL) na_work_no_memory("realloc", "realloc", size);
    if (before != 0 && *(volatile unsigned char *)&block[before - 1] != mark)
        na_bench_fail("realloc: from %llu to %llu bytes lost the contents of the block",
                      (unsigned long long)before, (unsigned long long)size);
    self->calls++;
    self->moves += old != 0 && (uintptr_t)block != old;
    if (growth->kind == ARRAYS)
        na_work_touch_pages(block, before, size);
    else
        *(volatile unsigned char *)&block[size - 1] = 1;
    thing->block = block;
    thing->size = size;
}

static void grow_phase(void *argument, unsigned worker) {
    const growth_t *growth = argument;
    grower_t *self = &growth->grower[worker];
    self->calls = 0;
    self->moves = 0;
    for (uint64_t begun = 0; begun < growth->count;) {
        uint64_t width =
            growth->count - begun < growth->width ? growth->count - begun : growth->width;
        uint64_t growing = width;
        begun += width;
        for (uint64_t i = 0; i < width; i++)
            self->thing[i] = (thing_t){NULL, 0};
        while (growing != 0) {
            for (uint64_t i = 0; i < width; i++) {
                thing_t *thing = &self->thing[i];
                if (thing->size == growth->complete) continue;
                grow_thing(growth, self, thing);
                if (thing->size < growth->complete) continue;
                free(thing->block);
                growing--;
            }
        }
    }
}

/* The share of a number of things; at least one. */
static uint64_t shared(const na_knob_value_t *value, unsigned knob) {
    uint64_t count = value[knob].number * value[K_SHARE].number / 100;
    return count == 0 ? 1 : count;
}

static growth_t growth_of(const na_knob_value_t *value, kind_t kind, grower_t *growers) {
    uint64_t width = value[K_WIDTH].number;
    switch (kind) {
    case VECTORS:
        return (growth_t){growers, kind, shared(value, K_VECTORS), width,
                          value[K_ELEMENTS].number * sizeof(uint64_t)};
    case STRINGS:
        return (growth_t){growers, kind, shared(value, K_STRINGS), width, value[K_LENGTH].number};
    default:
        return (growth_t){growers, kind, shared(value, K_ARRAYS), width < 2 ? width : 2,
                          value[K_ARRAY].number * 1024};
    }
}

static unsigned first_kind(const na_knob_value_t *value) {
    return value[K_KIND].number == 0 ? 0 : (unsigned)value[K_KIND].number - 1;
}

static unsigned last_kind(const na_knob_value_t *value) {
    return value[K_KIND].number == 0 ? KINDS - 1 : (unsigned)value[K_KIND].number - 1;
}

static bool realloc_settle(na_knobs_t *knobs, char *error, size_t size) {
    static const char *const mend[KINDS] = {"--elements, --width or --threads",
                                            "--length, --width or --threads",
                                            "--array or --threads"};
    na_knob_value_t *value = knobs->value;
    value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    for (unsigned kind = first_kind(value); kind <= last_kind(value); kind++) {
        growth_t growth = growth_of(value, (kind_t)kind, NULL);
        /* A block that moves is there twice for a moment. */
        double bytes = (double)growth.complete * ((double)growth.width + 1);
        if (!na_limits_fit(bytes * (double)value[K_THREADS].number, mend[kind], error, size))
            return false;
    }
    return true;
}

typedef struct metrics {
    na_metric_t *time, *rate, *each, *moved;
} metrics_t;

static void add_kind_metrics(na_result_t *result, kind_t kind, unsigned threads, size_t repetitions,
                             metrics_t *metrics) {
    char name[64];
    metrics->time =
        na_result_metric(result, kind_names[kind], "ns/call", NA_LOWER, NA_HEADLINE, repetitions);
    snprintf(name, sizeof name, "%s: throughput", kind_names[kind]);
    metrics->rate = na_result_metric(result, name, "Mcall/s", NA_HIGHER, NA_DETAIL, repetitions);
    snprintf(name, sizeof name, "%s: throughput per thread", kind_names[kind]);
    metrics->each =
        na_result_metric(result, name, "Mcall/s", NA_HIGHER, NA_DETAIL, repetitions * threads);
    snprintf(name, sizeof name, "%s: calls that moved the block", kind_names[kind]);
    metrics->moved = na_result_metric(result, name, "%", NA_LOWER, NA_DETAIL, repetitions);
}

static void add_realloc_samples(const metrics_t *metrics, const growth_t *growth,
                                const na_team_t *team, unsigned threads, double elapsed) {
    double calls = 0, moves = 0, own = 0;
    for (unsigned i = 0; i < threads; i++) {
        double mine = (double)growth->grower[i].calls, time = (double)na_team_elapsed(team, i);
        na_metric_add(metrics->each, 1e3 * mine / time);
        calls += mine;
        moves += (double)growth->grower[i].moves;
        own += time;
    }
    na_metric_add(metrics->time, na_team_time(threads, own, elapsed) / calls);
    na_metric_add(metrics->rate, 1e3 * calls / elapsed);
    na_metric_add(metrics->moved, 100 * moves / calls);
}

static void realloc_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    grower_t *growers = na_bench_map(threads * sizeof(grower_t));
    metrics_t metrics[KINDS];
    for (unsigned i = 0; i < threads; i++) {
        na_prng_t prng = na_prng_make(value[K_SEED].number, 1 + i);
        for (size_t p = 0; p < PIECES; p++)
            growers[i].piece[p] =
                (unsigned char)(1 + na_prng_scale(na_prng_next(&prng), PIECE_MAX));
    }
    unsigned from = first_kind(value), to = last_kind(value);
    for (unsigned kind = from; kind <= to; kind++)
        add_kind_metrics(result, (kind_t)kind, threads, repetitions, &metrics[kind]);
    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("realloc: repetition", r, warmup + repetitions);
        for (unsigned kind = from; kind <= to; kind++) {
            growth_t growth = growth_of(value, (kind_t)kind, growers);
            double elapsed = (double)na_team_run(team, grow_phase, &growth);
            if (r >= warmup) add_realloc_samples(&metrics[kind], &growth, team, threads, elapsed);
        }
    }
    na_bench_progress("realloc: repetition", 1, 1);
    na_team_stop(team);
    na_metric_t *times[KINDS];
    for (unsigned kind = from; kind <= to; kind++)
        times[kind - from] = metrics[kind].time;
    na_result_mean(result, "realloc", times, to - from + 1);
}

/** *vectors* that double, *strings* extended to their exact length, *arrays* from 64 KiB on,
 *  longer by a quarter each time. *Geometric mean of time per realloc.* A realloc that loses
 *  contents ends the run. Arrays show whether pages are copied, moved or grown in place. */
const na_bench_t na_bench_realloc = {
    .name = "realloc",
    .summary = "growing vectors, strings and large arrays",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "realloc",
    .work = "share",
    .suite = (const char *const[]){"--repetitions=8", "--warmup=1", NULL},
    .settle = realloc_settle,
    .run = realloc_run,
};
