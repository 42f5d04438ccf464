/* view_summary_json.c - the summary for programs: one JSON object, every figure in its plain unit.
 */
#include <stdio.h>

#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/views/summary/summary.h"

static void put_summary_site(na_json_t *json, const na_view_input_t *in, const na_site_t *site) {
    na_json_object(json, NULL);
    na_json_u64(json, "id", site->site);
    na_json_u64(json, "cells", site->cells);
    na_json_counters(json, in, &site->sum);
    const na_symbol_frame_t *leaf;
    const na_symbol_frame_t *frame = na_view_site(in, site->site, &leaf);
    na_json_key(json, "site");
    if (frame != NULL)
        na_json_frame(json, NULL, frame);
    else
        na_json_null(json, NULL);
    if (leaf != NULL) {
        na_json_frame(json, "by", leaf);
    }
    if (in->options->frames.stacks) na_json_stack(json, in, site->site);
    na_json_end(json);
}

static void put_cost_json(na_json_t *json, const na_view_input_t *in, const na_cost_t *cost) {
    na_json_object(json, NULL);
    na_json_i64(json, "peak_bytes", cost->peak_bytes);
    na_json_i64(json, "live_bytes", cost->live_bytes);
    na_json_i64(json, "total_bytes", cost->alloc_bytes);
    na_json_number(json, "allocations", na_view_count(in, (double)cost->alloc_count));
    na_json_end(json);
}

static void put_summary_function(na_json_t *json, const na_view_input_t *in,
                                 const na_function_row_t *row) {
    const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
    na_json_object(json, NULL);
    na_json_string(json, "function", f->function);
    if (f->file != NULL) na_json_string(json, "file", f->file);
    if (f->line != 0) na_json_u64(json, "line", f->line);
    na_json_string(json, "module", f->module);
    na_json_bool(json, "runtime", f->runtime);
    na_json_bool(json, "wrapper", row->wrapper);
    na_json_u64(json, "site_count", row->sites);
    if (row->mappings > 0) {
        na_json_number(json, "mapped_bytes", row->mapped);
        na_json_number(json, "mappings", row->mappings);
    }
    na_json_object(json, "exclusive");
    na_json_counters(json, in, &row->self);
    na_json_end(json);
    na_json_key(json, "inclusive");
    put_cost_json(json, in, &row->below);
    if (row->by != 0)
        na_json_string(json, "by", na_symbols_function(in->symbols, row->by - 1)->function);
    na_json_end(json);
}

/* Those of the first `top` functions that match and were not shown yet; how many match. */
static size_t put_first(na_json_t *json, na_view_input_t *in, bool *any) {
    na_function_table_t *table = &in->functions;
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        na_function_row_t *row = &table->items[i];
        if (!na_function_matches(in, row) || count++ >= in->options->table.top || row->shown)
            continue;
        *any = true;
        put_summary_function(json, in, row);
        row->shown = true;
    }
    return count;
}

/* The functions of both tables of the text: the first `top` by exclusive figures, in this order,
 * then those of the first `top` by inclusive ones that are not among them. */
static void put_summary_functions(na_json_t *json, na_view_input_t *in) {
    bool any = false;
    na_json_array(json, "functions");
    na_view_functions_sort(&in->functions, in->order, false);
    size_t count = put_first(json, in, &any);
    na_view_functions_sort(&in->functions, in->order, true);
    put_first(json, in, &any);
    /* Those that map memory themselves. */
    for (size_t i = 0; i < in->functions.count; i++) {
        na_function_row_t *row = &in->functions.items[i];
        if (row->mappings > 0 && !row->shown && na_function_matches(in, row))
            put_summary_function(json, in, row);
    }
    na_json_end(json);
    na_json_u64(json, "function_count", count);
}

static void put_summary_sites(na_json_t *json, na_view_input_t *in) {
    size_t count = 0;
    na_json_array(json, "sites");
    for (size_t i = 0; i < in->sites.count; i++) {
        if (!na_site_matches(in, in->sites.items[i].site) || count++ >= in->options->table.top)
            continue;
        put_summary_site(json, in, &in->sites.items[i]);
    }
    na_json_end(json);
    na_json_u64(json, "site_count", count);
}

void na_view_summary_json(na_view_input_t *in) {
    na_json_t json = na_json_open(stdout);
    na_json_object(&json, NULL);
    na_json_string(&json, "schema", "numalloc-dump.summary");
    na_json_u64(&json, "schema_version", 1);
    na_json_header(&json, in);
    na_json_object(&json, "total");
    na_json_counters(&json, in, &in->sites.total);
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    na_json_end(&json);
    na_json_u64(&json, "peak_ms", na_view_peak_ms(in));
    na_json_u64(&json, "physical_at_peak", point == NULL ? 0 : point->physical);
    na_json_u64(&json, "mapped_at_peak", point == NULL ? 0 : point->mapped);
    na_json_u64(&json, "own_at_peak", point == NULL ? 0 : point->own);
    na_json_threads(&json, in);
    na_json_timeline(&json, in);
    put_summary_functions(&json, in);
    put_summary_sites(&json, in);
    na_json_rest(&json, in);
    na_json_end(&json);
}
