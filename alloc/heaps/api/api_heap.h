/* api_heap.h - what a policy needs of heaps besides numalloc.h. */
#ifndef NUMALLOC_ALLOC_HEAPS_API_API_HEAP_H
#define NUMALLOC_ALLOC_HEAPS_API_API_HEAP_H

#include "alloc/heaps/heap.h"
#include "numalloc/numalloc.h"

/* The part of the heap that the calling thread takes from; NULL: no memory. */
na_heap_t *na_heap_part(numalloc_heap_t *heap);
/* The node (the system's number) of the threads that free the blocks of a NUMALLOC_HEAP_CONSUMER;
 * -1: not known yet, or no such heap, or NULL. */
int na_heap_consumer(const numalloc_heap_t *heap);

#endif
