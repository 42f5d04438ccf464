/* lab.h - what the programs of the lab share: the machine's nodes, tables of live blocks, and the
 * judge of where they lie.
 *
 * The judge is the kernel: move_pages without target nodes says where each page lies (or
 * /proc/self/numa_maps, where move_pages is refused). What the allocator says of itself is never
 * asked for placement. Nothing here calls malloc but lab_make and lab_no_balancing, so that every
 * block judged is the test's own and every call to the allocator is made on purpose. */
#ifndef NUMALLOC_TESTS_LAB_LAB_H
#define NUMALLOC_TESTS_LAB_LAB_H

#include "support/check.h"

#include <pthread.h>
#include <sched.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define LAB_NODES       64
#define NA_COUNT(array) (sizeof(array) / sizeof((array)[0]))

typedef struct lab_node {
    int id;                  /* the system's number */
    int cpu;                 /* its first CPU, -1: none that this process may use */
    bool memory;             /* it has memory that this process may use */
    uint64_t total;          /* bytes of memory */
    int distance[LAB_NODES]; /* to the i-th node of the table */
} lab_node_t;

/* The nodes that are online, by ascending number; read from /sys once by lab_begin. */
extern lab_node_t lab_node[LAB_NODES];
extern int lab_nodes;

/* First call of every program, after check_begin. Reads the machine; skips the test unless it has
 * at least this many nodes with memory and CPUs. */
void lab_begin(int nodes_wanted);
/* Reads it again: cpusets changed, memory was plugged. */
void lab_read_nodes(void);

/* Table index of a system's number, -1: none. */
int lab_index(int id);
/* Table index of the nearest node with memory (itself if it has any). Ties: the lower number. */
int lab_home(int index);
uint64_t lab_free_bytes(int index);

/* Turns the kernel's NUMA balancing off, in the whole machine, if that is of the lab. For tests
 * of memory that has no policy of its own: balancing moves its pages, and hides them from the
 * judge. (Up to Linux 6.5 move_pages says of a page that waits for its hinting fault that it has no
 * memory; if the page is huge, by EFAULT.) The allocator has begun before, and found it as it was:
 * its blocks are placed as on a machine that balances. */
void lab_no_balancing(void);

/* Binds the calling thread to the node's CPU. */
void lab_pin(int index);
void lab_sleep_ms(unsigned ms);
uint64_t lab_now_ms(void);
uint64_t lab_rss(void); /* bytes resident in anonymous memory of this process */

/* Memory from the kernel, zeroed, never from malloc. */
void *lab_map(size_t bytes);

/* A generator of numbers, one a thread. */
uint64_t lab_random(uint64_t *state);

typedef struct lab_block {
    unsigned char *start; /* NULL: the slot is free */
    size_t size;
    bool fresh; /* allocated since the mark that the test set */
} lab_block_t;

/* Allocates and writes to every page of it. */
void lab_make(lab_block_t *block, size_t size);
/* Checks what lab_make wrote, and frees. */
void lab_drop(lab_block_t *block);

/* Resident pages under blocks, by node. */
typedef struct lab_pages {
    uint64_t on[LAB_NODES]; /* by table index */
    uint64_t elsewhere;     /* on nodes that are not in the table */
    uint64_t absent;        /* not resident */
    uint64_t total;         /* resident */
} lab_pages_t;

/* Adds the pages of the blocks (of the fresh ones only, if asked for), each page once. Ends the
 * test if the kernel refuses to say. */
void lab_judge(const lab_block_t *blocks, size_t count, bool fresh_only, lab_pages_t *pages);

/* The same judgement from /proc/self/numa_maps, which tells of whole mappings: the pages of each
 * mapping that any of the blocks lies in, all of them, by node. */
void lab_judge_by_maps(const lab_block_t *blocks, size_t count, lab_pages_t *pages);

/* Number of mappings of this process. */
unsigned lab_mappings(void);

/* Checks that all pages counted lie on the node, and there are some; `what` and the figures are
 * printed either way. */
void lab_expect_on(const lab_pages_t *pages, int index, const char *what);

/* The exit status of main: check.h counts failures for each source file apart. */
int lab_status(int own_status);

/* What the allocator says of a node, for tests of its counters (never of placement). False when it
 * is not numalloc or the node is not one of its. */
#include <numalloc/numalloc.h>
bool lab_node_stats(int index, uint64_t *strays_total, int *bound, int *refused);

/* Asks the host for memory in this node and waits until the kernel has it. */
void lab_plug(int index, unsigned mebibytes);
/* Asks it for a processor of the node with this number, and switches it on. Its number. */
int lab_plug_cpu(int id);

/* Loads the kernel module NA_KMOD, with its sources for tests, if it is not there. Skips the test
 * if it is built for another kernel. */
void lab_load_module(void);

/* One thread for each of `count` places, all running `run(argument, i)`; returns when all are done.
 */
void lab_team(int count, void (*run)(void *argument, int number), void *argument);
/* The same; the caller is the first of them. */
void lab_team_here(int count, void (*run)(void *argument, int number), void *argument);

#endif
