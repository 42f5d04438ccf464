/* html_functions.c - what each function is responsible for at the peak, as the view `functions` has
 * it: summed up before small sites are put together, so that no site is missing. */
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/page/html_page.h"

typedef struct ranked {
    int64_t self;
    const na_function_row_t *row;
} ranked_t;

static int most_first(const void *a, const void *b) {
    const ranked_t *x = a, *y = b;
    if (x->self != y->self) return x->self < y->self ? 1 : -1;
    return x->row->id < y->row->id ? -1 : x->row->id > y->row->id;
}

/* The row of a function of the page, a new one if it has none. NULL: out of memory. */
static na_webpage_function_t *row_of(na_webpage_t *r, uint32_t function) {
    na_webpage_functions_t *f = &r->by_function;
    if (!NA_ARRAY_RESERVE_ZERO(f->row_of, f->row_room, function + 1u)) return NULL;
    if (f->row_of[function] == 0) {
        if (!NA_ARRAY_RESERVE(f->items, f->room, f->count + 1u)) return NULL;
        f->items[f->count] = (na_webpage_function_t){.function = function};
        f->row_of[function] = ++f->count;
    }
    return &f->items[f->row_of[function] - 1];
}

static bool add_function(na_webpage_t *r, const na_function_row_t *row) {
    const na_function_name_t *f = na_symbols_function(r->in->symbols, row->id);
    uint32_t none = NA_WEBPAGE_NONE;
    uint32_t name = na_intern_text(&r->strings, f->function);
    uint32_t module = na_intern_text(&r->strings, f->module);
    uint32_t function = name == none || module == none
                            ? none
                            : na_intern_numbers(&r->functions, row->id, name, module, NULL);
    na_webpage_function_t *made = function == none ? NULL : row_of(r, function);
    if (made == NULL) return false;
    made->self = row->self.peak_bytes;
    made->below = row->below.peak_bytes;
    return true;
}

static const char *group_module(const na_webpage_t *r, size_t group) {
    return na_symbols_function(r->in->symbols, r->in->functions.groups[group].id)->module;
}

bool na_webpage_functions_choose(na_webpage_t *r) {
    const na_function_table_t *all = &r->in->functions;
    ranked_t *rows = calloc(all->count + 1, sizeof *rows);
    if (rows == NULL) return false;
    size_t count = 0, most = na_webpage_most(r, NA_WEBPAGE_SITES);
    for (size_t i = 0; i < all->count; i++)
        if (all->items[i].self.peak_bytes != 0)
            rows[count++] = (ranked_t){all->items[i].self.peak_bytes, &all->items[i]};
    qsort(rows, count, sizeof *rows, most_first);
    bool good = true;
    for (size_t i = 0; good && i < count && i < most; i++)
        good = add_function(r, rows[i].row);
    for (size_t i = 0; good && i < all->group_count; i++)
        good = na_intern_text(&r->strings, group_module(r, i)) != NA_WEBPAGE_NONE;
    free(rows);
    return good;
}

bool na_webpage_functions_before(na_webpage_t *r, uint32_t function, const na_counters_t *sum) {
    if (sum->peak_bytes == 0) return true;
    na_webpage_function_t *row = row_of(r, function);
    if (row == NULL) return false;
    row->before += sum->peak_bytes;
    uint32_t id = r->functions.keys[function].number[0];
    if (row->self == 0 && id < r->in->functions.count)
        row->below = r->in->functions.items[id].below.peak_bytes;
    return true;
}

void na_webpage_functions(na_webpage_t *r) {
    na_json_t *json = r->json;
    const na_webpage_functions_t *f = &r->by_function;
    na_json_object(json, "by_function");
    na_json_array(json, "rows");
    for (uint32_t i = 0; i < f->count; i++) {
        na_json_array(json, NULL);
        na_json_u64(json, NULL, f->items[i].function);
        na_json_i64(json, NULL, f->items[i].self);
        na_json_i64(json, NULL, f->items[i].below);
        if (r->base != NULL) na_json_i64(json, NULL, f->items[i].before);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_array(json, "groups");
    const na_function_table_t *all = &r->in->functions;
    for (size_t i = 0; i < all->group_count; i++) {
        na_json_array(json, NULL);
        na_json_u64(json, NULL, na_intern_text(&r->strings, group_module(r, i)));
        na_json_i64(json, NULL, all->groups[i].below.peak_bytes);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
}
