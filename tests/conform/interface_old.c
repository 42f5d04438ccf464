/* interface_old.c - a program as it was written for 0.1; interface.sh. Its exit status is the
 * number of the step that went wrong. */
#include <errno.h>
#include <numalloc/numalloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define STEP(number, condition)                                                                    \
    if (!(condition)) return number

int main(void) {
    char file[64];
    snprintf(file, sizeof file, "old.%d.nprof", (int)getpid());
    numalloc_stats_t stats;
    memset(&stats, 0xff, sizeof stats);
    void *block = malloc(100);
    if (numalloc_profile_start == NULL) return 1;
    numalloc_get_stats(&stats);
    STEP(2, stats.reserved > 0 && stats.leaked_by_fork == 0);
    numalloc_node_stats_t node;
    int id = -1;
    numalloc_nodes(&id, 1);
    STEP(3, numalloc_get_node_stats(id, &node) == 0 && node.live >= 100);
    numalloc_heap_t *heap = numalloc_heap_create(&(numalloc_heap_options_t){.name = "old"});
    numalloc_heap_stats_t of;
    numalloc_heap_get_stats(heap, &of);
    STEP(4, strcmp(of.name, "old") == 0);
    numalloc_heap_destroy(heap);
    numalloc_leaks_t leaks;
    STEP(5, numalloc_find_leaks(&leaks, 0) == -1 && errno == ENOTSUP);
    STEP(6, numalloc_profile_start("none", file) == -1 && errno == EINVAL);
    STEP(7, numalloc_profile_start("sites", file) == 0 && numalloc_profile_is_running() == 1);
    numalloc_site_t site;
    void *mine = malloc(77);
    STEP(8, numalloc_site_of(mine, &site) == 0 && site.block == mine && site.size == 77);
    numalloc_profile_marker("old");
    STEP(9, numalloc_profile_dump() == 0);
    numalloc_profile_request(4711);
    numalloc_profile_request(NUMALLOC_PROFILE_DUMP);
    STEP(10, numalloc_profile_stop() == 0 && numalloc_profile_is_running() == 0);
    STEP(11, numalloc_profile_start(NULL, file) == 0 && numalloc_profile_stop() == 0);
    free(mine);
    free(block);
    return 0;
}
