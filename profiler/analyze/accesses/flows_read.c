/* flows_read.c - makes a set of flows of the profiles of one application: nodes, sources, threads,
 * objects and groups of all processes in one numbering. See flows.h. */
#include <search.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/accesses/flows.h"
#include "profiler/analyze/accesses/flows_names.h"
#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/containers/path.h"
#include "profiler/format/reader/reader_access.h"

/* ---- tables of keys ---- */

typedef struct table_key {
    uint64_t a, b, c;
} table_key_t;

typedef struct table {
    struct slot {
        table_key_t key;
        uint32_t value; /* plus 1; 0: not known yet */
    } * slots;
    uint32_t count, room;
    na_index_t index;
} table_t;

/* The slot of a key, until the next call; with value 0 if it is new. NULL: no memory. */
static struct slot *table_at(table_t *t, table_key_t key) {
    uint64_t hash =
        na_hash_number(na_hash_number(na_hash_number(NA_HASH_BEGIN, key.a), key.b), key.c);
    na_probe_t probe = na_index_probe(&t->index, hash);
    while (na_index_next(&t->index, &probe)) {
        const table_key_t *k = &t->slots[probe.number].key;
        if (k->a == key.a && k->b == key.b && k->c == key.c) return &t->slots[probe.number];
    }
    if (!NA_ARRAY_RESERVE(t->slots, t->room, t->count + 1u) ||
        !na_index_add(&t->index, hash, t->count))
        return NULL;
    t->slots[t->count] = (struct slot){.key = key};
    return &t->slots[t->count++];
}

static void table_free(table_t *t) {
    free(t->slots);
    na_index_free(&t->index);
}

/* ---- one process at a time ---- */

typedef struct making {
    na_flows_t *set;
    uint32_t object_room, group_room, thread_room;
    table_t objects; /* that the file has no table of: (process, kind, what) */
    table_t groups;  /* (kind, key) */
    /* Of the process at hand. */
    na_reader_t *reader;
    na_access_t from;
    uint16_t process;
    int16_t node[NA_FLOWS_NODES]; /* its node to the set's */
    uint32_t *source;             /* its source to the set's */
    uint32_t *access_thread;      /* its ACCESS_THREADS to the set's threads */
    uint32_t *thread;             /* its THREADS to the set's; NA_FLOWS_NONE: none yet */
    uint32_t *object;             /* its ACCESS_OBJECTS to the set's */
    uint64_t *site_key;           /* by stack */
    na_variables_t *variables;
    char **pool; /* names by id */
    uint32_t pool_count;
} making_t;

static int16_t node_index(na_flows_t *set, uint32_t kernel_id) {
    for (uint32_t i = 0; i < set->node_count; i++)
        if (set->nodes[i].kernel_id == kernel_id) return (int16_t)i;
    if (set->node_count == NA_FLOWS_NODES) return -1;
    set->nodes[set->node_count] = (na_flow_node_t){.kernel_id = kernel_id};
    return (int16_t)set->node_count++;
}

static void add_nodes(making_t *m) {
    const na_nprof_header_t *h = na_reader_header(m->reader);
    for (uint32_t i = 0; i < h->node_count && i < NA_FLOWS_NODES; i++)
        m->node[i] = node_index(m->set, h->node_ids[i]);
    for (uint32_t i = 0; i < m->from.node_count && i < h->node_count && i < NA_FLOWS_NODES; i++) {
        if (m->node[i] < 0) continue;
        na_flow_node_t *to = &m->set->nodes[m->node[i]];
        to->cpus = m->from.nodes[i].cpus;
        to->memory_bytes = m->from.nodes[i].memory_bytes;
        for (uint32_t j = 0; j < h->node_count && j < NA_FLOWS_NODES; j++)
            if (m->node[j] >= 0) to->distance[m->node[j]] = m->from.nodes[i].distance[j];
    }
}

static int16_t set_node(const making_t *m, int16_t node) {
    return node < 0 || node >= NA_FLOWS_NODES ? -1 : m->node[node];
}

