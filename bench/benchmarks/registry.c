/* registry.c - the one table of all benchmarks, in the order in which `list` names them. X(NAME) is
 * the na_bench_NAME of some file. */
#include "bench/benchmarks/registry.h"
#include "alloc/options/nearest.h"

#include <string.h>

#define NA_BENCHES(X)                                                                              \
    X(churn)                                                                                       \
    X(thrash)                                                                                      \
    X(scratch)                                                                                     \
    X(speed)                                                                                       \
    X(memory)                                                                                      \
    X(partly)                                                                                      \
    X(waste)                                                                                       \
    X(threadtest)                                                                                  \
    X(shbench)                                                                                     \
    X(larson)                                                                                      \
    X(larson_sized)                                                                                \
    X(numa)                                                                                        \
    X(handoff)                                                                                     \
    X(handoff_mixed)                                                                               \
    X(turnover)                                                                                    \
    X(fragment)                                                                                    \
    X(realloc)                                                                                     \
    X(middle)                                                                                      \
    X(large)                                                                                       \
    X(threads)                                                                                     \
    X(latency)                                                                                     \
    X(growth)                                                                                      \
    X(registry)                                                                                    \
    X(hotpath)                                                                                     \
    X(startup)                                                                                     \
    X(replay)

#define X(bench) extern const na_bench_t na_bench_##bench;
NA_BENCHES(X)
#undef X

#define X(bench) &na_bench_##bench,
const na_bench_t *const na_benches[] = {NA_BENCHES(X)};
#undef X

const size_t na_bench_count = NA_COUNT(na_benches);

const na_bench_t *na_bench_find(const char *name) {
    for (size_t i = 0; i < na_bench_count; i++)
        if (strcmp(na_benches[i]->name, name) == 0) return na_benches[i];
    return NULL;
}

void na_bench_none(const char *name, char *error, size_t size) {
    char hint[80];
    na_nearest_t nearest = {.typed = name, .length = strlen(name)};
    for (size_t i = 0; i < na_bench_count; i++)
        na_nearest_try(&nearest, na_benches[i]->name);
    snprintf(error, size, "there is no benchmark '%.64s'%s", name,
             na_nearest_text(&nearest, "", hint));
}
