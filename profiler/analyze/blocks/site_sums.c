/* site_sums.c - cells to sites: sums over threads, the peak rule of nprof.h, orders, error bars. */
#include "profiler/analyze/blocks/site_sums.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

static void add_cell_figures(na_counters_t *sum, const na_nprof_cell_t *cell, uint32_t peak_epoch,
                             bool sampled) {
    int64_t live_bytes = (int64_t)(cell->alloc_bytes - cell->free_bytes);
    int64_t live_count = (int64_t)(cell->alloc_count - cell->free_count);
    /* Unchanged since the peak: what lives now lived then. */
    bool changed = cell->peak_epoch == peak_epoch;
    na_counters_t one = na_counters_none();
    one.peak_bytes = changed ? cell->peak_bytes : live_bytes;
    one.peak_count = changed ? cell->peak_count : live_count;
    one.live_bytes = live_bytes;
    one.live_count = live_count;
    one.live_usable = (int64_t)(cell->alloc_usable - cell->free_usable);
    one.alloc_count = cell->alloc_count;
    one.alloc_bytes = cell->alloc_bytes;
    one.alloc_usable = cell->alloc_usable;
    one.free_count = cell->free_count;
    one.free_bytes = cell->free_bytes;
    one.free_usable = cell->free_usable;
    one.realloc_count = cell->realloc_count;
    one.realloc_grow_bytes = cell->realloc_grow_bytes;
    one.realloc_shrink_bytes = cell->realloc_shrink_bytes;
    one.realloc_copy_bytes = cell->realloc_copy_bytes;
    one.temporary_count = cell->temporary_count;
    one.cross_thread_free_count = cell->cross_thread_free_count;
    one.cross_node_free_count = cell->cross_node_free_count;
    one.freed_here_count = cell->freed_here_count;
    one.freed_here_bytes = cell->freed_here_bytes;
    one.aligned_count = cell->aligned_count;
    one.align_mask = cell->align_mask;
    one.raw_allocs = cell->raw_allocs;
    one.raw_frees = cell->raw_frees;
    one.lifetime_sum = cell->lifetime_sum;
    if (cell->free_count != 0) {
        one.lifetime_min = cell->lifetime_min;
        one.lifetime_max = cell->lifetime_max;
    }
    if (cell->alloc_count != 0) { /* a cell that only freed has no sizes */
        one.size_min = cell->size_min;
        one.size_max = cell->size_max;
    }
    if (sampled) {
        one.var_alloc_count = cell->var_alloc_count;
        one.var_alloc_bytes = cell->var_alloc_bytes;
        one.var_free_count = cell->var_free_count;
        one.var_free_bytes = cell->var_free_bytes;
    } else {
        one.growth_count = cell->growth_count;
        one.growth_bytes = cell->growth_bytes;
        one.growth_copied = cell->growth_copied;
    }
    /* Over the cells of one site the sum is a bound; fold_share may know better. */
    int64_t before = sum->local_peak_bytes;
    na_counters_add(sum, &one);
    sum->local_peak_bytes =
        na_add_signed(before, cell->local_peak_bytes > 0 ? cell->local_peak_bytes : 0);
}

na_counters_t na_counters_none(void) {
    na_counters_t none = {.size_min = UINT64_MAX, .lifetime_min = UINT64_MAX};
    return none;
}

#define ADD_uint64_t(a, b)     ((a) + (b))
#define ADD_int64_t(a, b)      na_add_signed(a, b)
#define ADD_double(a, b)       ((a) + (b))
#define REDUCE_SUM(type, a, b) ADD_##type(a, b)
#define REDUCE_MAX(type, a, b) ((a) > (b) ? (a) : (b))
#define REDUCE_MIN(type, a, b) ((a) < (b) ? (a) : (b))
#define REDUCE_OR(type, a, b)  ((a) | (b))

