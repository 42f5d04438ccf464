/* mark.c - marks blocks, and tells the classes apart. While the other threads stand still. */
#include <string.h>

#include "alloc/core/central/block.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "alloc/heaps/heap.h"
#include "pagemap/pagemap.h"
#include "profiler/leaks/leaks_state.h"
#include "profiler/record/stacks/tree.h"
#include "profiler/record/state/state.h"

/* A live block that an address leads to. */
typedef struct target {
    uintptr_t base;
    size_t size; /* as asked for */
    na_record_t *record;
} target_t;

NA_INLINE bool is_live(const na_record_t *record) {
    return na_record_epoch(record) != 0;
}

NA_INLINE size_t asked(uint64_t usable, const na_record_t *record) {
    return usable - record->slack;
}

NA_INLINE uint64_t usable_in(const na_span_t *span) {
    return span->cls != 0 ? na_classes[span->cls].size : (uint64_t)span->pages * NA_PAGE_SIZE;
}

/* What new T[0] gives, where T has a destructor, is the end of a block that holds nothing but the
 * count of 0. */
static bool is_empty_array(uintptr_t address, const target_t *t) {
    return t->size == sizeof(uint64_t) && address == t->base + sizeof(uint64_t) &&
           *(const uint64_t *)t->base == 0;
}

NA_INLINE bool find(uintptr_t address, target_t *t) {
    if (NA_LIKELY(address < NA_PAGE_SIZE)) return false;
    const na_span_t *span = na_span_of((const void *)address);
    if (NA_LIKELY(span == NULL)) return false;
    na_record_t *records = atomic_load_explicit(&span->records, memory_order_acquire);
    if (NA_UNLIKELY(records == NULL)) return false;
    uint64_t index = na_span_index(span, (const void *)address), usable = usable_in(span);
    if (index >= span->capacity) return false;
    t->record = &records[index];
    if (!is_live(t->record)) return false;
    t->base = span->start + index * usable;
    t->size = asked(usable, t->record);
    size_t end = t->size != 0 ? t->size : 1;
    return address - t->base < end || is_empty_array(address, t);
}

/* --- reaching --- */

static void reach_block(na_leak_scan_t *scan, const target_t *t) {
    if ((na_record_marks(t->record) & NA_MARK_REACHED) != 0) return;
    na_record_mark(t->record, NA_MARK_REACHED);
    if (t->size < sizeof(uintptr_t)) {
        na_record_mark(t->record, NA_MARK_SCANNED);
    } else if (scan->queued < NA_LEAK_QUEUE) {
        scan->queue[scan->queued++] = t->base;
    } else {
        scan->overflowed = true;
    }
}

void na_leak_scan_words(na_leak_scan_t *scan, const uintptr_t *words, size_t count) {
    target_t t;
    for (size_t i = 0; i < count; i++)
        if (find(words[i], &t)) reach_block(scan, &t);
}

typedef void part_fn_t(na_leak_scan_t *scan, const uintptr_t *words, size_t count, void *arg);

NA_INLINE void visit_words(na_leak_scan_t *scan, uintptr_t start, uintptr_t end, part_fn_t *visit,
                           void *arg) {
    if (start < end) visit(scan, (const uintptr_t *)start, (end - start) / sizeof(uintptr_t), arg);
}

/* What was never written to is left alone: to read it would make the process larger, and takes
 * longer than all else where a program has asked for much more than it uses. */
#define WINDOW        512u /* pages that are asked for at a time */
#define WORTH_ASKING  (64u << 10)
#define PAGE_IS_THERE (UINT64_C(3) << 62) /* in memory, or swapped out */

static void each_page_there(na_leak_scan_t *scan, uintptr_t start, uintptr_t end, part_fn_t *visit,
                            void *arg) {
    uint64_t pages[WINDOW];
    while (start < end) {
        uintptr_t first = na_align_down(start, na_os_page), to = first + WINDOW * na_os_page;
        if (to > end) to = end;
        size_t count = (na_align_up(to, na_os_page) - first) / na_os_page;
        long want = (long)(count * sizeof *pages);
        if (na_sys4(SYS_pread64, scan->pagemap, (long)pages, want,
                    (long)(first / na_os_page * sizeof *pages)) != want) {
            visit_words(scan, start, end, visit, arg);
            return;
        }
        for (size_t i = 0; i < count; i++) {
            if ((pages[i] & PAGE_IS_THERE) == 0) continue;
            uintptr_t from = first + i * na_os_page;
            while (i + 1 < count && (pages[i + 1] & PAGE_IS_THERE) != 0)
                i++;
            uintptr_t until = first + (i + 1) * na_os_page;
            visit_words(scan, from > start ? from : start, until < to ? until : to, visit, arg);
        }
        start = to;
    }
}

