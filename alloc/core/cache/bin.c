/* bin.c - a bin: renewing its credit, filling and emptying it, the batches that it keeps. */
#include "alloc/core/cache/bin.h"

#include <stdatomic.h>

#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "pagemap/pagemap.h"

/* --- young bins --- */

static bool is_young(const na_bin_state_t *state) {
    return state->reused < NA_YOUNG_REUSES;
}

/* The bin's thread wanted back so many of the blocks that it had freed. */
NA_INLINE void count_reused(na_bin_state_t *state, uint32_t blocks) {
    if (NA_LIKELY(state->reused >= NA_REUSES_MOST)) return;
    uint32_t sum = state->reused + blocks;
    state->reused = (uint8_t)(sum < NA_REUSES_MOST ? sum : NA_REUSES_MOST);
}

NA_INLINE na_share_t share_of(const na_bin_state_t *state) {
    return NA_LIKELY(!is_young(state)) ? NA_SHARE_GROWN : NA_SHARE_YOUNG;
}

/* The thread freed more blocks of the class than it allocated, and any thread may have them. */
static bool has_freed_others(const na_tcache_t *tcache, unsigned cls) {
    return na_classes[cls].pooled && tcache->states[cls].pushes > tcache->states[cls].pops;
}

/* The blocks that the bin may hold now, when its share is smaller than `cap` blocks. */
static NA_COLD uint16_t hold_share(const na_tcache_t *tcache, unsigned cls) {
    const na_bin_state_t *state = &tcache->states[cls];
    na_share_t share = share_of(state);
    uint32_t most =
        atomic_load_explicit(&na_threads.bin_share[share], memory_order_relaxed) / state->size;
    uint32_t least = share == NA_SHARE_GROWN ? na_classes[cls].cap_freeing : 0;
    if (most < least) most = least;
    return most < state->cap ? (uint16_t)most : state->cap;
}

/* The blocks that the bin may hold now. */
NA_INLINE uint16_t hold_of(const na_tcache_t *tcache, unsigned cls) {
    const na_bin_state_t *state = &tcache->states[cls];
    if (NA_LIKELY(state->reused >= NA_REUSES_MOST)) return state->cap;
    uint32_t share =
        atomic_load_explicit(&na_threads.bin_share[share_of(state)], memory_order_relaxed);
    if (NA_LIKELY(state->cap * state->size <= share)) return state->cap;
    return hold_share(tcache, cls);
}

/* --- accounts --- */

static int credit_left(int16_t credit) {
    return credit < 0 ? 0 : credit; /* below zero: the hot path has just run out */
}

bool na_bin_count(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if ((state->granted.pop | state->granted.push) == 0) { /* every event is seen, or none was */
        bin->pop = bin->push = 0;
        return false;
    }
    uint32_t pops = (uint32_t)(state->granted.pop - credit_left(bin->pop));
    uint32_t pushes = (uint32_t)(state->granted.push - credit_left(bin->push));
    state->count += pushes - pops;
    state->pops += pops;
    state->pushes += pushes;
    state->until_sample -= (int64_t)pops * na_classes[cls].size;
    bin->pop = bin->push = 0;
    state->granted.pop = state->granted.push = 0;
    state->granted.most = 0;
    if (pops + pushes == 0) return false;
    count_reused(state, pops < pushes ? pops : pushes);
    state->used = true;
    return true;
}

void na_bin_begin(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    state->cap = state->hold = c->cap_first;
    state->size = c->size;
    state->ran.dry = (uint16_t)state->pushes;
    state->until_sample = (na_sample_interval | na_sample_idle) == 0
                              ? INT64_MAX
                              : na_sampler_draw(&tcache->track, c->size, &state->sample_step);
}

void na_bin_open(na_tcache_t *tcache, unsigned cls) {
    if (NA_UNLIKELY(tcache->states[cls].cap == 0)) na_bin_begin(tcache, cls);
    na_bin_count(tcache, cls);
}

