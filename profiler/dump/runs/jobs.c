/* jobs.c - sorts profiles into jobs, and finds the process that is the rank. See jobs.h. */
#include "profiler/dump/runs/jobs.h"

#include "profiler/containers/path.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

void na_part_text(const na_recorded_run_t *run, char *text, size_t size) {
    switch (run->part) {
    case NA_PART_CHILD:
        snprintf(text, size, "child of rank %d", run->rank);
        break;
    case NA_PART_STARTER:
        snprintf(text, size, "starts rank %d", run->rank);
        break;
    case NA_PART_AGAIN:
        snprintf(text, size, "other profile of the process that is rank %d", run->rank);
        break;
    case NA_PART_OTHER_RUN:
        snprintf(text, size, "rank %d of another run of the job", run->rank);
        break;
    case NA_PART_LAUNCHER:
    case NA_PART_NO_RANK:
    case NA_PART_EARLIER:
    case NA_PART_COUNTS:
    default:
        snprintf(text, size, "%s", na_part_name(run->part));
    }
}

const char *na_part_name(na_job_part_t part) {
    static const char *const names[] = {
        [NA_PART_COUNTS] = NULL,
        [NA_PART_CHILD] = "child of a rank",
        [NA_PART_STARTER] = "starts a rank",
        [NA_PART_LAUNCHER] = "launcher",
        [NA_PART_NO_RANK] = "no rank",
        [NA_PART_AGAIN] = "other profile of a rank's process",
        [NA_PART_OTHER_RUN] = "rank of another run of the job",
        [NA_PART_EARLIER] = "earlier dump of a process",
    };
    return names[part];
}

static bool is_among_names(const char *program, const char *const *names) {
    const char *name = na_base_name(program);
    for (; *names != NULL; names++)
        if (strcmp(name, *names) == 0) return true;
    return false;
}

/* These may carry a rank, that of the batch script that runs them. */
static bool is_launcher(const na_recorded_run_t *run) {
    static const char *const names[] = {"mpirun",
                                        "mpiexec",
                                        "mpiexec.hydra",
                                        "mpirun.openmpi",
                                        "mpiexec.openmpi",
                                        "orterun",
                                        "orted",
                                        "prte",
                                        "prted",
                                        "prun",
                                        "prterun",
                                        "hydra_pmi_proxy",
                                        "hydra_bstrap_proxy",
                                        "srun",
                                        "slurmstepd",
                                        "aprun",
                                        "jsrun",
                                        "mpirun.mpich",
                                        "mpiexec.mpich",
                                        "pmi_proxy",
                                        "charmrun",
                                        "flux",
                                        "palsd",
                                        "ibrun",
                                        NULL};
    return is_among_names(run->program, names);
}

/* They start a program and are none themselves, if there is another. */
static bool is_starter(const na_recorded_run_t *run) {
    static const char *const names[] = {
        "sh",   "bash", "dash",    "zsh",     "ksh",     "csh",    "tcsh",    "busybox", "env",
        "time", "nice", "numactl", "taskset", "timeout", "stdbuf", "setarch", NULL};
    return is_among_names(run->program, names);
}

/* ---- one rank ---- */

static bool same_process(const na_recorded_run_t *a, const na_recorded_run_t *b) {
    return a->pid == b->pid && strcmp(a->host, b->host) == 0;
}

/* The process among these that started it; NULL: none. */
static const na_recorded_run_t *parent_run(na_recorded_run_t *const *runs, size_t count,
                                           const na_recorded_run_t *run) {
    for (size_t i = 0; i < count; i++)
        if (runs[i]->pid == run->ppid && !same_process(runs[i], run) &&
            strcmp(runs[i]->host, run->host) == 0 && runs[i]->start_unix_ns <= run->start_unix_ns)
            return runs[i];
    return NULL;
}

/* Somebody that still may be the rank is above it. */
static bool has_candidate_above(na_recorded_run_t *const *runs, const bool *candidate, size_t count,
                                const na_recorded_run_t *run) {
    const na_recorded_run_t *above = run;
    for (size_t steps = 0; steps < 64; steps++) { /* whatever files say of each other */
        above = parent_run(runs, count, above);
        if (above == NULL) return false;
        for (size_t i = 0; i < count; i++)
            if (candidate[i] && same_process(runs[i], above)) return true;
    }
    return false;
}

/* Keeps the candidates for which `fits`, if there are any. */
static void prefer(na_recorded_run_t *const *runs, bool *candidate, size_t count,
                   bool (*fits)(const na_recorded_run_t *run)) {
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= candidate[i] && fits(runs[i]);
    for (size_t i = 0; any && i < count; i++)
        candidate[i] &= fits(runs[i]);
}

static bool has_mpi(const na_recorded_run_t *run) {
    return run->mpi;
}

static bool is_no_starter(const na_recorded_run_t *run) {
    return !is_starter(run);
}

