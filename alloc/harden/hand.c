/* hand.c - see hand.h. */
#include "alloc/harden/hand.h"

#include "alloc/core/cache/bin.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/track/misuse.h"

uint32_t na_hand_least(unsigned cls) {
    uint32_t least = NA_HAND_BYTES / na_classes[cls].size;
    if (least > NA_HAND_LEAST) least = NA_HAND_LEAST;
    return least > 2 ? least : 2;
}

NA_INLINE bool may_give(unsigned cls, const void *block) {
    const na_span_t *span = na_span_by_page(block);
    if (NA_UNLIKELY(span == NULL) || NA_UNLIKELY(span->cls != cls)) return false;
    return NA_LIKELY(na_is_block_start(span, block)) &&
           NA_LIKELY(na_live_at(block) == NA_BIRTH_NONE);
}

bool na_hand_may_give(unsigned cls, const void *block) {
    if (NA_LIKELY(may_give(cls, block))) return true;
    na_misuse("a freed block was written to, and now links to", block);
    return false;
}

NA_COLD na_hands_t *na_hands_make(na_tcache_t *tcache) {
    return tcache->kept[NA_KEPT_HANDS] = na_meta_alloc(sizeof(na_hands_t), NA_CACHE_LINE);
}

static na_hands_t *hands_of(na_tcache_t *tcache) {
    na_hands_t *hands = na_hands_of(tcache);
    return NA_LIKELY(hands != NULL) ? hands : na_hands_make(tcache);
}

static uint32_t in_hand(const na_tcache_t *tcache, unsigned cls) {
    const na_hands_t *hands = na_hands_of(tcache);
    return hands != NULL ? hands->of[cls].count : 0;
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

/* The list, of so few blocks that the hand takes them, is empty from now on. */
static void fill_hand(na_tcache_t *tcache, unsigned cls) {
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
        fill_hand(tcache, cls);
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

/* The next block to be taken is to be one of several. */
void *na_hand_draw_wide(na_tcache_t *tcache, unsigned cls) {
    const na_bin_state_t *state = &tcache->states[cls];
    uint32_t least = na_hand_least(cls), batch_size = na_classes[cls].batch;
    uint32_t want = least > batch_size ? least : batch_size;
    while (state->count < least && !na_pressure_is_exhausted()) {
        fill_hand(tcache, cls);
        if (tcache->bins[cls].head != NULL || !na_bin_fill_more(tcache, cls, want)) break;
    }
    return na_hand_take(tcache, cls);
}

void na_hand_close(na_tcache_t *tcache, unsigned cls) {
    if (in_hand(tcache, cls) == 0) return;
    na_bin_t *bin = &tcache->bins[cls];
    na_hand_t *hand = &na_hands_of(tcache)->of[cls];
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
    na_hands_t *hands = na_hands_of(tcache);
    for (unsigned cls = 1; cls < NA_CLASS_COUNT && hands != NULL; cls++)
        if (hands->of[cls].count != 0) hands->of[cls].count = 0;
}
