/* flows.h - the accesses of one application: samples of one process or several, in the order of
 * time, with the threads that made them and the objects that they went to; and its flows.
 *
 * A Thread Event Flow (TEF) is what one thread did, an Object Event Flow (OEF) what was done to one
 * object: each is a list of samples in order of time. An object is an instance: memory that is
 * freed and handed out again is another object. Objects of one kind and origin (a site, a variable,
 * a file) make a group, over all processes: MemProf's "type".
 *
 * Everything belongs to the set and lives as long as it. Pure: no output, no symbols but those of
 * variables. Memory: 64 bytes a sample, and the tables. */
#ifndef NUMALLOC_PROFILER_ANALYZE_ACCESSES_FLOWS_H
#define NUMALLOC_PROFILER_ANALYZE_ACCESSES_FLOWS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/format/nprof_access.h"
#include "profiler/format/reader/reader.h"

#define NA_FLOWS_NONE      UINT32_MAX /* no such thread, object or group */
#define NA_FLOWS_PROCESSES 65535u
#define NA_FLOWS_NODES     64

typedef enum na_flow_kind {
    NA_FLOW_HEAP,      /* a block */
    NA_FLOW_POOL,      /* a block of a pool of the program's own */
    NA_FLOW_STATIC,    /* a variable, or the variables of a library that have no name */
    NA_FLOW_FILE,      /* a mapped file */
    NA_FLOW_ANONYMOUS, /* a mapping of the program's own */
    NA_FLOW_CODE,      /* a section of code (.text, .plt) of a program or library */
    NA_FLOW_STACK,     /* of a thread */
    NA_FLOW_UNKNOWN,   /* heap blocks that nothing is recorded of, kernel pages, ... */
    NA_FLOW_KINDS
} na_flow_kind_t;

/* "heap block", "variable", ... */
const char *na_flow_kind_name(na_flow_kind_t kind);

typedef struct na_touch {
    uint64_t ns; /* since the start of the first process */
    uint64_t address;
    uint64_t ip;   /* 0: not known */
    double weight; /* in the unit of its source */
    uint32_t object, thread;
    uint32_t stack;  /* call chain, a stack of its process; 0: none */
    uint32_t round;  /* of watchpoints: samples with the same one belong together; 0: none */
    int32_t latency; /* cycles; -1: not known */
    uint16_t cpu;    /* 65535: not known */
    uint16_t process;
    int8_t from, home; /* nodes, indices of `nodes`: of the thread, of the page; -1: not known */
    uint16_t if_kept;  /* of watchpoints: how much less it weighs, in parts of NA_TOUCH_PARTS, if
                          its thread keeps to a timetable (estimate.h) */
    uint8_t op;        /* NA_NPROF_OP_* */
    uint8_t level;     /* na_nprof_level_t */
    uint8_t source;    /* index of `sources` */
    uint8_t flags;     /* NA_NPROF_SAMPLE_* */
} na_touch_t;

#define NA_TOUCH_PARTS 65535u

_Static_assert(sizeof(na_touch_t) == 64, "one cache line");

/* A list of indices of samples. */
typedef struct na_flow {
    const uint32_t *items;
    uint32_t count;
} na_flow_t;

typedef struct na_flow_object {
    na_flow_kind_t kind;
    uint32_t group;
    uint64_t base, size;       /* size 0: not known */
    uint64_t birth_ns, end_ns; /* end_ns UINT64_MAX: lived to the end */
    uint32_t thread;           /* index of the thread that allocated it, or whose stack it is */
    uint32_t site;             /* stack of its allocation; 0: none */
    uint32_t ruled;            /* by a policy: its heap, as ACCESS_OBJECTS has it; 0: not */
    int16_t node;              /* of the CPU that allocated it; -1: not known */
    bool own_policy;           /* a memory policy that the program set placed it */
    uint16_t process;
    uint32_t first, samples; /* its flow */
} na_flow_object_t;

typedef struct na_flow_group {
    na_flow_kind_t kind;
    const char *name; /* of a variable, file, section, pool; NULL: by `site` */
    uint32_t site;    /* of `process`, which is the first that has it; 0: none */
    uint16_t process;
    uint64_t key;        /* the same for the same origin in other runs */
    uint32_t *members;   /* objects, those with most samples first */
    uint32_t objects;    /* how many */
    uint64_t samples;    /* of all */
    uint64_t bytes;      /* sizes of the objects, summed */
    uint64_t bytes_most; /* the largest */
} na_flow_group_t;

typedef struct na_flow_thread {
    uint16_t process;
    uint32_t tid;
    uint32_t thread; /* id in the table of threads of its process; 0: never allocated */
    char name[16];
    uint32_t first, samples; /* its flow */
} na_flow_thread_t;

typedef struct na_flow_process {
    na_reader_t *reader; /* the caller's */
    int32_t pid, rank;
    const char *program;
    int64_t shift_ns; /* from its times to those of the set */
} na_flow_process_t;

