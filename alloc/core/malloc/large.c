/* large.c - large blocks: page-heap runs and dedicated mappings. */
#include "alloc/core/malloc/large.h"

#include <errno.h>

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/large_bins.h"
#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/malloc/emergency.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "pagemap/pagemap.h"

static _Atomic(uint32_t) dedicated_count;

static void count_bytes(_Atomic(uint64_t) *total, size_t now, size_t before) {
    atomic_fetch_add_explicit(total, now - before, memory_order_relaxed);
}

/* Of a node: what its thread caches keep. */
typedef struct kept {
    unsigned node;
    uint64_t bytes;
} kept_t;

static NA_RACY void add_kept(na_tcache_t *tcache, void *arg) {
    kept_t *sum = arg;
    if (tcache->node == sum->node) sum->bytes += na_large_kept(tcache);
}

uint64_t na_large_bytes_on(unsigned node) {
    kept_t kept = {.node = node, .bytes = na_run_cache_bytes(node)};
    na_tcache_each(add_kept, &kept);
    uint64_t all = atomic_load_explicit(&na_large_spans[node].bytes, memory_order_relaxed);
    return all > kept.bytes ? all - kept.bytes : 0;
}

uint64_t na_large_dedicated_on(unsigned node) {
    return atomic_load_explicit(&na_large_spans[node].dedicated, memory_order_relaxed);
}

uint64_t na_large_bytes(void) {
    uint64_t sum = 0;
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        sum += na_large_bytes_on(node);
    return sum;
}

uint64_t na_large_dedicated_bytes(void) {
    uint64_t sum = 0;
    for (unsigned node = 0; node <= NA_NODE_ANY; node = na_node_next(node))
        sum += na_large_dedicated_on(node);
    return sum;
}

/* Pages for `size` bytes, 0: more than any machine gives (and than na_span_t counts in 32 bits). */
NA_INLINE uint32_t pages_for(size_t size) {
    if (size > (size_t)16 << 40) return 0;
    return (uint32_t)((size + NA_PAGE_SIZE - 1) >> NA_PAGE_SHIFT);
}

static void set_pages(na_span_t *span, uint32_t pages) {
    span->pages = pages;
    span->each = na_span_bytes(span);
    span->toll = ((int64_t)pages << 32) - 1;
    if (pages >= NA_RUN_CACHE_LEAST && pages <= NA_RUN_CACHE_PAGES)
        span->run_slot = (uint16_t)na_run_slot(pages);
}

/* --- memory for a span --- */

/* What a block is made for, beside its size. */
typedef struct na_large_kind {
    size_t alignment;
    unsigned node;
    bool dedicated;
    bool emergency;             /* not behind the gate (emergency.h); dedicated, too */
    bool grows;                 /* a run with room, unless it is dedicated */
    bool on_node;               /* the program names the node */
    bool by_touch;              /* its pages are to lie where they are first touched */
    bool held;                  /* a run of pages that hold memory already, or none */
    bool huge;                  /* dedicated, and huge pages are asked for */
    const uint64_t *interleave; /* NULL, or the nodes (of the system) that its pages go to */
} na_large_kind_t;

static void count_dedicated(const na_span_t *span, uint32_t now, uint32_t before) {
    count_bytes(&na_large_spans[span->node].dedicated, (size_t)now << NA_PAGE_SHIFT,
                (size_t)before << NA_PAGE_SHIFT);
    if (NA_LIKELY(span->home == span->node)) return;
    if (before != 0) na_pageheap_count_stray(span->home, span->node, before, false);
    if (now != 0) na_pageheap_count_stray(span->home, span->node, now, true);
}

