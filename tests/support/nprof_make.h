/* nprof_make.h - makes profile files for the tests of the reader, in memory, by the rules of
 * nprof.h and with nothing taken from the recorder: a second, independent writer. */
#ifndef NUMALLOC_TESTS_SUPPORT_NPROF_MAKE_H
#define NUMALLOC_TESTS_SUPPORT_NPROF_MAKE_H

#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>
#include <zlib.h>

#include "profiler/format/nprof.h"
#include "profiler/format/nprof_access.h"
#include "profiler/format/nprof_check.h"

typedef struct na_make {
    unsigned char *bytes;
    size_t size;
} na_make_t;

static inline na_nprof_header_t *na_make_header(na_make_t *m) {
    return (na_nprof_header_t *)(void *)m->bytes;
}

/* The constant part was changed on purpose: it is true again. */
static inline void na_make_seal_header(na_make_t *m) {
    na_make_header(m)->const_crc = na_nprof_header_crc(na_make_header(m));
}

static inline void na_make_begin(na_make_t *m) {
    m->size = NA_NPROF_PAGE;
    m->bytes = calloc(1, m->size);
    na_nprof_header_t *h = na_make_header(m);
    h->magic = NA_NPROF_MAGIC;
    h->version = NA_NPROF_VERSION;
    h->header_size = NA_NPROF_PAGE;
    h->mode = NA_NPROF_MODE_SITES;
    h->clock_kind = NA_NPROF_CLOCK_MONOTONIC;
    h->page_size = 4096;
    h->count_scale = 1;
    h->publish_quantum = 65536;
    h->pid = 4242;
    h->ppid = 1;
    h->mpi_rank = -1;
    h->start_unix_ns = UINT64_C(1700000000000000000);
    h->ticks_hz = 1000000000;
    h->node_count = 1;
    memcpy(h->writer, "nprof_make", 11);
    memcpy(h->program, "/bin/made", 10);
    h->state = NA_NPROF_CLOSED;
    h->peak_epoch = 1;
    h->used = NA_NPROF_PAGE;
    h->last_ms = 1000;
    na_make_seal_header(m);
}

/* Makes a chunk header true after a change. */
static inline void na_make_seal(na_nprof_chunk_t *c) {
    c->header_crc = na_nprof_chunk_crc(*c);
}

/* Appends a chunk of `length` zero bytes (a multiple of a page) and returns it; valid until the
 * next append. */
static inline na_nprof_chunk_t *na_make_chunk(na_make_t *m, uint16_t type, uint64_t length,
                                              uint32_t entry_size, uint32_t first_id) {
    m->bytes = realloc(m->bytes, m->size + length);
    memset(m->bytes + m->size, 0, length);
    na_nprof_chunk_t *c = (na_nprof_chunk_t *)(void *)(m->bytes + m->size);
    c->magic = NA_NPROF_CHUNK_MAGIC;
    c->type = type;
    c->flags = NA_NPROF_LIVE;
    c->length = length;
    c->self_offset = m->size;
    c->entry_size = entry_size;
    c->capacity = na_nprof_chunk_capacity(length, entry_size);
    c->first_id = first_id;
    na_make_seal(c);
    m->size += length;
    na_make_header(m)->used = m->size;
    return c;
}

static inline void na_make_entry(na_nprof_chunk_t *c, const void *entry, size_t size) {
    memcpy((char *)(c + 1) + (size_t)c->count * c->entry_size, entry, size);
    c->count++;
}

/* Turns the last chunk, whose entries are complete, into a sealed one: as it is, or compressed. */
static inline void na_make_seal_last(na_make_t *m, na_nprof_chunk_t *c, int compressed) {
    size_t raw = (size_t)c->count * c->entry_size;
    c->flags = compressed ? NA_NPROF_SEALED | NA_NPROF_ZLIB : NA_NPROF_SEALED;
    c->raw_length = raw;
    if (compressed) {
        uLongf size = compressBound(raw);
        unsigned char *packed = malloc(size);
        compress(packed, &size, (const Bytef *)(c + 1), raw);
        memset(c + 1, 0, c->length - sizeof *c);
        memcpy(c + 1, packed, size);
        free(packed);
        m->size -= c->length;
        c->length = na_nprof_chunk_length(size, 1);
        m->size += c->length;
        na_make_header(m)->used = m->size;
    }
    c->data_crc =
        (uint32_t)crc32(crc32(0, NULL, 0), (const Bytef *)(c + 1), (uInt)(c->length - sizeof *c));
    na_make_seal(c);
}

