/* SPDX-License-Identifier: GPL-2.0-or-later
 *
 * ibs-fetch.c - AMD's instruction-based sampling of fetches, for QEMU's TCG: the control register
 * and the sample. Becomes target/i386/tcg/sysemu/ibs-fetch.c; ibs.h says who calls what.
 *
 * Fetches are counted as blocks are entered, so those after an instruction that faults count, too,
 * as silicon's that are fetched and not used. All are completed.
 *
 * Field names in the comments are those of AMD's manuals (APM volume 2, "Instruction-Based
 * Sampling"; the PPRs of families 17h and 19h).
 */
#include "qemu/osdep.h"
/* (QEMU wants it before all others.) */

#include "cpu.h"
#include "exec/exec-all.h"

/* IbsFetchCtl */
#define FETCH_MAX           0xffffull /* the period's bits 19:4 */
#define FETCH_COUNT_SHIFT   16        /* the same bits of the count */
#define FETCH_COUNT         (0xffffull << FETCH_COUNT_SHIFT)
#define FETCH_LATENCY_SHIFT 32
#define FETCH_ENABLE        BIT_ULL(48)
#define FETCH_VALID         BIT_ULL(49)
#define FETCH_COMPLETED     BIT_ULL(50)
#define FETCH_IC_MISS       BIT_ULL(51)
#define FETCH_PHYSICAL      BIT_ULL(52)
#define FETCH_PAGE_SHIFT    53 /* 0 to 2: 4 KiB, 2 MiB, 1 GiB */
#define FETCH_TLB1_MISS     BIT_ULL(55)
#define FETCH_TLB2_MISS     BIT_ULL(56)
#define FETCH_RANDOM        BIT_ULL(57)
#define FETCH_L2_MISS       BIT_ULL(58)
#define FETCH_L3_MISS_ONLY  BIT_ULL(59)
#define FETCH_L3_MISS       BIT_ULL(61)
#define FETCH_DEFINED       MAKE_64BIT_MASK(0, 59)
#define FETCH_DEFINED_ZEN4  MAKE_64BIT_MASK(0, 62)

/* Errata, as Linux works around them. Families 16h to 18h (ibs-zen2): a register that is written
 * while it is enabled goes on counting where it was. Family 19h, models below 10h (ibs-zen3): this
 * percentage of samples has address 0. */
#define ZERO_PERCENT 10

/* What software asks for; the rest is of the sample. */
#define FETCH_SETTINGS (FETCH_MAX | FETCH_ENABLE | FETCH_RANDOM | FETCH_L3_MISS_ONLY)

/* ---- Counting ------------------------------------------------------------------------------- */

static int32_t period(const IBSState *ibs) {
    int32_t fetches = (ibs->fetch_ctl & FETCH_MAX) << 4;

    return fetches > 0 && fetches < IBS_PERIOD_MIN ? IBS_PERIOD_MIN : fetches;
}

static bool counting(const IBSState *ibs) {
    return (ibs->fetch_ctl & FETCH_ENABLE) && !(ibs->fetch_ctl & FETCH_VALID) && period(ibs) > 0;
}

/* The register has all bits of the count but the lowest four. They start at random, if software
 * asks for that. */
static int32_t random_start(IBSState *ibs) {
    return ibs->fetch_ctl & FETCH_RANDOM ? ibs_draw(ibs, 16) : 0;
}

static void set_flag(CPUX86State *env) {
    if (counting(&env->ibs)) {
        env_cpu(env)->tcg_cflags |= CF_IBS_FETCH;
    } else {
        env_cpu(env)->tcg_cflags &= ~CF_IBS_FETCH;
    }
}

uint64_t ibs_fetch_ctl(CPUX86State *env) {
    IBSState *ibs = &env->ibs;

    if (!counting(ibs)) {
        return ibs->fetch_ctl;
    }
    return (ibs->fetch_ctl & ~FETCH_COUNT) |
           ((uint64_t)((period(ibs) - ibs->fetches_left) >> 4) << FETCH_COUNT_SHIFT & FETCH_COUNT);
}

