/* access_deaths.c - what is remembered of blocks that have ended, so that a sample finds the one
 * that was there at its time.
 *
 *   sets      by the block's address, the latest SET_LIVES lives of each set, in a ring: a block
 *             may be handed out hundreds of times until a sample of it is looked at
 *   older     by the block's address, further back and ever fewer: of seven deaths in a bucket one
 *             is kept until seven later, of these each seventh until 49 later, and so on; and the
 *             first of all. (Seven, so that of two sites which take turns both are met.)
 *   large     blocks above LARGE bytes, in a ring: their addresses are looked through
 *   watched   every life that covers a watched word, in a ring; a window is short, but a block may
 *             be handed out thousands of times in it
 *
 * The older lives do not say what was there in between. But where an address is one site's, all of
 * late, and the nearest lives before the sample and after it are that site's, the block was that
 * site's as well (na_deaths_around).
 *
 * Where all samples are of watched words, only those lives are kept: a block that is freed then
 * costs two comparisons.
 *
 * Written by any thread at its events, without a lock: an entry has a version, odd while it is
 * written; a writer that finds it odd gives up (that life is forgotten, and a sample on it is
 * counted as unresolved). Read by the access thread. */
#include "profiler/record/access/access_priv.h"

#define SET_BITS      5u
#define SET_LIVES     4096u
#define BUCKET_BITS   11u
#define OLDER         6u /* of a bucket; the last is overwritten every 7^6 deaths */
#define OLDER_EVERY   7u
#define AROUND_AGES   4096u /* a power of two; a millisecond at most */
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

static ring_t sets[1u << SET_BITS], large_ring, watched;
static entry_t *older;
static _Atomic uint32_t *deaths; /* of a bucket */
na_deaths_asked_t na_deaths_asked;

bool na_deaths_start(void) {
    uint64_t bytes = ((uint64_t)sizeof(entry_t) * SET_LIVES) << SET_BITS;
    entry_t *lives = na_own_alloc(bytes);
    for (unsigned i = 0; i < 1u << SET_BITS; i++)
        sets[i] = (ring_t){.entries = lives + (size_t)i * SET_LIVES, .mask = SET_LIVES - 1};
    bytes = ((uint64_t)sizeof(entry_t) * OLDER) << BUCKET_BITS;
    older = na_own_alloc(bytes);
    bytes = (uint64_t)sizeof *deaths << BUCKET_BITS;
    deaths = na_own_alloc(bytes);
    large_ring =
        (ring_t){.entries = na_own_alloc(LARGE_LIVES * sizeof(entry_t)), .mask = LARGE_LIVES - 1};
    watched = (ring_t){.entries = na_own_alloc(WATCHED_LIVES * sizeof(entry_t)),
                       .mask = WATCHED_LIVES - 1};
    na_deaths_watch(0, 0);
    atomic_store(&na_deaths_asked.only_watched, false);
    return lives != NULL && older != NULL && deaths != NULL && large_ring.entries != NULL &&
           watched.entries != NULL;
}

static uint32_t death_bucket(uintptr_t base) {
    return (uint32_t)(((uint64_t)base >> 4) * UINT64_C(0x9e3779b97f4a7c15) >> (64 - BUCKET_BITS));
}

static ring_t *set_of(uint32_t bucket) {
    return &sets[bucket >> (BUCKET_BITS - SET_BITS)];
}