static bool add_sources(making_t *m) {
    na_flows_t *set = m->set;
    m->source = calloc((size_t)m->from.source_count + 1, sizeof *m->source);
    if (m->source == NULL) return false;
    for (uint32_t i = 1; i < m->from.source_count; i++) {
        const na_nprof_access_source_t *s = &m->from.sources[i];
        if (s->source == 0) continue;
        uint32_t at = 0;
        while (at < set->source_count &&
               (set->sources[at].of.source != s->source || set->sources[at].of.unit != s->unit))
            at++;
        m->source[i] = at;
        if (at < set->source_count) {
            na_nprof_access_source_t *to = &set->sources[at].of;
            to->flags = (to->flags & s->flags) | ((to->flags | s->flags) & NA_NPROF_ACCESS_USED);
            to->stored += s->stored;
            to->lost += s->lost;
            to->impossible += s->impossible;
            to->filtered += s->filtered;
            to->unresolved += s->unresolved;
            to->throttled += s->throttled;
            to->dram += s->dram;
            to->enabled_ns += s->enabled_ns;
            to->running_ns += s->running_ns;
            to->windows += s->windows;
            to->unarmed += s->unarmed;
            to->homes_asked += s->homes_asked;
            to->homes_unknown += s->homes_unknown;
            continue;
        }
        if (at == UINT8_MAX) return false; /* ids of sources have 8 bits */
        na_flow_source_t *more = reallocarray(set->sources, at + 1u, sizeof *more);
        if (more == NULL) return false;
        set->sources = more;
        set->sources[at] = (na_flow_source_t){.of = *s};
        set->source_count++;
    }
    return true;
}

static uint32_t add_flow_thread(making_t *m, uint32_t tid, uint32_t thread, const char *name) {
    na_flows_t *set = m->set;
    bool good = set->thread_count < NA_FLOWS_NONE - 1 &&
                NA_ARRAY_RESERVE(set->threads, m->thread_room, set->thread_count + 1u);
    if (!good) return NA_FLOWS_NONE;
    na_flow_thread_t *t = &set->threads[set->thread_count];
    *t = (na_flow_thread_t){.process = m->process, .tid = tid, .thread = thread};
    snprintf(t->name, sizeof t->name, "%s", name);
    return set->thread_count++;
}

static bool add_threads(making_t *m) {
    na_thread_table_t threads = na_reader_threads(m->reader);
    m->thread = calloc((size_t)threads.count + 1, sizeof *m->thread);
    m->access_thread = calloc((size_t)m->from.thread_count + 1, sizeof *m->access_thread);
    if (m->thread == NULL || m->access_thread == NULL) return false;
    for (uint32_t i = 0; i < threads.count; i++)
        m->thread[i] = NA_FLOWS_NONE;
    for (uint32_t i = 0; i <= m->from.thread_count; i++)
        m->access_thread[i] = NA_FLOWS_NONE;
    for (uint32_t i = 1; i < m->from.thread_count; i++) {
        const na_nprof_access_thread_t *t = &m->from.threads[i];
        if (t->tid == 0) continue;
        uint32_t added = add_flow_thread(m, t->tid, t->thread, t->name);
        if (added == NA_FLOWS_NONE) return false;
        m->access_thread[i] = added;
        if (t->thread != 0 && t->thread < threads.count) m->thread[t->thread] = added;
    }
    return true;
}

/* The set's thread of an entry of THREADS; one that made no access gets an empty flow. */
static uint32_t allocating_thread(making_t *m, uint32_t thread) {
    na_thread_table_t threads = na_reader_threads(m->reader);
    if (thread == 0 || thread >= threads.count || threads.items[thread].tid == 0)
        return NA_FLOWS_NONE;
    if (m->thread[thread] == NA_FLOWS_NONE)
        m->thread[thread] =
            add_flow_thread(m, threads.items[thread].tid, thread, threads.items[thread].name);
    return m->thread[thread];
}

/* A key of each stack that is the same in other processes and runs of the same build: modules by
 * name and build id, addresses relative to them. */
