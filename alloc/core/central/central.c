/* central.c - transfer cache and the shared spans of a node. */
#include "alloc/core/central/central.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/core/central/block.h"
#include "alloc/core/central/inbox.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "pagemap/pagemap.h"

/* --- Taking blocks from spans and giving them back --- */

void (*na_span_fault)(const char *what, const void *block);
const na_chunk_source_t *na_chunk_source;

const char na_list_goes_on[] =
    "a block was freed twice, or written to after it was freed: its list goes on to";
const char na_list_ends[] =
    "a block was freed twice, or written to after it was freed: its list ends at";

static uint32_t in_use(const na_span_t *span) {
    return (uint32_t)span->carved - span->free_count;
}

static void unlist(na_span_list_t *spans, na_span_t *span) {
    if (span->list == NA_SPAN_UNLISTED) return;
    if (span->prev != NULL)
        span->prev->next = span->next;
    else
        spans->lists[span->list] = span->next;
    if (span->next != NULL) span->next->prev = span->prev;
    span->prev = span->next = NULL;
    span->list = NA_SPAN_UNLISTED;
}

/* Puts the span on the list where its occupancy says it belongs, or on none. */
static void relist(na_span_list_t *spans, na_span_t *span) {
    bool can_give = span->free_count != 0 || span->carved < span->capacity;
    uint32_t list = can_give       ? in_use(span) * NA_SPAN_LIST_LISTS / span->capacity
                    : spans->whole ? NA_SPAN_LIST_FULL
                                   : NA_SPAN_UNLISTED;
    if (list == span->list) return;
    unlist(spans, span);
    if (list == NA_SPAN_UNLISTED) return;
    span->prev = NULL;
    span->next = spans->lists[list];
    if (span->next != NULL) span->next->prev = span;
    spans->lists[list] = span;
    span->list = (uint8_t)list;
}

/* --- pages --- */

static bool take_pages(na_span_t *span, na_span_kind_t kind, uint32_t pages) {
    bool zeroed = false;
    if (kind.chunks != NULL)
        span->start = na_chunk_source->take(kind.chunks, pages, &span->chunk);
    else if (na_class_fills(kind.cls))
        span->start = na_pageheap_alloc_filled(kind.node, pages, &zeroed);
    else
        span->start = na_pageheap_alloc(kind.node, pages, 1, &zeroed);
    if (span->start == 0) return false;
    span->zeroed = zeroed;
    span->pages = pages;
    span->dedicated = kind.chunks != NULL;
    span->home = kind.node;
    /* A stray lies on another node. */
    span->node = span->dedicated ? kind.node : (uint8_t)na_pageheap_node_of(span->start);
    return true;
}

/* Of a span that is not in the page map; it ends. */
static void give_pages_back(na_span_t *span) {
    if (NA_UNLIKELY(span->dedicated)) {
        na_chunk_source->give(span->chunk, span->start, span->pages);
    } else {
        if (NA_UNLIKELY(span->home != span->node))
            na_pageheap_count_stray(span->home, span->node, span->pages, false);
        if (na_class_fills(span->cls))
            na_pageheap_free_filled(span->node, span->start, span->pages);
        else
            na_pageheap_free(span->node, span->start, span->pages);
    }
    na_span_delete(span);
}

static size_t release(na_span_list_t *spans, na_span_t *span) {
    size_t bytes = (size_t)span->pages << NA_PAGE_SHIFT;
    unlist(spans, span);
    spans->count--;
    na_pagemap_remove(span);
    give_pages_back(span);
    return bytes;
}

/* What free learns of its pages. */
static uint32_t tag_of(na_span_kind_t kind, bool slow) {
    if (NA_UNLIKELY(kind.owner >= NA_OWNER_OTHERS)) return NA_TAG_OTHERS(kind.owner);
    return slow ? NA_TAG_SLOW : na_tag(kind.cls, kind.owner);
}

