/* view_allocator.c - what the allocator's spans held at the end: by node and size class, how full
 * they were and what was lost by rounding; or (--retention) the sites whose blocks keep memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/containers/array.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

#define EMPTY                                                                                      \
    "The profile does not say: the process was killed or still runs, or another version recorded " \
    "it."

/* All occupancies of a node and class. */
typedef struct row {
    na_nprof_span_sum_t sum;
    uint64_t filled[9]; /* spans by eighths */
} row_t;

typedef struct rows {
    row_t *items;
    size_t count, room;
    uint32_t *index; /* by node and class, a byte each: row + 1; 0: none yet */
    na_nprof_span_sum_t all, unseen;
    bool failed;
} rows_t;

static void take_span_sum(void *arg, const na_nprof_span_sum_t *s) {
    rows_t *rows = arg;
    if (s->cls == NA_NPROF_SPANS_UNSEEN) {
        na_span_sum_add(&rows->unseen, s);
        return;
    }
    na_span_sum_add(&rows->all, s);
    uint32_t *index = &rows->index[(uint32_t)(s->node & 0xff) << 8 | s->cls];
    if (*index == 0) {
        if (!NA_ARRAY_RESERVE(rows->items, rows->room, rows->count + 1u)) {
            rows->failed = true;
            return;
        }
        rows->items[rows->count] =
            (row_t){.sum = {.cls = s->cls, .node = s->node, .block_size = s->block_size}};
        *index = (uint32_t)++rows->count;
    }
    row_t *row = &rows->items[*index - 1];
    na_span_sum_add(&row->sum, s);
    row->filled[s->eighths] += s->spans;
}

static int by_node_and_class(const void *a, const void *b) {
    const na_nprof_span_sum_t *x = &((const row_t *)a)->sum, *y = &((const row_t *)b)->sum;
    if (x->node != y->node) return x->node < y->node ? -1 : 1;
    /* Large blocks come last. */
    return ((x->cls == 0) != (y->cls == 0)) ? (x->cls == 0 ? 1 : -1) : (int)x->cls - (int)y->cls;
}

enum {
    NODE,
    SIZE_LABEL,
    SIZE,
    SPANS,
    SPARSE,
    BLOCKS,
    CAPACITY,
    OCCUPANCY,
    BYTES,
    RESIDENT,
    ASKED,
    ROUNDING,
    UNUSED
};

static void fill_class_row(na_table_t *table, const na_view_input_t *in, size_t index,
                           const row_t *row) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_nprof_span_sum_t *s = &row->sum;
    char text[NA_TEXT];
    bool large = s->cls == 0;
    na_table_row(table, index);
    if (s->node < h->node_count && s->node < NA_NPROF_MAX_NODES)
        na_table_number(table, NODE, h->node_ids[s->node]);
    na_table_text(table, SIZE_LABEL, large ? "large" : na_text_bytes(text, s->block_size));
    if (!large) na_table_number(table, SIZE, s->block_size);
    na_table_number(table, SPANS, (double)s->spans);
    if (!large) na_table_number(table, SPARSE, (double)row->filled[0] + (double)row->filled[1]);
    na_table_number(table, BLOCKS, (double)s->blocks);
    na_table_number(table, CAPACITY, (double)s->capacity);
    if (s->capacity != 0)
        na_table_number(table, OCCUPANCY, (double)s->blocks / (double)s->capacity);
    na_table_number(table, BYTES, (double)s->bytes);
    na_table_number(table, RESIDENT, (double)s->resident);
    na_table_number(table, ASKED, (double)s->requested);
    na_table_number(table, ROUNDING, (double)s->usable - (double)s->requested);
    /* Large blocks are often resident in part: that is not memory that the allocator keeps. */
    if (!large)
        na_table_number(table, UNUSED,
                        s->resident > s->usable ? (double)(s->resident - s->usable) : 0);
}

static void put_filled_json(na_json_t *json, void *arg, uint64_t tag) {
    const rows_t *rows = arg;
    na_json_array(json, "spans_by_eighths");
    for (int i = 0; i < 9; i++)
        na_json_number(json, NULL, (double)rows->items[tag].filled[i]);
    na_json_end(json);
}

