/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ibs.h - AMD's instruction-based sampling for an emulated x86 CPU: state, settings, and who calls
 * what. Becomes target/i386/ibs.h of a patched QEMU; ibs.c has the model.
 *
 * An instruction is one op. While sampling is armed, translated blocks carry CF_IBS_COUNT: each
 * takes its number of instructions from `left` before it runs, and gives up where `left` would go
 * below zero. The block is then translated anew with just as many instructions as are left. The
 * next instruction is the tagged one: it runs as a block of its own, with CF_IBS_TAG, in which each
 * access to memory is followed by a call of helper_ibs_access(). If that block ends as blocks do,
 * the instruction retired and ibs_retired() makes the sample of it.
 *
 * A fetch is a piece of 32 bytes, aligned, of a block's code. While fetches are sampled, blocks
 * carry CF_IBS_FETCH: each takes the number of its fetches from `fetches_left`, and gives up where
 * the tagged fetch is one of its own. ibs_fetch_expired() makes the sample, and then the block
 * runs.
 *
 * Blocks are looked up by their flags, so code that runs without sampling is the same as ever.
 *
 * All state belongs to the thread of the virtual CPU, but for its interrupt, which needs the big
 * lock.
 */
#ifndef I386_IBS_H
#define I386_IBS_H

#define CF_IBS_COUNT 0x00002000 /* The block counts its instructions */
#define CF_IBS_TAG   0x00004000 /* One instruction, whose accesses are recorded */
#define CF_IBS_FETCH 0x00200000 /* The block counts its fetches */

/* Indexes of the local APIC's registers, in 16 bytes. */
#define IBS_APIC_EFEAT 0x40
#define IBS_APIC_ECTRL 0x41
#define IBS_APIC_EILVT 0x50
#define IBS_EILVTS     4

#define IBS_ACCESSES 8 /* of one instruction; more are not candidates for the sample */

typedef struct IBSAccess {
    uint64_t linear;
    uint64_t physical;
    uint32_t size; /* bytes */
    bool load, store;
    bool prefetch; /* by software: a load that nobody waits for, of no width */
    bool known;    /* physical is */
    bool io;       /* not memory */
} IBSAccess;

typedef struct IBSState { /* cleared by a reset of the CPU */
    int32_t left; /* counting: instructions until the tagged one, or until `interrupting` ends */
    bool interrupting; /* a sample is there, its interrupt comes after `left` instructions */
    uint64_t op_ctl;   /* without its current count while counting */
    uint64_t op_rip, op_data, op_data2, op_data3, op_data4, dc_linear, dc_physical, branch_target;
    int32_t fetches_left; /* counting: fetches until the tagged one */
    /* The block of the last sample begins anew, with so many fetches that were counted before: the
     * next period does not count them, or it would always begin where blocks do. */
    int32_t fetched_again;
    uint64_t fetch_ctl; /* without its current count while counting */
    uint64_t fetch_linear, fetch_physical, fetch_ext;
    uint32_t eilvt[IBS_EILVTS];
    uint64_t random;
    /* The tagged instruction. */
    uint64_t rip;
    uint8_t code[16];
    uint32_t length;
    uint32_t accesses;
    IBSAccess access[IBS_ACCESSES];
} IBSState;

typedef struct IBSConfig { /* properties of the CPU */
    uint32_t caps;         /* CPUID 8000_001B EAX */
    uint32_t control;      /* IBS_CTL as firmware leaves it */
    uint32_t cached;       /* percent of accesses that caches answer */
    uint32_t lines;        /* of the directory of lines, a power of 2; 0: there is none */
    uint32_t lfb;          /* percent of loads from memory whose line was asked for already */
    uint32_t pmem, cxl;    /* sets of nodes whose memory is of that kind */
    uint32_t tlb_misses;   /* percent of accesses */
    uint32_t fetch_misses; /* percent of fetches that the first cache does not answer */
    uint32_t nmi_delay;    /* instructions */
    uint32_t no_rip;       /* percent of samples whose address is marked invalid */
    bool zen2, zen3;       /* errata of fetches (ibs-fetch.c) */
    bool no_physical; /* physical addresses read 0, marked valid, as some hypervisors give them */
    uint32_t seed;
} IBSConfig;

/* CPUID 8000_001B EAX */
#define IBS_CAP_FETCH          BIT(1)
#define IBS_CAP_OP             BIT(2)
#define IBS_CAP_COUNT_WRITABLE BIT(3)
#define IBS_CAP_COUNT_OPS      BIT(4)
#define IBS_CAP_BRANCH_TARGET  BIT(5)
#define IBS_CAP_COUNT_27       BIT(6)
#define IBS_CAP_RIP_INVALID    BIT(7)
#define IBS_CAP_FETCH_EXT      BIT(9)
#define IBS_CAP_OP_DATA4       BIT(10)
#define IBS_CAP_ZEN4           BIT(11)
#define IBS_CAP_LATENCY        BIT(12)

/* Cycles of a model that has no time. Memory's are for distance 10, and spread by a quarter. */
enum {
    IBS_L1_CYCLES = 4,
    IBS_L2_CYCLES = 14,
    IBS_L3_CYCLES = 46,
    IBS_CACHE_CYCLES = 90, /* another complex's; of another node, as much again for its distance */
    IBS_MEMORY_CYCLES = 200,
    IBS_WALK_CYCLES = 30
};

