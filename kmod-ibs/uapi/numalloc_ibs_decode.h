/* SPDX-License-Identifier: (GPL-2.0 WITH Linux-syscall-note) OR MIT */
/* numalloc_ibs_decode.h - what AMD's IBS op registers, or perf's data_src, say about one memory
 * access. Pure functions, shared by the kernel module and user space; no state, no floating point,
 * safe in an NMI.
 *
 * The registers (MSR C001_1033 ff.) are decoded with the CPU's family, model and IBS capabilities,
 * because their meaning differs:
 *   - L2Miss, SwPf, OpMemWidth and TlbRefillLat exist from family 15h model 30h and 16h on;
 *   - DataSrc of family 10h-12h is the north bridge's: 1 local L3, 2 a cache, of whichever node
 * RmtNode says; with capability bit 11 (Zen 4) it has five bits and finer sources;
 *   - with capability bit 19 (Zen 5) TLB misses are told only where the physical address is;
 *   - DATA2 is about loads only, and L2Miss is not promised for stores: of a store that missed the
 *     first cache it is not known what answered;
 *   - nothing but TLB, address and type is valid for uncacheable memory;
 *   - latency is that of a load that missed the first cache.
 * Errata: 717, 718 (15h 00h-1Fh: TLB bits of DATA3 stick), 1293 (19h 00h-0Fh: DATA2 and L2Miss are
 * wrong for software prefetches and loads without a miss buffer). CacheHitSt is wrong on 19h
 * 00h-0Fh and 20h-5Fh. */
#ifndef NUMALLOC_KMOD_IBS_UAPI_NUMALLOC_IBS_DECODE_H
#define NUMALLOC_KMOD_IBS_UAPI_NUMALLOC_IBS_DECODE_H

#include <linux/perf_event.h>
#include <linux/types.h>

#ifndef __KERNEL__
#include <string.h>
#endif

#include "numalloc_ibs.h"

struct na_ibs_cpu {
    __u32 family; /* as displayed: base and extended */
    __u32 model;
    __u32 caps; /* CPUID 8000_001B EAX */
};

#define NA_IBS_CAP_BRNTRGT    (1U << 5)
#define NA_IBS_CAP_RIPINVALID (1U << 7)
#define NA_IBS_CAP_OPDATA4    (1U << 10)
#define NA_IBS_CAP_ZEN4       (1U << 11)
#define NA_IBS_CAP_DTLB       (1U << 19)

/* The registers of one sampled op. */
struct na_ibs_regs {
    __u64 ctl, rip, data, data2, data3, linad, physad, target, data4;
};

/* What they say. `addr` and `phys` are valid with their flags; the other fields are those of struct
 * na_ibs_record. */
struct na_ibs_decoded {
    __u64 addr, phys;
    __u32 flags;
    __u16 latency, retire, tlb_latency;
    __u8 op, level, width;
    __u8 has_addr, has_phys, is_access;
};

/* DATA */
#define NA_IBS_D1_TAG_TO_RET(v) ((__u16)((v) >> 16))
#define NA_IBS_D1_RIP_INVALID   (1ULL << 38)
/* DATA2 */
#define NA_IBS_D2_SRC_LO(v) ((__u32)(v)&7U)
#define NA_IBS_D2_SRC_HI(v) ((__u32)((v) >> 6) & 3U)
#define NA_IBS_D2_RMT_NODE  (1ULL << 4)
#define NA_IBS_D2_CACHE_HIT (1ULL << 5)
/* DATA3 */
#define NA_IBS_D3_LD         (1ULL << 0)
#define NA_IBS_D3_ST         (1ULL << 1)
#define NA_IBS_D3_L1TLB_MISS (1ULL << 2)
#define NA_IBS_D3_L2TLB_MISS (1ULL << 3)
#define NA_IBS_D3_DC_MISS    (1ULL << 7)
#define NA_IBS_D3_MISALIGNED (1ULL << 8)
#define NA_IBS_D3_UC         (1ULL << 14)
#define NA_IBS_D3_LOCKED     (1ULL << 15)
#define NA_IBS_D3_NO_MAB     (1ULL << 16) /* Zen; MabHit, the same answer, on 10h-15h */
#define NA_IBS_D3_LIN_VALID  (1ULL << 17)
#define NA_IBS_D3_PHY_VALID  (1ULL << 18)
#define NA_IBS_D3_L2_MISS    (1ULL << 20)
#define NA_IBS_D3_SW_PF      (1ULL << 21)
#define NA_IBS_D3_WIDTH(v)   ((__u32)((v) >> 22) & 15U)
#define NA_IBS_D3_LATENCY(v) ((__u16)((v) >> 32))
#define NA_IBS_D3_TLB(v)     ((__u16)((v) >> 48))

