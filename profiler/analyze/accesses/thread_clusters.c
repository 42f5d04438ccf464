/* thread_clusters.c - groups of threads that share objects with each other: the graph of threads,
 * with an edge for the lines that two of them share, is taken apart where that costs the fewest
 * edges (greedy modularity: the pair of groups whose union raises it most is united, until none
 * does). */
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/accesses/verdict.h"

/* Threads and objects that are looked at, those with most samples; time grows with the cube of the
 * first. */
#define MOST_THREADS 512u
#define MOST_OBJECTS 4096u

typedef struct graph {
    const na_flows_t *set;
    uint32_t *vertex; /* by thread: its number here, or NA_FLOWS_NONE */
    uint32_t *thread; /* and back */
    uint32_t count;
    double *edge;   /* count x count, both halves */
    double *sum;    /* of a row */
    double all;     /* of all rows */
    double *weight; /* of one object, by vertex */
    uint32_t *touched;
    uint64_t *lines; /* of one object's samples: a table of four slots a sample at most */
} graph_t;

static int busiest_first(const void *a, const void *b, void *arg) {
    const na_flows_t *set = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    uint32_t x = set->threads[i].samples, y = set->threads[j].samples;
    if (x != y) return x > y ? -1 : 1;
    return i < j ? -1 : i > j;
}

static int most_samples_object(const void *a, const void *b, void *arg) {
    const na_flows_t *set = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    uint32_t x = set->objects[i].samples, y = set->objects[j].samples;
    if (x != y) return x > y ? -1 : 1;
    return i < j ? -1 : i > j;
}

/* Puts it into a table of `mask` + 1 slots, 0 where one is free; false: it was there. */
static bool is_new_line(uint64_t *table, uint64_t mask, uint64_t line) {
    uint64_t at = line * UINT64_C(0x9E3779B97F4A7C15) >> 32 & mask;
    for (; table[at] != 0; at = (at + 1) & mask)
        if (table[at] == line + 1) return false;
    table[at] = line + 1;
    return true;
}

/* Of a counter of all, however hot, there is little that could be moved: each line that was met
 * counts once, by the object's mean weight. */
static double share_of_lines(graph_t *g, na_flow_t flow, uint32_t source, bool dram) {
    uint64_t mask = 1;
    uint32_t lines = 0, count = 0;
    while (mask < 2 * (uint64_t)flow.count)
        mask = 2 * mask + 1;
    memset(g->lines, 0, (mask + 1) * sizeof *g->lines);
    for (uint32_t i = 0; i < flow.count; i++) {
        const na_touch_t *a = &g->set->items[flow.items[i]];
        if (!na_verdict_counts(a, source, dram)) continue;
        count++;
        lines += is_new_line(g->lines, mask, a->address / NA_LINE_BYTES);
    }
    return count != 0 ? (double)lines / count : 0;
}

/* Two threads share as much of an object as two random accesses to it are theirs. */
static void add_shared_object(graph_t *g, uint32_t object, uint32_t source, bool dram) {
    na_flow_t flow = na_flow_of_object(g->set, object);
    uint32_t touched = 0;
    double all = 0;
    for (uint32_t i = 0; i < flow.count; i++) {
        const na_touch_t *a = &g->set->items[flow.items[i]];
        uint32_t v = g->vertex[a->thread];
        if (v == NA_FLOWS_NONE || !na_verdict_counts(a, source, dram)) continue;
        if (g->weight[v] == 0) g->touched[touched++] = v;
        g->weight[v] += a->weight;
        all += a->weight;
    }
    double part = touched > 1 ? share_of_lines(g, flow, source, dram) : 0;
    for (uint32_t i = 0; i < touched; i++)
        for (uint32_t j = 0; j < touched; j++) {
            uint32_t v = g->touched[i], u = g->touched[j];
            if (v != u && all > 0)
                g->edge[(size_t)v * g->count + u] += part * g->weight[v] * g->weight[u] / all;
        }
    for (uint32_t i = 0; i < touched; i++)
        g->weight[g->touched[i]] = 0;
}

