/* pageheap.h - runs of pages for one node.
 *
 * Page: NA_PAGE_SIZE (8 KiB), the unit of spans. Hugepage: 2 MiB, 256 pages. A page heap owns
 * regions (free_pages.h): large reservations, bound once to the node (but for those of its
 * first-touch set, backing.h), of which a growing front part is accessible. Every 2 MiB of a region
 * has one na_hugepage_t, all free-page bookkeeping is in its bitmaps, and neighbours coalesce by
 * themselves.
 *
 *   region  |hugepage 0|hugepage 1|  ...            | not yet accessible ...          |
 *           ^start                                  ^frontier (only ever moves right) ^end
 *   hugepage  used  1110111000...   in a span, being purged, or right of the frontier
 *             dirty 0001000000...   free, but may still hold memory of the system
 *             neither               free and reads as zero
 *
 * Invariants
 *   - used & dirty == 0. Pages right of the frontier count as used; moving it frees them, clean.
 *   - A hugepage with a free page is on exactly one list: by the length of its longest free run
 *     (1..255), or, when wholly free, with or without dirty pages. The others are on none.
 *   - A run for fewer than 256 pages lies in one hugepage: the one with the smallest longest free
 *     run that fits, so that hugepages that are nearly empty drain; then a free one with dirty
 *     pages, then a clean one, then the frontier moves. Larger runs start on a hugepage boundary;
 *     what they leave of their last hugepage is free for small runs.
 *   - VMAs: two for each region, and those of moved memory and of huge pages asked for, both of
 *     which are bounded (backing.c). Pieces are never unmapped or protected (Linux
 * allows a process 65,530 mappings).
 *
 * Giving memory back: dirty pages older than the purge delay are purged by na_pageheap_tick, which
 * slow paths call now and then. A program that frees much and then goes quiet makes no more calls,
 * so freeing beyond a cap purges at once; the cap doubles whenever pages that were just purged are
 * wanted back (a program that works in waves), and shrinks when that stops.
 *
 * Thread-safe; each node has its own lock. Callers hold no page-heap lock. The parts:
 * free_pages.h (address space, and the free pages of a node), purge.h (giving back), backing.h (how
 * pages come to have memory).
 */
#ifndef NUMALLOC_ALLOC_CORE_PAGE_PAGEHEAP_H
#define NUMALLOC_ALLOC_CORE_PAGE_PAGEHEAP_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/tuned.h"
#include "pagemap/pagemap.h"

#define NA_HUGE_PAGES 256u
/* Spans of small blocks are at most so long, 64 KiB: one that one block keeps alive holds no more.
 */
#define NA_SPAN_PAGES_MAX (4 * NA_BATCH_BYTES >> NA_PAGE_SHIFT)
/* Longest run a region serves; anything larger gets a mapping of its own (large.h). */
#define NA_RUN_MAX_PAGES (64u * NA_HUGE_PAGES)

/* Nodes are dense indices here (topology.h); NA_NODE_ANY is the unbound pseudo-node. */

/* Takes `pages` pages (1..NA_RUN_MAX_PAGES) aligned to `align_pages` (a power of two, at most
 * NA_HUGE_PAGES). *zeroed: the memory is known to read as zero. Returns 0 when the system or the
 * heap limit refuses; the caller sets errno.
 * When the node can have no more memory the run may come from another one (a stray):
 * na_pageheap_node_of says which. */
uintptr_t na_pageheap_alloc(unsigned node, uint32_t pages, uint32_t align_pages, bool *zeroed);

/* The same, on no boundary, for a span of blocks of at most a page of the system: they will fill
 * it, so memory may be had ahead of their writes (backing.h). Ends with na_pageheap_free_filled.
 */
uintptr_t na_pageheap_alloc_filled(unsigned node, uint32_t pages, bool *zeroed);

/* The same as na_pageheap_alloc for a run that is expected to grow (na_pageheap_extend): where at
 * least `slack` pages on either side of it are free, if there is such a place. */
uintptr_t na_pageheap_alloc_growing(unsigned node, uint32_t pages, uint32_t slack, bool *zeroed);

/* The same as na_pageheap_alloc, but only free pages that all hold memory: the process does not
 * grow. 0: there are none. (Looks at a few of many.) */
uintptr_t na_pageheap_alloc_held(unsigned node, uint32_t pages);

/* Several nodes: large blocks of the node's threads are left to the kernel's first touch. Not where
 * the node is bound strictly, binding is refused, or memory or address space is scarce. */
bool na_pageheap_leaves_to_touch(unsigned node);
/* Takes a run of at least NA_HUGE_PAGES pages on such a node: free pages that all hold memory, at
 * the node; else pages that hold none and are not bound (*by_touch), aligned to a hugepage. 0:
 * neither is to be had, or the node has no room for them. */
