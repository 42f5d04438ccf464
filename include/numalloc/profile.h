/* profile.h - reads the profiles that numalloc records: libnumalloc-profile.
 *
 *     char why[256];
 *     numalloc_profile_t *p = numalloc_profile_open("app.nprof", why, sizeof why);
 *     if (p == NULL) { fputs(why, stderr); return 2; }
 *     double peak = numalloc_profile_total(p, numalloc_profile_metric(p, "peak_bytes"));
 *     numalloc_profile_close(p);
 *
 * A profile may be damaged, cut short or still be written: what cannot be read is left out and
 * listed (numalloc_profile_damage). Everything that is returned is checked; indices that a caller
 * passes are checked as well. Pointers that a caller passes are not: they must be valid, and NULL
 * only where it says so.
 *
 * Threads: functions of one profile, also those that take it const, must not run at the same time,
 * nor beside those of flows that it belongs to; different profiles are independent of each other.
 * To read a trace (when it is opened, and between the first event and rewind or close) up to three
 * threads of the library's own run, with all signals blocked; a child of fork must not use a
 * profile of its parent. Nothing here may be called from a signal handler. Memory: strings and
 * arrays that are returned belong to the profile and live until it is closed; nothing is freed by
 * the caller, who closes what was opened. A file cannot ask for more than 64 MB and 16 times its
 * size (a trace: 2048 times its compressed events more): one that does is refused, or the part is
 * left out and listed. Errors: a function that can fail says how. errno is not set. No function
 * ends the program or prints anything. Structures are filled up to the `size` that the caller gives
 * (sizeof the structure): later versions append members. Members that this version does not know
 * are zero. */
#ifndef NUMALLOC_PROFILE_H
#define NUMALLOC_PROFILE_H

#include <stddef.h>
#include <stdint.h>

#include "numalloc/modes.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

typedef struct numalloc_profile numalloc_profile_t;

/* NULL: `why` holds one line without a newline that names the file and says what is wrong, cut off
 * at why_size (256 is enough for most, 512 for all). */
numalloc_profile_t *numalloc_profile_open(const char *path, char *why, size_t why_size);
void numalloc_profile_close(numalloc_profile_t *profile); /* NULL is allowed */

/* What could not be read, line number `index` from 0. -1: there are no more. */
int numalloc_profile_damage(numalloc_profile_t *profile, size_t index, char *text, size_t size);

/* ---- the run ---- */

#ifndef NUMALLOC_NO_DEPRECATED /* names of 0.1 */
#define NUMALLOC_PROFILE_SITES  NUMALLOC_MODE_SITES
#define NUMALLOC_PROFILE_SAMPLE NUMALLOC_MODE_SAMPLE
#define NUMALLOC_PROFILE_TRACE  NUMALLOC_MODE_TRACE
#endif

typedef struct numalloc_profile_header {
    const char *program, *command, *host, *writer;
    int32_t pid, ppid;
    int32_t inherited_pid; /* forked child: pid of its parent's profile; else 0 */
    int32_t rank;          /* MPI rank, -1: none */
    uint32_t ranks;        /* of the job; 0: not known */
    numalloc_mode_t mode;
    uint32_t nodes;         /* memory nodes */
    int32_t closed;         /* 0: killed, or still running */
    uint64_t start_unix_ns; /* CLOCK_REALTIME */
    uint64_t duration_ms;
    uint64_t peak_ms;          /* when the peak was */
    uint64_t sample_interval;  /* mean bytes between samples; 0 in mode sites */
    uint64_t publish_quantum;  /* bytes that a thread may hold back from the peak */
    uint64_t own_bytes;        /* the profiler's own memory */
    uint64_t lost_events;      /* events that are in no figure */
    uint64_t truncated_stacks; /* events whose outer frames are not known */
    uint64_t before_frees;     /* frees of blocks from before the profile */
    const char *job;           /* of the batch system or MPI launcher; "": none known */
    uint32_t dump;             /* number of the dump of a running process that this is; 0: none */
    uint32_t reserved;
} numalloc_profile_header_t;

