/* thread_cache.h - the thread cache of one thread: its bins, its spans, its remote frees.
 *
 *            malloc / free                       other threads
 *                 |                                   |
 *   bins[class] {head, tag, credits}                  | post (remote.h)
 *      | overflow ^ refill                            v
 *   states[class].overflow  <---- exchange ----  remote_free[class]
 *      |          ^                                 batches of our own blocks coming home
 *      v          |
 *   own spans (owned classes)
 *   transfer cache, central spans of the node (pooled classes)
 *
 * Credits. A bin counts down what may be popped and pushed before its thread must come to
 * the slow path, which counts and grants anew ("renews"). Pop credit never exceeds the blocks in
 * the list, so malloc needs no test for an empty list. Push credit exceeds the room left by a
 * quarter of the bin at most. Neither exceeds NA_CREDIT_MAX, so that a thread that never leaves one
 * bin still comes by to be counted, sampled, moved to another node and scavenged. A bin of few
 * blocks has its credit extended, without a renewal, by what was pushed or popped meanwhile, until
 * NA_EXTENDED_MAX were granted.
 *
 *   blocks in the list = count + (granted_push - push) - (granted_pop - pop)
 *
 * Life. A thread cache is made for a node and never unmapped; it is ATTACHED to a thread, or
 * ABANDONED and on its node's idle list, keeping its spans; the next thread on the node adopts the
 * one that was abandoned last. Its id is what page tags name as owner. While abandoned, whoever
 * posts to it BORROWS it (one at a time) to put the remote frees into its spans, so that memory of
 * dead threads is not stranded. A few abandoned thread caches whose bins hold little stay WARM:
 * they keep it, and a few remote frees, for the next thread, and give it back when none comes for a
 * second or two.
 *
 * Gate. Everything beyond popping, pushing and granting runs between na_gate_enter and
 * na_gate_leave. It is a lock that only its thread cache's thread ever waits for: another thread
 * may try it, to put into its spans the remote frees of an owner that does not come for it, or what
 * an owner keeps that sleeps. fork() waits until no other thread is behind its gate, so that the
 * child sees spans, central lists, page heaps and metadata at rest and every lock free. It never
 * reads another thread's bins or remote batches, which may be mid-change: what they held is lost to
 * the child, and counted. Order: the cache-list lock, then the own gate, then (by trying)
 * another's.
 *
 * Who finds the gate closed waits a moment, not for ever: the fork may be waiting for a lock of the
 * C library that the thread holds. Then na_gate_enter says no, and the thread is served without it
 * (emergency.h). So do whoever waits for the cache-list lock, and a signal handler that interrupted
 * its thread behind the gate. */
#ifndef NUMALLOC_ALLOC_CACHE_THREAD_CACHE_H
#define NUMALLOC_ALLOC_CACHE_THREAD_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/central/batch.h"
#include "alloc/central/sizeclass.h"
#include "alloc/central/span_list.h"
#include "alloc/central/tag.h"
#include "alloc/machine/topology.h"
#include "alloc/page/run_cache.h"
#include "alloc/sys/base.h"
#include "alloc/sys/lock.h"
#include "alloc/track/track.h"

#define NA_CREDIT_MAX     256
#define NA_EXTENDED_MAX   64   /* of it, where it is granted a little at a time */
#define NA_QUICK          7u   /* quick renewals in a row */
#define NA_REMOTE_BATCHES 128u /* entries of the table of remote batches, a power of two */
#define NA_TCACHES_MAX    (NA_OWNER_POOL) /* ids 1..NA_OWNER_POOL-1 */

/* Hot: four to a cache line. Written by the owning thread only. */
typedef struct na_bin {
    void *head;   /* free blocks, linked (na_block_next) */
    uint32_t tag; /* page tag that free must find to push here */
    int16_t pop;  /* credits; below zero: spent, and the slow path has not renewed them yet */
    int16_t push;
} na_bin_t;
_Static_assert(sizeof(na_bin_t) == NA_BIN_SIZE, "the tag's bin offset counts in these");

