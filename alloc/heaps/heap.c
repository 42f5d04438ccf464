/* heap.c - the spans and large blocks of heaps of the program's own. */
#include "alloc/heaps/heap.h"

#include "alloc/core/central/block.h"

#include "alloc/core/machine/topology.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"

enum { LOOK_AT = 64 }; /* ended heaps, for one whose lists are all gone */

na_lock_t na_heaps_lock; /* guards what follows, but for `heaps` */
NA_SPARSE static _Atomic(na_heap_t *) heaps[NA_HEAPS_MAX]; /* by owner; constant once set */
static uint32_t made;
static na_heap_t *ended; /* those that were dropped */
static na_heap_t *to_drop;

na_heap_t *na_heap_of_owner(unsigned owner) {
    return atomic_load_explicit(&heaps[owner - NA_OWNER_OTHERS], memory_order_acquire);
}

/* --- life --- */

static na_heap_t *reuse(void) {
    na_heap_t **link = &ended;
    for (unsigned i = 0; i < LOOK_AT && *link != NULL; i++, link = &(*link)->next_ended) {
        na_heap_t *heap = *link;
        if (atomic_load_explicit(&heap->lists, memory_order_acquire) != 0) continue;
        *link = heap->next_ended;
        return heap;
    }
    return NULL;
}

static na_heap_t *new_heap(void) {
    if (made >= NA_HEAPS_MAX) return NULL;
    na_heaps_attach();
    na_heap_t *heap = na_meta_alloc(sizeof *heap, NA_CACHE_LINE);
    if (heap == NULL) return NULL;
    heap->owner = (uint16_t)(NA_OWNER_OTHERS + made);
    heap->key = (uint32_t)heap->owner << NA_HEAP_KEY_SHIFT;
    heap->first_list = heap->owner * NA_HEAP_SPREAD;
    atomic_store_explicit(&heaps[made++], heap, memory_order_release);
    return heap;
}

na_heap_t *na_heap_make(na_heap_kind_t kind, void *program) {
    na_lock(&na_heaps_lock);
    na_heap_t *heap = reuse();
    if (heap == NULL) heap = new_heap();
    na_unlock(&na_heaps_lock);
    if (heap == NULL) return NULL;
    heap->node = kind.node;
    heap->on_node = kind.on_node;
    heap->line_mask = kind.own_lines ? NA_CACHE_LINE - 1 : 0;
    heap->has_chunks = kind.huge || kind.turns != NULL;
    heap->chunks.node = kind.node;
    heap->chunks.huge = kind.huge;
    heap->chunks.turns = kind.turns;
    heap->taken = 0;
    heap->program = program;
    heap->consumer = kind.consumer;
    atomic_store_explicit(&heap->alive, true, memory_order_release);
    return heap;
}

void na_heap_end(na_heap_t *heap) {
    na_lock(&heap->lock);
    atomic_store_explicit(&heap->alive, false, memory_order_relaxed);
    na_unlock(&heap->lock);
}

void na_heap_each(na_heap_t *heap, void (*visit)(na_span_t *span, void *arg), void *arg) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (heap->of[cls] == NULL) continue;
        for (unsigned list = 0; list <= NA_SPAN_LIST_FULL; list++)
            for (na_span_t *span = heap->of[cls]->lists[list]; span != NULL; span = span->next)
                visit(span, arg);
    }
}

static uint64_t blocks_of(const na_span_list_t *spans) {
    uint64_t blocks = 0;
    for (unsigned list = 0; list <= NA_SPAN_LIST_FULL; list++)
        for (const na_span_t *span = spans->lists[list]; span != NULL; span = span->next)
            blocks += (uint64_t)span->carved - span->free_count;
    return blocks;
}

void na_heap_drop_later(na_heap_t *heap) {
    na_lock(&na_heaps_lock);
    heap->next_ended = to_drop;
    to_drop = heap;
    na_unlock(&na_heaps_lock);
}

na_heap_t *na_heap_to_drop(void) {
    na_lock(&na_heaps_lock);
    na_heap_t *heap = to_drop;
    if (heap != NULL) to_drop = heap->next_ended;
    na_unlock(&na_heaps_lock);
    return heap;
}

void na_heap_drop(na_heap_t *heap, uint64_t blocks[NA_CLASS_COUNT]) {
    na_lock(&heap->lock);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (heap->of[cls] == NULL) continue;
        blocks[cls] += blocks_of(heap->of[cls]);
        na_span_list_end(heap->of[cls]);
    }
    na_chunks_trim(&heap->chunks);
    na_unlock(&heap->lock);
    na_lock(&na_heaps_lock);
    heap->next_ended = ended;
    ended = heap;
    na_unlock(&na_heaps_lock);
}

/* --- small blocks --- */

