/* make_corpus.c - writes the seeds of tests/fuzz/corpus/reader and bombs: `make_corpus DIRECTORY
 * BOMBS`. Run it again when the format changes; the results are kept in the repository. */
#include <stdio.h>

#include "profiler/format/nprof_control.h"
#include "profiler/format/nprof_policy.h"
#include "profiler/format/nprof_python.h"
#include "profiler/format/trace_code.h"
#include "tests/support/nprof_bomb.h"

static int save(const char *directory, const char *name, const na_make_t *m, size_t size) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s", directory, name);
    FILE *file = fopen(path, "wb");
    if (file == NULL || fwrite(m->bytes, 1, size, file) != size || fclose(file) != 0) {
        perror(path);
        return 1;
    }
    return 0;
}

/* A sealed chunk of bytes. */
static void add_bytes(na_make_t *m, uint16_t type, const void *bytes, size_t size, int compressed) {
    na_nprof_chunk_t *c = na_make_chunk(m, type, na_nprof_chunk_length((uint32_t)size, 1), 1, 0);
    memcpy(c + 1, bytes, size);
    c->count = (uint32_t)size;
    na_make_seal_last(m, c, compressed);
}

enum { UNITS = 200 };

/* What a program does: every kind of event, blocks that are used again, a thread that goes on in
 * another's buffer. Returns how many units. */
static uint32_t make_events(na_nprof_unit_t *u, uint64_t ticks) {
    uint32_t n = 0;
    for (uint64_t i = 0; n + 8 < UNITS; i++) {
        uint64_t address = 0x7f0000001000 + i % 9 * 64, size = 20 + i % 5 * 8;
        uint64_t kind = 1 + i % 6, align = kind == NA_NPROF_EVENT_ALIGNED ? 6 : 0;
        ticks += 100 + i % 3 * 50;
        u[n++] = (na_nprof_unit_t){ticks << 8 | NA_NPROF_EVENT_MORE | kind, address | align << 48};
        u[n++] = (na_nprof_unit_t){size, (2 + i % 3) | (64 - size) << 32};
        if (i % 7 == 6) {
            ticks += 10;
            u[n++] = (na_nprof_unit_t){ticks << 8 | NA_NPROF_EVENT_MORE | NA_NPROF_EVENT_RESIZE,
                                       address};
            u[n++] = (na_nprof_unit_t){size + 4, 3 | (60 - size) << 32};
        }
        if (i == 5) u[n++] = (na_nprof_unit_t){ticks << 8 | NA_NPROF_EVENT_THREAD, 2};
        if (i % 4 == 3) {
            u[n++] = (na_nprof_unit_t){ticks << 8 | NA_NPROF_EVENT_MORE | NA_NPROF_EVENT_MOVED,
                                       address | UINT64_C(4) << 48};
            u[n++] = (na_nprof_unit_t){address, 0};
        } else {
            uint64_t before = i % 11 == 10 ? NA_NPROF_EVENT_BEFORE : 0;
            u[n++] =
                (na_nprof_unit_t){ticks << 8 | before | (8 + i % 3), address | UINT64_C(4) << 48};
        }
    }
    return n;
}

/* Events: coded and compressed, coded, as they are, and in a buffer that was never closed. */
static int save_trace(const char *directory) {
    na_make_t m;
    na_make_begin(&m);
    na_make_header(&m)->mode = NA_NPROF_MODE_TRACE;
    na_make_seal_header(&m);
    na_nprof_chunk_t *c =
        na_make_chunk(&m, NA_NPROF_STACKS, NA_NPROF_PAGE, sizeof(na_nprof_stack_t), 1);
    for (uint32_t i = 0; i < 5; i++)
        na_make_stack(c, i, 0x1000 + i);
    na_make_seal(c);
    static na_nprof_unit_t units[UNITS];
    uint8_t *bytes = malloc(na_trace_code_bound(UNITS));
    na_trace_coder_t *coder = aligned_alloc(64, (na_trace_coder_bytes(UNITS) + 63) & ~UINT64_C(63));
    if (bytes == NULL || coder == NULL) return 1;
    for (uint32_t i = 0; i < 3; i++) {
        uint32_t events, count = make_events(units, 1000 + i * 5000);
        uint64_t size = i == 2 ? na_trace_store(bytes, units, count, &events)
                               : na_trace_encode(coder, bytes, units, count, 2, &events);
        add_bytes(&m, NA_NPROF_TRACE, bytes, size, i == 0);
    }
    uint32_t count = make_events(units, 3000);
    c = na_make_chunk(&m, NA_NPROF_TRACE_BUFFER, 2 * NA_NPROF_PAGE, sizeof(na_nprof_unit_t), 0);
    na_nprof_buffer_t buffer = {.used = count, .thread = 3, .sequence = 9};
    memcpy(c + 1, &buffer, sizeof buffer);
    memcpy((char *)(c + 1) + sizeof buffer, units, count * sizeof *units);
    c->count = c->capacity;
    na_make_seal(c);
    int failed = save(directory, "trace", &m, m.size);
    free(coder);
    free(bytes);
    free(m.bytes);
    return failed;
}