static na_span_t *grow(na_span_list_t *spans, na_span_kind_t kind) {
    const na_class_t *c = &na_classes[kind.cls];
    na_span_t *span = na_span_new(kind.node);
    if (span == NULL) return NULL;
    if (!take_pages(span, kind, na_pressure_is_low() ? c->dense_pages : c->span_pages)) {
        na_span_delete(span);
        return NULL;
    }
    span->capacity = (uint16_t)(span->pages * NA_PAGE_SIZE / c->size);
    span->each = c->size;
    span->reciprocal = c->reciprocal;
    span->cls = kind.cls;
    span->owner = kind.owner;
    span->sampled = kind.sampled;
    bool slow = kind.sampled || na_every_event;
    bool recorded = kind.sampled || na_every_is_recorded();
    if (recorded) span->born = atomic_load_explicit(&na_noticed_session, memory_order_acquire);
    bool room = !recorded || NA_LIKELY(!na_pressure_is_exhausted()) ||
                na_limits_ask(span->capacity * sizeof(na_record_t), true) != 0;
    if (!room || (recorded && !na_span_add_records(span)) ||
        !na_pagemap_enter(span, tag_of(kind, slow))) {
        give_pages_back(span);
        return NULL;
    }
    spans->count++;
    relist(spans, span);
    return span;
}

static na_span_t *fullest(const na_span_list_t *spans) {
    for (unsigned list = NA_SPAN_LIST_LISTS; list-- > 0;)
        if (spans->partial[list] != NULL) return spans->partial[list];
    return NULL;
}

/* Blocks that were taken so far, as a list. */
typedef struct taken {
    void *first, *last;
    uint32_t count;
} taken_t;

NA_INLINE void append(taken_t *taken, void *first, void *last, uint32_t count) {
    *na_block_next(last) = NULL;
    if (taken->first == NULL)
        taken->first = first;
    else
        *na_block_next(taken->last) = first;
    na_link_sign(last);
    if (taken->last != NULL) na_link_sign(taken->last);
    taken->last = last;
    taken->count += count;
}

/* Takes the blocks up to the end of the system page that the next one begins in, in the order of
 * addresses. False: there is no memory for them. */
static bool carve_fresh(na_span_t *span, uint32_t size, taken_t *taken) {
    uintptr_t first = span->start + (uintptr_t)span->carved * size;
    uintptr_t page_end = na_align_down(first, na_os_page) + na_os_page;
    uint32_t n = (uint32_t)((page_end - first + size - 1) / size);
    uint32_t left = (uint32_t)(span->capacity - span->carved);
    if (n > left) n = left;
    if (NA_UNLIKELY(na_pressure_is_exhausted()) && !na_limits->may_use(first, (size_t)n * size))
        return false;
    uintptr_t last = first + (uintptr_t)(n - 1) * size;
    for (uintptr_t block = first; block != last; block += size)
        *na_block_next((void *)block) = (void *)(block + size);
    na_link_sign_list((void *)first, n - 1);
    span->carved = (uint16_t)(span->carved + n);
    append(taken, (void *)first, (void *)last, n);
    return true;
}

/* Takes the next block of more than a page, and writes nothing to it. */
static void carve_one(na_span_t *span, uint32_t size, taken_t *taken) {
    uintptr_t block = span->start + (uintptr_t)span->carved * size;
    if (NA_UNLIKELY(na_pressure_is_exhausted()) && !na_limits->may_use(block, size)) return;
    span->carved++;
    taken->first = taken->last = (void *)block;
    taken->count = 1;
}

void *na_span_list_take(na_span_list_t *spans, na_span_kind_t kind, uint32_t want, bool may_grow,
                        uint32_t *got) {
    taken_t taken = {0};
    while (taken.count < want) {
        na_span_t *span = fullest(spans);
        if (span == NULL && (!may_grow || (span = grow(spans, kind)) == NULL)) break;
        if (span->free_count != 0) {
            append(&taken, span->free, span->free_tail, span->free_count);
            span->free = span->free_tail = NULL;
            span->free_count = 0;
            span->at_home = 0;
        } else if (kind.untouched != NULL && !na_class_fills(kind.cls)) {
            if (taken.count == 0) {
                carve_one(span, na_classes[kind.cls].size, &taken);
                *kind.untouched = taken.count == 1 && span->zeroed;
            }
            relist(spans, span);
            break;
        } else if (NA_UNLIKELY(!carve_fresh(span, na_classes[kind.cls].size, &taken))) {
            break;
        }
        relist(spans, span);
    }
    *got = taken.count;
    return taken.first;
}

