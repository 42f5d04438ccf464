/* access_watch_sites.c - see access_watch_sites.h.
 *
 * Each walk over the spans keeps of every site one block that lives then, all alike (a reservoir of
 * one). The blocks are a part of the past for the draws that follow: which words they have, and so
 * with what probability each is drawn, is known exactly, whatever became of them since. Sites that
 * find no place, and blocks that came since, are drawn as all memory is.
 *
 * A walk looks at MOST records or so: where there are more, at those of every second span, every
 * fourth, and so on, each walk at others. */
#include "profiler/record/sources/watch/access_watch_sites.h"

#include "profiler/record/access/access_priv.h"

#define MOST (1u << 18)

static struct {
    na_site_block_t block[NA_SITE_BLOCKS];
    uint16_t place[NA_SITE_BLOCKS]; /* of those that there are */
    uint32_t count;
    uint64_t met; /* records, of all spans of this walk */
    uint32_t stride, turn;
} site_state;

void na_site_blocks_begin(void) {
    for (uint32_t i = 0; i < site_state.count; i++)
        site_state.block[site_state.place[i]].site = NA_NPROF_NO_STACK;
    site_state.count = 0;
    if (site_state.stride == 0) site_state.stride = 1;
    site_state.turn++; /* of stride: these spans, this time */
    site_state.met = 0;
}

static na_site_block_t *block_of(uint32_t site) {
    uint32_t at = site * UINT32_C(2654435769) >> 22;
    _Static_assert(NA_SITE_BLOCKS == 1u << 10, "the upper 10 bits");
    while (site_state.block[at].site != site && site_state.block[at].site != NA_NPROF_NO_STACK)
        at = (at + 1) % NA_SITE_BLOCKS;
    if (site_state.block[at].site == site) return &site_state.block[at];
    if (site_state.count >= NA_SITE_BLOCKS / 4 * 3) return NULL;
    site_state.place[site_state.count++] = (uint16_t)at;
    site_state.block[at] = (na_site_block_t){.site = site};
    return &site_state.block[at];
}

/* Other threads may change the records meanwhile: what is read once is what holds. */
NA_RACY static uint32_t watched_site(const na_record_t *r) {
    if (*(const volatile uint8_t *)&r->epoch != na_profile_epoch) return NA_NPROF_NO_STACK;
    return *(const volatile uint32_t *)&r->site;
}

void na_site_blocks_meet(const na_site_block_t *like, const na_record_t *records, uint32_t count,
                         uint64_t (*random)(void)) {
    site_state.met += count;
    if (site_state.turn++ % site_state.stride != 0) return;
    for (uint32_t i = 0; i < count; i++) {
        uint32_t site = watched_site(&records[i]);
        na_site_block_t *block = site != NA_NPROF_NO_STACK ? block_of(site) : NULL;
        if (block == NULL) continue;
        uint32_t seen = block->seen + 1;
        block->seen = seen;
        if (seen > 1 && (uint64_t)((unsigned __int128)random() * seen >> 64) != 0) continue;
        *block = *like;
        block->site = site;
        block->seen = seen;
        block->address += (uintptr_t)i * like->words * sizeof(uint64_t);
    }
}

void na_site_blocks_end(void) {
    site_state.stride = 1;
    while (site_state.met / site_state.stride > MOST)
        site_state.stride *= 2;
}

uint32_t na_site_blocks(void) {
    return site_state.count;
}

const na_site_block_t *na_site_block(uint32_t i, uint32_t *place) {
    *place = site_state.place[i];
    return &site_state.block[*place];
}

const na_site_block_t *na_site_block_at(uintptr_t address, uint32_t *place) {
    for (uint32_t i = 0; i < site_state.count; i++) {
        const na_site_block_t *block = na_site_block(i, place);
        if (address >= block->address && address - block->address < block->words * sizeof(uint64_t))
            return block;
    }
    return NULL;
}
