/* hand.h - the blocks of a bin that are next to be handed out (NUMALLOC_HARDEN).
 *
 *   bin   = hand, a table: up to NA_HAND_MOST blocks   + list, signed (signed.h)
 *   malloc  takes one of the hand, at random
 *   free    puts one there (behind delay.h), or on the list if it is full
 *   list -> hand, when that has no more than `few`: each block is looked at: one of the class
 *           begins there, it is not live, and its link is right
 *
 * So what malloc hands out comes from a table that no block links to, and which block comes next
 * is drawn among NA_HAND_LEAST or more (of large blocks among as many as are NA_HAND_BYTES, at
 * least two): where a bin has fewer, it gets some more from spans (na_hand_draw_wide).
 *
 * states[cls].count counts both. Who takes the list as a whole puts the hand there before
 * (na_hand_close). By the thread that the cache belongs to, or its holder. */
#ifndef NUMALLOC_ALLOC_HARDEN_HAND_H
#define NUMALLOC_ALLOC_HARDEN_HAND_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/harden/signed.h"

#define NA_HAND_MOST  31u
#define NA_HAND_LEAST 16u
#define NA_HAND_BYTES (16u * 1024)

typedef struct na_hand {
    uint32_t count;
    uint32_t few; /* with no more blocks than this the usual call does not draw; 0 at first */
    void *blocks[NA_HAND_MOST];
} na_hand_t;
_Static_assert(sizeof(na_hand_t) == 256, "lines of its own");

struct na_hands {
    uint64_t random; /* na_links_draw's */
    _Alignas(NA_CACHE_LINE) na_hand_t of[NA_CLASS_COUNT];
};
typedef struct na_hands na_hands_t;

/* NULL: the thread has none yet. */
NA_INLINE na_hands_t *na_hands_of(const na_tcache_t *tcache) {
    return tcache->kept[NA_KEPT_HANDS];
}

/* The number of one of its blocks. */
NA_INLINE uint32_t na_hand_draw(na_hands_t *hands, const na_hand_t *hand) {
    return (uint32_t)((na_links_draw(&hands->random) >> 32) * hand->count >> 32);
}

/* Of the block of that number: it goes out. */
NA_INLINE void na_hand_remove(na_hand_t *hand, uint32_t number) {
    hand->blocks[number] = hand->blocks[--hand->count];
}

/* Any block of the bin, which is counted, for the program; NULL: there is none that is sound.
 * _draw_wide: it gets some more before, if they are few. */
void *na_hand_take(na_tcache_t *tcache, unsigned cls);
void *na_hand_draw_wide(na_tcache_t *tcache, unsigned cls);
/* For the thread's first block of all. NULL: no memory; bins are their lists then. */
NA_COLD na_hands_t *na_hands_make(na_tcache_t *tcache);

/* The block, which na_link_set_waiting was done to, becomes the bin's. */
NA_INLINE void na_hand_put(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    na_hands_t *hands = na_hands_of(tcache);
    state->count++;
    state->pushes++;
    state->used = true;
    if (NA_UNLIKELY(hands == NULL)) hands = na_hands_make(tcache);
    na_hand_t *hand = &hands->of[cls];
    if (NA_LIKELY(hands != NULL) && hand->count < NA_HAND_MOST) {
        hand->blocks[hand->count++] = block;
        return;
    }
    na_link_set_signed(block, bin->head);
    bin->head = block;
}

/* All that the bin has is on its list from now on. */
void na_hand_close(na_tcache_t *tcache, unsigned cls);
/* How many blocks the bin should have before one is taken. */
uint32_t na_hand_least(unsigned cls);
/* A block of the class is free and begins there: it may be handed out. False: that was reported. */
bool na_hand_may_give(unsigned cls, const void *block);
/* Forked child: what another thread had is lost; it is in the counts. */
NA_COLD void na_hand_forget(na_tcache_t *tcache);

#endif
