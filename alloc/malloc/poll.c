/* poll.c - see poll.h. */
#include "alloc/malloc/poll.h"

#include <stdatomic.h>

#include "alloc/cache/deferred.h"
#include "alloc/malloc/emergency.h"
#include "alloc/thread/scavenge.h"

void na_poll(na_tcache_t *tcache) {
    tcache->slow_calls = 0;
    if (NA_UNLIKELY(atomic_load_explicit(&na_deferred_pending, memory_order_relaxed)))
        na_deferred_drain(tcache);
    na_scavenge_poll(tcache);
}
