/* emergency.h - blocks for threads that a fork keeps from everything that is shared.
 *
 * From fork's prepare handler to the end of fork the gate is closed (thread_cache.h). In between
 * the C library takes locks of its own: that of the list of open files, those of its name services.
 * Their holders may wait, however indirectly, for a thread that is in malloc, malloc(3) or not. So
 * a thread that has waited for NA_FORK_PATIENCE_MS at the gate is served without passing it, and
 * from then on so are all, until this fork is over. What it is served with must be sound in the
 * child whenever the copy is made, which is why nothing here takes a lock that is held for more
 * than a store or two:
 *
 *   blocks         small: of spans in mappings of their own; one word of each span counts
 *                  blocks taken and blocks home (na_span_t.emergency), changed by compare and
 *                  swap; large: dedicated mappings. Both are as ordinary ones afterwards: to be
 *                  freed by anyone, with records.
 *   frees          the bins take more than they are meant to hold; what would leave the thread's
 *                  own lists is deferred (cache/thread_cache.h): it goes on a list, linked through
 *                  the blocks.
 *   thread caches  of threads that end: deferred, too.
 *
 * What is deferred is done by the next slow paths (small.h) when the gate is open again.
 * The child inherits blocks and lists; what a thread had half taken when the copy was made is lost
 * to it. It is the same for a signal handler that has interrupted its thread behind the gate, and
 * for ever in a lame child (fork.h). */
#ifndef NUMALLOC_ALLOC_CORE_MALLOC_EMERGENCY_H
#define NUMALLOC_ALLOC_CORE_MALLOC_EMERGENCY_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/track/hooks.h"
#include "pagemap/pagemap.h"

/* A small block of the class; NULL: no memory. `tcache`: what na_tcache_enter, which begins the
 * library, has returned; NULL if there is none. */
void *na_emergency_alloc(na_tcache_t *tcache, unsigned cls, size_t requested, na_entry_t entry);
/* The block of a span with `emergency` not 0 is free; its record has ended. */
void na_emergency_give(na_span_t *span, void *block);

/* Free, by a thread that can have no thread cache now: unrecorded. */
void na_emergency_free(na_span_t *span, void *block);
/* Does what was deferred, as far as it can be done now. Not behind the gate. */
void na_deferred_drain(na_tcache_t *tcache);

#endif
