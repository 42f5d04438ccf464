/* verdict.h - what is wrong with how memory is placed, for each group of objects that costs
 * anything: one of MemProf's patterns, with its evidence, what to change, and what that may gain.
 *
 * Rules and thresholds are those of docs/access-profiling.md; thresholds are one table. A rule is a
 * list of conditions on shares of samples. Each condition has a chance: how likely it is that it
 * holds in the program and not only in the samples, by their number (normal approximation; samples
 * of one watchpoint round count as one). A rule that needs evidence which the source does not
 * give neither holds nor fails; where that decides, the verdict is "undecidable". Sampling cannot
 * prove that something never happens, such as a write.
 *
 * Pure: no output, no symbols. Only samples of one source enter: units never mix. */
#ifndef NUMALLOC_PROFILER_ANALYZE_ACCESSES_VERDICT_H
#define NUMALLOC_PROFILER_ANALYZE_ACCESSES_VERDICT_H

#include "profiler/analyze/accesses/flows.h"
#include "profiler/analyze/accesses/shared_lines.h"

/* In the order in which they are preferred where several hold. */
typedef enum na_verdict_kind {
    NA_VERDICT_MIGRATED,      /* own data, and the thread has moved to another node */
    NA_VERDICT_OWN,           /* own data on another node's page, though the thread has not moved */
    NA_VERDICT_REMOTE,        /* allocated here, used from one other node */
    NA_VERDICT_PARTITION,     /* each node uses a part of its own, and its pages lie elsewhere */
    NA_VERDICT_CLUSTER,       /* shared by a group of threads that sits on several nodes */
    NA_VERDICT_ALTERNATING,   /* used by several nodes in turn */
    NA_VERDICT_READ_MOSTLY,   /* read by several nodes at once */
    NA_VERDICT_SATURATED,     /* most of what makes a node slow */
    NA_VERDICT_WRITE_SHARED,  /* read and written by several nodes at once */
    NA_VERDICT_EVEN,          /* the same, and spread over the nodes: placement can do no more */
    NA_VERDICT_FALSE_SHARING, /* parts of one line that are each one thread's; judged first, by
                               * shared_lines.h: the rules that follow have no part in it */
    NA_VERDICT_NOTHING,       /* nothing is wrong */
    NA_VERDICT_UNDECIDABLE,
    NA_VERDICTS
} na_verdict_kind_t;

typedef struct na_verdict_text {
    const char *key;   /* "remote_after_allocation" */
    const char *title; /* "remote after allocation" */
    const char *means; /* a sentence */
} na_verdict_text_t;
extern const na_verdict_text_t na_verdict_texts[NA_VERDICTS];

/* What a rule needs to know, and a source gives or not. */
#define NA_EVIDENCE_SHARES     1u   /* samples are as frequent as accesses, all over memory */
#define NA_EVIDENCE_NODES      2u   /* the nodes of the thread and of the page */
#define NA_EVIDENCE_OP         4u   /* reads and writes are told apart */
#define NA_EVIDENCE_LEVEL      8u   /* whether memory answered, or a cache */
#define NA_EVIDENCE_LATENCY    16u  /* how long it took */
#define NA_EVIDENCE_ALLOCATION 32u  /* which thread allocated it */
#define NA_EVIDENCE_TURNS      64u  /* who used it at once, and who in turn */
#define NA_EVIDENCE_WORDS      128u /* which words of a line are used at once */
#define NA_EVIDENCE_BITS       8u
extern const char *const na_evidence_names[NA_EVIDENCE_BITS]; /* "shares", "nodes", ... */

/* Of each rule, by kind. */
extern const uint32_t na_verdict_needs[NA_VERDICTS];

typedef enum na_threshold {
    NA_T_SAMPLES,
    NA_T_INDEPENDENT,
    NA_T_SAMPLES_ALL,
    NA_T_SAMPLES_STORES,
    NA_T_SAMPLES_LATENCY,
    NA_T_SPARSE,
    NA_T_COST,
    NA_T_SPLIT,
    NA_T_KNOWN,
    NA_T_REMOTE,
    NA_T_ONE_NODE,
    NA_T_ALLOCATOR,
    NA_T_OWN,
    NA_T_STAYED,
    NA_T_SECOND,
    NA_T_PURE,
    NA_T_PURE_WINDOWS,
    NA_T_MIXED_WINDOWS,
    NA_T_WINDOWS,
    NA_T_WINDOW_SAMPLES,
    NA_T_WINDOWS_LEAST,
    NA_T_WINDOW_MS,
    NA_T_STORES_READ_MOSTLY,
    NA_T_STORES_SHARED,
    NA_T_LINES,
    NA_T_LINES_SHARE,
    NA_T_PAGES,
    NA_T_NODE_SHARE,
    NA_T_NODE_LATENCY,
    NA_T_NODE_OBJECT,
    NA_T_CLUSTER,
    NA_T_MODULARITY,
    NA_T_SPREAD,
    NA_T_PARTED,
    NA_T_GAIN,
    NA_T_LINE_OWN,
    NA_T_LINE_READERS,
    NA_T_LINE_PROBES,
    NA_T_LINE_TURNS,
    NA_T_LINE_RATE,
    NA_THRESHOLDS
} na_threshold_t;

