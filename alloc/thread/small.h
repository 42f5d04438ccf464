/* small.h - the hot path: pop a block, push a block.
 *
 * malloc: class from the table, bin from the thread's cache, one credit, one list head.
 * free: tag from the page map, bin from the tag; a tag that is not exactly the bin's (NULL,
 * foreign, large, someone else's, slow) or a spent credit leaves for the slow path.
 * docs/hot-path.md counts the instructions.
 *
 * The profiler, strict checking and the sampler are not tested for here: they act by keeping
 * credits at zero and tags slow. */
#ifndef NUMALLOC_ALLOC_SMALL_H
#define NUMALLOC_ALLOC_SMALL_H

#include <stddef.h>

#include "alloc/thread/thread_cache.h"
#include "alloc/track/hooks.h"
#include "pagemap/pagemap.h"

/* What the hot path could not do. All set errno to ENOMEM when they return NULL; free's keeps it.
 */

/* Any size. */
void *na_alloc_slow(size_t size, na_entry_t entry);
/* A block of exactly this class. `requested` is what the program asked for. */
void *na_alloc_class_slow(unsigned cls, size_t requested, na_entry_t entry);
/* Any pointer, NULL and wild ones included; `tag` as read from the page map (0: not an address). */
void na_free_slow(void *block, uint32_t tag, na_release_t how);
/* realloc copied a block that is large or on a slow page to `to`. */
void na_free_moved(void *block, const void *to);
/* The same as na_alloc_class_slow and na_free_slow, with nothing left out. */
void *na_alloc_thoroughly(unsigned cls, size_t requested, na_entry_t entry);
void na_free_thoroughly(void *block, uint32_t tag, na_release_t how, const void *moved_to);
/* Frees a block from the list of aside.h. */
void na_free_late(na_tcache_t *tcache, void *block);

/* Threads without a thread cache share the EMPTY one: they spend its credits, which it does not
 * have, at once, and read the class table while the first of them fills it. Whatever they find
 * sends them to a slow path that waits and sorts it out (thread_cache.h). ThreadSanitizer is told
 * so on the hot path and on every function that it is inlined into. */
#define NA_RACES_WITH_EMPTY NA_RACY
#define NA_HOT              __attribute__((always_inline)) NA_RACES_WITH_EMPTY static inline

NA_HOT void *na_pop(na_bin_t *bin) {
    if (NA_UNLIKELY(--bin->pop < 0)) return NULL;
    void *block = bin->head, *next = *na_block_next(block);
    bin->head = next;
    na_prefetch_to_write(next);
    return block;
}

/* The thread's bin for a size of at most NA_SMALL_MAX. */
NA_HOT na_bin_t *na_bin_for(size_t size) {
    size_t twice = na_class_table[(size + NA_CLASS_STEP - 1) / NA_CLASS_STEP];
    return (na_bin_t *)((char *)na_self + twice * (NA_BIN_SIZE / 2));
}

NA_HOT void *na_alloc(size_t size, na_entry_t entry) {
    if (NA_UNLIKELY(size > NA_SMALL_MAX)) return na_alloc_slow(size, entry);
    void *block = na_pop(na_bin_for(size));
    return NA_LIKELY(block != NULL) ? block : na_alloc_slow(size, entry);
}

/* A block whose page carries `tag` goes to the thread's bin; false: it is not to, or not before the
 * slow path has looked. */
NA_HOT bool na_push(void *block, uint32_t tag) {
    na_bin_t *bin = (na_bin_t *)((char *)na_self + (tag & 0xffff));
    if (NA_UNLIKELY(bin->tag != tag) || NA_UNLIKELY(--bin->push < 0)) return false;
    *na_block_next(block) = bin->head;
    bin->head = block;
    return true;
}

NA_HOT void na_free_tagged(void *block, uint32_t tag, na_release_t how) {
    if (NA_UNLIKELY(!na_push(block, tag))) na_free_slow(block, tag, how);
}

NA_HOT void na_release(void *block, na_release_t how) {
    uintptr_t address = (uintptr_t)block;
    if (NA_UNLIKELY(!na_is_address(address)))
        na_free_slow(block, NA_TAG_NONE, how);
    else
        na_free_tagged(block, na_page_tag(address), how);
}

NA_HOT void na_free(void *block) {
    na_release(block, NA_RELEASE_FREE);
}

#endif
