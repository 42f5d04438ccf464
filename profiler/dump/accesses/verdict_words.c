/* verdict_words.c - what to do about a verdict: in the program, by a command around it, or by a
 * placement of the blocks of a site; what that may gain; and why nothing could be decided. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_access.h"

/* Blocks up to this size share their pages with others: numalloc_migrate leaves them where they are
 * (alloc/core/central/block.h). */
#define SHARES_PAGES 32768
/* From this size on they lie where they are first touched (alloc/core/malloc/large.h). */
#define BY_TOUCH     (2u << 20)
#define MOST_LISTED  8u  /* ranges and groups that are spelled out */
#define MOST_THREADS 16u /* of a group, */
#define MOST_BUFFERS 8u  /* and what they share */

static double largest(const na_access_view_t *view, const na_verdict_t *v) {
    return v->object != NA_FLOWS_NONE ? (double)view->flows.objects[v->object].size
                                      : (double)view->flows.groups[v->group].bytes_most;
}

/* Blocks that numalloc_migrate moves. */
static bool movable(const na_access_view_t *view, const na_verdict_t *v) {
    return view->flows.groups[v->group].kind == NA_FLOW_HEAP && largest(view, v) > SHARES_PAGES;
}

/* Why they are not, with a size: "100 B share their pages with other blocks, and cannot be moved"
 */
static const char *not_movable(const na_access_view_t *view, const na_verdict_t *v,
                               char text[NA_LABEL]) {
    char size[NA_TEXT];
    bool block = view->flows.groups[v->group].kind == NA_FLOW_HEAP;
    snprintf(text, NA_LABEL,
             block ? "blocks of %s share their pages with others, and cannot be moved by themselves"
                   : "%s that malloc does not know cannot be moved by numalloc_migrate",
             na_text_bytes(size, largest(view, v)));
    return text;
}

/* Are they used from several nodes, though each from one? */
static bool several_users(const na_access_view_t *view, const na_verdict_t *v) {
    double all = 0;
    for (uint32_t n = 0; n < view->flows.node_count; n++)
        all += v->measure.from[n];
    return v->object == NA_FLOWS_NONE && v->measure.to >= 0 &&
           v->measure.from[v->measure.to] < na_limit(NA_T_ONE_NODE) * all;
}

/* Bound memory stays where it is; the kernel's own balancing moves what one node uses. It was off
 * when the program started, or blocks of BY_TOUCH and more were not bound (na_node_balanced). */
static void offer_balancing(const na_access_view_t *view, const na_verdict_t *v,
                            na_verdict_advice_t *a) {
    if (!movable(view, v) || na_measure_by_policy(&v->measure)) return;
    NA_ADVISE(a->command, "%s%s", a->command[0] != 0 ? "; or, " : "",
              largest(view, v) >= BY_TOUCH
                  ? "if kernel.numa_balancing is on before the program starts, the kernel moves it"
                  : "where kernel.numa_balancing is on, NUMALLOC_NUMA=unbound lets the kernel move "
                    "it");
}

