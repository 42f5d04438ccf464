/* cells.h - a thread's table from site to cell. */
#ifndef NUMALLOC_RECORD_CELLS_H
#define NUMALLOC_RECORD_CELLS_H

#include "profiler/record/state/state.h"

/* The cell of a site that the table does not have: made, or where there is no room for one that of
 * the nearest outer part of the stack that has one (counted); *site says whose it is. `must`: no
 * other will do (a free has to be counted where its allocation was). NULL: event lost, counted. */
NA_COLD na_nprof_cell_t *na_cell_make(na_rthread_t *t, uint32_t *site, bool must);

NA_INLINE na_nprof_cell_t *na_cell_at(uint32_t cell) {
    return (na_nprof_cell_t *)(na_rec.base + (uint64_t)cell * 64);
}

NA_INLINE uint32_t na_cell_number(const na_nprof_cell_t *c) {
    return (uint32_t)((uint64_t)((const uint8_t *)c - na_rec.base) / 64);
}

NA_INLINE uint32_t na_cell_slot(uint32_t site, uint32_t mask) {
    return (site * 0x9e3779b1u >> 7) & mask;
}

/* NULL: the table has none. */
NA_INLINE na_nprof_cell_t *na_cell_find(const na_rthread_t *t, uint32_t site) {
    if (NA_UNLIKELY(t->cells == NULL)) return NULL;
    uint32_t i = na_cell_slot(site, t->cell_mask);
    while (t->cells[i].site != site) {
        if (NA_UNLIKELY(t->cells[i].site == 0)) return NULL;
        i = (i + 1) & t->cell_mask;
    }
    return na_cell_at(t->cells[i].cell);
}

/* Before a cell changes: what it held at the last peak, if it has not changed since. Stores are in
 * this order in the file because a compiler keeps them so: a killed thread has done all that came
 * before. */
NA_INLINE void na_cell_touch(const na_nprof_header_t *h, na_nprof_cell_t *c) {
    uint32_t epoch = __atomic_load_n(&h->peak_epoch, __ATOMIC_ACQUIRE);
    if (NA_LIKELY(c->peak_epoch == epoch)) return;
    c->peak_bytes = (int64_t)(c->alloc_bytes - c->free_bytes);
    c->peak_count = (int64_t)(c->alloc_count - c->free_count);
    __atomic_store_n(&c->peak_epoch, epoch, __ATOMIC_RELEASE);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

#endif
