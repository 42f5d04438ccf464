/* test_pagemap.c - spans in and out of the page map. The addresses need no memory behind them. */
#include <criterion/criterion.h>

#include <pthread.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "pagemap/pagemap.h"
#include "support/vm_flags.h"

#define BASE ((uintptr_t)0x123400000000)
#define GIB  ((uintptr_t)1 << 30)

TestSuite(pagemap, .init = na_os_init);

static na_span_t *enter(uintptr_t start, uint32_t pages, uint32_t tag) {
    na_span_t *span = na_span_new(0);
    cr_assert_not_null(span);
    span->start = start;
    span->pages = pages;
    cr_assert(na_pagemap_enter(span, tag));
    return span;
}

static na_span_t *at(uintptr_t address) {
    return na_span_of((void *)address);
}

Test(pagemap, unknown_addresses_are_nobodys) {
    const uintptr_t strange[] = {0, 1, BASE, (uintptr_t)1 << 47, UINTPTR_MAX, ~GIB};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++) {
        cr_assert_null(at(strange[i]));
        if (na_is_address(strange[i])) cr_assert_eq(na_page_tag(strange[i]), 0);
    }
    cr_assert_not(na_is_address((uintptr_t)1 << 47));
}

Test(pagemap, roots_are_not_for_huge_pages) {
    if (!vm_has_huge_pages()) cr_skip_test("this kernel has no huge pages");
    na_pagemap_init();
    cr_assert(vm_has_flag(&na_pagemap.tags[NA_TAG_ROOT_ENTRIES / 2], " nh "));
    cr_assert(vm_has_flag(&na_pagemap.spans[NA_SPAN_ROOT_ENTRIES / 2], " nh "));
}

Test(pagemap, a_small_span_and_nothing_beside_it) {
    na_span_t *span = enter(BASE + 5 * NA_PAGE_SIZE, 3, 77);
    for (uintptr_t page = 0; page < 12; page++) {
        bool in = page >= 5 && page < 8;
        cr_assert_eq(at(BASE + page * NA_PAGE_SIZE + 100), in ? span : NULL);
        cr_assert_eq(na_page_tag(BASE + page * NA_PAGE_SIZE + 100), in ? 77 : 0);
    }
    na_pagemap_retag(span, 5);
    cr_assert_eq(na_page_tag(BASE + 7 * NA_PAGE_SIZE), 5);
    cr_assert_eq(na_page_tag(BASE + 8 * NA_PAGE_SIZE), 0);
    na_pagemap_remove(span);
    cr_assert_null(at(BASE + 5 * NA_PAGE_SIZE));
}

static bool is_home(uintptr_t address) {
    return na_home_page(address) < NA_TAG_HOME_PAGES;
}

/* The first leaf that is wanted and the three below it lie side by side. */
Test(pagemap, home_leaves) {
    const uintptr_t window = (uintptr_t)1 << NA_TAG_LEAF_SHIFT, low = BASE - 3 * window;
    cr_assert_not(is_home(BASE)); /* so far none */
    const uintptr_t inside[] = {BASE, BASE + window - NA_PAGE_SIZE, BASE - NA_PAGE_SIZE, low};
    const uintptr_t outside[] = {BASE + window, low - NA_PAGE_SIZE};
    na_span_t *spans[6];
    for (uint32_t i = 0; i < 4; i++)
        spans[i] = enter(inside[i], 1, 77 + i);
    for (uint32_t i = 0; i < 2; i++)
        spans[4 + i] = enter(outside[i], 1, 87 + i);
    for (uint32_t i = 0; i < 4; i++) {
        cr_assert(is_home(inside[i] + 100));
        cr_assert_eq(na_home_tag(na_home_page(inside[i] + 100)), 77 + i);
        cr_assert_eq(na_page_tag(inside[i]), 77 + i);
    }
    for (uint32_t i = 0; i < 2; i++) {
        cr_assert_not(is_home(outside[i]));
        cr_assert_eq(na_page_tag(outside[i]), 87 + i);
    }
    const uintptr_t strange[] = {0, 1, (uintptr_t)1 << 47, UINTPTR_MAX,
                                 BASE + ((uintptr_t)1 << 48)};
    for (size_t i = 0; i < sizeof strange / sizeof *strange; i++)
        cr_assert_not(is_home(strange[i]));
    for (uint32_t i = 0; i < 6; i++)
        na_pagemap_remove(spans[i]);
    cr_assert_eq(na_home_tag(na_home_page(BASE)), 0);
    cr_assert_eq(na_page_tag(BASE + window), 0);
}

/* Blocks of two pages and a half: they begin in pages 0, 2, 5 and 7 of eight, which hold three
 * whole ones and the tail. Bin offsets are what tags have in their low half. */
Test(pagemap, pages_in_which_no_block_begins_have_no_tag) {
    const uint32_t bin = 56 * 16 | 7 << 16, slow = 0, other = 9 << 16;
    na_span_t *span = na_span_new(0);
    cr_assert_not_null(span);
    span->start = BASE + 40 * NA_PAGE_SIZE;
    span->pages = 8;
    span->cls = 56;
    span->each = 5 * NA_PAGE_SIZE / 2;
    span->capacity = 3;
    cr_assert(na_pagemap_enter(span, bin));
    for (int round = 0; round < 2; round++) {
        for (uintptr_t page = 0; page < 8; page++) {
            bool begins = page == 0 || page == 2 || page == 5;
            cr_assert_eq(na_page_tag(span->start + page * NA_PAGE_SIZE), begins ? bin : 0);
            cr_assert_eq(at(span->start + page * NA_PAGE_SIZE), span);
        }
        na_pagemap_retag(span, round == 0 ? slow : other);
        for (uintptr_t page = 0; page < 8; page++)
            cr_assert_eq(na_page_tag(span->start + page * NA_PAGE_SIZE), round == 0 ? slow : other);
        na_pagemap_retag(span, bin);
    }
    na_pagemap_remove(span);
    for (uintptr_t page = 0; page < 8; page++)
        cr_assert_eq(na_page_tag(span->start + page * NA_PAGE_SIZE), 0);
}

