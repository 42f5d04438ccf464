/* region.c - reserving, binding and opening regions; address -> hugepage. */
#include "alloc/page/region.h"

#include <stdatomic.h>

#include "alloc/machine/place.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/meta.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "pagemap/pagemap.h"

/* Address -> hugepage: a two-level table over the user's address space, leaves of 16 GiB made on
 * demand. Its pages are touched only where regions are, so a small process pays for three. */
#define NA_LEAF_BITS 13
#define NA_ROOT_BITS (NA_ADDRESS_BITS - NA_HUGE_SHIFT - NA_LEAF_BITS)

typedef struct na_region_leaf {
    _Atomic(na_hugepage_t *) entry[(size_t)1 << NA_LEAF_BITS];
} na_region_leaf_t;

NA_SPARSE static _Atomic(na_region_leaf_t *) na_region_root[(size_t)1 << NA_ROOT_BITS];
static na_lock_t na_region_lock; /* guards making leaves */

na_hugepage_t *na_region_hugepage(uintptr_t address) {
    if (NA_UNLIKELY(address >> NA_ADDRESS_BITS)) return NULL;
    uintptr_t huge = address >> NA_HUGE_SHIFT;
    na_region_leaf_t *leaf =
        atomic_load_explicit(&na_region_root[huge >> NA_LEAF_BITS], memory_order_acquire);
    if (NA_UNLIKELY(!leaf)) return NULL;
    return atomic_load_explicit(&leaf->entry[huge & (((uintptr_t)1 << NA_LEAF_BITS) - 1)],
                                memory_order_acquire);
}

/* Makes every leaf that the range needs, so that opening cannot fail for want of one. */
static bool na_region_make_leaves(uintptr_t start, size_t size) {
    uintptr_t last = (start + size - 1) >> (NA_HUGE_SHIFT + NA_LEAF_BITS);
    for (uintptr_t i = start >> (NA_HUGE_SHIFT + NA_LEAF_BITS); i <= last; i++) {
        if (atomic_load_explicit(&na_region_root[i], memory_order_acquire)) continue;
        na_lock(&na_region_lock);
        na_region_leaf_t *leaf = atomic_load_explicit(&na_region_root[i], memory_order_relaxed);
        if (!leaf) {
            leaf = na_meta_alloc(sizeof(na_region_leaf_t), NA_CACHE_LINE);
            atomic_store_explicit(&na_region_root[i], leaf, memory_order_release);
        }
        na_unlock(&na_region_lock);
        if (!leaf) return false;
    }
    return true;
}

static void na_region_publish(na_hugepage_t *hp, uintptr_t address) {
    uintptr_t huge = address >> NA_HUGE_SHIFT;
    na_region_leaf_t *leaf =
        atomic_load_explicit(&na_region_root[huge >> NA_LEAF_BITS], memory_order_acquire);
    atomic_store_explicit(&leaf->entry[huge & (((uintptr_t)1 << NA_LEAF_BITS) - 1)], hp,
                          memory_order_release);
}

/* Ahead of what a node has opened, so much is reserved: few system calls, and little that limits
 * count and nobody uses. */
#define NA_AHEAD_LEAST ((size_t)16 << 20)
#define NA_AHEAD_PART  16

static size_t na_region_ahead(size_t committed) {
    size_t ahead = na_align_down(committed / NA_AHEAD_PART, NA_HUGE_SIZE);
    return ahead > NA_AHEAD_LEAST ? ahead : NA_AHEAD_LEAST;
}

/* Reserves `first` bytes of a place for `size` and makes the tables for all of it; NULL: something
 * was refused. */