/* Never fails. */
void numalloc_profile_header(numalloc_profile_t *profile, numalloc_profile_header_t *header,
                             size_t size);

/* Environment variables that steer the allocator or the job, "NAME=value". NULL: no more. */
const char *numalloc_profile_environment(numalloc_profile_t *profile, size_t index);

typedef struct numalloc_profile_module {
    const char *path;
    uint64_t start, end, bias; /* addresses; bias: address - p_vaddr */
    uint64_t load_ms;
    uint64_t unload_ms; /* UINT64_MAX: to the end */
    const uint8_t *build_id;
    uint32_t build_id_size;
    int32_t main; /* 1: the executable */
} numalloc_profile_module_t;

typedef struct numalloc_profile_thread {
    const char *name;
    uint32_t tid;
    uint64_t start_ms;
    uint64_t end_ms; /* UINT64_MAX: was running when last seen */
    double allocations, frees;
    uint64_t total_bytes;
} numalloc_profile_thread_t;

/* Number of modules and threads; ids run from 1 to that. 0, or -1: there is none of this id. */
uint32_t numalloc_profile_modules(numalloc_profile_t *profile);
int numalloc_profile_module(numalloc_profile_t *profile, uint32_t id,
                            numalloc_profile_module_t *module, size_t size);
uint32_t numalloc_profile_threads(numalloc_profile_t *profile);
int numalloc_profile_thread(numalloc_profile_t *profile, uint32_t id,
                            numalloc_profile_thread_t *thread, size_t size);

/* ---- figures ---- */

/* A metric is found by its name, which is that of numalloc-dump's JSON and CSV: "peak_bytes",
 * "live_bytes", "total_bytes", "allocations", ... -1: no such metric. Metrics have numbers from 0
 * to numalloc_profile_metrics(); numbers differ between versions, names do not. */
int numalloc_profile_metrics(const numalloc_profile_t *profile);
int numalloc_profile_metric(const numalloc_profile_t *profile, const char *name);
/* NULL: an internal one, or none. `meaning`: one line; may be NULL. */
const char *numalloc_profile_metric_name(const numalloc_profile_t *profile, int metric,
                                         const char **meaning);

/* Bytes, blocks, milliseconds, as the name says. Not a number: there is none, or no such metric. */
double numalloc_profile_total(const numalloc_profile_t *profile, int metric);

/* Sites: one for each distinct call stack that allocated; index from 0, largest at the peak first.
 * Not a number: there is none, no such site or no such metric. */
size_t numalloc_profile_sites(const numalloc_profile_t *profile);
double numalloc_profile_site(const numalloc_profile_t *profile, size_t site, int metric);

/* The number of a site's stack: the same site has the same one in all calls for this file. 0: no
 * such site, or the one of everything whose stack is missing in a damaged file. */
uint32_t numalloc_profile_site_stack(const numalloc_profile_t *profile, size_t site);

typedef struct numalloc_profile_frame {
    const char *function; /* demangled; "module+0xoffset" if there is no name */
    const char *file;     /* NULL: not known */
    uint32_t line;        /* 0: not known */
    int32_t inlined;      /* 1: into the next frame */
    int32_t named;        /* 0: function is an address */
    int32_t runtime;      /* 1: part of the C or C++ runtime or of the allocator */
    const char *module;   /* path; "?": none */
    uint64_t offset;      /* address - bias */
} numalloc_profile_frame_t;

/* The frames of a site, innermost first, from number `first` on: fills up to `room` of `frames`,
 * each frame_size bytes apart, and returns how many there are in all from `first` on. 0: there are
 * no more, no such site, or out of memory. The first call looks for the programs and their debug
 * information on this machine, unless the file brings its symbols (numalloc-dump bundle). libdw
 * asks debuginfod servers if DEBUGINFOD_URLS is set. */
