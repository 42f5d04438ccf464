/* sites.c - per-thread cells: what one thread did to the blocks of one site.
 *
 * A cell has one writer, its thread, so events touch no shared cache line. Cells are exact at every
 * instant; only the process-wide live figure is published by quantum, because it serves nothing but
 * the search for the peak and the timeline. While one thread has ever been seen the quantum is one
 * byte, and both are exact; from then on they are exact within threads x NA_QUANTUM.
 *
 * Mode sample: a block of s usable bytes is drawn with probability 1 - exp(-s / interval) and
 * stands for the inverse of that many. Its sizes alone decide, so that a free takes away exactly
 * what its allocation added. */
#include "profiler/record/state.h"

#define CELL_CHUNK_MAX (64u << 10)

#define LOAD(p)     __atomic_load_n(p, __ATOMIC_RELAXED)
#define STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)
#define ADD(p, v)   STORE(p, LOAD(p) + (v)) /* single writer */

static na_nprof_cell_t *cell_at(uint32_t cell) {
    return (na_nprof_cell_t *)(na_rec.base + (uint64_t)cell * 64);
}

static uint32_t slot_of(uint32_t site, uint32_t mask) {
    return (site * 0x9e3779b1u >> 7) & mask;
}

static bool grow_table(na_rthread_t *t) {
    uint32_t size = t->cells == NULL ? 512 : (t->cell_mask + 1) * 2;
    na_cell_slot_t *table = na_own_alloc(size * sizeof *table, size * sizeof *table);
    if (table == NULL) return false;
    for (uint32_t i = 0; t->cells != NULL && i <= t->cell_mask; i++) {
        if (t->cells[i].site == 0) continue;
        uint32_t j = slot_of(t->cells[i].site, size - 1);
        while (table[j].site != 0)
            j = (j + 1) & (size - 1);
        table[j] = t->cells[i];
    }
    t->cells = table;
    t->cell_mask = size - 1;
    return true;
}

static NA_COLD na_nprof_cell_t *new_cell(na_rthread_t *t, uint32_t site) {
    if ((t->cells == NULL || t->cell_used * 2 >= t->cell_mask) && !grow_table(t) &&
        (t->cells == NULL || t->cell_used + 1 >= t->cell_mask))
        return NULL;
    na_nprof_chunk_t *c = t->cell_chunk;
    if (c == NULL || c->count == c->capacity) {
        uint64_t length = c == NULL ? NA_NPROF_PAGE : c->length * 2;
        if (length > CELL_CHUNK_MAX) length = CELL_CHUNK_MAX;
        c = na_writer_chunk(NA_NPROF_CELLS, length, sizeof(na_nprof_cell_t), t->index,
                            t->cell_chunks, 0);
        if (c == NULL) return NULL;
        na_writer_publish(c);
        atomic_fetch_add_explicit(&na_rec.own_resident, length, memory_order_relaxed);
        t->cell_chunks++;
        t->cell_chunk = c;
    }
    na_nprof_cell_t *cell = (na_nprof_cell_t *)(c + 1) + c->count;
    cell->peak_epoch = __atomic_load_n(&na_rec.header->peak_epoch, __ATOMIC_ACQUIRE);
    cell->size_min = cell->lifetime_min = UINT64_MAX;
    __atomic_store_n(&cell->site, site, __ATOMIC_RELEASE);
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    uint32_t i = slot_of(site, t->cell_mask);
    while (t->cells[i].site != 0)
        i = (i + 1) & t->cell_mask;
    t->cells[i] =
        (na_cell_slot_t){site, (uint32_t)((uint64_t)((uint8_t *)cell - na_rec.base) / 64)};
    t->cell_used++;
    return cell;
}

/* The thread's cell of the site, with its peak figures brought up to date. NULL: event lost. */
static na_nprof_cell_t *cell_of(na_rthread_t *t, uint32_t site) {
    na_nprof_cell_t *cell = NULL;
    if (NA_LIKELY(t->cells != NULL)) {
        uint32_t i = slot_of(site, t->cell_mask);
        while (t->cells[i].site != site && t->cells[i].site != 0)
            i = (i + 1) & t->cell_mask;
        if (NA_LIKELY(t->cells[i].site != 0)) cell = cell_at(t->cells[i].cell);
    }
    if (NA_UNLIKELY(cell == NULL)) {
        cell = new_cell(t, site);
        if (cell == NULL) {
            __atomic_fetch_add(&na_rec.header->lost_events, 1, __ATOMIC_RELAXED);
            return NULL;
        }
    }
    uint32_t epoch = __atomic_load_n(&na_rec.header->peak_epoch, __ATOMIC_ACQUIRE);
    if (cell->peak_epoch != epoch) {
        STORE(&cell->peak_bytes, (int64_t)(cell->alloc_bytes - cell->free_bytes));
        STORE(&cell->peak_count, (int64_t)(cell->alloc_count - cell->free_count));
        __atomic_store_n(&cell->peak_epoch, epoch, __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_RELEASE);
    }
    return cell;
}