/* L2Miss, SwPf, OpMemWidth, TlbRefillLat are there. */
static inline int na_ibs_has_late_fields(const struct na_ibs_cpu *cpu) {
    return cpu->family >= 0x16 || (cpu->family == 0x15 && cpu->model >= 0x30);
}

static inline int na_ibs_tlb_told(const struct na_ibs_cpu *cpu, __u64 data3) {
    if (cpu->family == 0x15 && cpu->model <= 0x1f) return 0; /* errata 717, 718 */
    return !(cpu->caps & NA_IBS_CAP_DTLB) || (data3 & NA_IBS_D3_PHY_VALID);
}

static inline int na_ibs_erratum_1293(const struct na_ibs_cpu *cpu) {
    return cpu->family == 0x19 && cpu->model <= 0x0f;
}

static inline int na_ibs_cache_hit_valid(const struct na_ibs_cpu *cpu) {
    return !(cpu->family == 0x19 &&
             (cpu->model <= 0x0f || (cpu->model >= 0x20 && cpu->model <= 0x5f)));
}

/* DATA2's source of a load that left the core, into level and flags. */
static inline void na_ibs_decode_source(const struct na_ibs_cpu *cpu, __u64 data2,
                                        struct na_ibs_decoded *out) {
    __u32 source = NA_IBS_D2_SRC_LO(data2);
    __u32 where = data2 & NA_IBS_D2_RMT_NODE ? NA_IBS_F_REMOTE : NA_IBS_F_LOCAL;
    __u32 held = 0;

    if (na_ibs_cache_hit_valid(cpu) && !(data2 & NA_IBS_D2_CACHE_HIT)) held = NA_IBS_F_HITM;
    if (cpu->caps & NA_IBS_CAP_ZEN4) {
        source |= NA_IBS_D2_SRC_HI(data2) << 3;
        switch (source) {
        case 1: /* the L3 of this core's complex, or another core of it */
            out->level = NA_IBS_LEVEL_L3;
            out->flags |= NA_IBS_F_LOCAL;
            return;
        case 2: /* a cache of another complex of this node */
            out->level = NA_IBS_LEVEL_CACHE;
            out->flags |= NA_IBS_F_LOCAL | held;
            return;
        case 3:
            out->level = NA_IBS_LEVEL_DRAM;
            break;
        case 5: /* a cache of another node */
            out->level = NA_IBS_LEVEL_CACHE;
            out->flags |= NA_IBS_F_REMOTE | held;
            return;
        case 6:
            out->level = NA_IBS_LEVEL_PMEM;
            break;
        case 7: /* RmtNode says nothing here */
            out->level = NA_IBS_LEVEL_IO;
            return;
        case 8:
            out->level = NA_IBS_LEVEL_CXL;
            break;
        case 12:
            out->level = NA_IBS_LEVEL_PEER;
            break;
        default:
            return;
        }
        out->flags |= where;
        return;
    }
    switch (source) {
    case 1:
        if (cpu->family > 0x12) return; /* reserved since */
        out->level = NA_IBS_LEVEL_L3;
        out->flags |= NA_IBS_F_LOCAL;
        return;
    case 2:
        out->level = NA_IBS_LEVEL_CACHE;
        out->flags |= held;
        /* Zen: the L3, or a cache of this node. Family 10h: any other cache. */
        out->flags |= cpu->family > 0x12 ? NA_IBS_F_LOCAL : where;
        return;
    case 3:
        out->level = NA_IBS_LEVEL_DRAM;
        out->flags |= where;
        return;
    case 4:
        if (cpu->family <= 0x12) return;
        out->level = NA_IBS_LEVEL_CACHE;
        out->flags |= NA_IBS_F_REMOTE | held;
        return;
    case 7:
        out->level = NA_IBS_LEVEL_IO;
        return;
    default:
        return;
    }
}