void na_bin_grant(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    state->hold = hold_of(tcache, cls);
    if (na_every_event) {
        bin->pop = bin->push = 0;
        state->granted.pop = state->granted.push = 0;
        state->granted.most = 0;
        return;
    }
    int64_t pop = state->count, push = (int64_t)state->hold - state->count;
    int64_t most = NA_CREDIT_MAX;
    int64_t least = na_bin_least_push(state);
    if (push < least) push = least;
    if (na_sample_interval != 0) {
        int64_t unsampled = state->until_sample / na_classes[cls].size;
        if (pop > unsampled) pop = unsampled;
        if (most > unsampled) most = unsampled;
    }
    if (pop > NA_CREDIT_MAX) pop = NA_CREDIT_MAX;
    if (push > NA_CREDIT_MAX) push = NA_CREDIT_MAX;
    if (!NA_ONE_NODE && tcache->where.away) pop = push = most = 0;
    bin->pop = state->granted.pop = (int16_t)(pop < 0 ? 0 : pop);
    bin->push = state->granted.push = (int16_t)(push < 0 ? 0 : push);
    state->granted.most = (uint16_t)(most < 0 ? 0 : most);
}

void na_bin_renew(na_tcache_t *tcache, unsigned cls) {
    na_bin_open(tcache, cls);
    if (NA_LIKELY(!na_every_event)) /* else records tell of misuse */
        na_bin_inspect(tcache, cls);
}

void *na_bin_take(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    void *block = bin->head;
    na_bin_state_t *state = &tcache->states[cls];
    bin->head = state->untouched ? NULL : *na_block_next(block);
    state->untouched = NA_TOUCHED;
    state->count--;
    state->pops++;
    state->until_sample -= na_classes[cls].size;
    state->used = true;
    return block;
}

/* --- filling and emptying a bin; behind the gate --- */

/* The thread frees in random order of late. */
static bool is_scattered(const na_tcache_t *tcache) {
    return tcache->overflow.scattered >= NA_SCATTERED_MANY;
}

/* How much a bin may hold follows its use. It begins small: a thread that uses a class once touches
 * a page for it, not a batch. Running dry or over, its credit is renewed too often: it may hold
 * more. While its thread only frees (all it does of late, or of this class and in random order),
 * what it holds is of no use, and pins a span for every block when blocks come in random order, so
 * it may hold less. (Idle bins are emptied, and begin small again: scavenge.c.) */
static void adapt_cap(na_tcache_t *tcache, unsigned cls, bool ran_over) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    uint32_t most = c->cap_max;
    bool pins = ran_over && (uint16_t)state->pops == state->ran.over && is_scattered(tcache);
    if (ran_over) state->ran.over = (uint16_t)state->pops;
    if (ran_over && (tcache->overflow.only_frees || pins))
        state->cap = state->cap / 2 > c->cap_freeing ? state->cap / 2 : c->cap_freeing;
    else
        state->cap = state->cap * 2u < most ? (uint16_t)(state->cap * 2u) : (uint16_t)most;
}

/* Takes blocks of the class from spans; `grow`: new ones, if need be. */
static void *take_from_spans(na_tcache_t *tcache, unsigned cls, uint32_t want, bool grow,
                             uint32_t *got, bool *zeroed) {
    bool *untouched = NA_UNLIKELY(na_links != NULL) ? NULL : zeroed; /* each has a link */
    na_span_kind_t kind = {
        .cls = (uint8_t)cls, .node = tcache->node, .owner = tcache->id, .untouched = untouched};
    *zeroed = false;
    return na_classes[cls].pooled
               ? na_central_take(tcache->node, cls, want, grow, untouched, got)
               : na_span_list_take(na_tcache_spans(tcache, cls), kind, want, grow, got);
}

/* A new span of the class may well be memory that was never touched: what is kept goes first. */
static bool grows(const na_tcache_t *tcache, const na_class_t *c) {
    return !na_pageheap_has_dirty(tcache->node, c->span_pages);
}

