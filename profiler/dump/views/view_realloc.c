/* view_realloc.c - blocks that grow: by realloc, and by allocating a larger one, copying and
 * freeing. Only mode sites sees every step. */
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/view.h"

static const na_column_t realloc_columns[] = {
    {"reallocs", "reallocs", NA_KIND_COUNT, "count"},
    {"realloc_share", "of all", NA_KIND_SHARE, NULL},
    {"realloc_grow_bytes", "larger by", NA_KIND_BYTES, NULL},
    {"realloc_shrink_bytes", "smaller by", NA_KIND_BYTES, NULL},
    {"realloc_copy_bytes", "moved", NA_KIND_BYTES, NULL},
    {"growth_count", "by copying", NA_KIND_COUNT, NULL},
    {"growth_copied", "copied", NA_KIND_BYTES, NULL},
    {"total_bytes", "total", NA_KIND_BYTES, "total"},
    NA_SITE_COLUMNS,
};
static const na_columns_t realloc_table = NA_COLUMNS(realloc_columns);

static na_status_t show_realloc(na_view_input_t *in) {
    enum { REALLOCS, SHARE, GREW, SHRANK, MOVED, GROWTH, COPIED, TOTAL, SITE };
    na_table_t *table = na_table_open(&realloc_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    for (size_t i = 0; i < in->sites.count; i++) {
        const na_site_t *site = &in->sites.items[i];
        const na_counters_t *sum = &site->sum;
        if (sum->realloc_count == 0 && sum->growth_count == 0) continue;
        na_table_row(table, site->site);
        na_table_number(table, REALLOCS, (double)sum->realloc_count);
        if (sum->alloc_count != 0)
            na_table_number(table, SHARE, (double)sum->realloc_count / (double)sum->alloc_count);
        na_table_number(table, GREW, (double)sum->realloc_grow_bytes);
        na_table_number(table, SHRANK, (double)sum->realloc_shrink_bytes);
        na_table_number(table, MOVED, (double)sum->realloc_copy_bytes);
        na_table_number(table, GROWTH, (double)sum->growth_count);
        na_table_number(table, COPIED, (double)sum->growth_copied);
        na_table_number(table, TOTAL, (double)sum->alloc_bytes);
        na_table_site(table, in, SITE, site->site);
    }
    const na_table_print_t print = {
        .view = "realloc",
        .title = "Sites whose blocks grow (%s); \"by copying\": a larger block, a copy, a free",
        .empty = "No block was resized.",
        .sort = "realloc_grow_bytes",
    };
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

const na_view_t na_view_row_realloc = {
    .name = "realloc",
    .words = "FILE",
    .help = "sites whose blocks grow, by realloc or by copying",
    .modes = NA_IN(NA_NPROF_MODE_SITES) | NA_IN(NA_NPROF_MODE_TRACE),
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&realloc_table, 0}},
    .show = show_realloc,
};
