/* tree.h - the tree of call stacks, shared by all threads, in the file.
 *
 * A node is (parent, frame, flags); there is one of each, for ever. Threads keep what they met of
 * it in front (stacks.c), so most stacks do not come here. */
#ifndef NUMALLOC_PROFILER_RECORD_STACKS_TREE_H
#define NUMALLOC_PROFILER_RECORD_STACKS_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "profiler/format/nprof.h"
#include "profiler/format/nprof_python.h"

/* A node with this pc is a native stack, its parent, and Python frames. Where those are not read,
 * code may lie at addresses with such bits (aarch64). */
NA_INLINE bool na_tree_is_pair(uint64_t pc) {
#if defined(__x86_64__)
    return na_nprof_is_py_pair(pc);
#else
    (void)pc;
    return false;
#endif
}

/* Begins with the root alone, in the file that has just been opened. False: no memory, or disk. */
bool na_tree_start(void);

/* A stack's hash, from its parent's (NA_TREE_ROOT_PATH: the root's). The tree, and what stands in
 * front of it, look for a node where its path says. The ids of the nodes on the way need not be
 * known for that, so that all of a stack's look-ups can be under way at one time. */
#define NA_TREE_ROOT_PATH 0u
NA_INLINE uint32_t na_tree_path(uint32_t parent_path, uint64_t pc) {
    uint64_t h = (pc ^ (uint64_t)parent_path << 32 ^ parent_path) * UINT64_C(0x9e3779b97f4a7c15);
    return (uint32_t)(h >> 32);
}

/* The child of `parent`, whose path is `path`; else like na_tree_child. */
uint32_t na_tree_child_at(uint32_t path, uint32_t parent, uint64_t pc, uint32_t flags);
/* It will be asked for. */
void na_tree_expect(uint32_t path);

/* The child of `parent` with this frame (`flags`: NA_NPROF_STACK_*, less VALID), made if need be.
 * 0: no room. Thread-safe; takes no lock where the node is there. */
uint32_t na_tree_child(uint32_t parent, uint64_t pc, uint32_t flags);

/* All ids so far are below it. */
uint32_t na_tree_bound(void);

/* Of an id that na_tree_child returned. */
const na_nprof_stack_t *na_tree_node(uint32_t id);

#endif