/* Where the access was answered. */
static inline void na_ibs_decode_level(const struct na_ibs_cpu *cpu, const struct na_ibs_regs *regs,
                                       struct na_ibs_decoded *out) {
    __u64 data3 = regs->data3;
    int load = (data3 & NA_IBS_D3_LD) != 0;
    /* DATA2 and L2Miss of these are wrong: nothing but the miss buffer is known. */
    int untold = (data3 & (NA_IBS_D3_SW_PF | NA_IBS_D3_NO_MAB)) && na_ibs_erratum_1293(cpu);

    if (data3 & NA_IBS_D3_UC) {
        /* Zen 4's source 7 is still right. */
        if (load && (cpu->caps & NA_IBS_CAP_ZEN4) && NA_IBS_D2_SRC_LO(regs->data2) == 7 &&
            NA_IBS_D2_SRC_HI(regs->data2) == 0)
            out->level = NA_IBS_LEVEL_IO;
        else
            out->level = NA_IBS_LEVEL_UNCACHED;
        return;
    }
    if (!(data3 & NA_IBS_D3_DC_MISS)) {
        out->level = NA_IBS_LEVEL_L1;
        out->flags |= NA_IBS_F_LOCAL;
        return;
    }
    if (!load) return;
    if (!untold) {
        if (na_ibs_has_late_fields(cpu) && !(data3 & NA_IBS_D3_L2_MISS)) {
            out->level = NA_IBS_LEVEL_L2;
            out->flags |= NA_IBS_F_LOCAL;
            return;
        }
        na_ibs_decode_source(cpu, regs->data2, out);
        if (out->level != NA_IBS_LEVEL_UNKNOWN) return;
    }
    if (data3 & NA_IBS_D3_NO_MAB) {
        out->level = NA_IBS_LEVEL_LFB;
    } else if (!untold && !na_ibs_has_late_fields(cpu) && NA_IBS_D2_SRC_LO(regs->data2) == 0) {
        /* No L2Miss bit, but the north bridge was not asked. */
        out->level = NA_IBS_LEVEL_L2;
        out->flags |= NA_IBS_F_LOCAL;
    }
}

static inline void na_ibs_decode(const struct na_ibs_cpu *cpu, const struct na_ibs_regs *regs,
                                 struct na_ibs_decoded *out) {
    __u64 data3 = regs->data3;
    __u32 width = NA_IBS_D3_WIDTH(data3);

    memset(out, 0, sizeof *out);
    out->retire = NA_IBS_D1_TAG_TO_RET(regs->data);
    if ((cpu->caps & NA_IBS_CAP_RIPINVALID) && (regs->data & NA_IBS_D1_RIP_INVALID))
        out->flags |= NA_IBS_F_IP_INVALID;
    if (!(data3 & (NA_IBS_D3_LD | NA_IBS_D3_ST))) return;
    out->is_access = 1;
    out->op = (__u8)((data3 & NA_IBS_D3_LD ? NA_IBS_OP_READ : 0) |
                     (data3 & NA_IBS_D3_ST ? NA_IBS_OP_WRITE : 0));
    if (data3 & NA_IBS_D3_LIN_VALID) {
        out->has_addr = 1;
        out->addr = regs->linad;
    }
    /* Hypervisors that emulate IBS may leave the register 0, and mark it valid. */
    if ((data3 & NA_IBS_D3_PHY_VALID) && regs->physad != 0) {
        out->has_phys = 1;
        out->phys = regs->physad;
    }
    if (data3 & (NA_IBS_D3_LOCKED | NA_IBS_D3_MISALIGNED)) { /* both are rare */
        if (data3 & NA_IBS_D3_LOCKED) out->flags |= NA_IBS_F_LOCKED;
        if (data3 & NA_IBS_D3_MISALIGNED) out->flags |= NA_IBS_F_MISALIGNED;
    }
    if (na_ibs_tlb_told(cpu, data3)) {
        out->flags |= NA_IBS_F_TLB_KNOWN;
        if (data3 & NA_IBS_D3_L1TLB_MISS) {
            out->flags |= NA_IBS_F_TLB_L1MISS;
            if (data3 & NA_IBS_D3_L2TLB_MISS) out->flags |= NA_IBS_F_TLB_L2MISS;
            if (na_ibs_has_late_fields(cpu)) out->tlb_latency = NA_IBS_D3_TLB(data3);
        }
    }
    if (na_ibs_has_late_fields(cpu)) {
        if (data3 & NA_IBS_D3_SW_PF) out->flags |= NA_IBS_F_PREFETCH;
        if (width >= 1 && width <= 7) out->width = (__u8)(1U << (width - 1));
    }
    na_ibs_decode_level(cpu, regs, out);
    if ((data3 & NA_IBS_D3_LD) && (data3 & NA_IBS_D3_DC_MISS) && !(data3 & NA_IBS_D3_UC)) {
        out->latency = NA_IBS_D3_LATENCY(data3);
        out->flags |= NA_IBS_F_LATENCY;
    }
}

