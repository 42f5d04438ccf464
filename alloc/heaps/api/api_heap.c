/* api_heap.c - the heap functions of numalloc.h.
 *
 * A heap is one na_heap_t, or, where its blocks are to lie on the node of the thread that asks, or
 * of the threads that free (alloc/heaps/consumer.h), one for each node, made when it is first
 * wanted there. */
#include <errno.h>
#include <string.h>

#include "alloc/api/fill_struct.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/thread/attach.h"
#include "alloc/heaps/api/api_heap.h"
#include "alloc/heaps/heap.h"
#include "alloc/heaps/heap_blocks.h"
#include "numalloc/numalloc.h"
#include "pagemap/pagemap.h"

enum { NAME_SIZE = 48, WORDS = NA_OS_NODES / 64 };

struct numalloc_heap {
    /* NULL, or on a machine with several nodes one place for each, and for the pseudo-node. */
    _Atomic(na_heap_t *) *by_node;
    na_heap_t *only;         /* NULL: by node */
    na_consumer_t *consumer; /* NULL, or whose node's part is taken from once it is known, */
    bool learns;             /* which it is asked for */
    na_heap_kind_t kind;
    char name[NAME_SIZE];
    uint64_t turns[WORDS]; /* kind.turns */
    struct numalloc_heap *next_unused;
};
_Static_assert(sizeof(numalloc_heap_t) + sizeof(na_heap_t) < 1024,
               "less than 1 KiB, as documented");

static numalloc_heap_t *unused_heaps; /* structs; guarded by na_heaps_lock */

static numalloc_heap_t *take_heap_struct(void) {
    na_lock(&na_heaps_lock);
    numalloc_heap_t *heap = unused_heaps;
    if (heap != NULL) unused_heaps = heap->next_unused;
    na_unlock(&na_heaps_lock);
    if (heap == NULL) return na_meta_alloc(sizeof *heap, NA_CACHE_LINE);
    *heap = (numalloc_heap_t){.by_node = heap->by_node, .consumer = heap->consumer};
    return heap;
}

static void leave_heap_struct(numalloc_heap_t *heap) {
    na_lock(&na_heaps_lock);
    heap->next_unused = unused_heaps;
    unused_heaps = heap;
    na_unlock(&na_heaps_lock);
}

/* --- making --- */

static int usable_node(int id) {
    int node = id < 0 ? -1 : na_node_dense((unsigned)id);
    return node >= 0 && na_node_usable((unsigned)node) ? node : -1;
}

/* The nearest usable node to the thread's, with processors or without; the thread's own if there is
 * none of the kind. */
static unsigned nearest_node(bool with_cpus) {
    unsigned here = na_node_current();
    for (unsigned i = 0; i < na_node_count; i++) {
        unsigned node = na_node_nearest(here, i);
        if (na_node_usable(node) && na_node_has_cpus(node) == with_cpus) return node;
    }
    return here;
}

/* The nodes of the options as a set; false: one is not usable. */
static bool read_turns(const numalloc_heap_options_t *options, uint64_t turns[WORDS]) {
    if ((options->nodes == NULL) != (options->node_count == 0)) return false;
    for (size_t i = 0; i < options->node_count; i++) {
        if (usable_node(options->nodes[i]) < 0) return false;
        turns[options->nodes[i] / 64] |= UINT64_C(1) << (options->nodes[i] % 64);
    }
    for (unsigned node = 0; node < na_node_count && options->node_count == 0; node++) {
        unsigned id = na_node_system_id(node);
        if (na_node_usable(node)) turns[id / 64] |= UINT64_C(1) << (id % 64);
    }
    return true;
}

/* Of a later version's options: a member is used that this one does not know. */
static bool has_more(const numalloc_heap_options_t *options) {
    if (options->size == 0) return false;
    if (options->size < sizeof *options) return true;
    const unsigned char *bytes = (const unsigned char *)options;
    for (size_t i = sizeof *options; i < options->size; i++)
        if (bytes[i] != 0) return true;
    return false;
}

