/* view_threads.c - what each thread did: its own events, and whose blocks it freed. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/analyze/blocks/calls.h"
#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

typedef struct sum {
    uint64_t sites, frees, freed_bytes, cross_thread, cross_node, reallocs;
    int64_t net; /* bytes allocated less bytes freed by this thread */
} sum_t;

typedef struct sums {
    sum_t *items;
    uint32_t count;
} sums_t;

static void add_thread_cell(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    const sums_t *sums = arg;
    if (thread >= sums->count) return;
    sum_t *s = &sums->items[thread];
    s->sites += cell->alloc_count != 0;
    s->frees += cell->free_count;
    s->freed_bytes += cell->free_bytes;
    s->cross_thread += cell->cross_thread_free_count;
    s->cross_node += cell->cross_node_free_count;
    s->reallocs += cell->realloc_count;
    s->net = (int64_t)((uint64_t)s->net + cell->alloc_bytes - cell->free_bytes);
}

/* A trace has no cells: whose block an event freed is known by playing it back. */
static void add_events(na_replay_t *replay, const sums_t *sums) {
    na_event_t event;
    na_live_t freed;
    while (na_replay_next(replay, &event, &freed)) {
        if (event.thread >= sums->count) continue;
        sum_t *s = &sums->items[event.thread];
        bool moved = event.kind == NA_NPROF_EVENT_RESIZE || event.kind == NA_NPROF_EVENT_MOVED;
        if (na_event_is_alloc(&event)) s->net = (int64_t)((uint64_t)s->net + event.size);
        if (freed.address == 0) continue;
        s->frees++;
        s->freed_bytes += freed.size;
        s->reallocs += moved;
        s->net = (int64_t)((uint64_t)s->net - freed.size);
        s->cross_thread += freed.thread != event.thread;
    }
}

/* Cells belong to places, which threads have one after the other; what its entry says is a thread's
 * own. */
static void take_own_figures(const na_nprof_header_t *h, const na_nprof_thread_t *t, sum_t *s) {
    s->frees = t->free_count;
    s->freed_bytes = t->free_bytes;
    s->net = (int64_t)(t->alloc_bytes - t->free_bytes);
    if ((h->checks & NA_NPROF_CHECK_FREES) == 0) return; /* an older file */
    s->cross_thread = t->cross_thread_free_count;
    s->cross_node = t->cross_node_free_count;
    s->reallocs = t->realloc_count;
}

enum { CALL_COLUMNS = 4 };

/* Of each entry point; in JSON and CSV only. */
#define CALL(key)                                                                                  \
    {key "_calls", NULL, NA_KIND_COUNT, NULL}, {key "_timed", NULL, NA_KIND_COUNT, NULL},          \
        {key "_ms", NULL, NA_KIND_NUMBER, NULL}, {                                                 \
        key "_error", NULL, NA_KIND_ERROR, NULL                                                    \
    }
static const na_column_t threads_columns[] = {
    {"thread", "thread", NA_KIND_NUMBER, NULL},
    {"tid", "tid", NA_KIND_NUMBER, NULL},
    {"threads", NULL, NA_KIND_COUNT, NULL}, /* one after the other, of which this is the last */
    {"name", "name", NA_KIND_TEXT, NULL},
    {"start_ms", "start", NA_KIND_MS, NULL},
    {"end_ms", "end", NA_KIND_MS, NULL},
    {"total_bytes", "total", NA_KIND_BYTES, "total"},
    {NULL, "share", NA_KIND_SHARE, NULL},
    {"allocations", "allocations", NA_KIND_COUNT, "count"},
    {"frees", "frees", NA_KIND_COUNT, NULL},
    {"freed_bytes", "freed", NA_KIND_BYTES, NULL},
    {"cross_thread_frees", "of other threads", NA_KIND_COUNT, NULL},
    {"cross_node_frees", "of other nodes", NA_KIND_COUNT, NULL},
    {"reallocs", "reallocs", NA_KIND_COUNT, NULL},
    {"net_bytes", NULL, NA_KIND_BYTES, "live"},
    {"sites", "sites", NA_KIND_COUNT, NULL},
    {"time_ms", "in the allocator", NA_KIND_MS, NULL},
    {"time_error", "", NA_KIND_ERROR, NULL},
    CALL("malloc"),
    CALL("calloc"),
    CALL("realloc"),
    CALL("aligned"),
    CALL("new"),
    CALL("new_array"),
    CALL("free"),
    CALL("delete"),
};
static const na_columns_t threads_table = NA_COLUMNS(threads_columns);

