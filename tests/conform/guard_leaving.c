/* guard_leaving.c - a free that finds the guards' lock held leaves its block to the holder, who may
 * close its pages from then on, not before: here the holder finishes between any two instructions
 * of the free (support/steps.h). Linked with the static library, whose lock it takes as fork does.
 * NUMALLOC_GUARD_EACH=1.
 *
 * Argument: [stride], between the instructions that are tried; 1 otherwise. */
#include "support/check.h"
#include "support/steps.h"

#include "profiler/guard/guard_state.h"

enum { LAST = 300 /* instructions of the free that are tried */ };

static void *block;
static unsigned taken;

static void hold(void) {
    taken = na_guard->before_fork();
}

static void finish(void) {
    na_guard->after_fork(false, taken);
}

static void let_finish(void) {
    steps_let_other(finish);
}

static void drop(void) {
    free(block);
}

static uint64_t free_until(uint64_t at) {
    const steps_stop_t stops[] = {{at, let_finish}, {0, NULL}};
    void *first = check_opaque(malloc(100));
    block = check_opaque(malloc(77));
    REQUIRE(na_guard_holds(first) && na_guard_holds(block));
    steps_have_other(hold);
    free(first); /* is left to the holder already */
    uint64_t steps = steps_through(drop, stops);
    if (at > steps) steps_have_other(finish);
    steps_wait_other();
    free(malloc(1)); /* so that nothing is left */
    return steps;
}

int main(int argc, char **argv) {
    check_begin();
    uint64_t stride = argc > 1 ? strtoul(argv[1], NULL, 10) : 1;
    REQUIRE(steps_catch());
    pthread_t other = steps_begin_other();
    REQUIRE(other != 0);
    for (unsigned i = 0; i < 20; i++) /* its stack is known, rules are learnt */
        free_until(UINT64_MAX);
    uint64_t most = free_until(UINT64_MAX);
    REQUIRE(most > LAST && stride > 0);
    for (uint64_t i = 1; i <= LAST; i += stride)
        free_until(most - i);
    CHECK(na_guards.t->head.errors == 0 && na_guards.live_blocks < 10);
    steps_end_other(other);
    return check_status();
}
