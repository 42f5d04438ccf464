/* test_span_list.c - central.c: blocks out of spans and home again. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/thread/attach.h"
#include "alloc/record/lookup.h"
#include "pagemap/pagemap.h"

TestSuite(span_list, .init = na_init);

static uint64_t used(void) {
    na_pageheap_stats_t stats;
    na_pageheap_get_stats(0, &stats);
    return stats.used;
}

/* Free blocks, carved or not, and listed spans: what the header promises of them. */
static uint32_t check_lists(const na_span_list_t *set) {
    uint32_t free = 0;
    for (unsigned list = 0; list < NA_SPAN_LIST_LISTS; list++)
        for (const na_span_t *span = set->partial[list]; span != NULL; span = span->next) {
            cr_assert_eq(span->list, list);
            cr_assert(span->next == NULL || span->next->prev == span);
            uint32_t length = 0;
            uint64_t at_home = 0;
            for (void *block = span->free; block != NULL; block = *na_block_next(block)) {
                if (*na_block_next(block) == NULL) cr_assert_eq(block, span->free_tail);
                at_home |= na_part_of_one(na_span_of(block), block).blocks;
                length++;
            }
            cr_assert_eq(length, span->free_count);
            cr_assert_eq(at_home, span->at_home);
            cr_assert(span->free_count <= span->carved && span->carved <= span->capacity);
            uint32_t in_use = (uint32_t)span->carved - span->free_count;
            cr_assert_lt(in_use, span->capacity);
            cr_assert_eq(in_use * NA_SPAN_LIST_LISTS / span->capacity, list);
            free += length;
        }
    return free;
}

static void give_one(na_span_list_t *set, void *block) {
    na_part_t part = na_part_of_one(na_span_of(block), block);
    na_span_list_give(set, &part);
}

static void take_and_give_all(unsigned cls) {
    enum { MANY = 3000 };
    static void *blocks[MANY];
    na_span_list_t set = {0};
    na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
    uint64_t before = used();
    size_t n = 0;
    while (n < MANY / 2) {
        uint32_t got;
        void *list = na_span_list_take(&set, kind, na_classes[cls].batch, true, &got);
        cr_assert(list != NULL && got >= na_classes[cls].batch);
        uint32_t length = 0;
        for (void *next; list != NULL; list = next, length++) {
            next = *na_block_next(list);
            na_span_t *span = na_span_of(list);
            cr_assert_eq(((uintptr_t)list - span->start) % na_classes[cls].size, 0);
            cr_assert_eq(na_page_tag((uintptr_t)list), na_tag(cls, 7));
            memset(list, 0xee, na_classes[cls].size); /* a block given twice would cut a list */
            blocks[n++] = list;
        }
        cr_assert_eq(length, got);
        check_lists(&set);
    }
    srand(1);
    for (size_t left = n; left > 0; left--) {
        size_t pick = (size_t)rand() % left;
        give_one(&set, blocks[pick]);
        blocks[pick] = blocks[left - 1];
        if (left % 64 == 0) check_lists(&set);
    }
    cr_assert_leq(set.count, 1); /* the last one is kept, so that it does not bounce */
    na_span_list_trim(&set);
    cr_assert_eq(set.count, 0);
    cr_assert_eq(used(), before);
}

Test(span_list, smallest) {
    take_and_give_all(1);
}

Test(span_list, owned) {
    take_and_give_all(na_class_of(144));
}

Test(span_list, biggest) {
    take_and_give_all(NA_CLASS_COUNT - 1);
}

/* What was never used comes in the order of addresses, over the pages of one call and from call to
 * call. */
Test(span_list, fresh_blocks_are_in_order) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_span_list_t set = {0};
        na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
        const na_span_t *span = NULL;
        uintptr_t last = 0;
        for (unsigned call = 0; call < 8; call++) {
            uint32_t got;
            void *list = na_span_list_take(&set, kind, na_classes[cls].batch, true, &got);
            for (; list != NULL; list = *na_block_next(list)) {
                if (na_span_of(list) == span) cr_assert_gt((uintptr_t)list, last, "class %u", cls);
                span = na_span_of(list);
                last = (uintptr_t)list;
            }
        }
    }
}

