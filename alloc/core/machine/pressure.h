/* pressure.h - how short memory is, and who knows how much more there may be.
 *
 * The core knows no limit but the system's refusal. Who knows others (na_limits) is asked before a
 * node takes new memory, and says how short it is; the core keeps less then:
 *
 *   low         New spans are made so that next to nothing is lost in their tails (block.c),
 *               which is 3 % of blocks up to 1 KiB. They are longer, and a long one drains less
 *               often: a program whose phases leave survivors in all its spans holds up to a
 *               seventh more, so this is not for all times.
 *   critical    No more is resident than the latest peak of what was in use and a little (purge.h),
 *               ends of large blocks that hold memory nobody asked for are given back, threads hold
 *               few free blocks, and new ranges use no huge pages.
 *   exhausted   Runs of new pages are asked for and touched at once, so that what was given is what
 *               was charged; so is what was taken before and not used yet. What is refused fails
 *               with ENOMEM. Before a small block is refused, one of a larger class serves
 *               (entry.c). */
#ifndef NUMALLOC_ALLOC_CORE_MACHINE_PRESSURE_H
#define NUMALLOC_ALLOC_CORE_MACHINE_PRESSURE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/tuned.h"

enum { NA_PRESSURE_LOW = 1, NA_PRESSURE_CRITICAL = 2, NA_PRESSURE_EXHAUSTED = 4 };

/* Written by who knows of limits. */
typedef struct na_pressure {
    _Atomic(uint32_t) levels; /* bits, each by itself */
    _Atomic(uint32_t) turns;
    _Atomic(uint32_t) slack_pages;
} na_pressure_t;
extern na_pressure_t na_pressure;

NA_INLINE bool na_pressure_is(uint32_t level) {
    return NA_UNLIKELY((atomic_load_explicit(&na_pressure.levels, memory_order_relaxed) & level) !=
                       0);
}
NA_INLINE bool na_pressure_is_low(void) {
    return na_pressure_is(NA_PRESSURE_LOW);
}
NA_INLINE bool na_pressure_is_critical(void) {
    return na_pressure_is(NA_PRESSURE_CRITICAL);
}
/* Every run has to be asked for, and touched by who takes it. */
NA_INLINE bool na_pressure_is_exhausted(void) {
    return na_pressure_is(NA_PRESSURE_EXHAUSTED);
}

/* How often it became critical: a thread cache that has not seen the last time gives back what it
 * caches. */
NA_INLINE uint32_t na_pressure_turn(void) {
    return atomic_load_explicit(&na_pressure.turns, memory_order_relaxed);
}

/* While it is critical: pages that a node may hold beyond what it had in use at its latest peak. */
NA_INLINE uint32_t na_pressure_slack(void) {
    return atomic_load_explicit(&na_pressure.slack_pages, memory_order_relaxed);
}

/* Larger runs than this are often used in part: they are not touched, and so much must be there. */
#define NA_WHOLE_BYTES NA_SLACK_BYTES

/* While it is exhausted: held from the asking until what was given is touched, lest it be given
 * twice. No lock of a page heap may be held. */
extern na_lock_t na_exhausted_lock;

/* On the page heap's way to new memory only; with no lock of a page heap. Thread-safe. */
typedef struct na_limits {
    /* How many bytes of new memory a node may take before it is to ask again: as many as are
     * wanted, or more, if not `exactly`; 0: it may not have those. */
    uint64_t (*ask)(uint64_t wanted, bool exactly);
    /* Pages went back to the system: what was refused just now may be had. */
    void (*given_back)(void);
    /* While it is exhausted: a block at `start` may be made in memory that was taken before that
     * began, and it has all its pages now. False: they would not be allowed. Takes
     * na_exhausted_lock. */
    bool (*may_use)(uintptr_t start, size_t bytes);
    void (*after_fork_child)(void);
} na_limits_t;

/* NULL: no limit is known. Set by na_above_t.init (thread/attach.h). */
extern const na_limits_t *na_limits;

NA_INLINE uint64_t na_limits_ask(uint64_t wanted, bool exactly) {
    return na_limits != NULL ? na_limits->ask(wanted, exactly) : (uint64_t)1 << 60;
}

/* --- How much memory of a node is left, as the system counts it ---
 *
 * Reads /sys/devices/system/node/nodeN/meminfo, which takes some 20 us: for slow paths that come by
 * every few MiB, never for every allocation. Thread-safe, async-signal-safe. */

#define NA_NODE_FREE_UNKNOWN UINT64_MAX

/* Bytes that can still be taken on a dense node before the kernel begins to place pages elsewhere:
 * it keeps a reserve free on each. NA_NODE_FREE_UNKNOWN: the system does not say. */
uint64_t na_node_free(unsigned node);

/* The same from the text of the file. */
uint64_t na_node_free_parse(const char *meminfo);

#endif