NA_COLD bool na_list_is_one(unsigned cls, const void *list) {
    na_span_t *span = na_span_of(list);
    return span != NULL && span->cls == cls && na_is_block_start(span, list) &&
           *na_block_next((void *)(uintptr_t)list) == NULL;
}

/* The list of `left` blocks, of which `last` was the last that it had, does not end there. */
static NA_COLD void say_end(unsigned cls, void **list, uint32_t *left, const void *last) {
    if (*left > 1)
        na_span_fault(na_list_ends, last);
    else if (*left == 0 && !na_list_is_one(cls, *list))
        na_span_fault(na_list_goes_on, *list);
    *list = NULL;
    *left = 0;
}

/* The span of the first block that is fit to go home, dropping those before it that are not. */
static na_span_t *first_span(void **list, uint32_t *left, unsigned cls) {
    const void *last = NULL;
    while (*list != NULL) {
        na_span_t *span = na_span_of(*list);
        if (NA_UNLIKELY(span == NULL || span->cls != cls)) {
            na_span_fault("a freed block was written to, and now links to", *list);
            *list = NULL; /* nothing behind it can be found */
            *left = 0;
            return NULL;
        }
        if (NA_LIKELY(na_is_block_start(span, *list))) return span;
        na_span_fault("free of", *list);
        last = *list;
        *list = *na_block_next(*list);
        if (--*left == 0 && *list != NULL) say_end(cls, list, left, last);
    }
    if (NA_UNLIKELY(*left != 0)) say_end(cls, list, left, last);
    return NULL;
}

static uint64_t bit_of(uint32_t index) {
    return UINT64_C(1) << index % 64;
}

/* The part is longer than what is left of its list, which is a circle or goes on where it should
 * end. Keeps each block once, and drops the rest. */
static NA_COLD void cut_circle(na_part_t *part, void **list, uint32_t *left) {
    uint64_t seen[NA_CAPACITY_MAX / 64] = {0};
    void *block = part->first;
    uint32_t most = *left;
    part->blocks = 0;
    for (part->count = 0;; part->count++) {
        if (part->count == most) { /* no circle, or one of several spans */
            *left = 0;
            *list = block;
            say_end(part->span->cls, list, left, part->last);
            *na_block_next(part->last) = NULL;
            return;
        }
        uint32_t index = na_span_index(part->span, block);
        if (seen[index / 64] >> index % 64 & 1) break;
        seen[index / 64] |= bit_of(index);
        part->blocks |= bit_of(index);
        part->last = block;
        block = *na_block_next(block);
    }
    na_span_fault("double free of", block);
    *na_block_next(part->last) = NULL;
    *list = NULL;
    *left = 0;
}

na_part_t na_part_of_one(na_span_t *span, void *block) {
    return (na_part_t){.span = span,
                       .first = block,
                       .last = block,
                       .count = 1,
                       .blocks = bit_of(na_span_index(span, block))};
}

/* The part is off the list. */
NA_INLINE bool is_cut(unsigned cls, void **list, uint32_t *left, const na_part_t *part) {
    *left -= part->count;
    if (NA_UNLIKELY((*list == NULL) != (*left == 0))) say_end(cls, list, left, part->last);
    return true;
}

bool na_part_cut(void **list, uint32_t *left, unsigned cls, na_part_t *part) {
    na_span_t *span = first_span(list, left, cls);
    if (span == NULL) return false;
    const na_class_t *c = &na_classes[cls];
    size_t bytes = (size_t)span->pages << NA_PAGE_SHIFT;
    void *block = *list;
    *part = na_part_of_one(span, block);
    const uint32_t most = *left; /* in a circle, too */
    for (;;) {
        void *next = *na_block_next(block);
        size_t offset = (uintptr_t)next - span->start;
        uint32_t index = na_block_index(c, offset);
        if (offset >= bytes || offset != (size_t)index * c->size) {
            part->last = block;
            *list = next;
            return is_cut(cls, list, left, part);
        }
        block = next;
        part->blocks |= bit_of(index);
        if (NA_UNLIKELY(++part->count > most)) {
            cut_circle(part, list, left);
            return true;
        }
    }
}

