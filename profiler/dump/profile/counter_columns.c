/* counter_columns.c - figures to cells. See counter_columns.h. */
#include "profiler/dump/profile/counter_columns.h"

#include <math.h>
#include <string.h>

#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/dump/symbols/names/demangle.h"

static const na_column_t text_columns[NA_COL_METRICS] = {
    [NA_COL_PEAK] = {"peak_bytes", "at peak", NA_KIND_BYTES, "peak"},
    [NA_COL_SHARE] = {NULL, "share", NA_KIND_SHARE, NULL},
    [NA_COL_LIVE] = {"live_bytes", "live", NA_KIND_BYTES, "live"},
    [NA_COL_TOTAL] = {"total_bytes", "total", NA_KIND_BYTES, "total"},
    [NA_COL_ALLOCATIONS] = {"allocations", "allocations", NA_KIND_COUNT, "count"},
    [NA_COL_ERROR] = {"error95", "95 %", NA_KIND_ERROR, NULL},
};

static na_cell_kind_t cell_kind(na_unit_t unit) {
    switch (unit) {
    case NA_UNIT_COUNT:
        return NA_KIND_COUNT;
    case NA_UNIT_BYTES:
        return NA_KIND_BYTES;
    case NA_UNIT_AGE:
    case NA_UNIT_AGE_SUM:
        return NA_KIND_MS;
    case NA_UNIT_PLAIN:
    case NA_UNIT_MASK:
    case NA_UNIT_VARIANCE:
    case NA_UNIT_RATIO:
    default:
        return NA_KIND_NUMBER;
    }
}

void na_counters_columns(na_column_t columns[NA_COUNTER_COUNT]) {
    memcpy(columns, text_columns, sizeof text_columns);
    for (size_t m = 0; m < na_metric_count(); m++) {
        const char *key = na_metric_key(m);
        for (size_t i = 0; i < NA_COL_METRICS && key != NULL; i++)
            if (columns[i].key != NULL && strcmp(columns[i].key, key) == 0) key = NULL;
        columns[NA_COL_METRICS + m] = (na_column_t){key, NULL, cell_kind(na_metrics[m].unit), NULL};
    }
}

na_table_t *na_table_open_counters(const na_columns_t *own) {
    na_column_t columns[NA_COUNTER_COUNT];
    na_counters_columns(columns);
    return na_table_open_joined(columns, NA_COUNTER_COUNT, own);
}

const char *na_counters_sort(const na_view_input_t *in) {
    static const char *const keys[] = {
        [NA_ORDER_PEAK] = "peak_bytes",
        [NA_ORDER_LIVE] = "live_bytes",
        [NA_ORDER_TOTAL] = "total_bytes",
        [NA_ORDER_COUNT] = "allocations",
    };
    return keys[in->order];
}

/* In mode sites nothing has an error. */
static double error_of(const na_view_input_t *in, const na_counters_t *sum) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (h->mode != NA_NPROF_MODE_SAMPLE || sum->raw_allocs == 0) return NAN;
    switch (in->order) {
    case NA_ORDER_LIVE:
        return na_counters_estimate_error(sum, NA_ESTIMATE_LIVE_BYTES, h->count_scale);
    case NA_ORDER_TOTAL:
        return na_counters_estimate_error(sum, NA_ESTIMATE_ALLOC_BYTES, h->count_scale);
    case NA_ORDER_COUNT:
        return na_counters_estimate_error(sum, NA_ESTIMATE_ALLOC_COUNT, h->count_scale);
    case NA_ORDER_PEAK:
    default:
        return na_counters_error(sum, sum->peak_count, h->count_scale);
    }
}

void na_table_counters(na_table_t *table, const na_view_input_t *in, const na_counters_t *sum,
                       bool alone) {
    double all = (double)na_counters_key(&in->sites.total, in->order);
    const double values[NA_COL_METRICS] = {
        [NA_COL_PEAK] = (double)sum->peak_bytes,
        [NA_COL_SHARE] = all > 0 ? (double)na_counters_key(sum, in->order) / all : NAN,
        [NA_COL_LIVE] = (double)sum->live_bytes,
        [NA_COL_TOTAL] = (double)sum->alloc_bytes,
        [NA_COL_ALLOCATIONS] = na_view_count(in, (double)sum->alloc_count),
        [NA_COL_ERROR] = error_of(in, sum),
    };
    for (size_t i = 0; i < NA_COL_METRICS; i++)
        na_table_number(table, i, values[i]);
    for (size_t m = 0; m < na_metric_count(); m++)
        if (alone || !na_metrics[m].alone)
            na_table_number(table, NA_COL_METRICS + m,
                            na_metric_shown(na_reader_header(in->reader), m, sum));
}

/* The name that text shows. */
static void label_of(const na_view_input_t *in, uint32_t site, char label[NA_LABEL]) {
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, site, &leaf);
    if (frame == NULL)
        strcpy(label, site == NA_NPROF_NO_STACK ? "(stacks missing from the file)" : "(no stack)");
    else
        na_view_frame_label(frame, label);
}

void na_table_site(na_table_t *table, const na_view_input_t *in, size_t first, uint32_t site) {
    enum { LABEL, SITE, FUNCTION, FILE_NAME, LINE, MODULE, BY };
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, site, &leaf);
    char label[NA_LABEL], name[512];
    label_of(in, site, label);
    if (leaf != NULL) {
        na_demangle_short(leaf->function, 40, name, sizeof name);
        na_table_format(table, first + LABEL, "%s  by %s", label, name);
        na_table_text(table, first + BY, leaf->function);
    } else {
        na_table_text(table, first + LABEL, label);
    }
    na_table_number(table, first + SITE, site);
    if (frame == NULL) return;
    na_table_text(table, first + FUNCTION, frame->function);
    na_table_text(table, first + FILE_NAME, frame->file);
    if (frame->line != 0) na_table_number(table, first + LINE, frame->line);
    na_table_text(table, first + MODULE, frame->module);
}

bool na_site_matches(const na_view_input_t *in, uint32_t site) {
    if (!in->options->table.filter.given) return true;
    char label[NA_LABEL];
    label_of(in, site, label);
    if (na_filter_matches(in->options, label)) return true;
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, site, &leaf);
    return frame != NULL && (na_filter_matches(in->options, frame->function) ||
                             na_filter_matches(in->options, frame->file) ||
                             na_filter_matches(in->options, frame->module) ||
                             (leaf != NULL && na_filter_matches(in->options, leaf->function)));
}

bool na_site_wanted(void *in, uint32_t site) {
    return na_site_matches(in, site);
}

bool na_function_matches(const na_view_input_t *in, const na_function_row_t *row) {
    const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
    return na_filter_matches(in->options, f->function) || na_filter_matches(in->options, f->file) ||
           na_filter_matches(in->options, f->module) ||
           (row->by != 0 &&
            na_filter_matches(in->options,
                              na_symbols_function(in->symbols, row->by - 1)->function));
}