/* Blocks from the class's spans as a list, for a bin that is nearly empty. Carving may give more
 * than was wanted (up to the end of a page); the bin then may hold them and as many freed ones.
 * *zeroed: it is one, and reads as zero. */
static void *draw(na_tcache_t *tcache, unsigned cls, uint32_t want, bool grow, uint32_t *got,
                  bool *zeroed) {
    na_bin_state_t *state = &tcache->states[cls];
    const na_class_t *c = &na_classes[cls];
    void *blocks = NULL;
    tcache->overflow.only_frees = false;
    if (NA_UNLIKELY(na_large_kept(tcache) >= NA_LITTLE_BYTES) && grows(tcache, c))
        na_large_bins_flush(tcache);
    if (NA_UNLIKELY(na_tcache_keeps_much(tcache)) && grows(tcache, c)) {
        blocks = take_from_spans(tcache, cls, want, false, got, zeroed);
        if (blocks == NULL) na_overflow_flush(tcache);
    }
    if (blocks == NULL) blocks = take_from_spans(tcache, cls, want, grow, got, zeroed);
    if (NA_UNLIKELY(blocks == NULL) && grow && na_large_bins_flush(tcache))
        blocks = take_from_spans(tcache, cls, want, grow, got, zeroed);
    tcache->slow.drawn += *got * c->size;
    uint32_t room = 2 * *got, most = na_classes[cls].cap_max;
    if (room > most) room = most;
    if (state->cap < room) state->cap = (uint16_t)room;
    return blocks;
}

/* All blocks of the list are counted to have been handed out, but it goes on. */
static NA_COLD void drop_rest(na_bin_t *bin, unsigned cls) {
    if (!na_list_is_one(cls, bin->head)) na_misuse_late(na_list_goes_on, bin->head);
    bin->head = NULL;
}

static void ran_dry(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    adapt_cap(tcache, cls, false);
    count_reused(state, (uint16_t)(state->pushes - state->ran.dry));
    state->ran.dry = (uint16_t)state->pushes;
}

/* Fills an empty bin with blocks that were freed of late: overflow batches, remote frees, transfer
 * cache. False: there are none. */
static bool refill_by_batch(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(bin->head != NULL)) drop_rest(bin, cls);
    na_remote_awake(tcache);
    if (state->overflow == 0 && na_tcache_has_remote(tcache, cls))
        na_overflow_remote(tcache, cls, na_remote_take(tcache, cls));
    if (state->overflow == 0 && na_tcache_watched(tcache)) na_remote_unpack(tcache);
    na_batch_t batch = na_overflow_take(tcache, cls);
    if (batch == 0 && na_classes[cls].pooled)
        batch = na_transfer_take(tcache->node, cls, tcache->id);
    if (batch == 0) return false;
    ran_dry(tcache, cls);
    bin->head = na_batch_first(batch);
    state->count = na_batch_count(batch);
    return true;
}

/* The same, else from spans, new ones if it is to `grow`. False: the system refuses memory. */
static bool refill_bin(na_tcache_t *tcache, unsigned cls, bool grow) {
    if (refill_by_batch(tcache, cls)) return true;
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    ran_dry(tcache, cls);
    uint32_t batch_size = na_classes[cls].batch; /* of a busy bin; of a new one, what it may hold */
    bool zeroed;
    bin->head = draw(tcache, cls, state->cap < batch_size ? state->cap : batch_size, grow,
                     &state->count, &zeroed);
    state->untouched = NA_TOUCHED;
    if (NA_LIKELY(na_links == NULL) && state->count == 1 && !na_class_fills(cls))
        state->untouched = zeroed ? NA_UNTOUCHED_ZERO : NA_UNTOUCHED;
    return state->count != 0;
}

