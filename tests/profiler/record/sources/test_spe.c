/* test_spe.c - spe_decode.c and spe_sample.c: records of Arm's SPE: the decoder on every kind of
 * packet, cut and split anywhere; what is made of a record; and the way through perf's buffer. No
 * processor with SPE was at hand: the bytes are made by spe_make.h and by hand, after the
 * architecture's manual. */
#include <criterion/criterion.h>
#include <linux/perf_event.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/record/sources/spe_sample.h"
#include "tests/support/spe_make.h"

TestSuite(spe, .timeout = 300);

/* ---- records ---- */

enum { MOST = 2048 };
static na_spe_record_t got[MOST];
static uint32_t got_count;

static void keep(void *argument, const na_spe_record_t *record) {
    (void)argument;
    cr_assert_lt(got_count, MOST);
    got[got_count++] = *record;
}

/* All bytes as one chunk; returns how much of it was broken. */
static uint64_t decode(const uint8_t *bytes, size_t size) {
    na_spe_decoder_t d = {0};
    uint8_t *copy = malloc(size + (size == 0)); /* of its own size: reading past it is seen */
    cr_assert_not_null(copy);
    memcpy(copy, bytes, size);
    got_count = 0;
    na_spe_begin(&d, 0);
    na_spe_feed(&d, copy, size, keep, NULL);
    na_spe_end(&d);
    free(copy);
    cr_assert_eq(d.records, got_count);
    return d.broken;
}

static spe_make_t made;

static uint64_t decode_made(void) {
    return decode(made.bytes, made.size);
}

/* By hand, so that one misreading is not in maker and decoder both. */
Test(spe, a_record_by_hand) {
    static const uint8_t bytes[] = {
        0x49, 0x00,                                           /* load of a general register */
        0xb2, 0xc0, 0x3b, 0x29, 0x0f, 0x00, 0x7f, 0x00, 0x56, /* data, tagged 0x56 */
        0xb3, 0xc0, 0xeb, 0x24, 0xfb, 0x00, 0x00, 0x00, 0x80, /* where that lies */
        0x9a, 0x04, 0x00,                                     /* translated in 4 cycles */
        0x43, 0x0b,                                           /* from the system's cache */
        0x52, 0x16, 0x01,                                     /* events */
        0x65, 0x39, 0x30, 0x00, 0x00,                         /* context */
        0xb0, 0x00, 0xc4, 0x15, 0x08, 0x00, 0x00, 0x00, 0x80, /* instruction */
        0x98, 0x2c, 0x01,                                     /* 300 cycles in all */
        0x99, 0x0a, 0x00,                                     /* 10 before it was issued */
        0x71, 0x36, 0x6c, 0x21, 0x2c, 0x09, 0x00, 0x00, 0x00, /* timestamp */
    };
    cr_assert_eq(decode(bytes, sizeof bytes), 0);
    cr_assert_eq(got_count, 1);
    const na_spe_record_t *r = &got[0];
    cr_expect_eq(r->has, NA_SPE_HAS_OP | NA_SPE_HAS_VA | NA_SPE_HAS_PA | NA_SPE_HAS_TRANSLATE |
                             NA_SPE_HAS_SOURCE | NA_SPE_HAS_EVENTS | NA_SPE_HAS_CONTEXT |
                             NA_SPE_HAS_PC | NA_SPE_HAS_TOTAL | NA_SPE_HAS_ISSUE | NA_SPE_HAS_TIME);
    cr_expect_eq(r->op_class, NA_SPE_CLASS_MEMORY);
    cr_expect_eq(r->op, 0);
    cr_expect_eq(r->va, 0x7f000f293bc0);
    cr_expect_eq(r->tag, 0x56);
    cr_expect_eq(r->pa, 0xfb24ebc0);
    cr_expect_eq(r->pc, 0x0815c400);
    cr_expect_eq(r->level, 0);
    cr_expect_eq(r->translate, 4);
    cr_expect_eq(r->total, 300);
    cr_expect_eq(r->issue, 10);
    cr_expect_eq(r->source, 0xb);
    cr_expect_eq(r->events,
                 NA_SPE_EVENT_RETIRED | NA_SPE_EVENT_L1 | NA_SPE_EVENT_TLB | NA_SPE_EVENT_LLC);
    cr_expect_eq(r->context, 12345);
    cr_expect_eq(r->time, 39395093558);
}

