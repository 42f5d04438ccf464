/* fleet_growth.c - aggregate --leaks: sites whose live bytes grow steadily from dump to dump of
 * their process (trend.h), put together over processes.
 *
 * The dumps of one process are read one after the other, and only its series are kept: for each
 * site one figure a dump. Another process of the same service, or the same one restarted, has its
 * own series; nothing is joined over a restart. The process's own profile is no point of a series:
 * of a process that ended it is of a moment after its destructors. What it has is shown beside. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/dump/fleet/fleet.h"
#include "profiler/dump/fleet/trend.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/profile/suppress.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/runs/figure_limits.h"
#include "profiler/dump/runs/labels.h"
#include "profiler/dump/runs/merge.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/text.h"

#define MS_PER_HOUR 3.6e6

/* What --fail-if knows, in the order of `measured` below. */
static const na_figure_t growth_figures[] = {
    {"growing", false, "sites that grow steadily"},
    {"growth", true, "bytes an hour that they grow by"},
};
#define FIGURES (sizeof growth_figures / sizeof growth_figures[0])

/* One site of the process that is being read. */
typedef struct series {
    uint32_t stack;
    na_growth_point_t *points; /* of the dumps up to the last that has the site */
    uint32_t count, room;
    double last; /* what the process's own profile has */
} series_t;

/* What grows: a site of the processes of one set of labels. */
typedef struct grown {
    uint32_t stack, set;
    double slope, low, high, live;
    double last;     /* NaN: of none of the processes there is a profile of its own */
    double since_ms; /* Unix time, of the first process */
    uint32_t processes;
} grown_t;

typedef struct fleet {
    na_recorded_run_t *runs;
    const na_options_t *options;
    na_merge_sums_t sums;
    const na_recorded_run_t *process; /* the dump read last; NULL: none */
    double *times;                    /* of the process's dumps so far */
    uint32_t dumps, times_room;
    series_t *series;
    uint32_t series_count, series_room;
    na_index_t by_stack;
    grown_t *grown;
    uint32_t grown_count, grown_room;
    na_index_t by_site;
    na_label_sets_t sets;
    uint32_t *tested; /* by set: processes with dumps enough */
    uint32_t tested_room, tested_all, too_few;
    bool has_last; /* the process's own profile was read */
    double longest_ms;
    na_limit_t limits[NA_MAX_REPEATED];
    na_suppressions_t suppressions;
} fleet_t;

/* Points of the dumps that lack the site, up to the one before `dumps`. */
static bool pad(fleet_t *f, series_t *s, uint32_t dumps) {
    if (!NA_ARRAY_RESERVE(s->points, s->room, dumps)) return false;
    for (; s->count < dumps; s->count++)
        s->points[s->count] = (na_growth_point_t){.time = f->times[s->count]};
    return true;
}

static grown_t *grown_of(fleet_t *f, uint32_t stack, uint32_t set) {
    uint64_t hash = na_hash_number(na_hash_number(NA_HASH_BEGIN, stack), set);
    na_probe_t probe = na_index_probe(&f->by_site, hash);
    while (na_index_next(&f->by_site, &probe))
        if (f->grown[probe.number].stack == stack && f->grown[probe.number].set == set)
            return &f->grown[probe.number];
    if (!NA_ARRAY_RESERVE(f->grown, f->grown_room, f->grown_count + 1u) ||
        !na_index_add(&f->by_site, hash, f->grown_count))
        return NULL;
    f->grown[f->grown_count] =
        (grown_t){.stack = stack, .set = set, .since_ms = INFINITY, .last = NAN};
    return &f->grown[f->grown_count++];
}

