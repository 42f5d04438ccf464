/* pagemap.c - writing the page map: leaves on demand, spans in and out. */
#include "pagemap/pagemap.h"

#include <stdatomic.h>

#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"

NA_SPARSE na_pagemap_t na_pagemap;
na_tag_home_t na_tag_home = {.start = NA_TAG_NO_HOME};

enum { PAGE_SHIFT = NA_SPAN_PAGE_SHIFT, HUGE_SHIFT = 21, PAGE_MOST = 64 * 1024 };
#define PAGE_BYTES      ((uintptr_t)1 << PAGE_SHIFT)
#define HUGE_BYTES      ((uintptr_t)1 << HUGE_SHIFT)
#define SPAN_LEAF_BYTES ((uintptr_t)1 << NA_SPAN_LEAF_SHIFT)

/* Set by the linker where it goes by layout.ld: what lies from the first to the second is tables
 * that are next to never written to, these roots among them. */
extern char na_rarely_written[] __attribute__((weak, visibility("hidden")));
extern char _end[] __attribute__((weak, visibility("hidden")));

/* No huge page for them, which would be had for the first word that is written, and no place in
 * core files. Whole pages, whatever their size: it is not known yet. */
static void keep_tables_sparse(void) {
    uintptr_t start = (uintptr_t)&na_pagemap, end = start + sizeof na_pagemap;
    if (na_rarely_written != NULL && _end != NULL && (uintptr_t)na_rarely_written <= start) {
        start = (uintptr_t)na_rarely_written;
        end = (uintptr_t)_end;
    }
    start = na_align_up(start, PAGE_MOST);
    size_t bytes = na_align_down(end, PAGE_MOST) - start;
    na_os_hugepage((void *)start, bytes, false);
    na_os_dump((void *)start, bytes, false);
}

void na_pagemap_init(void) {
    NA_FIRST static _Atomic(bool) done;
    if (atomic_load_explicit(&done, memory_order_relaxed)) return;
    keep_tables_sparse();
    atomic_store_explicit(&done, true, memory_order_relaxed);
}

/* Memory for tables, of which next to nothing is ever touched: it is no part of core files. `map`
 * is one of the system's kinds. NULL: no memory. */
typedef void *map_t(size_t size);
static void *map_leaf(size_t bytes, map_t *map) {
    void *leaf = map(bytes);
    if (leaf == NULL && na_reserve_give_back()) leaf = map(bytes);
    if (leaf != NULL) na_os_dump(leaf, bytes, false);
    return leaf;
}

/* The leaf of a root's entry, mapped if it is not there yet; entries count from the map. Two
 * threads may race to make one: the loser unmaps its own. NULL: no memory. */
static void *leaf_of(intptr_t *root_entry, size_t size, map_t *map) {
    const intptr_t base = (intptr_t)&na_pagemap;
    _Atomic(intptr_t) *entry = (_Atomic(intptr_t) *)root_entry;
    intptr_t known = atomic_load_explicit(entry, memory_order_acquire);
    if (NA_LIKELY(known != 0)) return (void *)(base + known);
    size_t bytes = na_align_up(size, na_os_page);
    void *leaf = map_leaf(bytes, map);
    if (leaf == NULL) return NULL;
    if (atomic_compare_exchange_strong_explicit(entry, &known, (intptr_t)leaf - base,
                                                memory_order_acq_rel, memory_order_acquire))
        return leaf;
    na_os_unmap(leaf, bytes);
    return (void *)(base + known);
}

/* What is only ever read is not made resident where the program locks its memory (mlockall), and
 * does not count as data (RLIMIT_DATA). */
static void keep_nothing_unwritten(void) {
    uintptr_t start = na_align_up((uintptr_t)&na_pagemap.nothing, PAGE_MOST);
    uintptr_t end = na_align_down((uintptr_t)(&na_pagemap.nothing + 1), PAGE_MOST);
    (void)na_os_keep_zeros((void *)start, end - start);
}

static _Atomic(bool) home_taken;

/* The first leaf of tags that is wanted, and those below it, become the home leaves, by whoever
 * comes first. Where another thread has just mapped one of them, there are none: what the root has
 * of these then serves as any. (Nor are there if there is no memory.) */
