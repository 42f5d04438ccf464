// SPDX-License-Identifier: GPL-2.0 OR MIT
/* main.c - the module's parameters and its device, /dev/numalloc_ibs: who may open it, and the
 * calls.
 *
 * Every argument is copied in, checked, and copied out here; the rest of the module sees kernel
 * memory only. Calls other than NA_IBS_INFO are for the process that opened the device. */
#include <asm/cpu_device_id.h>
#include <asm/cpufeature.h>
#include <asm/perf_event.h>
#include <asm/processor.h>
#include <linux/capability.h>
#include <linux/fs.h>
#include <linux/init.h>
#include <linux/jiffies.h>
#include <linux/miscdevice.h>
#include <linux/mm.h>
#include <linux/module.h>
#include <linux/poll.h>
#include <linux/sched.h>
#include <linux/slab.h>
#include <linux/uaccess.h>

#include "na_ibs.h"

static bool trust_file_mode;
module_param(trust_file_mode, bool, 0444);
MODULE_PARM_DESC(trust_file_mode,
                 "whoever may open the device may sample itself (default: CAP_PERFMON, too)");

static uint device_mode = 0600;
module_param(device_mode, uint, 0444);
MODULE_PARM_DESC(device_mode, "file mode of /dev/numalloc_ibs, 0600 by default");

static uint max_sessions = 256;
module_param(max_sessions, uint, 0444);
MODULE_PARM_DESC(max_sessions, "processes that may have the device open at a time");

static uint max_user_sessions = 64;
module_param(max_user_sessions, uint, 0444);
MODULE_PARM_DESC(max_user_sessions, "of these, of one user without CAP_SYS_RESOURCE");

static uint mlock_kb = 516;
module_param(mlock_kb, uint, 0444);
MODULE_PARM_DESC(mlock_kb,
                 "KiB of rings that a user may have for each CPU beyond RLIMIT_MEMLOCK's, "
                 "like kernel.perf_event_mlock_kb");

static bool test_sources;
module_param(test_sources, bool, 0444);
MODULE_PARM_DESC(test_sources, "allow made-up samples (sim, inject) to CAP_SYS_ADMIN");

bool na_test_sources(void) {
    return test_sources;
}

u32 na_max_sessions(void) {
    return max_sessions;
}

u32 na_max_user_sessions(void) {
    return max_user_sessions;
}

unsigned long na_user_pages(void) {
    return mlock_kb >> (PAGE_SHIFT - 10);
}

static struct na_ibs_cpu na_cpu;

const struct na_ibs_cpu *na_boot_cpu(void) {
    return &na_cpu;
}

const char *na_ibs_refused(void) {
    u8 vendor = boot_cpu_data.x86_vendor;

    if (na_cpu.caps & IBS_CAPS_AVAIL) {
        if (na_cpu.caps & IBS_CAPS_OPSAM) return NULL;
        return "this CPU's IBS samples fetches only, no ops (CPUID 8000_001B EAX bit 2)";
    }
    if (vendor != X86_VENDOR_AMD && vendor != X86_VENDOR_HYGON)
        return "this CPU is not AMD's: only AMD has IBS";
    if (boot_cpu_has(X86_FEATURE_HYPERVISOR))
        return "this is a virtual machine, and its hypervisor does not pass IBS on";
    return "the kernel found no IBS (CPUID 8000_0001 ECX bit 10); the firmware may have it off";
}

static int na_open(struct inode *inode, struct file *file) {
    struct na_session *session;
    int error;

    if (!trust_file_mode && !perfmon_capable()) return -EPERM;
    error = na_session_open(&session);
    if (error) return error;
    file->private_data = session;
    return nonseekable_open(inode, file);
}

static int na_release(struct inode *inode, struct file *file) {
    na_session_close(file->private_data);
    return 0;
}

