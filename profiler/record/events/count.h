/* count.h - what an event does to the counters, to be inlined where events come in: sites.c for the
 * hooks, usual.c where they are inlined in mode sites; and how it finds its site's. */
#ifndef NUMALLOC_PROFILER_RECORD_EVENTS_COUNT_H
#define NUMALLOC_PROFILER_RECORD_EVENTS_COUNT_H

#include "alloc/core/central/block.h"
#include "profiler/record/events/rthreads.h"
#include "profiler/record/stacks/walk.h"

/* --- A thread's table from site to cell --- */

/* The cell of a site that the table does not have: made, or where there is no room for one that of
 * the nearest outer part of the stack that has one (counted); *site says whose it is. `must`: no
 * other will do (a free has to be counted where its allocation was). NULL: event lost, counted. */
NA_COLD na_nprof_cell_t *na_cell_make(na_rthread_t *t, uint32_t *site, bool must);

NA_INLINE na_nprof_cell_t *na_cell_at(uint32_t cell) {
    return na_rec_at((uint64_t)cell * 64);
}

NA_INLINE uint32_t na_cell_number(const na_nprof_cell_t *c) {
    return (uint32_t)(na_writer_offset(c) / 64);
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

/* --- Counting --- */

#define NO_LIVES 1u /* in a cell's `lives`: there was no room for them; no entry can be there */

/* What an event is: a constant wherever it is asked for. */
typedef enum na_counting {
    NA_COUNT_ALL,     /* mode sites and trace */
    NA_COUNT_USUAL,   /* the same of a small block, its thread's state taken care of (usual.c) */
    NA_COUNT_SAMPLED, /* mode sample */
} na_counting_t;

/* What a block counts for. */
typedef struct na_weight {
    uint64_t count; /* scaled */
    uint64_t bytes, usable;
    double variance; /* mode sample: (1 - p) / p^2 */
} na_weight_t;

/* sites.c */
na_weight_t na_site_weighted(uint64_t requested, uint64_t usable);
/* Of a cell without lifetimes; it has so many frees now. */
void na_site_first_lives(na_rthread_t *t, na_nprof_cell_t *c, uint64_t frees, uint64_t age);
void na_site_new_high(na_rthread_t *t, int64_t net);
/* Of the stack captured just now; *site may become another for want of room. */
na_nprof_cell_t *na_site_cell_of_stack(na_rthread_t *t, uint32_t *site);
/* The old one, of `from` bytes, has just been counted as freed: it became t->moving. The thread's
 * blocks came to `net` before. */
void na_site_moved(na_rthread_t *t, uint64_t from, int64_t net);
/* The thread has just allocated where this block was, and frees something older of the same site.
 */
void na_site_count_growth(na_rthread_t *t, na_nprof_cell_t *c, const void *block,
                          uint64_t requested);

/* Number of binary digits. */
NA_INLINE uint32_t all_digits(uint64_t v) {
    return 63u - (uint32_t)__builtin_clzll(v * 2 + 1);
}

/* The same, at most `most`. */
NA_INLINE uint32_t digits(uint64_t v, uint32_t most) {
    uint32_t n = all_digits(v);
    return n < most ? n : most;
}

/* Of the size of a block. */
NA_INLINE uint32_t size_bucket(uint64_t requested, const na_counting_t how) {
    _Static_assert(NA_SMALL_MAX < UINT64_C(1) << (NA_NPROF_SIZE_BUCKETS - 1), "no need to ask");
    return how == NA_COUNT_USUAL ? all_digits(requested)
                                 : digits(requested, NA_NPROF_SIZE_BUCKETS - 1);
}

NA_INLINE uint32_t age_bucket(uint64_t age) {
    uint32_t n = all_digits(age);
    return NA_LIKELY(n < NA_NPROF_AGE_BUCKETS) ? n : NA_NPROF_AGE_BUCKETS - 1;
}

NA_INLINE void saturate(uint32_t *p) {
    if (*p != UINT32_MAX) (*p)++;
}

NA_INLINE uint32_t block_id(const void *block) {
    return (uint32_t)((uintptr_t)block >> 4);
}

NA_INLINE void add_life(na_nprof_lives_t *l, uint64_t age) {
    uint32_t bucket = age_bucket(age);
    if (NA_UNLIKELY(++l->count[bucket] == 0)) l->carry[bucket]++;
}

NA_INLINE void count_life(na_rthread_t *t, na_nprof_cell_t *c, uint64_t frees, uint64_t age) {
    uint64_t lives = c->lives;
    if (NA_LIKELY(lives > NO_LIVES))
        add_life(na_rec_at(lives * 16), age);
    else
        na_site_first_lives(t, c, frees, age);
    if (age < c->lifetime_min) c->lifetime_min = age;
    if (age > c->lifetime_max) c->lifetime_max = age;
}

/* It has become more by this event, or less. */
NA_INLINE void publish_site(const na_nprof_header_t *h, na_nprof_cell_t *c, int64_t live,
                            const bool more) {
    int64_t step = (int64_t)__atomic_load_n(&h->site_quantum, __ATOMIC_RELAXED);
    int64_t by = more ? live - c->published_bytes : c->published_bytes - live;
    if (NA_UNLIKELY(by > step)) na_share_publish(c, live);
}

/* What the thread's blocks come to. */
NA_INLINE int64_t net_of(const na_rthread_t *t) {
    return (int64_t)(t->entry->alloc_bytes - t->entry->free_bytes);
}

/* Of a block whose record is filled. */
NA_INLINE void count_taken(na_rthread_t *t, const na_moving_t *b, const na_counting_t how,
                           const bool moved) {
    const bool sampling = how == NA_COUNT_SAMPLED;
    const na_nprof_header_t *h = na_rec.header;
    na_nprof_cell_t *c = b->cell;
    na_cell_touch(h, c);
    na_weight_t a = sampling ? na_site_weighted(b->requested, b->usable)
                             : (na_weight_t){1, b->requested, b->usable, 0};
    c->alloc_count += a.count;
    c->alloc_bytes += a.bytes;
    c->alloc_usable += a.usable;
    if (b->requested < c->size_min) c->size_min = b->requested;
    if (b->requested > c->size_max) c->size_max = b->requested;
    int64_t live = (int64_t)(c->alloc_bytes - c->free_bytes);
    if (live > c->local_peak_bytes) c->local_peak_bytes = live;
    if (sampling) {
        saturate(&c->raw_allocs);
        c->var_alloc_count += a.variance;
        c->var_alloc_bytes += a.variance * (double)b->requested * (double)b->requested;
        if (na_entry_kind(b->entry) == NA_ENTRY_REALLOC) {
            c->realloc_count += a.count;
            t->entry->realloc_count += a.count;
        }
    } else {
        c->before_block = c->last_block;
        c->last_block = block_id(b->block);
    }
    publish_site(h, c, live, true);
    if (moved) publish_site(h, c, live, false);
    t->sizes->allocs[size_bucket(b->requested, how)] += a.count;
    na_nprof_thread_t *e = t->entry;
    int64_t net = (int64_t)(e->alloc_bytes - e->free_bytes);
    if (!moved && net < t->low) t->low = net;
    e->alloc_count += a.count;
    e->alloc_bytes += a.bytes;
    e->calls[na_entry_kind(b->entry)] += a.count;
    t->node_bytes[moved ? b->record->node : t->node] += (int64_t)a.bytes;
    t->last_block = b->block;
    t->last_size = b->requested;
    t->last_cell = c;
    t->last_alloc_site = b->site;
    t->after_alloc = !moved;
    net += (int64_t)a.bytes;
    if (NA_UNLIKELY(net > t->above) || (moved && net < t->below) || NA_UNLIKELY(b->ticks >= t->due))
        na_site_publish(t);
}

/* Fills the record. */
NA_INLINE void count_alloc(na_rthread_t *t, na_record_t *record, const void *block,
                           uint64_t requested, uint64_t usable, na_entry_t entry,
                           const void *entered, const na_counting_t how) {
    na_captured_t stack = na_stacks_capture_from(t, entered, true);
    uint32_t site = stack.node;
    na_nprof_cell_t *c;
    if (NA_LIKELY(stack.cell != 0)) {
        c = na_cell_at(stack.cell);
    } else if ((c = na_site_cell_of_stack(t, &site)) == NULL) {
        na_record_set_site(record, NA_NPROF_NO_STACK); /* its free is not counted either */
        return;
    }
    /* What follows changes three lines of the cell; the clock's reading is a time to fetch them in.
     */
    __builtin_prefetch(&c->peak_bytes, 1);
    if (how != NA_COUNT_SAMPLED) __builtin_prefetch(&c->growth_count, 1);
    na_record_set_site(record, site); /* not always the one captured */
    na_record_set_thread(record, (uint16_t)t->known_as);
    uint64_t ticks;
    if (how == NA_COUNT_USUAL) {
        ticks = na_ticks();
        /* The record was of no life until now. */
        __atomic_store_n(&record->words[1],
                         t->record_rest | ticks >> NA_AGE_SHIFT << (NA_RECORD_BIRTH_SHIFT + 8) >> 8,
                         __ATOMIC_RELEASE);
    } else {
        ticks = na_rec_now();
        na_record_publish_birth(record, na_ages(ticks));
    }
    const na_moving_t b = {block, record, c, requested, usable, ticks, site, entry, false};
    if (NA_UNLIKELY((unsigned)entry >
                    (4u << 8 | NA_ENTRY_KIND))) { /* every block is aligned to 16 */
        if (na_entry_moves(entry)) {
            if (NA_UNLIKELY(t->moving.block != NULL)) na_site_moving_left(t);
            t->moving = b; /* it counts when the old one does no more */
            return;
        }
        unsigned log2 = na_entry_align_log2(entry);
        if (log2 != 0) saturate(&c->aligned_count);
        c->align_mask |= 1u << (log2 & 31); /* 0: no alignment, NA_ENTRY_API */
    }
    count_taken(t, &b, how, false);
}

NA_INLINE void count_free(na_rthread_t *t, const na_record_t *record, const void *block,
                          uint64_t usable, na_release_t released, const void *moved_to,
                          const na_counting_t how) {
    const bool sampling = how == NA_COUNT_SAMPLED;
    const bool moves = how != NA_COUNT_USUAL && NA_UNLIKELY(released == NA_RELEASE_REALLOC) &&
                       moved_to != NULL && t->moving.block == moved_to;
    const na_nprof_header_t *h = na_rec.header;
    uint32_t site = record->site;
    na_nprof_cell_t *c = t->last_cell;
    if (site != t->last_alloc_site) {
        c = na_cell_find(t, site);
        if (NA_UNLIKELY(c == NULL) && (c = na_cell_make(t, &site, true)) == NULL) return;
    }
    __builtin_prefetch(&c->peak_bytes, 1);
    __builtin_prefetch(&c->lives, 1);
    na_nprof_thread_t *e = t->entry;
    int64_t net = (int64_t)(e->alloc_bytes - e->free_bytes);
    if (NA_UNLIKELY(net > t->high)) na_site_new_high(t, net);
    na_cell_touch(h, c);
    uint64_t requested = usable - record->slack;
    na_weight_t a =
        sampling ? na_site_weighted(requested, usable) : (na_weight_t){1, requested, usable, 0};
    c->free_count += a.count;
    c->free_bytes += a.bytes;
    c->free_usable += a.usable;
    if (!moves || site != t->moving.site) /* it has not become less for that */
        publish_site(h, c, (int64_t)(c->alloc_bytes - c->free_bytes), false);
    if (NA_UNLIKELY(record->thread != t->known_as)) {
        c->cross_thread_free_count += a.count;
        e->cross_thread_free_count += a.count;
    }
    if (NA_UNLIKELY(record->node != t->node)) {
        c->cross_node_free_count += a.count;
        e->cross_node_free_count += a.count;
    }
    uint64_t ticks = how == NA_COUNT_USUAL ? na_ticks() : moves ? t->moving.ticks : na_rec_now();
    uint64_t age = na_record_age(record, na_ages(ticks));
    c->lifetime_sum += a.count * age;
    if (sampling) {
        saturate(&c->raw_frees);
        c->var_free_count += a.variance;
        c->var_free_bytes += a.variance * (double)requested * (double)requested;
    }
    count_life(t, c, sampling ? c->raw_frees : c->free_count, age);
    t->sizes->lives[size_bucket(requested, how)][age_bucket(age)] += a.count;
    if (how == NA_COUNT_USUAL || NA_LIKELY(released != NA_RELEASE_REALLOC)) {
        if (t->last_block == block)
            c->temporary_count += a.count;
        else if (!sampling && t->after_alloc && t->last_alloc_site == site)
            na_site_count_growth(t, c, block, requested);
        e->calls[released == NA_RELEASE_FREE ? NA_NPROF_ENTRY_FREE : NA_NPROF_ENTRY_DELETE] +=
            a.count;
    }
    e->free_count += a.count;
    e->free_bytes += a.bytes;
    t->node_bytes[record->node] -= (int64_t)a.bytes;
    t->after_alloc = false;
    if (how != NA_COUNT_USUAL && NA_UNLIKELY(moves))
        na_site_moved(t, requested, net);
    else if (NA_UNLIKELY(net - (int64_t)a.bytes < t->below) || NA_UNLIKELY(ticks >= t->due))
        na_site_publish(t);
}

/* --- the hooks; each way of counting is an instance of these --- */

NA_INLINE void count_on_alloc(void **prof, na_record_t *record, const void *block, size_t requested,
                              size_t usable, na_entry_t entry, const void *entered,
                              const na_counting_t counting) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (NA_UNLIKELY(t == NULL)) {
        na_record_set_site(record, NA_NPROF_NO_STACK); /* its free is not counted either */
        return;
    }
    na_rthread_on_node(t, record->node);
    count_alloc(t, record, block, requested, usable, entry, entered, counting);
    na_rthread_leave();
}

NA_INLINE void count_on_free(void **prof, const na_record_t *record, const void *block,
                             size_t usable, na_release_t how, const void *moved_to,
                             const na_counting_t counting) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (NA_UNLIKELY(t == NULL)) return;
    /* A usual one is known to be of this profile. */
    bool ours = counting == NA_COUNT_USUAL ? NA_LIKELY(record->site != NA_NPROF_NO_STACK)
                                           : NA_LIKELY(!na_rec_not_ours(record, usable));
    if (ours) {
        count_free(t, record, block, usable, how, moved_to, counting);
        if (counting != NA_COUNT_USUAL && NA_UNLIKELY(na_rec.free_sites) &&
            how != NA_RELEASE_REALLOC)
            na_site_freed_here(t, na_stacks_capture(t), usable - record->slack);
    } else if (counting != NA_COUNT_USUAL && how == NA_RELEASE_REALLOC) {
        na_site_moving_left(t);
    }
    na_rthread_leave();
}

#endif
