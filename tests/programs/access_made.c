/* access_made.c - writes profiles with accesses of known shape, for the tests of numalloc-dump's
 * views: access_made DIRECTORY. Latencies are made up. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/format/nprof_policy.h"
#include "tests/support/access_make.h"

static const char *directory;

static void write_made(na_make_t *f, const char *name) {
    char path[4096];
    snprintf(path, sizeof path, "%s/%s.nprof", directory, name);
    FILE *to = fopen(path, "w");
    if (to == NULL || fwrite(f->bytes, 1, f->size, to) != f->size || fclose(to) != 0) {
        fprintf(stderr, "access_made: %s: %s\n", path, strerror(errno));
        exit(1);
    }
    free(f->bytes);
}

static void write_file(made_t *m, const char *name) {
    na_make_t f;
    made_file(m, &f);
    write_made(&f, name);
}

/* Thread 1 on node 0 makes a block, thread 2 on node 1 uses it; each has data of its own. */
static void handed_over(made_t *m) {
    made_begin(m);
    uint32_t block = made_object(m, 4, 1, 0, 1 << 20);
    uint32_t own = made_object(m, 5, 2, 1, 4096);
    for (uint32_t i = 0; i < 200; i++) {
        m->op = i % 4 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        m->latency = i < 20 ? 150 : 400;
        made_touch(m, block, i < 20 ? 1 : 2, i < 20 ? 0 : 1, 0);
        m->latency = 150;
        made_touch(m, own, 2, 1, 1);
    }
}

/* By watchpoints: of 100 rounds, 40 had a hit of weight 1000 on the one block. */
static void watched(made_t *m) {
    made_begin(m);
    m->source = NA_NPROF_SOURCE_WATCH;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    m->unit = NA_NPROF_UNIT_ACCESSES;
    m->level = NA_NPROF_LEVEL_UNKNOWN;
    uint32_t block = made_object(m, 4, 1, 0, 4096);
    m->windows = calloc(100, sizeof *m->windows);
    if (m->windows == NULL) exit(1);
    m->window_count = 100;
    for (uint32_t i = 0; i < 100; i++) {
        m->windows[i] = (na_nprof_access_window_t){.start_ns = i * UINT64_C(20000000),
                                                   .watched_ns = 2000000,
                                                   .object = block,
                                                   .hits = i < 40,
                                                   .threads = 2,
                                                   .length = 8,
                                                   .round = i + 1,
                                                   .inverse = 100,
                                                   .interval_ns = 20000000};
        if (i >= 40) continue;
        na_nprof_access_sample_t *s = made_touch(m, block, 1, 0, 0);
        s->ns = m->windows[i].start_ns + 1000;
        s->window = i + 1;
        s->weight = 1000;
    }
}

/* By watchpoints: no hit, and some looks at a line that nobody used. */
static void looked_at(made_t *m) {
    made_begin(m);
    m->source = NA_NPROF_SOURCE_WATCH;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    m->unit = NA_NPROF_UNIT_ACCESSES;
    uint32_t block = made_object(m, 4, 1, 0, 4096);
    for (uint32_t i = 0; i < 6; i++)
        made_probe(m, m->objects[block - 1].base, m->objects[block - 1].base + 8);
}

/* A process of Apache's shape: four threads on four nodes share its pool. */
static void server(made_t *m, int32_t pid) {
    made_begin(m);
    m->pid = pid;
    uint32_t pool = made_object(m, 4, 1, 0, 1 << 20);
    for (uint32_t i = 0; i < 2000; i++) {
        m->op = i % 3 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        made_touch(m, pool, 1 + i % 4, (int)(i % 4), 0);
    }
}

/* A minute of samples: every `step` ns one of 64 threads touches one of 20000 blocks. */
static void minute(made_t *m, uint32_t samples) {
    made_begin(m);
    m->step = UINT64_C(60000000000) / samples;
    uint32_t blocks = 20000;
    for (uint32_t i = 0; i < blocks; i++)
        made_object(m, 4 + i % 2, 1 + i % 64, (int)(i % 4), 4096);
    uint64_t random = 1;
    for (uint32_t i = 0; i < samples; i++) {
        random = random * UINT64_C(6364136223846793005) + UINT64_C(1442695040888963407);
        uint32_t block = (uint32_t)(random >> 33) % blocks, thread = (uint32_t)(random >> 20) % 64;
        m->op = random >> 60 < 4 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        m->latency = (int32_t)(150 + (random >> 50) % 500);
        made_touch(m, block + 1, 1 + thread, (int)(thread % 4), (int)(block % 4));
    }
}

/* A matrix that thread 1 fills on node 0, by so many writes; then a thread of each node uses a
 * quarter. */
