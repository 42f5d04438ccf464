/* sites.c - cells to sites: sums over threads, the peak rule of nprof.h, orders, error bars. */
#include "profiler/analyze/sites.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A file may hold any value: sums wrap instead of overflowing. */
static int64_t add_signed(int64_t a, int64_t b) {
    return (int64_t)((uint64_t)a + (uint64_t)b);
}

static void add_cell(na_counters_t *sum, const na_nprof_cell_t *cell, uint32_t peak_epoch) {
    int64_t live_bytes = (int64_t)(cell->alloc_bytes - cell->free_bytes);
    int64_t live_count = (int64_t)(cell->alloc_count - cell->free_count);
    /* Unchanged since the peak: what lives now lived then. */
    bool changed = cell->peak_epoch == peak_epoch;
    sum->peak_bytes = add_signed(sum->peak_bytes, changed ? cell->peak_bytes : live_bytes);
    sum->peak_count = add_signed(sum->peak_count, changed ? cell->peak_count : live_count);
    sum->live_bytes = add_signed(sum->live_bytes, live_bytes);
    sum->live_count = add_signed(sum->live_count, live_count);
    sum->live_usable =
        add_signed(sum->live_usable, (int64_t)(cell->alloc_usable - cell->free_usable));
    sum->alloc_count += cell->alloc_count;
    sum->alloc_bytes += cell->alloc_bytes;
    sum->alloc_usable += cell->alloc_usable;
    sum->free_count += cell->free_count;
    sum->free_bytes += cell->free_bytes;
    sum->free_usable += cell->free_usable;
    sum->realloc_count += cell->realloc_count;
    sum->cross_thread_free_count += cell->cross_thread_free_count;
    sum->cross_node_free_count += cell->cross_node_free_count;
    sum->lifetime_sum_ms += cell->lifetime_sum_ms;
    sum->raw_allocs += cell->raw_allocs;
    sum->raw_frees += cell->raw_frees;
    if (cell->alloc_count != 0) { /* a cell that only freed has no sizes */
        if (cell->size_min < sum->size_min) sum->size_min = cell->size_min;
        if (cell->size_max > sum->size_max) sum->size_max = cell->size_max;
    }
}

void na_counters_add(na_counters_t *to, const na_counters_t *from) {
    to->peak_bytes = add_signed(to->peak_bytes, from->peak_bytes);
    to->peak_count = add_signed(to->peak_count, from->peak_count);
    to->live_bytes = add_signed(to->live_bytes, from->live_bytes);
    to->live_count = add_signed(to->live_count, from->live_count);
    to->live_usable = add_signed(to->live_usable, from->live_usable);
    to->alloc_count += from->alloc_count;
    to->alloc_bytes += from->alloc_bytes;
    to->alloc_usable += from->alloc_usable;
    to->free_count += from->free_count;
    to->free_bytes += from->free_bytes;
    to->free_usable += from->free_usable;
    to->realloc_count += from->realloc_count;
    to->cross_thread_free_count += from->cross_thread_free_count;
    to->cross_node_free_count += from->cross_node_free_count;
    to->lifetime_sum_ms += from->lifetime_sum_ms;
    to->raw_allocs += from->raw_allocs;
    to->raw_frees += from->raw_frees;
    if (from->size_min < to->size_min) to->size_min = from->size_min;
    if (from->size_max > to->size_max) to->size_max = from->size_max;
}

/* Open addressing by site id, at most half full; slot.site 0 is free. */
typedef struct fold {
    na_site_t *slots;
    size_t room, used; /* room is a power of two */
    uint32_t peak_epoch;
    uint64_t cells;
    bool failed;
} fold_t;

static na_site_t *find_slot(na_site_t *slots, size_t room, uint32_t site) {
    size_t at = (size_t)(site * UINT64_C(0x9e3779b97f4a7c15) >> 20) & (room - 1);
    while (slots[at].site != 0 && slots[at].site != site)
        at = (at + 1) & (room - 1);
    return &slots[at];
}

static void fold_cell(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    (void)thread;
    fold_t *fold = arg;
    if (fold->failed) return;
    if (fold->used * 2 >= fold->room) {
        size_t room = fold->room ? fold->room * 2 : 1024;
        na_site_t *slots = calloc(room, sizeof *slots);
        if (slots == NULL) {
            fold->failed = true;
            return;
        }
        for (size_t i = 0; i < fold->room; i++) {
            if (fold->slots[i].site != 0)
                *find_slot(slots, room, fold->slots[i].site) = fold->slots[i];
        }
        free(fold->slots);
        fold->slots = slots;
        fold->room = room;
    }
    na_site_t *slot = find_slot(fold->slots, fold->room, cell->site);
    if (slot->site == 0) {
        slot->site = cell->site;
        slot->sum.size_min = UINT64_MAX;
        fold->used++;
    }
    slot->cells++;
    fold->cells++;
    add_cell(&slot->sum, cell, fold->peak_epoch);
}

