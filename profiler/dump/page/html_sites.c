/* html_sites.c - which sites the page tells apart, the tree of their stacks, and their figures.
 */
#include <math.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/page/html_page.h"

/* ---- the figures ----
 *
 * `of`: a name of analyze/blocks/metrics.h. Whether sums over sites mean something follows from its
 * reduction there. */
static const struct column {
    const char *id, *of, *name, *unit, *term;
} columns[] = {
    {"peak", "peak_bytes", "at the peak", "bytes", "peak"},
    {"live", "live_bytes", "still live", "bytes", "live"},
    {"total", "alloc_bytes", "requested", "bytes", "total"},
    {"count", "alloc_count", "allocations", "count", "count"},
    {"temporary", "temporary_count", "temporary", "count", "temporary"},
    {"waste", NULL, "rounded up", "bytes", "waste"},
    {"local-peak", "local_peak_bytes", "own peak", "bytes", "localPeak"},
    {"recycling", "recycling_ratio", "recycling", "ratio", "recycling"},
    {"size", "size_mean", "mean size", "bytes", "requested"},
    {"lifetime", "lifetime_mean", "mean lifetime", "ms", "lifetime"},
    {"realloc", "realloc_count", "reallocs", "count", "realloc"},
    {"growth", "growth_count", "grown by copying", "count", "growth"},
    {"cross-thread", "cross_thread_free_count", "freed elsewhere", "count", "crossThread"},
    {"cross-node", "cross_node_free_count", "freed on another node", "count", "crossNode"},
    {"samples", "raw_allocs", "samples", "count", "error"},
};
#define COLUMNS (sizeof columns / sizeof columns[0])

static size_t metric_of(const char *name) {
    for (size_t i = 0; i < na_metric_count(); i++)
        if (strcmp(na_metrics[i].name, name) == 0) return i;
    return SIZE_MAX;
}

static bool adds_up(const struct column *column) {
    size_t metric = column->of == NULL ? SIZE_MAX : metric_of(column->of);
    if (metric == SIZE_MAX) return true;
    return !na_metrics[metric].derived && na_metrics[metric].reduction == NA_REDUCTION_SUM;
}

/* NaN: there is none. */
static double value_of(const na_view_input_t *in, const struct column *column,
                       const na_counters_t *sum) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (column->of == NULL) return (double)sum->alloc_usable - (double)sum->alloc_bytes;
    size_t metric = metric_of(column->of);
    double value = na_metric_value(metric, sum, h->count_scale);
    bool age = na_metrics[metric].unit == NA_UNIT_AGE || na_metrics[metric].unit == NA_UNIT_AGE_SUM;
    return age ? value * na_age_ns(h) / 1e6 : value;
}

/* ---- the choice ---- */

typedef struct rank {
    double share;
    size_t site;
} rank_t;

static int largest_site_first(const void *a, const void *b) {
    const rank_t *x = a, *y = b;
    if (x->share != y->share) return x->share < y->share ? 1 : -1;
    return x->site < y->site ? -1 : x->site > y->site;
}

double na_webpage_share(const na_view_input_t *in, const na_counters_t *sum) {
    double most = 0;
    for (int order = NA_ORDER_PEAK; order <= NA_ORDER_COUNT; order++) {
        double total = (double)na_counters_key(&in->sites.total, (na_order_t)order);
        double share = total > 0 ? (double)na_counters_key(sum, (na_order_t)order) / total : 0;
        if (share > most) most = share;
    }
    return most;
}

/* ---- the tree ---- */

static uint32_t page_frame(na_webpage_t *r, const na_symbol_frame_t *frame) {
    uint32_t none = NA_WEBPAGE_NONE;
    uint32_t name = na_intern_text(&r->strings, frame->function);
    uint32_t module = na_intern_text(&r->strings, frame->module);
    uint32_t file = frame->file == NULL ? none : na_intern_text(&r->strings, frame->file);
    uint32_t function = na_intern_numbers(&r->functions, frame->id, name, module, NULL);
    uint32_t made = na_intern_numbers(&r->frames, function, file, frame->line, NULL);
    r->out_of_memory |= name == none || module == none || function == none || made == none;
    return made;
}

/* The page's node of a stack entry, its frames included; `memo`: node + 1 by stack entry. */
static uint32_t page_node(na_webpage_t *r, uint32_t entry, uint32_t *memo, uint32_t *pending) {
    const na_stack_table_t stacks = na_reader_stacks(r->in->reader);
    uint32_t depth = 0;
    while (entry != NA_NPROF_ROOT && entry != NA_NPROF_NO_STACK && memo[entry] == 0) {
        pending[depth++] = entry;
        entry = stacks.items[entry].parent;
    }
    uint32_t node = memo[entry] == 0 ? 0 : memo[entry] - 1;
    while (depth > 0) {
        const na_symbol_frame_t *frames;
        entry = pending[--depth];
        uint32_t count = na_symbols_frames(r->in->symbols, entry, &frames);
        for (uint32_t i = count;
             i-- > 0 && r->nodes.count < na_webpage_most(r, NA_WEBPAGE_NODES);) {
            uint32_t next = na_intern_numbers(&r->nodes, node, page_frame(r, &frames[i]), 0, NULL);
            if (next == NA_WEBPAGE_NONE) {
                r->out_of_memory = true;
                return 0;
            }
            node = next;
        }
        memo[entry] = node + 1;
    }
    return node;
}

