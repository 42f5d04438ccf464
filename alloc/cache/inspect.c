/* inspect.c - a look over a bin's newest blocks. */
#include "alloc/cache/inspect.h"

#include "alloc/track/misuse.h"

enum { INSPECT_BLOCKS = 4 };

/* A list that comes back to one of its first blocks is a circle, and the last block looked at is
 * another one of its blocks, too: comparing that one is enough. */
void na_bin_inspect(na_tcache_t *tcache, unsigned cls) {
    uint32_t count = tcache->states[cls].count;
    void *blocks[INSPECT_BLOCKS];
    if (count > INSPECT_BLOCKS) count = INSPECT_BLOCKS;
    if (count == 0) return;
    void *block = tcache->bins[cls].head;
    uintptr_t bits = 0;
    bool sound = true;
    for (uint32_t i = 0; i < count; i++) {
        sound = na_is_of_class(cls, block);
        if (NA_UNLIKELY(!sound)) break;
        blocks[i] = block;
        bits |= (uintptr_t)block;
        block = *na_block_next(block);
    }
    if (NA_UNLIKELY(bits % NA_CLASS_STEP != 0)) sound = false;
    for (uint32_t i = 0; sound && i < count - 1; i++)
        sound = blocks[i] != blocks[count - 1];
    /* The span was last looked at long ago: as likely as not it has to come from memory, which
     * takes longer than all else here. So this comes with every look at the clock only. */
    if (sound && tcache->slow_calls == 0)
        sound = na_is_block_start(na_span_of(blocks[0]), blocks[0]);
    if (NA_UNLIKELY(!sound)) na_bin_look_over(tcache, cls);
}

/* The list has the block already: in one of the links up to `end`. */
static bool has_before(void *const *link, void *const *end, const void *block) {
    for (; link != end; link = na_block_next(*link))
        if (*link == block) return true;
    return false;
}

/* Of the block that the link leads to: what is wrong, or NULL. */
static const char *fault_of(unsigned cls, void *const *first, void *const *link) {
    const void *block = *link;
    if (block == NULL || !na_is_of_class(cls, block))
        return "a freed block was written to, and now links to";
    return has_before(first, link, block) ? "double free of" : NULL;
}

void na_bin_look_over(na_tcache_t *tcache, unsigned cls) {
    void **first = &tcache->bins[cls].head, **link = first;
    uint32_t kept = 0, left = tcache->states[cls].count;
    const char *fault = NULL;
    for (; left != 0 && (fault = fault_of(cls, first, link)) == NULL; left--) {
        void *block = *link;
        if (NA_LIKELY(na_is_block_start(na_span_of(block), block))) {
            link = na_block_next(block);
            kept++;
        } else {
            na_misuse_late("free of", block);
            *link = *na_block_next(block);
        }
    }
    if (fault != NULL && *link == NULL && left == 1) fault = NULL; /* na_list_is_one says why */
    if (fault == NULL && *link != NULL && !na_list_is_one(cls, *link)) fault = na_list_goes_on;
    if (fault != NULL) na_misuse_late(fault, *link);
    *link = NULL; /* what lies behind cannot be trusted, and is lost */
    tcache->states[cls].count = kept;
}
