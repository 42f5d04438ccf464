/* small.h - the hot path: pop a block, push a block.
 *
 * malloc: class from the table, bin from the thread's cache, one credit, one list head.
 * free: tag from the page map, bin from the tag; a tag that is not exactly the bin's (NULL,
 * foreign, large, someone else's, slow) or a spent credit leaves for the slow path.
 * docs/hot-path.md counts the instructions.
 *
 * The profiler, strict checking and the sampler are not tested for here: they act by keeping
 * credits at zero and tags slow. */
#ifndef NUMALLOC_ALLOC_CORE_MALLOC_SMALL_H
#define NUMALLOC_ALLOC_CORE_MALLOC_SMALL_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/hooks.h"
#include "alloc/core/track/track.h"
#include "pagemap/pagemap.h"

/* --- What every slow path of malloc and free passes once: a look at the clock now and then ---
 *
 *   slow path -> na_poll_pass -- every NA_SCAVENGE_CALLS --> na_poll
 *       what a fork has put off (emergency.h)
 *       what is due to be given back (thread/scavenge.h), and the controller's look
 *
 * None of it is behind the gate. Bins may have been counted, emptied and granted credit when it
 * returns, so it comes before a bin is looked at, not in between. */

void na_poll(na_tcache_t *tcache);

/* If enough slow paths were counted. */
NA_INLINE void na_poll_counted(na_tcache_t *tcache) {
    if (NA_UNLIKELY(tcache->slow.calls >= NA_SCAVENGE_CALLS)) na_poll(tcache);
}

/* One slow path. */
NA_INLINE void na_poll_pass(na_tcache_t *tcache) {
    tcache->slow.calls++;
    na_poll_counted(tcache);
}

/* A slow path's na_tcache_enter and na_tcache_leave (thread/attach.h), without a call where they
 * have nothing to do: the thread has a thread cache, noticed the last switch, and cannot be on
 * another node. */
NA_INLINE na_tcache_t *na_slow_enter(void) {
    na_tcache_t *tcache = na_self;
    bool settled = tcache != &na_tcache_empty && tcache != &na_tcache_gone &&
                   !na_section_alarmed(&tcache->track) && !na_tcache_watched(tcache) &&
                   !na_child_is_unknown();
    return NA_LIKELY(settled) ? tcache : na_tcache_enter();
}
NA_INLINE void na_slow_leave(na_tcache_t *tcache) {
    if (NA_UNLIKELY(na_self == &na_tcache_gone)) na_tcache_leave(tcache);
}

/* What the hot path could not do. Where the thread has misses of its own (path/seam.h), it is
 * theirs. A block of another owner is collected: that is a hot path, too, without a call. Credit is
 * extended where that will do (bin.h). All else is the slow path's. Parameters as below; `bin`: the
 * thread's for the tag, which free has at hand. errno is ENOMEM when there is no memory, free keeps
 * it. */
void *na_alloc_missed(size_t size, na_entry_t entry, unsigned cls);
/* calloc, of at most NA_SMALL_MAX bytes. *zeroed becomes true where the block is known to read as
 * zero. */
void *na_calloc_missed(size_t size, bool *zeroed);
void na_free_missed(void *block, uint32_t tag, na_release_t how, na_bin_t *bin);
void na_free_wild(void *block, na_release_t how); /* what is no address at all */
/* A block of more than NA_SMALL_MAX bytes (large.c). */
void *na_large_malloc(size_t size, na_entry_t entry);

/* malloc's slow path: a block of `size` bytes, of any size. `cls`: the class that it is to be of,
 * or 0: the smallest that will do. *zeroed, if not
 * NULL, becomes true where it is known to read as zero. In the order in which it is looked at:
 *   - the block is large (large.h);
 *   - the bin has blocks and its credit is spent: they are counted, credit is granted (bin.h);
 *   - the thread has no thread cache yet, has not noticed a switch of profiles, runs on another
 *     node (na_tcache_enter), or the clock says that something is due (small.h);
 *   - the bin is empty, no blocks that were freed of late fill it, and the thread's memory policy
 *     has changed (na_tcache_check_policy; several nodes);
 *   - the sampler wants the block (track.h);
 *   - the bin is empty, and filled (bin.h): overflow batches, remote free list, transfer cache,
 *     span list, page heap;
 *   - there is no memory, or a fork stands before it (emergency.h). */
