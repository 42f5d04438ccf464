/* access_pools.c - see access_pools.h. The buckets of ended lives have a lock each, held for a few
 * dozen instructions, and taken last: under the lock of a pool's blocks, or alone. */
#include "profiler/record/access/access_pools.h"

#define LEAST_LEVEL   4u
#define FIRST_LENGTH  256u
#define BUCKET_BITS   13u
#define WAYS          4u
#define WATCHED_LIVES 16384u

typedef struct na_pool_block {
    uintptr_t base; /* 0: free */
    uint64_t size;
    na_record_t record;
    uint64_t level;
} block_t;

typedef struct ended {
    na_life_t life;
    uint32_t pool; /* 0: none */
} ended_t;

typedef struct bucket {
    na_lock_t lock;
    uint32_t next;
    uint64_t forgotten_key, forgotten_death; /* of the latest that was overwritten; key 0: none */
    ended_t way[WAYS];
} bucket_t;

bool na_pool_blocks_wanted;

static struct {
    na_lock_t lock; /* guards what follows while it is made, and the ring */
    _Atomic(bucket_t *) buckets;
    ended_t *watched;
    uint32_t watched_next;
    _Atomic uint64_t levels; /* of ended lives */
} ended_lives;

void na_pool_blocks_start(bool wanted) {
    __builtin_memset(&ended_lives, 0, sizeof ended_lives);
    na_lock_reset(&ended_lives.lock);
    na_pool_blocks_wanted = wanted;
}

/* ---- keys ---- */

static unsigned size_level(uint64_t size) {
    unsigned level = size <= 1 ? 0 : 64 - (unsigned)__builtin_clzll(size - 1);
    return level < LEAST_LEVEL ? LEAST_LEVEL : level > 62 ? 62 : level;
}

/* Never 0, and of one (level, granule) only: granules have fewer than 58 bits. */
static uint64_t granule_key(unsigned level, uint64_t granule) {
    return (uint64_t)level << 58 ^ granule;
}

static uint64_t hash_of_granule(uint64_t key) {
    uint64_t z = key * UINT64_C(0x9e3779b97f4a7c15);
    return (z ^ z >> 29) * UINT64_C(0xbf58476d1ce4e5b9) >> 20;
}

/* A block of no bytes has its first. */
static bool block_covers(uintptr_t base, uint64_t size, uintptr_t address) {
    return address - base < (size != 0 ? size : 1);
}

/* ---- live blocks ---- */

static uint64_t block_home(const na_pool_blocks_t *blocks, const block_t *b) {
    return hash_of_granule(granule_key((unsigned)b->level, b->base >> b->level)) & blocks->mask;
}

static void put_pool_block(na_pool_blocks_t *blocks, const block_t *block) {
    uint64_t i = block_home(blocks, block);
    while (blocks->items[i].base != 0)
        i = (i + 1) & blocks->mask;
    blocks->items[i] = *block;
}

static bool make_room_for_block(na_pool_blocks_t *blocks) {
    if (blocks->items != NULL && blocks->used * 2 <= blocks->mask) return true;
    uint64_t length = blocks->items == NULL ? FIRST_LENGTH : (blocks->mask + 1) * 2;
    block_t *old = blocks->items, *items = na_own_alloc(length * sizeof *items);
    if (items == NULL) return false;
    uint64_t n = old == NULL ? 0 : blocks->mask + 1;
    blocks->items = items;
    blocks->mask = length - 1;
    for (uint64_t i = 0; i < n; i++)
        if (old[i].base != 0) put_pool_block(blocks, &old[i]);
    if (old != NULL) na_own_give_back(old, n * sizeof *old);
    return true;
}

/* Takes one out; those behind it that it kept from their place move up. */
static void take_out_block(na_pool_blocks_t *blocks, uint64_t hole) {
    blocks->used--;
    for (uint64_t i = (hole + 1) & blocks->mask; blocks->items[i].base != 0;
         i = (i + 1) & blocks->mask) {
        uint64_t home = block_home(blocks, &blocks->items[i]);
        if (((i - home) & blocks->mask) < ((i - hole) & blocks->mask)) continue;
        blocks->items[hole] = blocks->items[i];
        hole = i;
    }
    blocks->items[hole].base = 0;
}

bool na_pool_block_begins(na_pool_blocks_t *blocks, const na_life_t *life) {
    if (!make_room_for_block(blocks)) return false;
    unsigned level = size_level(life->usable);
    put_pool_block(blocks, &(block_t){life->base, life->usable, life->record, level});
    blocks->used++;
    blocks->levels |= UINT64_C(1) << level;
    return true;
}

/* ---- lives that have ended ---- */

static bucket_t *bucket_at(bucket_t *buckets, uint64_t key) {
    return &buckets[hash_of_granule(key) & ((1u << BUCKET_BITS) - 1)];
}

static bucket_t *make_buckets(void) {
    bucket_t *buckets = atomic_load_explicit(&ended_lives.buckets, memory_order_acquire);
    if (buckets != NULL) return buckets;
    na_lock(&ended_lives.lock);
    buckets = atomic_load_explicit(&ended_lives.buckets, memory_order_relaxed);
    if (buckets == NULL) {
        uint64_t bytes = sizeof *buckets << BUCKET_BITS;
        ended_lives.watched = na_own_alloc(WATCHED_LIVES * sizeof *ended_lives.watched);
        buckets = na_own_alloc(bytes);
        if (ended_lives.watched == NULL) buckets = NULL;
        atomic_store_explicit(&ended_lives.buckets, buckets, memory_order_release);
    }
    na_unlock(&ended_lives.lock);
    return buckets;
}

