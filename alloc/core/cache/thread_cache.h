/* thread_cache.h - the thread cache of one thread: its bins, its spans, its remote frees.
 *
 *            malloc / free                       other threads
 *                 |                                   |
 *   bins[class] {head, tag, credits}                  | post (below)
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
 * bin still comes by to be counted, sampled, moved to another node and scavenged. Credit is
 * extended, without a renewal, by what was pushed or popped meanwhile, until as many were granted.
 *
 *   blocks in the list = count + (granted.push - push) - (granted.pop - pop)
 *
 * Life. A thread cache is made for a node and never unmapped; it is ATTACHED to a thread, or
 * ABANDONED and on its node's idle list, keeping its spans; the next thread on the node adopts the
 * one that was abandoned last. Its id is what page tags name as owner. While abandoned, whoever
 * posts to it BORROWS it (one at a time) to put the remote frees into its spans, so that memory of
 * dead threads is not stranded. Abandoned thread caches whose bins hold little stay WARM: they keep
 * it, and a few remote frees, for the next thread, and give it back when none comes for a second or
 * two. What they keep is bounded, not how many they are: programs of short threads have as many as
 * threads at a time.
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
#ifndef NUMALLOC_ALLOC_CORE_CACHE_THREAD_CACHE_H
#define NUMALLOC_ALLOC_CORE_CACHE_THREAD_CACHE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/scavenge_policy.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/tuned.h"
#include "alloc/core/track/track.h"

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

/* Of a bin: its only block is new memory and has no link (central.h); and reads as zero. */
typedef enum na_untouched { NA_TOUCHED, NA_UNTOUCHED, NA_UNTOUCHED_ZERO } na_untouched_t;

/* Credits that a bin was granted, and what they may be extended to; 0: they are not. */
typedef struct na_bin_granted {
    int16_t pop, push;
    uint16_t most;
} na_bin_granted_t;

/* Cold companion of a bin. Written by the owning thread only. */
typedef struct na_bin_state {
    _Alignas(NA_CACHE_LINE) uint32_t count; /* blocks in the list when credits were last granted */
    na_bin_granted_t granted;
    uint16_t cap;  /* blocks the bin may hold: see adapt_cap in bin.c; 0: the thread cache has not
                    * used the class yet, and all of this but `pushes` is zero (na_bin_begin) */
    uint16_t hold; /* `cap`, or less where there are many threads (bin.h) */
    uint32_t size; /* the class's */
    struct {
        uint16_t count, low; /* length of `overflow`, and its least since the last look */
    } batches;
    struct {
        uint16_t over; /* low part of `pops` when the bin last ran over */
        uint16_t dry;  /* low part of `pushes` when it last ran dry */
    } ran;
    bool used;             /* popped or pushed since the last look */
    uint8_t reused;        /* blocks that were freed and wanted back (bin.h) */
    uint8_t sample_step;   /* what until_sample was drawn by (track.h) */
    uint8_t untouched;     /* na_untouched_t */
    na_batch_t overflow;   /* stack of batches (bin.h), remote frees taken in among them */
    int64_t until_sample;  /* mode sample: bytes until the next sampled block of this class */
    uint64_t pops, pushes; /* totals, but for the credit that is out */
} na_bin_state_t;
_Static_assert(sizeof(na_bin_state_t) == NA_CACHE_LINE, "a thread that sleeps has 60 of them");

/* Blocks of other threads of the node on their way home; one entry for one page tag (owned class
 * and owner). */
typedef struct na_remote_batch {
    uint32_t tag;   /* 0: empty */
    uint16_t count; /* blocks in the list */
    uint16_t most;  /* which may hold so many; one more, and it is due */
    void *head;
} na_remote_batch_t;

/* Blocks of other nodes on their way home (inbox.h). A place from which a block went is 0: a
 * signal handler may have interrupted its thread between taking a place and writing there. */