static na_region_t *na_region_try(size_t first, size_t size) {
    na_reserve_t space;
    if (!na_reserve_find(&space, first, size)) return NULL;
    size_t count = size >> NA_HUGE_SHIFT;
    size_t map_words = (count + 63) / 64;
    na_hugepage_t *hugepages = NULL;
    na_region_t *region = NULL;
    if ((space.start + size - 1) >> NA_ADDRESS_BITS == 0 &&
        na_region_make_leaves(space.start, size))
        hugepages = na_meta_alloc(count * sizeof(na_hugepage_t), NA_CACHE_LINE);
    if (hugepages)
        region = na_meta_alloc(sizeof(na_region_t) + map_words * sizeof(uint64_t), NA_CACHE_LINE);
    if (!region) {
        na_reserve_drop(&space);
        return NULL;
    }
    region->space = space;
    region->start = space.start;
    region->size = size;
    region->empty = (uint64_t *)(region + 1);
    region->hugepages = hugepages;
    return region;
}

static bool na_region_place_new(const na_region_t *region, void *start, size_t bytes) {
    bool bound = NA_UNLIKELY(region->by_touch)
                     ? na_place_by_touch(start, bytes)
                     : na_place(start, bytes, region->node, region->bound);
    if (region->keeps_small) na_os_hugepage(start, bytes, false);
    return bound;
}

na_region_t *na_region_create(unsigned node, bool by_touch, size_t need, bool bind,
                              size_t committed) {
    size_t least = na_align_up(need, NA_HUGE_SIZE), first = na_region_ahead(committed);
    size_t size = na_align_up((size_t)na_option(NA_OPT_REGION_SIZE), NA_HUGE_SIZE);
    if (size < least) size = least;
    if (first > size) first = size;
    if (first < least) first = least;
    na_region_t *region = na_region_try(first, size);
    if (!region && first > least) region = na_region_try(least, size);
    if (!region) return NULL;
    region->node = node;
    region->by_touch = by_touch;
    region->bound = bind;
    region->bound = na_region_place_new(region, (void *)region->start, region->space.reserved);
    na_reserve_join(&region->space);
    return region;
}

void na_region_place(void *owner, void *start, size_t bytes) {
    (void)na_region_place_new(owner, start, bytes);
}

na_reserve_result_t na_region_open(na_region_t *region, size_t to, size_t committed) {
    if (to <= region->space.most &&
        !na_pagemap_prepare(region->start + region->frontier, to - region->frontier))
        return NA_RESERVE_REFUSED;
    na_reserve_result_t result =
        na_reserve_open(&region->space, to, na_region_ahead(committed), na_region_place, region);
    if (result != NA_RESERVE_DONE) return result;
    size_t first = na_align_up(region->frontier, NA_HUGE_SIZE) >> NA_HUGE_SHIFT;
    size_t end = na_align_up(to, NA_HUGE_SIZE) >> NA_HUGE_SHIFT;
    for (size_t i = first; i < end; i++) {
        na_hugepage_t *hp = &region->hugepages[i];
        hp->region = region;
        na_bits_set(&hp->used, 0, NA_HUGE_PAGES);
        na_region_publish(hp, region->start + (i << NA_HUGE_SHIFT));
    }
    region->frontier = to;
    return result;
}

bool na_region_rebind(na_region_t *region, size_t frontier) {
    bool bound = na_place_back((void *)region->start, frontier, region->node);
    if (bound)
        na_reserve_each(&region->space, frontier, na_region_place, region); /* no pages there */
    return bound;
}

static void na_region_advise_small(void *owner, void *start, size_t bytes) {
    (void)owner;
    na_os_hugepage(start, bytes, false);
}

void na_region_end_huge_pages(na_region_t *region) {
    na_reserve_each(&region->space, 0, na_region_advise_small, region);
}

void na_region_keep_small(na_region_t *region) {
    region->keeps_small = true;
    na_region_end_huge_pages(region);
}

void na_region_use_more(na_region_t *region, size_t to) {
    if (to > NA_HUGE_SIZE && !region->keeps_small && na_place_keeps_small())
        na_region_keep_small(region);
    na_reserve_dump_to(&region->space, to);
}

void na_region_after_fork_child(void) {
    na_lock_reset(&na_region_lock);
    na_reserve_after_fork_child();
}
