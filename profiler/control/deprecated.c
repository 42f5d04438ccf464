/* deprecated.c - the functions of 0.1 that have another form since 1.0, by way of that. They fill
 * what their callers were compiled with: the members of 0.1, which no structure has outgrown yet.
 */
#include "numalloc/numalloc.h"

void numalloc_get_stats(numalloc_stats_t *stats) {
    numalloc_read_stats(stats, sizeof *stats);
}

int numalloc_get_node_stats(int node, numalloc_node_stats_t *stats) {
    return numalloc_read_node_stats(node, stats, sizeof *stats);
}

void numalloc_heap_get_stats(numalloc_heap_t *heap, numalloc_heap_stats_t *stats) {
    numalloc_heap_read_stats(heap, stats, sizeof *stats);
}

int numalloc_find_leaks(numalloc_leaks_t *leaks, int report) {
    return numalloc_scan_leaks(leaks, sizeof *leaks, report);
}

int numalloc_site_of(const void *address, numalloc_site_t *site) {
    return numalloc_find_site(address, site, sizeof *site);
}

int numalloc_profile_stop(void) {
    return numalloc_record_stop();
}

int numalloc_profile_dump(void) {
    return numalloc_record_dump();
}

int numalloc_profile_is_running(void) {
    return numalloc_record_is_running();
}

void numalloc_profile_marker(const char *name) {
    numalloc_record_marker(name);
}

void numalloc_profile_request(int what) {
    numalloc_record_request((numalloc_request_t)what);
}