/* The process that is the rank; NULL: of its processes, none: all of this job's are MPI programs,
 * and none of these is one. *other_run: there is another that is it, too. `candidate` has room for
 * twice as many. */
static na_recorded_run_t *choose_run(na_recorded_run_t *const *runs, bool *candidate, size_t count,
                                     bool of_mpi, bool *other_run) {
    *other_run = false;
    bool is_mpi = false;
    for (size_t i = 0; i < count; i++) {
        runs[i]->part = NA_PART_CHILD;
        is_mpi |= runs[i]->mpi;
    }
    if (of_mpi && !is_mpi) return NULL;
    for (size_t i = 0; i < count; i++)
        candidate[i] = runs[i]->inherited_pid == 0; /* a forked child is no rank, */
    bool any = false;
    for (size_t i = 0; i < count; i++)
        any |= candidate[i];
    for (size_t i = 0; !any && i < count; i++)
        candidate[i] = true; /* unless there is nothing else */
    prefer(runs, candidate, count, has_mpi);
    prefer(runs, candidate, count, is_no_starter);
    bool *top = candidate + count;
    for (size_t i = 0; i < count; i++)
        top[i] = candidate[i] && !has_candidate_above(runs, candidate, count, runs[i]);
    na_recorded_run_t *own = NULL;
    for (size_t i = 0; i < count; i++) {
        if (!top[i]) continue;
        na_recorded_run_t *run = runs[i];
        bool better = own == NULL || run->total > own->total;
        if (own != NULL && !same_process(own, run) && own->ppid != run->ppid &&
            strcmp(own->program, run->program) == 0) {
            *other_run = true; /* started by two launchers: the later run is taken */
            better = run->start_unix_ns > own->start_unix_ns;
        }
        if (better) own = run;
    }
    for (size_t i = 0; i < count; i++) {
        na_recorded_run_t *run = runs[i];
        run->part = run == own               ? NA_PART_COUNTS
                    : same_process(run, own) ? NA_PART_AGAIN
                    : top[i] && *other_run && strcmp(run->program, own->program) == 0
                        ? NA_PART_OTHER_RUN
                    : is_starter(run) && run->pid == own->ppid ? NA_PART_STARTER
                                                               : NA_PART_CHILD;
    }
    return own;
}

/* ---- lists of ranks ---- */

/* NUMALLOC_PROFILE_RANKS ("0,64-67") has the rank; "" has all. */
static bool is_wanted(const char *ranks, uint32_t rank) {
    if (*ranks == 0) return true;
    while (*ranks != 0) {
        char *end;
        unsigned long first = strtoul(ranks, &end, 10), last = first;
        if (end == ranks) return true; /* not a list: nothing is known */
        if (*end == '-') {
            ranks = end + 1;
            last = strtoul(ranks, &end, 10);
            if (end == ranks) last = UINT32_MAX;
        }
        if (rank >= first && rank <= last) return true;
        ranks = end + (*end != 0);
    }
    return false;
}

/* "2, 5-7", and how many more there are. */
typedef struct list {
    char *text;
    size_t size, used, more;
    uint32_t first, last;
    bool open;
} list_t;

static void close_range(list_t *l) {
    if (!l->open) return;
    l->open = false;
    char item[48];
    int n = snprintf(item, sizeof item, l->first == l->last ? "%s%u" : "%s%u-%u",
                     l->used == 0 ? "" : ", ", l->first, l->last);
    if (l->used + (size_t)n + 24 > l->size) {
        l->more += (size_t)(l->last - l->first) + 1;
        return;
    }
    memcpy(l->text + l->used, item, (size_t)n + 1);
    l->used += (size_t)n;
}

static void add_rank(list_t *l, uint32_t rank) {
    if (l->open && rank == l->last + 1) {
        l->last = rank;
        return;
    }
    close_range(l);
    l->open = true;
    l->first = l->last = rank;
}

static void end_list(list_t *l) {
    close_range(l);
    if (l->more != 0) snprintf(l->text + l->used, l->size - l->used, " and %zu more", l->more);
}

/* ---- jobs ---- */

static int by_rank(const void *a, const void *b) {
    const na_recorded_run_t *x = *(na_recorded_run_t *const *)a,
                            *y = *(na_recorded_run_t *const *)b;
    if (x->job != y->job) return x->job < y->job ? -1 : 1;
    if (x->rank != y->rank) return x->rank < y->rank ? -1 : 1;
    return x->start_unix_ns < y->start_unix_ns ? -1 : x->start_unix_ns > y->start_unix_ns;
}

static size_t job_of(na_jobs_t *jobs, const na_recorded_run_t *run) {
    for (size_t i = 0; i < jobs->count; i++)
        if (jobs->items[i].size == run->ranks && strcmp(jobs->items[i].name, run->job_name) == 0)
            return i;
    jobs->items[jobs->count] =
        (na_job_t){.name = run->job_name, .size = run->ranks, .has_ranks = true};
    return jobs->count++;
}

