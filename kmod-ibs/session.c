// SPDX-License-Identifier: GPL-2.0 OR MIT
/* session.c - a session: from the open of the device to its last close.
 *
 * Its ends. STOP, the close of the last descriptor, and the disappearance of the last mapping of
 * its rings (munmap, exec, exit, however the process dies) all come to na_session_halt. The last
 * cannot do it itself: it is told with mmap_lock held, so it clears `live`, which stops records at
 * once, and leaves the counters to a work item. The file outlives the mappings, and its release
 * waits for that item. */
#include <linux/capability.h>
#include <linux/cred.h>
#include <linux/hashtable.h>
#include <linux/mm.h>
#include <linux/pid_namespace.h>
#include <linux/rculist.h>
#include <linux/sched/mm.h>
#include <linux/slab.h>
#include <linux/spinlock.h>

#include "na_ibs.h"

#define NA_HASH_BITS 6

static DEFINE_HASHTABLE(na_by_mm, NA_HASH_BITS); /* running sessions; written under na_hash_lock */
static DEFINE_SPINLOCK(na_hash_lock);
static DEFINE_MUTEX(na_open_lock);
static LIST_HEAD(na_open); /* all sessions */
static u32 na_open_count;

u32 na_sessions(void) {
    return READ_ONCE(na_open_count);
}

int na_refuse(struct na_session *session, int error, const char *why) {
    WRITE_ONCE(session->why, why);
    return error;
}

struct na_session *na_session_find(const struct mm_struct *mm) {
    struct na_session *session;

    hash_for_each_possible_rcu(na_by_mm, session, by_mm,
                               (unsigned long)mm) if (session->mm == mm) return session;
    return NULL;
}

/* One running session an address space, so that a sample has one place to go. */
static int na_session_publish(struct na_session *session) {
    int error = 0;

    spin_lock(&na_hash_lock);
    if (na_session_find(session->mm))
        error = -EBUSY;
    else
        hash_add_rcu(na_by_mm, &session->by_mm, (unsigned long)session->mm);
    spin_unlock(&na_hash_lock);
    return error;
}

static void na_session_withdraw(struct na_session *session) {
    spin_lock(&na_hash_lock);
    hash_del_rcu(&session->by_mm);
    spin_unlock(&na_hash_lock);
}

/* Under the lock. When it returns, no handler uses the session. */
static void na_session_halt(struct na_session *session) {
    if (!session->running) return;
    WRITE_ONCE(session->live, false);
    na_session_withdraw(session);
    na_counters_times(session, &session->enabled, &session->counted);
    na_counters_stop(session);
    /* Handlers that found it before; page faults run them with interrupts on, so that the end of a
     * counter alone does not wait for them. */
    synchronize_rcu();
    session->running = false;
    na_rings_say(session, READ_ONCE(session->ended) ? NA_IBS_ENDED : NA_IBS_IDLE);
}

static void na_session_end(struct work_struct *work) {
    struct na_session *session = container_of(work, struct na_session, end);

    mutex_lock(&session->lock);
    na_session_halt(session);
    na_rings_say(session, NA_IBS_ENDED);
    mutex_unlock(&session->lock);
    wake_up_interruptible(&session->wait);
}

void na_session_map(struct na_session *session) {
    atomic_inc(&session->maps);
}

void na_session_unmap(struct na_session *session) {
    if (!atomic_dec_and_test(&session->maps)) return;
    WRITE_ONCE(session->ended, true);
    WRITE_ONCE(session->live, false);
    queue_work(system_unbound_wq, &session->end);
}

/* One more session, of this user. */
static int na_session_list(struct na_session *session) {
    const struct na_session *other;
    u32 own = 0;
    int error = 0;

    mutex_lock(&na_open_lock);
    list_for_each_entry(other, &na_open, open) own += other->owner->user == session->owner->user;
    if (na_open_count >= na_max_sessions()) {
        error = -EUSERS;
    } else if (own >= na_max_user_sessions() && !capable(CAP_SYS_RESOURCE)) {
        error = -EDQUOT;
    } else {
        list_add(&session->open, &na_open);
        na_open_count++;
    }
    mutex_unlock(&na_open_lock);
    return error;
}

