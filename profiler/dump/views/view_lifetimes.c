/* view_lifetimes.c - how long blocks lived, and how that goes with their sizes. Blocks still live
 * are censored: nothing is known but that they lived at least until the end. */
#include <stdio.h>
#include <stdlib.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/views.h"

enum { LABEL, FROM, BELOW, FREES, SHARE, BAR, LIVE };

typedef struct shown {
    const na_view_input_t *in;
    const na_block_histogram_t *h;
    double age_ns, frees;
} shown_t;

static const char *age_text(char out[NA_TEXT], double ns) {
    static const char *const units[] = {"ns", "us", "ms", "s"};
    size_t u = 0;
    for (; u < 3 && ns >= 1000; u++)
        ns /= 1000;
    snprintf(out, NA_TEXT, ns < 10 ? "%.1f %s" : "%.0f %s", ns, units[u]);
    return out;
}

static double count_of(const shown_t *s, uint64_t scaled) {
    return s->h->raw ? (double)scaled : na_view_count(s->in, (double)scaled);
}

static void fill_lifetime_row(na_table_t *table, const shown_t *s, bool trace) {
    const na_block_histogram_t *h = s->h;
    for (uint32_t i = 0; i < NA_NPROF_AGE_BUCKETS; i++) {
        if (h->freed[i] == 0 && h->live[i] == 0) continue;
        char a[NA_TEXT], b[NA_TEXT];
        double from = na_bucket_from(i) * s->age_ns, below = na_bucket_from(i + 1) * s->age_ns;
        bool last = i + 1 == NA_NPROF_AGE_BUCKETS;
        na_table_row(table, i);
        age_text(a, from);
        if (last)
            na_table_format(table, LABEL, "%s or more", a);
        else
            na_table_format(table, LABEL, "%s to below %s", a, age_text(b, below));
        na_table_number(table, FROM, from);
        if (!last) na_table_number(table, BELOW, below);
        double frees = count_of(s, h->freed[i]);
        na_table_number(table, FREES, frees);
        if (s->frees > 0) {
            na_table_number(table, SHARE, frees / s->frees);
            na_table_format(table, BAR, "%.*s", (int)(30 * frees / s->frees + 0.5),
                            "##############################");
        }
        if (trace) na_table_number(table, LIVE, na_view_count(s->in, (double)h->live[i]));
    }
    if (trace || h->live_count == 0) return;
    na_table_row(table, NA_NPROF_AGE_BUCKETS);
    na_table_text(table, LABEL, "still live, of any age");
    na_table_number(table, LIVE, na_view_count(s->in, (double)h->live_count));
}

/* JSON: frees of each row by the bucket of their size. */
static void members(na_json_t *json, void *arg, uint64_t tag) {
    const shown_t *s = arg;
    na_json_array(json, "by_size");
    uint32_t count = tag < NA_NPROF_AGE_BUCKETS && s->h->sized ? NA_NPROF_SIZE_BUCKETS : 0;
    while (count != 0 && s->h->by_size[count - 1][tag] == 0)
        count--;
    for (uint32_t i = 0; i < count; i++)
        na_json_number(json, NULL, count_of(s, s->h->by_size[i][tag]));
    na_json_end(json);
}

/* First and last row and column that are not empty. False: all are. */
static bool used_cells(const na_block_histogram_t *h, uint32_t size[2], uint32_t age[2]) {
    bool any = false;
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++) {
        for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++) {
            if (h->by_size[s][a] == 0) continue;
            if (!any) *size = s;
            size[1] = s;
            if (!any || a < age[0]) age[0] = a;
            if (!any || a > age[1]) age[1] = a;
            any = true;
        }
    }
    return any;
}

/* Text: a character for each bucket of size and lifetime, darker by the power of ten of its share
 * of all frees. */
