// SPDX-License-Identifier: GPL-2.0 OR MIT
/* ring.c - the rings: their memory, on the node of their CPU, who pays for it, and its mapping into
 * the process.
 *
 * The pages belong to the session and live until its descriptor and all mappings are gone (each
 * mapping holds the file). The handler writes through one contiguous kernel mapping, which on
 * x86-64 is in every page table from the start: no fault in an NMI. */
#include <linux/capability.h>
#include <linux/cpumask.h>
#include <linux/cred.h>
#include <linux/gfp.h>
#include <linux/mm.h>
#include <linux/sched/signal.h>
#include <linux/slab.h>
#include <linux/topology.h>
#include <linux/vmalloc.h>

#include "na_ibs.h"

static void na_ring_wake(struct irq_work *work) {
    struct na_ring *ring = container_of(work, struct na_ring, wake);

    wake_up_interruptible(&ring->session->wait);
}

/* ---- Whose memory -----------------------------------------------------------------------------
 */

static atomic_long_t na_all_pages = ATOMIC_LONG_INIT(0);

/* As perf does with its buffers, and on the same account. */
static int na_charge(struct na_session *session, long pages) {
    unsigned long limit =
        na_user_pages() * num_online_cpus() + (rlimit(RLIMIT_MEMLOCK) >> PAGE_SHIFT);
    atomic_long_t *locked = &session->owner->user->locked_vm;
    long all = atomic_long_add_return(pages, &na_all_pages);

    if (all > (si_mem_available() + all) / 8) {
        atomic_long_sub(pages, &na_all_pages);
        return na_refuse(session, -ENOMEM,
                         "the rings of all processes would take more than an eighth of the "
                         "memory that is available");
    }
    if ((unsigned long)atomic_long_add_return(pages, locked) > limit && !capable(CAP_IPC_LOCK)) {
        atomic_long_sub(pages, locked);
        atomic_long_sub(pages, &na_all_pages);
        return na_refuse(session, -EPERM,
                         "the rings are more than this user may lock; raise ulimit -l, or the "
                         "module's mlock_kb");
    }
    return 0;
}

static void na_uncharge(struct na_session *session, long pages) {
    atomic_long_sub(pages, &session->owner->user->locked_vm);
    atomic_long_sub(pages, &na_all_pages);
}

/* ---- Making them ------------------------------------------------------------------------------
 */

static void na_ring_free(struct na_ring *ring) {
    u32 i;

    irq_work_sync(&ring->wake);
    if (ring->shared) vunmap(ring->shared);
    if (ring->pages)
        for (i = 0; i < ring->npages; i++)
            if (ring->pages[i]) __free_page(ring->pages[i]);
    if (ring->charged) na_uncharge(ring->session, ring->npages);
    kvfree(ring->pages);
    kfree(ring);
}

/* Where memory is short this fails, and takes none from others: no process is killed for it. */
static struct na_ring *na_ring_make(struct na_session *session, int cpu) {
    const gfp_t how = GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN | __GFP_NORETRY;
    int node = cpu_to_node(cpu);
    struct na_ring *ring = kzalloc_node(sizeof(*ring), GFP_KERNEL_ACCOUNT, node);
    int error;
    u32 i;

    BUILD_BUG_ON(sizeof(struct na_ibs_record) != 64);
    BUILD_BUG_ON(sizeof(struct na_ibs_ring) != NA_IBS_HEADER_SIZE);
    BUILD_BUG_ON(NA_IBS_HEADER_SIZE != PAGE_SIZE);
    if (!ring) return ERR_PTR(-ENOMEM);
    init_irq_work(&ring->wake, na_ring_wake);
    ring->session = session;
    ring->mask = session->records - 1;
    ring->watermark = session->watermark;
    ring->npages = (u32)(NA_IBS_RING_SIZE(session->records) >> PAGE_SHIFT);
    error = na_charge(session, ring->npages);
    if (error) goto fail;
    ring->charged = true;
    error = na_refuse(session, -ENOMEM, "no memory for a ring");
    ring->pages = kvcalloc(ring->npages, sizeof(*ring->pages), GFP_KERNEL_ACCOUNT);
    if (!ring->pages) goto fail;
    for (i = 0; i < ring->npages; i++) {
        ring->pages[i] = alloc_pages_node(node, how, 0);
        if (!ring->pages[i]) goto fail;
    }
    ring->shared = vmap(ring->pages, ring->npages, VM_MAP, PAGE_KERNEL);
    if (!ring->shared) goto fail;
    session->why = NULL;
    ring->record = (struct na_ibs_record *)((char *)ring->shared + NA_IBS_HEADER_SIZE);
    ring->shared->magic = NA_IBS_MAGIC;
    ring->shared->abi = NA_IBS_ABI;
    ring->shared->record_size = sizeof(struct na_ibs_record);
    ring->shared->records = session->records;
    ring->shared->cpu = (u32)cpu;
    ring->shared->node = node;
    return ring;

fail:
    na_ring_free(ring);
    return ERR_PTR(error);
}

