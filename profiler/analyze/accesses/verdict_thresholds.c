/* verdict_thresholds.c - every number that a verdict depends on, and the names of verdicts and
 * evidence. `numalloc-dump verdicts --json` has them all. */
#include "profiler/analyze/accesses/verdict.h"

const na_threshold_row_t na_thresholds[NA_THRESHOLDS] = {
    [NA_T_SAMPLES] = {"samples", 50, "samples", "of one group, to judge it at all"},
    [NA_T_INDEPENDENT] = {"independent", 10, "samples",
                          "that these are worth: those of one watchpoint round are one"},
    [NA_T_SAMPLES_ALL] = {"samples_all", 10000, "samples",
                          "that memory answered, of the whole application, to trust small shares"},
    [NA_T_SAMPLES_STORES] = {"samples_stores", 300, "samples",
                             "without a write, to say that writes are rare"},
    [NA_T_SAMPLES_LATENCY] = {"samples_latency", 50, "samples",
                              "with a latency, of a node and of those it is compared with"},
    [NA_T_SPARSE] = {"sparse", 5, "samples",
                     "of one object, to say from which nodes that object is used"},
    [NA_T_COST] = {"cost", 0.02, "share", "of all remote cost, or of all accesses, to be judged"},
    [NA_T_SPLIT] = {"split", 0.5, "share", "of a group's samples, to judge an object by itself"},
    [NA_T_KNOWN] = {"known", 0.8, "share", "of accesses whose two nodes are known"},
    [NA_T_REMOTE] = {"remote", 0.1, "share", "of accesses to other nodes; less is no problem"},
    [NA_T_ONE_NODE] = {"one_node", 0.8, "share",
                       "of accesses after the hand-off from one node that is not the page's"},
    [NA_T_ALLOCATOR] =
        {"allocator", 0.1, "share",
         "of accesses after the hand-off by the thread that allocated, from elsewhere, at "
         "most"},
    [NA_T_OWN] = {"own", 0.8, "share", "of accesses by the thread that allocated"},
    [NA_T_STAYED] = {"stayed", 0.8, "share",
                     "of its remote accesses: made on (or off) the node where it allocated"},
    [NA_T_SECOND] = {"second", 0.15, "share", "of accesses from the node that comes second"},
    [NA_T_PURE] = {"pure", 0.9, "share", "of a window's accesses from one node: it is that node's"},
    [NA_T_PURE_WINDOWS] = {"pure_windows", 0.8, "share",
                           "of windows that are one node's: nodes take turns"},
    [NA_T_MIXED_WINDOWS] = {"mixed_windows", 0.5, "share",
                            "of windows that are not: nodes use it at once"},
    [NA_T_WINDOWS] = {"windows", 200, "windows",
                      "of equal length over the use of an object, at most"},
    [NA_T_WINDOW_SAMPLES] = {"window_samples", 10, "draws",
                             "of a window, on average, at least: samples, or rounds of "
                             "watchpoints"},
    [NA_T_WINDOWS_LEAST] = {"windows_least", 5, "windows", "to tell turns from use at once"},
    [NA_T_WINDOW_MS] = {"window_ms", 10, "ms", "of a window at least; shorter turns are no turns"},
    [NA_T_STORES_READ_MOSTLY] = {"stores_read_mostly", 0.01, "share",
                                 "of writes after the hand-off; below it is read-mostly"},
    [NA_T_STORES_SHARED] = {"stores_shared", 0.05, "share",
                            "of writes after the hand-off; from here on it is written"},
    [NA_T_LINES] = {"lines", 2, "lines", "of the cache that are shared, at most: pad them"},
    [NA_T_LINES_SHARE] = {"lines_share", 0.8, "share", "of accesses that these lines take"},
    [NA_T_PAGES] = {"pages", 64, "pages", "of an object, to interleave it"},
    [NA_T_NODE_SHARE] = {"node_share", 1.5, "times", "a node's fair share of the accesses"},
    [NA_T_NODE_LATENCY] = {"node_latency", 1.5, "times",
                           "the latency of other nodes at the same distance"},
    [NA_T_NODE_OBJECT] = {"node_object", 0.5, "share",
                          "of a saturated node's accesses: the object is the reason"},
    [NA_T_CLUSTER] = {"cluster", 0.8, "share",
                      "of accesses to shared objects inside of one group of threads"},
    [NA_T_MODULARITY] = {"modularity", 0.3, "modularity", "of the groups of threads, to be groups"},
    [NA_T_SPREAD] = {"spread", 1.5, "times",
                     "the fair share that a node has of an object, at most: it is spread already"},
    [NA_T_PARTED] = {"parted", 0.8, "share",
                     "of accesses from the node that most others to their page come from: each "
                     "node has its own part"},
    [NA_T_GAIN] = {"gain", 0.01, "share",
                   "of all accesses that go to other nodes; less is nothing to gain"},
    [NA_T_LINE_OWN] = {"line_own", 0.9, "share",
                       "of the accesses to a line by the threads that its parts belong to"},
    [NA_T_LINE_READERS] = {"line_readers", 0.5, "share",
                           "of the accesses to parts that nobody writes by threads that use no "
                           "other part"},
    [NA_T_LINE_PROBES] = {"line_probes", 3, "looks",
                          "in which different threads used different parts of a line, one writing"},
    [NA_T_LINE_TURNS] = {"line_turns", 0.1, "share",
                         "of all looks at it that met a thread; less is one thread after another"},
    [NA_T_LINE_RATE] = {"line_rate", 1000, "a second",
                        "accesses to it by others than the thread with most"},
};

