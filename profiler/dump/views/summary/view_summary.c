/* view_summary.c - the view that a bare `numalloc-dump FILE` shows: the run, what was lost, and
 * where the memory came from (view_tables.c). */
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "profiler/analyze/accesses/verdict.h"
#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/profile/python_missing.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/free_lists.h"
#include "profiler/dump/views/summary/summary.h"
#include "profiler/dump/views/views.h"
#include "profiler/format/reader/reader_access.h"
#include "profiler/format/reader/reader_python.h"

static void print_run(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    char a[NA_TEXT], b[NA_TEXT];
    printf("program      ");
    na_text_put(stdout, h->command[0] != 0 ? h->command : h->program);
    if (h->pid != 0)
        printf("\nprocess      %d (parent %d) on ", h->pid, h->ppid);
    else
        printf("\nprocess      many, on ");
    na_text_put(stdout, h->host[0] != 0 ? h->host : "?");
    if (h->mpi_rank >= 0) printf(", rank %d", h->mpi_rank);
    if (h->mpi_rank >= 0 && h->mpi_size != 0) printf(" of %u", h->mpi_size);
    if (h->inherited_pid != 0) printf(", forked from profiled process %d", h->inherited_pid);
    if (h->mode == NA_NPROF_MODE_SAMPLE)
        printf("\nmode         sample: one block for every %s, on average; figures are estimates",
               na_text_bytes(a, (double)h->sample_interval));
    else
        printf("\nmode         %s: every allocation and free is counted", na_mode_name(h->mode));

    if (h->other_malloc[0] != 0) {
        printf("\nmalloc       that of ");
        na_text_put(stdout, h->other_malloc);
        printf(", not numalloc's: its blocks are not in here");
    }

    time_t start = (time_t)(h->start_unix_ns / 1000000000u);
    struct tm tm;
    char when[64] = "?";
    if (gmtime_r(&start, &tm) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &tm);
    bool late = na_begun_late(in->reader);
    printf("\n%s began %s%s, %s, %s\n", late ? "profile     " : "run         ", when,
           late ? ", after the process" : "", na_text_ms(a, h->last_ms), na_view_moment(in)->ended);

    if (h->processes != 0) {
        printf("processes    %s, which ran for", na_text_count(a, (double)h->processes));
        printf(" %s in all\n", na_text_ms(a, h->together_ms));
    }
    uint32_t most = na_threads_peak(in->reader);
    uint64_t count = na_reader_threads_seen(in->reader);
    printf("threads      %s", na_text_count(a, (double)count));
    if (count > 1 || most > 1)
        printf(" that allocated or freed; at most %s were seen at one time",
               na_text_count(b, most));
    putchar('\n');
}

/* Of all accesses that were sampled, the share that went to another node's memory; nothing where
 * none was. */
static na_status_t print_accesses(const na_view_input_t *in) {
    if (na_reader_entries(in->reader, NA_NPROF_ACCESS_SAMPLES) == 0) return NA_STATUS_WHOLE;
    na_reader_t *reader = in->reader;
    na_flows_t flows = {0};
    na_verdicts_t verdicts = {0};
    bool good = na_flows_read(&reader, 1, &flows) &&
                (flows.count == 0 || na_verdicts_make(&flows, &verdicts));
    if (good && flows.count != 0 && verdicts.remote == verdicts.remote) {
        char a[NA_TEXT], share[NA_LABEL];
        const na_nprof_access_source_t *source = &flows.sources[verdicts.source].of;
        printf("accesses     %s of %s sampled ones went to another node's memory "
               "(numalloc-dump verdicts)\n",
               na_access_share(source, verdicts.remote, share), na_text_count(a, verdicts.samples));
    }
    na_verdicts_free(&verdicts);
    na_flows_free(&flows);
    return good ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
}

/* Who sampled accesses, and what was against the others. */
static na_status_t print_sources(const na_view_input_t *in) {
    if (na_reader_entries(in->reader, NA_NPROF_ACCESS_SOURCES) == 0) return NA_STATUS_WHOLE;
    na_access_t access;
    if (!na_access_load(in->reader, &access)) return NA_STATUS_MEMORY;
    const char *used = NULL, *last = NULL;
    bool any = false;
    for (uint32_t i = 1; i < access.source_count; i++) {
        const na_nprof_access_source_t *s = &access.sources[i];
        any |= s->source != 0;
        if (s->source != 0 && (s->flags & NA_NPROF_ACCESS_USED) != 0)
            used = na_access_source_name(s->source);
    }
    if (any) printf("sampled by   %s", used != NULL ? used : "nothing");
    for (uint32_t i = 1; i < access.source_count; i++) {
        const na_nprof_access_source_t *s = &access.sources[i];
        if (s->source == 0 || (s->flags & NA_NPROF_ACCESS_USED) != 0) continue;
        if (last != NULL && strcmp(last, s->why) == 0)
            continue; /* of a forked child, all the same */
        printf("; %s: ", na_access_source_name(s->source));
        na_text_put(stdout, s->why);
        last = s->why;
    }
    if (any) putchar('\n');
    na_access_free(&access);
    return NA_STATUS_WHOLE;
}

