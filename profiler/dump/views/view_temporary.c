/* view_temporary.c - blocks that their thread freed before it allocated again. */
#include <math.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/view.h"

static const na_column_t temporary_columns[] = {
    {"temporary", "temporaries", NA_KIND_COUNT, "count"},
    {NULL, "share", NA_KIND_SHARE, NULL},
    {"temporary_ratio", "of the site's", NA_KIND_SHARE, NULL},
    {"allocations", NULL, NA_KIND_COUNT, NULL},
    {"size_mean", "mean size", NA_KIND_BYTES, NULL},
    {"total_bytes", "total", NA_KIND_BYTES, "total"},
    {"lifetime_mean_ms", "mean lifetime", NA_KIND_MS, NULL},
    NA_SITE_COLUMNS,
};
static const na_columns_t temporary_table = NA_COLUMNS(temporary_columns);

static na_status_t show_temporary(na_view_input_t *in) {
    enum { TEMPORARY, SHARE, OF_SITE, COUNT, MEAN, TOTAL, LIFE, SITE };
    na_table_t *table = na_table_open(&temporary_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    const na_nprof_header_t *h = na_reader_header(in->reader);
    double age_ms = na_age_ns(h) / 1e6, all = (double)in->sites.total.temporary_count;
    for (size_t i = 0; i < in->sites.count; i++) {
        const na_site_t *site = &in->sites.items[i];
        const na_counters_t *sum = &site->sum;
        if (sum->temporary_count == 0) continue;
        double count = (double)sum->alloc_count, temporary = (double)sum->temporary_count;
        na_table_row(table, site->site);
        na_table_number(table, TEMPORARY, na_view_count(in, temporary));
        na_table_number(table, SHARE, all > 0 ? temporary / all : NAN);
        na_table_number(table, OF_SITE, count > 0 ? temporary / count : NAN);
        na_table_number(table, COUNT, na_view_count(in, count));
        if (count > 0)
            na_table_number(table, MEAN, (double)sum->alloc_bytes / na_view_count(in, count));
        na_table_number(table, TOTAL, (double)sum->alloc_bytes);
        if (sum->free_count != 0)
            na_table_number(table, LIFE,
                            (double)sum->lifetime_sum / (double)sum->free_count * age_ms);
        na_table_site(table, in, SITE, site->site);
    }
    const na_table_print_t print = {
        .view = "temporary",
        .title = "Sites with temporaries (%s): blocks freed before their thread allocated again",
        .empty = "No block was freed before its thread allocated again.",
        .sort = "temporary",
    };
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

const na_view_t na_view_row_temporary = {
    .name = "temporary",
    .words = "FILE",
    .help = "sites whose blocks are freed before their thread allocates again",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&temporary_table, 0}},
    .show = show_temporary,
};
