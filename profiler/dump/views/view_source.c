/* view_source.c - source lines with what was asked for there, and below there. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>

#include "profiler/dump/profile/source_lines.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/source/source_line.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

/* ---- text ---- */

/* A run of lines of one file. */
typedef struct file {
    const na_source_line_t *lines;
    size_t count;
    double self, below; /* below: of the line with most, since lines of one stack overlap */
    double mapped;
    bool readable; /* here */
} file_t;

static int files_by_cost(const void *a, const void *b) {
    const file_t *x = a, *y = b;
    if (x->readable != y->readable) return x->readable ? -1 : 1;
    if (x->self != y->self) return x->self > y->self ? -1 : 1;
    if (x->below != y->below) return x->below > y->below ? -1 : 1;
    return strcmp(x->lines->file, y->lines->file);
}

static void put_line_figures(const na_view_input_t *in, const na_source_line_t *line,
                             uint32_t number, bool mapped) {
    char a[NA_TEXT] = "", b[NA_TEXT] = "", c[NA_TEXT] = "";
    if (line != NULL && line->mapped > 0) na_text_bytes(c, line->mapped);
    if (line != NULL) {
        double self = na_view_cost(in, &line->self);
        if (self != 0) na_view_metric_text(in, a, self);
        na_view_metric_text(in, b, na_view_cost(in, &line->below));
    }
    printf("%10s  %10s  ", a, b);
    if (mapped) printf("%10s  ", c);
    printf("%6u  ", number);
}

/* A program with a large library (Python's) has some bytes in thousands of lines. Unless they were
 * asked for, lines and files are not shown that have less than this part of what the line has that
 * has most. */
#define LEAST_SHARE 1e-3

/* The figures of line `number`, if it has such that are shown; *at: of the next with figures. */
static const na_source_line_t *line_shown(const na_view_input_t *in, const file_t *file, size_t at,
                                          double least) {
    while (at < file->count && na_view_cost(in, &file->lines[at].below) < least &&
           !(file->lines[at].mapped > 0))
        at++;
    return at < file->count ? &file->lines[at] : NULL;
}

static void put_source_file(const na_view_input_t *in, const file_t *file, double least) {
    FILE *source = na_source_open(in->options, file->lines->file);
    putchar('\n');
    na_text_put(stdout, file->lines->file);
    bool mapped = file->mapped > 0;
    bool changed = na_source_is_changed(in->options, file->lines->file, file->lines->module);
    printf("%s\n%10s  %10s  %s%6s\n",
           source == NULL ? "  (not readable here)"
           : changed      ? "  (changed after the program was built: these lines may be others)"
                          : "",
           "own", "with all", mapped ? "    mapped  " : "", "line");
    size_t at = 0;
    char *text = NULL;
    size_t room = 0;
    uint32_t context = in->options->source.context, last = 0;
    uint64_t behind = 0; /* the last line whose context is shown */
    for (uint32_t number = 1; source != NULL && (at < file->count || number <= behind) &&
                              getline(&text, &room, source) >= 0;
         number++) {
        const na_source_line_t *line = at < file->count ? &file->lines[at] : NULL;
        const na_source_line_t *next = line_shown(in, file, at, least);
        bool hit = line != NULL && line->number == number;
        if (hit && line == next) behind = (uint64_t)number + context;
        bool near =
            number <= behind || (next != NULL && (uint64_t)number + context >= next->number);
        at += hit;
        if (!near) continue;
        if (last != 0 && number != last + 1) printf("%10s\n", "...");
        last = number;
        put_line_figures(in, hit ? line : NULL, number, mapped);
        text[strcspn(text, "\r\n")] = 0;
        for (const char *p = text; *p != 0; p += strcspn(p, "\t") + 1) {
            /* Tabs become blanks: na_text_put lets no control character through. */
            size_t length = strcspn(p, "\t");
            char *part = strndup(p, length);
            if (part != NULL) na_text_put(stdout, part);
            free(part);
            if (p[length] == 0) break;
            fputs("    ", stdout);
        }
        putchar('\n');
    }
    for (const na_source_line_t *line; (line = line_shown(in, file, at, least)) != NULL;) {
        put_line_figures(in, line, line->number, mapped);
        putchar('\n');
        at = (size_t)(line - file->lines) + 1;
    }
    free(text);
    if (source != NULL) fclose(source);
}

