/* html_errors.c - the memory errors of the run's files of errors (--errors), each with the site in
 * whose blocks it is: that with the same call stack, by modules and places in them, so that it need
 * not be the same process. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "profiler/containers/path.h"
#include "profiler/dump/page/html_page.h"
#include "profiler/dump/views/errors/error_groups.h"

enum { MOST_ERRORS = 500, PLACE = 320 };

/* As na_error_file_place has it; empty: in no module. */
static void place_of_entry(const na_webpage_t *r, uint32_t entry, char *to, size_t size) {
    const na_nprof_stack_t *node = &na_reader_stacks(r->in->reader).items[entry];
    na_module_table_t modules = na_reader_modules(r->in->reader);
    uint32_t module = na_symbols_module(r->in->symbols, entry);
    to[0] = 0;
    if (module == 0 || module >= modules.count) return;
    const na_nprof_module_t *m = &modules.items[module];
    snprintf(to, size, "%.200s+%#llx", na_base_name(m->path),
             (unsigned long long)(node->pc - m->bias));
}

/* The site has this stack, from its innermost frame to its outermost, or to the last one that the
 * error has room for. */
static bool is_site(const na_webpage_t *r, uint32_t site, char places[][PLACE], uint32_t count) {
    na_stack_table_t stacks = na_reader_stacks(r->in->reader);
    uint32_t entry = site, i = 0;
    char place[PLACE];
    for (; i < count && entry > NA_NPROF_ROOT && entry < stacks.count; i++) {
        place_of_entry(r, entry, place, sizeof place);
        if (strcmp(place, places[i]) != 0) return false;
        entry = stacks.items[entry].parent;
    }
    return i == count && (entry <= NA_NPROF_ROOT || count == NA_GF_FRAMES);
}

static size_t error_row(const na_webpage_t *r, const na_error_group_t *g) {
    static char places[NA_GF_FRAMES][PLACE];
    uint32_t count = na_error_frames(g->error, NA_GF_ALLOC);
    if (count == 0) return SIZE_MAX;
    for (uint32_t i = 0; i < count; i++)
        na_error_file_place(g->file, g->error->pcs[NA_GF_ALLOC][i], places[i], PLACE);
    for (size_t i = 0; i < r->site_count; i++) {
        uint32_t id = r->sites[i].id;
        if (id != 0 && (id & NA_WEBPAGE_OLD) == 0 && is_site(r, id, places, count)) return i;
    }
    return SIZE_MAX;
}

static void put_error_stack(na_json_t *json, const na_error_group_t *g, unsigned which,
                            const char *name) {
    const na_gf_error_t *e = g->error;
    na_json_array(json, name);
    for (uint32_t i = 0; i < na_error_frames(e, which); i++) {
        const na_symbol_frame_t *frames;
        bool exact =
            which == NA_GF_ACCESS && i == 0 && e->access != 0 && !na_error_is_late(e->kind);
        uint32_t n = na_error_file_frames(g->file, e->pcs[which][i], exact, &frames);
        char place[PLACE];
        for (uint32_t f = 0; f < n; f++) {
            place[0] = 0;
            if (frames[f].file != NULL)
                snprintf(place, sizeof place, "%.200s:%u", na_base_name(frames[f].file),
                         frames[f].line);
            else if (frames[f].module != NULL)
                snprintf(place, sizeof place, "%.200s", na_base_name(frames[f].module));
            NA_JSON_STRINGS(json, NULL, frames[f].function, place);
        }
        if (n != 0) continue;
        snprintf(place, sizeof place, "%#" PRIx64, e->pcs[which][i]);
        NA_JSON_STRINGS(json, NULL, place, "");
    }
    na_json_end(json);
}

static void put_error(na_webpage_t *r, const na_error_group_t *g) {
    const na_gf_error_t *e = g->error;
    na_json_t *json = r->json;
    size_t row = error_row(r, g);
    na_json_object(json, NULL);
    na_json_string(json, "kind", na_error_key(e->kind));
    na_json_string(json, "name", na_error_words(e->kind));
    na_json_string(json, "access", na_error_is_late(e->kind) ? NULL : na_error_access(e->access));
    na_json_u64(json, "times", g->times);
    na_json_u64(json, "processes", g->processes);
    na_json_number(json, "happened", g->happened);
    if (e->has_block) {
        na_json_u64(json, "size", e->block.size);
        na_json_i64(json, "offset", (int64_t)(e->address - e->block.address));
    }
    na_json_i64(json, "site", row == SIZE_MAX ? -1 : (int64_t)row);
    put_error_stack(json, g, NA_GF_ACCESS, "by");
    put_error_stack(json, g, NA_GF_FREE, "freed");
    put_error_stack(json, g, NA_GF_ALLOC, "allocated");
    na_json_end(json);
}

void na_webpage_errors(na_webpage_t *r) {
    if (r->errors == NULL) return;
    size_t most = na_webpage_most(r, MOST_ERRORS);
    na_json_array(r->json, "errors");
    for (size_t i = 0; i < r->errors->count && i < most; i++)
        put_error(r, &r->errors->groups[i]);
    na_json_end(r->json);
}
