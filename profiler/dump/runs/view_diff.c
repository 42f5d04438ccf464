/* view_diff.c - two profiles beside each other, function by function, or line by line.
 *
 * Functions are the same if their names are, the names of their source files without directories,
 * and if their modules are a pair (module_pairs.h): a new build moves addresses, lines and
 * sometimes places. Of several functions for which all that is the same, the first is the first's
 * pair, by their files and lines. Compilers number lambdas and unnamed types, so one more moves the
 * numbers of others: names count without these numbers; where the two sides have several, and not
 * equally many, which is which is not known, and all are one row, with * for the number. Lines are
 * the same if file and number are: those of one build. */
#include <ctype.h>
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/path.h"
#include "profiler/dump/profile/source_lines.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/runs/function_diff.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

/* Behind the sign before a compiler's number, if `at` begins one: {lambda(int)#1}, {unnamed
 * type#1}, $_1. NULL: it does not. */
static const char *before_number(const char *at) {
    bool numbered = at[0] == '#' || (at[0] == '$' && at[1] == '_');
    const char *digits = at + (at[0] == '#' ? 1 : 2);
    return numbered && isdigit((unsigned char)digits[0]) ? digits : NULL;
}

/* As strcmp, without the numbers that compilers give. */
static int compare_unnumbered(const char *x, const char *y) {
    while (*x != 0 && *x == *y) {
        const char *i = before_number(x), *k = before_number(y);
        if (i != NULL && k != NULL) {
            x = i + strspn(i, "0123456789");
            y = k + strspn(k, "0123456789");
        } else {
            x++;
            y++;
        }
    }
    return ((unsigned char)*x > (unsigned char)*y) - ((unsigned char)*x < (unsigned char)*y);
}

static int compare_names(const na_diff_row_t *x, const na_diff_row_t *y) {
    int order = compare_unnumbered(x->function, y->function);
    if (order == 0) order = strcmp(x->module, y->module);
    if (order == 0) order = strcmp(na_base_name(x->name->file), na_base_name(y->name->file));
    return order;
}

