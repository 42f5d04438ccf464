/* view_libraries.c - memory by module: what the program and each library asked for themselves, and
 * with all that they called. */
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/view.h"

typedef struct library {
    const char *path;
    uint32_t sites;
    na_counters_t self;
    na_cost_t below;
    size_t seen; /* number of the site counted last, from 1 */
} library_t;

typedef struct libraries {
    library_t *items;
    size_t count, room;
} libraries_t;

/* Modules are few. NULL: out of memory. */
static library_t *library_at(libraries_t *all, const char *path) {
    for (size_t i = 0; i < all->count; i++)
        if (strcmp(all->items[i].path, path) == 0) return &all->items[i];
    if (!NA_ARRAY_RESERVE(all->items, all->room, all->count + 1u)) return NULL;
    library_t *l = &all->items[all->count++];
    *l = (library_t){.path = path, .self = na_counters_none()};
    return l;
}

static bool gather_libraries(const na_view_input_t *in, libraries_t *all) {
    na_stack_t stack = {0};
    bool good = true;
    for (size_t s = 0; s < in->sites.count && good; s++) {
        const na_site_t *site = &in->sites.items[s];
        const na_symbol_frame_t *leaf, *frame = na_view_site(in, site->site, &leaf);
        library_t *own = library_at(all, frame == NULL ? "?" : frame->module);
        good = own != NULL && na_view_stack(in, site->site, &stack);
        if (!good) break;
        own->sites++;
        na_counters_add(&own->self, &site->sum);
        for (uint32_t i = 0; i < stack.count && good; i++) {
            library_t *l = library_at(all, stack.items[i]->module);
            good = l != NULL;
            if (!good || l->seen == s + 1) continue;
            l->seen = s + 1;
            na_cost_t cost = na_view_cost_of(&site->sum);
            na_cost_add(&l->below, &cost);
        }
    }
    free(stack.items);
    return good;
}

static const na_column_t libraries_columns[] = {
    {NULL, "with callees", NA_KIND_BYTES, NULL},
    {"inclusive", NULL, NA_KIND_NUMBER, NULL},
    {"sites", "sites", NA_KIND_COUNT, NULL},
    {"module", "module", NA_KIND_TEXT, NULL},
};
static const na_columns_t libraries_table = NA_COUNTERS_AND(libraries_columns);

static na_status_t show_libraries(na_view_input_t *in) {
    enum { BELOW = NA_COUNTER_COUNT, BELOW_KEY, SITES, MODULE };
    libraries_t all = {0};
    na_table_t *table = na_table_open_counters(&libraries_table);
    na_status_t status = NA_STATUS_MEMORY;
    if (table != NULL && gather_libraries(in, &all)) {
        if (in->order == NA_ORDER_COUNT) na_table_kind(table, BELOW, NA_KIND_COUNT);
        for (size_t i = 0; i < all.count; i++) {
            const library_t *l = &all.items[i];
            na_table_row(table, i);
            na_table_counters(table, in, &l->self, l->sites == 1);
            na_table_number(table, BELOW, na_view_cost(in, &l->below));
            na_table_number(table, BELOW_KEY, na_view_cost(in, &l->below));
            na_table_number(table, SITES, l->sites);
            na_table_text(table, MODULE, l->path);
        }
        const na_table_print_t print = {.view = "libraries",
                                        .title = "Programs and libraries (%s); a byte belongs to "
                                                 "the module of the function that is responsible",
                                        .sort = na_counters_sort(in)};
        status = na_table_write(table, in->options, &print);
    }
    na_table_close(table);
    free(all.items);
    return status;
}

const na_view_t na_view_row_libraries = {
    .name = "libraries",
    .words = "FILE",
    .help = "memory by program and library",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&libraries_table, 0}},
    .show = show_libraries,
};
