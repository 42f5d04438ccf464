/* nprof_access.h - the chunks of access profiles: samples of who touched what from where, and the
 * tables that they refer to. See nprof.h for the rules; docs/profile-format.md has this in words.
 *
 * All chunks here have no owner and are written by one thread, the recorder's, so entries of a
 * table are complete when chunk.count says that they are there (release); fields marked "changes"
 * are written atomically later. Times are ns since the start of the profile. Nodes are dense
 * indices (header.node_ids), -1: not known. Ids begin with 1; 0: none. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_ACCESS_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_ACCESS_H

#include "profiler/format/nprof.h"

/* chunk.type; 40 to 47 are reserved for the same end */
#define NA_NPROF_ACCESS_SOURCES  32u
#define NA_NPROF_ACCESS_NODES    33u
#define NA_NPROF_ACCESS_THREADS  34u
#define NA_NPROF_ACCESS_MAPPINGS 35u
#define NA_NPROF_ACCESS_OBJECTS  36u
#define NA_NPROF_ACCESS_WINDOWS  37u
#define NA_NPROF_ACCESS_SAMPLES  38u
#define NA_NPROF_ACCESS_PROBES   39u

/* All entries end with a checksum (nprof_check.h). Older files lack it; it lies where an entry of
 * ACCESS_OBJECTS always had room, and makes the others longer. */
#define NA_NPROF_ACCESS_CHECK 8u

#define NA_NPROF_NO_NODE  (-1)
#define NA_NPROF_NS_STILL UINT64_MAX /* an end that has not come, or is not known */

/* What took the samples. */
typedef enum na_nprof_source {
    NA_NPROF_SOURCE_KMOD_IBS = 1, /* AMD IBS through the module */
    NA_NPROF_SOURCE_PERF_IBS = 2, /* AMD IBS through perf_event_open */
    NA_NPROF_SOURCE_PEBS = 3,     /* Intel: loads and stores */
    NA_NPROF_SOURCE_WATCH = 4,    /* hardware watchpoints through perf_event_open */
    NA_NPROF_SOURCE_NUMA = 5,     /* NUMA hinting faults */
    NA_NPROF_SOURCE_FAULT = 6,    /* page faults */
    NA_NPROF_SOURCE_KMOD_FAULT = 7,
    NA_NPROF_SOURCE_KMOD_WATCH = 8, /* one fixed address, by the module */
    NA_NPROF_SOURCE_KMOD_SIM = 9,   /* made up: tests */
    NA_NPROF_SOURCE_SPE = 10,       /* Arm: loads and stores */
    NA_NPROF_SOURCE_KINDS = 11,
} na_nprof_source_t;

/* What weights count. Weights of different units belong in no sum. */
typedef enum na_nprof_unit_kind {
    NA_NPROF_UNIT_OPS = 1,      /* micro-operations executed, of all kinds */
    NA_NPROF_UNIT_CYCLES = 2,   /* in which a micro-operation was tagged */
    NA_NPROF_UNIT_LOADS = 3,    /* loads at or above a latency: shares, no absolute numbers */
    NA_NPROF_UNIT_STORES = 4,   /* stores */
    NA_NPROF_UNIT_ACCESSES = 5, /* estimated from windows: all accesses to heap blocks */
    NA_NPROF_UNIT_SCANS = 6,    /* first touches of a page after the kernel unmapped it */
    NA_NPROF_UNIT_FAULTS = 7,   /* page faults */
    NA_NPROF_UNIT_MADE_UP = 8,  /* tests */
    NA_NPROF_UNIT_KINDS = 9,
} na_nprof_unit_kind_t;

/* ACCESS_SOURCES: every source that was considered, the best first; id = first_id + i. */
#define NA_NPROF_ACCESS_VALID   1u
#define NA_NPROF_ACCESS_USED    2u  /* samples came from it; else `why` says why not */
#define NA_NPROF_ACCESS_OP      4u  /* tells reads from writes */
#define NA_NPROF_ACCESS_LEVEL   8u  /* tells what answered */
#define NA_NPROF_ACCESS_LATENCY 16u /* gives latencies (at least of loads that missed) */
#define NA_NPROF_ACCESS_HOME                                                                       \
    32u /* knows the page's node at the time of the access; else it was                            \
         * asked for later, in batches */
#define NA_NPROF_ACCESS_STACK   64u  /* gives call chains */
#define NA_NPROF_ACCESS_EXACT   128u /* ip is the accessing instruction; else it is near it */
#define NA_NPROF_ACCESS_MADE_UP 256u /* no real accesses: tests */
#define NA_NPROF_ACCESS_SKID    512u /* ip is the instruction after the accessing one */

