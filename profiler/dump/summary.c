/* summary.c - the view that a bare `numalloc-dump FILE` shows: the run, what was lost, and where
 * the memory came from (tables.c). */
#include <math.h>
#include <stdio.h>
#include <time.h>

#include "profiler/dump/text.h"
#include "profiler/dump/views.h"

static void print_run(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    char a[NA_TEXT], b[NA_TEXT];
    printf("program      ");
    na_text_put(stdout, h->command[0] != 0 ? h->command : h->program);
    printf("\nprocess      %d (parent %d) on ", h->pid, h->ppid);
    na_text_put(stdout, h->host[0] != 0 ? h->host : "?");
    if (h->mpi_rank >= 0) printf(", rank %d", h->mpi_rank);
    if (h->mpi_rank >= 0 && h->mpi_size != 0) printf(" of %u", h->mpi_size);
    if (h->inherited_pid != 0) printf(", forked from profiled process %d", h->inherited_pid);
    if (h->mode == NA_NPROF_MODE_SAMPLE)
        printf("\nmode         sample, one in %s on average: figures are estimates",
               na_text_bytes(a, (double)h->sample_interval));
    else
        printf("\nmode         %s, every event", na_mode_name(h->mode));

    time_t start = (time_t)(h->start_unix_ns / 1000000000u);
    struct tm tm;
    char when[64] = "?";
    if (gmtime_r(&start, &tm) != NULL) strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S UTC", &tm);
    printf("\ntime         %s, %s, %s\n", when, na_text_ms(a, h->last_ms),
           h->state == NA_NPROF_CLOSED ? "ended normally" : "not closed: killed, or still running");

    na_thread_table_t threads = na_reader_threads(in->reader);
    uint32_t count = 0, alive = 0;
    for (uint32_t i = 1; i < threads.count; i++) {
        count += threads.items[i].tid != 0;
        alive += threads.items[i].tid != 0 && threads.items[i].end_ms == UINT64_MAX;
    }
    printf("threads      %s", na_text_count(a, count));
    if (alive != count) printf(", %s of them to the end", na_text_count(b, alive));
    putchar('\n');
}

static void print_totals(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_counters_t *t = &in->sites.total;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT], d[NA_TEXT];
    double allocs = na_view_count(in, (double)t->alloc_count);
    double frees = na_view_count(in, (double)t->free_count);
    printf("events       %s allocations (%s by realloc), %s frees", na_text_count(a, allocs),
           na_text_count(b, na_view_count(in, (double)t->realloc_count)), na_text_count(c, frees));
    if (t->cross_thread_free_count != 0 && frees > 0)
        printf(" (%.1f %% by another thread, %.1f %% on another node)",
               100 * na_view_count(in, (double)t->cross_thread_free_count) / frees,
               100 * na_view_count(in, (double)t->cross_node_free_count) / frees);
    if (in->sites.depth_max != 0)
        printf("\nstacks       %.1f frames on average, %s at most", in->sites.depth_mean,
               na_text_count(a, in->sites.depth_max));
    printf("\nrequested    %s in total", na_text_bytes(a, (double)t->alloc_bytes));
    if (allocs > 0 && t->size_max >= t->size_min)
        printf(", blocks of %s to %s, mean %s", na_text_bytes(b, (double)t->size_min),
               na_text_bytes(c, (double)t->size_max),
               na_text_bytes(d, (double)t->alloc_bytes / allocs));
    printf("\n%s%s in %s blocks (%s with rounding up)\n",
           h->state == NA_NPROF_CLOSED ? "live at end  " : "live last    ",
           na_text_bytes(a, (double)t->live_bytes),
           na_text_count(b, na_view_count(in, (double)t->live_count)),
           na_text_bytes(c, (double)t->live_usable));
    printf("peak         %s in %s blocks at %s", na_text_bytes(a, (double)t->peak_bytes),
           na_text_count(b, na_view_count(in, (double)t->peak_count)),
           na_text_ms(c, na_view_peak_ms(in)));
    if (h->publish_quantum != 0)
        printf(" (to within %s a thread)", na_text_bytes(d, (double)h->publish_quantum));
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    if (point != NULL)
        printf("\nphysical     %s near the peak: %.2f times what was requested",
               na_text_bytes(a, (double)point->physical),
               t->peak_bytes > 0 ? (double)point->physical / (double)t->peak_bytes : NAN);
    if (point != NULL && point->mapped != 0)
        printf("\nmapped       %s near the peak by the allocator for blocks",
               na_text_bytes(a, (double)point->mapped));
    printf("\nown memory   %s for the profile itself\n", na_text_bytes(a, (double)h->own_bytes));
}

size_t na_view_lost(const na_view_input_t *in, na_lost_t lost[NA_LOST_MAX]) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_lost_t all[NA_LOST_MAX] = {
        {h->lost_events, "events found no counter"},
        {h->lost_stacks, "stacks found no room: their outer part stands for them"},
        {h->truncated_stacks, "events have a stack that could not be walked to its end"},
        {h->merged_events, "events were charged to an outer part of their stack"},
        {h->lost_threads, "threads have no name"},
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
    na_lost_t lost[NA_LOST_MAX];
    size_t count = na_view_lost(in, lost);
    bool any = false;
    char a[NA_TEXT];
    for (size_t i = 0; i < count; i++) {
        printf("%s%s %s\n", any ? "             " : "not seen     ",
               na_text_count(a, (double)lost[i].count), lost[i].what);
        any = true;
    }
    if (h->disk_full != 0) {
        printf("%sthe profile could not grow: disk full, quota or file size limit\n",
               any ? "             " : "not seen     ");
        any = true;
    }
    if (!any) printf("not seen     nothing: every event is in the figures\n");
}

static void say_missing(void *arg, const char *path, const char *why) {
    bool *first = arg;
    if (*first) printf("\nNo symbols:\n");
    *first = false;
    fputs("  ", stdout);
    na_text_put(stdout, path);
    printf(": %s\n", why);
}

na_status_t na_view_summary(na_view_input_t *in) {
    if (in->options->format == NA_FORMAT_JSON) {
        na_view_summary_json(in);
        return NA_STATUS_WHOLE;
    }
    if (in->options->format == NA_FORMAT_CSV)
        return in->options->sites ? na_view_site_table(in, in->options->stacks)
                                  : na_view_function_table(in, false);
    print_run(in);
    print_totals(in);
    print_lost(in);
    putchar('\n');
    if (na_warnings_list(in) != 0) putchar('\n');
    na_view_draw_timeline(in, 64, 8);
    na_status_t status;
    if (in->options->sites) {
        status = na_view_site_table(in, in->options->stacks);
    } else {
        status = na_view_function_table(in, false);
        putchar('\n');
        if (status == NA_STATUS_WHOLE) status = na_view_function_table(in, true);
    }
    bool first = true;
    na_symbols_missing(in->symbols, say_missing, &first);
    return status;
}