Test(spe, the_kernels_addresses) {
    spe_address(&made, 0, spe_pc(UINT64_C(0xffff800008123456), 1));
    spe_address(&made, 2, UINT64_C(0x00ff800012345678));
    spe_address(&made, 1, spe_pc(0x1000, 0));
    spe_end(&made);
    cr_assert_eq(decode_made(), 0);
    cr_assert_eq(got_count, 1);
    cr_expect_eq(got[0].pc, UINT64_C(0xffff800008123456));
    cr_expect_eq(got[0].level, 1);
    cr_expect_eq(got[0].va, UINT64_C(0xffff800012345678));
    cr_expect_eq(got[0].target, 0x1000);
    cr_expect_eq(got[0].has, NA_SPE_HAS_PC | NA_SPE_HAS_VA | NA_SPE_HAS_TARGET);
}

/* Packets that are not known, of every length, and indices beyond those that are. */
Test(spe, what_is_not_known) {
    spe_pad(&made, 5);
    spe_address(&made, 4, 1);  /* the target of the branch before */
    spe_address(&made, 10, 2); /* no VA: its index is ten */
    spe_address(&made, 31, 3);
    spe_counter(&made, 3, 4);
    spe_counter(&made, 8, 5); /* no total */
    for (unsigned bytes = 1; bytes <= 8; bytes *= 2) {
        spe_byte(&made, 0x4f | spe_size_bits(bytes));
        spe_payload(&made, bytes, 0x0101010101010101); /* no ends */
        spe_byte(&made, 0xc0 | spe_size_bits(bytes));
        spe_payload(&made, bytes, 0x7171717171717171);
    }
    spe_op(&made, 3, 1);
    spe_address(&made, 2, 0x4000);
    spe_time(&made, 9);
    spe_end(&made); /* of no record */
    spe_pad(&made, 3);
    spe_end(&made);
    cr_assert_eq(decode_made(), 0);
    cr_assert_eq(got_count, 1);
    cr_expect_eq(got[0].va, 0x4000);
    cr_expect_eq(got[0].time, 9);
    cr_expect_eq(got[0].op_class, 3);
    cr_expect_eq(got[0].has, NA_SPE_HAS_VA | NA_SPE_HAS_TIME | NA_SPE_HAS_OP);
}

Test(spe, alignment) {
    for (unsigned n = 0; n < 4; n++) {
        spe_op(&made, 1, n & 1);
        spe_align(&made, n);
        spe_time(&made, 100 + n);
        spe_align(&made, n);
    }
    cr_assert_eq(decode_made(), 0);
    cr_assert_eq(got_count, 4);
    for (unsigned n = 0; n < 4; n++) {
        cr_expect_eq(got[n].time, 100 + n);
        cr_expect_eq(got[n].op, n & 1);
    }
}

static void make_many(uint32_t records) {
    made.size = 0;
    for (uint32_t i = 0; i < records; i++) {
        if (i % 3 == 0)
            spe_store(&made, 0x400000 + i, 0x7f0000000000 + i * 8, 1000 + i);
        else
            spe_load(&made, 0x400000 + i, 0x7f0000000000 + i * 8, 1000 + i);
        if (i % 5 == 4) spe_align(&made, 2);
    }
}

Test(spe, cut_anywhere) {
    make_many(12);
    cr_assert_eq(decode_made(), 0);
    cr_assert_eq(got_count, 12);
    static na_spe_record_t whole[MOST];
    memcpy(whole, got, sizeof whole);
    uint32_t most = 0;
    for (size_t size = 0; size < made.size; size++) {
        uint64_t broken = decode(made.bytes, size);
        cr_assert_leq(broken, 1);
        cr_assert_leq(got_count - most, 1); /* one more at a time */
        most = got_count;
        for (uint32_t i = 0; i < got_count; i++)
            cr_assert_eq(memcmp(&got[i], &whole[i], sizeof got[i]), 0, "record %u of %zu", i, size);
    }
}

