/* export_json_metrics.c - the parts of the JSON document that belong to mode sites' deeper figures:
 * what the figures are and how they are reduced, lifetimes by site, sizes, the program's own
 * mappings, figures over time by site, node and size, globals and stacks. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/analyze/blocks/calls.h"
#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/globals.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

#define MOST_GLOBALS 1000u

/* The list without its zeros at the end. */
static void put_numbers(const uint64_t *values, size_t count, double divisor) {
    while (count != 0 && values[count - 1] == 0)
        count--;
    putchar('[');
    for (size_t i = 0; i < count; i++)
        printf("%s%.15g", i == 0 ? "" : ",", (double)values[i] / divisor);
    putchar(']');
}

static void put_metrics(void) {
    fputs(",\n\"metrics\":[", stdout);
    for (size_t i = 0; i < na_metric_count(); i++) {
        const na_metric_t *m = &na_metrics[i];
        printf("%s\n{\"name\":\"%s\",\"meaning\":\"%s\",\"reduced_by\":\"%s\"}", i == 0 ? "" : ",",
               m->name, m->meaning,
               !m->derived ? na_reduction_name(m->reduction)
               : m->alone  ? "none"
                           : "its parts");
    }
    putchar(']');
}

static bool put_lifetimes(const na_view_input_t *in) {
    na_lives_table_t lives;
    bool good = na_lives_fold(in->reader, &lives);
    printf(",\n\"lifetimes\":{\"unit_ns\":%.9g,\"sites\":[",
           na_age_ns(na_reader_header(in->reader)));
    for (size_t i = 0; good && i < lives.count; i++) {
        const na_site_lives_t *of = &lives.items[i];
        size_t from = 0; /* nobody frees within the first of them: their zeros are not written */
        while (from + 1 < NA_NPROF_AGE_BUCKETS && of->count[from] == 0)
            from++;
        printf("%s\n{\"stack\":%u,\"from\":%zu,\"frees\":", i == 0 ? "" : ",",
               of->site == NA_NPROF_ROOT ? 0 : of->site, from);
        put_numbers(of->count + from, NA_NPROF_AGE_BUCKETS - from, 1);
        putchar('}');
    }
    fputs("]}", stdout);
    na_lives_free(&lives);
    return good;
}

static bool put_sizes(const na_view_input_t *in) {
    na_nprof_sizes_t *sizes = malloc(sizeof *sizes);
    if (sizes == NULL) return false;
    na_sizes_fold(in->reader, sizes);
    double scale = (double)na_reader_header(in->reader)->count_scale;
    fputs(",\n\"sizes\":{\"allocations\":", stdout);
    put_numbers(sizes->allocs, NA_NPROF_SIZE_BUCKETS, scale);
    fputs(",\"reallocs_larger_by\":", stdout);
    put_numbers(sizes->grown, NA_NPROF_SIZE_BUCKETS, scale);
    fputs(",\"reallocs_smaller_by\":", stdout);
    put_numbers(sizes->shrunk, NA_NPROF_SIZE_BUCKETS, scale);
    fputs(",\"frees_by_lifetime\":[", stdout);
    for (size_t i = 0; i < NA_NPROF_SIZE_BUCKETS; i++) {
        if (i != 0) putchar(',');
        put_numbers(sizes->lives[i], NA_NPROF_AGE_BUCKETS, scale);
    }
    fputs("]}", stdout);
    free(sizes);
    return true;
}

static bool put_mappings(const na_view_input_t *in) {
    static const char *const calls[] = {[NA_NPROF_MAP_MMAP] = "mmap",
                                        [NA_NPROF_MAP_MUNMAP] = "munmap",
                                        [NA_NPROF_MAP_MREMAP] = "mremap",
                                        [NA_NPROF_MAP_BRK] = "brk up",
                                        [NA_NPROF_MAP_UNBRK] = "brk down"};
    na_maps_table_t maps;
    bool good = na_maps_fold(in->reader, &maps);
    fputs(",\n\"mappings\":[", stdout);
    for (size_t i = 0; good && i < maps.count; i++) {
        const na_nprof_map_t *m = &maps.items[i];
        printf("%s\n{\"call\":\"%s\",\"stack\":%u,\"count\":%" PRIu64 ",\"bytes\":%" PRIu64
               ",\"min\":%" PRIu64 ",\"max\":%" PRIu64 "}",
               i == 0 ? "" : ",", calls[m->call], m->site == NA_NPROF_ROOT ? 0 : m->site, m->count,
               m->bytes, m->min, m->max);
    }
    putchar(']');
    na_maps_free(&maps);
    return good;
}

/* Levels as bytes; null where nothing is known. */
static void put_levels(const na_series_table_t *t, uint32_t row) {
    uint32_t last = 0; /* one past the last point that was noted */
    for (uint32_t i = 0; i < t->count; i++)
        if (t->values[(size_t)row * t->count + i] != 0) last = i + 1;
    for (uint32_t i = 0; i < t->count; i++) {
        uint64_t v = t->values[(size_t)row * t->count + i];
        if (i != 0) putchar(',');
        if (v != 0)
            printf("%" PRIu64, v - 1);
        else if (i >= last)
            printf("%" PRId64, t->row[row].last);
        else
            fputs("null", stdout);
    }
}

