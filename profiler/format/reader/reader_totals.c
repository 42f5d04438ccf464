/* reader_totals.c - tells damage in a file that has no checksums of its figures: that of a process
 * which runs or was killed (header.checks).
 *
 * Threads change their counters in place, and nothing sums them up again at each event. But an
 * event is counted in several places: by thread, by entry point, by site, by size, by lifetime. So
 * their sums agree, and a bit that flipped in one of them later makes them differ. Limits:
 *   - A kill leaves at most one event of each thread half counted. What changes a sum by no more
 *     than that is not told.
 *   - While the process runs, parts are read at different moments. What is read while anything was
 *     counted is not compared.
 *   - What is there once (times, names, peaks, what else a cell has) is only held against what it
 *     cannot be. */
#include <string.h>

#include "profiler/format/nprof_check.h"
#include "profiler/format/reader/reader_priv.h"

#define NO_LIVES 1u /* in a cell's `lives`: there was no room */

/* Counts are scaled; in mode sample they are estimates, the same wherever they are. */
typedef struct counts {
    uint64_t allocs, frees, alloc_bytes, free_bytes;
} counts_t;

typedef struct totals {
    counts_t threads, cells;
    uint64_t running; /* threads that may have been in the midst of an event */
    uint64_t size_allocs, size_frees;
    uint64_t lives, cell_lives; /* frees that LIVES has, and that cells say it has */
    uint64_t largest;           /* request */
    uint64_t live, published;   /* of all shares, and what their cells say; signed */
    uint64_t one;               /* what one event counts for, at most */
    bool sampling;
} totals_t;

/* Which figures. */
enum {
    ALLOCS,
    FREES,
    ALLOC_BYTES,
    FREE_BYTES,
    SIZES,
    SIZE_LIVES,
    LIVES,
    LIVE,
    CALLS,
    CELL,
    MISSING
};

const char *na_reader_totals_name(uint64_t which) {
    static const char *const name[] = {
        [ALLOCS] = "allocations of sites and threads",
        [FREES] = "frees of sites and threads",
        [ALLOC_BYTES] = "allocated bytes of sites and threads",
        [FREE_BYTES] = "freed bytes of sites and threads",
        [SIZES] = "allocations of sizes and threads",
        [SIZE_LIVES] = "frees of sizes and threads",
        [LIVES] = "lifetimes and frees of sites",
        [LIVE] = "live bytes of sites and their parts",
        [CALLS] = "calls and allocations of a thread",
        [CELL] = "figures of a site",
        [MISSING] = "counts of what is missing",
    };
    return which < sizeof name / sizeof name[0] ? name[which] : "figures";
}

static uint64_t total_difference(uint64_t a, uint64_t b) {
    return a > b ? a - b : b - a;
}

static void differ(na_reader_t *reader, uint64_t which, uint64_t by) {
    na_reader_issue(reader, NA_ISSUE_TOTALS, which, by);
}

static void hold_total(na_reader_t *reader, uint64_t which, uint64_t a, uint64_t b,
                       uint64_t slack) {
    if (total_difference(a, b) > slack) differ(reader, which, total_difference(a, b));
}

static void add_thread_totals(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                              uint32_t index, const void *entry) {
    (void)index;
    totals_t *to = arg;
    na_nprof_thread_t t = {0};
    memcpy(&t, entry, chunk->entry_size < sizeof t ? chunk->entry_size : sizeof t);
    to->threads.allocs += t.alloc_count;
    to->threads.frees += t.free_count;
    to->threads.alloc_bytes += t.alloc_bytes;
    to->threads.free_bytes += t.free_bytes;
    if (t.tid != 0) to->running += t.end_ms == NA_NPROF_MODULE_STILL;
    uint64_t allocs = 0, frees = t.calls[NA_NPROF_ENTRY_FREE] + t.calls[NA_NPROF_ENTRY_DELETE];
    for (uint32_t i = 0; i <= NA_NPROF_ENTRY_NEW_ARRAY; i++)
        allocs += t.calls[i];
    if (total_difference(allocs, t.alloc_count) > to->one) {
        differ(reader, CALLS, total_difference(allocs, t.alloc_count));
    } else if (frees > t.free_count && frees - t.free_count > to->one) {
        differ(reader, CALLS, frees - t.free_count);
    }
}

/* What no order of stores, cut off anywhere, can leave. */
static bool is_possible(const na_nprof_cell_t *c, uint64_t one) {
    bool allocs = c->alloc_count > one, frees = c->free_count > one;
    if (c->size_max > c->alloc_bytes && c->size_max != 0) return false;
    if (allocs && c->size_min > c->size_max) return false;
    if (!allocs && c->alloc_count == 0 && c->alloc_bytes != 0) return false;
    if (frees && (c->lifetime_min > c->lifetime_max || c->lifetime_max > c->lifetime_sum))
        return false;
    if (c->local_peak_bytes < 0 || (uint64_t)c->local_peak_bytes > c->alloc_bytes) return false;
    return c->temporary_count <= c->free_count && c->cross_thread_free_count <= c->free_count &&
           c->cross_node_free_count <= c->free_count && c->realloc_count <= c->alloc_count + one;
}

