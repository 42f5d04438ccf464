/* api.c - the NUMA functions of numalloc.h do what they say, judged by the kernel. */
#include "lab.h"

#include <sys/mman.h>

/* Preloaded, not linked. */
#pragma weak numalloc_alloc_onnode
#pragma weak numalloc_alloc_local
#pragma weak numalloc_alloc_interleaved
#pragma weak numalloc_node_of
#pragma weak numalloc_page_node
#pragma weak numalloc_migrate
#pragma weak numalloc_migrate_range
#pragma weak numalloc_replicate
#pragma weak numalloc_replica
#pragma weak numalloc_free_replicas
#pragma weak numalloc_set_thread_node
#pragma weak numalloc_clear_thread_node

#define MIB      ((size_t)1 << 20)
#define COLLAPSE 25 /* MADV_COLLAPSE, of Linux 6.1 */
static const size_t sizes[] = {8, 100, 4000, 30000, 100000, 3 * MIB};

/* Writes to a block of the API and judges its pages. */
static lab_pages_t fill(void *start, size_t size) {
    REQUIRE(start != NULL);
    memset(start, 1, size);
    lab_block_t block = {.start = start, .size = size};
    lab_pages_t pages = {0};
    lab_judge(&block, 1, false, &pages);
    return pages;
}

static void on_nodes(int home) {
    lab_pin(home);
    for (int i = 0; i < lab_nodes; i++) {
        if (!lab_node[i].memory) continue;
        for (size_t k = 0; k < NA_COUNT(sizes); k++)
            for (unsigned n = 0; n < 20; n++) {
                void *block = numalloc_alloc_onnode(sizes[k], lab_node[i].id);
                lab_pages_t pages = fill(block, sizes[k]);
                CHECK_MSG(pages.on[i] == pages.total, "%zu bytes on node %d: %lu of %lu pages",
                          sizes[k], lab_node[i].id, pages.on[i], pages.total);
                CHECK(numalloc_node_of(block) == lab_node[i].id);
                CHECK(numalloc_page_node(block) == lab_node[i].id);
                if (n % 2 == 0) free(block);
            }
    }
}

static void interleaved(void) {
    void *block = numalloc_alloc_interleaved(8 * MIB, NULL, 0);
    lab_pages_t pages = fill(block, 8 * MIB);
    uint64_t members = 0;
    for (int i = 0; i < lab_nodes; i++)
        members += lab_node[i].memory;
    for (int i = 0; i < lab_nodes; i++)
        if (lab_node[i].memory)
            CHECK_MSG(pages.on[i] + 1 >= pages.total / members &&
                          pages.on[i] <= pages.total / members + 1,
                      "node %d has %lu of %lu pages", lab_node[i].id, pages.on[i], pages.total);
    free(block);
}

/* The block moves, its neighbours do not, and what comes in its place is at home again. */
static void migrated(int home, int away) {
    static const size_t large[] = {300000, 5 * MIB + 12345, 140 * MIB};
    lab_pin(home);
    for (size_t k = 0; k < NA_COUNT(large); k++) {
        size_t used = large[k] < 20 * MIB ? large[k] : 20 * MIB;
        unsigned char *block = malloc(large[k]);
        lab_pages_t pages = fill(block, used);
        lab_expect_on(&pages, home, "before it moves");
        void *neighbour = malloc(large[k] / 2);
        fill(neighbour, used / 2);
        numalloc_migration_t m;
        int result = numalloc_migrate(block, lab_node[away].id, &m);
        CHECK_MSG(result == 0 || (result == 1 && m.refused + m.shared != 0), "%zu bytes: %d",
                  large[k], result);
        memset(&pages, 0, sizeof pages);
        lab_block_t whole = {.start = block, .size = used};
        lab_judge(&whole, 1, false, &pages);
        CHECK_MSG(pages.on[away] * 4096 + 16384 >= m.moved, "%lu of %lu pages, %zu said",
                  pages.on[away], pages.total, m.moved / 4096);
        CHECK_MSG(pages.on[home] * 4096 <= m.refused + m.shared, "%lu pages stayed",
                  pages.on[home]);
        for (size_t i = 0; i < used; i += 4096)
            REQUIRE(block[i] == 1);
        pages = fill(neighbour, used / 2);
        lab_expect_on(&pages, home, "its neighbour");
        /* As khugepaged does at times: a huge page that holds the block's end, and what is nobody's
         * behind it. */
        uintptr_t end = ((uintptr_t)block + used) & ~(uintptr_t)(2 * MIB - 1);
        (void)madvise((void *)end, 2 * MIB, COLLAPSE);
        free(block);
        free(neighbour);
        block = malloc(large[k]);
        pages = fill(block, used);
        lab_expect_on(&pages, home, "what came in its place");
        free(block);
    }
}

