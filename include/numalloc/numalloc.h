/* numalloc.h - what numalloc offers beyond the standard allocation functions.
 *
 * malloc, free and their kin are declared by <stdlib.h> and <malloc.h> as always; a program that is
 * only preloaded needs nothing from this header. All functions here are thread-safe. None may be
 * called from a signal handler unless its comment says so.
 *
 * A function that fills a structure takes the size that the caller gives it, sizeof the structure:
 * later versions append members; what the library does not know is zero. docs/interface.md has what
 * may change and when. */
#ifndef NUMALLOC_NUMALLOC_H
#define NUMALLOC_NUMALLOC_H

#include <stddef.h>
#include <stdint.h>

#include "numalloc/modes.h"

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

/* Totals of the process, bytes. A snapshot: other threads go on while it is taken. */
typedef struct numalloc_stats {
    uint64_t reserved;       /* address space reserved for regions and dedicated mappings */
    uint64_t committed;      /* of that, made accessible */
    uint64_t in_spans;       /* of that, in spans (handed out or cached) */
    uint64_t dirty;          /* free, but still holding memory of the system */
    uint64_t large;          /* of in_spans, in large blocks (each its own span) */
    uint64_t metadata;       /* the allocator's own tables, outside regions */
    uint64_t thread_caches;  /* ever made (at most the peak number of threads) */
    uint64_t purged;         /* bytes given back to the system so far */
    uint64_t leaked_by_fork; /* upper bound of blocks lost in forked children's foreign caches */
} numalloc_stats_t;

void numalloc_read_stats(numalloc_stats_t *stats, size_t size);

/* Figures by name: "allocated", "node.0.dirty", "class.48.cached", "option.limit". The table is
 * in libnumalloc(3). Writes a uint64_t to *value, and its size, 8, to *size, which is the room
 * there is; value NULL: the size only. 0; or -1: ENOENT, there is no such figure, node or class;
 * EINVAL, there is not enough room. A snapshot: other threads go on while it is taken. */
int numalloc_get(const char *name, void *value, size_t *size);

/* Sets one of the "option." figures, which may change while the program runs; a uint64_t. 0; or -1:
 * ENOENT; EPERM, it cannot be set, or not in this process; EINVAL, not such a value. */
int numalloc_set(const char *name, const void *value, size_t size);

/* The names that there are, from 0 on; NULL: no more. "N" and "SIZE" stand for numbers. Static.
 * `meaning`: one line; may be NULL. */
const char *numalloc_figure(size_t index, const char **meaning);

/* All figures as a JSON object: those of the process, and "nodes" and "classes", arrays of objects.
 * Returns its length; what does not fit into `size` bytes, with the NUL at the end, is cut off, so
 * that one more call with a larger `text` is needed. Does not allocate. */
size_t numalloc_stats_json(char *text, size_t size);

/* --- NUMA ---------------------------------------------------------------------------------------
 *
 * A program needs none of this to have its memory on the right nodes: malloc sees to that
 * (docs/numa.md). These functions are for memory that is to lie elsewhere than where it is
 * allocated, and for looking. All of them work on a machine with one node too, node 0 mostly.
 *
 * Nodes are the system's numbers, as in /sys/devices/system/node. "A usable node" is one with
 * memory that this process may use. Blocks are malloc's: free() and realloc() take them on any
 * thread; realloc may move one to the calling thread's node. Where the system refuses to place
 * memory (seccomp filters of containers), it lies where it is first touched, and
 * numalloc_read_node_stats says so. Sizes are bytes. */

/* Writes the numbers of the nodes that have, or had since the start, memory for this process, at
 * most `most` of them, to `nodes` (may be NULL if most is 0); returns how many there are, at least
 * 1. */
int numalloc_nodes(int *nodes, int most);

/* The usable node of the CPU that the calling thread runs on now: for a CPU on a node without
 * memory, the nearest one with. Async-signal-safe. */
int numalloc_current_node(void);