/* All dumps of the process have been read: judges its series and forgets them. */
static bool end_process(fleet_t *f) {
    bool good = true;
    if (f->process != NULL && f->dumps >= NA_GROWTH_LEAST) {
        char set[NA_LABELS];
        const char *by = f->options->fleet.by != NULL ? f->options->fleet.by : "service,version";
        na_labels_of(f->process, f->options, by, set);
        uint32_t id = na_label_sets_add(&f->sets, set), had = f->tested_room;
        good = id != UINT32_MAX && NA_ARRAY_RESERVE(f->tested, f->tested_room, id + 1u);
        for (; good && had < f->tested_room; had++)
            f->tested[had] = 0;
        if (good) f->tested[id]++;
        f->tested_all++;
        double span = f->times[f->dumps - 1] - f->times[0];
        if (span > f->longest_ms) f->longest_ms = span;
        for (uint32_t i = 0; good && i < f->series_count; i++) {
            series_t *s = &f->series[i];
            if (!pad(f, s, f->dumps)) good = false;
            if (!good) break;
            na_growth_t g = na_growth_of(s->points, s->count);
            if (!g.grows) continue;
            grown_t *to = grown_of(f, s->stack, id);
            good = to != NULL;
            if (!good) break;
            to->slope += g.slope * MS_PER_HOUR;
            to->low += g.low * MS_PER_HOUR;
            to->high += g.high * MS_PER_HOUR;
            to->live += s->points[s->count - 1].value;
            if (f->has_last) to->last = isnan(to->last) ? s->last : to->last + s->last;
            to->processes++;
            double since = (double)f->process->start_unix_ns / 1e6 + g.since;
            if (since < to->since_ms) to->since_ms = since;
        }
    }
    for (uint32_t i = 0; i < f->series_count; i++)
        free(f->series[i].points);
    f->series_count = f->dumps = 0;
    f->has_last = false;
    na_index_free(&f->by_stack);
    return good;
}

static series_t *stack_series(fleet_t *f, uint32_t stack) {
    uint64_t hash = na_hash_number(NA_HASH_BEGIN, stack);
    na_probe_t probe = na_index_probe(&f->by_stack, hash);
    while (na_index_next(&f->by_stack, &probe))
        if (f->series[probe.number].stack == stack) return &f->series[probe.number];
    if (!NA_ARRAY_RESERVE(f->series, f->series_room, f->series_count + 1u) ||
        !na_index_add(&f->by_stack, hash, f->series_count))
        return NULL;
    f->series[f->series_count] = (series_t){.stack = stack};
    return &f->series[f->series_count++];
}

static bool add_last(fleet_t *f, const na_merge_file_t *file) {
    f->has_last = true;
    for (size_t i = 0; i < file->count; i++) {
        series_t *s = stack_series(f, file->stacks[i]);
        if (s == NULL) return false;
        s->last += (double)file->sites[i].sum.live_bytes;
    }
    return true;
}

static bool add_dump(void *arg, const na_merge_file_t *file) {
    fleet_t *f = arg;
    const na_recorded_run_t *run = &f->runs[file->run];
    if (f->process != NULL && !na_runs_same_process(f->process, run) && !end_process(f))
        return false;
    f->process = run;
    if (!na_merge_add(&f->sums, file)) return false;
    if (run->dump == 0) return add_last(f, file);
    if (!NA_ARRAY_RESERVE(f->times, f->times_room, f->dumps + 1u)) return false;
    f->times[f->dumps++] = (double)run->duration_ms;
    for (size_t i = 0; i < file->count; i++) {
        const na_counters_t *sum = &file->sites[i].sum;
        series_t *s = stack_series(f, file->stacks[i]);
        if (s == NULL || !pad(f, s, f->dumps)) return false;
        /* Stacks of a file that the merge does not tell apart add up. */
        na_growth_point_t *p = &s->points[f->dumps - 1];
        p->value += (double)sum->live_bytes;
        double variance = sum->var_alloc_bytes - sum->var_free_bytes;
        if (variance > 0 && file->header->mode == NA_NPROF_MODE_SAMPLE) p->variance += variance;
    }
    return true;
}

enum {
    SLOPE,
    LOW,
    HIGH,
    PROCESSES,
    OF,
    SHARE,
    LIVE,
    LAST,
    SINCE,
    SINCE_MS,
    LABELS,
    LABEL,
    FUNCTION,
    FILE_NAME,
    LINE,
    MODULE,
    SITE
};
static const na_column_t growth_columns[] = {
    {"bytes_per_hour", "an hour", NA_KIND_BYTES, NULL},
    {"bytes_per_hour_low", "at least", NA_KIND_BYTES, NULL},
    {"bytes_per_hour_high", "at most", NA_KIND_BYTES, NULL},
    {"processes", NULL, NA_KIND_COUNT, NULL},
    {"processes_tested", NULL, NA_KIND_COUNT, NULL},
    {NULL, "processes", NA_KIND_TEXT, NULL},
    {"live_bytes", "last dump", NA_KIND_BYTES, "live"},
    {"last_bytes", "last profile", NA_KIND_BYTES, NULL},
    {"since", "since (UTC)", NA_KIND_TEXT, NULL},
    {"since_unix_ms", NULL, NA_KIND_NUMBER, NULL},
    {"labels", "labels", NA_KIND_TEXT, NULL},
    {NULL, "site", NA_KIND_TEXT, NULL},
    {"function", NULL, NA_KIND_TEXT, NULL},
    {"source_file", NULL, NA_KIND_TEXT, NULL},
    {"line", NULL, NA_KIND_NUMBER, NULL},
    {"module", NULL, NA_KIND_TEXT, NULL},
    {"site", NULL, NA_KIND_NUMBER, NULL},
};
const na_columns_t na_fleet_growth_table = NA_COLUMNS(growth_columns);

