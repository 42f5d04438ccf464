/* html_details.c - sizes and lifetimes: of the whole, over time, and of each site that is told
 * apart, with who freed its blocks and how they grew. From a trace all of it is exact for the first
 * NA_REPORT_COURSES sites; otherwise a site has its lifetimes only. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/page/html.h"
#include "profiler/dump/ui/text.h"

#define HEATS      200u /* sites with a map of their own */
#define MOST_PAIRS 256u /* of one site */

/* ---- axes and lists ---- */

/* The lower end of a bucket that holds 2^(n-1) up to 2^n. */
static double bucket_from(uint32_t bucket) {
    return bucket == 0 ? 0 : (double)(UINT64_C(1) << (bucket - 1));
}

static void put_sizes_axis(FILE *to, uint32_t from, uint32_t upto) {
    char text[NA_TEXT];
    putc('[', to);
    for (uint32_t i = from; i <= upto; i++) {
        if (i != from) putc(',', to);
        na_json_put(to, na_text_bytes(text, bucket_from(i)));
    }
    putc(']', to);
}

static void put_ages_axis(const na_report_t *r, uint32_t from, uint32_t upto) {
    double ns = na_age_ns(na_reader_header(r->in->reader));
    char text[NA_TEXT];
    putc('[', r->json);
    for (uint32_t i = from; i <= upto; i++) {
        double age = bucket_from(i) * ns;
        if (i != from) putc(',', r->json);
        if (age < 1e3)
            snprintf(text, sizeof text, "%.0f ns", age);
        else if (age < 1e6)
            snprintf(text, sizeof text, "%.3g us", age / 1e3);
        else if (age < 1e9)
            snprintf(text, sizeof text, "%.3g ms", age / 1e6);
        else
            snprintf(text, sizeof text, "%.3g s", age / 1e9);
        na_json_put(r->json, text);
    }
    putc(']', r->json);
}

/* First and last bucket that is not empty. False: all are. */
static bool ends_of(const uint64_t *counts, uint32_t buckets, uint32_t *from, uint32_t *upto) {
    bool any = false;
    for (uint32_t i = 0; i < buckets; i++) {
        if (counts[i] == 0) continue;
        if (!any) *from = i;
        *upto = i;
        any = true;
    }
    return any;
}

static void put_counts(const na_report_t *r, const uint64_t *counts, uint32_t from, uint32_t upto,
                       bool scaled) {
    putc('[', r->json);
    for (uint32_t i = from; i <= upto; i++) {
        if (i != from) putc(',', r->json);
        na_json_number(r->json,
                       scaled ? na_view_count(r->in, (double)counts[i]) : (double)counts[i]);
    }
    putc(']', r->json);
}

/* ---- the whole ---- */

static void put_histogram(const na_report_t *r, const char *id, const char *name, const char *term,
                          const uint64_t *counts, uint32_t buckets, bool ages, size_t *shown) {
    uint32_t from = 0, upto = 0;
    if (!ends_of(counts, buckets, &from, &upto)) return;
    fprintf(r->json, "%s{\"id\":\"%s\",\"name\":\"%s\",\"unit\":\"count\",\"term\":\"%s\",\"x\":",
            (*shown)++ == 0 ? "" : ",", id, name, term);
    if (ages)
        put_ages_axis(r, from, upto);
    else
        put_sizes_axis(r->json, from, upto);
    fputs(",\"values\":", r->json);
    put_counts(r, counts, from, upto, true);
    putc('}', r->json);
}

