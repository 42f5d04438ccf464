/* export_json_metrics.c - the parts of the JSON document that belong to mode sites' deeper figures:
 * what the figures are and how they are reduced, lifetimes by site, sizes, the program's own
 * mappings, figures over time by site, node and size, globals and stacks. */
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/analyze/blocks/calls.h"
#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/globals.h"
#include "profiler/dump/exports/export_json.h"
#include "profiler/dump/profile/view.h"

#define MOST_GLOBALS 1000u

/* The list without its zeros at the end. */
static void put_numbers(na_json_t *json, const uint64_t *values, size_t count, double divisor) {
    while (count != 0 && values[count - 1] == 0)
        count--;
    na_json_array(json, NULL);
    for (size_t i = 0; i < count; i++)
        na_json_real(json, NULL, (double)values[i] / divisor, "%.15g");
    na_json_end(json);
}

static void put_metric_list(na_json_t *json) {
    na_json_line(json);
    na_json_array(json, "metrics");
    for (size_t i = 0; i < na_metric_count(); i++) {
        const na_site_metric_t *m = &na_metrics[i];
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "name", m->name);
        na_json_string(json, "meaning", m->meaning);
        na_json_string(json, "reduced_by",
                       !m->derived ? na_reduction_name(m->reduction)
                       : m->alone  ? "none"
                                   : "its parts");
        na_json_end(json);
    }
    na_json_end(json);
}

static bool put_lifetimes(na_json_t *json, const na_view_input_t *in) {
    na_lives_table_t lives;
    bool good = na_lives_fold(in->reader, &lives);
    na_json_line(json);
    na_json_object(json, "lifetimes");
    na_json_real(json, "unit_ns", na_age_ns(na_reader_header(in->reader)), "%.9g");
    na_json_array(json, "sites");
    for (size_t i = 0; good && i < lives.count; i++) {
        const na_site_lives_t *of = &lives.items[i];
        size_t from = 0; /* nobody frees within the first of them: their zeros are not written */
        while (from + 1 < NA_NPROF_AGE_BUCKETS && of->count[from] == 0)
            from++;
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_u64(json, "stack", of->site == NA_NPROF_ROOT ? 0 : of->site);
        na_json_u64(json, "from", from);
        na_json_key(json, "frees");
        put_numbers(json, of->count + from, NA_NPROF_AGE_BUCKETS - from, 1);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
    na_lives_free(&lives);
    return good;
}

static bool put_sizes(na_json_t *json, const na_view_input_t *in) {
    na_nprof_sizes_t *sizes = malloc(sizeof *sizes);
    if (sizes == NULL) return false;
    na_sizes_fold(in->reader, sizes);
    double scale = (double)na_reader_header(in->reader)->count_scale;
    na_json_line(json);
    na_json_object(json, "sizes");
    na_json_key(json, "allocations");
    put_numbers(json, sizes->allocs, NA_NPROF_SIZE_BUCKETS, scale);
    na_json_key(json, "reallocs_larger_by");
    put_numbers(json, sizes->grown, NA_NPROF_SIZE_BUCKETS, scale);
    na_json_key(json, "reallocs_smaller_by");
    put_numbers(json, sizes->shrunk, NA_NPROF_SIZE_BUCKETS, scale);
    na_json_array(json, "frees_by_lifetime");
    for (size_t i = 0; i < NA_NPROF_SIZE_BUCKETS; i++)
        put_numbers(json, sizes->lives[i], NA_NPROF_AGE_BUCKETS, scale);
    na_json_end(json);
    na_json_end(json);
    free(sizes);
    return true;
}

static void put_mappings(na_json_t *json, const na_view_input_t *in) {
    static const char *const calls[] = {[NA_NPROF_MAP_MMAP] = "mmap",
                                        [NA_NPROF_MAP_MUNMAP] = "munmap",
                                        [NA_NPROF_MAP_MREMAP] = "mremap",
                                        [NA_NPROF_MAP_BRK] = "brk up",
                                        [NA_NPROF_MAP_UNBRK] = "brk down"};
    na_json_line(json);
    na_json_array(json, "mappings");
    for (size_t i = 0; i < in->maps.count; i++) {
        const na_nprof_map_t *m = &in->maps.items[i];
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "call", calls[m->call]);
        na_json_u64(json, "stack", m->site == NA_NPROF_ROOT ? 0 : m->site);
        na_json_u64(json, "count", m->count);
        na_json_u64(json, "bytes", m->bytes);
        na_json_u64(json, "min", m->min);
        na_json_u64(json, "max", m->max);
        na_json_end(json);
    }
    na_json_end(json);
}

/* Levels as bytes; null where nothing is known. */
static void put_levels(na_json_t *json, const na_series_table_t *t, uint32_t row) {
    uint32_t last = 0; /* one past the last point that was noted */
    for (uint32_t i = 0; i < t->count; i++)
        if (t->values[(size_t)row * t->count + i] != 0) last = i + 1;
    for (uint32_t i = 0; i < t->count; i++) {
        uint64_t v = t->values[(size_t)row * t->count + i];
        if (v != 0)
            na_json_u64(json, NULL, v - 1);
        else if (i >= last)
            na_json_i64(json, NULL, t->row[row].last);
        else
            na_json_null(json, NULL);
    }
}

