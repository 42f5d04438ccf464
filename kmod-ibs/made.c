// SPDX-License-Identifier: GPL-2.0 OR MIT
/* made.c - samples that are made up, for tests on machines without IBS (module parameter
 * test_sources). All are flagged NA_IBS_F_SIM.
 *
 * sim: at each tick of perf's CPU clock, registers as IBS would give them, with an address within
 * the session's ranges, go through the decoder and the sink in the interrupted process: everything
 * but the hardware and perf's own IBS driver is real. Optionally from an NMI that the CPU sends to
 * itself, the context of IBS. inject: what the caller passes, for tables of known registers, and to
 * count the handler's instructions. */
#include <asm/apic.h>
#include <asm/msr.h>
#include <asm/nmi.h>
#include <asm/tsc.h>
#include <linux/irqflags.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/sched.h>
#include <linux/uaccess.h>

#include "na_ibs.h"

/* What perf hands out with PERF_SAMPLE_RAW: capabilities and registers, back to back. */
struct na_block {
    u32 caps;
    u64 reg[NA_IBS_INJECT_REGS];
} __packed;

/* A sample with registers, as the driver would pass it. */
struct na_made {
    struct na_block block;
    struct perf_raw_record raw;
    struct perf_sample_data data;
};

static void na_made_raw(struct na_made *made) {
    u32 regs = 7;

    if (made->block.caps & NA_IBS_CAP_BRNTRGT)
        regs++;
    else
        made->block.reg[7] = made->block.reg[8]; /* there is no gap in the block */
    if (made->block.caps & NA_IBS_CAP_OPDATA4) regs++;
    perf_sample_data_init(&made->data, 0, 0);
    memset(&made->raw, 0, sizeof(made->raw));
    made->raw.frag.data = &made->block;
    made->raw.frag.size = (u32)(sizeof(u32) + regs * sizeof(u64));
    made->data.raw = &made->raw;
#if NA_PERF_DECODES
    made->data.sample_flags |= PERF_SAMPLE_RAW;
#endif
}

/* ---- sim --------------------------------------------------------------------------------------
 */

static const struct na_ibs_cpu na_sim_cpu = {
    .family = 0x19,
    .model = 0x11, /* Zen 4 */
    .caps = NA_IBS_CAP_ZEN4 | NA_IBS_CAP_RIPINVALID,
};

static DEFINE_PER_CPU(u64, na_sim_state);
static DEFINE_PER_CPU(u32, na_sim_pending);
static bool na_sim_nmi;

/* A generator of numbers (xorshift), one a CPU; an NMI that meets it half way only repeats one. */
static u64 na_sim_random(void) {
    u64 x = this_cpu_read(na_sim_state);

    if (x == 0) x = 0x9e3779b97f4a7c15ULL + (u64)smp_processor_id();
    x ^= x << 13;
    x ^= x >> 7;
    x ^= x << 17;
    this_cpu_write(na_sim_state, x);
    return x;
}

/* A load or store in one of the ranges: half hit the first cache, the others come from elsewhere.
 */
static void na_sim_make(const struct na_session *session, struct na_block *block) {
    static const u8 sources[8] = {1, 1, 2, 3, 3, 3, 5, 7};
    const struct na_ibs_range *range;
    u64 random = na_sim_random();
    u64 data3 = NA_IBS_D3_LIN_VALID;
    u64 source = sources[(random >> 8) & 7];

    range = &session->range[(random >> 32) % session->ranges];
    data3 |= random & 1 ? NA_IBS_D3_LD : NA_IBS_D3_ST;
    data3 |= 4ULL << 22; /* eight bytes */
    memset(block, 0, sizeof(*block));
    block->caps = na_sim_cpu.caps;
    if (random & 2) {
        data3 |= NA_IBS_D3_DC_MISS | NA_IBS_D3_L2_MISS;
        data3 |= (40 + ((random >> 16) & 0xff)) << 32;
        block->reg[3] = (source & 7) | (random & 4 ? NA_IBS_D2_RMT_NODE : 0);
    }
    block->reg[2] = ((random >> 24) & 0xff) << 16;
    block->reg[4] = data3;
    block->reg[5] = (range->start + na_sim_random() % (range->end - range->start)) & ~7ULL;
    if (block->reg[5] < range->start) block->reg[5] = range->start;
}

static void na_sim_store(struct na_session *session, struct pt_regs *regs) {
    struct na_made made;
    struct na_sample sample = {
        .form = NA_FORM_RAW, .flags = NA_IBS_F_SIM, .cpu = &na_sim_cpu, .data = &made.data};

    na_sim_make(session, &made.block);
    na_made_raw(&made);
    na_sample_place(&sample, regs);
    na_sink(session, &sample);
}