typedef struct na_nprof_access_source {
    uint32_t source;           /* na_nprof_source_t */
    uint32_t flags;            /* changes: USED */
    uint32_t unit;             /* na_nprof_unit_kind_t */
    uint32_t cost;             /* WATCH: per cent of a thread's time, at most; 0: not known */
    uint64_t period;           /* of `unit`; 0: does not apply */
    uint64_t start_ns, end_ns; /* changes: end_ns; NS_STILL: to the end */
    /* All below change. Every sample that the source made is stored, or in exactly one of the
     * counters from lost to filtered. */
    uint64_t stored;
    uint64_t lost;          /* no room: in the source's buffers, or in the file */
    uint64_t impossible;    /* addresses that no program can have */
    uint64_t filtered;      /* no access, not of this process, of the library's own threads and
                             * tables, or not of what was asked for */
    uint64_t unresolved;    /* stored, on heap memory, but which block it was is not known */
    uint64_t throttled;     /* times that the kernel paused the source */
    uint64_t dram;          /* stored, and answered by memory */
    uint64_t enabled_ns;    /* time that its counters were on, summed over them */
    uint64_t running_ns;    /* and that they counted: less where the hardware was shared */
    uint64_t windows;       /* source WATCH: windows that ended */
    uint64_t unarmed;       /* counters that could not be had (threads, CPUs, watchpoints) */
    uint64_t homes_asked;   /* pages whose node was asked for, and of those */
    uint64_t homes_unknown; /* the ones without an answer */
    uint64_t reserved2[6];
    char why[320]; /* not USED: why not, and what would help. USED: empty, or a limitation */
    uint64_t check;
} na_nprof_access_source_t;

_Static_assert(sizeof(na_nprof_access_source_t) == 512 + NA_NPROF_ACCESS_CHECK, "");

/* ACCESS_NODES: entry i is dense node i (first_id is 0). */
typedef struct na_nprof_access_node {
    uint32_t kernel_id;
    uint32_t cpus;         /* online at the start */
    uint64_t memory_bytes; /* 0: none, or not known */
    uint8_t distance[64];  /* to dense node j as the firmware says (local: 10); 0: not known */
    uint64_t check;
} na_nprof_access_node_t;

_Static_assert(sizeof(na_nprof_access_node_t) == 80 + NA_NPROF_ACCESS_CHECK, "");

/* ACCESS_THREADS: threads that made accesses, also ones that never allocated. id = first_id + i. */
typedef struct na_nprof_access_thread {
    uint32_t tid;
    uint32_t thread; /* id in THREADS; 0: has none */
    uint64_t first_ns;
    uint64_t last_ns;               /* of its samples; changes */
    uint64_t stack_low, stack_high; /* where its stack is, as far as known; 0: not */
    uint64_t samples;               /* changes */
    char name[16];                  /* changes */
    uint64_t check;
} na_nprof_access_thread_t;

_Static_assert(sizeof(na_nprof_access_thread_t) == 64 + NA_NPROF_ACCESS_CHECK, "");

/* ACCESS_MAPPINGS: /proc/self/maps at the beginning, and what came later. id = first_id + i. Those
 * of one moment do not overlap. */
#define NA_NPROF_MAPPING_READ      1u
#define NA_NPROF_MAPPING_WRITE     2u
#define NA_NPROF_MAPPING_EXECUTE   4u
#define NA_NPROF_MAPPING_SHARED    8u
#define NA_NPROF_MAPPING_CUT       16u /* the path did not fit */
#define NA_NPROF_MAPPING_ALLOCATOR 32u /* the allocator's: heap blocks, and its own tables */
#define NA_NPROF_MAPPING_STACK     64u /* of a thread; the first thread's is named "[stack]" */
#define NA_NPROF_MAPPING_ELF       128u /* of an ELF file, or the zeroed memory right behind its data */

typedef struct na_nprof_access_mapping {
    uint64_t start;
    uint64_t end;    /* the latest seen; changes */
    uint64_t offset; /* in the file */
    uint64_t dev, inode;
    uint64_t from_ns; /* when it was seen first */
    uint64_t to_ns;   /* when it was seen to be gone; NS_STILL; changes */
    uint32_t flags;   /* NA_NPROF_MAPPING_* */
    uint32_t thread;  /* STACK: ACCESS_THREADS id, 0: not known */
    char path[448];   /* as the kernel has it: "", a path, "[stack]", "[vdso]", ... */
    uint64_t check;
} na_nprof_access_mapping_t;

_Static_assert(sizeof(na_nprof_access_mapping_t) == 512 + NA_NPROF_ACCESS_CHECK, "");

/* ACCESS_OBJECTS: instances of blocks that samples or windows are about. A block that is freed and
 * whose memory is handed out again is another object. id = first_id + i. */
#define NA_NPROF_OBJECT_HEAP 1u
#define NA_NPROF_OBJECT_POOL 2u /* announced by a pool of the program's own */

