/* html_blocks.c - see html_blocks.h. */
#include "profiler/dump/page/html_blocks.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/block_histogram.h"
#include "profiler/containers/array.h"
#include "profiler/containers/index.h"

#define TRAILS 4096u /* chains at one time whose sizes are kept */

/* One class for each multiple of 16 bytes up to NA_CLASS_MOST, then one for each power of two. */
#define SMALL   (NA_CLASS_MOST / 16 + 1)
#define CLASSES (SMALL + 64)

/* A block that a realloc made, by its address; 0: a free place of the array. */
typedef struct chain {
    uint64_t address;
    uint64_t first, moved;
    uint32_t steps, in_place;
    uint32_t trail;     /* number + 1; 0: its sizes are not kept */
    uint32_t row;       /* of the last block's site */
    uint64_t last;      /* its size */
    uint32_t next_free; /* of a free place: number + 1 */
} chain_t;

typedef struct trail {
    uint64_t size[NA_CHAIN_TRAIL];
    uint32_t count;
    uint32_t next_free; /* number + 1 */
} trail_t;

/* A realloc whose old block has gone before its new one came. */
typedef struct coming {
    uint64_t address;
    chain_t chain;
} coming_t;

#define COMING 64u

struct na_webpage_blocks {
    uint32_t site_count;
    uint64_t ticks;
    unsigned age_shift;
    na_site_blocks_t *sites;
    na_nprof_sizes_t sizes;
    uint64_t over_time[NA_NPROF_SIZE_BUCKETS * NA_BLOCKS_POINTS];
    na_handovers_t pairs;
    na_size_sums_t classes[CLASSES];
    size_t class_count; /* na_blocks_end: those that are used come first */
    chain_t *chains;
    uint32_t chain_count, chain_room; /* free places included */
    uint32_t free_chain;
    na_index_t chain_index; /* by address */
    trail_t *trails;
    uint32_t free_trail;
    coming_t coming[COMING];
};

/* ---- pairs of threads ---- */

static int by_threads(const void *a, const void *b) {
    const na_handover_t *x = a, *y = b;
    if (x->from != y->from) return x->from < y->from ? -1 : 1;
    return x->to < y->to ? -1 : x->to > y->to;
}

static int most_handed_first(const void *a, const void *b) {
    const na_handover_t *x = a, *y = b;
    if (x->count != y->count) return x->count < y->count ? 1 : -1;
    return by_threads(a, b);
}

static void join_handovers(na_handovers_t *p) {
    if (p->count == 0) return;
    qsort(p->items, p->count, sizeof *p->items, by_threads);
    size_t kept = 0;
    for (size_t i = 1; i < p->count; i++) {
        if (by_threads(&p->items[kept], &p->items[i]) == 0)
            p->items[kept].count += p->items[i].count;
        else
            p->items[++kept] = p->items[i];
    }
    p->count = kept + 1;
}

void na_handovers_join(na_handovers_t *p) {
    join_handovers(p);
    if (p->count != 0) qsort(p->items, p->count, sizeof *p->items, most_handed_first);
}

/* Most of the time the pair is the one that came last, or among the first few. */
bool na_handovers_add(na_handovers_t *p, uint32_t from, uint32_t to, uint64_t count) {
    for (size_t i = p->count; i > 0 && i + 8 > p->count; i--)
        if (p->items[i - 1].from == from && p->items[i - 1].to == to) {
            p->items[i - 1].count += count;
            return true;
        }
    if (p->count == p->room) {
        join_handovers(p); /* equal ones make room */
        if (!NA_ARRAY_RESERVE(p->items, p->room, p->count * 2 + 1u)) return false;
    }
    p->items[p->count++] = (na_handover_t){from, to, count};
    return true;
}

/* ---- chains of reallocs ---- */

static uint64_t hash_of_chain(uint64_t address) {
    return na_hash_number(NA_HASH_BEGIN, address);
}

/* Takes a chain from its address; steps 0: there is none at the address. */
static chain_t take_chain(na_webpage_blocks_t *b, uint64_t address) {
    na_probe_t probe = na_index_probe(&b->chain_index, hash_of_chain(address));
    while (na_index_next(&b->chain_index, &probe)) {
        chain_t *chain = &b->chains[probe.number];
        if (chain->address != address) continue;
        chain_t taken = *chain;
        *chain = (chain_t){.next_free = b->free_chain};
        b->free_chain = probe.number + 1;
        na_index_remove(&b->chain_index, &probe);
        return taken;
    }
    return (chain_t){0};
}