static void remember_pool(const na_life_t *life, uint32_t pool) {
    bool is_watched = na_deaths_is_watched(life->base, life->usable);
    if (!is_watched && !na_deaths_all()) return;
    bucket_t *buckets = make_buckets();
    if (buckets == NULL) return;
    unsigned level = size_level(life->usable);
    uint64_t key = granule_key(level, life->base >> level);
    bucket_t *bucket = bucket_at(buckets, key);
    na_lock(&bucket->lock);
    ended_t *way = &bucket->way[bucket->next++ % WAYS];
    if (way->pool != 0) {
        unsigned old = size_level(way->life.usable);
        bucket->forgotten_key = granule_key(old, way->life.base >> old);
        bucket->forgotten_death = way->life.death;
    }
    *way = (ended_t){*life, pool};
    na_unlock(&bucket->lock);
    atomic_fetch_or_explicit(&ended_lives.levels, UINT64_C(1) << level, memory_order_release);
    if (NA_LIKELY(!is_watched)) return;
    na_lock(&ended_lives.lock);
    ended_lives.watched[ended_lives.watched_next++ % WATCHED_LIVES] = (ended_t){*life, pool};
    na_unlock(&ended_lives.lock);
}

void na_pool_block_ends(na_pool_blocks_t *blocks, uintptr_t base, uint64_t size, uint32_t pool,
                        uint64_t death) {
    if (blocks->items == NULL) return;
    unsigned level = size_level(size);
    uint64_t i = hash_of_granule(granule_key(level, base >> level)) & blocks->mask;
    for (;; i = (i + 1) & blocks->mask) {
        const block_t *b = &blocks->items[i];
        if (b->base == 0) return; /* there was no memory to keep it */
        if (b->base == base && b->size == size) break;
    }
    na_life_t life = {.base = base,
                      .death = death & NA_RECORD_TIME_MASK,
                      .usable = size,
                      .record = blocks->items[i].record};
    take_out_block(blocks, i);
    remember_pool(&life, pool);
}

/* ---- looking ---- */

static void consider_pool(na_pool_search_t *search, const na_life_t *life, uint32_t pool) {
    if (!block_covers(life->base, life->usable, search->address)) return;
    uint64_t off = na_life_off(life, search->ages);
    if (off > search->off ||
        (off == search->off && (search->pool == 0 || life->usable >= search->life.usable)))
        return;
    search->off = off;
    search->life = *life;
    search->pool = pool;
}

void na_pool_search_live(na_pool_search_t *search, const na_pool_blocks_t *blocks, uint32_t pool) {
    for (uint64_t levels = blocks->levels; levels != 0; levels &= levels - 1) {
        unsigned level = (unsigned)__builtin_ctzll(levels);
        uint64_t granule = search->address >> level;
        for (unsigned before = 0; before < 2 && before <= granule; before++) {
            uint64_t i = hash_of_granule(granule_key(level, granule - before)) & blocks->mask;
            for (; blocks->items[i].base != 0; i = (i + 1) & blocks->mask) {
                const block_t *b = &blocks->items[i];
                if (b->level != level || b->base >> level != granule - before) continue;
                consider_pool(search,
                              &(na_life_t){.base = b->base,
                                           .death = NA_LIFE_LASTS,
                                           .usable = b->size,
                                           .record = b->record},
                              pool);
            }
        }
    }
}

/* Is a time not after another, of ages that go around? */
static bool not_after(uint64_t a, uint64_t b) {
    return ((b - a) & NA_RECORD_TIME_MASK) >> (NA_RECORD_TIME_BITS - 1) == 0;
}

void na_pool_search_ended(na_pool_search_t *search) {
    bucket_t *buckets = atomic_load_explicit(&ended_lives.buckets, memory_order_acquire);
    if (buckets == NULL) return;
    uint64_t levels = atomic_load_explicit(&ended_lives.levels, memory_order_acquire);
    for (; levels != 0; levels &= levels - 1) {
        unsigned level = (unsigned)__builtin_ctzll(levels);
        uint64_t granule = search->address >> level;
        for (unsigned before = 0; before < 2 && before <= granule; before++) {
            uint64_t key = granule_key(level, granule - before);
            bucket_t *bucket = bucket_at(buckets, key);
            na_lock(&bucket->lock);
            for (unsigned i = 0; i < WAYS; i++)
                if (bucket->way[i].pool != 0)
                    consider_pool(search, &bucket->way[i].life, bucket->way[i].pool);
            if (bucket->forgotten_key == key && not_after(search->ages, bucket->forgotten_death))
                search->forgotten = true;
            na_unlock(&bucket->lock);
        }
    }
    if (search->pool != 0 && search->off == 0) return;
    if (!na_deaths_watches(search->address)) return;
    search->forgotten = false; /* the ring has them all, but where it was too short */
    na_lock(&ended_lives.lock);
    uint32_t next = ended_lives.watched_next;
    uint32_t count = next < WATCHED_LIVES ? next : WATCHED_LIVES;
    for (uint32_t i = 1; i <= count && (search->pool == 0 || search->off != 0); i++) {
        const ended_t *e = &ended_lives.watched[(next - i) % WATCHED_LIVES];
        consider_pool(search, &e->life, e->pool);
    }
    if (next > WATCHED_LIVES &&
        not_after(search->ages, ended_lives.watched[next % WATCHED_LIVES].life.death))
        search->forgotten = true;
    na_unlock(&ended_lives.lock);
}