void na_bin_top_up(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    uint32_t some = na_classes[cls].cap_first, got;
    if (state->count > NA_INSPECTED || state->count >= some / 2 || na_links != NULL) return;
    void *last = tcache->bins[cls].head;
    for (uint32_t i = 1; i < state->count; i++)
        last = *na_block_next(last);
    if (!na_gate_enter(tcache)) return;
    bool zeroed;
    *na_block_next(last) = draw(tcache, cls, some, false, &got, &zeroed);
    state->count += got;
    na_gate_leave(tcache);
}

bool na_bin_fill_more(na_tcache_t *tcache, unsigned cls, uint32_t want) {
    if (!na_gate_enter(tcache)) return false;
    na_batch_t batch = na_overflow_take(tcache, cls);
    uint32_t got = na_batch_count(batch);
    bool zeroed;
    void *more = batch != 0 ? na_batch_first(batch) : draw(tcache, cls, want, true, &got, &zeroed);
    na_gate_leave(tcache);
    if (more == NULL) return false;
    tcache->bins[cls].head = more;
    tcache->states[cls].count += got;
    return true;
}

size_t na_list_home(na_tcache_t *tcache, unsigned cls, void *list, uint32_t count) {
    if (na_classes[cls].pooled) return na_central_give(tcache->node, cls, list, count);
    count = na_links_check(&list, count);
    size_t released = 0;
    na_part_t part;
    while (na_part_cut(&list, &count, cls, &part))
        released += na_span_list_give(na_tcache_spans(tcache, cls), &part);
    return released;
}

/* Blocks of a class lie at multiples of the power of two that its size is a multiple of. So the
 * lowest bits of all addresses together tell of one that was freed in its middle: it would be
 * handed out like that, again and again. And the list ends here, or a block is in it twice; or one
 * was written to, and it leads elsewhere before. Of the larger classes only, whose bins hold few.
 * (Of small blocks following the list takes a third of a wave's time.) */
static bool lies_oddly(const na_bin_t *bin, uint32_t count, unsigned cls) {
    const uintptr_t most = ((uintptr_t)1 << NA_ADDRESS_BITS) - 1;
    uintptr_t size = na_classes[cls].size, all = 0;
    const void *block = bin->head;
    for (; count != 0; count--) {
        if (NA_UNLIKELY((uintptr_t)block - 1 >= most)) return true; /* NULL, or no address */
        all |= (uintptr_t)block;
        block = *na_block_next((void *)(uintptr_t)block);
    }
    return NA_UNLIKELY((all & ((size & -size) - 1)) != 0) || NA_UNLIKELY(block != NULL);
}

/* A full bin becomes an overflow batch. */
static void overflow(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(na_path.close != NULL)) {
        na_path.close(tcache, cls);
        state->count = na_links_check(&bin->head, state->count);
    } else if (cls >= NA_CLASS_FEW && lies_oddly(bin, state->count, cls)) {
        na_bin_look_over(tcache, cls);
    }
    if (NA_UNLIKELY(bin->head == NULL)) return;
    na_batch_t batch = na_batch(bin->head, state->count);
    bin->head = NULL;
    state->count = 0;
    na_overflow(tcache, cls, batch);
    adapt_cap(tcache, cls, true);
}

void na_bin_empty(na_tcache_t *tcache, unsigned cls) {
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    if (NA_UNLIKELY(na_path.close != NULL)) na_path.close(tcache, cls);
    if (NA_UNLIKELY(bin->head != NULL && state->count == 0)) drop_rest(bin, cls);
    if (state->count != 0) na_list_home(tcache, cls, bin->head, state->count);
    bin->head = NULL;
    state->count = 0;
    for (na_batch_t batch; (batch = na_overflow_take(tcache, cls)) != 0;)
        na_batch_home(tcache, cls, batch);
}

/* A young bin has more than it may: all of it goes to whoever wants it, else home. A thread that
 * frees what others allocate grows up by that, too: where there are many threads its bin would hold
 * a few blocks for ever, and each time go where all of them meet. Counted before, granted after by
 * the caller. */
