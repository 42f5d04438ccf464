/* profile_json.c - what the JSON documents about a profile have in common: the run, figures,
 * frames, threads, the timeline, modules, what is missing. Every figure is in its plain unit. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>

#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/dump/profile/input.h"
#include "profiler/dump/ui/text.h"

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

void na_json_modules(const na_view_input_t *in) {
    na_module_table_t modules = na_reader_modules(in->reader);
    fputs(",\n\"modules\":[", stdout);
    bool first = true;
    for (uint32_t id = 1; id < modules.count; id++) {
        const na_nprof_module_t *m = &modules.items[id];
        if (m->flags == 0) continue;
        printf("%s\n{\"id\":%u,\"path\":", first ? "" : ",", id);
        first = false;
        na_json_put(stdout, m->path);
        printf(",\"start\":%" PRIu64 ",\"end\":%" PRIu64 ",\"bias\":%" PRIu64
               ",\"load_ms\":%" PRIu64 ",\"unload_ms\":",
               m->start, m->end, m->bias, m->load_ms);
        if (m->unload_ms == NA_NPROF_MODULE_STILL)
            fputs("null", stdout);
        else
            printf("%" PRIu64, m->unload_ms);
        fputs(",\"build_id\":\"", stdout);
        for (uint32_t i = 0; i < m->build_id_size; i++)
            printf("%02x", m->build_id[i]);
        printf("\",\"main\":%s}", (m->flags & NA_NPROF_MODULE_MAIN) != 0 ? "true" : "false");
    }
    putchar(']');
}

void na_json_environment(const na_view_input_t *in) {
    size_t size;
    const char *text = na_reader_environment(in->reader, &size);
    fputs(",\n\"environment\":[", stdout);
    for (size_t at = 0; text != NULL && at < size;) {
        if (at != 0) putchar(',');
        na_json_put(stdout, text + at);
        while (text[at] != 0)
            at++;
        at++;
    }
    putchar(']');
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
