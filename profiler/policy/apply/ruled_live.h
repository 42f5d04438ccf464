/* ruled_live.h - a policy as it is applied: from the return addresses of a call to a site's memory.
 *
 *   rules/              the file as read, not bound to anything
 *     | bind/             modules by build-id (policy_modules.h), functions by symbol tables,
 *     v                   frames by .eh_frame
 *   na_policy_live_t      nodes: a tree of return addresses, the innermost at the root
 *     |                   (policy_tree.h)
 *     |                   sites: what a node's rule gives, and what it gave (policy_sites.h)
 *     v
 *   entries.c             malloc and its kin once more; import slots of modules with rules lead
 *                         there
 *
 * Who comes by. The hot paths know nothing of this. The import slots (slots.h) of just those
 * modules that innermost frames of rules lie in are pointed at the entries here. An entry looks at
 * one byte, picked by the low bits of its return address. Zero: it goes on to malloc by a jump.
 * Else the exact table decides (na_policy_match).
 *
 * Frames. A node that has children knows how to find its caller's return address: the canonical
 * frame address is the stack pointer or rbp plus a constant, and rbp is saved at a constant offset
 * from it or not at all. Rules whose frames are not so are not bound, and counted. Words are read
 * only where a return address was equal to that of a node: so the code is known, its table of
 * frames is, and the word is on the stack. A module with bound rules is never unloaded
 * (policy_modules.h pins it), so an address is never another's.
 *
 * Life. Threads look without a lock, and may be stopped for any time while they do. So nothing that
 * they may hold is ever freed or becomes something else, and all of it is bounded:
 *   - The tree only grows, in place, as more frames are named. What is in a node stays as it is but
 *     for its site, and its number of children, which rises. A tree that is full is copied into one
 *     of twice the room: all that were left behind are smaller together than the one in use.
 *   - Sites and pools are made once for each rule that is new (policy_sites.h), and found again.
 * A rule that goes leaves nodes without a site. One that comes back finds its site, its sums and
 * its heap. Sums are added to by any thread. Heaps are made when a site is first given from, and
 * stay: of an unused one less than 1 KiB. Everything here is as async-signal-safe as malloc;
 * nothing calls the loader. */
#ifndef NUMALLOC_PROFILER_POLICY_APPLY_RULED_LIVE_H
#define NUMALLOC_PROFILER_POLICY_APPLY_RULED_LIVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/track/hooks.h"
#include "numalloc/numalloc.h"
#include "profiler/policy/rules/rules.h"

/* Bytes; a byte of zero: no innermost frame has an address with these low bits. */
#define NA_POLICY_FILTER ((uintptr_t)1 << 14)
extern NA_NEAR uint8_t na_policy_filter[NA_POLICY_FILTER];

#define NA_POLICY_BP_SAME INT16_MIN

/* Added to by any thread; a few of them, so that threads are seldom in each other's way. As with a
 * bin's credits, calls are counted down from what was granted: the usual one has no more to look
 * at. What is granted is a turn: of treated calls, or of the control's. */
#define NA_POLICY_SHARDS 8u
typedef struct na_policy_sums {
    _Alignas(NA_CACHE_LINE) int32_t left; /* of `granted` */
    _Atomic(int32_t) granted;
    _Atomic(uint32_t) line_mask;                   /* sizes are rounded up so in this turn */
    _Atomic(bool) control;                         /* it is the control's */
    _Atomic(uint64_t) bytes;                       /* all */
    _Atomic(uint64_t) calls, control_calls;        /* in turns before this one */
    _Atomic(uint64_t) control_bytes, bytes_before; /* `bytes` when the turn began */
} na_policy_sums_t;

/* Memory that sites share: all of a group, or one alone. */
typedef struct na_policy_pool {
    numalloc_heap_options_t options;
    bool apart;   /* blocks come from a heap; else from malloc, in sizes of whole lines */
    bool missing; /* the machine has not what the options name: blocks come from malloc */
    _Atomic(numalloc_heap_t *) heap, control; /* NULL: not made yet */
    char name[32];
    int nodes[NA_MAX_NODES];     /* options.nodes */
    uint32_t number;             /* from 1, in the order in which they were made */
    uint8_t place;               /* na_policy_place_t */
    struct na_policy_pool *next; /* made before */
    uint64_t hash;               /* of the key, */
    const char *key;             /* which is what policy_sites.c tells pools by */
    size_t key_length;
} na_policy_pool_t;

typedef struct na_policy_site {
    na_policy_sums_t *sums; /* NA_POLICY_SHARDS of them */
    size_t usual_most;      /* larger ones are give.c's; 0: all */
    _Atomic(uint64_t) large, large_bytes, large_control, large_control_bytes; /* large blocks */
    _Atomic(uint64_t) failed; /* malloc's block was given, for want of memory */
    _Atomic(uint64_t) moved;  /* bytes of blocks that lay elsewhere */
    na_policy_pool_t *pool;
    uint64_t reserve;   /* bytes that a block has at least */
    uint32_t line_mask; /* sizes are rounded up so where they are treated */
    uint16_t control;   /* one of so many; 0: none */
    /* For who binds, under the policy's lock. */
    bool bound;    /* some node has it */
    bool no_frame; /* none has: its frames are at no constant distance */
    uint32_t line; /* of the file, as it is now */
    struct na_policy_site *next;
    uint64_t hash;
    const char *key;
    size_t key_length;
} na_policy_site_t;

