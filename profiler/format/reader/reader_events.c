/* reader_events.c - merges the events of all threads by their stamps.
 *
 * The events of a TRACE chunk, and of a buffer that never became one, are a run: its stamps never
 * go back. A run is opened when its turn comes (the chunk's header says its first stamp, rounded
 * down; ahead.h has it unpacked by then) and dropped when it is used up; a heap holds the open
 * ones. As long as the first run's stamps stay below all others', its events are taken without a
 * look at the heap. Equal stamps: frees first, then the lower sequence number, so that runs of one
 * thread stay in order. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/format/reader/ahead.h"
#include "profiler/format/reader/events.h"
#include "profiler/format/reader/reader_priv.h"
#include "profiler/format/trace_code.h"

#define BUFFER_UNITS (sizeof(na_nprof_buffer_t) / sizeof(na_nprof_unit_t))
typedef struct run {
    uint64_t first; /* its first stamp >> 24 */
    size_t chunk;   /* in the reader's index */
    uint32_t sequence;
    uint32_t units; /* of a buffer; a chunk says it when it is unpacked */
} run_t;

typedef struct open_run {
    na_nprof_unit_t *units;
    uint32_t at, count, room, thread, sequence;
    uint64_t key; /* ticks of the next event, doubled; plus one unless it is a free */
} open_run_t;

struct na_events {
    na_reader_t *reader;
    run_t *runs;
    size_t run_count, next;
    open_run_t *heap;
    size_t open, room;
    uint64_t index;
    uint64_t ticks; /* of the last event */
    na_ahead_t *ahead;
    size_t *sealed; /* the chunks that it unpacks */
};

static const char *const event_names[] = {
    "none",  "malloc", "calloc", "realloc", "aligned",  "new",
    "new[]", "resize", "free",   "delete",  "delete[]", "realloc (moved)",
};

const char *na_event_name(const na_event_t *event) {
    return event->kind < sizeof event_names / sizeof event_names[0] ? event_names[event->kind]
                                                                    : "unknown";
}

static int by_turn(const void *a, const void *b) {
    const run_t *x = a, *y = b;
    if (x->first != y->first) return x->first < y->first ? -1 : 1;
    return x->sequence < y->sequence ? -1 : x->sequence > y->sequence;
}

static int by_sequence(const void *a, const void *b) {
    uint32_t x = *(const uint32_t *)a, y = *(const uint32_t *)b;
    return x < y ? -1 : x > y;
}

/* A buffer with events that are nowhere else becomes a run. */
static bool add_buffer(na_events_t *e, size_t chunk, const uint32_t *sealed, size_t sealed_count) {
    const na_chunk_ref_t *ref = &e->reader->chunks[chunk];
    struct {
        na_nprof_buffer_t buffer;
        na_nprof_unit_t first;
    } b;
    if (ref->count <= BUFFER_UNITS ||
        na_reader_pread(e->reader, &b, sizeof b, ref->data) < sizeof b || b.buffer.used == 0 ||
        bsearch(&b.buffer.sequence, sealed, sealed_count, sizeof *sealed, by_sequence) != NULL)
        return false;
    if (na_reader_is_damaged(e->reader, ref->data,
                             sizeof b.buffer + (uint64_t)b.buffer.used * sizeof b.first))
        return false;
    uint32_t room = ref->count - (uint32_t)BUFFER_UNITS;
    if (room > NA_NPROF_TRACE_UNITS) room = NA_NPROF_TRACE_UNITS;
    if (b.buffer.used > room) na_reader_issue(e->reader, NA_ISSUE_BAD_EVENTS, ref->data, 0);
    e->runs[e->run_count++] = (run_t){.first = b.first.head >> 8 >> 24,
                                      .chunk = chunk,
                                      .sequence = b.buffer.sequence,
                                      .units = b.buffer.used < room ? b.buffer.used : room};
    return true;
}