static na_status_t put_source(const na_view_input_t *in, const na_source_lines_t *lines) {
    file_t *files = calloc((size_t)lines->count + 1, sizeof *files);
    if (files == NULL) return NA_STATUS_MEMORY;
    size_t count = 0;
    for (uint32_t i = 0; i < lines->count; i++) {
        const na_source_line_t *line = &lines->items[i];
        if (count == 0 || strcmp(files[count - 1].lines->file, line->file) != 0)
            files[count++].lines = line;
        file_t *file = &files[count - 1];
        file->count++;
        file->self += na_view_cost(in, &line->self);
        file->mapped += line->mapped;
        if (na_view_cost(in, &line->below) > file->below)
            file->below = na_view_cost(in, &line->below);
    }
    double most = 0;
    for (size_t i = 0; i < count; i++) {
        FILE *source = na_source_open(in->options, files[i].lines->file);
        files[i].readable = source != NULL;
        if (source != NULL) fclose(source);
        if (files[i].below > most) most = files[i].below;
    }
    bool whole = in->options->table.filter.given || in->options->table.top == SIZE_MAX;
    double least = whole ? 0 : most * LEAST_SHARE;
    if (count != 0) qsort(files, count, sizeof *files, files_by_cost);
    size_t shown = 0, left_out = 0;
    printf("Source lines by %s: their own, and with all that they called\n",
           na_view_order_title(in->order));
    for (size_t i = 0; i < count && shown < in->options->table.top; i++) {
        bool maps = files[i].mapped > 0;
        if (files[i].self == 0 && !maps && !in->options->table.filter.given) continue;
        if ((files[i].self < least || files[i].below < least) && !maps) {
            left_out++;
            continue;
        }
        put_source_file(in, &files[i], least);
        shown++;
    }
    if (shown + left_out == 0)
        printf("\nNo source line is known: the modules have no DWARF (-g), or no file matches.\n");
    if (left_out != 0)
        printf("\n(%zu %sfile%s, and lines with less than a thousandth of the largest figure: "
               "--top 0)\n",
               left_out, shown == 0 ? "" : "other ", left_out == 1 ? "" : "s");
    free(files);
    return NA_STATUS_WHOLE;
}

static const na_column_t source_columns[] = {
    {"peak_bytes", NULL, NA_KIND_BYTES, "peak"},
    {"live_bytes", NULL, NA_KIND_BYTES, "live"},
    {"total_bytes", NULL, NA_KIND_BYTES, "total"},
    {"allocations", NULL, NA_KIND_COUNT, "count"},
    {"inclusive_peak_bytes", NULL, NA_KIND_BYTES, NULL},
    {"inclusive_live_bytes", NULL, NA_KIND_BYTES, NULL},
    {"inclusive_total_bytes", NULL, NA_KIND_BYTES, NULL},
    {"inclusive_allocations", NULL, NA_KIND_COUNT, NULL},
    {"mapped_bytes", NULL, NA_KIND_BYTES, NULL},
    {"file", NULL, NA_KIND_TEXT, NULL},
    {"line", NULL, NA_KIND_NUMBER, NULL},
};
static const na_columns_t source_table = NA_COLUMNS(source_columns);

static na_status_t put_source_table(const na_view_input_t *in, const na_source_lines_t *lines) {
    static const char *const keys[] = {"peak_bytes", "live_bytes", "total_bytes", "allocations"};
    enum { MAPPED = 8, FILE_NAME, LINE };
    na_table_t *table = na_table_open(&source_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    for (uint32_t i = 0; i < lines->count; i++) {
        const na_source_line_t *l = &lines->items[i];
        na_table_row(table, i);
        for (size_t side = 0; side < 2; side++) {
            const na_cost_t *cost = side == 0 ? &l->self : &l->below;
            na_table_number(table, side * 4, (double)cost->peak_bytes);
            na_table_number(table, side * 4 + 1, (double)cost->live_bytes);
            na_table_number(table, side * 4 + 2, (double)cost->alloc_bytes);
            na_table_number(table, side * 4 + 3, na_view_count(in, (double)cost->alloc_count));
        }
        na_table_text(table, FILE_NAME, l->file);
        na_table_number(table, LINE, l->number);
        na_table_number(table, MAPPED, l->mapped);
    }
    const na_table_print_t print = {.view = "source", .sort = keys[in->order], .all = true};
    na_options_t options = *in->options;
    options.table.filter.given = false; /* it was for files, and is done */
    na_status_t status = na_table_write(table, &options, &print);
    na_table_close(table);
    return status;
}

static na_status_t show_source(na_view_input_t *in) {
    na_source_lines_t lines = {0};
    na_status_t status = NA_STATUS_MEMORY;
    if (na_source_lines_gather(in, in->options, true, &lines))
        status = in->options->table.format == NA_FORMAT_TEXT ? put_source(in, &lines)
                                                             : put_source_table(in, &lines);
    na_source_lines_free(&lines);
    return status;
}

const na_view_t na_view_row_source = {
    .name = "source",
    .words = "FILE",
    .help = "source lines with their figures",
    .more =
        "--filter chooses files; without it those that allocate themselves are shown, and lines\n"
        "with at least a thousandth of the largest figure. Files that can be read come first.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ORDERS,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS) | NA_TAKES(SOURCE) | NA_TAKES(SOURCE_PATH),
    .show = show_source,
};
