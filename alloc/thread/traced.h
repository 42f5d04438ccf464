/* traced.h - malloc and free of small blocks while every event is recorded.
 *
 * In modes sites and trace each call is a slow path (switch.h), and nearly all of them are alike:
 * the bin has a block, or room; nothing is due; the block's span has records. These are done here,
 * in one piece, with one call of a hook. Whatever is different is the slow path's (small.c), and
 * nothing has been changed for it yet. The clock is looked at by the calls that are drawn to be
 * timed. */
#ifndef NUMALLOC_ALLOC_TRACED_H
#define NUMALLOC_ALLOC_TRACED_H

#include <stddef.h>

#include "alloc/thread/thread_cache.h"
#include "alloc/track/hooks.h"
#include "alloc/track/timing.h"

typedef void *na_traced_alloc_t(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                unsigned cls);
typedef void na_traced_free_t(void *block, na_release_t how, na_tcache_t *tcache);

/* What is called: these, or what the profiler has put in their place. Any of them may be called at
 * any time (of a thread that has lately looked here): each sees for itself whether it may do what
 * it is for. */
extern NA_NEAR _Atomic(na_traced_alloc_t *) na_traced_alloc_by;
extern NA_NEAR _Atomic(na_traced_free_t *) na_traced_free_by;
/* Before na_alarm is raised for a profile that begins. */
void na_traced_choose(const na_hooks_t *hooks);

/* Of the calling thread's cache, whose until_timed is not 0; the hot path has found no credit in
 * the bin.
 */
na_traced_alloc_t na_traced_alloc;
/* Of anything whose page has no tag. */
na_traced_free_t na_traced_free;
/* The same, of calls that were drawn to be timed (track.until_timed has come to 1). */
NA_COLD void *na_traced_alloc_timed(size_t requested, na_entry_t entry, na_tcache_t *tcache,
                                    unsigned cls);
NA_COLD void na_traced_free_timed(void *block, na_release_t how, na_tcache_t *tcache);

/* na_timed_end, unless the thread's cache became another during the call. */
NA_INLINE void na_timed_finish(na_tcache_t *tcache, na_call_t call, bool drawn) {
    if (na_self == tcache) na_timed_end(&tcache->track, call, drawn);
}

#endif