static void put_job_labels(na_table_t *table, const char *set) {
    char text[NA_LABELS];
    memcpy(text, set, strlen(set) + 1);
    na_labels_in_line(text);
    na_table_text(table, LABELS, text);
}

static void put_grown_row(na_table_t *table, const fleet_t *f, const grown_t *g,
                          const na_view_input_t *in) {
    na_table_row(table, g->stack);
    na_table_number(table, SLOPE, g->slope);
    na_table_number(table, LOW, g->low);
    na_table_number(table, HIGH, g->high);
    na_table_number(table, PROCESSES, g->processes);
    na_table_number(table, OF, f->tested[g->set]);
    na_table_format(table, SHARE, "%u of %u", g->processes, f->tested[g->set]);
    na_table_number(table, LIVE, g->live);
    na_table_number(table, LAST, g->last);
    time_t since = (time_t)(g->since_ms / 1000);
    struct tm parts;
    char when[32] = "?";
    if (gmtime_r(&since, &parts) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S", &parts);
    na_table_text(table, SINCE, when);
    na_table_number(table, SINCE_MS, g->since_ms);
    put_job_labels(table, f->sets.items[g->set]);
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, g->stack, &leaf);
    char label[NA_LABEL] = "(no stack)";
    if (frame != NULL) na_view_frame_label(frame, label);
    char by[61];
    if (leaf != NULL) na_demangle_short(leaf->function, 40, by, sizeof by);
    if (leaf != NULL)
        na_table_format(table, LABEL, "%s  by %s", label, by);
    else
        na_table_text(table, LABEL, label);
    na_table_number(table, SITE, g->stack);
    if (frame == NULL) return;
    na_table_text(table, FUNCTION, frame->function);
    na_table_text(table, FILE_NAME, frame->file);
    if (frame->line != 0) na_table_number(table, LINE, frame->line);
    na_table_text(table, MODULE, frame->module);
}

/* Leaves only what no suppression matches. False: out of memory. */
static bool suppress(fleet_t *f, const na_view_input_t *in, uint32_t *suppressed) {
    na_stack_t stack = {0};
    uint32_t kept = 0, all = f->grown_count;
    bool good = true;
    for (uint32_t i = 0; i < all && good; i++) {
        na_site_t site = {.site = f->grown[i].stack};
        good = na_view_stack(in, site.site, &stack);
        if (good && !na_suppressed(&f->suppressions, in, &site, &stack))
            f->grown[kept++] = f->grown[i];
    }
    free(stack.items);
    f->grown_count = kept;
    *suppressed = all - kept;
    return good;
}

/* True: a limit of --fail-if is passed, and lines say so. */
static bool fails(const fleet_t *f) {
    na_measured_t sum = {0};
    for (uint32_t i = 0; i < f->grown_count; i++) {
        sum.value += f->grown[i].slope;
        sum.low += f->grown[i].low;
        sum.high += f->grown[i].high;
    }
    double count = f->grown_count;
    const na_measured_t measured[FIGURES] = {{count, count, count}, sum};
    bool text = f->options->table.format == NA_FORMAT_TEXT, failed = false;
    for (size_t i = 0; i < f->options->check.fail_if.count; i++) {
        if (text && i == 0) putchar('\n');
        failed |= na_limit_fails(&f->limits[i], growth_figures, measured, text ? stdout : stderr);
    }
    return failed;
}

/* What is judged. What is not is said in every format: a gate must not pass for want of dumps. */
static void say_judged(const fleet_t *f) {
    bool text = f->options->table.format == NA_FORMAT_TEXT;
    char span[NA_TEXT];
    if (text)
        printf("%u process%s judged, over up to %s, by dumps alone: those with %u or more.\n",
               f->tested_all, f->tested_all == 1 ? "" : "es",
               na_text_ms(span, (uint64_t)f->longest_ms), NA_GROWTH_LEAST);
    if (f->too_few != 0)
        fprintf(text ? stdout : stderr, "%u process%s not judged: too few dumps.\n", f->too_few,
                f->too_few == 1 ? "" : "es");
}

