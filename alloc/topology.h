/* topology.h - which nodes there are, which cpu is on which, how far apart they lie.
 *
 * Node numbers of the system are sparse; inside, nodes are dense indices 0..na_node_count-1 over
 * the online nodes that have memory this process may use (sysfs intersected with Mems_allowed).
 * Index na_node_count is the pseudo-node: regions that are not bound, for threads whose own memory
 * policy must win. A cpu on a node without (allowed) memory maps to the nearest node that has both
 * memory and cpus. A node without cpus (CXL, HBM) is only a place to fall back to, unless no usable
 * node has cpus of its own: then the nearest one takes the cpus and counts as having them.
 *
 * Read once, with raw system calls; without /sys (or /proc) there is one node, 0. On a machine with
 * one node nothing is read beyond what says so. Immutable afterwards: safe from anywhere. */
#ifndef NUMALLOC_ALLOC_TOPOLOGY_H
#define NUMALLOC_ALLOC_TOPOLOGY_H

#include <stdbool.h>
#include <stdint.h>

#define NA_MAX_NODES                                                                               \
    64 /* dense nodes served apart; on larger machines the rest fold onto the nearest */
#define NA_MAX_CPUS 8192

extern unsigned na_node_count;

void na_topology_init(const char *sysfs_root, const char *proc_root); /* NULL, NULL: /sys, /proc */

/* Dense node of a cpu; 0 for a cpu that is not known. */
unsigned na_node_of_cpu(unsigned cpu);
/* The system's number of a dense node; UINT32_MAX for the pseudo-node. */
unsigned na_node_system_id(unsigned node);
/* Dense node of a system's number, -1: none. */
int na_node_dense(unsigned system_id);
/* The i-th nearest node to `node`, itself first (i < na_node_count); CPU-less ones included. For
 * the pseudo-node all are equally near: i. */
unsigned na_node_nearest(unsigned node, unsigned i);
bool na_node_has_cpus(unsigned node);
/* Dense node of the cpu this thread runs on. */
unsigned na_node_current(void);

#endif
