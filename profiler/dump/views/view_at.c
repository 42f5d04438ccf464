/* view_at.c - the blocks that live at one moment, by site; or what changed between two moments.
 *
 * A trace is played back to the moment, which is exact for any. The other modes know two moments:
 * the peak, and the end. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/containers/quantity.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

typedef enum kind { AT_PEAK, AT_END, AT_MS, AT_MARKER, AT_EVENT } kind_t;

typedef struct moment {
    kind_t kind;
    double ms;
    uint64_t ticks;  /* of a marker: events before it have a lower stamp */
    uint64_t events; /* of a trace: played until then */
} moment_t;

/* What a site has at the moment, and what of it is from after the earlier one. */
typedef struct held {
    int64_t bytes, blocks;
    int64_t new_bytes, new_blocks;
    int64_t before_bytes, before_blocks; /* at the earlier moment */
    uint64_t oldest;                     /* ticks; UINT64_MAX: none */
} held_t;

typedef struct moments {
    na_view_input_t *in;
    uint64_t now; /* ticks of the event before the moment */
    moment_t time, since;
    double ms_per_tick;
    held_t *held; /* by site */
    uint32_t sites;
    bool marks;   /* only marked blocks are new */
    bool earlier; /* is it the earlier moment that is looked at? */
} moments_t;

/* ---- what moment ---- */

typedef struct search {
    const char *name;
    na_nprof_marker_t first; /* of that name; flags 0: not found */
} search_t;

static void find_marker(void *arg, uint32_t id, const void *entry) {
    search_t *s = arg;
    const na_nprof_marker_t *m = entry;
    (void)id;
    bool sooner = m->ms < s->first.ms || (m->ms == s->first.ms && m->ticks < s->first.ticks);
    if (strcmp(m->name, s->name) == 0 && (s->first.flags == 0 || sooner)) s->first = *m;
}

/* Old profiles know whole milliseconds. */
static na_status_t read_marker(const na_view_input_t *in, const char *name, moment_t *moment) {
    search_t search = {.name = name};
    na_reader_control(in->reader, NA_NPROF_MARKERS, find_marker, &search);
    if (search.first.flags == 0)
        return na_fail("%s: no marker '%s'; 'markers' lists them", in->path, name);
    bool placed = (search.first.flags & NA_NPROF_MARKER_PLACED) != 0;
    moment->kind = placed ? AT_MARKER : AT_MS;
    moment->ms = (double)search.first.ms;
    moment->ticks = search.first.ticks;
    return NA_STATUS_WHOLE;
}

static na_status_t read_moment(const na_view_input_t *in, const char *option, const char *text,
                               moment_t *moment) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (text == NULL || strcmp(text, "peak") == 0) {
        moment->kind = AT_PEAK;
        return NA_STATUS_WHOLE;
    }
    if (strcmp(text, "end") == 0) {
        moment->kind = AT_END;
        return NA_STATUS_WHOLE;
    }
    if (h->mode != NA_NPROF_MODE_TRACE)
        return na_fail("%s: '--%s %s' needs a profile of mode trace, this one is of mode %s and "
                       "knows peak and end%s; record it with NUMALLOC_PROFILE=trace",
                       in->path, option, text, na_mode_name(h->mode),
                       text[0] == '@' ? ", and of markers what all sites had ('markers')" : "");
    moment->kind = AT_MS;
    if (text[0] == '@') return read_marker(in, text + 1, moment);
    char *end = NULL;
    if (text[0] == '#') {
        moment->kind = AT_EVENT;
        if (text[1] >= '0' && text[1] <= '9') {
            unsigned long long event = strtoull(text + 1, &end, 10);
            moment->events = event < UINT64_MAX ? event + 1 : event;
        }
        if (end != NULL && *end == 0) return NA_STATUS_WHOLE;
    } else {
        /* Whole milliseconds end before the run does; the closing stamp is exact. */
        double run = h->last_mono_ns > h->start_mono_ns
                         ? (double)(h->last_mono_ns - h->start_mono_ns) / 1e6
                         : (double)h->last_ms + 1;
        double percent;
        const char *unit;
        bool good = na_quantity_ms(text, 0, &moment->ms);
        if (!good && na_quantity_number(text, &percent, &unit) && strcmp(unit, "%") == 0) {
            moment->ms = percent * run / 100;
            good = true;
        }
        if (good && moment->ms <= 1e15) return NA_STATUS_WHOLE;
    }
    return na_fail("--%s takes peak, end, 1.5s, 300ms, 40%%, #EVENT or @MARKER, not: %s", option,
                   text);
}

/* ---- what lives then ---- */

static void count_live_block(void *arg, const na_live_t *block) {
    moments_t *m = arg;
    uint32_t site = block->stack == NA_NPROF_NO_STACK ? NA_NPROF_ROOT : block->stack;
    if (site >= m->sites) site = 0;
    held_t *h = &m->held[site];
    if (m->earlier) {
        h->before_bytes = na_add_signed(h->before_bytes, (int64_t)block->size);
        h->before_blocks++;
        return;
    }
    h->bytes = na_add_signed(h->bytes, (int64_t)block->size);
    h->blocks++;
    if (block->ticks < h->oldest) h->oldest = block->ticks;
    if (m->marks && !block->marked) return;
    h->new_bytes = na_add_signed(h->new_bytes, (int64_t)block->size);
    h->new_blocks++;
}

