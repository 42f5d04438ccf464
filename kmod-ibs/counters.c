// SPDX-License-Identifier: GPL-2.0 OR MIT
/* counters.c - the perf events behind a session.
 *
 * Two ways. Per thread: one event for each thread that exists at START; threads created later
 * inherit it from their creator (not forked children: inherit_thread; before Linux 5.13 these, too,
 * and their samples are dropped). Only the process pays for
 * it. Or whole CPUs: one event for each online CPU, shared by all sessions with the same
 * configuration, which are told apart in the handler. Linux 6.1 can count ibs_op only this way;
 * every other process pays with interrupts that are thrown away.
 *
 * Counters are made with the kernel's credentials: perf, which would refuse those of whole CPUs to
 * users by perf_event_paranoid, has no say in who may; the device has. perf arbitrates the
 * hardware: other users of ibs_op get their share by rotation, and what is lost shows in `enabled`
 * and `running`.
 *
 * CPU hot-plug: the callbacks only mark and queue work. perf takes software events' static keys,
 * and these the hot-plug lock, so that neither making nor releasing an event is possible inside of
 * a callback. Between a CPU's coming and the work item it is not sampled (milliseconds).
 */
#include <linux/cpu.h>
#include <linux/cpuhotplug.h>
#include <linux/cred.h>
#include <linux/hw_breakpoint.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/sched/task.h>
#include <linux/slab.h>

#include "na_ibs.h"

struct na_counter {
    struct list_head link;
    struct perf_event *event;
    struct task_struct *task; /* held: its address is nobody else's */
    struct na_feed feed;
};

static atomic_t na_events = ATOMIC_INIT(0);

u32 na_counters_held(void) {
    return (u32)atomic_read(&na_events);
}

static const struct cred *na_kernel_cred;

/* NULL task: the CPU. The event counts when this returns, before anything else is known of it:
 * threads inherit an event as it is, so it may not be made disabled and enabled later. */
static struct perf_event *na_event_make(struct perf_event_attr *attr, int cpu,
                                        struct task_struct *task, struct na_feed *feed) {
    const struct cred *own = override_creds(na_kernel_cred);
    struct perf_event *event = perf_event_create_kernel_counter(attr, cpu, task, na_overflow, feed);

    revert_creds(own);
    if (!IS_ERR(event)) atomic_inc(&na_events);
    return event;
}

static void na_event_free(struct perf_event *event) {
    perf_event_release_kernel(event);
    atomic_dec(&na_events);
}

/* ---- What to count ----------------------------------------------------------------------------
 */

/* perf's name of the type that the user read from sysfs is checked on the event itself. */
static bool na_event_is_ibs(const struct perf_event *event) {
    return event->pmu && event->pmu->name && strcmp(event->pmu->name, "ibs_op") == 0;
}

static int na_attr_ibs(struct na_ibs_start *start, struct perf_event_attr *attr) {
    const u64 known = IBS_OP_CNT_CTL | BIT_ULL(16); /* L3 misses only: Linux 6.1 has a name */

    if ((start->config & ~known) || (start->config1 & ~0xfffULL)) return -EINVAL;
    if (start->type < PERF_TYPE_MAX) return -EINVAL;
    start->period = min_t(u64, max_t(u64, start->period, NA_IBS_MIN_PERIOD), 1U << 31);
    start->period &= ~15ULL;
    attr->type = start->type;
    attr->config = start->config;
    attr->config1 = start->config1;
    attr->sample_type = PERF_SAMPLE_IP;
#if NA_PERF_DECODES
    attr->sample_type |=
        PERF_SAMPLE_ADDR | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_WEIGHT_STRUCT;
#endif
    if (start->flags & NA_IBS_START_RAW) attr->sample_type |= PERF_SAMPLE_RAW;
    return 0;
}

static int na_attr_watch(const struct na_ibs_start *start, struct perf_event_attr *attr) {
    if (!is_power_of_2(start->length) || start->length > PAGE_SIZE ||
        (start->addr & (start->length - 1)) || start->addr >= TASK_SIZE_MAX || start->write > 1)
        return -EINVAL;
    attr->type = PERF_TYPE_BREAKPOINT;
    attr->bp_type = start->write ? HW_BREAKPOINT_W : HW_BREAKPOINT_RW;
    attr->bp_addr = start->addr;
    attr->bp_len = start->length;
    attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_ADDR;
    return 0;
}