typedef struct na_threshold_row {
    const char *key;
    double value;
    const char *unit;  /* "share", "samples", "ms", ... */
    const char *means; /* one line */
} na_threshold_row_t;
extern const na_threshold_row_t na_thresholds[NA_THRESHOLDS];

typedef struct na_condition {
    const char *what;     /* "from one other node after the hand-off" */
    na_threshold_t limit; /* row of the table */
    double value;         /* what was measured, in the unit of that row */
    double chance;        /* 0 to 1, that it holds in the program as well */
    bool at_least;        /* value >= limit; else value <= limit, or < where the table says */
    bool known, met;      /* known: there is evidence, and enough samples */
} na_condition_t;

#define NA_CONDITIONS 6

typedef struct na_rule {
    na_condition_t conditions[NA_CONDITIONS];
    uint32_t count;
    uint32_t lacks; /* NA_EVIDENCE_* that it needs and has not */
    bool holds;     /* all conditions are known and met */
    bool open;      /* does not hold, but nothing that is known speaks against it */
    double chance;  /* of all its conditions; of those that are known, if not all are */
    double fit;     /* 0 to 1: how near the condition that is farthest from being met is */
} na_rule_t;

typedef enum na_undecided {
    NA_UNDECIDED_NOT,
    NA_UNDECIDED_SOURCE,  /* the source does not give the evidence (`lacks`) */
    NA_UNDECIDED_SAMPLES, /* too few samples: `needed` */
    NA_UNDECIDED_BETWEEN, /* no rule fits; the runners-up are the nearest */
} na_undecided_t;
extern const char *const na_undecided_names[]; /* "", "source", "samples", "between" */

/* What is known of the accesses to some objects. Shares are of weights. */
typedef struct na_measure {
    uint32_t samples;   /* that count: of the source; where it says so, that left the core */
    uint32_t instances; /* objects with samples */
    uint32_t sparse;    /* of them, with too few to say how each was used */
    double weight;
    double independent; /* samples that would say as much if they were all alike and unrelated */
    double known;       /* share of accesses whose two nodes are known */
    double remote;      /* of those: share of accesses to another node's memory */
    double excess;      /* of remote ones: weight x cycles above the local median */
    double from[NA_FLOWS_NODES], home[NA_FLOWS_NODES]; /* weights by node */
    uint32_t threads;                                  /* that made them */
    double own;         /* share by the thread that allocated it (or that came first) */
    double moved;       /* of the remote ones of `own`: from another node than it allocated on */
    double stayed;      /* of these: from that node, or where the program's own policy placed it */
    double policy;      /* share of accesses to what a memory policy of the program's own placed */
    double one_node;    /* after the hand-off: from one node that is not the page's */
    double settled;     /* the same: from one node, of objects that lie mostly there */
    double allocator;   /* after the hand-off: by the thread that allocated, from elsewhere */
    double after;       /* weight after the hand-off */
    double second;      /* after the hand-off: share of the node that comes second */
    uint32_t windows;   /* of time, with enough draws */
    double run, run_ns; /* draws in a row from one node, on average, and how long that is */
    double pure;        /* share of windows in which one node made nearly all accesses */
    double stores;      /* after the hand-off: share of writes; not a number: not known */
    uint32_t store_samples;
    uint64_t switches;   /* accesses by another thread than the one before */
    double switch_ns;    /* mean length of a turn (the paper's Figure 3); not a number: none */
    double turn_draws;   /* draws in all; a few for each turn, or turns were missed */
    uint64_t thin_turns; /* too few draws to tell that none was missed */
    uint64_t handoff_ns; /* mean, from birth to the first access by another thread; 0: not known */
    uint64_t last_store_ns; /* 0: none seen */
    uint32_t lines;         /* cache lines that most accesses after the hand-off go to */
    double in_lines;        /* after the hand-off: share of the NA_T_LINES lines with most of it */
    uint64_t line;          /* of these, the address of the one with most; 0: none */
    double line_own;        /* share by the thread with most of the access's line, of lines with
                             * NA_T_SPARSE draws; not a number: most have fewer */
    double word_own;        /* the same of its word, of lines that threads share */
    double word_unwritten;  /* there: share of the reads that are of words that nobody writes */
    double written;         /* weight of writes */
    double in_cluster;      /* share of shared objects' accesses inside of one group of threads */
    double spread;          /* largest share of one home node, times the number of nodes */
    /* After the hand-off: each access told from others to its page, or the pages beside it. */
    double parted;      /* share from the node that this page's others come from; NaN: no pages */
    double misplaced;   /* share that is so, and to another node's memory */
    double part_second; /* share of pages that belong to other nodes than the one with most */
    double latency;     /* mean, cycles; not a number: not known */
    int16_t to;         /* the node that uses it most; -1: not known */
    int16_t at;         /* the node that most of it lies on */
    uint32_t reader;    /* the thread that uses it most */
} na_measure_t;