Test(span_list, the_fullest_span_serves_first) {
    unsigned cls = na_class_of(4096);
    na_span_list_t set = {0};
    na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
    uint32_t per_span = na_classes[cls].capacity, got;
    void *blocks[256];
    cr_assert_leq(2 * per_span, 256);
    for (uint32_t i = 0; i < 2 * per_span; i++) {
        blocks[i] = na_span_list_take(&set, kind, 1, true, &got);
        cr_assert_eq(got, 1, "4 KiB: one block a system page");
    }
    na_span_t *first = na_span_of(blocks[0]), *second = na_span_of(blocks[per_span]);
    cr_assert_neq(first, second);
    if (per_span < 2) return;
    give_one(&set, blocks[per_span]); /* both have room; the first has less */
    for (uint32_t i = 0; per_span > 2 && i + 1 < per_span; i++)
        give_one(&set, blocks[per_span + 1 + i]);
    give_one(&set, blocks[0]);
    cr_assert_eq(na_span_of(na_span_list_take(&set, kind, 1, true, &got)), first);
}

/* A span of each kind, one after the other: full, looked up block by block, and given back. */
Test(span_list, low_memory_makes_dense_spans) {
    enum { MANY = 64 };
    unsigned cls = na_class_of(832);
    const na_class_t *c = &na_classes[cls];
    uint32_t dense = c->dense_pages * (uint32_t)NA_PAGE_SIZE / c->size;
    cr_assert(c->dense_pages > c->span_pages && c->capacity + dense <= MANY);
    na_span_list_t set = {0};
    na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
    uint64_t before = used();
    void *blocks[MANY];
    uint32_t n = 0;
    while (n < c->capacity + dense) {
        uint32_t got;
        atomic_store(&na_pressure.levels, n >= c->capacity ? NA_PRESSURE_LOW : 0);
        void *list = na_span_list_take(&set, kind, 1, true, &got);
        for (void *next; list != NULL; list = next) {
            next = *na_block_next(list);
            blocks[n++] = list;
        }
    }
    cr_assert_eq(n, c->capacity + dense);
    cr_assert_eq(set.count, 2);
    for (uint32_t i = 0; i < n; i++) {
        na_span_t *span = na_span_of(blocks[i]);
        cr_assert_eq(span->pages, i < c->capacity ? c->span_pages : c->dense_pages);
        cr_assert_eq(span->capacity, i < c->capacity ? c->capacity : dense);
        na_found_t found;
        na_lookup((char *)blocks[i] + c->size - 1, &found);
        cr_assert(found.kind == NA_LOOKUP_PLAIN || found.kind == NA_LOOKUP_DEAD);
        cr_assert_eq(found.base, (uintptr_t)blocks[i]);
    }
    for (uint32_t i = 0; i < n; i++)
        give_one(&set, blocks[i]);
    na_span_list_trim(&set);
    cr_assert_eq(set.count, 0);
    cr_assert_eq(used(), before);
}

Test(span_list, runs_are_cut_at_the_spans_edges) {
    unsigned cls = na_class_of(144);
    na_span_list_t set = {0};
    na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
    uint32_t got;
    void *list = na_span_list_take(&set, kind, 3u * na_classes[cls].capacity, true, &got);
    uint32_t total = 0;
    na_part_t part;
    na_span_t *last = NULL;
    uint32_t left = got;
    while (na_part_cut(&list, &left, cls, &part)) {
        cr_assert_neq(part.span, last);
        last = part.span;
        cr_assert(part.count >= 1 && part.count <= part.span->capacity);
        total += part.count;
        na_span_list_give(&set, &part);
    }
    cr_assert_eq(total, got);
    cr_assert(list == NULL && left == 0);
    na_span_list_trim(&set);
    cr_assert_eq(set.count, 0);
}

static const void *fault;
static const char *fault_what;
static void take_fault(const char *what, const void *block) {
    fault_what = what;
    fault = block;
}