/* A block of `size` bytes on a node; up to 32 KiB it is rounded up to a multiple of 64 bytes.
 * NULL: EINVAL, `node` is not usable; ENOMEM. When the node is full the memory comes from the
 * nearest other one, as for malloc. */
void *numalloc_alloc_onnode(size_t size, int node);

/* A block on the node of the CPU that the calling thread runs on now, whatever node the thread is
 * served from (numalloc_set_thread_node, its own memory policy, or a move so recent that malloc has
 * not followed). NULL: ENOMEM. */
void *numalloc_alloc_local(size_t size);

/* A block whose system pages lie on the nodes of a set in turn: for what all threads use all the
 * time. `nodes` has `count` numbers; NULL and 0: all usable nodes. Takes a mapping of its own; a
 * block of at most one page (and any, when thousands of such mappings exist) lies whole on one
 * node, the nodes taking turns. realloc of a block with its own mapping keeps the turns as long as
 * the block stays larger than 32 KiB.
 * NULL: EINVAL, a node is not usable, or only one of `nodes` and `count` is zero; ENOMEM. */
void *numalloc_alloc_interleaved(size_t size, const int *nodes, size_t count);

/* The node that the allocator placed this address's block on; for memory that it left to the kernel
 * (large blocks with new memory, interleaved ones, threads with a policy of their own) or that was
 * migrated, the node that the page lies on, or if it holds no memory, the one that it was allocated
 * for. -1: no live block's memory, or nobody knows yet. Async-signal-safe. Any address. */
int numalloc_node_of(const void *address);

/* The node that the system page at `address`, of this process and not only of ours, lies on now, as
 * the kernel says. -1 and errno: ENOENT, no memory there yet; EFAULT, nothing mapped; EPERM or
 * ENOSYS, the kernel is not allowed to say. Async-signal-safe but for errno. Any address. */
int numalloc_page_node(const void *address);

/* What became of a block's system pages, in bytes; the sum is the size of all pages that hold the
 * block (malloc_usable_size, or 0 pages for a block that shares its pages with others). It stays as
 * it is. */
typedef struct numalloc_migration {
    size_t moved;     /* now on the node */
    size_t already;   /* were there */
    size_t untouched; /* hold no memory yet, and get it by the policy of the block's own place: for
                         blocks below 2 MiB the node they were allocated for; for larger ones where
                         they are touched, above 128 MiB the node. Up to Linux 6.5 also those
                         that NUMA balancing has hidden until they are used again, where it was
                         turned on after the program's start */
    size_t refused;   /* the kernel did not move them (pinned, no memory there, shared) */
    size_t shared; /* not whole: system pages, or huge pages, that also hold other blocks, or what
                      is outside of the range */
} numalloc_migration_t;

/* Moves a block of the program to a usable node, where it is: the address stays, whole system pages
 * move. So a block of at most 32 KiB, which shares pages with others, is not moved, ever: all of it
 * is `shared`. The block must not be freed or resized meanwhile; it may be used.
 * 0: all pages that hold memory are there. 1: not all, *result (may be NULL) says what is not.
 * -1: nothing was done: EINVAL, not a block's start or not a usable node; EPERM, ENOSYS or other
 * errors of move_pages. */
int numalloc_migrate(void *block, int node, numalloc_migration_t *result);

/* The same for `bytes` bytes from `start` on, anywhere in one block: for a block that one thread
 * fills and of which each of others then uses a part. Pages that lie wholly in the range are moved,
 * and the block's last one when the range goes to the block's end. What is left over at the ends is
 * `shared`, as is all of a block of at most 32 KiB. Huge pages move whole or not at all: where the
 * system makes them, parts should begin at multiples of 2 MiB. The block stays the node's that it
 * was allocated for (numalloc_page_node says where a page is); when it is freed, its memory goes
 * back to the system. 0: all of the range that holds memory is there. 1: not all. -1: EINVAL, not
 * wholly inside of one block, or not a usable node; EPERM, ENOSYS and others as above. */
int numalloc_migrate_range(void *start, size_t bytes, int node, numalloc_migration_t *result);

