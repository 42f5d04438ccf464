/* pagemap.c - writing the page map: leaves on demand, spans in and out. */
#include "pagemap/pagemap.h"

#include <stdatomic.h>

#include "alloc/os.h"

na_pagemap_t na_pagemap;

enum { PAGE_SHIFT = 13, HUGE_SHIFT = 21 };
#define HUGE_BYTES ((uintptr_t)1 << HUGE_SHIFT)

/* The leaf for `address`, mapped if it is not there yet. Two threads may race to make one: the
 * loser unmaps its own. */
static na_leaf_t *leaf_for_writing(uintptr_t address) {
    _Atomic(intptr_t) *entry = (_Atomic(intptr_t) *)&na_pagemap.root[address >> NA_LEAF_SHIFT];
    intptr_t distance = atomic_load_explicit(entry, memory_order_acquire);
    if (distance == 0) {
        na_leaf_t *leaf = na_os_map(na_align_up(sizeof *leaf, na_os_page));
        if (leaf == NULL) return NULL;
        intptr_t fresh = (intptr_t)leaf - (intptr_t)&na_pagemap;
        if (atomic_compare_exchange_strong_explicit(entry, &distance, fresh, memory_order_acq_rel,
                                                    memory_order_acquire))
            distance = fresh;
        else
            na_os_unmap(leaf, na_align_up(sizeof *leaf, na_os_page));
    }
    return (na_leaf_t *)((char *)&na_pagemap + distance);
}

/* Visits the entries of a span: pages at both ends, whole hugepages between. */
static bool write_entries(uintptr_t start, uintptr_t end, uint32_t tag, na_span_t *span) {
    bool by_hugepage = end - start >= 2 * HUGE_BYTES;
    uintptr_t first = na_align_up(start, HUGE_BYTES), last = na_align_down(end, HUGE_BYTES);
    for (uintptr_t at = start; at < end;) {
        na_leaf_t *leaf = leaf_for_writing(at);
        if (leaf == NULL) return false;
        if (by_hugepage && at >= first + HUGE_BYTES && at < last) {
            leaf->huge[(uint32_t)at >> HUGE_SHIFT] = span;
            at += HUGE_BYTES;
        } else {
            leaf->span[(uint32_t)at >> PAGE_SHIFT] = span;
            leaf->tag[(uint32_t)at >> PAGE_SHIFT] = tag;
            at += (uintptr_t)1 << PAGE_SHIFT;
        }
    }
    return true;
}

static uintptr_t span_end(const na_span_t *span) {
    return span->start + ((uintptr_t)span->pages << PAGE_SHIFT);
}

bool na_pagemap_prepare(uintptr_t start, size_t bytes) {
    uintptr_t last = (start + bytes - 1) >> NA_LEAF_SHIFT;
    for (uintptr_t leaf = start >> NA_LEAF_SHIFT; leaf <= last; leaf++)
        if (leaf_for_writing(leaf << NA_LEAF_SHIFT) == NULL) return false;
    return true;
}

bool na_pagemap_enter(na_span_t *span, uint32_t tag) {
    if (write_entries(span->start, span_end(span), tag, span)) return true;
    write_entries(span->start, span_end(span), 0, NULL);
    return false;
}

void na_pagemap_remove(const na_span_t *span) {
    write_entries(span->start, span_end(span), 0, NULL);
}

void na_pagemap_retag(const na_span_t *span, uint32_t tag) {
    for (uintptr_t at = span->start; at < span_end(span); at += (uintptr_t)1 << PAGE_SHIFT)
        leaf_for_writing(at)->tag[(uint32_t)at >> PAGE_SHIFT] = tag;
}

na_span_t *na_span_of(const void *address) {
    uintptr_t at = (uintptr_t)address;
    if (!na_is_address(at)) return NULL;
    const na_leaf_t *leaf = na_leaf(at);
    na_span_t *span = leaf->span[(uint32_t)at >> PAGE_SHIFT];
    return span != NULL ? span : leaf->huge[(uint32_t)at >> HUGE_SHIFT];
}