#define IBS_PERIOD_MIN 0x90 /* less is taken for this: Linux 6.1 begins with it */

/* Available, fetch, op, read and write of the count, counting of ops, 27 bits of count, mark of
 * invalid addresses, wide data sources and misses of the third cache only. */
#define IBS_CAPS 0x8df

#define IBS_PROPERTIES                                                                             \
    DEFINE_PROP_UINT32("ibs-caps", X86CPU, ibs_config.caps, IBS_CAPS),                             \
        DEFINE_PROP_UINT32("ibs-control", X86CPU, ibs_config.control, 0x101),                      \
        DEFINE_PROP_UINT32("ibs-cached", X86CPU, ibs_config.cached, 0),                            \
        DEFINE_PROP_UINT32("ibs-lines", X86CPU, ibs_config.lines, 0),                              \
        DEFINE_PROP_UINT32("ibs-lfb", X86CPU, ibs_config.lfb, 0),                                  \
        DEFINE_PROP_UINT32("ibs-pmem", X86CPU, ibs_config.pmem, 0),                                \
        DEFINE_PROP_UINT32("ibs-cxl", X86CPU, ibs_config.cxl, 0),                                  \
        DEFINE_PROP_UINT32("ibs-tlb-misses", X86CPU, ibs_config.tlb_misses, 0),                    \
        DEFINE_PROP_UINT32("ibs-fetch-misses", X86CPU, ibs_config.fetch_misses, 10),               \
        DEFINE_PROP_UINT32("ibs-nmi-delay", X86CPU, ibs_config.nmi_delay, 0),                      \
        DEFINE_PROP_UINT32("ibs-no-rip", X86CPU, ibs_config.no_rip, 0),                            \
        DEFINE_PROP_BOOL("ibs-zen2", X86CPU, ibs_config.zen2, false),                              \
        DEFINE_PROP_BOOL("ibs-zen3", X86CPU, ibs_config.zen3, false),                              \
        DEFINE_PROP_BOOL("ibs-no-physical", X86CPU, ibs_config.no_physical, false),                \
        DEFINE_PROP_UINT32("ibs-seed", X86CPU, ibs_config.seed, 1)

#define IBS_FETCH_BYTES 32

/* Of so many bytes of code. */
static inline int ibs_fetches(uint64_t first, uint32_t bytes) {
    return (int)((first % IBS_FETCH_BYTES + bytes + IBS_FETCH_BYTES - 1) / IBS_FETCH_BYTES);
}

struct ArchCPU;
struct DeviceState;
struct CPUArchState;
struct CPUState;
struct TranslationBlock;

/* From the CPU's reset. */
void ibs_reset(struct ArchCPU *cpu);

/* From rdmsr and wrmsr: false is #GP. */
bool ibs_has_msr(struct CPUArchState *env, uint32_t msr);
bool ibs_rdmsr(struct CPUArchState *env, uint32_t msr, uint64_t *value);
bool ibs_wrmsr(struct CPUArchState *env, uint32_t msr, uint64_t value);

/* From the local APIC: false where there is no such register. */
bool ibs_apic_read(struct ArchCPU *cpu, int index, uint32_t *value);
bool ibs_apic_write(struct ArchCPU *cpu, int index, uint32_t value);
uint32_t ibs_apic_version(struct ArchCPU *cpu);
/* To it, with the big lock held: what `lvt` says happens. */
void ibs_apic_deliver(struct DeviceState *dev, uint32_t lvt);

/* From the main loop. expired: block `tb` gave up; false: not for want of instructions. */
bool ibs_expired(struct CPUState *cs, struct TranslationBlock *tb);
void ibs_tagged(struct CPUState *cs, uint64_t pc, uint64_t cs_base, struct TranslationBlock *tb);
void ibs_retired(struct CPUState *cs);
void ibs_interrupted(struct CPUState *cs);

/* ---- Between ibs.c and ibs-fetch.c ---- */

/* A pseudo-random number below `below`. */
uint32_t ibs_draw(IBSState *ibs, uint32_t below);
bool ibs_happens(IBSState *ibs, uint32_t percent);
uint32_t ibs_caps(struct CPUArchState *env);
/* The node whose memory `physical` is; `own` where that is not known. */
int ibs_node_of(uint64_t physical, int own);
/* Of an access from one node to another's memory: by the distance, spread by a quarter. */
uint32_t ibs_memory_cycles(IBSState *ibs, int from, int to);
/* How many of the two TLBs an access misses; *walk: cycles, if it misses both. */
int ibs_tlb_misses(struct ArchCPU *cpu, uint32_t *walk);
/* What the local vector of IBS says, now. */
void ibs_interrupt(struct ArchCPU *cpu);

uint64_t ibs_fetch_ctl(struct CPUArchState *env);
bool ibs_write_fetch_ctl(struct CPUArchState *env, uint64_t value);
/* Block `tb` gave up: was it for a fetch of its own, of which there is a sample now? */
bool ibs_fetch_expired(struct CPUState *cs, struct TranslationBlock *tb);

#endif