static int compare_pairs(const na_diff_row_t *x, const na_diff_row_t *y) {
    int order = compare_names(x, y);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int diff_by_pair(const void *a, const void *b) {
    return compare_pairs(a, b);
}

static int diff_by_place(const void *a, const void *b) {
    const na_diff_row_t *x = a, *y = b;
    int order = compare_names(x, y);
    if (order == 0) order = (x->side > y->side) - (x->side < y->side);
    if (order == 0 && x->name->file != NULL && y->name->file != NULL)
        order = strcmp(x->name->file, y->name->file);
    if (order == 0) order = (x->name->line > y->name->line) - (x->name->line < y->name->line);
    if (order == 0) order = strverscmp(x->function, y->function);
    return order != 0 ? order : (x->name > y->name) - (x->name < y->name);
}

/* Of functions with one name, the first `old` are the old side's: which is which? By their order,
 * if that is all there is to know. */
static void number_group(na_diff_row_t *rows, size_t old, size_t count) {
    const char *at = rows->function;
    while (*at != 0 && before_number(at) == NULL)
        at++;
    bool several = *at != 0 && old != 0 && old != count && 2 * old != count;
    for (size_t i = 0; i < count; i++) {
        rows[i].number = several ? 0 : (uint32_t)(i < old ? i : i - old);
        rows[i].several = several;
    }
}

static void number_rows(na_diff_t *diff) {
    if (diff->count == 0) return;
    qsort(diff->items, diff->count, sizeof *diff->items, diff_by_place);
    for (size_t i = 0, end; i < diff->count; i = end) {
        size_t old = 0;
        for (end = i; end < diff->count && compare_names(&diff->items[i], &diff->items[end]) == 0;
             end++)
            old += diff->items[end].side == 0;
        number_group(&diff->items[i], old, end - i);
    }
    qsort(diff->items, diff->count, sizeof *diff->items, diff_by_pair);
}

/* The row of several has their name with * for the numbers, and no line. False: out of memory. */
static bool name_several(na_diff_row_t *row) {
    na_function_name_t *name = malloc(sizeof *name + strlen(row->name->function) + 1);
    if (name == NULL) return false;
    *name = *row->name;
    name->line = 0;
    char *to = (char *)(name + 1);
    name->function = to;
    for (const char *from = row->name->function; *from != 0;) {
        const char *digits = before_number(from);
        *to++ = *from++;
        if (digits == NULL) continue;
        while (from < digits)
            *to++ = *from++;
        from += strspn(from, "0123456789");
        *to++ = '*';
    }
    *to = 0;
    row->name = name;
    return true;
}

/* Adds the functions of one side that are responsible for something. */
static void add_side(na_diff_t *diff, const na_view_input_t *in, int side) {
    for (size_t i = 0; i < in->functions.count; i++) {
        const na_function_row_t *row = &in->functions.items[i];
        if (row->sites == 0) continue;
        na_diff_row_t *to = &diff->items[diff->count++];
        memset(to, 0, sizeof *to);
        to->side = (uint32_t)side;
        to->name = na_symbols_function(in->symbols, row->id);
        to->cost[side] = na_view_cost_of(&row->self);
        na_pairs_key(diff->pairs, side, to->name, &to->module, &to->function);
    }
}

bool na_diff_make(const na_view_input_t *old, const na_view_input_t *new, na_diff_t *diff) {
    diff->count = 0;
    diff->items = calloc(old->functions.count + new->functions.count + 1, sizeof *diff->items);
    diff->pairs = na_pairs_open(old, new);
    if (diff->items == NULL || diff->pairs == NULL) {
        na_diff_free(diff);
        return false;
    }
    add_side(diff, old, 0);
    add_side(diff, new, 1);
    number_rows(diff);
    size_t kept = 0;
    for (size_t i = 0; i < diff->count; i++) {
        if (kept != 0 && compare_pairs(&diff->items[kept - 1], &diff->items[i]) == 0) {
            na_cost_t *to = diff->items[kept - 1].cost, *from = diff->items[i].cost;
            for (int side = 0; side < 2; side++)
                na_cost_add(&to[side], &from[side]);
            continue;
        }
        diff->items[kept++] = diff->items[i];
    }
    diff->count = kept;
    for (size_t i = 0; i < kept; i++) {
        if (!diff->items[i].several || name_several(&diff->items[i])) continue;
        for (; i < kept; i++)
            diff->items[i].several = false; /* owns no name */
        na_diff_free(diff);
        return false;
    }
    return true;
}

void na_diff_free(na_diff_t *diff) {
    for (size_t i = 0; i < diff->count; i++)
        if (diff->items[i].several) free((void *)diff->items[i].name);
    free(diff->items);
    na_pairs_close(diff->pairs);
    diff->pairs = NULL;
    diff->items = NULL;
    diff->count = 0;
}

static void put_total(const na_view_input_t *old, const na_view_input_t *new, na_order_t order,
                      const char *name) {
    na_view_input_t a = *old, b = *new;
    a.order = b.order = order;
    double x = na_view_metric(&a, &a.sites.total), y = na_view_metric(&b, &b.sites.total);
    char p[NA_TEXT], q[NA_TEXT], r[NA_TEXT];
    printf("%-12s %12s  %12s  %12s", name, na_view_metric_text(&a, p, x),
           na_view_metric_text(&b, q, y), na_view_metric_text(&b, r, y - x));
    if (x > 0) printf("  %+.1f %%", 100 * (y - x) / x);
    putchar('\n');
}

static void put_renamed(void *arg, const char *old, const char *new, const char *why) {
    (void)arg;
    printf("compared     ");
    na_text_put(stdout, na_base_name(old));
    fputs(" with ", stdout);
    na_text_put(stdout, na_base_name(new));
    printf(": %s\n", why);
}

static const na_column_t diff_columns[] = {
    {"old", "old", NA_KIND_BYTES, NULL},       {"new", "new", NA_KIND_BYTES, NULL},
    {"change", "change", NA_KIND_BYTES, NULL}, {"change_size", NULL, NA_KIND_NUMBER, NULL},
    {"ratio", "new/old", NA_KIND_SHARE, NULL}, {NULL, "function", NA_KIND_TEXT, NULL},
    {"function", NULL, NA_KIND_TEXT, NULL},    {"file", NULL, NA_KIND_TEXT, NULL},
    {"module", NULL, NA_KIND_TEXT, NULL},
};
static const na_columns_t diff_table = NA_COLUMNS(diff_columns);

static const na_column_t line_columns[] = {
    {"old", "old", NA_KIND_BYTES, NULL},       {"new", "new", NA_KIND_BYTES, NULL},
    {"change", "change", NA_KIND_BYTES, NULL}, {"change_size", NULL, NA_KIND_NUMBER, NULL},
    {"ratio", "new/old", NA_KIND_SHARE, NULL}, {NULL, "line", NA_KIND_TEXT, NULL},
    {"file", NULL, NA_KIND_TEXT, NULL},        {"line", NULL, NA_KIND_NUMBER, NULL},
};
static const na_columns_t line_table = NA_COLUMNS(line_columns);

/* The columns that both tables begin with. */
enum { OLD, NEW, CHANGE, SIZE, RATIO, LABEL };

/* A row of either, unless the figure is the same. */
static bool put_diff_row(na_table_t *table, const na_view_input_t *old, const na_cost_t *x_cost,
                         const na_cost_t *y_cost, uint64_t tag) {
    double x = na_view_cost(old, x_cost), y = na_view_cost(old, y_cost);
    if (x == y) return false;
    na_table_row(table, tag);
    na_table_number(table, OLD, x);
    na_table_number(table, NEW, y);
    na_table_number(table, CHANGE, y - x);
    na_table_number(table, SIZE, fabs(y - x));
    if (x > 0) na_table_number(table, RATIO, y / x);
    return true;
}

static void put_diff_functions(na_table_t *table, const na_view_input_t *old,
                               const na_diff_t *diff) {
    enum { FUNCTION = LABEL + 1, FILE_NAME, MODULE };
    for (size_t i = 0; i < diff->count; i++) {
        const na_diff_row_t *row = &diff->items[i];
        if (!put_diff_row(table, old, &row->cost[0], &row->cost[1], i)) continue;
        char label[NA_LABEL];
        na_view_function_label(row->name, label);
        na_table_text(table, LABEL, label);
        na_table_text(table, FUNCTION, row->name->function);
        na_table_text(table, FILE_NAME, row->name->file);
        na_table_text(table, MODULE, row->name->module);
    }
}

/* False: out of memory. */
static bool put_diff_lines(na_table_t *table, const na_view_input_t *old,
                           const na_view_input_t *new) {
    enum { FILE_NAME = LABEL + 1, LINE };
    na_options_t all = *old->options;
    all.table.filter.given = false; /* the rows are chosen, by all that they say */
    na_source_lines_t sides[2] = {{0}, {0}};
    bool good = na_source_lines_gather(old, &all, false, &sides[0]) &&
                na_source_lines_gather(new, &all, false, &sides[1]);
    for (uint32_t i = 0, j = 0; good && (i < sides[0].count || j < sides[1].count);) {
        static const na_cost_t nothing;
        const na_source_line_t *x = i < sides[0].count ? &sides[0].items[i] : NULL;
        const na_source_line_t *y = j < sides[1].count ? &sides[1].items[j] : NULL;
        int order = x == NULL ? 1 : y == NULL ? -1 : na_source_lines_compare(x, y);
        const na_source_line_t *line = order <= 0 ? x : y;
        if (put_diff_row(table, old, order <= 0 ? &x->self : &nothing,
                         order >= 0 ? &y->self : &nothing, (uint64_t)i + j)) {
            na_table_format(table, LABEL, "%s:%u", na_base_name(line->file), line->number);
            na_table_text(table, FILE_NAME, line->file);
            na_table_number(table, LINE, line->number);
        }
        i += order <= 0;
        j += order >= 0;
    }
    na_source_lines_free(&sides[0]);
    na_source_lines_free(&sides[1]);
    return good;
}

static na_status_t show_diff(const na_view_input_t *old, const na_view_input_t *new) {
    bool lines = old->options->rows.lines;
    na_diff_t diff;
    na_table_t *table = na_table_open(lines ? &line_table : &diff_table);
    if (table == NULL || !na_diff_make(old, new, &diff)) {
        na_table_close(table);
        return NA_STATUS_MEMORY;
    }
    for (size_t i = OLD; i <= CHANGE && old->order == NA_ORDER_COUNT; i++)
        na_table_kind(table, i, NA_KIND_COUNT);
    if (!lines) {
        put_diff_functions(table, old, &diff);
    } else if (!put_diff_lines(table, old, new)) {
        na_table_close(table);
        na_diff_free(&diff);
        return NA_STATUS_MEMORY;
    }
    if (old->options->table.format == NA_FORMAT_TEXT) {
        printf("%-12s %12s  %12s  %12s\n", "", "old", "new", "change");
        put_total(old, new, NA_ORDER_PEAK, "peak");
        put_total(old, new, NA_ORDER_LIVE, "live");
        put_total(old, new, NA_ORDER_TOTAL, "total");
        put_total(old, new, NA_ORDER_COUNT, "allocations");
        na_pairs_renamed(diff.pairs, put_renamed, NULL);
        putchar('\n');
    }
    char title[128];
    snprintf(title, sizeof title, "%s that changed, by %s (%%s)", lines ? "Lines" : "Functions",
             na_view_order_title(old->order));
    /* peak, live, ... say which figure is compared; the order is that of the changes. */
    na_options_t options = *old->options;
    na_order_t order;
    if (options.table.sort != NULL && na_view_order(options.table.sort, &order))
        options.table.sort = NULL;
    const na_table_print_t print = {
        .view = "diff", .title = title, .empty = "Nothing changed.", .sort = "change_size"};
    na_status_t status = na_table_write(table, &options, &print);
    na_table_close(table);
    na_diff_free(&diff);
    return status;
}

static na_status_t diff_files(const char *const *files, size_t count, const na_options_t *options) {
    (void)count;
    na_view_input_t old, new;
    na_status_t status = na_view_load(&old, files[0], options, false);
    if (status != NA_STATUS_WHOLE) return status;
    status = na_view_load(&new, files[1], options, false);
    if (status == NA_STATUS_WHOLE) {
        status = show_diff(&old, &new);
        na_status_t damage = na_view_unload(&new, true);
        if (status == NA_STATUS_WHOLE) status = damage;
    }
    na_status_t damage = na_view_unload(&old, true);
    return status == NA_STATUS_WHOLE ? damage : status;
}

const na_view_t na_view_row_diff = {
    .name = "diff",
    .words = "OLD NEW",
    .help = "what changed between two profiles, by function or line",
    .more = "--sort peak, live, total or count says which figure is compared. --lines is for two\n"
            "profiles, or copies of one, of the same build: a line is its file and number.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ORDERS,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS) | NA_TAKES(LINES),
    .tables = {{&diff_table, 0}, {&line_table, NA_TAKES(LINES)}},
    .show_files = diff_files,
};