/* Fills the attributes, and start->period with the period in force. */
static int na_attr(struct na_ibs_start *start, struct perf_event_attr *attr) {
    int error = 0;

    memset(attr, 0, sizeof(*attr));
    attr->size = sizeof(*attr);
    switch (start->source) {
    case NA_IBS_SOURCE_IBS:
        error = na_attr_ibs(start, attr);
        break;
    case NA_IBS_SOURCE_SWFAULT:
        attr->type = PERF_TYPE_SOFTWARE;
        attr->config = PERF_COUNT_SW_PAGE_FAULTS;
        attr->sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_ADDR;
        break;
    case NA_IBS_SOURCE_HWBP:
        error = na_attr_watch(start, attr);
        break;
    case NA_IBS_SOURCE_SIM:
        start->period = max_t(u64, start->period, NA_SIM_MIN_PERIOD);
        attr->type = PERF_TYPE_SOFTWARE;
        attr->config = PERF_COUNT_SW_CPU_CLOCK;
        attr->sample_type = PERF_SAMPLE_IP;
        break;
    default:
        return -EINVAL;
    }
    attr->sample_period = start->period;
    return error;
}

/* ---- Per thread -------------------------------------------------------------------------------
 */

/* Has the thread an event of this session, its own or an inherited one? Inherited events hang on
 * the child list of the one that they come from, however many threads are between. */
static bool na_thread_known(struct na_session *session, const struct task_struct *task) {
    struct na_counter *counter;
    struct perf_event *child;
    bool found = false;

    list_for_each_entry(counter, &session->counters, link) {
        if (counter->task == task) return true;
        mutex_lock(&counter->event->child_mutex);
        list_for_each_entry(child, &counter->event->child_list, child_list) {
            if (child->ctx && READ_ONCE(child->ctx->task) == task) {
                found = true;
                break;
            }
        }
        mutex_unlock(&counter->event->child_mutex);
        if (found) return true;
    }
    return false;
}

static int na_thread_attach(struct na_session *session, struct perf_event_attr *attr,
                            struct task_struct *task) {
    struct na_counter *counter = kzalloc(sizeof(*counter), GFP_KERNEL_ACCOUNT);

    if (!counter) return -ENOMEM;
    counter->feed.session = session;
    counter->event = na_event_make(attr, -1, task, &counter->feed);
    if (IS_ERR(counter->event)) {
        int error = PTR_ERR(counter->event);

        kfree(counter);
        return error;
    }
    if (session->source == NA_IBS_SOURCE_IBS && !na_event_is_ibs(counter->event)) {
        na_event_free(counter->event);
        kfree(counter);
        return -EINVAL;
    }
    counter->task = task;
    get_task_struct(task);
    list_add_tail(&counter->link, &session->counters);
    return 0;
}

/* The threads of the process, held; NULL: no memory. */
static struct task_struct **na_threads(unsigned int *count) {
    unsigned int room = (unsigned int)get_nr_threads(current) + 64;
    struct task_struct **list = kvcalloc(room, sizeof(*list), GFP_KERNEL);
    struct task_struct *task;

    *count = 0;
    if (!list) return NULL;
    rcu_read_lock();
    for_each_thread(current, task) {
        if (*count == room) break;
        if (task->flags & PF_EXITING) continue;
        get_task_struct(task);
        list[(*count)++] = task;
    }
    rcu_read_unlock();
    return list;
}

/* A thread that appears during a pass was created by one that has the event, and inherits it, or by
 * one that had not yet: then that one was new in this pass, and there is another. */
static int na_threads_attach(struct na_session *session, struct perf_event_attr *attr) {
    bool again = true;
    int error = 0;

    while (again && !error) {
        unsigned int count, i;
        struct task_struct **list = na_threads(&count);

        if (!list) return -ENOMEM;
        again = false;
        for (i = 0; i < count; i++) {
            if (!error && !na_thread_known(session, list[i])) {
                error = na_thread_attach(session, attr, list[i]);
                if (error == -ESRCH) /* it ended meanwhile */
                    error = 0;
                else
                    again = true;
            }
            put_task_struct(list[i]);
            cond_resched();
        }
        kvfree(list);
        if (fatal_signal_pending(current)) error = -EINTR;
    }
    return error;
}