/* Makes the header's second part true, as that of a finished file. */
static inline void na_make_finish(na_make_t *m) {
    na_make_header(m)->finished = NA_NPROF_FINISHED;
    na_make_header(m)->mutable_crc = na_nprof_mutable_crc(*na_make_header(m));
}

/* Finishes the file: checksums of all pages so far, in parts of a page. Returns their chunk. */
static inline na_nprof_chunk_t *na_make_sums(na_make_t *m) {
    size_t end = m->size, pages = end / NA_NPROF_PAGE - 1;
    na_nprof_chunk_t *c =
        na_make_chunk(m, NA_NPROF_SUMS, na_nprof_chunk_length(pages, sizeof(na_nprof_sum_t)),
                      sizeof(na_nprof_sum_t), 0);
    for (size_t at = NA_NPROF_PAGE; at < end; at += NA_NPROF_PAGE) {
        na_nprof_sum_t sum = {.offset = at,
                              .bytes = NA_NPROF_PAGE,
                              .crc =
                                  (uint32_t)crc32(0, (const Bytef *)m->bytes + at, NA_NPROF_PAGE)};
        na_make_entry(c, &sum, sizeof sum);
    }
    na_make_seal_last(m, c, 0);
    na_make_header(m)->sums = end;
    na_make_finish(m);
    return c;
}

/* A descriptor of a file that holds the first `size` bytes. */
static inline int na_make_fd(const na_make_t *m, size_t size) {
    int fd = memfd_create("nprof", MFD_CLOEXEC);
    for (size_t done = 0; done < size;) {
        ssize_t n = write(fd, m->bytes + done, size - done);
        if (n <= 0) abort();
        done += (size_t)n;
    }
    return fd;
}

static inline void na_make_stack(na_nprof_chunk_t *c, uint32_t parent, uint64_t pc) {
    na_nprof_stack_t s = {parent, NA_NPROF_STACK_VALID, pc};
    na_make_entry(c, &s, sizeof s);
}

/* What belongs to sites beside their cells, for the file below. */
static inline void na_make_site_parts(na_make_t *m) {
    na_nprof_chunk_t *c = na_make_chunk(m, NA_NPROF_LIVES, 4096, sizeof(na_nprof_lives_t), 0);
    na_nprof_lives_t lives = {.site = 4, .count = {[0] = 2, [7] = 5}, .carry = {[7] = 1}};
    na_make_entry(c, &lives, sizeof lives);

    c = na_make_chunk(m, NA_NPROF_SHARES, 4096, sizeof(na_nprof_share_t), 0);
    na_nprof_share_t share = {.site = 4, .series = 1, .live_bytes = 300, .peak_bytes = 800};
    na_make_entry(c, &share, sizeof share);

    c = na_make_chunk(m, NA_NPROF_SIZES, na_nprof_chunk_length(1, sizeof(na_nprof_sizes_t)),
                      sizeof(na_nprof_sizes_t), 0);
    na_nprof_sizes_t *sizes = calloc(1, sizeof *sizes);
    sizes->allocs[7] = 10; /* of 100 bytes */
    sizes->allocs[6] = 2;  /* of 50 */
    sizes->lives[7][7] = 7;
    na_make_entry(c, sizes, sizeof *sizes);
    free(sizes);

    c = na_make_chunk(m, NA_NPROF_MAPS, 4096, sizeof(na_nprof_map_t), 0);
    na_nprof_map_t map = {5, NA_NPROF_MAP_MMAP, 2, 12288, 4096, 8192};
    na_make_entry(c, &map, sizeof map);

    enum { ROWS = 2, POINTS = 4 };
    c = na_make_chunk(m, NA_NPROF_SERIES, 4096, (uint32_t)na_nprof_series_size(ROWS, POINTS), 0);
    struct {
        na_nprof_series_t head;
        na_nprof_series_row_t rows[ROWS];
        uint64_t values[2][ROWS][POINTS];
    } series = {.head = {.kind = NA_NPROF_SERIES_SITES,
                         .rows = ROWS,
                         .points = POINTS,
                         .active = 1,
                         .interval_ms = {0, 100},
                         .count = {0, 3}},
                .rows = {[1] = {.id = 4, .used = 1, .most = 700, .last = 300}},
                .values = {[1][1] = {0, 701, 301}}};
    na_make_entry(c, &series, sizeof series);
}

