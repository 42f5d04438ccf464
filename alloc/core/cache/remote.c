/* remote.c - collecting blocks of other owners, posting them, and putting them into spans. */
#include "alloc/core/cache/thread_cache.h"

#include "alloc/core/cache/bin.h"
#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/track/misuse.h"

/* --- the owner's side --- */

/* The stack has come back to a batch that was there before, from `last`: two threads freed its
 * first block. What follows is lost, and so is the account of bytes. */
static NA_COLD void cut_remote_circle(na_tcache_t *tcache, na_batch_t last) {
    na_misuse_late("double free of", na_batch_first(na_batch_unstack(last)));
    na_batch_stack(last, 0);
    atomic_store_explicit(&tcache->shared.remote_bytes, 0, memory_order_relaxed);
}

/* Blocks of a stack of batches. A circle is seen by comparing each batch with one that is left
 * behind at each power of two. */
static uint64_t count_stack(na_tcache_t *tcache, na_batch_t stack) {
    uint64_t blocks = 0, steps = 0;
    na_batch_t behind = 0;
    for (na_batch_t batch = stack, below; batch != 0; batch = below) {
        blocks += na_batch_count(batch);
        if ((steps & (steps + 1)) == 0) behind = batch;
        steps++;
        below = na_batch_below(batch);
        if (NA_UNLIKELY(below == behind)) {
            cut_remote_circle(tcache, batch);
            return 0;
        }
    }
    return blocks;
}

na_batch_t na_remote_take(na_tcache_t *tcache, unsigned cls) {
    na_batch_t stack =
        atomic_exchange_explicit(&tcache->shared.remote_free[cls], 0, memory_order_acquire);
    uint64_t blocks = count_stack(tcache, stack);
    uint32_t taken = atomic_load_explicit(&tcache->shared.remote_taken, memory_order_relaxed);
    atomic_store_explicit(&tcache->shared.remote_taken, taken + 1, memory_order_relaxed);
    atomic_fetch_sub_explicit(&tcache->shared.remote_bytes, blocks * na_classes[cls].size,
                              memory_order_relaxed);
    return stack;
}

void na_remote_drain_class(na_tcache_t *tcache, unsigned cls) {
    na_batch_t batch = na_tcache_has_remote(tcache, cls) ? na_remote_take(tcache, cls) : 0;
    while (batch != 0) {
        na_batch_t next = na_batch_unstack(batch);
        na_batch_home(tcache, cls, batch);
        batch = next;
    }
}

void na_remote_drain(na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (!na_tcache_has_remote(tcache, cls)) continue;
        na_remote_drain_class(tcache, cls);
        na_tcache_trim_spans(tcache, cls);
    }
}

static bool has_remote(const na_tcache_t *tcache) {
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
        if (atomic_load_explicit(&tcache->shared.remote_free[cls], memory_order_seq_cst) != 0)
            return true;
    return false;
}

void na_remote_drain_abandoned(na_tcache_t *tcache) {
    if (atomic_load(&tcache->shared.warm) &&
        atomic_load_explicit(&tcache->shared.remote_bytes, memory_order_relaxed) <= NA_WARM_REMOTE)
        return;
    while (has_remote(tcache)) {
        uint32_t user = NA_TCACHE_ABANDONED;
        if (!atomic_compare_exchange_strong(&tcache->shared.user, &user, na_thread_tag()))
            return; /* adopted, or another poster is at it: whoever holds it looks again */
        na_remote_drain(tcache);
        atomic_store(&tcache->shared.user, NA_TCACHE_ABANDONED);
    }
}

/* Borrows, drains and gives back a thread cache whose thread is not coming for its remote frees;
 * nothing if the thread is behind its gate just now, or another poster is. Behind the caller's own
 * gate. */
static void drain_absent(na_tcache_t *tcache) {
    uint32_t idle = 0;
    if (!atomic_compare_exchange_strong(&tcache->shared.busy, &idle, na_thread_tag())) return;
    /* Looked at behind its gate, where it is not changed: who abandons holds the gate. */
    if (atomic_load(&tcache->shared.user) == NA_TCACHE_ATTACHED) {
        na_remote_drain(tcache);
        atomic_store_explicit(
            &tcache->shared.remote_seen, /* it was not the thread that took it */
            atomic_load_explicit(&tcache->shared.remote_taken, memory_order_relaxed),
            memory_order_relaxed);
    }
    na_gate_leave(tcache);
}

/* --- the freeing thread's side --- */

enum { AWAY = -NA_REMOTE_HALVINGS };
_Static_assert(NA_BATCH_BYTES << NA_REMOTE_HALVINGS == NA_REMOTE_LEAST, "away: one batch");

static uint64_t remote_limit(const na_tcache_t *owner) {
    int32_t times = atomic_load_explicit(&owner->shared.remote_limit, memory_order_relaxed);
    return (uint64_t)NA_BATCH_BYTES << (times - AWAY);
}

/* Whether the owner took remote frees since it was last over its limit. If so it may have more: so
 * many blocks are under way all the time. If not, its thread sleeps, or only frees. Races between
 * posters make the limit wrong by a doubling, no more. */
