/* table.c - rows of cells to text, JSON or CSV. See table.h. */
#include "profiler/dump/table.h"

#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/progress.h"
#include "profiler/dump/text.h"

typedef struct cell {
    double number; /* NAN: absent */
    char *text;    /* owned; NULL: absent */
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
    bool failed;
};

na_table_t *na_table_open_joined(const na_column_t *first, size_t first_count,
                                 const na_column_t *then, size_t then_count) {
    na_table_t *table = calloc(1, sizeof *table);
    if (table == NULL) return NULL;
    table->column_count = first_count + then_count;
    table->columns = calloc(table->column_count + 1, sizeof *table->columns);
    if (table->columns == NULL) {
        free(table);
        return NULL;
    }
    if (first_count != 0) memcpy(table->columns, first, first_count * sizeof *first);
    if (then_count != 0) memcpy(table->columns + first_count, then, then_count * sizeof *then);
    return table;
}

na_table_t *na_table_open(const na_column_t *columns, size_t column_count) {
    return na_table_open_joined(columns, column_count, NULL, 0);
}

void na_table_close(na_table_t *table) {
    if (table == NULL) return;
    for (size_t i = 0; i < table->cell_count; i++)
        free(table->cells[i].text);
    free(table->cells);
    free(table->columns);
    free(table->rows);
    free(table);
}

size_t na_table_rows(const na_table_t *table) {
    return table->row_count;
}

void na_table_row(na_table_t *table, uint64_t tag) {
    if (table->failed) return;
    if (table->row_count == table->row_room) {
        size_t room = table->row_room ? table->row_room * 2 : 64;
        row_t *rows = reallocarray(table->rows, room, sizeof *rows);
        if (rows == NULL) {
            table->failed = true;
            return;
        }
        table->rows = rows;
        table->row_room = room;
    }
    if (table->cell_count + table->column_count > table->cell_room) {
        size_t room = table->cell_room ? table->cell_room * 2 : 64 * table->column_count;
        cell_t *cells = reallocarray(table->cells, room, sizeof *cells);
        if (cells == NULL) {
            table->failed = true;
            return;
        }
        table->cells = cells;
        table->cell_room = room;
    }
    table->rows[table->row_count++] = (row_t){tag, table->cell_count};
    for (size_t i = 0; i < table->column_count; i++)
        table->cells[table->cell_count++] = (cell_t){NAN, NULL};
}

static cell_t *last_cell(na_table_t *table, size_t column) {
    if (table->failed || table->row_count == 0 || column >= table->column_count) return NULL;
    return &table->cells[table->rows[table->row_count - 1].cells + column];
}

void na_table_number(na_table_t *table, size_t column, double value) {
    cell_t *cell = last_cell(table, column);
    if (cell != NULL) cell->number = value;
}

void na_table_text(na_table_t *table, size_t column, const char *text) {
    cell_t *cell = last_cell(table, column);
    if (cell == NULL || text == NULL) return;
    free(cell->text);
    cell->text = strdup(text);
    table->failed = cell->text == NULL;
}

void na_table_format(na_table_t *table, size_t column, const char *format, ...) {
    cell_t *cell = last_cell(table, column);
    if (cell == NULL) return;
    free(cell->text);
    va_list args;
    va_start(args, format);
    if (vasprintf(&cell->text, format, args) < 0) {
        cell->text = NULL;
        table->failed = true;
    }
    va_end(args);
}