/* Unites groups while that helps; group[v] is a vertex that stands for it. */
static double unite(graph_t *g, uint32_t *group) {
    uint32_t n = g->count;
    double modularity = 0;
    for (uint32_t v = 0; v < n; v++) {
        group[v] = v;
        g->sum[v] = 0;
        for (uint32_t u = 0; u < n; u++)
            g->sum[v] += g->edge[(size_t)v * n + u];
        g->all += g->sum[v];
    }
    if (!(g->all > 0)) return 0;
    for (uint32_t v = 0; v < n; v++)
        modularity -= g->sum[v] / g->all * (g->sum[v] / g->all);
    for (;;) {
        double best = 1e-9; /* what rounding makes is no gain */
        uint32_t from = 0, to = 0;
        for (uint32_t v = 0; v < n; v++) {
            if (group[v] != v) continue;
            for (uint32_t u = v + 1; u < n; u++) {
                if (group[u] != u) continue;
                double edge = g->edge[(size_t)v * n + u];
                if (edge <= 0) continue;
                double gain = 2 * (edge / g->all - g->sum[v] * g->sum[u] / g->all / g->all);
                if (gain > best) {
                    best = gain;
                    to = v;
                    from = u;
                }
            }
        }
        if (from == to) return modularity;
        modularity += best;
        for (uint32_t u = 0; u < n; u++) {
            if (group[u] == from) group[u] = to;
            if (u == to) continue;
            g->edge[(size_t)to * n + u] += g->edge[(size_t)from * n + u];
            g->edge[(size_t)u * n + to] = g->edge[(size_t)to * n + u];
        }
        g->sum[to] += g->sum[from];
    }
}

static void number_groups(const graph_t *g, const uint32_t *group, na_clusters_t *clusters) {
    for (uint32_t v = 0; v < g->count; v++) {
        if (group[v] != v || !(g->sum[v] > 0)) continue;
        uint32_t members = 0;
        for (uint32_t u = 0; u < g->count; u++)
            if (group[u] == v) {
                clusters->of[g->thread[u]] = clusters->count;
                members++;
            }
        if (members == 1) clusters->of[g->thread[v]] = NA_FLOWS_NONE;
        if (members == 1) continue;
        clusters->count++;
        clusters->useful++;
    }
}

/* The group of the threads with most of an object, if two or more threads use it. */
static uint32_t owning_group(const na_clusters_t *c, const na_flows_t *set, uint32_t object,
                             uint32_t source, bool dram, double *weights) {
    na_flow_t flow = na_flow_of_object(set, object);
    uint32_t best = NA_FLOWS_NONE, first = NA_FLOWS_NONE;
    bool shared = false;
    for (int pass = 0; pass < 2; pass++)
        for (uint32_t i = 0; i < flow.count; i++) {
            const na_touch_t *a = &set->items[flow.items[i]];
            if (!na_verdict_counts(a, source, dram)) continue;
            if (first == NA_FLOWS_NONE) first = a->thread;
            shared = shared || a->thread != first;
            uint32_t group = c->of[a->thread];
            if (group == NA_FLOWS_NONE) continue;
            weights[group] = pass == 0 ? weights[group] + a->weight : weights[group];
            if (pass == 1 && (best == NA_FLOWS_NONE || weights[group] > weights[best]))
                best = group;
        }
    for (uint32_t i = 0; i < flow.count; i++)
        if (c->of[set->items[flow.items[i]].thread] != NA_FLOWS_NONE)
            weights[c->of[set->items[flow.items[i]].thread]] = 0;
    return shared ? best : NA_FLOWS_NONE;
}

/* Gives each group a node: the one that most of its objects lie on, where that is no other's. Where
 * two want the same, to whom it is dearer; else where most of its accesses come from. */
static void place_groups(na_clusters_t *c, const na_flows_t *set) {
    bool known = false;
    uint32_t used[NA_FLOWS_NODES] = {0}, nodes = 0;
    for (uint32_t n = 0; n < set->node_count; n++)
        known = known || set->nodes[n].cpus != 0;
    for (uint32_t n = 0; n < set->node_count && n < NA_FLOWS_NODES; n++)
        nodes += !known || set->nodes[n].cpus != 0;
    if (nodes == 0) { /* none with processors: as if none were known */
        known = false;
        nodes = set->node_count;
    }
    for (uint32_t placed = 0; nodes != 0 && placed < c->count; placed++) {
        na_cluster_t *best = NULL;
        uint32_t at = 0, most = placed / nodes; /* groups that a node may have so far */
        for (uint32_t g = 0; g < c->count; g++) {
            na_cluster_t *of = &c->each[g];
            if (of->node >= 0) continue;
            for (uint32_t n = 0; n < set->node_count; n++) {
                if ((known && set->nodes[n].cpus == 0) || used[n] > most) continue;
                if (best != NULL &&
                    (of->home[n] < best->home[at] ||
                     (!(of->home[n] > best->home[at]) && !(of->from[n] > best->from[at]))))
                    continue;
                best = of;
                at = n;
            }
        }
        best->node = (int16_t)at;
        used[at]++;
    }
}