/* A block that one thread filled, by parts on all nodes, in turn or in two halves; what comes in
 * its place is at home again. One with a mapping of its own can grow all the same. */
static void by_parts(int home) {
    static const size_t large[] = {300 * 4096, 140 * MIB};
    lab_pin(home);
    for (size_t k = 0; k < NA_COUNT(large); k++) {
        size_t used = large[k] < 20 * MIB ? large[k] : 20 * MIB, part = used / 4 & ~(size_t)4095;
        unsigned char *block = malloc(large[k]);
        lab_pages_t pages = fill(block, used);
        lab_expect_on(&pages, home, "before its parts move");
        for (int i = 0; i < 4; i++) {
            int to = (home + i) % lab_nodes;
            if (!lab_node[to].memory) continue;
            numalloc_migration_t m;
            int result =
                numalloc_migrate_range(block + (size_t)i * part, part, lab_node[to].id, &m);
            CHECK_MSG(result == 0 || (result == 1 && m.refused + m.shared != 0), "part %d: %d", i,
                      result);
            CHECK(m.moved + m.already + m.refused + m.shared == part);
            lab_block_t of = {.start = block + (size_t)i * part, .size = part};
            memset(&pages, 0, sizeof pages);
            lab_judge(&of, 1, false, &pages);
            /* (Of pages that others have a part of, those that are there already count as shared.)
             */
            CHECK_MSG(pages.on[to] * 4096 >= m.moved + m.already &&
                          pages.on[to] * 4096 <= m.moved + m.already + m.shared,
                      "part %d: %lu of %lu pages", i, pages.on[to], pages.total);
        }
        for (size_t i = 0; i < used; i += 4096)
            REQUIRE(block[i] == 1);
        block = realloc(block, large[k] + 8 * MIB);
        REQUIRE(block != NULL);
        for (size_t i = 0; i < used; i += 4096)
            REQUIRE(block[i] == 1);
        free(block);
        block = malloc(large[k]);
        pages = fill(block, used);
        lab_expect_on(&pages, home, "what came in the place of parts");
        free(block);
    }
}

static void replicas(void) {
    static unsigned char data[MIB];
    memset(data, 42, sizeof data);
    numalloc_replicas_t *set = numalloc_replicate(data, sizeof data);
    REQUIRE(set != NULL);
    for (int i = 0; i < lab_nodes; i++) {
        if (lab_node[i].cpu < 0) continue;
        lab_pin(i);
        const void *copy = numalloc_replica(set);
        CHECK(memcmp(copy, data, sizeof data) == 0);
        lab_block_t block = {.start = (unsigned char *)copy, .size = sizeof data};
        lab_pages_t pages = {0};
        lab_judge(&block, 1, false, &pages);
        lab_expect_on(&pages, lab_home(i), "a replica");
    }
    numalloc_free_replicas(set);
}

static void threads_node(int home, int away) {
    lab_pin(home);
    REQUIRE(numalloc_set_thread_node(lab_node[away].id) == 0);
    lab_pages_t all = {0}, pages;
    for (unsigned i = 0; i < 300; i++) {
        pages = fill(malloc(1 + i * 100), 1 + i * 100);
        all.total += pages.total;
        all.on[away] += pages.on[away];
    }
    lab_expect_on(&all, away, "of the thread's node");
    pages = fill(numalloc_alloc_local(100000), 100000);
    lab_expect_on(&pages, home, "local all the same");
    CHECK(numalloc_clear_thread_node() == 0);
    pages = fill(malloc(100000), 100000);
    lab_expect_on(&pages, home, "at home again");
}

int main(void) {
    check_begin();
    lab_begin(2);
    lab_no_balancing();
    REQUIRE(numalloc_alloc_onnode != NULL);
    int home = -1, away = -1;
    for (int i = 0; i < lab_nodes; i++) {
        if (!lab_node[i].memory) continue;
        if (home < 0 && lab_node[i].cpu >= 0)
            home = i;
        else
            away = i;
    }
    REQUIRE(home >= 0 && away >= 0);
    on_nodes(home);
    interleaved();
    migrated(home, away);
    by_parts(home);
    replicas();
    threads_node(home, away);
    return lab_status(check_status());
}
