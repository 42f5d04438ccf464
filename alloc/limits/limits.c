/* limits.c - when a control group's memory runs out. See limits.h. */
#include "alloc/limits/limits.h"

#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/purge.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/limits/cgroup.h"
#include "alloc/limits/charge.h"

#define MIB          ((uint64_t)1 << 20)
#define FIRST        (4 * MIB)  /* of the process, before the first look */
#define MOST         (64 * MIB) /* of a node, between two looks */
#define LEAST        (MIB / 2)
#define LEAST_PART   16u /* of the limit */
#define LEAST_MIN    (4 * MIB)
#define LEAST_MAX    (64 * MIB)
#define LOW_LEASTS   4u
#define LEAST_NODE   (2 * MIB) /* more for each node: a touch may take a huge page there */
#define SLACK_PART   128u      /* of the limit, all nodes together */
#define SLACK_LEAST  8u        /* pages a node */
#define SLACK_MOST   256u
#define UNLIMITED_MS 1000u /* the least time between two looks where there was no limit */
/* While it is exhausted: */
#define EXHAUSTED_PART                                                                             \
    4u /* of what is left, all nodes together, may be taken before the next look */
#define WHOLE_MOST      ((uint64_t)NA_WHOLE_BYTES)
#define EXHAUSTED_SPARE (MIB / 4) /* for tables, ours and the kernel's, and for stacks */

static _Atomic(uint64_t) given; /* bytes that were allowed before the first look */
static na_lock_t looking;       /* who looks, and alone writes what follows */
static _Atomic(uint64_t) not_before_ms;
static _Atomic(uint64_t) allowance; /* bytes, of each node; 0: there was no look yet */
/* Bytes that threads may take meanwhile while one looks, however long it is kept from that. */
static _Atomic(int64_t) meanwhile;
static _Atomic(uint64_t) refusals, refused_ms; /* how often, and when the last was */

static uint64_t clamp(uint64_t x, uint64_t low, uint64_t high) {
    return x < low ? low : x > high ? high : x;
}

static uint64_t pages_of(uint64_t bytes) {
    return bytes >> NA_PAGE_SHIFT;
}

/* What the node was allowed when there was more room no longer holds: `bytes` at most. Returns its
 * regions, which are for ever. */
static na_region_t *restrain(na_free_pages_t *s, uint64_t bytes) {
    na_lock(&s->lock);
    uint64_t most = s->fresh + pages_of(bytes);
    if (s->ask_limit > most) s->ask_limit = most;
    if (s->fresh_limit > most) s->fresh_limit = most;
    na_region_t *region = s->regions;
    na_unlock(&s->lock);
    return region;
}

static void set_level(uint32_t level, bool now) {
    uint32_t levels = atomic_load_explicit(&na_pressure.levels, memory_order_relaxed);
    levels = now ? levels | level : levels & ~level;
    atomic_store_explicit(&na_pressure.levels, levels, memory_order_relaxed);
}

/* New regions are told when they are made (place.c). */
static void end_huge_pages(na_region_t *region) {
    if (na_option(NA_OPT_HUGEPAGES) != NA_HUGE_NEVER)
        for (; region; region = region->next)
            na_region_end_huge_pages(region);
}

static void become_critical(uint64_t limit) {
    uint64_t slack = clamp(pages_of(limit / SLACK_PART / na_node_count), SLACK_LEAST, SLACK_MOST);
    atomic_store_explicit(&na_pressure.slack_pages, (uint32_t)slack, memory_order_relaxed);
    set_level(NA_PRESSURE_CRITICAL, true);
    for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i))
        end_huge_pages(restrain(&na_free_pages[i], LEAST));
    for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i))
        na_purge_everything(&na_free_pages[i]);
    atomic_fetch_add_explicit(&na_pressure.turns, 1, memory_order_relaxed);
}

/* Bytes that the page heaps hold, in use or free, and tables. */
static NA_RACY uint64_t held_bytes(void) {
    uint64_t pages = 0;
    for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i)) {
        const volatile na_free_pages_t *s = &na_free_pages[i];
        pages += s->used + s->dirty;
    }
    return (pages << NA_PAGE_SHIFT) + na_meta_bytes();
}

