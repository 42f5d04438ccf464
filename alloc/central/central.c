/* central.c - transfer cache and the shared spans of a node. */
#include "alloc/central/central.h"

#include <stdatomic.h>
#include <string.h>

#include "alloc/central/links.h"
#include "alloc/central/sizeclass.h"
#include "alloc/central/span_list.h"
#include "alloc/machine/topology.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/meta.h"
#include "pagemap/pagemap.h"

enum { TRANSFER_SLOTS = 16, GIVE_PARTS = 32 };

typedef struct na_central {
    _Alignas(NA_CACHE_LINE) _Atomic(na_batch_t) slots[TRANSFER_SLOTS];
    /* Racing guesses: who put last, and how many slots beyond the first may be used. */
    _Atomic(uint16_t) putter, earned;
    na_lock_t lock; /* guards all below, and what is sampled */
    na_span_list_t spans;
} na_central_t;
_Static_assert(sizeof(na_central_t) <= 4 * NA_CACHE_LINE, "small programs touch a page of 16");

/* What few programs need. */
typedef struct na_central_rare {
    /* Slot by slot: what the last look saw. A batch that is still there at the next is idle. */
    _Atomic(na_batch_t) seen[TRANSFER_SLOTS];
    na_span_list_t sampled;
    void *sampled_blocks; /* taken from `sampled`, not yet handed out */
} na_central_rare_t;

/* The lists of a node, and those of the unbound pseudo-node. */
typedef struct na_centrals {
    na_central_t of[NA_CLASS_COUNT];
    na_central_rare_t rare[NA_CLASS_COUNT];
} na_centrals_t;
static na_centrals_t *centrals[NA_MAX_NODES + 1];

bool na_central_init(unsigned node) {
    if (centrals[node] == NULL)
        centrals[node] = na_meta_alloc(sizeof(na_centrals_t), NA_CACHE_LINE);
    return centrals[node] != NULL;
}

bool na_transfer_put(unsigned node, unsigned cls, unsigned tcache, na_batch_t batch) {
    na_central_t *c = &centrals[node]->of[cls];
    unsigned slots = TRANSFER_SLOTS;
    if (tcache != NA_OWNER_NONE) {
        slots = 1u + atomic_load_explicit(&c->earned, memory_order_relaxed);
        if (atomic_load_explicit(&c->putter, memory_order_relaxed) != tcache)
            atomic_store_explicit(&c->putter, (uint16_t)tcache, memory_order_relaxed);
    }
    for (unsigned i = 0; i < slots; i++) {
        na_batch_t empty = 0;
        if (atomic_load_explicit(&c->slots[i], memory_order_relaxed) == 0 &&
            atomic_compare_exchange_strong_explicit(&c->slots[i], &empty, batch,
                                                    memory_order_release, memory_order_relaxed))
            return true;
    }
    return false;
}

bool na_transfer_is_wanted(unsigned node, unsigned cls) {
    return atomic_load_explicit(&centrals[node]->of[cls].earned, memory_order_relaxed) != 0;
}

/* One thread cache wants what another puts: let there be more of it next time. */
static void earn_slots(na_central_t *c, unsigned tcache) {
    unsigned putter = atomic_load_explicit(&c->putter, memory_order_relaxed);
    unsigned earned = atomic_load_explicit(&c->earned, memory_order_relaxed);
    if (putter == NA_OWNER_NONE || putter == tcache || earned == TRANSFER_SLOTS - 1) return;
    atomic_store_explicit(&c->earned, (uint16_t)(2 * earned + 1), memory_order_relaxed);
}

na_batch_t na_transfer_take(unsigned node, unsigned cls, unsigned tcache) {
    na_central_t *c = &centrals[node]->of[cls];
    earn_slots(c, tcache);
    for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
        if (atomic_load_explicit(&c->slots[i], memory_order_relaxed) == 0) continue;
        na_batch_t batch = atomic_exchange_explicit(&c->slots[i], 0, memory_order_acquire);
        if (batch != 0) {
            if (NA_LIKELY(na_harden == 0)) na_batch_set_next(batch, 0);
            return batch;
        }
    }
    return 0;
}

void *na_central_take(unsigned node, unsigned cls, uint32_t want, bool may_grow, bool *untouched,
                      uint32_t *got) {
    na_central_t *c = &centrals[node]->of[cls];
    na_span_kind_t kind = {.cls = (uint8_t)cls,
                           .node = (uint8_t)node,
                           .owner = (uint16_t)(NA_OWNER_POOL | node),
                           .untouched = untouched};
    na_lock(&c->lock);
    void *blocks = na_span_list_take(&c->spans, kind, want, may_grow, got);
    na_unlock(&c->lock);
    return blocks;
}