/* The caller's block ends here, so that the next one has the right flags. */
bool ibs_write_fetch_ctl(CPUX86State *env, uint64_t value) {
    IBSState *ibs = &env->ibs;
    uint64_t defined = ibs_caps(env) & IBS_CAP_ZEN4 ? FETCH_DEFINED_ZEN4 : FETCH_DEFINED;

    if (value & ~defined) {
        return false;
    }
    if (env_archcpu(env)->ibs_config.zen2 && (value & ibs->fetch_ctl & FETCH_ENABLE)) {
        value = (value & ~FETCH_COUNT) | (ibs_fetch_ctl(env) & FETCH_COUNT);
    }
    ibs->fetch_ctl = value;
    if (counting(ibs)) {
        int32_t count = (value & FETCH_COUNT) >> FETCH_COUNT_SHIFT << 4;

        count += random_start(ibs);
        ibs->fetches_left = count < period(ibs) ? period(ibs) - count : 0;
        ibs->fetches_left += ibs->fetched_again;
        ibs->fetched_again = 0;
    }
    set_flag(env);
    return true;
}

/* ---- The sample ------------------------------------------------------------------------------ */

/* Fills the registers. False: it was not wanted. */
static bool sample(X86CPU *cpu, uint64_t linear) {
    CPUX86State *env = &cpu->env;
    IBSState *ibs = &env->ibs;
    uint64_t ctl = (ibs->fetch_ctl & FETCH_SETTINGS) | FETCH_VALID | FETCH_COMPLETED;
    uint32_t cycles = IBS_L1_CYCLES, walk = 0;
    int own = MAX(cpu->node_id, 0), home = own;
    bool memory = false;
    CPUTLBEntryFull *full;
    void *host;

    ibs->fetch_linear = linear;
    ibs->fetch_physical = 0;
    if (!(probe_access_full(env, linear, MMU_INST_FETCH, cpu_mmu_index(env, true), true, &host,
                            &full, 0) &
          TLB_INVALID_MASK)) {
        uint64_t physical = full->phys_addr | (linear & ~TARGET_PAGE_MASK);

        home = ibs_node_of(physical, own);
        ibs->fetch_physical = cpu->ibs_config.no_physical ? 0 : physical;
        ctl |= FETCH_PHYSICAL;
        ctl |= (full->lg_page_size >= 30 ? 2ull : full->lg_page_size >= 21) << FETCH_PAGE_SHIFT;
    }
    switch (ibs_tlb_misses(cpu, &walk)) {
    case 2:
        ctl |= FETCH_TLB2_MISS;
        /* fall through */
    case 1:
        ctl |= FETCH_TLB1_MISS;
    }
    if (ibs_happens(ibs, cpu->ibs_config.fetch_misses)) {
        ctl |= FETCH_IC_MISS;
        switch (ibs_draw(ibs, 4)) { /* half of them by the second cache */
        default:
            cycles = IBS_L2_CYCLES;
            break;
        case 2:
            ctl |= FETCH_L2_MISS;
            cycles = IBS_L3_CYCLES;
            break;
        case 3:
            ctl |= FETCH_L2_MISS;
            memory = true;
            cycles = ibs_memory_cycles(ibs, own, home);
            break;
        }
    }
    if (memory && (ibs_caps(env) & IBS_CAP_ZEN4)) {
        ctl |= FETCH_L3_MISS;
    }
    if ((ctl & FETCH_L3_MISS_ONLY) && !memory) {
        return false;
    }
    if (cpu->ibs_config.zen3 && ibs_happens(ibs, ZERO_PERCENT)) {
        ibs->fetch_linear = 0;
    }
    ctl |= (ctl & FETCH_MAX) << FETCH_COUNT_SHIFT; /* the count stops where it is */
    ibs->fetch_ext = walk;
    ibs->fetch_ctl = ctl | (uint64_t)(cycles + walk) << FETCH_LATENCY_SHIFT;
    return true;
}

bool ibs_fetch_expired(CPUState *cs, TranslationBlock *tb) {
    CPUX86State *env = cs->env_ptr;
    X86CPU *cpu = env_archcpu(env);
    IBSState *ibs = &env->ibs;
    uint64_t pc = env->eip + env->segs[R_CS].base, tagged = pc;
    int fetches = ibs_fetches(pc, tb->size);

    if (!(tb_cflags(tb) & CF_IBS_FETCH) || ibs->fetches_left >= fetches) {
        return false;
    }
    if (ibs->fetches_left > 0) {
        tagged = pc / IBS_FETCH_BYTES * IBS_FETCH_BYTES + ibs->fetches_left * IBS_FETCH_BYTES;
    }
    if (sample(cpu, tagged)) {
        ibs->fetched_again = ibs->fetches_left;
        set_flag(env);
        ibs_interrupt(cpu);
    } else {
        ibs->fetches_left += period(ibs) - random_start(ibs);
        if (ibs->fetches_left < fetches) {
            ibs->fetches_left = fetches; /* the block goes on now */
        }
    }
    return true;
}