/* A small whole profile, one page a chunk: root(1) - main(2) - { f(3) - f(4), g(5) }; two threads;
 * peak 700 bytes at epoch 1. Figures are derived in test_format.c. */
static inline void na_make_sample_file(na_make_t *m) {
    na_make_begin(m);
    na_nprof_header_t *h = na_make_header(m);
    h->peak_bytes = 700;
    h->peak_count = 7;
    h->peak_ms = 400;

    na_nprof_chunk_t *c = na_make_chunk(m, NA_NPROF_STACKS, 4096, sizeof(na_nprof_stack_t), 0);
    na_make_stack(c, 0, 0); /* id 0 does not count, whatever it holds */
    na_make_stack(c, 0, 0);
    na_make_stack(c, 1, 0x1010);
    na_make_stack(c, 2, 0x1020);
    na_make_stack(c, 3, 0x1020);
    na_make_stack(c, 2, 0x1030);

    c = na_make_chunk(m, NA_NPROF_THREADS, 4096, sizeof(na_nprof_thread_t), 1);
    na_nprof_thread_t t = {.tid = 100, .name = "first", .end_ms = UINT64_MAX, .alloc_count = 10};
    na_make_entry(c, &t, sizeof t);
    t = (na_nprof_thread_t){.tid = 101, .name = "second", .start_ms = 5, .end_ms = 900};
    na_make_entry(c, &t, sizeof t);

    c = na_make_chunk(m, NA_NPROF_MODULES, 4096, sizeof(na_nprof_module_t), 1);
    na_nprof_module_t module = {.flags = NA_NPROF_MODULE_VALID | NA_NPROF_MODULE_MAIN,
                                .start = 0x1000,
                                .end = 0x2000,
                                .unload_ms = NA_NPROF_MODULE_STILL,
                                .path = "/nowhere/made"};
    na_make_entry(c, &module, sizeof module);

    /* Thread 1 allocated 10 x 100 at site 4, and 2 x 50 at site 5 after the peak. */
    c = na_make_chunk(m, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    c->thread = 1;
    na_make_seal(c);
    na_nprof_cell_t cell = {.site = 4,
                            .peak_epoch = 0, /* unchanged since the peak */
                            .alloc_count = 10,
                            .alloc_bytes = 1000,
                            .alloc_usable = 1120,
                            .local_peak_bytes = 1000,
                            .size_min = 100,
                            .size_max = 100};
    na_make_entry(c, &cell, sizeof cell);
    cell = (na_nprof_cell_t){.site = 5,
                             .peak_epoch = 1, /* was empty at the peak */
                             .alloc_count = 2,
                             .alloc_bytes = 100,
                             .alloc_usable = 128,
                             .size_min = 50,
                             .size_max = 50};
    na_make_entry(c, &cell, sizeof cell);

    /* Thread 2 freed 3 of site 4 before the peak and 4 more after it. */
    c = na_make_chunk(m, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    c->thread = 2;
    na_make_seal(c);
    cell = (na_nprof_cell_t){.site = 4,
                             .peak_epoch = 1,
                             .free_count = 7,
                             .free_bytes = 700,
                             .free_usable = 784,
                             .peak_bytes = -300,
                             .peak_count = -3,
                             .size_min = UINT64_MAX,
                             .cross_thread_free_count = 7};
    na_make_entry(c, &cell, sizeof cell);

    c = na_make_chunk(m, NA_NPROF_TIMELINE, na_nprof_chunk_length(1, sizeof(na_nprof_timeline_t)),
                      sizeof(na_nprof_timeline_t), 0);
    na_nprof_timeline_t *line = calloc(1, sizeof *line);
    line->active = 1;
    line->interval_ms[1] = 100;
    line->count[1] = 10;
    for (int i = 0; i < 10; i++) {
        line->points[1][i].requested_max = i * 100;
        line->points[1][i].physical = 4096u * (unsigned)(i + 1);
        line->points[1][i].flags = NA_NPROF_POINT_COUNTED | NA_NPROF_POINT_SAMPLED;
    }
    na_make_entry(c, line, sizeof *line);
    free(line);

    na_make_site_parts(m);

    c = na_make_chunk(m, NA_NPROF_ENVIRONMENT, 4096, 1, 0);
    static const char environment[] = "NUMALLOC_PROFILE=sites\0LD_PRELOAD=x";
    memcpy(c + 1, environment, sizeof environment);
    c->count = sizeof environment;
}

/* As a recorder leaves it that is killed: entries have their checksums, and events are counted
 * twice. One thread that runs: ten blocks of 1,000 bytes at site 3 and of 500 at site 4, of which
 * it freed four and one. One page a chunk, but for SIZES. */
static inline void na_make_killed(na_make_t *m) {
    na_make_begin(m);
    na_nprof_header_t *h = na_make_header(m);
    h->checks = NA_NPROF_CHECK_ENTRIES | NA_NPROF_CHECK_TWICE | NA_NPROF_CHECK_ONCE |
                NA_NPROF_CHECK_SERIES | NA_NPROF_CHECK_LOST;
    h->state = NA_NPROF_RUNNING;
    h->peak_bytes = 10500;
    h->peak_count = 15;
    h->peak_ms = 70;
    h->peak_check = na_nprof_peak_check(h);
    na_make_seal_header(m);

    na_nprof_chunk_t *c = na_make_chunk(m, NA_NPROF_STACKS, 4096, sizeof(na_nprof_stack_t), 0);
    na_nprof_stack_t none = {0};
    na_make_entry(c, &none, sizeof none);
    for (uint32_t id = 1; id < 5; id++) {
        na_nprof_stack_t s = {id - 1, NA_NPROF_STACK_VALID, id == 1 ? 0 : 0x1000 + 0x1230 * id};
        s.flags |= na_nprof_stack_check(s);
        na_make_entry(c, &s, sizeof s);
    }

    c = na_make_chunk(m, NA_NPROF_THREADS, 4096, sizeof(na_nprof_thread_t), 1);
    na_nprof_thread_t t = {.tid = 100,
                           .end_ms = UINT64_MAX,
                           .alloc_count = 20,
                           .free_count = 5,
                           .alloc_bytes = 15000,
                           .free_bytes = 4500,
                           .calls = {12, 8, [NA_NPROF_ENTRY_FREE] = 4},
                           .name = "first",
                           .start_ms = 3,
                           .stack_resident = 8192,
                           .stack_ms = 60};
    na_nprof_thread_seal(&t);
    na_make_entry(c, &t, sizeof t);

    c = na_make_chunk(m, NA_NPROF_TIMELINE, na_nprof_chunk_length(1, sizeof(na_nprof_timeline_t)),
                      sizeof(na_nprof_timeline_t), 0);
    na_nprof_timeline_t *line = calloc(1, sizeof *line);
    line->interval_ms[0] = 10;
    line->count[0] = 8;
    line->check = na_nprof_timeline_check(line);
    for (int i = 0; i < 8; i += 2) { /* every other one is empty */
        line->points[0][i] = (na_nprof_point_t){.requested_max = 1500 * i,
                                                .blocks_max = 2 * i,
                                                .alloc_count = 5,
                                                .flags = NA_NPROF_POINT_COUNTED,
                                                .threads = 1};
        na_nprof_point_seal(&line->points[0][i]);
    }
    na_make_entry(c, line, sizeof *line);
    free(line);

    c = na_make_chunk(m, NA_NPROF_MODULES, 4096, sizeof(na_nprof_module_t), 1);
    na_nprof_module_t module = {.flags = NA_NPROF_MODULE_VALID | NA_NPROF_MODULE_MAIN,
                                .build_id_size = 20,
                                .start = 0x1000,
                                .end = 0x9000,
                                .unload_ms = NA_NPROF_MODULE_STILL,
                                .build_id = {1, 2, 3},
                                .path = "/nowhere/made"};
    module.flags |= na_nprof_module_check(&module, module.flags);
    na_make_entry(c, &module, sizeof module);

    c = na_make_chunk(m, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    c->thread = 1;
    na_make_seal(c);
    uint32_t lives = (uint32_t)((m->size + sizeof *c) / 16); /* of the chunk that comes next */
    na_nprof_cell_t cell = {.site = 3,
                            .peak_epoch = 1,
                            .alloc_count = 10,
                            .alloc_bytes = 10000,
                            .alloc_usable = 10240,
                            .free_count = 4,
                            .free_bytes = 4000,
                            .free_usable = 4096,
                            .local_peak_bytes = 9000,
                            .published_bytes = 6000,
                            .size_min = 1000,
                            .size_max = 1000,
                            .lifetime_sum = 400,
                            .lifetime_min = 100,
                            .lifetime_max = 100,
                            .lives = lives,
                            .share = 999};
    na_make_entry(c, &cell, sizeof cell);
    cell = (na_nprof_cell_t){.site = 4,
                             .peak_epoch = 1,
                             .alloc_count = 10,
                             .alloc_bytes = 5000,
                             .alloc_usable = 5120,
                             .free_count = 1,
                             .free_bytes = 500,
                             .free_usable = 512,
                             .local_peak_bytes = 5000,
                             .size_min = 500,
                             .size_max = 500,
                             .lifetime_sum = 7,
                             .lifetime_min = 7,
                             .lifetime_max = 7};
    na_make_entry(c, &cell, sizeof cell);

    c = na_make_chunk(m, NA_NPROF_LIVES, 4096, sizeof(na_nprof_lives_t), 0);
    na_nprof_lives_t of_cell = {.site = 3, .count = {[7] = 4}};
    na_make_entry(c, &of_cell, sizeof of_cell);

    c = na_make_chunk(m, NA_NPROF_SHARES, 4096, sizeof(na_nprof_share_t), 0);
    na_nprof_share_t share = {.site = 3, .live_bytes = 6000, .peak_bytes = 9000};
    na_make_entry(c, &share, sizeof share);

    c = na_make_chunk(m, NA_NPROF_SIZES, na_nprof_chunk_length(1, sizeof(na_nprof_sizes_t)),
                      sizeof(na_nprof_sizes_t), 0);
    na_nprof_sizes_t *sizes = calloc(1, sizeof *sizes);
    sizes->allocs[10] = sizes->allocs[9] = 10;
    sizes->lives[10][7] = 4;
    sizes->lives[9][3] = 1;
    na_make_entry(c, sizes, sizeof *sizes);
    free(sizes);

    struct {
        na_nprof_series_t head;
        na_nprof_series_row_t rows[2];
        uint64_t values[2][2][4], check;
    } series = {.head = {.kind = NA_NPROF_SERIES_SITES,
                         .rows = 2,
                         .points = 4,
                         .active = 1,
                         .interval_ms = {50, 100},
                         .count = {4, 3}},
                .rows = {[1] = {.id = 4, .used = 1, .most = 5000, .last = 4500}},
                .values = {[0][1] = {0, 1, 5001, 5001}, [1][1] = {1, 5001, 4501}}};
    uint64_t words[sizeof series / 8], sum = 0;
    memcpy(words, &series, sizeof series);
    for (size_t i = 0; i + 1 < sizeof series / 8; i++)
        sum += words[i] * ((2 * i + 1) * UINT64_C(0x9e3779b97f4a7c15));
    series.check = sum | 3;
    c = na_make_chunk(m, NA_NPROF_SERIES, 4096, sizeof series, 0);
    na_make_entry(c, &series, sizeof series);
}

/* Accesses, one page a chunk: node 0 to 1; an object of site 4; three samples out of order, one of
 * them twice, as a kill may leave it. */
static inline void na_make_access(na_make_t *m) {
    na_nprof_chunk_t *c =
        na_make_chunk(m, NA_NPROF_ACCESS_SOURCES, 4096, sizeof(na_nprof_access_source_t), 1);
    na_nprof_access_source_t source = {.source = NA_NPROF_SOURCE_KMOD_IBS,
                                       .flags = NA_NPROF_ACCESS_VALID,
                                       .unit = NA_NPROF_UNIT_OPS,
                                       .why = "no IBS"};
    na_make_entry(c, &source, sizeof source);
    source = (na_nprof_access_source_t){.source = NA_NPROF_SOURCE_WATCH,
                                        .flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED,
                                        .unit = NA_NPROF_UNIT_ACCESSES,
                                        .stored = 3,
                                        .end_ns = NA_NPROF_NS_STILL};
    na_make_entry(c, &source, sizeof source);

    c = na_make_chunk(m, NA_NPROF_ACCESS_NODES, 4096, sizeof(na_nprof_access_node_t), 0);
    na_nprof_access_node_t node = {.cpus = 2, .distance = {10, 20}};
    na_make_entry(c, &node, sizeof node);

    c = na_make_chunk(m, NA_NPROF_ACCESS_THREADS, 4096, sizeof(na_nprof_access_thread_t), 1);
    na_nprof_access_thread_t thread = {.tid = 101, .thread = 2, .name = "second", .samples = 3};
    na_make_entry(c, &thread, sizeof thread);

    c = na_make_chunk(m, NA_NPROF_ACCESS_MAPPINGS, 4096, sizeof(na_nprof_access_mapping_t), 1);
    na_nprof_access_mapping_t mapping = {.start = 0x7000000,
                                         .end = 0x7002000,
                                         .to_ns = NA_NPROF_NS_STILL,
                                         .flags = NA_NPROF_MAPPING_READ,
                                         .path = "/nowhere/data"};
    na_make_entry(c, &mapping, sizeof mapping);

    c = na_make_chunk(m, NA_NPROF_ACCESS_OBJECTS, 4096, sizeof(na_nprof_access_object_t), 1);
    na_nprof_access_object_t object = {.kind = NA_NPROF_OBJECT_HEAP,
                                       .site = 4,
                                       .base = 0x5000,
                                       .size = 100,
                                       .birth_ns = 1000,
                                       .death_ns = NA_NPROF_NS_STILL,
                                       .thread = 1};
    na_make_entry(c, &object, sizeof object);

    c = na_make_chunk(m, NA_NPROF_ACCESS_WINDOWS, 4096, sizeof(na_nprof_access_window_t), 1);
    na_nprof_access_window_t window = {.start_ns = 2000,
                                       .watched_ns = 500,
                                       .address = 0x5008,
                                       .object = 1,
                                       .hits = 2,
                                       .threads = 1,
                                       .length = 8,
                                       .inverse = 12.5};
    na_make_entry(c, &window, sizeof window);

    c = na_make_chunk(m, NA_NPROF_ACCESS_SAMPLES, 4096, sizeof(na_nprof_access_sample_t), 0);
    na_nprof_access_sample_t sample = {.ns = 2400,
                                       .ip = 0x1024,
                                       .address = 0x5008,
                                       .weight = 3.5,
                                       .serial = 2,
                                       .stack = 3,
                                       .thread = 1,
                                       .object = 1,
                                       .window = 1,
                                       .latency = -1,
                                       .cpu = 1,
                                       .home_node = NA_NPROF_NO_NODE,
                                       .source = 2,
                                       .op = NA_NPROF_OP_WRITE,
                                       .target = NA_NPROF_TARGET_HEAP};
    na_make_entry(c, &sample, sizeof sample);
    na_nprof_access_sample_t second = sample;
    second.ns = 2100;
    second.serial = 1;
    na_make_entry(c, &second, sizeof second);
    na_make_entry(c, &sample, sizeof sample);
    second.ns = 3000;
    second.serial = 3;
    second.address = 0x7001000;
    second.object = second.window = 0;
    second.mapping = 1;
    second.target = NA_NPROF_TARGET_FILE;
    na_make_entry(c, &second, sizeof second);
}

/* All entries of accesses get their checksums. */
static inline void na_make_seal_access(na_make_t *m) {
    for (size_t at = NA_NPROF_PAGE; at < m->size;) {
        na_nprof_chunk_t *c = (na_nprof_chunk_t *)(void *)(m->bytes + at);
        for (uint32_t i = 0; i < c->count; i++)
            if (c->type >= NA_NPROF_ACCESS_SOURCES && c->type <= NA_NPROF_ACCESS_PROBES)
                na_nprof_seal((char *)(c + 1) + (size_t)i * c->entry_size, c->entry_size);
        at += c->length;
    }
}

#endif