/* Cold companion of a bin; what a quick renewal needs is on its first line. Written by the owning
 * thread only. */
typedef struct na_bin_state {
    _Alignas(NA_CACHE_LINE) uint32_t count; /* blocks in the list when credits were last granted */
    int16_t granted_pop;                    /* credits granted then */
    int16_t granted_push;
    uint16_t cap;   /* blocks the bin may hold: see adapt_cap in bin.c; 0: the thread cache has not
                     * used the  class yet, and all of this but `pushes` is zero (na_bin_begin) */
    uint16_t hold;  /* `cap`, or less where there are many threads (young.h) */
    uint16_t least; /* with no more blocks than this no renewal is quick: `thin` less one */
    bool used;      /* popped or pushed since the last look */
    uint8_t thin;   /* renewals in a row that found few blocks, though not none */
    uint32_t size;  /* the class's */
    uint16_t overflow_batches,
        overflow_low;      /* length of `overflow`, and its least since the last look */
    uint16_t popped;       /* low part of `pops` when the bin last ran over */
    uint16_t pushed;       /* low part of `pushes` when the bin last ran dry */
    uint8_t reused;        /* blocks that were freed and wanted back (young.h) */
    uint8_t sample_step;   /* what until_sample was drawn by (sampler.h) */
    int16_t extended_most; /* credit is extended up to this; 0: it is not (bin.h) */
    na_batch_t overflow;   /* stack of batches (overflow.h), remote frees taken in among them */
    int64_t until_sample;  /* mode sample: bytes until the next sampled block of this class */
    uint64_t pops, pushes; /* totals, but for the credit that is out */
} na_bin_state_t;
_Static_assert(sizeof(na_bin_state_t) == NA_CACHE_LINE, "a thread that sleeps has 60 of them");

/* Blocks of others on their way home; one entry for one page tag (class and owner). */
typedef struct na_remote_batch {
    uint32_t tag;   /* 0: empty */
    uint16_t count; /* blocks in the list */
    uint16_t most;  /* which may hold so many; one more, and it is due */
    void *head;
} na_remote_batch_t;

/* What this thread cache's threads freed of another node's blocks. `bytes` also counts, negative,
 * what they took of that node's on purpose (numalloc_alloc_onnode). */
typedef struct na_crossing {
    uint64_t blocks;
    int64_t bytes;
} na_crossing_t;

/* Any other: borrowed by the thread of that tag (lock.h). */
typedef enum na_tcache_phase { NA_TCACHE_ABANDONED, NA_TCACHE_ATTACHED } na_tcache_phase_t;

/* What each thread cache uses comes first, on one page: the system's memory is spent by the page,
 * and of the two thread caches for threads without one no other is ever touched. */
