/* sites.c - what an event does to the figures of its site, its thread and the process.
 *
 * A cell has one writer, its thread, so events touch no shared cache line. Cells are exact at every
 * instant; what several threads sum up is published: the live bytes of a site by steps of
 * header.site_quantum (shares.c), those of the process by steps of NA_QUANTUM, and both some
 * hundred times a second if there is anything to publish.
 *
 * The peak of the process. Nothing has to be done while memory grows: a maximum is over when the
 * next free comes, so it is looked for there, before the free is counted (and at publications).
 * While one thread has ever been seen that is exact. With several, each knows of the others what
 * they published, and the peak is exact within threads x NA_QUANTUM. Where there may be a new one
 * within that, a publication now and then asks all threads what they have (na_site_sums).
 *
 * A realloc is one block to the program, copied or not: the new one counts when the old one does no
 * more, by its record's stamp (t->moving), and no figure ever has both or neither. Where a signal
 * handler reallocs in the middle of a realloc, the interrupted one counts as two.
 *
 * Mode sample: a block of s usable bytes is drawn with probability 1 - exp(-s / interval) and
 * stands for the inverse of that many. Its sizes alone decide, so that a free takes away exactly
 * what its allocation added. */
#include "profiler/record/events/count.h"
#include "profiler/record/events/probes.h"
#include "profiler/record/events/series.h"

#define LOAD(p)     __atomic_load_n(p, __ATOMIC_RELAXED)
#define STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)

#define LIVES_CHUNK (16u << 10)

/* --- mode sample --- */

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

na_weight_t na_site_weighted(uint64_t requested, uint64_t usable) {
    double p = drawn((double)(usable != 0 ? usable : 1) / na_rec.interval), weight = 1 / p;
    return (na_weight_t){(uint64_t)(weight * NA_COUNT_SCALE + 0.5),
                         (uint64_t)(weight * (double)requested + 0.5),
                         (uint64_t)(weight * (double)usable + 0.5), (1 - p) * weight * weight};
}

na_amount_t na_site_amount(uint64_t requested, uint64_t usable) {
    if (!na_rec.sampling) return (na_amount_t){1, requested, usable};
    na_weight_t a = na_site_weighted(requested, usable);
    return (na_amount_t){a.count, a.bytes, a.usable};
}

/* --- lifetimes --- */

/* The third free of a cell: the first two are its shortest and longest so far. */
static NA_COLD void begin_lives(na_rthread_t *t, na_nprof_cell_t *cell) {
    na_nprof_chunk_t *c = t->lives_chunk;
    cell->lives = NO_LIVES;
    if (c == NULL || c->count == c->capacity) {
        if (!na_rec_has_room(LIVES_CHUNK)) return;
        c = na_writer_chunk(NA_NPROF_LIVES, LIVES_CHUNK, sizeof(na_nprof_lives_t), t->index,
                            t->lives_chunks, 0);
        if (c == NULL) return;
        na_writer_publish(c);
        t->lives_chunks++;
        t->lives_chunk = c;
    }
    na_nprof_lives_t *l = (na_nprof_lives_t *)(c + 1) + c->count;
    add_life(l, cell->lifetime_min);
    add_life(l, cell->lifetime_max);
    __atomic_store_n(&l->site, cell->site, __ATOMIC_RELEASE);
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    STORE(&cell->lives, (uint32_t)(na_writer_offset(l) / 16));
}

NA_NOINLINE void na_site_first_lives(na_rthread_t *t, na_nprof_cell_t *c, uint64_t frees,
                                     uint64_t age) {
    if (c->lives != 0 || frees <= 2) return;
    begin_lives(t, c);
    if (c->lives > NO_LIVES) add_life(na_rec_at((uint64_t)c->lives * 16), age);
}

/* --- what is published --- */

