/* view_tables.c - where the memory came from, by function and by site: the views of these names,
 * and the tables of the summary. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/views.h"

/* ---- functions ---- */

enum {
    F_BELOW = NA_COUNTER_COUNT, /* text: the inclusive figure that is ordered by, and its share */
    F_BELOW_SHARE,
    F_BELOW_PEAK,
    F_BELOW_LIVE,
    F_BELOW_TOTAL,
    F_BELOW_COUNT,
    F_LABEL,
    F_FUNCTION,
    F_FILE,
    F_LINE,
    F_MODULE,
    F_BY,
    F_SITES,
    F_KIND,
    F_MAPPED,
    F_MAPPINGS,
};

static const na_column_t function_columns[] = {
    {NULL, "with callees", NA_KIND_BYTES, NULL},
    {NULL, "share", NA_KIND_SHARE, NULL},
    {"inclusive_peak_bytes", NULL, NA_KIND_BYTES, NULL},
    {"inclusive_live_bytes", NULL, NA_KIND_BYTES, NULL},
    {"inclusive_total_bytes", NULL, NA_KIND_BYTES, NULL},
    {"inclusive_allocations", NULL, NA_KIND_COUNT, NULL},
    {NULL, "function", NA_KIND_TEXT, NULL},
    {"function", NULL, NA_KIND_TEXT, NULL},
    {"file", NULL, NA_KIND_TEXT, NULL},
    {"line", NULL, NA_KIND_NUMBER, NULL},
    {"module", NULL, NA_KIND_TEXT, NULL},
    {"by", NULL, NA_KIND_TEXT, NULL},
    {"sites", NULL, NA_KIND_COUNT, NULL},
    {"kind", NULL, NA_KIND_TEXT, NULL}, /* "", "wrapper" or "runtime" */
    {"mapped_bytes", NULL, NA_KIND_BYTES, NULL},
    {"mappings", NULL, NA_KIND_COUNT, NULL},
};
const na_columns_t na_columns_functions = NA_COUNTERS_AND(function_columns);

static void fill_function(na_table_t *table, const na_view_input_t *in,
                          const na_function_row_t *row) {
    const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
    double all = na_view_metric(in, &in->sites.total);
    na_table_row(table, row->id);
    na_table_counters(table, in, &row->self, row->sites == 1);
    double below = na_view_cost(in, &row->below);
    na_table_number(table, F_BELOW, below);
    if (all > 0) na_table_number(table, F_BELOW_SHARE, below / all);
    na_table_number(table, F_BELOW_PEAK, (double)row->below.peak_bytes);
    na_table_number(table, F_BELOW_LIVE, (double)row->below.live_bytes);
    na_table_number(table, F_BELOW_TOTAL, (double)row->below.alloc_bytes);
    na_table_number(table, F_BELOW_COUNT, na_view_count(in, (double)row->below.alloc_count));
    char label[NA_LABEL];
    if (row->members != 0) {
        const char *slash = strrchr(f->module, '/');
        snprintf(label, sizeof label, "%.600s (%u function%s without symbols)",
                 slash == NULL ? f->module : slash + 1, row->members, row->members == 1 ? "" : "s");
    } else {
        na_view_function_label(f, label);
    }
    const char *by = row->by == 0 ? NULL : na_symbols_function(in->symbols, row->by - 1)->function;
    if (by != NULL) {
        char name[512];
        na_demangle_short(by, 40, name, sizeof name);
        na_table_format(table, F_LABEL, "%s  by %s%s", label, name, row->by_more ? ", ..." : "");
    } else {
        na_table_text(table, F_LABEL, label);
    }
    na_table_text(table, F_FUNCTION, f->function);
    na_table_text(table, F_FILE, f->file);
    if (f->line != 0) na_table_number(table, F_LINE, f->line);
    na_table_text(table, F_MODULE, f->module);
    na_table_text(table, F_BY, by);
    na_table_number(table, F_SITES, row->sites);
    na_table_number(table, F_MAPPED, row->mapped);
    na_table_number(table, F_MAPPINGS, row->mappings);
    na_table_text(table, F_KIND, f->runtime ? "runtime" : row->wrapper ? "wrapper" : "");
}