static bool map_dedicated(na_span_t *span, const na_large_kind_t *kind) {
    size_t alignment = kind->alignment;
    size_t bytes = na_span_bytes(span);
    if (!na_limit_charge(bytes)) return false;
    if (kind->interleave == NULL && !kind->emergency)
        span->node = (uint8_t)na_pageheap_node_with_room(kind->node, span->pages);
    if (alignment < NA_HUGE_SIZE) alignment = NA_HUGE_SIZE;
    void *start = na_reserve_whole(bytes, alignment);
    if (start == NULL) {
        na_limit_release(bytes);
        return false;
    }
    /* before first touch */
    if (kind->interleave != NULL)
        na_place_interleaved(start, bytes, kind->interleave, NA_OS_NODES);
    else if (NA_UNLIKELY(kind->by_touch) && span->node == kind->node) {
        na_place_by_touch(start, bytes);
        span->placement = NA_PLACEMENT_FIRST_TOUCH;
    } else
        na_place(start, bytes, span->node, na_place_binds(span->node));
    if (kind->huge && !na_pressure_is_critical()) na_os_hugepage(start, bytes, true);
    if (!na_os_commit(start, bytes)) {
        na_os_unmap(start, bytes);
        na_limit_release(bytes);
        return false;
    }
    span->start = (uintptr_t)start;
    span->dedicated = true;
    count_dedicated(span, span->pages, 0);
    atomic_fetch_add_explicit(&dedicated_count, 1, memory_order_relaxed);
    return true;
}

static void unmap_dedicated(const na_span_t *span) {
    size_t bytes = na_span_bytes(span);
    na_os_unmap((void *)span->start, bytes);
    if (na_limits != NULL) na_limits->given_back();
    na_limit_release(bytes);
    count_dedicated(span, 0, span->pages);
    atomic_fetch_sub_explicit(&dedicated_count, 1, memory_order_relaxed);
}

/* Three times its size: a block that grows by some factor below two moves a few times at most. */
static uint32_t slack_for(uint32_t pages) {
    uint32_t most = (uint32_t)(NA_SLACK_MAX >> NA_PAGE_SHIFT);
    return pages < most / 3 ? 3 * pages : most;
}

/* The end of a run may hold memory of former blocks that nobody asked for: a run is whole pages of
 * ours, which are two of the system's. */
static NA_COLD void give_end_back(const na_span_t *span) {
    uintptr_t end = span->start + na_span_bytes(span);
    uintptr_t unused = na_align_up(span->start + span->requested, na_os_page);
    if (unused < end) na_os_purge((void *)unused, end - unused);
}

static bool map_run(na_span_t *span, const na_large_kind_t *kind, bool *zeroed) {
    uint32_t pages = span->pages;
    uintptr_t start = 0;
    bool by_touch = false;
    *zeroed = false;
    if (kind->held)
        start = na_pageheap_alloc_held(kind->node, pages);
    else if (NA_UNLIKELY(kind->by_touch))
        start = na_pageheap_alloc_by_touch(kind->node, pages, zeroed, &by_touch);
    if (NA_UNLIKELY(start != 0) || kind->held)
        span->placement = by_touch ? NA_PLACEMENT_FIRST_TOUCH : NA_PLACEMENT_REGION;
    else if (kind->grows)
        start = na_pageheap_alloc_growing(kind->node, pages, slack_for(pages), zeroed);
    else
        start = na_pageheap_alloc(kind->node, pages, (uint32_t)(kind->alignment >> NA_PAGE_SHIFT),
                                  zeroed);
    if (start == 0) return false;
    if (!kind->held && pages >= 2 * NA_HUGE_PAGES) na_prefault_block(start, pages);
    span->start = start;
    span->node = (uint8_t)na_pageheap_node_of(start); /* a stray lies on another node */
    if (na_pressure_is_critical() && (!*zeroed || na_pressure_is_exhausted())) give_end_back(span);
    return true;
}

/* The node whose page heap a run belongs to; its pages may have been moved to another. */
static unsigned heap_node(const na_span_t *span) {
    return NA_LIKELY(!span->placement) ? span->node : na_pageheap_node_of(span->start);
}