void *na_alloc_slow(size_t size, na_entry_t entry, unsigned cls, bool *zeroed);

/* free's slow path, of any pointer, NULL and wild ones included. `tag`: as read from the page map
 * (0: not an address); `moved_to`: where realloc copied it, or NULL. In this order:
 *   - the bin has room and its credit is spent (bin.h);
 *   - it is in no span: the path's, or no block of ours (foreign.h);
 *   - no thread cache, a switch, another node: as for malloc; a fork stands before it
 *     (emergency.h);
 *   - the bin is full (bin.h), or another owner's batch (thread_cache.h);
 *   - it is large (large.h);
 *   - its page is slow: a record ends (path/seam.h), a sampled block goes home. */
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
#define NA_FETCHED_MOST (NA_TRIES * NA_CACHE_LINE)
NA_HOT void *na_pop_to_clear(na_bin_t *bin, size_t bytes) {
    void *block = na_pop(bin);
    if (NA_UNLIKELY(block == NULL)) return NULL;
    const char *next = bin->head;
    if (bytes <= NA_FETCHED_MOST && NA_LIKELY(next != NULL))
        for (size_t at = NA_CACHE_LINE; at < bytes; at += NA_CACHE_LINE)
            na_prefetch_to_write(next + at);
    return block;
}

/* Where the bin for a size of at most NA_SMALL_MAX lies in a thread cache; 0, which is no bin for
 * blocks: the table is not filled yet. */
NA_HOT size_t na_bin_offset(size_t size) {
    return na_class_table[(size + NA_CLASS_STEP - 1) / NA_CLASS_STEP];
}

/* The thread's bin for such a size. */
NA_HOT na_bin_t *na_bin_for(size_t size) {
    return (na_bin_t *)((char *)na_self + na_bin_offset(size));
}

NA_HOT void *na_alloc(size_t size, na_entry_t entry) {
    if (NA_UNLIKELY(size > NA_SMALL_MAX)) return na_large_malloc(size, entry);
    void *block = na_pop(na_bin_for(size));
    return NA_LIKELY(block != NULL) ? block : na_alloc_missed(size, entry, 0);
}

/* The thread's bin for a page tag. That of no tag lies where the thread cache begins. */
NA_HOT na_bin_t *na_bin_for_tag(uint32_t tag) {
    return (na_bin_t *)((char *)na_self + na_tag_bin(tag));
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

/* --- realloc --- */

/* A block that would fill less than half of itself moves, so that shrinking gives memory back. One
 * comparison: where size > have, the difference is huge. Size 0 fits nowhere. */
NA_HOT bool na_fits_in_place(size_t have, size_t size) {
    size_t spare = have <= 4 * NA_CLASS_STEP ? have : have / 2;
    return have - size < spare;
}

/* The size to ask for. A small block that has grown is likely to grow again, a little at a time: a
 * step is a quarter at least, or a string that is appended to would move with every few bytes.
 * (have < size < have + more, by one comparison.) */
NA_HOT size_t na_resized(size_t have, size_t size) {
    size_t more = have / 4;
    bool by_little = size - have - 1 < more - 1;
    return __builtin_expect_with_probability(by_little, 1, 0.5) ? have + more : size;
}

/* A block to move to, for one of `have` bytes. */
NA_HOT void *na_alloc_resized(size_t have, size_t size, na_entry_t entry) {
    size_t want = na_resized(have, size);
    if (want > NA_SMALL_MAX) return na_alloc(size, entry);
    void *fresh = na_pop(na_bin_for(want));
    return fresh != NULL ? fresh : na_alloc_missed(size, entry, na_class_of(want));
}

/* Bytes of the block. */
NA_INLINE size_t na_block_bytes(const na_span_t *span) {
    return span->cls != 0 ? na_classes[span->cls].size : na_span_bytes(span);
}

/* realloc of anything but a small block on an ordinary page that gets another size than 0. */
void *na_resize_slow(void *block, size_t size);
/* realloc of a live block: where it is, or by copy. */
void *na_resize_plain(na_span_t *span, void *block, size_t size, na_entry_t entry);
/* Of a block that begins here and is live, and of which the first `have` bytes are the program's:
 * to another block. NULL: no memory, and nothing has changed. */
void *na_resize_by_copy(const na_span_t *span, void *block, size_t have, size_t size,
                        na_entry_t entry);

#endif
