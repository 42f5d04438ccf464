/* view_tree.c - callers and callees: who asked for memory and on whose behalf, as a tree.
 *
 * Text draws a chain of single callers without indenting it: it begins to branch where callers
 * diverge. */
#include <stdio.h>
#include <string.h>

#include "profiler/dump/profile/call_tree.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

#define MOST_DEPTH  1024u
#define MOST_INDENT 60u

typedef struct print {
    const na_view_input_t *in;
    const na_tree_t *tree;
    double all, least;
    uint32_t depth;
    bool own; /* what a path's last function asked for itself means something */
} print_t;

static double node_cost(const print_t *p, uint32_t node) {
    return na_view_cost(p->in, &p->tree->nodes[node].below);
}

static const char *node_label(const print_t *p, uint32_t node, char out[NA_LABEL]) {
    const na_symbol_frame_t *frame = p->tree->nodes[node].frame;
    if (frame == NULL) return "(no stack)";
    if (p->tree->nodes[node].group != 0) {
        const char *module = na_symbols_function(p->in->symbols, frame->id)->module;
        const char *slash = strrchr(module, '/');
        snprintf(out, NA_LABEL, "%.700s (without symbols)", slash == NULL ? module : slash + 1);
        return out;
    }
    na_view_function_label(na_symbols_function(p->in->symbols, frame->id), out);
    return out;
}

static bool is_shown(const print_t *p, uint32_t node, size_t rank) {
    return rank < p->in->options->table.top && node_cost(p, node) >= p->least &&
           node_cost(p, node) > 0;
}

/* ---- text ---- */

static void put_tree_line(const print_t *p, double value, double self, uint32_t indent,
                          const char *mark, const char *name) {
    char a[NA_TEXT], b[NA_TEXT];
    printf("%10s %5.1f %%  %10s  ", na_view_metric_text(p->in, a, value), 100 * value / p->all,
           self == 0 ? "" : na_view_metric_text(p->in, b, self));
    if (indent > MOST_INDENT) indent = MOST_INDENT;
    printf("%*s%s", (int)indent, "", mark);
    na_text_put(stdout, name);
    putchar('\n');
}

static void put_children(const print_t *p, uint32_t node, uint32_t depth, uint32_t indent) {
    char name[NA_LABEL];
    uint32_t others = 0;
    double rest = 0;
    size_t rank = 0;
    for (uint32_t child = p->tree->nodes[node].child; child != 0;
         child = p->tree->nodes[child].next) {
        const na_tree_node_t *n = &p->tree->nodes[child];
        if (depth >= p->depth || !is_shown(p, child, rank++)) {
            others++;
            rest += node_cost(p, child);
            continue;
        }
        /* The only child with all that its parent has continues a chain. */
        bool chain = node != 0 && n->next == 0 && p->tree->nodes[node].child == child;
        uint32_t deeper = chain || node == 0 ? indent : indent + 2;
        put_tree_line(p, node_cost(p, child), p->own ? na_view_cost(p->in, &n->self) : 0, deeper,
                      chain ? "| " : "", node_label(p, child, name));
        put_children(p, child, depth + 1, deeper);
    }
    if (others == 0 || rest <= 0) return;
    char text[64], count[NA_TEXT];
    snprintf(text, sizeof text, "(%s other%s)", na_text_count(count, others),
             others == 1 ? "" : "s");
    put_tree_line(p, rest, 0, node == 0 ? indent : indent + 2, "", text);
}

/* ---- JSON: nested; CSV: a row a node ---- */

#define DEEPEST_JSON (NA_JSON_DEPTH / 2 - 2) /* an object and an array a node */

static void json_cost(na_json_t *json, const print_t *p, const char *name, const na_cost_t *c) {
    na_json_object(json, name);
    na_json_i64(json, "peak_bytes", c->peak_bytes);
    na_json_i64(json, "live_bytes", c->live_bytes);
    na_json_i64(json, "total_bytes", c->alloc_bytes);
    na_json_number(json, "allocations", na_view_count(p->in, (double)c->alloc_count));
    na_json_end(json);
}

static void json_node(na_json_t *json, const char *name, const print_t *p, uint32_t node,
                      uint32_t depth) {
    const na_tree_node_t *n = &p->tree->nodes[node];
    na_json_object(json, name);
    if (n->frame != NULL) {
        const na_function_name_t *f = na_symbols_function(p->in->symbols, n->frame->id);
        na_json_string(json, "function", f->function);
        na_json_string(json, "file", f->file);
        na_json_u64(json, "line", f->line);
        na_json_string(json, "module", f->module);
    }
    json_cost(json, p, "inclusive", &n->below);
    json_cost(json, p, "exclusive", &n->self);
    na_json_array(json, "children");
    size_t rank = 0, others = 0;
    for (uint32_t child = n->child; child != 0; child = p->tree->nodes[child].next) {
        if (depth >= p->depth || depth >= DEEPEST_JSON || !is_shown(p, child, rank)) {
            others++;
            continue;
        }
        rank++;
        na_json_line(json);
        json_node(json, NULL, p, child, depth + 1);
    }
    na_json_end(json);
    na_json_u64(json, "not_shown", others);
    na_json_end(json);
}