/* perf's block has room for one of BR_TARGET and DATA4 (Linux 6.1): with both, it writes
 * beyond its end on the kernel's stack, and the kernel panics. The block must not be asked for
 * then. (No Zen is known to have both.) */
static inline int na_ibs_raw_overflows(__u32 caps) {
    return (caps & NA_IBS_CAP_BRNTRGT) && (caps & NA_IBS_CAP_OPDATA4);
}

/* Takes apart the block that perf gives with PERF_SAMPLE_RAW for ibs_op: u32 capabilities, then the
 * registers, u64 each and not aligned; BR_TARGET and DATA4 as the capabilities say. Returns 0 when
 * the block is shorter than that. The capabilities are those of the block. */
static inline int na_ibs_parse(const void *block, __u32 size, __u32 *caps,
                               struct na_ibs_regs *regs) {
    const __u32 fixed = 7 * sizeof(__u64);
    __u32 want = sizeof(__u32) + fixed;
    const char *at = block;

    if (size < want) return 0;
    memcpy(caps, at, sizeof *caps);
    if (*caps & NA_IBS_CAP_BRNTRGT) want += sizeof(__u64);
    if (*caps & NA_IBS_CAP_OPDATA4) want += sizeof(__u64);
    if (size < want) return 0;
    at += sizeof *caps;
    memcpy(regs, at, fixed);
    at += fixed;
    regs->target = 0;
    regs->data4 = 0;
    if (*caps & NA_IBS_CAP_BRNTRGT) {
        memcpy(&regs->target, at, sizeof regs->target);
        at += sizeof regs->target;
    }
    if (*caps & NA_IBS_CAP_OPDATA4) memcpy(&regs->data4, at, sizeof regs->data4);
    return 1;
}

/* ---- perf's data_src --------------------------------------------------------------------------
 */

#define NA_IBS_MEM(src, shift, bits) ((__u32)((src) >> (shift)) & ((1U << (bits)) - 1U))

/* The level that mem_lvl_num (4 bits) names; UNKNOWN: it says nothing. */
static inline __u8 na_ibs_level_of_number(__u32 number) {
    switch (number) {
    case 1:
        return NA_IBS_LEVEL_L1;
    case 2:
        return NA_IBS_LEVEL_L2;
    case 3:
        return NA_IBS_LEVEL_L3;
    case 9:
        return NA_IBS_LEVEL_CXL;
    case 10:
        return NA_IBS_LEVEL_IO;
    case 11: /* any cache */
        return NA_IBS_LEVEL_CACHE;
    case 12:
        return NA_IBS_LEVEL_LFB;
    case 13:
        return NA_IBS_LEVEL_DRAM;
    case 14:
        return NA_IBS_LEVEL_PMEM;
    default: /* 8: uncached, since 6.11, which mem_lvl says too */
        return NA_IBS_LEVEL_UNKNOWN;
    }
}

/* Op, level, flags of perf's data_src, of AMD's ibs_op or of Intel's memory events. Kernels
 * before 6.5 set only the older mem_lvl for AMD. With hops, remote and HOPS_0 is another core of
 * the same node. */