static void add_one(na_make_t *m, uint16_t type, const void *entry, uint32_t size) {
    na_nprof_chunk_t *c = na_make_chunk(m, type, NA_NPROF_PAGE, size, 1);
    na_make_entry(c, entry, size);
    na_make_seal(c);
}

/* What the program and its ancestors say. */
static int save_control(const char *directory) {
    na_make_t m;
    na_make_begin(&m);
    na_nprof_session_t session = {.session = 2, .copy = 1, .missed = 3, .file = "a.nprof"};
    na_nprof_marker_t marker = {
        .ms = 5, .thread = 1, .flags = NA_NPROF_MARKER_VALID, .name = "begin"};
    na_nprof_pool_t pool = {.flags = NA_NPROF_POOL_VALID,
                            .peak_epoch = 1,
                            .alloc_count = 7,
                            .alloc_bytes = 700,
                            .free_count = 2,
                            .free_bytes = 200,
                            .peak_bytes = 600,
                            .name = "pool"};
    na_nprof_pool_cell_t cell = {.site = 4,
                                 .pool = 1,
                                 .alloc_count = 7,
                                 .alloc_bytes = 700,
                                 .free_count = 2,
                                 .free_bytes = 200,
                                 .size_min = 100,
                                 .size_max = 100,
                                 .peak_epoch = 1};
    na_nprof_origin_t origin = {.pid = 77, .blocks = 9, .bytes = 900, .file = "parent.nprof"};
    na_nprof_inherited_t inherited = {.site = 4, .origin = 1, .live_count = 9, .live_bytes = 900};
    add_one(&m, NA_NPROF_SESSION, &session, sizeof session);
    add_one(&m, NA_NPROF_MARKERS, &marker, NA_NPROF_MARKER_LEAST);
    add_one(&m, NA_NPROF_POOLS, &pool, sizeof pool);
    add_one(&m, NA_NPROF_POOL_CELLS, &cell, sizeof cell);
    add_one(&m, NA_NPROF_ORIGINS, &origin, sizeof origin);
    add_one(&m, NA_NPROF_INHERITED, &inherited, sizeof inherited);
    static const char symbols[] = "P\t1001\t0\t0\nF\tmain\ta.c\t7\ta.c\t3\t1001\t2\n";
    add_bytes(&m, NA_NPROF_SYMBOLS, symbols, sizeof symbols - 1, 1);
    int failed = save(directory, "control", &m, m.size);
    free(m.bytes);
    return failed;
}

/* Native stacks, Python stacks, pairs of them, and what the codes are. */
static int save_python(const char *directory) {
    na_make_t m;
    na_make_begin(&m);
    na_nprof_chunk_t *c =
        na_make_chunk(&m, NA_NPROF_STACKS, NA_NPROF_PAGE, sizeof(na_nprof_stack_t), 1);
    static const struct {
        uint32_t parent;
        uint64_t pc;
    } nodes[] = {
        {0, 0},
        {1, 0x1001}, /* 2: main */
        {2, 0x2001}, /* 3: the evaluation function */
        {3, 0x3001}, /* 4 */
        {4, 0x2001}, /* 5: again */
        {5, 0x4001}, /* 6: a leaf */
        {1, NA_NPROF_PY_FRAME | NA_NPROF_PY_ENTRY | UINT64_C(1) << 20},     /* 7 */
        {7, NA_NPROF_PY_FRAME | UINT64_C(2) << 20 | 1},                     /* 8 */
        {8, NA_NPROF_PY_FRAME | NA_NPROF_PY_ENTRY | UINT64_C(1) << 20 | 2}, /* 9 */
        {6, NA_NPROF_PY_PAIR | 9},                                          /* 10 */
        {4, NA_NPROF_PY_PAIR | 8},                                          /* 11 */
        {2, NA_NPROF_PY_PAIR | 9},                                          /* 12 */
        {10, NA_NPROF_PY_PAIR | 10},                                        /* 13: nonsense */
    };
    for (uint32_t i = 0; i < sizeof nodes / sizeof nodes[0]; i++)
        na_make_stack(c, nodes[i].parent, nodes[i].pc);
    na_make_seal(c);
    na_nprof_python_t python = {.version = 0x030b, .range_count = 1, .ranges = {{0x2000, 0x2100}}};
    add_one(&m, NA_NPROF_PYTHON, &python, sizeof python);
    static const char text[24] = "f\0\0\0\0\0\0\0a.py\0\0\0\0\x80\x01\xd8\x04\x02\x90\x31\x2d";
    c = na_make_chunk(&m, NA_NPROF_PYTHON_TEXT, NA_NPROF_PAGE, 8, 0);
    for (uint32_t i = 0; i < 3; i++)
        na_make_entry(c, text + 8 * i, 8);
    na_make_seal(c);
    c = na_make_chunk(&m, NA_NPROF_PYTHON_CODES, NA_NPROF_PAGE, sizeof(na_nprof_python_code_t), 1);
    for (uint32_t kind = NA_NPROF_PY_LNOTAB; kind <= NA_NPROF_PY_LOCATIONS; kind++) {
        na_nprof_python_code_t code = {
            .kind = kind, .first_line = 7, .name = {0, 1}, .file = {1, 4}, .lines = {2, 8}};
        na_make_entry(c, &code, sizeof code);
    }
    na_make_seal(c);
    static const uint32_t sites[] = {10, 11, 12, 13, 4, 9};
    c = na_make_chunk(&m, NA_NPROF_CELLS, NA_NPROF_PAGE, sizeof(na_nprof_cell_t), 0);
    for (uint32_t i = 0; i < sizeof sites / sizeof sites[0]; i++) {
        na_nprof_cell_t cell = {.site = sites[i], .alloc_count = 1, .alloc_bytes = 100};
        na_make_entry(c, &cell, sizeof cell);
    }
    na_make_seal(c);
    int failed = save(directory, "python", &m, m.size);
    free(m.bytes);
    return failed;
}