typedef struct na_tcache {
    na_bin_t
        bins[NA_CLASS_COUNT]; /* first: bin offsets in tags count from the thread cache's address */
    uint32_t remote_batches_used; /* entries in use */
    uint32_t overflow_bytes;      /* in all states' overflow batches */
    uint32_t overflow_moves;      /* batches kept and taken so far; wraps around */
    uint32_t overflow_seen;    /* of those, when somebody last looked whether the thread sleeps */
    uint32_t overflow_limit;   /* see overflow.h */
    uint32_t overflow_sent;    /* bytes sent home beyond the limit, and not drawn again yet */
    uint8_t overflow_waves;    /* doublings of what it rises to */
    bool only_frees;           /* of late; see overflow.h */
    uint8_t overflow_in_a_row; /* mixed batches kept since one was last sent home as a probe */
    uint8_t scattered;         /* of the latest batches, less those that were not; overflow.c */
    uint8_t quick;             /* renewals that may be quick before the next one is not; bin.h */
    uint8_t moved, moved_in_a_row; /* class of 2 KiB or more whose bin was last dry or full, and
                                    * how often no other was since; bin.c */
    uint16_t id;
    uint8_t node;
    uint32_t slow_calls;    /* since the last look at the clock */
    uint64_t polled_ms;     /* last look */
    uint64_t idle_ms;       /* last look for idle bins */
    uint32_t drawn;         /* bytes that bins drew from spans since then */
    uint32_t pressure_turn; /* na_pressure_turn when it last gave back all that it caches */
    uint64_t home_ms;       /* when the thread was last known to be on the thread cache's node */
    bool away;         /* its last slow path saw it on another, and it has not moved there yet */
    uint8_t away_node; /* that node */
    bool watched;      /* there are several nodes: na_tcache_enter looks where the thread is */
    uint8_t policy;    /* on the pseudo-node: its thread's policy when last looked at, 0: never */
    bool pinned;       /* the thread asked for this node (numalloc_set_thread_node) */
    bool left;         /* a thread that it was attached to has ended, or moved (young.h) */
    int64_t large_until_sample;                       /* as na_sampler_draw_large has it */
    uint64_t large_allocs, large_frees, remote_frees; /* large ones: see na_large_given */
    /* large_bins.h: bytes that they may hold; what is left of that, and how many runs they hold;
     * takes left, of as many that were granted. */
    uint64_t large_limit;
    int64_t large_room;
    int32_t large_takes, large_granted;
    bool large_barred;         /* `large_room` is less by NA_LARGE_BARRED */
    uint8_t large_sample_step; /* what large_until_sample was drawn by (sampler.h) */
    /* Bytes: runs that went to the node since the last decay and did not come back; room that
     * those which did have earned. */
    uint32_t large_sent, large_earned;
    uint8_t large_hand, large_alone; /* slot that makes room next; when to look for one */
    na_track_t track;
    bool ours;              /* the thread is one of the library's own (thread.h) */
    bool refused;           /* the gate was: na_emergency_alloc may serve it */
    uint32_t holder;        /* tag of the thread that it is attached to; 0: of one that ended */
    struct na_holes *holes; /* in its mixed spans (holes.h); NULL: it never had any */
    struct na_heap_cache *heap_cache; /* heap_cache.h; NULL: it never had any */
    struct na_tcache *next_idle;      /* guarded by the cache-list lock */

    /* Written by other threads. */
    /* 0, or the tag of the thread that is behind the gate; and NA_LOCK_AWAITED if that is in a
     * signal handler, which forks: what it interrupted goes on no sooner than after the fork. */
    _Alignas(NA_CACHE_LINE) _Atomic(uint32_t) busy;
    _Atomic(uint32_t) phase; /* na_tcache_phase_t */
    _Atomic(bool) warm;      /* abandoned, and may have some remote frees */
    _Alignas(NA_CACHE_LINE) _Atomic(na_batch_t) remote_free[NA_CLASS_COUNT];
    _Atomic(uint64_t)
        remote_bytes; /* in all of remote frees; late by what is being posted or taken */
    /* When remote frees exceeds NA_REMOTE_LEAST << remote_limit, posters look whether any
     * was taken since they last looked: then the limit rises; otherwise nobody is coming for it. */
    _Atomic(uint32_t) remote_taken, remote_seen, remote_limit;

    /* Its thread's again. What only some threads use comes last: it lies on the third page. */
    na_bin_state_t states[NA_CLASS_COUNT];
    na_span_list_t spans[NA_CLASS_OWNED_LAST + 1]; /* by class; na_tcache_spans */
    na_remote_batch_t remote_batches[NA_REMOTE_BATCHES];
    na_crossing_t crossed[NA_MAX_NODES + 1];
    na_run_slots_t large_bins;           /* large_bins.h */
    na_span_t *large_seen[NA_RUN_SLOTS]; /* what was on top when they last decayed */
    struct na_delay *delay;              /* delay.h; NULL: it never had any */
    struct na_hands *hands;              /* hand.h; the same */
} na_tcache_t;

