/* html_details.c - sizes and lifetimes: of the whole, over time, and of each site that is told
 * apart, with who freed its blocks and how they grew. From a trace all of it is exact for the first
 * NA_WEBPAGE_COURSES sites; otherwise a site has its lifetimes only. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/page/html_page.h"
#include "profiler/dump/ui/text.h"

#define HEATS      200u /* sites with a map of their own */
#define MOST_PAIRS 256u /* of one site */

/* ---- axes and lists ---- */

/* The lower end of a bucket that holds 2^(n-1) up to 2^n. */
static double bucket_from(uint32_t bucket) {
    return bucket == 0 ? 0 : (double)(UINT64_C(1) << (bucket - 1));
}

static void put_sizes_axis(na_json_t *json, uint32_t from, uint32_t upto) {
    char text[NA_TEXT];
    na_json_array(json, NULL);
    for (uint32_t i = from; i <= upto; i++)
        na_json_string(json, NULL, na_text_bytes(text, bucket_from(i)));
    na_json_end(json);
}

static void put_ages_axis(const na_webpage_t *r, uint32_t from, uint32_t upto) {
    double ns = na_age_ns(na_reader_header(r->in->reader));
    char text[NA_TEXT];
    na_json_array(r->json, NULL);
    for (uint32_t i = from; i <= upto; i++) {
        double age = bucket_from(i) * ns;
        if (age < 1e3)
            snprintf(text, sizeof text, "%.0f ns", age);
        else if (age < 1e6)
            snprintf(text, sizeof text, "%.3g us", age / 1e3);
        else if (age < 1e9)
            snprintf(text, sizeof text, "%.3g ms", age / 1e6);
        else
            snprintf(text, sizeof text, "%.3g s", age / 1e9);
        na_json_string(r->json, NULL, text);
    }
    na_json_end(r->json);
}

/* First and last bucket that is not empty. False: all are. */
static bool used_buckets(const uint64_t *counts, uint32_t buckets, uint32_t *from, uint32_t *upto) {
    bool any = false;
    for (uint32_t i = 0; i < buckets; i++) {
        if (counts[i] == 0) continue;
        if (!any) *from = i;
        *upto = i;
        any = true;
    }
    return any;
}

static void put_bucket_counts(const na_webpage_t *r, const uint64_t *counts, uint32_t from,
                              uint32_t upto, bool scaled) {
    na_json_array(r->json, NULL);
    for (uint32_t i = from; i <= upto; i++)
        na_json_number(r->json, NULL,
                       scaled ? na_view_count(r->in, (double)counts[i]) : (double)counts[i]);
    na_json_end(r->json);
}

/* ---- the whole ---- */

static void put_histogram(const na_webpage_t *r, const char *id, const char *name, const char *term,
                          const uint64_t *counts, uint32_t buckets, bool ages) {
    uint32_t from = 0, upto = 0;
    if (!used_buckets(counts, buckets, &from, &upto)) return;
    na_json_object(r->json, NULL);
    na_json_string(r->json, "id", id);
    na_json_string(r->json, "name", name);
    na_json_string(r->json, "unit", "count");
    na_json_string(r->json, "term", term);
    na_json_key(r->json, "x");
    if (ages)
        put_ages_axis(r, from, upto);
    else
        put_sizes_axis(r->json, from, upto);
    na_json_key(r->json, "values");
    put_bucket_counts(r, counts, from, upto, true);
    na_json_end(r->json);
}

