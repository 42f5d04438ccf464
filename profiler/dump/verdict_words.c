/* verdict_words.c - what to do about a verdict: in the program, by a command around it, or by a
 * placement of the blocks of a site; what that may gain; and why nothing could be decided. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profiler/dump/access_view.h"
#include "profiler/dump/text.h"
#include "profiler/format/access.h"

static void for_remote(const na_access_view_t *view, const na_verdict_t *v, na_advice_t *a) {
    char node[NA_LABEL];
    bool block = view->flows.groups[v->group].kind == NA_FLOW_HEAP;
    na_access_node(view, v->measure.to, node);
    snprintf(a->code, sizeof a->code,
             block
                 ? "allocate it where it is used: numalloc_alloc_onnode(size, %.8s); or, where the "
                   "consumer is known only later, move it at the hand-off: "
                   "numalloc_migrate(block, numalloc_current_node(), NULL)"
                 : "let the thread that uses it touch it first, on node %.8s; or move it there "
                   "with move_pages(2)",
             node);
    snprintf(a->command, sizeof a->command,
             "run producer and consumer on one node: numactl --cpunodebind=%.8s PROGRAM (if one "
             "node has room for both)",
             node);
    snprintf(a->placement, sizeof a->placement, "node %.8s", node);
}

static void for_several(const na_access_view_t *view, const na_verdict_t *v, na_advice_t *a) {
    char size[NA_TEXT], copies[NA_TEXT];
    const na_flow_group_t *g = &view->flows.groups[v->group];
    double bytes = v->object != NA_FLOWS_NONE ? (double)view->flows.objects[v->object].size
                                              : (double)g->bytes_most;
    unsigned others = view->flows.node_count > 1 ? view->flows.node_count - 1 : 1;
    bool pages = bytes / 4096 >= na_limit(NA_T_PAGES);
    switch (v->kind) {
    case NA_VERDICT_ALTERNATING:
        snprintf(a->code, sizeof a->code,
                 "move it to the node whose turn begins, numalloc_migrate(block, "
                 "numalloc_current_node(), NULL), if a turn is much longer than copying %s; else "
                 "run these threads on one node",
                 na_text_bytes(size, bytes));
        snprintf(a->placement, sizeof a->placement, "pin");
        return;
    case NA_VERDICT_READ_MOSTLY:
        snprintf(a->code, sizeof a->code,
                 "give each node a copy after it was filled: numalloc_replicate(data, size), and "
                 "read numalloc_replica(...); %u copies more are %s. Look at the source first: "
                 "sampling cannot prove that it is never written",
                 others, na_text_bytes(copies, bytes * others));
        snprintf(a->command, sizeof a->command, "numactl --interleave=all PROGRAM helps a part");
        snprintf(a->placement, sizeof a->placement, "replicate");
        return;
    case NA_VERDICT_WRITE_SHARED:
        if (v->measure.lines <= na_limit(NA_T_LINES)) {
            snprintf(a->code, sizeof a->code,
                     "%u cache line%s take most of it: give each thread a line of its own "
                     "(alignas(64)), on its node (numalloc_alloc_local), and add up at the end",
                     v->measure.lines, v->measure.lines == 1 ? "" : "s");
            snprintf(a->placement, sizeof a->placement, "pad");
            return;
        }
        if (pages) {
            snprintf(a->code, sizeof a->code,
                     "spread its pages: numalloc_alloc_interleaved(size, NULL, 0); or divide it so "
                     "that each thread has its own part");
            snprintf(a->command, sizeof a->command, "numactl --interleave=all PROGRAM");
            snprintf(a->placement, sizeof a->placement, "interleave");
            return;
        }
        snprintf(a->code, sizeof a->code,
                 "divide it so that each thread writes its own part, or run these threads on one "
                 "node; %s is too little to interleave",
                 na_text_bytes(size, bytes));
        snprintf(a->placement, sizeof a->placement, "pin");
        return;
    default:
        return;
    }
}

static void for_saturated(const na_verdict_t *v, na_advice_t *a) {
    (void)v;
    snprintf(a->code, sizeof a->code,
             "spread its pages over the nodes: numalloc_alloc_interleaved(size, NULL, 0)");
    snprintf(a->command, sizeof a->command,
             "numactl --interleave=all PROGRAM (all memory, not only this)");
    snprintf(a->placement, sizeof a->placement, "interleave");
}

static void for_undecidable(const na_access_view_t *view, const na_verdict_t *v, na_advice_t *a) {
    const na_nprof_access_source_t *s = &view->flows.sources[view->verdicts.source].of;
    const char *name = na_access_source_name(s->source);
    char count[NA_TEXT];
    size_t used = 0;
    switch (v->undecided) {
    case NA_UNDECIDED_SOURCE:
        if ((v->lacks & NA_EVIDENCE_ALLOCATION) != 0) {
            snprintf(a->reason, sizeof a->reason,
                     "these are many objects of which nothing is recorded; record with "
                     "NUMALLOC_PROFILE=sites, from the start");
            return;
        }
        if ((v->lacks & NA_EVIDENCE_SHARES) != 0) {
            snprintf(a->reason, sizeof a->reason, "undecidable with this source: %s", name);
            used = strlen(a->reason);
            snprintf(a->reason + used, sizeof a->reason - used, "%s",
                     (s->flags & NA_NPROF_ACCESS_MADE_UP) != 0 ? " makes samples up, for tests"
                     : s->source == NA_NPROF_SOURCE_KMOD_WATCH
                         ? " watches one address, and says nothing of the rest"
                         : " sees only the first access to each page");
            return;
        }
        snprintf(a->reason, sizeof a->reason, "undecidable with this source: %s does not give ",
                 name);
        for (unsigned bit = 0, first = 1; bit < NA_EVIDENCE_BITS; bit++) {
            static const char *const words[NA_EVIDENCE_BITS] = {"all accesses",
                                                                "the nodes of thread and page",
                                                                "whether it reads or writes",
                                                                "what answered",
                                                                "latencies",
                                                                "who allocated it",
                                                                "who uses it at once"};
            if ((v->lacks >> bit & 1) == 0) continue;
            used = strlen(a->reason);
            snprintf(a->reason + used, sizeof a->reason - used, "%s%s", first ? "" : ", ",
                     words[bit]);
            first = 0;
        }
        return;
    case NA_UNDECIDED_SAMPLES:
        snprintf(a->reason, sizeof a->reason,
                 "too few samples: %u, and about %s are needed; run %.1f times as long, or sample "
                 "as much more often",
                 v->measure.samples, na_text_count(count, v->needed),
                 v->measure.samples != 0 ? v->needed / v->measure.samples : v->needed);
        return;
    case NA_UNDECIDED_BETWEEN:
        snprintf(a->reason, sizeof a->reason, "no rule fits; it is between %s and %s",
                 na_verdict_texts[v->runners[0]].title, na_verdict_texts[v->runners[1]].title);
        return;
    case NA_UNDECIDED_NOT:
        return;
    }
}

static void expect(const na_verdict_t *v, na_advice_t *a) {
    size_t used = 0;
    if (!isnan(v->gain_remote)) {
        snprintf(a->expected, sizeof a->expected, "%.1f %% of all accesses become local",
                 100 * v->gain_remote);
        used = strlen(a->expected);
    }
    if (!isnan(v->gain_latency))
        snprintf(a->expected + used, sizeof a->expected - used,
                 "%sup to %.1f %% less time waiting for memory", used == 0 ? "" : "; ",
                 100 * v->gain_latency);
    else if (used != 0)
        snprintf(a->expected + used, sizeof a->expected - used,
                 " (how much time that is, latencies would tell)");
    else if (v->kind == NA_VERDICT_WRITE_SHARED)
        snprintf(a->expected, sizeof a->expected, "not estimated: it depends on the caches");
}

void na_verdict_advice(const na_access_view_t *view, const na_verdict_t *v, na_advice_t *a) {
    memset(a, 0, sizeof *a);
    char thread[NA_LABEL], node[NA_LABEL];
    switch (v->kind) {
    case NA_VERDICT_MIGRATED:
        na_access_thread_label(view, v->measure.reader, thread);
        snprintf(a->code, sizeof a->code,
                 "keep the thread (%.60s) on its node: pthread_setaffinity_np; or move the data "
                 "after it: numalloc_migrate(block, numalloc_current_node(), NULL)",
                 thread);
        snprintf(a->command, sizeof a->command, "numactl --cpunodebind=%.8s PROGRAM, or taskset",
                 na_access_node(view, v->measure.at, node));
        snprintf(a->placement, sizeof a->placement, "pin");
        break;
    case NA_VERDICT_OWN:
        snprintf(a->code, sizeof a->code,
                 "allocate on the thread's own node: numalloc_alloc_local(size); with another "
                 "allocator, or a pool, let each thread touch its memory first, and give each node "
                 "an arena of its own");
        snprintf(a->command, sizeof a->command, "numactl --localalloc PROGRAM");
        snprintf(a->placement, sizeof a->placement, "local");
        break;
    case NA_VERDICT_REMOTE:
        for_remote(view, v, a);
        break;
    case NA_VERDICT_CLUSTER:
        snprintf(a->code, sizeof a->code,
                 "run each of the %u groups of threads on one node (numalloc_set_thread_node and "
                 "pthread_setaffinity_np); numalloc-dump sharing lists the groups",
                 view->verdicts.clusters.useful);
        snprintf(a->command, sizeof a->command,
                 view->flows.process_count > 1
                     ? "numactl --cpunodebind=NODE --localalloc PROCESS, a node for each process"
                     : "a process for each group, each under numactl --cpunodebind=NODE");
        snprintf(a->placement, sizeof a->placement, "pin");
        break;
    case NA_VERDICT_ALTERNATING:
    case NA_VERDICT_READ_MOSTLY:
    case NA_VERDICT_WRITE_SHARED:
        for_several(view, v, a);
        break;
    case NA_VERDICT_SATURATED:
        for_saturated(v, a);
        break;
    case NA_VERDICT_UNDECIDABLE:
        for_undecidable(view, v, a);
        break;
    default:
        break;
    }
    expect(v, a);
}