/* What each group does and where what it shares lies. False: out of memory. */
static bool describe_groups(na_clusters_t *c, const na_flows_t *set, uint32_t source, bool dram) {
    c->owner = calloc((size_t)set->object_count + 1, sizeof *c->owner);
    c->each = calloc((size_t)c->count + 1, sizeof *c->each);
    double *weights = calloc((size_t)c->count + 1, sizeof *weights);
    bool good = c->owner != NULL && c->each != NULL && weights != NULL;
    for (uint32_t g = 0; good && g < c->count; g++)
        c->each[g].node = -1;
    for (uint32_t o = 0; good && o < set->object_count; o++)
        c->owner[o] = c->count != 0 && set->objects[o].samples > 1
                          ? owning_group(c, set, o, source, dram, weights)
                          : NA_FLOWS_NONE;
    for (uint32_t i = 0; good && c->count != 0 && i < set->count; i++) {
        const na_touch_t *a = &set->items[i];
        if (!na_verdict_counts(a, source, dram)) continue;
        uint32_t group = c->of[a->thread], owner = c->owner[a->object];
        if (group != NA_FLOWS_NONE) c->each[group].weight += a->weight;
        if (group != NA_FLOWS_NONE && a->from >= 0) c->each[group].from[a->from] += a->weight;
        if (owner != NA_FLOWS_NONE && a->home >= 0) c->each[owner].home[a->home] += a->weight;
    }
    if (good) place_groups(c, set);
    free(weights);
    return good;
}

bool na_clusters_find(const na_flows_t *set, uint32_t source, bool dram, na_clusters_t *clusters) {
    *clusters = (na_clusters_t){.of = calloc((size_t)set->thread_count + 1, sizeof(uint32_t))};
    uint32_t *objects = calloc((size_t)set->object_count + 1, sizeof *objects);
    uint32_t *group = NULL;
    graph_t g = {.set = set,
                 .vertex = calloc((size_t)set->thread_count + 1, sizeof(uint32_t)),
                 .thread = calloc((size_t)set->thread_count + 1, sizeof(uint32_t))};
    bool good = clusters->of != NULL && objects != NULL && g.vertex != NULL && g.thread != NULL;
    if (good) {
        for (uint32_t t = 0; t < set->thread_count; t++) {
            clusters->of[t] = g.vertex[t] = NA_FLOWS_NONE;
            if (set->threads[t].samples != 0) g.thread[g.count++] = t;
        }
        qsort_r(g.thread, g.count, sizeof *g.thread, busiest_first, (void *)(uintptr_t)set);
        if (g.count > MOST_THREADS) g.count = MOST_THREADS;
        for (uint32_t v = 0; v < g.count; v++)
            g.vertex[g.thread[v]] = v;
        g.edge = calloc((size_t)g.count * g.count + 1, sizeof *g.edge);
        g.sum = calloc((size_t)g.count + 1, sizeof *g.sum);
        g.weight = calloc((size_t)g.count + 1, sizeof *g.weight);
        g.touched = calloc((size_t)g.count + 1, sizeof *g.touched);
        group = calloc((size_t)g.count + 1, sizeof *group);
        g.lines = calloc(4 * ((size_t)set->count + 1), sizeof *g.lines);
        good = g.lines != NULL && g.edge != NULL && g.sum != NULL && g.weight != NULL &&
               g.touched != NULL && group != NULL;
    }
    if (good) {
        for (uint32_t i = 0; i < set->object_count; i++)
            objects[i] = i;
        qsort_r(objects, set->object_count, sizeof *objects, most_samples_object,
                (void *)(uintptr_t)set);
        for (uint32_t i = 0; i < set->object_count && i < MOST_OBJECTS; i++)
            add_shared_object(&g, objects[i], source, dram);
        clusters->modularity = unite(&g, group);
        number_groups(&g, group, clusters);
        clusters->apart =
            clusters->useful >= 2 && clusters->modularity >= na_limit(NA_T_MODULARITY);
        good = describe_groups(clusters, set, source, dram);
    }
    free(objects);
    free(group);
    free(g.vertex);
    free(g.thread);
    free(g.edge);
    free(g.sum);
    free(g.weight);
    free(g.touched);
    free(g.lines);
    return good;
}

void na_clusters_free(na_clusters_t *clusters) {
    free(clusters->of);
    free(clusters->owner);
    free(clusters->each);
    *clusters = (na_clusters_t){0};
}
