/* space.c - areas of address space that grow, and go on elsewhere where they cannot. */
#include "profiler/record/file/space.h"

#include <sys/mman.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"

#ifndef MADV_DONTFORK
#define MADV_DONTFORK 10
#endif

#define LEAST       (UINT64_C(4) << 20)
#define AHEAD_LEAST (UINT64_C(4) << 20)
/* So much at once. (scripts/python-cost.py builds with more.) */
#ifndef NA_WRITER_FIRST
#define NA_WRITER_FIRST NA_RESERVE_UNIT
#endif

void na_space_not_for_children(void *start, uint64_t bytes) {
    static _Atomic bool refused;
    na_sys_optional(&refused, SYS_madvise, (long)start, (long)bytes, MADV_DONTFORK);
}

static void as_placed(void *unused, void *start, size_t bytes) {
    (void)unused;
    na_space_not_for_children(start, bytes);
}

static uint32_t area_count(const na_space_t *space) {
    return atomic_load_explicit(&space->count, memory_order_acquire);
}

na_reserve_t *na_space_area(na_space_t *space) {
    return &space->areas[area_count(space) - 1];
}

/* A place for `most` bytes, or for fewer, but more than `first`, which are reserved. */
static bool add_area(na_space_t *space, uint64_t first, uint64_t most) {
    uint32_t count = area_count(space);
    na_reserve_t *area = &space->areas[count];
    if (count == NA_SPACE_AREAS) return false;
    for (; most >= LEAST && most >= first; most /= 4) {
        most &= ~(uint64_t)(NA_RESERVE_UNIT - 1);
        if (!na_reserve_find(area, first, most)) continue;
        na_space_not_for_children((void *)area->start, area->reserved);
        area->not_in_children = true;
        na_reserve_join(area);
        atomic_store_explicit(&space->count, count + 1, memory_order_release);
        return true;
    }
    return false;
}

bool na_space_begin(na_space_t *space, uint64_t want) {
    for (uint32_t i = 0; i < NA_SPACE_AREAS && space->areas[i].start != 0; i++)
        na_reserve_forget(&space->areas[i]); /* left over in a child */
    uint64_t limit = na_os_space_limit() / 8;
    *space = (na_space_t){.most = limit >= want ? want : limit < LEAST ? LEAST : limit};
    if (!add_area(space, NA_WRITER_FIRST, space->most)) return false;
    if (space->areas[0].most < space->most) space->most = space->areas[0].most;
    return true;
}

void na_space_leave(na_space_t *space) {
    for (uint32_t i = 0; i < area_count(space); i++)
        na_reserve_leave(&space->areas[i]);
    na_space_forget(space);
}

void na_space_forget(na_space_t *space) {
    atomic_store_explicit(&space->count, 0, memory_order_release);
}

na_reserve_result_t na_space_reach(na_space_t *space, uint64_t to) {
    uint64_t ahead = to / 16 > AHEAD_LEAST ? to / 16 : AHEAD_LEAST;
    if (to > space->most) return NA_RESERVE_REFUSED;
    return na_reserve_claim(na_space_area(space), to, ahead, as_placed, NULL);
}

bool na_space_move(na_space_t *space, uint64_t to) {
    uint64_t there = na_space_area(space)->opened, least = na_align_up(to, NA_RESERVE_UNIT);
    uint64_t more =
        na_align_up(to + (space->taken > there ? space->taken : there), NA_RESERVE_UNIT);
    if (!add_area(space, more, space->most) && !add_area(space, least, 2 * least)) return false;
    return na_space_reach(space, to) == NA_RESERVE_DONE;
}

void *na_space_take(na_space_t *space, uint64_t bytes) {
    void *p = NULL;
    na_lock(&space->lock);
    if (space->taken + bytes <= space->most) {
        na_reserve_result_t result = na_space_reach(space, space->used + bytes);
        if (result == NA_RESERVE_TAKEN && na_space_move(space, bytes)) {
            space->used = 0;
            result = NA_RESERVE_DONE;
        }
        if (result == NA_RESERVE_DONE) {
            p = (void *)(na_space_area(space)->start + space->used);
            space->used += bytes;
            space->taken += bytes;
        }
    }
    na_unlock(&space->lock);
    return p;
}

bool na_space_has(const na_space_t *space, uintptr_t address) {
    for (uint32_t i = 0; i < area_count(space); i++)
        if (address - space->areas[i].start <
            __atomic_load_n(&space->areas[i].opened, __ATOMIC_RELAXED))
            return true;
    return false;
}

uint64_t na_space_bytes(const na_space_t *space) {
    uint64_t bytes = 0;
    for (uint32_t i = 0; i < area_count(space); i++)
        bytes += na_reserve_bytes(&space->areas[i]);
    return bytes;
}

void na_space_each_area(const na_space_t *space,
                        void (*visit)(void *arg, uintptr_t start, size_t bytes), void *arg) {
    for (uint32_t i = 0; i < area_count(space); i++)
        visit(arg, space->areas[i].start,
              __atomic_load_n(&space->areas[i].opened, __ATOMIC_RELAXED));
}
