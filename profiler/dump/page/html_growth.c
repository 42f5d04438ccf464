/* html_growth.c - live bytes of sites over time: from the curves that mode sites keeps of the
 * largest, or exactly, from a trace. */
#include <stdint.h>
#include <stdlib.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/dump/page/html_page.h"

typedef struct ranked {
    int64_t most;
    uint32_t row;
} ranked_t;

static int largest_growth_first(const void *a, const void *b) {
    const ranked_t *x = a, *y = b;
    if (x->most != y->most) return x->most < y->most ? 1 : -1;
    return x->row < y->row ? -1 : x->row > y->row;
}

static uint32_t stack_row(const na_webpage_t *r, uint32_t stack) {
    uint32_t stacks = na_reader_stacks(r->in->reader).count;
    return stack < stacks && r->row_of_site[stack] != 0 ? r->row_of_site[stack] - 1
                                                        : NA_WEBPAGE_NONE;
}

/* ---- from curves ---- */

static void put_curve(const na_webpage_t *r, const na_series_table_t *series, uint32_t row) {
    uint64_t last = 0;
    na_json_array(r->json, NULL);
    for (uint32_t i = 0; i < series->count; i++) {
        uint64_t value = series->values[(size_t)row * series->count + i];
        if (value != 0) last = value - 1; /* 0: as before */
        na_json_u64(r->json, NULL, last);
    }
    na_json_end(r->json);
}

static void from_series(na_webpage_t *r) {
    na_series_table_t series = na_reader_series(r->in->reader, NA_NPROF_SERIES_SITES);
    if (series.count == 0 || series.rows == 0) return;
    ranked_t *ranks = calloc(series.rows, sizeof *ranks);
    if (ranks == NULL) {
        r->out_of_memory = true;
        return;
    }
    size_t count = 0;
    for (uint32_t i = 0; i < series.rows; i++)
        if (series.row[i].used != 0 && stack_row(r, series.row[i].id) != NA_WEBPAGE_NONE)
            ranks[count++] = (ranked_t){series.row[i].most, i};
    qsort(ranks, count, sizeof *ranks, largest_growth_first);
    if (count > na_webpage_most(r, NA_WEBPAGE_SERIES))
        count = na_webpage_most(r, NA_WEBPAGE_SERIES);
    if (count > 0) {
        na_json_object(r->json, "growth");
        na_json_u64(r->json, "interval_ms", series.interval_ms);
        na_json_bool(r->json, "exact", false);
        na_json_array(r->json, "site");
        for (size_t i = 0; i < count; i++)
            na_json_u64(r->json, NULL, stack_row(r, series.row[ranks[i].row].id));
        na_json_end(r->json);
        na_json_array(r->json, "live");
        for (size_t i = 0; i < count; i++)
            put_curve(r, &series, ranks[i].row);
        na_json_end(r->json);
        na_json_end(r->json);
    }
    free(ranks);
}

/* ---- from a trace ---- */

#define POINTS 512u

/* One site: what lives of it now, and the interval up to which its row is filled. */
typedef struct course {
    uint64_t now;
    uint32_t filled; /* intervals begun; the last one may still rise */
    uint64_t live[POINTS], alloc[POINTS];
} course_t;

/* From the interval in hand on, `now` holds until it changes. */
static void reach_interval(course_t *c, uint32_t interval) {
    while (c->filled <= interval)
        c->live[c->filled++] = c->now;
}

static void rise(course_t *c, uint32_t interval, uint64_t bytes) {
    reach_interval(c, interval);
    c->now += bytes;
    c->alloc[interval] += bytes;
    if (c->now > c->live[interval]) c->live[interval] = c->now;
}

static void fall(course_t *c, uint32_t interval, uint64_t bytes) {
    reach_interval(c, interval);
    c->now -= bytes < c->now ? bytes : c->now;
}

static void put_courses(const na_webpage_t *r, const course_t *courses, uint32_t count,
                        uint32_t points, bool alloc) {
    for (uint32_t i = 0; i < count; i++) {
        const uint64_t *values = alloc ? courses[i].alloc : courses[i].live;
        na_json_array(r->json, NULL);
        for (uint32_t p = 0; p < points; p++)
            na_json_u64(r->json, NULL, values[p]);
        na_json_end(r->json);
    }
}

/* Rows are in the order of their shares, so the first are the largest; all others are left out, and
 * then the page says that not all are drawn. */
static void from_trace(na_webpage_t *r) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    uint32_t count = 0;
    while (count < r->site_count && count < na_webpage_most(r, NA_WEBPAGE_COURSES) &&
           r->sites[count].id != 0)
        count++;
    bool exact = count == r->site_count;
    unsigned shift = h->age_shift;
    double ms_a_tick = na_tick_ms(h);
    uint64_t interval = h->last_ms / POINTS + 1;
    course_t *courses = calloc(count + 1u, sizeof *courses);
    na_replay_t *replay = na_replay_open(r->in->reader);
    na_event_t event;
    na_live_t freed;
    uint32_t last = 0;
    uint64_t duration = ms_a_tick > 0 ? (uint64_t)((double)(h->last_ms + 1) / ms_a_tick) : 1;
    r->blocks = na_blocks_open(count, duration, shift);
    r->out_of_memory |= courses == NULL || replay == NULL || r->blocks == NULL;
    while (!r->out_of_memory && na_replay_next(replay, &event, &freed)) {
        uint64_t at = (uint64_t)((double)event.ticks * ms_a_tick) / interval;
        uint32_t point = at < POINTS ? (uint32_t)at : POINTS - 1, row;
        if (point < last) point = last; /* stamps of two threads may be a little out of order */
        last = point;
        uint32_t freed_row = freed.address != 0 ? stack_row(r, freed.stack) : NA_WEBPAGE_NONE;
        row = na_event_is_alloc(&event) ? stack_row(r, event.stack) : NA_WEBPAGE_NONE;
        if (freed_row < count) fall(&courses[freed_row], point, freed.size);
        const na_live_t *came = na_replay_came(replay);
        uint32_t came_row = came != NULL ? stack_row(r, came->stack) : NA_WEBPAGE_NONE;
        if (came_row < count) rise(&courses[came_row], point, came->size);
        r->out_of_memory = !na_blocks_see(r->blocks, &event, &freed, row, freed_row);
    }
    if (r->blocks != NULL) na_blocks_end(r->blocks);
    if (replay != NULL) r->out_of_memory |= na_replay_failed(replay);
    if (!r->out_of_memory && count > 0) {
        na_json_object(r->json, "growth");
        na_json_u64(r->json, "interval_ms", interval);
        na_json_bool(r->json, "exact", exact);
        na_json_array(r->json, "site");
        for (uint32_t i = 0; i < count; i++) {
            na_json_u64(r->json, NULL, i);
            reach_interval(&courses[i], last);
        }
        na_json_end(r->json);
        na_json_array(r->json, "live");
        put_courses(r, courses, count, last + 1, false);
        na_json_end(r->json);
        na_json_array(r->json, "alloc");
        put_courses(r, courses, count, last + 1, true);
        na_json_end(r->json);
        na_json_end(r->json);
    }
    na_replay_close(replay);
    free(courses);
}

void na_webpage_growth(na_webpage_t *r) {
    if (na_reader_header(r->in->reader)->mode == NA_NPROF_MODE_TRACE)
        from_trace(r);
    else
        from_series(r);
}
