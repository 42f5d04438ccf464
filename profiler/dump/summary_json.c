/* summary_json.c - the summary for programs: one JSON object, every figure in its plain unit. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "profiler/analyze/keys.h"
#include "profiler/dump/counters.h"
#include "profiler/dump/text.h"
#include "profiler/dump/views.h"

static void put_number(double value) {
    na_json_number(stdout, value);
}

static void put_counters(const na_view_input_t *in, const na_counters_t *sum, bool zeros) {
    bool first = true;
    for (size_t m = 0; m < na_metric_count(); m++) {
        const char *key = na_metric_key(m);
        double value = na_metric_shown(na_reader_header(in->reader), m, sum);
        if (key == NULL || !isfinite(value) || na_metrics[m].alone) continue;
        if (value == 0 && !zeros) continue;
        printf("%s\"%s\":", first ? "" : ",", key);
        if (!zeros && value != floor(value))
            printf("%.9g", value);
        else
            put_number(value);
        first = false;
    }
    if (na_reader_header(in->reader)->mode == NA_NPROF_MODE_SAMPLE) {
        uint32_t scale = na_reader_header(in->reader)->count_scale;
        printf("%s\"error95\":{\"peak\":", first ? "" : ",");
        put_number(na_counters_error(sum, sum->peak_count, scale));
        fputs(",\"live\":", stdout);
        put_number(na_counters_error(sum, sum->live_count, scale));
        fputs(",\"total\":", stdout);
        put_number(na_counters_error(sum, (int64_t)sum->alloc_count, scale));
        putchar('}');
        first = false;
    }
    if (!zeros && !first) putchar(',');
}

void na_json_counters(const na_view_input_t *in, const na_counters_t *sum) {
    put_counters(in, sum, true);
}

void na_json_counters_sparse(const na_view_input_t *in, const na_counters_t *sum) {
    put_counters(in, sum, false);
}

void na_json_frame(const na_frame_t *frame) {
    fputs("{\"function\":", stdout);
    na_json_put(stdout, frame->function);
    if (frame->file != NULL) {
        fputs(",\"file\":", stdout);
        na_json_put(stdout, frame->file);
    }
    if (frame->line != 0) printf(",\"line\":%u", frame->line);
    fputs(",\"module\":", stdout);
    na_json_put(stdout, frame->module);
    printf(",\"offset\":%" PRIu64 ",\"inlined\":%s}", frame->offset,
           frame->inlined ? "true" : "false");
}

void na_json_run(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    fputs("\"program\":", stdout);
    na_json_put(stdout, h->program);
    fputs(",\"command\":", stdout);
    na_json_put(stdout, h->command);
    fputs(",\"host\":", stdout);
    na_json_put(stdout, h->host);
    fputs(",\"writer\":", stdout);
    na_json_put(stdout, h->writer);
    printf(",\"pid\":%d,\"ppid\":%d,\"inherited_pid\":%d", h->pid, h->ppid, h->inherited_pid);
    if (h->mpi_rank >= 0) printf(",\"mpi_rank\":%d,\"mpi_size\":%u", h->mpi_rank, h->mpi_size);
    printf(",\"mode\":\"%s\",\"sample_interval\":%" PRIu64 ",\"start_unix_ns\":%" PRIu64
           ",\"duration_ms\":%" PRIu64 ",\"closed\":%s,\"publish_quantum\":%" PRIu64
           ",\"own_bytes\":%" PRIu64,
           na_mode_name(h->mode), h->sample_interval, h->start_unix_ns, h->last_ms,
           h->state == NA_NPROF_CLOSED ? "true" : "false", h->publish_quantum, h->own_bytes);
    printf(",\"lost\":{\"events\":%" PRIu64 ",\"stacks\":%" PRIu64 ",\"truncated_stacks\":%" PRIu64
           ",\"threads\":%" PRIu64 ",\"modules\":%" PRIu64 ",\"before_frees\":%" PRIu64
           ",\"disk_full\":%s}",
           h->lost_events, h->lost_stacks, h->truncated_stacks, h->lost_threads, h->lost_modules,
           h->before_frees, h->disk_full != 0 ? "true" : "false");
}

void na_json_header(const na_view_input_t *in) {
    na_json_run(in);
    printf(",\"stack_depth\":{\"mean\":%.3f,\"max\":%" PRIu32 "}", in->sites.depth_mean,
           in->sites.depth_max);
}

void na_json_threads(const na_view_input_t *in) {
    na_thread_table_t threads = na_reader_threads(in->reader);
    fputs(",\"threads\":[", stdout);
    bool first = true;
    for (uint32_t i = 1; i < threads.count; i++) {
        const na_nprof_thread_t *t = &threads.items[i];
        if (t->tid == 0) continue;
        printf("%s{\"id\":%u,\"tid\":%u,\"name\":", first ? "" : ",", i, t->tid);
        na_json_put(stdout, t->name);
        printf(",\"start_ms\":%" PRIu64, t->start_ms);
        if (t->end_ms != UINT64_MAX) printf(",\"end_ms\":%" PRIu64, t->end_ms);
        fputs(",\"allocations\":", stdout);
        put_number(na_view_count(in, (double)t->alloc_count));
        fputs(",\"frees\":", stdout);
        put_number(na_view_count(in, (double)t->free_count));
        printf(",\"total_bytes\":%" PRIu64 "}", t->alloc_bytes);
        first = false;
    }
    putchar(']');
}

void na_json_timeline(const na_view_input_t *in) {
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(in->reader, &count, &interval);
    if (points == NULL) return;
    printf(",\"timeline\":{\"interval_ms\":%u,\"points\":[", interval);
    for (uint32_t i = 0; i < count; i++) {
        const na_nprof_point_t *p = &points[i];
        printf("%s{\"ms\":%" PRIu64, i == 0 ? "" : ",", (uint64_t)i * interval);
        if ((p->flags & NA_NPROF_POINT_COUNTED) != 0) {
            printf(",\"requested_max\":%" PRId64 ",\"requested_min\":%" PRId64 ",\"blocks_max\":",
                   p->requested_max, p->requested_min);
            put_number(na_view_count(in, (double)p->blocks_max));
            fputs(",\"allocations\":", stdout);
            put_number(na_view_count(in, (double)p->alloc_count));
            printf(",\"allocated_bytes\":%" PRIu64, p->alloc_bytes);
        }
        if ((p->flags & NA_NPROF_POINT_SAMPLED) != 0)
            printf(",\"physical\":%" PRIu64 ",\"virtual\":%" PRIu64 ",\"mapped\":%" PRIu64
                   ",\"own\":%" PRIu64,
                   p->physical, p->virtual_bytes, p->mapped, p->own);
        putchar('}');
    }
    fputs("]}", stdout);
}

void na_json_stack(const na_view_input_t *in, uint32_t site) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    bool first = true, cut = false;
    fputs(",\"stack\":[", stdout);
    uint32_t depth = 0;
    for (uint32_t node = site; node > NA_NPROF_ROOT && node < stacks.count;
         node = stacks.items[node].parent) {
        if (depth++ == NA_VIEW_DEEPEST) {
            cut = true;
            break;
        }
        const na_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            if (!first) putchar(',');
            na_json_frame(&frames[i]);
            first = false;
        }
        cut = cut || (stacks.items[node].flags & NA_NPROF_STACK_TRUNCATED) != 0;
    }
    printf("],\"stack_truncated\":%s", cut ? "true" : "false");
}

static void put_site(const na_view_input_t *in, const na_site_t *site) {
    printf("{\"id\":%u,\"cells\":%u,", site->site, site->cells);
    na_json_counters(in, &site->sum);
    const na_frame_t *leaf;
    const na_frame_t *frame = na_view_site(in, site->site, &leaf);
    fputs(",\"site\":", stdout);
    if (frame != NULL)
        na_json_frame(frame);
    else
        fputs("null", stdout);
    if (leaf != NULL) {
        fputs(",\"by\":", stdout);
        na_json_frame(leaf);
    }
    if (in->options->stacks) na_json_stack(in, site->site);
    putchar('}');
}

static void put_cost(const na_view_input_t *in, const na_cost_t *cost) {
    printf("{\"peak_bytes\":%" PRId64 ",\"live_bytes\":%" PRId64 ",\"total_bytes\":%" PRId64
           ",\"allocations\":",
           cost->peak_bytes, cost->live_bytes, cost->alloc_bytes);
    put_number(na_view_count(in, (double)cost->alloc_count));
    putchar('}');
}

static void put_function(const na_view_input_t *in, const na_function_row_t *row) {
    const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
    fputs("{\"function\":", stdout);
    na_json_put(stdout, f->function);
    if (f->file != NULL) {
        fputs(",\"file\":", stdout);
        na_json_put(stdout, f->file);
    }
    if (f->line != 0) printf(",\"line\":%u", f->line);
    fputs(",\"module\":", stdout);
    na_json_put(stdout, f->module);
    printf(",\"runtime\":%s,\"wrapper\":%s,\"site_count\":%u,\"exclusive\":{",
           f->runtime ? "true" : "false", row->wrapper ? "true" : "false", row->sites);
    na_json_counters(in, &row->self);
    fputs("},\"inclusive\":", stdout);
    put_cost(in, &row->below);
    if (row->by != 0) {
        fputs(",\"by\":", stdout);
        na_json_put(stdout, na_symbols_function(in->symbols, row->by - 1)->function);
    }
    putchar('}');
}

/* Those of the first `top` functions that match and were not shown yet; how many match. */
static size_t put_first(na_view_input_t *in, bool *any) {
    na_function_table_t *table = &in->functions;
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        na_function_row_t *row = &table->items[i];
        if (!na_function_matches(in, row) || count++ >= in->options->top || row->shown) continue;
        if (*any) putchar(',');
        *any = true;
        put_function(in, row);
        row->shown = true;
    }
    return count;
}

