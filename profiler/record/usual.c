/* usual.c - malloc and free in mode sites, each in one piece from where the hot path is missed to
 * the counters: na_traced_take and na_traced_give with the hooks of mode sites (count.h) inlined.
 * What handing on costs (a call, registers saved, arguments) is a fifth of an event. */
#include "alloc/malloc/small.h"
#include "alloc/malloc/traced.h"
#include "profiler/record/access/access_priv.h"
#include "profiler/record/events/count.h"

NA_INLINE void on_alloc(void **prof, na_record_t *record, void *block, size_t requested,
                        size_t usable, na_entry_t entry, const void *entered) {
    count_on_alloc(prof, record, block, requested, usable, entry, entered, NA_COUNT_USUAL);
}

NA_INLINE void on_free(void **prof, const na_record_t *record, void *block, size_t usable,
                       na_release_t how, const void *moved_to) {
    count_on_free(prof, record, block, usable, how, moved_to, NA_COUNT_USUAL);
}

void *na_traced_sites_alloc(size_t requested, na_entry_t entry, na_tcache_t *tcache, unsigned cls) {
    void *block = na_traced_take(requested, entry, tcache, cls, on_alloc, NA_TRACED);
    return NA_LIKELY(block != NULL) ? block : na_alloc_slow(requested, entry, cls);
}

void na_traced_sites_free(void *block, na_release_t how, na_tcache_t *tcache) {
    if (NA_UNLIKELY(!na_traced_give(block, how, tcache, on_free, NA_TRACED)))
        na_traced_free_rest(block, how, tcache, false);
}

/* How long the block is does not have to be known: usual ones are small. */
void na_traced_noted_free(void *block, na_release_t how, na_tcache_t *tcache) {
    if (NA_UNLIKELY(na_deaths_is_watched((uintptr_t)block, NA_SMALL_MAX) || na_deaths_all()) &&
        NA_LIKELY(atomic_load_explicit(&na_access_on, memory_order_acquire)))
        na_traced_free(block, how, tcache);
    else
        na_traced_sites_free(block, how, tcache);
}