size_t numalloc_profile_frames(numalloc_profile_t *profile, size_t site, size_t first,
                               numalloc_profile_frame_t *frames, size_t frame_size, size_t room);

/* The same of any stack that a structure names: of a site, an event, an access. */
size_t numalloc_profile_stack_frames(numalloc_profile_t *profile, uint32_t stack, size_t first,
                                     numalloc_profile_frame_t *frames, size_t frame_size,
                                     size_t room);
/* 1: it has outer frames that are not known. */
int numalloc_profile_stack_truncated(const numalloc_profile_t *profile, uint32_t stack);

/* ---- events: mode trace only ---- */

typedef struct numalloc_profile_event {
    uint64_t index;    /* from 0 */
    uint64_t ns;       /* since the start of the profile */
    uint64_t address;  /* of the block */
    uint64_t size;     /* requested; 0: a free */
    uint64_t moved_to; /* a realloc that moved the block: where to; else 0 */
    const char *kind;  /* "malloc", "free", "realloc (moved)", ... */
    uint32_t stack;    /* as numalloc_profile_site_stack; 0: not recorded */
    uint32_t thread;   /* id of the thread; 0: not known */
    int32_t allocates; /* 1: afterwards a block of this size is at this address */
} numalloc_profile_event_t;

/* Begins with the first event. -1: out of memory. A profile of another mode has no events. */
int numalloc_profile_events_rewind(numalloc_profile_t *profile);
/* The next event of all threads, in the order in which they happened; the first call begins with
 * the first one. 1, or 0: there are no more; -1: out of memory. Memory does not grow with events.
 */
int numalloc_profile_events_next(numalloc_profile_t *profile, numalloc_profile_event_t *event,
                                 size_t size);

/* ---- time ---- */

typedef struct numalloc_profile_point {
    uint64_t ms; /* beginning of its interval */
    /* Counted; not a number in an interval in which nothing happened. */
    double requested_max, requested_min, blocks_max, allocations, allocated_bytes;
    /* Sampled; not a number in an interval without a sample. */
    double physical, virtual_bytes, mapped, own;
} numalloc_profile_point_t;

/* Number of points, 0: the profile has none; *interval_ms (may be NULL): how long each is. */
size_t numalloc_profile_points(numalloc_profile_t *profile, uint32_t *interval_ms);
/* 0, or -1: no such point. */
int numalloc_profile_point(numalloc_profile_t *profile, size_t index,
                           numalloc_profile_point_t *point, size_t size);

/* ---- accesses: profiles made with access=... ----
 *
 * Ids run from 1 to the count; 0 in a member: none. Nodes are numbered densely from 0
 * (numalloc_profile_access_node says what the kernel calls them), -1: not known. Times are ns since
 * the start of the profile. Functions that fill a structure return 0, or -1: there is none of this
 * id. */

/* How samples were taken, or why they could not be: every source that was considered, the best
 * first. Weights of sources with different units belong in no sum. */
typedef struct numalloc_profile_access_source {
    const char *name; /* "kmod-ibs", "perf-ibs", "pebs", "spe", "watch", "numa", ... */
    const char *why;  /* not used: why not. Used: "", or a limitation */
    const char *unit; /* what a weight of 1 is: "op", "cycle", "load", "store", "access", ... */
    int32_t used;     /* 1: samples may have come from it */
    int32_t knows_op, knows_level, knows_latency;
    int32_t knows_home; /* 0: a page's node was asked for later */
    int32_t knows_stack;
    int32_t exact_ip; /* 1: ip is the accessing instruction. 2: the one after it. 0: near it */
    int32_t made_up;  /* 1: no real accesses: tests */
    uint64_t period;  /* of `unit`; 0: does not apply */
    uint64_t start_ns, end_ns;
    uint64_t stored;                     /* samples in the file */
    uint64_t lost, impossible, filtered; /* samples that are not: see profile-format.md */
    uint64_t unresolved, dram;           /* of the stored */
    uint64_t throttled;                  /* times that the kernel paused it */
    uint64_t enabled_ns, running_ns;     /* of its counters, summed */
    uint64_t windows, unarmed;           /* watch */
    uint64_t homes_asked, homes_unknown; /* pages */
} numalloc_profile_access_source_t;

