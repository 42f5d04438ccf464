/* registry.c - the one table of all benchmarks, in the order in which `list` names them. */
#include "bench.h"

#include <string.h>

extern const na_bench_t na_bench_churn, na_bench_speed, na_bench_hotpath, na_bench_startup;
extern const na_bench_t na_bench_thrash, na_bench_scratch, na_bench_memory, na_bench_threadtest;
extern const na_bench_t na_bench_shbench, na_bench_larson, na_bench_larson_sized, na_bench_numa;
extern const na_bench_t na_bench_handoff, na_bench_turnover, na_bench_fragment, na_bench_realloc;
extern const na_bench_t na_bench_large, na_bench_threads, na_bench_latency, na_bench_growth;

/* clang-format off */
const na_bench_t *const na_benches[] = {
    &na_bench_churn,
    &na_bench_thrash,
    &na_bench_scratch,
    &na_bench_speed,
    &na_bench_memory,
    &na_bench_threadtest,
    &na_bench_shbench,
    &na_bench_larson,
    &na_bench_larson_sized,
    &na_bench_numa,
    &na_bench_handoff,
    &na_bench_turnover,
    &na_bench_fragment,
    &na_bench_realloc,
    &na_bench_large,
    &na_bench_threads,
    &na_bench_latency,
    &na_bench_growth,
    &na_bench_hotpath,
    &na_bench_startup,
};
/* clang-format on */

const size_t na_bench_count = NA_COUNT(na_benches);

const na_bench_t *na_bench_find(const char *name) {
    for (size_t i = 0; i < na_bench_count; i++)
        if (strcmp(na_benches[i]->name, name) == 0) return na_benches[i];
    return NULL;
}
