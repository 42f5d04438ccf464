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
 * they published, and the peak is exact within threads x NA_QUANTUM.
 *
 * Mode sample: a block of s usable bytes is drawn with probability 1 - exp(-s / interval) and
 * stands for the inverse of that many. Its sizes alone decide, so that a free takes away exactly
 * what its allocation added. */
#include "profiler/record/capture.h"
#include "profiler/record/cells.h"
#include "profiler/record/rthreads.h"
#include "profiler/record/series.h"

#define LOAD(p)     __atomic_load_n(p, __ATOMIC_RELAXED)
#define STORE(p, v) __atomic_store_n(p, v, __ATOMIC_RELAXED)

#define LIVES_CHUNK (16u << 10)
#define NO_LIVES    1u /* there was no room for them; no entry can be there */

/* Number of binary digits, at most `most`. */
NA_INLINE uint32_t digits(uint64_t v, uint32_t most) {
    uint32_t n = 63u - (uint32_t)__builtin_clzll(v * 2 + 1);
    return n < most ? n : most;
}

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

typedef struct amount {
    uint64_t count; /* scaled */
    uint64_t bytes, usable;
    double variance; /* mode sample: (1 - p) / p^2 */
} amount_t;

static amount_t weighted(uint64_t requested, uint64_t usable) {
    double p = drawn((double)(usable != 0 ? usable : 1) / na_rec.interval), weight = 1 / p;
    return (amount_t){(uint64_t)(weight * NA_COUNT_SCALE + 0.5),
                      (uint64_t)(weight * (double)requested + 0.5),
                      (uint64_t)(weight * (double)usable + 0.5), (1 - p) * weight * weight};
}

na_amount_t na_site_amount(uint64_t requested, uint64_t usable) {
    if (!na_rec.sampling) return (na_amount_t){1, requested, usable};
    amount_t a = weighted(requested, usable);
    return (na_amount_t){a.count, a.bytes, a.usable};
}

static void saturate(uint32_t *p) {
    if (*p != UINT32_MAX) (*p)++;
}

/* --- lifetimes --- */

static void add_life(na_nprof_lives_t *l, uint64_t age) {
    uint32_t bucket = digits(age, NA_NPROF_AGE_BUCKETS - 1);
    if (NA_UNLIKELY(++l->count[bucket] == 0)) l->carry[bucket]++;
}

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
        atomic_fetch_add_explicit(&na_rec.own_resident, LIVES_CHUNK, memory_order_relaxed);
        t->lives_chunks++;
        t->lives_chunk = c;
    }
    na_nprof_lives_t *l = (na_nprof_lives_t *)(c + 1) + c->count;
    add_life(l, cell->lifetime_min);
    add_life(l, cell->lifetime_max);
    __atomic_store_n(&l->site, cell->site, __ATOMIC_RELEASE);
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    STORE(&cell->lives, (uint32_t)((uint64_t)((uint8_t *)l - na_rec.base) / 16));
}

NA_INLINE void count_life(na_rthread_t *t, na_nprof_cell_t *c, uint64_t frees, uint64_t age) {
    if (c->lives == 0 && frees > 2) begin_lives(t, c);
    if (c->lives > NO_LIVES)
        add_life((na_nprof_lives_t *)(na_rec.base + (uint64_t)c->lives * 16), age);
    if (age < c->lifetime_min) c->lifetime_min = age;
    if (age > c->lifetime_max) c->lifetime_max = age;
}

/* --- what is published --- */

NA_INLINE void publish_site(na_nprof_cell_t *c, int64_t live) {
    int64_t step = (int64_t)LOAD(&na_rec.header->site_quantum);
    if (NA_UNLIKELY((uint64_t)(live - c->published_bytes + step) > 2 * (uint64_t)step))
        na_share_publish(c, live);
}

/* What the thread's blocks came to before this event, and before a free whether that was the
 * largest of all times. */
NA_INLINE int64_t net_of(const na_rthread_t *t) {
    return (int64_t)(t->entry->alloc_bytes - t->entry->free_bytes);
}

