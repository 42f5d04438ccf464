/* pools.c - blocks that the program's own allocators announce, and the markers that it sets.
 *
 * Pools of one name are one kind: an entry of POOLS, and cells of POOL_CELLS by site. What is live
 * is kept for each pool by itself, in a hash of addresses in the recorder's own memory, so that
 * destroying one does not touch the others; its table serves the next pool when it is gone. A kind
 * has one lock, held for a few dozen instructions (and a system call where a table grows); stacks
 * are walked before it is taken. */
#include "alloc/core/machine/topology.h"
#include "profiler/record/access/access_pools.h"
#include "profiler/record/events/rthreads.h"
#include "profiler/record/events/trace.h"

#define KINDS       256u
#define CHUNK_BYTES (16u << 10)

#define ADD(p, v) __atomic_store_n(p, *(p) + (v), __ATOMIC_RELAXED) /* under the lock */

typedef struct live_block {
    uintptr_t at; /* 0: no block */
    uint64_t size;
    uint32_t cell; /* number in the kind's list, + 1; 0: it found no cell */
    uint32_t birth_ms;
} live_block_t;

typedef struct kind {
    na_lock_t lock;
    uint32_t id;
    na_nprof_pool_t *entry;
    int64_t live_bytes, live_count;
    na_nprof_pool_cell_t **cells; /* room for 1 << cell_bits */
    uint32_t *cell_of;            /* hash of site -> number + 1, twice as long */
    uint32_t cell_bits, cell_count;
    na_nprof_chunk_t *chunk; /* being filled */
    na_pool_blocks_t blocks; /* of all its pools, by address: where accesses are recorded */
} kind_t;

typedef struct pool {
    struct pool *next; /* in the list of idle ones */
    kind_t *kind;
    live_block_t *blocks;
    uint64_t mask, used;
} pool_t;

static struct {
    na_lock_t lock; /* guards what follows, for making and ending; taken before a kind's */
    kind_t *kinds;
    uint32_t kind_count, chunks, cell_chunks, marker_chunks;
    pool_t *idle;
    na_nprof_chunk_t *pool_chunk, *marker_chunk;
    uint32_t markers;
    _Atomic(pool_t *) *by_number; /* of the allocator's pools */
} all;

void na_pools_start(void) {
    __builtin_memset(&all, 0, sizeof all);
}

/* --- making --- */

/* A chunk with room for one more, the one in hand or a new one; counts the entry. */
static void *next_entry(na_nprof_chunk_t **chunk, uint16_t type, uint32_t size, uint32_t *chunks,
                        uint32_t first_id) {
    na_nprof_chunk_t *c = *chunk;
    if (c == NULL || c->count == c->capacity) {
        c = na_writer_chunk(type, CHUNK_BYTES, size, 0, *chunks, first_id);
        if (c == NULL) return NULL;
        na_writer_publish(c);
        ++*chunks;
        *chunk = c;
    }
    void *entry = (uint8_t *)(c + 1) + (size_t)c->count * size;
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    return entry;
}

static bool same_name(const char *a, const char *b) {
    while (*a != 0 && *a == *b)
        a++, b++;
    return *a == *b;
}

/* Under all.lock. */
static kind_t *pool_kind(const char *name) {
    if (all.kinds == NULL) all.kinds = na_own_alloc(KINDS * sizeof *all.kinds);
    if (all.kinds == NULL) return NULL;
    for (uint32_t i = 0; i < all.kind_count; i++)
        if (same_name(all.kinds[i].entry->name, name)) return &all.kinds[i];
    if (all.kind_count == KINDS) return NULL;
    na_nprof_pool_t *e =
        next_entry(&all.pool_chunk, NA_NPROF_POOLS, sizeof *e, &all.chunks, all.kind_count + 1);
    if (e == NULL) return NULL;
    kind_t *kind = &all.kinds[all.kind_count++];
    kind->id = all.kind_count;
    kind->entry = e;
    na_rec_copy(e->name, sizeof e->name, name);
    e->peak_epoch = 1;
    e->created_ms = na_rec_ms();
    __atomic_store_n(&e->flags, NA_NPROF_POOL_VALID, __ATOMIC_RELEASE);
    return kind;
}