static void draw_lifetimes(const shown_t *s) {
    static const char shades[] = " .-+*#"; /* none, below 0.1 %, 1 %, 10 %, 50 %, more */
    uint32_t size[2] = {0, 0}, age[2] = {0, 0};
    char a[NA_TEXT], b[NA_TEXT];
    if (!s->h->sized || s->frees <= 0 || !used_cells(s->h, size, age)) return;
    printf("\nFrees by size (down) and lifetime (across, from %s doubling to %s); share of all:\n"
           ". below 0.1 %%  - below 1 %%  + below 10 %%  * below 50 %%  # more\n",
           age_text(a, na_bucket_from(age[0]) * s->age_ns),
           age_text(b, na_bucket_from(age[1]) * s->age_ns));
    for (uint32_t i = size[0]; i <= size[1]; i++) {
        printf("%10s |", na_text_bytes(a, na_bucket_from(i)));
        for (uint32_t k = age[0]; k <= age[1]; k++) {
            double share = count_of(s, s->h->by_size[i][k]) / s->frees;
            int shade = share <= 0      ? 0
                        : share < 0.001 ? 1
                        : share < 0.01  ? 2
                        : share < 0.1   ? 3
                        : share < 0.5   ? 4
                                        : 5;
            printf("%c%c", shades[shade], shades[shade]);
        }
        fputs("|\n", stdout);
    }
}

static const na_column_t lifetimes_columns[] = {
    {NULL, "lifetime", NA_KIND_TEXT, NULL},
    {"from_ns", NULL, NA_KIND_NUMBER, NULL},
    {"below_ns", NULL, NA_KIND_NUMBER, NULL},
    {"frees", "freed", NA_KIND_COUNT, "count"},
    {NULL, "share", NA_KIND_SHARE, NULL},
    {NULL, "", NA_KIND_TEXT, NULL},
    {"live_blocks", "still live", NA_KIND_COUNT, "live"},
};
static const na_columns_t lifetimes_table = NA_COLUMNS(lifetimes_columns);

static na_status_t show_lifetimes(na_view_input_t *in) {
    const na_nprof_header_t *header = na_reader_header(in->reader);
    bool trace = header->mode == NA_NPROF_MODE_TRACE;
    na_block_histogram_t *h = malloc(sizeof *h);
    na_table_t *table = na_table_open(&lifetimes_table);
    na_status_t status = h != NULL && table != NULL ? na_view_histogram(in, h) : NA_STATUS_MEMORY;
    if (status == NA_STATUS_WHOLE) {
        shown_t shown = {in, h, na_age_ns(header), 0};
        for (uint32_t i = 0; i < NA_NPROF_AGE_BUCKETS; i++)
            shown.frees += count_of(&shown, h->freed[i]);
        fill_lifetime_row(table, &shown, trace);
        na_options_t options = *in->options;
        options.table.filter.given = false; /* it has chosen sites */
        const na_table_print_t print = {
            .view = "lifetimes",
            .title = trace    ? "Blocks by lifetime (%s); \"still live\": by their age at the end, "
                                "their lifetimes are not over"
                     : h->raw ? "Samples freed, by lifetime (%s); what still lives has no "
                                "lifetime yet"
                              : "Blocks by lifetime (%s); what still lives has no lifetime yet",
            .empty = "No blocks.",
            .all = true,
            .members = members,
            .arg = &shown,
        };
        status = na_table_write(table, &options, &print);
        if (status == NA_STATUS_WHOLE && options.table.format == NA_FORMAT_TEXT)
            draw_lifetimes(&shown);
    }
    na_table_close(table);
    free(h);
    return status;
}

const na_view_t na_view_row_lifetimes = {
    .name = "lifetimes",
    .words = "FILE",
    .help = "blocks by lifetime, and lifetime by size",
    .more = "--filter chooses sites; --json has \"by_size\", frees by the number of binary digits "
            "of the "
            "size.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_PLAYS,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&lifetimes_table, 0}},
    .show = show_lifetimes,
};
