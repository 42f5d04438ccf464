/* api_numa.c - the NUMA functions of numalloc.h: placing blocks, asking where they are, moving and
 * copying them. */
#include <errno.h>
#include <string.h>

#include "alloc/api/fill_struct.h"
#include "alloc/api/stats.h"
#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/central/block.h"
#include "alloc/core/central/central.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/emergency.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "numalloc/numalloc.h"
#include "pagemap/pagemap.h"

/* The dense node of a usable node's number, -1 and EINVAL for any other. */
static int node_or_einval(int id) {
    na_init();
    int node = id < 0 ? -1 : na_node_dense((unsigned)id);
    if (node >= 0 && na_node_usable((unsigned)node)) return node;
    errno = EINVAL;
    return -1;
}

int numalloc_nodes(int *nodes, int most) {
    na_init();
    int count = (int)na_node_count;
    for (int i = 0; i < count && i < most; i++)
        nodes[i] = (int)na_node_system_id((unsigned)i);
    return count;
}

int numalloc_current_node(void) {
    na_init();
    return (int)na_node_system_id(na_node_current());
}

/* --- blocks on a node --- */

/* The node's lists exist. Not behind the gate: takes the cache-list lock. */
static bool prepare_lists(unsigned node) {
    static _Atomic(bool) made[NA_MAX_NODES + 1];
    if (NA_LIKELY(atomic_load_explicit(&made[node], memory_order_acquire))) return true;
    na_tcache_lock_list();
    bool done = na_central_init(node);
    na_tcache_unlock_list();
    if (done) atomic_store_explicit(&made[node], true, memory_order_release);
    return done;
}

/* One block of a pooled class from a node's transfer cache or spans; what comes with it goes (back)
 * to the transfer cache. Behind the gate. */
static void *take_one(na_tcache_t *tcache, unsigned node, unsigned cls) {
    uint32_t count;
    void *block;
    na_batch_t batch = na_transfer_take(node, cls, tcache->id);
    if (batch != 0) {
        block = na_batch_first(batch);
        count = na_batch_count(batch);
    } else {
        block = na_central_take(node, cls, 1, true, NULL, &count);
        if (block == NULL) return NULL;
    }
    if (count > 1) {
        void *rest = na_link_next(block);
        if (!na_transfer_put(node, cls, NA_OWNER_NONE, na_batch(rest, count - 1)))
            na_central_give(node, cls, rest, count - 1);
    }
    return block;
}

/* A small block of another node than the thread cache's. Only pooled classes: an owned class's
 * blocks need a thread cache there. */
static void *take_on_node(na_tcache_t *tcache, unsigned node, size_t size) {
    unsigned cls = na_class_of_aligned(size + na_path.room, NA_CACHE_LINE);
    na_bin_state_t *state = &tcache->states[cls];
    if (!prepare_lists(node)) return NULL;
    if (state->cap == 0) na_bin_begin(tcache, cls);
    bool sample = na_samples_bytes() && state->until_sample < (int64_t)na_classes[cls].size;
    void *block = NULL;
    if (!na_gate_enter(tcache)) return na_emergency_alloc(tcache, cls, size, NA_ENTRY_API);
    if (sample) block = na_sampled_take(node, cls);
    sample = block != NULL;
    if (!sample) block = take_one(tcache, node, cls);
    na_gate_leave(tcache);
    if (block == NULL) return NULL;
    if (sample)
        state->until_sample =
            na_sampler_draw(&tcache->track, na_classes[cls].size, &state->sample_step);
    else
        state->until_sample -= na_classes[cls].size;
    state->pops++;
    tcache->posts.crossed[node].bytes -= na_classes[cls].size;
    if (sample || na_every_event)
        na_path_taken(&tcache->track, na_span_of(block), block, size, na_classes[cls].size,
                      NA_ENTRY_API);
    return block;
}

/* A block on a dense node. */
NA_RACES_WITH_EMPTY static void *alloc_on(unsigned node, size_t size) {
    if (!na_node_many) return na_alloc(size, NA_ENTRY_API);
    if (size + na_path.room > NA_SMALL_MAX) {
        na_large_place_t place = {.node = node, .on_node = true};
        return na_large_alloc_placed(place, size, NA_PAGE_SIZE, NA_ENTRY_API, NULL);
    }
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache != NULL && tcache->node == node) {
        na_tcache_leave(tcache);
        return na_alloc(size, NA_ENTRY_API);
    }
    void *block = NULL;
    if (tcache != NULL) {
        block = take_on_node(tcache, node, size);
        na_path_born(block, size, NA_ENTRY_API);
        na_poll_pass(tcache);
        na_tcache_leave(tcache);
    }
    if (block == NULL) errno = ENOMEM;
    return block;
}