#define NA_OUTBOX_BLOCKS (4 * NA_BATCH_BLOCKS)
typedef struct na_outbox {
    uint32_t count;
    uint32_t bytes;
    na_sent_t blocks[NA_OUTBOX_BLOCKS];
} na_outbox_t;

/* What this thread cache's threads freed of another node's blocks. `bytes` also counts, negative,
 * what they took of that node's on purpose (numalloc_alloc_onnode). */
typedef struct na_crossing {
    uint64_t blocks;
    int64_t bytes;
} na_crossing_t;

/* Who uses a thread cache: nobody, the thread that it is attached to, or who borrows it: the tag of
 * that thread (lock.h), in the word that it was won by, so that a forked child knows its own. */
typedef enum na_tcache_user { NA_TCACHE_ABANDONED, NA_TCACHE_ATTACHED } na_tcache_user_t;

/* The thread's own, of all classes together (bin.h). */
typedef struct na_tcache_overflow {
    uint32_t bytes;    /* in all states' overflow batches */
    uint32_t moves;    /* batches kept and taken so far; wraps around */
    uint32_t seen;     /* of those, when somebody last looked whether the thread sleeps */
    bool only_frees;   /* of late */
    uint8_t scattered; /* of the latest batches, less those that were not */
} na_tcache_overflow_t;

/* The thread's own, read and written in its slow paths (malloc/small.h, thread/scavenge.h). */
typedef struct na_tcache_slow {
    uint32_t calls;         /* since the last look at the clock */
    uint32_t drawn;         /* bytes that bins drew from spans since the last look for idle ones */
    uint64_t polled_ms;     /* last look at the clock */
    uint64_t idle_ms;       /* last look for idle bins */
    uint32_t pressure_turn; /* na_pressure_turn when it last gave back all that it caches */
} na_tcache_slow_t;

/* The thread's own, read where there are several nodes (thread/attach.h). */
typedef struct na_tcache_where {
    uint64_t home_ms;  /* when the thread was last known to be on the thread cache's node */
    bool watched;      /* there are several nodes: na_tcache_enter looks where the thread is */
    bool away;         /* its last slow path saw it on another, and it has not moved there yet */
    uint8_t away_node; /* that node */
    uint8_t policy;    /* on the pseudo-node: its thread's policy when last looked at, 0: never */
    bool pinned;       /* the thread asked for this node (numalloc_set_thread_node) */
} na_tcache_where_t;

/* Written when a thread comes or leaves. */
typedef struct na_tcache_life {
    uint32_t holder;        /* tag of the thread that it is attached to; 0: of one that ended */
    bool ours;              /* the thread is one of the library's own (thread.h) */
    bool refused;           /* the gate was: na_emergency_alloc may serve it */
    struct na_tcache *next; /* in the list that it is on: of idle ones, under the cache-list lock,
                             * or of those to be abandoned later */
} na_tcache_life_t;

#define NA_RUN_SLOTS 64u /* a word has a bit for each */
/* Stacks of kept runs (large_bins.h). Valid when all zero. */
typedef struct na_run_slots {
    na_span_t *head[NA_RUN_SLOTS];
} na_run_slots_t;

/* What the runs that a thread keeps leave of na_tcache_large_t.base, and how many there are. One
 * addition of a run's `toll` (pagemap.h) changes both. Less than 0: there is no room. */
typedef union na_large_room {
    struct {
        uint32_t runs;
        int32_t pages;
    };
    int64_t both; /* little-endian: pages in the upper half */
} na_large_room_t;

/* The next large block that is looked at. */
typedef struct na_large_next {
    int64_t bytes;  /* mode sample: until the next sampled block */
    int64_t blocks; /* up to the one that the path wants (track.h) */
    uint8_t step;   /* what `blocks` was drawn by */
} na_large_next_t;