/* What the options ask for; false: they make no sense. `turns` becomes the heap's. */
static bool read_options(const numalloc_heap_options_t *options, na_heap_kind_t *kind,
                         uint64_t turns[WORDS]) {
    unsigned known = NUMALLOC_HEAP_OWN_LINES | NUMALLOC_HEAP_HUGE_PAGES;
    if ((options->flags & ~known) != 0 || has_more(options)) return false;
    kind->own_lines = (options->flags & NUMALLOC_HEAP_OWN_LINES) != 0;
    kind->huge = (options->flags & NUMALLOC_HEAP_HUGE_PAGES) != 0;
    int node;
    switch (options->place) {
    case NUMALLOC_HEAP_LOCAL:
        return true;
    case NUMALLOC_HEAP_NODE:
        node = usable_node(options->node);
        if (node < 0) return false;
        kind->node = (uint8_t)node;
        break;
    case NUMALLOC_HEAP_INTERLEAVED:
        if (!read_turns(options, turns)) return false;
        if (!na_node_many) return true;
        kind->node = NA_NODE_ANY;
        kind->turns = turns;
        break;
    case NUMALLOC_HEAP_FIRST_TOUCH:
        if (!na_node_many) return true;
        kind->node = NA_NODE_ANY;
        break;
    case NUMALLOC_HEAP_NEAR:
        kind->node = (uint8_t)nearest_node(true);
        break;
    case NUMALLOC_HEAP_FAR:
        kind->node = (uint8_t)nearest_node(false);
        break;
    case NUMALLOC_HEAP_CONSUMER:
        break;
    default:
        return false;
    }
    kind->on_node = true;
    return true;
}

/* Of a heap with a part for each node: room for these, and who frees, if that is to be learned. */
static bool add_by_node(numalloc_heap_t *heap, bool learns) {
    if (heap->by_node == NULL)
        heap->by_node = na_meta_alloc((NA_NODE_ANY + 1) * sizeof *heap->by_node, NA_CACHE_LINE);
    if (heap->by_node == NULL || !learns) return heap->by_node != NULL;
    if (heap->consumer == NULL)
        heap->consumer = na_meta_alloc(sizeof *heap->consumer, NA_CACHE_LINE);
    if (heap->consumer == NULL) return false;
    na_consumer_begin(heap->consumer);
    heap->kind.consumer = heap->consumer;
    heap->learns = true;
    return true;
}

static numalloc_heap_t *make_heap(const numalloc_heap_options_t *options, na_heap_kind_t kind,
                                  const uint64_t turns[WORDS]) {
    numalloc_heap_t *heap = take_heap_struct();
    if (heap == NULL) return NULL;
    heap->kind = kind;
    if (options->name != NULL)
        for (size_t i = 0; i < NAME_SIZE - 1 && options->name[i] != 0; i++)
            heap->name[i] = options->name[i];
    memcpy(heap->turns, turns, sizeof heap->turns);
    if (kind.turns != NULL) heap->kind.turns = heap->turns;
    bool learns = options->place == NUMALLOC_HEAP_CONSUMER;
    if (na_node_many && (learns || !kind.on_node)
            ? add_by_node(heap, learns)
            : (heap->only = na_heap_make(heap->kind, heap)) != NULL)
        return heap;
    leave_heap_struct(heap);
    return NULL;
}

numalloc_heap_t *numalloc_heap_create(const numalloc_heap_options_t *options) {
    static const numalloc_heap_options_t none;
    na_init();
    na_heap_kind_t kind = {0};
    uint64_t turns[WORDS] = {0};
    if (options == NULL) options = &none;
    if (!read_options(options, &kind, turns)) {
        errno = EINVAL;
        return NULL;
    }
    numalloc_heap_t *heap = make_heap(options, kind, turns);
    if (heap == NULL) errno = ENOMEM;
    return heap;
}

/* --- blocks --- */

/* The heap's part on the thread's node, or on the consumer's, made now. NULL: no memory. */
static NA_COLD na_heap_t *make_part(numalloc_heap_t *heap, uint8_t node) {
    na_heap_kind_t kind = heap->kind;
    kind.node = node;
    if (node == NA_NODE_ANY) {
        na_tcache_t *tcache = na_tcache_enter();
        kind.node = tcache != NULL ? tcache->node : (uint8_t)na_tcache_node_for_thread();
        if (tcache != NULL) na_tcache_leave(tcache);
    }
    na_heap_t *none = NULL, *part = na_heap_make(kind, heap);
    if (part == NULL || atomic_compare_exchange_strong(&heap->by_node[kind.node], &none, part))
        return part;
    na_heap_destroy(part); /* another thread was faster */
    return none;
}

NA_INLINE na_heap_t *part_of(numalloc_heap_t *heap) {
    if (NA_LIKELY(heap->only != NULL)) return heap->only;
    uint8_t learned = NA_NODE_ANY;
    if (heap->learns) learned = atomic_load_explicit(&heap->consumer->node, memory_order_relaxed);
    unsigned node = learned != NA_NODE_ANY ? learned : na_self->node;
    na_heap_t *part = atomic_load_explicit(&heap->by_node[node], memory_order_acquire);
    return NA_LIKELY(part != NULL) ? part : make_part(heap, learned);
}

