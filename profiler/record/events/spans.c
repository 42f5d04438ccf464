/* spans.c - what the allocator's spans hold at the end: how full they are, how much of them is in
 * memory, and whose blocks keep them.
 *
 * One walk over the registry's records, at the end of a profile or for a copy: nothing is done at
 * events. Each span is looked at twice: once to know how many blocks live in it, once to give each
 * of them its part of the span. Tables lie in a mapping of their own, which is gone afterwards;
 * their room is reserved for every site that there can be, and only touched where there is one. No
 * lock is taken and nothing waits: the walk ends after LONGEST_MS, and what was not seen is
 * counted.
 */
#include <sys/mman.h>

#include "alloc/core/sys/syscall.h"
#include "pagemap/pagemap.h"
#include "profiler/record/stacks/tree.h"
#include "profiler/record/state/state.h"

#define LONGEST_MS 1000u
#define CLASSES    256u /* a span's class and node are a byte each */
#define NODES      256u
#define OCCUPIED   9u /* eighths */
#define SUMS       (NODES * CLASSES * OCCUPIED)
#define MOST_SUMS  (1u << 16)

/* Pages in memory are asked for by window, since spans that lie close together come close together:
 * a table of the windows asked for last. */
#define WINDOW_PAGES 512u
#define WINDOWS      64u

typedef struct window {
    uintptr_t start; /* 0: none */
    unsigned char there[WINDOW_PAGES];
} window_t;

typedef struct walk {
    /* in the mapping */
    na_nprof_span_sum_t *sums;
    uint16_t *sum_of; /* by node, class and occupancy: index + 1; 0: none yet */
    na_nprof_span_site_t *sites;
    uint32_t *site_of;   /* by stack node: index + 1; 0: none yet */
    uint32_t *last_span; /* of `sites`: the span that was counted last */
    window_t *windows;

    uint32_t sum_count, site_count, stacks;
    uint32_t span; /* number of this one, from 1 */
    uint64_t now;  /* ages */
    uint64_t until_ms;
    uint64_t unseen, unseen_bytes;
} walk_t;

static struct {
    const na_profile_config_t *config;
    na_nprof_chunk_t *chunk[2]; /* SPANS, SPAN_SITES */
    uint32_t chunks[2];
} spans;

void na_spans_start(const na_profile_config_t *config) {
    spans.config = config;
    spans.chunk[0] = spans.chunk[1] = NULL;
    spans.chunks[0] = spans.chunks[1] = 0;
}

/* --- pages --- */

/* Of the pages in [from, to), both in the window. */
static uint64_t resident_in(walk_t *w, uintptr_t from, uintptr_t to) {
    uintptr_t start = from & ~(WINDOW_PAGES * na_os_page - 1);
    window_t *window = &w->windows[start / (WINDOW_PAGES * na_os_page) % WINDOWS];
    uint64_t first = (from - start) / na_os_page, last = (to - start + na_os_page - 1) / na_os_page;
    if (window->start != start) {
        window->start = start;
        if (na_sys3(SYS_mincore, (long)start, (long)(WINDOW_PAGES * na_os_page),
                    (long)window->there) != 0) {
            /* Part of the window is not mapped: the pages alone, and not kept. */
            window->start = 0;
            if (na_sys3(SYS_mincore, (long)(start + first * na_os_page),
                        (long)((last - first) * na_os_page), (long)(window->there + first)) != 0)
                return 0;
        }
    }
    uint64_t found = 0;
    for (uint64_t i = first; i < last; i++)
        found += window->there[i] & 1;
    return found * na_os_page;
}

static uint64_t walked_resident(walk_t *w, uintptr_t start, uint64_t bytes) {
    uint64_t found = 0;
    for (uintptr_t at = start, end = start + bytes; at < end;) {
        uintptr_t next = (at & ~(WINDOW_PAGES * na_os_page - 1)) + WINDOW_PAGES * na_os_page;
        if (next > end) next = end;
        found += resident_in(w, at, next);
        at = next;
    }
    return found < bytes ? found : bytes;
}

