/* profile_json.c - what the JSON documents about a profile have in common: the run, figures,
 * frames, threads, the timeline, modules, what is missing. Every figure is in its plain unit. */
#include <math.h>
#include <stdio.h>

#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/dump/profile/profile_json.h"

static void put_counters(na_json_t *json, const na_view_input_t *in, const na_counters_t *sum,
                         bool zeros) {
    for (size_t m = 0; m < na_metric_count(); m++) {
        const char *key = na_metric_key(m);
        double value = na_metric_shown(na_reader_header(in->reader), m, sum);
        if (key == NULL || !isfinite(value) || na_metrics[m].alone) continue;
        if (value == 0 && !zeros) continue;
        na_json_key(json, key);
        if (!zeros && value != floor(value))
            na_json_real(json, NULL, value, "%.9g");
        else
            na_json_number(json, NULL, value);
    }
    if (na_reader_header(in->reader)->mode == NA_NPROF_MODE_SAMPLE) {
        uint32_t scale = na_reader_header(in->reader)->count_scale;
        na_json_object(json, "error95");
        na_json_number(json, "peak", na_counters_error(sum, sum->peak_count, scale));
        na_json_number(json, "live", na_counters_error(sum, sum->live_count, scale));
        na_json_number(json, "total", na_counters_error(sum, (int64_t)sum->alloc_count, scale));
        na_json_end(json);
    }
}

void na_json_counters(na_json_t *json, const na_view_input_t *in, const na_counters_t *sum) {
    put_counters(json, in, sum, true);
}

void na_json_counters_sparse(na_json_t *json, const na_view_input_t *in, const na_counters_t *sum) {
    put_counters(json, in, sum, false);
}

void na_json_frame(na_json_t *json, const char *name, const na_symbol_frame_t *frame) {
    na_json_object(json, name);
    na_json_string(json, "function", frame->function);
    if (frame->file != NULL) na_json_string(json, "file", frame->file);
    if (frame->line != 0) na_json_u64(json, "line", frame->line);
    na_json_string(json, "module", frame->module);
    na_json_u64(json, "offset", frame->offset);
    na_json_bool(json, "inlined", frame->inlined);
    na_json_end(json);
}

void na_json_run(na_json_t *json, const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    na_json_string(json, "program", h->program);
    na_json_string(json, "command", h->command);
    na_json_string(json, "host", h->host);
    na_json_string(json, "writer", h->writer);
    na_json_i64(json, "pid", h->pid);
    na_json_i64(json, "ppid", h->ppid);
    na_json_i64(json, "inherited_pid", h->inherited_pid);
    if (h->mpi_rank >= 0) {
        na_json_i64(json, "mpi_rank", h->mpi_rank);
        na_json_u64(json, "mpi_size", h->mpi_size);
    }
    na_json_string(json, "mode", na_mode_name(h->mode));
    na_json_u64(json, "sample_interval", h->sample_interval);
    na_json_u64(json, "start_unix_ns", h->start_unix_ns);
    na_json_u64(json, "duration_ms", h->last_ms);
    na_json_u64(json, "processes", h->processes != 0 ? h->processes : 1);
    na_json_u64(json, "together_ms", na_nprof_together_ms(h));
    na_json_bool(json, "closed", h->state == NA_NPROF_CLOSED);
    na_json_string(json, "moment", na_view_moment(in)->key);
    na_json_u64(json, "dump", na_reader_dump(in->reader));
    na_json_u64(json, "publish_quantum", h->publish_quantum);
    na_json_u64(json, "own_bytes", h->own_bytes);
    na_json_object(json, "lost");
    na_json_u64(json, "events", h->lost_events);
    na_json_u64(json, "stacks", h->lost_stacks);
    na_json_u64(json, "truncated_stacks", h->truncated_stacks);
    na_json_u64(json, "threads", h->lost_threads);
    na_json_u64(json, "modules", h->lost_modules);
    na_json_u64(json, "before_frees", h->before_frees);
    na_json_bool(json, "disk_full", h->disk_full != 0);
    na_json_end(json);
}

void na_json_header(na_json_t *json, const na_view_input_t *in) {
    na_json_run(json, in);
    na_json_object(json, "stack_depth");
    na_json_real(json, "mean", in->sites.depth_mean, "%.3f");
    na_json_u64(json, "max", in->sites.depth_max);
    na_json_end(json);
}

void na_json_threads(na_json_t *json, const na_view_input_t *in) {
    na_thread_table_t threads = na_reader_threads(in->reader);
    na_json_array(json, "threads");
    for (uint32_t i = 1; i < threads.count; i++) {
        const na_nprof_thread_t *t = &threads.items[i];
        if (t->tid == 0) continue;
        na_json_object(json, NULL);
        na_json_u64(json, "id", i);
        na_json_u64(json, "tid", t->tid);
        na_json_u64(json, "threads", UINT64_C(1) + t->more);
        na_json_string(json, "name", t->name);
        na_json_u64(json, "start_ms", t->start_ms);
        if (t->end_ms != UINT64_MAX) na_json_u64(json, "end_ms", t->end_ms);
        na_json_number(json, "allocations", na_view_count(in, (double)t->alloc_count));
        na_json_number(json, "frees", na_view_count(in, (double)t->free_count));
        na_json_u64(json, "total_bytes", t->alloc_bytes);
        na_json_end(json);
    }
    na_json_end(json);
}