/* Copies of read-only data, one on every usable node that has CPUs. */
typedef struct numalloc_replicas numalloc_replicas_t;

/* Copies `size` bytes from `data`, which stays the caller's. The set is freed with
 * numalloc_free_replicas, by any thread. NULL: EINVAL, data is NULL or size 0; ENOMEM. */
numalloc_replicas_t *numalloc_replicate(const void *data, size_t size);

/* The copy on the calling thread's current node (or the nearest to it). A few instructions: ask
 * again rather than keep it for long. Lock-free, async-signal-safe. */
const void *numalloc_replica(const numalloc_replicas_t *replicas);

/* The copy on a node, or the nearest to it; NULL and EINVAL for a node that is not among
 * numalloc_nodes. */
const void *numalloc_replica_onnode(const numalloc_replicas_t *replicas, int node);

/* NULL is allowed. No copy may be in use any more. */
void numalloc_free_replicas(numalloc_replicas_t *replicas);

/* The calling thread is served from this node from now on, wherever it runs and whatever its memory
 * policy: malloc and all other functions but numalloc_alloc_local. Threads that it makes do not
 * inherit this. 0, or -1: EINVAL, not a usable node; ENOMEM, nothing changed; EAGAIN, the thread is
 * ending. */
int numalloc_set_thread_node(int node);
/* Ends that. 0, or -1: ENOMEM or EAGAIN as above. */
int numalloc_clear_thread_node(void);
/* The node set for the calling thread, -1: none. */
int numalloc_thread_node(void);

/* Figures of one node. Bytes, unless said otherwise. A snapshot; what running threads did last is
 * not in it: up to 256 blocks of a size class for each. */
typedef struct numalloc_node_stats {
    uint64_t live;         /* in blocks allocated for this node, wherever they lie */
    uint64_t cached;       /* in spans of this node beyond that: in caches, or not handed out yet */
    uint64_t in_spans;     /* of this node's memory, in spans, those of others' strays included */
    uint64_t dirty;        /* free, but still holding memory of the system */
    uint64_t committed;    /* accessible */
    uint64_t reserved;     /* of address space */
    uint64_t purged;       /* given back to the system so far */
    uint64_t strays;       /* now in spans for this node that lie on others, because it was full:
                              as placed here; what the kernel put elsewhere by itself (blocks over
                              128 MiB that outgrow their node) is not seen */
    uint64_t strays_total; /* the same, all that there ever were */
    uint64_t guests;       /* in spans that lie here, for other nodes that were full */
    uint64_t remote_frees; /* blocks of this node freed by threads of others, so far */
    uint64_t regions;      /* number of regions */
    int bound;             /* 1: all its regions are bound. 0: none is needed (one node), wanted
                              (NUMALLOC_NUMA) or granted: memory lies where it is first touched */
    int refused;           /* 1: the system refused to bind */
    int usable;            /* 1: the node has memory that this process may use now */
} numalloc_node_stats_t;

/* `node` is one of numalloc_nodes, or -1 for the memory of threads with a memory policy of their
 * own and of interleaved blocks. 0; or -1 and EINVAL. */
int numalloc_read_node_stats(int node, numalloc_node_stats_t *stats, size_t size);

/* --- Heaps of the program's own -----------------------------------------------------------------
 *
 * A heap has pages that no other blocks lie on: what belongs together lies close together, where
 * the program wants it, and goes all at once. Its blocks are blocks like any other: free(), of any
 * thread, takes them, and so do realloc() (a block that has to move stays in its heap),
 * malloc_usable_size(), numalloc_node_of() and profiles. Several threads may use a heap at the same
 * time. There may be 16,383 of them; one that is empty takes less than 1 KiB.
 *
 *     numalloc_heap_t *heap = numalloc_heap_create(&(numalloc_heap_options_t){.name = "graph"});
 *     node_t *node = numalloc_heap_malloc(heap, sizeof *node);
 *     ...
 *     numalloc_heap_destroy(heap);
 *
 * C++: <numalloc/heap.hpp> has a std::pmr::memory_resource and an allocator for containers. */