/* Text: the same as rows of its own. */
static na_status_t put_calls(const na_view_input_t *in) {
    enum { THREAD, NAME, CALL, CALLS, TIMED, TIME, ERROR, EACH, ORDER };
    static const na_column_t columns[] = {
        {NULL, "thread", NA_KIND_NUMBER, NULL}, {NULL, "name", NA_KIND_TEXT, NULL},
        {NULL, "call", NA_KIND_TEXT, NULL},     {NULL, "calls", NA_KIND_COUNT, NULL},
        {NULL, "timed", NA_KIND_COUNT, NULL},   {"time", "time", NA_KIND_MS, NULL},
        {NULL, "", NA_KIND_ERROR, NULL},        {NULL, "each, ns", NA_KIND_NUMBER, NULL},
        {"order", NULL, NA_KIND_NUMBER, NULL},
    };
    const na_nprof_header_t *header = na_reader_header(in->reader);
    na_thread_table_t threads = na_reader_threads(in->reader);
    static const na_columns_t all = NA_COLUMNS(columns);
    na_table_t *table = na_table_open(&all);
    if (table == NULL) return NA_STATUS_MEMORY;
    for (uint32_t i = 1; i < threads.count; i++) {
        const na_nprof_thread_t *t = &threads.items[i];
        for (unsigned e = 0; t->tid != 0 && e < NA_NPROF_ENTRIES; e++) {
            na_call_time_t call = na_call_time(header, t, e);
            if (call.calls == 0) continue;
            na_table_row(table, i);
            na_table_number(table, THREAD, i);
            char name[32];
            na_table_text(table, NAME, na_view_thread_name(t, name));
            na_table_text(table, CALL, na_call_names[e]);
            na_table_number(table, CALLS, call.calls);
            na_table_number(table, TIMED, call.timed);
            na_table_number(table, TIME, call.ms);
            na_table_number(table, ERROR, call.error);
            na_table_number(table, EACH, round(call.ms / call.calls * 1e6));
            /* What may as well be nothing comes last. */
            na_table_number(table, ORDER, call.error >= 1 ? call.ms - 1e15 : call.ms);
        }
    }
    na_options_t options = *in->options;
    options.table.sort = NULL;
    const na_table_print_t print = {
        .view = "threads",
        .title = "Calls by entry point (%s); time is the allocator's without the profiler's, "
                 "estimated from the calls timed; last those that may as well be 0",
        .sort = "order"};
    na_status_t status = NA_STATUS_WHOLE;
    if (na_table_rows(table) != 0) {
        putchar('\n');
        status = na_table_write(table, &options, &print);
    }
    na_table_close(table);
    return status;
}

