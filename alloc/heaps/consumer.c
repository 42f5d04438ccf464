/* consumer.c - see consumer.h. */
#include "alloc/heaps/consumer.h"

void na_consumer_begin(na_consumer_t *consumer) {
    for (unsigned node = 0; node < NA_MAX_NODES; node++)
        atomic_store_explicit(&consumer->by[node], 0, memory_order_relaxed);
    atomic_store_explicit(&consumer->counted, 0, memory_order_relaxed);
    atomic_store_explicit(&consumer->node, NA_NODE_ANY, memory_order_relaxed);
}

void na_consumer_freed(na_consumer_t *consumer, unsigned node, uint32_t blocks) {
    if (node >= NA_MAX_NODES) return; /* a thread that is on no node */
    atomic_fetch_add_explicit(&consumer->by[node], blocks, memory_order_relaxed);
    uint32_t counted =
        atomic_fetch_add_explicit(&consumer->counted, blocks, memory_order_relaxed) + blocks;
    if (counted < NA_CONSUMER_TURN ||
        atomic_exchange_explicit(&consumer->counted, 0, memory_order_relaxed) == 0)
        return;
    uint32_t all = 0, most = 0;
    uint8_t best = NA_NODE_ANY;
    for (unsigned n = 0; n < NA_MAX_NODES; n++) {
        uint32_t freed = atomic_exchange_explicit(&consumer->by[n], 0, memory_order_relaxed);
        all += freed;
        if (freed <= most) continue;
        most = freed;
        best = (uint8_t)n;
    }
    if (best != NA_NODE_ANY && most >= all - all / 4)
        atomic_store_explicit(&consumer->node, best, memory_order_relaxed);
}