/* The pool's state in this profile, made at its first event in it. */
static pool_t *pool_of(uint32_t number, const char *name) {
    _Atomic(pool_t *) *numbers = __atomic_load_n(&all.by_number, __ATOMIC_ACQUIRE);
    pool_t *p =
        numbers == NULL ? NULL : atomic_load_explicit(&numbers[number], memory_order_acquire);
    if (p != NULL) return p;
    na_lock(&all.lock);
    numbers = all.by_number;
    if (numbers == NULL) numbers = na_own_alloc(NA_POOLS * sizeof *numbers);
    __atomic_store_n(&all.by_number, numbers, __ATOMIC_RELEASE);
    if (numbers != NULL) {
        kind_t *kind = pool_kind(name);
        p = all.idle;
        if (p != NULL)
            all.idle = p->next;
        else
            p = na_own_alloc(sizeof *p);
        if (p != NULL && kind != NULL) {
            p->kind = kind;
            kind->entry->flags &= ~NA_NPROF_POOL_DESTROYED;
            atomic_store_explicit(&numbers[number], p, memory_order_release);
        } else if (p != NULL) {
            p->next = all.idle;
            all.idle = p;
            p = NULL;
        }
    }
    na_unlock(&all.lock);
    return p;
}

/* --- cells, under the kind's lock --- */

static uint32_t cell_slot(const kind_t *kind, uint32_t site) {
    uint32_t mask = (2u << kind->cell_bits) - 1, i = (site * 0x9e3779b1u >> 7) & mask;
    while (kind->cell_of[i] != 0 && kind->cells[kind->cell_of[i] - 1]->site != site)
        i = (i + 1) & mask;
    return i;
}

static bool grow_cells(kind_t *kind) {
    uint32_t bits = kind->cells == NULL ? 8 : kind->cell_bits + 1;
    if (bits > 24) return false;
    na_nprof_pool_cell_t **cells = na_own_alloc(sizeof *cells << bits);
    uint32_t *table = na_own_alloc(sizeof *table << (bits + 1));
    if (cells == NULL || table == NULL) return false;
    for (uint32_t i = 0; i < kind->cell_count; i++)
        cells[i] = kind->cells[i];
    kind->cells = cells;
    kind->cell_of = table;
    kind->cell_bits = bits;
    for (uint32_t i = 0; i < kind->cell_count; i++)
        table[cell_slot(kind, cells[i]->site)] = i + 1;
    return true;
}

/* Number + 1 of the site's cell; 0: no room. */
static uint32_t cell_number(kind_t *kind, uint32_t site) {
    if (kind->cells == NULL && !grow_cells(kind)) return 0;
    uint32_t i = cell_slot(kind, site);
    if (kind->cell_of[i] != 0) return kind->cell_of[i];
    if (kind->cell_count >> kind->cell_bits != 0) {
        if (!grow_cells(kind)) return 0;
        i = cell_slot(kind, site);
    }
    na_lock(&na_rec.tables);
    na_nprof_pool_cell_t *c =
        next_entry(&kind->chunk, NA_NPROF_POOL_CELLS, sizeof *c, &all.cell_chunks, 0);
    na_unlock(&na_rec.tables);
    if (c == NULL) return 0;
    c->pool = kind->id;
    c->size_min = UINT64_MAX;
    c->peak_epoch = kind->entry->peak_epoch;
    __atomic_store_n(&c->site, site, __ATOMIC_RELEASE);
    kind->cells[kind->cell_count++] = c;
    kind->cell_of[i] = kind->cell_count;
    return kind->cell_count;
}

/* Before a cell changes: what it had at the pool's last peak. */
static void keep_pool_peak(const kind_t *kind, na_nprof_pool_cell_t *c) {
    if (c->peak_epoch == kind->entry->peak_epoch) return;
    c->peak_bytes = (int64_t)(c->alloc_bytes - c->free_bytes);
    c->peak_count = (int64_t)(c->alloc_count - c->free_count);
    __atomic_store_n(&c->peak_epoch, kind->entry->peak_epoch, __ATOMIC_RELEASE);
}