/* What is at home already does not come home again, as long as its span has few blocks: it is named
 * although others of the span are out. */
Test(span_list, a_block_comes_home_once) {
    unsigned cls = na_class_of(20000);
    na_span_list_t set = {0};
    na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
    uint32_t got;
    void *a = na_span_list_take(&set, kind, 4, true, &got);
    cr_assert_geq(got, 4);
    void *b = *na_block_next(a), *c = *na_block_next(b);
    cr_assert_leq(na_span_of(a)->capacity, 64);
    cr_assert_eq(na_span_of(a), na_span_of(b));
    give_one(&set, a);
    uint32_t free = check_lists(&set);
    void (*before)(const char *, const void *) = na_span_fault;
    na_span_fault = take_fault;
    give_one(&set, a);
    cr_assert_eq(fault, a);
    cr_assert_str_eq(fault_what, "double free of");
    cr_assert_eq(check_lists(&set), free);
    fault = NULL;
    give_one(&set, b);
    void *again =
        na_span_list_take(&set, kind, 2, false, &got); /* and once more, as it was taken */
    cr_assert(again == a || again == b);
    give_one(&set, a);
    give_one(&set, b);
    give_one(&set, c);
    cr_assert_null(fault);
    na_span_fault = before;
}

static void *last_of(void *list) {
    while (*na_block_next(list) != NULL)
        list = *na_block_next(list);
    return list;
}

/* All of a list goes home, part by part; what is wrong with it is in `fault`. How many did. */
static uint32_t give_list(na_span_list_t *set, unsigned cls, void *list, uint32_t left) {
    uint32_t total = 0;
    void (*before)(const char *, const void *) = na_span_fault;
    na_span_fault = take_fault;
    fault = fault_what = NULL;
    na_part_t part;
    while (na_part_cut(&list, &left, cls, &part)) {
        total += part.count;
        na_span_list_give(set, &part);
    }
    na_span_fault = before;
    cr_assert(list == NULL && left == 0);
    check_lists(set);
    return total;
}

/* A list that does not end where its count says is cut where it should have ended, and named; but
 * one block more or less than was counted is what a signal handler may see. */
static void cut_a_list(int more, const char *said) {
    unsigned cls = na_class_of(144);
    na_span_list_t set = {0};
    na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
    uint32_t got;
    void *list = na_span_list_take(&set, kind, 2u * na_classes[cls].capacity, true, &got);
    const void *last = last_of(list);
    uint32_t total = give_list(&set, cls, list, got + (uint32_t)more);
    cr_assert_eq(total, more > 0 ? got : got + (uint32_t)more);
    if (said == NULL) {
        cr_assert_null(fault_what);
    } else {
        cr_assert_not_null(fault_what);
        cr_assert_str_eq(fault_what, said);
        if (more > 0) cr_assert_eq(fault, last);
    }
}

Test(span_list, a_list_that_is_too_short) {
    cut_a_list(1, NULL);
    cut_a_list(2, na_list_ends);
}

Test(span_list, a_list_that_is_too_long) {
    cut_a_list(-1, NULL);
    cut_a_list(-2, na_list_goes_on);
}

/* Within one span, and over two of them. */
static void cut_a_circle(uint32_t blocks, uint32_t to) {
    unsigned cls = na_class_of(144);
    na_span_list_t set = {0};
    na_span_kind_t kind = {.cls = (uint8_t)cls, .owner = 7};
    uint32_t got;
    void *list = na_span_list_take(&set, kind, blocks, true, &got), *again = list;
    for (uint32_t i = 0; i < to; i++)
        again = *na_block_next(again);
    *na_block_next(last_of(list)) = again;
    cr_assert_eq(give_list(&set, cls, list, got), got);
    cr_assert_not_null(fault_what);
}

Test(span_list, a_list_that_is_a_circle) {
    cut_a_circle(8, 3);
    cut_a_circle(8, 0);
    cut_a_circle(2u * na_classes[na_class_of(144)].capacity, 5);
}