/* The last that was read before files were out of reach, and what was held then. */
static struct {
    bool known;
    na_cgroup_room_t group;
    uint64_t held;
} last_read;

/* What the process took since then is no room any more; what others took is not seen. */
static bool estimate_room(na_cgroup_room_t *group) {
    if (!last_read.known) return false;
    *group = last_read.group;
    uint64_t held = held_bytes(), more = held > last_read.held ? held - last_read.held : 0;
    uint64_t less = held < last_read.held ? last_read.held - held : 0;
    uint64_t *rooms[] = {&group->room, &group->uncharged, &group->easy};
    for (unsigned i = 0; i < sizeof rooms / sizeof *rooms; i++)
        if (*rooms[i] != UINT64_MAX)
            *rooms[i] = *rooms[i] + less > more ? *rooms[i] + less - more : 0;
    return true;
}

static bool read_room(na_cgroup_room_t *group) {
    return na_os_is_confined() ? estimate_room(group) : na_cgroup_room("/proc", "/sys", group);
}

void na_limits_confine(void) {
    enum { LONG_MS = 1000 };
    if (na_os_is_confined()) return;
    bool locked = na_limits != NULL && !na_lock_is_mine(&looking) && na_lock_for(&looking, LONG_MS);
    if (locked) {
        last_read.known = read_room(&last_read.group);
        last_read.held = held_bytes();
    }
    na_os_confine();
    if (locked) na_unlock(&looking);
}

static void restrain_all(void) {
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        restrain(&na_free_pages[node], 0);
}

static void set_exhausted(bool now) {
    bool before = na_pressure_is_exhausted();
    set_level(NA_PRESSURE_EXHAUSTED, now);
    if (now && !before) restrain_all();
}

/* Bytes for who wants so many, where the room is only estimated; 0: none. The kernel is asked, and
 * what it was ready to charge is good for the next ones, too. */
static uint64_t grant_by_asking(uint64_t wanted) {
    static uint64_t left;
    uint64_t need = wanted < WHOLE_MOST ? wanted : WHOLE_MOST;
    if (left < need) {
        if (na_charge_ask() == NA_CHARGE_NONE) return 0;
        left = WHOLE_MOST;
    }
    left -= need;
    return wanted;
}

/* While it is exhausted: bytes for a node that wants so many, `exactly` or with some more for the
 * next time; 0: not these. From the first on that has no more than it wants, no node has anything
 * left over.
 */
static uint64_t grant_bytes(na_cgroup_room_t *group, uint64_t wanted, bool exactly) {
    if (na_os_is_confined()) {
        restrain_all();
        return grant_by_asking(wanted);
    }
    uint64_t easy = group->easy > EXHAUSTED_SPARE ? group->easy - EXHAUSTED_SPARE : 0;
    uint64_t share = easy / EXHAUSTED_PART / na_node_count;
    if (share >= wanted) return exactly ? wanted : share;
    restrain_all();
    uint64_t need = (wanted < WHOLE_MOST ? wanted : WHOLE_MOST) + EXHAUSTED_SPARE;
    if (group->uncharged >= need || na_charge_ask() != NA_CHARGE_NONE) return wanted;
    /* Nothing is charged now that is not in use. */
    return read_room(group) && group->uncharged < need ? 0 : wanted;
}