/* A job's runs, by rank. */
static void take_job(na_job_t *job, na_recorded_run_t *const *runs, size_t count, bool *candidate) {
    list_t missing = {.text = job->missing, .size = sizeof job->missing};
    list_t twice = {.text = job->twice, .size = sizeof job->twice};
    const char *wanted = runs[0]->only_ranks;
    uint32_t next = 0;
    bool of_mpi = false;
    for (size_t i = 0; i < count; i++)
        of_mpi |= runs[i]->mpi;
    for (size_t i = 0, n; i < count; i += n) {
        for (n = 1; i + n < count && runs[i + n]->rank == runs[i]->rank;)
            n++;
        bool other_run;
        if (choose_run(runs + i, candidate, n, of_mpi, &other_run) == NULL) continue;
        uint32_t rank = (uint32_t)runs[i]->rank;
        /* A list that a file made up is not followed to its end. */
        for (; next < rank && rank - next < 1u << 20; next++)
            if (is_wanted(wanted, next)) add_rank(&missing, next);
        next = rank + 1;
        if (other_run) add_rank(&twice, rank);
        job->ranks++;
    }
    for (; next < job->size && job->size - next < 1u << 20; next++)
        if (is_wanted(wanted, next)) add_rank(&missing, next);
    end_list(&missing);
    end_list(&twice);
    job->by_request = *wanted != 0;
}

/* Not started by a launcher, while others of the same batch job were: a command of the batch
 * script, which has the variables of rank 0. */
static bool is_of_script(na_recorded_run_t *const *runs, size_t count,
                         const na_recorded_run_t *run) {
    size_t length = strlen(run->job_name);
    if (length == 0 || strchr(run->job_name, '/') != NULL) return false;
    for (size_t i = 0; i < count; i++)
        if (strncmp(runs[i]->job_name, run->job_name, length) == 0 &&
            runs[i]->job_name[length] == '/')
            return true;
    return false;
}

/* False: out of memory. */
static bool find_newest(na_recorded_run_t *runs, size_t count) {
    size_t *order = calloc(count + 1, sizeof *order);
    if (order == NULL) return false;
    size_t n = na_runs_by_process(runs, count, order);
    for (size_t i = 0; i < n; i++)
        runs[order[i]].part =
            i + 1 < n && na_runs_same_process(&runs[order[i]], &runs[order[i + 1]])
                ? NA_PART_EARLIER
                : NA_PART_COUNTS;
    free(order);
    return true;
}

bool na_jobs_find(na_recorded_run_t *runs, size_t count, na_jobs_t *jobs) {
    *jobs = (na_jobs_t){.items = calloc(count + 1, sizeof *jobs->items)};
    na_recorded_run_t **sorted = calloc(count + 1, sizeof(na_recorded_run_t *));
    bool *candidate = calloc(2 * count + 1, sizeof *candidate);
    bool good =
        jobs->items != NULL && sorted != NULL && candidate != NULL && find_newest(runs, count);
    size_t n = 0;
    for (size_t i = 0; good && i < count; i++) {
        na_recorded_run_t *run = &runs[i];
        if (run->why[0] != 0 || run->part == NA_PART_EARLIER) continue;
        run->part = is_launcher(run) ? NA_PART_LAUNCHER
                    : run->rank < 0  ? NA_PART_NO_RANK
                                     : NA_PART_COUNTS;
        if (run->part == NA_PART_COUNTS) sorted[n++] = run;
    }
    if (good && n == 0) { /* no ranks at all */
        jobs->items[jobs->count++] = (na_job_t){.name = ""};
        for (size_t i = 0; i < count; i++) {
            if (runs[i].part != NA_PART_EARLIER) runs[i].part = NA_PART_COUNTS;
            runs[i].job = 0;
        }
    }
    for (size_t i = 0; i < n; i++)
        if (is_of_script(sorted, n, sorted[i])) sorted[i]->part = NA_PART_NO_RANK;
    size_t ranks = 0;
    for (size_t i = 0; i < n; i++) {
        if (sorted[i]->part != NA_PART_COUNTS) continue;
        sorted[i]->job = job_of(jobs, sorted[i]);
        sorted[ranks++] = sorted[i];
    }
    n = ranks;
    if (n != 0) qsort(sorted, n, sizeof *sorted, by_rank);
    for (size_t i = 0, of_job; i < n; i += of_job) {
        for (of_job = 1; i + of_job < n && sorted[i + of_job]->job == sorted[i]->job;)
            of_job++;
        take_job(&jobs->items[sorted[i]->job], sorted + i, of_job, candidate);
    }
    free(sorted);
    free(candidate);
    return good;
}

void na_jobs_free(na_jobs_t *jobs) {
    free(jobs->items);
}
