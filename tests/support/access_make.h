/* access_make.h - makes profiles with accesses for the tests of flows and verdicts: threads,
 * objects and samples are named one after the other, and become a file that the reader reads. */
#ifndef NUMALLOC_TESTS_SUPPORT_ACCESS_MAKE_H
#define NUMALLOC_TESTS_SUPPORT_ACCESS_MAKE_H

#include <stdbool.h>
#include <stdio.h>

#include "tests/support/nprof_make.h"

#define MADE_MS UINT64_C(1000000)

/* What IBS gives; a test takes away what its source lacks. */
#define MADE_IBS                                                                                   \
    (NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP | NA_NPROF_ACCESS_LEVEL |   \
     NA_NPROF_ACCESS_LATENCY | NA_NPROF_ACCESS_HOME)

typedef struct made {
    uint32_t source, flags, unit;
    uint32_t nodes;
    int32_t pid;
    uint64_t start_mono_ns;
    na_nprof_access_object_t *objects; /* number i has id i + 1 */
    uint32_t object_count;
    na_nprof_access_mapping_t *mappings;
    uint32_t mapping_count;
    na_nprof_access_window_t *windows; /* number i has id i + 1 */
    uint32_t window_count;
    na_nprof_access_probe_t *probes;
    uint32_t probe_count;
    na_nprof_access_sample_t *samples;
    uint32_t sample_count;
    uint32_t threads; /* ids 1 to this, of THREADS and ACCESS_THREADS alike */
    /* Of the next samples. */
    uint64_t ns, step;
    uint8_t op, level;
    int32_t latency;
    uint64_t lost, throttled; /* of the source */
} made_t;

static inline void made_begin(made_t *m) {
    *m = (made_t){.source = NA_NPROF_SOURCE_KMOD_IBS,
                  .flags = MADE_IBS,
                  .unit = NA_NPROF_UNIT_OPS,
                  .nodes = 4,
                  .pid = 4242,
                  .step = MADE_MS,
                  .op = NA_NPROF_OP_READ,
                  .level = NA_NPROF_LEVEL_DRAM,
                  .latency = -1};
}

/* A block of this site (4 or 5 of the file), allocated by a thread that was on a node. Its id. */
static inline uint32_t made_object(made_t *m, uint32_t site, uint32_t thread, int node,
                                   uint64_t size) {
    m->objects = reallocarray(m->objects, m->object_count + 1, sizeof *m->objects);
    if (m->objects == NULL) abort();
    m->objects[m->object_count] =
        (na_nprof_access_object_t){.kind = NA_NPROF_OBJECT_HEAP,
                                   .site = site,
                                   .base = UINT64_C(0x10000000) + ((uint64_t)m->object_count << 24),
                                   .size = size,
                                   .birth_ns = m->ns + 1,
                                   .death_ns = NA_NPROF_NS_STILL,
                                   .thread = thread,
                                   .node = (int16_t)node};
    if (thread > m->threads) m->threads = thread;
    return ++m->object_count;
}

static inline na_nprof_access_sample_t *made_sample(made_t *m, uint32_t thread, int from,
                                                    int home) {
    if ((m->sample_count & (m->sample_count - 1)) == 0) { /* full: there is room for a power of 2 */
        uint32_t room = m->sample_count == 0 ? 1 : m->sample_count * 2;
        m->samples = reallocarray(m->samples, room, sizeof *m->samples);
        if (m->samples == NULL) abort();
    }
    na_nprof_access_sample_t *s = &m->samples[m->sample_count++];
    m->ns += m->step;
    if (thread > m->threads) m->threads = thread;
    *s = (na_nprof_access_sample_t){.ns = m->ns,
                                    .ip = 0x1024,
                                    .weight = 1,
                                    .serial = m->sample_count,
                                    .thread = thread,
                                    .latency = m->latency,
                                    .cpu = (uint16_t)from,
                                    .cpu_node = (int16_t)from,
                                    .home_node = (int16_t)home,
                                    .source = 1,
                                    .op = m->op,
                                    .level = m->level};
    return s;
}

/* An access to a block, somewhere in it. */
static inline na_nprof_access_sample_t *made_touch(made_t *m, uint32_t object, uint32_t thread,
                                                   int from, int home) {
    na_nprof_access_sample_t *s = made_sample(m, thread, from, home);
    const na_nprof_access_object_t *o = &m->objects[object - 1];
    s->object = object;
    s->target = NA_NPROF_TARGET_HEAP;
    s->address = o->base + (uint64_t)m->sample_count * 8 % (o->size < 8 ? 8 : o->size);
    return s;
}

/* A look at two ranges of one line, of 2 ms, each 8 bytes; nobody used them yet. */
static inline na_nprof_access_probe_t *made_probe(made_t *m, uint64_t one, uint64_t other) {
    m->probes = reallocarray(m->probes, m->probe_count + 1, sizeof *m->probes);
    if (m->probes == NULL) abort();
    na_nprof_access_probe_t *p = &m->probes[m->probe_count++];
    m->ns += m->step;
    *p = (na_nprof_access_probe_t){.start_ns = m->ns,
                                   .watched_ns = 2000000,
                                   .address = {one, other},
                                   .length = {8, 8},
                                   .threads = 4};
    return p;
}