typedef struct na_verdict {
    na_verdict_kind_t kind;
    na_undecided_t undecided;
    uint32_t lacks; /* evidence, where that is the reason */
    uint32_t group;
    uint32_t object; /* one instance that has most of the group; NA_FLOWS_NONE: all, but those
                      * that have a verdict of their own */
    uint32_t apart;  /* of those: one with a verdict of its own; NA_FLOWS_NONE: none */
    uint32_t line;   /* FALSE_SHARING: the line, of `lines`; and how many of the group are so */
    uint32_t line_count;
    double chance;       /* 0 to 1 */
    double needed;       /* samples, where there are too few; else 0 */
    double cost_share;   /* of all remote cost */
    double gain_remote;  /* share of all accesses that would become local; not a number: no claim */
    double gain_latency; /* share of all sampled latency that would go; not a number: not known */
    na_rule_t rules[NA_VERDICTS];
    na_verdict_kind_t runners[2];
    na_measure_t measure;
} na_verdict_t;

/* One of the groups of threads below. */
typedef struct na_cluster {
    double weight;
    double from[NA_FLOWS_NODES]; /* of its threads' accesses */
    double home[NA_FLOWS_NODES]; /* of accesses to what its threads share */
    int16_t node; /* where both should be: each group on a node of its own while there
                   * are any, if it can be where its objects lie */
} na_cluster_t;

/* Groups of threads that share objects with each other and not with others. */
typedef struct na_clusters {
    uint32_t *of;       /* by thread: its group, from 0; NA_FLOWS_NONE: shares nothing */
    uint32_t *owner;    /* by object: the group whose threads share it, or NA_FLOWS_NONE */
    na_cluster_t *each; /* by group */
    uint32_t count;
    uint32_t useful;   /* groups of two threads or more */
    double modularity; /* 0: no groups, towards 1: clearly apart */
    bool apart;        /* two or more useful ones, and clearly apart */
} na_clusters_t;

bool na_clusters_find(const na_flows_t *set, uint32_t source, bool dram, na_clusters_t *clusters);
void na_clusters_free(na_clusters_t *clusters);

/* How a node stands to the others. Not a number: not known. */
typedef struct na_node_load {
    double weight;          /* of accesses to it */
    double share;           /* of all accesses to nodes that are known */
    double latency;         /* mean, cycles */
    double latency_ratio;   /* to that of other nodes at the same distances */
    double latency_samples; /* the fewer of both sides */
    bool saturated;
} na_node_load_t;

typedef struct na_verdicts {
    na_verdict_t *items; /* by cost, largest first */
    uint32_t count, room;
    uint32_t source;   /* whose samples; NA_FLOWS_NONE: there are none */
    uint32_t evidence; /* that it gives */
    bool dram;         /* only accesses count that memory answered, or another core's cache */
    uint32_t samples;  /* that count */
    double weight, cost, latency; /* sums over them; cost: in weight x cycles, or remote weight */
    double local_latency;         /* median, cycles; not a number: not known */
    double remote;                /* share */
    bool enough;                  /* as many samples as the paper asks for */
    na_node_load_t nodes[NA_FLOWS_NODES];
    na_clusters_t clusters;
    na_lines_t lines; /* that watchpoints looked at word by word */
} na_verdicts_t;

/* False: out of memory. Free in both cases. */
bool na_verdicts_make(const na_flows_t *set, na_verdicts_t *verdicts);
void na_verdicts_free(na_verdicts_t *verdicts);

/* The source whose samples say most; NA_FLOWS_NONE: no samples. What it gives. */
uint32_t na_verdict_source(const na_flows_t *set);
uint32_t na_source_evidence(const na_flows_t *set, uint32_t source);

