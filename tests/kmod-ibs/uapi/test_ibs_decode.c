/* test_ibs_decode.c - the decoder of IBS registers (kmod-ibs/uapi/numalloc_ibs_decode.h) against
 * tables: what each CPU family and each erratum makes of the same bits; and of perf's data_src.
 *
 * The registers are written out as the manuals' bit numbers, not with the decoder's own names. */
#include <criterion/criterion.h>
#include <stdint.h>
#include <stdio.h>

#include "kmod-ibs/uapi/numalloc_ibs_decode.h"

#define BIT(n) (1ULL << (n))

/* DATA3 */
#define LD     BIT(0)
#define ST     BIT(1)
#define L1TLB  BIT(2)
#define L2TLB  BIT(3)
#define DCM    BIT(7)
#define MISAL  BIT(8)
#define UC     BIT(14)
#define LOCK   BIT(15)
#define NOMAB  BIT(16)
#define LIN    BIT(17)
#define PHY    BIT(18)
#define L2M    BIT(20)
#define SWPF   BIT(21)
#define W(n)   ((uint64_t)(n) << 22)
#define LAT(n) ((uint64_t)(n) << 32)
#define TLB(n) ((uint64_t)(n) << 48)
/* DATA2 */
#define SRC(n) (((uint64_t)(n)&7) | ((uint64_t)(n) >> 3) << 6)
#define RMT    BIT(4)
#define HITST  BIT(5)

#define REMOTE      NA_IBS_F_REMOTE
#define LOCAL       NA_IBS_F_LOCAL
#define HITM        NA_IBS_F_HITM
#define WHERE       (REMOTE | LOCAL | HITM)
#define LEVEL(name) NA_IBS_LEVEL_##name

static const struct na_ibs_cpu k10 = {0x10, 0x04, 0x1f};
static const struct na_ibs_cpu bulldozer = {0x15, 0x01, 0xff};
static const struct na_ibs_cpu piledriver = {0x15, 0x1f, 0xff};
static const struct na_ibs_cpu trinity = {0x15, 0x20, 0xff};
static const struct na_ibs_cpu kaveri = {0x15, 0x30, 0xff};
static const struct na_ibs_cpu jaguar = {0x16, 0x00, 0xff};
static const struct na_ibs_cpu zen1 = {0x17, 0x01, 0x3ff};
static const struct na_ibs_cpu zen2 = {0x17, 0x31, 0x3ff};
static const struct na_ibs_cpu hygon = {0x18, 0x00, 0x3ff};
static const struct na_ibs_cpu milan = {0x19, 0x01, 0x3ff};
static const struct na_ibs_cpu milan_last = {0x19, 0x0f, 0x3ff};
static const struct na_ibs_cpu vermeer = {0x19, 0x21, 0x3ff};
static const struct na_ibs_cpu cezanne = {0x19, 0x50, 0x3ff};
static const struct na_ibs_cpu genoa = {0x19, 0x11, 0xbff};
static const struct na_ibs_cpu genoa4 = {0x19, 0x61, 0xfff};
static const struct na_ibs_cpu turin = {0x1a, 0x02, 0x81bff};

struct row {
    const char *what;
    const struct na_ibs_cpu *cpu;
    uint64_t data2, data3;
    uint8_t level;
    uint32_t where; /* of WHERE */
};

/* Loads that missed both caches have no other bits here. */
#define DEEP (LD | LIN | DCM | L2M)