void *numalloc_alloc_onnode(size_t size, int id) {
    int node = node_or_einval(id);
    return node < 0 ? NULL : alloc_on((unsigned)node, size);
}

void *numalloc_alloc_local(size_t size) {
    na_init();
    return alloc_on(na_node_current(), size);
}

void *numalloc_alloc_interleaved(size_t size, const int *nodes, size_t count) {
    static _Atomic(uint32_t) turn;
    uint64_t set[NA_OS_NODES / 64] = {0};
    unsigned dense[NA_MAX_NODES], members = 0;
    na_init();
    if ((nodes == NULL) != (count == 0)) {
        errno = EINVAL;
        return NULL;
    }
    for (size_t i = 0; i < count; i++) {
        if (node_or_einval(nodes[i]) < 0) return NULL;
        set[nodes[i] / 64] |= (uint64_t)1 << (nodes[i] % 64);
    }
    for (unsigned node = 0; node < na_node_count; node++) {
        unsigned id = na_node_system_id(node);
        if (!na_node_usable(node) || (count != 0 && !(set[id / 64] >> (id % 64) & 1))) continue;
        set[id / 64] |= (uint64_t)1 << (id % 64);
        dense[members++] = node;
    }
    if (members <= 1 || size <= na_os_page || !na_large_room_for_mapping()) {
        unsigned next = atomic_fetch_add_explicit(&turn, 1, memory_order_relaxed);
        return alloc_on(members == 0 ? 0 : dense[next % members], size);
    }
    na_large_place_t place = {.turns = set};
    return na_large_alloc_placed(place, size, NA_PAGE_SIZE, NA_ENTRY_API, NULL);
}

/* --- where is it --- */

/* The kernel's word on a page: a node of the system, or negative errno. */
static int ask_kernel(uintptr_t address) {
    void *page = (void *)na_align_down(address, na_os_page);
    int status = -ENOENT;
    long result = na_os_page_nodes(&page, 1, &status);
    return result < 0 ? (int)result : status;
}

int numalloc_node_of(const void *address) {
    const na_span_t *span = na_span_of(address);
    if (span == NULL) return -1;
    int known = span->node < na_node_count ? (int)na_node_system_id(span->node) : -1;
    if (NA_LIKELY(known >= 0 && !span->placement)) return known;
    int node = ask_kernel((uintptr_t)address);
    return node < 0 ? known : node;
}

int numalloc_page_node(const void *address) {
    na_init();
    int node = ask_kernel((uintptr_t)address);
    if (node >= 0) return node;
    errno = -node;
    return -1;
}

/* --- migration --- */

/* Of pages that are to be moved. Up to Linux 6.5 one that waits until somebody uses it, because the
 * kernel is to see who does, seems to hold no memory, until it is read; then it may go to the
 * reader at once. (One that holds none is not read: it would get some.) */
static long ask_nodes(void *const *pages, unsigned count, int *status) {
    long result = na_os_page_nodes(pages, count, status);
    if (result < 0 || !na_node_balanced) return result;
    bool seen = false;
    for (unsigned i = 0; i < count; i++)
        if (status[i] < 0 && na_os_is_resident(pages[i])) seen |= na_os_readable(pages[i]);
    return seen ? na_os_page_nodes(pages, count, status) : result;
}

/* Moves the pages of [from, to) and adds up what became of them. Negative errno when the system
 * does not do such things at all. */
static long move_range(uintptr_t from, uintptr_t to, unsigned id, numalloc_migration_t *sum) {
    void *pages[NA_OS_MOVE_PAGES];
    int before[NA_OS_MOVE_PAGES], after[NA_OS_MOVE_PAGES];
    while (from < to) {
        unsigned count = 0;
        for (; count < NA_OS_MOVE_PAGES && from < to; from += na_os_page)
            pages[count++] = (void *)from;
        long result = ask_nodes(pages, count, before);
        if (result < 0) return result;
        result = na_os_move_pages(pages, count, id, after);
        if (result < 0 && result != -ENOENT && result != -ENOMEM) return result;
        /* Asked again: while it moves, the kernel calls the rest of a huge page busy. */
        result = na_os_page_nodes(pages, count, after);
        if (result < 0) return result;
        for (unsigned i = 0; i < count; i++) {
            size_t *part = before[i] == (int)id  ? &sum->already
                           : before[i] < 0       ? &sum->untouched
                           : after[i] == (int)id ? &sum->moved
                                                 : &sum->refused;
            *part += na_os_page;
        }
    }
    return 0;
}

/* Part of a hugepage whose rest may belong to other blocks: `probes` are pages of that rest that
 * adjoin the part (0: none). If they came along, system and all, they go back. */