Test(spe, split_anywhere) {
    make_many(12);
    for (size_t at = 0; at <= made.size; at++) {
        na_spe_decoder_t d = {0};
        got_count = 0;
        na_spe_begin(&d, 0);
        na_spe_feed(&d, made.bytes, at, keep, NULL);
        na_spe_feed(&d, made.bytes + at, made.size - at, keep, NULL);
        na_spe_end(&d);
        cr_assert_eq(d.broken, 0);
        cr_assert_eq(got_count, 12);
        for (uint32_t i = 0; i < 12; i++)
            cr_assert_eq(got[i].time, 1000 + i);
    }
}

Test(spe, no_sense) {
    for (unsigned header = 2; header < 0x40; header++) {
        if (header >= 0x20 && header < 0x24) continue;
        made.size = 0;
        spe_load(&made, 1, 0x7f0000000000, 1);
        spe_byte(&made, header);
        spe_load(&made, 2, 0x7f0000000000, 2);
        cr_assert_eq(decode_made(), 1);
        cr_assert_eq(got_count, 1);
        made.size = 0; /* the same behind the beginning of a long one */
        spe_byte(&made, 0x21);
        spe_byte(&made, header);
        spe_load(&made, 2, 0x7f0000000000, 2);
        cr_assert_eq(decode_made(), 1);
        cr_assert_eq(got_count, 0);
    }
    /* The next chunk is read as if nothing had been. */
    na_spe_decoder_t d = {0};
    got_count = 0;
    na_spe_begin(&d, 0);
    na_spe_feed(&d, (const uint8_t *)"\x02", 1, keep, NULL);
    na_spe_end(&d);
    make_many(2);
    na_spe_begin(&d, 0);
    na_spe_feed(&d, made.bytes, made.size, keep, NULL);
    na_spe_end(&d);
    cr_assert_eq(got_count, 2);
    cr_assert_eq(d.broken, 1);
}

/* ---- what is made of a record ---- */

static uint64_t no_time(uint64_t time) {
    (void)time;
    return 0;
}

static uint64_t plus_one(uint64_t time) {
    return time + 1;
}

static na_spe_setup_t arm = {
    .sources = NA_SPE_SOURCES_ARM, .cycles_most = 4095, .weight = 512, .mono_of = plus_one};

static na_spe_record_t access_of(uint8_t op) {
    return (na_spe_record_t){.has = NA_SPE_HAS_OP | NA_SPE_HAS_VA | NA_SPE_HAS_PC |
                                    NA_SPE_HAS_EVENTS | NA_SPE_HAS_TIME | NA_SPE_HAS_TOTAL |
                                    NA_SPE_HAS_ISSUE,
                             .op_class = NA_SPE_CLASS_MEMORY,
                             .op = op,
                             .va = 0x7f0000001000,
                             .pc = 0x400100,
                             .events = NA_SPE_EVENT_RETIRED,
                             .total = 300,
                             .issue = 40,
                             .time = 77};
}