/* Bytes that the node may take which wants so many. */
static NA_COLD uint64_t look_at_group(uint64_t wanted, bool exactly) {
    na_cgroup_room_t group;
    uint64_t share = MOST;
    int64_t spare = INT64_MAX;
    bool critical = na_pressure_is_critical(), exhausted = false;
    if (read_room(&group)) {
        uint64_t least = clamp(group.limit / LEAST_PART, LEAST_MIN, LEAST_MAX);
        least += na_node_count * LEAST_NODE;
        if (!critical && group.room < least) {
            become_critical(group.limit);
            (void)read_room(&group);
        } else if (critical && group.room > 2 * least) {
            set_level(NA_PRESSURE_CRITICAL, false);
        } else if (critical && group.room < least / 2 && !na_pressure_is_exhausted()) {
            for (unsigned i = 0; i < NA_PAGES_SETS; i = na_pages_next(i))
                na_purge_trim(&na_free_pages[i], 0);
        }
        set_level(NA_PRESSURE_LOW, group.room < LOW_LEASTS * least);
        uint64_t room = group.room > least ? group.room - least : 0;
        share = clamp(room / 2 / na_node_count, LEAST, MOST);
        spare = (int64_t)(room / 4);
        atomic_store_explicit(&not_before_ms, 0, memory_order_relaxed);
        exhausted = group.easy < least && na_option(NA_OPT_CGROUPS) == NA_CGROUPS_REFUSE;
    } else {
        set_level(NA_PRESSURE_CRITICAL, false); /* it was lifted */
        set_level(NA_PRESSURE_LOW, false);
        atomic_store_explicit(&not_before_ms, na_os_ms() + UNLIMITED_MS, memory_order_relaxed);
    }
    atomic_store_explicit(&meanwhile, spare, memory_order_relaxed);
    atomic_store_explicit(&allowance, share, memory_order_relaxed);
    set_exhausted(exhausted);
    return exhausted ? grant_bytes(&group, wanted, exactly) : share;
}

/* Of what may be taken while another thread looks, without waiting for it. */
static bool take_meanwhile(void) {
    return !na_pressure_is_exhausted() &&
           atomic_fetch_sub_explicit(&meanwhile, LEAST, memory_order_relaxed) >= (int64_t)LEAST;
}

static uint64_t asked(uint64_t wanted, bool exactly) {
    uint64_t bytes = atomic_load_explicit(&allowance, memory_order_relaxed);
    if (bytes == 0) {
        uint64_t part = clamp(FIRST / na_node_count, LEAST, FIRST);
        if (atomic_fetch_add_explicit(&given, part, memory_order_relaxed) < FIRST) return part;
    }
    uint64_t wait = atomic_load_explicit(&not_before_ms, memory_order_relaxed);
    /* (None: another thread has just looked for the first time, and its answer came in between.) */
    if (wait != 0 && bytes != 0 && na_os_ms() < wait) return bytes;
    if (!na_try_lock(&looking)) {
        if (take_meanwhile()) return LEAST;
        na_lock(&looking);
    }
    bytes = look_at_group(wanted, exactly);
    na_unlock(&looking);
    return bytes;
}

/* Bytes, `wanted` or more; 0: none. To ask takes memory of the kernel's, too, which the group is
 * charged for and has back a little later: after a refusal the answer is the same for some ms. */
static uint64_t ask_allowance(uint64_t wanted, bool exactly) {
    uint64_t now = na_pressure_is_exhausted() ? na_os_ms() : 0, bytes = 0;
    if (now == 0 || atomic_load_explicit(&refused_ms, memory_order_relaxed) != now)
        bytes = asked(wanted, exactly);
    if (bytes != 0) return bytes > wanted ? bytes : wanted;
    atomic_store_explicit(&refused_ms, na_os_ms(), memory_order_relaxed);
    atomic_fetch_add_explicit(&refusals, 1, memory_order_relaxed);
    return 0;
}

static void given_back(void) {
    atomic_store_explicit(&refused_ms, 0, memory_order_relaxed);
}

static bool use_page(char *page) {
    if (na_os_is_resident(page)) return true;
    na_lock(&na_exhausted_lock);
    bool may = ask_allowance(na_os_page, true) != 0;
    if (may) na_os_touch(page);
    na_unlock(&na_exhausted_lock);
    return may;
}

static bool may_use(uintptr_t start, size_t bytes) {
    bool may = true;
    for (uintptr_t page = na_align_down(start, na_os_page); may && page < start + bytes;
         page += na_os_page)
        may = use_page((char *)page);
    return may;
}

uint64_t na_limits_refusals(void) {
    return atomic_load_explicit(&refusals, memory_order_relaxed);
}

static void after_fork_child(void) {
    na_lock_reset(&looking);
    na_lock_reset(&na_exhausted_lock);
    na_charge_after_fork_child();
}

static const na_limits_t limits = {.ask = ask_allowance,
                                   .given_back = given_back,
                                   .may_use = may_use,
                                   .after_fork_child = after_fork_child};

void na_limits_init(void) {
    if (na_option(NA_OPT_CGROUPS) != NA_CGROUPS_IGNORE) na_limits = &limits;
}
