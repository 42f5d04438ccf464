/* registry.h - all benchmarks, in the order in which `list` names them. */
#ifndef NUMALLOC_BENCH_BENCHMARKS_REGISTRY_H
#define NUMALLOC_BENCH_BENCHMARKS_REGISTRY_H

#include "bench/suite/bench.h"

extern const na_bench_t *const na_benches[];
extern const size_t na_bench_count;

/* NULL when there is none of that name. */
const na_bench_t *na_bench_find(const char *name);
/* There is none of this name: says so in one line, and what may be meant. */
void na_bench_none(const char *name, char *error, size_t size);

#endif
