/* large.h - blocks of more than NA_SMALL_MAX bytes: each is a span of its own.
 *
 * Up to NA_RUN_MAX_PAGES they are runs of the node's page heap. Those up to 8 MiB that were freed
 * lately are kept whole for the next block of about their size: by the thread (large_bins.h), and
 * behind it by the node. One that realloc makes grow is not: it goes
 * back to the page heap. If it has to move, it goes to where there is room for it to grow further.
 * Larger ones, and blocks that realloc makes grow past NA_GROWN_MIN, get a mapping of their own
 * that mremap can grow without copying; at most NA_DEDICATED_MAX of the latter, since Linux allows
 * a process 65,530 mappings. A dedicated mapping begins on a 2 MiB boundary and is unmapped when it
 * is freed: each of its pages costs a page fault, where those of runs are often there already.
 *
 * On several nodes, new memory of runs from NA_TOUCH_PAGES on and of mappings is not bound to the
 * node: it lies where it is first touched (backing.h).
 *
 * Thread-safe; a block belongs to whoever holds it. */
#ifndef NUMALLOC_ALLOC_CORE_MALLOC_LARGE_H
#define NUMALLOC_ALLOC_CORE_MALLOC_LARGE_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/tuned.h"
#include "alloc/core/track/hooks.h"
#include "pagemap/pagemap.h"

#define NA_GROWN_MIN     ((size_t)NA_CACHED_BYTES / 2)
#define NA_SLACK_MAX     ((size_t)NA_CACHED_BYTES / 4) /* address space to grow into */
#define NA_DEDICATED_MAX (NA_OS_MAPPINGS / 16)
#define NA_TOUCH_PAGES   NA_HUGE_PAGES

/* A block of `size` bytes (any size up to PTRDIFF_MAX) aligned to `alignment` (a power of two, at
 * least NA_PAGE_SIZE). *zeroed, if not NULL: it is known to read as zero. NULL: no memory, errno is
 * ENOMEM. */
void *na_large_alloc(size_t size, size_t alignment, na_entry_t entry, bool *zeroed);

/* `block` lies in the large span; reports it if it is not the span's start. `how` and `moved_to` as
 * in hooks.h. */
void na_large_free(na_tcache_t *tcache, na_span_t *span, void *block, na_release_t how,
                   const void *moved_to);
/* The rest of it, for a block from the list of emergency.h. */
void na_large_free_late(na_tcache_t *tcache, na_span_t *span);

/* Makes the block hold `size` bytes (> NA_SMALL_MAX) without copying: where it is, or for a
 * dedicated mapping wherever mremap puts it. The block's address, or NULL: it must be copied. */
void *na_large_resize(na_tcache_t *tcache, na_span_t *span, size_t size);

/* A large block for one that grows, with room; NULL: a small one, or none to be had. */
void *na_large_alloc_grown(size_t size, na_entry_t entry);

/* Where a block is to lie. */
typedef struct na_large_place {
    unsigned node;         /* dense, or NA_NODE_ANY */
    bool on_node;          /* on that one; false: on the thread's */
    bool huge;             /* in a dedicated mapping of huge pages, if it is as large as one */
    const uint64_t *turns; /* NULL, or: in a dedicated mapping with its pages in turn on the nodes
                            * of this set: one bit a node of the system, NA_OS_NODES bits */
} na_large_place_t;
/* The same as na_large_alloc, elsewhere. Where there are NA_DEDICATED_MAX mappings, no more are
 * made, and the block lies on the node. */
void *na_large_alloc_placed(na_large_place_t place, size_t size, size_t alignment, na_entry_t entry,
                            bool *zeroed);
/* Another dedicated mapping for a block that does not need one is in order. */
bool na_large_room_for_mapping(void);

/* Pages of the span were moved to `node` (and for a dedicated mapping, its policy): `all`, or some.
 * Where the rest of the system must know is seen to. Only by who holds the block. */
void na_large_migrated_to(na_span_t *span, unsigned node, bool all);

/* Bytes of large blocks now, in whole pages; those of them in dedicated mappings; and both for the
 * blocks wanted on one node. */
uint64_t na_large_bytes(void);
uint64_t na_large_dedicated_bytes(void);
uint64_t na_large_bytes_on(unsigned node);
uint64_t na_large_dedicated_on(unsigned node);

#endif