Test(spe, reads_and_writes) {
    static const struct {
        uint8_t op, is, flags;
        bool access;
    } cases[] = {
        {0x00, NA_NPROF_OP_READ, 0, true},
        {0x01, NA_NPROF_OP_WRITE, 0, true},
        {0x04, NA_NPROF_OP_READ, 0, true}, /* vectors */
        {0x05, NA_NPROF_OP_WRITE, 0, true},
        {0x10, NA_NPROF_OP_READ, 0, true},  /* registers that are not said */
        {0x12, NA_NPROF_OP_READ, 0, true},  /* acquires */
        {0x13, NA_NPROF_OP_WRITE, 0, true}, /* releases */
        {0x06, NA_NPROF_OP_READ | NA_NPROF_OP_WRITE, NA_NPROF_SAMPLE_LOCKED, true},
        {0x07, NA_NPROF_OP_READ | NA_NPROF_OP_WRITE, NA_NPROF_SAMPLE_LOCKED, true},
        {0x16, NA_NPROF_OP_READ | NA_NPROF_OP_WRITE, NA_NPROF_SAMPLE_LOCKED, true},
        {0x0a, NA_NPROF_OP_READ, NA_NPROF_SAMPLE_LOCKED, true},  /* first half of a pair */
        {0x0b, NA_NPROF_OP_WRITE, NA_NPROF_SAMPLE_LOCKED, true}, /* second */
        {0x08, NA_NPROF_OP_READ, 0, true},                       /* scalable vectors */
        {0xb9, NA_NPROF_OP_WRITE, 0, true},                      /* scattered */
        {0x20, NA_NPROF_OP_READ, 0, true},                       /* copying instructions */
        {0x21, NA_NPROF_OP_WRITE, 0, true},
        {0x25, NA_NPROF_OP_WRITE, 0, true},
        {0x14, 0, 0, false}, /* tags of memory */
        {0x15, 0, 0, false},
        {0x30, 0, 0, false}, /* system registers */
        {0x31, 0, 0, false},
    };
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        na_spe_record_t r = access_of(cases[i].op);
        na_access_raw_t raw = {.tid = 5, .cpu = 3, .width = 9, .flags = 0xff};
        bool access = na_spe_describe(&arm, &r, &raw);
        cr_assert_eq(access, cases[i].access, "op %#x", cases[i].op);
        if (!access) continue;
        cr_expect_eq(raw.op, cases[i].is, "op %#x", cases[i].op);
        cr_expect_eq(raw.flags, cases[i].flags, "op %#x", cases[i].op);
        cr_expect_eq(raw.address, 0x7f0000001000);
        cr_expect_eq(raw.ip, 0x400100);
        cr_expect(raw.exact_ip);
        cr_expect_eq(raw.weight, 512);
        cr_expect_eq(raw.mono_ns, 78);
        cr_expect_eq(raw.latency, 260);
        cr_expect_eq(raw.home, NA_NPROF_NO_NODE);
        cr_expect_eq(raw.width, 0);
        cr_expect_eq(raw.tid, 5);
        cr_expect_eq(raw.cpu, 3);
    }
}

Test(spe, no_accesses) {
    na_access_raw_t raw;
    na_spe_record_t r = access_of(0);
    r.events = NA_SPE_EVENT_L1; /* not carried out */
    cr_expect_not(na_spe_describe(&arm, &r, &raw));
    r.events = NA_SPE_EVENT_RETIRED | NA_SPE_EVENT_EXCEPTION;
    cr_expect_not(na_spe_describe(&arm, &r, &raw));
    r = access_of(0);
    r.has &= ~NA_SPE_HAS_VA;
    cr_expect_not(na_spe_describe(&arm, &r, &raw));
    r = access_of(0);
    r.op_class = NA_SPE_CLASS_BRANCH;
    cr_expect_not(na_spe_describe(&arm, &r, &raw));
    r.op_class = NA_SPE_CLASS_OTHER;
    cr_expect_not(na_spe_describe(&arm, &r, &raw));
    r = access_of(0);
    r.has = NA_SPE_HAS_VA | NA_SPE_HAS_OP; /* no events, no instruction, no time, no counters */
    raw.mono_ns = 4;
    cr_expect(na_spe_describe(&arm, &r, &raw));
    cr_expect_not(raw.exact_ip);
    cr_expect_eq(raw.mono_ns, 4);
    cr_expect_eq(raw.latency, -1);
    na_spe_setup_t lost = arm;
    lost.mono_of = no_time;
    r.has |= NA_SPE_HAS_TIME;
    cr_expect(na_spe_describe(&lost, &r, &raw));
    cr_expect_eq(raw.mono_ns, 4);
}

