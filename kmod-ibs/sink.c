// SPDX-License-Identifier: GPL-2.0 OR MIT
/* sink.c - the one overflow handler, and the way of a sample into its ring.
 *
 * A sample of another process costs a comparison (or a look into the hash of running sessions) and
 * is gone. One of ours passes these steps, and is counted where it stops: an access of this
 * process? in the ranges asked for? room in the ring? Only then are node, thread and time looked
 * up.
 *
 * What leaves the kernel: addresses of the process itself. No physical address, no kernel address,
 * no branch target: kernel counters pass none of perf's checks, so the check is here. */
#include <asm/cpufeature.h>
#include <asm/msr.h>
#include <asm/perf_event.h>
#include <asm/pgtable.h>
#include <asm/tsc.h>
#include <linux/memory_hotplug.h>
#include <linux/mm.h>
#include <linux/percpu.h>
#include <linux/pid.h>
#include <linux/pid_namespace.h>
#include <linux/sched.h>
#include <linux/sched/task_stack.h>
#include <linux/timekeeping.h>
#include <linux/topology.h>

#include "na_ibs.h"

static DEFINE_PER_CPU(u64, na_foreign_count);
static DEFINE_PER_CPU(u64, na_foreign_throttle_count);

u64 na_foreign(int cpu) {
    return READ_ONCE(per_cpu(na_foreign_count, cpu));
}

u64 na_foreign_throttled(int cpu) {
    return READ_ONCE(per_cpu(na_foreign_throttle_count, cpu));
}

void na_foreign_sample(void) {
    this_cpu_inc(na_foreign_count); /* one instruction: no NMI comes between */
}

/* The reader's copy may be anything by the time it is looked at; it is never read here. */
static __always_inline void na_count(struct na_ring *ring, enum na_ibs_counter which) {
    local64_inc(&ring->counter[which]);
    WRITE_ONCE(ring->shared->counter[which], (u64)local64_read(&ring->counter[which]));
}

static int na_node_of_pfn(unsigned long pfn) {
    struct page *page = pfn_to_online_page(pfn);

    return page ? page_to_nid(page) : NA_IBS_NO_NODE;
}

/* The node of the page under an address of the current process, from its page table; nothing is
 * faulted in and no reference is taken. Interrupts are off (all sources but page faults). Page
 * tables and the memory map stay while interrupts are off: tables are freed after a grace period,
 * and a page that is unmapped is not gone before this CPU has answered the flush of its TLB. Pages
 * that wait for a NUMA hinting fault have a node, too: their entries are not present, and hold the
 * frame's number inverted.
 *
 * The entries are read as the hardware does, since the kernel's accessors go through calls that may
 * be patched for hypervisors at every level. Only Xen's paravirtual guests have other entries. */
static int na_node_of_address(struct mm_struct *mm, unsigned long address) {
#ifdef CONFIG_MMU_GATHER_RCU_TABLE_FREE
    const u64 mask = PTE_PFN_MASK;
    const u64 *table = (const u64 *)mm->pgd;
    unsigned int shift = pgtable_l5_enabled() ? 48 : 39;
    u64 entry, within;

    if (cpu_feature_enabled(X86_FEATURE_XENPV)) return NA_IBS_NO_NODE;
    for (;;) {
        entry = READ_ONCE(table[(address >> shift) & (PTRS_PER_PTE - 1)]);
        if (shift == PAGE_SHIFT || (entry & _PAGE_PSE)) break;
        if (!(entry & _PAGE_PRESENT)) return NA_IBS_NO_NODE;
        table = __va(entry & mask);
        shift -= 9;
    }
    if (!(entry & (_PAGE_PRESENT | _PAGE_PROTNONE))) return NA_IBS_NO_NODE;
    if (!(entry & _PAGE_PRESENT)) entry = ~entry;
    within = (1ULL << shift) - 1; /* a huge page's entry has another bit (PAT) there */
    return na_node_of_pfn(((entry & mask & ~within) | (address & within)) >> PAGE_SHIFT);
#else
    return NA_IBS_NO_NODE; /* tables may be freed under an NMI */
#endif
}

