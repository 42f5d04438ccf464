/* shares.c - what is live of a site in all threads together: published by cells, by steps.
 *
 * A site gets a share when one of its cells first holds more than the quantum. The quantum is 1/256
 * of the largest peak so far, between 256 bytes and 64 KiB: a small program's sites are seen as
 * finely as a large one's. Shares of the sites with the largest peaks feed the series of sites. */
#include "profiler/record/events/series.h"

#define LEAST_QUANTUM 256
#define CHUNK_BYTES   (16u << 10)

typedef struct slot {
    uint32_t site, share; /* file offset / 32 */
} slot_t;

static struct {
    na_lock_t lock;
    slot_t *slots; /* open addressing, at most half full; site 0: free */
    uint32_t mask, used;
    na_nprof_chunk_t *chunk;
    uint32_t chunks;
} shares;

bool na_shares_start(void) {
    na_lock_reset(&shares.lock);
    shares.mask = 511;
    shares.used = shares.chunks = 0;
    shares.chunk = NULL;
    shares.slots = na_own_alloc((shares.mask + 1) * sizeof *shares.slots);
    na_rec.header->site_quantum = LEAST_QUANTUM;
    return shares.slots != NULL;
}

void na_share_quantum(int64_t peak) {
    int64_t quantum = peak / 256;
    if (quantum > NA_QUANTUM) quantum = NA_QUANTUM;
    if (quantum > (int64_t)na_rec.header->site_quantum)
        __atomic_store_n(&na_rec.header->site_quantum, (uint64_t)quantum, __ATOMIC_RELAXED);
}

static na_nprof_share_t *share_at(uint32_t share) {
    return na_rec_at((uint64_t)share * 32);
}

static slot_t *share_slot(slot_t *slots, uint32_t mask, uint32_t site) {
    uint32_t i = (site * 0x9e3779b1u >> 7) & mask;
    while (slots[i].site != 0 && slots[i].site != site)
        i = (i + 1) & mask;
    return &slots[i];
}

static bool grow_shares(void) {
    uint32_t mask = shares.mask * 2 + 1;
    uint64_t bytes = ((uint64_t)mask + 1) * sizeof(slot_t);
    slot_t *slots = na_rec_has_room(bytes) ? na_own_alloc(bytes) : NULL;
    if (slots == NULL) return false;
    for (uint32_t i = 0; i <= shares.mask; i++)
        if (shares.slots[i].site != 0)
            *share_slot(slots, mask, shares.slots[i].site) = shares.slots[i];
    shares.slots = slots;
    shares.mask = mask;
    return true;
}

/* 0: no room. Under the lock. */
static uint32_t make_share(slot_t *slot, uint32_t site) {
    na_nprof_chunk_t *c = shares.chunk;
    if (c == NULL || c->count == c->capacity) {
        if (!na_rec_has_room(CHUNK_BYTES)) return 0;
        c = na_writer_chunk(NA_NPROF_SHARES, CHUNK_BYTES, sizeof(na_nprof_share_t), 0,
                            shares.chunks, 0);
        if (c == NULL) return 0;
        na_writer_publish(c);
        shares.chunks++;
        shares.chunk = c;
    }
    na_nprof_share_t *s = (na_nprof_share_t *)(c + 1) + c->count;
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&s->site, site, __ATOMIC_RELEASE);
    *slot = (slot_t){site, (uint32_t)(na_writer_offset(s) / 32)};
    shares.used++;
    return slot->share;
}

static uint32_t find_or_make(uint32_t site) {
    uint32_t share = 0;
    na_lock(&shares.lock);
    slot_t *slot = share_slot(shares.slots, shares.mask, site);
    if (slot->site != 0) {
        share = slot->share;
    } else if (shares.used * 2 < shares.mask || grow_shares()) {
        share = make_share(share_slot(shares.slots, shares.mask, site), site);
    }
    na_unlock(&shares.lock);
    return share;
}

static void forget_share(uint32_t site) {
    na_lock(&shares.lock);
    slot_t *slot = share_slot(shares.slots, shares.mask, site);
    if (slot->site != 0) __atomic_store_n(&share_at(slot->share)->series, 0, __ATOMIC_RELAXED);
    na_unlock(&shares.lock);
}

void na_share_publish(na_nprof_cell_t *c, int64_t live) {
    int64_t delta = live - c->published_bytes;
    c->published_bytes = live;
    if (c->share == 0) c->share = find_or_make(c->site);
    if (c->share == 0) return; /* no room: the cells' own peaks remain */
    na_nprof_share_t *s = share_at(c->share);
    int64_t before = __atomic_fetch_add(&s->live_bytes, delta, __ATOMIC_RELAXED);
    int64_t after = before + delta;
    /* While one thread has ever been seen, it knows the peak exactly. */
    bool alone = atomic_load_explicit(&na_rec.threads_attached, memory_order_relaxed) == 1;
    int64_t high = alone && c->local_peak_bytes > after ? c->local_peak_bytes : after;
    uint64_t ms = na_rec_ms();
    int64_t peak = __atomic_load_n(&s->peak_bytes, __ATOMIC_RELAXED);
    while (high > peak)
        if (__atomic_compare_exchange_n(&s->peak_bytes, &peak, high, true, __ATOMIC_RELAXED,
                                        __ATOMIC_RELAXED)) {
            __atomic_store_n(&s->peak_ms, ms, __ATOMIC_RELAXED);
            break;
        }
    uint32_t row = __atomic_load_n(&s->series, __ATOMIC_RELAXED);
    if (row == 0) {
        uint32_t lost;
        row = na_series_claim(c->site, ms, after, &lost);
        if (row == 0) return;
        if (lost != 0) forget_share(lost);
        __atomic_store_n(&s->series, row, __ATOMIC_RELAXED);
        before = after; /* what was before is not on record */
    }
    na_series_level(NA_NPROF_SERIES_SITES, &(na_level_change_t){row - 1, c->site, before, after},
                    ms);
}