/* What text shows: who is responsible, and groups instead of their members. items: NULL if out of
 * memory; free it. */
static na_function_table_t shown_functions(const na_view_input_t *in, bool below) {
    const na_function_table_t *all = &in->functions;
    na_function_table_t shown = {
        .items = calloc(all->count + all->group_count + 1, sizeof *shown.items)};
    bool grouped = !in->options->frames.addresses;
    for (size_t i = 0; shown.items != NULL && i < all->count + all->group_count; i++) {
        bool group = i >= all->count;
        const na_function_row_t *row = group ? &all->groups[i - all->count] : &all->items[i];
        if (group ? !grouped || row->members < 2 : grouped && row->group != 0) continue;
        bool hidden = below ? row->wrapper || na_symbols_function(in->symbols, row->id)->runtime
                            : row->sites == 0;
        if (hidden) continue;
        shown.items[shown.count] = *row;
        if (group && !below) shown.items[shown.count].members = row->responsible;
        shown.count++;
    }
    return shown;
}

na_status_t na_view_function_table(na_view_input_t *in, bool below) {
    bool text = in->options->table.format == NA_FORMAT_TEXT;
    na_function_table_t shown = text ? shown_functions(in, below) : in->functions;
    na_table_t *table = shown.items == NULL ? NULL : na_table_open_counters(&na_columns_functions);
    if (table == NULL) {
        if (text) free(shown.items);
        return NA_STATUS_MEMORY;
    }
    if (in->order == NA_ORDER_COUNT) na_table_kind(table, F_BELOW, NA_KIND_COUNT);
    na_view_functions_sort(&shown, in->order, below);
    for (size_t i = 0; i < shown.count; i++)
        fill_function(table, in, &shown.items[i]);
    if (text) free(shown.items);
    char title[192];
    na_order_t order;
    bool by_order =
        in->options->table.sort == NULL || na_view_order(in->options->table.sort, &order);
    snprintf(title, sizeof title, "Functions by %.60s (%%s that allocate; share: of all %s)",
             by_order ? na_view_order_title(in->order) : in->options->table.sort,
             na_view_order_title(by_order ? in->order : NA_ORDER_PEAK));
    const na_table_print_t print = {
        .view = "functions",
        .title = below ? "The same with all that they call (the columns before \"with callees\" "
                         "are their own)"
                       : title,
    };
    /* The rows are in order already, unless it is by another column. */
    na_options_t options = *in->options;
    if (by_order) options.table.sort = NULL;
    na_status_t status = na_table_write(table, &options, &print);
    na_table_close(table);
    if (text && !below && in->functions.nowhere_sites != 0) {
        char a[NA_TEXT], b[NA_TEXT];
        printf("%10s, %s in total: stacks missing\n",
               na_text_bytes(a, (double)in->functions.nowhere.peak_bytes),
               na_text_bytes(b, (double)in->functions.nowhere.alloc_bytes));
    }
    return status;
}

/* Text: what functions map from the system themselves; nothing if none does. */
static na_status_t put_mapping_functions(const na_view_input_t *in) {
    enum { MAPPED, CALLS, LABEL };
    static const na_column_t columns[] = {
        {"mapped_bytes", "mapped", NA_KIND_BYTES, NULL},
        {"mappings", "calls", NA_KIND_COUNT, NULL},
        {"function", "function", NA_KIND_TEXT, NULL},
    };
    static const na_columns_t all = NA_COLUMNS(columns);
    na_table_t *table = na_table_open(&all);
    if (table == NULL) return NA_STATUS_MEMORY;
    size_t count = in->functions.count, groups = in->functions.group_count;
    bool grouped = !in->options->frames.addresses;
    for (size_t i = 0; i < count + groups; i++) {
        bool group = i >= count;
        const na_function_row_t *row =
            group ? &in->functions.groups[i - count] : &in->functions.items[i];
        if (!(row->mapped > 0)) continue;
        if (group ? !grouped || row->members < 2 : grouped && row->group != 0) continue;
        char label[NA_LABEL];
        na_view_row_label(in, row, label);
        na_table_row(table, row->id);
        na_table_number(table, MAPPED, row->mapped);
        na_table_number(table, CALLS, row->mappings);
        na_table_text(table, LABEL, label);
    }
    const na_table_print_t print = {
        .view = "functions",
        .title = "\nMemory that the program mapped itself, from first to last (%s)",
        .sort = "mapped_bytes"};
    na_options_t options = *in->options;
    options.table.sort = NULL;
    na_status_t status = NA_STATUS_WHOLE;
    if (na_table_rows(table) != 0) status = na_table_write(table, &options, &print);
    na_table_close(table);
    return status;
}