/* Gives back pages of a run, from page `from` of it on. */
static void give_run_back(const na_span_t *span, uint32_t from) {
    uintptr_t start = span->start + ((uintptr_t)from << NA_PAGE_SHIFT);
    unsigned node = heap_node(span);
    if (NA_UNLIKELY(span->home != node))
        na_pageheap_count_stray(span->home, node, span->pages - from, false);
    if (NA_UNLIKELY(span->placement))
        na_touch_free(node, start, span->pages - from, span->placement == NA_PLACEMENT_FIRST_TOUCH);
    else
        na_pageheap_free(node, start, span->pages - from);
}

static void give_memory_back(const na_span_t *span) {
    if (span->dedicated)
        unmap_dedicated(span);
    else
        give_run_back(span, 0);
}

/* --- allocation --- */

/* Whether the sampler, or mode sites, or strict checking wants a record of this block. */
static bool is_recorded(na_tcache_t *tcache, size_t bytes) {
    if (tcache == NULL) return false;
    if (na_every_is_recorded()) return true;
    if (!na_samples_bytes()) return false;
    tcache->large.next.bytes -= (int64_t)bytes;
    if (tcache->large.next.bytes > 0) return false;
    na_large_draw(tcache);
    return true;
}

/* A run that the node keeps will do for such a block. */
static bool may_be_kept(const na_tcache_t *tcache, const na_large_kind_t *kind, uint32_t pages) {
    return tcache != NULL && !kind->dedicated && !kind->grows && !kind->on_node &&
           !kind->by_touch && kind->alignment <= NA_PAGE_SIZE && pages >= NA_RUN_CACHE_LEAST &&
           pages <= NA_RUN_CACHE_PAGES;
}

static na_span_t *take_kept(na_tcache_t *tcache, size_t size, uint32_t pages) {
    na_span_t *span = na_large_bins_refill(tcache, pages);
    if (span == NULL) return NULL;
    span->run = span->start;
    span->requested = size;
    return span;
}

/* What only plain runs are: see large_bins.h. */
NA_INLINE bool is_plain(const na_span_t *span) {
    return !span->dedicated && !span->placement && span->pages >= NA_RUN_CACHE_LEAST &&
           span->home == span->node &&
           atomic_load_explicit(&span->records, memory_order_relaxed) == NULL;
}

static na_span_t *make_span(size_t size, const na_large_kind_t *kind, bool recorded, bool *zeroed) {
    na_span_t *span = na_span_new(kind->node);
    if (span == NULL) return NULL;
    bool apart = NA_UNLIKELY(na_path.apart != 0) && kind->dedicated;
    size_t room = NA_UNLIKELY(na_sizes_spare) ? 1 : na_path.room;
    set_pages(span, apart ? pages_for(size) + 1 : pages_for(size + room));
    span->capacity = 1;
    span->carved = 1;
    span->node = span->home = (uint8_t)kind->node;
    span->requested = size;
    *zeroed = true;
    bool mapped = kind->dedicated ? map_dedicated(span, kind) : map_run(span, kind, zeroed);
    if (!mapped) {
        na_span_delete(span);
        return NULL;
    }
    if (apart) (void)na_os_seal((char *)span->start + span->each - NA_PAGE_SIZE, NA_PAGE_SIZE);
    if ((recorded && !na_span_add_records(span)) || !na_pagemap_enter(span, NA_TAG_NONE)) {
        give_memory_back(span);
        na_span_delete(span);
        return NULL;
    }
    count_bytes(&na_large_spans[span->home].bytes, na_span_bytes(span), 0);
    if (is_plain(span) && !kind->grows) span->run = span->start;
    return span;
}

/* Much is kept, though nothing that fits: before the process grows it all goes to the page heap,
 * small blocks too. */
static NA_COLD na_span_t *make_span_of_held(na_tcache_t *tcache, size_t size,
                                            const na_large_kind_t *kind, bool recorded) {
    na_large_kind_t held = *kind;
    held.held = true;
    bool zeroed;
    na_span_t *span = NULL;
    if (!kind->dedicated && !kind->grows && !kind->by_touch && kind->alignment <= NA_PAGE_SIZE)
        span = make_span(size, &held, recorded, &zeroed);
    if (span == NULL) {
        na_large_bins_flush(tcache);
        na_run_cache_trim(kind->node);
        na_overflow_flush(tcache);
    }
    return span;
}