static bool is_alone(const na_span_list_t *spans, const na_span_t *span) {
    if (span->prev != NULL || span->next != NULL) return false;
    for (unsigned list = 0; list < NA_SPAN_LIST_LISTS; list++)
        if (spans->partial[list] != NULL && spans->partial[list] != span) return false;
    return true;
}

/* More blocks come home than are out, or one of them is on the span's list already. */
static NA_COLD void name_the_second(const na_part_t *part) {
    const na_span_t *span = part->span;
    uint64_t seen[NA_CAPACITY_MAX / 64] = {0};
    void *of[2] = {span->free, part->first};
    uint32_t counts[2] = {span->free_count, part->count};
    for (unsigned list = 0; list < 2; list++) {
        void *block = of[list];
        for (uint32_t i = 0; i < counts[list]; i++, block = *na_block_next(block)) {
            uint32_t index = na_span_index(span, block);
            if (index >= span->capacity) break; /* overwritten */
            if (seen[index / 64] >> index % 64 & 1) {
                na_span_fault("double free of", block);
                return;
            }
            seen[index / 64] |= (uint64_t)1 << index % 64;
        }
    }
    na_span_fault("double free of", part->first);
}

size_t na_span_list_give(na_span_list_t *spans, const na_part_t *part) {
    na_span_t *span = part->span;
    bool again = (span->at_home & part->blocks) != 0 && span->capacity <= 64;
    if (NA_UNLIKELY(part->count > in_use(span)) || NA_UNLIKELY(again)) {
        name_the_second(part);
        return 0;
    }
    span->at_home |= part->blocks;
    na_link_set(part->last, span->free);
    if (span->free == NULL) span->free_tail = part->last;
    span->free = part->first;
    span->free_count = (uint16_t)(span->free_count + part->count);
    if (span->free_count == span->carved && !is_alone(spans, span)) return release(spans, span);
    relist(spans, span);
    return 0;
}

size_t na_span_list_trim(na_span_list_t *spans) {
    size_t bytes = 0;
    for (na_span_t *span = spans->partial[0], *next; span != NULL; span = next) {
        next = span->next;
        if (span->free_count == span->carved) bytes += release(spans, span);
    }
    return bytes;
}

void na_span_list_end(na_span_list_t *spans) {
    for (unsigned list = 0; list <= NA_SPAN_LIST_FULL; list++)
        while (spans->lists[list] != NULL)
            release(spans, spans->lists[list]);
}

const na_links_t *na_links;

/* --- what the threads of a node share --- */

enum { TRANSFER_SLOTS = 2 * NA_CACHE_LINE / sizeof(na_batch_t), GIVE_PARTS = NA_BATCH_BLOCKS / 2 };

typedef struct na_central {
    _Alignas(NA_CACHE_LINE) _Atomic(na_batch_t) slots[TRANSFER_SLOTS];
    /* Racing guesses: who put last, and how many slots beyond the first may be used. */
    _Atomic(uint16_t) putter, earned;
    na_lock_t lock; /* guards all below, and what is sampled */
    na_span_list_t spans;
} na_central_t;
_Static_assert(sizeof(na_central_t) <= 4 * NA_CACHE_LINE, "small programs touch a page of 16");

/* What few programs need. */
typedef struct na_central_rare {
    /* Slot by slot: what the last look saw. A batch that is still there at the next is idle. */
    _Atomic(na_batch_t) seen[TRANSFER_SLOTS];
    na_span_list_t sampled;
    void *sampled_blocks; /* taken from `sampled`, not yet handed out */
} na_central_rare_t;

/* The lists of a node, and those of the unbound pseudo-node. */
typedef struct na_centrals {
    na_central_t of[NA_CLASS_COUNT];
    na_central_rare_t rare[NA_CLASS_COUNT];
    na_inbox_t inbox; /* last: on a machine with one node it is not there */
} na_centrals_t;
static _Atomic(na_centrals_t *) centrals[NA_MAX_NODES + 1];

