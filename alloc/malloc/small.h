/* small.h - the hot path: pop a block, push a block.
 *
 * malloc: class from the table, bin from the thread's cache, one credit, one list head.
 * free: tag from the page map, bin from the tag; a tag that is not exactly the bin's (NULL,
 * foreign, large, someone else's, slow) or a spent credit leaves for the slow path.
 * docs/hot-path.md counts the instructions.
 *
 * The profiler, strict checking and the sampler are not tested for here: they act by keeping
 * credits at zero and tags slow. */
#ifndef NUMALLOC_ALLOC_MALLOC_SMALL_H
#define NUMALLOC_ALLOC_MALLOC_SMALL_H

#include <stddef.h>

#include "alloc/cache/thread_cache.h"
#include "alloc/track/hooks.h"
#include "pagemap/pagemap.h"

/* What the hot path could not do. While every event is recorded, all of it goes to traced.h. A
 * block of another owner is collected: that is a hot path, too, without a call. Of larger classes,
 * whose bins hold few blocks, credit is extended (bin.h). All else is the slow path's. Parameters
 * as below; `bin`: the thread's for the tag, which free has at hand. errno is ENOMEM when there is
 * no memory, free keeps it. */
void *na_alloc_missed(size_t size, na_entry_t entry, unsigned cls);
void na_free_missed(void *block, uint32_t tag, na_release_t how, na_bin_t *bin);
void na_free_wild(void *block, na_release_t how); /* what is no address at all */
/* A block of more than NA_SMALL_MAX bytes (large.c). */
void *na_large_malloc(size_t size, na_entry_t entry);

/* malloc's slow path: a block of `size` bytes, of any size. `cls`: the class that it is to be of,
 * or 0: the smallest that will do. In the order in which it is looked at:
 *   - the block is large (large.h);
 *   - the bin has blocks and its credit is spent: they are counted, credit is granted (bin.h, quick
 *     renewals);
 *   - the thread has no thread cache yet, has not noticed a switch of profiles, runs on another
 *     node (na_tcache_enter), or the clock says that something is due (poll.h);
 *   - the bin is empty, and the thread's memory policy has changed (na_tcache_check_policy; several
 *     nodes);
 *   - the sampler wants the block (sampler.h);
 *   - the bin is empty, and filled (bin.h): overflow batches, remote free list, transfer cache,
 *     span list, page heap;
 *   - there is no memory, or a fork stands before it (emergency.h). */
void *na_alloc_slow(size_t size, na_entry_t entry, unsigned cls);

/* free's slow path, of any pointer, NULL and wild ones included. `tag`: as read from the page map
 * (0: not an address); `moved_to`: where realloc copied it, or NULL. In this order:
 *   - the block lies in a mixed span (holes.h);
 *   - the bin has room and its credit is spent (bin.h, quick renewals);
 *   - it is guarded (track/guarded.h), or no block of ours (foreign.h);
 *   - no thread cache, a switch, another node: as for malloc; a fork stands before it
 *     (emergency.h);
 *   - the bin is full (bin.h), or another owner's batch (remote.h);
 *   - it is large (large.h);
 *   - its page is slow: a record ends (recording.h), a sampled block goes home. */
void na_free_slow(void *block, uint32_t tag, na_release_t how, const void *moved_to);
/* Frees a block from the list of emergency.h. */
void na_free_late(na_tcache_t *tcache, void *block);

NA_HOT void *na_pop(na_bin_t *bin) {
    if (NA_UNLIKELY(--bin->pop < 0)) return NULL;
    void *block = bin->head;
    NA_AS_RETURNED(block);
    void *next = *na_block_next(block);
    bin->head = next;
    na_prefetch_to_write(next);
    return block;
}

/* For calloc, which writes `bytes` of the block. The next one of the class is likely to be cleared
 * as well: all its lines are fetched meanwhile. Longer blocks the processor fetches by itself. */
#define NA_FETCHED_MOST 512u
NA_HOT void *na_pop_to_clear(na_bin_t *bin, size_t bytes) {
    void *block = na_pop(bin);
    if (NA_UNLIKELY(block == NULL)) return NULL;
    const char *next = bin->head;
    if (bytes <= NA_FETCHED_MOST && NA_LIKELY(next != NULL))
        for (size_t at = NA_CACHE_LINE; at < bytes; at += NA_CACHE_LINE)
            na_prefetch_to_write(next + at);
    return block;
}

/* The thread's bin for a size of at most NA_SMALL_MAX. */
NA_HOT na_bin_t *na_bin_for(size_t size) {
    return (na_bin_t *)((char *)na_self +
                        na_class_table[(size + NA_CLASS_STEP - 1) / NA_CLASS_STEP]);
}

NA_HOT void *na_alloc(size_t size, na_entry_t entry) {
    if (NA_UNLIKELY(size > NA_SMALL_MAX)) return na_large_malloc(size, entry);
    void *block = na_pop(na_bin_for(size));
    return NA_LIKELY(block != NULL) ? block : na_alloc_missed(size, entry, 0);
}

/* The thread's bin for a page tag. That of no tag lies where the thread cache begins. */
NA_HOT na_bin_t *na_bin_for_tag(uint32_t tag) {
    return (na_bin_t *)((char *)na_self + (tag & 0xffff));
}

/* A block whose page carries `tag` goes to that bin; false: it is not to, or not before the slow
 * path has looked. It looks at the one that was freed last, too: free(p), free(p). */
NA_HOT bool na_push(na_bin_t *bin, void *block, uint32_t tag) {
    if (NA_UNLIKELY(bin->tag != tag)) return false;
    void *head = bin->head;
    if (NA_UNLIKELY(head == block) || NA_UNLIKELY(--bin->push < 0)) return false;
    *na_block_next(block) = head;
    bin->head = block;
    return true;
}

NA_HOT void na_free_tagged(void *block, uint32_t tag, na_release_t how) {
    na_bin_t *bin = na_bin_for_tag(tag);
    if (NA_UNLIKELY(!na_push(bin, block, tag))) na_free_missed(block, tag, how, bin);
}

NA_HOT void na_release(void *block, na_release_t how) {
    uintptr_t address = (uintptr_t)block;
    uintptr_t page = na_home_page(address);
    if (NA_LIKELY(page < NA_TAG_HOME_PAGES))
        na_free_tagged(block, na_home_tag(page), how);
    else if (NA_UNLIKELY(!na_is_address(address)))
        na_free_wild(block, how);
    else
        na_free_tagged(block, na_page_tag(address), how);
}

NA_HOT void na_free(void *block) {
    na_release(block, NA_RELEASE_FREE);
}

#endif
