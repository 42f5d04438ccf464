/* central.h - what the threads of one node share, class by class.
 *
 *   transfer cache  16 atomic slots, each empty or one batch. Put: compare-and-swap into an empty
 *                   slot. Take: exchange with empty. No lock, no ABA (a slot's value is used only
 *                   by whoever exchanged it out), no walk. Pooled classes only.
 *   inbox         blocks that threads of other nodes freed, of any class (inbox.h).
 *   spans           the spans of a pooled class, under a lock; page-map lookups are made before it
 *                   is taken.
 *   sampled         the spans of sampled blocks of any class: their pages are tagged slow, so that
 *                   their free is seen, and no other block lies on them.
 *
 * How many slots may be in use is earned. Blocks that one thread freed in random order pin a span
 * each, for nothing unless another thread takes them: so there is one slot, more when a thread
 * cache takes, or would have taken, what another had put, and fewer when a batch lies there idle.
 *
 * Thread-safe. Callers are behind their thread cache's gate (thread_cache.h). Nodes are dense
 * indices. */
#ifndef NUMALLOC_ALLOC_CORE_CENTRAL_CENTRAL_H
#define NUMALLOC_ALLOC_CORE_CENTRAL_CENTRAL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/central/block.h"
#include "alloc/core/central/inbox.h"
#include "alloc/core/sys/base.h"
#include "pagemap/pagemap.h"

/* --- The spans of one size class that one owner draws blocks from ---
 *
 * The same structure serves a thread cache's owned classes (no lock: only the thread cache, under
 * its gate) and a node's pooled classes (under the central list's lock).
 *
 *   partial[0] nearly empty ... partial[7] nearly full     spans that can give blocks
 *   full                                                   the others, where `whole` says that they
 *                                                          are to be found, too; else on no list
 *
 * Blocks are taken from the fullest spans first, so that the emptiest get the chance to drain and
 * go back to the page heap. Invariant: a span is on partial[i] exactly when it has a block to give
 * (on its free list, or not carved yet), i being its share of blocks in use, in eighths. */

#define NA_SPAN_LIST_LISTS 8u

#define NA_SPAN_LIST_FULL NA_SPAN_LIST_LISTS

typedef struct na_span_list {
    union {
        na_span_t *partial[NA_SPAN_LIST_LISTS];
        na_span_t *lists[NA_SPAN_LIST_LISTS + 1]; /* full ones last */
    };
    uint32_t count; /* spans: all, full ones included */
    bool whole;
} na_span_list_t;

/* Pages that are placed otherwise than a node's: where a list may have its own from. */
struct na_chunk;
struct na_chunks;
typedef struct na_chunk_source {
    /* A run of 1 to 256 pages, and its chunk; 0: the system or a limit refuses. Reads as anything.
     */
    uintptr_t (*take)(struct na_chunks *chunks, uint32_t pages, struct na_chunk **chunk);
    void (*give)(struct na_chunk *chunk, uintptr_t start, uint32_t pages);
} na_chunk_source_t;

/* Set before the first kind that names chunks. */
extern const na_chunk_source_t *na_chunk_source;

/* How new spans of a list are made: the owner's part of what a span is. */
typedef struct na_span_kind {
    uint8_t cls;
    uint8_t node;
    uint16_t owner;
    bool sampled;
    bool *untouched; /* not NULL: new blocks of more than a page come one by one, and are not
                      * written to; set if that one reads as zero */
    struct na_chunks *chunks; /* where their pages come from; NULL: from the node's page heap */
} na_span_kind_t;

/* Told what the program did wrong with a block that comes home ("double free of"); set by na_init.
 * Returns where the program is to go on. */
extern void (*na_span_fault)(const char *what, const void *block);

/* Takes blocks: whole free lists of the fullest spans, then memory not carved yet (up to the end of
 * a system page at a time, so that no page is touched early), then, if it may, a new span, until
 * there are `want`. Returns them as a list, in that order, and sets *got >= 1, *got < want only
 * when the system refuses more; NULL: nothing to be had. O(1) a span, plus the blocks carved.
 *
 * Kinds that are `untouched`: of classes whose blocks do not fill pages (na_class_fills) memory not
 * carved yet is taken only when there is no free block, and then one block, less than `want`: its
 * first page may be one that the program never writes to. No list of a single block of such a class
 * has a link: it must not be read.
 *
 * What is carved is in the order of addresses. A program mostly reads in the order in which it
 * allocated, and processors fetch ahead upwards: vvp, a simulator that keeps 12,000 blocks of 2.7
 * KiB, took 1.11 times as long when each page of a call came before the one below it
 * (bench/programs/others.py --only vvp). */
