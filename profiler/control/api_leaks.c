/* api_leaks.c - numalloc_scan_leaks. */
#include <errno.h>

#include "alloc/api/fill_struct.h"
#include "alloc/core/thread/attach.h"
#include "numalloc/numalloc.h"
#include "profiler/control/control.h"

static int find_leaks(na_leak_totals_t *totals, bool report, uintptr_t from) {
    na_init();
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return ENOMEM;
    int error = tcache->track.inside != 0 ? EBUSY : na_control_leaks(totals, report, from);
    na_tcache_leave(tcache);
    return error;
}

int numalloc_scan_leaks(numalloc_leaks_t *leaks, size_t size, int report) {
    na_leak_totals_t totals = {0};
    int error = find_leaks(&totals, report != 0, na_leaks_here());
    if (error != 0) {
        errno = error;
        return -1;
    }
    const na_leak_sum_t *of = totals.of;
    const numalloc_leaks_t found = {
        .lost_blocks = of[NA_LEAK_LOST].blocks,
        .lost_bytes = of[NA_LEAK_LOST].bytes,
        .indirect_blocks = of[NA_LEAK_INDIRECT].blocks,
        .indirect_bytes = of[NA_LEAK_INDIRECT].bytes,
        .reachable_blocks = of[NA_LEAK_REACHABLE].blocks,
        .reachable_bytes = of[NA_LEAK_REACHABLE].bytes,
        .suppressed_blocks = totals.suppressed.blocks,
        .suppressed_bytes = totals.suppressed.bytes,
        .threads = totals.threads,
        .missed = totals.missed,
    };
    na_fill_struct(leaks, size, &found, sizeof found);
    return 0;
}