/* The thread's own: large blocks that it keeps (large_bins.h). */
typedef struct na_tcache_large {
    int32_t takes, granted; /* takes left, of as many that were granted */
    na_large_room_t room;
    int32_t base;           /* pages: `limit`, or far less than nothing, so that no give has room */
    int32_t limit;          /* pages that the runs may hold */
    uint64_t allocs, frees; /* of large blocks: see na_large_given */
    na_large_next_t next;
    uint8_t hand, alone; /* slot that makes room next; when to look for one */
    /* Bytes: runs that went to the node since the last decay and did not come back; room that
     * those which did have earned. */
    uint32_t sent, earned;
    na_run_slots_t bins;
    na_span_t *seen[NA_RUN_SLOTS]; /* what was on top when they last decayed */
} na_tcache_large_t;

/* Read and written by other threads, too: remote frees come here. Who posts some touches one or two
 * lines, none of which the owner writes at each slow path. */
typedef struct na_tcache_shared {
    /* 0; or NA_GATE_LOST, or the tag of the thread that is behind the gate; and NA_LOCK_AWAITED if
     * that is in a signal handler, which forks: what it interrupted goes on no sooner than after
     * the fork. */
    _Alignas(NA_CACHE_LINE) _Atomic(uint32_t) busy;
    _Alignas(NA_CACHE_LINE) _Atomic(uint64_t)
        remote_bytes; /* in all of remote frees; late by what is being posted or taken */
    /* When remote frees exceed the limit, posters look whether any was taken since they last
     * looked: then it doubles. Otherwise nobody is coming for them, and it is one batch: the few
     * that are left of many, freed in random order, would pin a span each while the owner sleeps.
     * It doubles each time that the owner fills or empties a bin, back to NA_REMOTE_LEAST. */
    _Atomic(int32_t) remote_limit; /* doublings of NA_REMOTE_LEAST; below 0: halvings */
    _Atomic(uint32_t) remote_taken, remote_seen;
    _Atomic(uint32_t) user; /* na_tcache_user_t */
    _Atomic(bool) passed;   /* warm when somebody last came by (scavenge.c) */
    _Atomic(uint32_t) warm; /* abandoned, and kept so many bytes; 0: it is not warm */
    _Atomic(na_batch_t) remote_free[NA_CLASS_COUNT];
} na_tcache_shared_t;

/* The thread's own: blocks of others that it freed (below). */
typedef struct na_tcache_posts {
    uint32_t used;  /* entries of `batches` in use */
    uint64_t frees; /* posted so far */
    na_remote_batch_t batches[NA_REMOTE_BATCHES];
    na_crossing_t crossed[NA_MAX_NODES + 1];
    na_outbox_t outbox; /* last: where there is one node, its places are not there */
} na_tcache_posts_t;

/* What each thread cache uses comes first, on one page: the system's memory is spent by the page,
 * and of the two thread caches for threads without one no other is ever touched. */
typedef struct na_tcache {
    na_bin_t
        bins[NA_CLASS_COUNT]; /* first: bin offsets in tags count from the thread cache's address */
    uint16_t id;
    uint8_t node;
    na_tcache_overflow_t overflow;
    na_tcache_slow_t slow;
    na_tcache_where_t where;
    na_tcache_life_t life;
    const na_misses_t *misses; /* where calls go that the hot path missed; NULL: to slow paths */
    na_track_t track;
    void *kept[NA_KEEPERS]; /* by layers beside the core (seam.h) */
    na_tcache_shared_t shared;
    na_bin_state_t states[NA_CLASS_COUNT];
    na_span_list_t spans[NA_CLASS_OWNED_LAST + 1]; /* by class; na_tcache_spans */
    /* What only some threads use comes last, its arrays on the third page: of 5,000 threads that
     * sleep each saves a page. */
    na_tcache_large_t large;
    na_tcache_posts_t posts;
} na_tcache_t;

