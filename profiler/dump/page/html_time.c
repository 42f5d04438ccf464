/* html_time.c - memory of the process over time. */
#include <inttypes.h>

#include "profiler/dump/page/html_page.h"

typedef double (*point_fn_t)(const na_view_input_t *in, const na_nprof_point_t *point);

static double requested(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->requested_max;
}
static double physical(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->physical;
}
static double mapped_then(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->mapped;
}
static double own_then(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->own;
}
static double virtual_size(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->virtual_bytes;
}
static double blocks_then(const na_view_input_t *in, const na_nprof_point_t *p) {
    return na_view_count(in, (double)p->blocks_max);
}
static double allocations(const na_view_input_t *in, const na_nprof_point_t *p) {
    return na_view_count(in, (double)p->alloc_count);
}
static double bytes_asked(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->alloc_bytes;
}
static double threads_then(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->threads;
}

static const struct line {
    const char *id, *name, *unit;
    uint32_t needs;    /* flag of a point that holds it */
    bool hidden, rate; /* rate: none where nothing happened, not as before */
    point_fn_t value;
} lines[] = {
    {"requested", "requested", "bytes", NA_NPROF_POINT_COUNTED, false, false, requested},
    {"physical", "physical", "bytes", NA_NPROF_POINT_SAMPLED, false, false, physical},
    {"mapped", "held by the allocator", "bytes", NA_NPROF_POINT_SAMPLED, false, false, mapped_then},
    {"virtual", "virtual", "bytes", NA_NPROF_POINT_SAMPLED, true, false, virtual_size},
    {"own", "the profiler's own", "bytes", NA_NPROF_POINT_SAMPLED, true, false, own_then},
    {"asked", "asked for in the interval", "bytes", 0, true, true, bytes_asked},
    {"blocks", "live blocks", "count", NA_NPROF_POINT_COUNTED, false, false, blocks_then},
    {"allocations", "allocations in the interval", "count", 0, false, true, allocations},
    {"threads", "threads", "count", NA_NPROF_POINT_SAMPLED, false, false, threads_then},
};

/* A line for each node. */
static void put_node_lines(const na_webpage_t *r, uint32_t count, uint32_t interval) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    na_series_table_t t = na_reader_series(r->in->reader, NA_NPROF_SERIES_RESIDENT);
    for (uint32_t n = 0; t.count != 0 && n < t.rows; n++) {
        uint32_t id = t.row[n].id, node = id < NA_NPROF_MAX_NODES ? h->node_ids[id] : id;
        na_json_object(r->json, NULL);
        na_json_text(r->json, "id", "physical-%" PRIu32, node);
        na_json_text(r->json, "name", "physical on node %" PRIu32, node);
        na_json_string(r->json, "unit", "bytes");
        na_json_bool(r->json, "hidden", false);
        na_json_array(r->json, "values");
        for (uint32_t i = 0; i < count; i++) {
            na_json_number(
                r->json, NULL,
                na_view_level(&t, n, (uint64_t)i * interval, ((uint64_t)i + 1) * interval));
        }
        na_json_end(r->json);
        na_json_end(r->json);
    }
}

void na_webpage_time(na_webpage_t *r) {
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(r->in->reader, &count, &interval);
    if (points == NULL || count == 0) return;
    na_json_object(r->json, "timeline");
    na_json_u64(r->json, "interval_ms", interval);
    na_json_u64(r->json, "peak_ms", na_view_peak_ms(r->in));
    na_json_array(r->json, "series");
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        const struct line *line = &lines[l];
        na_json_object(r->json, NULL);
        na_json_string(r->json, "id", line->id);
        na_json_string(r->json, "name", line->name);
        na_json_string(r->json, "unit", line->unit);
        na_json_bool(r->json, "hidden", line->hidden);
        na_json_array(r->json, "values");
        double last = 0;
        bool any = false;
        for (uint32_t i = 0; i < count; i++) {
            bool has = line->needs == 0 || (points[i].flags & line->needs) != 0;
            if (has) {
                last = line->value(r->in, &points[i]);
                any = true;
            }
            if (line->rate || any)
                na_json_number(r->json, NULL, has || !line->rate ? last : 0);
            else
                na_json_null(r->json, NULL);
        }
        na_json_end(r->json);
        na_json_end(r->json);
    }
    put_node_lines(r, count, interval);
    na_json_end(r->json);
    na_json_end(r->json);
}