/* The functions of both tables of the text: the first `top` by exclusive figures, in this order,
 * then those of the first `top` by inclusive ones that are not among them. */
static void put_functions(na_view_input_t *in) {
    bool any = false;
    fputs(",\"functions\":[", stdout);
    na_view_functions_sort(&in->functions, in->order, false);
    size_t count = put_first(in, &any);
    na_view_functions_sort(&in->functions, in->order, true);
    put_first(in, &any);
    printf("],\"function_count\":%zu", count);
}

static void put_sites(na_view_input_t *in) {
    size_t count = 0;
    fputs(",\"sites\":[", stdout);
    for (size_t i = 0; i < in->sites.count; i++) {
        if (!na_site_matches(in, in->sites.items[i].site) || count++ >= in->options->top) continue;
        if (count != 1) putchar(',');
        put_site(in, &in->sites.items[i]);
    }
    printf("],\"site_count\":%zu", count);
}

typedef struct missing {
    bool first;
} missing_t;

static void put_missing(void *arg, const char *path, const char *why) {
    missing_t *state = arg;
    fputs(state->first ? "{\"module\":" : ",{\"module\":", stdout);
    na_json_put(stdout, path);
    fputs(",\"why\":", stdout);
    na_json_put(stdout, why);
    putchar('}');
    state->first = false;
}

