// SPDX-License-Identifier: GPL-2.0 OR MIT
/* ring.c - the rings: their memory, on the node of their CPU, and its mapping into the process.
 *
 * The pages belong to the session and live until its descriptor and all mappings are gone (each
 * mapping holds the file). The handler writes through one contiguous kernel mapping, which on
 * x86-64 is in every page table from the start: no fault in an NMI. */
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

static void na_ring_free(struct na_ring *ring) {
    u32 i;

    if (!ring) return;
    irq_work_sync(&ring->wake);
    if (ring->shared) vunmap(ring->shared);
    if (ring->pages)
        for (i = 0; i < ring->npages; i++)
            if (ring->pages[i]) __free_page(ring->pages[i]);
    kvfree(ring->pages);
    kfree(ring);
}

static struct na_ring *na_ring_make(struct na_session *session, int cpu, u32 records,
                                    u32 watermark) {
    int node = cpu_to_node(cpu);
    struct na_ring *ring = kzalloc_node(sizeof(*ring), GFP_KERNEL_ACCOUNT, node);
    u32 i;

    if (!ring) return NULL;
    init_irq_work(&ring->wake, na_ring_wake);
    ring->session = session;
    ring->mask = records - 1;
    ring->watermark = watermark;
    ring->npages = (u32)(NA_IBS_RING_SIZE(records) >> PAGE_SHIFT);
    ring->pages = kvcalloc(ring->npages, sizeof(*ring->pages), GFP_KERNEL_ACCOUNT);
    if (!ring->pages) goto fail;
    for (i = 0; i < ring->npages; i++) {
        ring->pages[i] = alloc_pages_node(node, GFP_KERNEL_ACCOUNT | __GFP_ZERO | __GFP_NOWARN, 0);
        if (!ring->pages[i]) goto fail;
    }
    ring->shared = vmap(ring->pages, ring->npages, VM_MAP, PAGE_KERNEL);
    if (!ring->shared) goto fail;
    ring->record = (struct na_ibs_record *)((char *)ring->shared + NA_IBS_HEADER_SIZE);
    ring->shared->magic = NA_IBS_MAGIC;
    ring->shared->abi = NA_IBS_ABI;
    ring->shared->record_size = sizeof(struct na_ibs_record);
    ring->shared->records = records;
    ring->shared->cpu = (u32)cpu;
    ring->shared->node = node;
    return ring;

fail:
    na_ring_free(ring);
    return NULL;
}

void na_rings_free(struct na_ring **rings) {
    int cpu;

    if (!rings) return;
    for_each_possible_cpu(cpu) na_ring_free(rings[cpu]);
    kvfree(rings);
}

/* One ring for each possible CPU, so that hot-plug needs no memory later. Can sleep long. */
struct na_ring **na_rings_make(struct na_session *session, u32 records, u32 watermark) {
    struct na_ring **rings = kvcalloc(nr_cpu_ids, sizeof(*rings), GFP_KERNEL_ACCOUNT);
    int cpu;

    BUILD_BUG_ON(sizeof(struct na_ibs_record) != 64);
    BUILD_BUG_ON(sizeof(struct na_ibs_ring) != NA_IBS_HEADER_SIZE);
    BUILD_BUG_ON(NA_IBS_HEADER_SIZE != PAGE_SIZE);
    if (!rings) return ERR_PTR(-ENOMEM);
    for_each_possible_cpu(cpu) {
        rings[cpu] = na_ring_make(session, cpu, records, watermark);
        if (!rings[cpu]) {
            na_rings_free(rings);
            return ERR_PTR(-ENOMEM);
        }
        if (fatal_signal_pending(current)) {
            na_rings_free(rings);
            return ERR_PTR(-EINTR);
        }
        cond_resched();
    }
    return rings;
}

/* Tells the reader what the session does; the handlers do not look at this. A handler that
 * interrupts another one between its count and the copy of it leaves the copy behind: when none
 * runs, copies are made anew. */
void na_rings_say(struct na_session *session, enum na_ibs_state state) {
    struct na_ring **rings = smp_load_acquire(&session->ring);
    int cpu, i;

    if (!rings) return;
    for_each_possible_cpu(cpu) {
        struct na_ibs_ring *shared = rings[cpu]->shared;

        if (state != NA_IBS_RUNNING)
            for (i = 0; i < NA_IBS_COUNTERS; i++)
                WRITE_ONCE(shared->counter[i], (u64)local64_read(&rings[cpu]->counter[i]));

        WRITE_ONCE(shared->source, session->source);
        WRITE_ONCE(shared->weight, session->weight);
        WRITE_ONCE(shared->state, state);
    }
}

/* Enough records for the reader to come. What it wrote is not believed, only compared. */
bool na_ring_ready(const struct na_ring *ring) {
    u64 used = READ_ONCE(ring->head) - READ_ONCE(ring->shared->tail);

    return used >= ring->watermark;
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
    .may_split = na_vma_may_split,
};

/* VM_IO keeps MADV_DOFORK, debuggers and direct I/O away from the pages. */
int na_ring_map(struct na_ring *ring, struct vm_area_struct *vma) {
    const unsigned long flags = VM_DONTCOPY | VM_DONTEXPAND | VM_DONTDUMP | VM_IO;
    int error;

    if (vma->vm_end - vma->vm_start != (unsigned long)ring->npages << PAGE_SHIFT) return -EINVAL;
    if (!(vma->vm_flags & VM_SHARED) || (vma->vm_flags & VM_EXEC)) return -EINVAL;
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
