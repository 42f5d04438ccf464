/* policy_move.c - see policy_move.h. */
#include "profiler/policy/policy_move.h"

#include <stdatomic.h>
#include <string.h>
#include <sys/syscall.h>
#include <time.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "alloc/core/sys/thread.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/track.h"
#include "alloc/heaps/api/api_heap.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"
#include "profiler/policy/apply/ruled_live.h"
#include "profiler/policy/policy.h"
#include "profiler/record/stacks/tree.h"
#include "profiler/record/state/state.h"

enum {
    ROUND_MS = 250,
    ALONE_MS = 1000,                    /* whether the program has ended */
    BLOCKS = 128,                       /* of a round */
    SLICE = 64,                         /* pages */
    MOVED = 256,                        /* blocks that are remembered */
    THREADS = NA_NPROF_THREADS_OWN + 1, /* that are followed: who has a number of its own */
    WAIT_MS = 10 * 1000,
    WAIT_MOST_MS = 3600 * 1000,
};

typedef struct found {
    uintptr_t start, end;
    int node; /* the system's number */
    na_policy_site_t *site;
} found_t;

typedef struct moved {
    uintptr_t start;
    uint32_t times;
    uint64_t next_ms;
} moved_t;

/* The thread's own. */
static NA_SPARSE found_t found[BLOCKS];
static NA_SPARSE moved_t moved_blocks[MOVED];
static NA_SPARSE uint8_t runs_on[THREADS]; /* by index in the profile: dense node + 1; 0: none */
static unsigned runs_on_used;              /* of its places */
static unsigned found_count;
static uint64_t share; /* per cent */

/* --- which --- */

/* The rule for a block of this stack: the longest, as for a call. */
static na_policy_site_t *site_of_stack(const na_policy_live_t *live, uint32_t stack) {
    na_policy_site_t *site = NULL;
    uint32_t node = 0, bound = na_tree_bound();
    for (unsigned depth = 0; depth < NA_POLICY_FRAMES && stack > NA_NPROF_ROOT && stack < bound;
         depth++) {
        const na_nprof_stack_t *frame = na_tree_node(stack);
        node = na_policy_find(live, (uintptr_t)frame->pc, node);
        if (node == 0) return site;
        na_policy_site_t *here =
            atomic_load_explicit(&live->nodes[node].site, memory_order_acquire);
        if (here != NULL) site = here;
        stack = frame->parent;
    }
    return site;
}

/* (The other threads take and leave their thread caches meanwhile: a node that is another's moves a
 * block once in vain.) */
NA_RACY static void find_thread(na_tcache_t *tcache, void *unused) {
    (void)unused;
    const na_rthread_t *t = tcache->track.profile;
    if (t == NULL || t->known_as >= THREADS || tcache->node >= na_node_count) return;
    runs_on[t->known_as] = (uint8_t)(tcache->node + 1);
    if (runs_on_used <= t->known_as) runs_on_used = t->known_as + 1;
}

/* Where the site's blocks of that thread are to lie: the system's number of the node; negative:
 * nowhere, or it is not known yet. */
static int wanted_node(const na_policy_site_t *site, unsigned thread) {
    const na_policy_pool_t *pool = site->pool;
    if (site->control == 1 || pool->missing) return -1;
    if (pool->options.place == NUMALLOC_HEAP_NODE) return pool->options.node;
    if (pool->options.place == NUMALLOC_HEAP_CONSUMER)
        return na_heap_consumer(atomic_load_explicit(&pool->heap, memory_order_acquire));
    if (pool->place != NA_POLICY_FOLLOW || thread >= THREADS || runs_on[thread] == 0) return -1;
    return (int)na_node_system_id(runs_on[thread] - 1u);
}

/* (Spans come and go meanwhile, and what is read of one may be of two.) */
NA_RACY static void take_if_ruled(const na_span_t *span, na_record_t *records, uint32_t count,
                                  void *arg) {
    const na_policy_live_t *live = arg;
    if (span->cls != 0 || count == 0 || found_count == BLOCKS) return;
    na_record_t record;
    if (!na_record_read(records, &record) || record.epoch != na_profile_epoch ||
        record.birth == NA_RECORD_UNBORN || record.site == 0)
        return;
    na_policy_site_t *site = site_of_stack(live, record.site);
    int node = site != NULL ? wanted_node(site, record.thread) : -1;
    if (node < 0) return;
    /* All pages that are its own, the last one too, of which it has a part only. */
    size_t own = (size_t)span->pages * NA_PAGE_SIZE,
           used = na_align_up(span->requested, na_os_page);
    uintptr_t start = na_align_up(span->start, na_os_page);
    uintptr_t end = na_align_down(span->start + (used < own ? used : own), na_os_page);
    if (start >= end || span->requested > own) return;
    found[found_count++] = (found_t){start, end, node, site};
    if (span->placement == NA_PLACEMENT_REGION)
        ((na_span_t *)(uintptr_t)span)->placement = NA_PLACEMENT_MIGRATED;
}