static bool make_site_keys(making_t *m) {
    na_stack_table_t stacks = na_reader_stacks(m->reader);
    na_module_table_t modules = na_reader_modules(m->reader);
    uint64_t *module_key = calloc((size_t)modules.count + 1, sizeof *module_key);
    m->site_key = calloc((size_t)stacks.count + 1, sizeof *m->site_key);
    bool good = module_key != NULL && m->site_key != NULL;
    for (uint32_t i = 1; good && i < modules.count; i++) {
        const na_nprof_module_t *info = &modules.items[i];
        uint64_t hash = na_hash_text(NA_HASH_BEGIN, na_base_name(info->path));
        for (uint32_t b = 0; b < info->build_id_size && b < NA_NPROF_BUILD_ID_BYTES; b++)
            hash = (hash ^ info->build_id[b]) * UINT64_C(0x100000001b3);
        module_key[i] = hash;
    }
    for (uint32_t i = NA_NPROF_ROOT + 1; good && i < stacks.count; i++) {
        const na_nprof_stack_t *s = &stacks.items[i];
        if (s->flags == 0) continue;
        uint32_t module = NA_NPROF_STACK_MODULE(s->flags);
        for (uint32_t j = 1; module == 0 && j < modules.count; j++)
            if (s->pc >= modules.items[j].start && s->pc < modules.items[j].end) module = j;
        uint64_t key = m->site_key[s->parent] * UINT64_C(0x9e3779b97f4a7c15);
        key ^= module == 0 || module >= modules.count
                   ? s->pc
                   : module_key[module] + (s->pc - modules.items[module].bias);
        m->site_key[i] = (key ^ key >> 31) * UINT64_C(0xbf58476d1ce4e5b9);
    }
    free(module_key);
    return good;
}

static void add_pool_object(void *arg, uint32_t id, const void *entry) {
    making_t *m = arg;
    const na_nprof_pool_t *pool = entry;
    if (id >= UINT16_MAX) return;
    if (!NA_ARRAY_RESERVE_ZERO(m->pool, m->pool_count, id + 1u)) return;
    free(m->pool[id]);
    m->pool[id] = strdup(pool->name);
}

/* ---- groups and objects ---- */

/* NA_FLOWS_NONE: no memory. `name` is copied; NULL: by site. */
static uint32_t flow_group(making_t *m, na_flow_kind_t kind, const char *name, uint32_t site) {
    na_flows_t *set = m->set;
    uint64_t key = site != 0 ? m->site_key[site] : 0;
    if (name != NULL) key = na_hash_text(key ^ UINT64_C(0xcbf29ce484222325), name);
    struct slot *slot = table_at(&m->groups, (table_key_t){(uint64_t)kind, key, 0});
    if (slot == NULL) return NA_FLOWS_NONE;
    if (slot->value != 0) return slot->value - 1;
    bool good = set->group_count < NA_FLOWS_NONE - 1 &&
                NA_ARRAY_RESERVE(set->groups, m->group_room, set->group_count + 1u);
    const char *kept = good && name != NULL ? na_flow_keep(set, name) : NULL;
    if (!good || (name != NULL && kept == NULL)) return NA_FLOWS_NONE;
    set->groups[set->group_count] = (na_flow_group_t){
        .kind = kind, .name = kept, .site = site, .process = m->process, .key = key};
    slot->value = ++set->group_count;
    return slot->value - 1;
}

static uint32_t add_flow_object(making_t *m, na_flow_object_t object) {
    na_flows_t *set = m->set;
    bool good = set->object_count < NA_FLOWS_NONE - 1 &&
                NA_ARRAY_RESERVE(set->objects, m->object_room, set->object_count + 1u);
    if (!good || object.group == NA_FLOWS_NONE) return NA_FLOWS_NONE;
    object.process = m->process;
    set->objects[set->object_count] = object;
    return set->object_count++;
}

static uint64_t moved(const making_t *m, uint64_t ns) {
    if (ns == NA_NPROF_NS_STILL) return UINT64_MAX;
    return ns + (uint64_t)m->set->processes[m->process].shift_ns;
}

/* ---- ends that nobody saw ---- */

static uint64_t object_bytes(const na_flow_object_t *o) {
    return o->size != 0 ? o->size : 1;
}

/* Equal: they cannot be there at once. Blocks of a pool lie in heap blocks, or in other pools'. */
static int order_in_memory(const void *left, const void *right) {
    const na_flow_object_t *a = left, *b = right;
    if (a->kind != b->kind) return a->kind < b->kind ? -1 : 1;
    if (a->kind == NA_FLOW_POOL && a->group != b->group) return a->group < b->group ? -1 : 1;
    if (a->base < b->base) return b->base - a->base < object_bytes(a) ? 0 : -1;
    return a->base - b->base < object_bytes(b) ? 0 : 1;
}

static int order_of_births(const void *left, const void *right) {
    const na_flow_object_t *a = *(na_flow_object_t *const *)left,
                           *b = *(na_flow_object_t *const *)right;
    if (a->birth_ns != b->birth_ns) return a->birth_ns < b->birth_ns ? -1 : 1;
    return a < b ? -1 : a > b;
}