static uint32_t by_of(na_webpage_t *r, uint32_t entry) {
    const na_symbol_frame_t *leaf, *frame = na_view_site(r->in, entry, &leaf);
    return frame == NULL ? NA_WEBPAGE_NONE : page_frame(r, frame);
}

static bool add_ranked_sites(na_webpage_t *r, const rank_t *ranks, size_t kept, uint32_t *memo,
                             uint32_t *pending) {
    const na_sites_t *sites = &r->in->sites;
    na_stack_table_t stacks = na_reader_stacks(r->in->reader);
    for (size_t i = 0; i < kept; i++) {
        const na_site_t *site = &sites->items[ranks[i].site];
        uint32_t node = site->site < stacks.count ? page_node(r, site->site, memo, pending) : 0;
        r->sites[r->site_count] = (na_webpage_site_t){site->site, node, by_of(r, site->site),
                                                      site->sum, na_counters_none()};
        if (site->site < stacks.count) r->row_of_site[site->site] = (uint32_t)++r->site_count;
    }
    uint32_t *together = calloc(stacks.count + 1u, sizeof *together); /* row + 1 by stack entry */
    if (together == NULL) return false;
    for (size_t i = kept; i < sites->count; i++) {
        const na_site_t *site = &sites->items[ranks[i].site];
        uint32_t entry = site->site < stacks.count ? site->site : NA_NPROF_NO_STACK;
        while (entry > NA_NPROF_ROOT && memo[entry] == 0)
            entry = stacks.items[entry].parent;
        if (together[entry] == 0) {
            uint32_t node = memo[entry] == 0 ? 0 : memo[entry] - 1;
            na_webpage_site_t *row = &r->sites[r->site_count];
            *row = (na_webpage_site_t){0, node, NA_WEBPAGE_NONE, na_counters_none(),
                                       na_counters_none()};
            if (node != 0) row->by = r->nodes.keys[node].number[1];
            together[entry] = (uint32_t)++r->site_count;
        }
        na_counters_add(&r->sites[together[entry] - 1].sum, &site->sum);
        r->cut++;
        if (ranks[i].share > r->cut_share) r->cut_share = ranks[i].share;
    }
    free(together);
    return !r->out_of_memory;
}

bool na_webpage_choose(na_webpage_t *r) {
    size_t count = r->in->sites.count;
    uint32_t entries = na_reader_stacks(r->in->reader).count;
    rank_t *ranks = calloc(count + 1, sizeof *ranks);
    uint32_t *memo = calloc(entries + 2u, sizeof *memo);
    uint32_t *pending = calloc(entries + 2u, sizeof *pending);
    r->site_room = count + 1;
    r->sites = calloc(r->site_room, sizeof *r->sites);
    r->row_of_site = calloc(entries + 1u, sizeof *r->row_of_site);
    bool good = ranks != NULL && memo != NULL && pending != NULL && r->sites != NULL &&
                r->row_of_site != NULL &&
                na_intern_numbers(&r->nodes, NA_WEBPAGE_NONE, NA_WEBPAGE_NONE, 0, NULL) == 0;
    if (good) {
        for (size_t i = 0; i < count; i++)
            ranks[i] = (rank_t){na_webpage_share(r->in, &r->in->sites.items[i].sum), i};
        qsort(ranks, count, sizeof *ranks, largest_site_first);
        size_t most = na_webpage_most(r, NA_WEBPAGE_SITES);
        good = add_ranked_sites(r, ranks, count < most ? count : most, memo, pending);
    }
    free(ranks);
    free(memo);
    free(pending);
    return good;
}

/* ---- what is written ---- */

static void put_index(na_json_t *json, uint32_t index) {
    if (index == NA_WEBPAGE_NONE)
        na_json_i64(json, NULL, -1);
    else
        na_json_u64(json, NULL, index);
}

static void put_column(na_webpage_t *r, const char *name, const na_intern_t *set, size_t number) {
    na_json_array(r->json, name);
    for (uint32_t i = 0; i < set->count; i++)
        put_index(r->json, set->keys[i].number[number]);
    na_json_end(r->json);
}

static bool is_used(const na_webpage_t *r, const struct column *column) {
    if (strcmp(column->id, "peak") == 0) return true;
    for (size_t i = 0; i < r->site_count; i++) {
        double value = value_of(r->in, column, &r->sites[i].sum);
        if (isfinite(value) && value != 0) return true;
        value = r->base == NULL ? 0 : value_of(r->base, column, &r->sites[i].before);
        if (isfinite(value) && value != 0) return true;
    }
    return false;
}