static inline void made_use(na_nprof_access_probe_t *p, uint8_t range, uint32_t thread,
                            uint16_t reads, uint16_t writes) {
    p->uses[p->count++] = (na_nprof_probe_use_t){
        .thread = thread, .watched_ns = 2000000, .reads = reads, .writes = writes, .range = range};
}

/* Is number i of `all` one of `some` that are spread evenly over them? */
static inline bool made_of(uint32_t i, uint32_t some, uint32_t all) {
    return (uint64_t)(i + 1) * some / all != (uint64_t)i * some / all;
}

static inline void made_array(na_make_t *f, uint16_t type, const void *items, uint32_t count,
                              uint32_t size, uint32_t first) {
    if (count == 0) return;
    na_nprof_chunk_t *c = na_make_chunk(f, type, na_nprof_chunk_length(count, size), size, first);
    for (uint32_t i = 0; i < count; i++)
        na_make_entry(c, (const char *)items + (size_t)i * size, size);
}

/* The file; the caller frees its bytes. */
static inline void made_file(made_t *m, na_make_t *f) {
    na_make_begin(f);
    na_nprof_header_t *h = na_make_header(f);
    h->pid = m->pid;
    h->start_mono_ns = m->start_mono_ns;
    h->node_count = m->nodes;
    for (uint16_t n = 0; n < m->nodes; n++)
        h->node_ids[n] = n;
    na_make_seal_header(f);
    na_nprof_chunk_t *c = na_make_chunk(f, NA_NPROF_STACKS, 4096, sizeof(na_nprof_stack_t), 0);
    na_make_stack(c, 0, 0);
    na_make_stack(c, 0, 0);
    na_make_stack(c, 1, 0x1010);
    na_make_stack(c, 2, 0x1020);
    na_make_stack(c, 3, 0x1020);
    na_make_stack(c, 2, 0x1030);
    na_nprof_thread_t *threads = calloc(m->threads + 1, sizeof *threads);
    na_nprof_access_thread_t *others = calloc(m->threads + 1, sizeof *others);
    for (uint32_t t = 0; t < m->threads; t++) {
        threads[t] = (na_nprof_thread_t){.tid = 100 + t + 1, .end_ms = UINT64_MAX};
        others[t] = (na_nprof_access_thread_t){.tid = 100 + t + 1, .thread = t + 1};
        snprintf(threads[t].name, sizeof threads[t].name, "thread %u", (t + 1) % 1000);
        snprintf(others[t].name, sizeof others[t].name, "thread %u", (t + 1) % 1000);
    }
    made_array(f, NA_NPROF_THREADS, threads, m->threads, sizeof *threads, 1);
    made_array(f, NA_NPROF_ACCESS_THREADS, others, m->threads, sizeof *others, 1);
    free(threads);
    free(others);
    na_nprof_module_t module = {.flags = NA_NPROF_MODULE_VALID | NA_NPROF_MODULE_MAIN,
                                .start = 0x1000,
                                .end = 0x2000,
                                .unload_ms = NA_NPROF_MODULE_STILL,
                                .path = "/nowhere/made"};
    made_array(f, NA_NPROF_MODULES, &module, 1, sizeof module, 1);
    na_nprof_access_source_t source = {.source = m->source,
                                       .flags = m->flags,
                                       .unit = m->unit,
                                       .stored = m->sample_count,
                                       .lost = m->lost,
                                       .throttled = m->throttled,
                                       .end_ns = NA_NPROF_NS_STILL};
    made_array(f, NA_NPROF_ACCESS_SOURCES, &source, 1, sizeof source, 1);
    na_nprof_access_node_t nodes[8] = {{0}};
    for (uint32_t n = 0; n < m->nodes; n++) {
        nodes[n] = (na_nprof_access_node_t){.kernel_id = n, .cpus = 2};
        for (uint32_t o = 0; o < m->nodes; o++)
            nodes[n].distance[o] = o == n ? 10 : 20;
    }
    made_array(f, NA_NPROF_ACCESS_NODES, nodes, m->nodes, sizeof nodes[0], 0);
    made_array(f, NA_NPROF_ACCESS_MAPPINGS, m->mappings, m->mapping_count, sizeof *m->mappings, 1);
    made_array(f, NA_NPROF_ACCESS_OBJECTS, m->objects, m->object_count, sizeof *m->objects, 1);
    made_array(f, NA_NPROF_ACCESS_WINDOWS, m->windows, m->window_count, sizeof *m->windows, 1);
    made_array(f, NA_NPROF_ACCESS_PROBES, m->probes, m->probe_count, sizeof *m->probes, 1);
    made_array(f, NA_NPROF_ACCESS_SAMPLES, m->samples, m->sample_count, sizeof *m->samples, 0);
    free(m->objects);
    free(m->mappings);
    free(m->windows);
    free(m->probes);
    free(m->samples);
}

#endif
