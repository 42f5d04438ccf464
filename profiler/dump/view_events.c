/* view_events.c - the events of a trace, one a line, in the order in which they happened. Streams:
 * memory does not grow with their number; with --filter it grows with the blocks that are live,
 * since a free belongs to the stack that allocated. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/analyze/replay.h"
#include "profiler/dump/table.h"
#include "profiler/dump/views.h"
#include "profiler/format/events.h"

static void print_text(const na_event_t *e, double us) {
    printf("%10" PRIu64 " %14.3f %6" PRIu32 "  %-15s %#14" PRIx64, e->index, us, e->thread,
           na_event_name(e), e->address);
    if (na_event_is_alloc(e))
        printf(" %12" PRIu64 " %8" PRIu32, e->size, e->stack);
    else if (e->stack != NA_NPROF_NO_STACK)
        printf(" %12s %8" PRIu32, "", e->stack);
    if (e->align != 0) printf("  aligned to %" PRIu64, UINT64_C(1) << (e->align & 63));
    if (e->moved_to != 0) printf("  now at %#" PRIx64, e->moved_to);
    if (e->before) printf("  from before the profile");
    putchar('\n');
}

static void print_csv(const na_event_t *e, double us) {
    printf("%" PRIu64 ",%.3f,%" PRIu32 ",%s,%#" PRIx64 ",", e->index, us, e->thread,
           na_event_name(e), e->address);
    if (na_event_is_alloc(e))
        printf("%" PRIu64 ",%" PRIu64, e->size, e->size + e->slack);
    else
        printf(",");
    printf(",%" PRIu32 ",", e->stack);
    if (e->align != 0) printf("%" PRIu64, UINT64_C(1) << (e->align & 63));
    printf(",");
    if (e->moved_to != 0) printf("%#" PRIx64, e->moved_to);
    printf(",%d\n", e->before);
}

static void print_json(const na_event_t *e, double us, bool first) {
    printf("%s\n{\"event\":%" PRIu64 ",\"us\":%.3f,\"thread\":%" PRIu32
           ",\"kind\":\"%s\",\"address\":%" PRIu64,
           first ? "" : ",", e->index, us, e->thread, na_event_name(e), e->address);
    if (na_event_is_alloc(e))
        printf(",\"size\":%" PRIu64 ",\"usable\":%" PRIu64, e->size, e->size + e->slack);
    printf(",\"stack\":%" PRIu32, e->stack);
    if (e->align != 0) printf(",\"alignment\":%" PRIu64, UINT64_C(1) << (e->align & 63));
    if (e->moved_to != 0) printf(",\"moved_to\":%" PRIu64, e->moved_to);
    if (e->before) fputs(",\"before\":true", stdout);
    putchar('}');
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

static bool names_match(const na_options_t *o, const na_frame_t *f) {
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
    if (!s->in->options->filtered) return (s->events = na_events_open(s->in->reader)) != NULL;
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

na_status_t na_view_events(na_view_input_t *in) {
    na_format_t format = in->options->format;
    uint64_t most = in->options->top_given ? in->options->top : UINT64_MAX, rows = 0;
    double us_per_tick = 1e6 / (double)na_reader_header(in->reader)->ticks_hz;
    source_t source = {.in = in};
    bool good = open_source(&source);
    if (good && format == NA_FORMAT_CSV)
        puts("event,us,thread,kind,address,size,usable,stack,alignment,moved_to,before");
    else if (good && format == NA_FORMAT_JSON)
        fputs("{\"schema\":\"numalloc-dump.events\",\"schema_version\":1,\"rows\":[", stdout);
    else if (good)
        printf("%10s %14s %6s  %-15s %14s %12s %8s\n", "Event", "Time us", "Thread", "Kind",
               "Address", "Size", "Stack");
    na_event_t event;
    for (; good && rows < most && next(&source, &event); rows++) {
        double us = (double)event.ticks * us_per_tick;
        if (format == NA_FORMAT_CSV)
            print_csv(&event, us);
        else if (format == NA_FORMAT_JSON)
            print_json(&event, us, rows == 0);
        else
            print_text(&event, us);
    }
    if (good && format == NA_FORMAT_JSON) printf("],\"row_count\":%" PRIu64 "}\n", rows);
    good = good && !source.failed;
    close_source(&source);
    return good ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
}
