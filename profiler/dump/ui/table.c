/* table.c - rows of cells to text, JSON or CSV. See table.h. */
#include "profiler/dump/ui/table.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

/* Of columns of kind TEXT the text, of the others the number. */
typedef union cell {
    double number;    /* NAN: absent */
    const char *text; /* one of the table's texts; NULL: absent */
} cell_t;

typedef struct row {
    uint64_t tag;
    size_t cells; /* index of its first cell */
} row_t;

struct na_table {
    na_column_t *columns;
    size_t column_count;
    row_t *rows;
    size_t row_count, row_room;
    cell_t *cells;
    size_t cell_count, cell_room;
    char **texts; /* each once, however many cells have it: rows are many, names are few */
    uint32_t text_count, text_room;
    na_index_t text_index;
    size_t passed; /* rows that na_table_pass has written, or that are not among the first */
    bool begun;    /* by na_table_pass */
    bool failed;
    na_json_t json; /* of na_table_pass */
};

na_table_t *na_table_open_joined(const na_column_t *first, size_t first_count,
                                 const na_columns_t *then) {
    na_table_t *table = calloc(1, sizeof *table);
    if (table == NULL) return NULL;
    table->column_count = first_count + then->count;
    table->columns = calloc(table->column_count + 1, sizeof *table->columns);
    if (table->columns == NULL) {
        free(table);
        return NULL;
    }
    if (first_count != 0) memcpy(table->columns, first, first_count * sizeof *first);
    memcpy(table->columns + first_count, then->items, then->count * sizeof *then->items);
    return table;
}

na_table_t *na_table_open(const na_columns_t *columns) {
    return na_table_open_joined(NULL, 0, columns);
}

void na_table_kind(na_table_t *table, size_t column, na_cell_kind_t kind) {
    table->columns[column].kind = kind;
}

void na_table_close(na_table_t *table) {
    if (table == NULL) return;
    for (uint32_t i = 0; i < table->text_count; i++)
        free(table->texts[i]);
    free(table->texts);
    na_index_free(&table->text_index);
    free(table->cells);
    free(table->columns);
    free(table->rows);
    free(table);
}

size_t na_table_rows(const na_table_t *table) {
    return table->row_count;
}

static bool is_text(const na_table_t *table, size_t column) {
    return table->columns[column].kind == NA_KIND_TEXT;
}

void na_table_row(na_table_t *table, uint64_t tag) {
    if (table->failed) return;
    if (!NA_ARRAY_RESERVE(table->rows, table->row_room, table->row_count + 1u)) {
        table->failed = true;
        return;
    }
    if (!NA_ARRAY_RESERVE(table->cells, table->cell_room,
                          table->cell_count + table->column_count)) {
        table->failed = true;
        return;
    }
    table->rows[table->row_count++] = (row_t){tag, table->cell_count};
    for (size_t i = 0; i < table->column_count; i++)
        table->cells[table->cell_count++] =
            is_text(table, i) ? (cell_t){.text = NULL} : (cell_t){.number = NAN};
}

/* NULL also where the column is of the other kind. */
static cell_t *last_cell(na_table_t *table, size_t column, bool text) {
    if (table->failed || table->row_count == 0 || column >= table->column_count ||
        is_text(table, column) != text)
        return NULL;
    return &table->cells[table->rows[table->row_count - 1].cells + column];
}

/* The table's copy. NULL: out of memory. */
static const char *keep_text(na_table_t *table, const char *text) {
    uint64_t hash = na_hash_text(NA_HASH_BEGIN, text);
    na_probe_t probe = na_index_probe(&table->text_index, hash);
    while (na_index_next(&table->text_index, &probe))
        if (strcmp(table->texts[probe.number], text) == 0) return table->texts[probe.number];
    if (!NA_ARRAY_RESERVE(table->texts, table->text_room, table->text_count + 1u)) return NULL;
    char *copy = strdup(text);
    if (copy == NULL || !na_index_add(&table->text_index, hash, table->text_count)) {
        free(copy);
        return NULL;
    }
    return table->texts[table->text_count++] = copy;
}

