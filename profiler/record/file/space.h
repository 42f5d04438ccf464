/* space.h - the addresses of the profile's file, and of the recorder's other memory.
 *
 * Each grows in an area: a place with room for all that it may become, of which little is reserved
 * at first (alloc/core/sys/reserve.h). The system puts what others map at the other end of that
 * room, and a program that maps as much (stacks of threads, arenas, cages of generated code)
 * reaches the area. Then it goes on in another area, anywhere. That reserves as much again as there
 * is already, if it can, so there are few. Areas stay until all are left: threads hold pointers
 * into them.
 *
 * The recorder's other memory is taken piece by piece, each in one area. The file is mapped from
 * its beginning in each of its areas, because offsets in it become addresses by one base (state.h).
 *
 * Any number of threads; na_space_has from signal handlers, too. */
#ifndef NUMALLOC_PROFILER_RECORD_FILE_SPACE_H
#define NUMALLOC_PROFILER_RECORD_FILE_SPACE_H

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/reserve.h"

#define NA_SPACE_AREAS 32u

typedef struct na_space {
    na_reserve_t areas[NA_SPACE_AREAS]; /* the newest last; `opened`: in use */
    _Atomic(uint32_t) count;
    na_lock_t lock;
    uint64_t most;  /* bytes in all */
    uint64_t taken; /* by na_space_take, in all */
    uint64_t used;  /* the same of the newest area */
} na_space_t;

/* Finds a place for at most `want` bytes; where address space is limited, an eighth of what the
 * program may have. False: the system refuses. */
bool na_space_begin(na_space_t *space, uint64_t want);
/* Unmaps all. Nobody uses it any more. */
void na_space_leave(na_space_t *space);
/* In a child, which has none of them. */
void na_space_forget(na_space_t *space);

/* The newest. */
na_reserve_t *na_space_area(na_space_t *space);
/* The newest area has its first `to` bytes for the caller to map something there. */
na_reserve_result_t na_space_reach(na_space_t *space, uint64_t to);
/* The next area begins, with its first `to` bytes for the caller. One thread at a time. False: none
 * can be had, and the newest is the same. */
bool na_space_move(na_space_t *space, uint64_t to);
/* Inaccessible pages that nobody has. NULL: refused. */
void *na_space_take(na_space_t *space, uint64_t bytes);

/* In use by the space. */
bool na_space_has(const na_space_t *space, uintptr_t address);
/* Visits what is in use of each area. */
void na_space_each_area(const na_space_t *space,
                        void (*visit)(void *arg, uintptr_t start, size_t bytes), void *arg);
/* Bytes of address space. */
uint64_t na_space_bytes(const na_space_t *space);

/* A forked child is better off without. It gets by with: it maps its own elsewhere. */
void na_space_not_for_children(void *start, uint64_t bytes);

#endif
