/* cells.c - makes cells, and decides what happens when there is no room for one more.
 *
 * A table belongs to a place for threads (rthreads.h): a thread that takes over the place of one
 * that ended goes on with its cells. Memory therefore grows with sites and with threads at one
 * time, not with threads ever. */
#include "profiler/record/events/count.h"

#define CELL_CHUNK_MAX (64u << 10)

bool na_rec_has_room(uint64_t bytes) {
    uint64_t limit = na_rec.own_limit;
    if (NA_LIKELY(limit == 0)) return true;
    na_nprof_header_t *h = na_rec.header;
    uint64_t own = __atomic_load_n(&h->used, __ATOMIC_RELAXED) +
                   atomic_load_explicit(&na_rec.own_used, memory_order_relaxed) -
                   atomic_load_explicit(&na_rec.own_given_back, memory_order_relaxed);
    if (own + bytes <= limit) return true;
    __atomic_fetch_or(&h->own_full, NA_NPROF_OWN_LIMIT, __ATOMIC_RELAXED);
    return false;
}

static bool grow_table(na_rthread_t *t, bool must) {
    uint32_t size = t->cells == NULL ? 512 : (t->cell_mask + 1) * 2;
    uint64_t bytes = size * sizeof(na_cell_slot_t);
    if (!must && t->cells != NULL && !na_rec_has_room(bytes)) return false;
    na_cell_slot_t *table = na_own_alloc(bytes);
    if (table == NULL) return false;
    for (uint32_t i = 0; t->cells != NULL && i <= t->cell_mask; i++) {
        if (t->cells[i].site == 0) continue;
        uint32_t j = na_cell_slot(t->cells[i].site, size - 1);
        while (table[j].site != 0)
            j = (j + 1) & (size - 1);
        table[j] = t->cells[i];
    }
    t->cells = table;
    t->cell_mask = size - 1;
    return true;
}

static na_nprof_cell_t *new_cell(na_rthread_t *t, uint32_t site, bool must) {
    if ((t->cells == NULL || t->cell_used * 2 >= t->cell_mask) && !grow_table(t, must) &&
        (t->cells == NULL || t->cell_used + 1 >= t->cell_mask))
        return NULL;
    na_nprof_chunk_t *c = t->cell_chunk;
    if (c == NULL || c->count == c->capacity) {
        uint64_t length = c == NULL ? 2 * NA_NPROF_PAGE : c->length * 2;
        if (length > CELL_CHUNK_MAX) length = CELL_CHUNK_MAX;
        if (!must && !na_rec_has_room(length)) return NULL;
        c = na_writer_chunk(NA_NPROF_CELLS, length, sizeof(na_nprof_cell_t), t->index,
                            t->cell_chunks, 0);
        if (c == NULL) return NULL;
        na_writer_publish(c);
        t->cell_chunks++;
        t->cell_chunk = c;
    }
    na_nprof_cell_t *cell = (na_nprof_cell_t *)(c + 1) + c->count;
    cell->peak_epoch = __atomic_load_n(&na_rec.header->peak_epoch, __ATOMIC_ACQUIRE);
    cell->size_min = cell->lifetime_min = UINT64_MAX;
    __atomic_store_n(&cell->site, site, __ATOMIC_RELEASE);
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    uint32_t i = na_cell_slot(site, t->cell_mask);
    while (t->cells[i].site != 0)
        i = (i + 1) & t->cell_mask;
    t->cells[i] = (na_cell_slot_t){site, na_cell_number(cell)};
    t->cell_used++;
    return cell;
}

na_nprof_cell_t *na_cell_make(na_rthread_t *t, uint32_t *site, bool must) {
    na_nprof_cell_t *c = new_cell(t, *site, must);
    if (c != NULL) return c;
    if (!must) {
        na_rec_lose(&na_rec.header->merged_events, 1);
        for (uint32_t at = *site; at > NA_NPROF_ROOT; at = na_stacks_parent(at)) {
            c = na_cell_find(t, at);
            *site = at;
            if (c != NULL) return c;
        }
        *site = NA_NPROF_ROOT;
        c = na_cell_find(t, NA_NPROF_ROOT);
        if (c == NULL) c = new_cell(t, NA_NPROF_ROOT, true);
        if (c != NULL) return c;
    }
    na_rec_lose(&na_rec.header->lost_events, 1);
    return NULL;
}