uintptr_t na_pageheap_alloc_by_touch(unsigned node, uint32_t pages, bool *zeroed, bool *by_touch);
/* The address lies in a region for such runs. */
bool na_pageheap_is_by_touch(uintptr_t address);
/* No more of them for the node: where their pages lie cannot be known. */
void na_pageheap_refuse_touch(unsigned node);

/* Dense node (or the pseudo-node) whose page heap an address belongs to, NA_NO_NODE for any other
 * address. Lock-free, async-signal-safe. */
#define NA_NO_NODE (~0u)
unsigned na_pageheap_node_of(uintptr_t address);

/* Counts a stray of `home` that lies on `node`: na_pageheap_alloc does when it begins; whoever
 * frees or resizes a run with na_pageheap_free and na_pageheap_extend does what is left. */
void na_pageheap_count_stray(unsigned home, unsigned node, uint32_t pages, bool begins);

/* The node that a mapping of its own is to be placed on: `node`, or when that is full the nearest
 * that is not. */
unsigned na_pageheap_node_with_room(unsigned node, uint32_t pages);

/* Gives back any part of what was taken, in whole pages: contents are lost. Here and in extend,
 * `node` is what node_of says of the run; the process ends with a message if the run was not taken.
 */
void na_pageheap_free(unsigned node, uintptr_t start, uint32_t pages);
void na_pageheap_free_filled(unsigned node, uintptr_t start, uint32_t pages);

/* The same for pages that the caller has given back to the system: they read as zero. */
void na_pageheap_free_purged(unsigned node, uintptr_t start, uint32_t pages);

/* Takes the `extra` pages right after start + pages, if all are free and in the same region, and
 * the whole stays within NA_RUN_MAX_PAGES. Where the run ends at the frontier, the frontier moves.
 */
bool na_pageheap_extend(unsigned node, uintptr_t start, uint32_t pages, uint32_t extra,
                        bool *zeroed);

/* The node can be used again after a time when it could not: the kernel may have put its memory,
 * and what was touched meanwhile, elsewhere, and an older one has renumbered its bindings. Binds
 * the regions anew and has the kernel bring their pages back (those that it will move; blocks with
 * a mapping of their own stay). May take long: the system copies page by page. False: the kernel
 * refused some. */
bool na_pageheap_rebind(unsigned node);

/* Cheap when nothing is due: no lock. `now` in milliseconds (na_os_ms). Purges what is older than
 * the delay, at most 2 MiB a system call and 64 MiB a call; the next call goes on. */
void na_pageheap_tick(unsigned node, uint64_t now);

/* Purges free pages of one node until at most keep_bytes of dirty memory are left; bytes purged. */
size_t na_pageheap_trim(unsigned node, size_t keep_bytes);

typedef struct na_pageheap_stats {
    uint64_t reserved;  /* bytes of address space in regions */
    uint64_t committed; /* accessible */
    uint64_t used;      /* in spans */
    uint64_t dirty;     /* free, not yet given back */
    uint64_t purged;    /* given back since the start */
    uint64_t regions;
    uint64_t strays;   /* bytes, over time, that other nodes gave because this one had none */
    uint64_t away;     /* of those, in spans now */
    uint64_t guests;   /* in spans here that are other nodes' strays */
    bool bound;        /* mbind worked for every region (false where none was asked for) */
    bool bind_refused; /* the system refused to bind one */
} na_pageheap_stats_t;

void na_pageheap_get_stats(unsigned node, na_pageheap_stats_t *stats);

/* Gives back runs of the node that are kept above, with no block in them (na_free_pages_t.kept):
 * before the process would grow, or where memory is refused. Bytes. Set by na_init. */
extern size_t (*na_pageheap_reclaim)(unsigned node);

/* Whether a request for so many pages may well be served without memory that was never touched. A
 * racing guess, without a lock. */
bool na_pageheap_has_dirty(unsigned node, uint32_t pages);

/* Accessible bytes of all nodes. Lock-free, async-signal-safe. */
uint64_t na_pageheap_committed(void);
/* The same of one node. */
uint64_t na_pageheap_committed_on(unsigned node);

/* Forked child only: every lock is free again. The caller has seen to it (fork gate) that no thread
 * was changing the tables; one that was in a purge's system call costs the child up to 2 MiB. */
void na_pageheap_after_fork_child(void);

/* Bytes of all spans and dedicated mappings of the process against the heap limit. Charges or
 * refuses; large.c uses it for mappings of its own. */
extern size_t na_limit; /* bytes; 0: none. Set by na_init */
bool na_limit_charge(size_t bytes);
void na_limit_release(size_t bytes);

#endif
