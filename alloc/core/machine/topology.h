/* topology.h - which nodes there are, which cpu is on which, how far apart they lie.
 *
 * Node numbers of the system are sparse; inside, nodes are dense indices 0..na_node_count-1 over
 * the online nodes that have memory this process may use (sysfs intersected with Mems_allowed).
 * NA_NODE_ANY is the pseudo-node: regions that are not bound, for threads whose own memory policy
 * must win. A cpu on a node without (allowed) memory maps to the nearest node that has both memory
 * and cpus. A node without cpus (CXL, HBM) is only a place to fall back to, unless no usable node
 * has cpus of its own: then the nearest one takes the cpus and counts as having them.
 *
 * Read at start-up with raw system calls; without /sys (or /proc) there is one node, 0. On a
 * machine with one node nothing is read beyond what says so, and nothing is ever read again.
 * Elsewhere (also where a cpuset leaves the process one node: it may be changed) na_topology_poll
 * looks now and then whether memory, cpus or the cpuset have changed: a node that gets memory gets
 * the next index, one that loses it keeps its index and is not usable meanwhile. The tables are
 * read without locks, from anywhere, signal handlers included; while they are being rewritten a
 * reader may see a cpu's old node or an order of nodes that names one twice, never anything that is
 * not a node. */
#ifndef NUMALLOC_ALLOC_CORE_MACHINE_TOPOLOGY_H
#define NUMALLOC_ALLOC_CORE_MACHINE_TOPOLOGY_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NA_MAX_NODES                                                                               \
    64 /* dense nodes served apart; on larger machines the rest fold onto the nearest */
#define NA_NODE_ANY                                                                                \
    NA_MAX_NODES /* the pseudo-node; arrays by node have NA_MAX_NODES + 1 places                   \
                  */
#define NA_MAX_CPUS      8192
#define NA_CPULIST_BYTES 32768 /* a list with every other of them fits */

/* 1: built for machines with one node only (-DNUMALLOC_NUMA=OFF). Every question below is answered
 * at compile time then, and what only several nodes need is compiled out: small devices, and the
 * measure of what NUMA costs where there is none (tests/programs/one_node.sh). */
#ifndef NA_ONE_NODE
#define NA_ONE_NODE 0
#endif

#if !NA_ONE_NODE

extern unsigned na_node_count; /* only grows */
/* There are several nodes, or there is one now and another may get memory, or be allowed. */
extern bool na_node_many;
/* There are several nodes, and when this was read the kernel moved pages without a policy to the
 * nodes of who uses them (kernel.numa_balancing). */
extern bool na_node_balanced;

void na_topology_init(const char *sysfs_root, const char *proc_root); /* NULL, NULL: /sys, /proc */
/* As if the machine had one node. Right after na_topology_init only. */
void na_topology_ignore(void);
/* Looks for changes, at most once a second (`now`: na_os_ms) and by one thread; cheap otherwise.
 * Returns true if there were any, or a node waits to be taken back. Callers are behind their heap's
 * gate, so that no fork comes in the middle. */
bool na_topology_poll(uint64_t now);
/* Nodes (a bit each) that were known, were not usable for a time and are usable again, since the
 * last call. Where the memory went that they had, the kernel alone knows. */
uint64_t na_topology_take_back(void);
/* The node's memory could not be bound anew: it will be among those of a later call, and the next
 * look returns true, a bounded number of times. */
void na_topology_not_yet(unsigned node);

/* Dense node of a cpu. NA_NODE_ANY: it is not known, it came after the last look (the next poll
 * looks for it), or has too high a number. */
unsigned na_node_of_cpu(unsigned cpu);
/* The system's number of a dense node; UINT32_MAX for the pseudo-node. */
unsigned na_node_system_id(unsigned node);
/* Dense node of a system's number, -1: none. */
int na_node_dense(unsigned system_id);
/* The i-th nearest node to `node`, itself first (i < na_node_count); CPU-less ones included, nodes
 * that are not usable last. For the pseudo-node all are equally near: i. */
unsigned na_node_nearest(unsigned node, unsigned i);
bool na_node_has_cpus(unsigned node);
/* The node has memory, and this process may use it. */
bool na_node_usable(unsigned node);
/* Dense node of the cpu this thread runs on. */
unsigned na_node_current(void);
/* Path of a file about a dense node: /sys/devices/system/node/nodeN + tail. */
void na_topology_path(char *path, size_t size, unsigned node, const char *tail);

#else

#define na_node_count    1u
#define na_node_many     false
#define na_node_balanced false
static inline void na_topology_init(const char *sysfs_root, const char *proc_root) {
    (void)sysfs_root, (void)proc_root;
}
static inline void na_topology_ignore(void) {}
static inline bool na_topology_poll(uint64_t now) {
    return (void)now, false;
}
static inline void na_topology_not_yet(unsigned node) {
    (void)node;
}
static inline uint64_t na_topology_take_back(void) {
    return 0;
}
static inline unsigned na_node_system_id(unsigned node) {
    return node == 0 ? 0 : UINT32_MAX;
}
static inline int na_node_dense(unsigned system_id) {
    return system_id == 0 ? 0 : -1;
}
static inline unsigned na_node_nearest(unsigned node, unsigned i) {
    return (void)node, i;
}
static inline bool na_node_has_cpus(unsigned node) {
    return node == 0;
}
static inline bool na_node_usable(unsigned node) {
    return node == 0;
}
static inline unsigned na_node_of_cpu(unsigned cpu) {
    return (void)cpu, 0;
}
static inline unsigned na_node_current(void) {
    return 0;
}
static inline void na_topology_path(char *path, size_t size, unsigned node, const char *tail) {
    (void)node, (void)tail;
    if (size > 0) *path = 0; /* no such file */
}
#endif

/* The nodes and the pseudo-node in turn:
 * for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) */
static inline unsigned na_node_next(unsigned node) {
    return node + 1 < na_node_count || node >= NA_NODE_ANY ? node + 1 : NA_NODE_ANY;
}

#endif