static long move_part(uintptr_t from, uintptr_t to, const uintptr_t probes[2], unsigned id,
                      numalloc_migration_t *sum) {
    int before[2] = {-ENOENT, -ENOENT};
    for (unsigned i = 0; i < 2; i++)
        if (probes[i] != 0) before[i] = ask_kernel(probes[i]);
    numalloc_migration_t part = {0};
    long result = move_range(from, to, id, &part);
    if (result < 0) return result;
    for (unsigned i = 0; i < 2; i++) {
        if (before[i] < 0 || before[i] == (int)id || ask_kernel(probes[i]) != (int)id) continue;
        numalloc_migration_t back = {0};
        (void)move_range(from, to, (unsigned)before[i], &back);
        part.shared += part.moved;
        part.moved = 0;
        break;
    }
    sum->moved += part.moved;
    sum->already += part.already;
    sum->untouched += part.untouched;
    sum->refused += part.refused;
    sum->shared += part.shared;
    return 0;
}

/* Moves the pages of [start, end), which lie in the span. (The system's may be larger than ours:
 * then others may have a part of those at the ends.) */
static long move_pages_of(const na_span_t *span, uintptr_t start, uintptr_t end, unsigned id,
                          numalloc_migration_t *sum) {
    uintptr_t last = span->start + na_span_bytes(span);
    uintptr_t first = na_align_up(start, na_os_page), behind = na_align_down(end, na_os_page);
    if (first >= behind) first = behind = end;
    sum->shared += first - start + (end - behind);
    start = first;
    end = behind;
    long result = 0;
    for (uintptr_t at = start, next; at < end && result == 0; at = next) {
        next = na_align_down(at, NA_HUGE_SIZE) + NA_HUGE_SIZE;
        if (next > end) next = end;
        uintptr_t probes[2] = {at % NA_HUGE_SIZE != 0 ? at - na_os_page : 0,
                               next % NA_HUGE_SIZE != 0 ? next : 0};
        /* Nobody else's pages are beside those of a mapping of its own. */
        if (span->dedicated && at == span->start) probes[0] = 0;
        if (span->dedicated && next == last) probes[1] = 0;
        result = move_part(at, next, probes, id, sum);
    }
    return result;
}

int numalloc_migrate(void *block, int id, numalloc_migration_t *result) {
    numalloc_migration_t unused;
    if (result == NULL) result = &unused;
    *result = (numalloc_migration_t){0};
    int node = node_or_einval(id);
    if (node < 0) return -1;
    na_span_t *span = na_span_of(block);
    if (span == NULL || !na_is_block_start(span, block)) {
        errno = EINVAL;
        return -1;
    }
    if (span->cls != 0) {
        result->shared = na_classes[span->cls].size;
        return na_node_many && span->node != node;
    }
    if (!na_node_many) {
        result->already = na_span_bytes(span);
        return 0;
    }
    if (span->dedicated) /* pages to come; a refusal concerns them only */
        (void)na_os_bind((void *)span->start, na_span_bytes(span), (unsigned)id, NA_BIND_PREFERRED,
                         false);
    long failed =
        move_pages_of(span, span->start, span->start + na_span_bytes(span), (unsigned)id, result);
    bool all = result->refused == 0 && result->shared == 0;
    if (result->moved != 0 || span->dedicated) na_large_migrated_to(span, (unsigned)node, all);
    if (failed < 0 && result->moved == 0) {
        errno = (int)-failed;
        return -1;
    }
    return failed == 0 && all ? 0 : 1;
}

/* Where the range must end: with the large block, or not farther than a small one is long, for it
 * stays where it is, whichever of its span's it is. */
static uintptr_t range_end(const na_span_t *span, uintptr_t from) {
    if (span == NULL) return 0;
    return span->cls == 0 ? span->start + na_span_bytes(span) : from + NA_SMALL_MAX;
}

int numalloc_migrate_range(void *start, size_t bytes, int id, numalloc_migration_t *result) {
    numalloc_migration_t unused;
    if (result == NULL) result = &unused;
    *result = (numalloc_migration_t){0};
    int node = node_or_einval(id);
    if (node < 0) return -1;
    na_span_t *span = na_span_of(start);
    uintptr_t from = (uintptr_t)start, end = range_end(span, from);
    if (end == 0 || bytes > end - from) {
        errno = EINVAL;
        return -1;
    }
    if (span->cls != 0) {
        result->shared = bytes;
        return bytes != 0 && na_node_many && span->node != node;
    }
    /* Behind what was asked for there is nothing of anybody's. */
    bool to_end = bytes != 0 && from + bytes - span->start >= span->requested;
    uintptr_t to = to_end ? end : na_align_down(from + bytes, na_os_page);
    from = na_align_up(from, na_os_page);
    if (!na_node_many) {
        result->already = from < to ? to - from : 0;
        return 0;
    }
    if (from >= to) {
        result->shared = bytes;
        return bytes != 0;
    }
    /* Pages to come. Each such piece is a mapping to the kernel, which has so many for a process.
     */
    if (span->dedicated && to - from >= NA_HUGE_SIZE)
        (void)na_os_bind((void *)from, to - from, (unsigned)id, NA_BIND_PREFERRED, false);
    long failed = move_pages_of(span, from, to, (unsigned)id, result);
    if (result->moved != 0 && !span->dedicated) na_large_migrated_to(span, (unsigned)node, false);
    if (failed < 0 && result->moved == 0) {
        errno = (int)-failed;
        return -1;
    }
    result->shared += from - (uintptr_t)start;
    if (!to_end) result->shared += (uintptr_t)start + bytes - to;
    return failed == 0 && result->refused == 0 && result->shared == 0 ? 0 : 1;
}

