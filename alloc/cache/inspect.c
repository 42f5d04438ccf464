/* inspect.c - a look over a bin's newest blocks. */
#include "alloc/cache/inspect.h"

#include "alloc/track/misuse.h"

enum { INSPECT_BLOCKS = 4 };

static NA_COLD void report(na_tcache_t *tcache, unsigned cls, void *const *blocks, uint32_t at,
                           const char *what) {
    na_misuse_late(what, blocks[at]);
    /* Going on: what lies behind cannot be trusted, and is lost. */
    if (at == 0)
        tcache->bins[cls].head = NULL;
    else
        *na_block_next(blocks[at - 1]) = NULL;
    tcache->states[cls].count = at;
}

/* Something is wrong with the first `count` blocks: finds and reports it. */
static NA_COLD void name_the_fault(na_tcache_t *tcache, unsigned cls, uint32_t count) {
    void *blocks[INSPECT_BLOCKS];
    void *block = tcache->bins[cls].head;
    for (uint32_t i = 0; i < count; i++) {
        blocks[i] = block;
        if (!na_is_of_class(cls, block)) {
            report(tcache, cls, blocks, i, "a freed block was written to, and now links to");
            return;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (blocks[k] == block) {
                report(tcache, cls, blocks, i, "double free of");
                return;
            }
        }
        block = *na_block_next(block);
    }
    report(tcache, cls, blocks, 0, "free of");
}

/* A list that comes back to one of its first blocks is a circle, and the last block looked at is
 * another one of its blocks, too: comparing that one is enough. */
void na_bin_inspect(na_tcache_t *tcache, unsigned cls) {
    uint32_t count = tcache->states[cls].count;
    void *blocks[INSPECT_BLOCKS];
    if (count > INSPECT_BLOCKS) count = INSPECT_BLOCKS;
    if (count == 0) return;
    void *block = tcache->bins[cls].head;
    bool sound = true;
    for (uint32_t i = 0; i < count; i++) {
        sound = na_is_of_class(cls, block);
        if (NA_UNLIKELY(!sound)) break;
        blocks[i] = block;
        block = *na_block_next(block);
    }
    for (uint32_t i = 0; sound && i < count - 1; i++)
        sound = blocks[i] != blocks[count - 1];
    /* The span was last looked at long ago: as likely as not it has to come from memory, which
     * takes longer than all else here. So this comes with every look at the clock only. */
    if (sound && tcache->slow_calls == 0)
        sound = na_is_block_start(na_span_of(blocks[0]), blocks[0]);
    if (NA_UNLIKELY(!sound)) name_the_fault(tcache, cls, count);
}

void na_bin_drop_interior(na_tcache_t *tcache, unsigned cls) {
    void **link = &tcache->bins[cls].head;
    uint32_t left = tcache->states[cls].count;
    for (uint32_t i = left; i != 0; i--) {
        void *block = *link;
        if (NA_LIKELY(na_is_block_start(na_span_of(block), block))) {
            link = na_block_next(block);
            continue;
        }
        na_misuse_late("free of", block);
        *link = *na_block_next(block);
        left--;
    }
    tcache->states[cls].count = left;
}
