/* SPDX-License-Identifier: GPL-2.0 OR MIT */
/* na_ibs.h - the structures inside numalloc_ibs, and who may touch them when.
 *
 *   file descriptor -> session -> a ring for each CPU that the process mapped one of
 *   perf event (of a thread, or of a CPU) -> na_overflow -> session -> ring of this CPU
 *
 * Contexts. na_overflow runs in whatever context the counter interrupts: process context with
 * preemption off (page faults), the debug exception, the timer interrupt, the NMI (IBS). It takes
 * no lock, does not sleep, print, allocate or touch user memory. What it reads of a session is set
 * before the session goes live and does not change until a grace period after it stopped.
 *
 * Locks: na_session.lock, then the lock of the shared counters (counters.c), then perf's own. None
 * of them is taken with mmap_lock held, and nothing is copied from or to the user under them. Rings
 * are made with mmap_lock held; na_session.rings_lock, the innermost, guards that. */
#ifndef NUMALLOC_KMOD_IBS_NA_IBS_H
#define NUMALLOC_KMOD_IBS_NA_IBS_H

#include <asm/local64.h>
#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/irq_work.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/mm_types.h>
#include <linux/mutex.h>
#include <linux/perf_event.h>
#include <linux/sched/user.h>
#include <linux/spinlock.h>
#include <linux/types.h>
#include <linux/version.h>
#include <linux/wait.h>
#include <linux/workqueue.h>

#include "uapi/numalloc_ibs.h"
#include "uapi/numalloc_ibs_decode.h"

#if !defined(CONFIG_X86_64)
#error "numalloc_ibs is for x86-64: IBS is AMD's"
#endif
#if LINUX_VERSION_CODE < KERNEL_VERSION(5, 10, 0)
#error "numalloc_ibs needs Linux 5.10 or later"
#endif

/* perf decodes a sample's registers since 6.1. Before, it gives the registers only. */
#define NA_PERF_DECODES (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 1, 0))

/* IBS counts per thread since 6.2. */
#define NA_IBS_PER_TASK (LINUX_VERSION_CODE >= KERNEL_VERSION(6, 2, 0))
/* The least period of ibs_op in hardware; periods are multiples of 16. */
#define NA_IBS_MIN_PERIOD 0x90u
/* perf allows 10 us. On an emulated machine the tick itself can take longer than that, and nothing
 * else runs any more. */
#define NA_SIM_MIN_PERIOD 200000u
/* perf's own mark of a throttled event, in hw.interrupts. */
#define NA_PERF_THROTTLED (~0ULL)

struct na_sample;
struct na_session;

struct na_ring {
    /* Of the handler on this CPU alone. */
    u64 head;
    u32 mask;
    u32 watermark;
    bool busy; /* a sample is being stored: whoever interrupts it stores nothing */
    struct na_ibs_ring *shared;
    struct na_ibs_record *record;
    local64_t counter[NA_IBS_COUNTERS];

    struct irq_work wake;
    struct na_session *session;
    struct page **pages;
    u32 npages; /* header page and records */
    bool charged;
};

struct na_session {
    /* Read by the handler. */
    struct mm_struct *mm; /* its mm_count is held: the address is nobody else's */
    struct pid_namespace *pids;
    bool live;
    bool whole_cpu; /* it is a user of the shared counters; written under lock */
    u8 source;
    bool raw; /* decode registers here */
    u32 start_flags;
    u32 clock;
    u32 weight;
    u32 ranges;
    struct na_ibs_range range[NA_IBS_MAX_RANGES];
    struct na_ibs_cpu cpu;
    struct na_ring **ring;   /* [nr_cpu_ids], NULL before SETUP; an entry: before it is mapped */
    atomic64_t no_ring;      /* samples on CPUs without one */
    struct hlist_node by_mm; /* of sessions that are running */

    u32 records, watermark; /* of a ring, before `ring` is set */
    spinlock_t rings_lock;
    enum na_ibs_state state;  /* as the rings say it, under rings_lock */
    const struct cred *owner; /* whose user's locked memory the rings are */
    struct list_head open;    /* all sessions, under the lock of session.c */
    const char *why;          /* of the last refusal; a literal */

