/* delay.h - blocks that were freed a moment ago, and may not be handed out yet (NUMALLOC_HARDEN).
 *
 * Each thread has a queue, first in, first out, of the last blocks that it freed, NA_DELAY_BLOCKS
 * at most, of at most NA_DELAY_BYTES together; the newest stays, up to NA_DELAY_MOST. So no block
 * is handed out again until some others have been freed behind it: what a dangling pointer still
 * leads to is nobody's for a while, and writes through it are found when the block leaves the queue
 * (signed.h: its first words are signed while it waits).
 *
 * A thread that frees and then sleeps keeps what is in its queue. So where there are many threads
 * each may hold no more than its share of NA_DELAY_ALL, and a newest block that is larger than the
 * share does not wait. A queue learns of its share when it has no room.
 *
 * Of large blocks of NA_DELAY_SEALED or more the first page cannot be read or written while they
 * wait (at level 1; it is opened again when they go on), or all of the block (at level 2, where it
 * is a mapping of its own, which is unmapped).
 *
 * What waits has ended in all other ways: it is not live (pagemap/pagemap.h), its record has ended.
 * Only what free does behind that is to come: hardened.c.
 *
 * Written by the owning thread only. Made with the thread's first free; where there is no memory
 * for it, nothing waits. A thread that ends defers what is in it (thread_cache.h); a forked child
 * loses what other threads had in theirs, as of all bins. */
#ifndef NUMALLOC_ALLOC_HARDEN_DELAY_H
#define NUMALLOC_ALLOC_HARDEN_DELAY_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/track/track.h"

/* At level 1, and at 2. */
#define NA_DELAY_BLOCKS  64u /* powers of two */
#define NA_DELAY_BYTES   (128u * 1024)
#define NA_DELAY_BLOCKS2 1024u
#define NA_DELAY_BYTES2  (16u << 20)
#define NA_DELAY_MOST    ((size_t)8 << 20) /* of one block: larger ones do not wait */
/* Level 1: two system calls for each such block, in a place where a dangling pointer is likely to
 * lead. To seal all of the block would take ten times as long. */
#define NA_DELAY_SEALED ((size_t)1 << 20)
/* In the queues of all threads. */
#define NA_DELAY_ALL  ((size_t)64 << 20)
#define NA_DELAY_ALL2 ((size_t)128 << 20)

/* A thread's part of them. */
size_t na_delay_share(void);

/* `tag`: that of the block's bin, or NA_TAG_NONE: it is none that a bin may take unseen. */
typedef struct na_delayed {
    void *block;
    uint32_t tag;
    uint32_t bytes; /* of the block */
} na_delayed_t;

struct na_delay {
    uint64_t bytes;       /* of all that wait */
    uint64_t end;         /* number of the next block; they count on and on */
    uint64_t first;       /* none that waits has a lower one */
    uint32_t mask;        /* one less than there are places */
    uint32_t most;        /* bytes, as last looked at */
    na_delayed_t waits[]; /* by number, the rest is blank */
};
typedef struct na_delay na_delay_t;

/* NULL: the thread has none yet. */
NA_INLINE na_delay_t *na_delay_of(const na_tcache_t *tcache) {
    return tcache->kept[NA_KEPT_DELAY];
}
/* NULL: no memory. */
na_delay_t *na_delay_make(na_tcache_t *tcache);

/* The block waits from now on. Which it takes the place of, and is to go on: block NULL if none. */
NA_INLINE na_delayed_t na_delay_put(na_delay_t *delay, na_delayed_t delayed) {
    na_delayed_t *place = &delay->waits[delay->end & delay->mask], oldest = *place;
    __asm__("" : "+r"(oldest.tag), "+r"(oldest.bytes)); /* each in a register, no vector of both */
    *place = delayed;
    delay->end++;
    delay->bytes += (uint64_t)delayed.bytes - oldest.bytes;
    return oldest;
}

/* So much more would be too much. */
NA_INLINE bool na_delay_has_no_room(const na_delay_t *delay, uint32_t bytes) {
    return delay->bytes + bytes > delay->most;
}
/* Too much waits: the oldest is to go on. Not the newest. */
NA_INLINE bool na_delay_is_over(const na_delay_t *delay) {
    return NA_UNLIKELY(delay->bytes > delay->most);
}
NA_INLINE bool na_delay_is_empty(const na_delay_t *delay) {
    return delay->bytes == 0;
}
/* How much may wait, by the threads that there are now. */
void na_delay_look(na_delay_t *delay);
/* The oldest; block NULL: there is none but the newest. */
na_delayed_t na_delay_take(na_delay_t *delay);

/* A block that has waited can be read and written again: all of it at level 1, its first page at 2.
 */
void na_delay_open(const na_delayed_t *delayed);

/* The block, which has waited, is as free left it; else that is reported, and it must not be used.
 */
bool na_delay_is_sound(const na_delayed_t *delayed);
/* Of all that waits. */
NA_COLD void na_delay_check(const na_delay_t *delay);
/* All that waits is deferred. */
NA_COLD void na_delay_flush(na_tcache_t *tcache);
/* Forked child: what another thread had is lost. Bytes. */
NA_COLD uint64_t na_delay_forget(na_tcache_t *tcache);

#endif