/* The calling thread's cache. EMPTY before its first slow path, GONE after its last: two thread
 * caches whose bins have no credit and match no tag of a block, so that no test is needed for
 * either. (The hot path does count their credits down; each slow path resets them, so that they
 * stay near zero.) */
extern NA_NEAR NA_TLS na_tcache_t *na_self;
extern NA_NEAR na_tcache_t na_tcache_empty, na_tcache_gone;
/* Threads without a thread cache share the EMPTY one: they spend its credits, which it does not
 * have, at once, and read the class table while the first of them fills it. Whatever they find
 * sends them to a slow path that waits and sorts it out (below). ThreadSanitizer is told
 * so on the hot path and on every function that it is inlined into. */
#define NA_RACES_WITH_EMPTY NA_RACY
#define NA_HOT              __attribute__((always_inline)) NA_RACES_WITH_EMPTY static inline

/* There are several nodes: slow paths look where the thread is. */
NA_INLINE bool na_tcache_watched(const na_tcache_t *tcache) {
    return !NA_ONE_NODE && tcache->where.watched;
}
/* The thread of a watched thread cache runs on another node, or lately did: na_tcache_enter has to
 * look. */
bool na_tcache_is_away(const na_tcache_t *tcache);

/* Bytes that it keeps in its large bins. */
NA_INLINE uint64_t na_large_kept(const na_tcache_t *tcache) {
    return (uint64_t)(tcache->large.base - tcache->large.room.pages) << NA_PAGE_SHIFT;
}

/* A nearly full bin may be overfilled a little: a thread that pops and pushes in turn would renew
 * at every push otherwise, and never run over. One that may hold nothing gets nothing. */
NA_INLINE int32_t na_bin_least_push(const na_bin_state_t *state) {
    return state->hold / 4 + (state->hold != 0);
}

/* Small blocks that it keeps (bin.h), or that others freed, are enough to be worth a look before
 * memory is taken. */
NA_INLINE bool na_tcache_keeps_much(const na_tcache_t *tcache) {
    uint64_t remote = atomic_load_explicit(&tcache->shared.remote_bytes, memory_order_relaxed);
    return tcache->overflow.bytes + remote >= NA_OVERFLOW_LEAST;
}

/* The spans of an owned class. */
NA_INLINE na_span_list_t *na_tcache_spans(na_tcache_t *tcache, unsigned cls) {
    return &tcache->spans[cls];
}
/* Wholly free spans of a class go to the page heap, the last one too, if they are this thread
 * cache's. Behind the gate. */
NA_INLINE void na_tcache_trim_spans(na_tcache_t *tcache, unsigned cls) {
    if (!na_classes[cls].pooled) na_span_list_trim(na_tcache_spans(tcache, cls));
}

/* Others have freed blocks of the class; a guess, but its own thread's. */
NA_INLINE bool na_tcache_has_remote(const na_tcache_t *tcache, unsigned cls) {
    return atomic_load_explicit(&tcache->shared.remote_free[cls], memory_order_relaxed) != 0;
}

/* By id (page tag's owner): | node : 16 | address : 48 |, so that who asks for the node reads no
 * line that is written. */
extern NA_NEAR uintptr_t na_tcaches[NA_TCACHES_MAX];
NA_INLINE na_tcache_t *na_tcache_by_id(unsigned id) {
    return na_batch_first(na_tcaches[id]);
}
NA_INLINE bool na_tcache_is_warm(const na_tcache_t *tcache) {
    return atomic_load_explicit(&tcache->shared.warm, memory_order_relaxed) != 0;
}
/* The node that blocks of a page tag go home to. */
NA_INLINE unsigned na_node_by_tag(uint32_t tag) {
    unsigned owner = na_tag_owner(tag);
    return owner < NA_OWNER_POOL ? na_batch_count(na_tcaches[owner]) : owner & ~NA_OWNER_POOL;
}
/* Calls `visit` for every thread cache ever made. */
void na_tcache_each(void (*visit)(na_tcache_t *tcache, void *arg), void *arg);
unsigned na_tcache_count(void);
/* How many threads have a thread cache, at least 1. */
unsigned na_tcache_attached(void);

