/* site_of.c - the registry benchmark: from any address to the block that holds it and its site, as
 * the number of live blocks grows.
 *
 * For each number of them: so many blocks, then N times: an address in a block at random, and
 * numalloc_find_site. That is no search: page map, span, record, a few reads of memory. What grows
 * is the time of these reads, once caches and address translation do not hold all that is read; the
 * same loop without the call shows what reading the address itself takes (details).
 *
 * Of numalloc alone, and while a profile records all blocks:
 * NUMALLOC_PROFILE=sites LD_PRELOAD=libnumalloc.so.0 numalloc-bench registry */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"

#include <inttypes.h>
#include <string.h>

#define NUMALLOC_WEAK
#include "numalloc/numalloc.h"

enum {
    K_BLOCKS,
    K_LOOKUPS,
    NA_WORK_KNOBS,
    K_COUNT,
};

#define RECORD 16 /* bytes that a profile keeps of a block */

static const uint64_t steps[] = {1000, 100000, 1000000, 10000000, 100000000};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_BLOCKS] = {"blocks", "blocks", NA_KNOB_NUMBER, 10000000, 1000, 100000000, NULL,
                  "live blocks at the most: steps of 1000, 100,000 and then ten times as many"},
    [K_LOOKUPS] = {"lookups", "look-ups", NA_KNOB_NUMBER, 20000, 1, UINT64_C(1) << 40, NULL,
                   "addresses that are looked up in one repetition of a step"},
    NA_WORK_KNOB_ROWS(16, 112, 16, 3, 51),
};

typedef struct registry {
    char **spots;
    uint64_t filled, wanted, lookups, wrong;
    na_prng_t prng;
    uint32_t sizes[NA_WORK_SIZES];
    bool touch;
} registry_t;

static void registry_fill_phase(void *argument, unsigned worker) {
    registry_t *registry = argument;
    (void)worker;
    for (; registry->filled < registry->wanted; registry->filled++) {
        char *block = na_work_malloc("registry", registry->sizes[registry->filled % NA_WORK_SIZES]);
        na_bench_touch(block, registry->touch);
        registry->spots[registry->filled] = block;
    }
}

static void registry_lookup_phase(void *argument, unsigned worker) {
    registry_t *registry = argument;
    na_prng_t prng = registry->prng;
    uint64_t wrong = 0;
    (void)worker;
    for (uint64_t i = registry->lookups; i != 0; i--) {
        char *block = registry->spots[na_prng_scale(na_prng_next(&prng), registry->filled)];
        numalloc_site_t site;
        wrong += numalloc_find_site(block + 8, &site, sizeof site) != 0 || site.block != block;
    }
    registry->prng = prng;
    registry->wrong += wrong;
}

static void registry_dry_phase(void *argument, unsigned worker) {
    registry_t *registry = argument;
    na_prng_t prng = registry->prng;
    (void)worker;
    for (uint64_t i = registry->lookups; i != 0; i--)
        na_bench_use(registry->spots[na_prng_scale(na_prng_next(&prng), registry->filled)]);
    registry->prng = prng;
}

static void registry_clear_phase(void *argument, unsigned worker) {
    registry_t *registry = argument;
    (void)worker;
    while (registry->filled != 0)
        free(registry->spots[--registry->filled]);
}

static bool registry_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    double each = (double)value[K_MAX].number + RECORD + sizeof(void *);
    return na_limits_fit((double)value[K_BLOCKS].number * each, "--blocks or --max", error, size);
}

static void registry_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    na_metric_t *times[NA_COUNT(steps)];
    size_t count = 0;
    registry_t *registry = na_bench_map(sizeof *registry);
    if (numalloc_find_site == NULL || !numalloc_record_is_running())
        na_bench_fail("registry: wants numalloc (LD_PRELOAD) with NUMALLOC_PROFILE=sites");
    registry->lookups = value[K_LOOKUPS].number;
    registry->touch = value[K_TOUCH].number != 0;
    registry->prng = na_prng_make(value[K_SEED].number, 1);
    na_sizes_fill(&sizes, &registry->prng, registry->sizes, NA_WORK_SIZES);
    registry->spots = na_bench_map(value[K_BLOCKS].number * sizeof(void *));
    na_team_t *team = na_team_start(1, (na_pin_t)value[K_PIN].number);
    for (; count < NA_COUNT(steps) && steps[count] <= value[K_BLOCKS].number; count++) {
        char name[64];
        na_bench_progress("registry: step", count, NA_COUNT(steps));
        registry->wanted = steps[count];
        na_team_run(team, registry_fill_phase, registry);
        snprintf(name, sizeof name, "%" PRIu64 " blocks", steps[count]);
        times[count] = na_result_metric(result, name, "ns", NA_LOWER, NA_HEADLINE, repetitions);
        snprintf(name, sizeof name, "%" PRIu64 " blocks: loop without the look-up", steps[count]);
        na_metric_t *dry = na_result_metric(result, name, "ns", NA_LOWER, NA_DETAIL, repetitions);
        for (size_t r = 0; r < warmup + repetitions; r++) {
            double lookups = (double)registry->lookups;
            double took = (double)na_team_run(team, registry_lookup_phase, registry);
            if (r < warmup) continue;
            na_metric_add(times[count], took / lookups);
            na_metric_add(dry, (double)na_team_run(team, registry_dry_phase, registry) / lookups);
        }
        if (registry->wrong != 0)
            na_bench_fail("registry: %" PRIu64 " wrong answers; the profile is not of mode sites",
                          registry->wrong);
    }
    na_bench_progress("registry: step", 1, 1);
    na_team_run(team, registry_clear_phase, registry);
    na_team_stop(team);
    na_result_mean(result, "registry", times, count);
}

/** From an address to its block and site, with more and more live blocks. *Geometric mean of all
 *  steps.* Of numalloc alone, under `NUMALLOC_PROFILE=sites`; not part of `compare`. */
const na_bench_t na_bench_registry = {
    .name = "registry",
    .summary = "from an address to its block and site, as blocks become many",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "registry",
    .work = "lookups",
    .suite = (const char *const[]){"--repetitions=3", "--warmup=1", NULL},
    .own = true,
    .settle = registry_settle,
    .run = registry_run,
};