void na_counters_add(na_counters_t *to, const na_counters_t *from) {
#define REDUCE(name, type, reduction, unit, meaning)                                               \
    to->name = REDUCE_##reduction(type, to->name, from->name);
    NA_COUNTERS(REDUCE)
#undef REDUCE
}

typedef struct fold {
    na_budget_t *budget;
    na_site_t *sites;
    uint32_t count, room;
    na_index_t index; /* by site id */
    uint32_t peak_epoch;
    uint64_t cells;
    bool sampled;
    bool failed;
} fold_t;

/* NULL: no cell of the site was seen. */
static na_site_t *find_folded_site(const fold_t *fold, uint32_t site) {
    na_probe_t probe = na_index_probe(&fold->index, na_hash_number(NA_HASH_BEGIN, site));
    while (na_index_next(&fold->index, &probe))
        if (fold->sites[probe.number].site == site) return &fold->sites[probe.number];
    return NULL;
}

/* NULL: no memory. */
static na_site_t *new_site(fold_t *fold, uint32_t site) {
    uint64_t hash = na_hash_number(NA_HASH_BEGIN, site);
    if (!NA_BUDGET_RESERVE(fold->budget, fold->sites, fold->room, fold->count + 1u) ||
        !na_budget_index_add(fold->budget, &fold->index, hash, fold->count))
        return NULL;
    fold->sites[fold->count] = (na_site_t){.site = site, .sum = na_counters_none()};
    return &fold->sites[fold->count++];
}

static void fold_site_cell(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    (void)thread;
    fold_t *fold = arg;
    if (fold->failed) return;
    na_site_t *site = find_folded_site(fold, cell->site);
    if (site == NULL && (site = new_site(fold, cell->site)) == NULL) {
        fold->failed = true;
        return;
    }
    site->cells++;
    fold->cells++;
    site->local_peak_known = site->cells == 1;
    add_cell_figures(&site->sum, cell, fold->peak_epoch, fold->sampled);
}

/* After the cells. What cells still hold back is in their live figure, if it is the largest. */
static void fold_share(void *arg, const na_nprof_share_t *share) {
    na_site_t *site = find_folded_site(arg, share->site);
    if (site == NULL || site->cells < 2 || share->peak_bytes < 0) return;
    int64_t peak = share->peak_bytes;
    if (peak < site->sum.live_bytes) peak = site->sum.live_bytes;
    if (peak > site->sum.local_peak_bytes) return; /* the bound is better */
    site->sum.local_peak_bytes = peak;
    site->local_peak_known = true;
}

static int sites_by_id(const void *a, const void *b) {
    uint32_t x = ((const na_site_t *)a)->site, y = ((const na_site_t *)b)->site;
    return (x > y) - (x < y);
}

/* Frames up to the root of every node; a parent comes before its children. False: no memory. */
static bool find_depths(na_budget_t *budget, na_sites_t *sites, na_stack_table_t stacks) {
    uint32_t *depth = na_budget_calloc(budget, stacks.count + (size_t)1, sizeof *depth);
    if (depth == NULL) return false;
    for (uint32_t i = NA_NPROF_ROOT + 1; i < stacks.count; i++)
        if (stacks.items[i].flags != 0 && stacks.items[i].parent < i)
            depth[i] = depth[stacks.items[i].parent] + 1;
    double frames = 0, allocations = 0;
    for (size_t i = 0; i < sites->count; i++) {
        const na_site_t *site = &sites->items[i];
        if (site->sum.alloc_count == 0 || site->site >= stacks.count) continue;
        uint32_t d = depth[site->site];
        if (d > sites->depth_max) sites->depth_max = d;
        frames += (double)d * (double)site->sum.alloc_count;
        allocations += (double)site->sum.alloc_count;
    }
    sites->depth_mean = allocations > 0 ? frames / allocations : 0;
    na_budget_free(depth);
    return true;
}

static void peak_now(na_counters_t *sum) {
    sum->peak_bytes = sum->live_bytes;
    sum->peak_count = sum->live_count;
}

