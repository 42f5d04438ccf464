/* index.h - finds items of an array by a hash: a table of their numbers, open addressing, at most
 * half full. What an item is, and which are equal, only the owner knows:
 *
 *     na_probe_t probe = na_index_probe(&index, hash);
 *     while (na_index_next(&index, &probe))
 *         if (items[probe.number] is it) return probe.number;
 *     if (!na_index_add(&index, hash, count)) out of memory;
 *
 * Who takes the table from elsewhere than the heap asks for the room that is wanted first
 * (na_index_wants), and gives the table (na_index_move). */
#ifndef NUMALLOC_PROFILER_CONTAINERS_INDEX_H
#define NUMALLOC_PROFILER_CONTAINERS_INDEX_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

#include "profiler/containers/hash.h"

typedef struct na_index_slot {
    uint32_t hash, next; /* number + 1; 0: free */
} na_index_slot_t;

typedef struct na_index {
    na_index_slot_t *slots;
    uint32_t room, count; /* room: a power of two, or 0 */
} na_index_t;

typedef struct na_probe {
    uint32_t hash, at, number;
} na_probe_t;

/* The high half has what multiplications have mixed. */
static inline uint32_t na_index_fold(uint64_t hash) {
    return (uint32_t)(hash ^ hash >> 32);
}

static inline na_probe_t na_index_probe(const na_index_t *index, uint64_t hash) {
    uint32_t folded = na_index_fold(hash);
    return (na_probe_t){folded, folded & (index->room - 1), 0};
}

/* The next item with this hash is probe->number. False: there is none. */
static inline bool na_index_next(const na_index_t *index, na_probe_t *probe) {
    if (index->room == 0) return false;
    for (;;) {
        na_index_slot_t slot = index->slots[probe->at];
        if (slot.next == 0) return false;
        probe->at = (probe->at + 1) & (index->room - 1);
        if (slot.hash != probe->hash) continue;
        probe->number = slot.next - 1;
        return true;
    }
}

static inline void na_index_put(na_index_slot_t *slots, uint32_t room, na_index_slot_t slot) {
    uint32_t at = slot.hash & (room - 1);
    while (slots[at].next != 0)
        at = (at + 1) & (room - 1);
    slots[at] = slot;
}

/* Slots of the table that the next item needs; 0: those that there are. UINT32_MAX: there are no
 * more. */
static inline uint32_t na_index_wants(const na_index_t *index) {
    if (__builtin_expect(index->count < index->room / 2, 1)) return 0;
    return index->room == 0 ? 512 : index->room > UINT32_MAX / 2 ? UINT32_MAX : index->room * 2;
}

/* All items are in `slots` from now on, na_index_wants of them, which are zero. Returns the table
 * that they were in, which is the caller's. */
static inline na_index_slot_t *na_index_move(na_index_t *index, na_index_slot_t *slots,
                                             uint32_t room) {
    na_index_slot_t *old = index->slots;
    for (uint32_t i = 0; i < index->room; i++)
        if (old[i].next != 0) na_index_put(slots, room, old[i]);
    index->slots = slots;
    index->room = room;
    return old;
}

/* With room for it. */
static inline void na_index_add_here(na_index_t *index, uint64_t hash, uint32_t number) {
    na_index_put(index->slots, index->room, (na_index_slot_t){na_index_fold(hash), number + 1});
    index->count++;
}

/* False: out of memory; all is as it was. */
static inline bool na_index_add(na_index_t *index, uint64_t hash, uint32_t number) {
    uint32_t room = na_index_wants(index);
    if (__builtin_expect(room != 0, 0)) {
        na_index_slot_t *slots = room == UINT32_MAX ? NULL : calloc(room, sizeof *slots);
        if (slots == NULL) return false;
        free(na_index_move(index, slots, room));
    }
    na_index_add_here(index, hash, number);
    return true;
}

/* The item that na_index_next has just found is in the table no more. Other probes end. */
static inline void na_index_remove(na_index_t *index, const na_probe_t *probe) {
    uint32_t mask = index->room - 1, hole = (probe->at - 1) & mask;
    for (uint32_t at = probe->at; index->slots[at].next != 0; at = (at + 1) & mask) {
        /* Those behind it that had to pass over its place move up. */
        if (((at - index->slots[at].hash) & mask) < ((at - hole) & mask)) continue;
        index->slots[hole] = index->slots[at];
        hole = at;
    }
    index->slots[hole].next = 0;
    index->count--;
}

static inline void na_index_free(na_index_t *index) {
    free(index->slots);
    *index = (na_index_t){0};
}

#endif