void *na_span_list_take(na_span_list_t *spans, na_span_kind_t kind, uint32_t want, bool may_grow,
                        uint32_t *got);

/* A part: blocks of one span that follow each other in a list. Blocks that were handed out together
 * mostly come home together, so that one look at the page map serves many. */
typedef struct na_part {
    na_span_t *span;
    void *first, *last;
    uint32_t count;
    uint64_t blocks; /* of a span of up to 64: a bit for each */
} na_part_t;

/* Gives blocks back to their span. A span that is then wholly free goes back to the page heap,
 * unless it is the list's last with free blocks (so that a lone block does not bounce). Returns the
 * bytes that went there. Blocks that are there already, or more than were out, are reported
 * (na_span_fault), and nothing is given. */
size_t na_span_list_give(na_span_list_t *spans, const na_part_t *part);
/* The part that a single block is. */
na_part_t na_part_of_one(na_span_t *span, void *block);

/* What is said of a list that does not end where its count says, with where it goes on; or with its
 * last block. */
extern const char na_list_goes_on[], na_list_ends[];

/* The rest of a list that should have ended is a single block of the class. malloc and free count a
 * block in one instruction and take or put it in another; where a signal handler interrupts them
 * between the two, and calls malloc, a list has one block more or less than is counted. So that is
 * no fault: what is over is left out, and what is missing was never there. */
bool na_list_is_one(unsigned cls, const void *list);

/* Cuts the first part off a list of `left` free blocks of a class, which becomes as much shorter;
 * false: the list is empty. What the program did to the list by freeing wrongly is found here (a
 * block that is no block's start, a list that is a circle because a block is in it twice, that was
 * overwritten, or that does not end where its count says), reported (na_span_fault), and kept from
 * the span. */
bool na_part_cut(void **list, uint32_t *left, unsigned cls, na_part_t *part);

/* Gives wholly free spans back, the last ones too; the bytes that went to the page heap. */
size_t na_span_list_trim(na_span_list_t *spans);

/* Gives all spans of a whole list back, whatever blocks of them are in use. */
void na_span_list_end(na_span_list_t *spans);

/* Makes the lists of a node; false: no memory. Idempotent; the caller holds the cache-list lock. */
bool na_central_init(unsigned node);
/* NULL: the node has no lists yet, or is the only one. */
na_inbox_t *na_central_inbox(unsigned node);

/* `tcache`: who puts or takes (its id); NA_OWNER_NONE, for the rest of a batch that was taken: it
 * may use all slots. False: no slot is to be had. */
bool na_transfer_put(unsigned node, unsigned cls, unsigned tcache, na_batch_t batch);
/* Thread caches take what others put there, of late. */
bool na_transfer_is_wanted(unsigned node, unsigned cls);
/* 0: there is none. */
na_batch_t na_transfer_take(unsigned node, unsigned cls, unsigned tcache);
/* Blocks of a pooled class as a list, at least one, aiming at `want`; NULL: no memory. */
void *na_central_take(unsigned node, unsigned cls, uint32_t want, bool may_grow, bool *untouched,
                      uint32_t *got);
/* Returns a list of `count` blocks (linked by na_block_next) of a pooled class to their spans; the
 * bytes of spans that went to the page heap for it. */
size_t na_central_give(unsigned node, unsigned cls, void *list, uint32_t count);

/* One block on a slow-tagged page, NULL: no memory. Given back by na_sampled_give. */
void *na_sampled_take(unsigned node, unsigned cls);
void na_sampled_give(na_span_t *span, void *block);

/* Batches that have lain in the transfer cache since the last call go to their spans. */
void na_transfer_decay(unsigned node);
/* Everything free goes back to the page heap. */
void na_central_trim(unsigned node);

void na_central_after_fork_child(void);

#endif