static const struct row levels[] = {
    /* The same on all. */
    {"L1", &zen1, SRC(3) | RMT, LD | LIN, LEVEL(L1), LOCAL},
    {"L1, family 10h", &k10, SRC(3) | RMT, LD | LIN, LEVEL(L1), LOCAL},
    {"L1 store", &genoa, SRC(3), ST | LIN, LEVEL(L1), LOCAL},
    {"L2", &zen1, SRC(3) | RMT, LD | LIN | DCM, LEVEL(L2), LOCAL},
    {"L2, Kaveri has the bit", &kaveri, SRC(3), LD | LIN | DCM, LEVEL(L2), LOCAL},
    {"beyond L1, a store: L2Miss is not promised", &zen2, SRC(3), ST | LIN | DCM, LEVEL(UNKNOWN),
     0},
    {"beyond L2, a store: DATA2 is about loads", &zen2, SRC(3) | RMT, ST | LIN | DCM | L2M,
     LEVEL(UNKNOWN), 0},
    {"uncached: nothing else is valid", &zen1, SRC(3) | RMT, DEEP | UC, LEVEL(UNCACHED), 0},
    {"uncached hit", &zen1, 0, LD | LIN | UC, LEVEL(UNCACHED), 0},
    {"uncached store", &genoa, SRC(7), ST | LIN | UC, LEVEL(UNCACHED), 0},
    {"Zen 4, uncached with source 7", &genoa, SRC(7), LD | LIN | UC, LEVEL(IO), 0},
    {"before, source 7 is not believed then", &zen1, SRC(7), LD | LIN | UC, LEVEL(UNCACHED), 0},

    /* Family 10h: the north bridge's sources; no L2Miss bit. */
    {"10h L3", &k10, SRC(1), LD | LIN | DCM, LEVEL(L3), LOCAL},
    {"10h cache here", &k10, SRC(2) | HITST, LD | LIN | DCM, LEVEL(CACHE), LOCAL},
    {"10h cache there, modified", &k10, SRC(2) | RMT, LD | LIN | DCM, LEVEL(CACHE), REMOTE | HITM},
    {"10h DRAM here", &k10, SRC(3), LD | LIN | DCM, LEVEL(DRAM), LOCAL},
    {"10h DRAM there", &k10, SRC(3) | RMT, LD | LIN | DCM, LEVEL(DRAM), REMOTE},
    {"10h 4 is reserved", &k10, SRC(4) | RMT, LD | LIN | DCM, LEVEL(UNKNOWN), 0},
    {"10h IO is not DRAM", &k10, SRC(7) | RMT, LD | LIN | DCM, LEVEL(IO), 0},
    {"10h nobody asked: L2", &k10, SRC(0), LD | LIN | DCM, LEVEL(L2), LOCAL},
    {"10h on its way", &k10, SRC(0), LD | LIN | DCM | NOMAB, LEVEL(LFB), 0},
    {"15h 01h the bit 20 is reserved", &bulldozer, SRC(3), LD | LIN | DCM, LEVEL(DRAM), LOCAL},
    {"15h 20h still", &trinity, SRC(3) | RMT, LD | LIN | DCM, LEVEL(DRAM), REMOTE},
    {"15h 20h nobody asked", &trinity, SRC(0), LD | LIN | DCM, LEVEL(L2), LOCAL},

    /* Zen to Zen 3. */
    {"Zen cache of this node", &zen1, SRC(2) | HITST, DEEP, LEVEL(CACHE), LOCAL},
    {"Zen its RmtNode means nothing there", &zen1, SRC(2) | RMT | HITST, DEEP, LEVEL(CACHE), LOCAL},
    {"Zen modified", &zen2, SRC(2), DEEP, LEVEL(CACHE), LOCAL | HITM},
    {"Zen DRAM here", &zen1, SRC(3), DEEP, LEVEL(DRAM), LOCAL},
    {"Zen DRAM there", &zen1, SRC(3) | RMT, DEEP, LEVEL(DRAM), REMOTE},
    {"Zen cache there", &zen1, SRC(4) | HITST, DEEP, LEVEL(CACHE), REMOTE},
    {"Zen IO", &zen1, SRC(7) | RMT, DEEP, LEVEL(IO), 0},
    {"Zen no source", &zen1, SRC(0), DEEP, LEVEL(UNKNOWN), 0},
    {"Zen 1 is reserved", &zen2, SRC(1), DEEP, LEVEL(UNKNOWN), 0},
    {"Zen high bits are not there yet", &zen2, SRC(3) | BIT(6), DEEP, LEVEL(DRAM), LOCAL},
    {"Zen on its way", &zen1, SRC(0), DEEP | NOMAB, LEVEL(LFB), 0},
    {"Zen a source goes before the buffer", &zen1, SRC(3), DEEP | NOMAB, LEVEL(DRAM), LOCAL},
    {"Hygon as Zen", &hygon, SRC(3) | RMT, DEEP, LEVEL(DRAM), REMOTE},
    {"16h as Zen", &jaguar, SRC(3), DEEP, LEVEL(DRAM), LOCAL},

    /* CacheHitSt is wrong on some of Zen 3. */
    {"Milan no modified", &milan, SRC(2), DEEP, LEVEL(CACHE), LOCAL},
    {"Vermeer no modified", &vermeer, SRC(4), DEEP, LEVEL(CACHE), REMOTE},
    {"Cezanne no modified", &cezanne, SRC(2), DEEP, LEVEL(CACHE), LOCAL},

    /* Erratum 1293: 19h 00h-0Fh, software prefetch or no miss buffer. */
    {"1293 prefetch: DATA2 is wrong", &milan, SRC(3) | RMT, DEEP | SWPF, LEVEL(UNKNOWN), 0},
    {"1293 prefetch: so is L2Miss", &milan, SRC(3), LD | LIN | DCM | SWPF, LEVEL(UNKNOWN), 0},
    {"1293 no buffer", &milan_last, SRC(3) | RMT, DEEP | NOMAB, LEVEL(LFB), 0},
    {"1293 no buffer, no L2Miss", &milan_last, SRC(3), LD | LIN | DCM | NOMAB, LEVEL(LFB), 0},
    {"1293 not for plain loads", &milan, SRC(3) | RMT, DEEP, LEVEL(DRAM), REMOTE},
    {"1293 not for hits", &milan, 0, LD | LIN | SWPF, LEVEL(L1), LOCAL},
    {"1293 not on 20h", &vermeer, SRC(3) | RMT, DEEP | SWPF, LEVEL(DRAM), REMOTE},
    {"1293 not on Zen 2", &zen2, SRC(3), LD | LIN | DCM | SWPF, LEVEL(L2), LOCAL},

    /* Zen 4 and later: five bits. */
    {"Zen 4 L3", &genoa, SRC(1), DEEP, LEVEL(L3), LOCAL},
    {"Zen 4 near CCX", &genoa, SRC(2) | HITST, DEEP, LEVEL(CACHE), LOCAL},
    {"Zen 4 near CCX, modified", &genoa, SRC(2), DEEP, LEVEL(CACHE), LOCAL | HITM},
    {"Zen 4 DRAM here", &genoa, SRC(3), DEEP, LEVEL(DRAM), LOCAL},
    {"Zen 4 DRAM there", &genoa, SRC(3) | RMT, DEEP, LEVEL(DRAM), REMOTE},
    {"Zen 4 4 is reserved", &genoa, SRC(4), DEEP, LEVEL(UNKNOWN), 0},
    {"Zen 4 far CCX", &genoa, SRC(5) | HITST, DEEP, LEVEL(CACHE), REMOTE},
    {"Zen 4 PMEM there", &genoa, SRC(6) | RMT, DEEP, LEVEL(PMEM), REMOTE},
    {"Zen 4 PMEM here", &genoa, SRC(6), DEEP, LEVEL(PMEM), LOCAL},
    {"Zen 4 IO", &genoa, SRC(7) | RMT, DEEP, LEVEL(IO), 0},
    {"Zen 4 CXL", &genoa4, SRC(8), DEEP, LEVEL(CXL), LOCAL},
    {"Zen 4 CXL there", &genoa4, SRC(8) | RMT, DEEP, LEVEL(CXL), REMOTE},
    {"Zen 4 9 is reserved", &genoa4, SRC(9), DEEP, LEVEL(UNKNOWN), 0},
    {"Zen 4 peer", &genoa4, SRC(12) | RMT, DEEP, LEVEL(PEER), REMOTE},
    {"Zen 4 31 is reserved", &genoa4, SRC(31), DEEP, LEVEL(UNKNOWN), 0},
    {"Zen 5 as Zen 4", &turin, SRC(12), DEEP, LEVEL(PEER), LOCAL},
    {"Zen 5 has no 1293", &turin, SRC(3), DEEP | SWPF, LEVEL(DRAM), LOCAL},
};