typedef struct numalloc_profile_access_node {
    uint32_t kernel_id, cpus;
    uint64_t memory_bytes;
    const uint8_t *distance; /* 64 of them, by node; local 10, 0: not known */
} numalloc_profile_access_node_t;

typedef struct numalloc_profile_access_thread {
    const char *name;
    uint32_t tid;
    uint32_t thread; /* id of numalloc_profile_thread; 0: it never allocated */
    uint64_t first_ns, last_ns, samples;
    uint64_t stack_low, stack_high;
} numalloc_profile_access_thread_t;

typedef struct numalloc_profile_access_mapping {
    const char *path; /* "", a path, "[stack]", "[heap]", "[vdso]", ... */
    uint64_t start, end, offset;
    uint64_t from_ns, to_ns; /* to_ns UINT64_MAX: to the end */
    uint32_t thread;         /* whose stack it is; 0: none, or not known */
    int32_t readable, writable, executable, shared, allocator, stack;
} numalloc_profile_access_mapping_t;

/* One life of one block: memory that is handed out again is another object. */
typedef struct numalloc_profile_access_object {
    uint64_t base, size;
    uint64_t birth_ns, death_ns; /* death: at the latest; UINT64_MAX: it was still there */
    uint32_t site;               /* stack of its allocation, as numalloc_profile_site_stack */
    uint32_t thread;             /* that allocated it: id of numalloc_profile_thread */
    uint32_t pool;               /* id of the program's own pool; 0: of the allocator */
    int32_t node;                /* of the cpu that allocated it */
} numalloc_profile_access_object_t;

/* What the source "watch" looked at, also where nothing happened: estimates come from these. */
typedef struct numalloc_profile_access_window {
    uint64_t start_ns, watched_ns, address;
    uint32_t length, object, hits, threads, round;
    int32_t censored;   /* 1: hit too often by a thread, which was cut off: weights are by the time
                           until then */
    int32_t empty;      /* 1: no block was there when it began */
    int32_t incomplete; /* 1: not all threads were watched */
    int32_t writes;     /* 1: only writes were watched */
    double inverse;     /* 1 / probability of this word */
    uint64_t interval_ns; /* of the run, that its round stands for */
} numalloc_profile_access_window_t;

typedef struct numalloc_profile_access {
    uint64_t ns, ip, address;
    double weight;      /* in the source's unit */
    uint32_t source;    /* id */
    uint32_t stack;     /* of the access, as numalloc_profile_site_stack; 0: none */
    uint32_t thread;    /* id of numalloc_profile_access_thread */
    uint32_t object;    /* id */
    uint32_t mapping;   /* id */
    uint32_t window;    /* id */
    int32_t latency;    /* cycles; -1: not known */
    int32_t cpu;        /* -1: not known */
    int32_t cpu_node;   /* of that cpu; -1: not known */
    int32_t home_node;  /* of the page */
    int32_t op;         /* 1 read, 2 write, 3 both, 0 not known */
    int32_t dram;       /* 1: answered by memory */
    const char *level;  /* "L1", "remote DRAM", ...; "?" */
    const char *target; /* "heap", "stack", "data", "file", ...; "?" */
    uint32_t width;     /* bytes; 0: not known */
    int32_t home_later; /* 1: home_node is of up to a second after the access */
    int32_t by_kernel;  /* 1: the kernel accessed it for the program */
} numalloc_profile_access_t;

