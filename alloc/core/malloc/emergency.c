/* emergency.c - see emergency.h. */
#include "alloc/core/malloc/emergency.h"

#include <stdatomic.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/misuse.h"
#include "pagemap/pagemap.h"

/* na_span_t.emergency: {class : 8, blocks home : 12, blocks taken : 12}; 0: another kind of span.
 * Who reads the word of a span that has ended meanwhile finds it changed; or, where the span has
 * become the same again, a block there is as good. */
#define TAKEN_ONE 1u
#define HOME_ONE  (1u << 12)
#define CLASS_ONE (1u << 24)
_Static_assert(NA_CAPACITY_MAX < 1u << 12 && NA_CLASS_COUNT <= 1u << 8, "they fit");

NA_INLINE uint32_t taken_of(uint32_t word) {
    return word & (HOME_ONE - 1);
}

NA_INLINE uint32_t home_of(uint32_t word) {
    return word / HOME_ONE & (HOME_ONE - 1);
}

/* --- small blocks --- */

/* The spans that blocks are taken from. */
static _Atomic(na_span_t *) current[NA_CLASS_COUNT];

static void end_emergency_span(na_span_t *span) {
    size_t bytes = (size_t)span->pages << NA_PAGE_SHIFT;
    na_pagemap_remove(span);
    na_os_unmap((void *)span->start, bytes);
    na_limit_release(bytes);
    na_span_delete(span);
}

/* A span whose first block is taken. */
static na_span_t *make_emergency_span(unsigned cls, unsigned node) {
    const na_class_t *c = &na_classes[cls];
    size_t bytes = (size_t)c->span_pages << NA_PAGE_SHIFT;
    if (!na_limit_charge(bytes)) return NULL;
    na_span_t *span = na_span_new(node);
    void *start = span != NULL ? na_os_reserve(bytes, NA_PAGE_SIZE) : NULL;
    if (start == NULL || !na_os_commit(start, bytes)) {
        if (start != NULL) na_os_unmap(start, bytes);
        if (span != NULL) na_span_delete(span);
        na_limit_release(bytes);
        return NULL;
    }
    na_place(start, bytes, node, na_place_binds(node));
    span->start = (uintptr_t)start;
    span->pages = c->span_pages;
    span->capacity = span->carved = c->capacity;
    span->each = c->size;
    span->reciprocal = c->reciprocal;
    span->cls = (uint8_t)cls;
    span->owner = NA_OWNER_NONE;
    span->node = span->home = (uint8_t)node;
    span->born = atomic_load_explicit(&na_noticed_session, memory_order_acquire);
    atomic_store_explicit(&span->emergency, cls * CLASS_ONE + TAKEN_ONE, memory_order_release);
    if ((na_every_is_recorded() && !na_span_add_records(span)) ||
        !na_pagemap_enter(span, NA_TAG_SLOW)) {
        end_emergency_span(span);
        return NULL;
    }
    return span;
}

/* A block of the span, which may be another one by now. NULL: it has none. */
static void *take_from_span(na_span_t *span, unsigned cls) {
    uint32_t word = atomic_load_explicit(&span->emergency, memory_order_acquire);
    for (;;) {
        if (word / CLASS_ONE != cls || taken_of(word) >= na_classes[cls].capacity) return NULL;
        if (atomic_compare_exchange_weak_explicit(&span->emergency, &word, word + TAKEN_ONE,
                                                  memory_order_acq_rel, memory_order_acquire))
            return (char *)span->start + (size_t)taken_of(word) * na_classes[cls].size;
    }
}

static void *take_any(unsigned cls, unsigned node) {
    na_span_t *span = atomic_load_explicit(&current[cls], memory_order_acquire);
    void *block = span != NULL ? take_from_span(span, cls) : NULL;
    if (block != NULL) return block;
    na_span_t *made = make_emergency_span(cls, node);
    if (made == NULL) return NULL;
    /* Two threads may make one each: that of the slower has blocks that nobody takes. */
    atomic_store_explicit(&current[cls], made, memory_order_release);
    return (void *)made->start;
}

NA_COLD void *na_emergency_alloc(na_tcache_t *tcache, unsigned cls, size_t requested,
                                 na_entry_t entry) {
    void *block = take_any(cls, tcache != NULL ? tcache->node : na_tcache_node_for_thread());
    if (block == NULL) return NULL;
    na_span_t *span = na_span_of(block);
    na_path_taken(tcache != NULL ? &tcache->track : NULL, span, block, requested,
                  na_classes[cls].size, entry);
    return block;
}

NA_COLD void na_emergency_give(na_span_t *span, void *block) {
    (void)block;                        /* is not handed out again: the span goes as a whole */
    uint32_t capacity = span->capacity; /* from the next line on another may end the span */
    uint32_t before = atomic_fetch_add_explicit(&span->emergency, HOME_ONE, memory_order_acq_rel);
    if (home_of(before) + 1 < capacity) return;
    na_span_t *of_it = span;
    atomic_compare_exchange_strong(&current[before / CLASS_ONE], &of_it, NULL);
    end_emergency_span(span);
}

/* --- deferred --- */

NA_COLD void na_emergency_free(na_span_t *span, void *block) {
    (void)na_path_given(NULL, span, block, 0, NA_RELEASE_FREE, NULL); /* no thread to tell of it */
    if (span->cls != 0 && atomic_load_explicit(&span->emergency, memory_order_relaxed) != 0)
        na_emergency_give(span, block);
    else if (span->cls == 0 && (uintptr_t)block == span->start)
        na_large_free_late(NULL, span);
    else
        na_defer_free(block);
}

NA_COLD void na_deferred_drain(na_tcache_t *tcache) {
    if (atomic_load(&na_forking) != 0 || !na_try_lock(&na_deferred_lock)) return;
    atomic_store(&na_deferred_pending, false); /* before the lists are looked at */
    na_tcache_t *ended = na_deferred_take_tcaches();
    while (ended != NULL) {
        na_tcache_t *next = ended->life.next;
        if (!na_tcache_abandon_late(ended)) na_defer_abandon(ended);
        ended = next;
    }
    void *block = na_deferred_take_blocks();
    while (block != NULL) {
        void *next = na_link_next(block);
        na_free_late(tcache, block);
        block = next;
    }
    na_layers_drain(tcache); /* after the blocks */
    na_unlock(&na_deferred_lock);
}