static void count_pool_alloc(kind_t *kind, na_nprof_pool_cell_t *c, uint64_t size) {
    na_nprof_pool_t *e = kind->entry;
    keep_pool_peak(kind, c);
    ADD(&c->alloc_count, 1);
    ADD(&c->alloc_bytes, size);
    if (size < c->size_min) c->size_min = size;
    if (size > c->size_max) c->size_max = size;
    ADD(&e->alloc_count, 1);
    ADD(&e->alloc_bytes, size);
    kind->live_bytes += (int64_t)size;
    kind->live_count++;
    if (kind->live_bytes <= e->peak_bytes) return;
    __atomic_store_n(&e->peak_epoch, e->peak_epoch + 1, __ATOMIC_RELEASE);
    e->peak_bytes = kind->live_bytes;
    e->peak_count = kind->live_count;
    e->peak_ms = na_rec_ms();
}

static void count_pool_free(kind_t *kind, const live_block_t *block) {
    na_nprof_pool_t *e = kind->entry;
    na_nprof_pool_cell_t *c = kind->cells[block->cell - 1];
    uint32_t age = (uint32_t)na_rec_ms() - block->birth_ms;
    keep_pool_peak(kind, c);
    ADD(&c->free_count, 1);
    ADD(&c->free_bytes, block->size);
    ADD(&c->lifetime_sum_ms, age < UINT32_MAX / 2 ? age : 0); /* clocks may disagree */
    ADD(&e->free_count, 1);
    ADD(&e->free_bytes, block->size);
    kind->live_bytes -= (int64_t)block->size;
    kind->live_count--;
}

/* --- live blocks, under the kind's lock --- */

static uint64_t address_home(const pool_t *p, uintptr_t at) {
    return (uint64_t)at * UINT64_C(0x9e3779b97f4a7c15) >> 20 & p->mask;
}

/* The block's slot, or the free one where it would go. */
static live_block_t *find_live(const pool_t *p, uintptr_t at) {
    uint64_t i = address_home(p, at);
    while (p->blocks[i].at != 0 && p->blocks[i].at != at)
        i = (i + 1) & p->mask;
    return &p->blocks[i];
}

static bool make_room_in_pool(pool_t *p) {
    if (p->blocks != NULL && p->used * 2 <= p->mask) return true;
    uint64_t length = p->blocks == NULL ? 256 : (p->mask + 1) * 2;
    live_block_t *old = p->blocks, *blocks = na_own_alloc(length * sizeof *blocks);
    if (blocks == NULL) return false;
    uint64_t n = old == NULL ? 0 : p->mask + 1;
    p->blocks = blocks;
    p->mask = length - 1;
    for (uint64_t i = 0; i < n; i++)
        if (old[i].at != 0) *find_live(p, old[i].at) = old[i];
    return true;
}

/* Takes a block out; those behind it that it kept from their place move up. */
static void take_out_of_pool(pool_t *p, live_block_t *block) {
    uint64_t hole = (uint64_t)(block - p->blocks);
    p->used--;
    for (uint64_t i = (hole + 1) & p->mask; p->blocks[i].at != 0; i = (i + 1) & p->mask) {
        uint64_t home = address_home(p, p->blocks[i].at);
        if (((i - home) & p->mask) < ((i - hole) & p->mask)) continue;
        p->blocks[hole] = p->blocks[i];
        hole = i;
    }
    p->blocks[hole].at = 0;
}

/* --- what samples of accesses are about --- */

static void begin_life(na_rthread_t *t, kind_t *kind, uintptr_t at, uint64_t size, uint32_t site) {
    na_life_t life = {.base = at,
                      .usable = size,
                      .record = {.site = site,
                                 .thread = (uint16_t)t->known_as,
                                 .node = (uint8_t)na_node_current(),
                                 .birth = na_ages(na_rec_ticks()) & NA_RECORD_TIME_MASK,
                                 .epoch = na_profile_epoch}};
    if (!na_pool_block_begins(&kind->blocks, &life)) na_rec_lose(&na_rec.header->lost_events, 1);
}

static void end_life(kind_t *kind, const live_block_t *block) {
    if (na_pool_blocks_wanted)
        na_pool_block_ends(&kind->blocks, block->at, block->size, kind->id,
                           na_ages(na_rec_ticks()));
}

bool na_pools_find(na_pool_search_t *search) {
    na_lock(&all.lock);
    uint32_t count = all.kind_count;
    na_unlock(&all.lock);
    if (count == 0) return false;
    for (uint32_t i = 0; i < count; i++) {
        kind_t *kind = &all.kinds[i];
        na_lock(&kind->lock);
        na_pool_search_live(search, &kind->blocks, kind->id);
        na_unlock(&kind->lock);
    }
    na_pool_search_ended(search);
    return search->pool != 0;
}