void na_sim_tick(struct na_session *session, struct pt_regs *regs) {
    if (!(session->start_flags & NA_IBS_START_NMI) || !READ_ONCE(na_sim_nmi)) {
        na_sim_store(session, regs);
        return;
    }
    this_cpu_inc(na_sim_pending);
    apic->send_IPI_mask(cpumask_of(smp_processor_id()), NMI_VECTOR);
}

/* Two requests may arrive as one NMI: each takes all that is pending. */
static int na_sim_nmi_handler(unsigned int type, struct pt_regs *regs) {
    u32 pending = this_cpu_xchg(na_sim_pending, 0);
    struct na_session *session;

    if (pending == 0) return NMI_DONE;
    rcu_read_lock_sched_notrace();
    session = current->mm ? na_session_find(current->mm) : NULL;
    while (pending-- > 0) {
        if (session && session->source == NA_IBS_SOURCE_SIM)
            na_sim_store(session, regs);
        else
            na_foreign_sample();
    }
    rcu_read_unlock_sched_notrace();
    return NMI_HANDLED;
}

/* ---- inject -----------------------------------------------------------------------------------
 */

static void na_inject_decoded(const struct na_ibs_inject *in, struct perf_sample_data *data) {
    perf_sample_data_init(data, 0, 0);
#if NA_PERF_DECODES
    data->sample_flags |= in->sample_flags;
    data->data_src.val = in->data_src;
    data->addr = in->addr;
    data->phys_addr = in->phys_addr;
    data->weight.full = 0;
    data->weight.var1_dw = in->weight;
    data->weight.var2_w = (u16)in->retire;
#endif
}

/* The caller may not choose flags whose fields are pointers. */
#if NA_PERF_DECODES
#define NA_INJECT_FLAGS                                                                            \
    (PERF_SAMPLE_ADDR | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_WEIGHT_STRUCT)
#else
#define NA_INJECT_FLAGS 0
#endif

/* Under the session's lock, which keeps it running. The blocks go through the handler as perf would
 * call it. The time stamps around it are counts of instructions where the machine is emulated that
 * way (QEMU: -icount shift=0), else cycles. */
int na_inject(struct na_session *session, struct na_ibs_inject *in) {
    struct na_ibs_cpu cpu = {.family = in->family, .model = in->model, .caps = in->caps};
    struct na_sample template = {
        .form = in->form == NA_IBS_INJECT_DECODED ? NA_FORM_PERF : NA_FORM_RAW,
        .flags = NA_IBS_F_SIM,
        .cpu = &cpu,
    };
    /* By way of the hash, as samples of shared counters come. */
    const struct na_feed shared = {.session = NULL, .made = &template};
    /* An address that no mm has. */
    const struct mm_struct *stranger = (const struct mm_struct *)&shared;
    struct pt_regs regs = {.cs = __USER_CS};
    struct na_made made;
    u32 i;

    if (in->form > NA_IBS_INJECT_FOREIGN || in->repeat == 0 || in->repeat > 65536 ||
        (in->form == NA_IBS_INJECT_DECODED && !NA_PERF_DECODES) ||
        (in->sample_flags & ~(u64)NA_INJECT_FLAGS))
        return -EINVAL;
    in->ticks_min = U64_MAX;
    in->ticks_max = 0;
    regs.ip = in->form == NA_IBS_INJECT_DECODED ? in->ip : in->reg[1];
    made.block.caps = in->caps;
    memcpy(made.block.reg, in->reg, sizeof(made.block.reg));
    if (in->form == NA_IBS_INJECT_DECODED)
        na_inject_decoded(in, &made.data);
    else
        na_made_raw(&made);
    for (i = 0; i < in->repeat; i++) {
        unsigned long flags;
        u64 ticks;

        local_irq_save(flags);
        ticks = rdtsc();
        na_deliver(&shared, in->form == NA_IBS_INJECT_FOREIGN ? stranger : session->mm, false,
                   &made.data, &regs);
        ticks = rdtsc() - ticks;
        local_irq_restore(flags);
        in->ticks_min = min(in->ticks_min, ticks);
        in->ticks_max = max(in->ticks_max, ticks);
        cond_resched();
    }
    return 0;
}

/* ---- The module's ends ------------------------------------------------------------------------
 */

int na_made_init(void) {
    int error;

    if (!na_test_sources()) return 0;
    error = register_nmi_handler(NMI_LOCAL, na_sim_nmi_handler, 0, "numalloc_ibs_sim");
    if (!error) WRITE_ONCE(na_sim_nmi, true);
    return error;
}

void na_made_exit(void) {
    if (na_sim_nmi) unregister_nmi_handler(NMI_LOCAL, "numalloc_ibs_sim");
}