/* The thread and its node keep enough to be worth a look before more memory is taken. */
static bool keeps_much(const na_tcache_t *tcache) {
    uint64_t kept = na_large_kept(tcache) + (na_pages_kept(tcache->node) << NA_PAGE_SHIFT);
    return kept >= NA_LITTLE_BYTES || na_tcache_keeps_much(tcache);
}

static na_span_t *obtain_span(na_tcache_t *tcache, size_t size, const na_large_kind_t *kind,
                              bool *zeroed) {
    uint32_t pages = pages_for(size);
    bool recorded = is_recorded(tcache, (size_t)pages << NA_PAGE_SHIFT);
    na_span_t *span = NULL;
    *zeroed = false;
    if (!recorded && may_be_kept(tcache, kind, pages)) span = take_kept(tcache, size, pages);
    bool may_flush = tcache != NULL && !kind->emergency;
    if (span == NULL && may_flush && keeps_much(tcache))
        span = make_span_of_held(tcache, size, kind, recorded);
    if (span == NULL) {
        span = make_span(size, kind, recorded, zeroed);
        if (NA_UNLIKELY(span == NULL) && may_flush && na_large_bins_flush(tcache))
            span = make_span(size, kind, recorded, zeroed);
    }
    if (span == NULL) return NULL;
    if (tcache != NULL) { /* not from the bins */
        tcache->large.allocs++;
        tcache->large.frees--;
    }
    return span;
}

enum { OWN_NODE = NA_NODE_ANY + 1 }; /* of a kind: the node of the thread */

static NA_COLD na_span_t *make_emergency(na_tcache_t *tcache, size_t size, na_large_kind_t kind,
                                         bool *zeroed) {
    kind.emergency = kind.dedicated = true;
    kind.by_touch = false;
    return obtain_span(tcache, size, &kind, zeroed);
}

/* Several nodes. A thread that was given a node has its memory there, wherever it runs. */
static bool goes_by_touch(const na_tcache_t *tcache, size_t size, const na_large_kind_t *kind) {
    return !kind->on_node && !tcache->where.pinned &&
           (kind->dedicated || (!kind->grows && pages_for(size) >= NA_TOUCH_PAGES)) &&
           na_pageheap_leaves_to_touch(kind->node);
}

/* The thread can have no thread cache just now (na_tcache_enter has begun the library). */
static NA_COLD void *alloc_emergency(size_t size, na_large_kind_t kind, na_entry_t entry,
                                     bool *zeroed) {
    if (kind.node == OWN_NODE) kind.node = na_tcache_node_for_thread();
    na_span_t *span = make_emergency(NULL, size, kind, zeroed);
    void *block = span != NULL ? (void *)span->start : NULL;
    na_path_born(block, size, entry);
    return block;
}

static void *alloc(size_t size, na_large_kind_t kind, na_entry_t entry, bool *zeroed) {
    na_tcache_t *tcache = na_slow_enter();
    if (tcache == NULL) return alloc_emergency(size, kind, entry, zeroed);
    if (kind.node == OWN_NODE) {
        if (NA_UNLIKELY(na_tcache_watched(tcache))) tcache = na_tcache_check_policy(tcache);
        kind.node = tcache->node;
    }
    if (NA_UNLIKELY(na_node_many)) kind.by_touch = goes_by_touch(tcache, size, &kind);
    na_span_t *span;
    if (NA_LIKELY(na_gate_enter(tcache))) {
        span = obtain_span(tcache, size, &kind, zeroed);
        na_gate_leave(tcache);
    } else {
        span = make_emergency(tcache, size, kind, zeroed);
    }
    void *block = NULL;
    if (span != NULL) {
        block = (void *)span->start;
        na_path_taken(&tcache->track, span, block, size, na_span_bytes(span), entry);
        na_path_born(block, size, entry);
    }
    na_poll_pass(tcache);
    na_slow_leave(tcache);
    return block;
}