na_events_t *na_events_open(na_reader_t *reader) {
    na_events_t *e = calloc(1, sizeof *e);
    if (e == NULL) return NULL;
    e->reader = reader;
    e->runs = calloc(reader->chunk_count + 1, sizeof *e->runs);
    /* A fourth each for one chunk, for what is ahead, for open runs and for blocks that live. */
    uint64_t most = na_budget_of(reader->budget) / 4;
    uint32_t *sealed = calloc(reader->chunk_count + 1, sizeof *sealed);
    if (e->runs == NULL || sealed == NULL) {
        free(sealed);
        na_events_close(e);
        return NULL;
    }
    for (size_t i = 0; i < reader->chunk_count; i++) {
        const na_chunk_ref_t *ref = &reader->chunks[i];
        if (ref->type != NA_NPROF_TRACE || (ref->flags & NA_NPROF_SEALED) == 0) continue;
        if (na_ahead_cost(ref) > most) {
            na_reader_issue(reader, NA_ISSUE_BUDGET, ref->data, 0);
            continue;
        }
        sealed[e->run_count] = ref->sequence;
        e->runs[e->run_count++] =
            (run_t){.first = ref->first_id, .chunk = i, .sequence = ref->sequence};
    }
    size_t sealed_count = e->run_count;
    qsort(sealed, sealed_count, sizeof *sealed, by_sequence);
    for (size_t i = 0; i < reader->chunk_count; i++)
        if (reader->chunks[i].type == NA_NPROF_TRACE_BUFFER) add_buffer(e, i, sealed, sealed_count);
    free(sealed);
    qsort(e->runs, e->run_count, sizeof *e->runs, by_turn);
    e->sealed = calloc(sealed_count + 1, sizeof *e->sealed);
    if (e->sealed != NULL) {
        size_t n = 0;
        for (size_t i = 0; i < e->run_count; i++)
            if (reader->chunks[e->runs[i].chunk].type == NA_NPROF_TRACE)
                e->sealed[n++] = e->runs[i].chunk;
        e->ahead = na_ahead_open(reader, e->sealed, n);
    }
    if (e->ahead != NULL) return e;
    na_events_close(e);
    return NULL;
}

/* ---- runs ---- */

/* Events of a buffer as the program left it: stamps are rounded as if they had been coded, and
 * nothing is believed. */
static na_nprof_unit_t *load_run(na_events_t *e, const na_chunk_ref_t *ref, uint32_t *count,
                                 uint32_t *thread) {
    na_nprof_buffer_t b;
    size_t bytes = (size_t)*count * sizeof(na_nprof_unit_t);
    na_nprof_unit_t *units = malloc(bytes);
    if (units == NULL) {
        na_reader_issue(e->reader, NA_ISSUE_MEMORY, ref->data, 0);
        return NULL;
    }
    uint32_t n = 0;
    uint64_t last = 0;
    if (na_reader_pread(e->reader, &b, sizeof b, ref->data) == sizeof b &&
        na_reader_pread(e->reader, units, bytes, ref->data + sizeof b) == bytes) {
        unsigned shift = b.tick_shift < 32 ? b.tick_shift : 0;
        while (n < *count && n + na_trace_units(units[n].head) <= *count) {
            uint64_t ticks = units[n].head >> 8 >> shift << shift;
            uint64_t kind = units[n].head & NA_NPROF_EVENT_KIND;
            bool more = na_trace_units(units[n].head) == 2;
            if (ticks < last || kind == 0 || kind > NA_NPROF_EVENT_THREAD ||
                (kind < NA_NPROF_EVENT_FREE && !more)) {
                na_reader_issue(e->reader, NA_ISSUE_BAD_EVENTS, ref->data, n);
                break;
            }
            units[n].head = ticks << 8 | (units[n].head & 255);
            last = ticks;
            n += more ? 2 : 1;
        }
        *thread = b.thread;
    }
    *count = n;
    return units;
}

static uint64_t unit_key(const na_nprof_unit_t *u) {
    return u->head >> 8 << 1 | ((u->head & NA_NPROF_EVENT_KIND) < NA_NPROF_EVENT_FREE);
}

static bool is_before(const open_run_t *a, const open_run_t *b) {
    return a->key < b->key || (a->key == b->key && a->sequence < b->sequence);
}

static void sift_down(na_events_t *e) {
    size_t i = 0;
    open_run_t moving = e->heap[0];
    for (;;) {
        size_t child = 2 * i + 1;
        if (child >= e->open) break;
        if (child + 1 < e->open && is_before(&e->heap[child + 1], &e->heap[child])) child++;
        if (!is_before(&e->heap[child], &moving)) break;
        e->heap[i] = e->heap[child];
        i = child;
    }
    e->heap[i] = moving;
}

static void insert_run(na_events_t *e, open_run_t run) {
    size_t i = e->open++;
    while (i != 0 && is_before(&run, &e->heap[(i - 1) / 2])) {
        e->heap[i] = e->heap[(i - 1) / 2];
        i = (i - 1) / 2;
    }
    e->heap[i] = run;
}

/* The memory of an open run; not to be used again. */
static void drop_units(na_events_t *e, open_run_t *o) {
    na_budget_give(e->reader->budget, (uint64_t)o->room * sizeof *o->units);
    free(o->units);
}