/* Sizes over time: points of the recorder's series are put together to at most NA_BLOCKS_POINTS. */
static uint32_t sizes_over_time(const na_report_t *r, uint64_t *grid, double *interval_ms) {
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

static void put_over_time(na_report_t *r, size_t *shown) {
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
    if (points > 1 && ends_of(sums, NA_NPROF_SIZE_BUCKETS, &from, &upto)) {
        FILE *to = r->json;
        char text[NA_TEXT];
        fprintf(to,
                "%s{\"id\":\"size-time\",\"name\":\"Allocations by time and size\",\"term\":"
                "\"sizeTime\",\"xName\":\"time from\",\"yName\":\"size from\",\"x\":[",
                (*shown)++ == 0 ? "" : ",");
        for (uint32_t p = 0; p < points; p++) {
            if (p != 0) putc(',', to);
            na_json_put(to, na_text_ms(text, (uint64_t)(p * interval)));
        }
        fputs("],\"y\":", to);
        put_sizes_axis(to, from, upto);
        fputs(",\"values\":[", to);
        for (uint32_t s = from; s <= upto; s++) {
            if (s != from) putc(',', to);
            put_counts(r, &grid[s * NA_BLOCKS_POINTS], 0, points - 1, true);
        }
        fputs("]}", to);
    }
    free(grid);
}

static void put_distributions(na_report_t *r) {
    static na_nprof_sizes_t sizes; /* 16 KiB: not for the stack */
    uint64_t lives[NA_NPROF_AGE_BUCKETS] = {0}, freed[NA_NPROF_SIZE_BUCKETS] = {0};
    uint32_t from = 0, upto = 0, low = 0, high = 0;
    size_t shown = 0;
    FILE *to = r->json;
    if (r->blocks != NULL)
        sizes = *na_blocks_sizes(r->blocks);
    else
        na_sizes_fold(r->in->reader, &sizes);
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
        for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++) {
            lives[a] += sizes.lives[s][a];
            freed[s] += sizes.lives[s][a];
        }
    fputs(",\"histograms\":[", to);
    put_histogram(r, "sizes", "Allocations by requested size, from", "sizes", sizes.allocs,
                  NA_NPROF_SIZE_BUCKETS, false, &shown);
    put_histogram(r, "lives", "Frees by lifetime, from", "lifetime", lives, NA_NPROF_AGE_BUCKETS,
                  true, &shown);
    put_histogram(r, "grown", "Reallocs by how much larger the block became, from", "realloc",
                  sizes.grown, NA_NPROF_SIZE_BUCKETS, false, &shown);
    put_histogram(r, "shrunk", "Reallocs by how much smaller the block became, from", "realloc",
                  sizes.shrunk, NA_NPROF_SIZE_BUCKETS, false, &shown);
    fputs("],\"heat\":[", to);
    shown = 0;
    put_over_time(r, &shown);
    if (ends_of(freed, NA_NPROF_SIZE_BUCKETS, &from, &upto) &&
        ends_of(lives, NA_NPROF_AGE_BUCKETS, &low, &high)) {
        fprintf(to,
                "%s{\"id\":\"lifetime-size\",\"name\":\"Frees by size and lifetime\",\"term\":"
                "\"lifetimeSize\",\"xName\":\"size from\",\"yName\":\"lifetime from\",\"x\":",
                shown == 0 ? "" : ",");
        put_sizes_axis(to, from, upto);
        fputs(",\"y\":", to);
        put_ages_axis(r, low, high);
        fputs(",\"values\":[", to);
        for (uint32_t a = low; a <= high; a++) {
            fputs(a == low ? "[" : ",[", to);
            for (uint32_t s = from; s <= upto; s++) {
                if (s != from) putc(',', to);
                na_json_number(to, na_view_count(r->in, (double)sizes.lives[s][a]));
            }
            putc(']', to);
        }
        fputs("]}", to);
    }
    putc(']', to);
}

/* ---- sites ---- */

static void put_list(const na_report_t *r, const char *name, const uint64_t *counts,
                     uint32_t buckets) {
    uint32_t from = 0, upto = 0;
    if (!ends_of(counts, buckets, &from, &upto)) return;
    fprintf(r->json, ",\"%s\":{\"from\":%" PRIu32 ",\"values\":", name, from);
    put_counts(r, counts, from, upto, false);
    putc('}', r->json);
}

static void put_pairs(const na_report_t *r, const na_pairs_t *pairs) {
    if (pairs->count == 0) return;
    fputs(",\"pairs\":[", r->json);
    for (size_t i = 0; i < pairs->count && i < MOST_PAIRS; i++) {
        const na_pair_t *p = &pairs->items[i];
        fprintf(r->json, "%s[%" PRIu32 ",%" PRIu32 ",", i == 0 ? "" : ",", p->from, p->to);
        na_json_number(r->json, na_view_count(r->in, (double)p->count));
        putc(']', r->json);
    }
    putc(']', r->json);
}

static void put_chains(const na_report_t *r, const na_chains_t *c) {
    if (c->count == 0) return;
    fprintf(r->json,
            ",\"chains\":{\"count\":%" PRIu64 ",\"steps\":%" PRIu64 ",\"in_place\":%" PRIu64
            ",\"first_bytes\":%" PRIu64 ",\"last_bytes\":%" PRIu64 ",\"moved_bytes\":%" PRIu64
            ",\"by_steps\":",
            c->count, c->steps, c->in_place, c->first_bytes, c->last_bytes, c->moved_bytes);
    put_counts(r, c->by_steps, 0, NA_CHAIN_STEPS - 1, false);
    fprintf(r->json, ",\"longest\":{\"steps\":%" PRIu32 ",\"sizes\":[", c->trail_steps);
    for (uint32_t i = 0; i < c->trail_count; i++)
        fprintf(r->json, "%s%" PRIu64, i == 0 ? "" : ",", c->trail[i]);
    fputs("]}}", r->json);
}