size_t na_central_give(unsigned node, unsigned cls, void *list, uint32_t count) {
    na_central_t *c = &centrals[node]->of[cls];
    na_part_t parts[GIVE_PARTS];
    unsigned n;
    size_t released = 0;
    if (NA_UNLIKELY(na_harden != 0)) count = na_links_check(&list, count);
    do {
        for (n = 0; n < GIVE_PARTS && na_part_cut(&list, &count, cls, &parts[n]);)
            n++;
        na_lock(&c->lock);
        for (unsigned i = 0; i < n; i++)
            released += na_span_list_give(&c->spans, &parts[i], cls);
        na_unlock(&c->lock);
    } while (n == GIVE_PARTS);
    return released;
}

const na_span_list_t *na_central_spans(unsigned node, unsigned cls) {
    return &centrals[node]->of[cls].spans;
}

bool na_central_open(na_mixer_t *mixer, unsigned node, unsigned cls) {
    na_central_t *c = &centrals[node]->of[cls];
    na_lock(&c->lock);
    bool opened = na_span_list_open(&c->spans, mixer);
    na_unlock(&c->lock);
    return opened;
}

void *na_sampled_take(unsigned node, unsigned cls) {
    na_central_t *c = &centrals[node]->of[cls];
    na_central_rare_t *rare = &centrals[node]->rare[cls];
    na_span_kind_t kind = {.cls = (uint8_t)cls,
                           .node = (uint8_t)node,
                           .owner = (uint16_t)(NA_OWNER_POOL | node),
                           .sampled = true};
    na_lock(&c->lock);
    uint32_t got;
    if (rare->sampled_blocks == NULL)
        rare->sampled_blocks = na_span_list_take(&rare->sampled, kind, 1, true, &got);
    void *block = rare->sampled_blocks;
    if (NA_UNLIKELY(na_harden != 0) && block != NULL && na_live_at(block) != NA_BIRTH_NONE) {
        na_link_report(block); /* an old link of its own, written back, led here */
        rare->sampled_blocks = block = NULL;
    }
    if (block != NULL) {
        rare->sampled_blocks = na_link_next(block);
        if (NA_UNLIKELY(na_harden != 0)) *na_link_signature(block) = 0;
        *na_block_next(block) = NULL; /* where the next one is, is told to nobody */
    }
    na_unlock(&c->lock);
    return block;
}

void na_sampled_give(na_span_t *span, void *block) {
    na_centrals_t *node = centrals[span->owner & ~NA_OWNER_POOL];
    na_central_t *c = &node->of[span->cls];
    na_lock(&c->lock);
    na_part_t part = na_part_of_one(span, block);
    na_span_list_give(&node->rare[span->cls].sampled, &part, span->cls);
    na_unlock(&c->lock);
}

/* Takes the batch out of a slot if it is still `expected`, and returns its blocks to their spans.
 */
static void empty_slot(unsigned node, unsigned cls, unsigned slot, na_batch_t expected) {
    na_central_t *c = &centrals[node]->of[cls];
    if (expected != 0 &&
        atomic_compare_exchange_strong_explicit(&c->slots[slot], &expected, 0, memory_order_acquire,
                                                memory_order_relaxed))
        na_central_give(node, cls, na_batch_first(expected), na_batch_count(expected));
}

void na_transfer_decay(unsigned node) {
    if (centrals[node] == NULL) return;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        if (!na_classes[cls].pooled) continue;
        na_central_t *c = &centrals[node]->of[cls];
        _Atomic(na_batch_t) *seen_here = centrals[node]->rare[cls].seen;
        for (unsigned i = 0; i < TRANSFER_SLOTS; i++) {
            na_batch_t now = atomic_load_explicit(&c->slots[i], memory_order_relaxed);
            na_batch_t seen = atomic_load_explicit(&seen_here[i], memory_order_relaxed);
            if (now != seen) atomic_store_explicit(&seen_here[i], now, memory_order_relaxed);
            if (now == 0 || now != seen) continue;
            uint16_t earned = atomic_load_explicit(&c->earned, memory_order_relaxed);
            atomic_store_explicit(&c->earned, earned / 2, memory_order_relaxed);
            empty_slot(node, cls, i, now);
        }
    }
}

void na_central_trim(unsigned node) {
    if (centrals[node] == NULL) return;
    for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
        na_central_t *c = &centrals[node]->of[cls];
        if (na_classes[cls].pooled)
            for (unsigned i = 0; i < TRANSFER_SLOTS; i++)
                empty_slot(node, cls, i, atomic_load_explicit(&c->slots[i], memory_order_relaxed));
        na_lock(&c->lock);
        na_span_list_trim(&c->spans);
        na_span_list_trim(&centrals[node]->rare[cls].sampled);
        na_unlock(&c->lock);
    }
}

void na_central_after_fork_child(void) {
    for (unsigned node = 0; node <= NA_MAX_NODES; node++)
        if (centrals[node] != NULL)
            for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++)
                na_lock_reset(&centrals[node]->of[cls].lock);
}