static void parted(made_t *m, uint64_t size, uint32_t fills) {
    made_begin(m);
    uint32_t matrix = made_object(m, 4, 1, 0, size);
    for (uint32_t i = 0; i < 2000 + fills; i++) {
        uint64_t at = (uint64_t)i * 7919 % 4096 * (size / 4096);
        uint32_t node = i < fills ? 0 : (uint32_t)(at / (size / 4));
        m->op = i < fills || i % 3 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        made_touch(m, matrix, i < fills ? 1 : 2 + node, (int)node, 0)->address =
            m->objects[matrix - 1].base + at;
    }
}

/* Two pairs of threads, each with a buffer that both use: the second pair sits on nodes 2 and 3,
 * and its buffer lies on node `home`. */
static void paired(made_t *m, int home) {
    made_begin(m);
    uint32_t buffer[2] = {made_object(m, 4, 1, 0, 1 << 20), made_object(m, 4, 3, 1, 1 << 20)};
    for (uint32_t i = 0; i < 4000; i++) {
        uint32_t pair = i % 2, second = pair == 1 ? i % 8 > 1 : i / 2 % 2;
        m->op = i % 3 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
        made_touch(m, buffer[pair], 1 + 2 * pair + second, (int)(2 * pair + second),
                   pair == 0 ? 0 : home);
    }
}

/* Two counters on lines of their own, of threads of two nodes, in a block of a third. */
static void own_lines(made_t *m) {
    made_begin(m);
    uint32_t block = made_object(m, 4, 1, 0, 128);
    m->op = NA_NPROF_OP_WRITE;
    for (uint32_t i = 0; i < 2000; i++)
        made_touch(m, block, 2 + i % 2, 1 + (int)(i % 2), 0)->address =
            m->objects[block - 1].base + i % 2 * 64;
}

/* Rows of a matrix that thread 1 fills on node 0, each used by the thread of one node. */
static void rows(made_t *m) {
    made_begin(m);
    uint32_t row[32];
    for (uint32_t r = 0; r < 32; r++)
        row[r] = made_object(m, 4, 1, 0, 100000);
    for (uint32_t i = 0; i < 3200; i++) {
        uint32_t node = i % 32 / 8;
        made_touch(m, row[i % 32], i < 32 ? 1 : 2 + node, i < 32 ? 0 : (int)node, 0);
    }
}

/* Hardly anything is remote, and all of that is one small block's, which thread 2 uses. */
static void local(made_t *m) {
    made_begin(m);
    uint32_t large = made_object(m, 4, 1, 0, 1 << 20), small = made_object(m, 5, 1, 0, 64);
    for (uint32_t i = 0; i < 20000; i++)
        made_touch(m, large, 1, 0, 0);
    for (uint32_t i = 0; i < 100; i++)
        made_touch(m, small, 2, 1, 0);
}

/* By looks at a line: two counters in it, each another thread's. `apart`: two blocks of two sites;
 * else words of one. */
static void counters(made_t *m, bool apart) {
    made_begin(m);
    m->source = NA_NPROF_SOURCE_WATCH;
    m->flags = NA_NPROF_ACCESS_VALID | NA_NPROF_ACCESS_USED | NA_NPROF_ACCESS_OP;
    m->unit = NA_NPROF_UNIT_ACCESSES;
    m->step = 20 * MADE_MS;
    m->threads = 3;
    uint32_t one = made_object(m, 4, 1, 0, apart ? 8 : 64), other = one;
    if (apart) other = made_object(m, 5, 1, 0, 8);
    uint64_t base = m->objects[one - 1].base;
    m->objects[other - 1].base = apart ? base + 16 : base;
    for (uint32_t i = 0; i < 40; i++) {
        na_nprof_access_probe_t *p = made_probe(m, base, base + 16);
        p->object[0] = one;
        p->object[1] = other;
        made_use(p, 0, 2, 200, 200);
        made_use(p, 1, 3, 200, 200);
    }
}

/* Four sites with blocks of these sizes, which live to the end, and samples in these shares (the
 * first, or the other ones), by this source. The first two have their innermost frame in common. */