bool na_large_room_for_mapping(void) {
    return atomic_load_explicit(&dedicated_count, memory_order_relaxed) < NA_DEDICATED_MAX;
}

static void *alloc_checked(size_t size, na_large_kind_t kind, na_entry_t entry, bool *zeroed) {
    bool unused;
    if (zeroed == NULL) zeroed = &unused;
    if (size == 0) /* aligned to more than a page */
        size = 1;
    uint32_t pages = pages_for(size);
    kind.dedicated |= pages > NA_RUN_MAX_PAGES || kind.alignment > NA_HUGE_SIZE ||
                      (NA_UNLIKELY(na_path.apart != 0) && na_large_room_for_mapping());
    void *block = NULL;
    na_tcache_t *timed =
        pages != 0 && NA_UNLIKELY(na_self->track.is_timed) ? na_path.starts() : NULL;
    if (pages != 0) block = alloc(size, kind, entry, zeroed);
    if (NA_UNLIKELY(timed != NULL)) na_path.ends(timed, block, size, entry, zeroed);
    if (NA_UNLIKELY(block == NULL) && pages != 0 && na_path_spare())
        block = alloc(size, kind, entry, zeroed);
    if (block == NULL) errno = ENOMEM;
    return block;
}

/* What the bins have not, or not without a look. */
static NA_NOINLINE void *alloc_slow(size_t size, size_t alignment, na_entry_t entry, bool *zeroed) {
    void *block = NULL;
    if (NA_UNLIKELY(na_path.large != NULL)) block = na_path.large(size, entry);
    if (NA_UNLIKELY(block != NULL)) {
        if (zeroed != NULL) *zeroed = true;
        return block;
    }
    na_tcache_t *tcache = na_self;
    if (alignment <= NA_PAGE_SIZE && size > NA_SMALL_MAX && size <= NA_LARGE_BINS_SIZE &&
        na_large_bins_are_spent(tcache)) {
        na_poll_counted(tcache);
        block = na_large_bins_take_slow(tcache, size);
    }
    if (block != NULL) {
        if (zeroed != NULL) *zeroed = false;
        return block;
    }
    na_large_kind_t kind = {.alignment = alignment, .node = OWN_NODE};
    return alloc_checked(size, kind, entry, zeroed);
}

static NA_NOINLINE void *malloc_slow(size_t size, na_entry_t entry) {
    return alloc_slow(size, NA_PAGE_SIZE, entry, NULL);
}

NA_RACES_WITH_EMPTY void *na_large_malloc(size_t size, na_entry_t entry) {
    void *block = na_large_bins_take(na_self, size);
    return NA_LIKELY(block != NULL) ? block : malloc_slow(size, entry);
}

NA_RACES_WITH_EMPTY void *na_large_alloc(size_t size, size_t alignment, na_entry_t entry,
                                         bool *zeroed) {
    bool takes = alignment <= NA_PAGE_SIZE && size > NA_SMALL_MAX;
    void *block = takes ? na_large_bins_take(na_self, size) : NULL;
    if (NA_UNLIKELY(block == NULL)) return alloc_slow(size, alignment, entry, zeroed);
    if (zeroed != NULL) *zeroed = false;
    return block;
}

void *na_large_alloc_placed(na_large_place_t place, size_t size, size_t alignment, na_entry_t entry,
                            bool *zeroed) {
    na_large_kind_t kind = {.alignment = alignment, .node = OWN_NODE};
    if (place.on_node || place.turns != NULL) {
        kind.node = place.turns != NULL ? NA_NODE_ANY : place.node;
        kind.on_node = true;
    }
    bool maps = place.turns != NULL || (place.huge && size >= NA_HUGE_SIZE);
    if (maps && na_large_room_for_mapping()) {
        kind.dedicated = true;
        kind.huge = place.huge;
        kind.interleave = place.turns;
    }
    if (!kind.on_node && !kind.dedicated) return na_large_alloc(size, alignment, entry, zeroed);
    return alloc_checked(size, kind, entry, zeroed);
}