typedef struct numalloc_heap numalloc_heap_t;

/* Where its memory lies. On a machine with one node all are the same. */
typedef enum numalloc_heap_place {
    NUMALLOC_HEAP_LOCAL,       /* as malloc's: on the node of the thread that allocates */
    NUMALLOC_HEAP_NODE,        /* on `node` */
    NUMALLOC_HEAP_INTERLEAVED, /* page by page on `nodes` in turn */
    NUMALLOC_HEAP_FIRST_TOUCH, /* where each page is first written; pages of freed blocks stay where
                                * they lie until the system has them back; they have no policy of
                                * their own, so the kernel's NUMA balancing may move them */
    NUMALLOC_HEAP_NEAR,        /* on the nearest node that has processors, as seen from the thread
                                * that makes the heap */
    NUMALLOC_HEAP_FAR,         /* on the nearest node without (memory expanders); as NEAR if there
                                * is none */
    NUMALLOC_HEAP_CONSUMER     /* on the node of the threads that free its blocks, as soon as these
                                * have freed some hundred; until then as LOCAL */
} numalloc_heap_place_t;

#define NUMALLOC_HEAP_OWN_LINES  1u /* no two of its blocks share a cache line */
#define NUMALLOC_HEAP_HUGE_PAGES 2u /* the system is asked for huge pages, 2 MiB at a time */

/* All zero: as malloc's. */
typedef struct numalloc_heap_options {
    const char *name; /* NULL: none. The first 47 bytes count */
    numalloc_heap_place_t place;
    int node;          /* NUMALLOC_HEAP_NODE */
    const int *nodes;  /* NUMALLOC_HEAP_INTERLEAVED; NULL: all usable ones */
    size_t node_count; /* length of `nodes` */
    unsigned flags;    /* NUMALLOC_HEAP_OWN_LINES | ... */
    unsigned size;     /* 0: no members but these are used; else sizeof (numalloc_heap_options_t) */
} numalloc_heap_options_t;

/* A heap; `options` may be NULL. NULL: EINVAL, a node is not usable, an unknown place or flag, or a
 * member is used that the library does not know; ENOMEM, also when there are too many. */
numalloc_heap_t *numalloc_heap_create(const numalloc_heap_options_t *options);

/* As malloc, calloc, aligned_alloc and realloc. numalloc_heap_realloc of a block that is not of the
 * heap moves it there; size 0 frees it. Where another thread's fork takes long, what they give may
 * be a block of malloc's. */
void *numalloc_heap_malloc(numalloc_heap_t *heap, size_t size);
void *numalloc_heap_calloc(numalloc_heap_t *heap, size_t count, size_t size);
void *numalloc_heap_aligned(numalloc_heap_t *heap, size_t alignment, size_t size);
void *numalloc_heap_realloc(numalloc_heap_t *heap, void *block, size_t size);

/* Gives the heap's free pages back, and what the calling thread keeps of it. Bytes that became free
 * for other heaps or for the system. */
size_t numalloc_heap_trim(numalloc_heap_t *heap);

/* Frees all blocks of the heap, and the heap. No thread may use it or a block of it any more, nor
 * be freeing one just now. NULL is allowed. */
void numalloc_heap_destroy(numalloc_heap_t *heap);

/* The heap of a live block; NULL: it is malloc's, or no block of ours. */
numalloc_heap_t *numalloc_heap_of(const void *block);

/* Bytes. A snapshot. */
typedef struct numalloc_heap_stats {
    const char *name; /* as it was given, or ""; good as long as the heap */
    int node; /* that it is placed on; -1: on several, where it is touched, or not learned */
    int reserved;
    uint64_t live;     /* in blocks, and in what threads keep: of each size class up to 64 blocks
                        * and 32 KiB, which go back after a second without use */
    uint64_t large;    /* of that, in blocks of more than 32 KiB */
    uint64_t in_spans; /* in pages that are the heap's */
} numalloc_heap_stats_t;