static bool comes_for_them(na_tcache_t *owner) {
    uint32_t taken = atomic_load_explicit(&owner->shared.remote_taken, memory_order_relaxed);
    int32_t times = atomic_load_explicit(&owner->shared.remote_limit, memory_order_relaxed);
    bool comes =
        atomic_exchange_explicit(&owner->shared.remote_seen, taken, memory_order_relaxed) != taken;
    if (comes && remote_limit(owner) < NA_REMOTE_MOST)
        atomic_store_explicit(&owner->shared.remote_limit, times + 1, memory_order_relaxed);
    else if (!comes)
        atomic_store_explicit(&owner->shared.remote_limit, AWAY, memory_order_relaxed);
    return comes;
}

static void post_to_tcache(na_tcache_t *owner, unsigned cls, na_batch_t batch) {
    uint64_t bytes = (uint64_t)na_batch_count(batch) * na_classes[cls].size;
    uint64_t before =
        atomic_fetch_add_explicit(&owner->shared.remote_bytes, bytes, memory_order_relaxed);
    na_batch_t top = atomic_load_explicit(&owner->shared.remote_free[cls], memory_order_relaxed);
    for (;;) {
        if (NA_UNLIKELY(na_batch_first(top) == na_batch_first(batch))) {
            atomic_fetch_sub_explicit(&owner->shared.remote_bytes, bytes, memory_order_relaxed);
            na_misuse_late("double free of", na_batch_first(batch));
            return;
        }
        na_batch_stack(batch, top);
        if (NA_LIKELY(atomic_compare_exchange_weak_explicit(&owner->shared.remote_free[cls], &top,
                                                            batch, memory_order_seq_cst,
                                                            memory_order_relaxed)))
            break;
        (void)na_batch_unstack(batch);
    }
    /* Seen after the remote frees are in: a thread that leaves looks for remote frees after
     * it says so. */
    if (atomic_load_explicit(&owner->shared.user, memory_order_seq_cst) == NA_TCACHE_ABANDONED)
        na_remote_drain_abandoned(owner);
    else if (NA_UNLIKELY(before + bytes > remote_limit(owner)) && !comes_for_them(owner))
        drain_absent(owner);
}

/* Posts the list, and leaves its place empty. */
static void post(na_tcache_t *tcache, na_remote_batch_t *out) {
    unsigned cls = na_tag_class(out->tag), owner = na_tag_owner(out->tag);
    na_batch_t batch = na_batch(out->head, out->count);
    unsigned home =
        owner < NA_OWNER_POOL ? na_tcache_by_id(owner)->shared.node : owner & ~NA_OWNER_POOL;
    tcache->states[cls].pushes += out->count;
    tcache->posts.frees += out->count;
    if (home != tcache->node) na_tcache_crossed(tcache, home, cls, out->count);
    tcache->posts.used--;
    *out = (na_remote_batch_t){0};
    if (owner < NA_OWNER_POOL)
        post_to_tcache(na_tcache_by_id(owner), cls, batch);
    else if (!na_transfer_put(home, cls, NA_OWNER_NONE, batch))
        na_central_give(home, cls, na_batch_first(batch), na_batch_count(batch));
}

/* Many lists are short ones, so that all of them do not hold much. */
static uint16_t batch_most(const na_tcache_t *tcache, uint32_t tag) {
    uint32_t size = na_classes[na_tag_class(tag)].size;
    uint32_t due = (NA_BATCH_BYTES + size - 1) / size;
    if (due > NA_BATCH_BLOCKS) due = NA_BATCH_BLOCKS;
    due /= 1 + tcache->posts.used / NA_BATCH_BLOCKS;
    return (uint16_t)(due > 1 ? due - 1 : 0);
}

/* Begins a list with the block. Its place is empty. */
static void begin_batch(na_tcache_t *tcache, na_remote_batch_t *out, uint32_t tag, void *block) {
    *out =
        (na_remote_batch_t){.tag = tag, .count = 1, .most = batch_most(tcache, tag), .head = block};
    na_link_set(block, NULL);
    tcache->posts.used++;
}

bool na_remote_free(na_tcache_t *tcache, uint32_t tag, void *block) {
    na_remote_batch_t *out = na_remote_batch_of(tcache, tag);
    bool begun = out->tag == 0;
    if (begun) {
        begin_batch(tcache, out, tag, block);
        if (NA_LIKELY(out->count <= out->most)) return false;
    } else if (out->tag == tag && na_remote_collect(tcache, tag, block)) {
        na_link_sign(block);
        return false;
    }
    if (NA_UNLIKELY(!na_gate_enter(tcache))) {
        if (!begun) na_defer_free(block);
        return false;
    }
    if (!begun && out->tag == tag) {
        na_link_set(block, out->head);
        out->head = block;
        out->count++;
    }
    bool in_the_way = out->tag != tag; /* another owner's list */
    post(tcache, out);
    if (in_the_way) {
        begin_batch(tcache, out, tag, block);
        if (out->count > out->most) post(tcache, out);
    }
    na_gate_leave(tcache);
    return true;
}

void na_remote_flush(na_tcache_t *tcache) {
    for (unsigned i = 0; i < NA_REMOTE_BATCHES && tcache->posts.used != 0; i++)
        if (tcache->posts.batches[i].tag != 0) post(tcache, &tcache->posts.batches[i]);
}