void *na_large_alloc_grown(size_t size, na_entry_t entry) {
    bool unused;
    if (size <= NA_SMALL_MAX || pages_for(size) == 0 || NA_UNLIKELY(na_path.apart != 0))
        return NULL;
    na_large_kind_t kind = {.alignment = NA_PAGE_SIZE, .node = OWN_NODE, .grows = true};
    kind.dedicated = size >= NA_GROWN_MIN;
    if (kind.dedicated && !na_large_room_for_mapping()) return NULL;
    return alloc(size, kind, entry, &unused);
}

void na_large_free(na_tcache_t *tcache, na_span_t *span, void *block, na_release_t how,
                   const void *moved_to) {
    if ((uintptr_t)block != span->start) {
        na_misuse("free of", block);
        return;
    }
    if (!na_path_given(&tcache->track, span, block, na_span_bytes(span), how, moved_to)) return;
    na_large_free_late(tcache, span);
    na_poll_pass(tcache);
}

/* Behind the gate: the block is another owner's no more, and its run may be kept as any. */
static NA_COLD void leave_owner(na_span_t *span, unsigned node) {
    na_owners->leave(span, node);
    if (is_plain(span)) span->run = span->start;
}

void na_large_free_late(na_tcache_t *tcache, na_span_t *span) {
    /* A mapping of its own goes without (emergency.h). */
    bool behind = NA_LIKELY(tcache != NULL) && na_gate_enter(tcache);
    if (behind && na_span_is_others(span)) leave_owner(span, tcache->node);
    if (NA_UNLIKELY(!behind) && (!span->dedicated || na_span_is_others(span))) {
        na_defer_free((void *)span->start);
        return;
    }
    if (NA_UNLIKELY(!behind) || !na_large_bins_keep(tcache, span)) {
        if (tcache != NULL) tcache->large.frees++;
        count_bytes(&na_large_spans[span->home].bytes, 0, na_span_bytes(span));
        na_pagemap_remove(span);
        give_memory_back(span);
        na_span_delete(span);
    }
    if (NA_LIKELY(behind)) na_gate_leave(tcache);
}

/* --- resizing --- */

/* The steps that may fail come first: leaves of the page map, then the system's move. */

static bool resize_here(na_span_t *span, size_t old_bytes, size_t new_bytes) {
    /* mremap goes no further than the user's address space, which the page map covers. */
    if (!na_is_address(span->start + new_bytes - 1) || !na_pagemap_prepare(span->start, new_bytes))
        return false;
    na_pagemap_remove(span); /* before others can be given the addresses of a part cut off */
    if (na_os_resize((void *)span->start, old_bytes, new_bytes)) return true;
    na_pagemap_enter(span, NA_TAG_NONE); /* its leaves are there */
    return false;
}

/* Moves a dedicated mapping to where there is room for it. */
static bool move_dedicated(na_span_t *span, size_t old_bytes, size_t new_bytes) {
    void *target = na_reserve_whole(new_bytes, NA_HUGE_SIZE);
    if (target == NULL) return false;
    if (na_pagemap_prepare((uintptr_t)target, new_bytes)) {
        na_pagemap_remove(span); /* before others can be given its addresses */
        if (na_os_move((void *)span->start, old_bytes, target, new_bytes)) {
            span->start = (uintptr_t)target;
            return true;
        }
        na_pagemap_enter(span, NA_TAG_NONE); /* its leaves are there */
    }
    na_os_unmap(target, new_bytes);
    return false;
}