static struct na_ibs_decoded decode(const struct na_ibs_cpu *cpu, uint64_t data, uint64_t data2,
                                    uint64_t data3) {
    struct na_ibs_regs regs = {.data = data,
                               .data2 = data2,
                               .data3 = data3,
                               .linad = 0x7f0012345678,
                               .physad = 0x123456678};
    struct na_ibs_decoded out;
    memset(&out, 0xa5, sizeof out); /* nothing of it may be left */
    na_ibs_decode(cpu, &regs, &out);
    return out;
}

Test(ibs, levels) {
    for (size_t i = 0; i < sizeof levels / sizeof levels[0]; i++) {
        const struct row *row = &levels[i];
        struct na_ibs_decoded out = decode(row->cpu, 0, row->data2, row->data3);
        cr_expect_eq(out.level, row->level, "%s: level %u, not %u", row->what, out.level,
                     row->level);
        cr_expect_eq(out.flags & WHERE, row->where, "%s: where %x, not %x", row->what,
                     out.flags & WHERE, row->where);
        cr_expect(out.is_access && out.has_addr && out.addr == 0x7f0012345678, "%s", row->what);
    }
}

Test(ibs, operations) {
    static const struct {
        uint64_t data3;
        uint8_t op;
        bool access;
    } row[] = {
        {LIN, NA_IBS_OP_UNKNOWN, false},
        {LD | LIN, NA_IBS_OP_READ, true},
        {ST | LIN, NA_IBS_OP_WRITE, true},
        {LD | ST | LIN, NA_IBS_OP_UPDATE, true},
    };
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct na_ibs_decoded out = decode(&zen2, 0, 0, row[i].data3);
        cr_expect_eq(out.op, row[i].op);
        cr_expect_eq(out.is_access, row[i].access);
        cr_expect_eq(out.has_addr, row[i].access);
        cr_expect_not(out.has_phys);
    }
    cr_expect_not(decode(&zen2, 0, 0, LD).has_addr);
    struct na_ibs_decoded out = decode(&zen2, 0, 0, LD | LIN | PHY | LOCK | MISAL | SWPF);
    cr_expect(out.has_phys && out.phys == 0x123456678);
    struct na_ibs_regs unfilled = {.data3 = LD | LIN | PHY, .linad = 0x7f0012345678};
    na_ibs_decode(&genoa, &unfilled, &out);
    cr_expect(out.has_addr && !out.has_phys, "a physical 0 is a register that nobody filled in");
    out = decode(&zen2, 0, 0, LD | LIN | PHY | LOCK | MISAL | SWPF);
    cr_expect_eq(out.flags & (NA_IBS_F_LOCKED | NA_IBS_F_MISALIGNED | NA_IBS_F_PREFETCH),
                 NA_IBS_F_LOCKED | NA_IBS_F_MISALIGNED | NA_IBS_F_PREFETCH);
    cr_expect_not(decode(&k10, 0, 0, LD | LIN | SWPF).flags & NA_IBS_F_PREFETCH);
}

