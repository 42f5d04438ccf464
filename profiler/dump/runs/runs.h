/* runs.h - several profiles at once, each reduced to a few figures; files are read in parallel. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_RUNS_H
#define NUMALLOC_PROFILER_DUMP_RUNS_RUNS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "numalloc/profile.h"
#include "profiler/dump/ui/table.h"

#define NA_RUN_STEPS 64u /* parts that a run is divided into */

/* What a file is to its job (jobs.h). */
typedef enum na_job_part {
    NA_PART_COUNTS,
    NA_PART_CHILD,
    NA_PART_STARTER,
    NA_PART_LAUNCHER,
    NA_PART_NO_RANK,
    NA_PART_AGAIN,
    NA_PART_OTHER_RUN,
    NA_PART_EARLIER, /* of a process's dumps, one before its newest */
} na_job_part_t;
#define NA_PARTS (NA_PART_EARLIER + 1)

typedef struct na_recorded_run {
    const char *path;
    char program[512], host[64], why[256]; /* why: it cannot be read; "" if it can */
    char command[256]; /* with its arguments; of a process that runs its title, as it is now */
    char job_name[64];
    char labels[512];        /* NUMALLOC_PROFILE_LABELS; "": none */
    char only_ranks[128];    /* NUMALLOC_PROFILE_RANKS; "": not set */
    int32_t pid, ppid, rank; /* rank -1: none */
    int32_t inherited_pid;   /* forked child: of its parent's profile; else 0 */
    uint32_t ranks;          /* of the job; 0: not known */
    bool mpi;                /* code of an MPI library was on its stacks */
    na_job_part_t part;      /* set by na_jobs_find */
    size_t job;              /* the same; index */
    size_t findings;         /* set by the view that wants them */
    uint32_t dump;           /* number of the dump of its process; 0: the process's own profile */
    uint64_t start_unix_ns, duration_ms, peak_ms;
    double peak, live, total, allocations, frees, temporary, physical, lost;
    bool damaged, closed;
    double step[NA_RUN_STEPS]; /* most bytes live in each part of the run */
} na_recorded_run_t;

/* The dumps of one process have these in common, and no other process has them. */
static inline bool na_runs_same_process(const na_recorded_run_t *a, const na_recorded_run_t *b) {
    return a->pid == b->pid && a->start_unix_ns == b->start_unix_ns &&
           strcmp(a->host, b->host) == 0;
}

/* Reads all files, by as many threads as there are processors. NULL: out of memory. A file that
 * cannot be read is said on stderr, as is one that is damaged. `whole`: the damaged ones count as
 * such that cannot be read, for views of many, where one that is cut would pass for a small one.
 * free() the result. *status: WHOLE, PARTIAL (some cannot be read or are damaged) or NOTHING (none
 * can be read). */
na_recorded_run_t *na_runs_read(const char *const *files, size_t count, bool whole,
                                na_status_t *status);

/* What each run has in a table, as columns after the view's own; na_table_runs makes a row of every
 * run that could be read, with its number as tag: `own` fills the view's columns, then come these,
 * from column `first` on. */
#define NA_RUN_COLUMNS                                                                             \
    {"duration_ms", "time", NA_KIND_MS, NULL}, {"peak_bytes", "peak", NA_KIND_BYTES, "peak"},      \
        {"live_bytes", "live last", NA_KIND_BYTES, "live"},                                        \
        {"total_bytes", "total", NA_KIND_BYTES, "total"},                                          \
        {"allocations", "allocations", NA_KIND_COUNT, "count"},                                    \
        {"physical", "resident", NA_KIND_BYTES, NULL}, {                                           \
        "file", "file", NA_KIND_TEXT, NULL                                                         \
    }
/* Processes, each from its oldest dump to its newest, and then its own profile: order[0 .. result)
 * are the runs that can be read. `order` has room for all. */
size_t na_runs_by_process(const na_recorded_run_t *runs, size_t count, size_t *order);

/* Of those, the newest of each process; what is left comes first. */
size_t na_runs_newest(const na_recorded_run_t *runs, size_t count, size_t *order);

/* Sets `part` of the profiles that can be read: NA_PART_EARLIER of dumps (their names end with a
 * number) of which there is a later profile of the same process, NA_PART_COUNTS of the others.
 * `text`: what there is, as "12 dumps of one process" or "3 profiles". How many dumps there are. */
size_t na_runs_mark_dumps(na_recorded_run_t *runs, size_t count, char text[96]);

void na_table_runs(na_table_t *table, size_t first, const na_recorded_run_t *runs, size_t count,
                   void (*own)(na_table_t *table, const na_recorded_run_t *run,
                               const na_recorded_run_t *runs));

#endif
