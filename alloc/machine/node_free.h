/* node_free.h - how much memory of a node is left, as the system counts it.
 *
 * Reads /sys/devices/system/node/nodeN/meminfo, which takes some 20 us: for slow paths that come by
 * every few MiB, never for every allocation. Thread-safe, async-signal-safe. */
#ifndef NUMALLOC_ALLOC_MACHINE_NODE_FREE_H
#define NUMALLOC_ALLOC_MACHINE_NODE_FREE_H

#include <stdint.h>

#define NA_NODE_FREE_UNKNOWN UINT64_MAX

/* Bytes that can still be taken on a dense node before the kernel begins to place pages elsewhere:
 * it keeps a reserve free on each. NA_NODE_FREE_UNKNOWN: the system does not say. */
uint64_t na_node_free(unsigned node);

/* The same from the text of the file. */
uint64_t na_node_free_parse(const char *meminfo);

#endif
