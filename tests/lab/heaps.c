/* heaps.c - heaps of the program's own lie where their options say, judged by the kernel: small,
 * middle and large blocks, by the thread that made the heap and by threads of other nodes. */
#include "lab.h"

/* Preloaded, not linked. */
#pragma weak numalloc_heap_create
#pragma weak numalloc_heap_malloc
#pragma weak numalloc_heap_destroy
#pragma weak numalloc_heap_read_stats

#define MIB ((size_t)1 << 20)
static const size_t sizes[] = {40, 600, 20000, 100000, 3 * MIB};
#define BYTES (4 * MIB) /* of each size, so that small ones are many pages, too */

static numalloc_heap_t *make(numalloc_heap_place_t place, int node, unsigned flags) {
    numalloc_heap_t *heap = numalloc_heap_create(
        &(numalloc_heap_options_t){.place = place, .node = node, .flags = flags});
    REQUIRE(heap != NULL);
    return heap;
}

/* Fills the heap with blocks of the size, writes to them, and judges their pages. */
static lab_pages_t fill(numalloc_heap_t *heap, size_t size) {
    static lab_block_t blocks[BYTES / 40 + 1];
    size_t count = BYTES / size;
    for (size_t i = 0; i < count; i++) {
        blocks[i] = (lab_block_t){.start = numalloc_heap_malloc(heap, size), .size = size};
        REQUIRE(blocks[i].start != NULL);
        memset(blocks[i].start, 1, size);
    }
    lab_pages_t pages = {0};
    lab_judge(blocks, count, false, &pages);
    for (size_t i = 0; i < count; i += 2)
        free(blocks[i].start);
    return pages;
}

static void expect(numalloc_heap_t *heap, int index, const char *what) {
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        lab_pages_t pages = fill(heap, sizes[k]);
        lab_expect_on(&pages, index, what);
    }
}

/* Each thread's blocks of one heap, on its own node; of the heap of another, on that heap's. */
static numalloc_heap_t *local;
static int place_of[LAB_NODES], places;

static void by_thread(void *arg, int number) {
    (void)arg;
    lab_pin(place_of[number]);
    lab_sleep_ms(20);
    for (size_t k = 0; k < 4; k++) { /* the largest lie where they are first touched, as malloc's */
        lab_pages_t pages = {0};
        lab_block_t block = {.size = sizes[k]};
        for (unsigned i = 0; i < 500; i++) {
            block.start = numalloc_heap_malloc(local, sizes[k]);
            memset(block.start, 1, block.size);
            if (i >= 100) lab_judge(&block, 1, false, &pages); /* it has noticed that it moved */
        }
        lab_expect_on(&pages, place_of[number], "of a local heap, by a thread");
    }
}

static void interleaved(unsigned flags) {
    numalloc_heap_t *heap = make(NUMALLOC_HEAP_INTERLEAVED, 0, flags);
    uint64_t members = 0;
    for (int i = 0; i < lab_nodes; i++)
        members += lab_node[i].memory;
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        lab_pages_t pages = fill(heap, sizes[k]);
        for (int i = 0; i < lab_nodes; i++)
            if (lab_node[i].memory)
                CHECK_MSG(pages.on[i] * members > pages.total / 2 &&
                              pages.on[i] * members < 2 * pages.total,
                          "%zu bytes: node %d has %lu of %lu pages", sizes[k], lab_node[i].id,
                          pages.on[i], pages.total);
    }
    numalloc_heap_destroy(heap);
}

/* The thread runs on each node in turn; a page lies where it was when it was written. */
static void first_touch(void) {
    lab_no_balancing();
    numalloc_heap_t *heap = make(NUMALLOC_HEAP_FIRST_TOUCH, 0, 0);
    void *block[LAB_NODES];
    lab_pin(place_of[0]);
    for (int i = 0; i < places; i++)
        block[i] = numalloc_heap_malloc(heap, 3 * MIB);
    for (int i = 0; i < places; i++) {
        lab_pin(place_of[i]);
        memset(block[i], 1, 3 * MIB);
        lab_block_t of = {.start = block[i], .size = 3 * MIB};
        lab_pages_t pages = {0};
        lab_judge(&of, 1, false, &pages);
        lab_expect_on(&pages, place_of[i], "of a heap by first touch");
    }
    numalloc_heap_destroy(heap);
}

