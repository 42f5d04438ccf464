/* perfmap.h - names of code that a run-time compiler made: /tmp/perf-PID.map, as `perf` reads it
 * and node --perf-basic-prof, python -X perf, Java agents and others write it.
 *
 * Lines are `START SIZE NAME`, both in hexadecimal. Code is moved and thrown away while a program
 * runs; of two that had the same addresses the later line counts. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_PERFMAP_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_PERFMAP_H

#include <stdint.h>

typedef struct na_perf_map na_perf_map_t;

/* What NAME says, of V8 and CPython also where it is defined: other tiers of one function are the
 * same function. Strings belong to the map. */
typedef struct na_perf_name {
    const char *function;
    const char *file; /* NULL: not known */
    uint32_t line;    /* 0: not known */
} na_perf_name_t;

/* NULL: there is none, it is older than `since_ns` (of CLOCK_REALTIME; then another process of that
 * number wrote it), it is no regular file, or there is no memory for it. */
na_perf_map_t *na_perf_map_open(const char *path, uint64_t since_ns);
void na_perf_map_close(na_perf_map_t *map);

/* NULL: no code of the map's was at that address. */
const na_perf_name_t *na_perf_map_find(const na_perf_map_t *map, uint64_t address);

#endif