static NA_COLD void *no_memory(void) {
    errno = ENOMEM;
    return NULL;
}

NA_RACES_WITH_EMPTY na_heap_t *na_heap_part(numalloc_heap_t *heap) {
    return part_of(heap);
}

NA_RACES_WITH_EMPTY void *numalloc_heap_malloc(numalloc_heap_t *heap, size_t size) {
    na_heap_t *part = part_of(heap);
    return NA_LIKELY(part != NULL) ? na_heap_alloc(part, size, NA_ENTRY_MALLOC) : no_memory();
}

NA_RACES_WITH_EMPTY void *numalloc_heap_calloc(numalloc_heap_t *heap, size_t count, size_t size) {
    size_t bytes;
    na_heap_t *part = part_of(heap);
    if (part == NULL || __builtin_mul_overflow(count, size, &bytes)) return no_memory();
    bool zeroed = false;
    void *block = bytes <= NA_SMALL_MAX
                      ? na_heap_alloc(part, bytes, NA_ENTRY_CALLOC)
                      : na_heap_alloc_slow(part, bytes, NA_CLASS_STEP, NA_ENTRY_CALLOC, &zeroed);
    if (block != NULL && !zeroed) memset(block, 0, bytes);
    return block;
}

void *numalloc_heap_aligned(numalloc_heap_t *heap, size_t alignment, size_t size) {
    if (!na_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    na_heap_t *part = part_of(heap);
    return part != NULL ? na_heap_alloc_slow(part, size, alignment, NA_ENTRY_ALIGNED, NULL)
                        : no_memory();
}

/* The heap of a block's span, or NULL. */
static numalloc_heap_t *span_heap(const na_span_t *span) {
    if (span == NULL || !na_span_is_others(span)) return NULL;
    return na_heap_of_owner(span->owner)->program;
}

void *numalloc_heap_realloc(numalloc_heap_t *heap, void *block, size_t size) {
    if (block == NULL) return numalloc_heap_malloc(heap, size);
    if (size == 0 || span_heap(na_span_of(block)) == heap) return NA_FN(realloc)(block, size);
    size_t have = NA_FN(malloc_usable_size)(block);
    void *fresh = numalloc_heap_malloc(heap, size);
    if (fresh == NULL) return NULL;
    memcpy(fresh, block, have < size ? have : size);
    NA_FN(free)(block);
    return fresh;
}

numalloc_heap_t *numalloc_heap_of(const void *block) {
    return span_heap(na_span_of(block));
}

/* --- the whole --- */

/* Calls `visit` for each part that there is. */
static void each_part(numalloc_heap_t *heap, void (*visit)(na_heap_t *part, void *arg), void *arg) {
    if (heap->only != NULL) {
        visit(heap->only, arg);
        return;
    }
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node)) {
        na_heap_t *part = atomic_load_explicit(&heap->by_node[node], memory_order_acquire);
        if (part != NULL) visit(part, arg);
    }
}

static void trim_part(na_heap_t *part, void *arg) {
    *(size_t *)arg += na_heap_trim_cached(part);
}

size_t numalloc_heap_trim(numalloc_heap_t *heap) {
    size_t bytes = 0;
    each_part(heap, trim_part, &bytes);
    return bytes;
}

static void add_part(na_heap_t *part, void *arg) {
    na_heap_add_sums(part, arg);
}

int na_heap_consumer(const numalloc_heap_t *heap) {
    if (heap == NULL || !heap->learns) return -1;
    unsigned node = atomic_load_explicit(&heap->consumer->node, memory_order_relaxed);
    return node < na_node_count ? (int)na_node_system_id(node) : -1;
}

void numalloc_heap_read_stats(numalloc_heap_t *heap, numalloc_heap_stats_t *stats, size_t size) {
    na_heap_sums_t sums = {0};
    each_part(heap, add_part, &sums);
    bool placed = heap->only != NULL && heap->only->node < na_node_count;
    const numalloc_heap_stats_t all = {
        .name = heap->name,
        .node = placed ? (int)na_node_system_id(heap->only->node) : na_heap_consumer(heap),
        .live = sums.live,
        .large = sums.large,
        .in_spans = sums.in_spans,
    };
    na_fill_struct(stats, size, &all, sizeof all);
}

static void destroy_part(na_heap_t *part, void *arg) {
    (void)arg;
    na_heap_destroy(part);
}

void numalloc_heap_destroy(numalloc_heap_t *heap) {
    if (heap == NULL) return;
    each_part(heap, destroy_part, NULL);
    if (heap->only == NULL)
        for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
            atomic_store_explicit(&heap->by_node[node], NULL, memory_order_relaxed);
    leave_heap_struct(heap);
}
