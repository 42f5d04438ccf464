/* give.c - blocks of a site's memory. */
#include <errno.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/small.h"
#include "alloc/heaps/api/api_heap.h"
#include "alloc/heaps/heap_blocks.h"
#include "profiler/policy/apply/ruled_live.h"

/* Small blocks of an arm come so many in a row, about what a list of a thread's is filled with: so
 * whole spans are treated, or are the control. Large ones are spans of their own. */
enum { IN_A_ROW = 32 };

/* The turn is over: it is counted, and the other's begins. Threads of one shard that come at once
 * may begin it twice: a few calls more or less of an arm. */
static void next_turn(const na_policy_site_t *site, na_policy_sums_t *sums) {
    int32_t granted = atomic_exchange_explicit(&sums->granted, 0, memory_order_relaxed);
    uint64_t bytes = atomic_load_explicit(&sums->bytes, memory_order_relaxed);
    uint64_t before = atomic_exchange_explicit(&sums->bytes_before, bytes, memory_order_relaxed);
    bool was_control = atomic_load_explicit(&sums->control, memory_order_relaxed);
    atomic_fetch_add_explicit(&sums->calls, (uint64_t)granted, memory_order_relaxed);
    if (was_control) {
        atomic_fetch_add_explicit(&sums->control_calls, (uint64_t)granted, memory_order_relaxed);
        atomic_fetch_add_explicit(&sums->control_bytes, bytes - before, memory_order_relaxed);
    }
    bool control = site->control == 1 || (site->control != 0 && granted != 0 && !was_control);
    granted = control ? IN_A_ROW : site->control == 0 ? 1 << 30 : IN_A_ROW * (site->control - 1);
    atomic_store_explicit(&sums->control, control, memory_order_relaxed);
    atomic_store_explicit(&sums->line_mask, control ? 0 : site->line_mask, memory_order_relaxed);
    atomic_store_explicit(&sums->granted, granted, memory_order_relaxed);
    __atomic_store_n(&sums->left, granted, __ATOMIC_RELAXED);
}

/* Counts the call; true: it is the control's. */
static bool is_control(na_policy_site_t *site, na_policy_sums_t *sums, size_t size) {
    if (size <= NA_SMALL_MAX) {
        if (__atomic_load_n(&sums->left, __ATOMIC_RELAXED) <= 0) next_turn(site, sums);
        __atomic_sub_fetch(&sums->left, 1, __ATOMIC_RELAXED);
        atomic_fetch_add_explicit(&sums->bytes, size, memory_order_relaxed);
        return atomic_load_explicit(&sums->control, memory_order_relaxed);
    }
    uint64_t call = atomic_fetch_add_explicit(&site->large, 1, memory_order_relaxed);
    bool control = site->control != 0 && call % site->control == site->control - 1u;
    atomic_fetch_add_explicit(&site->large_bytes, size, memory_order_relaxed);
    if (!control) return false;
    atomic_fetch_add_explicit(&site->large_control, 1, memory_order_relaxed);
    atomic_fetch_add_explicit(&site->large_control_bytes, size, memory_order_relaxed);
    return true;
}

/* Who comes second uses the first one's, and its own goes again. */
static NA_COLD numalloc_heap_t *make_pool_heap(_Atomic(numalloc_heap_t *) *to,
                                               const numalloc_heap_options_t *options) {
    int kept = errno;
    numalloc_heap_t *none = NULL, *heap = numalloc_heap_create(options);
    errno = kept;
    if (heap == NULL || atomic_compare_exchange_strong(to, &none, heap)) return heap;
    numalloc_heap_destroy(heap);
    return none;
}

NA_INLINE numalloc_heap_t *heap_of(na_policy_pool_t *pool, bool control) {
    _Atomic(numalloc_heap_t *) *place = control ? &pool->control : &pool->heap;
    numalloc_heap_t *heap = atomic_load_explicit(place, memory_order_acquire);
    if (NA_LIKELY(heap != NULL)) return heap;
    return make_pool_heap(place, control ? &(numalloc_heap_options_t){.name = pool->name}
                                         : &pool->options);
}

/* From malloc, in whole cache lines: classes of such sizes are aligned to the line, and pooled. */
NA_RACES_WITH_EMPTY static void *lines_of(size_t size, size_t alignment, na_entry_t entry,
                                          bool own) {
    size_t whole = own ? na_align_up(size | (size == 0), NA_CACHE_LINE) : size;
    if (alignment > NA_CLASS_STEP)
        return na_alloc_aligned(own && alignment < NA_CACHE_LINE ? NA_CACHE_LINE : alignment, whole,
                                entry);
    if (whole > NA_SMALL_MAX) return na_large_malloc(size, entry);
    void *block = na_pop(na_bin_for(whole));
    return block != NULL ? block : na_alloc_missed(size, entry, na_class_of(whole));
}

NA_RACES_WITH_EMPTY void *na_policy_give(na_policy_site_t *site, size_t size, size_t alignment,
                                         na_entry_t entry, bool *zeroed) {
    na_policy_pool_t *pool = site->pool;
    na_policy_sums_t *sums = &site->sums[na_self->id % NA_POLICY_SHARDS];
    bool control = is_control(site, sums, size);
    if (zeroed != NULL) *zeroed = false;
    if (size < site->reserve) size = site->reserve;
    void *block = NULL;
    if (pool->apart) {
        numalloc_heap_t *heap = heap_of(pool, control);
        na_heap_t *part = NA_LIKELY(heap != NULL) ? na_heap_part(heap) : NULL;
        if (NA_LIKELY(part != NULL))
            block = NA_LIKELY(alignment <= NA_CLASS_STEP && size <= NA_SMALL_MAX)
                        ? na_heap_alloc(part, size, entry)
                        : na_heap_alloc_slow(part, size, alignment, entry, zeroed);
    } else {
        block = lines_of(size, alignment, entry, site->line_mask != 0 && !control);
    }
    if (NA_UNLIKELY(block == NULL))
        atomic_fetch_add_explicit(&site->failed, 1, memory_order_relaxed);
    return block;
}