static NA_COLD void flush_young(na_tcache_t *tcache, unsigned cls) {
    if (!na_gate_enter(tcache)) return;
    if (NA_UNLIKELY(na_path.close != NULL)) na_path.close(tcache, cls);
    void *list = tcache->bins[cls].head;
    uint32_t count = tcache->states[cls].count;
    tcache->bins[cls].head = NULL;
    tcache->states[cls].count = 0;
    if (!na_classes[cls].pooled || list == NULL ||
        !na_transfer_put(tcache->node, cls, tcache->id, na_batch(list, count)))
        na_list_home(tcache, cls, list, count);
    else if (has_freed_others(tcache, cls))
        count_reused(&tcache->states[cls], count);
    na_tcache_trim_spans(tcache, cls);
    na_remote_awake(tcache);
    na_gate_leave(tcache);
}

bool na_bin_fill(na_tcache_t *tcache, unsigned cls, bool grow) {
    na_bin_open(tcache, cls);
    if (tcache->states[cls].count != 0) return true;
    if (!na_gate_enter(tcache)) return false;
    bool filled = refill_bin(tcache, cls, grow);
    na_gate_leave(tcache);
    return filled;
}

bool na_bin_fill_used(na_tcache_t *tcache, unsigned cls) {
    if (tcache->states[cls].count != 0) return true;
    if (!na_gate_enter(tcache)) return true; /* na_bin_fill says so */
    bool filled = refill_by_batch(tcache, cls);
    na_gate_leave(tcache);
    return filled;
}

void na_bin_put(na_tcache_t *tcache, unsigned cls, void *block) {
    na_bin_renew(tcache, cls);
    na_bin_t *bin = &tcache->bins[cls];
    na_bin_state_t *state = &tcache->states[cls];
    state->hold = hold_of(tcache, cls);
    bool full = state->count >= state->hold;
    bool all = full && NA_UNLIKELY(state->hold < state->cap) && is_young(state);
    if (full) {
        if (!all && NA_LIKELY(na_gate_enter(tcache))) {
            overflow(tcache, cls);
            na_remote_awake(tcache);
            na_gate_leave(tcache);
        } else if (NA_UNLIKELY(state->count >=
                               NA_BATCH_MAX - NA_CREDIT_MAX)) { /* a fork takes that long */
            na_defer_free(block);
            return;
        }
    }
    if (NA_UNLIKELY(na_path.put != NULL)) {
        na_path.put(tcache, cls, block);
    } else {
        *na_block_next(block) = bin->head;
        bin->head = block;
        state->count++;
        state->pushes++;
        state->used = true;
    }
    if (all) flush_young(tcache, cls);
    na_bin_grant(tcache, cls);
}

/* --- A look over a bin's newest blocks --- */

/* The block is one of the class, but its page is tagged slow: a profile that has ended left it so.
 */
static NA_COLD bool is_in_slow_span(unsigned cls, const void *block) {
    const na_span_t *span = na_span_of(block);
    return span != NULL && span->cls == cls; /* the tag may be another by now */
}

/* The block's page is one of the class. By page tags, not spans: the tag is in the cache since the
 * block was freed. */
NA_INLINE bool is_of_class(unsigned cls, const void *block) {
    uintptr_t address = (uintptr_t)block;
    return NA_LIKELY(na_is_address(address)) &&
           (NA_LIKELY(na_tag_bin(na_page_tag(address)) == cls * NA_BIN_SIZE) ||
            is_in_slow_span(cls, block));
}

/* A list that comes back to one of its first blocks is a circle, and the last block looked at is
 * another one of its blocks, too: comparing that one is enough. */
