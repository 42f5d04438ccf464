/* remote.c - collecting blocks of other owners and posting them. */
#include "alloc/remote.h"

#include "alloc/central.h"

static uint64_t mail_limit(const na_heap_t *owner) {
    uint32_t times = atomic_load_explicit(&owner->mail_limit, memory_order_relaxed);
    return (uint64_t)NA_MAIL_LEAST << times;
}

/* Whether the owner took mail since it was last over its limit. If so it may have more: so many
 * blocks are under way all the time. If not, its thread sleeps, or only frees. Races between
 * posters make the limit wrong by a doubling, no more. */
static bool comes_for_mail(na_heap_t *owner) {
    uint32_t taken = atomic_load_explicit(&owner->mail_taken, memory_order_relaxed);
    uint32_t times = atomic_load_explicit(&owner->mail_limit, memory_order_relaxed);
    bool comes = atomic_exchange_explicit(&owner->mail_seen, taken, memory_order_relaxed) != taken;
    if (comes && NA_MAIL_LEAST << times < NA_MAIL_MOST)
        atomic_store_explicit(&owner->mail_limit, times + 1, memory_order_relaxed);
    else if (!comes)
        atomic_store_explicit(&owner->mail_limit, 0, memory_order_relaxed);
    return comes;
}

static void post_to_heap(na_heap_t *owner, unsigned cls, na_chain_t chain) {
    uint64_t bytes = (uint64_t)na_chain_count(chain) * na_classes[cls].size;
    uint64_t before = atomic_fetch_add_explicit(&owner->mail_bytes, bytes, memory_order_relaxed);
    na_chain_t top = atomic_load_explicit(&owner->mail[cls], memory_order_relaxed);
    do
        *na_chain_next(chain) = top;
    while (!atomic_compare_exchange_weak_explicit(&owner->mail[cls], &top, chain,
                                                  memory_order_seq_cst, memory_order_relaxed));
    /* Seen after the mail is in: a heap that detaches looks for mail after it says so. */
    if (atomic_load_explicit(&owner->phase, memory_order_seq_cst) == NA_HEAP_DETACHED)
        na_heap_settle_detached(owner);
    else if (NA_UNLIKELY(before + bytes > mail_limit(owner)) && !comes_for_mail(owner))
        na_heap_settle_absent(owner);
}

static void post(na_heap_t *heap, na_outgoing_t *out) {
    unsigned cls = (out->tag & 0xffff) / NA_BIN_SIZE, owner = out->tag >> 16;
    na_chain_t chain = na_chain(out->head, out->count);
    unsigned home = owner < NA_OWNER_POOL ? na_heap_by_id(owner)->node : owner & ~NA_OWNER_POOL;
    heap->states[cls].pushes += out->count;
    if (home != heap->node) na_heap_crossed(heap, home, cls, out->count);
    heap->outgoing_blocks -= out->count;
    out->tag = 0;
    out->count = 0;
    out->head = NULL;
    if (owner < NA_OWNER_POOL)
        post_to_heap(na_heap_by_id(owner), cls, chain);
    else if (!na_depot_put(home, cls, NA_OWNER_NONE, chain))
        na_central_give(home, cls, na_chain_first(chain));
}

static na_outgoing_t *entry_of(na_heap_t *heap, uint32_t tag) {
    uint32_t hash = (tag >> 16) * 0x9e3779b1u ^ (tag >> 4) * 0x85ebca6bu;
    return &heap->outgoing[hash >> 26 & (NA_OUTGOING - 1)];
}

/* Puts the block on its list; true: the list is due. */
static bool collect(na_heap_t *heap, na_outgoing_t *out, uint32_t tag, void *block) {
    out->tag = tag;
    *na_block_next(block) = out->head;
    out->head = block;
    out->count++;
    heap->outgoing_blocks++;
    heap->remote_frees++;
    return out->count >= NA_POST_BLOCKS ||
           out->count * na_classes[(tag & 0xffff) / NA_BIN_SIZE].size >= NA_POST_BYTES;
}

void na_remote_free(na_heap_t *heap, uint32_t tag, void *block) {
    na_outgoing_t *out = entry_of(heap, tag);
    bool in_the_way = out->tag != tag && out->tag != 0; /* another owner's list */
    if (NA_LIKELY(!in_the_way) && NA_LIKELY(!collect(heap, out, tag, block))) return;
    na_gate_enter(heap);
    post(heap, out);
    if (in_the_way && collect(heap, out, tag, block)) post(heap, out);
    na_gate_leave(heap);
    na_heap_pass(heap);
}

void na_remote_flush(na_heap_t *heap) {
    for (unsigned i = 0; i < NA_OUTGOING && heap->outgoing_blocks != 0; i++)
        if (heap->outgoing[i].tag != 0) post(heap, &heap->outgoing[i]);
}
