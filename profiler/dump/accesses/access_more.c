/* access_more.c - where there are too few samples: why, and what brings more. */
#include <inttypes.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_access.h"

/* Factors beyond this are nothing that an option brings. */
#define MOST_OFTEN   4.0
#define SHORTEST_US  1000.0
#define DEFAULT_COST 3.0 /* where the file does not say */
#define MOST_COST    100.0
#define LOST         0.01 /* more samples bring more losses */
#define MICROSECONDS 1e-3 /* of a watchpoints' period, which is in ns */

/* Until now: of a process that runs, or was killed, the last sample is newer than its last event.
 */
static double run_ms(const na_access_view_t *view) {
    uint64_t most = view->flows.end_ns / 1000000;
    for (uint32_t p = 0; p < view->flows.process_count; p++) {
        uint64_t ms = na_reader_header(view->flows.processes[p].reader)->last_ms;
        if (ms > most) most = ms;
    }
    return (double)most;
}

void na_access_more_often(const na_nprof_access_source_t *s, double factor, char *out,
                          size_t size) {
    out[0] = 0;
    if (s->period == 0 || s->throttled != 0 ||
        (double)s->lost > LOST * (double)(s->lost + s->stored))
        return;
    if (factor > MOST_OFTEN) factor = MOST_OFTEN;
    if (s->source != NA_NPROF_SOURCE_WATCH) {
        snprintf(out, size, "NUMALLOC_ACCESS_PERIOD=%.0f (now %" PRIu64 ")",
                 floor((double)s->period / factor), s->period);
        return;
    }
    double now = (double)s->period * MICROSECONDS, then = floor(now / factor);
    if (then < SHORTEST_US) then = SHORTEST_US;
    if (then > now) then = now;
    double paid = s->cost != 0 ? s->cost : DEFAULT_COST, cost = ceil(paid * factor);
    if (cost > MOST_COST) cost = MOST_COST;
    if (then < now || cost > paid)
        snprintf(
            out, size,
            "NUMALLOC_ACCESS_PERIOD=%.0f NUMALLOC_ACCESS_COST=%.0f (now every %.0f us, %.0f %%)",
            then, cost, now, paid);
}

void na_access_less(const na_nprof_access_source_t *s, char *out, size_t size) {
    out[0] = 0;
    if (s->period == 0) return;
    bool watch = s->source == NA_NPROF_SOURCE_WATCH;
    snprintf(out, size, "; sample less often: NUMALLOC_ACCESS_PERIOD=%.0f",
             2 * (double)s->period * (watch ? MICROSECONDS : 1));
}

void na_access_more(const na_access_view_t *view, double factor, char *out, size_t size) {
    const na_nprof_access_source_t *s = &view->flows.sources[view->verdicts.source].of;
    char often[160], time[NA_TEXT];
    double ms = run_ms(view);
    na_access_more_often(s, factor, often, sizeof often);
    if (ms > 0 && factor < 1e6)
        snprintf(out, size, "run some %s (%.1f times as long)%s%s",
                 na_text_ms(time, (uint64_t)(ms * factor)), factor,
                 often[0] != 0 ? ", or sample more often: " : "", often);
    else
        snprintf(out, size, "run longer%s%s", often[0] != 0 ? ", or sample more often: " : "",
                 often);
}

/* The source that was in use; else the one that was chosen last; NULL: there is none. */
static const na_nprof_access_source_t *chosen_source(const na_flows_t *flows) {
    const na_nprof_access_source_t *last = NULL;
    for (uint32_t i = 0; i < flows->source_count; i++) {
        last = &flows->sources[i].of;
        if ((last->flags & NA_NPROF_ACCESS_USED) != 0) break;
    }
    return last;
}

double na_access_counted(const na_nprof_access_source_t *s) {
    return s->enabled_ns == 0 ? 1 : (double)s->running_ns / (double)s->enabled_ns;
}

void na_access_none(const na_access_view_t *view, char *out, size_t size) {
    const na_nprof_access_source_t *s = chosen_source(&view->flows);
    char time[NA_TEXT], count[NA_TEXT], often[160];
    na_text_ms(time, (uint64_t)run_ms(view));
    if (s == NULL) {
        snprintf(out, size, "no source");
    } else if ((s->flags & NA_NPROF_ACCESS_USED) == 0) {
        /* Sources before it say what they lack; this one was about to begin. */
        if (s->why[0] == 0)
            snprintf(out, size,
                     "%s was not ready yet when the process ended, or became another by exec, "
                     "after %s; that one has a profile of its own",
                     na_access_source_name(s->source), time);
        else
            snprintf(out, size, "%.300s", s->why);
    } else if (s->source == NA_NPROF_SOURCE_WATCH) {
        na_access_more_often(s, INFINITY, often, sizeof often);
        snprintf(out, size,
                 "watch looked at %s words in %s, and none was used just then; run longer%s%s",
                 na_text_count(count, (double)s->windows), time,
                 often[0] != 0 ? ", or look more often: " : "", often);
    } else if (na_access_counted(s) < NA_ACCESS_SHARED) {
        snprintf(out, size,
                 "%s took none in %s: its counter ran for %.0f %% of the time, since another user, "
                 "such as perf, had it; run it alone",
                 na_access_source_name(s->source), time, 100 * na_access_counted(s));
    } else {
        snprintf(out, size, "%s took none in %s%s%.200s; run longer",
                 na_access_source_name(s->source), time, s->why[0] != 0 ? ": " : "", s->why);
    }
}
