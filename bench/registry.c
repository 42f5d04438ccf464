/* registry.c - the one table of all benchmarks, in the order in which `list` names them. */
#include "bench.h"

#include <string.h>

extern const na_bench_t na_bench_churn, na_bench_speed, na_bench_hotpath, na_bench_startup;

const na_bench_t *const na_benches[] = {
    &na_bench_churn,
    &na_bench_speed,
    &na_bench_hotpath,
    &na_bench_startup,
};

const size_t na_bench_count = NA_COUNT(na_benches);

const na_bench_t *na_bench_find(const char *name) {
    for (size_t i = 0; i < na_bench_count; i++)
        if (strcmp(na_benches[i]->name, name) == 0) return na_benches[i];
    return NULL;
}