/* Large spans of all shapes around hugepage boundaries, one across a leaf's end. */
Test(pagemap, large_spans_resolve_on_every_page_and_leave_nothing) {
    const struct {
        uintptr_t start;
        uint32_t pages;
    } shapes[] = {{BASE, 512},
                  {BASE + NA_PAGE_SIZE, 511},
                  {BASE + NA_PAGE_SIZE, 1024},
                  {BASE + 255 * NA_PAGE_SIZE, 777},
                  {BASE + 4 * GIB - NA_HUGE_SIZE, 2048},
                  {BASE + 4 * GIB - 3 * NA_PAGE_SIZE, 5000}};
    for (size_t i = 0; i < sizeof shapes / sizeof *shapes; i++) {
        uintptr_t start = shapes[i].start;
        uint32_t pages = shapes[i].pages;
        uintptr_t end = start + pages * NA_PAGE_SIZE;
        na_span_t *before = enter(start - NA_PAGE_SIZE, 1, 1), *after = enter(end, 1, 2);
        na_span_t *span = enter(start, pages, 0);
        for (uintptr_t page = start; page < end; page += NA_PAGE_SIZE)
            cr_assert_eq(at(page + 8191), span, "shape %zu page %#lx", i, (unsigned long)page);
        cr_assert_eq(at(start - 1), before);
        cr_assert_eq(at(end), after);
        na_pagemap_remove(span);
        for (uintptr_t page = start; page < end; page += NA_PAGE_SIZE)
            cr_assert_null(at(page));
        cr_assert_eq(at(start - 1), before);
        cr_assert_eq(at(end), after);
        na_pagemap_remove(before);
        na_pagemap_remove(after);
    }
}

Test(pagemap, prepared_leaves_take_a_span_and_show_none) {
    uintptr_t start = 9 * 4 * GIB - NA_PAGE_SIZE;
    cr_assert(na_pagemap_prepare(start, 2 * NA_PAGE_SIZE));
    cr_assert_null(at(start));
    na_span_t *span = enter(start, 2, 3);
    cr_assert_eq(at(start + NA_PAGE_SIZE), span);
}

Test(pagemap, records_are_zero_when_they_come_back) {
    for (unsigned round = 0; round < 3; round++) {
        na_span_t *span = na_span_new(0);
        cr_assert_eq(span->list, NA_SPAN_UNLISTED);
        span->capacity = 100;
        cr_assert(na_span_add_records(span));
        for (unsigned i = 0; i < 100; i++) {
            cr_assert_eq(span->records[i].epoch, 0);
            cr_assert_eq(span->records[i].site, 0);
            span->records[i] = (na_record_t){.site = i + 1, .epoch = 9};
        }
        na_span_delete(span);
    }
}

Test(pagemap, structs_stay_with_the_node_that_they_were_made_for) {
    na_span_t *span = na_span_new(1);
    span->node = span->home = 2; /* it was migrated */
    na_span_delete(span);
    cr_assert_neq(na_span_new(2), span);
    cr_assert_eq(na_span_new(1), span);
}

/* ---- a child that is made while another thread deletes a span ---- */

#define PAGE(p) ((void *)((uintptr_t)(p) & ~(uintptr_t)4095))

static na_span_t *in_use, *ended;
static _Atomic(int) stands; /* 1: it does; 2: it may go on */

static void on_first_write(int number) {
    (void)number;
    stands = 1;
    while (stands == 1)
        usleep(1000);
    mprotect(PAGE(ended), 4096, PROT_READ | PROT_WRITE);
}

static void *delete_it(void *unused) {
    (void)unused;
    na_span_delete(ended);
    return NULL;
}

static void take_spans_in_child(void) {
    mprotect(PAGE(ended), 4096, PROT_READ | PROT_WRITE);
    na_span_after_fork_child();
    bool right = true;
    for (unsigned i = 0; i < 40; i++)
        right &= na_span_new(0) != in_use;
    _exit(right ? 0 : 1);
}

/* It stands where it links the span into the list, as at any write to a page that a fork has
 * copied: the span's link still leads to where its last list went on. */
Test(pagemap, a_child_takes_no_span_in_use) {
    pthread_t deleter;
    in_use = na_span_new(0);
    do
        ended = na_span_new(0);
    while (PAGE(ended) == PAGE(in_use));
    ended->next = in_use;
    sigaction(SIGSEGV, &(struct sigaction){.sa_handler = on_first_write}, NULL);
    cr_assert_eq(mprotect(PAGE(ended), 4096, PROT_READ), 0);
    cr_assert_eq(pthread_create(&deleter, NULL, delete_it, NULL), 0);
    while (stands == 0)
        usleep(1000);
    pid_t child = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (child == 0) take_spans_in_child();
    stands = 2;
    int status = -1;
    cr_assert_eq(waitpid(child, &status, 0), child);
    cr_assert_eq(pthread_join(deleter, NULL), 0);
    cr_assert_eq(status, 0);
}