/* Its thread had a memory policy of its own (numactl, set_mempolicy), which placed it; `node` is
 * not known. */
#define NA_NPROF_OBJECT_OWN_POLICY 1u

typedef struct na_nprof_access_object {
    uint32_t kind; /* NA_NPROF_OBJECT_* */
    uint32_t site; /* stack of its allocation; 0: not known (from before the profile) */
    uint64_t base;
    uint64_t size;     /* as asked for; with site 0: usable */
    uint64_t birth_ns; /* 0 with site 0: not known */
    uint64_t death_ns; /* upper bound: when it was found to be gone; NS_STILL; changes */
    uint32_t thread;   /* id in THREADS of the allocating thread; 0: not known */
    uint32_t pool;     /* id in POOLS; 0: none */
    int16_t node;      /* of the cpu that allocated it */
    uint16_t flags;    /* NA_NPROF_OBJECT_* below */
    uint32_t ruled;    /* by a policy: its heap (nprof_policy.h); 0: not */
    uint64_t check;
} na_nprof_access_object_t;

_Static_assert(sizeof(na_nprof_access_object_t) == 64, "");

/* ACCESS_WINDOWS: what the source WATCH looked at, also where nothing happened; without these, its
 * samples prove nothing. Rounds follow each other; each stands for `interval_ns` of the run, and
 * its windows begin at a moment drawn uniformly from that time. A window watches the word at
 * `address`, drawn with probability 1 / inverse from all that could be watched then (divided by the
 * windows of the round), for `watched_ns` of its threads' time: what the hits themselves cost is
 * left out. Each hit becomes a sample, whose weight is inverse * interval_ns / watched_ns. So
 *     sum of weights of some samples = estimate of the accesses of that kind in the run, unbiased
 * and the sums of the rounds are (nearly) independent. In a window that is CENSORED, a thread that
 * hit the word too often was cut off at its k-th hit; its weights are inverse * interval_ns / (time
 * to that hit) * (k - 1) / k, which is unbiased only if its hits came evenly. */
#define NA_NPROF_WINDOW_CENSORED   1u
#define NA_NPROF_WINDOW_EMPTY      2u /* no block was there when it began: object is 0 */
#define NA_NPROF_WINDOW_INCOMPLETE 4u /* not every thread could be armed */
#define NA_NPROF_WINDOW_WRITES     8u /* only writes were watched */

typedef struct na_nprof_access_window {
    uint64_t start_ns;
    uint64_t watched_ns;
    uint64_t address;
    uint32_t object;  /* that was there when it began; hits may be of later ones */
    uint32_t hits;    /* of all threads */
    uint32_t threads; /* armed */
    uint16_t length;  /* bytes */
    uint16_t flags;   /* NA_NPROF_WINDOW_* */
    uint32_t round;
    uint32_t reserved;
    double inverse;
    uint64_t interval_ns;
    uint64_t check;
} na_nprof_access_window_t;

_Static_assert(sizeof(na_nprof_access_window_t) == 64 + NA_NPROF_ACCESS_CHECK, "");

/* ACCESS_PROBES: what the source WATCH saw of two ranges of one line of the cache at one time,
 * while it looked who uses which part of it. They have no part in the estimate, and nothing is to
 * be concluded from how many there are: lines that threads share are looked at more often. Entries
 * never change; id = first_id + i. */
#define NA_NPROF_PROBE_USES 8u

/* What one thread did to one of them. Accesses a second: (reads + writes) / watched_ns. */
typedef struct na_nprof_probe_use {
    uint32_t thread; /* ACCESS_THREADS id */
    uint32_t
        watched_ns; /* of its time; less than the probe's where it was let go after some hits */
    uint16_t reads, writes;
    uint8_t range; /* 0 or 1 */
    uint8_t reserved[3];
} na_nprof_probe_use_t;

typedef struct na_nprof_access_probe {
    uint64_t start_ns;
    uint64_t watched_ns;
    uint64_t address[2];
    uint32_t object[2]; /* ACCESS_OBJECTS id of what was there, 0: none */
    uint32_t mapping;   /* ACCESS_MAPPINGS id, where there is no heap; 0: not known */
    uint32_t threads;   /* armed */
    uint8_t length[2];  /* bytes, 0: the entry does not exist */
    uint16_t flags;     /* 0 */
    uint32_t count;     /* of uses; more than there is room for: the rest is left out */
    na_nprof_probe_use_t uses[NA_NPROF_PROBE_USES];
    uint64_t check;
} na_nprof_access_probe_t;

_Static_assert(sizeof(na_nprof_access_probe_t) ==
                   56 + 16 * NA_NPROF_PROBE_USES + NA_NPROF_ACCESS_CHECK,
               "no padding");

