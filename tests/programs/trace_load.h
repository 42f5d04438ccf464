/* trace_load.h - the log that trace_load writes and trace_check reads: sections, one a thread. */
#ifndef NUMALLOC_TESTS_PROGRAMS_TRACE_LOAD_H
#define NUMALLOC_TESTS_PROGRAMS_TRACE_LOAD_H

#include <stddef.h>
#include <stdint.h>

#include "profiler/format/nprof_trace.h"

#define TRACE_THREADS 4u
#define TRACE_HANDED  2000u
#define TRACE_LOG     400000u
#define TRACE_MARK    77777u /* size asked for by a section's first event; + 2: by its last */
#define TRACE_SITES   7u

typedef struct trace_entry {
    uint8_t kind; /* NA_NPROF_EVENT_* */
    uint8_t site; /* 1 to 6; 0: frees */
    uint64_t address, size, usable;
    uint64_t other; /* REALLOC: the block that it replaces, or 0; MOVED: the new block */
} trace_entry_t;

typedef struct trace_log {
    uint32_t section;   /* 0: the main thread's */
    uint32_t inherited; /* 1: a forked child's: blocks that are not in it are the parent's */
    uint64_t count;
    trace_entry_t entries[TRACE_LOG];
} trace_log_t;

#endif