/* Six of seven go to the first place, of the rest six of seven to the second, ... */
static entry_t *place_of_older(uint32_t bucket, uint32_t nth) {
    unsigned place = 0;
    for (; place < OLDER - 1 && nth % OLDER_EVERY == 0; place++)
        nth /= OLDER_EVERY;
    return &older[bucket * OLDER + place];
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

static void push_life(ring_t *r, const na_life_t *life) {
    uint32_t at = atomic_fetch_add_explicit(&r->next, 1, memory_order_relaxed);
    write_entry(&r->entries[at & r->mask], life);
}

/* Of threads that come at once one may be forgotten. */
static void push_cheaply(ring_t *r, const na_life_t *life) {
    uint32_t at = atomic_load_explicit(&r->next, memory_order_relaxed);
    atomic_store_explicit(&r->next, at + 1, memory_order_relaxed);
    write_entry(&r->entries[at & r->mask], life);
    if ((at & (SET_LIVES / 4 - 1)) == 0) na_access_hurry();
}

static bool life_covers(const na_life_t *life, uintptr_t address) {
    return address - life->base < life->usable;
}

void na_access_death(const void *block, uint64_t usable, const na_record_t *record) {
    bool is_watched = na_deaths_is_watched((uintptr_t)block, usable), rest = na_deaths_all();
    if (!is_watched && !rest) return;
    const na_life_t life = {.base = (uintptr_t)block,
                            .usable = usable,
                            .death = na_ages(na_rec_ticks()),
                            .record = *record};
    if (is_watched) push_life(&watched, &life);
    if (!rest) return;
    if (usable > LARGE) {
        push_life(&large_ring, &life);
    } else {
        uint32_t bucket = death_bucket(life.base);
        push_cheaply(set_of(bucket), &life);
        uint32_t nth = atomic_load_explicit(&deaths[bucket], memory_order_relaxed) + 1;
        atomic_store_explicit(&deaths[bucket], nth, memory_order_relaxed);
        if (nth == 1)
            write_entry(&older[bucket * OLDER + OLDER - 1], &life);
        else if (nth % OLDER_EVERY == 0)
            write_entry(place_of_older(bucket, nth / OLDER_EVERY), &life);
    }
}

void na_deaths_keep_watched_only(void) {
    atomic_store_explicit(&na_deaths_asked.only_watched, true, memory_order_release);
}

bool na_deaths_watches(uintptr_t address) {
    uintptr_t word = address & ~(uintptr_t)7;
    return word != 0 && na_deaths_is_watched(word, 8);
}

void na_deaths_watch(uintptr_t first, uintptr_t second) {
    atomic_store_explicit(&na_deaths_asked.word[0], first, memory_order_relaxed);
    atomic_store_explicit(&na_deaths_asked.word[1], second, memory_order_release);
}

/* Times are the low bits of ages. */
#define MASK NA_RECORD_TIME_MASK

/* How long after `b` time `a` is; 0: not after. */
static uint64_t sequence_after(uint64_t a, uint64_t b) {
    uint64_t d = (a - b) & MASK;
    return d >> (NA_RECORD_TIME_BITS - 1) == 0 ? d : 0;
}

uint64_t na_life_off(const na_life_t *life, uint64_t ages) {
    uint64_t early = sequence_after(life->record.birth, ages);
    uint64_t late = life->death == NA_LIFE_LASTS ? 0 : sequence_after(ages, life->death);
    return early > late ? early : late;
}

typedef struct search {
    uintptr_t address;
    uint64_t ages, off; /* of the best so far */
    na_life_t *best;
} search_t;

static void consider_life(search_t *s, entry_t *e) {
    na_life_t life;
    if (s->address - e->life.base >= e->life.usable) return; /* most, torn or not */
    if (!read_entry(e, &life) || !life_covers(&life, s->address) ||
        life.record.epoch != na_profile_epoch)
        return;
    uint64_t off = na_life_off(&life, s->ages);
    if (off >= s->off) return;
    s->off = off;
    *s->best = life;
}

static void look_through(search_t *s, ring_t *r) {
    uint32_t next = atomic_load_explicit(&r->next, memory_order_acquire);
    uint32_t count = next < r->mask + 1 ? next : r->mask + 1;
    for (uint32_t i = 1; i <= count && s->off != 0; i++)
        consider_life(s, &r->entries[(next - i) & r->mask]);
}

bool na_deaths_find(uintptr_t address, uintptr_t base, uint64_t ages, uint64_t slack,
                    na_life_t *life) {
    search_t s = {.address = address, .ages = ages, .off = slack, .best = life};
    if (base != 0) {
        uint32_t bucket = death_bucket(base);
        look_through(&s, set_of(bucket));
        for (unsigned i = 0; i < OLDER && s.off != 0; i++)
            consider_life(&s, &older[bucket * OLDER + i]);
    }
    if (s.off != 0 && na_deaths_watches(address)) look_through(&s, &watched);
    if (s.off != 0) look_through(&s, &large_ring);
    return s.off < slack;
}

typedef struct around {
    uintptr_t base;
    uint64_t ages;
    uint64_t since_death, until_birth; /* of the nearest lives before and after; ~0: none */
    na_life_t before, after;
    na_life_t late; /* one of late; usable 0: none */
    bool other;     /* one of late is of another site, or of another size, than `late` */
} around_t;

static bool is_alike(const na_life_t *a, const na_life_t *b) {
    return a->record.site == b->record.site && a->usable == b->usable;
}

static void consider_around(around_t *a, const na_life_t *life, bool late) {
    if (late && a->late.usable == 0) a->late = *life;
    if (late && !is_alike(life, &a->late)) a->other = true;
    uint64_t until = sequence_after(life->record.birth, a->ages);
    uint64_t since = life->death == NA_LIFE_LASTS ? 0 : sequence_after(a->ages, life->death);
    if (since != 0 && since < a->since_death) {
        a->since_death = since;
        a->before = *life;
    }
    if (until != 0 && until < a->until_birth) {
        a->until_birth = until;
        a->after = *life;
    }
}

static void consider_entry(around_t *a, entry_t *e, bool late) {
    na_life_t life;
    if (e->life.base == a->base && read_entry(e, &life) && life.base == a->base &&
        life.record.epoch == na_profile_epoch)
        consider_around(a, &life, late);
}

bool na_deaths_around(uintptr_t base, const na_life_t *now, uint64_t ages, na_life_t *life) {
    around_t a = {.base = base, .ages = ages, .since_death = UINT64_MAX, .until_birth = UINT64_MAX};
    if (now != NULL) consider_around(&a, now, true);
    uint32_t bucket = death_bucket(base);
    ring_t *set = set_of(bucket);
    for (unsigned i = 0; i < SET_LIVES && !a.other; i++)
        consider_entry(&a, &set->entries[i], true);
    for (unsigned i = 0; i < OLDER && !a.other; i++)
        consider_entry(&a, &older[bucket * OLDER + i], false);
    if (a.other || a.since_death == UINT64_MAX || a.until_birth == UINT64_MAX ||
        !is_alike(&a.before, &a.after) || !is_alike(&a.before, &a.late))
        return false;
    *life = a.before;
    uint64_t from = ages & ~(uint64_t)(AROUND_AGES - 1);
    life->record.birth = from & NA_RECORD_TIME_MASK;
    life->death = (from + AROUND_AGES) & NA_RECORD_TIME_MASK;
    return true;
}