/* A trace has its cells when all of it was played. */
static bool fold_replay(na_replay_t *replay, fold_t *fold) {
    if (replay == NULL) return false;
    na_replay_to(replay, UINT64_MAX);
    bool good = !na_replay_failed(replay);
    na_replay_end(replay);
    if (good) na_replay_cells(replay, fold_site_cell, fold);
    na_replay_close(replay);
    return good;
}

bool na_sites_fold(na_reader_t *reader, na_sites_t *sites) {
    return na_sites_fold_replay(reader, NULL, sites);
}

bool na_sites_fold_replay(na_reader_t *reader, na_replay_t *replay, na_sites_t *sites) {
    memset(sites, 0, sizeof *sites);
    sites->total = na_counters_none();
    const na_nprof_header_t *header = na_reader_header(reader);
    fold_t fold = {.budget = na_reader_budget(reader),
                   .peak_epoch = header->peak_epoch,
                   .sampled = header->mode == NA_NPROF_MODE_SAMPLE};
    if (header->mode == NA_NPROF_MODE_TRACE) {
        if (replay == NULL) replay = na_replay_open(reader);
        if (!fold_replay(replay, &fold)) fold.failed = true;
    } else {
        na_reader_cells(reader, fold_site_cell, &fold);
    }
    na_reader_shares(reader, fold_share, &fold);
    na_budget_free(fold.index.slots);
    sites->items = fold.sites;
    sites->cells = fold.cells;
    if (fold.failed) return false;

    /* Stacks are read after the cells: those of a running process are then at least as new. */
    na_stack_table_t stacks = na_reader_stacks(reader);
    na_site_t lost = {.sum = na_counters_none()};
    for (uint32_t i = 0; i < fold.count; i++) {
        const na_site_t *site = &fold.sites[i];
        na_counters_add(&sites->total, &site->sum);
        if (site->site < stacks.count && stacks.items[site->site].flags != 0) {
            sites->items[sites->count++] = *site; /* never ahead of i */
        } else {
            lost.cells += site->cells;
            na_counters_add(&lost.sum, &site->sum);
        }
    }
    if (lost.cells != 0) {
        na_reader_note_lost_sites(reader, lost.cells);
        sites->items[sites->count++] = lost; /* in the place of one of them */
    }
    if (sites->count != 0) qsort(sites->items, sites->count, sizeof *sites->items, sites_by_id);
    if (!find_depths(fold.budget, sites, stacks)) return false;
    if (sites->total.live_bytes > sites->total.peak_bytes) {
        sites->peak_is_now = true;
        peak_now(&sites->total);
        for (size_t i = 0; i < sites->count; i++)
            peak_now(&sites->items[i].sum);
    }
    return true;
}

void na_sites_free(na_sites_t *sites) {
    na_budget_free(sites->items);
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
    return sites_by_id(a, b);
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

double na_counters_estimate_error(const na_counters_t *sum, na_estimate_t figure,
                                  uint32_t count_scale) {
    if (sum->raw_allocs == 0) return 0;
    double value = 0, variance = 0;
    switch (figure) {
    case NA_ESTIMATE_ALLOC_BYTES:
        value = (double)sum->alloc_bytes;
        variance = sum->var_alloc_bytes;
        break;
    case NA_ESTIMATE_ALLOC_COUNT:
        value = (double)sum->alloc_count / (double)count_scale;
        variance = sum->var_alloc_count;
        break;
    case NA_ESTIMATE_LIVE_BYTES:
        value = (double)sum->live_bytes;
        variance = sum->var_alloc_bytes - sum->var_free_bytes;
        break;
    case NA_ESTIMATE_LIVE_COUNT:
        value = (double)sum->live_count / (double)count_scale;
        variance = sum->var_alloc_count - sum->var_free_count;
        break;
    }
    if (!(value > 0)) return INFINITY;
    return variance > 0 ? 1.96 * sqrt(variance) / value : 0;
}