static na_span_list_t *list_of(na_heap_t *heap, unsigned cls) {
    na_span_list_t *spans = heap->of[cls];
    if (NA_LIKELY(spans != NULL)) return spans;
    spans = na_meta_alloc(sizeof *spans, _Alignof(na_span_list_t));
    if (spans == NULL) return NULL;
    spans->whole = true;
    return heap->of[cls] = spans;
}

void *na_heap_take(na_heap_t *heap, unsigned cls, uint32_t want, uint32_t *got) {
    na_span_kind_t kind = {.cls = (uint8_t)cls,
                           .node = heap->node,
                           .owner = heap->owner,
                           .chunks = heap->has_chunks ? &heap->chunks : NULL};
    void *blocks = NULL;
    *got = 0;
    na_lock(&heap->lock);
    na_span_list_t *spans = list_of(heap, cls);
    if (spans != NULL) blocks = na_span_list_take(spans, kind, want, true, got);
    heap->taken += (uint64_t)*got * na_classes[cls].size;
    na_unlock(&heap->lock);
    return blocks;
}

bool na_heap_give(na_heap_t *heap, unsigned cls, void *list, uint32_t count) {
    na_part_t part;
    na_lock(&heap->lock);
    bool alive = atomic_load_explicit(&heap->alive, memory_order_relaxed);
    if (alive) count = na_links_check(&list, count);
    while (alive && na_part_cut(&list, &count, cls, &part)) {
        heap->taken -= (uint64_t)part.count * na_classes[cls].size;
        na_span_list_give(heap->of[cls], &part);
    }
    na_unlock(&heap->lock);
    return alive;
}

/* --- large blocks --- */

void na_heap_add_large(na_heap_t *heap, na_span_t *span) {
    na_lock(&heap->lock);
    span->owner = heap->owner;
    span->run = 0; /* its free is to come by here */
    span->prev = NULL;
    span->next = heap->large;
    if (span->next != NULL) span->next->prev = span;
    heap->large = span;
    na_unlock(&heap->lock);
}

static void unlink_large(na_heap_t *heap, na_span_t *span) {
    if (span->prev != NULL)
        span->prev->next = span->next;
    else
        heap->large = span->next;
    if (span->next != NULL) span->next->prev = span->prev;
    span->next = span->prev = NULL;
    span->owner = NA_OWNER_NONE;
}

void na_heap_remove_large(na_span_t *span, unsigned node) {
    na_heap_t *heap = na_heap_of_owner(span->owner);
    na_lock(&heap->lock);
    unlink_large(heap, span);
    na_unlock(&heap->lock);
    if (heap->consumer != NULL) na_consumer_freed(heap->consumer, node, NA_CONSUMER_LARGE);
}

na_span_t *na_heap_next_large(na_heap_t *heap) {
    na_lock(&heap->lock);
    na_span_t *span = heap->large;
    if (span != NULL) unlink_large(heap, span);
    na_unlock(&heap->lock);
    return span;
}

/* --- the whole --- */

size_t na_heap_trim(na_heap_t *heap) {
    size_t bytes = 0;
    na_lock(&heap->lock);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        if (heap->of[cls] != NULL) bytes += na_span_list_trim(heap->of[cls]);
    if (heap->has_chunks) bytes = na_chunks_trim(&heap->chunks);
    na_unlock(&heap->lock);
    return bytes;
}

static void add_span(na_span_t *span, void *arg) {
    *(uint64_t *)arg += (uint64_t)span->pages << NA_PAGE_SHIFT;
}

void na_heap_add_sums(na_heap_t *heap, na_heap_sums_t *sums) {
    na_lock(&heap->lock);
    na_heap_each(heap, add_span, &sums->in_spans);
    uint64_t large = 0;
    for (const na_span_t *span = heap->large; span != NULL; span = span->next)
        large += (uint64_t)span->pages << NA_PAGE_SHIFT;
    sums->live += heap->taken + large;
    sums->large += large;
    sums->in_spans += large;
    na_unlock(&heap->lock);
}

/* --- fork --- */

/* The last may be missing: whoever was making it is not here. */
static na_heap_t *heap_at(uint32_t i) {
    return i < made ? atomic_load_explicit(&heaps[i], memory_order_relaxed) : NULL;
}

void na_heap_after_fork_child(void) {
    na_lock_reset(&na_heaps_lock);
    na_heap_t *heap;
    for (uint32_t i = 0; (heap = heap_at(i)) != NULL; i++)
        na_lock_reset(&heap->lock);
    if (made != 0 && heap_at(made - 1) == NULL) made--;
}

void na_heap_forget_lists(void) {
    na_heap_t *heap;
    for (uint32_t i = 0; (heap = heap_at(i)) != NULL; i++)
        atomic_store_explicit(&heap->lists, 0, memory_order_relaxed);
}
