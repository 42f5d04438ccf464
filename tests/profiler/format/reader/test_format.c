/* test_format.c - reader.c: the profile reader and the analysis on whole, cut, damaged and hostile
 * files. */
#include <criterion/criterion.h>
#include <math.h>
#include <stdio.h>
#include <string.h>
#include <sys/stat.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/function_costs.h"
#include "profiler/analyze/blocks/site_sums.h"
#include "tests/support/nprof_make.h"

TestSuite(format, .timeout = 300);

/* With sanitizers a part of the bits will do: they look for other faults, and take longer. */
#define STEP 1
#if defined(__has_feature)
#if __has_feature(address_sanitizer)
#undef STEP
#define STEP 5
#endif
#endif

static char message[512];

static na_reader_t *open_made(const na_make_t *m, size_t size) {
    message[0] = 0;
    return na_reader_open_fd(na_make_fd(m, size), "made", message, sizeof message);
}

static na_reader_t *must_open(const na_make_t *m) {
    na_reader_t *r = open_made(m, m->size);
    cr_assert_not_null(r, "%s", message);
    return r;
}

static bool has_issue(const na_reader_t *r, const char *part) {
    for (uint32_t i = 0; i < na_reader_issue_count(r); i++) {
        char text[256];
        na_reader_issue_text(r, i, text, sizeof text);
        cr_assert_neq(text[0], 0);
        if (strstr(text, part) != NULL) return true;
    }
    return false;
}

/* Reads all that there is, and checks the promises that hold for any file. */
static void read_all(na_reader_t *r) {
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    na_sites_sort(&sites, NA_ORDER_PEAK);
    na_stack_table_t stacks = na_reader_stacks(r);
    cr_assert_geq(stacks.count, NA_NPROF_ROOT + 1);
    for (uint32_t id = NA_NPROF_ROOT + 1; id < stacks.count; id++) {
        if (stacks.items[id].flags == 0) continue;
        uint32_t parent = stacks.items[id].parent;
        cr_assert(parent >= NA_NPROF_ROOT && parent < id && stacks.items[parent].flags != 0);
    }
    for (size_t i = 0; i < sites.count; i++)
        cr_assert(sites.items[i].site == 0 || sites.items[i].site < stacks.count);
    na_thread_table_t threads = na_reader_threads(r);
    for (uint32_t i = 0; i < threads.count; i++)
        cr_assert_lt(strnlen(threads.items[i].name, 16), 16);
    na_module_table_t modules = na_reader_modules(r);
    for (uint32_t i = 0; i < modules.count; i++)
        cr_assert_lt(strnlen(modules.items[i].path, sizeof modules.items[i].path),
                     sizeof modules.items[i].path);
    uint32_t count = 0, interval = 0;
    if (na_reader_timeline(r, &count, &interval) != NULL)
        cr_assert(count > 0 && count <= NA_NPROF_POINTS && interval > 0);
    size_t size;
    const char *environment = na_reader_environment(r, &size);
    if (environment != NULL) cr_assert_eq(environment[size - 1], 0);
    na_sites_free(&sites);
}

static const na_site_t *site_of(const na_sites_t *sites, uint32_t id) {
    for (size_t i = 0; i < sites->count; i++) {
        if (sites->items[i].site == id) return &sites->items[i];
    }
    cr_assert_fail("no site %u", id);
    return NULL;
}

Test(format, whole_file) {
    na_make_t m;
    na_make_sample_file(&m);
    na_reader_t *r = must_open(&m);
    read_all(r);
    cr_assert_eq(na_reader_issue_count(r), 0);
    cr_assert_eq(na_reader_header(r)->pid, 4242);
    cr_assert_eq(na_reader_stacks(r).count, 6);
    na_thread_table_t threads = na_reader_threads(r);
    cr_assert_eq(threads.count, 3);
    cr_assert_str_eq(threads.items[2].name, "second");
    cr_assert_str_eq(na_reader_modules(r).items[1].path, "/nowhere/made");
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(r, &count, &interval);
    cr_assert(count == 10 && interval == 100 && points[9].requested_max == 900);
    size_t size;
    const char *environment = na_reader_environment(r, &size);
    cr_assert_str_eq(environment, "NUMALLOC_PROFILE=sites");
    cr_assert_str_eq(environment + strlen(environment) + 1, "LD_PRELOAD=x");
    na_reader_close(r);
    free(m.bytes);
}