/* The calling thread's cache. EMPTY before its first slow path, GONE after its last: two thread
 * caches whose bins have no credit and match no tag of a block, so that no test is needed for
 * either. (The hot path does count their credits down; each slow path resets them, so that they
 * stay near zero.) */
extern NA_NEAR NA_TLS na_tcache_t *na_self;
extern NA_NEAR na_tcache_t na_tcache_empty, na_tcache_gone;
/* Threads without a thread cache share the EMPTY one: they spend its credits, which it does not
 * have, at once, and read the class table while the first of them fills it. Whatever they find
 * sends them to a slow path that waits and sorts it out (thread_cache.h). ThreadSanitizer is told
 * so on the hot path and on every function that it is inlined into. */
#define NA_RACES_WITH_EMPTY NA_RACY
#define NA_HOT              __attribute__((always_inline)) NA_RACES_WITH_EMPTY static inline

/* There are several nodes: slow paths look where the thread is. */
NA_INLINE bool na_tcache_watched(const na_tcache_t *tcache) {
    return !NA_ONE_NODE && tcache->watched;
}
/* The thread of a watched thread cache runs on another node, or lately did: na_tcache_enter has to
 * look. */
bool na_tcache_is_away(const na_tcache_t *tcache);

/* The spans of an owned class. */
NA_INLINE na_span_list_t *na_tcache_spans(na_tcache_t *tcache, unsigned cls) {
    return &tcache->spans[cls];
}
/* Wholly free spans of a class go to the page heap, the last one too, if they are this thread
 * cache's. Behind the gate. */
NA_INLINE void na_tcache_trim_spans(na_tcache_t *tcache, unsigned cls) {
    if (!na_classes[cls].pooled) na_span_list_trim(na_tcache_spans(tcache, cls));
}

/* By id (page tag's owner). */
na_tcache_t *na_tcache_by_id(unsigned id);
/* Calls `visit` for every thread cache ever made. */
void na_tcache_each(void (*visit)(na_tcache_t *tcache, void *arg), void *arg);
unsigned na_tcache_count(void);
/* How many threads have a thread cache, at least 1. */
unsigned na_tcache_attached(void);

/* For attach.c, under the cache-list lock. A thread cache was made, of the next id. */
void na_tcache_add(na_tcache_t *tcache);
/* A thread has got one (1) or leaves it (less one): bins may hold less, or more (young.h). */
void na_tcache_count_threads(uint32_t change);
unsigned na_tcache_attached_now(void);
/* Tag of the thread that forks: the gate is closed to all others. NA_FORK_LAME: this is a child
 * that was made while others were behind the gate; it is closed for ever. 0: open. */
extern _Atomic(uint32_t) na_forking;
#define NA_FORK_LAME (NA_LOCK_AWAITED - 1)
/* `mine`: the gate is held already. */
bool na_gate_wait(na_tcache_t *tcache, bool mine);
/* A fork has kept the gate closed for so long that threads are served without it. */
extern _Atomic(bool) na_fork_is_long;

/* False: not now, and not soon. */
NA_INLINE __attribute__((warn_unused_result)) bool na_gate_enter(na_tcache_t *tcache) {
    uint32_t nobody = 0;
    bool mine = atomic_compare_exchange_strong_explicit(&tcache->busy, &nobody, na_thread_tag(),
                                                        memory_order_seq_cst, memory_order_relaxed);
    if (NA_LIKELY(mine) && NA_LIKELY(atomic_load_explicit(&na_forking, memory_order_seq_cst) == 0))
        return true;
    return na_gate_wait(tcache, mine);
}

NA_INLINE void na_gate_leave(na_tcache_t *tcache) {
    atomic_store_explicit(&tcache->busy, 0, memory_order_release);
}

/* `count` blocks of another node were freed. */
NA_INLINE void na_tcache_crossed(na_tcache_t *tcache, unsigned home, unsigned cls, uint32_t count) {
    tcache->crossed[home].blocks += count;
    tcache->crossed[home].bytes += (int64_t)count * na_classes[cls].size;
}

#endif