/* Sizes over time: points of the recorder's series are put together to at most NA_BLOCKS_POINTS. */
static uint32_t sizes_over_time(const na_webpage_t *r, uint64_t *grid, double *interval_ms) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    if (r->blocks != NULL) {
        memcpy(grid, na_blocks_over_time(r->blocks),
               sizeof *grid * NA_NPROF_SIZE_BUCKETS * NA_BLOCKS_POINTS);
        *interval_ms = (double)(h->last_ms + 1) / NA_BLOCKS_POINTS;
        return NA_BLOCKS_POINTS;
    }
    na_series_table_t series = na_reader_series(r->in->reader, NA_NPROF_SERIES_SIZES);
    uint32_t together = (series.count + NA_BLOCKS_POINTS - 1) / NA_BLOCKS_POINTS;
    if (together == 0) return 0;
    for (uint32_t row = 0; row < series.rows; row++) {
        uint32_t bucket = series.row[row].id;
        if (bucket >= NA_NPROF_SIZE_BUCKETS) continue;
        for (uint32_t p = 0; p < series.count; p++)
            grid[bucket * NA_BLOCKS_POINTS + p / together] +=
                series.values[(size_t)row * series.count + p];
    }
    *interval_ms = (double)series.interval_ms * together;
    return (series.count + together - 1) / together;
}

static void put_over_time(na_webpage_t *r) {
    uint64_t *grid = calloc(NA_NPROF_SIZE_BUCKETS * NA_BLOCKS_POINTS, sizeof *grid);
    uint64_t sums[NA_NPROF_SIZE_BUCKETS] = {0};
    double interval = 0;
    uint32_t from = 0, upto = 0;
    if (grid == NULL) {
        r->out_of_memory = true;
        return;
    }
    uint32_t points = sizes_over_time(r, grid, &interval);
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
        for (uint32_t p = 0; p < points; p++)
            sums[s] += grid[s * NA_BLOCKS_POINTS + p];
    if (points > 1 && used_buckets(sums, NA_NPROF_SIZE_BUCKETS, &from, &upto)) {
        na_json_t *json = r->json;
        char text[NA_TEXT];
        na_json_object(json, NULL);
        na_json_string(json, "id", "size-time");
        na_json_string(json, "name", "Allocations by time and size");
        na_json_string(json, "term", "sizeTime");
        na_json_string(json, "xName", "time from");
        na_json_string(json, "yName", "size from");
        na_json_array(json, "x");
        for (uint32_t p = 0; p < points; p++)
            na_json_string(json, NULL, na_text_ms(text, (uint64_t)(p * interval)));
        na_json_end(json);
        na_json_key(json, "y");
        put_sizes_axis(json, from, upto);
        na_json_array(json, "values");
        for (uint32_t s = from; s <= upto; s++)
            put_bucket_counts(r, &grid[s * NA_BLOCKS_POINTS], 0, points - 1, true);
        na_json_end(json);
        na_json_end(json);
    }
    free(grid);
}

static void put_distributions(na_webpage_t *r) {
    static na_nprof_sizes_t sizes; /* 16 KiB: not for the stack */
    uint64_t lives[NA_NPROF_AGE_BUCKETS] = {0}, freed[NA_NPROF_SIZE_BUCKETS] = {0};
    uint32_t from = 0, upto = 0, low = 0, high = 0;
    na_json_t *json = r->json;
    if (r->blocks != NULL)
        sizes = *na_blocks_sizes(r->blocks);
    else
        na_sizes_fold(r->in->reader, &sizes);
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
        for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++) {
            lives[a] += sizes.lives[s][a];
            freed[s] += sizes.lives[s][a];
        }
    na_json_array(json, "histograms");
    put_histogram(r, "sizes", "Allocations by requested size, from", "sizes", sizes.allocs,
                  NA_NPROF_SIZE_BUCKETS, false);
    put_histogram(r, "lives", "Frees by lifetime, from", "lifetime", lives, NA_NPROF_AGE_BUCKETS,
                  true);
    put_histogram(r, "grown", "Reallocs by how much larger the block became, from", "realloc",
                  sizes.grown, NA_NPROF_SIZE_BUCKETS, false);
    put_histogram(r, "shrunk", "Reallocs by how much smaller the block became, from", "realloc",
                  sizes.shrunk, NA_NPROF_SIZE_BUCKETS, false);
    na_json_end(json);
    na_json_array(json, "heat");
    put_over_time(r);
    if (used_buckets(freed, NA_NPROF_SIZE_BUCKETS, &from, &upto) &&
        used_buckets(lives, NA_NPROF_AGE_BUCKETS, &low, &high)) {
        na_json_object(json, NULL);
        na_json_string(json, "id", "lifetime-size");
        na_json_string(json, "name", "Frees by size and lifetime");
        na_json_string(json, "term", "lifetimeSize");
        na_json_string(json, "xName", "size from");
        na_json_string(json, "yName", "lifetime from");
        na_json_key(json, "x");
        put_sizes_axis(json, from, upto);
        na_json_key(json, "y");
        put_ages_axis(r, low, high);
        na_json_array(json, "values");
        for (uint32_t a = low; a <= high; a++) {
            na_json_array(json, NULL);
            for (uint32_t s = from; s <= upto; s++)
                na_json_number(json, NULL, na_view_count(r->in, (double)sizes.lives[s][a]));
            na_json_end(json);
        }
        na_json_end(json);
        na_json_end(json);
    }
    na_json_end(json);
}