Test(ibs, latency_width_retirement) {
    /* Latency: loads that missed, not uncached. */
    cr_expect_eq(decode(&zen2, 0, SRC(3), DEEP | LAT(777)).latency, 777);
    cr_expect(decode(&zen2, 0, SRC(3), DEEP | LAT(777)).flags & NA_IBS_F_LATENCY);
    cr_expect_not(decode(&zen2, 0, 0, LD | LIN | LAT(777)).flags & NA_IBS_F_LATENCY);
    cr_expect_eq(decode(&zen2, 0, 0, LD | LIN | LAT(777)).latency, 0);
    cr_expect_not(decode(&zen2, 0, 0, ST | LIN | DCM | LAT(777)).flags & NA_IBS_F_LATENCY);
    cr_expect_not(decode(&zen2, 0, 0, DEEP | UC | LAT(777)).flags & NA_IBS_F_LATENCY);
    cr_expect_eq(decode(&k10, 0, SRC(3), LD | LIN | DCM | LAT(65535)).latency, 65535);

    static const uint8_t bytes[16] = {0, 1, 2, 4, 8, 16, 32, 64};
    for (unsigned code = 0; code < 16; code++) {
        cr_expect_eq(decode(&zen2, 0, 0, LD | LIN | W(code)).width, bytes[code]);
        cr_expect_eq(decode(&trinity, 0, 0, LD | LIN | W(code)).width, 0);
    }
    cr_expect_eq(decode(&zen2, 0x1234ULL << 16 | 0x99, 0, LD | LIN).retire, 0x1234);
    cr_expect_eq(decode(&zen2, 0x1234ULL << 16 | 0x99, 0, LIN).retire, 0x1234);
}

Test(ibs, instruction_address) {
    cr_expect(decode(&zen2, BIT(38), 0, LD | LIN).flags & NA_IBS_F_IP_INVALID);
    cr_expect(decode(&zen2, BIT(38), 0, 0).flags & NA_IBS_F_IP_INVALID);
    cr_expect_not(decode(&zen2, 0, 0, LD | LIN).flags & NA_IBS_F_IP_INVALID);
    /* Without capability bit 7 the bit is reserved. */
    cr_expect_not(decode(&k10, BIT(38), 0, LD | LIN).flags & NA_IBS_F_IP_INVALID);
}