void na_json_end(const na_view_input_t *in) {
    fputs(",\"no_symbols\":[", stdout);
    missing_t state = {true};
    if (in->symbols != NULL) na_symbols_missing(in->symbols, put_missing, &state);
    fputs("],\"damage\":[", stdout);
    for (uint32_t i = 0; i < na_reader_issue_count(in->reader); i++) {
        char text[256];
        na_reader_issue_text(in->reader, i, text, sizeof text);
        if (i != 0) putchar(',');
        na_json_put(stdout, text);
    }
    putchar(']');
}

void na_view_summary_json(na_view_input_t *in) {
    fputs("{\"schema\":\"numalloc-dump.summary\",\"schema_version\":1,", stdout);
    na_json_header(in);
    fputs(",\"total\":{", stdout);
    na_json_counters(in, &in->sites.total);
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    printf("},\"peak_ms\":%" PRIu64 ",\"physical_at_peak\":%" PRIu64 ",\"mapped_at_peak\":%" PRIu64,
           na_view_peak_ms(in), point == NULL ? 0 : point->physical,
           point == NULL ? 0 : point->mapped);
    na_json_threads(in);
    na_json_timeline(in);
    put_functions(in);
    put_sites(in);
    na_json_end(in);
    fputs("}\n", stdout);
}