void na_table_number(na_table_t *table, size_t column, double value) {
    cell_t *cell = last_cell(table, column, false);
    if (cell != NULL) cell->number = value;
}

void na_table_text(na_table_t *table, size_t column, const char *text) {
    cell_t *cell = last_cell(table, column, true);
    if (cell == NULL || text == NULL) return;
    cell->text = keep_text(table, text);
    table->failed = cell->text == NULL;
}

void na_table_format(na_table_t *table, size_t column, const char *format, ...) {
    char *text;
    va_list args;
    va_start(args, format);
    if (vasprintf(&text, format, args) < 0) text = NULL;
    va_end(args);
    if (text == NULL)
        table->failed = true;
    else
        na_table_text(table, column, text);
    free(text);
}

bool na_table_wanted(const na_options_t *options) {
    return options->table.format != NA_FORMAT_TEXT || options->table.sort != NULL ||
           options->table.filter.given || na_option_given(options, NA_SET_TOP);
}

bool na_filter_matches(const na_options_t *options, const char *text) {
    return !options->table.filter.given ||
           (text != NULL && regexec(&options->table.filter.regex, text, 0, NULL, 0) == 0);
}

/* ---- order and choice of rows ---- */

typedef struct order {
    const na_table_t *table;
    size_t column;
    bool ascending;
} order_t;

static int compare_rows(const void *a, const void *b, void *arg) {
    const order_t *order = arg;
    const row_t *x = a, *y = b;
    const cell_t *p = &order->table->cells[x->cells + order->column];
    const cell_t *q = &order->table->cells[y->cells + order->column];
    int result = 0;
    if (order->table->columns[order->column].kind == NA_KIND_TEXT) {
        result = strcmp(p->text == NULL ? "" : p->text, q->text == NULL ? "" : q->text);
    } else if (isnan(p->number) || isnan(q->number)) {
        result = (isnan(p->number) != 0) - (isnan(q->number) != 0); /* absent ones last */
    } else if (p->number != q->number) {
        result = (p->number > q->number) == order->ascending ? 1 : -1;
    }
    /* Ties stay as they were filled. */
    return result != 0 ? result : (x->cells > y->cells) - (x->cells < y->cells);
}

static bool find_column(const na_table_t *table, const char *name, size_t *column) {
    for (size_t i = 0; i < table->column_count; i++) {
        const na_column_t *c = &table->columns[i];
        if ((c->key != NULL && strcmp(c->key, name) == 0) ||
            (c->alias != NULL && strcmp(c->alias, name) == 0)) {
            *column = i;
            return true;
        }
    }
    return false;
}

static const char *sort_key(const na_options_t *options, const na_table_print_t *print) {
    return options->table.sort != NULL ? options->table.sort : print->sort;
}

static bool sort_rows(na_table_t *table, const na_options_t *options,
                      const na_table_print_t *print) {
    const char *key = sort_key(options, print);
    if (key == NULL) return true;
    order_t order = {table, 0, options->table.sort == NULL && print->ascending};
    if (!find_column(table, key, &order.column)) {
        na_fail("--sort: this table has no column %s", key);
        return false;
    }
    /* What the user ordered by is shown. */
    if (options->table.sort != NULL && table->columns[order.column].title == NULL)
        table->columns[order.column].title = table->columns[order.column].key;
    if (table->row_count != 0)
        qsort_r(table->rows, table->row_count, sizeof *table->rows, compare_rows, &order);
    return true;
}

static bool row_matches(const na_table_t *table, const na_options_t *options, const row_t *row) {
    bool matches = !options->table.filter.given;
    for (size_t i = 0; i < table->column_count && !matches; i++)
        matches = is_text(table, i) && table->cells[row->cells + i].text != NULL &&
                  na_filter_matches(options, table->cells[row->cells + i].text);
    return matches;
}