/* Calls `visit` for those parts of [start, end) that can be read, whole words. What is shorter than
 * a page is `sure`: programs protect whole pages. */
static void each_part(na_leak_scan_t *scan, uintptr_t start, uintptr_t end, bool sure,
                      part_fn_t *visit, void *arg) {
    start = na_align_up(start, sizeof(uintptr_t));
    end = na_align_down(end, sizeof(uintptr_t));
    while (start < end) {
        uintptr_t to = sure ? end : na_leak_readable_to(scan, start);
        if (to > end) to = end;
        if (to > start && to - start >= WORTH_ASKING && scan->pagemap >= 0)
            each_page_there(scan, start, to, visit, arg);
        else
            visit_words(scan, start, to, visit, arg);
        start = to > start ? to : na_align_down(start, na_os_page) + na_os_page;
    }
}

static void reach_part(na_leak_scan_t *scan, const uintptr_t *words, size_t count, void *arg) {
    (void)arg;
    na_leak_scan_words(scan, words, count);
}

void na_leak_scan_range(na_leak_scan_t *scan, uintptr_t start, uintptr_t end) {
    each_part(scan, start, end, false, reach_part, NULL);
}

static void each_word_of(na_leak_scan_t *scan, const target_t *t, part_fn_t *visit, void *arg) {
    each_part(scan, t->base, t->base + t->size, t->size < na_os_page, visit, arg);
}

static void scan_block(na_leak_scan_t *scan, const target_t *t) {
    na_record_mark(t->record, NA_MARK_SCANNED);
    each_word_of(scan, t, reach_part, NULL);
}

static void empty_queue(na_leak_scan_t *scan) {
    target_t t;
    while (scan->queued != 0)
        if (find(scan->queue[--scan->queued], &t)) scan_block(scan, &t);
}

/* --- all blocks --- */

typedef void block_fn_t(na_leak_scan_t *scan, const na_span_t *span, const target_t *t);
typedef struct walk {
    na_leak_scan_t *scan;
    block_fn_t *visit;
} walk_t;

NA_RACY static void walk_span(const na_span_t *span, na_record_t *records, uint32_t count,
                              void *arg) {
    const walk_t *w = arg;
    uint64_t usable = usable_in(span);
    uint32_t blocks = span->cls == 0 ? 1 : count;
    for (uint32_t i = 0; i < blocks; i++) {
        if (!is_live(&records[i])) continue;
        target_t t = {span->start + i * usable, asked(usable, &records[i]), &records[i]};
        w->visit(w->scan, span, &t);
    }
}

static void each_live_block(na_leak_scan_t *scan, block_fn_t *visit) {
    walk_t w = {scan, visit};
    na_span_each_records(walk_span, &w);
}

static void clear_block(na_leak_scan_t *scan, const na_span_t *span, const target_t *t) {
    (void)scan, (void)span;
    na_record_clear_marks(t->record);
}

void na_leak_clear(na_leak_scan_t *scan) {
    each_live_block(scan, clear_block);
}

static void scan_left_over(na_leak_scan_t *scan, const na_span_t *span, const target_t *t) {
    (void)span;
    unsigned marks = na_record_marks(t->record);
    if ((marks & NA_MARK_REACHED) == 0 || (marks & NA_MARK_SCANNED) != 0) return;
    scan_block(scan, t);
    empty_queue(scan);
}

void na_leak_follow(na_leak_scan_t *scan) {
    empty_queue(scan);
    while (scan->overflowed) {
        scan->overflowed = false;
        each_live_block(scan, scan_left_over);
    }
}

/* --- roots among the blocks --- */

/* The innermost frame of a stack; 0: none is known. */
static uint64_t innermost_pc(const na_leak_scan_t *scan, uint32_t site) {
    if (site == NA_NPROF_NO_STACK || site >= scan->row_count) return 0;
    const na_nprof_stack_t *node = na_tree_node(site);
    if (na_tree_is_pair(node->pc)) node = na_tree_node(node->parent); /* the native stack */
    return node->pc;
}

static void reach_own_root(na_leak_scan_t *scan, const na_span_t *span, const target_t *t) {
    const na_record_t *r = t->record;
    bool root = false;
    if (na_span_is_others(span)) {
        const na_heap_t *heap = na_heap_of_owner(span->owner);
        root = heap != NULL && heap->program != NULL &&
               (na_leaks_ruled == NULL || na_leaks_ruled((const void *)t->base) == 0);
    }
    if (!root && r->epoch == na_profile_epoch)
        root = na_leak_in(&scan->linker, (uintptr_t)innermost_pc(scan, r->site));
    if (root) reach_block(scan, t);
}

void na_leak_scan_own_roots(na_leak_scan_t *scan) {
    each_live_block(scan, reach_own_root);
}

/* --- classes --- */