static void for_remote(const na_access_view_t *view, const na_verdict_t *v,
                       na_verdict_advice_t *a) {
    char node[NA_LABEL], why[NA_LABEL];
    na_flow_kind_t kind = view->flows.groups[v->group].kind;
    na_access_node(view, v->measure.to, node);
    if (kind <= NA_FLOW_POOL && several_users(view, v)) {
        bool pool = kind == NA_FLOW_POOL, migrate = movable(view, v);
        NA_ADVISE(
            a->code,
            "each of these objects has one node that uses it: let who uses it allocate it%s%s",
            pool      ? ", from an arena of the pool's for each node"
            : migrate ? "; or, where one thread must fill it, move it at the hand-off: "
                        "numalloc_migrate(block, numalloc_current_node(), NULL)"
                      : "; ",
            pool || migrate ? "" : not_movable(view, v, why));
        NA_ADVISE(a->placement, "local");
        return;
    }
    if (movable(view, v))
        NA_ADVISE(a->code,
                  "allocate it where it is used: numalloc_alloc_onnode(size, %.8s); or, where the "
                  "consumer is known only later, move it at the hand-off: "
                  "numalloc_migrate(block, numalloc_current_node(), NULL)",
                  node);
    else if (kind == NA_FLOW_HEAP)
        NA_ADVISE(a->code,
                  "allocate it where it is used: numalloc_alloc_onnode(size, %.8s), or let the "
                  "thread that uses it allocate it; %s",
                  node, not_movable(view, v, why));
    else if (kind == NA_FLOW_POOL)
        NA_ADVISE(a->code,
                  "give the pool an arena for each node, with its memory there "
                  "(numalloc_alloc_onnode), and take this from the one of node %.8s",
                  node);
    else
        NA_ADVISE(a->code,
                  "let the thread that uses it touch it first, on node %.8s; or move it there "
                  "with move_pages(2)",
                  node);
    NA_ADVISE(a->command,
              "run producer and consumer on one node, if it has room for both: numactl "
              "--cpunodebind=%.8s PROGRAM",
              node);
    NA_ADVISE(a->placement, "node %.8s", node);
}

static void put_ranges(const na_access_view_t *view, const na_verdict_t *v,
                       na_verdict_advice_t *a) {
    na_verdict_part_t parts[MOST_LISTED];
    if (v->object == NA_FLOWS_NONE) return;
    uint32_t count = na_measure_parts(&view->flows, &view->verdicts, v->object, parts, MOST_LISTED);
    if (count == 0 || count > MOST_LISTED) return;
    for (uint32_t i = 0; i < count; i++) {
        char from[NA_TEXT], to[NA_TEXT], node[NA_LABEL];
        NA_ADVISE(a->code, "%s%s to %s on node %.8s", i == 0 ? " (here: " : ", ",
                  na_text_bytes(from, (double)parts[i].from),
                  na_text_bytes(to, (double)parts[i].to),
                  na_access_node(view, parts[i].node, node));
    }
    NA_ADVISE(a->code, ")");
}

static void for_partition(const na_access_view_t *view, const na_verdict_t *v,
                          na_verdict_advice_t *a) {
    if (movable(view, v)) {
        NA_ADVISE(
            a->code,
            "move each part to its worker's node when it is filled: numalloc_migrate_range(part, "
            "bytes, node, NULL)");
        put_ranges(view, v, a);
        NA_ADVISE(
            a->code,
            "; or let each worker write its part first, before any other thread writes there "
            "(%s). Parts should begin at pages (where the system makes huge pages, at 2 MiB), and "
            "the workers stay on their nodes",
            largest(view, v) >= BY_TOUCH
                ? "blocks of 2 MiB and more lie where they are first touched, but for memory that "
                  "the program has used before"
                : "blocks below 2 MiB lie where they are first touched only with "
                  "NUMALLOC_NUMA=unbound, and with most other allocators");
    } else if (view->flows.groups[v->group].kind == NA_FLOW_HEAP) {
        char why[NA_LABEL];
        NA_ADVISE(a->code,
                  "allocate each worker's part by itself, by the worker or with "
                  "numalloc_alloc_onnode(bytes, node); %s",
                  not_movable(view, v, why));
        put_ranges(view, v, a);
    } else {
        NA_ADVISE(a->code,
                  "let each worker write its part first, before any other thread writes there; or "
                  "move each part with move_pages(2)");
        put_ranges(view, v, a);
    }
    NA_ADVISE(a->command,
              "OMP_PROC_BIND=true keeps the workers of OpenMP on the nodes of their parts; no "
              "command moves the parts");
    NA_ADVISE(a->placement, "parts");
}

/* ---- groups of threads ---- */

static void advise_threads(const na_access_view_t *view, uint32_t group, na_verdict_advice_t *a) {
    const na_clusters_t *c = &view->verdicts.clusters;
    uint32_t shown = 0, all = 0;
    for (uint32_t t = 0; t < view->flows.thread_count; t++) {
        if (c->of[t] != group || all++ >= MOST_THREADS) continue;
        char name[NA_LABEL];
        na_access_thread_label(view, t, name);
        NA_ADVISE(a->code, "%s%.80s", shown++ == 0 ? "" : ", ", name);
    }
    if (all > shown) NA_ADVISE(a->code, " and %u more", all - shown);
}

