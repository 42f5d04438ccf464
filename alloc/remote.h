/* remote.h - blocks on their way to the heap or node that owns them.
 *
 * A thread that frees another's block puts it on its outgoing list for that owner and class. A list
 * of NA_POST_BLOCKS blocks or NA_POST_BYTES, or one that has waited for a poll, is posted whole: to
 * the owner's mailbox (one compare-and-swap), or to the home node's depot for a pooled class. The
 * lists are plain memory of the freeing thread: no atomic per block, and no look at the block's
 * span. */
#ifndef NUMALLOC_ALLOC_REMOTE_H
#define NUMALLOC_ALLOC_REMOTE_H

#include <stdint.h>

#include "alloc/heap.h"

#define NA_POST_BLOCKS 64u
#define NA_POST_BYTES  (16u * 1024)

/* `tag` is na_tag(class, owner) of the block's span, the owner not being `heap`. Not behind the
 * gate; enters it to post. */
void na_remote_free(na_heap_t *heap, uint32_t tag, void *block);

/* Posts all outgoing lists. Behind the gate. */
void na_remote_flush(na_heap_t *heap);

#endif
