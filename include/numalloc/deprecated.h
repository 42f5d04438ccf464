/* deprecated.h - the functions of 0.1 that have another form since 1.0: they work as before, and go
 * with 2.0. numalloc.h includes it, unless NUMALLOC_NO_DEPRECATED is defined. */
#ifndef NUMALLOC_DEPRECATED_H
#define NUMALLOC_DEPRECATED_H

#include "numalloc/numalloc.h"

#ifdef __cplusplus
extern "C" {
#endif
#pragma GCC visibility push(default)

#define NUMALLOC_INSTEAD(form) __attribute__((deprecated(form)))

NUMALLOC_INSTEAD("numalloc_read_stats(stats, sizeof *stats)")
void numalloc_get_stats(numalloc_stats_t *stats);
NUMALLOC_INSTEAD("numalloc_read_node_stats(node, stats, sizeof *stats)")
int numalloc_get_node_stats(int node, numalloc_node_stats_t *stats);
NUMALLOC_INSTEAD("numalloc_heap_read_stats(heap, stats, sizeof *stats)")
void numalloc_heap_get_stats(numalloc_heap_t *heap, numalloc_heap_stats_t *stats);

NUMALLOC_INSTEAD("numalloc_scan_leaks(leaks, sizeof *leaks, report)")
NUMALLOC_MAY_LACK int numalloc_find_leaks(numalloc_leaks_t *leaks, int report);
NUMALLOC_INSTEAD("numalloc_find_site(address, site, sizeof *site)")
NUMALLOC_MAY_LACK int numalloc_site_of(const void *address, numalloc_site_t *site);

/* `mode`: as NUMALLOC_PROFILE takes it, "sites,access=watch"; NULL: NUMALLOC_MODE_DEFAULT. */
NUMALLOC_INSTEAD("numalloc_record_start(mode, file), or numalloc_record_start_with(options)")
NUMALLOC_MAY_LACK int numalloc_profile_start(const char *mode, const char *file);
NUMALLOC_INSTEAD("numalloc_record_stop()")
NUMALLOC_MAY_LACK int numalloc_profile_stop(void);
NUMALLOC_INSTEAD("numalloc_record_dump()")
NUMALLOC_MAY_LACK int numalloc_profile_dump(void);
NUMALLOC_INSTEAD("numalloc_record_is_running()")
NUMALLOC_MAY_LACK int numalloc_profile_is_running(void);
NUMALLOC_INSTEAD("numalloc_record_marker(name)")
NUMALLOC_MAY_LACK void numalloc_profile_marker(const char *name);

#define NUMALLOC_PROFILE_START 1
#define NUMALLOC_PROFILE_STOP  2
#define NUMALLOC_PROFILE_DUMP  3
NUMALLOC_INSTEAD("numalloc_record_request(what)")
NUMALLOC_MAY_LACK void numalloc_profile_request(int what);

#pragma GCC visibility pop
#ifdef __cplusplus
}
#endif

#endif