/* 1 - exp(-x), x >= 0, to full precision near zero; no libm here. */
static double drawn(double x) {
    if (x > 40) return 1;
    /* halve until small, a series, then 1 - e^-2y = p (2 - p) for p = 1 - e^-y */
    int halvings = 0;
    while (x > 0.01) {
        x /= 2;
        halvings++;
    }
    double p = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5))));
    while (halvings-- > 0)
        p *= 2 - p;
    return p;
}

typedef struct amount {
    uint64_t count; /* scaled */
    uint64_t bytes, usable;
} amount_t;

static amount_t amount_of(uint64_t requested, uint64_t usable) {
    if (NA_LIKELY(!na_rec.sampling)) return (amount_t){1, requested, usable};
    double weight = 1 / drawn((double)(usable != 0 ? usable : 1) / na_rec.interval);
    return (amount_t){(uint64_t)(weight * NA_COUNT_SCALE + 0.5),
                      (uint64_t)(weight * (double)requested + 0.5),
                      (uint64_t)(weight * (double)usable + 0.5)};
}

static void saturate(uint32_t *p) {
    if (na_rec.sampling && *p != UINT32_MAX) STORE(p, *p + 1);
}

void na_site_alloc(na_rthread_t *t, uint32_t site, uint64_t requested, uint64_t usable,
                   bool reallocated) {
    na_nprof_cell_t *c = cell_of(t, site);
    if (c == NULL) return;
    amount_t a = amount_of(requested, usable);
    ADD(&c->alloc_count, a.count);
    ADD(&c->alloc_bytes, a.bytes);
    ADD(&c->alloc_usable, a.usable);
    if (requested < c->size_min) STORE(&c->size_min, requested);
    if (requested > c->size_max) STORE(&c->size_max, requested);
    if (reallocated) ADD(&c->realloc_count, a.count);
    saturate(&c->raw_allocs);
    na_nprof_thread_t *e = t->entry;
    ADD(&e->alloc_count, a.count);
    ADD(&e->alloc_bytes, a.bytes);
    t->pending_bytes += (int64_t)a.bytes;
    t->pending_count += (int64_t)a.count;
    t->pending_allocs += a.count;
    t->pending_alloc_bytes += a.bytes;
}

void na_site_free(na_rthread_t *t, const na_record_t *record, uint64_t usable) {
    na_nprof_cell_t *c = cell_of(t, record->site);
    if (c == NULL) return;
    amount_t a = amount_of(usable - record->slack, usable);
    ADD(&c->free_count, a.count);
    ADD(&c->free_bytes, a.bytes);
    ADD(&c->free_usable, a.usable);
    if (record->thread != t->index || t->index == 0) ADD(&c->cross_thread_free_count, a.count);
    if (record->node != t->node) ADD(&c->cross_node_free_count, a.count);
    uint32_t age = (uint32_t)na_rec_ms() - record->birth;
    uint64_t ages =
        age < UINT32_MAX / 2 ? age * (na_rec.header->ticks_hz / 1000) >> NA_AGE_SHIFT : 0;
    ADD(&c->lifetime_sum, a.count * ages);
    if (ages < c->lifetime_min) STORE(&c->lifetime_min, ages);
    if (ages > c->lifetime_max) STORE(&c->lifetime_max, ages);
    saturate(&c->raw_frees);
    ADD(&t->entry->free_count, a.count);
    t->pending_bytes -= (int64_t)a.bytes;
    t->pending_count -= (int64_t)a.count;
}

void na_site_publish(na_rthread_t *t) {
    int64_t bytes = t->pending_bytes, count = t->pending_count;
    uint64_t allocs = t->pending_allocs, alloc_bytes = t->pending_alloc_bytes;
    t->pending_bytes = t->pending_count = 0;
    t->pending_allocs = t->pending_alloc_bytes = 0;
    bytes += atomic_fetch_add_explicit(&na_rec.live_bytes, bytes, memory_order_relaxed);
    count += atomic_fetch_add_explicit(&na_rec.live_count, count, memory_order_relaxed);
    na_nprof_header_t *h = na_rec.header;
    if (bytes > LOAD(&h->peak_bytes)) {
        na_lock(&na_rec.peak);
        if (bytes > LOAD(&h->peak_bytes)) {
            __atomic_store_n(&h->peak_epoch, h->peak_epoch + 1, __ATOMIC_RELEASE);
            __atomic_thread_fence(__ATOMIC_RELEASE);
            STORE(&h->peak_bytes, bytes);
            STORE(&h->peak_count, count);
            STORE(&h->peak_ms, na_rec_ms());
        }
        na_unlock(&na_rec.peak);
    }
    na_timeline_note(bytes, count, allocs, alloc_bytes);
}