/* A range of an object that one node uses most. */
typedef struct na_verdict_part {
    uint64_t from, to; /* offsets: of whole pages, but for the object's end */
    double weight;     /* of accesses after the hand-off */
    double own;        /* of them: from that node */
    double homes[NA_FLOWS_NODES];
    int16_t node, at; /* the node that uses it, and the one that most of it lies on; -1: unknown */
} na_verdict_part_t;

/* The ranges, in order; a border lies at the roundest offset between the pages with samples on
 * both sides. Returns
 * how many, of which the first `most` are written; 0: none, UINT32_MAX: out of memory. */
uint32_t na_measure_parts(const na_flows_t *set, const na_verdicts_t *verdicts, uint32_t object,
                          na_verdict_part_t *parts, uint32_t most);

/* Does this sample count? */
static inline bool na_verdict_counts(const na_touch_t *a, uint32_t source, bool dram) {
    return a->source == source && (!dram || na_touch_leaves_core(a));
}

/* Is it on this object of its group? */
static inline bool na_verdict_is_on(const na_verdict_t *v, uint32_t object) {
    return v->object == NA_FLOWS_NONE ? v->apart != object : v->object == object;
}

/* ---- between the files of the analysis ---- */

/* The threshold's value. */
static inline double na_limit(na_threshold_t threshold) {
    return na_thresholds[threshold].value;
}

/* A memory policy of the program's own placed most of it (numactl, set_mempolicy): numalloc leaves
 * such memory where the kernel puts it. */
static inline bool na_measure_by_policy(const na_measure_t *measure) {
    return measure->policy >= na_limit(NA_T_STAYED);
}

/* Do threads share its lines? Not where each has lines of its own, in pages that they share. */
static inline bool na_measure_shares_lines(const na_measure_t *measure) {
    return !(measure->line_own >= na_limit(NA_T_LINE_OWN));
}

/* Are they, though each word is one thread's, or what is read nobody writes? Then it may be false
 * sharing, which what was used at once would tell. */
static inline bool na_measure_may_be_false_sharing(const na_measure_t *measure) {
    return na_measure_shares_lines(measure) &&
           (measure->word_own >= na_limit(NA_T_LINE_OWN) ||
            measure->word_unwritten >= na_limit(NA_T_LINE_READERS));
}

/* Most objects have fewer samples than say how each is used: more of each are needed, and a longer
 * run brings more objects. */
static inline bool na_measure_is_sparse(const na_measure_t *measure) {
    return measure->sparse > measure->instances / 2;
}

/* The turns of a measure were looked at often enough: hardly any lies between them unseen. */
bool na_measure_turns_are_seen(const na_measure_t *measure);

/* Measures the objects. `skip`: an object to leave out, or NA_FLOWS_NONE. False: out of memory. */
bool na_measure_make(const na_flows_t *set, const na_verdicts_t *verdicts, const uint32_t *objects,
                     uint32_t count, uint32_t skip, na_measure_t *measure);

/* verdict_parts.c: samples of one object, in order of time. */
typedef struct na_parts_samples {
    const na_flows_t *set;
    const uint32_t *items, *draw; /* samples, and the number of each one's draw */
    const double *draw_weight;    /* by draw */
    uint32_t count;
    uint64_t page_size;
    bool by_page; /* each is of a page, whatever its address in it */
} na_parts_samples_t;

typedef struct na_parts_sum {
    double weight, same, misplaced;
    double of_node[NA_FLOWS_NODES]; /* weight, by the node that its page's others come from */
} na_parts_sum_t;

/* Adds what they say to the sum. What nothing can be told of counts as used by all. False: out of
 * memory. */
bool na_parts_count(const na_parts_samples_t *samples, na_parts_sum_t *sum);

/* Of the same samples, the ranges; offsets from `base`, the last one ends at `size` if that is
 * known (not 0). As na_measure_parts. */
uint32_t na_parts_ranges(const na_parts_samples_t *samples, uint64_t base, uint64_t size,
                         na_verdict_part_t *parts, uint32_t most);

/* Chance that a share of `n` samples is really at or above (else: below) a limit. */
double na_share_chance(double value, double limit, double n, bool at_least);
/* The share that it would be, had what the source lost been all against it (else: all for it). */
double na_share_at_worst(const na_nprof_access_source_t *source, double share, bool least);

/* Fills rules, kind, runners-up, chance, needed and gains of a verdict from its measure. */
void na_rules_decide(const na_flows_t *set, const na_verdicts_t *verdicts, na_verdict_t *verdict);
/* False sharing: a verdict for each group that has lines which are shared so, over what the other
 * rules say. False: out of memory. */
bool na_rules_lines(const na_flows_t *set, na_verdicts_t *verdicts);

#endif