static int na_mmap(struct file *file, struct vm_area_struct *vma) {
    struct na_session *session = file->private_data;
    struct na_ring **ring = smp_load_acquire(&session->ring); /* of SETUP */
    const unsigned long shift = 32 - PAGE_SHIFT;
    unsigned long cpu = vma->vm_pgoff >> shift;
    struct na_ring *of;

    if (vma->vm_mm != session->mm)
        return na_refuse(session, -EPERM, "another process opened the device");
    if (!ring || READ_ONCE(session->ended)) return -ENXIO;
    if ((vma->vm_pgoff & ((1UL << shift) - 1)) || cpu >= nr_cpu_ids || !cpu_possible((int)cpu))
        return -EINVAL;
    if (vma->vm_end - vma->vm_start != NA_IBS_RING_SIZE(session->records)) return -EINVAL;
    if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC)) return -EINVAL;
    of = na_ring_of(session, (int)cpu);
    return IS_ERR(of) ? PTR_ERR(of) : na_ring_map(of, vma);
}

static __poll_t na_poll(struct file *file, poll_table *table) {
    struct na_session *session = file->private_data;
    struct na_ring **ring = smp_load_acquire(&session->ring); /* of SETUP */
    int cpu;

    poll_wait(file, &session->wait, table);
    if (READ_ONCE(session->ended)) return EPOLLHUP | EPOLLIN | EPOLLRDNORM;
    if (!ring) return EPOLLERR;
    for_each_possible_cpu(cpu) if (na_ring_ready(READ_ONCE(ring[cpu]))) return EPOLLIN |
        EPOLLRDNORM;
    return 0;
}

static long na_info(struct na_session *session, void __user *user) {
    const char *why = na_ibs_refused(), *refused = READ_ONCE(session->why);
    struct na_ibs_info info;

    if (copy_from_user(&info.size, user, sizeof(info.size))) return -EFAULT;
    if (info.size != sizeof(info)) return -EINVAL;
    memset(&info, 0, sizeof(info));
    info.size = sizeof(info);
    info.abi = NA_IBS_ABI;
    info.sources = 1U << NA_IBS_SOURCE_SWFAULT | 1U << NA_IBS_SOURCE_HWBP;
    if (!why) info.sources |= 1U << NA_IBS_SOURCE_IBS;
    if (test_sources && capable(CAP_SYS_ADMIN))
        info.sources |= 1U << NA_IBS_SOURCE_SIM | 1U << NA_IBS_SOURCE_INJECT;
    info.cpus = nr_cpu_ids;
    info.ibs_caps = na_cpu.caps;
    info.family = na_cpu.family;
    info.model = na_cpu.model;
    info.ibs_per_task = NA_IBS_PER_TASK;
    info.tick_ns = TICK_NSEC;
    info.online = num_online_cpus();
    info.sessions = na_sessions();
    info.events = na_counters_held();
    if (why) strscpy(info.why, why, sizeof(info.why));
    if (refused) strscpy(info.refused, refused, sizeof(info.refused));
    return copy_to_user(user, &info, sizeof(info)) ? -EFAULT : 0;
}

static long na_setup(struct na_session *session, const void __user *user) {
    struct na_ibs_setup setup;

    if (copy_from_user(&setup, user, sizeof(setup))) return -EFAULT;
    if (setup.size != sizeof(setup)) return -EINVAL;
    return na_session_setup(session, &setup);
}

static long na_start(struct na_session *session, void __user *user) {
    struct na_ibs_range *range = NULL;
    struct na_ibs_start start;
    long error;

    if (copy_from_user(&start, user, sizeof(start))) return -EFAULT;
    if (start.size != sizeof(start) || start.ranges > NA_IBS_MAX_RANGES) return -EINVAL;
    if (start.ranges) {
        range = memdup_user(u64_to_user_ptr(start.range), start.ranges * sizeof(*range));
        if (IS_ERR(range)) return PTR_ERR(range);
    }
    error = na_session_start(session, &start, range);
    kfree(range);
    if (error) return error;
    if (copy_to_user(user, &start, sizeof(start))) {
        na_session_stop(session);
        return -EFAULT;
    }
    return 0;
}

