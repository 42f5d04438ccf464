/* access_caught.c - what lay at a sampled address, noted while it still lies there.
 *
 * Samples of the kernel module wait in its rings, one a processor, until the access thread comes,
 * and where processors are busy it comes late: two sites that take turns at an address have then
 * overwritten what is remembered of them. So a thread that frees a block looks whether its
 * processor's ring has samples that nobody has looked at, and notes in which blocks they are: in
 * that which it frees, or in others that live. The block of a sample that was freed on another
 * processor meanwhile is looked for in the notes of deaths, as ever.
 *
 * The rings are mapped over places that stay mapped, zeroed, when there is no ring: a thread that
 * comes too late reads zeros. A forked child has no rings, and may not have been told that it is
 * one; the way to them goes through a page that it finds zeroed. */
#include <errno.h>
#include <sys/mman.h>

#include "kmod-ibs/uapi/numalloc_ibs.h"
#include "profiler/record/access/access_priv.h"

#define CAUGHT 4096u /* places for a ring, which has so many records at most */

typedef struct caught {
    _Atomic uint32_t version; /* odd: being written */
    uint32_t seq;
    na_life_t life;
} caught_t;

typedef struct place {
    const struct na_ibs_ring *_Atomic ring; /* NULL: none */
    _Atomic uint32_t mask;
    _Atomic uint64_t seen; /* the head, when a thread looked */
    caught_t *caught;
} __attribute__((aligned(64))) place_t;

typedef struct way {
    _Atomic(place_t *) places; /* NULL: no rings */
    uint32_t count;
} way_t;

static way_t *_Atomic way; /* in a page of its own; NULL: there never were any */
static place_t *all;
static uint32_t all_count;

static void *map_own(uint64_t bytes) {
    long at = na_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                      MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    return at < 0 && at > -4096 ? NULL : (void *)at;
}

/* Once a process: what is mapped here stays, since threads may be looking at it. */
static bool make_places(uint32_t count) {
    if (all != NULL) return count <= all_count;
    way_t *page = map_own(na_os_page);
    if (page == NULL) return false;
    uint64_t bytes = count * sizeof *all;
    char *memory = map_own(bytes + (uint64_t)count * CAUGHT * sizeof(caught_t));
    if (memory == NULL || !na_os_wipe_in_children(page, na_os_page)) {
        na_sys2(SYS_munmap, (long)page, (long)na_os_page);
        return false;
    }
    all = (place_t *)memory;
    all_count = count;
    for (uint32_t i = 0; i < count; i++)
        all[i].caught = (caught_t *)(memory + bytes) + (size_t)i * CAUGHT;
    page->count = count;
    atomic_store_explicit(&way, page, memory_order_release);
    return true;
}

void na_caught_ring(uint32_t cpu, uint32_t cpus, const struct na_ibs_ring *ring, uint32_t records) {
    if (records > CAUGHT || !make_places(cpus) || atomic_load(&all[cpu].ring) == ring) return;
    atomic_store(&all[cpu].mask, records - 1);
    atomic_store(&all[cpu].seen, 0);
    atomic_store(&all[cpu].ring, ring);
    atomic_store_explicit(&way->places, all, memory_order_release);
}

void na_caught_end(void) {
    way_t *w = atomic_load(&way);
    if (w == NULL) return;
    atomic_store(&w->places, NULL);
    for (uint32_t i = 0; i < all_count; i++)
        atomic_store(&all[i].ring, NULL);
}

void na_caught_forget(void) {
    atomic_store(&way, NULL);
    all = NULL;
}

/* A thread that was interrupted while it wrote leaves the entry to the next round. */
static void note_caught(caught_t *c, uint32_t seq, const na_life_t *life) {
    uint32_t version = atomic_load_explicit(&c->version, memory_order_relaxed);
    if ((version & 1) != 0 ||
        !atomic_compare_exchange_strong_explicit(&c->version, &version, version + 1,
                                                 memory_order_acquire, memory_order_relaxed))
        return;
    atomic_thread_fence(memory_order_release);
    c->seq = seq;
    c->life = *life;
    atomic_store_explicit(&c->version, version + 2, memory_order_release);
}

static NA_NOINLINE NA_RACY void look_at(const place_t *p, const struct na_ibs_ring *ring,
                                        uint64_t from, uint64_t head, const na_life_t *freed) {
    const struct na_ibs_record *records =
        (const struct na_ibs_record *)((const char *)ring + NA_IBS_HEADER_SIZE);
    uint64_t mask = atomic_load_explicit(&p->mask, memory_order_relaxed);
    uint64_t now = (uint64_t)na_profile_epoch << NA_RECORD_EPOCH_SHIFT |
                   (na_ages(na_rec_ticks()) & NA_RECORD_TIME_MASK) << NA_RECORD_BIRTH_SHIFT |
                   ((UINT64_C(1) << NA_RECORD_BIRTH_SHIFT) - 1);
    if (head < from) from = 0; /* another session's */
    if (head - from > mask) from = head - mask;
    if (head - __atomic_load_n(&ring->tail, __ATOMIC_RELAXED) > mask / 2) na_access_hurry();
    for (; from < head; from++) {
        const struct na_ibs_record *r = &records[from & mask];
        uintptr_t address = __atomic_load_n(&r->addr, __ATOMIC_RELAXED);
        if (__atomic_load_n(&r->seq, __ATOMIC_ACQUIRE) != (uint32_t)from) continue;
        na_resolved_t found;
        if (address - freed->base < freed->usable)
            found.life = *freed;
        else if (!na_access_resolve_living(address, now, &found))
            continue;
        note_caught(&p->caught[from & mask], (uint32_t)from, &found.life);
    }
}

void na_caught_look(const void *block, uint64_t usable, const na_record_t *record) {
    way_t *w = atomic_load_explicit(&way, memory_order_acquire);
    place_t *places = w == NULL ? NULL : atomic_load_explicit(&w->places, memory_order_acquire);
    if (places == NULL) return;
    unsigned cpu = na_os_cpu();
    if (cpu >= w->count) return;
    place_t *p = &places[cpu];
    const struct na_ibs_ring *ring = atomic_load_explicit(&p->ring, memory_order_acquire);
    if (ring == NULL) return;
    uint64_t head = __atomic_load_n(&ring->head, __ATOMIC_ACQUIRE);
    uint64_t seen = atomic_load_explicit(&p->seen, memory_order_relaxed);
    if (head == seen) return;
    atomic_store_explicit(&p->seen, head, memory_order_relaxed);
    const na_life_t freed = {.base = (uintptr_t)block,
                             .usable = usable,
                             .death = na_ages(na_rec_ticks()),
                             .record = *record};
    look_at(p, ring, seen, head, &freed);
}

bool na_caught_find(uint32_t cpu, uint32_t seq, na_life_t *life) {
    if (all == NULL || cpu >= all_count) return false;
    caught_t *c = &all[cpu].caught[seq & atomic_load(&all[cpu].mask)];
    uint32_t version = atomic_load_explicit(&c->version, memory_order_acquire);
    if (version == 0 || (version & 1) != 0) return false;
    uint32_t of = c->seq;
    *life = c->life;
    atomic_thread_fence(memory_order_acquire);
    return of == seq && atomic_load_explicit(&c->version, memory_order_relaxed) == version &&
           life->record.epoch == na_profile_epoch;
}