/* What the group's threads share, of this verdict: ids, where they lie, and how to have them on the
 * node. */
static void put_buffers(const na_access_view_t *view, const na_verdict_t *v, uint32_t group,
                        na_verdict_advice_t *a) {
    const na_clusters_t *c = &view->verdicts.clusters;
    const na_flow_group_t *g = &view->flows.groups[v->group];
    uint32_t all = 0, shown = 0;
    double home[NA_FLOWS_NODES] = {0}, sum = 0;
    for (uint32_t i = 0; i < g->objects; i++) {
        uint32_t o = g->members[i];
        if (c->owner[o] != group || !na_verdict_is_on(v, o)) continue;
        na_flow_t flow = na_flow_of_object(&view->flows, o);
        for (uint32_t k = 0; k < flow.count; k++) {
            const na_touch_t *touch = &view->flows.items[flow.items[k]];
            if (!na_access_view_has(view, touch) || touch->home < 0) continue;
            home[touch->home] += touch->weight;
            sum += touch->weight;
        }
        if (all++ >= MOST_BUFFERS) continue;
        NA_ADVISE(a->code, "%s%u", shown++ == 0 ? ", their buffers (object " : ", ", o);
    }
    if (all == 0 || c->each[group].node < 0) return;
    if (all > shown) NA_ADVISE(a->code, " and %u more", all - shown);
    char node[NA_LABEL];
    na_access_node(view, c->each[group].node, node);
    NA_ADVISE(a->code, ")");
    if (home[c->each[group].node] >= (1 - na_limit(NA_T_REMOTE)) * sum)
        NA_ADVISE(a->code, " lie there already");
    else if (movable(view, v))
        NA_ADVISE(a->code, " too: numalloc_migrate(block, %.8s, NULL)", node);
    else if (g->kind == NA_FLOW_HEAP)
        NA_ADVISE(a->code,
                  " too: allocate them with numalloc_alloc_onnode(size, %.8s), or by these threads "
                  "there",
                  node);
    else
        NA_ADVISE(a->code,
                  " too: let these threads touch them first, or move them with move_pages(2)");
}

static void for_cluster(const na_access_view_t *view, const na_verdict_t *v,
                        na_verdict_advice_t *a) {
    const na_clusters_t *c = &view->verdicts.clusters;
    const na_flow_group_t *g = &view->flows.groups[v->group];
    uint32_t listed = 0, left = 0;
    NA_ADVISE(a->code, "have threads and buffers on one node, for each group one "
                       "(numalloc_set_thread_node(node) and pthread_setaffinity_np): ");
    for (uint32_t group = 0; group < c->count; group++) {
        bool concerned = false;
        for (uint32_t i = 0; i < g->objects && !concerned; i++)
            concerned = c->owner[g->members[i]] == group && na_verdict_is_on(v, g->members[i]);
        if (!concerned) continue;
        if (listed == MOST_LISTED) {
            left++;
            continue;
        }
        char node[NA_LABEL];
        NA_ADVISE(a->code, "%sgroup %u on node %.8s: threads ", listed++ == 0 ? "" : "; ",
                  group + 1, na_access_node(view, c->each[group].node, node));
        advise_threads(view, group, a);
        put_buffers(view, v, group, a);
    }
    if (left != 0) NA_ADVISE(a->code, "; and %u groups more", left);
    NA_ADVISE(a->code, ". numalloc-dump sharing lists all groups");
    NA_ADVISE(a->command,
              view->flows.process_count > 1
                  ? "numactl --cpunodebind=NODE --localalloc PROCESS, a node for each process"
                  : "a process for each group, each under numactl --cpunodebind=NODE --localalloc");
    NA_ADVISE(a->placement, "pin");
}