static void new_peak(int64_t bytes, int64_t count) {
    na_nprof_header_t *h = na_rec.header;
    na_lock(&na_rec.peak);
    if (bytes > h->peak_bytes) {
        STORE(&h->peak_check, NA_NPROF_CHECK_OPEN);
        __atomic_store_n(&h->peak_epoch, h->peak_epoch + 1, __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        STORE(&h->peak_bytes, bytes);
        STORE(&h->peak_count, count);
        STORE(&h->peak_ms, na_rec_ms());
        __atomic_store_n(&h->peak_check, na_nprof_peak_check(h), __ATOMIC_RELEASE);
        na_share_quantum(bytes);
    }
    na_unlock(&na_rec.peak);
}

/* Of the thread, before a free; perhaps of all times. */
NA_NOINLINE void na_site_new_high(na_rthread_t *t, int64_t net) {
    t->high = net;
    if (atomic_load_explicit(&na_rec.threads_attached, memory_order_relaxed) != 1) return;
    int64_t all =
        atomic_load_explicit(&na_rec.live_bytes, memory_order_relaxed) + net - t->published_bytes;
    int64_t count = atomic_load_explicit(&na_rec.live_count, memory_order_relaxed) +
                    (int64_t)(t->entry->alloc_count - t->entry->free_count) - t->published_count;
    if (all > LOAD(&na_rec.header->peak_bytes)) new_peak(all, count);
}

/* Of all threads, their own figures, read while they change. A thread's allocations are read before
 * its frees, and who is no more before who is there: nothing counts twice, and what moves meanwhile
 * may be missing. */
NA_NOINLINE NA_RACY na_sums_t na_site_sums(void) {
    na_sums_t sums = {atomic_load(&na_rec.ended_bytes), atomic_load(&na_rec.ended_count),
                      atomic_load(&na_rec.ended_allocs), atomic_load(&na_rec.ended_alloc_bytes)};
    for (const na_rthread_t *t = atomic_load(&na_rec.all); t != NULL; t = t->all_next) {
        if (__atomic_load_n(&t->owner, __ATOMIC_ACQUIRE) == 0) continue;
        const volatile na_nprof_thread_t *e = __atomic_load_n(&t->entry, __ATOMIC_ACQUIRE);
        uint64_t allocs = e->alloc_bytes, blocks = e->alloc_count;
        atomic_thread_fence(memory_order_acquire);
        sums.live_bytes += (int64_t)(allocs - e->free_bytes) - t->base_bytes;
        sums.live_count += (int64_t)(blocks - e->free_count) - t->base_count;
        sums.alloc_count += blocks - t->base_allocs;
        sums.alloc_bytes += allocs - t->base_alloc_bytes;
    }
    return sums;
}

#define SUM_NS_A_THREAD 4000u /* so seldom: reading one takes some 20 to 100 ns */

/* `above` more was live before the thread's last frees. */
static void look_at_all(int64_t published, int64_t above) {
    uint32_t places = atomic_load_explicit(&na_rec.places, memory_order_relaxed);
    if (places < 2 || published + (int64_t)places * NA_QUANTUM <= LOAD(&na_rec.header->peak_bytes))
        return;
    uint64_t now = na_rec_ticks();
    uint64_t due = atomic_load_explicit(&na_rec.next_sum, memory_order_relaxed);
    uint64_t wait = (uint64_t)places * SUM_NS_A_THREAD * na_rec_ticks_of_ms(1) / 1000000;
    if (now < due || !atomic_compare_exchange_strong(&na_rec.next_sum, &due, now + wait)) return;
    na_sums_t sums = na_site_sums();
    if (sums.live_bytes + above > LOAD(&na_rec.header->peak_bytes))
        new_peak(sums.live_bytes + above, sums.live_count);
}

static void publish(na_rthread_t *t, bool at_once) {
    const na_nprof_thread_t *e = t->entry;
    int64_t net = net_of(t), net_count = (int64_t)(e->alloc_count - e->free_count);
    int64_t delta = net - t->published_bytes;
    na_timeline_event_t now = {.allocs = e->alloc_count - t->noted_allocs,
                               .alloc_bytes = e->alloc_bytes - t->noted_bytes};
    t->noted_allocs = e->alloc_count;
    t->noted_bytes = e->alloc_bytes;
    int64_t before = atomic_fetch_add_explicit(&na_rec.live_bytes, delta, memory_order_relaxed);
    int64_t count_before = atomic_fetch_add_explicit(
        &na_rec.live_count, net_count - t->published_count, memory_order_relaxed);
    int64_t high = t->high > net ? t->high : net, low = t->low < net ? t->low : net;
    look_at_all(before + high - t->published_bytes, high - net);
    now.bytes = before + delta;
    now.most = before + (high - t->published_bytes);
    now.least = before + (low - t->published_bytes);
    now.count = count_before + net_count - t->published_count;
    t->published_bytes = t->high = t->low = net;
    t->published_count = net_count;
    t->above = net + NA_QUANTUM;
    t->below = net - NA_QUANTUM;
    if (now.bytes > LOAD(&na_rec.header->peak_bytes)) new_peak(now.bytes, now.count);
    uint64_t ticks = na_rec_ticks();
    t->due = ticks + na_rec.publish_ticks;
    na_timeline_note(&now, na_rec_ms_of(ticks));
    na_series_publish(t, na_rec_ms_of(ticks), at_once);
    if (t->owner == na_thread_pointer()) na_stackmem_look(t, na_rec_ms_of(ticks), at_once);
}

void na_site_publish(na_rthread_t *t) {
    publish(t, false);
}

void na_site_publish_all(na_rthread_t *t) {
    publish(t, true);
}

/* --- events --- */

_Static_assert(NA_ENTRY_MALLOC == NA_NPROF_ENTRY_MALLOC &&
                   NA_ENTRY_CALLOC == NA_NPROF_ENTRY_CALLOC &&
                   NA_ENTRY_REALLOC == NA_NPROF_ENTRY_REALLOC &&
                   NA_ENTRY_ALIGNED == NA_NPROF_ENTRY_ALIGNED &&
                   NA_ENTRY_NEW == NA_NPROF_ENTRY_NEW &&
                   NA_ENTRY_NEW_ARRAY == NA_NPROF_ENTRY_NEW_ARRAY,
               "entry points have the same numbers in the file");

NA_NOINLINE na_nprof_cell_t *na_site_cell_of_stack(na_rthread_t *t, uint32_t *site) {
    uint32_t captured = *site;
    na_nprof_cell_t *c = na_cell_find(t, captured);
    if (c == NULL) c = na_cell_make(t, site, false);
    if (c != NULL && *site == captured) na_stacks_note_cell(t, na_cell_number(c));
    return c;
}

void na_site_alloc(na_rthread_t *t, na_record_t *record, const void *block, uint64_t requested,
                   uint64_t usable, na_entry_t entry) {
    if (NA_UNLIKELY(na_rec.sampling))
        count_alloc(t, record, block, requested, usable, entry, NULL, NA_COUNT_SAMPLED);
    else
        count_alloc(t, record, block, requested, usable, entry, NULL, NA_COUNT_ALL);
}

void na_site_moving_left(na_rthread_t *t) {
    const na_moving_t left = t->moving;
    if (left.block == NULL) return;
    t->moving.block = NULL;
    if (na_rec.sampling)
        count_taken(t, &left, NA_COUNT_SAMPLED, false);
    else
        count_taken(t, &left, NA_COUNT_ALL, false);
}

NA_INLINE void count_resize(na_rthread_t *t, na_nprof_cell_t *c, uint64_t from, uint64_t to) {
    na_nprof_sizes_t *sizes = t->sizes;
    uint64_t by = to > from ? to - from : from - to;
    c->realloc_count++;
    t->entry->realloc_count++;
    if (to > from)
        c->realloc_grow_bytes += by;
    else
        c->realloc_shrink_bytes += by;
    (to > from ? sizes->grown : sizes->shrunk)[digits(by, NA_NPROF_SIZE_BUCKETS - 1)]++;
}

NA_NOINLINE void na_site_moved(na_rthread_t *t, uint64_t from, int64_t net) {
    const na_moving_t to = t->moving;
    t->moving.block = NULL;
    if (net < t->low) t->low = net;
    if (NA_UNLIKELY(na_rec.sampling)) {
        count_taken(t, &to, NA_COUNT_SAMPLED, true);
        return;
    }
    count_resize(t, to.cell, from, to.requested);
    if (!to.kept) to.cell->realloc_copy_bytes += from < to.requested ? from : to.requested;
    count_taken(t, &to, NA_COUNT_ALL, true);
}

void na_site_count_growth(na_rthread_t *t, na_nprof_cell_t *c, const void *block,
                          uint64_t requested) {
    if (block_id(block) != c->before_block || t->last_size <= requested) return;
    c->growth_count++;
    c->growth_bytes += t->last_size - requested;
    c->growth_copied += requested;
    c->before_block = 0;
}

void na_site_free(na_rthread_t *t, const na_record_t *record, const void *block, uint64_t usable,
                  na_release_t how, const void *moved_to) {
    if (NA_UNLIKELY(na_rec.sampling))
        count_free(t, record, block, usable, how, moved_to, NA_COUNT_SAMPLED);
    else
        count_free(t, record, block, usable, how, moved_to, NA_COUNT_ALL);
}

void na_site_freed_here(na_rthread_t *t, uint32_t site, uint64_t requested) {
    na_nprof_cell_t *c = na_cell_find(t, site);
    if (c == NULL) c = na_cell_make(t, &site, false);
    if (c == NULL) return;
    na_cell_touch(na_rec.header, c);
    c->freed_here_count += na_rec.header->count_scale;
    c->freed_here_bytes += requested;
}

/* --- hooks --- */

void na_site_on_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                      size_t usable, na_entry_t entry, const void *entered) {
    count_on_alloc(prof, record, block, requested, usable, entry, entered, NA_COUNT_ALL);
}

void na_site_on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                     na_release_t how, const void *moved_to) {
    count_on_free(prof, record, block, usable, how, moved_to, NA_COUNT_ALL);
}

void na_site_on_sampled_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                              size_t usable, na_entry_t entry, const void *entered) {
    count_on_alloc(prof, record, block, requested, usable, entry, entered, NA_COUNT_SAMPLED);
    if (na_probe_is_heard()) na_probe_alloc(record, block, requested, usable);
}

void na_site_on_sampled_free(void **prof, const na_record_t *record, void *block, size_t usable,
                             na_release_t how, const void *moved_to) {
    if (na_probe_is_heard()) na_probe_free(record, block, usable);
    count_on_free(prof, record, block, usable, how, moved_to, NA_COUNT_SAMPLED);
}