static na_status_t show_thread_rows(na_view_input_t *in) {
    if (in->options->accesses.shown) {
        na_status_t status = na_view_sum(in, NULL, false);
        return status == NA_STATUS_WHOLE ? na_view_access_threads(in) : status;
    }
    enum {
        THREAD,
        TID,
        THREADS,
        NAME,
        START,
        END,
        TOTAL,
        SHARE,
        COUNT,
        FREES,
        FREED,
        CROSS,
        NODE,
        REALLOCS,
        NET,
        SITES,
        TIME,
        ERROR,
        CALLS
    };
    na_thread_table_t threads = na_reader_threads(in->reader);
    sums_t sums = {calloc((size_t)threads.count + 1, sizeof *sums.items), threads.count};
    na_table_t *table = na_table_open(&threads_table);
    na_status_t status = NA_STATUS_MEMORY;
    const na_nprof_header_t *header = na_reader_header(in->reader);
    bool trace = header->mode == NA_NPROF_MODE_TRACE;
    na_replay_t *replay = trace ? na_replay_open(in->reader) : NULL;
    if (sums.items != NULL && replay != NULL) add_events(replay, &sums);
    na_status_t sum = na_view_sum(in, replay, true);
    if (sum != NA_STATUS_WHOLE) {
        status = sum;
    } else if (sums.items != NULL && table != NULL) {
        if (!trace) na_reader_cells(in->reader, add_thread_cell, &sums);
        double all = (double)in->sites.total.alloc_bytes;
        uint64_t later = 0;
        char text[NA_TEXT], text2[NA_TEXT];
        for (uint32_t i = 1; i < threads.count; i++) {
            const na_nprof_thread_t *t = &threads.items[i];
            sum_t *s = &sums.items[i];
            if (t->tid == 0) continue;
            if (!trace) take_own_figures(header, t, s);
            na_table_row(table, i);
            char name[32];
            na_table_text(table, NAME, na_view_thread_name(t, name));
            later += t->more != 0 ? UINT64_C(1) + t->more : 0;
            na_call_time_t time = na_call_time_of_all(header, t);
            const double values[] = {
                [THREAD] = i,
                [TID] = t->more != 0 ? NAN : (double)t->tid,
                [THREADS] = 1 + (double)t->more,
                [NAME] = NAN,
                [START] = (double)t->start_ms,
                [END] = t->end_ms == UINT64_MAX ? NAN : (double)t->end_ms,
                [TOTAL] = (double)t->alloc_bytes,
                [SHARE] = all > 0 ? (double)t->alloc_bytes / all : NAN,
                [COUNT] = na_view_count(in, (double)t->alloc_count),
                [FREES] = na_view_count(in, (double)s->frees),
                [FREED] = (double)s->freed_bytes,
                [CROSS] = na_view_count(in, (double)s->cross_thread),
                [NODE] = trace ? NAN : na_view_count(in, (double)s->cross_node),
                [REALLOCS] = na_view_count(in, (double)s->reallocs),
                [NET] = (double)s->net,
                [SITES] = trace ? NAN : (double)s->sites,
                [TIME] = time.ms,
                [ERROR] = time.error,
            };
            for (size_t c = 0; c < sizeof values / sizeof values[0]; c++)
                if (c != NAME) na_table_number(table, c, values[c]);
            for (unsigned e = 0; e < NA_NPROF_ENTRIES; e++) {
                na_call_time_t call = na_call_time(header, t, e);
                const double of_call[CALL_COLUMNS] = {call.calls, call.timed, call.ms, call.error};
                for (size_t c = 0; call.calls > 0 && c < CALL_COLUMNS; c++)
                    na_table_number(table, CALLS + e * CALL_COLUMNS + c, of_call[c]);
            }
        }
        const na_table_print_t print = {.view = "threads",
                                        .title = "Threads (%s); \"of other threads\" are frees of "
                                                 "blocks that another thread allocated",
                                        .sort = "total_bytes"};
        status = na_table_write(table, in->options, &print);
        if (in->options->table.format == NA_FORMAT_TEXT) {
            if (later != 0)
                printf("%s threads that began after the first %s are counted together, in a row "
                       "for each place that they took one after the other.\n",
                       na_text_count(text, (double)later),
                       na_text_count(text2, NA_NPROF_THREADS_OWN));
            if (status == NA_STATUS_WHOLE) status = put_calls(in);
        }
    }
    na_table_close(table);
    free(sums.items);
    return status;
}

const na_view_t na_view_row_threads = {
    .name = "threads",
    .words = "FILE",
    .help = "what each thread allocated, whose blocks it freed, and its time in the allocator",
    .more = "--access: what each thread touched, and on which nodes it ran.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_PLAYS,
    .takes = NA_TAKES_TABLE | NA_TAKES(ACCESS) | NA_TAKES(WHERE),
    .tables = {{&threads_table, 0}, {&na_columns_access_threads, NA_TAKES(ACCESS)}},
    .show = show_thread_rows,
};
