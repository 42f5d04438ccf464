/* view_sizes.c - blocks by size: how many, what was asked for and what was handed out. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/views.h"

enum {
    LABEL,
    FROM,
    BELOW,
    COUNT,
    SHARE,
    BAR,
    LIVE,
    TOLD,
    TOLD_SHARE,
    ASKED,
    USABLE,
    WASTE,
    WASTED,
    LIVE_BYTES
};

static void fill_size_row(na_table_t *table, const na_view_input_t *in, const na_size_sum_t *s,
                          double all) {
    double count = na_view_count(in, (double)s->count);
    if (s->count != 0) {
        na_table_number(table, COUNT, count);
        na_table_number(table, SHARE, count / all);
        na_table_format(table, BAR, "%.*s", (int)(30 * count / all + 0.5),
                        "##############################");
    }
    na_table_number(table, LIVE, na_view_count(in, (double)s->live_count));
    na_table_number(table, TOLD, na_view_count(in, (double)s->told));
    if (s->told != s->count && s->count != 0)
        na_table_number(table, TOLD_SHARE, (double)s->told / (double)s->count);
    if (s->told == 0) return;
    double waste = (double)s->usable - (double)s->bytes;
    na_table_number(table, ASKED, (double)s->bytes);
    na_table_number(table, USABLE, (double)s->usable);
    na_table_number(table, WASTE, waste);
    if (s->bytes != 0) na_table_number(table, WASTED, waste / (double)s->bytes);
    na_table_number(table, LIVE_BYTES, (double)s->live_bytes);
}

static void fill_all(na_table_t *table, const na_view_input_t *in, const na_block_histogram_t *h) {
    double all = na_view_count(in, (double)h->mixed.count);
    for (uint32_t i = 0; i < NA_NPROF_SIZE_BUCKETS; i++)
        all += na_view_count(in, (double)h->size[i].count);
    for (uint32_t i = 0; i < NA_NPROF_SIZE_BUCKETS; i++) {
        const na_size_sum_t *s = &h->size[i];
        if (s->count == 0) continue;
        char a[NA_TEXT], b[NA_TEXT];
        bool last = i + 1 == NA_NPROF_SIZE_BUCKETS;
        na_table_row(table, i);
        na_text_bytes(a, na_bucket_from(i));
        if (i < 2) /* these hold a single size */
            na_table_text(table, LABEL, a);
        else if (last)
            na_table_format(table, LABEL, "%s or more", a);
        else
            na_table_format(table, LABEL, "%s to below %s", a,
                            na_text_bytes(b, na_bucket_from(i + 1)));
        na_table_number(table, FROM, na_bucket_from(i));
        if (!last) na_table_number(table, BELOW, na_bucket_from(i + 1));
        fill_size_row(table, in, s, all);
    }
    if (h->mixed.told == 0) return;
    na_table_row(table, NA_NPROF_SIZE_BUCKETS);
    na_table_text(table, LABEL, "several rows");
    fill_size_row(table, in, &h->mixed, all);
    if (h->sized) na_table_number(table, LIVE, NAN); /* is in the rows above */
}

static const na_column_t sizes_columns[] = {
    {NULL, "size asked for", NA_KIND_TEXT, NULL},
    {"from_bytes", NULL, NA_KIND_BYTES, NULL},
    {"below_bytes", NULL, NA_KIND_BYTES, NULL},
    {"allocations", "allocations", NA_KIND_COUNT, "count"},
    {NULL, "share", NA_KIND_SHARE, NULL},
    {NULL, "", NA_KIND_TEXT, NULL},
    {"live_blocks", "live", NA_KIND_COUNT, NULL},
    {"bytes_of", NULL, NA_KIND_COUNT, NULL}, /* allocations that the bytes are of */
    {NULL, "bytes of", NA_KIND_SHARE, NULL},
    {"total_bytes", "asked for", NA_KIND_BYTES, "total"},
    {"usable_bytes", "handed out", NA_KIND_BYTES, NULL},
    {"waste_bytes", "waste", NA_KIND_BYTES, NULL},
    {"waste_ratio", "of asked", NA_KIND_SHARE, NULL},
    {"live_bytes", "live bytes", NA_KIND_BYTES, "live"},
};
static const na_columns_t sizes_table = NA_COLUMNS(sizes_columns);

static na_status_t show_sizes(na_view_input_t *in) {
    na_block_histogram_t *h = malloc(sizeof *h);
    na_table_t *table = na_table_open(&sizes_table);
    na_status_t status = h != NULL && table != NULL ? na_view_histogram(in, h) : NA_STATUS_MEMORY;
    if (status == NA_STATUS_WHOLE) {
        fill_all(table, in, h);
        na_options_t options = *in->options;
        options.table.filter.given = false; /* it has chosen sites */
        bool mixed = h->mixed.told != 0;
        const na_table_print_t print = {
            .view = "sizes",
            .title = mixed
                         ? "Blocks by size (%s). Bytes of sites with blocks of several rows are a "
                           "row of their own; \"bytes of\": the others' share"
                         : "Blocks by size (%s)",
            .empty = "No allocations.",
            .all = true,
        };
        status = na_table_write(table, &options, &print);
    }
    na_table_close(table);
    free(h);
    return status;
}

const na_view_t na_view_row_sizes = {
    .name = "sizes",
    .words = "FILE",
    .help = "blocks by size, as asked for and as handed out",
    .more = "--filter chooses sites. Bytes of sites with blocks of several rows are a row of "
            "their own,\n"
            "but in a trace.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_PLAYS,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&sizes_table, 0}},
    .show = show_sizes,
};