uint32_t numalloc_profile_access_sources(numalloc_profile_t *profile);
uint32_t numalloc_profile_access_nodes(numalloc_profile_t *profile); /* ids from 0, below this */
uint32_t numalloc_profile_access_threads(numalloc_profile_t *profile);
uint32_t numalloc_profile_access_mappings(numalloc_profile_t *profile);
uint32_t numalloc_profile_access_objects(numalloc_profile_t *profile);
uint32_t numalloc_profile_access_windows(numalloc_profile_t *profile);
int numalloc_profile_access_source(numalloc_profile_t *profile, uint32_t id,
                                   numalloc_profile_access_source_t *source, size_t size);
int numalloc_profile_access_node(numalloc_profile_t *profile, uint32_t id,
                                 numalloc_profile_access_node_t *node, size_t size);
int numalloc_profile_access_thread(numalloc_profile_t *profile, uint32_t id,
                                   numalloc_profile_access_thread_t *thread, size_t size);
int numalloc_profile_access_mapping(numalloc_profile_t *profile, uint32_t id,
                                    numalloc_profile_access_mapping_t *mapping, size_t size);
int numalloc_profile_access_object(numalloc_profile_t *profile, uint32_t id,
                                   numalloc_profile_access_object_t *object, size_t size);
int numalloc_profile_access_window(numalloc_profile_t *profile, uint32_t id,
                                   numalloc_profile_access_window_t *window, size_t size);

/* The samples in order of time: their number, and number `index` from 0. */
size_t numalloc_profile_accesses(numalloc_profile_t *profile);
int numalloc_profile_access(numalloc_profile_t *profile, size_t index,
                            numalloc_profile_access_t *access, size_t size);

/* ---- flows: who did what to which object, over time ----
 *
 * Flows put the accesses of one profile, or of the processes of one application, in order: of each
 * thread (its Thread Event Flow) and of each object (its Object Event Flow). Objects are blocks,
 * and also variables, mapped files, code and stacks. A script over them is short:
 *
 *     numalloc_profile_flows_t *f = numalloc_profile_flows_open(&p, 1, NULL, why, sizeof why);
 *     numalloc_profile_touch_t a;
 *     uint64_t remote = 0;
 *     NUMALLOC_EACH_TOUCH_OF_OBJECT(f, object, a) remote += a.from != a.home;
 *
 * Objects, threads and nodes are numbered from 0; all texts and numbers are those of the flows. The
 * profiles must stay open as long, and belong to the flows meanwhile (see "Threads" above). */
typedef struct numalloc_profile_flows numalloc_profile_flows_t;

/* `where`: only accesses that fulfil these conditions, as numalloc-dump's --where has them, such
 * as "remote,node=2"; NULL: all. Returns NULL: `why` has one line. */
numalloc_profile_flows_t *numalloc_profile_flows_open(numalloc_profile_t *const *profiles,
                                                      size_t count, const char *where, char *why,
                                                      size_t why_size);
void numalloc_profile_flows_close(numalloc_profile_flows_t *flows); /* NULL is allowed */

typedef struct numalloc_profile_flow_object {
    const char *kind;          /* "heap block", "variable", "mapped file", ... */
    const char *name;          /* of a variable, file, pool, section; NULL: a block, see `site` */
    uint64_t base, size;       /* size 0: not known */
    uint64_t birth_ns, end_ns; /* end_ns UINT64_MAX: to the end */
    uint32_t group;            /* objects of one origin have the same */
    uint32_t site;             /* stack of its allocation, in its process's profile; 0: none */
    uint32_t process;          /* index of its profile */
    int32_t thread;            /* that allocated it, or whose stack it is; -1: not known */
    int32_t node;              /* of the cpu that allocated it; -1: not known */
    uint32_t touches;
} numalloc_profile_flow_object_t;

typedef struct numalloc_profile_flow_thread {
    const char *name;
    uint32_t tid, process;
    int32_t pid;
    uint32_t touches;
} numalloc_profile_flow_thread_t;