static void tiers(uint32_t samples, uint32_t source, uint32_t shares, const char *name) {
    static const struct {
        uint32_t site, mib, per_cent[2];
    } of[] = {{3, 16, {30, 10}}, {4, 4, {60, 20}}, {5, 2, {8, 68}}, {2, 8, {2, 2}}};
    made_t m;
    made_begin(&m);
    m.source = source;
    uint32_t block[4], done[4] = {0};
    for (uint32_t i = 0; i < 4; i++)
        block[i] = made_object(&m, of[i].site, 1, 0, (uint64_t)of[i].mib << 20);
    for (uint32_t n = 0; n < samples; n++)
        for (uint32_t i = 0; i < 4; i++) {
            if (done[i] >= samples * of[i].per_cent[shares] / 100) continue;
            done[i]++;
            made_touch(&m, block[i], 1, 0, 0);
        }
    na_make_t f;
    made_file(&m, &f);
    na_nprof_chunk_t *c = na_make_chunk(&f, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    c->thread = 1;
    na_make_seal(c);
    for (uint32_t i = 0; i < 4; i++) {
        uint64_t bytes = (uint64_t)of[i].mib << 20;
        na_nprof_cell_t cell = {.site = of[i].site,
                                .alloc_count = 1,
                                .alloc_bytes = bytes,
                                .alloc_usable = bytes,
                                .local_peak_bytes = (int64_t)bytes,
                                .size_min = bytes,
                                .size_max = bytes};
        na_make_entry(c, &cell, sizeof cell);
    }
    write_made(&f, name);
}

/* Blocks of a rule that puts them on node 2, and of its control, on node 0, in heap 1: read from
 * nodes 0 and 1 in turn, or, if the rule pays, from node 2. */
static void ruled(uint32_t control_samples, uint32_t control, bool pays, const char *name) {
    enum { SAMPLES = 200, BLOCKS = 8 };
    made_t m;
    na_make_t f;
    made_begin(&m);
    m.nodes = 3;
    m.op = NA_NPROF_OP_READ;
    uint32_t own[BLOCKS], kept[BLOCKS];
    for (uint32_t i = 0; i < BLOCKS; i++) {
        own[i] = made_object(&m, 3, 1, 0, 4096);
        kept[i] = made_object(&m, 3, 1, 0, 4096);
        m.objects[own[i] - 1].ruled = 1;
        m.objects[kept[i] - 1].ruled = 1 | NA_NPROF_RULED_CONTROL;
    }
    for (uint32_t i = 0; i < SAMPLES; i++) {
        uint32_t user = pays ? 3 : i / BLOCKS % 2 + 1;
        made_touch(&m, own[i % BLOCKS], user, (int)user - 1, 2);
        if (made_of(i, control_samples, SAMPLES))
            made_touch(&m, kept[i % BLOCKS], user, (int)user - 1, 0);
    }
    made_file(&m, &f);
    na_nprof_policy_t policy = {.state = NA_NPROF_POLICY_APPLIED, .rules = 1, .bound = 1};
    na_nprof_rule_t rule = {
        .line = 4, .flags = NA_NPROF_RULE_BOUND, .heap = 1, .control = control, .blocks = 32};
    snprintf(rule.text, sizeof rule.text, "site m1+0x1020 : place=consumer 2");
    made_array(&f, NA_NPROF_POLICY, &policy, 1, sizeof policy, 0);
    made_array(&f, NA_NPROF_POLICY_RULES, &rule, 1, sizeof rule, 0);
    write_made(&f, name);
}

int main(int argc, char **argv) {
    if (argc != 2 && argc != 3) return 2;
    directory = argv[1];
    made_t m;
    if (argc == 3) {
        minute(&m, (uint32_t)strtoul(argv[2], NULL, 10));
        write_file(&m, "minute");
        return 0;
    }
    handed_over(&m);
    write_file(&m, "handed");
    handed_over(&m);
    m.lost = 100; /* beside 400 */
    write_file(&m, "lossy");
    watched(&m);
    write_file(&m, "watched");
    for (int32_t p = 0; p < 4; p++) {
        char name[32];
        snprintf(name, sizeof name, "server%d", p);
        server(&m, 5000 + p);
        write_file(&m, name);
    }
    parted(&m, 4 << 20, 40);
    write_file(&m, "parted");
    parted(&m, 1 << 20, 0);
    write_file(&m, "touched");
    paired(&m, 1);
    write_file(&m, "paired");
    paired(&m, 0);
    write_file(&m, "crowded");
    rows(&m);
    write_file(&m, "rows");
    own_lines(&m);
    write_file(&m, "own_lines");
    local(&m);
    write_file(&m, "local");
    made_begin(&m);
    write_file(&m, "empty");
    looked_at(&m);
    write_file(&m, "looked");
    counters(&m, true);
    write_file(&m, "counters");
    counters(&m, false);
    write_file(&m, "words");
    tiers(1000, NA_NPROF_SOURCE_KMOD_IBS, 0, "tiers");
    tiers(1000, NA_NPROF_SOURCE_KMOD_IBS, 1, "tiers_other");
    tiers(40, NA_NPROF_SOURCE_KMOD_IBS, 0, "tiers_few");
    tiers(1000, NA_NPROF_SOURCE_NUMA, 0, "tiers_numa");
    ruled(60, 8, false, "ruled");
    ruled(60, 8, true, "ruled_pays");
    ruled(5, 8, false, "ruled_few");
    ruled(60, 0, false, "ruled_without");
    return 0;
}
