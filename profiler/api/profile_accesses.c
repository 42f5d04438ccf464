/* profile_accesses.c - the part of the C API that gives access profiles (numalloc/profile.h). */
#include "profiler/api/profile_priv.h"

/* Number of ids that a table of this size may have. */
static uint32_t ids(uint32_t count) {
    return count == 0 ? 0 : count - 1;
}

uint32_t numalloc_profile_access_sources(numalloc_profile_t *p) {
    return ids(p->access.source_count);
}

uint32_t numalloc_profile_access_nodes(numalloc_profile_t *p) {
    return p->access.node_count;
}

uint32_t numalloc_profile_access_threads(numalloc_profile_t *p) {
    return ids(p->access.thread_count);
}

uint32_t numalloc_profile_access_mappings(numalloc_profile_t *p) {
    return ids(p->access.mapping_count);
}

uint32_t numalloc_profile_access_objects(numalloc_profile_t *p) {
    return ids(p->access.object_count);
}

uint32_t numalloc_profile_access_windows(numalloc_profile_t *p) {
    return ids(p->access.window_count);
}

int numalloc_profile_access_source(numalloc_profile_t *p, uint32_t id,
                                   numalloc_profile_access_source_t *source, size_t size) {
    if (id >= p->access.source_count || p->access.sources[id].source == 0) return -1;
    const na_nprof_access_source_t *s = &p->access.sources[id];
    const numalloc_profile_access_source_t full = {
        .name = na_access_source_name(s->source),
        .why = s->why,
        .unit = na_access_unit_name(s->unit),
        .used = (s->flags & NA_NPROF_ACCESS_USED) != 0,
        .knows_op = (s->flags & NA_NPROF_ACCESS_OP) != 0,
        .knows_level = (s->flags & NA_NPROF_ACCESS_LEVEL) != 0,
        .knows_latency = (s->flags & NA_NPROF_ACCESS_LATENCY) != 0,
        .knows_home = (s->flags & NA_NPROF_ACCESS_HOME) != 0,
        .knows_stack = (s->flags & NA_NPROF_ACCESS_STACK) != 0,
        .exact_ip = (s->flags & NA_NPROF_ACCESS_EXACT) != 0  ? 1
                    : (s->flags & NA_NPROF_ACCESS_SKID) != 0 ? 2
                                                             : 0,
        .made_up = (s->flags & NA_NPROF_ACCESS_MADE_UP) != 0,
        .period = s->period,
        .start_ns = s->start_ns,
        .end_ns = s->end_ns,
        .stored = s->stored,
        .lost = s->lost,
        .impossible = s->impossible,
        .filtered = s->filtered,
        .unresolved = s->unresolved,
        .dram = s->dram,
        .throttled = s->throttled,
        .enabled_ns = s->enabled_ns,
        .running_ns = s->running_ns,
        .windows = s->windows,
        .unarmed = s->unarmed,
        .homes_asked = s->homes_asked,
        .homes_unknown = s->homes_unknown,
    };
    na_fill_struct(source, size, &full, sizeof full);
    return 0;
}

int numalloc_profile_access_node(numalloc_profile_t *p, uint32_t id,
                                 numalloc_profile_access_node_t *node, size_t size) {
    if (id >= p->access.node_count) return -1;
    const na_nprof_access_node_t *n = &p->access.nodes[id];
    const numalloc_profile_access_node_t full = {
        .kernel_id = n->kernel_id,
        .cpus = n->cpus,
        .memory_bytes = n->memory_bytes,
        .distance = n->distance,
    };
    na_fill_struct(node, size, &full, sizeof full);
    return 0;
}

int numalloc_profile_access_thread(numalloc_profile_t *p, uint32_t id,
                                   numalloc_profile_access_thread_t *thread, size_t size) {
    if (id >= p->access.thread_count || p->access.threads[id].tid == 0) return -1;
    const na_nprof_access_thread_t *t = &p->access.threads[id];
    const numalloc_profile_access_thread_t full = {
        .name = t->name,
        .tid = t->tid,
        .thread = t->thread,
        .first_ns = t->first_ns,
        .last_ns = t->last_ns,
        .samples = t->samples,
        .stack_low = t->stack_low,
        .stack_high = t->stack_high,
    };
    na_fill_struct(thread, size, &full, sizeof full);
    return 0;
}