static int by_id(const void *a, const void *b) {
    uint32_t x = ((const na_site_t *)a)->site, y = ((const na_site_t *)b)->site;
    return (x > y) - (x < y);
}

static void peak_now(na_counters_t *sum) {
    sum->peak_bytes = sum->live_bytes;
    sum->peak_count = sum->live_count;
}

bool na_sites_fold(na_reader_t *reader, na_sites_t *sites) {
    memset(sites, 0, sizeof *sites);
    sites->total.size_min = UINT64_MAX;
    fold_t fold = {.peak_epoch = na_reader_header(reader)->peak_epoch};
    na_reader_cells(reader, fold_cell, &fold);
    sites->items = fold.slots;
    sites->cells = fold.cells;
    if (fold.failed) return false;

    /* Stacks are read after the cells: those of a running process are then at least as new. */
    na_stack_table_t stacks = na_reader_stacks(reader);
    na_site_t lost = {.sum.size_min = UINT64_MAX};
    for (size_t i = 0; i < fold.room; i++) {
        na_site_t *slot = &fold.slots[i];
        if (slot->site == 0) continue;
        na_counters_add(&sites->total, &slot->sum);
        if (slot->site >= stacks.count || stacks.items[slot->site].flags == 0) {
            lost.cells += slot->cells;
            na_counters_add(&lost.sum, &slot->sum);
            continue;
        }
        na_site_t kept = *slot;
        slot->site = 0;
        sites->items[sites->count++] = kept; /* never ahead of i */
    }
    if (lost.cells != 0) {
        na_reader_note_lost_sites(reader, lost.cells);
        sites->items[sites->count++] = lost; /* a slot was free: the table is half empty */
    }
    if (sites->count != 0) qsort(sites->items, sites->count, sizeof *sites->items, by_id);
    if (sites->total.live_bytes > sites->total.peak_bytes) {
        sites->peak_is_now = true;
        peak_now(&sites->total);
        for (size_t i = 0; i < sites->count; i++)
            peak_now(&sites->items[i].sum);
    }
    return true;
}

void na_sites_free(na_sites_t *sites) {
    free(sites->items);
    memset(sites, 0, sizeof *sites);
}

int64_t na_counters_key(const na_counters_t *sum, na_order_t order) {
    switch (order) {
    case NA_ORDER_LIVE:
        return sum->live_bytes;
    case NA_ORDER_TOTAL:
        return sum->alloc_bytes > INT64_MAX ? INT64_MAX : (int64_t)sum->alloc_bytes;
    case NA_ORDER_COUNT:
        return sum->alloc_count > INT64_MAX ? INT64_MAX : (int64_t)sum->alloc_count;
    case NA_ORDER_PEAK:
    default:
        return sum->peak_bytes;
    }
}

static int compare_sites(const void *a, const void *b, void *arg) {
    const na_site_t *x = a, *y = b;
    const na_order_t order = *(const na_order_t *)arg;
    const na_order_t then[] = {order, NA_ORDER_PEAK, NA_ORDER_LIVE, NA_ORDER_TOTAL, NA_ORDER_COUNT};
    for (size_t i = 0; i < sizeof then / sizeof then[0]; i++) {
        int64_t p = na_counters_key(&x->sum, then[i]), q = na_counters_key(&y->sum, then[i]);
        if (p != q) return p > q ? -1 : 1;
    }
    return by_id(a, b);
}

void na_sites_sort(na_sites_t *sites, na_order_t order) {
    if (sites->count != 0)
        qsort_r(sites->items, sites->count, sizeof *sites->items, compare_sites, &order);
}

double na_counters_error(const na_counters_t *sum, int64_t count, uint32_t count_scale) {
    if (sum->raw_allocs == 0) return 0; /* not a sampled profile, or nothing there */
    double all = (double)sum->alloc_count / (double)count_scale;
    double drawn = (double)sum->raw_allocs;
    double p = all > drawn ? drawn / all : 1; /* mean probability of being drawn */
    double samples = (double)count / (double)count_scale * p;
    if (samples <= 0) return INFINITY;
    /* Horvitz-Thompson with equal weights: the variance of the sum is n (1 - p) / p^2. */
    return 1.96 * sqrt((1 - p) / samples);
}
