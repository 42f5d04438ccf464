/* test_consumer.c - whose node a heap's blocks are freed on. */
#include <criterion/criterion.h>

#include "alloc/heaps/consumer.h"

static na_consumer_t c;

static void begin(void) {
    na_consumer_begin(&c);
}

static unsigned node(void) {
    return atomic_load(&c.node);
}

Test(consumer, is_not_known_before_a_turn, .init = begin) {
    cr_expect_eq(node(), NA_NODE_ANY);
    na_consumer_freed(&c, 1, NA_CONSUMER_TURN - 1);
    cr_expect_eq(node(), NA_NODE_ANY);
    na_consumer_freed(&c, 1, 1);
    cr_expect_eq(node(), 1);
}

Test(consumer, has_three_quarters_of_a_turn, .init = begin) {
    enum { MOST = NA_CONSUMER_TURN / 4 * 3, FEW = NA_CONSUMER_TURN - MOST };
    na_consumer_freed(&c, 0, FEW + 1);
    na_consumer_freed(&c, 2, MOST - 1);
    cr_expect_eq(node(), NA_NODE_ANY);
    na_consumer_freed(&c, 0, FEW);
    na_consumer_freed(&c, 2, MOST);
    cr_expect_eq(node(), 2);
}

Test(consumer, is_followed, .init = begin) {
    na_consumer_freed(&c, 3, 8 * NA_CONSUMER_LARGE);
    cr_expect_eq(node(), 3);
    na_consumer_freed(&c, 0, NA_CONSUMER_TURN / 2); /* turns that are nobody's change nothing */
    na_consumer_freed(&c, 1, NA_CONSUMER_TURN / 2);
    cr_expect_eq(node(), 3);
    na_consumer_freed(&c, 0, NA_CONSUMER_TURN);
    cr_expect_eq(node(), 0);
}

Test(consumer, is_on_no_node, .init = begin) {
    na_consumer_freed(&c, NA_NODE_ANY, 10 * NA_CONSUMER_TURN);
    cr_expect_eq(node(), NA_NODE_ANY);
    na_consumer_freed(&c, 1, NA_CONSUMER_TURN);
    cr_expect_eq(node(), 1);
}