/* The table is indexed by sites. Stacks are read when the events that have them were. */
static bool make_site_room(moments_t *m) {
    if (m->held != NULL) return true;
    m->sites = na_reader_stacks(m->in->reader).count;
    if (m->sites <= NA_NPROF_ROOT) m->sites = NA_NPROF_ROOT + 1;
    m->held = calloc(m->sites, sizeof *m->held);
    for (uint32_t i = 0; m->held != NULL && i < m->sites; i++)
        m->held[i].oldest = UINT64_MAX;
    return m->held != NULL;
}

/* Does the moment lie before the event? NULL: before the end. */
static bool is_before(const moments_t *m, const moment_t *moment, const na_event_t *next) {
    switch (next == NULL ? AT_END : moment->kind) {
    case AT_MS:
        return (double)next->ticks * m->ms_per_tick > moment->ms;
    case AT_MARKER:
        return next->ticks >= moment->ticks;
    case AT_PEAK:
    case AT_EVENT:
        return next->index >= moment->events;
    case AT_END:
    default:
        return next == NULL;
    }
}

/* Plays on to the later of the moments. */
static bool play_to(moments_t *m, na_replay_t *replay, bool since) {
    bool there[2] = {false, !since};
    moment_t *const both[] = {&m->time, &m->since};
    for (;;) {
        const na_event_t *next = na_replay_peek(replay);
        for (size_t i = 2; i-- > 0;) { /* the earlier one first, if they are one */
            if (there[i] || !is_before(m, both[i], next)) continue;
            there[i] = true;
            both[i]->events = na_replay_totals(replay)->events;
            m->earlier = both[i] == &m->since;
            if (!make_site_room(m)) return false;
            na_replay_each(replay, count_live_block, m);
            if (m->earlier) na_replay_mark(replay);
            m->marks |= m->earlier;
        }
        if (there[0] && there[1]) return !na_replay_failed(replay);
        na_event_t event;
        if (na_replay_next(replay, &event, NULL) && !there[0]) m->now = event.ticks;
    }
}

/* Where the peak is, is known at the end of a pass only: then there is another one. */
static na_status_t play(moments_t *m, bool since) {
    bool peak = m->time.kind == AT_PEAK || (since && m->since.kind == AT_PEAK);
    na_replay_t *replay = na_replay_open(m->in->reader);
    if (replay == NULL) return NA_STATUS_MEMORY;
    bool good = true;
    if (peak) {
        na_replay_to(replay, UINT64_MAX);
        const na_replay_totals_t *t = na_replay_totals(replay);
        uint64_t events = t->peak_bytes != 0 ? t->peak_event + 1 : 0;
        if (m->time.kind == AT_PEAK) m->time.events = events;
        if (m->since.kind == AT_PEAK) m->since.events = events;
    } else {
        good = play_to(m, replay, since);
    }
    na_status_t status = na_view_sum(m->in, replay, false); /* says why, if a replay failed */
    if (status == NA_STATUS_WHOLE && peak) {
        replay = na_replay_open(m->in->reader);
        good = replay != NULL && play_to(m, replay, since);
        na_replay_close(replay);
    }
    return status == NA_STATUS_WHOLE && !good ? NA_STATUS_MEMORY : status;
}

static na_status_t take_sums(moments_t *m) {
    na_status_t status = na_view_sum(m->in, NULL, false);
    if (status != NA_STATUS_WHOLE) return status;
    if (!make_site_room(m)) return NA_STATUS_MEMORY;
    for (size_t i = 0; i < m->in->sites.count; i++) {
        const na_site_t *site = &m->in->sites.items[i];
        held_t *h = &m->held[site->site];
        bool peak = m->time.kind == AT_PEAK;
        h->bytes = peak ? site->sum.peak_bytes : site->sum.live_bytes;
        h->blocks = peak ? site->sum.peak_count : site->sum.live_count;
    }
    return NA_STATUS_WHOLE;
}

/* ---- the table ---- */

enum { BYTES, SHARE, BLOCKS, MEAN, CHANGE, CHANGE_BLOCKS, BEFORE, NEW, NEW_BLOCKS, OLDEST, SITE };

static const na_column_t at_columns[] = {
    {"live_bytes", "live", NA_KIND_BYTES, "live"},
    {NULL, "share", NA_KIND_SHARE, NULL},
    {"live_blocks", "blocks", NA_KIND_COUNT, "count"},
    {"size_mean", "mean size", NA_KIND_BYTES, NULL},
    {"change_bytes", "change", NA_KIND_BYTES, NULL},
    {"change_blocks", "in blocks", NA_KIND_NUMBER, NULL},
    {"before_bytes", "before", NA_KIND_BYTES, NULL},
    {"new_bytes", "newer", NA_KIND_BYTES, NULL},
    {"new_blocks", "newer blocks", NA_KIND_COUNT, NULL},
    {"oldest_ms", "oldest since", NA_KIND_MS, NULL},
    NA_SITE_COLUMNS,
};
static const na_columns_t at_table = NA_COLUMNS(at_columns);