/* sample.op; a bit mask: an atomic update is both */
#define NA_NPROF_OP_UNKNOWN 0u
#define NA_NPROF_OP_READ    1u
#define NA_NPROF_OP_WRITE   2u

/* sample.level: what answered */
typedef enum na_nprof_level {
    NA_NPROF_LEVEL_UNKNOWN = 0,
    NA_NPROF_LEVEL_L1 = 1,
    NA_NPROF_LEVEL_LFB = 2, /* a miss of L1 that was on its way already */
    NA_NPROF_LEVEL_L2 = 3,
    NA_NPROF_LEVEL_L3 = 4,
    NA_NPROF_LEVEL_NEAR_CACHE = 5, /* another cache of the same node */
    NA_NPROF_LEVEL_FAR_CACHE = 6,  /* a cache of another node */
    NA_NPROF_LEVEL_LOCAL_DRAM = 7,
    NA_NPROF_LEVEL_REMOTE_DRAM = 8,
    NA_NPROF_LEVEL_DRAM = 9, /* which node's is not said */
    NA_NPROF_LEVEL_PMEM = 10,
    NA_NPROF_LEVEL_CXL = 11,
    NA_NPROF_LEVEL_IO = 12,
    NA_NPROF_LEVEL_UNCACHED = 13,
    NA_NPROF_LEVELS = 14,
} na_nprof_level_t;

/* sample.target: what is at the address */
typedef enum na_nprof_target {
    NA_NPROF_TARGET_UNKNOWN = 0,    /* no mapping is known there */
    NA_NPROF_TARGET_HEAP = 1,       /* sample.object */
    NA_NPROF_TARGET_POOL = 2,       /* sample.object */
    NA_NPROF_TARGET_UNRECORDED = 3, /* a heap block of which nothing is recorded: from before the
                                     * profile, or not drawn in mode sample */
    NA_NPROF_TARGET_UNRESOLVED = 4, /* heap memory, but no block can be named: it was freed since,
                                     * or its memory serves another block now */
    NA_NPROF_TARGET_OWN = 5,        /* the allocator's or the profiler's tables; older files: today
                                     * such samples count as filtered */
    NA_NPROF_TARGET_STACK = 6,      /* sample.mapping, mapping.thread */
    NA_NPROF_TARGET_DATA = 7,       /* sections of an ELF file that are no code: sample.mapping */
    NA_NPROF_TARGET_CODE = 8,       /* executable memory */
    NA_NPROF_TARGET_FILE = 9,       /* another mapped file */
    NA_NPROF_TARGET_ANONYMOUS = 10, /* the program's own mmap or brk */
    NA_NPROF_TARGET_KERNEL = 11,    /* [vdso], [vvar], [vsyscall] */
    NA_NPROF_TARGETS = 12,
} na_nprof_target_t;

#define NA_NPROF_SAMPLE_HOME_LATER  1u /* home was asked for up to a second after the access */
#define NA_NPROF_SAMPLE_KERNEL      2u /* the kernel accessed it for the program (system call) */
#define NA_NPROF_SAMPLE_TLB_MISS    4u
#define NA_NPROF_SAMPLE_LOCKED      8u
#define NA_NPROF_SAMPLE_LATENCY_MAX 16u /* latency: or more */

/* ACCESS_SAMPLES: live, or sealed. Nearly in order of time; a reader sorts. A kill may leave a
 * sample in two chunks: of those with the same serial one counts. */
typedef struct na_nprof_access_sample {
    uint64_t ns;
    uint64_t ip;      /* 0: not known */
    uint64_t address; /* with source WATCH: the beginning of what was watched */
    double weight;    /* events, in the source's unit, that the sample stands for */
    uint32_t serial;
    uint32_t stack;   /* call chain of the access, as a node of STACKS; 0: none */
    uint32_t thread;  /* ACCESS_THREADS id */
    uint32_t object;  /* ACCESS_OBJECTS id */
    uint32_t mapping; /* ACCESS_MAPPINGS id */
    uint32_t window;  /* ACCESS_WINDOWS id */
    int32_t latency;  /* cycles; -1: not known */
    uint16_t cpu;     /* 65535: not known */
    int16_t cpu_node;
    int16_t home_node; /* of the page */
    uint8_t source;    /* ACCESS_SOURCES id */
    uint8_t op;        /* NA_NPROF_OP_* */
    uint8_t level;     /* na_nprof_level_t */
    uint8_t target;    /* na_nprof_target_t */
    uint8_t width;     /* bytes; 0: not known */
    uint8_t flags;     /* NA_NPROF_SAMPLE_* */
    uint64_t check;
} na_nprof_access_sample_t;

_Static_assert(sizeof(na_nprof_access_sample_t) == 72 + NA_NPROF_ACCESS_CHECK, "no padding");

#endif