static void new_peak(int64_t bytes, int64_t count) {
    na_nprof_header_t *h = na_rec.header;
    na_lock(&na_rec.peak);
    if (bytes > h->peak_bytes) {
        __atomic_store_n(&h->peak_epoch, h->peak_epoch + 1, __ATOMIC_RELEASE);
        __atomic_thread_fence(__ATOMIC_RELEASE);
        STORE(&h->peak_bytes, bytes);
        STORE(&h->peak_count, count);
        STORE(&h->peak_ms, na_rec_ms());
        na_share_quantum(bytes);
    }
    na_unlock(&na_rec.peak);
}

static NA_NOINLINE void new_high(na_rthread_t *t, int64_t net) {
    t->high = net;
    if (atomic_load_explicit(&na_rec.threads_attached, memory_order_relaxed) != 1) return;
    int64_t all =
        atomic_load_explicit(&na_rec.live_bytes, memory_order_relaxed) + net - t->published_bytes;
    int64_t count = atomic_load_explicit(&na_rec.live_count, memory_order_relaxed) +
                    (int64_t)(t->entry->alloc_count - t->entry->free_count) - t->published_count;
    if (all > LOAD(&na_rec.header->peak_bytes)) new_peak(all, count);
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

static uint32_t block_id(const void *block) {
    return (uint32_t)((uintptr_t)block >> 4);
}

_Static_assert(NA_ENTRY_MALLOC == NA_NPROF_ENTRY_MALLOC &&
                   NA_ENTRY_CALLOC == NA_NPROF_ENTRY_CALLOC &&
                   NA_ENTRY_REALLOC == NA_NPROF_ENTRY_REALLOC &&
                   NA_ENTRY_ALIGNED == NA_NPROF_ENTRY_ALIGNED &&
                   NA_ENTRY_NEW == NA_NPROF_ENTRY_NEW &&
                   NA_ENTRY_NEW_ARRAY == NA_NPROF_ENTRY_NEW_ARRAY,
               "entry points have the same numbers in the file");

/* Of the stack captured just now; *site may become another for want of room. */
static NA_NOINLINE na_nprof_cell_t *cell_of_stack(na_rthread_t *t, uint32_t *site) {
    uint32_t captured = *site;
    na_nprof_cell_t *c = na_cell_find(t, captured);
    if (c == NULL) c = na_cell_make(t, site, false);
    if (c != NULL && *site == captured) na_stacks_note_cell(t, na_cell_number(c));
    return c;
}

/* Both modes from one text: `sampling` is a constant in each. */
NA_INLINE void count_alloc(na_rthread_t *t, na_record_t *record, const void *block,
                           uint64_t requested, uint64_t usable, na_entry_t entry,
                           const void *entered, const bool sampling) {
    na_captured_t stack = na_stacks_capture_from(t, entered, true);
    uint32_t site = stack.node;
    na_nprof_cell_t *c;
    if (NA_LIKELY(stack.cell != 0)) {
        c = na_cell_at(stack.cell);
    } else if ((c = cell_of_stack(t, &site)) == NULL) {
        record->site = NA_NPROF_NO_STACK; /* its free is not counted either */
        return;
    }
    /* What follows changes three lines of the cell; the clock's reading is a time to fetch them in.
     */
    __builtin_prefetch(&c->peak_bytes, 1);
    if (!sampling) __builtin_prefetch(&c->growth_count, 1);
    uint64_t ticks = na_rec_now(), birth = na_ages(ticks);
    record->site = site; /* not always the one captured */
    record->thread = (uint16_t)t->index;
    na_record_publish_birth(record, birth);
    na_cell_touch(c);
    amount_t a = sampling ? weighted(requested, usable) : (amount_t){1, requested, usable, 0};
    c->alloc_count += a.count;
    c->alloc_bytes += a.bytes;
    c->alloc_usable += a.usable;
    if (requested < c->size_min) c->size_min = requested;
    if (requested > c->size_max) c->size_max = requested;
    int64_t live = (int64_t)(c->alloc_bytes - c->free_bytes);
    if (live > c->local_peak_bytes) c->local_peak_bytes = live;
    if (sampling) {
        saturate(&c->raw_allocs);
        c->var_alloc_count += a.variance;
        c->var_alloc_bytes += a.variance * (double)requested * (double)requested;
        if (na_entry_kind(entry) == NA_ENTRY_REALLOC) c->realloc_count += a.count;
    } else {
        c->before_block = c->last_block;
        c->last_block = block_id(block);
    }
    unsigned align = na_entry_align_log2(entry);
    if (NA_UNLIKELY(align > 4)) { /* every block is aligned to 16 */
        saturate(&c->aligned_count);
        c->align_mask |= 1u << (align & 31);
    }
    publish_site(c, live);
    t->sizes->allocs[digits(requested, NA_NPROF_SIZE_BUCKETS - 1)] += a.count;
    na_nprof_thread_t *e = t->entry;
    int64_t net = (int64_t)(e->alloc_bytes - e->free_bytes);
    if (net < t->low) t->low = net;
    e->alloc_count += a.count;
    e->alloc_bytes += a.bytes;
    e->calls[na_entry_kind(entry)] += a.count;
    if (NA_UNLIKELY(na_rec.many_nodes)) t->node_bytes[t->node] += (int64_t)a.bytes;
    t->last_block = block;
    t->last_size = requested;
    t->last_cell = c;
    t->last_alloc_site = site;
    t->after_alloc = true;
    if (NA_UNLIKELY(net + (int64_t)a.bytes > t->above) || NA_UNLIKELY(ticks >= t->due))
        na_site_publish(t);
}

void na_site_alloc(na_rthread_t *t, na_record_t *record, const void *block, uint64_t requested,
                   uint64_t usable, na_entry_t entry) {
    if (NA_UNLIKELY(na_rec.sampling))
        count_alloc(t, record, block, requested, usable, entry, NULL, true);
    else
        count_alloc(t, record, block, requested, usable, entry, NULL, false);
}

/* A block of `from` bytes became what the thread allocated last. */
static void count_resize(na_rthread_t *t, uint64_t from) {
    na_nprof_cell_t *c = t->last_cell;
    uint64_t to = t->last_size, by = to > from ? to - from : from - to;
    c->realloc_count++;
    if (to > from)
        c->realloc_grow_bytes += by;
    else
        c->realloc_shrink_bytes += by;
    (to > from ? t->sizes->grown : t->sizes->shrunk)[digits(by, NA_NPROF_SIZE_BUCKETS - 1)]++;
}

void na_site_resized(na_rthread_t *t, uint64_t from) {
    if (!na_rec.sampling && t->last_cell != NULL) count_resize(t, from);
}

/* The thread has just allocated here, and frees something older of the same site. */
static void count_growth(na_rthread_t *t, na_nprof_cell_t *c, const void *block,
                         uint64_t requested) {
    if (block_id(block) != c->before_block || t->last_size <= requested) return;
    c->growth_count++;
    c->growth_bytes += t->last_size - requested;
    c->growth_copied += requested;
    c->before_block = 0;
}

NA_INLINE void count_free(na_rthread_t *t, const na_record_t *record, const void *block,
                          uint64_t usable, na_release_t how, const void *moved_to,
                          const bool sampling) {
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
    if (net > t->high) new_high(t, net);
    na_cell_touch(c);
    uint64_t requested = usable - record->slack;
    amount_t a = sampling ? weighted(requested, usable) : (amount_t){1, requested, usable, 0};
    c->free_count += a.count;
    c->free_bytes += a.bytes;
    c->free_usable += a.usable;
    publish_site(c, (int64_t)(c->alloc_bytes - c->free_bytes));
    if (NA_UNLIKELY(record->thread != t->index || t->index == 0))
        c->cross_thread_free_count += a.count;
    if (NA_UNLIKELY(record->node != t->node)) c->cross_node_free_count += a.count;
    uint64_t ticks = na_rec_now(), age = na_record_age(record, na_ages(ticks));
    c->lifetime_sum += a.count * age;
    if (sampling) {
        saturate(&c->raw_frees);
        c->var_free_count += a.variance;
        c->var_free_bytes += a.variance * (double)requested * (double)requested;
    }
    count_life(t, c, sampling ? c->raw_frees : c->free_count, age);
    t->sizes->lives[digits(requested, NA_NPROF_SIZE_BUCKETS - 1)]
                   [digits(age, NA_NPROF_AGE_BUCKETS - 1)] += a.count;
    if (NA_LIKELY(how != NA_RELEASE_REALLOC)) {
        if (t->last_block == block)
            c->temporary_count += a.count;
        else if (!sampling && t->after_alloc && t->last_alloc_site == site)
            count_growth(t, c, block, requested);
        e->calls[how == NA_RELEASE_FREE ? NA_NPROF_ENTRY_FREE : NA_NPROF_ENTRY_DELETE] += a.count;
    } else if (!sampling && moved_to != NULL && moved_to == t->last_block) {
        count_resize(t, requested);
        t->last_cell->realloc_copy_bytes += requested < t->last_size ? requested : t->last_size;
    }
    e->free_count += a.count;
    e->free_bytes += a.bytes;
    if (NA_UNLIKELY(na_rec.many_nodes)) t->node_bytes[record->node] -= (int64_t)a.bytes;
    t->after_alloc = false;
    if (NA_UNLIKELY(net - (int64_t)a.bytes < t->below) || NA_UNLIKELY(ticks >= t->due))
        na_site_publish(t);
}

void na_site_free(na_rthread_t *t, const na_record_t *record, const void *block, uint64_t usable,
                  na_release_t how, const void *moved_to) {
    if (NA_UNLIKELY(na_rec.sampling))
        count_free(t, record, block, usable, how, moved_to, true);
    else
        count_free(t, record, block, usable, how, moved_to, false);
}

void na_site_freed_here(na_rthread_t *t, uint32_t site, uint64_t requested) {
    na_nprof_cell_t *c = na_cell_find(t, site);
    if (c == NULL) c = na_cell_make(t, &site, false);
    if (c == NULL) return;
    na_cell_touch(c);
    c->freed_here_count += na_rec.header->count_scale;
    c->freed_here_bytes += requested;
}

/* --- hooks --- */

NA_INLINE void on_alloc(void **prof, na_record_t *record, const void *block, size_t requested,
                        size_t usable, na_entry_t entry, const void *entered, const bool sampling) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (NA_UNLIKELY(t == NULL)) {
        record->site = NA_NPROF_NO_STACK; /* its free is not counted either */
        return;
    }
    t->node = record->node;
    count_alloc(t, record, block, requested, usable, entry, entered, sampling);
    na_rthread_leave();
}

NA_INLINE void on_free(void **prof, const na_record_t *record, const void *block, size_t usable,
                       na_release_t how, const void *moved_to, const bool sampling) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (NA_UNLIKELY(t == NULL)) return;
    if (NA_LIKELY(!na_rec_not_ours(record, usable))) {
        count_free(t, record, block, usable, how, moved_to, sampling);
        if (NA_UNLIKELY(na_rec.free_sites) && how != NA_RELEASE_REALLOC)
            na_site_freed_here(t, na_stacks_capture(t), usable - record->slack);
    }
    na_rthread_leave();
}

void na_site_on_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                      size_t usable, na_entry_t entry, const void *entered) {
    on_alloc(prof, record, block, requested, usable, entry, entered, false);
}

void na_site_on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                     na_release_t how, const void *moved_to) {
    on_free(prof, record, block, usable, how, moved_to, false);
}

void na_site_on_sampled_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                              size_t usable, na_entry_t entry, const void *entered) {
    on_alloc(prof, record, block, requested, usable, entry, entered, true);
}

void na_site_on_sampled_free(void **prof, const na_record_t *record, void *block, size_t usable,
                             na_release_t how, const void *moved_to) {
    on_free(prof, record, block, usable, how, moved_to, true);
}