static void filter_rows(na_table_t *table, const na_options_t *options) {
    size_t kept = 0;
    for (size_t r = 0; r < table->row_count; r++)
        if (row_matches(table, options, &table->rows[r])) table->rows[kept++] = table->rows[r];
    table->row_count = kept;
}

/* ---- text ---- */

static void cell_text(const na_column_t *column, const cell_t *cell, char out[NA_TEXT]) {
    if (isnan(cell->number)) {
        strcpy(out, "-");
        return;
    }
    switch (column->kind) {
    case NA_KIND_BYTES:
        na_text_bytes(out, cell->number);
        break;
    case NA_KIND_MS:
        if (cell->number >= 0 && cell->number < 1000 && cell->number != floor(cell->number))
            snprintf(out, NA_TEXT, "%.*f ms", cell->number < 10 ? 2 : 1, cell->number);
        else
            na_text_ms(out, cell->number < 0 ? 0 : (uint64_t)cell->number);
        break;
    case NA_KIND_SHARE:
        snprintf(out, NA_TEXT, "%.1f %%", 100 * cell->number);
        break;
    case NA_KIND_ERROR:
        if (cell->number * 100 < 1000)
            snprintf(out, NA_TEXT, "+-%.0f %%", cell->number * 100);
        else
            strcpy(out, "?");
        break;
    case NA_KIND_US:
        snprintf(out, NA_TEXT, "%.3f", cell->number);
        break;
    case NA_KIND_ADDRESS:
        snprintf(out, NA_TEXT, "%#" PRIx64, (uint64_t)cell->number);
        break;
    case NA_KIND_NUMBER:
        if (cell->number == floor(cell->number) && fabs(cell->number) < 1e15)
            snprintf(out, NA_TEXT, "%" PRId64, (int64_t)cell->number);
        else
            snprintf(out, NA_TEXT, "%.6g", cell->number);
        break;
    case NA_KIND_COUNT:
    case NA_KIND_TEXT:
    default:
        na_text_count(out, cell->number);
        break;
    }
}

/* Characters, not bytes: UTF-8 continuation bytes take no place. */
static size_t text_width(const char *text) {
    size_t width = 0;
    for (; *text != 0; text++)
        width += ((unsigned char)*text & 0xc0) != 0x80;
    return width;
}

/* Width of each column of the text, 0: not shown; returns the last one that is. */
static size_t measure_columns(const na_table_t *table, const na_table_print_t *print, size_t shown,
                              size_t *width) {
    size_t last = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        const na_column_t *column = &table->columns[i];
        width[i] = 0;
        if (column->title == NULL || (print->lines_from != 0 && i >= print->lines_from)) continue;
        for (size_t r = 0; r < shown; r++) {
            const cell_t *cell = &table->cells[table->rows[r].cells + i];
            char text[NA_TEXT];
            size_t w;
            if (column->kind == NA_KIND_TEXT) {
                w = cell->text == NULL ? 0 : text_width(cell->text);
            } else {
                if (isnan(cell->number)) continue;
                cell_text(column, cell, text);
                w = strlen(text);
            }
            if (w > width[i]) width[i] = w;
        }
        if (shown == 0) width[i] = 1;
        if (width[i] != 0) {
            last = i;
            if (strlen(column->title) > width[i]) width[i] = strlen(column->title);
        }
    }
    return last;
}

static void put_blanks(size_t count) {
    static const char blanks[] = "                                ";
    for (; count > sizeof blanks - 1; count -= sizeof blanks - 1)
        fputs(blanks, stdout);
    fputs(blanks + sizeof blanks - 1 - count, stdout);
}

