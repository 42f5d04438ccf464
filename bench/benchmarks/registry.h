/* registry.h - all benchmarks, in the order in which `list` names them. */
#ifndef NUMALLOC_BENCH_BENCHMARKS_REGISTRY_H
#define NUMALLOC_BENCH_BENCHMARKS_REGISTRY_H

#include "bench/suite/bench.h"

extern const na_bench_t *const na_benches[];
extern const size_t na_bench_count;

/* NULL when there is none of that name. */
const na_bench_t *na_bench_find(const char *name);

#endif