static void find_blocks(na_tcache_t *tcache) {
    found_count = 0;
    const na_policy_live_t *live = atomic_load_explicit(&na_policy_live, memory_order_acquire);
    if (live == NULL || !na_policy_is_on()) return;
    /* Inside, the profile and its stacks stay. */
    const na_hooks_t *hooks = na_section_enter(&tcache->track);
    if (hooks != NULL) {
        memset(runs_on, 0, runs_on_used);
        na_tcache_each(find_thread, NULL);
        na_span_each_records(take_if_ruled, (void *)(uintptr_t)live);
    }
    na_section_leave(&tcache->track);
}

/* --- moving --- */

static uint64_t thread_ns(void) {
    struct timespec t = {0};
    na_syscall(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&t, 0, 0, 0, 0);
    return (uint64_t)t.tv_sec * 1000000000u + (uint64_t)t.tv_nsec;
}

static void sleep_ns(uint64_t ns) {
    struct timespec pause = {(time_t)(ns / 1000000000u), (long)(ns % 1000000000u)};
    na_syscall(SYS_nanosleep, (long)&pause, 0, 0, 0, 0, 0);
}

/* What was used since has its rest. */
static void keep_share(uint64_t *used) {
    uint64_t now = thread_ns();
    if (share < 100) sleep_ns((now - *used) * (100 - share) / share);
    *used = now;
}

/* How many pages were moved; negative: not to be moved. */
static int move_slice(uintptr_t at, unsigned count, int node) {
    void *pages[SLICE] = {NULL};
    int status[SLICE];
    unsigned wrong = 0;
    for (unsigned i = 0; i < count; i++)
        pages[i] = (void *)(at + i * na_os_page);
    if (na_os_page_nodes(pages, count, status) < 0) return -1;
    for (unsigned i = 0; i < count; i++)
        if (status[i] >= 0 && status[i] != node) pages[wrong++] = pages[i];
    if (wrong == 0) return 0;
    if (na_os_move_pages(pages, wrong, (unsigned)node, status) < 0) return -1;
    int done = 0;
    for (unsigned i = 0; i < wrong; i++)
        done += status[i] == node;
    return done != 0 ? done : -1;
}

static moved_t *memory_of(uintptr_t start) {
    return &moved_blocks[(start >> 13) * UINT64_C(0x9e3779b97f4a7c15) >> 56];
}
_Static_assert(MOVED == 1 << 8, "as many as there are high bits above");

static void move(const found_t *block, uint64_t *used) {
    moved_t *m = memory_of(block->start);
    uint64_t now = na_os_ms();
    if (m->start == block->start && now < m->next_ms) return;
    uint64_t pages = 0;
    bool refused = false;
    for (uintptr_t at = block->start; at < block->end && !refused;) {
        size_t left = (block->end - at) / na_os_page;
        unsigned count = left < SLICE ? (unsigned)left : SLICE;
        int done = move_slice(at, count, block->node);
        refused = done < 0;
        if (done > 0) {
            pages += (uint64_t)done;
            atomic_fetch_add_explicit(&block->site->moved, (uint64_t)done * na_os_page,
                                      memory_order_relaxed);
        }
        at += count * na_os_page;
        keep_share(used);
    }
    if (pages == 0 && !refused) return;
    if (m->start != block->start) *m = (moved_t){.start = block->start};
    uint64_t wait = m->times == 0 && !refused ? 0 : (uint64_t)WAIT_MS;
    for (uint32_t i = 1; i < m->times && wait < WAIT_MOST_MS; i++)
        wait *= 2;
    m->times++;
    m->next_ms = now + wait;
}

/* --- the thread --- */

static void *run(void *unused) {
    (void)unused;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return NULL;
    uint64_t used = thread_ns(), looked = 0;
    for (;;) {
        sleep_ns((uint64_t)ROUND_MS * 1000000);
        uint64_t now = na_os_ms();
        na_policy_look();
        if (now - looked >= ALONE_MS) {
            looked = now;
            if (na_thread_is_left_alone()) break;
        }
        find_blocks(tcache);
        keep_share(&used);
        for (unsigned i = 0; i < found_count; i++)
            move(&found[i], &used);
    }
    na_tcache_leave(tcache);
    return NULL;
}

void na_policy_move_at_load(void) {
    share = na_option(NA_OPT_POLICY_MOVE);
    if (share == 0 || !na_policy_is_named() || !na_node_many) return;
    na_thread_start(run); /* refused: blocks stay where they are */
}