/* ---- sites ---- */

static void put_list(const na_webpage_t *r, const char *name, const uint64_t *counts,
                     uint32_t buckets) {
    uint32_t from = 0, upto = 0;
    if (!used_buckets(counts, buckets, &from, &upto)) return;
    na_json_object(r->json, name);
    na_json_u64(r->json, "from", from);
    na_json_key(r->json, "values");
    put_bucket_counts(r, counts, from, upto, false);
    na_json_end(r->json);
}

static void put_pairs(const na_webpage_t *r, const na_handovers_t *pairs) {
    if (pairs->count == 0) return;
    na_json_array(r->json, "pairs");
    for (size_t i = 0; i < pairs->count && i < MOST_PAIRS; i++) {
        const na_handover_t *p = &pairs->items[i];
        na_json_array(r->json, NULL);
        na_json_u64(r->json, NULL, p->from);
        na_json_u64(r->json, NULL, p->to);
        na_json_number(r->json, NULL, na_view_count(r->in, (double)p->count));
        na_json_end(r->json);
    }
    na_json_end(r->json);
}

static void put_chains(const na_webpage_t *r, const na_chains_t *c) {
    if (c->count == 0) return;
    na_json_object(r->json, "chains");
    na_json_u64(r->json, "count", c->count);
    na_json_u64(r->json, "steps", c->steps);
    na_json_u64(r->json, "in_place", c->in_place);
    na_json_u64(r->json, "first_bytes", c->first_bytes);
    na_json_u64(r->json, "last_bytes", c->last_bytes);
    na_json_u64(r->json, "moved_bytes", c->moved_bytes);
    na_json_key(r->json, "by_steps");
    put_bucket_counts(r, c->by_steps, 0, NA_CHAIN_STEPS - 1, false);
    na_json_object(r->json, "longest");
    na_json_u64(r->json, "steps", c->trail_steps);
    na_json_array(r->json, "sizes");
    for (uint32_t i = 0; i < c->trail_count; i++)
        na_json_u64(r->json, NULL, c->trail[i]);
    na_json_end(r->json);
    na_json_end(r->json);
    na_json_end(r->json);
}

/* Size (columns) by lifetime (rows); nothing to see in a single column or row. */
static void put_heat(const na_webpage_t *r, const na_site_blocks_t *b) {
    uint64_t sizes[NA_NPROF_SIZE_BUCKETS] = {0}, lives[NA_NPROF_AGE_BUCKETS] = {0};
    uint32_t from = 0, upto = 0, low = 0, high = 0;
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
        for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++) {
            sizes[s] += b->lives[s][a];
            lives[a] += b->lives[s][a];
        }
    if (!used_buckets(sizes, NA_NPROF_SIZE_BUCKETS, &from, &upto) || from == upto ||
        !used_buckets(lives, NA_NPROF_AGE_BUCKETS, &low, &high))
        return;
    na_json_object(r->json, "heat");
    na_json_u64(r->json, "size_from", from);
    na_json_u64(r->json, "life_from", low);
    na_json_array(r->json, "values");
    for (uint32_t a = low; a <= high; a++) {
        na_json_array(r->json, NULL);
        for (uint32_t s = from; s <= upto; s++)
            na_json_u64(r->json, NULL, b->lives[s][a]);
        na_json_end(r->json);
    }
    na_json_end(r->json);
    na_json_end(r->json);
}

