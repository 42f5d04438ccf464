/* heap.h - a heap of the program's own: the spans and large blocks that are its alone.
 *
 *   numalloc_heap_t  (alloc/heaps/api/api_heap.c)     what the program has: name, options
 *     na_heap_t      one, or one for each node  lock
 *       of[class] -> span list                  small blocks; full spans are on it, too
 *       large     -> span -> span -> ...        large blocks
 *
 * Threads take and give lists of blocks, which they keep for a while (alloc/heaps/heap_cache.h).
 *
 * Tag. Pages of a heap's small spans carry its owner and no bin (block.h): no bin of a thread
 * cache meets that, so all frees come to na_heap_free, and find class and records by the span.
 *
 * Life. A heap is ALIVE, then it ends with all of its blocks. Threads may then still keep lists of
 * blocks that were freed before; their memory is anybody's. So a list says which heap it is of, is
 * not looked at but under the heap's lock while that is alive, and counts in `lists`: the struct
 * (and with it the owner's number) is used again when there are none. Structs are never unmapped.
 *
 * Thread-safe. What takes or gives pages (na_heap_take, _give, _trim, _drop) is called behind a
 * thread cache's gate (thread_cache.h). The rest is not, so that it works while a fork is under
 * way: the child finds it as it was at some moment. A heap's lock is one of the level of central
 * lists (lock.h). */
#ifndef NUMALLOC_ALLOC_HEAPS_HEAP_H
#define NUMALLOC_ALLOC_HEAPS_HEAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/sys/lock.h"
#include "alloc/heaps/chunk.h"
#include "alloc/heaps/consumer.h"
#include "pagemap/pagemap.h"

#define NA_HEAPS_MAX 0x3fffu /* at one time: owners NA_OWNER_OTHERS to 0xfffe */

#define NA_HEAP_KEY_SHIFT 8
#define NA_HEAP_SPREAD    29u /* odd: the lists of two heaps meet at few classes */

typedef struct na_heap {
    na_lock_t lock;
    uint32_t key;        /* the owner's part of its lists' keys (alloc/heaps/heap_cache.h), */
    uint32_t first_list; /* and where they begin: modulo their number */
    uint16_t owner;
    uint8_t node;       /* dense; NA_NODE_ANY: not bound */
    bool on_node;       /* large blocks, too, whoever asks */
    uint32_t line_mask; /* 63: sizes are rounded up to whole cache lines; 0 */
    bool has_chunks;    /* small spans have their pages from `chunks`, */
    _Atomic(bool) alive;
    _Atomic(uint32_t) lists; /* that threads keep */
    uint64_t taken;          /* bytes of blocks that threads took and did not give back */
    na_chunks_t chunks;
    na_span_t *large;
    void *program;           /* the numalloc_heap_t */
    na_consumer_t *consumer; /* NULL: nobody wants to know who frees */
    struct na_heap *next_ended;
    na_span_list_t *of[NA_CLASS_COUNT]; /* NULL: none of the class was wanted yet */
} na_heap_t;
_Static_assert(sizeof(na_heap_t) <= 768, "there may be thousands");

/* How its memory lies. */
typedef struct na_heap_kind {
    uint8_t node;
    bool on_node;
    bool own_lines;
    bool huge;
    const uint64_t *turns;   /* as na_chunks_t; constant as long as the heap lives */
    na_consumer_t *consumer; /* to be told who frees; NULL */
} na_heap_kind_t;

/* Guards the lists of unused structs, here and in the API. Innermost but for that of metadata. */
extern na_lock_t na_heaps_lock;

/* The core knows of heaps from now on (heap_blocks.c). With the lock of heaps. */
void na_heaps_attach(void);
/* NULL: no memory, or there are NA_HEAPS_MAX. */
na_heap_t *na_heap_make(na_heap_kind_t kind, void *program);
/* The heap is at its end: no list of its blocks is looked at any more. The blocks are still there,
 * for na_heap_each and na_heap_next_large. */
void na_heap_end(na_heap_t *heap);
/* Its small spans, in turn; of one that has ended, or under its lock. */
void na_heap_each(na_heap_t *heap, void (*visit)(na_span_t *span, void *arg), void *arg);
/* A large block of it, which is an ordinary one from now on; NULL: there are no more. */
na_span_t *na_heap_next_large(na_heap_t *heap);
/* All that an ended heap has goes back, when somebody is behind the gate: on a list until then, or
 * from it; NULL: that is empty. */
void na_heap_drop_later(na_heap_t *heap);
na_heap_t *na_heap_to_drop(void);
/* Gives back all that an ended heap has; blocks of each class that the program had, or threads
 * keep, are added to `blocks`. The struct will be used again. */
void na_heap_drop(na_heap_t *heap, uint64_t blocks[NA_CLASS_COUNT]);

/* The heap of a span's owner, which na_span_is_others. Lock-free. */
na_heap_t *na_heap_of_owner(unsigned owner);

/* Blocks of a class as a list, at least one, aiming at `want`; NULL: no memory. */
void *na_heap_take(na_heap_t *heap, unsigned cls, uint32_t want, uint32_t *got);
/* Returns a list of `count` blocks of a class (linked by na_block_next) to its spans; false: the
 * heap has ended, and the list was not looked at. */
bool na_heap_give(na_heap_t *heap, unsigned cls, void *list, uint32_t count);

/* The large block is the heap's from now on; or is no more: a thread of `node` freed it. */
void na_heap_add_large(na_heap_t *heap, na_span_t *span);
void na_heap_remove_large(na_span_t *span, unsigned node);

/* Gives wholly free spans back, and the memory of free pages of chunks; bytes. */
size_t na_heap_trim(na_heap_t *heap);

typedef struct na_heap_sums {
    uint64_t live, large, in_spans;
} na_heap_sums_t;
/* Adds up. */
void na_heap_add_sums(na_heap_t *heap, na_heap_sums_t *sums);

/* The class for a size of at most NA_SMALL_MAX, which is not 0. */
NA_INLINE unsigned na_heap_class(const na_heap_t *heap, size_t size) {
    return na_class_of((size + heap->line_mask) & ~(size_t)heap->line_mask);
}

/* Forked child only. */
void na_heap_after_fork_child(void);
/* The same, for lists: none is kept but those that are counted anew. */
void na_heap_forget_lists(void);

#endif