static NA_NOINLINE void take_home_leaves(uintptr_t address) {
    if (atomic_exchange_explicit(&home_taken, true, memory_order_acq_rel)) return;
    keep_nothing_unwritten();
    uint32_t *tags = map_leaf(NA_TAG_HOME_PAGES * sizeof(uint32_t), na_os_map_zeros);
    if (tags == NULL) return;
    uintptr_t window = address >> NA_TAG_LEAF_SHIFT;
    window = window < NA_TAG_HOME_LEAVES ? 0 : window - NA_TAG_HOME_LEAVES + 1;
    for (unsigned i = 0; i < NA_TAG_HOME_LEAVES; i++) {
        _Atomic(intptr_t) *entry = (_Atomic(intptr_t) *)&na_pagemap.tags[window + i];
        intptr_t none = 0, leaf = (intptr_t)&tags[i * NA_TAG_LEAF_PAGES];
        if (!atomic_compare_exchange_strong_explicit(entry, &none, leaf - (intptr_t)&na_pagemap,
                                                     memory_order_acq_rel, memory_order_acquire))
            return;
    }
    __atomic_store_n(&na_tag_home.tags, tags, __ATOMIC_RELEASE);
    __atomic_store_n(&na_tag_home.start, window << NA_TAG_LEAF_SHIFT, __ATOMIC_RELEASE);
}

/* The leaves of an address that has none of spans. The part of the tags that goes with it can be
 * written before others find it. */
static NA_COLD bool make_first(uintptr_t address) {
    enum { PART = sizeof(na_tag_leaf_t) >> (NA_TAG_LEAF_SHIFT - NA_SPAN_LEAF_SHIFT) };
    if (!atomic_load_explicit(&home_taken, memory_order_relaxed)) take_home_leaves(address);
    na_tag_leaf_t *tags =
        leaf_of(&na_pagemap.tags[address >> NA_TAG_LEAF_SHIFT], sizeof *tags, na_os_map_zeros);
    if (tags == NULL) return false;
    void *part = &tags->tag[(uint32_t)na_align_down(address, SPAN_LEAF_BYTES) >> PAGE_SHIFT];
    return na_os_commit(part, PART) && leaf_of(&na_pagemap.spans[address >> NA_SPAN_LEAF_SHIFT],
                                               sizeof(na_span_leaf_t), na_os_map) != NULL;
}

/* The leaves of an address, made if they are not there yet. False: no memory. */
static NA_NOINLINE bool make_leaves(uintptr_t address) {
    return NA_LIKELY(__atomic_load_n(&na_pagemap.spans[address >> NA_SPAN_LEAF_SHIFT],
                                     __ATOMIC_ACQUIRE) != 0) ||
           make_first(address);
}

/* Leaves that were made. */
static na_tag_leaf_t *tag_leaf(uintptr_t address) {
    intptr_t entry = NA_ROOT_ENTRY(na_pagemap.tags[address >> NA_TAG_LEAF_SHIFT]);
    return (na_tag_leaf_t *)((intptr_t)&na_pagemap + entry);
}

static na_span_leaf_t *span_leaf(uintptr_t address) {
    intptr_t entry = NA_ROOT_ENTRY(na_pagemap.spans[address >> NA_SPAN_LEAF_SHIFT]);
    return (na_span_leaf_t *)((intptr_t)&na_pagemap + entry);
}

/* Pages within one span leaf; `tagged`: their tags, too. */
static bool write_some_pages(uintptr_t at, uintptr_t end, na_span_t *span, bool tagged,
                             uint32_t tag) {
    if (!make_leaves(at)) return false;
    na_span_leaf_t *spans = span_leaf(at);
    na_tag_leaf_t *tags = tag_leaf(at);
    size_t pages = (end - at) >> PAGE_SHIFT;
    na_span_t **entry = &spans->span[na_page_in_span_leaf(at)];
    for (size_t i = 0; i < pages; i++)
        entry[i] = span;
    if (!tagged) return true;
    uint32_t *tag_entry = &tags->tag[(uint32_t)at >> PAGE_SHIFT];
    for (size_t i = 0; i < pages; i++)
        tag_entry[i] = tag;
    return true;
}