/* One access. */
typedef struct numalloc_profile_touch {
    uint64_t ns; /* since the start of the first process */
    uint64_t address, ip;
    double weight; /* in the source's unit */
    uint32_t object, thread;
    uint32_t tid, process;
    uint32_t stack;  /* of the access, in its process's profile; 0: none */
    int32_t latency; /* cycles; -1: not known */
    int32_t cpu;     /* -1: not known */
    int32_t from;    /* node of the thread, -1: not known */
    int32_t home;    /* node of the memory */
    int32_t op;      /* 1 read, 2 write, 3 both, 0 not known */
    int32_t dram;    /* 1: answered by memory */
} numalloc_profile_touch_t;

uint32_t numalloc_profile_flows_objects(const numalloc_profile_flows_t *flows);
uint32_t numalloc_profile_flows_threads(const numalloc_profile_flows_t *flows);
/* 0, or -1: there is no such object or thread. */
int numalloc_profile_flows_object(const numalloc_profile_flows_t *flows, uint32_t object,
                                  numalloc_profile_flow_object_t *to, size_t size);
int numalloc_profile_flows_thread(const numalloc_profile_flows_t *flows, uint32_t thread,
                                  numalloc_profile_flow_thread_t *to, size_t size);
/* What the kernel calls a node; -1: there is none of this number. */
int numalloc_profile_flows_node(const numalloc_profile_flows_t *flows, int node);
/* Access number `index` of an object's, or of a thread's flow. 0, or -1: that was the last. */
int numalloc_profile_flows_of_object(const numalloc_profile_flows_t *flows, uint32_t object,
                                     size_t index, numalloc_profile_touch_t *to, size_t size);
int numalloc_profile_flows_of_thread(const numalloc_profile_flows_t *flows, uint32_t thread,
                                     size_t index, numalloc_profile_touch_t *to, size_t size);

/* Loops over a flow in order of time; `touch` is a numalloc_profile_touch_t. */
#define NUMALLOC_EACH_TOUCH_OF_OBJECT(flows, object, touch)                                        \
    for (size_t touch_##touch = 0; numalloc_profile_flows_of_object(flows, object, touch_##touch,  \
                                                                    &(touch), sizeof(touch)) == 0; \
         touch_##touch++)
#define NUMALLOC_EACH_TOUCH_OF_THREAD(flows, thread, touch)                                        \
    for (size_t touch_##touch = 0; numalloc_profile_flows_of_thread(flows, thread, touch_##touch,  \
                                                                    &(touch), sizeof(touch)) == 0; \
         touch_##touch++)

/* What is wrong with the placement, dearest first (docs/access-profiling.md). */
typedef struct numalloc_profile_verdict {
    const char *verdict;   /* "remote_after_allocation", ..., "nothing_wrong", "undecidable" */
    const char *title;     /* the same in words */
    const char *because;   /* undecidable: "source", "samples" or "between"; else "" */
    const char *runner[2]; /* the nearest two others */
    uint32_t group;        /* of objects */
    int32_t object;        /* one of them that it is about; -1: all that have no other verdict */
    uint32_t samples;
    double chance;       /* 0 to 1, that the rule holds in the program */
    double needed;       /* undecidable for too few samples: how many; else 0 */
    double cost_share;   /* of all remote cost */
    double remote;       /* share of its accesses */
    double gain_remote;  /* share of all accesses that would become local; NaN: no claim */
    double gain_latency; /* share of all sampled latency that would go; NaN: not known */
} numalloc_profile_verdict_t;

/* Works them out at the first call: how many, (uint32_t)-1: out of memory. Then verdict number
 * `index` from 0; 0, or -1: no such verdict, or out of memory. */
uint32_t numalloc_profile_flows_verdicts(numalloc_profile_flows_t *flows);
int numalloc_profile_flows_verdict(numalloc_profile_flows_t *flows, uint32_t index,
                                   numalloc_profile_verdict_t *to, size_t size);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