static void for_several(const na_access_view_t *view, const na_verdict_t *v,
                        na_verdict_advice_t *a) {
    char size[NA_TEXT], copies[NA_TEXT];
    double bytes = largest(view, v);
    unsigned others = view->flows.node_count > 1 ? view->flows.node_count - 1 : 1;
    bool pages = bytes / 4096 >= na_limit(NA_T_PAGES);
    switch (v->kind) {
    case NA_VERDICT_ALTERNATING:
        if (movable(view, v))
            NA_ADVISE(a->code,
                      "move it to the node whose turn begins, numalloc_migrate(block, "
                      "numalloc_current_node(), NULL), if a turn is much longer than copying %s; "
                      "else run these threads on one node",
                      na_text_bytes(size, bytes));
        else
            NA_ADVISE(a->code,
                      "run these threads on one node; or, if a turn is much longer than copying "
                      "%s, copy it to memory of the node whose turn begins "
                      "(numalloc_alloc_local), and back",
                      na_text_bytes(size, bytes));
        NA_ADVISE(a->placement, "pin");
        return;
    case NA_VERDICT_READ_MOSTLY:
        NA_ADVISE(a->code,
                  "give each node a copy after it was filled: numalloc_replicate(data, size), and "
                  "read numalloc_replica(...); %u copies more are %s. Look at the source first: "
                  "sampling cannot prove that it is never written",
                  others, na_text_bytes(copies, bytes * others));
        NA_ADVISE(a->command, "numactl --interleave=all PROGRAM helps a part");
        NA_ADVISE(a->placement, "replicate");
        return;
    case NA_VERDICT_WRITE_SHARED:
        if (!na_measure_shares_lines(&v->measure)) {
            NA_ADVISE(a->code, "let each thread allocate its part by itself, on its node "
                               "(numalloc_alloc_local); a line of its own it has already");
            NA_ADVISE(a->placement, "local");
            return;
        }
        if (v->measure.lines <= na_limit(NA_T_LINES)) {
            NA_ADVISE(a->code,
                      "%u cache line%s take most of it: give each thread a line of its own "
                      "(alignas(64)), on its node (numalloc_alloc_local), and add up at the end",
                      v->measure.lines, v->measure.lines == 1 ? "" : "s");
            NA_ADVISE(a->placement, "pad");
            return;
        }
        if (pages) {
            NA_ADVISE(
                a->code,
                "spread its pages: numalloc_alloc_interleaved(size, NULL, 0); or divide it so "
                "that each thread has its own part");
            NA_ADVISE(a->command, "numactl --interleave=all PROGRAM");
            NA_ADVISE(a->placement, "interleave");
            return;
        }
        NA_ADVISE(a->code,
                  "divide it so that each thread writes its own part, or run these threads on one "
                  "node; %s is too little to interleave",
                  na_text_bytes(size, bytes));
        NA_ADVISE(a->placement, "pin");
        return;
    default:
        return;
    }
}

static void for_saturated(const na_verdict_t *v, na_verdict_advice_t *a) {
    (void)v;
    NA_ADVISE(a->code,
              "spread its pages over the nodes: numalloc_alloc_interleaved(size, NULL, 0)");
    NA_ADVISE(a->command, "numactl --interleave=all PROGRAM (all memory, not only this)");
    NA_ADVISE(a->placement, "interleave");
}

