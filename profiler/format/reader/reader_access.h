/* reader_access.h - reads what a profile has of accesses (nprof_access.h), checked and in order. */
#ifndef NUMALLOC_PROFILER_FORMAT_READER_READER_ACCESS_H
#define NUMALLOC_PROFILER_FORMAT_READER_READER_ACCESS_H

#include "profiler/format/nprof_access.h"
#include "profiler/format/reader/reader.h"

/* Everything about accesses. Tables are indexed by id (nodes: by dense node); a count is the
 * highest id plus one, 0 if there is no table; an entry that does not exist is all zeros. Ids
 * inside of entries are 0 or name an entry that exists: stacks and threads of the reader's tables,
 * the others of these. Nodes are below header.node_count or NA_NPROF_NO_NODE. Enumerations are in
 * range, what was not is their 0 (sources: the entry does not exist). Strings end. Weights and
 * inverses are finite and not negative. */
typedef struct na_access {
    na_nprof_access_source_t *sources;
    na_nprof_access_node_t *nodes;
    na_nprof_access_thread_t *threads;
    na_nprof_access_mapping_t *mappings;
    na_nprof_access_object_t *objects;
    na_nprof_access_window_t *windows;
    na_nprof_access_probe_t *probes;
    uint32_t source_count, node_count, thread_count, mapping_count, object_count, window_count;
    uint32_t probe_count;
    /* By time, then serial; no serial twice. None of the library's own tables. */
    na_nprof_access_sample_t *samples;
    size_t sample_count;
} na_access_t;

/* False: out of memory; *access is empty then. What is damaged becomes an issue of the reader.
 * Memory is bounded by the entries that are really in the file. A profile without accesses gives
 * empty tables. */
bool na_access_load(na_reader_t *reader, na_access_t *access);
void na_access_free(na_access_t *access);

/* Short names for people and files, "?": no such one. Constant strings. */
const char *na_access_source_name(uint32_t source); /* "kmod-ibs", "watch", ... */
const char *na_access_unit_name(uint32_t unit);     /* of one weight: "op", "access", ... */
const char *na_access_level_name(uint32_t level);   /* "L1", "remote DRAM", ... */
const char *na_access_target_name(uint32_t target); /* "heap", "stack", ... */
/* Did memory answer, not a cache? */
bool na_access_is_dram(uint32_t level);

#endif
