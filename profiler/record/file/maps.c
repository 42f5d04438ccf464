/* maps.c - what the program maps itself, by call and site. A system call is slow: one table for all
 * threads, under a lock. */
#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

#define CHUNK_BYTES (8u << 10)

typedef struct slot {
    uint32_t site, call;
    na_nprof_map_t *map;
} slot_t;

static struct {
    na_lock_t lock;
    slot_t *slots; /* open addressing, at most half full; call 0: free. NULL: nothing yet */
    uint32_t mask, used;
    na_nprof_chunk_t *chunk;
    uint32_t chunks;
} maps;

void na_maps_start(void) {
    na_lock_reset(&maps.lock);
    maps.slots = NULL;
    maps.mask = maps.used = maps.chunks = 0;
    maps.chunk = NULL;
}

static slot_t *call_slot(slot_t *slots, uint32_t mask, uint32_t site, uint32_t call) {
    uint32_t i = ((site ^ call << 28) * 0x9e3779b1u >> 7) & mask;
    while (slots[i].call != 0 && (slots[i].site != site || slots[i].call != call))
        i = (i + 1) & mask;
    return &slots[i];
}

static bool grow_calls(void) {
    uint32_t mask = maps.slots == NULL ? 255 : maps.mask * 2 + 1;
    uint64_t bytes = ((uint64_t)mask + 1) * sizeof(slot_t);
    slot_t *slots = na_rec_has_room(bytes) ? na_own_alloc(bytes) : NULL;
    if (slots == NULL) return false;
    for (uint32_t i = 0; maps.slots != NULL && i <= maps.mask; i++)
        if (maps.slots[i].call != 0)
            *call_slot(slots, mask, maps.slots[i].site, maps.slots[i].call) = maps.slots[i];
    maps.slots = slots;
    maps.mask = mask;
    return true;
}

static na_nprof_map_t *new_map(uint32_t site, uint32_t call) {
    na_nprof_chunk_t *c = maps.chunk;
    if (c == NULL || c->count == c->capacity) {
        if (!na_rec_has_room(CHUNK_BYTES)) return NULL;
        c = na_writer_chunk(NA_NPROF_MAPS, CHUNK_BYTES, sizeof(na_nprof_map_t), 0, maps.chunks, 0);
        if (c == NULL) return NULL;
        na_writer_publish(c);
        maps.chunks++;
        maps.chunk = c;
    }
    na_nprof_map_t *m = (na_nprof_map_t *)(c + 1) + c->count;
    m->call = call;
    m->min = UINT64_MAX;
    __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
    __atomic_store_n(&m->site, site, __ATOMIC_RELEASE);
    return m;
}

void na_maps_count(na_rthread_t *t, uint32_t call, uint64_t bytes) {
    uint32_t site = na_stacks_capture(t);
    na_lock(&maps.lock);
    na_nprof_map_t *m = NULL;
    if (maps.used * 2 < maps.mask || grow_calls()) {
        slot_t *slot = call_slot(maps.slots, maps.mask, site, call);
        if (slot->call == 0) {
            slot->map = new_map(site, call);
            if (slot->map != NULL) {
                slot->site = site;
                slot->call = call;
                maps.used++;
            }
        }
        m = slot->map;
    }
    if (m != NULL) {
        m->count++;
        m->bytes += bytes;
        if (bytes < m->min) m->min = bytes;
        if (bytes > m->max) m->max = bytes;
    } else {
        na_rec_lose(&na_rec.header->lost_events, 1);
    }
    na_unlock(&maps.lock);
}