static const na_column_t allocator_columns[] = {
    {"node", "node", NA_KIND_NUMBER, NULL},
    {NULL, "block", NA_KIND_TEXT, NULL},
    {"block_bytes", NULL, NA_KIND_BYTES, NULL}, /* null: large blocks */
    {"spans", "spans", NA_KIND_COUNT, "count"},
    {"sparse_spans", "sparse", NA_KIND_COUNT, NULL},
    {"live_blocks", "live", NA_KIND_COUNT, NULL},
    {"capacity", NULL, NA_KIND_COUNT, NULL},
    {"occupancy", "of room", NA_KIND_SHARE, NULL},
    {"bytes", "in spans", NA_KIND_BYTES, "total"},
    {"resident_bytes", "resident", NA_KIND_BYTES, NULL},
    {"live_bytes", "asked for", NA_KIND_BYTES, "live"},
    {"rounding_bytes", "rounding", NA_KIND_BYTES, NULL},
    {"unused_bytes", "unused", NA_KIND_BYTES, NULL},
};
static const na_columns_t allocator_table = NA_COLUMNS(allocator_columns);

static na_status_t put_class_rows(na_view_input_t *in, rows_t *rows) {
    na_table_t *table = na_table_open(&allocator_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    if (rows->count != 0) qsort(rows->items, rows->count, sizeof *rows->items, by_node_and_class);
    for (size_t i = 0; i < rows->count; i++)
        fill_class_row(table, in, i, &rows->items[i]);
    const na_table_print_t print = {
        .view = "allocator",
        .title = "Spans by size of block (%s); sparse: less than a quarter lives; unused: "
                 "resident, and in no live block",
        .empty = EMPTY,
        .all = true,
        .members = put_filled_json,
        .arg = rows,
    };
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

/* ---- sites ---- */

enum {
    HELD,
    SHARE,
    SITE_BLOCKS,
    SITE_ASKED,
    KEPT,
    IN_SPARSE,
    SPARSE_BLOCKS,
    AGE,
    IN_SPANS,
    ALONE,
    NAME
};

typedef struct filling {
    na_table_t *table;
    const na_view_input_t *in;
    double all, age_ms;
} filling_t;

static void add_span_site(void *arg, const na_nprof_span_site_t *s) {
    const filling_t *f = arg;
    na_table_t *table = f->table;
    na_table_row(table, s->site);
    na_table_number(table, HELD, (double)s->resident);
    if (f->all > 0) na_table_number(table, SHARE, (double)s->resident / f->all);
    na_table_number(table, SITE_BLOCKS, (double)s->blocks);
    na_table_number(table, SITE_ASKED, (double)s->requested);
    na_table_number(table, KEPT, (double)s->sparse_kept);
    na_table_number(table, IN_SPARSE, (double)s->sparse_spans);
    na_table_number(table, SPARSE_BLOCKS, (double)s->sparse_blocks);
    if (s->sparse_blocks != 0)
        na_table_number(table, AGE, (double)s->sparse_ages / (double)s->sparse_blocks * f->age_ms);
    na_table_number(table, IN_SPANS, (double)s->spans);
    na_table_number(table, ALONE, (double)s->alone);
    na_table_site(table, f->in, NAME, s->site);
}

static const na_column_t retention_columns[] = {
    {"resident_bytes", "resident", NA_KIND_BYTES, NULL},
    {NULL, "share", NA_KIND_SHARE, NULL},
    {"live_blocks", "blocks", NA_KIND_COUNT, "count"},
    {"live_bytes", "asked for", NA_KIND_BYTES, "live"},
    {"kept_bytes", "kept", NA_KIND_BYTES, NULL},
    {"sparse_spans", "in sparse spans", NA_KIND_COUNT, NULL},
    {"sparse_blocks", "by blocks", NA_KIND_COUNT, NULL},
    {"sparse_age_ms", "of age", NA_KIND_MS, NULL},
    {"spans", "in spans", NA_KIND_COUNT, NULL},
    {"alone_spans", "alone in", NA_KIND_COUNT, NULL},
    NA_SITE_COLUMNS,
};
static const na_columns_t retention_table = NA_COLUMNS(retention_columns);

static na_status_t put_retaining_sites(na_view_input_t *in, const rows_t *rows,
                                       const na_options_t *options) {
    filling_t f = {na_table_open(&retention_table), in, (double)rows->all.resident,
                   na_age_ns(na_reader_header(in->reader)) / 1e6};
    if (f.table == NULL) return NA_STATUS_MEMORY;
    na_reader_span_sites(in->reader, add_span_site, &f);
    const na_table_print_t print = {
        .view = "allocator",
        .title = "Sites by what their live blocks keep (%s); kept: resident, unused, in spans that "
                 "are sparse",
        .empty = EMPTY,
        .sort = "kept_bytes",
        .below = options->frames.stacks ? na_view_put_stack : NULL,
        .members = options->frames.stacks ? na_view_json_stack : NULL,
        .arg = in,
    };
    na_status_t status = na_table_write(f.table, options, &print);
    na_table_close(f.table);
    return status;
}

/* Text: the sums, and what they are to be compared with. */
static void put_sums(const na_view_input_t *in, const rows_t *rows) {
    const na_nprof_span_sum_t *s = &rows->all;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT], d[NA_TEXT];
    if (s->spans == 0) return;
    printf("spans        %s of %s, %s resident %s\n", na_text_count(a, (double)s->spans),
           na_text_bytes(b, (double)s->bytes), na_text_bytes(c, (double)s->resident),
           na_view_spans_when(in));
    printf("live blocks  %s: %s asked for, and %s of rounding\n",
           na_text_count(a, (double)s->blocks), na_text_bytes(b, (double)s->requested),
           na_text_bytes(c, (double)s->usable - (double)s->requested));
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(in->reader, &count, &interval);
    while (points != NULL && count != 0 && (points[count - 1].flags & NA_NPROF_POINT_SAMPLED) == 0)
        count--;
    if (points != NULL && count != 0)
        printf("process      %s resident and %s mapped by the allocator when last sampled\n",
               na_text_bytes(a, (double)points[count - 1].physical),
               na_text_bytes(b, (double)points[count - 1].mapped));
    if (rows->unseen.spans != 0)
        printf("not seen     %s spans of %s: there was no time to look at them\n",
               na_text_count(c, (double)rows->unseen.spans),
               na_text_bytes(d, (double)rows->unseen.bytes));
    putchar('\n');
}

static na_status_t show_allocator(na_view_input_t *in) {
    rows_t rows = {.index = calloc(1 << 16, sizeof *rows.index)};
    na_status_t status = NA_STATUS_MEMORY;
    if (rows.index == NULL) return status;
    na_reader_span_sums(in->reader, take_span_sum, &rows);
    bool text = in->options->table.format == NA_FORMAT_TEXT;
    if (!rows.failed) {
        if (text) put_sums(in, &rows);
        status = in->options->rows.retention ? put_retaining_sites(in, &rows, in->options)
                                             : put_class_rows(in, &rows);
        if (text && status == NA_STATUS_WHOLE && !in->options->rows.retention && rows.count != 0 &&
            in->options->table.sort == NULL && !in->options->table.filter.given) {
            na_options_t options = *in->options;
            if (!na_option_given(&options, NA_SET_TOP)) options.table.top = 10;
            putchar('\n');
            status = put_retaining_sites(in, &rows, &options);
        }
    }
    free(rows.items);
    free(rows.index);
    return status;
}

const na_view_t na_view_row_allocator = {
    .name = "allocator",
    .words = "FILE",
    .help = "the allocator's spans at the end: how full, what is lost, who keeps it",
    .more = "Blocks from before the profile are not seen. --retention: \"kept\" is what a site's "
            "blocks\n"
            "have of the memory that is resident in sparse spans and in no live block; \"of "
            "age\": how old\n"
            "they are.",
    .modes = NA_IN(NA_NPROF_MODE_SITES) | NA_IN(NA_NPROF_MODE_TRACE),
    .takes = NA_TAKES_TABLE | NA_TAKES(STACKS) | NA_TAKES(WRAPPERS) | NA_TAKES(RETENTION),
    .tables = {{&allocator_table, 0}, {&retention_table, NA_TAKES(RETENTION)}},
    .show = show_allocator,
};
