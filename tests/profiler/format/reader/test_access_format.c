/* test_access_format.c - reader_access.c: what a profile has of accesses: read whole, cut, damaged
 * and hostile. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profiler/format/reader/reader_access.h"
#include "tests/support/nprof_make.h"

TestSuite(access_format, .timeout = 300);

static na_reader_t *open_made(const na_make_t *m, size_t size) {
    char message[512] = "";
    na_reader_t *r = na_reader_open_fd(na_make_fd(m, size), "made", message, sizeof message);
    cr_assert_not_null(r, "%s", message);
    return r;
}

static void make(na_make_t *m) {
    na_make_sample_file(m);
    na_make_access(m);
}

/* The first chunk of this type. */
static na_nprof_chunk_t *chunk_of(const na_make_t *m, uint16_t type) {
    for (size_t at = NA_NPROF_PAGE; at < m->size;) {
        na_nprof_chunk_t *c = (na_nprof_chunk_t *)(void *)(m->bytes + at);
        if (c->type == type) return c;
        at += c->length;
    }
    cr_assert_fail("no chunk of type %u", type);
    return NULL;
}

static bool has_issue(const na_reader_t *r, const char *part) {
    for (uint32_t i = 0; i < na_reader_issue_count(r); i++) {
        char text[256];
        na_reader_issue_text(r, i, text, sizeof text);
        if (strstr(text, part) != NULL) return true;
    }
    return false;
}

/* The promises of access.h, for any file. */
static void check_promises(na_reader_t *r, const na_access_t *a) {
    na_stack_table_t stacks = na_reader_stacks(r);
    int nodes = (int)na_reader_header(r)->node_count;
    for (uint32_t i = 0; i < a->object_count; i++) {
        cr_assert_lt(a->objects[i].site, stacks.count);
        cr_assert(a->objects[i].node >= -1 && a->objects[i].node < nodes);
    }
    for (uint32_t i = 0; i < a->mapping_count; i++)
        cr_assert_lt(strnlen(a->mappings[i].path, sizeof a->mappings[i].path),
                     sizeof a->mappings[i].path);
    for (size_t i = 0; i < a->sample_count; i++) {
        const na_nprof_access_sample_t *s = &a->samples[i];
        cr_assert(s->source < a->source_count && a->sources[s->source].unit != 0);
        cr_assert(s->object == 0 || a->objects[s->object].kind != 0);
        cr_assert(s->mapping == 0 || a->mappings[s->mapping].end != 0);
        cr_assert(s->window == 0 || a->windows[s->window].length != 0);
        cr_assert(s->thread == 0 || a->threads[s->thread].tid != 0);
        cr_assert(s->cpu_node < nodes && s->home_node < nodes && s->cpu_node >= -1 &&
                  s->home_node >= -1);
        cr_assert(isfinite(s->weight) && s->weight >= 0);
        cr_assert(s->target < NA_NPROF_TARGETS && s->level < NA_NPROF_LEVELS && s->op < 4);
        cr_assert(s->latency >= -1);
        if (i > 0) cr_assert(s[-1].ns < s->ns || (s[-1].ns == s->ns && s[-1].serial < s->serial));
    }
}

Test(access_format, whole_file) {
    for (int sealed = 0; sealed < 3; sealed++) {
        na_make_t m;
        make(&m);
        if (sealed != 0) na_make_seal_last(&m, chunk_of(&m, NA_NPROF_ACCESS_SAMPLES), sealed == 2);
        na_reader_t *r = open_made(&m, m.size);
        na_access_t a;
        cr_assert(na_access_load(r, &a));
        check_promises(r, &a);
        cr_assert_eq(na_reader_issue_count(r), 0);
        cr_assert_eq(a.source_count, 3);
        cr_assert_str_eq(a.sources[1].why, "no IBS");
        cr_assert_str_eq(na_access_source_name(a.sources[2].source), "watch");
        cr_assert_str_eq(na_access_unit_name(a.sources[2].unit), "access");
        cr_assert_eq(a.node_count, 1);
        cr_assert_eq(a.nodes[0].distance[1], 20);
        cr_assert_eq(a.object_count, 2);
        cr_assert_eq(a.objects[1].site, 4);
        cr_assert_eq(a.windows[1].hits, 2);
        cr_assert_eq(a.sample_count, 3, "the second copy does not count");
        for (uint32_t i = 0; i < 3; i++)
            cr_assert_eq(a.samples[i].serial, i + 1);
        cr_assert_eq(a.samples[0].object, 1);
        cr_assert_eq(a.samples[2].target, NA_NPROF_TARGET_FILE);
        cr_assert_float_eq(a.samples[1].weight, 3.5, 0);
        na_access_free(&a);
        na_reader_close(r);
        free(m.bytes);
    }
}

Test(access_format, a_profile_without_accesses) {
    na_make_t m;
    na_make_sample_file(&m);
    na_reader_t *r = open_made(&m, m.size);
    na_access_t a;
    cr_assert(na_access_load(r, &a));
    cr_assert_eq(a.sample_count + a.source_count + a.object_count, 0);
    na_access_free(&a);
    na_reader_close(r);
    free(m.bytes);
}