Test(spe, latency_and_flags) {
    na_access_raw_t raw = {0};
    na_spe_record_t r = access_of(0);
    r.total = 4095;
    r.level = 1;
    r.events |= NA_SPE_EVENT_TLB_WALK;
    cr_expect(na_spe_describe(&arm, &r, &raw));
    cr_expect_eq(raw.latency, 4095);
    cr_expect_eq(raw.flags,
                 NA_NPROF_SAMPLE_LATENCY_MAX | NA_NPROF_SAMPLE_KERNEL | NA_NPROF_SAMPLE_TLB_MISS);
    na_spe_setup_t wide = arm;
    wide.cycles_most = 65535;
    cr_expect(na_spe_describe(&wide, &r, &raw));
    cr_expect_eq(raw.latency, 4055);
    cr_expect_eq(raw.flags & NA_NPROF_SAMPLE_LATENCY_MAX, 0);
    r.issue = 5000; /* makes no sense */
    cr_expect(na_spe_describe(&wide, &r, &raw));
    cr_expect_eq(raw.latency, 4095);
}

static int16_t node_of(uint64_t physical) {
    return physical < 0x1000 ? 2 : NA_NPROF_NO_NODE;
}

Test(spe, where_it_lies) {
    na_access_raw_t raw = {0};
    na_spe_setup_t setup = arm;
    na_spe_record_t r = access_of(0);
    r.pa = 0x800;
    setup.node_of = node_of;
    cr_expect(na_spe_describe(&setup, &r, &raw));
    cr_expect_eq(raw.home, NA_NPROF_NO_NODE); /* it has no physical address */
    r.has |= NA_SPE_HAS_PA;
    cr_expect(na_spe_describe(&setup, &r, &raw));
    cr_expect_eq(raw.home, 2);
    r.pa = 0x1000;
    cr_expect(na_spe_describe(&setup, &r, &raw));
    cr_expect_eq(raw.home, NA_NPROF_NO_NODE); /* to be asked for */
}

static uint8_t level(na_spe_sources_t sources, int64_t source, uint64_t events) {
    na_spe_setup_t setup = arm;
    na_spe_record_t r = access_of(0);
    na_access_raw_t raw = {0};
    setup.sources = sources;
    if (source >= 0) {
        r.has |= NA_SPE_HAS_SOURCE;
        r.source = (uint64_t)source;
    }
    r.events |= events;
    cr_assert(na_spe_describe(&setup, &r, &raw));
    return raw.level;
}