/* For attach.c, under the cache-list lock. A thread cache was made, of the next id. */
void na_tcache_add(na_tcache_t *tcache);
/* A thread has got one (1) or leaves it (less one): bins may hold less, or more (bin.h). */
void na_tcache_count_threads(uint32_t change);
unsigned na_tcache_attached_now(void);
/* Tag of the thread that forks: the gate is closed to all others. NA_FORK_LAME: this is a child
 * that was made while others were behind the gate; it is closed for ever. 0: open. */
extern _Atomic(uint32_t) na_forking;
#define NA_FORK_LAME (NA_LOCK_AWAITED - 1)
/* In a child: whoever was behind the gate is not here, and what is the thread cache's own stays as
 * it is, for ever. No thread's tag. */
#define NA_GATE_LOST 1u
/* `mine`: the gate is held already. */
bool na_gate_wait(na_tcache_t *tcache, bool mine);
/* A fork has kept the gate closed for so long that threads are served without it. */
extern _Atomic(bool) na_fork_is_long;

/* False: not now, and not soon. */
NA_INLINE __attribute__((warn_unused_result)) bool na_gate_enter(na_tcache_t *tcache) {
    uint32_t nobody = 0;
    bool mine = atomic_compare_exchange_strong_explicit(
        &tcache->shared.busy, &nobody, na_thread_tag(), memory_order_seq_cst, memory_order_relaxed);
    if (NA_LIKELY(mine) && NA_LIKELY(atomic_load_explicit(&na_forking, memory_order_seq_cst) == 0))
        return true;
    return na_gate_wait(tcache, mine);
}

NA_INLINE void na_gate_leave(na_tcache_t *tcache) {
    atomic_store_explicit(&tcache->shared.busy, 0, memory_order_release);
}

/* Of another node so many blocks were freed. */
NA_INLINE void na_tcache_crossed(na_tcache_t *tcache, unsigned home, unsigned cls, uint32_t count) {
    tcache->posts.crossed[home].blocks += count;
    tcache->posts.crossed[home].bytes += (int64_t)count * na_classes[cls].size;
}

/* --- Remote frees: blocks on their way to the thread cache or node that owns them (remote.c) ---
 *
 *   another thread's, of the own node   a list for its owner and class      -> the owner's remote
 *                                                                              free list
 *   another node's                      the outbox: addresses, all mixed    -> nodes' inboxes
 *
 * A list of NA_BATCH_BLOCKS blocks or NA_BATCH_BYTES (less where there are many lists) is posted
 * whole, by one compare-and-swap; the outbox, when it is full, in parcels (inbox.h); and both when
 * they have waited for a poll. They are plain memory of the freeing thread: no atomic per block, no
 * look at the block's span, and its size grows with neither threads nor nodes.
 *
 * A thread of the node that wants blocks takes a parcel: pooled ones it keeps as if it had freed
 * them, owned ones go on to their owner. */

/* There are more places than classes: the classes of one owner are never in each other's way. */
NA_INLINE na_remote_batch_t *na_remote_batch_of(na_tcache_t *tcache, uint32_t tag) {
    enum { SPREAD = 29 }; /* owners; odd */
    return &tcache->posts
                .batches[(tag / NA_BIN_SIZE + na_tag_owner(tag) * SPREAD) % NA_REMOTE_BATCHES];
}
_Static_assert(NA_CLASS_COUNT <= NA_REMOTE_BATCHES, "see na_remote_batch_of");

/* `tag` is na_tag(class, owner) of the block's span, the owner not being `tcache`. Puts the
 * block on its list; false: there is none yet, or the block would make it due. */
