/* runs.c - reads profiles in parallel through the library's own API. See runs.h. */
#include "profiler/dump/runs/runs.h"

#include <math.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/dump/runs/labels.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/format/process_info.h"

#define MOST_THREADS 64

typedef struct work {
    na_recorded_run_t *runs;
    size_t count;
    atomic_size_t next;
} work_t;

static void copy_cut(char *to, size_t size, const char *from) {
    snprintf(to, size, "%s", from);
}

static void read_timeline(numalloc_profile_t *p, na_recorded_run_t *run) {
    uint32_t interval = 1;
    size_t count = numalloc_profile_points(p, &interval);
    double last = 0;
    run->physical = NAN;
    for (size_t i = 0; i < count; i++) {
        numalloc_profile_point_t point;
        if (numalloc_profile_point(p, i, &point, sizeof point) != 0) break;
        if (isnan(run->physical) || point.physical > run->physical) run->physical = point.physical;
        if (!isnan(point.requested_max)) last = point.requested_max;
        /* A point covers all steps that its part of the run touches. */
        size_t from = i * NA_RUN_STEPS / count, to = ((i + 1) * NA_RUN_STEPS - 1) / count;
        for (size_t step = from; step <= to && step < NA_RUN_STEPS; step++)
            if (last > run->step[step]) run->step[step] = last;
    }
}

static void read_labels(numalloc_profile_t *p, na_recorded_run_t *run) {
    static const char only[] = "NUMALLOC_PROFILE_RANKS=";
    static const char labels[] = "NUMALLOC_PROFILE_LABELS=";
    const char *setting;
    for (size_t i = 0; (setting = numalloc_profile_environment(p, i)) != NULL; i++) {
        if (strncmp(setting, only, sizeof only - 1) == 0)
            copy_cut(run->only_ranks, sizeof run->only_ranks, setting + sizeof only - 1);
        if (strncmp(setting, labels, sizeof labels - 1) == 0 && run->labels[0] == 0 &&
            na_labels_valid(setting + sizeof labels - 1))
            copy_cut(run->labels, sizeof run->labels, setting + sizeof labels - 1);
    }
    for (uint32_t i = 1; i <= numalloc_profile_modules(p) && !run->mpi; i++) {
        numalloc_profile_module_t m;
        if (numalloc_profile_module(p, i, &m, sizeof m) != 0) continue;
        const char *slash = strrchr(m.path, '/');
        run->mpi = strncmp(slash != NULL ? slash + 1 : m.path, "libmpi", 6) == 0;
    }
}

/* Servers write there what a process is for. Only if it is the process of this file. */
static void read_title(na_recorded_run_t *run) {
    na_process_maps_t maps;
    struct stat own, its;
    if (!na_process_look(run->pid, &maps) || maps.recording[0] == 0 || stat(run->path, &own) != 0 ||
        stat(maps.recording, &its) != 0 || own.st_ino != its.st_ino || own.st_dev != its.st_dev)
        return;
    char *title = na_process_read(run->pid, "cmdline");
    size_t used = 0;
    for (const char *c = title; c != NULL && (*c != 0 || c[1] != 0); c++)
        if (used + 1 < sizeof run->command) run->command[used++] = *c != 0 ? *c : ' ';
    if (used != 0) run->command[used] = 0;
    free(title);
}

static void read_run(na_recorded_run_t *run) {
    numalloc_profile_t *p = numalloc_profile_open(run->path, run->why, sizeof run->why);
    if (p == NULL) return;
    run->why[0] = 0;
    numalloc_profile_header_t h;
    numalloc_profile_header(p, &h, sizeof h);
    copy_cut(run->program, sizeof run->program, h.program);
    copy_cut(run->command, sizeof run->command, h.command);
    copy_cut(run->host, sizeof run->host, h.host);
    copy_cut(run->job_name, sizeof run->job_name, h.job);
    run->pid = h.pid;
    run->ppid = h.ppid;
    run->inherited_pid = h.inherited_pid;
    run->rank = h.rank;
    run->ranks = h.ranks;
    run->start_unix_ns = h.start_unix_ns;
    read_labels(p, run);
    run->dump = h.dump;
    run->duration_ms = h.duration_ms;
    run->peak_ms = h.peak_ms;
    run->closed = h.closed != 0;
    if (!run->closed) read_title(run);
    run->lost = (double)h.lost_events;
    const struct {
        const char *metric;
        double *to;
    } figures[] = {
        {"peak_bytes", &run->peak},   {"live_bytes", &run->live},
        {"total_bytes", &run->total}, {"allocations", &run->allocations},
        {"frees", &run->frees},       {"temporary", &run->temporary},
    };
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        *figures[i].to = numalloc_profile_total(p, numalloc_profile_metric(p, figures[i].metric));
    read_timeline(p, run);
    char text[256];
    run->damaged = numalloc_profile_damage(p, 0, text, sizeof text) == 0;
    numalloc_profile_close(p);
}

static void *read_runs(void *arg) {
    work_t *work = arg;
    for (size_t i; (i = atomic_fetch_add(&work->next, 1)) < work->count;) {
        na_progress("reading", i, work->count);
        read_run(&work->runs[i]);
    }
    return NULL;
}