/* One line; `row` NULL: the heading. */
static void put_table_line(const na_table_t *table, const size_t *width, size_t last,
                           const row_t *row) {
    bool first = true;
    for (size_t i = 0; i < table->column_count; i++) {
        const na_column_t *column = &table->columns[i];
        if (width[i] == 0) continue;
        if (!first) fputs("  ", stdout);
        first = false;
        const cell_t *cell = row == NULL ? NULL : &table->cells[row->cells + i];
        char text[NA_TEXT];
        if (column->kind == NA_KIND_TEXT) {
            const char *name = row == NULL ? column->title : cell->text == NULL ? "" : cell->text;
            na_text_put(stdout, name);
            size_t is = text_width(name);
            if (i != last && is < width[i]) put_blanks(width[i] - is);
        } else {
            if (row != NULL) cell_text(column, cell, text);
            const char *shown = row == NULL ? column->title : text;
            size_t is = strlen(shown);
            if (is < width[i]) put_blanks(width[i] - is);
            fputs(shown, stdout);
        }
    }
    putchar('\n');
}

/* The columns that are lines of their own: "  title  text". */
static void put_line_columns(const na_table_t *table, size_t from, const row_t *row) {
    size_t widest = 0;
    for (size_t i = from; i < table->column_count; i++)
        if (table->columns[i].title != NULL && strlen(table->columns[i].title) > widest)
            widest = strlen(table->columns[i].title);
    for (size_t i = from; i < table->column_count; i++) {
        const char *text = is_text(table, i) ? table->cells[row->cells + i].text : NULL;
        if (table->columns[i].title == NULL || text == NULL) continue;
        printf("  %-*s  ", (int)widest, table->columns[i].title);
        na_text_put(stdout, text);
        putchar('\n');
    }
}

static void put_table_text(const na_table_t *table, const na_table_print_t *print, size_t shown,
                           size_t all) {
    size_t width[table->column_count];
    size_t last = measure_columns(table, print, shown, width);
    if (print->title != NULL) {
        char a[NA_TEXT], b[NA_TEXT], counts[2 * NA_TEXT + 8];
        snprintf(counts, sizeof counts, "%s of %s", na_text_count(a, (double)shown),
                 na_text_count(b, (double)all));
        const char *mark = strstr(print->title, "%s");
        if (mark == NULL)
            printf("%s\n", print->title);
        else
            printf("%.*s%s%s\n", (int)(mark - print->title), print->title, counts, mark + 2);
    }
    if (shown == 0 && print->empty != NULL) {
        printf("%s\n", print->empty);
        return;
    }
    if (print->text == NULL) put_table_line(table, width, last, NULL);
    for (size_t r = 0; r < shown; r++) {
        const row_t *row = &table->rows[r];
        if (print->text != NULL) {
            print->text(print->arg, row->tag, r + 1);
            continue;
        }
        put_table_line(table, width, last, row);
        if (print->lines_from != 0) put_line_columns(table, print->lines_from, row);
        if (print->below != NULL) print->below(print->arg, row->tag);
    }
}

/* ---- JSON and CSV ---- */

static void put_cell_json(na_json_t *json, const na_column_t *column, const cell_t *cell) {
    if (column->kind == NA_KIND_TEXT)
        na_json_string(json, column->key, cell->text);
    else
        na_json_number(json, column->key, cell->number);
}

static void put_row_json(na_json_t *json, const na_table_t *table, const na_table_print_t *print,
                         const row_t *row) {
    if (print->json != NULL) {
        print->json(json, print->arg, row->tag);
        return;
    }
    na_json_object(json, NULL);
    for (size_t i = 0; i < table->column_count; i++)
        if (table->columns[i].key != NULL)
            put_cell_json(json, &table->columns[i], &table->cells[row->cells + i]);
    if (print->members != NULL) print->members(json, print->arg, row->tag);
    na_json_end(json);
}

static void put_rows_json(na_json_t *json, const char *name, const na_table_t *table,
                          const na_table_print_t *print, size_t shown) {
    na_json_array(json, name);
    for (size_t r = 0; r < shown; r++) {
        na_progress("writing", r, shown);
        na_json_line(json);
        put_row_json(json, table, print, &table->rows[r]);
    }
    na_json_end(json);
}

void na_json_document(na_json_t *json, const char *view) {
    na_json_object(json, NULL);
    na_json_text(json, "schema", "numalloc-dump.%s", view);
    na_json_u64(json, "schema_version", 1);
}