static void put_page_totals(const na_webpage_t *r, const na_view_input_t *in, const bool *used) {
    na_json_t *json = r->json;
    na_json_object(json, "totals");
    for (size_t c = 0; c < COLUMNS; c++) {
        if (!used[c]) continue;
        na_json_number(json, columns[c].id, value_of(in, &columns[c], &in->sites.total));
    }
    na_json_end(json);
}

static void put_metrics_part(const na_webpage_t *r, const bool *used) {
    na_json_t *json = r->json;
    na_json_array(json, "metrics");
    for (size_t c = 0; c < COLUMNS; c++) {
        if (!used[c]) continue;
        na_json_object(json, NULL);
        na_json_string(json, "id", columns[c].id);
        na_json_string(json, "name", columns[c].name);
        na_json_string(json, "unit", columns[c].unit);
        na_json_string(json, "term", columns[c].term);
        na_json_bool(json, "tree", adds_up(&columns[c]));
        na_json_end(json);
    }
    na_json_end(json);
    put_page_totals(r, r->in, used);
}

/* One list a figure, in the order of rows; `before`: of the other run. */
static void put_values(const na_webpage_t *r, const bool *used, bool before) {
    const na_view_input_t *in = before ? r->base : r->in;
    na_json_t *json = r->json;
    na_json_object(json, "values");
    for (size_t c = 0; c < COLUMNS; c++) {
        if (!used[c]) continue;
        na_json_array(json, columns[c].id);
        for (size_t i = 0; i < r->site_count; i++) {
            const na_webpage_site_t *site = &r->sites[i];
            double value = value_of(in, &columns[c], before ? &site->before : &site->sum);
            /* What is no number sorts as none. */
            na_json_number(json, NULL, isfinite(value) ? value : 0);
        }
        na_json_end(json);
    }
    na_json_end(json);
}

/* A function of the page, of either run; NULL: not known. */
static const na_function_name_t *page_function(const na_webpage_t *r, uint32_t i) {
    uint32_t id = r->functions.keys[i].number[0];
    const na_view_input_t *in = (id & NA_WEBPAGE_OLD) != 0 ? r->base : r->in;
    id &= ~NA_WEBPAGE_OLD;
    return id < na_symbols_function_count(in->symbols) ? na_symbols_function(in->symbols, id)
                                                       : NULL;
}

static void put_page_tree(na_webpage_t *r) {
    na_json_t *json = r->json;
    na_json_array(json, "strings");
    for (uint32_t i = 0; i < r->strings.count; i++)
        na_json_string(json, NULL, r->strings.keys[i].text);
    na_json_end(json);
    na_json_object(json, "functions");
    put_column(r, "id", &r->functions, 0);
    put_column(r, "name", &r->functions, 1);
    put_column(r, "module", &r->functions, 2);
    na_json_array(json, "runtime");
    for (uint32_t i = 0; i < r->functions.count; i++) {
        const na_function_name_t *f = page_function(r, i);
        put_index(json, f != NULL && f->runtime ? 1 : 0);
    }
    na_json_end(json);
    na_json_array(json, "named");
    for (uint32_t i = 0; i < r->functions.count; i++) {
        const na_function_name_t *f = page_function(r, i);
        put_index(json, f != NULL && f->named ? 1 : 0);
    }
    na_json_end(json);
    na_json_end(json);
    na_json_object(json, "frames");
    put_column(r, "function", &r->frames, 0);
    put_column(r, "file", &r->frames, 1);
    put_column(r, "line", &r->frames, 2);
    na_json_end(json);
    na_json_object(json, "tree");
    put_column(r, "parent", &r->nodes, 0);
    put_column(r, "frame", &r->nodes, 1);
    na_json_end(json);
}

void na_webpage_sites(na_webpage_t *r) {
    na_json_t *json = r->json;
    bool used[COLUMNS];
    for (size_t c = 0; c < COLUMNS; c++)
        used[c] = is_used(r, &columns[c]);
    put_metrics_part(r, used);
    put_page_tree(r);
    na_json_object(json, "sites");
    na_json_array(json, "id");
    for (size_t i = 0; i < r->site_count; i++)
        put_index(json, r->sites[i].id);
    na_json_end(json);
    na_json_array(json, "node");
    for (size_t i = 0; i < r->site_count; i++)
        put_index(json, r->sites[i].node);
    na_json_end(json);
    na_json_array(json, "by");
    for (size_t i = 0; i < r->site_count; i++)
        put_index(json, r->sites[i].by);
    na_json_end(json);
    put_values(r, used, false);
    if (r->base != NULL) {
        na_json_end(json);
        na_json_object(json, "base");
        na_json_string(json, "name", r->base->path);
        put_page_totals(r, r->base, used);
        put_values(r, used, true);
    }
    na_json_end(json);
    na_json_object(json, "cut");
    na_json_u64(json, "sites", r->cut);
    na_json_number(json, "share", r->cut_share);
    na_json_u64(json, "halved", r->shift);
    na_json_end(json);
}