/* Nearest node of a kind, as the distances say; -1: none. */
static int nearest(int from, bool with_cpus) {
    int best = -1;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].memory && (lab_node[i].cpu >= 0) == with_cpus &&
            (best < 0 || lab_node[from].distance[i] < lab_node[from].distance[best]))
            best = i;
    return best;
}

static void tiers(void) {
    lab_pin(place_of[0]);
    numalloc_heap_t *near = make(NUMALLOC_HEAP_NEAR, 0, 0), *far = make(NUMALLOC_HEAP_FAR, 0, 0);
    int far_node = nearest(place_of[0], false);
    expect(near, nearest(place_of[0], true), "of a near heap");
    expect(far, far_node >= 0 ? far_node : place_of[0], "of a far heap");
    numalloc_heap_stats_t stats;
    numalloc_heap_read_stats(far, &stats, sizeof stats);
    CHECK(stats.node == lab_node[far_node >= 0 ? far_node : place_of[0]].id);
    numalloc_heap_destroy(near);
    numalloc_heap_destroy(far);
}

/* One thread makes blocks, another frees them, on the second node and then on the last: blocks that
 * come after are on its node. */
enum { HANDED = 1000, LARGE_HANDED = 64 };
static numalloc_heap_t *consumed;
static pthread_barrier_t turn;
static lab_block_t handed[HANDED];

static void hand_over(size_t size, size_t count, lab_pages_t *pages) {
    for (size_t i = 0; i < count; i++) {
        handed[i] = (lab_block_t){.start = numalloc_heap_malloc(consumed, size), .size = size};
        REQUIRE(handed[i].start != NULL);
        memset(handed[i].start, 1, size);
    }
    lab_judge(handed, count, false, pages);
    pthread_barrier_wait(&turn); /* freed by the other */
    pthread_barrier_wait(&turn);
}

static void produce_or_consume(void *arg, int number) {
    (void)arg;
    int consumer[] = {place_of[1], place_of[places - 1]};
    if (number == 0) lab_pin(place_of[0]);
    for (size_t c = 0; c < NA_COUNT(consumer); c++) {
        if (number == 1) lab_pin(consumer[c]);
        lab_sleep_ms(20);
        for (size_t k = 0; k < 4; k++) {
            size_t count = sizes[k] <= 32768 ? HANDED : LARGE_HANDED;
            for (int round = 0; round < 2; round++) {
                lab_pages_t pages = {0};
                if (number == 0) {
                    hand_over(sizes[k], count, &pages);
                    if (round == 1) lab_expect_on(&pages, consumer[c], "for the consumer");
                    continue;
                }
                pthread_barrier_wait(&turn);
                for (size_t i = 0; i < count; i++)
                    free(handed[i].start);
                pthread_barrier_wait(&turn);
            }
        }
    }
}

static void learned(void) {
    numalloc_heap_stats_t stats;
    consumed = make(NUMALLOC_HEAP_CONSUMER, 0, 0);
    numalloc_heap_read_stats(consumed, &stats, sizeof stats);
    CHECK(stats.node == (places > 1 ? -1 : lab_node[place_of[0]].id));
    if (places > 1) {
        pthread_barrier_init(&turn, NULL, 2);
        lab_team(2, produce_or_consume, NULL);
        numalloc_heap_read_stats(consumed, &stats, sizeof stats);
        CHECK(stats.node == lab_node[place_of[places - 1]].id);
    }
    numalloc_heap_destroy(consumed);
}

int main(void) {
    check_begin();
    lab_begin(1);
    REQUIRE(numalloc_heap_create != NULL);
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0 && lab_node[i].memory) place_of[places++] = i;
    lab_pin(place_of[0]);
    for (int i = 0; i < lab_nodes; i++) {
        if (!lab_node[i].memory) continue;
        for (unsigned flags = 0; flags <= 3; flags++) {
            numalloc_heap_t *heap = make(NUMALLOC_HEAP_NODE, lab_node[i].id, flags);
            expect(heap, i, "of a heap on a node");
            numalloc_heap_destroy(heap);
        }
    }
    local = make(NUMALLOC_HEAP_LOCAL, 0, 0);
    lab_team(places, by_thread, NULL);
    numalloc_heap_destroy(local);
    interleaved(0);
    interleaved(NUMALLOC_HEAP_OWN_LINES);
    first_touch();
    tiers();
    learned();
    return lab_status(check_status());
}