static void indirect_part(na_leak_scan_t *scan, const uintptr_t *words, size_t count, void *arg) {
    (void)scan;
    const na_record_t *from = arg;
    target_t t;
    for (size_t i = 0; i < count; i++)
        if (find(words[i], &t) && t.record != from &&
            (na_record_marks(t.record) & NA_MARK_REACHED) == 0)
            na_record_mark(t.record, NA_MARK_INDIRECT);
}

static void look_into_lost(na_leak_scan_t *scan, const na_span_t *span, const target_t *t) {
    (void)span;
    if ((na_record_marks(t->record) & NA_MARK_REACHED) == 0)
        each_word_of(scan, t, indirect_part, t->record);
}

/* --- who holds what --- */

static uint32_t site_of(const na_leak_scan_t *scan, const na_record_t *record) {
    /* Of another profile (before a fork, or before this one began): no site. */
    uint32_t site = record->epoch == na_profile_epoch ? record->site : NA_NPROF_NO_STACK;
    return site < scan->row_count ? site : NA_NPROF_NO_STACK;
}

static void add_to_pair(na_leak_scan_t *scan, uint32_t root, uint32_t site, uint64_t bytes) {
    uint32_t at = (root * 2654435761u ^ site * 2246822519u) >> 7;
    for (;; at++) {
        na_leak_pair_t *pair = &scan->pairs[at % NA_LEAK_PAIRS];
        if (pair->sum.blocks == 0) {
            if (scan->pair_count == NA_LEAK_PAIRS / 2) return;
            scan->pair_count++;
            *pair = (na_leak_pair_t){.root = root, .site = site};
        } else if (pair->root != root || pair->site != site) {
            continue;
        }
        pair->sum.blocks++;
        pair->sum.bytes += bytes;
        return;
    }
}

/* What finds no room in the queue keeps what it leads to for a claim of its own. */
static void claim_block(na_leak_scan_t *scan, const target_t *t) {
    na_record_mark(t->record, NA_MARK_CLAIMED);
    if (t->size >= sizeof(uintptr_t) && scan->queued < NA_LEAK_QUEUE)
        scan->queue[scan->queued++] = t->base;
}

static void claim_part(na_leak_scan_t *scan, const uintptr_t *words, size_t count, void *arg) {
    (void)arg;
    target_t t;
    for (size_t i = 0; i < count; i++) {
        if (!find(words[i], &t)) continue;
        unsigned marks = na_record_marks(t.record);
        /* What is no block's to hold is lost by itself. */
        if ((marks & (NA_MARK_REACHED | NA_MARK_CLAIMED)) != 0 || (marks & NA_MARK_INDIRECT) == 0)
            continue;
        add_to_pair(scan, scan->claimer, site_of(scan, t.record), t.size);
        claim_block(scan, &t);
    }
}

static void claim_from(na_leak_scan_t *scan, const target_t *root) {
    target_t t;
    scan->claimer = site_of(scan, root->record);
    claim_block(scan, root);
    while (scan->queued != 0)
        if (find(scan->queue[--scan->queued], &t)) each_word_of(scan, &t, claim_part, NULL);
}

static void claim_root(na_leak_scan_t *scan, const na_span_t *span, const target_t *t) {
    (void)span;
    if ((na_record_marks(t->record) & (NA_MARK_REACHED | NA_MARK_INDIRECT)) == 0)
        claim_from(scan, t);
}

/* Of what no root leads to, which is rings, the first block that is met. */
static void claim_ring(na_leak_scan_t *scan, const na_span_t *span, const target_t *t) {
    (void)span;
    if ((na_record_marks(t->record) & (NA_MARK_REACHED | NA_MARK_CLAIMED)) != 0) return;
    uint32_t site = site_of(scan, t->record);
    add_to_pair(scan, site, site, t->size);
    claim_from(scan, t);
}

static void count_block(na_leak_scan_t *scan, const na_span_t *span, const target_t *t) {
    (void)span;
    unsigned marks = na_record_marks(t->record);
    na_leak_kind_t kind = (marks & NA_MARK_REACHED) != 0    ? NA_LEAK_REACHABLE
                          : (marks & NA_MARK_INDIRECT) != 0 ? NA_LEAK_INDIRECT
                                                            : NA_LEAK_LOST;
    uint32_t site = site_of(scan, t->record);
    na_leak_sum_t *sums[] = {&scan->rows[site].of[kind], &scan->leaks->of[kind]};
    for (unsigned i = 0; i < 2; i++) {
        sums[i]->blocks++;
        sums[i]->bytes += t->size;
    }
    na_record_clear_marks(t->record);
}

void na_leak_sum_up(na_leak_scan_t *scan) {
    each_live_block(scan, look_into_lost);
    each_live_block(scan, claim_root);
    each_live_block(scan, claim_ring);
    each_live_block(scan, count_block);
}
