/* large.c - the large benchmark: blocks of 64 KiB to 64 MiB, every page of them touched.
 *
 *   each of K threads    N times: draw a size; free the oldest objects until it fits the thread's
 *                        share of the live bytes; allocate it; write a byte in each of its pages
 *
 * Sizes are drawn evenly over the powers of two (as many from 64 to 128 KiB as from 32 to 64 MiB),
 * any whole number of bytes within. What an allocator does with such blocks (map and unmap each
 * one, or keep pages that are already there) shows less in its calls than in the first touch that
 * follows, so that both are timed by themselves; the headline is their sum. */
#include "bench/load/prng.h"
#include "bench/load/team.h"
#include "bench/measure/rates.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

enum {
    K_THREADS,
    K_OBJECTS,
    K_LIVE,
    K_CALL,
    K_MIN,
    K_MAX,
    K_SEED,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_THREADS] = NA_KNOB_THREADS,
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 40, 1, UINT64_C(1) << 32, NULL,
                   "objects that each thread allocates in one repetition"},
    [K_LIVE] = {"live", "KiB", NA_KNOB_NUMBER, 65536, 0, UINT64_C(1) << 36, NULL,
                "live bytes of each thread at most, but for a single object larger than that"},
    [K_CALL] = {"call", "", NA_KNOB_CHOICE, 0, 0, 0, "malloc|calloc", "which routine allocates"},
    [K_MIN] = NA_KNOB_MIN(65536),
    [K_MAX] = NA_KNOB_MAX(67108864),
    [K_SEED] = NA_KNOB_SEED,
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(1),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(7),
};

typedef struct object {
    void *block;
    size_t size;
} object_t;

typedef struct holder {
    na_prng_t prng;
    object_t *object;  /* a ring of the objects of a repetition */
    uint64_t live;     /* bytes */
    uint64_t calling;  /* nanoseconds in malloc, calloc and free */
    uint64_t touching; /* nanoseconds in the first touch */
    uint64_t touched;  /* bytes */
} __attribute__((aligned(64))) holder_t;

typedef struct large {
    holder_t *holder;
    uint64_t objects, live, min, max;
    bool zeroed;
} large_t;

/* Even over the powers of two between min and max, then even within one. */
static size_t draw_large_size(const large_t *large, na_prng_t *prng) {
    unsigned low = 63 - (unsigned)__builtin_clzll(large->min);
    unsigned high = 63 - (unsigned)__builtin_clzll(large->max);
    /* A range that ends at a power of two has nothing above it but that one size. */
    if (high > low && (large->max & (large->max - 1)) == 0) high--;
    uint64_t power = low + na_prng_scale(na_prng_next(prng), high - low + 1);
    uint64_t begin = UINT64_C(1) << power, end = (begin << 1) - 1;
    if (begin < large->min) begin = large->min;
    if (end > large->max || power == high) end = large->max;
    return begin + na_prng_scale(na_prng_next(prng), end - begin + 1);
}

static void large_phase(void *argument, unsigned worker) {
    const large_t *large = argument;
    holder_t *self = &large->holder[worker];
    uint64_t oldest = 0;
    self->calling = self->touching = self->touched = 0;
    for (uint64_t i = 0; i < large->objects; i++) {
        object_t *object = &self->object[i];
        object->size = draw_large_size(large, &self->prng);
        uint64_t begin = na_bench_now();
        for (; oldest < i && self->live + object->size > large->live; oldest++) {
            self->live -= self->object[oldest].size;
            free(self->object[oldest].block);
        }
        object->block = large->zeroed ? calloc(1, object->size) : malloc(object->size);
        uint64_t got = na_bench_now();
        if (object->block == NULL)
            na_work_no_memory("large", large->zeroed ? "calloc" : "malloc", object->size);
        na_work_touch_pages(object->block, 0, object->size);
        uint64_t end = na_bench_now();
        self->live += object->size;
        self->touched += object->size;
        self->calling += got - begin;
        self->touching += end - got;
    }
    uint64_t begin = na_bench_now();
    for (; oldest < large->objects; oldest++)
        free(self->object[oldest].block);
    self->calling += na_bench_now() - begin;
    self->live = 0;
}

static bool large_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    value[K_THREADS].number = na_team_threads(value[K_THREADS].number);
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double live = (double)value[K_LIVE].number * 1024, most = (double)value[K_MAX].number;
    double all = most * (double)value[K_OBJECTS].number;
    double each = live < most ? most : live < all ? live : all;
    each += (double)value[K_OBJECTS].number * (double)sizeof(object_t);
    return na_limits_fit(each * (double)value[K_THREADS].number,
                         "--live, --max, --objects or --threads", error, size);
}

static void large_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    unsigned threads = (unsigned)value[K_THREADS].number;
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    large_t large = {na_bench_map(threads * sizeof(holder_t)),
                     value[K_OBJECTS].number,
                     value[K_LIVE].number * 1024,
                     value[K_MIN].number,
                     value[K_MAX].number,
                     value[K_CALL].number != 0};
    for (unsigned i = 0; i < threads; i++)
        large.holder[i].object = na_bench_map(large.objects * sizeof(object_t));

    na_metric_t *whole =
        na_result_metric(result, "large", "us/obj", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *calling =
        na_result_metric(result, "calls", "us/obj", NA_LOWER, NA_HEADLINE, repetitions);
    na_metric_t *touching = na_result_metric(result, "first touch", "us/touched MiB", NA_LOWER,
                                             NA_HEADLINE, repetitions);
    na_rates_t rates = na_rates_make(result, threads, repetitions, "kobj/s");
    na_team_t *team = na_team_start(threads, (na_pin_t)value[K_PIN].number);
    double objects = (double)large.objects * threads;
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("large: repetition", r, warmup + repetitions);
        for (unsigned i = 0; i < threads; i++) /* the same sizes in each repetition */
            large.holder[i].prng = na_prng_make(value[K_SEED].number, 1 + i);
        uint64_t elapsed = na_team_run(team, large_phase, &large);
        if (r < warmup) continue;
        double calls = 0, touches = 0, bytes = 0;
        for (unsigned i = 0; i < threads; i++) {
            calls += (double)large.holder[i].calling;
            touches += (double)large.holder[i].touching;
            bytes += (double)large.holder[i].touched;
        }
        double own = calls + touches, share = na_team_time(threads, own, (double)elapsed) / own;
        calls *= share;
        touches *= share;
        na_metric_add(whole, (calls + touches) / objects / 1e3);
        na_metric_add(calling, calls / objects / 1e3);
        na_metric_add(touching, touches / 1e3 / (bytes / 0x1p20));
        na_rates_add(&rates, team, elapsed, 1e3 * (double)large.objects); /* kilo, not mega */
    }
    na_bench_progress("large: repetition", 1, 1);
    na_team_stop(team);
}

/** Sizes from 64 KiB to 64 MiB, oldest freed first, each page written. *Time per object*; `calls`
 *  is the part in malloc and free, `first touch` that in page faults. An allocator that keeps
 *  pages is faster by as much as it holds: read it with final memory. */
const na_bench_t na_bench_large = {
    .name = "large",
    .summary = "blocks of 64 KiB to 64 MiB, every page touched",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .work = "objects",
    .suite = (const char *const[]){"--repetitions=9", "--warmup=1", "--objects=20", NULL},
    .settle = large_settle,
    .run = large_run,
};