static na_status_t put_moment(const moments_t *m, bool since, bool trace, const char *title) {
    na_table_t *table = na_table_open(&at_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    double all = 0;
    for (uint32_t i = 0; i < m->sites; i++)
        all += (double)m->held[i].bytes;
    const na_table_print_t print = {
        .view = "at",
        .title = title,
        .sort = since ? "change_bytes" : "live_bytes",
        .empty = "Nothing was live.",
        .below = m->in->options->frames.stacks ? na_view_put_stack : NULL,
        .members = m->in->options->frames.stacks ? na_view_json_stack : NULL,
        .arg = (void *)m->in,
    };
    for (uint32_t i = 0; i < m->sites; i++) {
        const held_t *h = &m->held[i];
        if (h->bytes == 0 && h->blocks == 0 && h->before_blocks == 0) continue;
        double blocks = na_view_count(m->in, (double)h->blocks);
        na_table_row(table, i);
        na_table_number(table, BYTES, (double)h->bytes);
        na_table_number(table, SHARE, all > 0 ? (double)h->bytes / all : NAN);
        na_table_number(table, BLOCKS, blocks);
        if (blocks > 0) na_table_number(table, MEAN, (double)h->bytes / blocks);
        if (since) {
            na_table_number(table, CHANGE, (double)h->bytes - (double)h->before_bytes);
            na_table_number(table, CHANGE_BLOCKS, (double)(h->blocks - h->before_blocks));
            na_table_number(table, BEFORE, (double)h->before_bytes);
            na_table_number(table, NEW, (double)h->new_bytes);
            na_table_number(table, NEW_BLOCKS, (double)h->new_blocks);
        }
        if (trace && h->oldest != UINT64_MAX)
            na_table_number(table, OLDEST, (double)h->oldest * m->ms_per_tick);
        na_table_site(table, m->in, SITE, i);
        if (!na_table_thin(table, m->in->options, &print)) break;
    }
    na_status_t status = na_table_write(table, m->in->options, &print);
    na_table_close(table);
    return status;
}

static const char *moment_text(char out[3 * NA_TEXT], const moment_t *moment, bool trace,
                               double ms) {
    char a[NA_TEXT];
    na_text_ms(a, (uint64_t)(ms > 0 ? ms : 0));
    const char *word = moment->kind == AT_PEAK  ? "the peak, "
                       : moment->kind == AT_END ? "the end, "
                                                : "";
    if (trace)
        snprintf(out, 3 * NA_TEXT, "%s%s, after %llu event%s", word, a,
                 (unsigned long long)moment->events, moment->events == 1 ? "" : "s");
    else
        snprintf(out, 3 * NA_TEXT, "%s%s", word, a);
    return out;
}

static na_status_t show_at(na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    bool trace = h->mode == NA_NPROF_MODE_TRACE, since = in->options->moment.since != NULL;
    moments_t m = {.in = in, .ms_per_tick = na_tick_ms(h)};
    na_status_t status = read_moment(in, "time", in->options->moment.time, &m.time);
    if (status == NA_STATUS_WHOLE && since)
        status = read_moment(in, "since", in->options->moment.since, &m.since);
    if (status != NA_STATUS_WHOLE) return status;
    if (since && !trace)
        return na_fail("%s: '--since' needs a profile of mode trace, this one is of mode %s; "
                       "record it with NUMALLOC_PROFILE=trace",
                       in->path, na_mode_name(h->mode));
    status = trace ? play(&m, since) : take_sums(&m);
    if (status == NA_STATUS_WHOLE && since && m.since.events > m.time.events) {
        status =
            na_fail("%s: --since %s is later than --time %s", in->path, in->options->moment.since,
                    in->options->moment.time != NULL ? in->options->moment.time : "peak");
    } else if (status == NA_STATUS_WHOLE) {
        char title[256], when[3 * NA_TEXT];
        double ms = trace                    ? (double)m.now * m.ms_per_tick
                    : m.time.kind == AT_PEAK ? (double)na_view_peak_ms(in)
                                             : (double)h->last_ms;
        snprintf(title, sizeof title, "Live at %s (%%s sites)%s",
                 moment_text(when, &m.time, trace, ms),
                 since ? "; \"newer\": allocated after the earlier moment" : "");
        status = put_moment(&m, since, trace, title);
    }
    free(m.held);
    return status;
}

const na_view_t na_view_row_at = {
    .name = "at",
    .words = "FILE",
    .help = "what lives at a moment, or what changed between two, by site",
    .more = "Any moment of a trace; of the other modes the peak and the end.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_PLAYS,
    .takes = NA_TAKES_TABLE | NA_TAKES(STACKS) | NA_TAKES(WRAPPERS) | NA_TAKES(TIME),
    .tables = {{&at_table, 0}},
    .show = show_at,
};