/* --- spans --- */

static na_nprof_span_sum_t *sum_of(walk_t *w, uint8_t node, uint8_t cls, uint32_t eighths) {
    uint16_t *index = &w->sum_of[((uint32_t)node * CLASSES + cls) * OCCUPIED + eighths];
    if (*index == 0) {
        if (w->sum_count == MOST_SUMS - 1) return NULL;
        w->sums[w->sum_count] =
            (na_nprof_span_sum_t){.node = node, .cls = cls, .eighths = (uint8_t)eighths};
        *index = (uint16_t)++w->sum_count;
    }
    return &w->sums[*index - 1];
}

static na_nprof_span_site_t *walked_site(walk_t *w, uint32_t site) {
    if (site >= w->stacks) return NULL; /* younger than the walk */
    if (w->site_of[site] == 0) {
        w->sites[w->site_count].site = site;
        w->site_of[site] = ++w->site_count;
    }
    return &w->sites[w->site_of[site] - 1];
}

typedef struct held {
    uint32_t blocks, sites;
    uint64_t requested;
    uint64_t each_resident, each_kept; /* a block's part */
    uint32_t eighths;
    uint64_t usable;
} held_t;

/* The record of a block that lives, of this profile; other threads may change it meanwhile. */
NA_RACY static bool lives(const na_record_t *r) {
    return *(const volatile uint8_t *)&r->epoch == na_profile_epoch && r->site != NA_NPROF_NO_STACK;
}

NA_RACY static void add_span_block(walk_t *w, const na_record_t *record, const held_t *h,
                                   bool sparse) {
    const na_record_t seen = *record, *r = &seen;
    na_nprof_span_site_t *s = walked_site(w, r->site);
    if (s == NULL) return;
    uint32_t *last = &w->last_span[w->site_of[r->site] - 1];
    if (*last != w->span) {
        *last = w->span;
        s->spans++;
        s->sparse_spans += sparse;
    }
    s->blocks++;
    s->requested += h->usable - r->slack;
    s->resident += h->each_resident;
    if (!sparse) return;
    s->sparse_blocks++;
    s->sparse_kept += h->each_kept;
    s->sparse_ages += na_record_age(r, w->now);
}

NA_RACY static void look_at_span(const na_span_t *span, na_record_t *records, uint32_t count,
                                 void *arg) {
    walk_t *w = arg;
    uint64_t bytes = (uint64_t)span->pages << 13;
    uint32_t capacity = span->cls == 0 ? 1 : count;
    if (capacity == 0 || count == 0 || bytes == 0) return; /* on its way out */
    if (na_rec_ms() > w->until_ms) {
        w->unseen++;
        w->unseen_bytes += bytes;
        return;
    }
    held_t h = {.usable = spans.config->usable(span)};
    uint32_t first = NA_NPROF_NO_STACK;
    for (uint32_t i = 0; i < capacity; i++) {
        const na_record_t *r = &records[i];
        if (!lives(r)) continue;
        h.blocks++;
        h.requested += h.usable - r->slack;
        if (first == NA_NPROF_NO_STACK) first = r->site;
        if (r->site != first) h.sites = 2; /* or more */
    }
    uint64_t there = walked_resident(w, span->start, bytes), live = h.blocks * h.usable;
    h.eighths = (uint32_t)((uint64_t)h.blocks * 8 / capacity);
    na_nprof_span_sum_t *sum = sum_of(w, span->node, span->cls, h.eighths);
    if (sum != NULL) {
        sum->block_size = span->cls == 0 ? 0 : (uint32_t)h.usable;
        sum->spans++;
        sum->capacity += capacity;
        sum->blocks += h.blocks;
        sum->bytes += bytes;
        sum->resident += there;
        sum->requested += h.requested;
        sum->usable += live;
    }
    if (h.blocks == 0) return;
    w->span++;
    h.each_resident = there / h.blocks;
    h.each_kept = there > live ? (there - live) / h.blocks : 0;
    bool sparse = span->cls != 0 && h.eighths < NA_NPROF_SPARSE;
    for (uint32_t i = 0; i < capacity; i++)
        if (lives(&records[i])) add_span_block(w, &records[i], &h, sparse);
    na_nprof_span_site_t *only = h.sites == 0 ? walked_site(w, first) : NULL;
    if (only != NULL) only->alone++;
}