void numalloc_heap_read_stats(numalloc_heap_t *heap, numalloc_heap_stats_t *stats, size_t size);

/* --- Leaks --------------------------------------------------------------------------------------
 *
 * Of a process that was started with NUMALLOC_LEAKS (docs/leaks.md). Weak with NUMALLOC_WEAK, as
 * the functions for profiling below. */
#ifdef NUMALLOC_WEAK
#define NUMALLOC_MAY_LACK __attribute__((weak))
#else
#define NUMALLOC_MAY_LACK
#endif

/* Blocks that are live, and their bytes as they were asked for. */
typedef struct numalloc_leaks {
    uint64_t lost_blocks, lost_bytes;           /* nothing leads to them */
    uint64_t indirect_blocks, indirect_bytes;   /* but other lost blocks */
    uint64_t reachable_blocks, reachable_bytes; /* the rest */
    uint64_t suppressed_blocks, suppressed_bytes;
    unsigned threads; /* that stood still meanwhile, the calling one among them */
    unsigned missed;  /* that could not be stopped: what only they hold counts as lost */
} numalloc_leaks_t;

/* Looks now. All other threads stand still meanwhile: a millisecond for each few MiB of blocks.
 * `report`: not 0: what is lost is also said on stderr, and is in the profile, if one is recorded.
 * 0, or -1: ENOTSUP, NUMALLOC_LEAKS is not set, or the system does not let itself be asked;
 * ECANCELED, the scan failed (said on stderr); EBUSY, the calling thread is inside the profiler;
 * ENOMEM. Not for signal handlers. */
NUMALLOC_MAY_LACK int numalloc_scan_leaks(numalloc_leaks_t *leaks, size_t size, int report);

/* --- Profiling ----------------------------------------------------------------------------------
 *
 * A program needs none of this to be profiled: NUMALLOC_PROFILE does that (docs/profiling.md).
 * These functions are for profiling a part of a run, and for telling the profiler what it cannot
 * know.
 *
 * A program that calls them and may also run without numalloc defines NUMALLOC_WEAK before it
 * includes this file, and calls through NUMALLOC_IF: without the library that is nothing, or the
 * value given.
 *
 *     #define NUMALLOC_WEAK
 *     #include <numalloc/numalloc.h>
 *     NUMALLOC_IF(numalloc_record_start, -1, (NUMALLOC_MODE_SITES, NULL));
 */
#define NUMALLOC_IF(function, otherwise, arguments) /* NOLINTNEXTLINE(*-macro-parentheses) */      \
    ((function) != NULL ? (function)arguments : (otherwise))

/* Begins a profile. Mode NUMALLOC_MODE_DEFAULT: as NUMALLOC_PROFILE says, else sites. `file`: name
 * pattern or directory as for NUMALLOC_PROFILE_FILE; NULL: as that says. Blocks from before are
 * "before profiling": their frees are counted as such and nowhere else. 0, or -1: EALREADY, a
 * profile is running; EINVAL, no such mode; ECANCELED, NUMALLOC_PROFILE_ONLY or _RANKS leaves this
 * process out, or it is about to end; EIO, the file cannot be made (said on stderr); EBUSY, a
 * thread is stopped inside the profiler; ENOMEM. */
NUMALLOC_MAY_LACK int numalloc_record_start(numalloc_mode_t mode, const char *file);

/* What else a profile may be asked for. */
typedef struct numalloc_record_options {
    size_t size; /* sizeof (numalloc_record_options_t) */
    numalloc_mode_t mode;
    const char *file; /* both as above */
    const char
        *settings; /* "access=watch,python=1": what libnumalloc(3) lists at NUMALLOC_PROFILE,
                    * for this profile alone; NULL, and the others: as the environment says */
} numalloc_record_options_t;

/* As numalloc_record_start. EINVAL also: no such setting or value, or a member is used that the
 * library does not know. */