static void na_threads_detach(struct na_session *session) {
    struct na_counter *counter, *next;

    /* Handlers may still be inside of the last event's call (see na_session_halt), with a pointer
     * into the counter. */
    list_for_each_entry(counter, &session->counters, link) {
        na_event_free(counter->event);
        counter->event = NULL;
    }
    synchronize_rcu();
    list_for_each_entry_safe(counter, next, &session->counters, link) {
        list_del(&counter->link);
        put_task_struct(counter->task);
        kfree(counter);
    }
}

/* ---- Whole CPUs -------------------------------------------------------------------------------
 */

static struct {
    struct mutex lock; /* not of up and stale, which the callbacks set */
    unsigned int users;
    u32 source;
    u32 flags;
    struct perf_event_attr attr;
    struct perf_event **event; /* [nr_cpu_ids] */
    u64 unarmed;
    struct na_feed feed;  /* session NULL: the process decides */
    struct cpumask up;    /* CPUs between their online and their offline callback */
    struct cpumask stale; /* CPUs that went away since their event was made */
    struct work_struct work;
    int hotplug;
} na_shared;

/* Makes the events what users and CPUs want. Under the lock. Returns the first error. A CPU that
 * goes away while this runs has its event marked stale, and the work item comes again. */
static int na_shared_settle(void) {
    int first = 0;
    int cpu;

    for_each_possible_cpu(cpu) {
        struct perf_event *event = na_shared.event[cpu];
        bool stale = cpumask_test_and_clear_cpu(cpu, &na_shared.stale);

        if (event && (stale || na_shared.users == 0 || !cpumask_test_cpu(cpu, &na_shared.up))) {
            na_event_free(event);
            na_shared.event[cpu] = NULL;
            event = NULL;
        }
        if (event || na_shared.users == 0 || !cpumask_test_cpu(cpu, &na_shared.up)) continue;
        event = na_event_make(&na_shared.attr, cpu, NULL, &na_shared.feed);
        if (!IS_ERR(event) && na_shared.source == NA_IBS_SOURCE_IBS && !na_event_is_ibs(event)) {
            na_event_free(event);
            event = ERR_PTR(-EINVAL);
        }
        if (!IS_ERR(event)) {
            na_shared.event[cpu] = event;
        } else if (PTR_ERR(event) != -ENODEV) { /* it went offline: the callback queued us */
            na_shared.unarmed++;
            if (!first) first = PTR_ERR(event);
        }
    }
    return first;
}

static void na_shared_work(struct work_struct *work) {
    mutex_lock(&na_shared.lock);
    na_shared_settle();
    mutex_unlock(&na_shared.lock);
}

static int na_cpu_online(unsigned int cpu) {
    cpumask_set_cpu(cpu, &na_shared.up);
    queue_work(system_unbound_wq, &na_shared.work);
    return 0;
}

/* The CPU still runs, and counts until perf takes its events out of the context a moment later;
 * they never count again. */
static int na_cpu_offline(unsigned int cpu) {
    cpumask_clear_cpu(cpu, &na_shared.up);
    cpumask_set_cpu(cpu, &na_shared.stale);
    queue_work(system_unbound_wq, &na_shared.work);
    return 0;
}

static int na_shared_join(struct na_session *session, struct na_ibs_start *start,
                          const struct perf_event_attr *attr) {
    int error = 0;

    mutex_lock(&na_shared.lock);
    if (na_shared.users > 0) {
        /* Who came first decided the period; the others are told. */
        if (na_shared.source != start->source || na_shared.attr.type != attr->type ||
            na_shared.attr.config != attr->config || na_shared.attr.config1 != attr->config1 ||
            na_shared.attr.config2 != attr->config2 || na_shared.attr.bp_type != attr->bp_type ||
            na_shared.attr.sample_type != attr->sample_type)
            error = -EBUSY;
        else
            start->period = na_shared.attr.sample_period;
    } else {
        na_shared.source = start->source;
        na_shared.attr = *attr;
        na_shared.unarmed = 0;
    }
    if (!error) {
        session->weight = (u32)start->period;
        na_shared.users++;
        WRITE_ONCE(session->whole_cpu, true);
        if (na_shared.users == 1) error = na_shared_settle();
        if (error) {
            na_shared.users--;
            WRITE_ONCE(session->whole_cpu, false);
            na_shared_settle();
        }
    }
    mutex_unlock(&na_shared.lock);
    return error;
}