static void put_series(const na_view_input_t *in) {
    static const struct {
        uint32_t kind;
        const char *name, *id;
    } kinds[] = {{NA_NPROF_SERIES_SITES, "live_by_site", "stack"},
                 {NA_NPROF_SERIES_NODES, "live_by_node", "node"},
                 {NA_NPROF_SERIES_MAPPED, "mapped_by_node", "node"},
                 {NA_NPROF_SERIES_RESIDENT, "physical_by_node", "node"},
                 {NA_NPROF_SERIES_SIZES, "allocations_by_size", "bucket"}};
    const na_nprof_header_t *h = na_reader_header(in->reader);
    fputs(",\n\"series\":{", stdout);
    for (size_t k = 0; k < sizeof kinds / sizeof kinds[0]; k++) {
        na_series_table_t t = na_reader_series(in->reader, kinds[k].kind);
        printf("%s\n\"%s\":{\"interval_ms\":%u,\"rows\":[", k == 0 ? "" : ",", kinds[k].name,
               t.interval_ms);
        for (uint32_t r = 0; r < t.rows; r++) {
            uint32_t id = t.row[r].id;
            if (kinds[k].kind == NA_NPROF_SERIES_SITES && id == NA_NPROF_ROOT) id = 0;
            if (kinds[k].id[0] == 'n' && id < NA_NPROF_MAX_NODES) id = h->node_ids[id];
            printf("%s\n{\"%s\":%u,\"since_ms\":%" PRIu64 ",\"most\":%" PRId64 ",\"values\":",
                   r == 0 ? "" : ",", kinds[k].id, id, t.row[r].since_ms, t.row[r].most);
            if (kinds[k].kind == NA_NPROF_SERIES_SIZES) {
                put_numbers(t.values + (size_t)r * t.count, t.count, (double)h->count_scale);
            } else {
                putchar('[');
                put_levels(&t, r);
                putchar(']');
            }
            putchar('}');
        }
        fputs("]}", stdout);
    }
    putchar('}');
}

static bool put_globals(const na_view_input_t *in) {
    na_globals_t g;
    bool good = na_globals_read(in->reader, MOST_GLOBALS, &g);
    printf(",\n\"globals\":{\"threads\":%u,\"variables\":%" PRIu64 ",\"unnamed_bytes\":%" PRIu64
           ",\"missing_modules\":%u,\"modules\":[",
           g.threads, g.variables, g.unnamed, g.missing);
    for (size_t i = 0; good && i < g.module_count; i++) {
        const na_global_module_t *m = &g.modules[i];
        printf("%s\n{\"module\":%u,\"path\":", i == 0 ? "" : ",", m->module);
        na_json_put(stdout, m->path);
        printf(",\"data\":%" PRIu64 ",\"zeroed\":%" PRIu64 ",\"tls\":%" PRIu64 ",\"bytes\":%" PRIu64
               "}",
               m->data, m->zeroed, m->tls, na_global_module_bytes(&g, m));
    }
    fputs("],\"items\":[", stdout);
    for (size_t i = 0; good && i < g.count; i++) {
        const na_global_t *v = &g.items[i];
        fputs(i == 0 ? "\n{\"name\":" : ",\n{\"name\":", stdout);
        na_json_put(stdout, v->name);
        printf(",\"module\":%u,\"size\":%" PRIu64 ",\"tls\":%s,\"bytes\":%" PRIu64 "}", v->module,
               v->size, v->tls ? "true" : "false", na_global_bytes(&g, v));
    }
    fputs("]}", stdout);
    na_globals_free(&g);
    return good;
}

static void put_thread_details(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    na_thread_table_t threads = na_reader_threads(in->reader);
    bool first = true;
    fputs(",\n\"thread_details\":[", stdout);
    for (uint32_t i = 1; i < threads.count; i++) {
        const na_nprof_thread_t *t = &threads.items[i];
        if (t->tid == 0) continue;
        printf("%s\n{\"id\":%u,\"freed_bytes\":%" PRIu64, first ? "" : ",", i, t->free_bytes);
        if (t->stack_resident != 0)
            printf(",\"stack_resident\":%" PRIu64 ",\"stack_ms\":%" PRIu64, t->stack_resident,
                   t->stack_ms);
        fputs(",\"calls\":{", stdout);
        bool any = false;
        for (size_t e = 0; e < NA_NPROF_ENTRIES; e++) {
            if (t->calls[e] == 0) continue;
            printf("%s\"%s\":%.15g", any ? "," : "", na_call_names[e],
                   (double)t->calls[e] / (double)h->count_scale);
            any = true;
        }
        fputs("},\"time\":{", stdout);
        any = false;
        for (unsigned e = 0; e < NA_NPROF_ENTRIES; e++) {
            na_call_time_t time = na_call_time(h, t, e);
            if (isnan(time.ms)) continue;
            printf("%s\"%s\":{\"ms\":%.6g,\"timed\":%.15g,\"error\":", any ? "," : "",
                   na_call_names[e], time.ms, time.timed);
            na_json_number(stdout, time.error);
            putchar('}');
            any = true;
        }
        fputs("}}", stdout);
        first = false;
    }
    putchar(']');
}

bool na_json_metrics(const na_view_input_t *in) {
    put_metrics();
    put_thread_details(in);
    bool good = put_lifetimes(in) && put_sizes(in) && put_mappings(in);
    if (good) put_series(in);
    return good && put_globals(in);
}
