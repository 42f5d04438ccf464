/* access_watch_sites.h - one live block of each site, drawn at random: so that a small block that
 * is used much is watched soon, however large the heap is. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_SITES_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_SITES_H

#include "profiler/record/state/record.h"

#define NA_SITE_BLOCKS 1024u /* a power of 2; three quarters of them are used at most */

typedef struct na_site_block {
    uintptr_t address; /* of the block */
    uint32_t site;     /* 0: none is here */
    uint32_t seen;     /* blocks of the site so far, at least one */
    uint32_t words;    /* of the block */
    uint32_t span_words;
    uint32_t stratum; /* of its words (access_watch_draw.c) */
} na_site_block_t;

/* Forgets all blocks; those of a walk over the spans follow. */
void na_site_blocks_begin(void);
/* The blocks of a span, the first as `like` says, the others one behind the other. */
void na_site_blocks_meet(const na_site_block_t *like, const na_record_t *records, uint32_t count,
                         uint64_t (*random)(void));
void na_site_blocks_end(void);

/* How many sites have one. */
uint32_t na_site_blocks(void);
/* Number `i` of them, and the place that its site has (below NA_SITE_BLOCKS) from walk to walk. */
const na_site_block_t *na_site_block(uint32_t i, uint32_t *place);
/* The block that the address lies in; NULL: none of them. */
const na_site_block_t *na_site_block_at(uintptr_t address, uint32_t *place);

#endif