static void na_shared_leave(struct na_session *session) {
    mutex_lock(&na_shared.lock);
    na_shared.users--;
    WRITE_ONCE(session->whole_cpu, false);
    if (na_shared.users == 0) na_shared_settle();
    mutex_unlock(&na_shared.lock);
}

/* ---- Sessions ---------------------------------------------------------------------------------
 */

/* The session goes live here, before the first event, so that no sample of it is missed. */
static int na_counters_make(struct na_session *session, struct na_ibs_start *start) {
    bool whole = start->flags & NA_IBS_START_WHOLE_CPU;
    struct perf_event_attr attr;
    int error;

    if (start->source == NA_IBS_SOURCE_INJECT) {
        session->weight = (u32)start->period;
        smp_store_release(&session->live, true); /* for na_sink: all else of START is set */
        return 0;
    }
    error = na_attr(start, &attr);
    if (error) return error;
    session->weight = (u32)start->period;
    if (start->source == NA_IBS_SOURCE_IBS && !NA_IBS_PER_TASK) whole = true;
    smp_store_release(&session->live, true); /* for na_sink: all else of START is set */
    if (whole) return na_shared_join(session, start, &attr);
    attr.inherit = 1;
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 13, 0)
    attr.inherit_thread = 1;
#endif
    return na_threads_attach(session, &attr);
}

/* The session is published. On error the caller halts it. */
int na_counters_start(struct na_session *session, struct na_ibs_start *start) {
    int error = na_counters_make(session, start);
    const char *why = "perf refuses this counter";

    switch (error) {
    case 0:
        return 0;
    case -EBUSY:
        why = "other processes sample whole CPUs in another way, or the counter is taken";
        break;
    case -ENOSPC:
        why = "all watchpoints of the processor, or all its counters, are taken";
        break;
    case -EACCES:
    case -EPERM:
        why = "perf refuses this counter, even to the kernel: a security module";
        break;
    case -EINVAL:
        why = "perf does not know such a counter here, or the call's words are wrong";
        break;
    case -ENOMEM:
        why = "no memory for the counters";
        break;
    }
    return na_refuse(session, error, why);
}

void na_counters_stop(struct na_session *session) {
    if (session->whole_cpu) na_shared_leave(session);
    if (!list_empty(&session->counters)) na_threads_detach(session);
}

void na_counters_times(struct na_session *session, u64 *enabled, u64 *running) {
    struct na_counter *counter;
    u64 on, ran;
    int cpu;

    list_for_each_entry(counter, &session->counters, link) {
        perf_event_read_value(counter->event, &on, &ran);
        *enabled += on;
        *running += ran;
    }
    if (!session->whole_cpu) return;
    mutex_lock(&na_shared.lock);
    for_each_possible_cpu(cpu) {
        if (!na_shared.event[cpu]) continue;
        perf_event_read_value(na_shared.event[cpu], &on, &ran);
        *enabled += on;
        *running += ran;
    }
    session->unarmed = na_shared.unarmed;
    mutex_unlock(&na_shared.lock);
}

int na_counters_init(void) {
    int state;

    mutex_init(&na_shared.lock);
    INIT_WORK(&na_shared.work, na_shared_work);
    na_kernel_cred = prepare_kernel_cred(&init_task);
    if (!na_kernel_cred) return -ENOMEM;
    na_shared.event = kvcalloc(nr_cpu_ids, sizeof(*na_shared.event), GFP_KERNEL);
    if (!na_shared.event) {
        put_cred(na_kernel_cred);
        return -ENOMEM;
    }
    state = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "numalloc_ibs:online", na_cpu_online,
                              na_cpu_offline);
    if (state < 0) {
        kvfree(na_shared.event);
        put_cred(na_kernel_cred);
        return state;
    }
    na_shared.hotplug = state;
    return 0;
}

/* No session is left: the events went with the last. */
void na_counters_exit(void) {
    cpuhp_remove_state_nocalls((enum cpuhp_state)na_shared.hotplug);
    cancel_work_sync(&na_shared.work);
    kvfree(na_shared.event);
    put_cred(na_kernel_cred);
}
