/* report_time.c - memory over time, of the process and of the largest sites. */
#include <inttypes.h>
#include <stdlib.h>

#include "profiler/dump/report.h"
#include "profiler/dump/text.h"

typedef double (*point_fn_t)(const na_view_input_t *in, const na_nprof_point_t *point);

static double requested(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->requested_max;
}
static double physical(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->physical;
}
static double mapped(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->mapped;
}
static double own(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->own;
}
static double virtual_size(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->virtual_bytes;
}
static double blocks(const na_view_input_t *in, const na_nprof_point_t *p) {
    return na_view_count(in, (double)p->blocks_max);
}
static double allocations(const na_view_input_t *in, const na_nprof_point_t *p) {
    return na_view_count(in, (double)p->alloc_count);
}
static double bytes_asked(const na_view_input_t *in, const na_nprof_point_t *p) {
    (void)in;
    return (double)p->alloc_bytes;
}
static double threads(const na_view_input_t *in, const na_nprof_point_t *p) {
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
    {"mapped", "held by the allocator", "bytes", NA_NPROF_POINT_SAMPLED, false, false, mapped},
    {"virtual", "virtual", "bytes", NA_NPROF_POINT_SAMPLED, true, false, virtual_size},
    {"own", "the profiler's own", "bytes", NA_NPROF_POINT_SAMPLED, true, false, own},
    {"asked", "asked for in the interval", "bytes", 0, true, true, bytes_asked},
    {"blocks", "live blocks", "count", NA_NPROF_POINT_COUNTED, false, false, blocks},
    {"allocations", "allocations in the interval", "count", 0, false, true, allocations},
    {"threads", "threads", "count", NA_NPROF_POINT_SAMPLED, false, false, threads},
};

static void put_timeline(na_report_t *r) {
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(r->in->reader, &count, &interval);
    if (points == NULL || count == 0) return;
    fprintf(r->json,
            ",\"timeline\":{\"interval_ms\":%" PRIu32 ",\"peak_ms\":%" PRIu64 ",\"series\":[",
            interval, na_view_peak_ms(r->in));
    for (size_t l = 0; l < sizeof lines / sizeof lines[0]; l++) {
        const struct line *line = &lines[l];
        fprintf(
            r->json, "%s{\"id\":\"%s\",\"name\":\"%s\",\"unit\":\"%s\",\"hidden\":%s,\"values\":[",
            l == 0 ? "" : ",", line->id, line->name, line->unit, line->hidden ? "true" : "false");
        double last = 0;
        bool any = false;
        for (uint32_t i = 0; i < count; i++) {
            bool has = line->needs == 0 || (points[i].flags & line->needs) != 0;
            if (i != 0) putc(',', r->json);
            if (has) {
                last = line->value(r->in, &points[i]);
                any = true;
            }
            if (line->rate || any)
                na_json_number(r->json, has || !line->rate ? last : 0);
            else
                fputs("null", r->json);
        }
        fputs("]}", r->json);
    }
    fputs("]}", r->json);
}

typedef struct ranked {
    int64_t most;
    uint32_t row;
} ranked_t;

static int larger_first(const void *a, const void *b) {
    const ranked_t *x = a, *y = b;
    if (x->most != y->most) return x->most < y->most ? 1 : -1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static void put_curve(na_report_t *r, const na_series_table_t *series, uint32_t row) {
    uint64_t last = 0;
    putc('[', r->json);
    for (uint32_t i = 0; i < series->count; i++) {
        uint64_t value = series->values[(size_t)row * series->count + i];
        if (value != 0) last = value - 1; /* 0: as before */
        fprintf(r->json, "%s%" PRIu64, i == 0 ? "" : ",", last);
    }
    putc(']', r->json);
}

static void put_growth(na_report_t *r) {
    na_series_table_t series = na_reader_series(r->in->reader, NA_NPROF_SERIES_SITES);
    uint32_t stacks = na_reader_stacks(r->in->reader).count;
    if (series.count == 0 || series.rows == 0) return;
    ranked_t *ranks = calloc(series.rows, sizeof *ranks);
    if (ranks == NULL) {
        r->out_of_memory = true;
        return;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < series.rows; i++)
        if (series.row[i].used != 0 && series.row[i].id < stacks &&
            r->row_of_site[series.row[i].id] != 0)
            ranks[count++] = (ranked_t){series.row[i].most, i};
    qsort(ranks, count, sizeof *ranks, larger_first);
    if (count > NA_REPORT_SERIES) count = NA_REPORT_SERIES;
    if (count > 0) {
        fprintf(r->json, ",\"growth\":{\"interval_ms\":%" PRIu32 ",\"exact\":false,\"site\":[",
                series.interval_ms);
        for (size_t i = 0; i < count; i++)
            fprintf(r->json, "%s%" PRIu32, i == 0 ? "" : ",",
                    r->row_of_site[series.row[ranks[i].row].id] - 1);
        fputs("],\"live\":[", r->json);
        for (size_t i = 0; i < count; i++) {
            if (i != 0) putc(',', r->json);
            put_curve(r, &series, ranks[i].row);
        }
        fputs("]}", r->json);
    }
    free(ranks);
}

void na_report_time(na_report_t *r) {
    put_timeline(r);
    put_growth(r);
}