void na_bin_inspect(na_tcache_t *tcache, unsigned cls) {
    uint32_t count = tcache->states[cls].count;
    void *blocks[NA_INSPECTED];
    if (count > NA_INSPECTED) count = NA_INSPECTED;
    if (count == 0) return;
    void *block = tcache->bins[cls].head;
    uintptr_t bits = 0;
    bool sound = true;
    for (uint32_t i = 0; i < count; i++) {
        sound = is_of_class(cls, block);
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
    if (sound && tcache->slow.calls == 0)
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
    if (block == NULL || !is_of_class(cls, block))
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

/* --- Keeping batches, and sending them home --- */

static uint32_t batch_bytes(unsigned cls, na_batch_t batch) {
    return na_batch_count(batch) * na_classes[cls].size;
}

NA_INLINE void push(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    na_bin_state_t *state = &tcache->states[cls];
    na_batch_stack(batch, state->overflow);
    state->overflow = batch;
    state->batches.count++;
    tcache->overflow.moves++;
    tcache->overflow.bytes += batch_bytes(cls, batch);
}

static bool list_has(unsigned cls, const void *list, const void *block, uint32_t *left) {
    for (; *left != 0 && list != NULL && is_of_class(cls, list); --*left) {
        if (list == block) return true;
        list = *na_block_next((void *)(uintptr_t)list);
    }
    return false;
}

NA_COLD bool na_overflow_has_freed(na_tcache_t *tcache, unsigned cls, const void *block) {
    enum { LOOKED_AT = NA_BATCH_BLOCKS * NA_BATCH_BLOCKS };
    const void *link = *na_block_next((void *)(uintptr_t)block);
    if (link != NULL && !is_of_class(cls, link)) return false; /* it is in no list */
    uint32_t left = LOOKED_AT;
    if (list_has(cls, tcache->bins[cls].head, block, &left)) return true;
    if (!na_gate_enter(tcache)) return false;
    bool has = false;
    for (na_batch_t batch = tcache->states[cls].overflow; batch != 0 && left != 0 && !has;
         batch = na_batch_below(batch))
        has = list_has(cls, na_batch_first(batch), block, &left);
    na_gate_leave(tcache);
    return has;
}

na_batch_t na_overflow_take(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    na_batch_t batch = state->overflow;
    if (batch == 0) return 0;
    state->overflow = na_batch_unstack(batch);
    state->batches.count--;
    if (state->batches.low > state->batches.count) state->batches.low = state->batches.count;
    tcache->overflow.moves++;
    tcache->overflow.bytes -= batch_bytes(cls, batch);
    return batch;
}

static void all_home(na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT && tcache->overflow.bytes != 0; cls++)
        for (na_batch_t batch; (batch = na_overflow_take(tcache, cls)) != 0;)
            na_batch_home(tcache, cls, batch);
}

/* All of it, and no more until the thread draws from its spans. */
static void stop_keeping(na_tcache_t *tcache) {
    all_home(tcache);
    tcache->overflow.only_frees = true;
}

static bool are_near(const void *a, const void *b, uintptr_t near) {
    return (uintptr_t)b - (uintptr_t)a + near <= 2 * near;
}

/* Whether a batch has to do with frees in random order. By its newest blocks, which are in the
 * cache: it is scattered if none is near the one before it, dense if the first few are near the
 * first. (Frees of a hash table come in pairs that are near, of key and value: those are neither.)
 * More of the latest batches were scattered than were not, and this is not dense. One scattered
 * batch alone is no sign: a program that frees in the order of allocation has one in five, once
 * realloc has mixed its blocks. */
static bool is_in_random_order(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    enum {
        FEW = NA_INSPECTED,
        LOOK = NA_BATCH_BLOCKS / 4 + 1,
        BYTES = 4 * NA_BATCH_BYTES,
        MOST = 2 * NA_SCATTERED_MANY
    };
    uintptr_t size = na_classes[cls].size, near = FEW * size > BYTES ? FEW * size : BYTES;
    const void *first = na_batch_first(batch), *block = first;
    uint32_t count = na_batch_count(batch);
    bool dense = true, scattered = count > 1;
    for (uint32_t i = 1; i < LOOK && i < count && (i < FEW || (scattered && !dense)); i++) {
        const void *next = *na_block_next((void *)(uintptr_t)block);
        scattered &= !are_near(block, next, near);
        dense &= i >= FEW || are_near(first, next, near);
        block = next;
    }
    if (scattered && tcache->overflow.scattered < MOST)
        tcache->overflow.scattered++;
    else if (!scattered && tcache->overflow.scattered > 0)
        tcache->overflow.scattered--;
    return !dense && is_scattered(tcache);
}

static uint32_t keeps_most(void) {
    uint32_t share = NA_OVERFLOW_TOTAL / na_tcache_attached();
    if (share > NA_OVERFLOW_MAX) return NA_OVERFLOW_MAX;
    return share < NA_OVERFLOW_LEAST ? NA_OVERFLOW_LEAST : share;
}

void na_overflow_bound(na_tcache_t *tcache) {
    if (tcache->overflow.bytes > keeps_most()) stop_keeping(tcache);
}

void na_overflow(na_tcache_t *tcache, unsigned cls, na_batch_t batch) {
    bool pooled = na_classes[cls].pooled;
    if (tcache->overflow.only_frees || has_freed_others(tcache, cls)) {
        if (!pooled || !na_transfer_put(tcache->node, cls, tcache->id, batch))
            na_batch_home(tcache, cls, batch);
        return;
    }
    if (is_in_random_order(tcache, cls, batch)) {
        if (!pooled || !na_transfer_is_wanted(tcache->node, cls) ||
            !na_transfer_put(tcache->node, cls, tcache->id, batch))
            na_batch_home(tcache, cls, batch);
        return;
    }
    if (pooled) { /* the older one, if others want it */
        na_batch_t old = na_overflow_take(tcache, cls);
        if (old != 0 && !na_transfer_put(tcache->node, cls, tcache->id, old))
            push(tcache, cls, old);
    }
    push(tcache, cls, batch);
    na_overflow_bound(tcache);
}

void na_overflow_remote(na_tcache_t *tcache, unsigned cls, na_batch_t stack) {
    while (stack != 0) {
        na_batch_t next = na_batch_unstack(stack);
        push(tcache, cls, stack);
        stack = next;
    }
}

void na_overflow_add(na_tcache_t *tcache, unsigned cls, void *block) {
    if (NA_UNLIKELY(tcache->states[cls].cap == 0)) na_bin_begin(tcache, cls);
    na_batch_t top = na_overflow_take(tcache, cls);
    if (na_batch_count(top) >= na_classes[cls].batch) {
        if (!na_classes[cls].pooled || !na_transfer_put(tcache->node, cls, tcache->id, top))
            push(tcache, cls, top);
        top = 0;
    }
    na_link_set(block, na_batch_first(top));
    push(tcache, cls, na_batch(block, na_batch_count(top) + 1));
}

void na_overflow_flush(na_tcache_t *tcache) {
    all_home(tcache);
    na_remote_drain(tcache);
}

NA_COLD void na_overflow_scavenge(na_tcache_t *tcache) {
    if (tcache->overflow.moves == tcache->overflow.seen && tcache->overflow.bytes != 0) {
        uint32_t rest =
            tcache->overflow.bytes > NA_OTHERS_BYTES ? tcache->overflow.bytes - NA_OTHERS_BYTES : 0;
        for (unsigned cls = 1; cls < NA_CLASS_COUNT && tcache->overflow.bytes > rest; cls++) {
            if (tcache->states[cls].overflow == 0) continue;
            while (tcache->overflow.bytes > rest && tcache->states[cls].overflow != 0)
                na_batch_home(tcache, cls, na_overflow_take(tcache, cls));
            na_tcache_trim_spans(tcache, cls);
        }
    }
    tcache->overflow.seen = tcache->overflow.moves;
}

void na_overflow_decay(na_tcache_t *tcache, unsigned cls) {
    na_bin_state_t *state = &tcache->states[cls];
    for (uint16_t idle = state->batches.low; idle > 0; idle--)
        na_batch_home(tcache, cls, na_overflow_take(tcache, cls));
    state->batches.low = state->batches.count;
}
