/* leak_blocks.h - what a scan for leaks found, in words that readers of LeakSanitizer's reports
 * know: a block of lines for each site of blocks that are lost, with its stack, and below it what
 * those hold. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEWS_LEAK_BLOCKS_H
#define NUMALLOC_PROFILER_DUMP_VIEWS_LEAK_BLOCKS_H

#include "profiler/dump/profile/suppress.h"
#include "profiler/format/nprof_leaks.h"

/* Writes them to stdout, the largest first, and the sums at last. What a suppressed site holds is
 * suppressed with it. `rows`: of kinds lost and indirectly lost; sorted by site. */
na_status_t na_leak_blocks_put(const na_view_input_t *in, na_suppressions_t *list,
                               const na_nprof_leak_site_t *rows, size_t count);

#endif