typedef struct na_policy_node {
    _Atomic(na_policy_site_t *) site; /* NULL: only on the way to others, or its rule went */
    /* With children, and constant then: */
    uintptr_t first_pc;                 /* of one of them, */
    const struct na_policy_node *first; /* which often is the only one */
    int32_t cfa;   /* from the stack pointer as it is when the call has returned, or from rbp */
    int16_t bp_at; /* from the CFA, where the caller's rbp is saved, or NA_POLICY_BP_SAME */
    bool cfa_by_bp;
    _Atomic(uint8_t) children; /* 0, 1, or several: 2 */
} na_policy_node_t;
_Static_assert(sizeof(na_policy_node_t) == 32, "nodes are many");

/* Where a node is found: by its return address, and by the node of the frame that is called from
 * there; 0: none, it is the innermost. */
typedef struct na_policy_key {
    uintptr_t pc;
    uint32_t parent;
    _Atomic(uint32_t) node; /* the last word to be written; 0: the place is free */
} na_policy_key_t;

/* A byte of the filter names the place of an innermost frame, which it keeps for ever; the last
 * one, that there are several. */
#define NA_POLICY_ROOTS 256u
typedef struct na_policy_root {
    uintptr_t pc;                     /* 0: no frame's */
    _Atomic(na_policy_site_t *) site; /* NULL: further frames decide, or its rule went */
} na_policy_root_t;

typedef struct na_policy_live {
    na_policy_root_t roots[NA_POLICY_ROOTS]; /* the first and the last are no frame's */
    const na_policy_node_t *root_nodes[NA_POLICY_ROOTS];
    const na_policy_node_t *nodes; /* [0] is none's */
    const na_policy_key_t *table;  /* open addressing by na_policy_hash */
    uint32_t mask;                 /* entries of the table, less one */
} na_policy_live_t;

/* NULL: no policy is applied. */
extern NA_NEAR _Atomic(const na_policy_live_t *) na_policy_live;

NA_INLINE uint32_t na_policy_hash(uintptr_t pc, uint32_t parent) {
    return (uint32_t)((pc + parent) * UINT64_C(0x9e3779b97f4a7c15) >> 40);
}

/* The node of that address below that parent; 0: there is none. */
NA_INLINE uint32_t na_policy_find(const na_policy_live_t *live, uintptr_t pc, uint32_t parent) {
    for (uint32_t at = na_policy_hash(pc, parent) & live->mask;; at = (at + 1) & live->mask) {
        const na_policy_key_t *key = &live->table[at];
        uint32_t node = atomic_load_explicit(&key->node, memory_order_acquire);
        if (node == 0 || (key->pc == pc && key->parent == parent)) return node;
    }
}

NA_INLINE unsigned na_policy_place(uintptr_t pc) {
    return __atomic_load_n(&na_policy_filter[pc & (NA_POLICY_FILTER - 1)], __ATOMIC_ACQUIRE);
}

/* The site that this address alone decides; NULL: look at all frames. (The filter may be of later
 * tables than these.) */
NA_INLINE na_policy_site_t *na_policy_root(const na_policy_live_t *live, uintptr_t pc) {
    const na_policy_root_t *root = &live->roots[na_policy_place(pc)];
    return NA_LIKELY(root->pc == pc) ? atomic_load_explicit(&root->site, memory_order_acquire)
                                     : NULL;
}

/* The longest rule for a call that entered the library with this frame: entered[0] is the caller's
 * rbp, entered[1] the return address, and the caller's stack begins behind them. NULL: none. */
NA_INLINE na_policy_site_t *na_policy_match(const na_policy_live_t *live,
                                            const uintptr_t *entered) {
    unsigned place = na_policy_place(entered[1]);
    const na_policy_node_t *n = live->root_nodes[place];
    if (NA_UNLIKELY(live->roots[place].pc != entered[1]))
        n = &live->nodes[na_policy_find(live, entered[1], 0)];
    na_policy_site_t *site = NULL;
    uintptr_t bp = entered[0], sp = (uintptr_t)(entered + 2);
    for (;;) {
        na_policy_site_t *here = atomic_load_explicit(&n->site, memory_order_acquire);
        if (here != NULL) site = here;
        unsigned children = atomic_load_explicit(&n->children, memory_order_acquire);
        if (children == 0) return site;
        uintptr_t cfa = (n->cfa_by_bp ? bp : sp) + (uintptr_t)(intptr_t)n->cfa;
        if (NA_UNLIKELY(cfa <= sp)) return site;
        if (n->bp_at != NA_POLICY_BP_SAME)
            bp = *(const uintptr_t *)(cfa + (uintptr_t)(intptr_t)n->bp_at);
        sp = cfa;
        uintptr_t pc = ((const uintptr_t *)cfa)[-1];
        if (NA_LIKELY(pc == n->first_pc))
            n = n->first;
        else if (children == 1)
            return site;
        else
            n = &live->nodes[na_policy_find(live, pc, (uint32_t)(n - live->nodes))];
    }
}

/* A call of the site was counted, and it may go on as usual. */
NA_INLINE bool na_policy_is_usual(const na_policy_site_t *site, na_policy_sums_t *sums,
                                  size_t size) {
    if (NA_UNLIKELY(size > site->usual_most)) return false;
    if (NA_UNLIKELY(__atomic_sub_fetch(&sums->left, 1, __ATOMIC_RELAXED) < 0)) return false;
    atomic_fetch_add_explicit(&sums->bytes, size, memory_order_relaxed);
    return true;
}

/* A block of the site's memory, of any size, aligned to `alignment` (a power of two); NULL: the
 * caller does what it does without a policy. */
void *na_policy_give(na_policy_site_t *site, size_t size, size_t alignment, na_entry_t entry,
                     bool *zeroed);

/* entries.c: the entry for a function of the library; 0: it is none of those that have one. */
uintptr_t na_policy_entry_for(uintptr_t function);
/* The library's function of that name, if it has an entry; else 0. */
uintptr_t na_policy_function_named(const char *name);

#endif
