/* first_touch.c - one thread allocates large blocks, a thread pinned to each node writes its part
 * of them first: every part lies on its node. When such a block is freed, what its allocator takes
 * next and writes lies at home; and so does what the program asks for on a node, whoever writes it.
 */
#include <malloc.h>

#include "lab.h"

/* Preloaded, not linked. */
#pragma weak numalloc_alloc_onnode
#pragma weak numalloc_node_of
#pragma weak numalloc_set_thread_node
#pragma weak numalloc_clear_thread_node

#define MIB ((size_t)1 << 20)
/* At least: a run of pages with parts of one huge page each, a long one, a mapping of its own. */
static const size_t sizes[] = {8 * MIB, 24 * MIB, 136 * MIB};

static int place_of[LAB_NODES]; /* nodes with CPUs and memory */
static int places;

typedef struct shared {
    unsigned char *start;
    size_t part;
    lab_pages_t pages[LAB_NODES];
} shared_t;

static void write_part(void *argument, int number) {
    shared_t *shared = argument;
    lab_pin(place_of[number]);
    lab_block_t part = {.start = shared->start + (size_t)number * shared->part,
                        .size = shared->part};
    memset(part.start, number + 1, part.size);
    lab_judge(&part, 1, false, &shared->pages[number]);
}

static shared_t by_parts(void *start, size_t size) {
    shared_t shared = {.start = start, .part = size / (size_t)places};
    REQUIRE(start != NULL);
    lab_team(places, write_part, &shared);
    return shared;
}

static void expect_local(void *start, size_t size, const char *what) {
    shared_t shared = by_parts(start, size);
    for (int i = 0; i < places; i++) {
        char text[128];
        snprintf(text, sizeof text, "%s of %zu MiB, part %d", what, size / MIB, i);
        lab_expect_on(&shared.pages[i], place_of[i], text);
        if (numalloc_node_of != NULL)
            CHECK(numalloc_node_of(shared.start + ((size_t)i * 2 + 1) * shared.part / 2) ==
                  lab_node[place_of[i]].id);
    }
}

/* A huge page lies on one node: so all parts are whole ones. */
static size_t whole(size_t least) {
    size_t step = (size_t)places * 2 * MIB;
    return (least + step - 1) / step * step;
}

/* Whoever writes it. */
static void expect_on_one(void *start, size_t size, int index, const char *what) {
    shared_t shared = by_parts(start, size);
    lab_pages_t all = {0};
    for (int i = 0; i < places; i++) {
        all.total += shared.pages[i].total;
        for (int n = 0; n < lab_nodes; n++)
            all.on[n] += shared.pages[i].on[n];
    }
    lab_expect_on(&all, index, what);
    free(start);
}

static void expect_at_home(size_t size) {
    lab_block_t block;
    lab_pages_t pages = {0};
    lab_make(&block, size);
    lab_judge(&block, 1, false, &pages);
    lab_expect_on(&pages, place_of[0], "what came in its place, written by who allocated it");
    lab_drop(&block);
}

int main(void) {
    check_begin();
    lab_begin(2);
    lab_no_balancing();
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].cpu >= 0 && lab_node[i].memory) place_of[places++] = i;
    lab_pin(place_of[0]);
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        size_t size = whole(sizes[k]);
        malloc_trim(0);
        void *block = check_opaque(malloc(size));
        expect_local(block, size, "a block");
        free(block);
        expect_at_home(size);
        malloc_trim(0);
        block = check_opaque(calloc(1, size));
        expect_local(block, size, "a cleared block");
        free(block);
        block = check_opaque(malloc(size));
        lab_pages_t first = by_parts(block, size).pages[0];
        lab_expect_on(&first, place_of[0], "the first part of what came in its place");
        free(block);
    }
    if (numalloc_alloc_onnode == NULL) return lab_status(check_status());
    int last = place_of[places - 1];
    for (size_t k = 0; k < NA_COUNT(sizes); k++) {
        size_t size = whole(sizes[k]);
        malloc_trim(0);
        expect_on_one(numalloc_alloc_onnode(size, lab_node[last].id), size, last,
                      "a block on a node");
        REQUIRE(numalloc_set_thread_node(lab_node[last].id) == 0);
        expect_on_one(malloc(size), size, last, "of the thread's node");
        REQUIRE(numalloc_clear_thread_node() == 0);
    }
    return lab_status(check_status());
}