na_recorded_run_t *na_runs_read(const char *const *files, size_t count, bool whole,
                                na_status_t *status) {
    work_t work = {.runs = calloc(count, sizeof *work.runs), .count = count};
    if (work.runs == NULL) return NULL;
    for (size_t i = 0; i < count; i++)
        work.runs[i].path = files[i];
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = cpus < 1 ? 1 : (size_t)cpus;
    if (wanted > count) wanted = count;
    pthread_t threads[MOST_THREADS];
    size_t started = 0;
    while (started + 1 < wanted && started < MOST_THREADS &&
           pthread_create(&threads[started], NULL, read_runs, &work) == 0)
        started++;
    read_runs(&work);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);

    size_t bad = 0;
    *status = NA_STATUS_WHOLE;
    for (size_t i = 0; i < count; i++) {
        na_recorded_run_t *run = &work.runs[i];
        if (run->why[0] == 0 && !run->damaged) continue;
        *status = NA_STATUS_PARTIAL;
        if (run->why[0] == 0 && !whole) {
            na_fail("incomplete: %s; numalloc-dump check says more", run->path);
            continue;
        }
        if (run->why[0] == 0)
            snprintf(run->why, sizeof run->why,
                     "left out: %.160s is damaged; numalloc-dump check says more", run->path);
        na_fail("%s", run->why);
        bad++;
    }
    if (bad == count) *status = NA_STATUS_NOTHING;
    return work.runs;
}

static int by_process(const void *a, const void *b, void *arg) {
    const na_recorded_run_t *runs = arg;
    size_t i = *(const size_t *)a, j = *(const size_t *)b;
    const na_recorded_run_t *x = &runs[i], *y = &runs[j];
    int host = strcmp(x->host, y->host);
    if (host != 0) return host;
    if (x->pid != y->pid) return x->pid < y->pid ? -1 : 1;
    if (x->start_unix_ns != y->start_unix_ns) return x->start_unix_ns < y->start_unix_ns ? -1 : 1;
    if ((x->dump == 0) != (y->dump == 0)) return x->dump == 0 ? 1 : -1;
    if (x->duration_ms != y->duration_ms) return x->duration_ms < y->duration_ms ? -1 : 1;
    return (i < j) - (i > j); /* of equal ones the first of the command line is the newest */
}

size_t na_runs_by_process(const na_recorded_run_t *runs, size_t count, size_t *order) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (runs[i].why[0] == 0) order[n++] = i;
    if (n != 0) qsort_r(order, n, sizeof *order, by_process, (void *)(uintptr_t)runs);
    return n;
}

size_t na_runs_newest(const na_recorded_run_t *runs, size_t count, size_t *order) {
    size_t n = 0;
    for (size_t i = 0; i < count; i++)
        if (i + 1 == count || !na_runs_same_process(&runs[order[i]], &runs[order[i + 1]]))
            order[n++] = order[i];
    return n;
}

static bool has_number(const char *path) {
    size_t length = strlen(path), end = length;
    while (end > 0 && path[end - 1] >= '0' && path[end - 1] <= '9')
        end--;
    return end < length && end > 0 && path[end - 1] == '.';
}

size_t na_runs_mark_dumps(na_recorded_run_t *runs, size_t count, char text[96]) {
    size_t *order = calloc(count + 1, sizeof *order), dumps = 0, processes = 0;
    size_t n = order != NULL ? na_runs_by_process(runs, count, order) : 0;
    for (size_t i = 0, end; i < n; i = end) {
        end = i + 1;
        while (end < n && na_runs_same_process(&runs[order[i]], &runs[order[end]]))
            end++;
        processes++;
        for (size_t k = i; k < end; k++) {
            na_recorded_run_t *run = &runs[order[k]];
            bool dump = end - i > 1 && has_number(run->path);
            run->part = dump && k + 1 < end ? NA_PART_EARLIER : NA_PART_COUNTS;
            dumps += dump;
        }
    }
    if (dumps == 0)
        snprintf(text, 96, "%zu profile%s", n, n == 1 ? "" : "s");
    else if (processes == 1)
        snprintf(text, 96, "%zu dump%s of one process", dumps, dumps == 1 ? "" : "s");
    else
        snprintf(text, 96, "%zu processes, %zu dump%s of them", processes, dumps,
                 dumps == 1 ? "" : "s");
    free(order);
    return dumps;
}

void na_table_runs(na_table_t *table, size_t first, const na_recorded_run_t *runs, size_t count,
                   void (*own)(na_table_t *table, const na_recorded_run_t *run,
                               const na_recorded_run_t *runs)) {
    for (size_t i = 0; i < count; i++) {
        const na_recorded_run_t *run = &runs[i];
        if (run->why[0] != 0 || run->part != NA_PART_COUNTS) continue;
        const double values[] = {(double)run->duration_ms, run->peak,    run->live, run->total,
                                 run->allocations,         run->physical};
        na_table_row(table, i);
        own(table, run, runs);
        for (size_t v = 0; v < sizeof values / sizeof values[0]; v++)
            na_table_number(table, first + v, values[v]);
        na_table_text(table, first + sizeof values / sizeof values[0], run->path);
    }
}