static na_status_t put_growth_table(fleet_t *f, na_merge_t *merge) {
    char path[32];
    na_view_input_t in;
    na_options_t own = *f->options;
    own.table.sort = NULL;
    int fd = na_merge_in_memory(merge, &f->sums, path);
    if (fd < 0) return NA_STATUS_MEMORY;
    na_status_t status = na_view_load(&in, path, &own, false);
    if (status != NA_STATUS_WHOLE) {
        close(fd);
        return status;
    }
    uint32_t suppressed;
    na_table_t *table = na_table_open(&na_fleet_growth_table);
    status = NA_STATUS_MEMORY;
    if (table != NULL && suppress(f, &in, &suppressed)) {
        for (uint32_t i = 0; i < f->grown_count; i++)
            put_grown_row(table, f, &f->grown[i], &in);
        say_judged(f);
        if (f->options->table.format == NA_FORMAT_TEXT && suppressed != 0)
            printf("%u growing site%s left out by suppressions.\n", suppressed,
                   suppressed == 1 ? "" : "s");
        if (f->options->table.format == NA_FORMAT_TEXT) putchar('\n');
        const na_table_print_t print = {
            .view = "aggregate",
            .title = "Sites that grow steadily, by bytes an hour (%s)",
            .empty = "Nothing grows steadily.",
            .sort = "bytes_per_hour",
            .below = f->options->frames.stacks ? na_view_put_stack : NULL,
            .members = f->options->frames.stacks ? na_view_json_stack : NULL,
            .arg = &in,
        };
        status = na_table_write(table, f->options, &print);
        if (status == NA_STATUS_WHOLE && fails(f)) status = NA_STATUS_PARTIAL;
    }
    na_table_close(table);
    na_view_drop(&in);
    close(fd);
    return status;
}

/* Only processes with dumps enough stay in `order`, each with its dumps, of each moment one, and
 * then its own profile. `too_few`: the others. */
static size_t with_dumps(const na_recorded_run_t *runs, size_t *order, size_t count,
                         uint32_t *too_few) {
    size_t kept = 0;
    for (size_t i = 0, n; i < count; i += n) {
        const na_recorded_run_t *last = NULL; /* that was kept */
        size_t from = kept, dumps = 0;
        for (n = 0; i + n < count; n++) {
            const na_recorded_run_t *run = &runs[order[i + n]];
            if (!na_runs_same_process(&runs[order[i]], run)) break;
            bool again = last != NULL && (last->dump == 0) == (run->dump == 0) &&
                         last->duration_ms == run->duration_ms;
            if (again) continue;
            last = run;
            dumps += run->dump != 0;
            order[kept++] = order[i + n];
        }
        if (dumps >= NA_GROWTH_LEAST) continue;
        kept = from;
        ++*too_few;
    }
    return kept;
}

na_status_t na_fleet_growth(na_recorded_run_t *runs, size_t count, const na_options_t *options,
                            na_status_t status) {
    fleet_t f = {.runs = runs, .options = options};
    for (size_t i = 0; i < options->check.fail_if.count; i++)
        if (!na_limit_read(&f.limits[i], options->check.fail_if.items[i], growth_figures, FIGURES))
            return NA_STATUS_NOTHING;
    na_status_t read = na_suppressions_read(&f.suppressions, options);
    if (read != NA_STATUS_WHOLE) return read;
    size_t *order = calloc(count + 1, sizeof *order);
    na_merge_t *merge = na_merge_open();
    na_status_t shown = NA_STATUS_MEMORY;
    if (order != NULL && merge != NULL) {
        size_t n = with_dumps(runs, order, na_runs_by_process(runs, count, order), &f.too_few);
        if (n == 0)
            shown = na_fail("too few dumps: no process has %u or more, so nothing can be judged; "
                            "NUMALLOC_PROFILE_DUMP_EVERY=10s makes them",
                            NA_GROWTH_LEAST);
        else if (na_merge_read(merge, runs, order, n, add_dump, &f, &status) && end_process(&f))
            shown = put_growth_table(&f, merge);
        if (shown == NA_STATUS_WHOLE) shown = status;
    }
    (void)end_process(&f);
    na_merge_close(merge);
    na_label_sets_free(&f.sets);
    na_suppressions_free(&f.suppressions);
    na_index_free(&f.by_site);
    free(f.sums.items);
    free(f.times);
    free(f.series);
    free(f.grown);
    free(f.tested);
    free(order);
    return shown;
}
