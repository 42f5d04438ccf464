/* html_allocator.c - what the allocator did with what was asked for: memory at the peak and at
 * the end, spans (html_spans.c), rounding by size of block, and each node's part over time. */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>

#include "profiler/dump/page/html_page.h"
#include "profiler/dump/ui/text.h"

/* ---- tables: {title, note, columns, units, rows} ---- */

static void begin_table(const na_webpage_t *r, const char *title, const char *note) {
    na_json_object(r->json, NULL);
    na_json_string(r->json, "title", title);
    na_json_string(r->json, "note", note);
}

static void put_allocator_row(const na_webpage_t *r, const char *name, const double *values,
                              size_t count) {
    na_json_array(r->json, NULL);
    if (name != NULL) na_json_string(r->json, NULL, name);
    for (size_t i = 0; i < count; i++)
        na_json_number(r->json, NULL, values[i]);
    na_json_end(r->json);
}

/* ---- the process ---- */

static void put_memory(const na_webpage_t *r) {
    const na_counters_t *t = &r->in->sites.total;
    const na_nprof_point_t *peak = na_view_point_at_peak(r->in), *end = NULL;
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(r->in->reader, &count, &interval);
    for (uint32_t i = 0; points != NULL && i < count; i++)
        if ((points[i].flags & NA_NPROF_POINT_SAMPLED) != 0) end = &points[i];
    if (peak == NULL || end == NULL) return;
    const struct {
        const char *name;
        double peak, end;
    } rows[] = {
        {"requested", (double)t->peak_bytes, (double)t->live_bytes},
        {"handed out, with rounding", NAN, (double)t->live_usable},
        {"held by the allocator", (double)peak->mapped, (double)end->mapped},
        {"resident in the process", (double)peak->physical, (double)end->physical},
        {"the profiler's own, not in the others", (double)peak->own, (double)end->own},
    };
    const char *when = na_view_moment(r->in)->when;
    char note[256], a[NA_TEXT], b[NA_TEXT];
    snprintf(note, sizeof note,
             "The peak is that of requested bytes. What is held and resident is sampled: for the "
             "peak at %s, for what is %s at %s.",
             na_text_ms(a, (uint64_t)(peak - points) * interval), when,
             na_text_ms(b, (uint64_t)(end - points) * interval));
    begin_table(r, "Memory", note);
    NA_JSON_STRINGS(r->json, "columns", "what", "at the peak", when);
    NA_JSON_STRINGS(r->json, "units", "", "bytes", "bytes");
    NA_JSON_STRINGS(r->json, "terms", "", "peak", "live");
    na_json_array(r->json, "rows");
    for (size_t i = 0; i < sizeof rows / sizeof rows[0]; i++)
        put_allocator_row(r, rows[i].name, (const double[]){rows[i].peak, rows[i].end}, 2);
    na_json_end(r->json);
    na_json_end(r->json);
}

/* ---- rounding ---- */

static int by_usable(const void *a, const void *b) {
    const na_size_sums_t *x = a, *y = b;
    return x->usable < y->usable ? -1 : x->usable > y->usable;
}

/* Without a trace: from sites whose blocks are all of one size, of which the class follows. */
static na_size_sums_t *classes_of_sites(na_webpage_t *r, size_t *count, double *told) {
    const na_sites_t *sites = &r->in->sites;
    na_size_sums_t *classes = calloc(sites->count + 1, sizeof *classes);
    size_t used = 0, kept = 0;
    double all = 0, known = 0;
    if (classes == NULL) {
        r->out_of_memory = true;
        return NULL;
    }
    for (size_t i = 0; i < sites->count; i++) {
        const na_counters_t *s = &sites->items[i].sum;
        all += (double)s->alloc_bytes;
        if (s->alloc_count == 0 || s->size_min != s->size_max) continue;
        known += (double)s->alloc_bytes;
        double usable = (double)s->alloc_usable / na_view_count(r->in, (double)s->alloc_count);
        classes[used++] =
            (na_size_sums_t){.usable = usable < 1e18 ? (uint64_t)(usable + 0.5) : UINT64_MAX,
                             .count = s->alloc_count,
                             .bytes = s->alloc_bytes,
                             .usable_bytes = s->alloc_usable,
                             .live_count = (uint64_t)s->live_count,
                             .live_bytes = (uint64_t)s->live_bytes,
                             .live_usable = (uint64_t)s->live_usable};
    }
    if (used != 0) qsort(classes, used, sizeof *classes, by_usable);
    for (size_t i = 0; i < used; i++) {
        if (kept == 0 || classes[kept - 1].usable != classes[i].usable) {
            classes[kept++] = classes[i];
            continue;
        }
        na_size_sums_t *to = &classes[kept - 1];
        to->count += classes[i].count;
        to->bytes += classes[i].bytes;
        to->usable_bytes += classes[i].usable_bytes;
        to->live_count += classes[i].live_count;
        to->live_bytes += classes[i].live_bytes;
        to->live_usable += classes[i].live_usable;
    }
    *count = kept;
    *told = all > 0 ? known / all : 0;
    return classes;
}

