/* merge.h - many profiles as one: their call stacks put together, whatever address a library had in
 * each process.
 *
 * A module is known by its build-id (by its path, where it has none), a frame by its module and its
 * place in it, a stack by its frames. So what is kept grows with the different stacks of all files,
 * not with files. Each file is read, handed on and closed again; as many are open as there are
 * processors.
 *
 * Python frames are known by function, file and line, and are in the module "[python]"; native ones
 * inside of them by a module of their own (NA_NPROF_MODULE_INSIDE), so that they count as runtime.
 *
 * In the tables of a merge module m lies at m << NA_MERGE_SHIFT. Frames without a module are one
 * frame "[generated code]", but those that a file has names for (bundle) are told apart by these.
 * Names that files have go into the symbols of the merge; all others are looked up by whoever opens
 * what na_merge_write wrote, once for each binary. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_MERGE_H
#define NUMALLOC_PROFILER_DUMP_RUNS_MERGE_H

#include "profiler/analyze/blocks/site_sums.h"
#include "profiler/dump/runs/runs.h"

#define NA_MERGE_SHIFT 36u

typedef struct na_merge na_merge_t;

/* NULL: out of memory. */
na_merge_t *na_merge_open(void);
void na_merge_close(na_merge_t *merge);

/* A file as na_merge_read hands it on; nothing of it lives longer than the call. */
typedef struct na_merge_file {
    size_t run; /* index */
    const na_nprof_header_t *header;
    const na_site_t *sites;
    size_t count;
    const uint32_t *stacks; /* of each site: its stack in the merge */
} na_merge_file_t;

/* False: out of memory; nothing more is read. */
typedef bool (*na_merge_fn_t)(void *arg, const na_merge_file_t *file);

/* Reads runs[order[0 .. count)] by as many threads as there are processors, and calls visit for one
 * after the other, in this order, never two at a time. A file that cannot be read any more, or is
 * found damaged, is named on stderr, passed over, and makes *status NA_STATUS_PARTIAL. False: out
 * of memory. */
bool na_merge_read(na_merge_t *merge, const na_recorded_run_t *runs, const size_t *order,
                   size_t count, na_merge_fn_t visit, void *arg, na_status_t *status);

/* What is in it. */
uint32_t na_merge_stack_count(const na_merge_t *merge);
na_stack_table_t na_merge_stacks(const na_merge_t *merge);
na_module_table_t na_merge_modules(const na_merge_t *merge);
/* Lines as in a SYMBOLS chunk. */
const char *na_merge_symbols(na_merge_t *merge, size_t *size);

/* Sums over files, by stack. All are in one unit: counts times NA_MERGE_SCALE, lifetimes in
 * NA_MERGE_AGE_NS. The figures at the peak are sums of what each process had at its own peak. */
#define NA_MERGE_SCALE  1024u
#define NA_MERGE_AGE_NS 256u

typedef struct na_merge_sums {
    na_counters_t *items; /* by stack; alloc_count 0 and free_count 0: no site */
    uint32_t room;
    size_t files;
    uint64_t start_unix_ns, end_unix_ns;
    uint64_t sample_interval; /* the largest; 0: no file is sampled */
    char host[64], program[512], job[60];
    size_t hosts, programs; /* changes from file to file, plus 1 */
    uint64_t lost_events, truncated, before_frees;
    uint64_t together_ms, processes;
    int64_t peak_bytes, peak_count;
} na_merge_sums_t;

/* Adds a file. False: out of memory. */
bool na_merge_add(na_merge_sums_t *sums, const na_merge_file_t *file);

/* A profile (docs/profile-format.md) of the merge, with these sums. False: it could not be
 * written; errno says why. */
bool na_merge_write(na_merge_t *merge, const na_merge_sums_t *sums, int fd);

/* The same into memory: a name that na_view_load takes, valid until the descriptor is closed. -1:
 * out of memory. */
int na_merge_in_memory(na_merge_t *merge, const na_merge_sums_t *sums, char path[32]);

#endif
