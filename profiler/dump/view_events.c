/* view_events.c - the events of a trace, one a line, in the order in which they happened. Streams:
 * memory does not grow with their number. */
#include <inttypes.h>
#include <stdio.h>

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

na_status_t na_view_events(na_view_input_t *in) {
    bool csv = in->options->format == NA_FORMAT_CSV;
    uint64_t most = in->options->top_given ? in->options->top : UINT64_MAX;
    double us_per_tick = 1e6 / (double)na_reader_header(in->reader)->ticks_hz;
    na_events_t *events = na_events_open(in->reader);
    if (events == NULL) return NA_STATUS_MEMORY;
    if (csv)
        puts("event,us,thread,kind,address,size,usable,stack,alignment,moved_to,before");
    else
        printf("%10s %14s %6s  %-15s %14s %12s %8s\n", "Event", "Time us", "Thread", "Kind",
               "Address", "Size", "Stack");
    na_event_t event;
    while (most != 0 && na_events_next(events, &event)) {
        double us = (double)event.ticks * us_per_tick;
        if (csv)
            print_csv(&event, us);
        else
            print_text(&event, us);
        most--;
    }
    na_events_close(events);
    return NA_STATUS_WHOLE;
}
