/* tight.c - when a control group's memory runs out. See tight.h. */
#include "alloc/tight.h"

#include "alloc/cgroup.h"
#include "alloc/options.h"
#include "alloc/os.h"
#include "alloc/pagestore.h"
#include "alloc/purge.h"
#include "alloc/topology.h"

#define MIB          ((uint64_t)1 << 20)
#define FIRST        (4 * MIB)  /* of the process, before the first look */
#define MOST         (64 * MIB) /* of a node, between two looks */
#define LEAST        (MIB / 2)
#define TIGHT_PART   16u /* of the limit */
#define TIGHT_LEAST  (4 * MIB)
#define TIGHT_MOST   (64 * MIB)
#define SCARCE       4u
#define TIGHT_NODE   (2 * MIB) /* more for each node: a touch may take a huge page there */
#define SLACK_PART   128u      /* of the limit, all nodes together */
#define SLACK_LEAST  8u        /* pages a node */
#define SLACK_MOST   256u
#define UNLIMITED_MS 1000u /* the least time between two looks where there was no limit */

_Atomic(bool) na_tight_now, na_scarce_now;
_Atomic(uint32_t) na_tight_turns, na_tight_lot;

static _Atomic(uint64_t) given; /* bytes that were allowed before the first look */
static _Atomic(bool) looking;   /* one thread at a time; it alone writes what follows */
static _Atomic(uint64_t) not_before_ms;
static _Atomic(uint64_t) allowance; /* bytes, of each node; 0: there was no look yet */

static uint64_t clamp(uint64_t x, uint64_t low, uint64_t high) {
    return x < low ? low : x > high ? high : x;
}

static uint64_t pages_of(uint64_t bytes) {
    return bytes >> NA_PAGE_SHIFT;
}

/* What the node was allowed when there was more room no longer holds; and no huge pages. Regions
 * are for ever, and new ones are told when they are made (place.c). */
static void restrain(na_pagestore_t *s) {
    na_lock(&s->lock);
    uint64_t most = s->fresh + pages_of(LEAST);
    if (s->ask_limit > most) s->ask_limit = most;
    if (s->fresh_limit > most) s->fresh_limit = most;
    const na_region_t *region = s->regions;
    na_unlock(&s->lock);
    if (na_option(NA_OPT_HUGEPAGES) != NA_HUGE_NEVER)
        for (; region; region = region->next)
            na_os_hugepage((void *)region->start, region->size, false);
}

static void become_tight(uint64_t limit) {
    uint64_t slack = clamp(pages_of(limit / SLACK_PART / na_node_count), SLACK_LEAST, SLACK_MOST);
    atomic_store_explicit(&na_tight_lot, (uint32_t)slack, memory_order_relaxed);
    atomic_store_explicit(&na_tight_now, true, memory_order_relaxed);
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        restrain(&na_pagestores[node]);
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        na_purge_everything(&na_pagestores[node]);
    atomic_fetch_add_explicit(&na_tight_turns, 1, memory_order_relaxed);
}

static void look(void) {
    na_cgroup_room_t group;
    uint64_t share = MOST;
    bool tight = na_tight();
    if (na_option(NA_OPT_CGROUPS) && na_cgroup_room("/proc", "/sys", &group)) {
        uint64_t least = clamp(group.limit / TIGHT_PART, TIGHT_LEAST, TIGHT_MOST);
        least += na_node_count * TIGHT_NODE;
        if (!tight && group.room < least) {
            become_tight(group.limit);
            na_cgroup_room("/proc", "/sys", &group);
        } else if (tight && group.room > 2 * least) {
            atomic_store_explicit(&na_tight_now, false, memory_order_relaxed);
        } else if (tight && group.room < least / 2) {
            for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
                na_purge_trim(&na_pagestores[node], 0);
        }
        atomic_store_explicit(&na_scarce_now, group.room < SCARCE * least, memory_order_relaxed);
        uint64_t room = group.room > least ? group.room - least : 0;
        share = clamp(room / 2 / na_node_count, LEAST, MOST);
        atomic_store_explicit(&not_before_ms, 0, memory_order_relaxed);
    } else {
        atomic_store_explicit(&na_tight_now, false, memory_order_relaxed); /* it was lifted */
        atomic_store_explicit(&na_scarce_now, false, memory_order_relaxed);
        atomic_store_explicit(&not_before_ms, na_os_ms() + UNLIMITED_MS, memory_order_relaxed);
    }
    atomic_store_explicit(&allowance, share, memory_order_relaxed);
}

uint64_t na_tight_allowance(void) {
    uint64_t bytes = atomic_load_explicit(&allowance, memory_order_relaxed);
    if (bytes == 0) {
        uint64_t part = clamp(FIRST / na_node_count, LEAST, FIRST);
        if (atomic_fetch_add_explicit(&given, part, memory_order_relaxed) < FIRST)
            return pages_of(part);
    }
    uint64_t wait = atomic_load_explicit(&not_before_ms, memory_order_relaxed);
    if ((wait == 0 || na_os_ms() >= wait) &&
        !atomic_exchange_explicit(&looking, true, memory_order_acquire)) {
        look();
        atomic_store_explicit(&looking, false, memory_order_release);
        bytes = atomic_load_explicit(&allowance, memory_order_relaxed);
    } else if (wait == 0) { /* another thread is about to know better */
        bytes = LEAST;
    }
    return pages_of(bytes);
}

void na_tight_after_fork_child(void) {
    atomic_store_explicit(&looking, false, memory_order_relaxed);
}
