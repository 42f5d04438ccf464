/* test_heap_child.c - heap.c: a child of a fork that came while another thread made a heap. Which
 * moment that is, only the source can say, so it is part of the test. */
#include <criterion/criterion.h>

#include "alloc/core/thread/attach.h"
#include "alloc/heaps/heap.c"

static na_heap_t *a_heap(void) {
    return na_heap_make((na_heap_kind_t){.node = 0}, NULL);
}

Test(heap_child, the_heap_that_was_being_made_is_missing) {
    na_init();
    na_heap_t *first = a_heap();
    cr_assert_not_null(first);
    made++; /* the compiler may store this first */
    na_lock(&first->lock);
    first->lists = 3;
    na_heap_forget_lists();
    cr_assert_eq(first->lists, 0);
    na_heap_after_fork_child();
    na_heap_t *second = a_heap();
    cr_assert_not_null(second);
    cr_assert_eq(second->owner, first->owner + 1, "its place is taken again");
    cr_assert_eq(na_heap_of_owner(second->owner), second);
}
