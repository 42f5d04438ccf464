/* view_events.c - the events of a trace, one a line, in the order in which they happened. Streams:
 * memory does not grow with their number (with --sort, with --top); with --filter it grows with the
 * blocks that are live, since a free belongs to the stack that allocated. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"
#include "profiler/format/reader/events.h"

enum { EVENT, US, THREAD, KIND, ADDRESS, SIZE, USABLE, STACK, ALIGNMENT, MOVED_TO, BEFORE };
static const na_column_t events_columns[] = {
    {"event", "event", NA_KIND_NUMBER, NULL},       {"us", "time us", NA_KIND_US, NULL},
    {"thread", "thread", NA_KIND_NUMBER, NULL},     {"kind", "kind", NA_KIND_TEXT, NULL},
    {"address", "address", NA_KIND_ADDRESS, NULL},  {"size", "size", NA_KIND_COUNT, NULL},
    {"usable", NULL, NA_KIND_COUNT, NULL},          {"stack", "stack", NA_KIND_NUMBER, NULL},
    {"alignment", "aligned", NA_KIND_NUMBER, NULL}, {"moved_to", "now at", NA_KIND_ADDRESS, NULL},
    {"before", "before", NA_KIND_NUMBER, NULL}, /* 1: a block from before the profile */
};
static const na_columns_t events_table = NA_COLUMNS(events_columns);

static void fill_event_row(na_table_t *table, const na_event_t *e, double us) {
    na_table_row(table, e->index);
    na_table_number(table, EVENT, (double)e->index);
    na_table_number(table, US, floor(us * 1000 + 0.5) / 1000);
    na_table_number(table, THREAD, e->thread);
    na_table_text(table, KIND, na_event_name(e));
    na_table_number(table, ADDRESS, (double)e->address);
    if (na_event_is_alloc(e)) {
        na_table_number(table, SIZE, (double)e->size);
        na_table_number(table, USABLE, (double)(e->size + e->slack));
    }
    na_table_number(table, STACK, e->stack);
    if (e->align != 0) na_table_number(table, ALIGNMENT, (double)(UINT64_C(1) << (e->align & 63)));
    if (e->moved_to != 0) na_table_number(table, MOVED_TO, (double)e->moved_to);
    na_table_number(table, BEFORE, e->before);
}

/* ---- --filter ---- */

typedef struct source {
    na_view_input_t *in;
    na_events_t
        *events; /* all of them; NULL: filtered, by a replay, which knows whose block is freed */
    na_replay_t *replay;
    uint8_t *known; /* by stack: 0 not looked at, 1 no name of it matches, 2 one does */
    uint32_t stack_count;
    na_stack_t stack;
    bool failed;
} source_t;

static bool names_match(const na_options_t *o, const na_symbol_frame_t *f) {
    return na_filter_matches(o, f->function) || na_filter_matches(o, f->file) ||
           na_filter_matches(o, f->module);
}

static bool stack_matches(source_t *s, uint32_t site) {
    if (site == NA_NPROF_NO_STACK || site >= s->stack_count) return false;
    if (s->known[site] == 0) {
        s->known[site] = 1;
        if (!na_view_stack(s->in, site, &s->stack)) s->failed = true;
        for (uint32_t i = 0; !s->failed && i < s->stack.count; i++)
            if (names_match(s->in->options, s->stack.items[i])) s->known[site] = 2;
    }
    return s->known[site] == 2;
}

static bool next(source_t *s, na_event_t *event) {
    if (s->events != NULL) return na_events_next(s->events, event);
    na_live_t freed;
    while (!s->failed && na_replay_next(s->replay, event, &freed))
        if (na_filter_matches(s->in->options, na_event_name(event)) ||
            stack_matches(s, event->stack) || (freed.address != 0 && stack_matches(s, freed.stack)))
            return true;
    s->failed = s->failed || na_replay_failed(s->replay);
    return false;
}

static bool open_source(source_t *s) {
    if (!s->in->options->table.filter.given)
        return (s->events = na_events_open(s->in->reader)) != NULL;
    s->stack_count = na_reader_stacks(s->in->reader).count;
    s->known = calloc((size_t)s->stack_count + 1, sizeof *s->known);
    s->replay = na_replay_open(s->in->reader);
    return s->known != NULL && s->replay != NULL;
}

static void close_source(source_t *s) {
    if (s->events != NULL) na_events_close(s->events);
    if (s->replay != NULL) na_replay_close(s->replay);
    free(s->known);
    free(s->stack.items);
}

static na_status_t show_events(na_view_input_t *in) {
    double us_per_tick = 1e6 / (double)na_reader_header(in->reader)->ticks_hz;
    source_t source = {.in = in};
    na_options_t options = *in->options;
    options.table.filter.given = false; /* it has chosen events */
    /* All events, but with --sort the first ones: the others need not be kept. */
    const na_table_print_t print = {.view = "events", .all = options.table.sort == NULL};
    na_table_t *table = na_table_open(&events_table);
    bool good = open_source(&source) && table != NULL;
    na_event_t event;
    while (good && next(&source, &event)) {
        fill_event_row(table, &event, (double)event.ticks * us_per_tick);
        if (!na_table_pass(table, &options, &print)) break;
    }
    good = good && !source.failed;
    na_status_t status = good ? na_table_end(table, &options, &print) : NA_STATUS_MEMORY;
    na_table_close(table);
    close_source(&source);
    return status;
}

const na_view_t na_view_row_events = {
    .name = "events",
    .words = "FILE",
    .help = "every event, in the order in which they happened",
    .more =
        "--filter: events of that kind (free, realloc, ...), and all of blocks that were "
        "allocated or\n"
        "freed on a stack with such a name. Stacks are numbers, as in the JSON of other views.\n"
        "--sort keeps the first --top rows, 20 unless it is given.",
    .modes = NA_IN(NA_NPROF_MODE_TRACE),
    .flags = NA_VIEW_LIGHT | NA_VIEW_FILTERS_STACKS,
    .takes = NA_TAKES_TABLE,
    .tables = {{&events_table, 0}},
    .show = show_events,
};
