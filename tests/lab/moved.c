/* moved.c - a thread moves to another node, and all that it allocates from 20 ms and two slow paths
 * after the move lies there: whether it was bound to the new node or the scheduler might carry it
 * back, in whatever order the 20 ms and the slow paths come, whichever size takes the slow paths,
 * and though its lists are full of the old node's blocks of every size. */
#include <linux/perf_event.h>
#include <sys/syscall.h>

#include "lab.h"

enum {
    SIZES = 60,
    BYTES = 512 << 10, /* of each size, at least; and at least MOST / SIZES / 2 blocks */
    MOST = 16384,
    ATTEMPTS = 60, /* a busy machine carries threads about */
};

typedef enum order { SLOW_WAIT_SLOW, WAIT_SLOW_SLOW, SLOW_SLOW_WAIT, ORDERS } order_t;
static const char *const order_name[ORDERS] = {"a slow path, 20 ms, a slow path",
                                               "20 ms, two slow paths", "two slow paths, 20 ms"};

static lab_block_t block[MOST];
static size_t count;
static cpu_set_t everywhere;

/* 16 bytes to 448 KiB, four steps to each power of two; as many of each as no list has at hand. */
static void fill(void) {
    count = 0;
    for (unsigned i = 0; i < SIZES; i++) {
        size_t size = ((size_t)16 << i / 4) + ((size_t)4 << i / 4) * (i % 4);
        size_t blocks = size <= 1024 ? 600 : size <= 32 << 10 ? 40 : 4;
        for (size_t n = 0; n < blocks; n++) {
            REQUIRE(count < MOST);
            lab_make(&block[count++], size);
        }
    }
}

static void empty(void) {
    for (size_t i = 0; i < count; i++)
        lab_drop(&block[i]);
}

/* The clock that goes by the kernel's ticks, as numalloc's does: an emulated processor may be late
 * with hundreds of them. */
static uint64_t ticked_ms(void) {
    struct timespec t;
    REQUIRE(clock_gettime(CLOCK_MONOTONIC_COARSE, &t) == 0);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* By the clock, and without leaving the CPU: who sleeps may wake up elsewhere. */
static void wait_20_ms(uint64_t since) {
    while (ticked_ms() - since <= 20) {
    }
}

/* `times` slow paths. Small: numalloc looks up at least every 256 operations of a size, so that 257
 * take at least one. Large: exactly one each. What is allocated for it is kept out of reach. */
static void slow_paths(bool small, unsigned times) {
    static void *kept[2 * 257];
    static unsigned used;
    if (times == 0) { /* afterwards */
        while (used > 0)
            free(kept[--used]);
        return;
    }
    for (unsigned i = 0; i < (small ? times * 257 : times); i++) {
        REQUIRE(used < NA_COUNT(kept));
        kept[used++] = check_opaque(malloc(small ? 48 : 40 << 10));
    }
}

/* How often the thread came to another CPU, by the kernel's count: the scheduler may carry it away
 * and back between any two looks at where it is. */
static uint64_t moves(void) {
    static int counter = -1;
    if (counter < 0) {
        struct perf_event_attr attr = {.type = PERF_TYPE_SOFTWARE,
                                       .size = sizeof attr,
                                       .config = PERF_COUNT_SW_CPU_MIGRATIONS};
        counter = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, 0);
        REQUIRE(counter >= 0);
    }
    uint64_t count_so_far = 0;
    REQUIRE(read(counter, &count_so_far, sizeof count_so_far) == sizeof count_so_far);
    return count_so_far;
}

/* False: the scheduler has moved the thread itself, so that this attempt says nothing. */
static bool attempt(int from, int to, bool bound, order_t order, bool small, lab_pages_t *pages) {
    lab_pin(from);
    slow_paths(small, 2);
    fill();
    empty();
    slow_paths(small, 0);
    lab_pin(to);
    uint64_t moved = ticked_ms(), moves_then = moves();
    if (!bound) REQUIRE(sched_setaffinity(0, sizeof everywhere, &everywhere) == 0);
    if (order == SLOW_SLOW_WAIT) slow_paths(small, 2);
    if (order == SLOW_WAIT_SLOW) slow_paths(small, 1);
    wait_20_ms(moved);
    if (order == WAIT_SLOW_SLOW) slow_paths(small, 2);
    if (order == SLOW_WAIT_SLOW) slow_paths(small, 1);
    fill();
    bool stayed = moves() == moves_then;
    if (stayed) lab_judge(block, count, false, pages);
    empty();
    slow_paths(small, 0);
    return stayed;
}

static void check(int from, int to, bool bound, order_t order, bool small) {
    char what[160];
    snprintf(what, sizeof what, "%s from node %d to node %d; %s (%s)", bound ? "bound" : "carried",
             lab_node[from].id, lab_node[to].id, order_name[order], small ? "small" : "large");
    for (unsigned i = 0; i < ATTEMPTS; i++) {
        lab_pages_t pages = {0};
        if (!attempt(from, to, bound, order, small, &pages)) continue;
        lab_expect_on(&pages, lab_home(to), what);
        return;
    }
    CHECK_MSG(false, "%s: the scheduler did not leave the thread there", what);
}

int main(void) {
    check_begin();
    lab_begin(2);
    int place[LAB_NODES], places = 0, at = 0;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0) place[places++] = i;
    REQUIRE(sched_getaffinity(0, sizeof everywhere, &everywhere) == 0);
    uint64_t at_first = moves();
    lab_pin(place[1]);
    lab_pin(place[0]);
    REQUIRE(moves() > at_first); /* the kernel does count them */
    for (int bound = 1; bound >= 0; bound--)
        for (order_t order = 0; order < ORDERS; order++)
            for (int small = 0; small < 2; small++, at++)
                check(place[at % places], place[(at + 1) % places], bound, order, small);
    return lab_status(check_status());
}