int na_session_open(struct na_session **out) {
    struct na_session *session;
    int error;

    if (!current->mm) return -EINVAL;
    session = kzalloc(sizeof(*session), GFP_KERNEL_ACCOUNT);
    if (!session) return -ENOMEM;
    session->owner = get_current_cred();
    error = na_session_list(session);
    if (error) {
        put_cred(session->owner);
        kfree(session);
        return error;
    }
    mutex_init(&session->lock);
    spin_lock_init(&session->rings_lock);
    INIT_LIST_HEAD(&session->counters);
    INIT_WORK(&session->end, na_session_end);
    init_waitqueue_head(&session->wait);
    session->mm = current->mm;
    mmgrab(session->mm);
    session->pids = get_pid_ns(task_active_pid_ns(current));
    *out = session;
    return 0;
}

/* The file is released: no call runs and no mapping is left. */
void na_session_close(struct na_session *session) {
    flush_work(&session->end);
    mutex_lock(&session->lock);
    na_session_halt(session);
    mutex_unlock(&session->lock);
    na_rings_free(session);
    mutex_lock(&na_open_lock);
    list_del(&session->open);
    na_open_count--;
    mutex_unlock(&na_open_lock);
    put_pid_ns(session->pids);
    mmdrop(session->mm);
    put_cred(session->owner);
    mutex_destroy(&session->lock);
    kfree(session);
}

int na_session_setup(struct na_session *session, const struct na_ibs_setup *setup) {
    struct na_ring **rings;
    int error = 0;

    if (setup->reserved || setup->records < NA_IBS_MIN_RECORDS ||
        setup->records > NA_IBS_MAX_RECORDS || !is_power_of_2(setup->records) ||
        setup->watermark == 0 || setup->watermark > setup->records)
        return -EINVAL;
    mutex_lock(&session->lock);
    if (session->ring) {
        error = -EBUSY;
    } else {
        session->records = setup->records;
        session->watermark = setup->watermark;
        rings = kvcalloc(nr_cpu_ids, sizeof(*rings), GFP_KERNEL_ACCOUNT);
        if (rings) /* mmap and poll look without the lock */
            smp_store_release(&session->ring, rings);
        else
            error = -ENOMEM;
    }
    mutex_unlock(&session->lock);
    return error;
}

/* The parts of a start that are the same for every source. */
static int na_start_check(struct na_session *session, struct na_ibs_start *start,
                          const struct na_ibs_range *range) {
    u64 end = 0;
    u32 i;

    if (start->source == 0 || start->source >= NA_IBS_SOURCES) return -EINVAL;
    if (start->flags & ~(NA_IBS_START_WHOLE_CPU | NA_IBS_START_RAW | NA_IBS_START_NMI))
        return -EINVAL;
    /* It costs every other process something, and a watchpoint takes one of four from all. */
    if ((start->flags & NA_IBS_START_WHOLE_CPU) && !perfmon_capable())
        return na_refuse(session, -EPERM, "counters of whole CPUs, asked for, want CAP_PERFMON");
    if ((start->flags & NA_IBS_START_RAW) && start->source != NA_IBS_SOURCE_IBS) return -EINVAL;
    if ((start->flags & NA_IBS_START_NMI) && start->source != NA_IBS_SOURCE_SIM) return -EINVAL;
    if (start->clock > NA_IBS_CLOCK_TSC) return -EINVAL;
    if (start->period == 0 || start->period > U32_MAX) return -EINVAL;
    for (i = 0; i < start->ranges; i++) {
        if (range[i].start >= range[i].end || range[i].start < end || range[i].end > TASK_SIZE_MAX)
            return -EINVAL;
        end = range[i].end;
    }
    switch (start->source) {
    case NA_IBS_SOURCE_IBS:
        if (na_ibs_refused()) return na_refuse(session, -EOPNOTSUPP, na_ibs_refused());
        if (na_ibs_raw_overflows(na_boot_cpu()->caps)) start->flags &= ~NA_IBS_START_RAW;
        if ((start->config & IBS_OP_CNT_CTL) && !(na_boot_cpu()->caps & IBS_CAPS_OPCNT))
            return na_refuse(session, -EOPNOTSUPP,
                             "this CPU's IBS counts cycles, not ops (CPUID 8000_001B EAX bit 4)");
        if (!NA_PERF_DECODES && !(start->flags & NA_IBS_START_RAW))
            return na_refuse(session, -EOPNOTSUPP, "this kernel gives IBS's registers only (RAW)");
        return 0;
    case NA_IBS_SOURCE_SIM:
        if (start->ranges == 0) return -EINVAL; /* addresses are made up within them */
        fallthrough;
    case NA_IBS_SOURCE_INJECT:
        if (!na_test_sources())
            return na_refuse(session, -EOPNOTSUPP, "the module was not loaded with test_sources=1");
        if (!capable(CAP_SYS_ADMIN))
            return na_refuse(session, -EPERM, "made-up samples want CAP_SYS_ADMIN");
        return 0;
    default:
        return 0;
    }
}