Test(ibs, translation) {
    static const struct {
        const struct na_ibs_cpu *cpu;
        uint64_t data3;
        uint32_t flags;
        uint16_t latency;
    } row[] = {
        {&zen2, 0, NA_IBS_F_TLB_KNOWN, 0},
        {&zen2, TLB(50), NA_IBS_F_TLB_KNOWN, 0}, /* no miss, no latency */
        {&zen2, L1TLB | TLB(50), NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS, 50},
        {&zen2, L1TLB | L2TLB | TLB(99),
         NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS | NA_IBS_F_TLB_L2MISS, 99},
        {&zen2, L2TLB | TLB(99), NA_IBS_F_TLB_KNOWN, 0}, /* the second is asked after the first */
        {&k10, L1TLB | L2TLB | TLB(99),
         NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS | NA_IBS_F_TLB_L2MISS, 0},
        /* Errata 717 and 718: the bits stick. */
        {&bulldozer, L1TLB | L2TLB | TLB(99), 0, 0},
        {&piledriver, 0, 0, 0},
        {&trinity, L1TLB, NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS, 0},
        {&kaveri, L1TLB | TLB(9), NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS, 9},
        /* Capability bit 19: told only with the physical address. */
        {&turin, L1TLB | L2TLB | TLB(99), 0, 0},
        {&turin, 0, 0, 0},
        {&turin, PHY, NA_IBS_F_TLB_KNOWN, 0},
        {&turin, PHY | L1TLB | TLB(50), NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS, 50},
    };
    const uint32_t mask = NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS | NA_IBS_F_TLB_L2MISS;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct na_ibs_decoded out = decode(row[i].cpu, 0, 0, LD | LIN | row[i].data3);
        cr_expect_eq(out.flags & mask, row[i].flags, "row %zu: %x", i, out.flags & mask);
        cr_expect_eq(out.tlb_latency, row[i].latency, "row %zu", i);
    }
}

/* perf's block: capabilities, then registers that begin at byte 4; two of them only with their
 * capability. */
Test(ibs, parse) {
    unsigned char block[4 + 9 * 8];
    for (unsigned with = 0; with < 4; with++) {
        uint32_t caps = (with & 1 ? 1U << 5 : 0) | (with & 2 ? 1U << 10 : 0);
        uint32_t size = 4 + 8 * (7 + (with & 1) + (with >> 1));
        memcpy(block, &caps, 4);
        for (uint64_t i = 0; i < 9; i++) {
            uint64_t value = 0x1111111111111111ULL * (i + 1);
            memcpy(block + 4 + 8 * i, &value, 8);
        }
        uint32_t got = 0;
        struct na_ibs_regs regs;
        cr_assert(na_ibs_parse(block, size, &got, &regs));
        cr_expect_eq(got, caps);
        cr_expect_eq(regs.ctl, 0x1111111111111111ULL);
        cr_expect_eq(regs.data3, 0x5555555555555555ULL);
        cr_expect_eq(regs.physad, 0x7777777777777777ULL);
        cr_expect_eq(regs.target, with & 1 ? 0x8888888888888888ULL : 0);
        cr_expect_eq(regs.data4, with == 3   ? 0x9999999999999999ULL
                                 : with == 2 ? 0x8888888888888888ULL
                                             : 0);
        cr_expect(na_ibs_parse(block, size + 4, &got, &regs)); /* perf pads */
        for (uint32_t less = 0; less < size; less++)
            cr_expect_not(na_ibs_parse(block, less, &got, &regs), "%u of %u bytes", less, size);
    }
}

/* Every bit of DATA2 and DATA3 alone and in pairs on every CPU: fields stay in their ranges. */
Test(ibs, any_bits) {
    static const struct na_ibs_cpu *cpus[] = {&k10,    &bulldozer,  &trinity, &kaveri,
                                              &jaguar, &zen1,       &milan,   &vermeer,
                                              &genoa,  &milan_last, &turin};
    for (size_t c = 0; c < sizeof cpus / sizeof cpus[0]; c++)
        for (int i = 0; i < 128; i++)
            for (int k = 0; k < 128; k++) {
                uint64_t bits[2] = {0, 0};
                bits[i / 64] |= BIT(i % 64);
                bits[k / 64] |= BIT(k % 64);
                struct na_ibs_decoded out = decode(cpus[c], 0, bits[0], bits[1]);
                cr_assert(out.level < NA_IBS_LEVELS && out.op <= NA_IBS_OP_UPDATE);
                cr_assert((out.flags & (REMOTE | LOCAL)) != (REMOTE | LOCAL));
                cr_assert(out.is_access || (out.level == 0 && !out.has_addr));
                cr_assert((out.flags & NA_IBS_F_LATENCY) || out.latency == 0);
            }
}

