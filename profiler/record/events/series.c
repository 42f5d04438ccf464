/* series.c - figures over time by rows: a fixed number of points, rescaled as the run goes on.
 *
 * Each series is one entry of the file with two buffers. When the one in use is full, pairs of
 * points are merged into the other, the interval doubles, and then the other becomes the one in
 * use. All under one lock, held for some hundred stores at most (and for a few ten thousand when
 * the interval doubles, which it does some twenty times in a day).
 *
 * Behind the entry is a checksum, which whoever changes anything opens first and seals when the
 * entry is whole again. It is a sum, to which each store adds what it changes (nprof_check.h).
 *
 * Levels (bytes live of a site or a node) are noted when they change. A point keeps the largest
 * level of its interval; the points between two notes are filled with the level between them. */
#include "profiler/record/events/series.h"

#include "alloc/core/machine/topology.h"
#include "profiler/format/nprof_check.h"

typedef struct line {
    na_nprof_series_t *head; /* NULL: no room, or not wanted */
    na_nprof_series_row_t *row;
    uint64_t *values;
    uint64_t *check;
    uint64_t sum; /* of the entry as it is now */
} line_t;

static struct {
    na_lock_t lock;
    line_t line[NA_NPROF_SERIES_RESIDENT + 1];
} series;

#define SITE_ROWS   24u
#define SITE_POINTS 256u
#define NODE_POINTS 128u
#define SIZE_POINTS 64u
#define INTERVAL_MS 1u
#define PUBLISH_MS  5u /* least time between two publications of a thread */

/* ---- stores: between open and seal, and by the two below ---- */