const na_verdict_text_t na_verdict_texts[NA_VERDICTS] = {
    [NA_VERDICT_MIGRATED] = {"thread_migrated", "thread migrated",
                             "one thread uses it, and moved to another node after it allocated it"},
    [NA_VERDICT_OWN] = {"own_data_wrong_page", "own data on the wrong page",
                        "one thread uses it on the node where it allocated it, and the page lies "
                        "on another one"},
    [NA_VERDICT_REMOTE] = {"remote_after_allocation", "remote after allocation",
                           "one thread allocates it, and threads of one other node use it"},
    [NA_VERDICT_PARTITION] = {"partition", "partition",
                              "each node uses a part of its own, and most of these pages lie "
                              "elsewhere"},
    [NA_VERDICT_CLUSTER] = {"sharing_cluster", "sharing cluster",
                            "a group of threads shares it among themselves, and runs on several "
                            "nodes"},
    [NA_VERDICT_ALTERNATING] = {"alternating", "alternating", "several nodes use it, in turn"},
    [NA_VERDICT_READ_MOSTLY] = {"concurrent_read_mostly", "concurrent, read-mostly",
                                "several nodes use it at once, and hardly write it"},
    [NA_VERDICT_SATURATED] = {"saturated_node", "saturated node",
                              "its node answers too much, and slowly, and most of that is for it"},
    [NA_VERDICT_WRITE_SHARED] = {"write_shared", "write-shared",
                                 "several nodes read and write it at once"},
    [NA_VERDICT_EVEN] = {"evenly_remote", "evenly remote",
                         "several nodes use all of it at once, and it is spread over them: no node "
                         "has too much of it, and most accesses stay remote"},
    [NA_VERDICT_FALSE_SHARING] = {"false_sharing", "false sharing",
                                  "threads use parts of one line of the cache that are each one "
                                  "thread's, and it goes back and forth between their CPUs"},
    [NA_VERDICT_NOTHING] = {"nothing_wrong", "nothing wrong",
                            "it lies where it is used, or as well as it can"},
    [NA_VERDICT_UNDECIDABLE] = {"undecidable", "undecidable", "the samples do not tell"},
};

const char *const na_evidence_names[NA_EVIDENCE_BITS] = {
    "shares", "nodes", "read_write", "level", "latency", "allocation", "turns", "words"};

const char *const na_undecided_names[] = {[NA_UNDECIDED_NOT] = "",
                                          [NA_UNDECIDED_SOURCE] = "source",
                                          [NA_UNDECIDED_SAMPLES] = "samples",
                                          [NA_UNDECIDED_BETWEEN] = "between"};

#define ALL (NA_EVIDENCE_SHARES | NA_EVIDENCE_NODES)

const uint32_t na_verdict_needs[NA_VERDICTS] = {
    [NA_VERDICT_MIGRATED] = ALL | NA_EVIDENCE_ALLOCATION,
    [NA_VERDICT_OWN] = ALL | NA_EVIDENCE_ALLOCATION,
    [NA_VERDICT_REMOTE] = ALL,
    [NA_VERDICT_PARTITION] = ALL,
    [NA_VERDICT_CLUSTER] = ALL,
    [NA_VERDICT_ALTERNATING] = ALL | NA_EVIDENCE_TURNS,
    [NA_VERDICT_READ_MOSTLY] = ALL | NA_EVIDENCE_OP | NA_EVIDENCE_TURNS,
    [NA_VERDICT_SATURATED] = ALL | NA_EVIDENCE_LEVEL | NA_EVIDENCE_LATENCY,
    [NA_VERDICT_WRITE_SHARED] = ALL | NA_EVIDENCE_OP | NA_EVIDENCE_TURNS,
    [NA_VERDICT_EVEN] = ALL | NA_EVIDENCE_OP | NA_EVIDENCE_TURNS,
    [NA_VERDICT_FALSE_SHARING] = 0,
    [NA_VERDICT_NOTHING] = ALL,
    [NA_VERDICT_UNDECIDABLE] = 0,
};