/* Cut anywhere: what is left keeps the promises. */
Test(access_format, cut) {
    na_make_t m;
    make(&m);
    for (size_t size = NA_NPROF_PAGE; size < m.size; size += 509) {
        na_reader_t *r = open_made(&m, size);
        na_access_t a;
        cr_assert(na_access_load(r, &a));
        check_promises(r, &a);
        na_access_free(&a);
        na_reader_close(r);
    }
    free(m.bytes);
}

/* Each reference, enumeration and number, made impossible, is reported and does no harm. */
Test(access_format, hostile_samples) {
    static const struct {
        size_t offset, size;
    } fields[] = {
#define FIELD(f) {offsetof(na_nprof_access_sample_t, f), sizeof(((na_nprof_access_sample_t *)0)->f)}
        FIELD(weight), FIELD(stack),     FIELD(thread), FIELD(object), FIELD(mapping),
        FIELD(window), FIELD(home_node), FIELD(source), FIELD(op),     FIELD(level),
        FIELD(target), FIELD(cpu_node),  FIELD(latency)};
    for (size_t f = 0; f < sizeof fields / sizeof fields[0]; f++) {
        na_make_t m;
        make(&m);
        unsigned char *entry = (unsigned char *)(chunk_of(&m, NA_NPROF_ACCESS_SAMPLES) + 1);
        memset(entry + fields[f].offset, 0x7f, fields[f].size);
        if (fields[f].size == 4) memset(entry + fields[f].offset, 0xf7, 4);
        if (fields[f].size == 8) memset(entry + fields[f].offset, 0xff, 8); /* not a number */
        na_reader_t *r = open_made(&m, m.size);
        na_access_t a;
        cr_assert(na_access_load(r, &a));
        check_promises(r, &a);
        cr_assert(has_issue(r, "access"), "field %zu", f);
        na_access_free(&a);
        na_reader_close(r);
        free(m.bytes);
    }
}

/* Bytes of the chunks turned over, one after the other. */
Test(access_format, flipped_bytes) {
    na_make_t m;
    make(&m);
    size_t begin = (size_t)((unsigned char *)chunk_of(&m, NA_NPROF_ACCESS_SOURCES) - m.bytes);
    for (size_t at = begin; at < m.size; at += at % 4096 < 320 ? 1 : 61) {
        m.bytes[at] ^= 0xff;
        na_reader_t *r = open_made(&m, m.size);
        na_access_t a;
        cr_assert(na_access_load(r, &a));
        check_promises(r, &a);
        na_access_free(&a);
        na_reader_close(r);
        m.bytes[at] ^= 0xff;
    }
    free(m.bytes);
}

Test(access_format, names_are_bounded) {
    cr_assert_str_eq(na_access_source_name(UINT32_MAX), "?");
    cr_assert_str_eq(na_access_source_name(NA_NPROF_SOURCE_KMOD_SIM), "kmod-sim");
    cr_assert_str_eq(na_access_source_name(NA_NPROF_SOURCE_SPE), "spe");
    cr_assert_str_eq(na_access_source_name(NA_NPROF_SOURCE_KINDS), "?");
    cr_assert_str_eq(na_access_unit_name(NA_NPROF_UNIT_KINDS), "?");
    cr_assert_str_eq(na_access_unit_name(NA_NPROF_UNIT_MADE_UP), "made up");
    cr_assert_str_eq(na_access_level_name(NA_NPROF_LEVELS), "?");
    cr_assert_str_eq(na_access_level_name(NA_NPROF_LEVEL_UNCACHED), "uncached");
    cr_assert_str_eq(na_access_target_name(NA_NPROF_TARGETS), "?");
    cr_assert_str_eq(na_access_target_name(NA_NPROF_TARGET_KERNEL), "kernel");
}

/* Entries of before they ended with a checksum, beside those that have one. */
Test(access_format, entries_without_a_checksum) {
    na_make_t m;
    make(&m);
    na_make_header(&m)->checks |= NA_NPROF_CHECK_ONCE;
    na_make_seal_header(&m);
    na_make_seal_access(&m);
    uint32_t size = sizeof(na_nprof_access_sample_t) - NA_NPROF_ACCESS_CHECK;
    na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_ACCESS_SAMPLES, 4096, size, 0);
    na_nprof_access_sample_t sample = {
        .ns = 9000, .address = 0x5010, .weight = 1.5, .serial = 77, .latency = -1, .source = 2};
    na_make_entry(c, &sample, size);
    sample.serial = 78;
    na_make_entry(c, &sample, size);
    na_reader_t *r = open_made(&m, m.size);
    na_access_t a;
    cr_assert(na_access_load(r, &a));
    cr_assert_geq(a.sample_count, 2);
    cr_assert_eq(a.samples[a.sample_count - 2].serial, 77);
    cr_assert_eq(a.samples[a.sample_count - 1].serial, 78);
    cr_assert_eq(a.samples[a.sample_count - 1].check, 0);
    cr_assert_eq(na_reader_issue_count(r), 0);
    na_access_free(&a);
    na_reader_close(r);
    free(m.bytes);
}