static void put_series(na_json_t *json, const na_view_input_t *in) {
    static const struct {
        uint32_t kind;
        const char *name, *id;
    } kinds[] = {{NA_NPROF_SERIES_SITES, "live_by_site", "stack"},
                 {NA_NPROF_SERIES_NODES, "live_by_node", "node"},
                 {NA_NPROF_SERIES_MAPPED, "mapped_by_node", "node"},
                 {NA_NPROF_SERIES_RESIDENT, "physical_by_node", "node"},
                 {NA_NPROF_SERIES_SIZES, "allocations_by_size", "bucket"}};
    const na_nprof_header_t *h = na_reader_header(in->reader);
    na_json_line(json);
    na_json_object(json, "series");
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        na_series_table_t t = na_reader_series(in->reader, kinds[k].kind);
        na_json_line(json);
        na_json_object(json, kinds[k].name);
        na_json_u64(json, "interval_ms", t.interval_ms);
        na_json_array(json, "rows");
        for (uint32_t r = 0; r < t.rows; r++) {
            uint32_t id = t.row[r].id;
            if (kinds[k].kind == NA_NPROF_SERIES_SITES && id == NA_NPROF_ROOT) id = 0;
            if (kinds[k].id[0] == 'n' && id < NA_NPROF_MAX_NODES) id = h->node_ids[id];
            na_json_line(json);
            na_json_object(json, NULL);
            na_json_u64(json, kinds[k].id, id);
            na_json_u64(json, "since_ms", t.row[r].since_ms);
            na_json_i64(json, "most", t.row[r].most);
            na_json_key(json, "values");
            if (kinds[k].kind == NA_NPROF_SERIES_SIZES) {
                put_numbers(json, t.values + (size_t)r * t.count, t.count, (double)h->count_scale);
            } else {
                na_json_array(json, NULL);
                put_levels(json, &t, r);
                na_json_end(json);
            }
            na_json_end(json);
        }
        na_json_end(json);
        na_json_end(json);
    }
    na_json_end(json);
}

static bool put_globals_json(na_json_t *json, const na_view_input_t *in) {
    na_globals_t g;
    bool good = na_globals_read(in->reader, MOST_GLOBALS, &g);
    na_json_line(json);
    na_json_object(json, "globals");
    na_json_u64(json, "threads", g.threads);
    na_json_u64(json, "variables", g.variables);
    na_json_u64(json, "unnamed_bytes", g.unnamed);
    na_json_u64(json, "missing_modules", g.missing);
    na_json_array(json, "modules");
    for (size_t i = 0; good && i < g.module_count; i++) {
        const na_global_module_t *m = &g.modules[i];
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_u64(json, "module", m->module);
        na_json_string(json, "path", m->path);
        na_json_u64(json, "data", m->data);
        na_json_u64(json, "zeroed", m->zeroed);
        na_json_u64(json, "tls", m->tls);
        na_json_u64(json, "bytes", na_global_module_bytes(&g, m));
        na_json_end(json);
    }
    na_json_end(json);
    na_json_array(json, "items");
    for (size_t i = 0; good && i < g.count; i++) {
        const na_global_t *v = &g.items[i];
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "name", v->name);
        na_json_u64(json, "module", v->module);
        na_json_u64(json, "size", v->size);
        na_json_bool(json, "tls", v->tls);
        na_json_u64(json, "bytes", na_global_bytes(&g, v));
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
    na_globals_free(&g);
    return good;
}

static void put_thread_details(na_json_t *json, const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    na_thread_table_t threads = na_reader_threads(in->reader);
    na_json_line(json);
    na_json_array(json, "thread_details");
    for (uint32_t i = 1; i < threads.count; i++) {
        const na_nprof_thread_t *t = &threads.items[i];
        if (t->tid == 0) continue;
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_u64(json, "id", i);
        na_json_u64(json, "freed_bytes", t->free_bytes);
        if (t->stack_resident != 0) {
            na_json_u64(json, "stack_resident", t->stack_resident);
            na_json_u64(json, "stack_ms", t->stack_ms);
        }
        na_json_object(json, "calls");
        for (size_t e = 0; e < NA_NPROF_ENTRIES; e++) {
            if (t->calls[e] == 0) continue;
            na_json_real(json, na_call_names[e], (double)t->calls[e] / (double)h->count_scale,
                         "%.15g");
        }
        na_json_end(json);
        na_json_object(json, "time");
        for (unsigned e = 0; e < NA_NPROF_ENTRIES; e++) {
            na_call_time_t time = na_call_time(h, t, e);
            if (isnan(time.ms)) continue;
            na_json_object(json, na_call_names[e]);
            na_json_real(json, "ms", time.ms, "%.6g");
            na_json_real(json, "timed", time.timed, "%.15g");
            na_json_number(json, "error", time.error);
            na_json_end(json);
        }
        na_json_end(json);
        na_json_end(json);
    }
    na_json_end(json);
}

bool na_json_metrics(na_json_t *json, const na_view_input_t *in) {
    put_metric_list(json);
    put_thread_details(json, in);
    bool good = put_lifetimes(json, in) && put_sizes(json, in);
    if (good) put_mappings(json, in);
    if (good) put_series(json, in);
    return good && put_globals_json(json, in);
}