Test(spe, what_answered) {
    const uint64_t l1 = NA_SPE_EVENT_L1, missed = l1 | NA_SPE_EVENT_L1_MISS;
    const uint64_t llc = missed | NA_SPE_EVENT_LLC, memory = llc | NA_SPE_EVENT_LLC_MISS;
    cr_expect_eq(level(NA_SPE_SOURCES_ARM, 0x0, l1), NA_NPROF_LEVEL_L1);
    cr_expect_eq(level(NA_SPE_SOURCES_ARM, 0x8, missed), NA_NPROF_LEVEL_L2);
    for (int64_t other = 0x9; other <= 0xc; other++)
        cr_expect_eq(level(NA_SPE_SOURCES_ARM, other, missed),
                     other == 0xb ? NA_NPROF_LEVEL_L3 : NA_NPROF_LEVEL_NEAR_CACHE);
    cr_expect_eq(level(NA_SPE_SOURCES_ARM, 0xd, missed), NA_NPROF_LEVEL_DRAM);
    cr_expect_eq(level(NA_SPE_SOURCES_ARM, 0xe, missed), NA_NPROF_LEVEL_DRAM);
    cr_expect_eq(level(NA_SPE_SOURCES_AMPERE, 0x8, l1), NA_NPROF_LEVEL_L1);
    cr_expect_eq(level(NA_SPE_SOURCES_AMPERE, 0x9, missed), NA_NPROF_LEVEL_L2);
    cr_expect_eq(level(NA_SPE_SOURCES_AMPERE, 0x3, missed), NA_NPROF_LEVEL_L3);
    cr_expect_eq(level(NA_SPE_SOURCES_AMPERE, 0x0, missed), NA_NPROF_LEVEL_NEAR_CACHE);
    cr_expect_eq(level(NA_SPE_SOURCES_AMPERE, 0x5, missed), NA_NPROF_LEVEL_FAR_CACHE);
    cr_expect_eq(level(NA_SPE_SOURCES_AMPERE, 0x7, missed), NA_NPROF_LEVEL_DRAM);
    /* Numbers of another processor, or none: events alone. */
    for (int64_t source = -1; source < 16; source++) {
        cr_expect_eq(level(NA_SPE_SOURCES_UNKNOWN, source, 0), NA_NPROF_LEVEL_UNKNOWN);
        cr_expect_eq(level(NA_SPE_SOURCES_UNKNOWN, source, l1), NA_NPROF_LEVEL_L1);
        cr_expect_eq(level(NA_SPE_SOURCES_UNKNOWN, source, missed), NA_NPROF_LEVEL_UNKNOWN);
        cr_expect_eq(level(NA_SPE_SOURCES_UNKNOWN, source, llc), NA_NPROF_LEVEL_L3);
        cr_expect_eq(level(NA_SPE_SOURCES_UNKNOWN, source, memory), NA_NPROF_LEVEL_DRAM);
        cr_expect_eq(level(NA_SPE_SOURCES_UNKNOWN, source, missed | NA_SPE_EVENT_REMOTE),
                     NA_NPROF_LEVEL_DRAM);
        cr_expect_eq(level(NA_SPE_SOURCES_UNKNOWN, source, missed | NA_SPE_EVENT_L2),
                     NA_NPROF_LEVEL_L2);
        cr_expect_eq(
            level(NA_SPE_SOURCES_UNKNOWN, source, missed | NA_SPE_EVENT_L2 | NA_SPE_EVENT_L2_MISS),
            NA_NPROF_LEVEL_UNKNOWN);
    }
    cr_expect_eq(level(NA_SPE_SOURCES_ARM, 0x5, memory), NA_NPROF_LEVEL_DRAM);
    cr_expect_eq(level(NA_SPE_SOURCES_ARM, -1, memory), NA_NPROF_LEVEL_DRAM);
}

Test(spe, processors) {
    cr_expect_eq(na_spe_sources_of(0x00000000413fd0c1), NA_SPE_SOURCES_ARM); /* Neoverse N1 */
    cr_expect_eq(na_spe_sources_of(0x00000000410fd4f0), NA_SPE_SOURCES_ARM); /* Neoverse V2 */
    cr_expect_eq(na_spe_sources_of(0x00000000c00fac40), NA_SPE_SOURCES_AMPERE);
    cr_expect_eq(na_spe_sources_of(0x00000000c00fd0c0), NA_SPE_SOURCES_UNKNOWN);
    cr_expect_eq(na_spe_sources_of(0x00000000410fd030), NA_SPE_SOURCES_UNKNOWN); /* Cortex-A53 */
    cr_expect_eq(na_spe_sources_of(0), NA_SPE_SOURCES_UNKNOWN);
}

/* ---- perf's buffer ---- */

enum { BUFFER = 4096 };
static na_access_raw_t samples[MOST];
static uint32_t sample_count;
static na_spe_counts_t counts;
static na_spe_aux_t aux;

static void keep_sample(const na_access_raw_t *raw) {
    cr_assert_lt(sample_count, MOST);
    samples[sample_count++] = *raw;
}

static void take(uint64_t offset, uint64_t size, uint64_t flags, uint16_t cpu) {
    na_spe_stretch_t stretch = {
        .offset = offset, .size = size, .flags = flags, .mono_ns = 5, .tid = 42, .cpu = cpu};
    sample_count = 0;
    na_spe_aux_take(&aux, &arm, &stretch, &counts, keep_sample);
}

/* A buffer of its own size, for what reads beyond it. */
static uint8_t *begin(void) {
    uint8_t *base = calloc(1, BUFFER);
    cr_assert_not_null(base);
    aux = (na_spe_aux_t){.base = base, .bytes = BUFFER};
    counts = (na_spe_counts_t){0};
    return base;
}

