/* hand.c - see hand.h. */
#include "alloc/cache/hand.h"

#include "alloc/sys/meta.h"
#include "alloc/track/misuse.h"

uint32_t na_hand_least(unsigned cls) {
    uint32_t least = NA_HAND_BYTES / na_classes[cls].size;
    if (least > NA_HAND_LEAST) least = NA_HAND_LEAST;
    return least > 2 ? least : 2;
}

/* (There are no mixed spans.) */
NA_INLINE bool may_give(unsigned cls, const void *block) {
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(span == NULL) || NA_UNLIKELY(span->cls != cls)) return false;
    size_t offset = (uintptr_t)block - span->start;
    const na_class_t *c = &na_classes[cls];
    return NA_LIKELY(offset == (size_t)na_block_index(c, offset) * c->size) &&
           NA_LIKELY(offset < (size_t)span->capacity * c->size) &&
           NA_LIKELY(na_live_at(block) == NA_BIRTH_NONE);
}

bool na_hand_may_give(unsigned cls, const void *block) {
    return may_give(cls, block);
}

NA_COLD na_hands_t *na_hands_make(na_tcache_t *tcache) {
    tcache->hands = na_meta_alloc(sizeof(na_hands_t), NA_CACHE_LINE);
    return tcache->hands;
}

static na_hands_t *hands_of(na_tcache_t *tcache) {
    return NA_LIKELY(tcache->hands != NULL) ? tcache->hands : na_hands_make(tcache);
}

static uint32_t in_hand(const na_tcache_t *tcache, unsigned cls) {
    return tcache->hands != NULL ? tcache->hands->of[cls].count : 0;
}

/* What is left of the list cannot be trusted, and is lost. */
static NA_COLD void *cut(na_tcache_t *tcache, unsigned cls) {
    tcache->bins[cls].head = NULL;
    tcache->states[cls].count = in_hand(tcache, cls);
    return NULL;
}

/* Every block that a bin takes from its list comes by here: the first, which waits from now on and
 * counts still; NULL: there is none. */
NA_INLINE void *unlink_first(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    void *block = bin->head;
    bool counted = tcache->states[cls].count > in_hand(tcache, cls);
    if (block == NULL && !counted) return NULL;
    if (NA_UNLIKELY(!counted) || NA_UNLIKELY(!may_give(cls, block))) {
        na_misuse("a freed block was written to, and now links to", block);
        return cut(tcache, cls);
    }
    if (NA_UNLIKELY(!na_link_is_right(block))) {
        na_link_report(block);
        return cut(tcache, cls);
    }
    bin->head = *na_block_next(block);
    na_link_set_waiting(block);
    return block;
}

void na_hand_fill(na_tcache_t *tcache, unsigned cls) {
    na_hands_t *hands = hands_of(tcache);
    if (hands == NULL) return;
    na_hand_t *hand = &hands->of[cls];
    while (hand->count < NA_HAND_MOST) {
        void *block = unlink_first(tcache, cls);
        if (block == NULL) return;
        hand->blocks[hand->count++] = block;
    }
}

/* A block of the bin that waits. NULL: none. */
static void *draw_block(na_tcache_t *tcache, unsigned cls) {
    na_hands_t *hands = hands_of(tcache);
    if (NA_UNLIKELY(hands == NULL)) return unlink_first(tcache, cls);
    na_hand_t *hand = &hands->of[cls];
    if (hand->count <= hand->few) {
        na_hand_fill(tcache, cls);
        uint32_t few = na_hand_least(cls) - 1;
        hand->few = few < hand->count ? few : hand->count - (hand->count != 0);
    }
    if (hand->count == 0) return NULL;
    uint32_t number = na_hand_draw(hands, hand);
    void *block = hand->blocks[number];
    na_hand_remove(hand, number);
    return block;
}

void *na_hand_take(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    for (void *block; (block = draw_block(tcache, cls)) != NULL;) {
        state->count--;
        state->pops++;
        state->until_sample -= state->size;
        state->used = true;
        if (NA_LIKELY(na_link_waits(block)) && NA_LIKELY(na_live_at(block) == NA_BIRTH_NONE)) {
            *na_link_signature(block) = 0; /* of no use, should something lead here again */
            return block;
        }
        na_link_report(block);
    }
    return NULL;
}

void na_hand_close(na_tcache_t *tcache, unsigned cls) {
    if (in_hand(tcache, cls) == 0) return;
    na_bin_t *bin = &tcache->bins[cls];
    na_hand_t *hand = &tcache->hands->of[cls];
    while (hand->count != 0) {
        void *block = hand->blocks[--hand->count];
        if (NA_UNLIKELY(!na_link_waits(block))) {
            na_link_report(block);
            tcache->states[cls].count--;
            continue;
        }
        na_link_set_signed(block, bin->head);
        bin->head = block;
    }
}

NA_COLD void na_hand_forget(na_tcache_t *tcache) {
    if (tcache->hands == NULL) return;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        if (tcache->hands->of[cls].count != 0) tcache->hands->of[cls].count = 0;
}
