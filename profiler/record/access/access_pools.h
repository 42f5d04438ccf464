/* access_pools.h - blocks that pools of the program's own announce, by address and time: what a
 * sample inside of one was about.
 *
 * A block of 2^(n-1) < size <= 2^n bytes is of level n, and is kept by (n, address >> n). One that
 * has an address in it begins in the address's granule of its level, or in the one before; at most
 * two live blocks of a pool begin in a granule. So a look-up takes two steps for each level that
 * is in use, however many blocks there are. Of blocks in each other (a pool in a pool's block) the
 * smallest is found.
 *
 * Lives that have ended stay for a while in buckets of the same keys, as samples are looked at
 * after their time; those that cover a watched word stay in a ring besides. Where one was
 * forgotten too early, the look-up says so. */
#ifndef NUMALLOC_PROFILER_RECORD_ACCESS_ACCESS_POOLS_H
#define NUMALLOC_PROFILER_RECORD_ACCESS_ACCESS_POOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/record/access/access_priv.h"

/* Live blocks of the pools of one name. Guarded by the lock of its owner. All zeros: none. */
typedef struct na_pool_blocks {
    struct na_pool_block *items; /* open addressing, at most half full */
    uint64_t mask, used;
    uint64_t levels; /* that had blocks: bits */
} na_pool_blocks_t;

/* Blocks are kept: the profile has accesses, and a thread that looks at them. */
extern bool na_pool_blocks_wanted;

/* A profile begins; nothing is kept until a block is. */
void na_pool_blocks_start(bool wanted);

/* A block begins now. False: no memory, samples in it will not find it. */
bool na_pool_block_begins(na_pool_blocks_t *blocks, const na_life_t *life);
/* A block that had begun here ends now. `pool`: the id that samples get. */
void na_pool_block_ends(na_pool_blocks_t *blocks, uintptr_t base, uint64_t size, uint32_t pool,
                        uint64_t death);

/* A look-up: first in the live blocks of each pool, then among lives that have ended. */
typedef struct na_pool_search {
    uintptr_t address;
    uint64_t ages;
    uint64_t off; /* at first: how far (ages) a life may lie from the time, plus 1; then: lies */
    na_life_t life;
    uint32_t pool;  /* 0: none was found */
    bool forgotten; /* a life that may be the one is known no more */
} na_pool_search_t;

void na_pool_search_live(na_pool_search_t *search, const na_pool_blocks_t *blocks, uint32_t pool);
void na_pool_search_ended(na_pool_search_t *search);

/* pools.c: both, over all pools. False: no pool's block was there. */
bool na_pools_find(na_pool_search_t *search);

#endif