bool na_filter_matches(const na_options_t *options, const char *text) {
    return !options->filtered || (text != NULL && regexec(&options->filter, text, 0, NULL, 0) == 0);
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

static bool sort_rows(na_table_t *table, const na_options_t *options,
                      const na_table_print_t *print) {
    const char *key = options->sort != NULL ? options->sort : print->sort;
    if (key == NULL) return true;
    order_t order = {table, 0, options->sort == NULL && print->ascending};
    if (!find_column(table, key, &order.column)) {
        char names[768] = "";
        size_t used = 0;
        for (size_t i = 0; i < table->column_count && used + 48 < sizeof names; i++) {
            const na_column_t *c = &table->columns[i];
            if (c->key == NULL) continue;
            int n = snprintf(names + used, sizeof names - used, "%s%.40s", used == 0 ? "" : ", ",
                             c->alias != NULL ? c->alias : c->key);
            if (n > 0) used += (size_t)n;
        }
        na_fail("--sort takes one of %s; not: %s", names, key);
        return false;
    }
    /* What the user ordered by is shown. */
    if (options->sort != NULL && table->columns[order.column].title == NULL)
        table->columns[order.column].title = table->columns[order.column].key;
    if (table->row_count != 0)
        qsort_r(table->rows, table->row_count, sizeof *table->rows, compare_rows, &order);
    return true;
}

static void filter_rows(na_table_t *table, const na_options_t *options) {
    if (!options->filtered) return;
    size_t kept = 0;
    for (size_t r = 0; r < table->row_count; r++) {
        bool matches = false;
        for (size_t i = 0; i < table->column_count && !matches; i++) {
            const char *text = table->cells[table->rows[r].cells + i].text;
            matches = text != NULL && na_filter_matches(options, text);
        }
        if (matches) table->rows[kept++] = table->rows[r];
    }
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
    case NA_KIND_NUMBER:
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

static void put_text(const na_table_t *table, const na_table_print_t *print, size_t shown,
                     size_t all) {
    size_t width[table->column_count];
    size_t last = 0;
    for (size_t i = 0; i < table->column_count; i++) {
        const na_column_t *column = &table->columns[i];
        width[i] = 0;
        if (column->title == NULL) continue;
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
    for (size_t r = 0; r <= shown; r++) {
        bool first = true;
        for (size_t i = 0; i < table->column_count; i++) {
            const na_column_t *column = &table->columns[i];
            if (width[i] == 0) continue;
            if (!first) fputs("  ", stdout);
            first = false;
            const cell_t *cell = r == 0 ? NULL : &table->cells[table->rows[r - 1].cells + i];
            char text[NA_TEXT];
            if (column->kind == NA_KIND_TEXT) {
                const char *name = r == 0 ? column->title : cell->text == NULL ? "" : cell->text;
                na_text_put(stdout, name);
                if (i != last) printf("%*s", (int)(width[i] - text_width(name)), "");
            } else {
                if (r != 0) cell_text(column, cell, text);
                printf("%*s", (int)width[i], r == 0 ? column->title : text);
            }
        }
        putchar('\n');
        if (r != 0 && print->below != NULL) print->below(print->arg, table->rows[r - 1].tag);
    }
}

/* ---- JSON and CSV ---- */

static void put_cell_json(const na_column_t *column, const cell_t *cell) {
    if (column->kind == NA_KIND_TEXT)
        na_json_put(stdout, cell->text);
    else
        na_json_number(stdout, cell->number);
}

static void put_json(const na_table_t *table, const na_table_print_t *print, size_t shown,
                     size_t all) {
    printf("{\"schema\":\"numalloc-dump.%s\",\"schema_version\":1,\"row_count\":%zu,\"rows\":[",
           print->view, all);
    for (size_t r = 0; r < shown; r++) {
        na_progress("writing", r, shown);
        fputs(r == 0 ? "\n{" : ",\n{", stdout);
        bool first = true;
        for (size_t i = 0; i < table->column_count; i++) {
            const na_column_t *column = &table->columns[i];
            if (column->key == NULL) continue;
            printf("%s\"%s\":", first ? "" : ",", column->key);
            first = false;
            put_cell_json(column, &table->cells[table->rows[r].cells + i]);
        }
        if (print->members != NULL) print->members(print->arg, table->rows[r].tag);
        putchar('}');
    }
    fputs("]}\n", stdout);
}

static void put_cell_csv(const na_column_t *column, const cell_t *cell) {
    if (column->kind != NA_KIND_TEXT) {
        if (!isnan(cell->number)) na_json_number(stdout, cell->number);
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

/* RFC 4180, but for the line ends. */
static void put_csv(const na_table_t *table, size_t shown) {
    for (size_t r = 0; r <= shown; r++) {
        na_progress("writing", r, shown);
        bool first = true;
        for (size_t i = 0; i < table->column_count; i++) {
            const na_column_t *column = &table->columns[i];
            if (column->key == NULL) continue;
            if (!first) putchar(',');
            first = false;
            if (r == 0)
                fputs(column->key, stdout);
            else
                put_cell_csv(column, &table->cells[table->rows[r - 1].cells + i]);
        }
        putchar('\n');
    }
}

na_status_t na_table_write(na_table_t *table, const na_options_t *options,
                           const na_table_print_t *print) {
    if (table->failed) return NA_STATUS_MEMORY;
    filter_rows(table, options);
    if (!sort_rows(table, options, print)) return NA_STATUS_NOTHING;
    size_t top = print->all && !options->top_given ? SIZE_MAX : options->top;
    size_t shown = table->row_count < top ? table->row_count : top;
    switch (options->format) {
    case NA_FORMAT_JSON:
        put_json(table, print, shown, table->row_count);
        break;
    case NA_FORMAT_CSV:
        put_csv(table, shown);
        break;
    case NA_FORMAT_TEXT:
        put_text(table, print, shown, table->row_count);
        break;
    }
    return NA_STATUS_WHOLE;
}
