/* registry_lookup.c - the registry's promise, measured: address to record (span, slot, record)
 * takes the same time whatever else lives. The same 1,024 addresses are looked up, in an order
 * without a pattern, while 1,024 blocks live and again with ten million.
 *
 * cmake --build --preset release --target registry_lookup
 * NUMALLOC_PROFILE=sites build/release/tests/registry_lookup */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>

#include "alloc/core/malloc/api.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"

enum { KNOWN = 1024, MANY = 10000000, PASSES = 2000, REPETITIONS = 31 };

static void *known[KNOWN];
static void *many[MANY];
static size_t order[KNOWN];

static double now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec * 1e9 + (double)t.tv_nsec;
}

/* Nanoseconds of a lookup: the best of many repetitions, each of which finds every address. */
static double measure(void) {
    double best = 0;
    for (unsigned r = 0; r < REPETITIONS; r++) {
        double began = now_ns();
        uint64_t sum = 0;
        for (unsigned pass = 0; pass < PASSES; pass++)
            for (size_t i = 0; i < KNOWN; i++) {
                const void *block = known[order[i]];
                sum += na_record_of(na_span_of(block), block)->site != 0;
            }
        double each = (now_ns() - began) / ((double)PASSES * KNOWN);
        if (sum != (uint64_t)PASSES * KNOWN) {
            fprintf(stderr, "registry_lookup: a block has no record; set NUMALLOC_PROFILE=sites\n");
            exit(1);
        }
        if (r == 0 || each < best) best = each;
    }
    return best;
}

int main(void) {
    uint64_t seed = 1;
    for (size_t i = 0; i < KNOWN; i++) {
        known[i] = NA_FN(malloc)(48 + i % 5 * 16);
        order[i] = i;
    }
    for (size_t i = KNOWN - 1; i > 0; i--) {
        seed = seed * 6364136223846793005u + 1442695040888963407u;
        size_t k = (size_t)(seed >> 33) % (i + 1), t = order[i];
        order[i] = order[k];
        order[k] = t;
    }
    double few = measure();
    for (size_t i = 0; i < MANY; i++)
        if ((many[i] = NA_FN(malloc)(32 + i % 7 * 16)) == NULL) {
            fprintf(stderr, "registry_lookup: no memory for ten million blocks\n");
            return 1;
        }
    double all = measure();
    printf("%.2f ns with 1,024 live blocks, %.2f ns with ten million more: ratio %.3f\n", few, all,
           all / few);
    return 0;
}
