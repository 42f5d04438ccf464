/* jobs.h - which of several profiles are the ranks of which job, and what the others are.
 *
 * A job is a name and a number of ranks (as the launcher said); what shares both is one job. Of a
 * rank's files one counts: that of the process which is the rank. Others carry the same rank in
 * their environment: the shell and the command of a system() call, children that were forked, a
 * shell or numactl that started the rank. They are left out, and named. Where no file has a rank
 * there is one job of them all. Of a process's dumps only the newest counts. */
#ifndef NUMALLOC_PROFILER_DUMP_RUNS_JOBS_H
#define NUMALLOC_PROFILER_DUMP_RUNS_JOBS_H

#include "profiler/dump/runs/runs.h"

typedef struct na_job {
    const char *name;  /* belongs to a run; "": not known */
    uint32_t size;     /* ranks; 0: not known */
    size_t ranks;      /* that are there */
    bool has_ranks;    /* false: files of no job */
    bool by_request;   /* NUMALLOC_PROFILE_RANKS chose some of them */
    char missing[128]; /* "2, 5-7"; "": none */
    char twice[128];   /* ranks that are there in two runs; "": none */
} na_job_t;

typedef struct na_jobs {
    na_job_t *items;
    size_t count;
} na_jobs_t;

/* Sets `part` and `job` of every run. False: out of memory. Free in both cases. */
bool na_jobs_find(na_recorded_run_t *runs, size_t count, na_jobs_t *jobs);
void na_jobs_free(na_jobs_t *jobs);

/* "child of a rank", and so on; NULL: it counts. */
const char *na_part_name(na_job_part_t part);
/* "child of rank 3", of a run that does not count. */
void na_part_text(const na_recorded_run_t *run, char *text, size_t size);

#endif