NUMALLOC_MAY_LACK int numalloc_record_start_with(const numalloc_record_options_t *options);

/* Ends it: its file is complete. Another may be begun; each gets a file of its own, numbered where
 * the name is the same. 0, or -1: EALREADY, none is running; ENOMEM, EBUSY. */
NUMALLOC_MAY_LACK int numalloc_record_stop(void);

/* Copies the profile as it is at this moment to a file of its own, with the next number behind the
 * name; the profile goes on. Other threads wait at their next event meanwhile. 0, or -1: ENODATA,
 * none is running, or (in a forked child) nothing has happened yet; EIO, said on stderr; EBUSY,
 * ENOMEM. */
NUMALLOC_MAY_LACK int numalloc_record_dump(void);

/* 1: a profile is running. Async-signal-safe. */
NUMALLOC_MAY_LACK int numalloc_record_is_running(void);

/* The same three, carried out by the next slow path of any thread: after at most 256 allocations of
 * one size, or by the thread of NUMALLOC_BACKGROUND. Async-signal-safe. */
typedef enum numalloc_request {
    NUMALLOC_REQUEST_START = 1,
    NUMALLOC_REQUEST_STOP = 2,
    NUMALLOC_REQUEST_DUMP = 3
} numalloc_request_t;
NUMALLOC_MAY_LACK void numalloc_record_request(numalloc_request_t what);

/* What the running profile knows of a live block. */
typedef struct numalloc_site {
    const void *block; /* where it begins */
    uint64_t size;     /* bytes, as they were asked for */
    uint64_t age;      /* nanoseconds, in steps of 256 ticks of the processor's clock; those of some
                        * 20 days and more begin at 0 again */
    uint32_t stack;    /* of its allocation: numalloc_profile_site_stack of <numalloc/profile.h> */
    uint32_t thread;   /* that allocated it: id of numalloc_profile_thread */
    int32_t node;      /* of the CPU that allocated it */
    uint32_t reserved; /* 0 */
} numalloc_site_t;

/* The block that holds `address`, which may be any. 0; or -1, and nothing is written: no live block
 * that the running profile has recorded. (Mode sample records some of them.) What is said was true
 * at some moment of the call. There is no search: the time is that of a few reads of memory,
 * however many blocks there are, and longer only where caches do not hold what is read.
 * Async-signal-safe; errno stays. */
NUMALLOC_MAY_LACK int numalloc_find_site(const void *address, numalloc_site_t *site, size_t size);

/* Names this moment on the profile's time line (the first 47 bytes count). Nothing without a
 * profile. */
NUMALLOC_MAY_LACK void numalloc_record_marker(const char *name);

/* A program's own allocator, which takes large blocks or mappings and hands out parts of them, says
 * here what it hands out: the profile then has these blocks, too, as a kind of their own, with
 * their sites, live, peak and lifetimes, beside those of malloc, and accesses to one are accesses
 * to it. Announcing is all this does; no memory is allocated, and without a profile it costs a few
 * instructions. Pools are announced before or during a profile; blocks announced before it are not
 * in it. */
typedef struct numalloc_pool numalloc_pool_t;

/* A pool by a name (the first 95 bytes count). NULL: there are 4,096 already; the other functions
 * take NULL and do nothing. */
NUMALLOC_MAY_LACK numalloc_pool_t *numalloc_pool_create(const char *name);

/* The pool hands out `block`, of `size` bytes: to be called before others can know of it. */
NUMALLOC_MAY_LACK void numalloc_pool_alloc(numalloc_pool_t *pool, const void *block, size_t size);

/* The pool takes `block` back: to be called before it can be handed out again. NULL is allowed. */
NUMALLOC_MAY_LACK void numalloc_pool_free(numalloc_pool_t *pool, const void *block);

/* The pool and all that is live in it ends. */
NUMALLOC_MAY_LACK void numalloc_pool_destroy(numalloc_pool_t *pool);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#ifndef NUMALLOC_NO_DEPRECATED
#include "numalloc/deprecated.h"
#endif

#endif