static bool resize_dedicated(na_span_t *span, uint32_t pages) {
    size_t old_bytes = na_span_bytes(span), new_bytes = (size_t)pages << NA_PAGE_SHIFT;
    if (new_bytes == old_bytes) return true;
    if (new_bytes > old_bytes && !na_limit_charge(new_bytes - old_bytes)) return false;
    if (!resize_here(span, old_bytes, new_bytes) &&
        (new_bytes < old_bytes || !move_dedicated(span, old_bytes, new_bytes))) {
        if (new_bytes > old_bytes) na_limit_release(new_bytes - old_bytes);
        return false;
    }
    if (new_bytes < old_bytes) na_limit_release(old_bytes - new_bytes);
    count_dedicated(span, pages, span->pages);
    set_pages(span, pages);
    na_pagemap_enter(span, NA_TAG_NONE); /* its leaves are there */
    return true;
}

static bool grow_run(na_span_t *span, uint32_t pages) {
    bool zeroed;
    uint32_t old_pages = span->pages, extra = pages - old_pages;
    unsigned node = heap_node(span);
    if (pages > NA_RUN_MAX_PAGES ||
        !na_pageheap_extend(node, span->start, old_pages, extra, &zeroed))
        return false;
    if (NA_UNLIKELY(span->home != node)) na_pageheap_count_stray(span->home, node, extra, true);
    if (NA_UNLIKELY(na_node_many) && !span->placement && na_pageheap_is_by_touch(span->start)) {
        span->placement = NA_PLACEMENT_FIRST_TOUCH;
        span->run = 0;
    }
    span->run = 0; /* it grows: not kept (large_bins.h) */
    na_pagemap_remove(span);
    set_pages(span, pages);
    if (na_pagemap_enter(span, NA_TAG_NONE)) return true;
    give_run_back(span, old_pages);
    set_pages(span, old_pages);
    na_pagemap_enter(span, NA_TAG_NONE); /* its leaves are there */
    return false;
}

static bool resize_run(na_span_t *span, uint32_t pages) {
    uint32_t old_pages = span->pages;
    if (pages == old_pages) return true;
    if (pages > old_pages) return grow_run(span, pages);
    na_span_t cut = *span; /* the part that goes back is described by the old length */
    na_pagemap_remove(span);
    set_pages(span, pages);
    na_pagemap_enter(span, NA_TAG_NONE); /* its leaves are there */
    give_run_back(&cut, pages);
    return true;
}

void *na_large_resize(na_tcache_t *tcache, na_span_t *span, size_t size) {
    uint32_t pages = pages_for(size);
    if (pages == 0 || NA_UNLIKELY(na_path.apart != 0)) return NULL;
    size_t old_usable = na_span_bytes(span);
    const void *old_block = (const void *)span->start;
    if (span->dedicated && na_path_knows(span)) na_path.moving(&tcache->track, span);
    if (NA_UNLIKELY(!na_gate_enter(tcache))) return NULL;
    /* From before its pages move: others may be given its addresses. */
    unsigned told = NA_UNLIKELY(na_path.moves != NULL) ? na_path.moves(old_block) : 0;
    bool done = span->dedicated ? resize_dedicated(span, pages) : resize_run(span, pages);
    na_gate_leave(tcache);
    if (NA_UNLIKELY(told != 0)) na_path.moved((void *)span->start, told);
    if (!done) return NULL;
    count_bytes(&na_large_spans[span->home].bytes, na_span_bytes(span), old_usable);
    span->requested = size;
    na_path_kept(&tcache->track, span, old_block, (void *)span->start, old_usable, size,
                 na_span_bytes(span));
    return (void *)span->start;
}

/* --- migration --- */

void na_large_migrated_to(na_span_t *span, unsigned node, bool all) {
    if (!span->dedicated) {
        span->placement = NA_PLACEMENT_MIGRATED;
        span->run = 0;
        if (all) span->node = (uint8_t)node;
        return;
    }
    size_t bytes = na_span_bytes(span);
    count_bytes(&na_large_spans[span->home].bytes, 0, bytes);
    count_dedicated(span, 0, span->pages);
    span->home = span->node = (uint8_t)node;
    count_bytes(&na_large_spans[node].bytes, bytes, 0);
    count_dedicated(span, span->pages, 0);
}