/* ---- perf's data_src --------------------------------------------------------------------------
 */

#define P(field, name) ((uint64_t)PERF_MEM_##field##_##name << PERF_MEM_##field##_SHIFT)
#define LVL(name)      P(LVL, name)
#define NUM(n)         ((uint64_t)(n) << 33)
#define PREMOTE        BIT(37)
#define HOPS(n)        ((uint64_t)(n) << 43)
#define LOAD           P(OP, LOAD)

static const struct {
    const char *what;
    uint64_t src;
    int amd;
    uint8_t op, level;
    uint32_t where;
} sources[] = {
    {"nothing", P(OP, NA), 1, 0, 0, 0},
    {"prefetch only", P(OP, PFETCH), 0, 0, 0, 0},
    {"store", P(OP, STORE) | LVL(NA), 1, NA_IBS_OP_WRITE, LEVEL(UNKNOWN), 0},
    {"load and store", LOAD | P(OP, STORE) | LVL(NA), 1, NA_IBS_OP_UPDATE, LEVEL(UNKNOWN), 0},
    {"locked", LOAD | P(LOCK, LOCKED) | LVL(NA), 1, NA_IBS_OP_UPDATE, LEVEL(UNKNOWN), 0},

    /* Linux 6.1 to 6.4, ibs_op: mem_lvl alone. */
    {"6.1 L1", LOAD | LVL(L1) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(L1), LOCAL},
    {"6.1 L2", LOAD | LVL(L2) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(L2), LOCAL},
    {"6.1 L3", LOAD | LVL(L3) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(L3), LOCAL},
    {"6.1 Zen 2 cache of this node", LOAD | LVL(L3) | LVL(REM_CCE1) | LVL(HIT), 1, NA_IBS_OP_READ,
     LEVEL(L3), LOCAL},
    {"6.1 Zen 4 near CCX", LOAD | LVL(REM_CCE1) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(CACHE), LOCAL},
    {"6.1 cache there", LOAD | LVL(REM_CCE2) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(CACHE), REMOTE},
    {"6.1 DRAM here", LOAD | LVL(LOC_RAM) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(DRAM), LOCAL},
    {"6.1 DRAM there", LOAD | LVL(REM_RAM1) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(DRAM), REMOTE},
    {"6.1 on its way", LOAD | LVL(LFB) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(LFB), 0},
    {"6.1 uncached", LOAD | LVL(UNC) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(UNCACHED), 0},
    {"6.1 IO", LOAD | LVL(IO) | LVL(HIT), 1, NA_IBS_OP_READ, LEVEL(IO), 0},
    {"6.1 PMEM here", LOAD | NUM(14), 1, NA_IBS_OP_READ, LEVEL(PMEM), LOCAL},
    {"6.1 PMEM there", LOAD | NUM(14) | PREMOTE | HOPS(2), 1, NA_IBS_OP_READ, LEVEL(PMEM), REMOTE},
    {"6.1 CXL", LOAD | NUM(9), 1, NA_IBS_OP_READ, LEVEL(CXL), LOCAL},

    /* Later, ibs_op: mem_lvl_num, remote and hops as well. */
    {"6.5 Zen 2 cache of this node", LOAD | LVL(L3) | LVL(REM_CCE1) | LVL(HIT) | NUM(11) | HOPS(1),
     1, NA_IBS_OP_READ, LEVEL(CACHE), LOCAL},
    {"6.5 near CCX: remote, but of this node",
     LOAD | LVL(REM_CCE1) | LVL(HIT) | NUM(11) | PREMOTE | HOPS(1), 1, NA_IBS_OP_READ, LEVEL(CACHE),
     LOCAL},
    {"6.5 far CCX", LOAD | LVL(REM_CCE2) | LVL(HIT) | NUM(11) | PREMOTE | HOPS(2), 1,
     NA_IBS_OP_READ, LEVEL(CACHE), REMOTE},
    {"6.5 DRAM here", LOAD | LVL(LOC_RAM) | LVL(HIT) | NUM(13), 1, NA_IBS_OP_READ, LEVEL(DRAM),
     LOCAL},
    {"6.5 DRAM there", LOAD | LVL(REM_RAM1) | LVL(HIT) | NUM(13) | PREMOTE | HOPS(2), 1,
     NA_IBS_OP_READ, LEVEL(DRAM), REMOTE},
    {"6.5 L1", LOAD | LVL(L1) | LVL(HIT) | NUM(1), 1, NA_IBS_OP_READ, LEVEL(L1), LOCAL},
    {"not available", LOAD | LVL(NA) | NUM(15), 1, NA_IBS_OP_READ, LEVEL(UNKNOWN), 0},

    /* Intel. */
    {"Intel L3", LOAD | LVL(L3) | LVL(HIT) | NUM(3), 0, NA_IBS_OP_READ, LEVEL(L3), LOCAL},
    {"Intel L3, modified elsewhere", LOAD | LVL(L3) | LVL(HIT) | NUM(3) | P(SNOOP, HITM), 0,
     NA_IBS_OP_READ, LEVEL(L3), LOCAL | HITM},
    {"Intel cache there", LOAD | LVL(REM_CCE1) | LVL(HIT) | NUM(11) | PREMOTE, 0, NA_IBS_OP_READ,
     LEVEL(CACHE), REMOTE},
    {"Intel DRAM there", LOAD | LVL(REM_RAM1) | LVL(HIT) | NUM(13) | PREMOTE, 0, NA_IBS_OP_READ,
     LEVEL(DRAM), REMOTE},
    {"Intel PMEM, nothing said of the node", LOAD | NUM(14), 0, NA_IBS_OP_READ, LEVEL(PMEM), 0},
    {"AMD L2 of a store: L2Miss is not promised", P(OP, STORE) | LVL(L2) | LVL(HIT), 1,
     NA_IBS_OP_WRITE, LEVEL(UNKNOWN), 0},
    {"Intel L2 of a store", P(OP, STORE) | LVL(L2) | LVL(HIT), 0, NA_IBS_OP_WRITE, LEVEL(L2),
     LOCAL},
    {"Intel L1 miss of a store", P(OP, STORE) | LVL(L1) | LVL(MISS), 0, NA_IBS_OP_WRITE,
     LEVEL(UNKNOWN), 0},
};