static void keep_it(void *object) {
    (void)object;
}

/* The recorder does not see every block's end. At the latest it was when the next began there. */
static bool end_by_the_next(making_t *m, uint32_t first) {
    na_flows_t *set = m->set;
    uint32_t count = set->object_count - first;
    na_flow_object_t **by_birth = calloc((size_t)count + 1, sizeof(na_flow_object_t *));
    void *there = NULL; /* a tree of those that nothing has followed yet; no two overlap */
    if (by_birth == NULL) return false;
    for (uint32_t i = 0; i < count; i++)
        by_birth[i] = &set->objects[first + i];
    qsort(by_birth, count, sizeof(na_flow_object_t *), order_of_births);
    bool good = true;
    for (uint32_t i = 0; i < count && good; i++) {
        na_flow_object_t *now = by_birth[i];
        void *node;
        while ((node = tfind(now, &there, order_in_memory)) != NULL) {
            na_flow_object_t *before = *(na_flow_object_t **)node;
            if (before->end_ns > now->birth_ns) before->end_ns = now->birth_ns;
            tdelete(before, &there, order_in_memory);
        }
        good = tsearch(now, &there, order_in_memory) != NULL;
    }
    tdestroy(there, keep_it);
    free(by_birth);
    return good;
}

/* ---- blocks ---- */

static bool add_blocks(making_t *m) {
    na_reader_control(m->reader, NA_NPROF_POOLS, add_pool_object, m);
    m->object = calloc((size_t)m->from.object_count + 1, sizeof *m->object);
    if (m->object == NULL) return false;
    uint32_t first = m->set->object_count;
    for (uint32_t i = 1; i < m->from.object_count; i++) {
        const na_nprof_access_object_t *o = &m->from.objects[i];
        if (o->kind == 0) continue;
        bool pool = o->kind == NA_NPROF_OBJECT_POOL;
        const char *name = NULL;
        if (pool) name = o->pool < m->pool_count ? m->pool[o->pool] : NULL;
        if (pool && name == NULL) name = "[pool]";
        if (!pool && o->site == 0) name = "[blocks from before the profile]";
        na_flow_kind_t kind = pool ? NA_FLOW_POOL : NA_FLOW_HEAP;
        m->object[i] =
            add_flow_object(m, (na_flow_object_t){
                                   .kind = kind,
                                   .group = flow_group(m, kind, name, o->site),
                                   .base = o->base,
                                   .size = o->size,
                                   .birth_ns = o->site == 0 ? 0 : moved(m, o->birth_ns),
                                   .end_ns = moved(m, o->death_ns),
                                   .thread = allocating_thread(m, o->thread),
                                   .site = o->site,
                                   .ruled = o->ruled,
                                   .node = set_node(m, o->node),
                                   .own_policy = (o->flags & NA_NPROF_OBJECT_OWN_POLICY) != 0,
                               });
        if (m->object[i] == NA_FLOWS_NONE) return false;
    }
    return end_by_the_next(m, first);
}