/* --- events --- */

static void pool_alloc(na_rthread_t *t, pool_t *p, uintptr_t at, uint64_t size) {
    uint32_t site = na_stacks_capture(t), now = (uint32_t)na_rec_ms();
    kind_t *kind = p->kind;
    na_lock(&kind->lock);
    uint32_t cell = make_room_in_pool(p) ? cell_number(kind, site) : 0;
    if (cell == 0) {
        ADD(&kind->entry->lost, 1);
    } else {
        live_block_t *b = find_live(p, at);
        if (b->at != 0) { /* it never said that it took the block back */
            end_life(kind, b);
            count_pool_free(kind, b);
        } else {
            p->used++;
        }
        *b = (live_block_t){.at = at, .size = size, .cell = cell, .birth_ms = now};
        count_pool_alloc(kind, kind->cells[cell - 1], size);
        if (na_pool_blocks_wanted) begin_life(t, kind, at, size, site);
    }
    na_unlock(&kind->lock);
}

static void pool_free(pool_t *p, uintptr_t at) {
    kind_t *kind = p->kind;
    na_lock(&kind->lock);
    live_block_t *b = p->blocks == NULL ? NULL : find_live(p, at);
    if (b == NULL || b->at == 0) {
        ADD(&kind->entry->before_frees, 1);
    } else {
        end_life(kind, b);
        count_pool_free(kind, b);
        take_out_of_pool(p, b);
    }
    na_unlock(&kind->lock);
}

static void pool_destroy(uint32_t number) {
    na_lock(&all.lock);
    pool_t *p = all.by_number == NULL
                    ? NULL
                    : atomic_exchange_explicit(&all.by_number[number], NULL, memory_order_acq_rel);
    if (p != NULL) {
        kind_t *kind = p->kind;
        na_lock(&kind->lock);
        for (uint64_t i = 0; p->blocks != NULL && i <= p->mask; i++) {
            if (p->blocks[i].at == 0) continue;
            end_life(kind, &p->blocks[i]);
            count_pool_free(kind, &p->blocks[i]);
            p->blocks[i].at = 0;
        }
        p->used = 0;
        kind->entry->destroyed_ms = na_rec_ms();
        __atomic_fetch_or(&kind->entry->flags, NA_NPROF_POOL_DESTROYED, __ATOMIC_RELEASE);
        na_unlock(&kind->lock);
        p->next = all.idle;
        all.idle = p;
    }
    na_unlock(&all.lock);
}

void na_rec_on_pool(void **prof, na_pool_event_t event, uint32_t number, const char *name,
                    const void *block, size_t size) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    if (event == NA_POOL_DESTROY) {
        pool_destroy(number);
    } else {
        pool_t *p = pool_of(number, name);
        if (p != NULL && event == NA_POOL_ALLOC) pool_alloc(t, p, (uintptr_t)block, size);
        if (p != NULL && event == NA_POOL_FREE) pool_free(p, (uintptr_t)block);
        if (p == NULL) na_rec_lose(&na_rec.header->lost_events, 1);
    }
    na_rthread_leave();
}

void na_rec_on_marker(void **prof, const char *name) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    na_lock(&all.lock);
    na_nprof_marker_t *m = next_entry(&all.marker_chunk, NA_NPROF_MARKERS, sizeof *m,
                                      &all.marker_chunks, ++all.markers);
    if (m != NULL) {
        uint64_t now = na_rec.tracing ? na_trace_place(t) : na_rec_ticks() - na_rec.start_ticks;
        na_sums_t sums = na_site_sums();
        m->ticks = now;
        m->ms = na_rec_ms_of(na_rec.start_ticks + now);
        m->live_bytes = sums.live_bytes;
        m->live_count = sums.live_count;
        m->alloc_bytes = sums.alloc_bytes;
        m->alloc_count = sums.alloc_count;
        m->thread = t->index;
        na_rec_copy(m->name, sizeof m->name, name);
        __atomic_store_n(&m->flags, NA_NPROF_MARKER_VALID | NA_NPROF_MARKER_PLACED,
                         __ATOMIC_RELEASE);
    } else {
        na_rec_lose(&na_rec.header->lost_events, 1);
    }
    na_unlock(&all.lock);
    na_rthread_leave();
}