static inline void na_ibs_decode_data_src(__u64 src, int amd, struct na_ibs_decoded *out) {
    __u32 op = NA_IBS_MEM(src, PERF_MEM_OP_SHIFT, 5);
    __u32 lvl = NA_IBS_MEM(src, PERF_MEM_LVL_SHIFT, 14);
    __u32 number = NA_IBS_MEM(src, 33, 4);
    __u32 remote = NA_IBS_MEM(src, 37, 1);
    __u32 snoop = NA_IBS_MEM(src, PERF_MEM_SNOOP_SHIFT, 5);
    __u32 lock = NA_IBS_MEM(src, PERF_MEM_LOCK_SHIFT, 2);
    __u32 tlb = NA_IBS_MEM(src, PERF_MEM_TLB_SHIFT, 7);
    __u32 hops = NA_IBS_MEM(src, 43, 3);

    /* Kernels say "load" of what loads and stores; locked operations do. */
    if ((op & PERF_MEM_OP_LOAD) && ((op & PERF_MEM_OP_STORE) || (lock & PERF_MEM_LOCK_LOCKED)))
        out->op = NA_IBS_OP_UPDATE;
    else if (op & PERF_MEM_OP_LOAD)
        out->op = NA_IBS_OP_READ;
    else if (op & PERF_MEM_OP_STORE)
        out->op = NA_IBS_OP_WRITE;
    else
        return;
    out->is_access = 1;
    if (lock & PERF_MEM_LOCK_LOCKED) out->flags |= NA_IBS_F_LOCKED;
    if (snoop & PERF_MEM_SNOOP_HITM) out->flags |= NA_IBS_F_HITM;
    if (tlb & ~(__u32)PERF_MEM_TLB_NA) {
        out->flags |= NA_IBS_F_TLB_KNOWN;
        if ((tlb & PERF_MEM_TLB_MISS) || !(tlb & PERF_MEM_TLB_L1)) {
            out->flags |= NA_IBS_F_TLB_L1MISS;
            if ((tlb & PERF_MEM_TLB_MISS) || !(tlb & PERF_MEM_TLB_L2))
                out->flags |= NA_IBS_F_TLB_L2MISS;
        }
    }

    out->level = na_ibs_level_of_number(number);
    if (out->level == NA_IBS_LEVEL_UNKNOWN && !(lvl & PERF_MEM_LVL_NA)) {
        if (lvl & PERF_MEM_LVL_L1)
            out->level = lvl & PERF_MEM_LVL_HIT ? NA_IBS_LEVEL_L1 : NA_IBS_LEVEL_UNKNOWN;
        else if (lvl & PERF_MEM_LVL_LFB)
            out->level = NA_IBS_LEVEL_LFB;
        else if (lvl & PERF_MEM_LVL_L2)
            out->level = lvl & PERF_MEM_LVL_HIT ? NA_IBS_LEVEL_L2 : NA_IBS_LEVEL_UNKNOWN;
        else if (lvl & PERF_MEM_LVL_L3)
            out->level = lvl & PERF_MEM_LVL_HIT ? NA_IBS_LEVEL_L3 : NA_IBS_LEVEL_UNKNOWN;
        else if (lvl & (PERF_MEM_LVL_LOC_RAM | PERF_MEM_LVL_REM_RAM1 | PERF_MEM_LVL_REM_RAM2))
            out->level = NA_IBS_LEVEL_DRAM;
        else if (lvl & (PERF_MEM_LVL_REM_CCE1 | PERF_MEM_LVL_REM_CCE2))
            out->level = NA_IBS_LEVEL_CACHE;
        else if (lvl & PERF_MEM_LVL_IO)
            out->level = NA_IBS_LEVEL_IO;
        else if (lvl & PERF_MEM_LVL_UNC)
            out->level = NA_IBS_LEVEL_UNCACHED;
    }

    /* It comes from L2Miss, which is not promised for stores. */
    if (amd && out->op == NA_IBS_OP_WRITE && out->level == NA_IBS_LEVEL_L2)
        out->level = NA_IBS_LEVEL_UNKNOWN;

    switch (out->level) {
    case NA_IBS_LEVEL_L1:
    case NA_IBS_LEVEL_L2:
        out->flags |= NA_IBS_F_LOCAL;
        return;
    case NA_IBS_LEVEL_L3:
        /* Zen before 4: "L3 or another core's cache of this node" arrives as both bits. */
        if (remote && hops >= 2)
            out->flags |= NA_IBS_F_REMOTE;
        else
            out->flags |= NA_IBS_F_LOCAL;
        return;
    case NA_IBS_LEVEL_CACHE:
        if (hops)
            out->flags |= hops >= 2 ? NA_IBS_F_REMOTE : NA_IBS_F_LOCAL;
        else if (lvl & PERF_MEM_LVL_REM_CCE2)
            out->flags |= NA_IBS_F_REMOTE;
        else if (lvl & PERF_MEM_LVL_REM_CCE1)
            out->flags |= amd ? NA_IBS_F_LOCAL : NA_IBS_F_REMOTE;
        else if (remote)
            out->flags |= NA_IBS_F_REMOTE;
        return;
    case NA_IBS_LEVEL_DRAM:
    case NA_IBS_LEVEL_PMEM:
    case NA_IBS_LEVEL_CXL:
        if (remote || hops >= 2 || (lvl & (PERF_MEM_LVL_REM_RAM1 | PERF_MEM_LVL_REM_RAM2)))
            out->flags |= NA_IBS_F_REMOTE;
        else if (amd || out->level == NA_IBS_LEVEL_DRAM)
            out->flags |= NA_IBS_F_LOCAL;
        return;
    default:
        return;
    }
}

#endif
