/* numalloc.h - what numalloc offers beyond the standard allocation functions.
 *
 * malloc, free and their kin are declared by <stdlib.h> and <malloc.h> as always; a program that is
 * only preloaded needs nothing from this header. All functions here are thread-safe. None may be
 * called from a signal handler unless its comment says so. */
#ifndef NUMALLOC_H
#define NUMALLOC_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define NUMALLOC_VERSION_MAJOR 0
#define NUMALLOC_VERSION_MINOR 1
#define NUMALLOC_VERSION_PATCH 0

/* "0.1.0": the version of the library that is loaded, which may differ from the header's. Static.
 */
const char *numalloc_version(void);

/* Gives free memory back to the system now: the calling thread's cache, the central lists and the
 * page heaps of every node, keeping at most `keep` bytes of free memory. Returns the bytes given
 * back. Other threads' caches stay theirs. malloc_trim() is the same with the glibc result. */
size_t numalloc_trim(size_t keep);

/* The node whose memory the block at `block` was placed on by this allocator (the system's id, not
 * an index), or -1 when the address belongs to no live span of ours. */
int numalloc_node_of(const void *block);

/* Totals of the process, bytes. A snapshot: other threads go on while it is taken. */
typedef struct numalloc_stats {
    uint64_t reserved;       /* address space reserved for regions and dedicated mappings */
    uint64_t committed;      /* of that, made accessible */
    uint64_t in_spans;       /* of that, in spans (handed out or cached) */
    uint64_t dirty;          /* free, but still holding memory of the system */
    uint64_t large;          /* of in_spans, in large blocks (each its own span) */
    uint64_t metadata;       /* the allocator's own tables, outside regions */
    uint64_t heaps;          /* heaps ever made (at most the peak number of threads) */
    uint64_t purged;         /* bytes given back to the system so far */
    uint64_t leaked_by_fork; /* upper bound of blocks lost in forked children's foreign caches */
} numalloc_stats_t;

void numalloc_get_stats(numalloc_stats_t *stats);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