/* What rules did; texts without an end. */
static int save_policy(const char *directory) {
    na_make_t m;
    na_make_begin(&m);
    na_nprof_policy_t policy = {.state = NA_NPROF_POLICY_APPLIED, .rules = 3, .bound = 1};
    memset(policy.file, 'f', sizeof policy.file); /* no end */
    add_one(&m, NA_NPROF_POLICY, &policy, sizeof policy);
    na_nprof_chunk_t *c =
        na_make_chunk(&m, NA_NPROF_POLICY_RULES, NA_NPROF_PAGE, sizeof(na_nprof_rule_t), 0);
    for (uint32_t i = 0; i < 4; i++) {
        na_nprof_rule_t rule = {
            .line = i, .flags = 1u << i, .heap = i << 30, .blocks = ~UINT64_C(0)};
        memset(rule.text, 't', i == 2 ? sizeof rule.text : 5);
        na_make_entry(c, &rule, sizeof rule);
    }
    na_make_seal(c);
    int failed = save(directory, "policy", &m, m.size);
    free(m.bytes);
    return failed;
}

/* What inflates to more than a file of its size may cost: blocks that live, open chunks, sites. */
static int save_bombs(const char *directory) {
    na_make_t m;
    na_make_trace(&m);
    uint64_t ticks = 1000;
    for (uint32_t i = 0; i < 4; i++)
        ticks = na_make_blocks(&m, i, 300000, ticks, 0);
    int failed = save(directory, "bomb_blocks", &m, m.size);
    free(m.bytes);
    na_make_trace(&m);
    for (uint32_t i = 0; i < 6; i++)
        na_make_blocks(&m, i, 500000, 1000, 0);
    failed |= save(directory, "bomb_runs", &m, m.size);
    free(m.bytes);
    na_make_begin(&m);
    na_make_sites(&m, 2, 5000);
    na_make_sites(&m, 2, 9000);
    failed |= save(directory, "bomb_sites", &m, m.size);
    free(m.bytes);
    return failed;
}

int main(int argc, char **argv) {
    if (argc != 3) {
        fprintf(stderr, "usage: make_corpus DIRECTORY BOMBS\n");
        return 2;
    }
    int failed = save_trace(argv[1]) | save_control(argv[1]) | save_python(argv[1]) |
                 save_policy(argv[1]) | save_bombs(argv[2]);
    na_make_t m;
    /* One page a chunk, without the timeline's twenty, so that mutations find something. */
    na_make_sample_file(&m);
    failed |= save(argv[1], "small", &m, 6 * NA_NPROF_PAGE);
    failed |= save(argv[1], "cut", &m, 2 * NA_NPROF_PAGE + 100);
    free(m.bytes);

    na_make_sample_file(&m);
    m.size = 6 * NA_NPROF_PAGE;
    na_make_sums(&m);
    failed |= save(argv[1], "finished", &m, m.size);
    free(m.bytes);

    na_make_killed(&m);
    failed |= save(argv[1], "killed", &m, m.size);
    free(m.bytes);

    for (int compressed = 0; compressed < 2; compressed++) {
        na_make_begin(&m);
        na_nprof_chunk_t *c =
            na_make_chunk(&m, NA_NPROF_STACKS, NA_NPROF_PAGE, sizeof(na_nprof_stack_t), 1);
        for (uint32_t i = 0; i < 200; i++)
            na_make_stack(c, i, 0x1000 + i);
        na_make_seal_last(&m, c, compressed);
        failed |= save(argv[1], compressed ? "zlib" : "sealed", &m, m.size);
        free(m.bytes);
    }
    /* Without the tables of cells: what accesses need, and accesses. */
    na_make_sample_file(&m);
    m.size = 4 * NA_NPROF_PAGE;
    na_make_header(&m)->used = m.size;
    na_make_access(&m);
    failed |= save(argv[1], "access", &m, m.size);
    free(m.bytes);
    return failed;
}
