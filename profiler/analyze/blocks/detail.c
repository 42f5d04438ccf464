/* detail.c - folds lifetimes, sizes and mappings; counts threads that ran at one time. */
#include "profiler/analyze/blocks/detail.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/block_histogram.h"

double na_age_ns(const na_nprof_header_t *h) {
    double hz = (double)h->ticks_hz;
    /* The closing pair of stamps tells the rate over the whole run. */
    if (h->last_ticks > h->start_ticks && h->last_mono_ns > h->start_mono_ns + 100000000U)
        hz = (double)(h->last_ticks - h->start_ticks) * 1e9 /
             (double)(h->last_mono_ns - h->start_mono_ns);
    return hz > 0 ? (double)(UINT64_C(1) << h->age_shift) * 1e9 / hz : 0;
}

double na_tick_ms(const na_nprof_header_t *h) {
    return na_age_ns(h) / (double)(UINT64_C(1) << h->age_shift) / 1e6;
}

/* --- lifetimes --- */

typedef struct fold {
    na_budget_t *budget;
    na_site_lives_t *items;
    size_t count, room;
    bool sampled, failed;
} fold_t;

static na_site_lives_t *new_item(fold_t *fold, uint32_t site) {
    if (!NA_BUDGET_RESERVE(fold->budget, fold->items, fold->room, fold->count + 1)) {
        fold->failed = true;
        return NULL;
    }
    na_site_lives_t *item = &fold->items[fold->count++];
    memset(item, 0, sizeof *item);
    item->site = site;
    return item;
}

/* One or two lifetimes are in the cell itself. */
static void fold_lifetimes(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    (void)thread;
    fold_t *fold = arg;
    uint64_t frees = fold->sampled ? cell->raw_frees : cell->free_count;
    if (cell->lives != 0 || frees == 0 || frees > 2 || fold->failed) return;
    na_site_lives_t *item = new_item(fold, cell->site);
    if (item == NULL) return;
    item->count[na_bucket_of(cell->lifetime_min, NA_NPROF_AGE_BUCKETS)]++;
    if (frees > 1) item->count[na_bucket_of(cell->lifetime_max, NA_NPROF_AGE_BUCKETS)]++;
}

static void fold_lives(void *arg, const na_nprof_lives_t *lives) {
    fold_t *fold = arg;
    if (fold->failed) return;
    na_site_lives_t *item = new_item(fold, lives->site);
    if (item == NULL) return;
    for (size_t i = 0; i < NA_NPROF_AGE_BUCKETS; i++)
        item->count[i] = (uint64_t)lives->carry[i] << 32 | lives->count[i];
}

static int lives_by_site(const void *a, const void *b) {
    uint32_t x = ((const na_site_lives_t *)a)->site, y = ((const na_site_lives_t *)b)->site;
    return (x > y) - (x < y);
}

bool na_lives_fold(na_reader_t *reader, na_lives_table_t *table) {
    fold_t fold = {.budget = na_reader_budget(reader),
                   .sampled = na_reader_header(reader)->mode == NA_NPROF_MODE_SAMPLE};
    na_reader_cells(reader, fold_lifetimes, &fold);
    na_reader_lives(reader, fold_lives, &fold);
    if (fold.count != 0) qsort(fold.items, fold.count, sizeof *fold.items, lives_by_site);
    size_t kept = 0;
    for (size_t i = 0; i < fold.count; i++) {
        if (kept != 0 && fold.items[kept - 1].site == fold.items[i].site)
            for (size_t b = 0; b < NA_NPROF_AGE_BUCKETS; b++)
                fold.items[kept - 1].count[b] += fold.items[i].count[b];
        else
            fold.items[kept++] = fold.items[i];
    }
    table->items = fold.items;
    table->count = kept;
    return !fold.failed;
}

void na_lives_free(na_lives_table_t *table) {
    na_budget_free(table->items);
    *table = (na_lives_table_t){0};
}

const na_site_lives_t *na_lives_of(const na_lives_table_t *table, uint32_t site) {
    if (table->count == 0) return NULL;
    na_site_lives_t key = {.site = site};
    return bsearch(&key, table->items, table->count, sizeof key, lives_by_site);
}

/* --- sizes --- */

