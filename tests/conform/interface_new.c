/* interface_new.c - structures that are shorter and longer than the library's; interface.sh. The
 * exit status is the number of the step that went wrong. */
#include <errno.h>
#include <numalloc/numalloc.h>
#include <stdlib.h>
#include <string.h>

#define STEP(number, condition)                                                                    \
    if (!(condition)) return number

/* What a structure of a later version is like. */
#define LATER(type)                                                                                \
    struct {                                                                                       \
        type known;                                                                                \
        unsigned char more[24], behind;                                                            \
    }

#define LATER_SIZE(what) (sizeof(what).known + sizeof(what).more)

static int is(const unsigned char *bytes, size_t count, unsigned char value) {
    for (size_t i = 0; i < count; i++)
        if (bytes[i] != value) return 0;
    return 1;
}

int main(void) {
    LATER(numalloc_stats_t) stats;
    memset(&stats, 0xee, sizeof stats);
    void *block = malloc(100);
    numalloc_read_stats(&stats.known, LATER_SIZE(stats));
    STEP(1, stats.known.reserved > 0);
    STEP(2, is(stats.more, sizeof stats.more, 0) && stats.behind == 0xee);
    memset(&stats, 0xee, sizeof stats);
    numalloc_read_stats(&stats.known, 8);
    STEP(3, stats.known.reserved > 0);
    STEP(4, is((unsigned char *)&stats + 8, sizeof stats - 8, 0xee));

    LATER(numalloc_node_stats_t) node;
    memset(&node, 0xee, sizeof node);
    int id = -1;
    numalloc_nodes(&id, 1);
    STEP(5, numalloc_read_node_stats(id, &node.known, LATER_SIZE(node)) == 0);
    STEP(6, node.known.live > 0 && is(node.more, sizeof node.more, 0) && node.behind == 0xee);

    numalloc_heap_t *heap = numalloc_heap_create(NULL);
    LATER(numalloc_heap_stats_t) of;
    memset(&of, 0xee, sizeof of);
    numalloc_heap_read_stats(heap, &of.known, LATER_SIZE(of));
    STEP(7, of.known.live == 0 && is(of.more, sizeof of.more, 0) && of.behind == 0xee);
    numalloc_heap_destroy(heap);

    STEP(8, numalloc_record_start(NUMALLOC_MODE_SITES, "new.nprof") == 0);
    LATER(numalloc_site_t) site;
    memset(&site, 0xee, sizeof site);
    void *mine = malloc(77);
    STEP(9, numalloc_find_site(mine, &site.known, LATER_SIZE(site)) == 0 && site.known.size == 77);
    STEP(10, is(site.more, sizeof site.more, 0) && site.behind == 0xee);
    STEP(11, numalloc_record_stop() == 0);
    free(mine);
    free(block);

    LATER(numalloc_record_options_t) with;
    memset(&with, 0, sizeof with);
    with.known.mode = NUMALLOC_MODE_SITES;
    with.known.file = "new.nprof";
    STEP(12, numalloc_record_start_with(&with.known) == -1 && errno == EINVAL);
    with.known.size = LATER_SIZE(with);
    STEP(13, numalloc_record_start_with(&with.known) == 0 && numalloc_record_stop() == 0);
    with.more[0] = 1;
    STEP(14, numalloc_record_start_with(&with.known) == -1 && errno == EINVAL);
    with.known.size = offsetof(numalloc_record_options_t, settings);
    with.known.settings = "not read";
    STEP(15, numalloc_record_start_with(&with.known) == 0 && numalloc_record_stop() == 0);
    return 0;
}