int numalloc_profile_access_mapping(numalloc_profile_t *p, uint32_t id,
                                    numalloc_profile_access_mapping_t *mapping, size_t size) {
    if (id >= p->access.mapping_count || p->access.mappings[id].end == 0) return -1;
    const na_nprof_access_mapping_t *m = &p->access.mappings[id];
    const numalloc_profile_access_mapping_t full = {
        .path = m->path,
        .start = m->start,
        .end = m->end,
        .offset = m->offset,
        .from_ns = m->from_ns,
        .to_ns = m->to_ns,
        .thread = m->thread,
        .readable = (m->flags & NA_NPROF_MAPPING_READ) != 0,
        .writable = (m->flags & NA_NPROF_MAPPING_WRITE) != 0,
        .executable = (m->flags & NA_NPROF_MAPPING_EXECUTE) != 0,
        .shared = (m->flags & NA_NPROF_MAPPING_SHARED) != 0,
        .allocator = (m->flags & NA_NPROF_MAPPING_ALLOCATOR) != 0,
        .stack = (m->flags & NA_NPROF_MAPPING_STACK) != 0,
    };
    na_fill_struct(mapping, size, &full, sizeof full);
    return 0;
}

int numalloc_profile_access_object(numalloc_profile_t *p, uint32_t id,
                                   numalloc_profile_access_object_t *object, size_t size) {
    if (id >= p->access.object_count || p->access.objects[id].kind == 0) return -1;
    const na_nprof_access_object_t *o = &p->access.objects[id];
    const numalloc_profile_access_object_t full = {
        .base = o->base,
        .size = o->size,
        .birth_ns = o->birth_ns,
        .death_ns = o->death_ns,
        .site = o->site,
        .thread = o->thread,
        .pool = o->pool,
        .node = o->node,
    };
    na_fill_struct(object, size, &full, sizeof full);
    return 0;
}

int numalloc_profile_access_window(numalloc_profile_t *p, uint32_t id,
                                   numalloc_profile_access_window_t *window, size_t size) {
    if (id >= p->access.window_count || p->access.windows[id].length == 0) return -1;
    const na_nprof_access_window_t *w = &p->access.windows[id];
    const numalloc_profile_access_window_t full = {
        .start_ns = w->start_ns,
        .watched_ns = w->watched_ns,
        .address = w->address,
        .length = w->length,
        .object = w->object,
        .hits = w->hits,
        .threads = w->threads,
        .round = w->round,
        .censored = (w->flags & NA_NPROF_WINDOW_CENSORED) != 0,
        .empty = (w->flags & NA_NPROF_WINDOW_EMPTY) != 0,
        .incomplete = (w->flags & NA_NPROF_WINDOW_INCOMPLETE) != 0,
        .writes = (w->flags & NA_NPROF_WINDOW_WRITES) != 0,
        .inverse = w->inverse,
        .interval_ns = w->interval_ns,
    };
    na_fill_struct(window, size, &full, sizeof full);
    return 0;
}

size_t numalloc_profile_accesses(numalloc_profile_t *p) {
    return p->access.sample_count;
}

int numalloc_profile_access(numalloc_profile_t *p, size_t index, numalloc_profile_access_t *access,
                            size_t size) {
    if (index >= p->access.sample_count) return -1;
    const na_nprof_access_sample_t *s = &p->access.samples[index];
    const numalloc_profile_access_t full = {
        .ns = s->ns,
        .ip = s->ip,
        .address = s->address,
        .weight = s->weight,
        .source = s->source,
        .stack = s->stack,
        .thread = s->thread,
        .object = s->object,
        .mapping = s->mapping,
        .window = s->window,
        .latency = s->latency,
        .cpu = s->cpu == UINT16_MAX ? -1 : s->cpu,
        .cpu_node = s->cpu_node,
        .home_node = s->home_node,
        .op = s->op,
        .dram = na_access_is_dram(s->level),
        .level = na_access_level_name(s->level),
        .target = na_access_target_name(s->target),
        .width = s->width,
        .home_later = (s->flags & NA_NPROF_SAMPLE_HOME_LATER) != 0,
        .by_kernel = (s->flags & NA_NPROF_SAMPLE_KERNEL) != 0,
    };
    na_fill_struct(access, size, &full, sizeof full);
    return 0;
}