Test(format, parts_of_sites) {
    na_make_t m;
    na_make_sample_file(&m);
    na_reader_t *r = must_open(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    const na_site_t *four = site_of(&sites, 4);
    cr_assert_eq(four->sum.local_peak_bytes, 800, "two cells: what they published together");
    cr_assert(four->local_peak_known);
    na_sites_free(&sites);

    na_lives_table_t lives;
    cr_assert(na_lives_fold(r, &lives));
    cr_assert_eq(lives.count, 1);
    cr_assert_eq(na_lives_of(&lives, 4)->count[0], 2);
    cr_assert_eq(na_lives_of(&lives, 4)->count[7], (UINT64_C(1) << 32) + 5);
    cr_assert_null(na_lives_of(&lives, 5));
    na_lives_free(&lives);

    na_maps_table_t maps;
    cr_assert(na_maps_fold(r, &maps));
    cr_assert(maps.count == 1 && maps.items[0].site == 5 && maps.items[0].bytes == 12288);
    na_maps_free(&maps);

    na_nprof_sizes_t sizes;
    na_sizes_fold(r, &sizes);
    cr_assert(sizes.allocs[7] == 10 && sizes.allocs[6] == 2 && sizes.lives[7][7] == 7);

    na_series_table_t series = na_reader_series(r, NA_NPROF_SERIES_SITES);
    cr_assert(series.rows == 1 && series.count == 3 && series.interval_ms == 100);
    cr_assert(series.row[0].id == 4 && series.values[0] == 0 && series.values[1] == 701 &&
              series.values[2] == 301);
    cr_assert_eq(na_reader_series(r, NA_NPROF_SERIES_NODES).count, 0);
    cr_assert_eq(na_reader_series(r, 99).count, 0);
    cr_assert_eq(na_threads_peak(r), 2);
    cr_assert_eq(na_reader_issue_count(r), 0);
    na_reader_close(r);
    free(m.bytes);
}

Test(format, metrics_are_reduced_as_their_table_says) {
    na_counters_t a = na_counters_none(), b = a;
    a.alloc_count = 4, a.alloc_bytes = 400, a.local_peak_bytes = 100, a.size_min = 100;
    a.align_mask = 1u << 6;
    b.alloc_count = 2, b.alloc_bytes = 20, b.local_peak_bytes = 20, b.size_min = 10;
    b.align_mask = 1u << 12;
    na_counters_add(&a, &b);
    cr_assert(a.alloc_count == 6 && a.alloc_bytes == 420);
    cr_assert_eq(a.local_peak_bytes, 100, "two moments do not add");
    cr_assert(a.size_min == 10 && a.align_mask == (1u << 6 | 1u << 12));
    unsigned found = 0;
    for (size_t i = 0; i < na_metric_count(); i++) {
        const na_site_metric_t *metric = &na_metrics[i];
        double value = na_metric_value(i, &a, 1);
        if (strcmp(metric->name, "size_mean") == 0) {
            cr_assert(metric->derived && !metric->alone);
            cr_assert_float_eq(value, 70, 1e-9);
            found++;
        } else if (strcmp(metric->name, "recycling_ratio") == 0) {
            cr_assert(metric->alone);
            found++;
        } else if (strcmp(metric->name, "local_peak_bytes") == 0) {
            cr_assert_eq(metric->reduction, NA_REDUCTION_MAX);
            found++;
        } else if (strcmp(metric->name, "lifetime_min") == 0) {
            cr_assert(isnan(value), "nothing was freed");
            found++;
        }
    }
    cr_assert_eq(found, 4);
    cr_assert(isnan(na_metric_value(na_metric_count(), &a, 1)));
}

Test(format, peak_rule_sums_over_threads) {
    na_make_t m;
    na_make_sample_file(&m);
    na_reader_t *r = must_open(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(sites.count, 2);
    const na_counters_t *four = &site_of(&sites, 4)->sum, *five = &site_of(&sites, 5)->sum;
    cr_assert_eq(four->peak_bytes, 1000 - 300); /* live of the one cell, saved of the other */
    cr_assert_eq(four->peak_count, 7);
    cr_assert_eq(four->live_bytes, 300);
    cr_assert_eq(four->size_min, 100); /* the cell that only freed does not count */
    cr_assert_eq(four->cross_thread_free_count, 7);
    cr_assert_eq(site_of(&sites, 4)->cells, 2);
    cr_assert_eq(five->peak_bytes, 0);
    cr_assert_eq(five->live_bytes, 100);
    cr_assert_eq(sites.total.peak_bytes, 700);
    cr_assert_eq(sites.total.live_bytes, 400);
    cr_assert_eq(sites.total.alloc_count, 12);
    cr_assert(!sites.peak_is_now);
    cr_assert_eq(sites.depth_max, 3);
    cr_assert_float_eq(sites.depth_mean, (10 * 3 + 2 * 2) / 12.0, 1e-9);
    na_sites_sort(&sites, NA_ORDER_COUNT);
    cr_assert_eq(sites.items[0].site, 4);
    na_sites_free(&sites);
    na_reader_close(r);

    /* The same cells after one more peak: all are unchanged since, so live is the peak. */
    na_make_header(&m)->peak_epoch = 2;
    r = must_open(&m);
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(sites.total.peak_bytes, 400);
    na_sites_free(&sites);
    na_reader_close(r);
    free(m.bytes);
}

/* More lives at the end than at the last published peak: the end is the peak. */
Test(format, unpublished_peak) {
    na_make_t m;
    na_make_begin(&m);
    na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_STACKS, 4096, sizeof(na_nprof_stack_t), 1);
    na_make_stack(c, 0, 0);
    na_make_stack(c, 1, 0x1010);
    c = na_make_chunk(&m, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    na_nprof_cell_t cell = {.site = 2, .peak_epoch = 1, .alloc_count = 1, .alloc_bytes = 64};
    na_make_entry(c, &cell, sizeof cell);
    na_reader_t *r = must_open(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert(sites.peak_is_now);
    cr_assert_eq(sites.total.peak_bytes, 64);
    cr_assert_eq(sites.items[0].sum.peak_count, 1);
    na_sites_free(&sites);
    na_reader_close(r);
    free(m.bytes);
}

/* Functions: 0 main, 1 f (recursive), 2 g, 3 inlined into g. */
static uint32_t frames_of(void *arg, uint32_t node, const uint32_t **ids) {
    (void)arg;
    static const uint32_t main_id[] = {0}, f_id[] = {1}, g_ids[] = {3, 2};
    *ids = node == 2 ? main_id : node == 5 ? g_ids : f_id;
    return node == 5 ? 2 : 1;
}

Test(format, functions_count_recursion_once) {
    na_make_t m;
    na_make_sample_file(&m);
    na_reader_t *r = must_open(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    na_function_t f[4] = {0};
    cr_assert(na_functions_fold(na_reader_stacks(r), &sites, frames_of, NULL, f, 4));
    cr_assert_eq(f[0].below.live_bytes, 400);
    cr_assert_eq(f[0].self.live_bytes, 0);
    cr_assert_eq(f[1].below.live_bytes, 300); /* twice on the stack */
    cr_assert_eq(f[1].self.live_bytes, 300);
    cr_assert_eq(f[2].below.live_bytes, 100);
    cr_assert_eq(f[2].self.live_bytes, 0);
    cr_assert_eq(f[3].self.live_bytes, 100);
    na_sites_free(&sites);
    na_reader_close(r);
    free(m.bytes);
}

Test(format, refuses_what_is_no_profile) {
    na_make_t m;
    na_make_sample_file(&m);
    cr_assert_null(open_made(&m, 0));
    cr_assert(strstr(message, "empty"), "%s", message);
    cr_assert_null(open_made(&m, 100));
    cr_assert(strstr(message, "cut off"), "%s", message);
    na_make_header(&m)->version = NA_NPROF_VERSION + 1;
    na_make_seal_header(&m);
    cr_assert_null(open_made(&m, m.size));
    cr_assert(strstr(message, "version 3"), "%s", message);
    m.bytes[0] = 'x';
    cr_assert_null(open_made(&m, m.size));
    cr_assert(strstr(message, "not a numalloc profile"), "%s", message);
    cr_assert_null(na_reader_open("/", message, sizeof message));
    cr_assert(strstr(message, "directory"), "%s", message);
    cr_assert_null(na_reader_open("/nowhere/at/all", message, sizeof message));
    cr_assert(strstr(message, "cannot open"), "%s", message);
    cr_assert_null(na_reader_open("/dev/null", message, sizeof message));
    cr_assert(strstr(message, "not a regular file"), "%s", message);
    free(m.bytes);
}

Test(format, cut_at_every_page_and_near_it) {
    na_make_t m;
    na_make_sample_file(&m);
    for (size_t page = NA_NPROF_PAGE; page < m.size; page += NA_NPROF_PAGE) {
        for (size_t extra = 0; extra < 200; extra += 40) {
            na_reader_t *r = open_made(&m, page + extra);
            cr_assert_not_null(r, "%s", message);
            read_all(r);
            cr_assert(has_issue(r, "cut short"));
            na_reader_close(r);
        }
    }
    free(m.bytes);
}

/* Entries before the cut are still there. */
Test(format, cut_chunk_keeps_its_beginning) {
    na_make_t m;
    na_make_sample_file(&m);
    na_reader_t *r = open_made(&m, NA_NPROF_PAGE + sizeof(na_nprof_chunk_t) + 4 * 16 + 3);
    cr_assert_not_null(r);
    read_all(r);
    cr_assert_eq(na_reader_stacks(r).count, 4);
    cr_assert(has_issue(r, "lacks its last"));
    na_reader_close(r);
    free(m.bytes);
}

Test(format, every_flipped_bit_of_headers) {
    na_make_t m;
    na_make_sample_file(&m);
    for (size_t page = 0; page < m.size && page < 7 * NA_NPROF_PAGE; page += NA_NPROF_PAGE) {
        size_t end = page == 0 ? NA_NPROF_PAGE : 256;
        for (size_t byte = 0; byte < end; byte++) {
            if (page == 0 && byte == 512) byte = NA_NPROF_MUTABLE - 8; /* program and command */
            for (int bit = 0; bit < 8; bit += page == 0 ? 3 * STEP : STEP) {
                m.bytes[page + byte] ^= (unsigned char)(1 << bit);
                na_reader_t *r = open_made(&m, m.size);
                cr_assert(r != NULL || message[0] != 0);
                if (r != NULL) read_all(r);
                /* A flipped bit of a constant never goes unnoticed. */
                if (r != NULL && page == 0 && byte < NA_NPROF_MUTABLE)
                    cr_assert_gt(na_reader_issue_count(r), 0, "byte %zu", byte);
                if (r != NULL && page > 0 && byte < 52)
                    cr_assert_gt(na_reader_issue_count(r), 0, "page %zu byte %zu", page, byte);
                na_reader_close(r);
                m.bytes[page + byte] ^= (unsigned char)(1 << bit);
            }
        }
    }
    free(m.bytes);
}

/* A chunk that was being born costs itself, not what follows. */
/* Two pages of cells, 100 bytes each. */
static void make_summed(na_make_t *m) {
    na_make_begin(m);
    na_nprof_chunk_t *c = na_make_chunk(m, NA_NPROF_CELLS, 2 * NA_NPROF_PAGE, 256, 0);
    for (int i = 0; i < 20; i++) {
        na_nprof_cell_t cell = {.site = 1, .alloc_count = 1, .alloc_bytes = 100};
        na_make_entry(c, &cell, sizeof cell);
    }
    na_make_sums(m);
}

static void add_bytes(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    (void)thread;
    *(uint64_t *)arg += cell->alloc_bytes;
}

static uint64_t bytes_of(na_reader_t *r) {
    uint64_t bytes = 0;
    na_reader_cells(r, add_bytes, &bytes);
    return bytes;
}

Test(format, damaged_parts_of_a_finished_file_are_left_out) {
    na_make_t m;
    make_summed(&m);
    na_reader_t *r = must_open(&m);
    cr_assert_eq(na_reader_issue_count(r), 0);
    cr_assert_eq(bytes_of(r), 2000);
    na_reader_close(r);
    /* The second page, of which the first 64 bytes are the end of the cell before. */
    m.bytes[2 * NA_NPROF_PAGE + 64 + 8] ^= 16;
    r = must_open(&m);
    cr_assert(has_issue(r, "1 part(s) left out: wrong checksum (first at 8192: cells)"));
    cr_assert_eq(bytes_of(r), 1500);
    na_reader_close(r);
    m.bytes[2 * NA_NPROF_PAGE + 64 + 8] ^= 16;
    for (size_t at = NA_NPROF_MUTABLE; at < m.size; at += at < NA_NPROF_PAGE ? 4 : 97) {
        m.bytes[at] ^= 1;
        r = open_made(&m, m.size);
        cr_assert(r == NULL || na_reader_issue_count(r) != 0, "bit at %zu", at);
        if (r != NULL) na_reader_close(r);
        m.bytes[at] ^= 1;
    }
    free(m.bytes);
}

/* What the chunk says is read once, whatever it says. */
Test(format, hostile_checksums) {
    for (int kind = 0; kind < 5; kind++) {
        na_make_t m;
        make_summed(&m);
        uint64_t at = na_make_header(&m)->sums;
        na_nprof_chunk_t *c = (na_nprof_chunk_t *)(void *)(m.bytes + at);
        na_nprof_sum_t *sum = (na_nprof_sum_t *)(void *)(c + 1);
        if (kind == 0) sum[1].offset = sum[0].offset; /* twice */
        if (kind == 1) sum[0].bytes = NA_NPROF_SUM_BYTES + 1;
        if (kind == 2) sum[1].offset = UINT64_MAX - 4096;
        if (kind == 3) sum[0].offset = 0;
        if (kind == 4) sum[0].bytes = 0;
        c->data_crc = (uint32_t)crc32(0, (const Bytef *)(c + 1), (uInt)(c->length - sizeof *c));
        na_reader_t *r = must_open(&m);
        cr_assert(has_issue(r, "checksums"), "kind %d", kind);
        read_all(r);
        na_reader_close(r);
        for (int b = 0; b < 64; b++) { /* where it should be is no such chunk */
            na_make_header(&m)->sums = UINT64_C(1) << b;
            na_make_finish(&m);
            r = must_open(&m);
            cr_assert(has_issue(r, "checksums"), "at 2^%d", b);
            na_reader_close(r);
        }
        free(m.bytes);
    }
}

Test(format, chunk_without_magic_is_skipped) {
    na_make_t m;
    na_make_sample_file(&m);
    memset(m.bytes + 2 * NA_NPROF_PAGE, 0, sizeof(na_nprof_chunk_t)); /* threads */
    na_reader_t *r = must_open(&m);
    read_all(r);
    cr_assert_eq(na_reader_threads(r).count, 0);
    cr_assert_eq(na_reader_modules(r).count, 2);
    cr_assert(has_issue(r, "1 page(s) skipped"));
    na_reader_close(r);
    free(m.bytes);
}

Test(format, preallocated_tail_is_no_damage) {
    na_make_t m;
    na_make_sample_file(&m);
    m.bytes = realloc(m.bytes, m.size + (1 << 20));
    memset(m.bytes + m.size, 0, 1 << 20);
    m.size += 1 << 20;
    na_reader_t *r = must_open(&m);
    read_all(r);
    cr_assert_eq(na_reader_issue_count(r), 0);
    na_reader_close(r);
    free(m.bytes);
}

Test(format, unknown_type_is_said) {
    na_make_t m;
    na_make_sample_file(&m);
    na_make_chunk(&m, 999, 8192, 24, 0);
    na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    na_nprof_cell_t cell = {.site = 3, .alloc_count = 1, .alloc_bytes = 5};
    na_make_entry(c, &cell, sizeof cell);
    na_reader_t *r = must_open(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(site_of(&sites, 3)->sum.alloc_bytes, 5); /* what follows is read */
    cr_assert(has_issue(r, "type 999"));
    na_sites_free(&sites);
    na_reader_close(r);
    free(m.bytes);
}

/* A later version appends fields: entries grow, and this reader takes the part that it knows. */
Test(format, larger_entries_are_read) {
    na_make_t m;
    na_make_begin(&m);
    na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_STACKS, 4096, 40, 1);
    na_make_stack(c, 0, 0);
    na_make_stack(c, 1, 0x77);
    na_reader_t *r = must_open(&m);
    cr_assert_eq(na_reader_stacks(r).items[2].pc, 0x77);
    cr_assert_eq(na_reader_issue_count(r), 0);
    na_reader_close(r);
    free(m.bytes);
}

static void copy_marker(void *arg, uint32_t id, const void *entry) {
    (void)id;
    memcpy(arg, entry, sizeof(na_nprof_marker_t));
}

Test(format, markers_of_older_files_have_no_place) {
    const na_nprof_marker_t made = {.ms = 5,
                                    .thread = 1,
                                    .flags = NA_NPROF_MARKER_VALID | NA_NPROF_MARKER_PLACED,
                                    .name = "begin",
                                    .ticks = 77,
                                    .live_bytes = 9};
    for (uint32_t size = NA_NPROF_MARKER_LEAST; size <= sizeof made; size += 8) {
        static na_make_t m;
        na_make_begin(&m);
        na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_MARKERS, NA_NPROF_PAGE, size, 1);
        na_make_entry(c, &made, size);
        na_make_seal(c);
        na_make_finish(&m);
        na_reader_t *r = must_open(&m);
        na_nprof_marker_t seen = {0};
        na_reader_control(r, NA_NPROF_MARKERS, copy_marker, &seen);
        bool whole = size == sizeof made;
        cr_assert(seen.ms == 5 && strcmp(seen.name, "begin") == 0, "%u bytes", size);
        cr_assert_eq(seen.flags & NA_NPROF_MARKER_PLACED, whole ? NA_NPROF_MARKER_PLACED : 0);
        cr_assert(seen.ticks == (whole ? 77 : 0) && seen.live_bytes == (whole ? 9 : 0));
        na_reader_close(r);
    }
}

Test(format, hostile_counts) {
    static const uint32_t bad[] = {0,          1,          7,          64,        0x7fffffff,
                                   0x80000000, 0xfffffff0, 0xffffffff, 0x10000000};
    for (size_t page = 1; page < 7; page++) {
        for (size_t i = 0; i < sizeof bad / sizeof bad[0]; i++) {
            for (int field = 0; field < 5; field++) {
                na_make_t m;
                na_make_sample_file(&m);
                na_nprof_chunk_t *c = (na_nprof_chunk_t *)(void *)(m.bytes + page * NA_NPROF_PAGE);
                uint32_t *at[] = {&c->count, &c->capacity, &c->first_id, &c->entry_size};
                if (field < 4) *at[field] = bad[i];
                if (field == 0) c->capacity = bad[i];
                if (field == 4) c->length = (uint64_t)bad[i] << 20 | 4096;
                na_make_seal(c); /* a hostile file has true checksums */
                na_reader_t *r = open_made(&m, m.size);
                cr_assert_not_null(r);
                read_all(r);
                na_reader_close(r);
                free(m.bytes);
            }
        }
    }
}

/* One terabyte of hole must cost neither time nor memory. */
Test(format, huge_sparse_file, .timeout = 300) {
    na_make_t m;
    na_make_begin(&m);
    na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    c->length = UINT64_C(1) << 39;
    c->capacity = c->count = UINT32_MAX;
    na_make_seal(c);
    na_make_header(&m)->used = UINT64_C(1) << 40;
    int fd = na_make_fd(&m, m.size);
    cr_assert_eq(ftruncate(fd, (off_t)1 << 40), 0);
    na_reader_t *r = na_reader_open_fd(fd, "sparse", message, sizeof message);
    cr_assert_not_null(r, "%s", message);
    read_all(r);
    na_reader_close(r);
    free(m.bytes);
}

Test(format, bad_stacks_lead_to_the_root) {
    na_make_t m;
    na_make_begin(&m);
    na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_STACKS, 4096, sizeof(na_nprof_stack_t), 1);
    na_make_stack(c, 0, 0);
    na_make_stack(c, 3, 0x1); /* a cycle of 2 and 3 */
    na_make_stack(c, 2, 0x2);
    na_make_stack(c, 4, 0x3); /* its own parent */
    na_make_stack(c, 0, 0x4);
    c = na_make_chunk(&m, NA_NPROF_STACKS, 4096, sizeof(na_nprof_stack_t), 3);
    na_make_stack(c, 2, 0x9); /* id 3 again */
    na_reader_t *r = must_open(&m);
    read_all(r);
    cr_assert_eq(na_reader_stacks(r).items[2].parent, NA_NPROF_ROOT);
    cr_assert_eq(na_reader_stacks(r).items[3].pc, 0x2);
    cr_assert(has_issue(r, "lost their outer frames"));
    cr_assert(has_issue(r, "twice"));
    na_reader_close(r);
    free(m.bytes);
}

Test(format, cells_of_missing_stacks_are_kept_apart) {
    na_make_t m;
    na_make_sample_file(&m);
    na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_CELLS, 4096, sizeof(na_nprof_cell_t), 0);
    na_nprof_cell_t cell = {.site = 0xfffffff0, .alloc_count = 1, .alloc_bytes = 11};
    na_make_entry(c, &cell, sizeof cell);
    na_reader_t *r = must_open(&m);
    na_sites_t sites;
    cr_assert(na_sites_fold(r, &sites));
    cr_assert_eq(site_of(&sites, NA_NPROF_NO_STACK)->sum.alloc_bytes, 11);
    cr_assert_eq(sites.total.alloc_bytes, 1111);
    cr_assert(has_issue(r, "stacks that are missing"));
    na_sites_free(&sites);
    na_reader_close(r);
    free(m.bytes);
}

static void sealed_file(na_make_t *m, int compressed) {
    na_make_begin(m);
    na_nprof_chunk_t *c = na_make_chunk(m, NA_NPROF_STACKS, 1 << 20, sizeof(na_nprof_stack_t), 1);
    na_make_stack(c, 0, 0);
    for (uint32_t i = 1; i < 30000; i++)
        na_make_stack(c, i, 0x1000 + i % 7);
    na_make_seal_last(m, c, compressed);
}

Test(format, sealed_chunks) {
    for (int compressed = 0; compressed < 2; compressed++) {
        na_make_t m;
        sealed_file(&m, compressed);
        na_reader_t *r = must_open(&m);
        read_all(r);
        cr_assert_eq(na_reader_issue_count(r), 0);
        cr_assert_eq(na_reader_stacks(r).count, 30001);
        cr_assert_eq(na_reader_stacks(r).items[30000].pc, 0x1000 + 29999 % 7);
        na_reader_close(r);

        m.bytes[NA_NPROF_PAGE + 200] ^= 4;
        r = must_open(&m);
        read_all(r);
        cr_assert(has_issue(r, "wrong checksum"));
        cr_assert_eq(na_reader_stacks(r).count, NA_NPROF_ROOT + 1);
        na_reader_close(r);
        free(m.bytes);
    }
}

/* A stream that ends early, under a true checksum. */
Test(format, added_symbols) {
    static const char text[] = "P\t1010\t0\t0\nF\tf\tf.c\t3\tf.c\t1\t10\t2\n";
    for (int variant = 0; variant < 3; variant++) {
        na_make_t m;
        na_make_sample_file(&m);
        for (int part = 0; part < 2; part++) {
            na_nprof_chunk_t *c = na_make_chunk(&m, NA_NPROF_SYMBOLS, NA_NPROF_PAGE, 1, 0);
            for (size_t i = 0; text[i] != 0; i++)
                na_make_entry(c, &text[i], 1);
            na_make_seal_last(&m, c, variant == 1);
            if (variant == 2 && part == 1) ((char *)(c + 1))[3] ^= 1; /* damaged: left out */
        }
        char error[256];
        na_reader_t *r = na_reader_open_fd(na_make_fd(&m, m.size), "made", error, sizeof error);
        cr_assert_not_null(r, "%s", error);
        size_t size;
        const char *got = na_reader_symbols(r, &size);
        cr_assert_not_null(got);
        size_t parts = variant == 2 ? 1 : 2;
        cr_assert_eq(size, parts * (sizeof text - 1), "variant %d: %zu", variant, size);
        for (size_t part = 0; part < parts; part++)
            cr_assert_eq(memcmp(got + part * (sizeof text - 1), text, sizeof text - 1), 0);
        cr_assert_eq(got[size], 0);
        cr_assert_eq(na_reader_issue_count(r), variant == 2);
        na_reader_close(r);
        free(m.bytes);
    }
}

Test(format, short_zlib_stream) {
    na_make_t m;
    sealed_file(&m, 1);
    na_nprof_chunk_t *c = (na_nprof_chunk_t *)(void *)(m.bytes + NA_NPROF_PAGE);
    c->count = c->capacity = 40000;
    c->raw_length = 40000 * 16;
    na_make_seal(c);
    na_reader_t *r = must_open(&m);
    read_all(r);
    cr_assert(has_issue(r, "end early"));
    cr_assert_eq(na_reader_stacks(r).count, 30001);
    na_reader_close(r);
    free(m.bytes);
}

/* Tables by id: compressed zeros cannot make them larger than the file explains. */
Test(format, inflated_ids) {
    enum { CHUNKS = 4, IDS = (3 << 19) / sizeof(na_nprof_stack_t) };
    na_make_t m;
    na_make_begin(&m);
    for (uint32_t i = 0; i < CHUNKS; i++) {
        uint32_t first = i * IDS;
        na_nprof_chunk_t *c =
            na_make_chunk(&m, NA_NPROF_STACKS, na_nprof_chunk_length(IDS, sizeof(na_nprof_stack_t)),
                          sizeof(na_nprof_stack_t), first);
        c->count = IDS;
        na_nprof_stack_t last = {NA_NPROF_ROOT, NA_NPROF_STACK_VALID, 0x1000};
        memcpy((char *)(c + 1) + (IDS - 1) * sizeof last, &last, sizeof last);
        na_make_seal_last(&m, c, 1);
    }
    cr_assert_lt(m.size, 1u << 20);
    uint64_t most = m.size * 16 + NA_NPROF_MAX_RAW;
    na_reader_t *r = must_open(&m);
    na_stack_table_t stacks = na_reader_stacks(r);
    cr_assert_leq(stacks.count * sizeof(na_nprof_stack_t), most);
    cr_assert_eq(stacks.count, IDS); /* the first chunk's last: the others inflate too far */
    cr_assert(has_issue(r, "3 part(s) left out that would take more memory"));
    na_reader_close(r);
    free(m.bytes);
}

Test(format, error_bars) {
    na_counters_t sum = {.alloc_count = 1000, .raw_allocs = 100};
    cr_assert_float_eq(na_counters_error(&sum, 1000, 1), 1.96 * 0.0948683, 1e-4);
    sum.raw_allocs = 1000; /* every one was drawn */
    cr_assert_float_eq(na_counters_error(&sum, 1000, 1), 0, 1e-12);
    sum.raw_allocs = 0; /* mode sites */
    cr_assert_float_eq(na_counters_error(&sum, 1000, 1), 0, 1e-12);
}
