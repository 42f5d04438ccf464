/* span_list.c - taking blocks from spans and giving them back. */
#include "alloc/central/span_list.h"

#include "alloc/central/batch.h"
#include "alloc/central/links.h"
#include "alloc/central/mixed.h"
#include "alloc/central/sizeclass.h"
#include "alloc/central/tag.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/pressure.h"
#include "alloc/sys/os.h"
#include "pagemap/pagemap.h"

void (*na_span_fault)(const char *what, const void *block);

const char na_list_goes_on[] =
    "a block was freed twice, or written to after it was freed: its list goes on to";
const char na_list_ends[] =
    "a block was freed twice, or written to after it was freed: its list ends at";

static uint32_t in_use(const na_span_t *span) {
    return (uint32_t)span->carved - span->free_count;
}

static void unlist(na_span_list_t *spans, na_span_t *span) {
    if (span->list == NA_SPAN_UNLISTED) return;
    spans->sparse -= span->list < NA_SPAN_LIST_SPARSE;
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
    spans->sparse += list < NA_SPAN_LIST_SPARSE;
}

/* --- pages --- */

static bool take_pages(na_span_t *span, na_span_kind_t kind, uint32_t pages) {
    bool zeroed = false;
    if (kind.chunks != NULL)
        span->start = na_chunks_alloc(kind.chunks, pages, &span->chunk);
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
        na_chunk_free(span->chunk, span->start, span->pages);
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
    if (NA_UNLIKELY(kind.owner >= NA_OWNER_HEAP)) return NA_TAG_HEAP(kind.owner);
    return slow ? NA_TAG_SLOW : na_tag(kind.cls, kind.owner);
}

static na_span_t *grow(na_span_list_t *spans, na_span_kind_t kind) {
    const na_class_t *c = &na_classes[kind.cls];
    na_span_t *span = na_span_new();
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
                na_pressure_may_add(span->capacity * sizeof(na_record_t));
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
    if (NA_UNLIKELY(na_harden != 0)) {
        na_link_sign(last);
        if (taken->last != NULL) na_link_sign(taken->last);
    }
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
    if (NA_UNLIKELY(na_pressure_is_exhausted()) && !na_pressure_may_use(first, (size_t)n * size))
        return false;
    uintptr_t last = first + (uintptr_t)(n - 1) * size;
    for (uintptr_t block = first; block != last; block += size)
        *na_block_next((void *)block) = (void *)(block + size);
    if (NA_UNLIKELY(na_harden != 0)) na_links_sign((void *)first, n - 1);
    span->carved = (uint16_t)(span->carved + n);
    append(taken, (void *)first, (void *)last, n);
    return true;
}

/* Takes the next block of more than a page, and writes nothing to it. */
static void carve_one(na_span_t *span, uint32_t size, taken_t *taken) {
    uintptr_t block = span->start + (uintptr_t)span->carved * size;
    if (NA_UNLIKELY(na_pressure_is_exhausted()) && !na_pressure_may_use(block, size)) return;
    span->carved++;
    taken->first = taken->last = (void *)block;
    taken->count = 1;
}

void *na_span_list_take(na_span_list_t *spans, na_span_kind_t kind, uint32_t want, bool may_grow,
                        uint32_t *got) {
    taken_t taken = {0};
    spans->takes++;
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

static bool is_block_start(const na_span_t *span, const void *block) {
    size_t offset = (uintptr_t)block - span->start;
    const na_class_t *c = &na_classes[span->cls];
    uint32_t index = na_block_index(c, offset);
    return index < span->capacity && offset == (size_t)index * c->size;
}

NA_COLD bool na_list_is_one(unsigned cls, const void *list) {
    na_span_t *span = na_span_of(list);
    return span != NULL && !na_is_mixed(span) && span->cls == cls && is_block_start(span, list) &&
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
        if (NA_LIKELY(span != NULL) && na_is_mixed(span)) return span; /* na_mix_give looks */
        if (NA_UNLIKELY(span == NULL || span->cls != cls)) {
            na_span_fault("a freed block was written to, and now links to", *list);
            *list = NULL; /* nothing behind it can be found */
            *left = 0;
            return NULL;
        }
        if (NA_LIKELY(is_block_start(span, *list))) return span;
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
        uint32_t index =
            na_block_index(&na_classes[part->span->cls], (uintptr_t)block - part->span->start);
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
    size_t offset = (uintptr_t)block - span->start;
    return (na_part_t){.span = span,
                       .first = block,
                       .last = block,
                       .count = 1,
                       .blocks = bit_of(na_block_index(&na_classes[span->cls], offset))};
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
    if (na_is_mixed(span)) {
        *list = *na_block_next(block);
        return is_cut(cls, list, left, part);
    }
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
            size_t offset = (uintptr_t)block - span->start;
            uint32_t index = na_block_index(&na_classes[span->cls], offset);
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

size_t na_span_list_give(na_span_list_t *spans, const na_part_t *part, unsigned cls) {
    na_span_t *span = part->span;
    if (na_is_mixed(span)) return na_mix_give(span, cls, part->first, part->count);
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

/* Less than three eighths in use, but some. Without records, which speak of one class. */
bool na_span_list_open(na_span_list_t *spans, na_mixer_t *mixer) {
    for (unsigned list = 0; list < NA_SPAN_LIST_SPARSE; list++)
        for (na_span_t *span = spans->partial[list]; span != NULL; span = span->next) {
            if (in_use(span) == 0 || span->records != NULL) continue;
            unlist(spans, span);
            if (na_mix_open(mixer, span)) {
                spans->count--;
                return true;
            }
            relist(spans, span);
            return false;
        }
    return false;
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