/* An object that no table has: what it is follows from the mapping, and from the program's file. */
static uint32_t other_object(making_t *m, const na_nprof_access_sample_t *s) {
    bool mapped = s->mapping != 0;
    const na_nprof_access_mapping_t *map = mapped ? &m->from.mappings[s->mapping] : NULL;
    na_flow_object_t object = {.kind = NA_FLOW_UNKNOWN,
                               .end_ns = UINT64_MAX,
                               .thread = NA_FLOWS_NONE,
                               .node = -1,
                               .base = mapped ? map->start : 0,
                               .size = mapped ? map->end - map->start : 0};
    table_key_t key = {m->process, s->target, s->mapping};
    char name[640] = "";
    switch (s->target) {
    case NA_NPROF_TARGET_STACK:
        object.kind = NA_FLOW_STACK;
        if (mapped && map->thread != 0 && map->thread < m->from.thread_count)
            object.thread = m->access_thread[map->thread];
        snprintf(name, sizeof name, "[stacks]");
        break;
    case NA_NPROF_TARGET_DATA:
    case NA_NPROF_TARGET_CODE: {
        bool code = s->target == NA_NPROF_TARGET_CODE;
        na_variable_t v = na_variables_at(m->variables, s->address, s->ns / 1000000);
        const char *path = v.path != NULL ? v.path : mapped ? map->path : "";
        object.kind = code ? NA_FLOW_CODE : NA_FLOW_STATIC;
        if (v.module != 0 && v.name != NULL &&
            (v.named || code || v.name[0] != '.' || strncmp(v.name, ".got", 4) == 0)) {
            object.base = v.base;
            object.size = v.size;
            key.b |= UINT64_C(1) << 32;
            key.c = v.base;
            snprintf(name, sizeof name, v.named ? "%.300s (%.300s)" : "[%.300s of %.300s]", v.name,
                     na_base_name(path));
        } else if (path[0] == 0) {
            snprintf(name, sizeof name, code ? "[code]" : "[static objects]");
        } else {
            snprintf(name, sizeof name, "[%s of %.300s]", code ? "code" : "static objects",
                     na_base_name(path));
        }
        break;
    }
    case NA_NPROF_TARGET_FILE:
        object.kind = NA_FLOW_FILE;
        snprintf(name, sizeof name, "%.600s", mapped && map->path[0] != 0 ? map->path : "[file]");
        /* Memory that processes share is one object. */
        if (mapped && (map->flags & NA_NPROF_MAPPING_SHARED) != 0 && map->inode != 0)
            key = (table_key_t){UINT64_MAX - map->dev, map->inode, map->offset};
        break;
    case NA_NPROF_TARGET_ANONYMOUS:
        object.kind = NA_FLOW_ANONYMOUS;
        snprintf(name, sizeof name, "%.600s",
                 mapped && map->path[0] != 0 ? map->path : "[anonymous mappings]");
        break;
    case NA_NPROF_TARGET_UNRECORDED:
        snprintf(name, sizeof name, "[heap blocks that were not recorded]");
        break;
    case NA_NPROF_TARGET_UNRESOLVED:
    case NA_NPROF_TARGET_HEAP:
    case NA_NPROF_TARGET_POOL:
        snprintf(name, sizeof name, "[heap blocks that cannot be named]");
        break;
    case NA_NPROF_TARGET_KERNEL:
        snprintf(name, sizeof name, "[pages of the kernel]");
        break;
    default:
        snprintf(name, sizeof name, "[unknown]");
    }
    if (object.kind == NA_FLOW_UNKNOWN) {
        object.base = object.size = 0;
        key.c = 0;
    }
    struct slot *slot = table_at(&m->objects, key);
    if (slot == NULL) return NA_FLOWS_NONE;
    if (slot->value != 0) return slot->value - 1;
    if (mapped && object.kind != NA_FLOW_UNKNOWN) {
        object.birth_ns = moved(m, map->from_ns);
        object.end_ns = moved(m, map->to_ns);
    }
    object.group = flow_group(m, object.kind, name, 0);
    uint32_t added = add_flow_object(m, object);
    if (added != NA_FLOWS_NONE) slot->value = added + 1;
    return added;
}

/* ---- samples ---- */

/* The round of a window: what was drawn at one time. A window without one is its own. */
static uint32_t window_round(const making_t *m, uint32_t window) {
    uint32_t round = window < m->from.window_count ? m->from.windows[window].round : 0;
    return round != 0 ? round : window;
}

/* Windows of one round are next to each other. */
static void add_rounds(making_t *m) {
    uint32_t before = 0;
    for (uint32_t i = 1; i < m->from.window_count; i++) {
        uint32_t round = m->from.windows[i].length != 0 ? window_round(m, i) : 0;
        m->set->rounds += round != 0 && round != before;
        if (round != 0 && m->from.windows[i].threads > m->set->watched)
            m->set->watched = m->from.windows[i].threads;
        if (round != 0) before = round;
    }
}

/* Samples of watchpoints by window and thread, then by time. */
static int by_window(const void *a, const void *b, void *arg) {
    const na_nprof_access_sample_t *samples = arg;
    const na_nprof_access_sample_t *x = &samples[*(const uint32_t *)a];
    const na_nprof_access_sample_t *y = &samples[*(const uint32_t *)b];
    if (x->window != y->window) return x->window < y->window ? -1 : 1;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    return x->ns < y->ns ? -1 : x->ns > y->ns;
}

/* What the hits of one thread in one window weigh less if the thread makes up for the time that
 * they cost it. Then its window was over when the clock said so: later hits do not count. A thread
 * that was cut off had its last hit then by the clock, and not sooner. */