/* The processor writes `made` at an offset that counts on. */
static void put(uint8_t *base, uint64_t offset) {
    for (size_t i = 0; i < made.size; i++)
        base[(offset + i) % BUFFER] = made.bytes[i];
}

Test(spe, stretches_follow_each_other) {
    uint8_t *base = begin();
    uint64_t offset = 0;
    for (uint32_t round = 0; round < 100; round++) {
        uint32_t records = 1 + round % 7;
        make_many(records);
        put(base, offset);
        take(offset, made.size, 0, (uint16_t)(round % 4));
        cr_assert_eq(sample_count, records, "round %u", round);
        for (uint32_t i = 0; i < records; i++) {
            cr_assert_eq(samples[i].mono_ns, 1001 + i);
            cr_assert_eq(samples[i].tid, 42);
            cr_assert_eq(samples[i].cpu, round % 4);
            cr_assert_eq(samples[i].address, 0x7f0000000000 + i * 8);
            cr_assert_eq(samples[i].op, i % 3 == 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ);
        }
        offset += made.size;
        cr_assert_eq(aux.at, offset);
    }
    cr_assert_gt(offset, 5 * BUFFER); /* records lay across the end of the buffer */
    cr_assert_eq(counts.broken + counts.filtered, 0);
    free((void *)aux.base);
}

Test(spe, gaps) {
    uint8_t *base = begin();
    make_many(3);
    size_t each = made.size;
    put(base, 0);
    put(base, each); /* of this, perf's word was lost */
    put(base, 2 * each);
    take(0, each, 0, 1);
    cr_assert_eq(sample_count, 3);
    take(2 * each, each, 0, 2);
    cr_assert_eq(sample_count, 6);
    cr_assert_eq(samples[0].cpu, UINT16_MAX);
    cr_assert_eq(samples[3].cpu, 2);
    /* Padding that the kernel leaves to be at a page's beginning. */
    memset(base + 3 * each, 0, BUFFER - 3 * each);
    put(base, BUFFER);
    take(BUFFER, each, 0, 3);
    cr_assert_eq(sample_count, 3);
    cr_assert_eq(counts.taken, 12);
    cr_assert_eq(counts.broken, 0);
    free((void *)aux.base);
}

Test(spe, flags_are_counted) {
    uint8_t *base = begin();
    make_many(2);
    put(base, 0);
    take(0, made.size - 20, PERF_AUX_FLAG_TRUNCATED | PERF_AUX_FLAG_PARTIAL, 0);
    cr_assert_eq(sample_count, 1); /* the second one is cut off */
    cr_assert_eq(counts.broken, 1);
    cr_assert_eq(counts.truncated, 1);
    take(made.size - 20, 0, PERF_AUX_FLAG_COLLISION, 0);
    take(made.size - 20, 0, PERF_AUX_FLAG_TRUNCATED, 0); /* no room at all */
    cr_assert_eq(sample_count, 0);
    cr_assert_eq(counts.collided, 1);
    cr_assert_eq(counts.truncated, 2);
    free((void *)aux.base);
}

/* Whatever perf's ring says, nothing is read twice and nothing outside of the buffer. */
Test(spe, words_that_cannot_be) {
    static const uint64_t odd[] = {0,
                                   1,
                                   63,
                                   64,
                                   BUFFER - 1,
                                   BUFFER,
                                   BUFFER + 1,
                                   3 * BUFFER,
                                   UINT64_MAX,
                                   UINT64_MAX - BUFFER,
                                   UINT64_MAX / 2,
                                   UINT64_MAX / 2 + 2};
    enum { ODD = sizeof odd / sizeof odd[0] };
    make_many(BUFFER / 64 - 4);
    for (size_t at = 0; at < ODD; at++)
        for (size_t offset = 0; offset < ODD; offset++)
            for (size_t size = 0; size < ODD; size++) {
                uint8_t *base = begin();
                put(base, 0);
                aux.at = odd[at];
                take(odd[offset], odd[size], 0, 0);
                cr_assert_leq(sample_count, BUFFER / 40);
                cr_assert_leq(aux.at - odd[at], UINT64_MAX / 2); /* never back */
                free(base);
            }
}