static void put_allocator_classes(na_webpage_t *r) {
    size_t count = 0;
    double told = 1;
    na_size_sums_t *made = NULL;
    const na_size_sums_t *classes;
    char note[256];
    if (r->blocks != NULL) {
        classes = na_blocks_classes(r->blocks, &count);
        snprintf(note, sizeof note,
                 "All blocks, by their size as handed out; above 64 KiB up to the next power of "
                 "two.");
    } else {
        classes = made = classes_of_sites(r, &count, &told);
        snprintf(note, sizeof note,
                 "Of the sites whose blocks are all of one size, %.0f %% of all bytes; mode trace "
                 "tells it of every block.",
                 100 * told);
    }
    if (count != 0) {
        begin_table(r, "Rounding, by size of block", note);
        NA_JSON_STRINGS(r->json, "columns", "block size", "allocations", "requested", "rounded up",
                        "of it", "live blocks", "live, requested", "live, rounded up");
        NA_JSON_STRINGS(r->json, "units", "bytes", "count", "bytes", "bytes", "share", "count",
                        "bytes", "bytes");
        NA_JSON_STRINGS(r->json, "terms", "usable", "count", "total", "waste", "wasteShare", "live",
                        "live", "waste");
        na_json_u64(r->json, "sort", 3);
        na_json_array(r->json, "rows");
        for (size_t i = 0; i < count; i++) {
            const na_size_sums_t *c = &classes[i];
            double waste = (double)c->usable_bytes - (double)c->bytes;
            put_allocator_row(
                r, NULL,
                (const double[]){(double)c->usable, na_view_count(r->in, (double)c->count),
                                 (double)c->bytes, waste,
                                 c->usable_bytes > 0 ? waste / (double)c->usable_bytes : 0,
                                 na_view_count(r->in, (double)(int64_t)c->live_count),
                                 (double)(int64_t)c->live_bytes,
                                 (double)(int64_t)(c->live_usable - c->live_bytes)},
                8);
        }
        na_json_end(r->json);
        na_json_end(r->json);
    }
    free(made);
}

/* ---- nodes ---- */

static double level_at_end(const na_series_table_t *t, uint32_t row) {
    return (double)t->row[row].last;
}

static void put_allocator_nodes(const na_webpage_t *r) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    na_series_table_t live = na_reader_series(r->in->reader, NA_NPROF_SERIES_NODES);
    na_series_table_t mapped = na_reader_series(r->in->reader, NA_NPROF_SERIES_MAPPED);
    if (live.rows + mapped.rows == 0) return;
    begin_table(r, "Nodes",
                "Blocks are counted on the node whose memory the allocator meant them to have.");
    NA_JSON_STRINGS(r->json, "columns", "node", "most live", "live last", "most held", "held last");
    NA_JSON_STRINGS(r->json, "units", "", "bytes", "bytes", "bytes", "bytes");
    NA_JSON_STRINGS(r->json, "terms", "node", "localPeak", "live", "mapped", "mapped");
    na_json_array(r->json, "rows");
    for (uint32_t node = 0; node < h->node_count && node < NA_NPROF_MAX_NODES; node++) {
        double values[4] = {NAN, NAN, NAN, NAN};
        for (uint32_t i = 0; i < live.rows; i++)
            if (live.row[i].id == node) {
                values[0] = (double)live.row[i].most;
                values[1] = level_at_end(&live, i);
            }
        for (uint32_t i = 0; i < mapped.rows; i++)
            if (mapped.row[i].id == node) {
                values[2] = (double)mapped.row[i].most;
                values[3] = level_at_end(&mapped, i);
            }
        char name[16];
        snprintf(name, sizeof name, "%u", h->node_ids[node]);
        if (!isnan(values[0]) || !isnan(values[2])) put_allocator_row(r, name, values, 4);
    }
    na_json_end(r->json);
    na_json_end(r->json);
}

/* Levels; null where nothing was noted before. */
static void put_course(const na_webpage_t *r, const na_series_table_t *t, const char *name) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    na_json_array(r->json, name);
    for (uint32_t i = 0; i < t->rows; i++) {
        uint32_t id = t->row[i].id;
        na_json_object(r->json, NULL);
        na_json_u64(r->json, "node", id < NA_NPROF_MAX_NODES ? h->node_ids[id] : id);
        na_json_array(r->json, "values");
        uint64_t level = 0;
        for (uint32_t p = 0; p < t->count; p++) {
            uint64_t v = t->values[(size_t)i * t->count + p];
            if (v != 0) level = v;
            if (level == 0)
                na_json_null(r->json, NULL);
            else
                na_json_u64(r->json, NULL, level - 1);
        }
        na_json_end(r->json);
        na_json_end(r->json);
    }
    na_json_end(r->json);
}

void na_webpage_allocator(na_webpage_t *r) {
    na_series_table_t live = na_reader_series(r->in->reader, NA_NPROF_SERIES_NODES);
    na_series_table_t mapped = na_reader_series(r->in->reader, NA_NPROF_SERIES_MAPPED);
    if (live.count + mapped.count != 0) {
        na_json_object(r->json, "nodes");
        na_json_u64(r->json, "interval_ms",
                    live.count != 0 ? live.interval_ms : mapped.interval_ms);
        put_course(r, &live, "live");
        if (live.count == 0 || mapped.interval_ms == live.interval_ms)
            put_course(r, &mapped, "mapped");
        na_json_end(r->json);
    }
    r->out_of_memory |= !na_webpage_spans(r, false);
    na_json_array(r->json, "allocator");
    put_memory(r);
    put_allocator_nodes(r);
    r->out_of_memory |= !na_webpage_spans(r, true);
    put_allocator_classes(r);
    na_json_end(r->json);
}