static void add_sizes(void *arg, const na_nprof_sizes_t *sizes) {
    na_nprof_sizes_t *sum = arg;
    for (size_t i = 0; i < NA_NPROF_SIZE_BUCKETS; i++) {
        sum->allocs[i] += sizes->allocs[i];
        sum->grown[i] += sizes->grown[i];
        sum->shrunk[i] += sizes->shrunk[i];
        for (size_t k = 0; k < NA_NPROF_AGE_BUCKETS; k++)
            sum->lives[i][k] += sizes->lives[i][k];
    }
}

void na_sizes_fold(na_reader_t *reader, na_nprof_sizes_t *sum) {
    memset(sum, 0, sizeof *sum);
    na_reader_sizes(reader, add_sizes, sum);
}

/* --- mappings --- */

typedef struct maps_fold {
    na_budget_t *budget;
    na_maps_table_t *table;
    size_t room;
    bool failed;
} maps_fold_t;

static void fold_map(void *arg, const na_nprof_map_t *map) {
    maps_fold_t *fold = arg;
    na_maps_table_t *t = fold->table;
    if (fold->failed) return;
    if (!NA_BUDGET_RESERVE(fold->budget, t->items, fold->room, t->count + 1)) {
        fold->failed = true;
        return;
    }
    t->items[t->count++] = *map;
}

static int by_call(const void *a, const void *b) {
    const na_nprof_map_t *x = a, *y = b;
    if (x->call != y->call) return x->call < y->call ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x->site > y->site) - (x->site < y->site);
}

bool na_maps_fold(na_reader_t *reader, na_maps_table_t *table) {
    *table = (na_maps_table_t){0};
    maps_fold_t fold = {.budget = na_reader_budget(reader), .table = table};
    na_reader_maps(reader, fold_map, &fold);
    if (table->count != 0) qsort(table->items, table->count, sizeof *table->items, by_call);
    return !fold.failed;
}

void na_maps_free(na_maps_table_t *table) {
    na_budget_free(table->items);
    *table = (na_maps_table_t){0};
}

/* --- threads --- */

static int ages_by_value(const void *a, const void *b) {
    uint64_t x = *(const uint64_t *)a, y = *(const uint64_t *)b;
    return (x > y) - (x < y);
}

void na_span_sum_add(na_nprof_span_sum_t *to, const na_nprof_span_sum_t *s) {
    to->spans += s->spans;
    to->capacity += s->capacity;
    to->blocks += s->blocks;
    to->bytes += s->bytes;
    to->resident += s->resident;
    to->requested += s->requested;
    to->usable += s->usable;
}

/* Threads that never call malloc are seen by looks at the process only, and so are those that have
 * ended but for the kernel: what two looks in a row saw was there. */
static uint32_t threads_seen(na_reader_t *reader, bool lasting) {
    uint32_t peak = 1, before = 0, count, interval;
    const na_nprof_point_t *points = na_reader_timeline(reader, &count, &interval);
    for (uint32_t i = 0; points != NULL && i < count; i++) {
        if ((points[i].flags & NA_NPROF_POINT_SAMPLED) == 0) continue;
        uint32_t now = points[i].threads, seen = lasting && before < now ? before : now;
        if (seen > peak) peak = seen;
        before = now;
    }
    return peak;
}

uint32_t na_threads_peak(na_reader_t *reader) {
    uint32_t most = na_reader_header(reader)->threads_most;
    uint32_t peak = threads_seen(reader, most != 0);
    if (most != 0) return most > peak ? most : peak;
    /* A file of an older writer, which counted threads of its own as well. */
    na_thread_table_t threads = na_reader_threads(reader);
    uint64_t *starts = calloc((size_t)threads.count + 1, sizeof *starts);
    uint64_t *ends = calloc((size_t)threads.count + 1, sizeof *ends);
    size_t n = 0;
    for (uint32_t i = 1; starts != NULL && ends != NULL && i < threads.count; i++) {
        if (threads.items[i].tid == 0) continue;
        starts[n] = threads.items[i].start_ms;
        ends[n++] = threads.items[i].end_ms;
    }
    if (n != 0) {
        qsort(starts, n, sizeof *starts, ages_by_value);
        qsort(ends, n, sizeof *ends, ages_by_value);
    }
    /* One that ends in the millisecond in which another begins is taken to have ended before. */
    for (size_t i = 0, ended = 0; i < n; i++) {
        while (ended < n && ends[ended] <= starts[i])
            ended++;
        if (i + 1 > ended && i + 1 - ended > peak) peak = (uint32_t)(i + 1 - ended);
    }
    free(starts);
    free(ends);
    return peak;
}