/* No chain is at the address: who puts one there has taken what was. False: out of memory. */
static bool put_chain(na_webpage_blocks_t *b, uint64_t address, chain_t chain) {
    uint32_t number = b->free_chain != 0 ? b->free_chain - 1 : b->chain_count;
    if (!NA_ARRAY_RESERVE(b->chains, b->chain_room, number + 1u) ||
        !na_index_add(&b->chain_index, hash_of_chain(address), number))
        return false;
    if (number == b->chain_count)
        b->chain_count++;
    else
        b->free_chain = b->chains[number].next_free;
    chain.address = address;
    b->chains[number] = chain;
    return true;
}

static void end_chain(na_webpage_blocks_t *b, const chain_t *c) {
    if (c->steps == 0) return;
    trail_t *trail = c->trail == 0 ? NULL : &b->trails[c->trail - 1];
    if (c->row < b->site_count) {
        na_chains_t *of = &b->sites[c->row].chains;
        of->count++;
        of->steps += c->steps;
        of->in_place += c->in_place;
        of->first_bytes += c->first;
        of->last_bytes += c->last;
        of->moved_bytes += c->moved;
        of->by_steps[na_bucket_of(c->steps, NA_CHAIN_STEPS)]++;
        if (trail != NULL && c->steps > of->trail_steps) {
            memcpy(of->trail, trail->size, sizeof of->trail);
            of->trail_count = trail->count;
            of->trail_steps = c->steps;
        }
    }
    if (trail != NULL) {
        trail->next_free = b->free_trail;
        b->free_trail = c->trail;
    }
}

/* One step: a block of `old_size` becomes one of `size`. `c`: the chain so far, or none. */
static void add_step(na_webpage_blocks_t *b, chain_t *c, uint64_t old_size, uint64_t size,
                     bool in_place, uint32_t row) {
    if (c->steps == 0) {
        *c = (chain_t){.first = old_size};
        if (b->free_trail != 0) {
            c->trail = b->free_trail;
            trail_t *trail = &b->trails[c->trail - 1];
            b->free_trail = trail->next_free;
            trail->size[0] = old_size;
            trail->count = 1;
        }
    }
    c->steps++;
    c->in_place += in_place;
    if (!in_place) c->moved += old_size < size ? old_size : size;
    c->last = size;
    c->row = row;
    if (c->trail == 0) return;
    trail_t *trail = &b->trails[c->trail - 1];
    if (trail->count < NA_CHAIN_TRAIL) trail->size[trail->count++] = size;
}

static void count_resize(na_webpage_blocks_t *b, uint64_t old_size, uint64_t size) {
    if (size > old_size)
        b->sizes.grown[na_bucket_of(size - old_size, NA_NPROF_SIZE_BUCKETS)]++;
    else
        b->sizes.shrunk[na_bucket_of(old_size - size, NA_NPROF_SIZE_BUCKETS)]++;
}

static bool follow_alloc(na_webpage_blocks_t *b, const na_event_t *e, const na_live_t *freed,
                         uint32_t row) {
    if (e->kind == NA_NPROF_EVENT_RESIZE && freed->address != 0) {
        chain_t chain = take_chain(b, e->address);
        add_step(b, &chain, freed->size, e->size, true, row);
        count_resize(b, freed->size, e->size);
        return put_chain(b, e->address, chain);
    }
    chain_t lost = take_chain(b, e->address); /* its free was not seen */
    end_chain(b, &lost);
    if (e->kind != NA_NPROF_EVENT_REALLOC) return true;
    coming_t *c = &b->coming[e->address >> 4 & (COMING - 1)];
    if (c->address != e->address) {
        /* If its old block goes next, that will find it here. */
        return put_chain(b, e->address, (chain_t){.last = e->size, .row = row});
    }
    chain_t chain = c->chain;
    *c = (coming_t){0};
    count_resize(b, chain.last, e->size);
    add_step(b, &chain, chain.last, e->size, false, row);
    return put_chain(b, e->address, chain);
}

static bool follow_free(na_webpage_blocks_t *b, const na_event_t *e, const na_live_t *freed) {
    chain_t chain = take_chain(b, e->address);
    if (e->kind != NA_NPROF_EVENT_MOVED || freed->address == 0) {
        end_chain(b, &chain);
        return true;
    }
    chain_t next = take_chain(b, e->moved_to);
    if (next.address != 0) { /* the new block came first */
        count_resize(b, freed->size, next.last);
        add_step(b, &chain, freed->size, next.last, false, next.row);
        return put_chain(b, e->moved_to, chain);
    }
    coming_t *c = &b->coming[e->moved_to >> 4 & (COMING - 1)];
    chain.last = freed->size;
    end_chain(b, &c->chain); /* one that never came */
    *c = (coming_t){e->moved_to, chain};
    return true;
}

/* ---- all of it ---- */

static na_size_sums_t *block_class(na_webpage_blocks_t *b, uint64_t usable) {
    uint64_t id = (usable + 15) / 16, upto = id * 16;
    if (usable > NA_CLASS_MOST) {
        unsigned digits = 64 - (unsigned)__builtin_clzll(usable - 1);
        id = SMALL + (digits < 63 ? digits : 63);
        upto = UINT64_C(1) << (id - SMALL);
    }
    b->classes[id].usable = upto;
    return &b->classes[id];
}