/* Size (columns) by lifetime (rows); nothing to see in a single column or row. */
static void put_heat(const na_report_t *r, const na_site_blocks_t *b) {
    uint64_t sizes[NA_NPROF_SIZE_BUCKETS] = {0}, lives[NA_NPROF_AGE_BUCKETS] = {0};
    uint32_t from = 0, upto = 0, low = 0, high = 0;
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
        for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++) {
            sizes[s] += b->lives[s][a];
            lives[a] += b->lives[s][a];
        }
    if (!ends_of(sizes, NA_NPROF_SIZE_BUCKETS, &from, &upto) || from == upto ||
        !ends_of(lives, NA_NPROF_AGE_BUCKETS, &low, &high))
        return;
    fprintf(r->json, ",\"heat\":{\"size_from\":%" PRIu32 ",\"life_from\":%" PRIu32 ",\"values\":[",
            from, low);
    for (uint32_t a = low; a <= high; a++) {
        fputs(a == low ? "[" : ",[", r->json);
        for (uint32_t s = from; s <= upto; s++)
            fprintf(r->json, "%s%" PRIu32, s == from ? "" : ",", b->lives[s][a]);
        putc(']', r->json);
    }
    fputs("]}", r->json);
}

static void put_reallocs(const na_report_t *r, const na_counters_t *sum) {
    if (sum->realloc_count != 0) {
        fputs(",\"reallocs\":{\"count\":", r->json);
        na_json_number(r->json, na_view_count(r->in, (double)sum->realloc_count));
        fprintf(r->json, ",\"larger\":%" PRIu64 ",\"smaller\":%" PRIu64 ",\"moved\":%" PRIu64 "}",
                sum->realloc_grow_bytes, sum->realloc_shrink_bytes, sum->realloc_copy_bytes);
    }
    if (sum->growth_count != 0)
        fprintf(r->json,
                ",\"copying\":{\"count\":%" PRIu64 ",\"larger\":%" PRIu64 ",\"copied\":%" PRIu64
                "}",
                sum->growth_count, sum->growth_bytes, sum->growth_copied);
}

static void put_site(na_report_t *r, uint32_t row, const na_lives_table_t *lives) {
    const na_counters_t *sum = &r->sites[row].sum;
    const na_site_blocks_t *b = na_blocks_site(r->blocks, row);
    if (sum->alloc_count != 0 && sum->size_min <= sum->size_max)
        fprintf(r->json, ",\"size\":[%" PRIu64 ",%" PRIu64 "]", sum->size_min, sum->size_max);
    if (b == NULL) {
        const na_site_lives_t *of = na_lives_of(lives, r->sites[row].id);
        if (of != NULL) put_list(r, "lives", of->count, NA_NPROF_AGE_BUCKETS);
        if (r->site_handed != NULL && row < NA_REPORT_COURSES) put_pairs(r, &r->site_handed[row]);
    } else {
        uint64_t ages[NA_NPROF_AGE_BUCKETS] = {0};
        for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
            for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++)
                ages[a] += b->lives[s][a];
        put_list(r, "lives", ages, NA_NPROF_AGE_BUCKETS);
        put_list(r, "sizes", b->sizes, NA_NPROF_SIZE_BUCKETS);
        if (row < na_report_most(r, HEATS)) put_heat(r, b);
        put_pairs(r, &b->pairs);
        put_chains(r, &b->chains);
    }
    put_reallocs(r, sum);
}

static void put_sites(na_report_t *r) {
    na_lives_table_t lives;
    r->out_of_memory |= !na_lives_fold(r->in->reader, &lives);
    fputs(",\"age_ns\":", r->json);
    na_json_number(r->json, na_age_ns(na_reader_header(r->in->reader)));
    fputs(",\"site_details\":{", r->json);
    for (uint32_t i = 0, count = 0; i < r->site_count && !r->out_of_memory; i++) {
        if (r->sites[i].id == 0 || (r->sites[i].id & NA_REPORT_OLD) != 0) continue;
        fprintf(r->json, "%s\"%" PRIu32 "\":{\"seen_by\":%s", count++ == 0 ? "" : ",", i,
                na_blocks_site(r->blocks, i) != NULL ? "\"trace\"" : "\"sums\"");
        put_site(r, i, &lives);
        putc('}', r->json);
    }
    putc('}', r->json);
    na_lives_free(&lives);
}

void na_report_details(na_report_t *r) {
    put_sites(r);
    put_distributions(r);
}