static void open_check(line_t *l) {
    __atomic_store_n(l->check, NA_NPROF_CHECK_OPEN, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void seal_check(line_t *l) {
    __atomic_store_n(l->check, na_nprof_series_check(l->sum), __ATOMIC_RELEASE);
}

static void set_series_word(line_t *l, void *at, uint64_t value) {
    uint64_t *word = at;
    size_t index = (size_t)(word - (uint64_t *)(void *)l->head);
    l->sum += (value - *word) * na_nprof_series_factor(index);
    *word = value;
}

/* Half a word, which readers may see before the rest of what is stored. */
static void put_half(line_t *l, uint32_t *at, uint32_t value) {
    size_t offset = (size_t)((char *)at - (char *)l->head);
    uint64_t change = (uint64_t)value - *at;
    if (offset % 8 != 0) change <<= 32;
    l->sum += change * na_nprof_series_factor(offset / 8);
    __atomic_store_n(at, value, __ATOMIC_RELEASE);
}
_Static_assert(__BYTE_ORDER__ == __ORDER_LITTLE_ENDIAN__, "which half is the upper one");

static void make_series(uint32_t kind, uint32_t rows, uint32_t points) {
    uint32_t whole = (uint32_t)na_nprof_series_size(rows, points), size = whole + 8;
    na_nprof_chunk_t *c =
        na_writer_chunk(NA_NPROF_SERIES, na_nprof_chunk_length(1, size), size, 0, kind, 0);
    if (c == NULL) return;
    c->capacity = 1;
    line_t *l = &series.line[kind];
    l->head = (na_nprof_series_t *)(c + 1);
    l->row = (na_nprof_series_row_t *)(l->head + 1);
    l->values = (uint64_t *)(l->row + rows);
    *l->head = (na_nprof_series_t){
        .kind = kind, .rows = rows, .points = points, .interval_ms = {INTERVAL_MS, 0}};
    for (uint32_t r = 0; kind != NA_NPROF_SERIES_SITES && r < rows; r++)
        l->row[r] = (na_nprof_series_row_t){.id = r, .used = 1};
    /* Values are 0, and add nothing. Nor is it sealed yet: its page may never be needed. */
    l->check = (uint64_t *)(void *)((char *)l->head + whole);
    l->sum = na_nprof_series_sum(l->head, sizeof *l->head + rows * sizeof *l->row);
    c->count = 1;
    na_writer_publish(c);
}

void na_series_start(void) {
    na_lock_reset(&series.lock);
    for (uint32_t kind = 0; kind <= NA_NPROF_SERIES_RESIDENT; kind++)
        series.line[kind] = (line_t){.head = NULL};
    make_series(NA_NPROF_SERIES_SITES, SITE_ROWS, SITE_POINTS);
    make_series(NA_NPROF_SERIES_SIZES, NA_NPROF_SIZE_BUCKETS, SIZE_POINTS);
    na_rec.many_nodes = na_rec.header->node_count > 1;
    if (!na_rec.many_nodes) return;
    make_series(NA_NPROF_SERIES_NODES, na_rec.header->node_count, NODE_POINTS);
    make_series(NA_NPROF_SERIES_MAPPED, na_rec.header->node_count, NODE_POINTS);
    make_series(NA_NPROF_SERIES_RESIDENT, na_rec.header->node_count, NA_NPROF_POINTS);
}

void na_series_hold(void) {
    na_lock(&series.lock);
}

void na_series_let_go(void) {
    na_unlock(&series.lock);
}

static uint64_t *value_at(const line_t *l, uint32_t buffer, uint32_t row, uint32_t point) {
    return l->values + ((uint64_t)buffer * l->head->rows + row) * l->head->points + point;
}

static uint64_t larger(uint64_t a, uint64_t b) {
    return a > b ? a : b;
}

/* The point of `ms`, after as many doublings as it takes, and the interval then. A file that has
 * lost this page reads as zero from one moment to the next (guard.c): the interval, too. */
static uint32_t series_point(line_t *l, uint64_t ms, uint32_t *interval) {
    na_nprof_series_t *h = l->head;
    bool sums = h->kind == NA_NPROF_SERIES_SIZES;
    uint32_t every = h->interval_ms[h->active & 1];
    uint64_t point = 0;
    for (; every != 0 && (point = ms / every) >= h->points; every *= 2) {
        uint32_t a = h->active, b = !a, n = h->count[a];
        for (uint32_t r = 0; r < h->rows; r++) {
            const uint64_t *from = value_at(l, a, r, 0);
            uint64_t *to = value_at(l, b, r, 0);
            for (uint32_t i = 0; i < h->points; i++)
                set_series_word(l, &to[i], 0);
            for (uint32_t i = 0; i < n; i++)
                set_series_word(l, &to[i / 2],
                                sums ? to[i / 2] + from[i] : larger(from[i], to[i / 2]));
        }
        put_half(l, &h->interval_ms[b], every * 2);
        put_half(l, &h->count[b], (n + 1) / 2);
        put_half(l, &h->active, b);
    }
    *interval = every;
    uint32_t a = h->active;
    if (point >= h->count[a]) put_half(l, &h->count[a], (uint32_t)point + 1);
    return (uint32_t)point;
}

static void note_change(line_t *l, const na_level_change_t *change, uint64_t ms) {
    /* Below zero: published in another order than it happened. */
    int64_t before = change->before < 0 ? 0 : change->before;
    int64_t after = change->after < 0 ? 0 : change->after;
    na_nprof_series_row_t *row = &l->row[change->row];
    uint32_t interval;
    uint32_t point = series_point(l, ms, &interval);
    uint64_t first = interval != 0 ? row->since_ms / interval : 0;
    uint64_t *v = value_at(l, l->head->active, change->row, 0);
    for (uint32_t i = point; i > first && v[i - 1] == 0; i--)
        set_series_word(l, &v[i - 1], (uint64_t)before + 1);
    int64_t most = before > after ? before : after;
    if ((uint64_t)most + 1 > v[point]) set_series_word(l, &v[point], (uint64_t)most + 1);
    if (most > row->most) set_series_word(l, &row->most, (uint64_t)most);
    set_series_word(l, &row->last, (uint64_t)after);
}

void na_series_level(uint32_t kind, const na_level_change_t *change, uint64_t ms) {
    line_t *l = &series.line[kind];
    if (l->head == NULL) return;
    na_lock(&series.lock);
    if (change->row < l->head->rows && l->row[change->row].id == change->id) {
        open_check(l);
        note_change(l, change, ms);
        seal_check(l);
    }
    na_unlock(&series.lock);
}

uint32_t na_series_claim(uint32_t site, uint64_t ms, int64_t live, uint32_t *lost) {
    line_t *l = &series.line[NA_NPROF_SERIES_SITES];
    *lost = 0;
    if (l->head == NULL) return 0;
    uint32_t least = 0;
    na_lock(&series.lock);
    for (uint32_t r = 0; r < SITE_ROWS; r++) {
        if (l->row[r].used == 0) {
            least = r;
            break;
        }
        if (l->row[r].most < l->row[least].most) least = r;
    }
    na_nprof_series_row_t *row = &l->row[least];
    bool taken = row->used == 0 || live > row->most;
    if (taken) {
        *lost = row->used != 0 ? row->id : 0;
        open_check(l);
        put_half(l, &row->used, 0);
        for (uint32_t b = 0; b < 2; b++)
            for (uint32_t i = 0; i < SITE_POINTS; i++)
                set_series_word(l, value_at(l, b, least, i), 0);
        put_half(l, &row->id, site);
        set_series_word(l, &row->most, 0);
        set_series_word(l, &row->last, 0);
        set_series_word(l, &row->since_ms, ms);
        put_half(l, &row->used, 1);
        seal_check(l);
    }
    na_unlock(&series.lock);
    return taken ? least + 1 : 0;
}

static void publish_sizes(na_rthread_t *t, uint64_t ms) {
    line_t *l = &series.line[NA_NPROF_SERIES_SIZES];
    if (l->head == NULL) return;
    na_lock(&series.lock);
    open_check(l);
    uint32_t interval, point = series_point(l, ms, &interval);
    for (uint32_t r = 0; r < NA_NPROF_SIZE_BUCKETS; r++) {
        uint64_t now = t->sizes->allocs[r];
        if (now == t->noted_sizes[r]) continue;
        uint64_t more = now - t->noted_sizes[r], *value = value_at(l, l->head->active, r, point);
        set_series_word(l, value, *value + more);
        set_series_word(l, &l->row[r].most, (uint64_t)l->row[r].most + more);
        t->noted_sizes[r] = now;
    }
    seal_check(l);
    na_unlock(&series.lock);
}

static void publish_nodes(na_rthread_t *t, uint64_t ms) {
    static _Atomic(int64_t) last_mapped[NA_NPROF_MAX_NODES];
    for (uint32_t n = 0; n < na_rec.header->node_count; n++) {
        int64_t delta = t->node_bytes[n] - t->noted_nodes[n];
        if (delta != 0) {
            t->noted_nodes[n] = t->node_bytes[n];
            int64_t before = atomic_fetch_add(&na_rec.node_live[n], delta);
            na_series_level(NA_NPROF_SERIES_NODES,
                            &(na_level_change_t){n, n, before, before + delta}, ms);
        }
        if (na_rec.mapped_on == NULL) continue;
        int64_t mapped = (int64_t)na_rec.mapped_on(n);
        int64_t before = atomic_exchange_explicit(&last_mapped[n], mapped, memory_order_relaxed);
        if (mapped != before)
            na_series_level(NA_NPROF_SERIES_MAPPED, &(na_level_change_t){n, n, before, mapped}, ms);
    }
}

void na_series_publish(na_rthread_t *t, uint64_t ms, bool at_once) {
    if (!at_once && ms < t->series_ms + PUBLISH_MS) return;
    t->series_ms = ms;
    publish_sizes(t, ms);
    if (na_rec.many_nodes) publish_nodes(t, ms);
}