static na_status_t show_function_table(na_view_input_t *in) {
    if (in->options->accesses.shown) return na_view_access_functions(in);
    na_status_t status = na_view_function_table(in, false);
    if (status == NA_STATUS_WHOLE && in->options->table.format == NA_FORMAT_TEXT) {
        status = put_mapping_functions(in);
        na_view_say_missing(in);
        na_view_say_lacking(in);
    }
    return status;
}

/* ---- sites ---- */

/* The site's own columns come first, then: */
#define S_THREADS (NA_COUNTER_COUNT + NA_SITE_COLUMN_COUNT)

static const na_column_t site_columns[] = {
    NA_SITE_COLUMNS,
    {"threads", NULL, NA_KIND_COUNT, NULL},
};
const na_columns_t na_columns_sites = NA_COUNTERS_AND(site_columns);

static void fill_site_row(na_table_t *table, const na_view_input_t *in, const na_site_t *site) {
    na_table_row(table, site->site);
    na_table_counters(table, in, &site->sum, true);
    na_table_site(table, in, NA_COUNTER_COUNT, site->site);
    na_table_number(table, S_THREADS, site->cells);
}

na_status_t na_view_site_table(na_view_input_t *in, bool stacks) {
    na_table_t *table = na_table_open_counters(&na_columns_sites);
    if (table == NULL) return NA_STATUS_MEMORY;
    na_order_t order;
    bool by_order =
        in->options->table.sort == NULL || na_view_order(in->options->table.sort, &order);
    char title[192];
    snprintf(title, sizeof title, "Sites by %.60s (%%s)",
             by_order ? na_view_order_title(in->order) : in->options->table.sort);
    const na_table_print_t print = {
        .view = "sites",
        .title = title,
        .below = stacks ? na_view_put_stack : NULL,
        .members = stacks ? na_view_json_stack : NULL,
        .arg = in,
    };
    na_options_t options = *in->options;
    if (by_order) options.table.sort = NULL; /* they are in order already, ties included */
    size_t count = in->sites.count;
    if (by_order && !options.table.filter.given && count > options.table.top) {
        na_table_skip(table, count - options.table.top);
        count = options.table.top;
    }
    for (size_t i = 0; i < count; i++) {
        fill_site_row(table, in, &in->sites.items[i]);
        if (!na_table_thin(table, &options, &print)) break;
    }
    na_status_t status = na_table_write(table, &options, &print);
    na_table_close(table);
    return status;
}

static na_status_t show_sites(na_view_input_t *in) {
    return na_view_site_table(in, in->options->frames.stacks);
}

const na_view_t na_view_row_functions = {
    .name = "functions",
    .words = "FILE",
    .help = "functions: what each asked for itself, and with all that it called",
    .more = "--access: functions that touch memory, and from where to where.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS) | NA_TAKES(ADDRESSES) | NA_TAKES(ACCESS) |
             NA_TAKES(WHERE),
    .tables = {{&na_columns_functions, 0}, {&na_columns_access_functions, NA_TAKES(ACCESS)}},
    .show = show_function_table,
};

const na_view_t na_view_row_sites = {
    .name = "sites",
    .words = "FILE",
    .help = "sites, one for each distinct call stack",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(STACKS) | NA_TAKES(WRAPPERS),
    .tables = {{&na_columns_sites, 0}},
    .show = show_sites,
};
