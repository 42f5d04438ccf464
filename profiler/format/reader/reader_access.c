/* reader_access.c - see reader_access.h: reads the tables and samples, checks every reference,
 * sorts. */
#include "profiler/format/reader/reader_access.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/format/reader/reader_priv.h"

#define MAX_SOURCES 256u /* a sample has 8 bits for one */
#define MAX_IDS     (UINT32_C(1) << 28)

/* Where entries of one type go: a table by id. */
typedef struct table {
    uint8_t *items;
    uint32_t count;
    uint32_t size;  /* of an item */
    uint32_t first; /* least id */
    na_entry_holds_fn_t holds;
} table_t;

#define HOLDS(name)                                                                                \
    static bool name##_holds(const void *entry) {                                                  \
        const na_nprof_access_##name##_t *e = entry;                                               \
        return na_nprof_check_holds(e->check, na_nprof_check(e, sizeof *e - sizeof e->check));     \
    }
HOLDS(source)
HOLDS(node)
HOLDS(thread)
HOLDS(mapping)
HOLDS(object)
HOLDS(window)
HOLDS(probe)
HOLDS(sample)

/* An entry as it is now, where an older one has no checksum without. False: it is damaged. */
static bool copy_entry(na_reader_t *reader, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry, void *to, size_t size, na_entry_holds_fn_t holds) {
    if (chunk->entry_size < size) {
        memset(to, 0, size);
        memcpy(to, entry, chunk->entry_size);
        return true;
    }
    memcpy(to, entry, size);
    if (na_reader_entry_holds(reader, chunk, index, to, size, holds)) return true;
    memset(to, 0, size);
    return false;
}

static void take_entry(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry) {
    const table_t *to = arg;
    uint64_t id = (uint64_t)chunk->first_id + index;
    if (id < to->first || id >= to->count) {
        na_reader_issue(reader, NA_ISSUE_BAD_ACCESS, chunk->data, id);
        return;
    }
    copy_entry(reader, chunk, index, entry, to->items + id * to->size, to->size, to->holds);
}

/* False: out of memory. */
static bool read_table(na_reader_t *reader, uint16_t type, uint32_t limit, table_t to, void **items,
                       uint32_t *count) {
    to.count = na_reader_id_bound(reader, type, limit);
    if (to.count == 0) return true;
    to.items = na_budget_calloc(na_reader_budget(reader), to.count, to.size);
    if (to.items == NULL) return false;
    *items = to.items;
    *count = to.count;
    na_reader_each_entry(reader, type, take_entry, &to);
    return true;
}

typedef struct samples {
    na_access_t *access;
    size_t room;
    bool failed;
} samples_t;

static void take_sample(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                        const void *entry) {
    samples_t *to = arg;
    na_access_t *a = to->access;
    if (!to->failed &&
        !NA_BUDGET_RESERVE(na_reader_budget(reader), a->samples, to->room, a->sample_count + 1))
        to->failed = true;
    if (!to->failed && copy_entry(reader, chunk, index, entry, &a->samples[a->sample_count],
                                  sizeof *a->samples, sample_holds))
        a->sample_count++;
}

/* ---- checks: a reference to nothing becomes 0 ---- */

typedef struct check {
    na_reader_t *reader;
    uint32_t nodes;
    na_stack_table_t stacks;
    na_thread_table_t threads;
    uint64_t bad;
} check_t;

static void check_node(check_t *c, int16_t *node) {
    if (*node >= NA_NPROF_NO_NODE && *node < (int32_t)c->nodes) return;
    *node = NA_NPROF_NO_NODE;
    c->bad++;
}

static void check_stack(check_t *c, uint32_t *stack) {
    *stack = na_reader_stack_id(c->reader, *stack);
    if (*stack == 0 || (*stack < c->stacks.count && c->stacks.items[*stack].flags != 0)) return;
    *stack = 0;
    c->bad++;
}

static void check_sample_thread(check_t *c, uint32_t *thread) {
    if (*thread == 0 || (*thread < c->threads.count && c->threads.items[*thread].tid != 0)) return;
    *thread = 0;
    c->bad++;
}

/* `there`: the entry that *id names exists. */
static void check_id(check_t *c, uint32_t *id, bool there) {
    if (*id == 0 || there) return;
    *id = 0;
    c->bad++;
}

static void check_byte(check_t *c, uint8_t *value, uint8_t end) {
    if (*value < end) return;
    *value = 0;
    c->bad++;
}

static void check_amount(check_t *c, double *value) {
    if (isfinite(*value) && *value >= 0) return;
    *value = 0;
    c->bad++;
}

static void check_sources(check_t *c, na_access_t *a) {
    for (uint32_t i = 0; i < a->source_count; i++) {
        na_nprof_access_source_t *s = &a->sources[i];
        s->why[sizeof s->why - 1] = 0;
        if ((s->flags & NA_NPROF_ACCESS_VALID) == 0 || s->source == 0 ||
            s->source >= NA_NPROF_SOURCE_KINDS || s->unit == 0 || s->unit >= NA_NPROF_UNIT_KINDS) {
            c->bad += s->flags != 0;
            memset(s, 0, sizeof *s);
        }
    }
}