typedef struct na_flow_node {
    uint32_t kernel_id;
    uint32_t cpus;                    /* 0: not known, or none */
    uint64_t memory_bytes;            /* 0: not known, or none */
    uint8_t distance[NA_FLOWS_NODES]; /* by index; 0: not known */
} na_flow_node_t;

/* A source of the samples; those that processes share are one, with the sums of their counters. */
typedef struct na_flow_source {
    na_nprof_access_source_t of;
    uint64_t samples; /* in the set */
} na_flow_source_t;

/* A look of the watchpoints at two ranges of one line of the cache at one time: who used which. */
typedef struct na_flow_probe {
    uint64_t ns, address[2];
    uint32_t object[2]; /* NA_FLOWS_NONE: not known */
    uint16_t process;
    uint8_t length[2];
    uint64_t watched_ns;
    uint32_t count;
    struct na_flow_use {
        uint32_t thread, hits;
        uint8_t range;
        double reads, writes; /* a second */
    } uses[NA_NPROF_PROBE_USES];
} na_flow_probe_t;

typedef struct na_flow_set {
    na_touch_t *items; /* in order of time */
    uint32_t count;
    uint32_t all; /* samples before na_flows_select */
    na_flow_object_t *objects;
    uint32_t object_count;
    na_flow_group_t *groups;
    uint32_t group_count;
    na_flow_thread_t *threads;
    uint32_t thread_count;
    na_flow_process_t *processes;
    uint32_t process_count;
    na_flow_node_t nodes[NA_FLOWS_NODES];
    uint32_t node_count;
    na_flow_source_t *sources; /* that samples came from */
    uint32_t source_count;
    na_flow_probe_t *probes; /* all, whatever is selected */
    uint32_t probe_count, probe_room;
    uint64_t rounds;           /* of watchpoints, also those without hits, over all processes */
    uint32_t watched;          /* threads that were watched at one time, at most */
    uint64_t start_ns, end_ns; /* of the first and last sample; 0 without */
    /* Owned; not for users. */
    uint32_t *by_object, *by_thread;
    char **names;
    size_t name_count, name_room;
} na_flows_t;

/* Reads the samples of the processes of one application. A file without any adds none. False: out
 * of memory, or more than 2^32 samples. Free in both cases. The readers must live as long. */
bool na_flows_read(na_reader_t *const *readers, size_t count, na_flows_t *set);
void na_flows_free(na_flows_t *set);

/* Makes flows and groups anew after the samples, threads or objects were changed, or taken from
 * elsewhere than a file. Sorts the samples. False: out of memory. */
bool na_flows_index(na_flows_t *set);

static inline na_flow_t na_flow_of_object(const na_flows_t *set, uint32_t object) {
    const na_flow_object_t *o = &set->objects[object];
    return (na_flow_t){set->by_object + o->first, o->samples};
}

static inline na_flow_t na_flow_of_thread(const na_flows_t *set, uint32_t thread) {
    const na_flow_thread_t *t = &set->threads[thread];
    return (na_flow_t){set->by_thread + t->first, t->samples};
}

/* Was it answered by memory, not by a cache? False also where the source does not say. */
static inline bool na_touch_is_dram(const na_touch_t *a) {
    return a->level >= NA_NPROF_LEVEL_LOCAL_DRAM && a->level <= NA_NPROF_LEVEL_CXL;
}

/* Was it answered by another core's cache? Such a line costs as much as one of memory. */
static inline bool na_touch_is_cache(const na_touch_t *a) {
    return a->level == NA_NPROF_LEVEL_NEAR_CACHE || a->level == NA_NPROF_LEVEL_FAR_CACHE;
}

/* Did it leave its core, where the source tells? Sources that tell what answered a load say of a
 * store or an update no more than that the first cache missed (IBS, SPE). These count: or else what
 * is only written would never be seen, and nothing would have writes. */
static inline bool na_touch_leaves_core(const na_touch_t *a) {
    return na_touch_is_dram(a) || na_touch_is_cache(a) ||
           ((a->op & NA_NPROF_OP_WRITE) != 0 && a->level == NA_NPROF_LEVEL_UNKNOWN);
}

static inline bool na_touch_has_nodes(const na_touch_t *a) {
    return a->from >= 0 && a->home >= 0;
}

/* Another node's memory: both nodes must be known. */
static inline bool na_touch_is_remote(const na_touch_t *a) {
    return na_touch_has_nodes(a) && a->from != a->home;
}

static inline const na_flow_group_t *na_flow_group_of(const na_flows_t *set, const na_touch_t *a) {
    return &set->groups[set->objects[a->object].group];
}

/* Keeps a copy of a text with the set. NULL: out of memory. */
const char *na_flow_keep(na_flows_t *set, const char *text);

#endif