static __always_inline bool na_has_registers(const struct perf_sample_data *data) {
#if NA_PERF_DECODES
    if (!(data->sample_flags & PERF_SAMPLE_RAW)) return false;
#endif
    return data->raw != NULL;
}

/* What the source says of the access. */
static __always_inline bool na_describe(const struct na_sample *sample,
                                        struct na_ibs_decoded *what) {
    const struct perf_sample_data *data = sample->data;
    struct na_ibs_cpu cpu = *sample->cpu;
    struct na_ibs_regs regs;

    switch (sample->form) {
    case NA_FORM_RAW:
        if (!na_has_registers(data) ||
            !na_ibs_parse(data->raw->frag.data, data->raw->frag.size, &cpu.caps, &regs))
            return false;
        na_ibs_decode(&cpu, &regs, what);
        break;
#if NA_PERF_DECODES
    case NA_FORM_PERF:
        memset(what, 0, sizeof(*what));
        if (data->sample_flags & PERF_SAMPLE_DATA_SRC)
            na_ibs_decode_data_src(data->data_src.val, 1, what);
        if (data->sample_flags & PERF_SAMPLE_ADDR) {
            what->has_addr = 1;
            what->addr = data->addr;
        }
        if ((data->sample_flags & PERF_SAMPLE_PHYS_ADDR) && data->phys_addr != 0) {
            what->has_phys = 1;
            what->phys = data->phys_addr;
        }
        if (data->sample_flags & (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_WEIGHT_STRUCT)) {
            what->latency = (u16)min_t(u32, data->weight.var1_dw, U16_MAX);
            what->retire = data->weight.var2_w;
            what->flags |= NA_IBS_F_LATENCY;
        }
        break;
#endif
    default:
        memset(what, 0, sizeof(*what));
        what->is_access = 1;
        what->has_addr = 1;
        what->addr = data->addr;
        break;
    }
    return what->is_access && what->has_addr && what->addr < TASK_SIZE_MAX;
}

static bool na_wanted(const struct na_session *session, u64 address) {
    u32 i;

    if (session->ranges == 0) return true;
    for (i = 0; i < session->ranges; i++)
        if (address < session->range[i].end) return address >= session->range[i].start;
    return false;
}

void na_sink(struct na_session *session, const struct na_sample *sample) {
    int cpu = smp_processor_id();
    struct na_ring *ring = smp_load_acquire(&session->ring[cpu]); /* of na_ring_of */
    struct na_ibs_record *record;
    struct na_ibs_decoded what;
    u64 used;
    int home = NA_IBS_NO_NODE;

    if (unlikely(!ring)) {
        atomic64_inc(&session->no_ring);
        return;
    }
    na_count(ring, NA_IBS_SAMPLED);
    if (!smp_load_acquire(&session->live)) { /* of START */
        na_count(ring, NA_IBS_STOPPED);
        return;
    }
    /* Contexts nest like calls, so a plain flag is enough; see struct na_ring. */
    if (ring->busy) {
        na_count(ring, NA_IBS_NESTED);
        return;
    }
    ring->busy = true;
    barrier();
    if (!na_describe(sample, &what)) {
        na_count(ring, NA_IBS_FILTERED);
        goto out;
    }
    if (!na_wanted(session, what.addr)) {
        na_count(ring, NA_IBS_GATED);
        goto out;
    }
    /* The reader has done with what lies before its tail: acquire pairs with its release. */
    used = ring->head - smp_load_acquire(&ring->shared->tail);
    if (used > ring->mask) {
        na_count(ring, NA_IBS_LOST);
        if (used > (u64)ring->mask + 1) na_count(ring, NA_IBS_HOSTILE);
        goto out;
    }
    if (what.has_phys) home = na_node_of_pfn(PHYS_PFN(what.phys));
    if (home == NA_IBS_NO_NODE && session->source != NA_IBS_SOURCE_SWFAULT) {
        /* (A faulting page has none yet.) */
        home = na_node_of_address(session->mm, (unsigned long)what.addr);
        if (home != NA_IBS_NO_NODE) what.flags |= NA_IBS_F_HOME_WALK;
    }
    record = &ring->record[ring->head & ring->mask];
    record->time = session->clock == NA_IBS_CLOCK_TSC ? rdtsc() : ktime_get_mono_fast_ns();
    record->ip = sample->ip;
    record->addr = what.addr;
    record->data_src = sample->form == NA_FORM_PERF ? sample->data->data_src.val : 0;
    record->tid = (u32)(session->pids == &init_pid_ns ? task_pid_nr(current)
                                                      : task_pid_nr_ns(current, session->pids));
    record->weight = session->weight;
    record->seq = (u32)ring->head;
    record->flags = what.flags | sample->flags | (in_nmi() ? NA_IBS_F_NMI : 0);
    record->cpu = (u16)cpu;
    record->cpu_node = (s16)numa_node_id();
    record->home_node = (s16)home;
    record->latency = what.latency;
    record->retire = what.retire;
    record->tlb_latency = what.tlb_latency;
    record->op = what.op;
    record->level = what.level;
    record->width = what.width;
    record->source = session->source;
    WRITE_ONCE(ring->head, ring->head + 1);             /* poll looks from another CPU */
    smp_store_release(&ring->shared->head, ring->head); /* the reader acquires it */
    na_count(ring, NA_IBS_STORED);
    /* Each step grows `used` by one, so the watermark is met exactly once on the way up. */
    if (used + 1 == ring->watermark) irq_work_queue(&ring->wake);
out:
    barrier();
    ring->busy = false;
}