void na_json_timeline(na_json_t *json, const na_view_input_t *in) {
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(in->reader, &count, &interval);
    if (points == NULL) return;
    na_json_object(json, "timeline");
    na_json_u64(json, "interval_ms", interval);
    na_json_array(json, "points");
    for (uint32_t i = 0; i < count; i++) {
        const na_nprof_point_t *p = &points[i];
        na_json_object(json, NULL);
        na_json_u64(json, "ms", (uint64_t)i * interval);
        if ((p->flags & NA_NPROF_POINT_COUNTED) != 0) {
            na_json_i64(json, "requested_max", p->requested_max);
            na_json_i64(json, "requested_min", p->requested_min);
            na_json_number(json, "blocks_max", na_view_count(in, (double)p->blocks_max));
            na_json_number(json, "allocations", na_view_count(in, (double)p->alloc_count));
            na_json_u64(json, "allocated_bytes", p->alloc_bytes);
        }
        if ((p->flags & NA_NPROF_POINT_SAMPLED) != 0) {
            na_json_u64(json, "physical", p->physical);
            na_json_u64(json, "virtual", p->virtual_bytes);
            na_json_u64(json, "mapped", p->mapped);
            na_json_u64(json, "own", p->own);
        }
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
}

void na_json_stack(na_json_t *json, const na_view_input_t *in, uint32_t site) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    bool cut = false;
    na_json_array(json, "stack");
    uint32_t depth = 0;
    for (uint32_t node = site; node > NA_NPROF_ROOT && node < stacks.count;
         node = stacks.items[node].parent) {
        if (depth++ == NA_VIEW_DEEPEST) {
            cut = true;
            break;
        }
        const na_symbol_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            na_json_frame(json, NULL, &frames[i]);
        }
        cut = cut || (stacks.items[node].flags & NA_NPROF_STACK_TRUNCATED) != 0;
    }
    na_json_end(json);
    na_json_bool(json, "stack_truncated", cut);
}

void na_json_modules(na_json_t *json, const na_view_input_t *in) {
    na_module_table_t modules = na_reader_modules(in->reader);
    na_json_line(json);
    na_json_array(json, "modules");
    for (uint32_t id = 1; id < modules.count; id++) {
        const na_nprof_module_t *m = &modules.items[id];
        if (m->flags == 0) continue;
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_u64(json, "id", id);
        na_json_string(json, "path", m->path);
        na_json_u64(json, "start", m->start);
        na_json_u64(json, "end", m->end);
        na_json_u64(json, "bias", m->bias);
        na_json_u64(json, "load_ms", m->load_ms);
        na_json_key(json, "unload_ms");
        if (m->unload_ms == NA_NPROF_MODULE_STILL)
            na_json_null(json, NULL);
        else
            na_json_u64(json, NULL, m->unload_ms);
        char build_id[2 * NA_NPROF_BUILD_ID_BYTES + 1] = "";
        for (uint32_t i = 0; i < m->build_id_size && i < NA_NPROF_BUILD_ID_BYTES; i++)
            snprintf(build_id + (size_t)i * 2, 3, "%02x", m->build_id[i]);
        na_json_string(json, "build_id", build_id);
        na_json_bool(json, "main", (m->flags & NA_NPROF_MODULE_MAIN) != 0);
        na_json_end(json);
    }
    na_json_end(json);
}

void na_json_environment(na_json_t *json, const na_view_input_t *in) {
    size_t size;
    const char *text = na_reader_environment(in->reader, &size);
    na_json_line(json);
    na_json_array(json, "environment");
    for (size_t at = 0; text != NULL && at < size;) {
        na_json_string(json, NULL, text + at);
        while (text[at] != 0)
            at++;
        at++;
    }
    na_json_end(json);
}

static void put_missing_json(void *arg, const char *path, const char *why) {
    na_json_t *json = arg;
    na_json_object(json, NULL);
    na_json_string(json, "module", path);
    na_json_string(json, "why", why);
    na_json_end(json);
}

void na_json_rest(na_json_t *json, const na_view_input_t *in) {
    na_json_array(json, "no_symbols");
    if (in->symbols != NULL) na_symbols_missing(in->symbols, put_missing_json, json);
    na_json_end(json);
    na_json_array(json, "damage");
    for (uint32_t i = 0; i < na_reader_issue_count(in->reader); i++) {
        char text[256];
        na_reader_issue_text(in->reader, i, text, sizeof text);
        na_json_string(json, NULL, text);
    }
    na_json_end(json);
}

void na_view_json_stack(na_json_t *json, void *arg, uint64_t site) {
    na_json_stack(json, arg, (uint32_t)site);
}