static void find_kept(const making_t *m, const uint32_t *hits, uint32_t count, na_touch_t *items) {
    const na_nprof_access_sample_t *first = &m->from.samples[hits[0]];
    const na_nprof_access_window_t *w = &m->from.windows[first->window];
    double all = w->inverse * (double)w->interval_ns, length = (double)w->watched_ns;
    bool cut = first->weight * length > all * (1 + 1e-6);
    double last = (double)m->from.samples[hits[count - 1]].ns - (double)w->start_ns;
    double part = 0;
    if (cut && count > 1) part = 1 - all / first->weight / (last * count / (count - 1));
    for (uint32_t i = 0; i < count; i++) {
        double at = (double)m->from.samples[hits[i]].ns - (double)w->start_ns;
        if (!cut) part = at > length ? 1 : 0;
        if (part > 1) part = 1;
        if (part > 0) items[hits[i]].if_kept = (uint16_t)(part * NA_TOUCH_PARTS);
    }
}

static bool add_touches(making_t *m, na_touch_t *items) {
    uint32_t *hits = calloc(m->from.sample_count + 1, sizeof *hits), count = 0;
    if (hits == NULL) return false;
    for (uint32_t i = 0; i < m->from.sample_count; i++) {
        uint32_t window = m->from.samples[i].window;
        if (window != 0 && window < m->from.window_count && m->from.windows[window].length != 0)
            hits[count++] = i;
    }
    qsort_r(hits, count, sizeof *hits, by_window, m->from.samples);
    for (uint32_t i = 0, next; i < count; i = next) {
        const na_nprof_access_sample_t *s = &m->from.samples[hits[i]];
        for (next = i + 1; next < count; next++) {
            const na_nprof_access_sample_t *other = &m->from.samples[hits[next]];
            if (other->window != s->window || other->thread != s->thread) break;
        }
        find_kept(m, &hits[i], next - i, items);
    }
    free(hits);
    return true;
}

static bool add_kept_samples(making_t *m) {
    na_flows_t *set = m->set;
    if (m->from.sample_count > NA_FLOWS_NONE - 1 - (uint64_t)set->count) return false;
    na_touch_t *more =
        reallocarray(set->items, set->count + m->from.sample_count + 1, sizeof *more);
    if (more == NULL) return false;
    set->items = more;
    uint32_t nobody = NA_FLOWS_NONE;
    for (size_t i = 0; i < m->from.sample_count; i++) {
        const na_nprof_access_sample_t *s = &m->from.samples[i];
        uint32_t object = s->object != 0 ? m->object[s->object] : other_object(m, s);
        uint32_t thread = s->thread != 0 ? m->access_thread[s->thread] : NA_FLOWS_NONE;
        if (thread == NA_FLOWS_NONE) {
            if (nobody == NA_FLOWS_NONE) nobody = add_flow_thread(m, 0, 0, "?");
            thread = nobody;
        }
        if (object == NA_FLOWS_NONE || thread == NA_FLOWS_NONE) return false;
        set->items[set->count++] = (na_touch_t){
            .ns = moved(m, s->ns),
            .address = s->address,
            .ip = s->ip,
            .weight = s->weight,
            .object = object,
            .thread = thread,
            .stack = s->stack,
            .round = window_round(m, s->window),
            .latency = s->latency,
            .cpu = s->cpu,
            .process = m->process,
            .from = (int8_t)set_node(m, s->cpu_node),
            .home = (int8_t)set_node(m, s->home_node),
            .op = s->op,
            .level = s->level,
            .source = (uint8_t)m->source[s->source],
            .flags = s->flags,
        };
    }
    return add_touches(m, set->items + set->count - m->from.sample_count);
}

/* ---- probes ---- */

static uint32_t probed_object(making_t *m, const na_nprof_access_probe_t *p, uint32_t range) {
    if (p->object[range] != 0) return m->object[p->object[range]];
    if (p->mapping == 0) return NA_FLOWS_NONE;
    const na_nprof_access_mapping_t *map = &m->from.mappings[p->mapping];
    if ((map->flags & NA_NPROF_MAPPING_ELF) == 0) return NA_FLOWS_NONE;
    /* By the end: what is loaded is noted with some delay. */
    const na_nprof_access_sample_t there = {.ns = (uint64_t)na_reader_header(m->reader)->last_ms *
                                                  1000000,
                                            .address = p->address[range],
                                            .mapping = p->mapping,
                                            .target = NA_NPROF_TARGET_DATA};
    return other_object(m, &there);
}

