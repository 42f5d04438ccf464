/* remote.c - collecting blocks of other owners, posting them, and putting them into spans. */
#include "alloc/core/cache/thread_cache.h"

#include "alloc/core/cache/bin.h"
#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/central/inbox.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/track/misuse.h"
#include "pagemap/pagemap.h"

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
    if (atomic_load(&tcache->shared.warm) != 0 &&
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

/* --- the freeing thread's side: blocks of the node --- */

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
    unsigned cls = na_tag_class(out->tag);
    na_tcache_t *owner = na_tcache_by_id(na_tag_owner(out->tag));
    na_batch_t batch = na_batch(out->head, out->count);
    tcache->states[cls].pushes += out->count;
    tcache->posts.frees += out->count;
    tcache->posts.used--;
    *out = (na_remote_batch_t){0};
    post_to_tcache(owner, cls, batch);
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

/* Puts the block, of another thread of the node, on its list. Behind the gate. */
static void post_block(na_tcache_t *tcache, uint32_t tag, void *block) {
    na_remote_batch_t *out = na_remote_batch_of(tcache, tag);
    if (out->tag != 0 && out->tag != tag) post(tcache, out); /* another owner's, in the way */
    if (out->tag == 0) {
        begin_batch(tcache, out, tag, block);
    } else {
        na_link_set(block, out->head);
        out->head = block;
        out->count++;
    }
    if (out->count > out->most) post(tcache, out);
}

/* --- blocks of other nodes --- */

static unsigned owner_of(const void *block) {
    uint32_t tag = na_page_tag((uintptr_t)block);
    return tag != NA_TAG_SLOW ? na_tag_owner(tag) : na_span_of(block)->owner;
}

/* To the block's span, or its owner. */
static void send_home(na_sent_t sent) {
    unsigned cls = na_sent_class(sent);
    void *block = na_sent_block(sent);
    na_link_set(block, NULL);
    if (na_classes[cls].pooled)
        na_central_give(na_sent_home(sent), cls, block, 1);
    else
        post_to_tcache(na_tcache_by_id(owner_of(block)), cls, na_batch(block, 1));
}

/* Of the outbox, the blocks of one node from the place `at` on, which has one of them: as many as a
 * parcel holds; or home, where there is none. */
static void post_parcel(na_tcache_t *tcache, unsigned at) {
    na_outbox_t *outbox = &tcache->posts.outbox;
    unsigned home = na_sent_home(outbox->blocks[at]), count = 0;
    na_inbox_t *inbox = na_central_inbox(home);
    na_parcel_t *parcel = na_inbox_open(inbox);
    for (; at < outbox->count && count < NA_PARCEL_BLOCKS; at++) {
        na_sent_t sent = outbox->blocks[at];
        if (sent == 0 || na_sent_home(sent) != home) continue;
        outbox->blocks[at] = 0;
        unsigned cls = na_sent_class(sent);
        tcache->states[cls].pushes++;
        tcache->posts.frees++;
        na_tcache_crossed(tcache, home, cls, 1);
        if (NA_LIKELY(parcel != NULL))
            parcel->blocks[count++] = sent;
        else
            send_home(sent);
    }
    if (NA_LIKELY(parcel != NULL)) na_inbox_post(inbox, parcel, count);
}

static void post_outbox(na_tcache_t *tcache) {
    na_outbox_t *outbox = &tcache->posts.outbox;
    if (outbox->count == 0) return; /* its page is not touched */
    for (unsigned at = 0; at < outbox->count; at++)
        while (outbox->blocks[at] != 0)
            post_parcel(tcache, at);
    outbox->count = outbox->bytes = 0;
}

/* A block of the node came by the inbox, of another thread: it goes on. It was counted when it was
 * freed, and is when its list is posted. */
static void pass_on(na_tcache_t *tcache, unsigned cls, void *block) {
    unsigned owner = owner_of(block);
    tcache->states[cls].pushes--;
    tcache->posts.frees--;
    post_block(tcache, na_tag(cls, owner), block);
}

void na_remote_unpack(na_tcache_t *tcache) {
    unsigned at = 0, count;
    na_parcel_t *parcel = na_inbox_take(na_central_inbox(tcache->node), &at, false, &count);
    if (parcel == NULL) return;
    for (unsigned i = 0; i < count; i++) {
        unsigned cls = na_sent_class(parcel->blocks[i]);
        void *block = na_sent_block(parcel->blocks[i]);
        if (na_classes[cls].pooled || owner_of(block) == tcache->id)
            na_overflow_add(tcache, cls, block);
        else
            pass_on(tcache, cls, block);
    }
    na_parcel_done(parcel);
    na_overflow_bound(tcache);
}

void na_inbox_home(unsigned node, bool idle) {
    na_inbox_t *inbox = na_central_inbox(node);
    unsigned at = 0, count;
    na_parcel_t *parcel;
    while (inbox != NULL && (parcel = na_inbox_take(inbox, &at, idle, &count)) != NULL) {
        for (unsigned i = 0; i < count; i++)
            send_home(parcel->blocks[i]);
        na_parcel_done(parcel);
    }
}

/* --- both --- */

bool na_remote_free(na_tcache_t *tcache, uint32_t tag, void *block) {
    unsigned home = na_node_by_tag(tag);
    if (home == tcache->node) {
        na_remote_batch_t *out = na_remote_batch_of(tcache, tag);
        if (out->tag == 0 && batch_most(tcache, tag) != 0) {
            begin_batch(tcache, out, tag, block);
            return false;
        }
        if (out->tag == tag && na_remote_collect(tcache, tag, block)) {
            na_link_sign(block);
            return false;
        }
    } else if (na_outbox_collect(tcache, home, tag, block)) {
        return false;
    }
    if (NA_UNLIKELY(!na_gate_enter(tcache))) {
        na_defer_free(block);
        return false;
    }
    if (home == tcache->node) {
        post_block(tcache, tag, block);
    } else {
        post_outbox(tcache);
        na_outbox_collect(tcache, home, tag, block);
    }
    na_gate_leave(tcache);
    return true;
}

void na_remote_flush(na_tcache_t *tcache) {
    for (unsigned i = 0; i < NA_REMOTE_BATCHES && tcache->posts.used != 0; i++)
        if (tcache->posts.batches[i].tag != 0) post(tcache, &tcache->posts.batches[i]);
    post_outbox(tcache);
}