static void csv_nodes(const print_t *p, na_table_t *table, uint32_t node, uint32_t depth) {
    size_t rank = 0;
    for (uint32_t child = p->tree->nodes[node].child; child != 0;
         child = p->tree->nodes[child].next) {
        if (depth >= p->depth || !is_shown(p, child, rank++)) continue;
        const na_tree_node_t *n = &p->tree->nodes[child];
        na_table_row(table, child);
        const double values[] = {child,
                                 node,
                                 depth,
                                 (double)n->below.peak_bytes,
                                 (double)n->below.live_bytes,
                                 (double)n->below.alloc_bytes,
                                 na_view_count(p->in, (double)n->below.alloc_count),
                                 na_view_cost(p->in, &n->self)};
        for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
            na_table_number(table, i, values[i]);
        if (n->frame != NULL) {
            const na_function_name_t *f = na_symbols_function(p->in->symbols, n->frame->id);
            na_table_text(table, 8, f->function);
            na_table_text(table, 9, f->file);
            na_table_text(table, 10, f->module);
        }
        csv_nodes(p, table, child, depth + 1);
    }
}

static const na_column_t tree_columns[] = {
    {"node", NULL, NA_KIND_NUMBER, NULL},       {"parent", NULL, NA_KIND_NUMBER, NULL},
    {"depth", NULL, NA_KIND_NUMBER, NULL},      {"peak_bytes", NULL, NA_KIND_BYTES, NULL},
    {"live_bytes", NULL, NA_KIND_BYTES, NULL},  {"total_bytes", NULL, NA_KIND_BYTES, NULL},
    {"allocations", NULL, NA_KIND_COUNT, NULL}, {"exclusive", NULL, NA_KIND_NUMBER, NULL},
    {"function", NULL, NA_KIND_TEXT, NULL},     {"file", NULL, NA_KIND_TEXT, NULL},
    {"module", NULL, NA_KIND_TEXT, NULL},
};
static const na_columns_t tree_table = NA_COLUMNS(tree_columns);

static na_status_t put_tree_csv(const print_t *p) {
    na_table_t *table = na_table_open(&tree_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    csv_nodes(p, table, 0, 0);
    na_options_t options = {.table.format = NA_FORMAT_CSV, .table.top = SIZE_MAX};
    const na_table_print_t print = {.view = p->in->options->table.sort};
    na_status_t status = na_table_write(table, &options, &print);
    na_table_close(table);
    return status;
}

static na_status_t show_tree(na_view_input_t *in, na_tree_kind_t kind) {
    na_tree_t tree;
    bool grouped = in->options->table.format == NA_FORMAT_TEXT && !in->options->frames.addresses;
    if (!na_tree_build(in, kind, grouped, &tree)) {
        na_tree_free(&tree);
        return NA_STATUS_MEMORY;
    }
    na_tree_sort(in, &tree);
    print_t p = {.in = in, .tree = &tree, .all = na_view_metric(in, &in->sites.total)};
    if (p.all <= 0) p.all = 1;
    p.least = p.all * in->options->drawing.min_share;
    p.depth = in->options->drawing.depth != 0 ? in->options->drawing.depth : MOST_DEPTH;
    p.own = kind == NA_TREE_CALLEES;
    const char *name = kind == NA_TREE_CALLERS ? "callers" : "callees";
    na_status_t status = NA_STATUS_WHOLE;
    na_json_t json = na_json_open(stdout);
    switch (in->options->table.format) {
    case NA_FORMAT_TEXT:
        printf("%s, by %s\n%10s %7s  %10s  function\n",
               kind == NA_TREE_CALLERS ? "Functions that allocate, and below each its callers"
                                       : "Calls, and below each what it calls",
               na_view_order_title(in->order), "with all", "share", p.own ? "own" : "");
        put_children(&p, 0, 0, 0);
        if (tree.count == 1) printf("(no stack has a function that matches)\n");
        break;
    case NA_FORMAT_JSON:
        na_json_document(&json, name);
        json_node(&json, "tree", &p, 0, 0);
        na_json_end(&json);
        break;
    case NA_FORMAT_CSV:
        status = put_tree_csv(&p);
        break;
    }
    na_tree_free(&tree);
    return status;
}

static na_status_t show_callers(na_view_input_t *in) {
    return show_tree(in, NA_TREE_CALLERS);
}

static na_status_t show_callees(na_view_input_t *in) {
    return show_tree(in, NA_TREE_CALLEES);
}

const na_view_t na_view_row_callers = {
    .name = "callers",
    .words = "FILE",
    .help = "functions that allocate, and below each its callers",
    .more = "--filter: paths begin at the innermost function that matches.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ORDERS,
    .takes =
        NA_TAKES_TABLE | NA_TAKES(DEPTH) | NA_TAKES(MIN) | NA_TAKES(WRAPPERS) | NA_TAKES(ADDRESSES),
    .show = show_callers,
};

const na_view_t na_view_row_callees = {
    .name = "callees",
    .words = "FILE",
    .help = "the calls from the start of each thread inwards",
    .more = "--filter: paths begin at the outermost function that matches.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ORDERS,
    .takes =
        NA_TAKES_TABLE | NA_TAKES(DEPTH) | NA_TAKES(MIN) | NA_TAKES(WRAPPERS) | NA_TAKES(ADDRESSES),
    .show = show_callees,
};