    /* Under lock. */
    struct mutex lock;
    bool running;
    struct list_head counters; /* struct na_counter, one a thread that was there at START */
    u64 unarmed;
    u64 enabled, counted; /* ns, of the last run, when it was halted; see na_counters_times */

    atomic_t maps; /* mappings of its rings; falls to 0 once */
    bool ended;
    wait_queue_head_t wait;
    struct work_struct end;
};

/* What a counter's handler context points to. */
struct na_feed {
    struct na_session *session;   /* NULL: a shared counter, look the process up */
    const struct na_sample *made; /* inject: form, CPU and flags of the block at hand, else NULL */
};

/* One sample on its way into a ring. */
enum na_form { NA_FORM_ADDRESS, NA_FORM_PERF, NA_FORM_RAW };

struct na_sample {
    enum na_form form;
    u32 flags; /* NA_IBS_F_* known beforehand */
    u64 ip;
    const struct na_ibs_cpu *cpu;
    const struct perf_sample_data *data;
};

/* ---- ring.c ---- */
/* The ring of a CPU, made now where there is none. Under mmap_lock, so one at a time. */
struct na_ring *na_ring_of(struct na_session *session, int cpu);
void na_rings_free(struct na_session *session);
int na_ring_map(struct na_ring *ring, struct vm_area_struct *vma);
void na_rings_say(struct na_session *session, enum na_ibs_state state);
bool na_ring_ready(const struct na_ring *ring);

/* ---- session.c ---- */
int na_session_open(struct na_session **out);
void na_session_close(struct na_session *session);
int na_session_setup(struct na_session *session, const struct na_ibs_setup *setup);
int na_session_start(struct na_session *session, struct na_ibs_start *start,
                     const struct na_ibs_range *range);
int na_session_stop(struct na_session *session);
int na_session_inject(struct na_session *session, struct na_ibs_inject *block);
int na_session_stats(struct na_session *session, struct na_ibs_stats *stats);
void na_session_map(struct na_session *session);
void na_session_unmap(struct na_session *session);
/* Returns `error`, and keeps why for the user: a literal, one line without its end. */
int na_refuse(struct na_session *session, int error, const char *why);
/* The running session of an address space, or NULL. In an RCU read section; any context. */
struct na_session *na_session_find(const struct mm_struct *mm);
u32 na_sessions(void);

/* ---- counters.c ---- */
int na_counters_init(void);
void na_counters_exit(void);
int na_counters_start(struct na_session *session, struct na_ibs_start *start);
void na_counters_stop(struct na_session *session);
void na_counters_times(struct na_session *session, u64 *enabled, u64 *running);
u32 na_counters_held(void);

/* ---- sink.c ---- */
void na_overflow(struct perf_event *event, struct perf_sample_data *data, struct pt_regs *regs);
/* Stores one sample of a session, or counts why not. Preemption is off. */
void na_sink(struct na_session *session, const struct na_sample *sample);
/* The handler itself, for whoever has no event: a sample that was taken while `mm` was current. */
void na_deliver(const struct na_feed *feed, const struct mm_struct *mm, bool throttled,
                struct perf_sample_data *data, struct pt_regs *regs);
u64 na_foreign(int cpu);
u64 na_foreign_throttled(int cpu);
/* Where the interrupted code was, in terms of the process: fills ip and flags. */
void na_sample_place(struct na_sample *sample, struct pt_regs *regs);
void na_foreign_sample(void);

/* ---- made.c: sources that make samples up ---- */
int na_made_init(void);
void na_made_exit(void);
void na_sim_tick(struct na_session *session, struct pt_regs *regs);
int na_inject(struct na_session *session, struct na_ibs_inject *block);

/* ---- main.c ---- */
bool na_test_sources(void);
/* NULL: IBS can be used; else why not. */
const char *na_ibs_refused(void);
const struct na_ibs_cpu *na_boot_cpu(void);
u32 na_max_sessions(void);
u32 na_max_user_sessions(void);
/* Pages of rings that a user may have locked for each CPU, whatever RLIMIT_MEMLOCK says. */
unsigned long na_user_pages(void);

#endif