/* --- the file --- */

/* `which`: 0 SPANS, 1 SPAN_SITES. The chunk serves again where it is large enough. */
static void put_span_chunk(unsigned which, const void *entries, uint32_t count, uint32_t size) {
    na_nprof_chunk_t *c = spans.chunk[which];
    if (c != NULL) __atomic_store_n(&c->count, 0, __ATOMIC_RELEASE);
    if (c == NULL || c->capacity < count) {
        uint64_t length = na_nprof_chunk_length((uint64_t)count + count / 4, size);
        if (!na_rec_has_room(length)) return;
        c = na_writer_chunk(which == 0 ? NA_NPROF_SPANS : NA_NPROF_SPAN_SITES, length, size, 0,
                            spans.chunks[which], 0);
        if (c == NULL) return;
        spans.chunks[which]++;
        spans.chunk[which] = c;
        na_writer_publish(c);
    }
    __builtin_memcpy(c + 1, entries, (size_t)count * size);
    __atomic_store_n(&c->count, count, __ATOMIC_RELEASE);
}

static uint64_t take_part(uint64_t *bytes, uint64_t size) {
    uint64_t at = *bytes;
    *bytes += (size + 63) & ~UINT64_C(63);
    return at;
}

void na_spans_walk(void) {
    if (spans.config == NULL || spans.config->each_records == NULL || na_rec.sampling) return;
    uint64_t stacks = na_tree_bound(), bytes = 0;
    uint64_t sums = take_part(&bytes, MOST_SUMS * sizeof(na_nprof_span_sum_t));
    uint64_t by_sum = take_part(&bytes, SUMS * sizeof(uint16_t));
    uint64_t windows = take_part(&bytes, WINDOWS * sizeof(window_t));
    uint64_t sites = take_part(&bytes, stacks * sizeof(na_nprof_span_site_t));
    uint64_t by_site = take_part(&bytes, stacks * sizeof(uint32_t));
    uint64_t last = take_part(&bytes, stacks * sizeof(uint32_t));
    long p = na_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (p <= 0) return; /* no memory: the profile does without */
    uint8_t *memory = (uint8_t *)p;
    walk_t walk = {
        .sums = (na_nprof_span_sum_t *)(memory + sums),
        .sum_of = (uint16_t *)(memory + by_sum),
        .windows = (window_t *)(memory + windows),
        .sites = (na_nprof_span_site_t *)(memory + sites),
        .site_of = (uint32_t *)(memory + by_site),
        .last_span = (uint32_t *)(memory + last),
        .stacks = (uint32_t)stacks,
        .now = na_ages(na_rec_ticks()),
        .until_ms = na_rec_ms() + LONGEST_MS,
    };
    spans.config->each_records(look_at_span, &walk);
    if (walk.unseen != 0)
        walk.sums[walk.sum_count++] = (na_nprof_span_sum_t){.node = UINT16_MAX,
                                                            .cls = NA_NPROF_SPANS_UNSEEN,
                                                            .spans = walk.unseen,
                                                            .bytes = walk.unseen_bytes};
    put_span_chunk(0, walk.sums, walk.sum_count, sizeof *walk.sums);
    put_span_chunk(1, walk.sites, walk.site_count, sizeof *walk.sites);
    na_sys2(SYS_munmap, p, (long)bytes);
}
