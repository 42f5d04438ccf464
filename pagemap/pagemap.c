/* pagemap.c - where span structs and their record arrays come from; writing the page map: leaves on
 * demand, spans in and out. */
#include "pagemap/pagemap.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"

/* --- spans and their records --- */

_Atomic(uint8_t) na_every_event;
_Atomic(uint32_t) na_session = 1, na_noticed_session = 1;

/* Span structs that are not in use. A span's stays with the node that it was first made for. */
enum { POOLS = 64 };
static struct {
    _Alignas(NA_CACHE_LINE) na_lock_t lock;
    na_span_t *first;
} unused_spans[POOLS];

static na_lock_t records_lock; /* guards the lists of arrays and of pages; a pool's may be held */
/* All pages of span structs, by the first of each, which is no span: for debuggers of core files,
 * which have no page map (scripts/numalloc-gdb.py). Nobody reads it here. */
__attribute__((used)) static na_span_t *span_pages;

/* An array of records: mask + 1 of them, a power of two. Never given back, so that a reader that
 * races with the end of its span reads another's records, never garbage. */
typedef struct na_record_array {
    struct na_record_array *next;   /* in the list of all; constant */
    struct na_record_array *unused; /* next that is not in use; guarded by their lock */
    _Atomic(na_span_t *) span;      /* NULL: not in use */
    uint64_t mask;
    na_record_t records[];
} na_record_array_t;
_Static_assert(sizeof(na_record_array_t) % sizeof(na_record_t) == 0, "records are aligned");
_Static_assert(offsetof(na_record_array_t, mask) + sizeof(uint64_t) == sizeof(na_record_array_t),
               "na_span_records_mask");

/* Of spans without records: one, that stays zero. */
static union {
    na_record_array_t array;
    char bytes[sizeof(na_record_array_t) + sizeof(na_record_t)];
} nothing;

enum { RECORD_SIZES = 20 };
static na_record_array_t *unused_arrays[RECORD_SIZES]; /* by power of two of their length */
static _Atomic(na_record_array_t *) all_arrays;

/* Arrays lie in rooms of their own, so that what is in memory for them can be told. */
#define ROOM_BYTES ((size_t)256 << 10)
typedef struct room {
    struct room *next; /* both are constant */
    size_t bytes;      /* with this */
} room_t;
_Static_assert(sizeof(room_t) % sizeof(na_record_t) == 0, "arrays are aligned");
static _Atomic(room_t *) rooms;
static uintptr_t room_at, room_end; /* what is free of one; under the lock of records */

static unsigned record_size(uint32_t count) {
    return count <= 1 ? 0 : 32u - (unsigned)__builtin_clz(count - 1);
}

static na_record_array_t *array_of(na_record_t *records) {
    return (na_record_array_t *)((char *)records - sizeof(na_record_array_t));
}

static unsigned size_of(const na_record_array_t *array) {
    return (unsigned)__builtin_popcountll(array->mask);
}

/* Word by word: others may look at `emergency` of a span that has ended, and find none
 * (alloc/core/malloc/emergency.c). */
static void make_blank(na_span_t *span) {
    typedef uint64_t __attribute__((may_alias)) word_t;
    for (size_t i = 0; i < sizeof *span / sizeof(word_t); i++)
        __atomic_store_n((word_t *)span + i, 0, __ATOMIC_RELAXED);
}
_Static_assert(sizeof(na_span_t) % sizeof(uint64_t) == 0, "make_new clears whole words");

/* Under the pool's lock, when none is unused: a page of them. */
static void make_spans(unsigned pool) {
    enum { AT_ONCE = 4096 / sizeof(na_span_t) };
    na_span_t *made = na_meta_alloc(AT_ONCE * sizeof *made, NA_CACHE_LINE);
    if (made == NULL) return;
    na_lock(&records_lock);
    made->next = span_pages;
    span_pages = made;
    na_unlock(&records_lock);
    for (unsigned i = 2; i < AT_ONCE; i++)
        made[i - 1].next = &made[i];
    unused_spans[pool].first = made + 1;
}

na_span_t *na_span_new(unsigned node) {
    unsigned pool = node % POOLS;
    na_lock(&unused_spans[pool].lock);
    if (unused_spans[pool].first == NULL) make_spans(pool);
    na_span_t *span = unused_spans[pool].first;
    if (span != NULL) unused_spans[pool].first = span->next;
    na_unlock(&unused_spans[pool].lock);
    if (span != NULL) {
        make_blank(span);
        span->pool = (uint8_t)pool;
        span->list = NA_SPAN_UNLISTED;
        atomic_store_explicit(&span->registry, nothing.array.records, memory_order_relaxed);
        /* Who finds a field of the new span finds none of the old one's (na_lookup,
         * na_access_resolve). */
        atomic_thread_fence(memory_order_release);
    }
    return span;
}