/* Two ranges of one line; uses of them. */
static void check_probe(check_t *c, na_access_t *a, na_nprof_access_probe_t *p) {
    bool good = p->watched_ns != 0 && p->address[0] / 64 == p->address[1] / 64 &&
                p->address[0] != p->address[1];
    for (uint32_t k = 0; k < 2; k++) {
        good = good && p->length[k] != 0 && p->length[k] <= 8 &&
               p->address[k] % 64 + p->length[k] <= 64;
        check_id(c, &p->object[k],
                 p->object[k] < a->object_count && a->objects[p->object[k]].kind != 0);
    }
    if (!good) {
        c->bad += p->length[0] != 0;
        memset(p, 0, sizeof *p);
        return;
    }
    check_id(c, &p->mapping, p->mapping < a->mapping_count && a->mappings[p->mapping].end != 0);
    if (p->count > NA_NPROF_PROBE_USES) p->count = NA_NPROF_PROBE_USES;
    for (uint32_t k = 0; k < p->count; k++) {
        na_nprof_probe_use_t *u = &p->uses[k];
        check_id(c, &u->thread, u->thread < a->thread_count && a->threads[u->thread].tid != 0);
        check_byte(c, &u->range, 2);
        if (u->watched_ns == 0) u->watched_ns = 1;
    }
}

static void check_tables(check_t *c, na_access_t *a) {
    if (a->node_count > c->nodes) a->node_count = c->nodes;
    for (uint32_t i = 0; i < a->thread_count; i++) {
        na_nprof_access_thread_t *t = &a->threads[i];
        t->name[sizeof t->name - 1] = 0;
        if (t->tid == 0) memset(t, 0, sizeof *t);
        check_sample_thread(c, &t->thread);
    }
    for (uint32_t i = 0; i < a->mapping_count; i++) {
        na_nprof_access_mapping_t *m = &a->mappings[i];
        m->path[sizeof m->path - 1] = 0;
        if (m->start >= m->end) {
            c->bad += m->start != 0;
            memset(m, 0, sizeof *m);
        }
        check_id(c, &m->thread, m->thread < a->thread_count && a->threads[m->thread].tid != 0);
    }
    for (uint32_t i = 0; i < a->object_count; i++) {
        na_nprof_access_object_t *o = &a->objects[i];
        if (o->kind != NA_NPROF_OBJECT_HEAP && o->kind != NA_NPROF_OBJECT_POOL) {
            c->bad += o->kind != 0;
            memset(o, 0, sizeof *o);
            continue;
        }
        check_stack(c, &o->site);
        check_sample_thread(c, &o->thread);
        check_node(c, &o->node);
    }
    for (uint32_t i = 0; i < a->window_count; i++) {
        na_nprof_access_window_t *w = &a->windows[i];
        if (w->length == 0) memset(w, 0, sizeof *w);
        check_id(c, &w->object, w->object < a->object_count && a->objects[w->object].kind != 0);
        check_amount(c, &w->inverse);
    }
    for (uint32_t i = 0; i < a->probe_count; i++)
        check_probe(c, a, &a->probes[i]);
}

static void check_samples(check_t *c, na_access_t *a) {
    size_t kept = 0;
    for (size_t i = 0; i < a->sample_count; i++) {
        na_nprof_access_sample_t *s = &a->samples[i];
        if (s->source >= a->source_count || a->sources[s->source].source == 0) {
            c->bad++; /* its weight would have no unit */
            continue;
        }
        if (s->target == NA_NPROF_TARGET_OWN) continue; /* nothing of the program's */
        check_amount(c, &s->weight);
        check_stack(c, &s->stack);
        check_id(c, &s->thread, s->thread < a->thread_count && a->threads[s->thread].tid != 0);
        check_id(c, &s->object, s->object < a->object_count && a->objects[s->object].kind != 0);
        check_id(c, &s->mapping, s->mapping < a->mapping_count && a->mappings[s->mapping].end != 0);
        check_id(c, &s->window, s->window < a->window_count && a->windows[s->window].length != 0);
        check_node(c, &s->cpu_node);
        check_node(c, &s->home_node);
        check_byte(c, &s->level, NA_NPROF_LEVELS);
        check_byte(c, &s->target, NA_NPROF_TARGETS);
        check_byte(c, &s->op, 4);
        if (s->latency < -1) {
            s->latency = -1;
            c->bad++;
        }
        if ((s->target == NA_NPROF_TARGET_HEAP || s->target == NA_NPROF_TARGET_POOL) &&
            s->object == 0) {
            s->target = NA_NPROF_TARGET_UNRESOLVED;
            c->bad++;
        }
        a->samples[kept++] = *s;
    }
    a->sample_count = kept;
}

static int access_samples_by_time(const void *x, const void *y) {
    const na_nprof_access_sample_t *a = x, *b = y;
    if (a->ns != b->ns) return a->ns < b->ns ? -1 : 1;
    return a->serial < b->serial ? -1 : a->serial > b->serial;
}

