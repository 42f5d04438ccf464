/* lookup.h - from any address to the block that lives there, and what the registry knows of it. */
#ifndef NUMALLOC_ALLOC_RECORD_LOOKUP_H
#define NUMALLOC_ALLOC_RECORD_LOOKUP_H

#include <stdbool.h>

#include "pagemap/pagemap.h"

typedef enum na_lookup_kind {
    NA_LOOKUP_FOREIGN, /* not the allocator's memory (or its own tables) */
    NA_LOOKUP_FREE,    /* the allocator's, and in no block */
    NA_LOOKUP_PLAIN,   /* in a block of which the registry knows nothing, or that is not live */
    NA_LOOKUP_BLOCK,   /* in a live block that has a record */
    NA_LOOKUP_DEAD,    /* in a block that the registry knows to be freed */
} na_lookup_kind_t;

typedef struct na_found {
    na_lookup_kind_t kind;
    uintptr_t base;     /* of the block; PLAIN, BLOCK, DEAD */
    uint64_t usable;    /* its bytes */
    na_record_t record; /* BLOCK */
} na_found_t;

/* O(1), takes no lock, async-signal-safe. The block may be freed, and its memory handed out again,
 * while this runs or right after: what is found was true at some moment of the call, and record and
 * base belong together. */
void na_lookup(const void *address, na_found_t *found);

/* NULL, or asked for an address in no span, with *found blank: true: it has said. */
extern bool (*na_lookup_beside)(const void *address, na_found_t *found);

#endif