static void put_table_json(const na_table_t *table, const na_table_print_t *print, size_t shown,
                           size_t all) {
    na_json_t json = na_json_open(stdout);
    na_json_document(&json, print->view);
    na_json_u64(&json, "row_count", all);
    put_rows_json(&json, "rows", table, print, shown);
    na_json_end(&json);
}

static void put_cell_csv(const na_column_t *column, const cell_t *cell) {
    if (column->kind != NA_KIND_TEXT) {
        if (isnan(cell->number)) return;
        if (column->kind == NA_KIND_ADDRESS)
            printf("%#" PRIx64, (uint64_t)cell->number);
        else
            na_json_put_number(stdout, cell->number);
        return;
    }
    const char *text = cell->text == NULL ? "" : cell->text;
    if (strpbrk(text, ",\"\r\n") == NULL) {
        fputs(text, stdout);
        return;
    }
    putchar('"');
    for (; *text != 0; text++) {
        if (*text == '"') putchar('"');
        putchar(*text);
    }
    putchar('"');
}

/* RFC 4180, but for the line ends; `row` NULL: the line of names. */
static void put_row_csv(const na_table_t *table, const row_t *row) {
    bool first = true;
    for (size_t i = 0; i < table->column_count; i++) {
        const na_column_t *column = &table->columns[i];
        if (column->key == NULL) continue;
        if (!first) putchar(',');
        first = false;
        if (row == NULL)
            fputs(column->key, stdout);
        else
            put_cell_csv(column, &table->cells[row->cells + i]);
    }
    putchar('\n');
}

static void put_table_csv(const na_table_t *table, size_t shown) {
    put_row_csv(table, NULL);
    for (size_t r = 0; r < shown; r++) {
        na_progress("writing", r, shown);
        put_row_csv(table, &table->rows[r]);
    }
}

/* How many rows --top leaves. */
static size_t most_rows(const na_options_t *options, const na_table_print_t *print) {
    return print->all && !na_option_given(options, NA_SET_TOP) ? SIZE_MAX : options->table.top;
}

/* The rows to show, in their order, come first; *shown: how many. */
static na_status_t choose_rows(na_table_t *table, const na_options_t *options,
                               const na_table_print_t *print, size_t *shown) {
    if (table->failed) return NA_STATUS_MEMORY;
    filter_rows(table, options);
    if (!sort_rows(table, options, print)) return NA_STATUS_NOTHING;
    size_t top = most_rows(options, print);
    *shown = table->row_count < top ? table->row_count : top;
    return NA_STATUS_WHOLE;
}

na_status_t na_table_write(na_table_t *table, const na_options_t *options,
                           const na_table_print_t *print) {
    size_t shown;
    na_status_t status = choose_rows(table, options, print, &shown);
    if (status != NA_STATUS_WHOLE) return status;
    size_t all = table->row_count + table->passed;
    switch (options->table.format) {
    case NA_FORMAT_JSON:
        put_table_json(table, print, shown, all);
        break;
    case NA_FORMAT_CSV:
        put_table_csv(table, shown);
        break;
    case NA_FORMAT_TEXT:
        put_table_text(table, print, shown, all);
        break;
    }
    return NA_STATUS_WHOLE;
}

na_status_t na_table_json_rows(na_json_t *json, const char *name, na_table_t *table,
                               const na_options_t *options, const na_table_print_t *print) {
    size_t shown;
    na_status_t status = choose_rows(table, options, print, &shown);
    if (status == NA_STATUS_WHOLE) put_rows_json(json, name, table, print, shown);
    return status;
}

/* ---- tables that are not kept ---- */