static long na_stats(struct na_session *session, void __user *user) {
    struct na_ibs_stats stats;
    long error;

    if (copy_from_user(&stats, user, sizeof(stats))) return -EFAULT;
    if (stats.size != sizeof(stats)) return -EINVAL;
    error = na_session_stats(session, &stats);
    if (error) return error;
    return copy_to_user(user, &stats, sizeof(stats)) ? -EFAULT : 0;
}

static long na_inject_call(struct na_session *session, void __user *user) {
    struct na_ibs_inject block;
    long error;

    if (copy_from_user(&block, user, sizeof(block))) return -EFAULT;
    if (block.size != sizeof(block)) return -EINVAL;
    error = na_session_inject(session, &block);
    if (error) return error;
    return copy_to_user(user, &block, sizeof(block)) ? -EFAULT : 0;
}

static long na_ioctl(struct file *file, unsigned int command, unsigned long argument) {
    struct na_session *session = file->private_data;
    void __user *user = (void __user *)argument;

    if (command == NA_IBS_INFO) return na_info(session, user);
    if (current->mm != session->mm)
        return na_refuse(session, -EPERM, "another process opened the device");
    session->why = NULL;
    switch (command) {
    case NA_IBS_SETUP:
        return na_setup(session, user);
    case NA_IBS_START:
        return na_start(session, user);
    case NA_IBS_STOP:
        return na_session_stop(session);
    case NA_IBS_STATS:
        return na_stats(session, user);
    case NA_IBS_INJECT:
        return na_inject_call(session, user);
    default:
        return -ENOTTY;
    }
}

/* The open file and every mapping of it hold the module. No 32-bit calls. */
static const struct file_operations na_file_ops = {
    .owner = THIS_MODULE,
    .open = na_open,
    .release = na_release,
    .mmap = na_mmap,
    .poll = na_poll,
    .unlocked_ioctl = na_ioctl,
};

static struct miscdevice na_device = {
    .minor = MISC_DYNAMIC_MINOR,
    .name = "numalloc_ibs",
    .fops = &na_file_ops,
};

static int __init na_init(void) {
    const char *why;
    int error;

    if (device_mode & ~0666U) {
        pr_err("device_mode=%#o: only read and write bits may be set\n", device_mode);
        return -EINVAL;
    }
    na_cpu.family = boot_cpu_data.x86;
    na_cpu.model = boot_cpu_data.x86_model;
    na_cpu.caps = get_ibs_caps();
    error = na_counters_init();
    if (error) return error;
    error = na_made_init();
    if (error) goto no_made;
    na_device.mode = (umode_t)device_mode;
    error = misc_register(&na_device);
    if (error) goto no_device;
    why = na_ibs_refused();
    if (why)
        pr_info("IBS is not available: %s\n", why);
    else
        pr_info("IBS is available, %s\n", NA_IBS_PER_TASK ? "per thread" : "whole CPUs only");
    if (test_sources) pr_info("test sources are allowed\n");
    return 0;

no_device:
    na_made_exit();
no_made:
    na_counters_exit();
    return error;
}

static void __exit na_exit(void) {
    misc_deregister(&na_device);
    na_made_exit();
    na_counters_exit();
}

module_init(na_init);
module_exit(na_exit);

/* Installed, it is loaded by itself where it is of use. */
static const struct x86_cpu_id na_cpus[] = {
    X86_MATCH_VENDOR_FEATURE(AMD, X86_FEATURE_IBS, NULL),
    X86_MATCH_VENDOR_FEATURE(HYGON, X86_FEATURE_IBS, NULL),
    {},
};
MODULE_DEVICE_TABLE(x86cpu, na_cpus);
MODULE_DESCRIPTION("Memory access samples for numalloc: a client of perf's ibs_op");
MODULE_AUTHOR("The numalloc authors");
MODULE_LICENSE("Dual MIT/GPL");
MODULE_VERSION("0.1.0"); /* DKMS takes a module for newer by it */