static bool write_pages(uintptr_t at, uintptr_t end, na_span_t *span, bool tagged, uint32_t tag) {
    while (at < end) {
        uintptr_t next = na_align_down(at, SPAN_LEAF_BYTES) + SPAN_LEAF_BYTES;
        if (next > end) next = end;
        if (!write_some_pages(at, next, span, tagged, tag)) return false;
        at = next;
    }
    return true;
}

static bool write_hugepages(uintptr_t at, uintptr_t end, na_span_t *span) {
    for (; at < end; at += HUGE_BYTES) {
        if (!make_leaves(at)) return false;
        span_leaf(at)->huge[na_hugepage_in_span_leaf(at)] = span;
    }
    return true;
}

/* The entries of a span: of the pages before its first and behind its last hugepage boundary one by
 * one, of whole hugepages at once. Where no span is all tags are 0, so that a tag of 0 needs no
 * writing. */
static bool write_entries(uintptr_t start, uintptr_t end, na_span_t *span, bool tagged,
                          uint32_t tag) {
    uintptr_t first = na_align_up(start, HUGE_BYTES), last = na_align_down(end, HUGE_BYTES);
    if (first >= last) return write_pages(start, end, span, tagged, tag);
    return write_pages(start, first, span, tagged, tag) && write_hugepages(first, last, span) &&
           write_pages(last, end, span, tagged, tag);
}

static uintptr_t span_end(const na_span_t *span) {
    return span->start + ((uintptr_t)span->pages << PAGE_SHIFT);
}

bool na_pagemap_prepare(uintptr_t start, size_t bytes) {
    uintptr_t last = (start + bytes - 1) >> NA_SPAN_LEAF_SHIFT;
    for (uintptr_t leaf = start >> NA_SPAN_LEAF_SHIFT; leaf <= last; leaf++)
        if (!make_leaves(leaf << NA_SPAN_LEAF_SHIFT)) return false;
    return true;
}

/* Whether a block of the span begins in one of its pages. */
static bool has_start(const na_span_t *span, uintptr_t page) {
    uint64_t each = span->each, offset = page - span->start;
    if (NA_LIKELY(each <= PAGE_BYTES)) return true;
    uint64_t first = (offset + each - 1) / each;
    return first < span->capacity && first * each < offset + PAGE_BYTES;
}

static void write_tags(const na_span_t *span, uint32_t tag) {
    bool all = (tag & 0xffff) == 0;
    for (uintptr_t at = span->start; at < span_end(span); at += PAGE_BYTES)
        __atomic_store_n(&tag_leaf(at)->tag[(uint32_t)at >> PAGE_SHIFT],
                         all || has_start(span, at) ? tag : 0, __ATOMIC_RELAXED);
}

bool na_pagemap_enter(na_span_t *span, uint32_t tag) {
    /* Whoever finds the span by an address that nobody gave him finds what is written in it. */
    atomic_thread_fence(memory_order_release);
    if (write_entries(span->start, span_end(span), span, tag != 0, tag)) {
        if (NA_UNLIKELY(tag != 0 && span->each > PAGE_BYTES)) write_tags(span, tag);
        return true;
    }
    write_entries(span->start, span_end(span), NULL, tag != 0, 0);
    return false;
}

void na_pagemap_remove(const na_span_t *span) {
    bool tagged = na_page_tag(span->start) != 0; /* or none of its pages has one */
    write_entries(span->start, span_end(span), NULL, tagged, 0);
}

void na_pagemap_retag(const na_span_t *span, uint32_t tag) {
    /* What the new tag says is there (mixed.h): who acts on it reads behind an acquire fence. */
    atomic_thread_fence(memory_order_release);
    write_tags(span, tag);
}

na_span_t *na_span_of(const void *address) {
    uintptr_t at = (uintptr_t)address;
    if (!na_is_address(at)) return NULL;
    const na_span_leaf_t *leaf = na_span_leaf_of(at);
    na_span_t *span = leaf->span[na_page_in_span_leaf(at)];
    if (span == NULL) span = leaf->huge[na_hugepage_in_span_leaf(at)];
    return span != NULL && NA_LIKELY(span->run != NA_RUN_KEPT) ? span : NULL;
}