Test(ibs, data_src) {
    for (size_t i = 0; i < sizeof sources / sizeof sources[0]; i++) {
        struct na_ibs_decoded out = {0};
        na_ibs_decode_data_src(sources[i].src, sources[i].amd, &out);
        cr_expect_eq(out.op, sources[i].op, "%s: op %u", sources[i].what, out.op);
        cr_expect_eq(out.level, sources[i].level, "%s: level %u", sources[i].what, out.level);
        cr_expect_eq(out.flags & WHERE, sources[i].where, "%s: where %x", sources[i].what,
                     out.flags & WHERE);
        cr_expect_eq(out.is_access, sources[i].op != 0, "%s", sources[i].what);
    }
}

Test(ibs, data_src_translation) {
    static const struct {
        uint64_t tlb;
        uint32_t flags;
    } row[] = {
        {P(TLB, NA), 0},
        {P(TLB, HIT) | P(TLB, L1), NA_IBS_F_TLB_KNOWN},
        {P(TLB, HIT) | P(TLB, L1) | P(TLB, L2), NA_IBS_F_TLB_KNOWN}, /* Intel: either of them */
        {P(TLB, HIT) | P(TLB, L2), NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS},
        {P(TLB, MISS) | P(TLB, L2), NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS | NA_IBS_F_TLB_L2MISS},
    };
    const uint32_t mask = NA_IBS_F_TLB_KNOWN | NA_IBS_F_TLB_L1MISS | NA_IBS_F_TLB_L2MISS;
    for (size_t i = 0; i < sizeof row / sizeof row[0]; i++) {
        struct na_ibs_decoded out = {0};
        na_ibs_decode_data_src(LOAD | row[i].tlb, 1, &out);
        cr_expect_eq(out.flags & mask, row[i].flags, "row %zu: %x", i, out.flags & mask);
    }
}