/* CPython's own allocator takes arenas of the system's, not of malloc's. */
static bool has_pymalloc(const na_view_input_t *in) {
    return !na_view_environment_has(in, "PYTHONMALLOC=malloc");
}

static void put_python(const na_view_input_t *in) {
    const na_nprof_python_t *python = na_reader_python(in->reader);
    char why[NA_PYTHON_WHY];
    if (na_view_python_missing(in, why)) printf("\nPython       %s", why);
    if (python == NULL) return;
    printf("\nPython       %u.%u", python->version >> 8, python->version & 255);
    if (has_pymalloc(in))
        printf("; its objects of up to 512 B are not seen: numalloc-run --python has them");
    uint64_t left = python->unreadable + python->deep + python->finalizing + python->lost;
    if (left != 0) {
        char text[NA_TEXT];
        printf("; %s times frames could not be read", na_text_count(text, (double)left));
    }
    if (python->other_seen != 0) {
        char text[NA_TEXT];
        printf("; " NA_NPROF_PY_OTHER_NAME
               " stands for code that is made again and again (met %s times)",
               na_text_count(text, (double)python->other_seen));
    }
}

static void print_totals(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_counters_t *t = &in->sites.total;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
    double allocs = na_view_count(in, (double)t->alloc_count);
    double frees = na_view_count(in, (double)t->free_count);
    double peak = (double)t->peak_bytes;

    printf("peak         %s in %s, %s after the start", na_text_bytes(a, peak),
           na_text_counted(b, na_view_count(in, (double)t->peak_count), "block"),
           na_text_ms(c, na_view_peak_ms(in)));
    double error = na_counters_error(t, t->peak_count, h->count_scale);
    if (h->mode == NA_NPROF_MODE_SAMPLE && error > 0 && isfinite(error))
        printf(" (an estimate, give or take %.0f %%)", 100 * error);
    /* A trace has every event, so its peak is exact; a sample is far from where this matters. */
    if (h->mode == NA_NPROF_MODE_SITES && h->publish_quantum != 0)
        printf(" (known to within %s a thread)", na_text_bytes(a, (double)h->publish_quantum));
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    if (point != NULL)
        printf("\nphysical     %s of the process near the peak, its code and stacks included",
               na_text_bytes(a, (double)point->physical));
    if (point != NULL && point->mapped != 0)
        printf("; %s mapped by the allocator for blocks", na_text_bytes(a, (double)point->mapped));
    char mappers[4 * NA_LABEL];
    double mapped;
    if (na_view_mappers(in, mappers, sizeof mappers, &mapped)) {
        printf("\nmapped       %s by the program itself, from first to last: ",
               na_text_bytes(a, mapped));
        na_text_put(stdout, mappers);
    }
    printf("\n%-13s%s in %s", na_view_moment(in)->live, na_text_bytes(a, (double)t->live_bytes),
           na_text_counted(b, na_view_count(in, (double)t->live_count), "block"));
    if (t->live_bytes > 0 && peak > 0)
        printf(", %.0f %% of the peak%s", 100 * (double)t->live_bytes / peak,
               na_reader_moment(in->reader) == NA_MOMENT_END ? " (numalloc-dump leaks)" : "");

    printf("\nallocated    %s in all", na_text_bytes(a, (double)t->alloc_bytes));
    if (peak > 0) printf(", %.1f times the peak", (double)t->alloc_bytes / peak);
    if (allocs > 0 && t->size_max >= t->size_min)
        printf("; blocks of %s to %s, mean %s", na_text_bytes(a, (double)t->size_min),
               na_text_bytes(b, (double)t->size_max),
               na_text_bytes(c, (double)t->alloc_bytes / allocs));
    if (t->alloc_bytes > 0)
        printf("\nwaste        %.1f %% more is handed out than was asked for (rounding up)",
               100 * ((double)t->alloc_usable / (double)t->alloc_bytes - 1));
    printf("\ncalls        %s (%s by realloc), %s", na_text_counted(a, allocs, "allocation"),
           na_text_count(b, na_view_count(in, (double)t->realloc_count)),
           na_text_counted(c, frees, "free"));
    if (t->cross_thread_free_count != 0 && frees > 0)
        printf(" (%.1f %% by another thread, %.1f %% on another node)",
               100 * na_view_count(in, (double)t->cross_thread_free_count) / frees,
               100 * na_view_count(in, (double)t->cross_node_free_count) / frees);
    if (t->alloc_count > 0)
        printf("\ntemporary    %.1f %% of the blocks: freed before their thread allocated again",
               100 * (double)t->temporary_count / (double)t->alloc_count);
    if (in->sites.depth_max != 0)
        printf("\nstacks       %.1f frames on average, %s at most", in->sites.depth_mean,
               na_text_count(a, in->sites.depth_max));
    put_python(in);
    bool seen;
    double own = na_view_own(in, &seen);
    printf("\nown memory   %s for the profile itself%s, in none of these figures\n",
           na_text_bytes(a, own), seen ? " near the peak, blocks' records included" : "");
}