static void add_cell_totals(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                            uint32_t index, const void *entry) {
    (void)index;
    totals_t *to = arg;
    na_nprof_cell_t c;
    memcpy(&c, entry, sizeof c);
    to->cells.allocs += c.alloc_count;
    to->cells.frees += c.free_count;
    to->cells.alloc_bytes += c.alloc_bytes;
    to->cells.free_bytes += c.free_bytes;
    if (c.share != 0) to->published += (uint64_t)c.published_bytes;
    if (c.lives > NO_LIVES) to->cell_lives += to->sampling ? c.raw_frees : c.free_count;
    if (!is_possible(&c, to->one))
        differ(reader, CELL, chunk->data);
    else if (c.size_max > to->largest)
        to->largest = c.size_max;
}

static void add_size(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                     const void *entry) {
    (void)reader, (void)chunk, (void)index;
    totals_t *to = arg;
    na_nprof_sizes_t sizes;
    memcpy(&sizes, entry, sizeof sizes);
    for (uint32_t i = 0; i < NA_NPROF_SIZE_BUCKETS; i++) {
        to->size_allocs += sizes.allocs[i];
        for (uint32_t k = 0; k < NA_NPROF_AGE_BUCKETS; k++)
            to->size_frees += sizes.lives[i][k];
    }
}

static void add_lives(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                      const void *entry) {
    (void)reader, (void)chunk, (void)index;
    totals_t *to = arg;
    na_nprof_lives_t lives;
    memcpy(&lives, entry, sizeof lives);
    for (uint32_t i = 0; i < NA_NPROF_AGE_BUCKETS; i++)
        to->lives += lives.count[i] + ((uint64_t)lives.carry[i] << 32);
}

static void add_share(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                      const void *entry) {
    (void)reader, (void)chunk, (void)index;
    na_nprof_share_t share;
    memcpy(&share, entry, sizeof share);
    ((totals_t *)arg)->live += (uint64_t)share.live_bytes;
}

/* Nothing was added to the file since its chunks were listed. */
static bool is_still(na_reader_t *reader) {
    uint64_t used = 0;
    if (na_reader_pread(reader, &used, sizeof used, offsetof(na_nprof_header_t, used)) <
            sizeof used ||
        used != reader->header.used)
        return false;
    for (size_t i = 0; i < reader->chunk_count; i++) {
        const na_chunk_ref_t *chunk = &reader->chunks[i];
        na_nprof_chunk_t head;
        uint64_t at = chunk->data - sizeof head;
        if (na_reader_pread(reader, &head, sizeof head, at) < sizeof head ||
            head.count > chunk->count)
            return false;
    }
    return true;
}

static void compare_totals(na_reader_t *reader, const totals_t *t) {
    const na_nprof_header_t *h = &reader->header;
    uint64_t events = t->running * t->one;
    uint64_t bytes = t->running * (t->largest + (t->sampling ? h->sample_interval : 0));
    if (h->lost_threads == 0) { /* those have no entry */
        hold_total(reader, ALLOCS, t->cells.allocs, t->threads.allocs, events);
        hold_total(reader, FREES, t->cells.frees, t->threads.frees, events);
        hold_total(reader, ALLOC_BYTES, t->cells.alloc_bytes, t->threads.alloc_bytes, bytes);
        hold_total(reader, FREE_BYTES, t->cells.free_bytes, t->threads.free_bytes, bytes);
        hold_total(reader, SIZES, t->size_allocs, t->threads.allocs, events);
        hold_total(reader, SIZE_LIVES, t->size_frees, t->threads.frees, events);
    }
    hold_total(reader, LIVES, t->lives, t->cell_lives, t->running * (t->sampling ? 1 : t->one));
    if ((h->checks & NA_NPROF_CHECK_LOST) != 0)
        hold_total(reader, MISSING, h->missing, na_nprof_missing(h), t->running);
    int64_t live = (int64_t)(t->live - t->published);
    uint64_t by = live < 0 ? -(uint64_t)live : (uint64_t)live;
    if (by > bytes + t->running * h->site_quantum) differ(reader, LIVE, by);
}

void na_reader_check_totals(na_reader_t *reader) {
    const na_nprof_header_t *h = &reader->header;
    bool whole = h->finished != 0 && h->sums != 0; /* its checksums say more */
    if ((h->checks & NA_NPROF_CHECK_TWICE) == 0 || whole || h->used > reader->size ||
        reader->issues[NA_ISSUE_LOST_PAGES].times != 0 || h->disk_full != 0)
        return;
    const na_issue_t none = reader->issues[NA_ISSUE_TOTALS];
    totals_t t = {.sampling = h->mode == NA_NPROF_MODE_SAMPLE, .one = h->count_scale};
    if (t.sampling) t.one = (h->sample_interval / 16 + 1) * h->count_scale;
    na_reader_each_entry(reader, NA_NPROF_THREADS, add_thread_totals, &t);
    const counts_t before = t.threads;
    na_reader_each_entry(reader, NA_NPROF_CELLS, add_cell_totals, &t);
    na_reader_each_entry(reader, NA_NPROF_SIZES, add_size, &t);
    na_reader_each_entry(reader, NA_NPROF_LIVES, add_lives, &t);
    na_reader_each_entry(reader, NA_NPROF_SHARES, add_share, &t);
    t.threads = (counts_t){0};
    t.running = 0;
    na_reader_each_entry(reader, NA_NPROF_THREADS, add_thread_totals, &t);
    compare_totals(reader, &t);
    /* (It is looked at only where there is something to say.) */
    if (reader->issues[NA_ISSUE_TOTALS].times != 0 &&
        (memcmp(&before, &t.threads, sizeof before) != 0 || !is_still(reader)))
        reader->issues[NA_ISSUE_TOTALS] = none;
}
