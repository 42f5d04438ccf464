/* view_timeline.c - memory over time: drawn, or its points as a table. */
#include <math.h>
#include <stdio.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

/* Columns that the terminal has left of the label; 64 where there is none. */
static uint32_t terminal_width(void) {
    struct winsize size;
    if (!isatty(STDOUT_FILENO) || ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col < 40)
        return 64;
    return size.ws_col - 16u;
}

static const na_column_t timeline_columns[] = {
    {"ms", "time", NA_KIND_MS, NULL},
    {"requested_max", "requested", NA_KIND_BYTES, NULL},
    {"requested_min", NULL, NA_KIND_BYTES, NULL},
    {"blocks_max", "blocks", NA_KIND_COUNT, NULL},
    {"allocations", "allocations", NA_KIND_COUNT, NULL},
    {"allocated_bytes", "allocated", NA_KIND_BYTES, NULL},
    {"physical", "physical", NA_KIND_BYTES, NULL},
    {"virtual", "virtual", NA_KIND_BYTES, NULL},
    {"mapped", "mapped", NA_KIND_BYTES, NULL},
    {"own", NULL, NA_KIND_BYTES, NULL},
};
static const na_columns_t timeline_table = NA_COLUMNS(timeline_columns);

/* The kernel's number of a row's node. */
static uint32_t row_node(const na_nprof_header_t *header, const na_series_table_t *t,
                         uint32_t row) {
    uint32_t id = t->row[row].id;
    return id < NA_NPROF_MAX_NODES ? header->node_ids[id] : id;
}