size_t na_view_lost(const na_view_input_t *in, na_lost_t lost[NA_LOST_MAX]) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_lost_t all[NA_LOST_MAX] = {
        {h->lost_events, "events found no counter"},
        {h->lost_stacks, "stacks found no room: their outer part stands for them"},
        {h->truncated_stacks, "events have a stack that could not be walked to its end"},
        {h->merged_events, "events were charged to an outer part of their stack"},
        {h->lost_threads, "threads are not listed"},
        {h->lost_modules, "modules are not listed"},
        {h->before_frees, "frees of blocks from before the profile began"},
    };
    size_t count = 0;
    for (size_t i = 0; i < NA_LOST_MAX; i++)
        if (all[i].count != 0) lost[count++] = all[i];
    return count;
}

static void print_lost(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const char *no_room = na_view_no_room(in);
    na_lost_t lost[NA_LOST_MAX];
    size_t count = na_view_lost(in, lost);
    bool any = false;
    char a[NA_TEXT];
    for (size_t i = 0; i < count; i++) {
        printf("%s%s %s\n", any ? "             " : "not seen     ",
               na_text_count(a, (double)lost[i].count), lost[i].what);
        any = true;
    }
    if (no_room != NULL) {
        printf("%s%s\n", any ? "             " : "not seen     ", no_room);
        any = true;
    }
    if (!any)
        printf("not seen     nothing: %s\n", h->mode == NA_NPROF_MODE_SAMPLE
                                                 ? "every block that was drawn is in the figures"
                                                 : "every event is in the figures");
}

static na_status_t show_summary(na_view_input_t *in) {
    if (in->options->table.format == NA_FORMAT_JSON) {
        na_view_summary_json(in);
        return NA_STATUS_WHOLE;
    }
    if (in->options->table.format == NA_FORMAT_CSV)
        return in->options->frames.sites ? na_view_site_table(in, in->options->frames.stacks)
                                         : na_view_function_table(in, false);
    print_run(in);
    print_totals(in);
    na_status_t status = print_sources(in);
    if (status == NA_STATUS_WHOLE) status = print_accesses(in);
    if (status != NA_STATUS_WHOLE) return status;
    print_lost(in);
    putchar('\n');
    if (na_warnings_list(in) != 0) putchar('\n');
    na_view_draw_timeline(in, 64, 8);
    if (in->options->frames.sites) {
        status = na_view_site_table(in, in->options->frames.stacks);
    } else {
        status = na_view_function_table(in, false);
        putchar('\n');
        if (status == NA_STATUS_WHOLE) status = na_view_function_table(in, true);
    }
    na_view_say_free_lists(in);
    na_view_say_missing(in);
    na_view_say_lacking(in);
    return status;
}

const na_view_t na_view_row_summary = {
    .name = "summary",
    .words = "FILE",
    .help = "the run, and the functions that its memory came from (default)",
    .more =
        "--json writes functions and sites, with --stacks their stacks; --csv the functions, or\n"
        "the sites. --filter chooses functions and sites; what is said of the run stays as it is.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ORDERS,
    .takes = NA_TAKES_TABLE | NA_TAKES(FUNCTIONS) | NA_TAKES(SITES) | NA_TAKES(STACKS) |
             NA_TAKES(WRAPPERS) | NA_TAKES(ADDRESSES),
    .show = show_summary,
};
