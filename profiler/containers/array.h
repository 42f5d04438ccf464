/* array.h - an array that grows, for the tools: a pointer, a count and a room of whatever types the
 * owner has. */
#ifndef NUMALLOC_PROFILER_CONTAINERS_ARRAY_H
#define NUMALLOC_PROFILER_CONTAINERS_ARRAY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

/* Twice the room, or as much as is wanted; at least 16. */
static inline size_t na_array_room(size_t room, size_t wanted) {
    size_t twice = room < 8 ? 16 : room > SIZE_MAX / 2 ? SIZE_MAX : room * 2;
    return twice < wanted ? wanted : twice;
}

/* There is room for `wanted` items, or as much as is made for it: `resized` is an expression for
 * the block with room for na_more of them, NULL if there can be none. False: there is none, or more
 * than the type of `room` can say; all is as it was. New room is not cleared. */
#define NA_ARRAY_RESERVE_FROM(items, room, wanted, resized)                                        \
    ({                                                                                             \
        size_t na_wanted = (wanted);                                                               \
        bool na_good = na_wanted <= (room);                                                        \
        if (__builtin_expect(!na_good, 0)) {                                                       \
            size_t na_more = na_array_room((room), na_wanted);                                     \
            __typeof__(items) na_items = (__typeof__(room))na_more == na_more ? (resized) : NULL;  \
            na_good = na_items != NULL;                                                            \
            if (na_good) {                                                                         \
                (items) = na_items;                                                                \
                (room) = (__typeof__(room))na_more;                                                \
            }                                                                                      \
        }                                                                                          \
        na_good;                                                                                   \
    })

/* The same from the heap. False: out of memory, too. */
#define NA_ARRAY_RESERVE(items, room, wanted)                                                      \
    NA_ARRAY_RESERVE_FROM((items), (room), (wanted),                                               \
                          reallocarray((void *)(items), na_more, sizeof *(items)))

/* The same for an array in which all room is used, by numbers: new room is cleared. */
#define NA_ARRAY_RESERVE_ZERO(items, room, wanted)                                                 \
    ({                                                                                             \
        size_t na_before = (room);                                                                 \
        bool na_there = NA_ARRAY_RESERVE((items), (room), (wanted));                               \
        if (na_there && na_before < (room))                                                        \
            memset((items) + na_before, 0, ((room)-na_before) * sizeof *(items));                  \
        na_there;                                                                                  \
    })

#endif