/* NULL: no thread cache of the node was made yet. Threads of other nodes ask, too. */
NA_INLINE na_centrals_t *centrals_of(unsigned node) {
    return atomic_load_explicit(&centrals[node], memory_order_acquire);
}

bool na_central_init(unsigned node) {
    if (centrals_of(node) != NULL) return true;
    size_t size = na_node_many ? sizeof(na_centrals_t) : offsetof(na_centrals_t, inbox);
    na_centrals_t *made = na_meta_alloc(size, NA_CACHE_LINE);
    atomic_store_explicit(&centrals[node], made, memory_order_release);
    return made != NULL;
}

na_inbox_t *na_central_inbox(unsigned node) {
    na_centrals_t *of = na_node_many ? centrals_of(node) : NULL;
    return of != NULL ? &of->inbox : NULL;
}

bool na_transfer_put(unsigned node, unsigned cls, unsigned tcache, na_batch_t batch) {
    na_central_t *c = &centrals_of(node)->of[cls];
    unsigned slots = TRANSFER_SLOTS;
    if (tcache != NA_OWNER_NONE) {
        slots = 1u + atomic_load_explicit(&c->earned, memory_order_relaxed);
        /* No word is written that nobody needs: the line is the lock's, too. */
        if (slots != TRANSFER_SLOTS &&
            atomic_load_explicit(&c->putter, memory_order_relaxed) != tcache)
            atomic_store_explicit(&c->putter, (uint16_t)tcache, memory_order_relaxed);
    }
    for (unsigned i = 0; i < slots; i++) {
        na_batch_t empty = 0;
        if (atomic_load_explicit(&c->slots[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&c->slots[i], &empty, batch,
                                                    memory_order_release, memory_order_relaxed))
            return true;
    }
    return false;
}

bool na_transfer_is_wanted(unsigned node, unsigned cls) {
    return atomic_load_explicit(&centrals_of(node)->of[cls].earned, memory_order_relaxed) != 0;
}

/* One thread cache wants what another puts: let there be more of it next time. */
static void earn_slots(na_central_t *c, unsigned tcache) {
    unsigned putter = atomic_load_explicit(&c->putter, memory_order_relaxed);
    unsigned earned = atomic_load_explicit(&c->earned, memory_order_relaxed);
    if (putter == NA_OWNER_NONE || putter == tcache || earned == TRANSFER_SLOTS - 1) return;
    atomic_store_explicit(&c->earned, (uint16_t)(2 * earned + 1), memory_order_relaxed);
}

na_batch_t na_transfer_take(unsigned node, unsigned cls, unsigned tcache) {
    na_central_t *c = &centrals_of(node)->of[cls];
    earn_slots(c, tcache);
    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        if (atomic_load_explicit(&c->slots[i], memory_order_relaxed) == 0) continue;
        na_batch_t batch = atomic_exchange_explicit(&c->slots[i], 0, memory_order_acquire);
        if (batch != 0) {
            if (NA_LIKELY(na_links == NULL)) na_batch_set_next(batch, 0);
            return batch;
        }
    }
    return 0;
}

void *na_central_take(unsigned node, unsigned cls, uint32_t want, bool may_grow, bool *untouched,
                      uint32_t *got) {
    na_central_t *c = &centrals_of(node)->of[cls];
    na_span_kind_t kind = {.cls = (uint8_t)cls,
                           .node = (uint8_t)node,
                           .owner = (uint16_t)(NA_OWNER_POOL | node),
                           .untouched = untouched};
    na_lock(&c->lock);
    void *blocks = na_span_list_take(&c->spans, kind, want, may_grow, got);
    na_unlock(&c->lock);
    return blocks;
}

