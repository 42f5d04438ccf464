/* remote.h - blocks on their way to the thread cache or node that owns them.
 *
 * A thread that frees another's block puts it on its remote batches for that owner and class. A
 * list of NA_POST_BLOCKS blocks or NA_POST_BYTES (less where there are many lists), or one that has
 * waited for a poll, is posted whole: to the owner's remote free list (one compare-and-swap), or to
 * the home node's transfer cache for a pooled class. The lists are plain memory of the freeing
 * thread: no atomic per block, and no look at the block's span. */
#ifndef NUMALLOC_ALLOC_CACHE_REMOTE_H
#define NUMALLOC_ALLOC_CACHE_REMOTE_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/cache/thread_cache.h"

#define NA_POST_BLOCKS 64u
#define NA_POST_BYTES  (16u * 1024)

/* There are more places than classes: the classes of one owner are never in each other's way. */
NA_INLINE na_remote_batch_t *na_remote_batch_of(na_tcache_t *tcache, uint32_t tag) {
    enum { SPREAD = 29 }; /* owners; odd */
    return &tcache->remote_batches[(tag / NA_BIN_SIZE + (tag >> 16) * SPREAD) % NA_REMOTE_BATCHES];
}
_Static_assert(NA_CLASS_COUNT <= NA_REMOTE_BATCHES, "see na_remote_batch_of");

/* `tag` is na_tag(class, owner) of the block's span, the owner not being `tcache`. Puts the
 * block on its list; false: there is none yet, or the block would make it due. */
NA_INLINE bool na_remote_collect(na_tcache_t *tcache, uint32_t tag, void *block) {
    na_remote_batch_t *out = na_remote_batch_of(tcache, tag);
    if (NA_UNLIKELY(out->tag != tag) || NA_UNLIKELY(out->count >= out->most)) return false;
    *na_block_next(block) = out->head;
    out->head = block;
    out->count++;
    return true;
}

/* The same where that was false; posts what is due. True: something was. Not behind the gate, which
 * it enters to post. */
bool na_remote_free(na_tcache_t *tcache, uint32_t tag, void *block);

/* Posts all remote batches. Behind the gate. */
void na_remote_flush(na_tcache_t *tcache);

/* All remote frees of a class, as a stack of batches, or 0. By the thread cache's holder. */
na_batch_t na_remote_take(na_tcache_t *tcache, unsigned cls);
/* Puts all of them, or those of a class, into the spans they came from; empty spans go to the page
 * heap (of a class: when the caller trims). By the thread cache's holder. */
void na_remote_drain(na_tcache_t *tcache);
void na_remote_drain_class(na_tcache_t *tcache, unsigned cls);
/* If the thread cache is abandoned: borrow it, drain it, give it back. (A warm one may have a
 * little.) */
void na_remote_drain_abandoned(na_tcache_t *tcache);
/* The same for a thread cache whose thread is not coming for its remote frees; nothing if the
 * thread is behind its gate just now, or another poster is. Behind the caller's own gate. */
void na_remote_drain_absent(na_tcache_t *tcache);

#endif
