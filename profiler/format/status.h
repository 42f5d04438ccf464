/* status.h - the page that a process keeps for others to read (NUMALLOC_PUBLISH): its figures
 * (alloc/api/figures.def), without a profile, and without any right to trace it.
 *
 * A file of 4 KiB, where there are more nodes than that has room for 12, numalloc.PID.status, which
 * the process maps and writes on slow paths of malloc, and unlinks when it ends; one that was
 * killed leaves it. `pid` and `born` say whose it is.
 *
 * To read it, read `sequence` (again while it is odd), an acquire fence, all, an acquire fence, and
 * `sequence` again: if it changed, begin anew. The writer is one thread at a time. Figures are in
 * the order of the table, to which later versions append: `figures` and `node_figures` say how many
 * there are. */
#ifndef NUMALLOC_PROFILER_FORMAT_STATUS_H
#define NUMALLOC_PROFILER_FORMAT_STATUS_H

#include <stddef.h>
#include <stdint.h>

#define NA_STATUS_MAGIC   "numalloc status" /* with its NUL */
#define NA_STATUS_VERSION 1u
#define NA_STATUS_SIZE    4096u  /* of a file with NA_STATUS_NODES_FEW nodes, at most */
#define NA_STATUS_MOST    12288u /* of any other */

#define NA_STATUS_DIRECTORY "/dev/shm"
#define NA_STATUS_PREFIX    "numalloc."
#define NA_STATUS_SUFFIX    ".status"

/* Room. */
enum {
    NA_STATUS_FIGURES = 48,
    NA_STATUS_NODES_FEW = 28,
    NA_STATUS_NODES = 65, /* those of topology.h, and -1 */
    NA_STATUS_NODE_FIGURES = 15
};

typedef struct na_status_node {
    int64_t id; /* the system's number; -1: placed by no node */
    uint64_t figures[NA_STATUS_NODE_FIGURES];
} na_status_node_t;

typedef struct na_status {
    char magic[16];
    uint32_t version;
    _Atomic(uint32_t) sequence; /* odd: is being written */
    uint32_t pid;               /* in its own namespace, whose number is */
    uint32_t nodes;             /* that are here: the first ones */
    uint64_t pid_namespace;     /* the inode of /proc/self/ns/pid; 0: not known */
    uint64_t born;              /* field 22 of /proc/PID/stat; 0: not known */
    uint64_t written_ns;        /* CLOCK_MONOTONIC */
    uint32_t figures, node_figures;
    char program[64]; /* cut off, ends with a NUL */
    uint64_t process[NA_STATUS_FIGURES];
    na_status_node_t node[NA_STATUS_NODES];
} na_status_page_t;

_Static_assert(sizeof(na_status_page_t) <= NA_STATUS_MOST &&
                   offsetof(na_status_page_t, node[NA_STATUS_NODES_FEW]) <= NA_STATUS_SIZE,
               "");

#endif