static bool add_probes(making_t *m) {
    na_flows_t *set = m->set;
    for (uint32_t i = 1; i < m->from.probe_count; i++) {
        const na_nprof_access_probe_t *p = &m->from.probes[i];
        if (p->length[0] == 0) continue;
        if (!NA_ARRAY_RESERVE(set->probes, set->probe_room, set->probe_count + 1u)) return false;
        na_flow_probe_t to = {
            .ns = moved(m, p->start_ns), .process = m->process, .watched_ns = p->watched_ns};
        for (uint32_t k = 0; k < 2; k++) {
            to.address[k] = p->address[k];
            to.length[k] = p->length[k];
            to.object[k] = probed_object(m, p, k);
        }
        for (uint32_t k = 0; k < p->count; k++) {
            const na_nprof_probe_use_t *u = &p->uses[k];
            if (u->thread == 0) continue;
            double a_second = 1e9 / u->watched_ns;
            to.uses[to.count++] = (struct na_flow_use){.thread = m->access_thread[u->thread],
                                                       .hits = (uint32_t)u->reads + u->writes,
                                                       .range = u->range,
                                                       .reads = u->reads * a_second,
                                                       .writes = u->writes * a_second};
        }
        set->probes[set->probe_count++] = to;
    }
    return true;
}

static void forget_process(making_t *m) {
    na_access_free(&m->from);
    na_variables_close(m->variables);
    free(m->source);
    free(m->access_thread);
    free(m->thread);
    free(m->object);
    free(m->site_key);
    for (uint32_t i = 0; i < m->pool_count; i++)
        free(m->pool[i]);
    free(m->pool);
    m->variables = NULL;
    m->source = m->access_thread = m->thread = m->object = NULL;
    m->site_key = NULL;
    m->pool = NULL;
    m->pool_count = 0;
}

static bool add_process(making_t *m, na_reader_t *reader, uint16_t process) {
    m->reader = reader;
    m->process = process;
    if (!na_access_load(reader, &m->from)) return false;
    m->variables = na_variables_open(na_reader_modules(reader));
    add_nodes(m);
    bool good = m->variables != NULL && add_sources(m) && add_threads(m) && make_site_keys(m) &&
                add_blocks(m) && add_kept_samples(m) && add_probes(m);
    add_rounds(m);
    forget_process(m);
    return good;
}

/* Times of the processes on one axis: by the machine's monotonic clock, or across machines by the
 * date. */
static void set_shifts(na_flows_t *set) {
    bool one_host = true;
    for (uint32_t i = 1; i < set->process_count; i++)
        one_host = one_host && strcmp(na_reader_header(set->processes[i].reader)->host,
                                      na_reader_header(set->processes[0].reader)->host) == 0;
    uint64_t first = UINT64_MAX;
    for (int pass = 0; pass < 2; pass++) {
        for (uint32_t i = 0; i < set->process_count; i++) {
            const na_nprof_header_t *h = na_reader_header(set->processes[i].reader);
            uint64_t start = one_host ? h->start_mono_ns : h->start_unix_ns;
            if (pass == 0 && start < first) first = start;
            if (pass == 1) set->processes[i].shift_ns = (int64_t)(start - first);
        }
    }
}

bool na_flows_read(na_reader_t *const *readers, size_t count, na_flows_t *set) {
    *set = (na_flows_t){0};
    if (count > NA_FLOWS_PROCESSES) return false;
    set->processes = calloc(count + 1, sizeof *set->processes);
    if (set->processes == NULL) return false;
    set->process_count = (uint32_t)count;
    for (size_t i = 0; i < count; i++) {
        const na_nprof_header_t *h = na_reader_header(readers[i]);
        set->processes[i] = (na_flow_process_t){
            .reader = readers[i], .pid = h->pid, .rank = h->mpi_rank, .program = h->program};
    }
    set_shifts(set);
    making_t m = {.set = set};
    bool good = true;
    for (size_t i = 0; good && i < count; i++) {
        for (size_t n = 0; n < NA_FLOWS_NODES; n++)
            m.node[n] = -1;
        good = add_process(&m, readers[i], (uint16_t)i);
    }
    table_free(&m.objects);
    table_free(&m.groups);
    set->all = set->count;
    return good && na_flows_index(set);
}