size_t na_central_give(unsigned node, unsigned cls, void *list, uint32_t count) {
    na_central_t *c = &centrals_of(node)->of[cls];
    na_part_t parts[GIVE_PARTS];
    unsigned n;
    size_t released = 0;
    count = na_links_check(&list, count);
    do {
        for (n = 0; n < GIVE_PARTS && na_part_cut(&list, &count, cls, &parts[n]);)
            n++;
        na_lock(&c->lock);
        for (unsigned i = 0; i < n; i++)
            released += na_span_list_give(&c->spans, &parts[i]);
        na_unlock(&c->lock);
    } while (n == GIVE_PARTS);
    return released;
}

void *na_sampled_take(unsigned node, unsigned cls) {
    na_central_t *c = &centrals_of(node)->of[cls];
    na_central_rare_t *rare = &centrals_of(node)->rare[cls];
    na_span_kind_t kind = {.cls = (uint8_t)cls,
                           .node = (uint8_t)node,
                           .owner = (uint16_t)(NA_OWNER_POOL | node),
                           .sampled = true};
    na_lock(&c->lock);
    uint32_t got;
    if (rare->sampled_blocks == NULL)
        rare->sampled_blocks = na_span_list_take(&rare->sampled, kind, 1, true, &got);
    void *block = rare->sampled_blocks;
    if (block != NULL && NA_UNLIKELY(!na_link_may_give(cls, block)))
        rare->sampled_blocks = block = NULL;
    if (block != NULL) {
        rare->sampled_blocks = na_link_next(block);
        *(void **)block = NULL;       /* of no use, should something lead here again */
        *na_block_next(block) = NULL; /* where the next one is, is told to nobody */
    }
    na_unlock(&c->lock);
    return block;
}

void na_sampled_give(na_span_t *span, void *block) {
    na_centrals_t *node = centrals_of(span->owner & ~NA_OWNER_POOL);
    na_central_t *c = &node->of[span->cls];
    na_lock(&c->lock);
    na_part_t part = na_part_of_one(span, block);
    na_span_list_give(&node->rare[span->cls].sampled, &part);
    na_unlock(&c->lock);
}

/* Takes the batch out of a slot if it is still `expected`, and returns its blocks to their spans.
 */
static void empty_slot(unsigned node, unsigned cls, unsigned slot, na_batch_t expected) {
    na_central_t *c = &centrals_of(node)->of[cls];
    if (expected != 0 &&
        atomic_compare_exchange_strong_explicit(&c->slots[slot], &expected, 0, memory_order_acquire,
                                                memory_order_relaxed))
        na_central_give(node, cls, na_batch_first(expected), na_batch_count(expected));
}

void na_transfer_decay(unsigned node) {
    if (centrals_of(node) == NULL) return;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (!na_classes[cls].pooled) continue;
        na_central_t *c = &centrals_of(node)->of[cls];
        _Atomic(na_batch_t) *seen_here = centrals_of(node)->rare[cls].seen;
        for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
            na_batch_t now = atomic_load_explicit(&c->slots[i], memory_order_relaxed);
            na_batch_t seen = atomic_load_explicit(&seen_here[i], memory_order_relaxed);
            if (now != seen) atomic_store_explicit(&seen_here[i], now, memory_order_relaxed);
            if (now == 0 || now != seen) continue;
            uint16_t earned = atomic_load_explicit(&c->earned, memory_order_relaxed);
            atomic_store_explicit(&c->earned, earned / 2, memory_order_relaxed);
            empty_slot(node, cls, i, now);
        }
    }
}

void na_central_trim(unsigned node) {
    if (centrals_of(node) == NULL) return;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_central_t *c = &centrals_of(node)->of[cls];
        if (na_classes[cls].pooled)
            for (unsigned i = 0; i < TRANSFER_SLOTS; i++)
                empty_slot(node, cls, i, atomic_load_explicit(&c->slots[i], memory_order_relaxed));
        na_lock(&c->lock);
        na_span_list_trim(&c->spans);
        na_span_list_trim(&centrals_of(node)->rare[cls].sampled);
        na_unlock(&c->lock);
    }
}

void na_central_after_fork_child(void) {
    for (unsigned node = 0; node <= NA_MAX_NODES; node++)
        if (centrals_of(node) != NULL)
            for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
                na_lock_reset(&centrals_of(node)->of[cls].lock);
}
