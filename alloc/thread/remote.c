/* remote.c - collecting blocks of other owners and posting them. */
#include "alloc/thread/remote.h"

#include "alloc/central/central.h"
#include "alloc/thread/aside.h"

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

/* Posts the list, and leaves its place empty. */
static void post(na_heap_t *heap, na_outgoing_t *out) {
    unsigned cls = (out->tag & 0xffff) / NA_BIN_SIZE, owner = out->tag >> 16;
    na_chain_t chain = na_chain(out->head, out->count);
    unsigned home = owner < NA_OWNER_POOL ? na_heap_by_id(owner)->node : owner & ~NA_OWNER_POOL;
    heap->states[cls].pushes += out->count;
    heap->remote_frees += out->count;
    if (home != heap->node) na_heap_crossed(heap, home, cls, out->count);
    heap->outgoing_lists--;
    *out = (na_outgoing_t){0};
    if (owner < NA_OWNER_POOL)
        post_to_heap(na_heap_by_id(owner), cls, chain);
    else if (!na_depot_put(home, cls, NA_OWNER_NONE, chain))
        na_central_give(home, cls, na_chain_first(chain));
}

/* Many lists are short ones, so that all of them do not hold much. */
static uint16_t most_of(const na_heap_t *heap, uint32_t tag) {
    enum { FEW = 64 };
    uint32_t size = na_classes[(tag & 0xffff) / NA_BIN_SIZE].size;
    uint32_t due = (NA_POST_BYTES + size - 1) / size;
    if (due > NA_POST_BLOCKS) due = NA_POST_BLOCKS;
    due /= 1 + heap->outgoing_lists / FEW;
    return (uint16_t)(due > 1 ? due - 1 : 0);
}

/* Begins a list with the block. Its place is empty. */
static void begin(na_heap_t *heap, na_outgoing_t *out, uint32_t tag, void *block) {
    *out = (na_outgoing_t){.tag = tag, .count = 1, .most = most_of(heap, tag), .head = block};
    *na_block_next(block) = NULL;
    heap->outgoing_lists++;
}

void na_remote_free(na_heap_t *heap, uint32_t tag, void *block) {
    na_outgoing_t *out = na_outgoing_of(heap, tag);
    bool begun = out->tag == 0;
    if (begun) {
        begin(heap, out, tag, block);
        if (NA_LIKELY(out->count <= out->most)) return;
    } else if (out->tag == tag && na_remote_collect(heap, tag, block)) {
        return;
    }
    if (NA_UNLIKELY(!na_gate_enter(heap))) {
        if (!begun) na_aside_free_later(block);
        return;
    }
    if (!begun && out->tag == tag) {
        *na_block_next(block) = out->head;
        out->head = block;
        out->count++;
    }
    bool in_the_way = out->tag != tag; /* another owner's list */
    post(heap, out);
    if (in_the_way) {
        begin(heap, out, tag, block);
        if (out->count > out->most) post(heap, out);
    }
    na_gate_leave(heap);
    na_heap_pass(heap);
}

void na_remote_flush(na_heap_t *heap) {
    for (unsigned i = 0; i < NA_OUTGOING && heap->outgoing_lists != 0; i++)
        if (heap->outgoing[i].tag != 0) post(heap, &heap->outgoing[i]);
}