static void for_undecidable(const na_access_view_t *view, const na_verdict_t *v,
                            na_verdict_advice_t *a) {
    const na_nprof_access_source_t *s = &view->flows.sources[view->verdicts.source].of;
    const char *name = na_access_source_name(s->source);
    char count[NA_TEXT], more[256];
    switch (v->undecided) {
    case NA_UNDECIDED_SOURCE:
        if ((v->lacks & NA_EVIDENCE_ALLOCATION) != 0) {
            NA_ADVISE(a->reason, "these are many objects of which nothing is recorded; record with "
                                 "NUMALLOC_PROFILE=sites, from the start");
            return;
        }
        if ((v->lacks & NA_EVIDENCE_SHARES) != 0) {
            NA_ADVISE(a->reason, "undecidable with this source: %s%s", name,
                      (s->flags & NA_NPROF_ACCESS_MADE_UP) != 0 ? " makes samples up, for tests"
                      : s->source == NA_NPROF_SOURCE_KMOD_WATCH
                          ? " watches one address, and says nothing of the rest"
                          : " sees only the first access to each page");
            return;
        }
        if (v->lacks == NA_EVIDENCE_WORDS) {
            NA_ADVISE(a->reason,
                      "undecidable with this source: its lines are shared, its words are "
                      "one thread's each, or only read; access=watch tells whether that "
                      "is false sharing");
            return;
        }
        NA_ADVISE(a->reason, "undecidable with this source: %s does not give ", name);
        for (unsigned bit = 0, first = 1; bit < NA_EVIDENCE_BITS; bit++) {
            static const char *const words[NA_EVIDENCE_BITS] = {"all accesses",
                                                                "the nodes of thread and page",
                                                                "whether it reads or writes",
                                                                "what answered",
                                                                "latencies",
                                                                "who allocated it",
                                                                "who uses it at once",
                                                                "which words are used at once"};
            if ((v->lacks >> bit & 1) == 0) continue;
            NA_ADVISE(a->reason, "%s%s", first ? "" : ", ", words[bit]);
            first = 0;
        }
        return;
    case NA_UNDECIDED_SAMPLES: {
        double factor = v->measure.samples != 0 ? v->needed / v->measure.samples : v->needed;
        if (na_measure_is_sparse(&v->measure)) {
            na_access_more_often(&view->flows.sources[view->verdicts.source].of, factor, more,
                                 sizeof more);
            NA_ADVISE(a->reason,
                      "too few samples of each: %u of %u objects, and about %s are needed%s%s",
                      v->measure.samples, v->measure.instances, na_text_count(count, v->needed),
                      more[0] != 0 ? "; sample more often: " : "", more);
            return;
        }
        na_access_more(view, factor, more, sizeof more);
        NA_ADVISE(a->reason, "too few samples: %u, and about %s are needed; %s", v->measure.samples,
                  na_text_count(count, v->needed), more);
        return;
    }
    case NA_UNDECIDED_BETWEEN:
        NA_ADVISE(a->reason, "no rule fits; it is between %s and %s",
                  na_verdict_texts[v->runners[0]].title, na_verdict_texts[v->runners[1]].title);
        return;
    case NA_UNDECIDED_NOT:
        return;
    }
}

static void expect(const na_access_view_t *view, const na_verdict_t *v, na_verdict_advice_t *a) {
    if (v->kind == NA_VERDICT_FALSE_SHARING) return; /* na_verdict_advice_line says it */
    if (v->kind != NA_VERDICT_NOTHING && view->verdicts.remote < na_limit(NA_T_GAIN)) {
        NA_ADVISE(a->expected, "nothing to gain: of all accesses %.1f %% go to other nodes",
                  100 * view->verdicts.remote);
        return;
    }
    bool known = !isnan(v->gain_remote);
    if (known) NA_ADVISE(a->expected, "%.1f %% of all accesses become local", 100 * v->gain_remote);
    if (!isnan(v->gain_latency))
        NA_ADVISE(a->expected, "%sup to %.1f %% less time waiting for memory", known ? "; " : "",
                  100 * v->gain_latency);
    else if (known)
        NA_ADVISE(a->expected, " (how much time that is, latencies would tell)");
    else if (v->kind == NA_VERDICT_WRITE_SHARED || v->kind == NA_VERDICT_EVEN)
        NA_ADVISE(a->expected, "not estimated: it depends on the caches");
}

/* Is where it lies wrong, and the program's own doing? */
static bool by_own_policy(const na_verdict_t *v) {
    return na_measure_by_policy(&v->measure) && v->kind != NA_VERDICT_NOTHING &&
           v->kind != NA_VERDICT_UNDECIDABLE && v->kind != NA_VERDICT_FALSE_SHARING;
}