static void open_run(na_events_t *e, const run_t *run) {
    const na_chunk_ref_t *ref = &e->reader->chunks[run->chunk];
    open_run_t o = {.count = run->units, .thread = ref->thread, .sequence = run->sequence};
    bool fits = NA_BUDGET_RESERVE(e->reader->budget, e->heap, e->room, e->open + 1);
    if (ref->type == NA_NPROF_TRACE) {
        na_unpacked_t what = na_ahead_take(e->ahead);
        if (what.issue != NA_ISSUE_KINDS)
            na_reader_issue(e->reader, what.issue, ref->data, what.issue == NA_ISSUE_IO ? EIO : 0);
        o.units = what.units;
        o.count = what.count;
        o.room = what.room;
    } else {
        o.room = run->units;
    }
    fits = fits && na_budget_take(e->reader->budget, (uint64_t)o.room * sizeof *o.units);
    if (!fits) {
        na_reader_no_memory(e->reader, ref->data);
        free(o.units);
        return;
    }
    if (ref->type != NA_NPROF_TRACE) o.units = load_run(e, ref, &o.count, &o.thread);
    if (o.units == NULL || o.count == 0) {
        drop_units(e, &o);
        return;
    }
    o.key = unit_key(o.units);
    insert_run(e, o);
}

/* The first run is used up. */
static void drop_first(na_events_t *e) {
    open_run_t *o = &e->heap[0];
    na_budget_give(e->reader->budget, (uint64_t)o->room * sizeof *o->units);
    na_ahead_return(e->ahead, o->units, o->room);
    *o = e->heap[--e->open];
    if (e->open != 0) sift_down(e);
}

static void fill_from_unit(na_reader_t *reader, na_event_t *event, const na_nprof_unit_t *u) {
    static const na_nprof_unit_t none = {0, 0};
    const na_nprof_unit_t *more = na_trace_units(u->head) == 2 ? u + 1 : &none;
    event->ticks = u->head >> 8;
    event->kind = (uint8_t)(u->head & NA_NPROF_EVENT_KIND);
    event->before = (u->head & NA_NPROF_EVENT_BEFORE) != 0;
    event->address = u->word & ((UINT64_C(1) << 48) - 1);
    event->stack = na_reader_stack_id(reader, (uint32_t)more->word);
    if (na_event_is_alloc(event)) {
        event->align = (uint8_t)(u->word >> 48);
        event->size = more->head;
        event->slack = (uint32_t)(more->word >> 32);
        event->moved_to = 0;
        event->usable16 = 0;
    } else {
        event->align = 0;
        event->size = 0;
        event->slack = 0;
        event->moved_to = more->head;
        event->usable16 = (uint16_t)(u->word >> 48);
    }
}

/* The first key that the first run may not pass without a look at the others: theirs, and that of
 * the run that is opened next. */
static uint64_t first_limit(const na_events_t *e) {
    uint64_t limit = UINT64_MAX;
    for (size_t i = 1; i < e->open && i <= 2; i++)
        if (e->heap[i].key < limit) limit = e->heap[i].key;
    if (e->next < e->run_count && e->runs[e->next].first << 25 < limit)
        limit = e->runs[e->next].first << 25;
    return limit;
}

/* Takes from the first run while it is the first; returns how many. */
static size_t take_events(na_events_t *e, na_event_t *to, size_t most) {
    open_run_t *o = &e->heap[0];
    uint64_t limit = first_limit(e);
    size_t n = 0;
    do {
        const na_nprof_unit_t *u = &o->units[o->at];
        o->at += na_trace_units(u->head);
        if ((u->head & NA_NPROF_EVENT_KIND) == NA_NPROF_EVENT_THREAD) {
            o->thread = (uint32_t)u->word;
        } else {
            na_event_t *event = &to[n++];
            fill_from_unit(e->reader, event, u);
            if (event->ticks < e->ticks) { /* its chunk's header put it too late */
                na_reader_issue(e->reader, NA_ISSUE_BAD_EVENTS, 0, 0);
                event->ticks = e->ticks;
            }
            e->ticks = event->ticks;
            event->thread = o->thread;
            event->index = e->index++;
        }
        if (o->at >= o->count) {
            drop_first(e);
            return n;
        }
        o->key = unit_key(&o->units[o->at]);
    } while (o->key < limit && n < most);
    sift_down(e);
    return n;
}

size_t na_events_take(na_events_t *e, na_event_t *events, size_t most) {
    size_t n = 0;
    while (n < most) {
        while (e->next < e->run_count &&
               (e->open == 0 || e->runs[e->next].first <= e->heap[0].key >> 25)) {
            open_run(e, &e->runs[e->next++]);
            if (e->reader->progress != NULL)
                e->reader->progress(e->reader->progress_arg, e->next, e->run_count);
        }
        if (e->open == 0) break;
        n += take_events(e, events + n, most - n);
    }
    return n;
}

bool na_events_next(na_events_t *e, na_event_t *event) {
    return na_events_take(e, event, 1) == 1;
}

void na_events_close(na_events_t *e) {
    if (e == NULL) return;
    na_ahead_close(e->ahead);
    for (size_t i = 0; i < e->open; i++)
        drop_units(e, &e->heap[i]);
    na_budget_free(e->heap);
    free(e->runs);
    free(e->sealed);
    free(e);
}
