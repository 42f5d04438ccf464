/* chunk.h - pages that are placed otherwise than a node's: in turn on several nodes, or as huge
 * pages.
 *
 * A region is bound as a whole, so what is to lie otherwise has mappings of its own. A chunk is
 * one of 2 MiB, on a boundary of 2 MiB, about which the system is told once, before it is touched.
 * Its pages are handed out as runs, by a bitmap:
 *
 *   chunks (of one heap)  -> chunk -> chunk -> ...
 *                            used  1110111000...      1: in a span
 *                            held  1110111110...      1: was in a span since it was last given back
 *
 * A chunk that is wholly free is unmapped, but for one; na_chunks_trim unmaps that, too, and gives
 * the memory of all free pages back. What a process maps this way counts against its 65,530
 * mappings: no more than NA_CHUNKS_MOST chunks are made, in all heaps together.
 *
 * The chunks of one owner are changed under its lock (alloc/heaps/heap.h). */
#ifndef NUMALLOC_ALLOC_HEAPS_CHUNK_H
#define NUMALLOC_ALLOC_HEAPS_CHUNK_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NA_CHUNKS_MOST 16384u /* 32 GiB */

typedef struct na_chunk na_chunk_t;

/* Valid when all zero, but for what says how they lie: constant since before the first one. */
typedef struct na_chunks {
    na_chunk_t *first;
    na_chunk_t *unused;    /* structs of those that were unmapped */
    const uint64_t *turns; /* their pages lie on these nodes of the system in turn, a bit each;
                            * NULL: on `node` */
    uint8_t node;          /* dense node, or NA_NODE_ANY: where they are first touched */
    bool huge;             /* as huge pages */
} na_chunks_t;

/* From now on lists of spans may name chunks (na_chunk_source). */
void na_chunks_attach(void);
/* Gives the memory of free pages back; bytes. */
size_t na_chunks_trim(na_chunks_t *chunks);

/* Of the chunks of a node (NA_NODE_ANY: of those that lie on several, too): bytes that are mapped,
 * and those of them in spans. */
uint64_t na_chunks_mapped(unsigned node);
uint64_t na_chunks_used(unsigned node);

#endif