/* Keeps the first rows of the order, and their cells in that order: ties stay as they came. */
static bool keep_first(na_table_t *table, const na_options_t *options,
                       const na_table_print_t *print, size_t most) {
    if (!sort_rows(table, options, print)) return false;
    size_t columns = table->column_count;
    cell_t *cells = reallocarray(NULL, most * columns + 1, sizeof *cells);
    table->failed |= cells == NULL;
    if (cells == NULL) return false;
    for (size_t r = 0; r < table->row_count; r++) {
        row_t *row = &table->rows[r];
        if (r >= most) break;
        memcpy(cells + r * columns, table->cells + row->cells, columns * sizeof *cells);
        row->cells = r * columns;
    }
    free(table->cells);
    table->cells = cells;
    table->passed += table->row_count - most;
    table->row_count = most;
    table->cell_count = table->cell_room = most * columns;
    return true;
}

bool na_table_thin(na_table_t *table, const na_options_t *options, const na_table_print_t *print) {
    if (table->failed || table->row_count == 0) return !table->failed;
    size_t most = most_rows(options, print);
    bool matches = row_matches(table, options, &table->rows[table->row_count - 1]);
    if (!matches || (sort_key(options, print) == NULL && table->row_count > most)) {
        table->row_count--;
        table->cell_count -= table->column_count;
        table->passed += matches;
        return true;
    }
    bool full = most < SIZE_MAX / 4 && table->row_count > 2 * most + 1024;
    return !full || keep_first(table, options, print, most);
}

/* Width of a column whose cells are not known yet: of what it usually holds. */
static size_t usual_width(const na_column_t *column) {
    static const size_t widths[] = {
        [NA_KIND_TEXT] = 16, [NA_KIND_BYTES] = 8,    [NA_KIND_COUNT] = 12,
        [NA_KIND_MS] = 8,    [NA_KIND_SHARE] = 7,    [NA_KIND_ERROR] = 6,
        [NA_KIND_US] = 14,   [NA_KIND_ADDRESS] = 14, [NA_KIND_NUMBER] = 8,
    };
    size_t title = column->title == NULL ? 0 : strlen(column->title);
    return title == 0 ? 0 : title > widths[column->kind] ? title : widths[column->kind];
}

static void put_passing(na_table_t *table, const na_options_t *options,
                        const na_table_print_t *print, const row_t *row) {
    size_t width[table->column_count], last = 0;
    switch (options->table.format) {
    case NA_FORMAT_JSON:
        if (row == NULL) {
            table->json = na_json_open(stdout);
            na_json_document(&table->json, print->view);
            na_json_array(&table->json, "rows");
        } else {
            na_json_line(&table->json);
            put_row_json(&table->json, table, print, row);
        }
        break;
    case NA_FORMAT_CSV:
        put_row_csv(table, row);
        break;
    case NA_FORMAT_TEXT:
        for (size_t i = 0; i < table->column_count; i++)
            if ((width[i] = usual_width(&table->columns[i])) != 0) last = i;
        put_table_line(table, width, last, row);
        break;
    }
}

static void begin_passing(na_table_t *table, const na_options_t *options,
                          const na_table_print_t *print) {
    if (!table->begun) put_passing(table, options, print, NULL);
    table->begun = true;
}

void na_table_skip(na_table_t *table, size_t count) {
    table->passed += count;
}

bool na_table_pass(na_table_t *table, const na_options_t *options, const na_table_print_t *print) {
    if (table->failed || table->row_count == 0) return !table->failed;
    size_t most = most_rows(options, print);
    if (options->table.sort != NULL) return na_table_thin(table, options, print);
    begin_passing(table, options, print);
    const row_t *row = &table->rows[table->row_count - 1];
    put_passing(table, options, print, row);
    table->row_count = table->cell_count = 0;
    return ++table->passed < most;
}

na_status_t na_table_end(na_table_t *table, const na_options_t *options,
                         const na_table_print_t *print) {
    if (options->table.sort != NULL) return na_table_write(table, options, print);
    if (table->failed) return NA_STATUS_MEMORY;
    begin_passing(table, options, print);
    if (options->table.format == NA_FORMAT_JSON) {
        na_json_end(&table->json);
        na_json_u64(&table->json, "row_count", table->passed);
        na_json_end(&table->json);
    }
    return NA_STATUS_WHOLE;
}
