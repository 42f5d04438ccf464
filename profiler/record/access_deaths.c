/* access_deaths.c - what is remembered of blocks that have ended, so that a sample finds the one
 * that was there at its time.
 *
 *   buckets   by the block's address, the latest WAYS lives of each bucket
 *   large     blocks above LARGE bytes, in a ring: their addresses are looked through
 *   watched   every life that covers a watched word, in a ring; a window is short, but a block may
 *             be handed out thousands of times in it
 *
 * Written by any thread at its events, without a lock: an entry has a version, odd while it is
 * written; a writer that finds it odd gives up (that life is forgotten, and a sample on it is
 * counted as unresolved). Read by the access thread. */
#include "profiler/record/access_priv.h"

#define BUCKET_BITS   13u
#define WAYS          4u
#define LARGE         (32u << 10)
#define LARGE_LIVES   256u
#define WATCHED_LIVES 16384u

typedef struct entry {
    _Atomic uint32_t version; /* odd: being written; 0: empty */
    uint32_t reserved;
    na_life_t life;
} entry_t;

typedef struct ring {
    entry_t *entries;
    uint32_t mask;
    _Atomic uint32_t next;
} ring_t;

_Atomic bool na_access_on;

static entry_t *buckets;
static _Atomic uint8_t *turn; /* of a bucket: the way that is overwritten next */
static ring_t large, watched;
static _Atomic uintptr_t watch[2];

bool na_deaths_start(void) {
    uint64_t bytes = ((uint64_t)sizeof(entry_t) * WAYS) << BUCKET_BITS;
    buckets = na_own_alloc(bytes, bytes / 4);
    turn = na_own_alloc(UINT64_C(1) << BUCKET_BITS, UINT64_C(1) << BUCKET_BITS);
    large = (ring_t){.entries = na_own_alloc(LARGE_LIVES * sizeof(entry_t), 4096),
                     .mask = LARGE_LIVES - 1};
    watched = (ring_t){.entries = na_own_alloc(WATCHED_LIVES * sizeof(entry_t), 4096),
                       .mask = WATCHED_LIVES - 1};
    atomic_store(&watch[0], 0);
    atomic_store(&watch[1], 0);
    return buckets != NULL && turn != NULL && large.entries != NULL && watched.entries != NULL;
}

static uint32_t bucket_of(uintptr_t base) {
    return (uint32_t)(((uint64_t)base >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BUCKET_BITS));
}

static void write_entry(entry_t *e, const na_life_t *life) {
    uint32_t version = atomic_load_explicit(&e->version, memory_order_relaxed);
    if ((version & 1) != 0 ||
        !atomic_compare_exchange_strong_explicit(&e->version, &version, version + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_release);
    e->life = *life;
    atomic_store_explicit(&e->version, version + 2, memory_order_release);
}

/* False: empty, or being written. */
static bool read_entry(entry_t *e, na_life_t *life) {
    uint32_t version = atomic_load_explicit(&e->version, memory_order_acquire);
    if (version == 0 || (version & 1) != 0) return false;
    *life = e->life;
    atomic_thread_fence(memory_order_acquire);
    return atomic_load_explicit(&e->version, memory_order_relaxed) == version;
}

static void push(ring_t *r, const na_life_t *life) {
    uint32_t at = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    write_entry(&r->entries[at & r->mask], life);
}

static bool covers(const na_life_t *life, uintptr_t address) {
    return address - life->base < life->usable;
}

void na_access_death(const void *block, uint64_t usable, const na_record_t *record) {
    const na_life_t life = {.base = (uintptr_t)block,
                            .usable = usable,
                            .birth = na_record_birth(record),
                            .death = na_ages(na_rec_ticks()),
                            .record = *record};
    if (usable > LARGE) {
        push(&large, &life);
    } else {
        uint32_t b = bucket_of(life.base);
        uint8_t way = atomic_load_explicit(&turn[b], memory_order_relaxed);
        atomic_store_explicit(&turn[b], (uint8_t)(way + 1), memory_order_relaxed);
        write_entry(&buckets[(size_t)b * WAYS + way % WAYS], &life);
    }
    for (unsigned i = 0; i < 2; i++) {
        uintptr_t word = atomic_load_explicit(&watch[i], memory_order_relaxed);
        if (NA_UNLIKELY(word != 0 && covers(&life, word))) {
            push(&watched, &life);
            break;
        }
    }
}

void na_deaths_watch(uintptr_t first, uintptr_t second) {
    atomic_store_explicit(&watch[0], first, memory_order_relaxed);
    atomic_store_explicit(&watch[1], second, memory_order_release);
}

/* Times are the low bits of ages; a few ages of difference may be the clocks'. */
#define MASK  ((UINT64_C(1) << NA_RECORD_TIME_BITS) - 1)
#define SLACK 4u
static bool not_after(uint64_t a, uint64_t b) {
    return ((b + SLACK - a) & MASK) >> (NA_RECORD_TIME_BITS - 1) == 0;
}

static bool fits(const na_life_t *life, uintptr_t address, uint64_t ages) {
    return covers(life, address) && life->record.epoch == na_profile_epoch &&
           not_after(life->birth, ages) && not_after(ages, life->death);
}

static bool look_through(ring_t *r, uintptr_t address, uint64_t ages, na_life_t *life) {
    uint32_t next = atomic_load_explicit(&r->next, memory_order_acquire);
    uint32_t count = next < r->mask + 1 ? next : r->mask + 1;
    for (uint32_t i = 1; i <= count; i++)
        if (read_entry(&r->entries[(next - i) & r->mask], life) && fits(life, address, ages))
            return true;
    return false;
}

bool na_deaths_find(uintptr_t address, uintptr_t base, uint64_t ages, na_life_t *life) {
    if (base != 0) {
        entry_t *e = &buckets[(size_t)bucket_of(base) * WAYS];
        for (unsigned i = 0; i < WAYS; i++)
            if (read_entry(&e[i], life) && fits(life, address, ages)) return true;
    }
    for (unsigned i = 0; i < 2; i++) {
        uintptr_t word = atomic_load_explicit(&watch[i], memory_order_relaxed);
        if (word != 0 && word == (address & ~(uintptr_t)7))
            return look_through(&watched, address, ages, life) ||
                   look_through(&large, address, ages, life);
    }
    return look_through(&large, address, ages, life);
}