NA_INLINE bool na_remote_collect(na_tcache_t *tcache, uint32_t tag, void *block) {
    na_remote_batch_t *out = na_remote_batch_of(tcache, tag);
    if (NA_UNLIKELY(out->tag != tag) || NA_UNLIKELY(out->count >= out->most)) return false;
    *na_block_next(block) = out->head;
    out->head = block;
    out->count++;
    return true;
}

/* The same of a block of another node, which is `home`. */
NA_INLINE bool na_outbox_collect(na_tcache_t *tcache, unsigned home, uint32_t tag, void *block) {
    na_outbox_t *outbox = &tcache->posts.outbox;
    uint32_t count = outbox->count, bytes = outbox->bytes + na_class_of_tag(tag)->size;
    if (NA_UNLIKELY(count == NA_OUTBOX_BLOCKS) || NA_UNLIKELY(bytes > NA_OUTBOX_BYTES))
        return false;
    outbox->blocks[count] = na_sent(block, home, na_tag_class(tag));
    outbox->count = count + 1;
    outbox->bytes = bytes;
    return true;
}

/* The same where that was false; posts what is due. True: something was. Not behind the gate, which
 * it enters to post. */
bool na_remote_free(na_tcache_t *tcache, uint32_t tag, void *block);

/* Posts all remote batches and the outbox. Behind the gate. */
void na_remote_flush(na_tcache_t *tcache);

/* Takes a parcel of the node's, if there is one. Its pooled blocks become overflow batches,
 * those of other threads are posted. Behind the gate, by the thread cache's thread. */
void na_remote_unpack(na_tcache_t *tcache);
/* Blocks in the node's inbox go to their spans, or to their owners: all, or in parcels that were
 * there the last time. Behind the gate of any thread cache. */
void na_inbox_home(unsigned node, bool idle);

/* All remote frees of a class, as a stack of batches. By the thread cache's holder. */
na_batch_t na_remote_take(na_tcache_t *tcache, unsigned cls);
/* The owner fills or empties a bin: it does not sleep. */
NA_INLINE void na_remote_awake(na_tcache_t *tcache) {
    int32_t times = atomic_load_explicit(&tcache->shared.remote_limit, memory_order_relaxed);
    if (NA_UNLIKELY(times < 0))
        atomic_store_explicit(&tcache->shared.remote_limit, times + 1, memory_order_relaxed);
}
/* Puts all of them, or those of a class, into the spans they came from; empty spans go to the page
 * heap (of a class: when the caller trims). By the thread cache's holder. */
void na_remote_drain(na_tcache_t *tcache);
void na_remote_drain_class(na_tcache_t *tcache, unsigned cls);
/* If the thread cache is abandoned: borrow it, drain it, give it back. (A warm one may have a
 * little.) */
void na_remote_drain_abandoned(na_tcache_t *tcache);

/* --- What is put off while a fork keeps the gate closed ---
 *
 * Why, and how threads are served meanwhile, is in malloc/emergency.h, which also does what was put
 * off. Here is what those below it need: how long to wait at the gate, and two lists that anyone
 * may put something on without a gate or a lock, also in a signal handler: freed blocks, linked
 * through themselves, and thread caches to abandon, through life.next. */

/* Another thread's fork keeps the gate closed, and has for NA_FORK_PATIENCE_MS. */
bool na_gate_timed_out(void);
/* Waits for that, or for the end of the fork. */
void na_gate_wait_for_fork(void);

/* The block is free, but for the part behind the gate: its record has ended, if it had one. */
void na_defer_free(void *block);
/* The thread cache's thread has ended; it is to be abandoned. */
void na_defer_abandon(na_tcache_t *tcache);
/* Something is on the lists; na_deferred_drain (malloc/emergency.h) clears it, then takes them. */
extern _Atomic(bool) na_deferred_pending;

/* Held by who has taken the blocks, or ends a heap that some of them are of. Not behind the gate.
 */
extern na_lock_t na_deferred_lock;
/* The whole list, which is empty then; NULL: it was. */
void *na_deferred_take_blocks(void);
na_tcache_t *na_deferred_take_tcaches(void);