static bool see_free(na_webpage_blocks_t *b, const na_event_t *e, const na_live_t *freed,
                     uint32_t row) {
    uint64_t age = (e->ticks - freed->ticks) >> b->age_shift;
    uint32_t size = na_bucket_of(freed->size, NA_NPROF_SIZE_BUCKETS);
    uint32_t life = na_bucket_of(age, NA_NPROF_AGE_BUCKETS);
    na_size_sums_t *class = block_class(b, freed->size + freed->slack);
    class->live_count--;
    class->live_bytes -= freed->size;
    class->live_usable -= freed->size + freed->slack;
    b->sizes.lives[size][life]++;
    if (row < b->site_count) {
        b->sites[row].lives[size][life]++;
        if (!na_handovers_add(&b->sites[row].pairs, freed->thread, e->thread, 1)) return false;
    }
    return na_handovers_add(&b->pairs, freed->thread, e->thread, 1);
}

static void see_alloc(na_webpage_blocks_t *b, const na_event_t *e, uint32_t row) {
    uint32_t size = na_bucket_of(e->size, NA_NPROF_SIZE_BUCKETS);
    uint64_t point = e->ticks / (b->ticks / NA_BLOCKS_POINTS + 1);
    na_size_sums_t *class = block_class(b, e->size + e->slack);
    class->count++;
    class->bytes += e->size;
    class->usable_bytes += e->size + e->slack;
    class->live_count++;
    class->live_bytes += e->size;
    class->live_usable += e->size + e->slack;
    b->sizes.allocs[size]++;
    if (point >= NA_BLOCKS_POINTS) point = NA_BLOCKS_POINTS - 1;
    b->over_time[size * NA_BLOCKS_POINTS + point]++;
    if (row < b->site_count) b->sites[row].sizes[size]++;
}

bool na_blocks_see(na_webpage_blocks_t *b, const na_event_t *e, const na_live_t *freed,
                   uint32_t row, uint32_t freed_row) {
    if (freed->address != 0 && !see_free(b, e, freed, freed_row)) return false;
    if (!na_event_is_alloc(e)) return follow_free(b, e, freed);
    if (e->address == 0) return true; /* damage */
    see_alloc(b, e, row);
    return follow_alloc(b, e, freed, row);
}

void na_blocks_end(na_webpage_blocks_t *b) {
    for (uint32_t i = 0; i < b->chain_count; i++)
        if (b->chains[i].address != 0) end_chain(b, &b->chains[i]);
    for (uint32_t i = 0; i < b->site_count; i++)
        na_handovers_join(&b->sites[i].pairs);
    na_handovers_join(&b->pairs);
    for (size_t i = 0; i < CLASSES; i++)
        if (b->classes[i].count != 0) b->classes[b->class_count++] = b->classes[i];
}

na_webpage_blocks_t *na_blocks_open(uint32_t sites, uint64_t ticks, unsigned age_shift) {
    na_webpage_blocks_t *b = calloc(1, sizeof *b);
    if (b == NULL) return NULL;
    b->site_count = sites;
    b->ticks = ticks;
    b->age_shift = age_shift;
    b->sites = calloc(sites + 1u, sizeof *b->sites);
    b->trails = calloc(TRAILS, sizeof *b->trails);
    if (b->sites == NULL || b->trails == NULL) {
        na_blocks_close(b);
        return NULL;
    }
    for (uint32_t i = 0; i < TRAILS; i++)
        b->trails[i].next_free = i;
    b->free_trail = TRAILS;
    return b;
}

void na_blocks_close(na_webpage_blocks_t *b) {
    if (b == NULL) return;
    for (uint32_t i = 0; b->sites != NULL && i < b->site_count; i++)
        free(b->sites[i].pairs.items);
    free(b->sites);
    free(b->pairs.items);
    free(b->chains);
    na_index_free(&b->chain_index);
    free(b->trails);
    free(b);
}

const na_site_blocks_t *na_blocks_site(const na_webpage_blocks_t *b, uint32_t row) {
    return b != NULL && row < b->site_count ? &b->sites[row] : NULL;
}
const na_nprof_sizes_t *na_blocks_sizes(const na_webpage_blocks_t *b) {
    return &b->sizes;
}
const uint64_t *na_blocks_over_time(const na_webpage_blocks_t *b) {
    return b->over_time;
}
const na_handovers_t *na_blocks_pairs(const na_webpage_blocks_t *b) {
    return &b->pairs;
}
const na_size_sums_t *na_blocks_classes(const na_webpage_blocks_t *b, size_t *count) {
    *count = b->class_count;
    return b->classes;
}