/* --- replicas --- */

struct numalloc_replicas {
    size_t size;
    unsigned count; /* dense nodes when the set was made */
    void *copies[]; /* one for each; NULL for a node that needs none */
};

/* Threads run on the node, or it is the only one. */
static bool wants_copy(unsigned node) {
    return !na_node_many || (na_node_usable(node) && na_node_has_cpus(node));
}

numalloc_replicas_t *numalloc_replicate(const void *data, size_t size) {
    na_init();
    if (data == NULL || size == 0) {
        errno = EINVAL;
        return NULL;
    }
    unsigned count = na_node_count;
    size_t bytes = sizeof(numalloc_replicas_t) + count * sizeof(void *);
    numalloc_replicas_t *set = na_alloc(bytes, NA_ENTRY_MALLOC);
    if (set == NULL) return NULL;
    memset(set, 0, bytes);
    set->size = size;
    set->count = count;
    for (unsigned node = 0; node < count; node++) {
        if (!wants_copy(node)) continue;
        set->copies[node] = alloc_on(node, size);
        if (set->copies[node] == NULL) {
            numalloc_free_replicas(set);
            errno = ENOMEM;
            return NULL;
        }
        memcpy(set->copies[node], data, size);
    }
    return set;
}

/* The copy for a dense node, or the nearest. */
static const void *copy_for(const numalloc_replicas_t *set, unsigned node) {
    if (NA_LIKELY(node < set->count && set->copies[node] != NULL)) return set->copies[node];
    for (unsigned i = 0; i < na_node_count; i++) {
        unsigned other = na_node_nearest(node, i);
        if (other < set->count && set->copies[other] != NULL) return set->copies[other];
    }
    for (unsigned other = 0; other < set->count; other++)
        if (set->copies[other] != NULL) return set->copies[other];
    return NULL; /* not reached: at least one node had cpus */
}

const void *numalloc_replica(const numalloc_replicas_t *set) {
    return copy_for(set, na_node_current());
}

const void *numalloc_replica_onnode(const numalloc_replicas_t *set, int id) {
    int node = id < 0 ? -1 : na_node_dense((unsigned)id);
    if (node >= 0) return copy_for(set, (unsigned)node);
    errno = EINVAL;
    return NULL;
}

NA_RACES_WITH_EMPTY void numalloc_free_replicas(numalloc_replicas_t *set) {
    if (set == NULL) return;
    for (unsigned node = 0; node < set->count; node++)
        if (set->copies[node] != NULL) na_free(set->copies[node]);
    na_free(set);
}

/* --- the thread's node --- */

/* The calling thread's own thread cache, to be moved; NULL and errno when there is none. */
static na_tcache_t *own_tcache(void) {
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (na_self == tcache) return tcache;
    na_tcache_leave(tcache);
    errno = EAGAIN;
    return NULL;
}

static int move_thread(unsigned node, bool pinned) {
    na_tcache_t *tcache = own_tcache();
    if (tcache == NULL) return -1;
    tcache = na_tcache_move(tcache, node, pinned);
    if (tcache->node == node) return 0;
    errno = ENOMEM;
    return -1;
}

int numalloc_set_thread_node(int id) {
    int node = node_or_einval(id);
    return node < 0 ? -1 : move_thread((unsigned)node, true);
}

int numalloc_clear_thread_node(void) {
    na_init();
    return move_thread(na_tcache_node_for_thread(), false);
}

int numalloc_thread_node(void) {
    const na_tcache_t *tcache = na_self;
    return tcache->where.pinned ? (int)na_node_system_id(tcache->node) : -1;
}

/* --- figures --- */

int numalloc_read_node_stats(int id, numalloc_node_stats_t *stats, size_t size) {
    na_init();
    int node = id == -1 ? (int)NA_NODE_ANY : id < 0 ? -1 : na_node_dense((unsigned)id);
    if (node < 0 || stats == NULL) {
        errno = EINVAL;
        return -1;
    }
    numalloc_node_stats_t all;
    na_stats_gather_node((unsigned)node, &all);
    na_fill_struct(stats, size, &all, sizeof all);
    return 0;
}