static void put_reallocs(const na_webpage_t *r, const na_counters_t *sum) {
    if (sum->realloc_count != 0) {
        na_json_object(r->json, "reallocs");
        na_json_number(r->json, "count", na_view_count(r->in, (double)sum->realloc_count));
        na_json_u64(r->json, "larger", sum->realloc_grow_bytes);
        na_json_u64(r->json, "smaller", sum->realloc_shrink_bytes);
        na_json_u64(r->json, "moved", sum->realloc_copy_bytes);
        na_json_end(r->json);
    }
    if (sum->growth_count != 0) {
        na_json_object(r->json, "copying");
        na_json_u64(r->json, "count", sum->growth_count);
        na_json_u64(r->json, "larger", sum->growth_bytes);
        na_json_u64(r->json, "copied", sum->growth_copied);
        na_json_end(r->json);
    }
}

static void put_site_detail(na_webpage_t *r, uint32_t row, const na_lives_table_t *lives) {
    const na_counters_t *sum = &r->sites[row].sum;
    const na_site_blocks_t *b = na_blocks_site(r->blocks, row);
    if (sum->alloc_count != 0 && sum->size_min <= sum->size_max) {
        na_json_array(r->json, "size");
        na_json_u64(r->json, NULL, sum->size_min);
        na_json_u64(r->json, NULL, sum->size_max);
        na_json_end(r->json);
    }
    if (b == NULL) {
        const na_site_lives_t *of = na_lives_of(lives, r->sites[row].id);
        if (of != NULL) put_list(r, "lives", of->count, NA_NPROF_AGE_BUCKETS);
        if (r->site_handed != NULL && row < NA_WEBPAGE_COURSES) put_pairs(r, &r->site_handed[row]);
    } else {
        uint64_t ages[NA_NPROF_AGE_BUCKETS] = {0};
        for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
            for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++)
                ages[a] += b->lives[s][a];
        put_list(r, "lives", ages, NA_NPROF_AGE_BUCKETS);
        put_list(r, "sizes", b->sizes, NA_NPROF_SIZE_BUCKETS);
        if (row < na_webpage_most(r, HEATS)) put_heat(r, b);
        put_pairs(r, &b->pairs);
        put_chains(r, &b->chains);
    }
    put_reallocs(r, sum);
}

static void put_site_details(na_webpage_t *r) {
    na_lives_table_t lives;
    r->out_of_memory |= !na_lives_fold(r->in->reader, &lives);
    na_json_number(r->json, "age_ns", na_age_ns(na_reader_header(r->in->reader)));
    na_json_object(r->json, "site_details");
    for (uint32_t i = 0; i < r->site_count && !r->out_of_memory; i++) {
        if (r->sites[i].id == 0 || (r->sites[i].id & NA_WEBPAGE_OLD) != 0) continue;
        char row[12];
        snprintf(row, sizeof row, "%" PRIu32, i);
        na_json_object(r->json, row);
        na_json_string(r->json, "seen_by", na_blocks_site(r->blocks, i) != NULL ? "trace" : "sums");
        put_site_detail(r, i, &lives);
        na_json_end(r->json);
    }
    na_json_end(r->json);
    na_lives_free(&lives);
}

void na_webpage_details(na_webpage_t *r) {
    put_site_details(r);
    put_distributions(r);
}
