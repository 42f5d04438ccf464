/* inspect.h - a look over the blocks that a thread freed last. */
#ifndef NUMALLOC_ALLOC_CACHE_INSPECT_H
#define NUMALLOC_ALLOC_CACHE_INSPECT_H

#include "alloc/cache/thread_cache.h"

/* Looks over the four blocks that a bin's thread freed last, and when the thread has just looked at
 * the clock (malloc/poll.h) also at the span of the newest. Reports what is wrong, and cuts the
 * list before it when the program is to go on. (Quick renewals look at the newest two: bin.h.) */
void na_bin_inspect(na_tcache_t *tcache, unsigned cls);
/* Reports what is wrong with a bin, which is counted: blocks that begin in the middle of one, which
 * are taken out; one that is in the list twice, an end that is not where it should be: the list is
 * cut there. By the span of each block. */
NA_COLD void na_bin_look_over(na_tcache_t *tcache, unsigned cls);

#endif