static na_status_t put_points(const na_view_input_t *in, const na_nprof_point_t *points,
                              uint32_t count, uint32_t interval) {
    enum { MS, MAX, MIN, BLOCKS, COUNT, BYTES, PHYSICAL, VIRTUAL, MAPPED, OWN };
    const na_nprof_header_t *header = na_reader_header(in->reader);
    na_series_table_t nodes = na_reader_series(in->reader, NA_NPROF_SERIES_RESIDENT);
    char keys[NA_NPROF_MAX_NODES][32];
    na_column_t more[NA_NPROF_MAX_NODES];
    uint32_t rows = nodes.count != 0 ? nodes.rows : 0;
    if (rows > NA_NPROF_MAX_NODES) rows = NA_NPROF_MAX_NODES;
    for (uint32_t n = 0; n < rows; n++) {
        snprintf(keys[n], sizeof keys[n], "physical_node%u", row_node(header, &nodes, n));
        more[n] = (na_column_t){keys[n], NULL, NA_KIND_BYTES, NULL};
    }
    na_table_t *table =
        na_table_open_joined(timeline_columns, sizeof timeline_columns / sizeof timeline_columns[0],
                             &(na_columns_t){more, rows, false});
    if (table == NULL) return NA_STATUS_MEMORY;
    for (uint32_t i = 0; i < count; i++) {
        const na_nprof_point_t *p = &points[i];
        na_table_row(table, i);
        na_table_number(table, MS, (double)i * interval);
        if ((p->flags & NA_NPROF_POINT_COUNTED) != 0) {
            na_table_number(table, MAX, (double)p->requested_max);
            na_table_number(table, MIN, (double)p->requested_min);
            na_table_number(table, BLOCKS, na_view_count(in, (double)p->blocks_max));
            na_table_number(table, COUNT, na_view_count(in, (double)p->alloc_count));
            na_table_number(table, BYTES, (double)p->alloc_bytes);
        }
        if ((p->flags & NA_NPROF_POINT_SAMPLED) != 0) {
            na_table_number(table, PHYSICAL, (double)p->physical);
            na_table_number(table, VIRTUAL, (double)p->virtual_bytes);
            na_table_number(table, MAPPED, (double)p->mapped);
            na_table_number(table, OWN, (double)p->own);
        }
        for (uint32_t n = 0; n < rows; n++)
            na_table_number(
                table, OWN + 1 + n,
                na_view_level(&nodes, n, (uint64_t)i * interval, ((uint64_t)i + 1) * interval));
    }
    const na_table_print_t print = {
        .view = "timeline", .title = "Points of time (%s)", .all = true};
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

/* The largest rises of requested memory from one counted point to the next. */
static void put_jumps(const na_nprof_point_t *points, uint32_t count, uint32_t interval) {
    enum { JUMPS = 3 };
    struct {
        int64_t rise;
        uint32_t at;
    } best[JUMPS] = {{0, 0}};
    int64_t before = 0;
    for (uint32_t i = 0; i < count; i++) {
        if ((points[i].flags & NA_NPROF_POINT_COUNTED) == 0) continue;
        int64_t rise = (int64_t)((uint64_t)points[i].requested_max - (uint64_t)before);
        before = points[i].requested_max;
        for (int j = 0; j < JUMPS; j++) {
            if (rise <= best[j].rise) continue;
            for (int k = JUMPS - 1; k > j; k--)
                best[k] = best[k - 1];
            best[j].rise = rise;
            best[j].at = i;
            break;
        }
    }
    printf("Largest rises\n");
    for (int j = 0; j < JUMPS && best[j].rise > 0; j++) {
        char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
        const na_nprof_point_t *p = &points[best[j].at];
        printf("%10s at %s, to %s\n", na_text_bytes(a, (double)best[j].rise),
               na_text_ms(b, (uint64_t)best[j].at * interval),
               na_text_bytes(c, (double)p->requested_max));
    }
}

static void put_timeline_nodes(const na_view_input_t *in) {
    na_series_table_t t = na_reader_series(in->reader, NA_NPROF_SERIES_RESIDENT);
    if (t.count == 0 || t.rows == 0) return;
    uint64_t peak = na_view_peak_ms(in);
    printf("Physical memory by node (sampled, without the profiler's own)\n"
           "%10s %10s %10s %10s\n",
           "node", "most", "at the peak", "at the end");
    for (uint32_t n = 0; n < t.rows; n++) {
        char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
        double then = na_view_level(&t, n, peak, peak + 1);
        if (isnan(then))
            snprintf(b, sizeof b, "-");
        else
            na_text_bytes(b, then);
        printf("%10u %10s %11s %10s\n", row_node(na_reader_header(in->reader), &t, n),
               na_text_bytes(a, (double)t.row[n].most), b, na_text_bytes(c, (double)t.row[n].last));
    }
}

static na_status_t show_timeline(na_view_input_t *in) {
    uint32_t count = 0, interval = 1;
    const na_nprof_point_t *points = na_reader_timeline(in->reader, &count, &interval);
    if (na_table_wanted(in->options)) return put_points(in, points, count, interval);
    if (points == NULL) {
        printf("The profile has no timeline: the program ended before its first point.\n");
        return NA_STATUS_WHOLE;
    }
    const na_options_t *o = in->options;
    na_view_draw_timeline(in, o->drawing.width != 0 ? o->drawing.width : terminal_width(),
                          o->drawing.height != 0 ? o->drawing.height : 16);
    put_jumps(points, count, interval);
    put_timeline_nodes(in);
    char a[NA_TEXT];
    printf("Points are %s apart and hold the largest value of their interval (--csv has them).\n",
           na_text_ms(a, interval));
    return NA_STATUS_WHOLE;
}

const na_view_t na_view_row_timeline = {
    .name = "timeline",
    .words = "FILE",
    .help = "memory over time, its largest rises, and physical memory by node",
    .more = "Drawn; --sort and --top ask for its points, which --json and --csv write. A point "
            "without\n"
            "a value: nothing happened in the interval.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_LIGHT,
    .takes = (NA_TAKES_TABLE & ~NA_TAKES(FILTER)) | NA_TAKES(SIZE),
    .without = "moments have no names",
    .tables = {{&timeline_table, 0}},
    .show = show_timeline,
};