const char *na_verdict_means(const na_access_view_t *view, const na_verdict_t *v) {
    if (v->kind == NA_VERDICT_FALSE_SHARING &&
        na_line_is_beside(&view->verdicts.lines.items[v->line]))
        return "threads read what nobody writes, and it lies in one line of the cache with what "
               "others write";
    if (v->kind == NA_VERDICT_WRITE_SHARED && !na_measure_shares_lines(&v->measure))
        return "threads of several nodes each use lines of their own in it, in pages of one node";
    if (v->kind == NA_VERDICT_OWN && by_own_policy(v))
        return "one thread uses it, and the program's own memory policy placed it on other nodes";
    return na_verdict_texts[v->kind].means;
}

void na_verdict_advice(const na_access_view_t *view, const na_verdict_t *v,
                       na_verdict_advice_t *a) {
    memset(a, 0, sizeof *a);
    char thread[NA_LABEL], node[NA_LABEL];
    if (by_own_policy(v))
        NA_ADVISE(a->cause,
                  "a memory policy that the program set (numactl, set_mempolicy) placed it: %s",
                  v->measure.spread <= na_limit(NA_T_SPREAD) ? "its pages are spread over the nodes"
                                                             : "most of it is bound to one node");
    switch (v->kind) {
    case NA_VERDICT_MIGRATED:
        na_access_thread_label(view, v->measure.reader, thread);
        NA_ADVISE(a->code, "keep the thread (%.60s) on its node: pthread_setaffinity_np; or %s",
                  thread,
                  movable(view, v)
                      ? "move the data after it: numalloc_migrate(block, numalloc_current_node(), "
                        "NULL)"
                      : "copy the data after it has moved, to numalloc_alloc_local(size)");
        NA_ADVISE(a->command, "numactl --cpunodebind=%.8s PROGRAM, or taskset",
                  na_access_node(view, v->measure.at, node));
        offer_balancing(view, v, a);
        NA_ADVISE(a->placement, "pin");
        break;
    case NA_VERDICT_OWN:
        if (na_measure_by_policy(&v->measure)) {
            NA_ADVISE(a->code,
                      "call set_mempolicy only around what all nodes use, or allocate that with "
                      "numalloc_alloc_interleaved(size, NULL, 0); what one thread uses: "
                      "numalloc_alloc_local(size)");
            NA_ADVISE(a->command, "run it without numactl's --interleave, --membind, --preferred");
            NA_ADVISE(a->placement, "local");
            break;
        }
        NA_ADVISE(
            a->code,
            "allocate on the thread's own node: numalloc_alloc_local(size); with another "
            "allocator, or a pool, let each thread touch its memory first, and give each node "
            "an arena of its own");
        NA_ADVISE(a->command, "numactl --localalloc PROGRAM");
        offer_balancing(view, v, a);
        NA_ADVISE(a->placement, "local");
        break;
    case NA_VERDICT_REMOTE:
        for_remote(view, v, a);
        offer_balancing(view, v, a);
        break;
    case NA_VERDICT_PARTITION:
        for_partition(view, v, a);
        break;
    case NA_VERDICT_CLUSTER:
        for_cluster(view, v, a);
        break;
    case NA_VERDICT_ALTERNATING:
    case NA_VERDICT_READ_MOSTLY:
    case NA_VERDICT_WRITE_SHARED:
        for_several(view, v, a);
        break;
    case NA_VERDICT_SATURATED:
        for_saturated(v, a);
        break;
    case NA_VERDICT_EVEN:
        NA_ADVISE(a->code,
                  "where it lies can do no more for it. Divide the work so that each thread keeps "
                  "to a part of it, whose pages can then be on its node; or run these threads on "
                  "one node");
        break;
    case NA_VERDICT_FALSE_SHARING:
        na_verdict_advice_line(view, v, a);
        break;
    case NA_VERDICT_UNDECIDABLE:
        for_undecidable(view, v, a);
        break;
    default:
        break;
    }
    expect(view, v, a);
}