/* Instructions of the kernel are shown as the place where the process entered it. Interrupted entry
 * code may not have saved that place yet: then it is an older one of the same thread. */
static __always_inline void na_place(struct na_sample *sample, struct pt_regs *regs) {
    sample->ip = 0;
    if (regs && user_mode(regs)) {
        sample->ip = regs->ip;
    } else {
        sample->flags |= NA_IBS_F_KERNEL;
        if (!(current->flags & PF_KTHREAD)) sample->ip = task_pt_regs(current)->ip;
    }
    if (sample->ip >= TASK_SIZE_MAX) {
        sample->ip = 0;
        sample->flags |= NA_IBS_F_IP_INVALID;
    }
}

void na_sample_place(struct na_sample *sample, struct pt_regs *regs) {
    na_place(sample, regs);
}

/* Preemption is off in all contexts that come here: that is the read section that synchronize_rcu
 * waits for, said explicitly at the price of two instructions. */
void na_deliver(const struct na_feed *feed, const struct mm_struct *mm, bool throttled,
                struct perf_sample_data *data, struct pt_regs *regs) {
    struct na_session *session;
    struct na_sample sample;

    rcu_read_lock_sched_notrace();
    session = feed->session;
    if (!session && mm) {
        /* One with counters of its own is no business of the shared ones. */
        session = na_session_find(mm);
        if (session && !READ_ONCE(session->whole_cpu) && !feed->made) session = NULL;
    }
    if (!session || session->mm != mm) {
        na_foreign_sample();
        if (throttled) this_cpu_inc(na_foreign_throttle_count);
        goto out;
    }
    if (unlikely(throttled)) {
        int cpu = smp_processor_id();
        struct na_ring *ring = smp_load_acquire(&session->ring[cpu]); /* of na_ring_of */

        if (ring) na_count(ring, NA_IBS_THROTTLED);
    }
    if (feed->made) {
        sample = *feed->made;
    } else if (session->source == NA_IBS_SOURCE_SIM) {
        na_sim_tick(session, regs);
        goto out;
    } else {
        sample.flags = 0;
        sample.cpu = &session->cpu;
        sample.form = NA_FORM_ADDRESS;
        if (session->source == NA_IBS_SOURCE_IBS) {
            sample.form = session->raw ? NA_FORM_RAW : NA_FORM_PERF;
            if (regs && !(regs->flags & PERF_EFLAGS_EXACT)) sample.flags |= NA_IBS_F_IP_INVALID;
        }
    }
    sample.data = data;
    na_place(&sample, regs);
    na_sink(session, &sample);
out:
    rcu_read_unlock_sched_notrace();
}

void na_overflow(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs) {
    na_deliver(event->overflow_handler_context, current->mm,
               event->hw.interrupts == NA_PERF_THROTTLED, data, regs);
}