void na_span_delete(na_span_t *span) {
    if (atomic_load_explicit(&span->records, memory_order_acquire) != NULL) {
        na_lock(&records_lock);
        na_record_array_t *array = array_of(span->records);
        atomic_store_explicit(&array->span, NULL, memory_order_relaxed);
        array->unused = unused_arrays[size_of(array)];
        unused_arrays[size_of(array)] = array;
        span->records = NULL;
        atomic_store_explicit(&span->registry, nothing.array.records, memory_order_relaxed);
        na_unlock(&records_lock);
    }
    unsigned pool = span->pool;
    na_lock(&unused_spans[pool].lock);
    span->next = unused_spans[pool].first;
    unused_spans[pool].first = span;
    na_unlock(&unused_spans[pool].lock);
}

/* na_span_age_records may be looking at them, and leaves what is 0 alone. */
static void clear_records(na_record_t *records, size_t bytes) {
#ifdef __SANITIZE_THREAD__
    for (size_t i = 0; i < bytes / sizeof *records; i++) {
        __atomic_store_n(&records[i].words[0], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&records[i].words[1], 0, __ATOMIC_RELAXED);
    }
#else
    memset(records, 0, bytes);
#endif
}

/* Zeroed; NULL: no memory. With the lock of records. */
static void *take_from_room(size_t bytes) {
    if (bytes > room_end - room_at) {
        size_t whole = na_align_up(sizeof(room_t) + bytes, na_os_page);
        if (whole < ROOM_BYTES) whole = ROOM_BYTES;
        room_t *room = na_meta_alloc(whole, na_os_page);
        if (room == NULL) return NULL;
        room->bytes = whole;
        room->next = atomic_load_explicit(&rooms, memory_order_relaxed);
        atomic_store_explicit(&rooms, room, memory_order_release);
        if (whole > ROOM_BYTES) return room + 1; /* the one in use serves on */
        room_at = (uintptr_t)(room + 1);
        room_end = (uintptr_t)room + whole;
    }
    void *p = (void *)room_at;
    room_at += bytes;
    return p;
}

/* An array with room for so many zeroed records; NULL: no memory. With the lock of records. */
static na_record_array_t *take_array(uint32_t count) {
    unsigned size = record_size(count);
    size_t bytes = sizeof(na_record_t) << size;
    na_record_array_t *array = unused_arrays[size];
    if (array != NULL) {
        unused_arrays[size] = array->unused;
        clear_records(array->records, bytes);
        return array;
    }
    array = take_from_room(sizeof *array + bytes);
    if (array == NULL) return NULL;
    array->mask = (UINT64_C(1) << size) - 1;
    array->next = atomic_load_explicit(&all_arrays, memory_order_relaxed);
    atomic_store_explicit(&all_arrays, array, memory_order_release);
    return array;
}

bool na_span_add_records(na_span_t *span) {
    if (atomic_load_explicit(&span->records, memory_order_acquire) != NULL) return true;
    if (span->cls == 0 && span->run != 0) span->run = 0; /* not to be kept */
    bool has_tail = span->each * span->capacity != (uint64_t)span->pages << NA_PAGE_SHIFT;
    uint32_t count = (uint32_t)span->capacity + has_tail;
    na_lock(&records_lock);
    bool there = span->records != NULL;
    na_record_array_t *array = there ? NULL : take_array(count);
    if (array != NULL) {
        atomic_store_explicit(&span->records, array->records, memory_order_release);
        atomic_store_explicit(&span->registry, array->records, memory_order_release);
        atomic_store_explicit(&array->span, span, memory_order_release);
    }
    na_unlock(&records_lock);
    return there || array != NULL;
}

NA_RACY void na_span_each_records(na_records_fn_t visit, void *arg) {
    na_record_array_t *array = atomic_load_explicit(&all_arrays, memory_order_acquire);
    for (; array != NULL; array = array->next) {
        const na_span_t *span = atomic_load_explicit(&array->span, memory_order_acquire);
        if (span == NULL) continue;
        uint64_t room = array->mask + 1;
        visit(span, array->records, span->capacity < room ? span->capacity : (uint32_t)room, arg);
    }
}

void na_span_each_records_room(void (*visit)(void *arg, uintptr_t start, size_t bytes), void *arg) {
    const room_t *room = atomic_load_explicit(&rooms, memory_order_acquire);
    for (; room != NULL; room = room->next)
        visit(arg, (uintptr_t)room, room->bytes);
}

void na_span_age_records(void) {
    na_record_array_t *array = atomic_load_explicit(&all_arrays, memory_order_acquire);
    for (; array != NULL; array = array->next) {
        for (size_t i = 0; i <= array->mask; i++) {
            uint8_t *epoch = &array->records[i].epoch;
            uint8_t was = __atomic_load_n(epoch, __ATOMIC_RELAXED);
            if (was != 0)
                __atomic_compare_exchange_n(epoch, &was, NA_EPOCH_BEFORE, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED);
        }
    }
}

/* In a child: the lock's holder is not here. */
static bool is_of_absent(const na_lock_t *lock) {
    return atomic_load_explicit(&lock->word, memory_order_relaxed) != 0 && !na_lock_is_mine(lock);
}

