/* span_list.h - the spans of one size class that one owner draws blocks from.
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
#ifndef NUMALLOC_ALLOC_CENTRAL_SPAN_LIST_H
#define NUMALLOC_ALLOC_CENTRAL_SPAN_LIST_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/central/mixed.h"
#include "alloc/page/chunk.h"
#include "alloc/sys/base.h"
#include "pagemap/span.h"

#define NA_SPAN_LIST_LISTS  8u
#define NA_SPAN_LIST_SPARSE 3u /* spans on the first lists are */

#define NA_SPAN_LIST_FULL NA_SPAN_LIST_LISTS

typedef struct na_span_list {
    union {
        na_span_t *partial[NA_SPAN_LIST_LISTS];
        na_span_t *lists[NA_SPAN_LIST_LISTS + 1]; /* full ones last */
    };
    uint32_t count;  /* spans: all, full ones included */
    uint32_t takes;  /* how often blocks were taken */
    uint32_t sparse; /* spans on the first NA_SPAN_LIST_SPARSE lists */
    bool whole;
} na_span_list_t;

/* How new spans of a list are made: the owner's part of what a span is. */
typedef struct na_span_kind {
    uint8_t cls;
    uint8_t node;
    uint16_t owner;
    bool sampled;
    bool *untouched;     /* not NULL: new blocks of more than a page come one by one, and are not
                          * written to; set if that one reads as zero */
    na_chunks_t *chunks; /* where their pages come from; NULL: from the node's page heap */
} na_span_kind_t;

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

/* Of a list of so many blocks of a class that such a kind gave. */
NA_INLINE bool na_span_list_is_untouched(unsigned cls, uint32_t count) {
    return count == 1 && !na_class_fills(cls);
}

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
size_t na_span_list_give(na_span_list_t *spans, const na_part_t *part, unsigned cls);
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

/* Opens the sparsest span to all classes, as one of the mixer (mixed.h); false: none is sparse. */
bool na_span_list_open(na_span_list_t *spans, na_mixer_t *mixer);

/* Gives wholly free spans back, the last ones too; the bytes that went to the page heap. */
size_t na_span_list_trim(na_span_list_t *spans);

/* Gives all spans of a whole list back, whatever blocks of them are in use. */
void na_span_list_end(na_span_list_t *spans);

#endif
