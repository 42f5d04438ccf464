/* tree.h - the tree of call stacks, shared by all threads, in the file.
 *
 * A node is (parent, frame, flags); there is one of each, for ever. Threads keep what they met of
 * it in front (stacks.c), so most stacks do not come here. */
#ifndef NUMALLOC_RECORD_TREE_H
#define NUMALLOC_RECORD_TREE_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/nprof.h"

/* Begins with the root alone, in the file that has just been opened. False: no memory, or disk. */
bool na_tree_start(void);

/* The child of `parent` with this frame (`flags`: NA_NPROF_STACK_*, less VALID), made if need be.
 * 0: no room. Thread-safe; takes no lock where the node is there. */
uint32_t na_tree_child(uint32_t parent, uint64_t pc, uint32_t flags);

/* All ids so far are below it. */
uint32_t na_tree_bound(void);

/* Of an id that na_tree_child returned. */
const na_nprof_stack_t *na_tree_node(uint32_t id);

#endif