/* The child's list of thread caches is empty: their threads are not there, so that they are taken
 * over as all others. Its blocks it inherits. */
void na_deferred_after_fork_child(void);

/* --- Large blocks: the hot path (large_bins.h has all else of kept runs) --- */

#define NA_RUN_CACHE_LEAST 5u    /* pages: NA_SMALL_MAX and a byte */
#define NA_RUN_CACHE_PAGES 1024u /* 8 MiB */
#define NA_LARGE_BINS_SIZE ((size_t)NA_RUN_CACHE_PAGES << NA_PAGE_SHIFT)

/* The slot of runs of so many pages (NA_RUN_CACHE_LEAST to NA_RUN_CACHE_PAGES), by the pages less
 * one. */
extern NA_NEAR const uint8_t na_run_slots[NA_RUN_CACHE_PAGES];
NA_INLINE unsigned na_run_slot(uint32_t pages) {
    return na_run_slots[pages - 1];
}

NA_INLINE void na_run_push(na_run_slots_t *slots, na_span_t *run) {
    na_span_t **head = &slots->head[run->run_slot];
    run->run = NA_RUN_KEPT;
    run->next = *head;
    *head = run;
}

/* Bytes that are left of the limit; less than nothing where it fell. */
NA_INLINE int64_t na_large_room(const na_tcache_t *tcache) {
    return (int64_t)tcache->large.limit * (int64_t)NA_PAGE_SIZE - (int64_t)na_large_kept(tcache);
}

/* A block lives in the run. */
NA_HOT void *na_large_hand_out(na_span_t *run, size_t size) {
    void *block = (void *)run->start;
    NA_AS_RETURNED(block);
    if (block == NULL) __builtin_unreachable(); /* so that callers need not ask */
    run->requested = size;
    run->run = (uintptr_t)block;
    return block;
}

/* A block of more than NA_SMALL_MAX bytes; NULL: there is none, or the slow path has to look. */
NA_HOT void *na_large_bins_take(na_tcache_t *tcache, size_t size) {
    if (NA_UNLIKELY(size - 1 >= NA_LARGE_BINS_SIZE)) return NULL;
    uint32_t last = (uint32_t)((size - 1) >> NA_PAGE_SHIFT);
    unsigned slot = na_run_slots[last];
    if (NA_UNLIKELY(--tcache->large.takes < 0)) return NULL;
    na_span_t *run = tcache->large.bins.head[slot];
    if (NA_UNLIKELY(run->pages <= last)) return NULL;
    tcache->large.bins.head[slot] = run->next;
    tcache->large.room.both += run->toll;
    return na_large_hand_out(run, size);
}

/* The plain run whose block begins at an address on a page without a tag; or NULL. `block`:
 * na_is_address. */
NA_HOT na_span_t *na_large_run_of(const void *block) {
    uintptr_t at = (uintptr_t)block;
    const na_span_leaf_t *leaf = na_span_leaf_of(at);
    na_span_t *run = leaf->span[na_page_in_span_leaf(at)];
    if (NA_UNLIKELY(run == NULL)) run = leaf->huge[na_hugepage_in_span_leaf(at)];
    return NA_LIKELY(run != NULL) && NA_LIKELY(run->run == at) ? run : NULL;
}

/* Keeps the run of a block on a page without a tag; false: the slow path has to look. (On machines
 * with several nodes it is barred, so the node is the right one.) */
NA_HOT bool na_large_bins_give(na_tcache_t *tcache, void *block) {
    na_span_t *run = na_large_run_of(block);
    if (NA_UNLIKELY(run == NULL)) return false;
    int64_t room = tcache->large.room.both - run->toll;
    if (NA_UNLIKELY(room < 0)) return false;
    tcache->large.room.both = room;
    na_run_push(&tcache->large.bins, run);
    return true;
}

#endif
