/* view_pages.c - accesses by page of memory: where each page lies, and who comes to it from where.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/dump/accesses/access_view.h"

typedef struct place {
    uint64_t page;
    uint32_t sample;
    uint16_t process;
} place_t;

static int by_page(const void *a, const void *b) {
    const place_t *x = a, *y = b;
    if (x->process != y->process) return x->process < y->process ? -1 : 1;
    if (x->page != y->page) return x->page < y->page ? -1 : 1;
    return x->sample < y->sample ? -1 : x->sample > y->sample;
}

enum {
    REMOTE_SHARE,
    SHARE,
    REMOTE,
    SAMPLES,
    WRITES,
    THREADS,
    HOME,
    MOVES,
    FROM,
    BEST,
    PROCESS,
    ADDRESS,
    OBJECT,
    NUMBER,
    LABEL
};

static const na_column_t pages_columns[] = {
    {"remote_share", "% of remote", NA_KIND_SHARE, NULL},
    {"share", "of all", NA_KIND_SHARE, NULL},
    {"remote", "remote", NA_KIND_SHARE, NULL},
    {"samples", "samples", NA_KIND_COUNT, "count"},
    {"writes", "writes", NA_KIND_SHARE, NULL},
    {"threads", "threads", NA_KIND_COUNT, NULL},
    {"home", "lies on", NA_KIND_NUMBER, NULL},
    {"moves", "moves", NA_KIND_COUNT, NULL},
    {"from", "from", NA_KIND_TEXT, NULL},
    {"best", "best on", NA_KIND_NUMBER, NULL},
    {"pid", NULL, NA_KIND_NUMBER, NULL},
    {"address", "page", NA_KIND_TEXT, NULL},
    {"objects", "objects", NA_KIND_COUNT, NULL},
    {"object", "id", NA_KIND_NUMBER, NULL},
    {"name", "mostly", NA_KIND_TEXT, NULL},
};
static const na_columns_t pages_table = NA_COLUMNS(pages_columns);

/* One page: its samples are places[0 .. count), in order of time. */
static void fill_pages_row(const na_access_view_t *view, na_table_t *table, const place_t *places,
                           size_t count, double remote, uint64_t page_size, uint32_t *seen,
                           uint32_t *seen_object, uint32_t number) {
    const na_flows_t *f = &view->flows;
    na_touch_sum_t sum = {0};
    double from[NA_FLOWS_NODES] = {0}, votes = 0;
    int home = -1, best = -1;
    uint32_t moves = 0, threads = 0, objects = 0, object = 0;
    for (size_t i = 0; i < count; i++) {
        const na_touch_t *a = &f->items[places[i].sample];
        na_touch_sum_add(&sum, f, a);
        threads += seen[a->thread] != number;
        seen[a->thread] = number;
        objects += seen_object[a->object] != number;
        seen_object[a->object] = number;
        if (votes <= 0) object = a->object;
        votes += object == a->object ? a->weight : -a->weight;
        if (votes < 0) votes = 0;
        if (a->home >= 0) {
            moves += home >= 0 && home != a->home;
            home = a->home;
        }
        if (a->from < 0) continue;
        from[a->from] += a->weight;
        if (best < 0 || from[a->from] > from[best]) best = a->from;
    }
    na_table_row(table, number);
    na_table_number(table, REMOTE_SHARE, na_touch_ratio(sum.remote, remote));
    na_table_number(table, SHARE, na_touch_ratio(sum.weight, view->verdicts.weight));
    na_table_number(table, REMOTE, na_touch_ratio(sum.remote, sum.known));
    na_table_number(table, SAMPLES, (double)sum.samples);
    na_table_number(table, WRITES, na_touch_ratio(sum.writes, sum.told));
    na_table_number(table, THREADS, threads);
    if (home >= 0) na_table_number(table, HOME, f->nodes[home].kernel_id);
    na_table_number(table, MOVES, moves);
    if (best >= 0) na_table_number(table, BEST, f->nodes[best].kernel_id);
    char text[NA_LABEL] = "";
    size_t length = 0;
    for (uint32_t n = 0; n < f->node_count && length + 24 < sizeof text; n++)
        if (from[n] > 0)
            length += (size_t)snprintf(text + length, sizeof text - length, "%s%u:%.0f%%",
                                       length == 0 ? "" : " ", f->nodes[n].kernel_id,
                                       100 * from[n] / sum.weight);
    na_table_text(table, FROM, text);
    na_table_number(table, PROCESS, f->processes[places[0].process].pid);
    na_table_format(table, ADDRESS, "0x%" PRIx64, places[0].page * page_size);
    na_table_number(table, OBJECT, objects);
    na_table_number(table, NUMBER, object);
    na_access_group_label(view, f->objects[object].group, text);
    na_table_text(table, LABEL, text);
}

static na_status_t show_pages_view(na_access_view_t *view) {
    const na_flows_t *f = &view->flows;
    uint64_t page_size = na_reader_header(view->in[0].reader)->page_size;
    if (page_size == 0) page_size = 4096;
    place_t *places = calloc((size_t)f->count + 1, sizeof *places);
    uint32_t *seen = calloc((size_t)f->thread_count + 1, sizeof *seen);
    uint32_t *seen_object = calloc((size_t)f->object_count + 1, sizeof *seen_object);
    na_table_t *table = na_table_open(&pages_table);
    na_status_t status = NA_STATUS_MEMORY;
    if (places != NULL && seen != NULL && seen_object != NULL && table != NULL) {
        size_t count = 0;
        double remote = 0;
        for (uint32_t i = 0; i < f->count; i++) {
            const na_touch_t *a = &f->items[i];
            if (!na_access_view_has(view, a)) continue;
            places[count++] = (place_t){a->address / page_size, i, a->process};
            if (na_touch_is_remote(a)) remote += a->weight;
        }
        qsort(places, count, sizeof *places, by_page);
        uint32_t number = 0;
        for (size_t i = 0, end; i < count; i = end) {
            for (end = i + 1; end < count && places[end].page == places[i].page &&
                              places[end].process == places[i].process;)
                end++;
            fill_pages_row(view, table, places + i, end - i, remote, page_size, seen, seen_object,
                           ++number);
        }
        if (view->options->table.format == NA_FORMAT_TEXT) {
            na_access_head(view);
            na_access_notes(view);
        }
        const na_table_print_t print = {.view = "pages",
                                        .title = "\nPages by remote accesses (%s)",
                                        .sort = remote > 0 ? "remote_share" : "share"};
        status = na_table_write(table, view->options, &print);
    }
    na_table_close(table);
    free(places);
    free(seen);
    free(seen_object);
    return status;
}

static na_status_t show_pages(const char *const *files, size_t count, const na_options_t *options) {
    return na_access_view_show(files, count, options, show_pages_view);
}

const na_view_t na_view_row_pages = {
    .name = "pages",
    .words = "FILE...",
    .help = "accesses by page: where it lies, and from where it is touched",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_ACCESSES,
    .takes = NA_TAKES_TABLE | NA_TAKES(WHERE) | NA_TAKES(WRAPPERS) | NA_TAKES(SOURCE_PATH),
    .tables = {{&pages_table, 0}},
    .show_files = show_pages,
};