void na_span_after_fork_child(void) {
    /* A thread that was inside at the fork may have left the two of different rooms, and lists that
     * lead to spans in use: their stores come in any order. The child begins new ones. */
    if (is_of_absent(&records_lock)) {
        room_at = room_end = 0;
        memset(unused_arrays, 0, sizeof unused_arrays);
    }
    na_lock_reset(&records_lock);
    for (unsigned pool = 0; pool < POOLS; pool++) {
        if (is_of_absent(&unused_spans[pool].lock)) unused_spans[pool].first = NULL;
        na_lock_reset(&unused_spans[pool].lock);
    }
}

/* --- the map --- */

NA_SPARSE na_pagemap_t na_pagemap;
na_tag_home_t na_tag_home = {.start = NA_TAG_NO_HOME};

enum { PAGE_MOST = 64 * 1024 }; /* the largest page of a system */
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
    void *part = &tags->tag[(uint32_t)na_align_down(address, SPAN_LEAF_BYTES) >> NA_PAGE_SHIFT];
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
    size_t pages = (end - at) >> NA_PAGE_SHIFT;
    na_span_t **entry = &spans->span[na_page_in_span_leaf(at)];
    for (size_t i = 0; i < pages; i++)
        entry[i] = span;
    if (!tagged) return true;
    uint32_t *tag_entry = &tags->tag[(uint32_t)at >> NA_PAGE_SHIFT];
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
    for (; at < end; at += NA_HUGE_SIZE) {
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
    uintptr_t first = na_align_up(start, NA_HUGE_SIZE), last = na_align_down(end, NA_HUGE_SIZE);
    if (first >= last) return write_pages(start, end, span, tagged, tag);
    return write_pages(start, first, span, tagged, tag) && write_hugepages(first, last, span) &&
           write_pages(last, end, span, tagged, tag);
}

static uintptr_t span_end(const na_span_t *span) {
    return span->start + ((uintptr_t)span->pages << NA_PAGE_SHIFT);
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
    if (NA_LIKELY(each <= NA_PAGE_SIZE)) return true;
    uint64_t first = (offset + each - 1) / each;
    return first < span->capacity && first * each < offset + NA_PAGE_SIZE;
}

static void write_tags(const na_span_t *span, uint32_t tag) {
    bool all = (tag & 0xffff) == 0;
    for (uintptr_t at = span->start; at < span_end(span); at += NA_PAGE_SIZE)
        __atomic_store_n(&tag_leaf(at)->tag[(uint32_t)at >> NA_PAGE_SHIFT],
                         all || has_start(span, at) ? tag : 0, __ATOMIC_RELAXED);
}

bool na_pagemap_enter(na_span_t *span, uint32_t tag) {
    /* Whoever finds the span by an address that nobody gave him finds what is written in it. */
    atomic_thread_fence(memory_order_release);
    if (write_entries(span->start, span_end(span), span, tag != 0, tag)) {
        if (NA_UNLIKELY(tag != 0 && span->each > NA_PAGE_SIZE)) write_tags(span, tag);
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

/* --- live blocks --- */

NA_SPARSE na_live_leaf_t *na_live_leaves[1u << (NA_ADDRESS_BITS - NA_LIVE_LEAF_SHIFT)];
bool na_live_is_partial;

NA_COLD void na_live_never(void) {
    uintptr_t start = na_align_up((uintptr_t)na_live_leaves, PAGE_MOST);
    uintptr_t end = na_align_down((uintptr_t)na_live_leaves + sizeof na_live_leaves, PAGE_MOST);
    (void)na_os_keep_zeros((void *)start, end - start);
}

/* Two threads may race to make one: the loser unmaps its own. NULL: no memory. */
static na_live_leaf_t *make_leaf(uintptr_t address) {
    na_live_leaf_t *leaf = na_os_map(sizeof *leaf), *known = NULL;
    if (leaf == NULL && na_reserve_give_back()) leaf = na_os_map(sizeof *leaf);
    if (leaf == NULL) return NULL;
    na_os_dump(leaf, sizeof *leaf, false); /* next to nothing of it is ever touched */
    if (__atomic_compare_exchange_n(&na_live_leaves[address >> NA_LIVE_LEAF_SHIFT], &known, leaf,
                                    false, __ATOMIC_ACQ_REL, __ATOMIC_ACQUIRE))
        return leaf;
    na_os_unmap(leaf, sizeof *leaf);
    return known;
}

NA_COLD void na_live_begin_first(const void *block, na_birth_t birth) {
    uintptr_t at = (uintptr_t)block;
    na_live_leaf_t *leaf = make_leaf(at);
    if (leaf != NULL)
        na_live_set(leaf, block, birth);
    else
        __atomic_store_n(&na_live_is_partial, true, __ATOMIC_RELAXED);
}

NA_COLD void na_live_forget(uintptr_t start, size_t bytes) {
    _Static_assert(4096 % (1u << NA_LIVE_WORD_SHIFT) == 0, "whole words a page");
    for (uintptr_t at = start; at < start + bytes; at += (uintptr_t)1 << NA_LIVE_WORD_SHIFT) {
        na_live_leaf_t *leaf = na_live_leaf(at);
        if (leaf != NULL) __atomic_store_n(na_live_word(leaf, at), 0, __ATOMIC_RELAXED);
    }
}
