/* consumer.h - learns which node's threads free the blocks of a heap, so that new ones are placed
 * there.
 *
 * A block that one thread makes and another uses is most often freed by who used it. So the node of
 * who frees is that of the consumer, and no access need be seen. What is counted is what crosses:
 * blocks that come back on the list of a thread that took none of them (heap_cache.c), and large
 * blocks, each as many small ones.
 *
 * Turns. When NA_CONSUMER_TURN blocks were counted, the node with three quarters of them, if there
 * is one, is the consumer's from then on; and all is counted anew, so a consumer that goes to
 * another node is followed. Two turns that end at once mix a few blocks: it is a share.
 *
 * Thread-safe, without locks; async-signal-safe. One for all parts of a numalloc_heap_t
 * (alloc/heaps/api/api_heap.c), never unmapped. */
#ifndef NUMALLOC_ALLOC_HEAPS_CONSUMER_H
#define NUMALLOC_ALLOC_HEAPS_CONSUMER_H

#include <stdatomic.h>
#include <stdint.h>

#include "alloc/core/machine/topology.h"

#define NA_CONSUMER_TURN  256u
#define NA_CONSUMER_LARGE 32u /* what a large block counts */

typedef struct na_consumer {
    _Atomic(uint8_t) node; /* dense; NA_NODE_ANY: not known */
    _Atomic(uint32_t) counted;
    _Atomic(uint32_t) by[NA_MAX_NODES];
} na_consumer_t;

void na_consumer_begin(na_consumer_t *consumer);
/* A thread of the node freed so many blocks. */
void na_consumer_freed(na_consumer_t *consumer, unsigned node, uint32_t blocks);

#endif