struct na_ring *na_ring_of(struct na_session *session, int cpu) {
    struct na_ring *ring = smp_load_acquire(&session->ring[cpu]); /* made below */

    if (ring) return ring;
    if (!cpu_online(cpu)) return ERR_PTR(-ENODEV);
    ring = na_ring_make(session, cpu);
    if (IS_ERR(ring)) return ring;
    spin_lock(&session->rings_lock);
    ring->shared->source = session->source;
    ring->shared->weight = session->weight;
    ring->shared->state = session->state;
    smp_store_release(&session->ring[cpu], ring); /* the handlers find it */
    spin_unlock(&session->rings_lock);
    return ring;
}

/* No handler runs, and no mapping is left. */
void na_rings_free(struct na_session *session) {
    int cpu;

    if (!session->ring) return;
    for_each_possible_cpu(cpu) if (session->ring[cpu]) na_ring_free(session->ring[cpu]);
    kvfree(session->ring);
}

/* Tells the reader what the session does; the handlers do not look at this. A handler that
 * interrupts another one between its count and the copy of it leaves the copy behind: when none
 * runs, copies are made anew. */
void na_rings_say(struct na_session *session, enum na_ibs_state state) {
    struct na_ring **rings = smp_load_acquire(&session->ring); /* of SETUP */
    int cpu, i;

    spin_lock(&session->rings_lock);
    session->state = state;
    for_each_possible_cpu(cpu) {
        struct na_ring *ring = rings ? rings[cpu] : NULL;
        struct na_ibs_ring *shared;

        if (!ring) continue;
        shared = ring->shared;
        if (state != NA_IBS_RUNNING)
            for (i = 0; i < NA_IBS_COUNTERS; i++)
                WRITE_ONCE(shared->counter[i], (u64)local64_read(&ring->counter[i]));

        WRITE_ONCE(shared->source, session->source);
        WRITE_ONCE(shared->weight, session->weight);
        WRITE_ONCE(shared->state, state);
    }
    spin_unlock(&session->rings_lock);
}

/* Enough records for the reader to come. What it wrote is not believed, only compared. */
bool na_ring_ready(const struct na_ring *ring) {
    return ring && READ_ONCE(ring->head) - READ_ONCE(ring->shared->tail) >= ring->watermark;
}

static void na_vma_open(struct vm_area_struct *vma) {
    na_session_map(((struct na_ring *)vma->vm_private_data)->session);
}

static void na_vma_close(struct vm_area_struct *vma) {
    na_session_unmap(((struct na_ring *)vma->vm_private_data)->session);
}

static int na_vma_may_split(struct vm_area_struct *vma, unsigned long address) {
    return -EINVAL;
}

static const struct vm_operations_struct na_vma_ops = {
    .open = na_vma_open,
    .close = na_vma_close,
#if LINUX_VERSION_CODE >= KERNEL_VERSION(5, 11, 0)
    .may_split = na_vma_may_split,
#else
    .split = na_vma_may_split,
#endif
};

/* The area is shared, not executable, and as long as the ring. VM_IO keeps MADV_DOFORK, debuggers
 * and direct I/O away from the pages. */
int na_ring_map(struct na_ring *ring, struct vm_area_struct *vma) {
    const unsigned long flags = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP | VM_IO;
    int error;

#if LINUX_VERSION_CODE >= KERNEL_VERSION(6, 3, 0)
    vm_flags_mod(vma, flags, VM_MAYEXEC);
#else
    vma->vm_flags = (vma->vm_flags | flags) & ~VM_MAYEXEC;
#endif
    /* The offset names the CPU: it is not a place within the pages. */
    error = vm_map_pages_zero(vma, ring->pages, ring->npages);
    if (error) return error;
    vma->vm_private_data = ring;
    vma->vm_ops = &na_vma_ops;
    na_session_map(ring->session);
    return 0;
}