int na_session_start(struct na_session *session, struct na_ibs_start *start,
                     const struct na_ibs_range *range) {
    int error = na_start_check(session, start, range);

    if (error) return error;
    mutex_lock(&session->lock);
    if (session->running) {
        error = na_refuse(session, -EBUSY, "the session is running");
        goto out;
    }
    if (!session->ring || READ_ONCE(session->ended) || atomic_read(&session->maps) == 0) {
        error = na_refuse(session, -ENXIO, "no ring is mapped");
        goto out;
    }
    session->source = (u8)start->source;
    session->raw = start->source == NA_IBS_SOURCE_SIM || start->source == NA_IBS_SOURCE_INJECT ||
                   (start->flags & NA_IBS_START_RAW);
    session->start_flags = start->flags;
    session->clock = start->clock;
    session->cpu = *na_boot_cpu();
    session->ranges = start->ranges;
    session->unarmed = 0;
    session->enabled = session->counted = 0;
    memcpy(session->range, range, start->ranges * sizeof(*range));
    error = na_session_publish(session);
    if (error) {
        na_refuse(session, error, "another session samples this process");
        goto out;
    }
    session->running = true;
    error = na_counters_start(session, start); /* sets the period in force, and goes live */
    if (error) {
        na_session_halt(session);
        goto out;
    }
    na_rings_say(session, NA_IBS_RUNNING);
    /* The last ring may have been unmapped meanwhile: then the end is queued, and waits for us. */
out:
    mutex_unlock(&session->lock);
    return error;
}

int na_session_stop(struct na_session *session) {
    int error = 0;

    mutex_lock(&session->lock);
    if (session->running)
        na_session_halt(session);
    else
        error = -EINVAL;
    mutex_unlock(&session->lock);
    return error;
}

int na_session_stats(struct na_session *session, struct na_ibs_stats *stats) {
    int only = stats->cpu;
    int error = 0;
    int cpu;
    u32 i;

    *stats = (struct na_ibs_stats){.size = sizeof(*stats), .cpu = only};
    if (only < -1 || only >= (int)nr_cpu_ids || (only >= 0 && !cpu_possible(only))) return -EINVAL;
    mutex_lock(&session->lock);
    if (!session->ring) {
        error = -ENXIO;
        goto out;
    }
    for_each_possible_cpu(cpu) {
        struct na_ring *ring = smp_load_acquire(&session->ring[cpu]); /* of na_ring_of */

        if (only >= 0 && cpu != only) continue;
        for (i = 0; ring && i < NA_IBS_COUNTERS; i++)
            stats->counter[i] += (u64)local64_read(&ring->counter[i]);
        stats->foreign += na_foreign(cpu);
        stats->foreign_throttled += na_foreign_throttled(cpu);
    }
    stats->unarmed = session->unarmed;
    if (only < 0) {
        stats->enabled = session->enabled;
        stats->running = session->counted;
        stats->no_ring = (u64)atomic64_read(&session->no_ring);
        if (session->running) na_counters_times(session, &stats->enabled, &stats->running);
    }
out:
    mutex_unlock(&session->lock);
    return error;
}

int na_session_inject(struct na_session *session, struct na_ibs_inject *block) {
    int error = -EINVAL;

    if (!capable(CAP_SYS_ADMIN)) return -EPERM;
    mutex_lock(&session->lock);
    if (session->running && session->source == NA_IBS_SOURCE_INJECT)
        error = na_inject(session, block);
    mutex_unlock(&session->lock);
    return error;
}
