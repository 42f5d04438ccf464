/* remote.c - collecting blocks of other owners and posting them. */
#include "alloc/thread/remote.h"

#include "alloc/central/central.h"
#include "alloc/thread/aside.h"

static uint64_t remote_limit(const na_tcache_t *owner) {
    uint32_t times = atomic_load_explicit(&owner->remote_limit, memory_order_relaxed);
    return (uint64_t)NA_REMOTE_LEAST << times;
}

/* Whether the owner took remote frees since it was last over its limit. If so it may have more: so
 * many blocks are under way all the time. If not, its thread sleeps, or only frees. Races between
 * posters make the limit wrong by a doubling, no more. */
static bool comes_for_mail(na_tcache_t *owner) {
    uint32_t taken = atomic_load_explicit(&owner->remote_taken, memory_order_relaxed);
    uint32_t times = atomic_load_explicit(&owner->remote_limit, memory_order_relaxed);
    bool comes =
        atomic_exchange_explicit(&owner->remote_seen, taken, memory_order_relaxed) != taken;
    if (comes && NA_REMOTE_LEAST << times < NA_REMOTE_MOST)
        atomic_store_explicit(&owner->remote_limit, times + 1, memory_order_relaxed);
    else if (!comes)
        atomic_store_explicit(&owner->remote_limit, 0, memory_order_relaxed);
    return comes;
}

static void post_to_tcache(na_tcache_t *owner, unsigned cls, na_batch_t batch) {
    uint64_t bytes = (uint64_t)na_batch_count(batch) * na_classes[cls].size;
    uint64_t before = atomic_fetch_add_explicit(&owner->remote_bytes, bytes, memory_order_relaxed);
    na_batch_t top = atomic_load_explicit(&owner->remote_free[cls], memory_order_relaxed);
    do
        *na_batch_next(batch) = top;
    while (!atomic_compare_exchange_weak_explicit(&owner->remote_free[cls], &top, batch,
                                                  memory_order_seq_cst, memory_order_relaxed));
    /* Seen after the remote frees are in: a thread that leaves looks for remote frees after
     * it says so. */
    if (atomic_load_explicit(&owner->phase, memory_order_seq_cst) == NA_TCACHE_ABANDONED)
        na_tcache_settle_abandoned(owner);
    else if (NA_UNLIKELY(before + bytes > remote_limit(owner)) && !comes_for_mail(owner))
        na_tcache_settle_absent(owner);
}

/* Posts the list, and leaves its place empty. */
static void post(na_tcache_t *tcache, na_remote_batch_t *out) {
    unsigned cls = (out->tag & 0xffff) / NA_BIN_SIZE, owner = out->tag >> 16;
    na_batch_t batch = na_batch(out->head, out->count);
    unsigned home = owner < NA_OWNER_POOL ? na_tcache_by_id(owner)->node : owner & ~NA_OWNER_POOL;
    tcache->states[cls].pushes += out->count;
    tcache->remote_frees += out->count;
    if (home != tcache->node) na_tcache_crossed(tcache, home, cls, out->count);
    tcache->remote_batches_used--;
    *out = (na_remote_batch_t){0};
    if (owner < NA_OWNER_POOL)
        post_to_tcache(na_tcache_by_id(owner), cls, batch);
    else if (!na_transfer_put(home, cls, NA_OWNER_NONE, batch))
        na_central_give(home, cls, na_batch_first(batch));
}

/* Many lists are short ones, so that all of them do not hold much. */
static uint16_t most_of(const na_tcache_t *tcache, uint32_t tag) {
    enum { FEW = 64 };
    uint32_t size = na_classes[(tag & 0xffff) / NA_BIN_SIZE].size;
    uint32_t due = (NA_POST_BYTES + size - 1) / size;
    if (due > NA_POST_BLOCKS) due = NA_POST_BLOCKS;
    due /= 1 + tcache->remote_batches_used / FEW;
    return (uint16_t)(due > 1 ? due - 1 : 0);
}

/* Begins a list with the block. Its place is empty. */
static void begin(na_tcache_t *tcache, na_remote_batch_t *out, uint32_t tag, void *block) {
    *out = (na_remote_batch_t){.tag = tag, .count = 1, .most = most_of(tcache, tag), .head = block};
    *na_block_next(block) = NULL;
    tcache->remote_batches_used++;
}

void na_remote_free(na_tcache_t *tcache, uint32_t tag, void *block) {
    na_remote_batch_t *out = na_remote_batch_of(tcache, tag);
    bool begun = out->tag == 0;
    if (begun) {
        begin(tcache, out, tag, block);
        if (NA_LIKELY(out->count <= out->most)) return;
    } else if (out->tag == tag && na_remote_collect(tcache, tag, block)) {
        return;
    }
    if (NA_UNLIKELY(!na_gate_enter(tcache))) {
        if (!begun) na_aside_free_later(block);
        return;
    }
    if (!begun && out->tag == tag) {
        *na_block_next(block) = out->head;
        out->head = block;
        out->count++;
    }
    bool in_the_way = out->tag != tag; /* another owner's list */
    post(tcache, out);
    if (in_the_way) {
        begin(tcache, out, tag, block);
        if (out->count > out->most) post(tcache, out);
    }
    na_gate_leave(tcache);
    na_tcache_pass(tcache);
}

void na_remote_flush(na_tcache_t *tcache) {
    for (unsigned i = 0; i < NA_REMOTE_BATCHES && tcache->remote_batches_used != 0; i++)
        if (tcache->remote_batches[i].tag != 0) post(tcache, &tcache->remote_batches[i]);
}
