/* view_summary_json.c - the summary for programs: one JSON object, every figure in its plain unit.
 */
#include <inttypes.h>
#include <stdio.h>

#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

static void put_site(const na_view_input_t *in, const na_site_t *site) {
    printf("{\"id\":%u,\"cells\":%u,", site->site, site->cells);
    na_json_counters(in, &site->sum);
    const na_frame_t *leaf;
    const na_frame_t *frame = na_view_site(in, site->site, &leaf);
    fputs(",\"site\":", stdout);
    if (frame != NULL)
        na_json_frame(frame);
    else
        fputs("null", stdout);
    if (leaf != NULL) {
        fputs(",\"by\":", stdout);
        na_json_frame(leaf);
    }
    if (in->options->stacks) na_json_stack(in, site->site);
    putchar('}');
}

static void put_cost(const na_view_input_t *in, const na_cost_t *cost) {
    printf("{\"peak_bytes\":%" PRId64 ",\"live_bytes\":%" PRId64 ",\"total_bytes\":%" PRId64
           ",\"allocations\":",
           cost->peak_bytes, cost->live_bytes, cost->alloc_bytes);
    na_json_number(stdout, na_view_count(in, (double)cost->alloc_count));
    putchar('}');
}

static void put_function(const na_view_input_t *in, const na_function_row_t *row) {
    const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
    fputs("{\"function\":", stdout);
    na_json_put(stdout, f->function);
    if (f->file != NULL) {
        fputs(",\"file\":", stdout);
        na_json_put(stdout, f->file);
    }
    if (f->line != 0) printf(",\"line\":%u", f->line);
    fputs(",\"module\":", stdout);
    na_json_put(stdout, f->module);
    printf(",\"runtime\":%s,\"wrapper\":%s,\"site_count\":%u,\"exclusive\":{",
           f->runtime ? "true" : "false", row->wrapper ? "true" : "false", row->sites);
    na_json_counters(in, &row->self);
    fputs("},\"inclusive\":", stdout);
    put_cost(in, &row->below);
    if (row->by != 0) {
        fputs(",\"by\":", stdout);
        na_json_put(stdout, na_symbols_function(in->symbols, row->by - 1)->function);
    }
    putchar('}');
}

/* Those of the first `top` functions that match and were not shown yet; how many match. */
static size_t put_first(na_view_input_t *in, bool *any) {
    na_function_table_t *table = &in->functions;
    size_t count = 0;
    for (size_t i = 0; i < table->count; i++) {
        na_function_row_t *row = &table->items[i];
        if (!na_function_matches(in, row) || count++ >= in->options->top || row->shown) continue;
        if (*any) putchar(',');
        *any = true;
        put_function(in, row);
        row->shown = true;
    }
    return count;
}

/* The functions of both tables of the text: the first `top` by exclusive figures, in this order,
 * then those of the first `top` by inclusive ones that are not among them. */
static void put_functions(na_view_input_t *in) {
    bool any = false;
    fputs(",\"functions\":[", stdout);
    na_view_functions_sort(&in->functions, in->order, false);
    size_t count = put_first(in, &any);
    na_view_functions_sort(&in->functions, in->order, true);
    put_first(in, &any);
    printf("],\"function_count\":%zu", count);
}

static void put_sites(na_view_input_t *in) {
    size_t count = 0;
    fputs(",\"sites\":[", stdout);
    for (size_t i = 0; i < in->sites.count; i++) {
        if (!na_site_matches(in, in->sites.items[i].site) || count++ >= in->options->top) continue;
        if (count != 1) putchar(',');
        put_site(in, &in->sites.items[i]);
    }
    printf("],\"site_count\":%zu", count);
}

void na_view_summary_json(na_view_input_t *in) {
    fputs("{\"schema\":\"numalloc-dump.summary\",\"schema_version\":1,", stdout);
    na_json_header(in);
    fputs(",\"total\":{", stdout);
    na_json_counters(in, &in->sites.total);
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    printf("},\"peak_ms\":%" PRIu64 ",\"physical_at_peak\":%" PRIu64 ",\"mapped_at_peak\":%" PRIu64,
           na_view_peak_ms(in), point == NULL ? 0 : point->physical,
           point == NULL ? 0 : point->mapped);
    na_json_threads(in);
    na_json_timeline(in);
    put_functions(in);
    put_sites(in);
    na_json_end(in);
    fputs("}\n", stdout);
}