/* Sorts, and drops what a kill left twice: same time, same serial. */
static void sort_samples(na_access_t *a) {
    if (a->sample_count < 2) return;
    qsort(a->samples, a->sample_count, sizeof *a->samples, access_samples_by_time);
    size_t kept = 1;
    for (size_t i = 1; i < a->sample_count; i++)
        if (access_samples_by_time(&a->samples[i], &a->samples[kept - 1]) != 0)
            a->samples[kept++] = a->samples[i];
    a->sample_count = kept;
}

bool na_access_load(na_reader_t *reader, na_access_t *a) {
    memset(a, 0, sizeof *a);
    const struct {
        uint16_t type;
        uint32_t limit;
        table_t table;
        void **items;
        uint32_t *count;
    } tables[] = {
        {NA_NPROF_ACCESS_WINDOWS,
         MAX_IDS,
         {.size = sizeof *a->windows, .first = 1, .holds = window_holds},
         (void **)&a->windows,
         &a->window_count},
        {NA_NPROF_ACCESS_PROBES,
         MAX_IDS,
         {.size = sizeof *a->probes, .first = 1, .holds = probe_holds},
         (void **)&a->probes,
         &a->probe_count},
        {NA_NPROF_ACCESS_OBJECTS,
         MAX_IDS,
         {.size = sizeof *a->objects, .first = 1, .holds = object_holds},
         (void **)&a->objects,
         &a->object_count},
        {NA_NPROF_ACCESS_MAPPINGS,
         MAX_IDS,
         {.size = sizeof *a->mappings, .first = 1, .holds = mapping_holds},
         (void **)&a->mappings,
         &a->mapping_count},
        {NA_NPROF_ACCESS_THREADS,
         MAX_IDS,
         {.size = sizeof *a->threads, .first = 1, .holds = thread_holds},
         (void **)&a->threads,
         &a->thread_count},
        {NA_NPROF_ACCESS_NODES,
         NA_NPROF_MAX_NODES,
         {.size = sizeof *a->nodes, .first = 0, .holds = node_holds},
         (void **)&a->nodes,
         &a->node_count},
        {NA_NPROF_ACCESS_SOURCES,
         MAX_SOURCES,
         {.size = sizeof *a->sources, .first = 1, .holds = source_holds},
         (void **)&a->sources,
         &a->source_count},
    };
    samples_t samples = {.access = a};
    na_reader_each_entry(reader, NA_NPROF_ACCESS_SAMPLES, take_sample, &samples);
    bool done = !samples.failed;
    for (size_t i = 0; i < sizeof tables / sizeof tables[0] && done; i++)
        done = read_table(reader, tables[i].type, tables[i].limit, tables[i].table, tables[i].items,
                          tables[i].count);
    if (!done) {
        na_access_free(a);
        return false;
    }
    check_t check = {.reader = reader,
                     .nodes = na_reader_header(reader)->node_count,
                     .stacks = na_reader_stacks(reader),
                     .threads = na_reader_threads(reader)};
    check_sources(&check, a);
    check_tables(&check, a);
    check_samples(&check, a);
    for (; check.bad != 0; check.bad--)
        na_reader_issue(reader, NA_ISSUE_BAD_ACCESS, 0, 0);
    sort_samples(a);
    return true;
}

void na_access_free(na_access_t *a) {
    na_budget_free(a->sources);
    na_budget_free(a->nodes);
    na_budget_free(a->threads);
    na_budget_free(a->mappings);
    na_budget_free(a->objects);
    na_budget_free(a->windows);
    na_budget_free(a->probes);
    na_budget_free(a->samples);
    memset(a, 0, sizeof *a);
}

#define NAME_OF(names, i) ((i) < sizeof(names) / sizeof((names)[0]) ? (names)[i] : "?")

const char *na_access_source_name(uint32_t source) {
    static const char *const names[] = {"?",          "kmod-ibs", "perf-ibs", "pebs",
                                        "watch",      "numa",     "fault",    "kmod-fault",
                                        "kmod-watch", "kmod-sim", "spe"};
    return NAME_OF(names, source);
}

const char *na_access_unit_name(uint32_t unit) {
    static const char *const names[] = {"?",      "op",   "cycle", "load",   "store",
                                        "access", "scan", "fault", "made up"};
    return NAME_OF(names, unit);
}

const char *na_access_level_name(uint32_t level) {
    static const char *const names[] = {
        "?",          "L1",          "miss buffer", "L2",   "L3",  "near cache", "far cache",
        "local DRAM", "remote DRAM", "DRAM",        "PMEM", "CXL", "IO",         "uncached"};
    return NAME_OF(names, level);
}

const char *na_access_target_name(uint32_t target) {
    static const char *const names[] = {
        "?",    "heap", "pool", "unrecorded heap", "unresolved heap", "own", "stack",
        "data", "code", "file", "anonymous",       "kernel"};
    return NAME_OF(names, target);
}

bool na_access_is_dram(uint32_t level) {
    return level == NA_NPROF_LEVEL_LOCAL_DRAM || level == NA_NPROF_LEVEL_REMOTE_DRAM ||
           level == NA_NPROF_LEVEL_DRAM;
}
