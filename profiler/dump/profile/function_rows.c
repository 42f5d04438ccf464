/* function_rows.c - sites and stacks to one row for each function, and which functions only pass an
 * allocation on.
 *
 * Every stack entry on the way to a site is symbolised once; everything here is linear in them, and
 * in the rounds that wrappers of wrappers take. */
#include <ctype.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/profile/input.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

/* Wrappers of wrappers of ... : deeper ones are shown as they are. */
#define ROUNDS 8

/* Of 10 stack entries of a wrapper, as many lead straight to the allocator. */
#define DIRECT_OF_10 9

bool na_view_passes_on(const na_view_input_t *in, const na_symbol_frame_t *frame) {
    return frame->runtime || (frame->id < in->function_count && in->wrappers[frame->id]);
}

/* Does the last part of a name say that it allocates? */
static bool says_alloc(const char *function) {
    char name[512];
    na_demangle_short(function, 0, name, sizeof name);
    const char *last = name;
    for (const char *p = name; (p = strstr(p, "::")) != NULL; p += 2)
        last = p + 2;
    if (strcasestr(last, "alloc") != NULL || strcasestr(last, "strdup") != NULL) return true;
    for (const char *p = last; (p = strcasestr(p, "new")) != NULL; p += 3) {
        if (!islower((unsigned char)p[3])) return true; /* not newline, newest */
    }
    return false;
}

/* What one round learns of a function. */
typedef struct behaviour {
    uint32_t direct, indirect; /* stack entries: above the allocator; above something else */
    uint32_t caller;           /* function id + 1 of one caller, 0: none seen */
    bool several;              /* callers are at least two functions */
} behaviour_t;

static void note_caller(behaviour_t *b, uint32_t self, uint32_t caller) {
    if (caller == self) return;
    if (b->caller == 0)
        b->caller = caller + 1;
    else if (b->caller != caller + 1)
        b->several = true;
}

/* One pass from the leaves on; parents have smaller ids. `direct[node]`: its innermost frame called
 * the allocator, or something that only passes on. */
static void observe(const na_view_input_t *in, na_stack_table_t stacks, const bool *wanted,
                    bool *direct, behaviour_t *functions) {
    memset(direct, 0, stacks.count);
    for (size_t s = 0; s < in->sites.count; s++) {
        if (in->sites.items[s].site < stacks.count) direct[in->sites.items[s].site] = true;
    }
    for (uint32_t node = stacks.count - 1; node > NA_NPROF_ROOT; node--) {
        if (!wanted[node]) continue;
        const na_symbol_frame_t *frames, *outer = NULL;
        uint32_t parent = stacks.items[node].parent;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        bool straight = direct[node];
        for (uint32_t i = 0; i < count; i++) {
            behaviour_t *b = &functions[frames[i].id];
            if (straight) {
                b->direct++;
                const na_symbol_frame_t *caller = i + 1 < count ? &frames[i + 1] : NULL;
                if (caller == NULL && na_symbols_frames(in->symbols, parent, &outer) > 0)
                    caller = outer;
                if (caller != NULL) note_caller(b, frames[i].id, caller->id);
            } else {
                b->indirect++;
            }
            straight = straight && na_view_passes_on(in, &frames[i]);
        }
        if (straight) direct[parent] = true;
    }
}

/* Marks wrappers until no more are found. */
static bool find_wrappers(const na_view_input_t *in, na_stack_table_t stacks, const bool *wanted) {
    bool *direct = calloc(stacks.count, sizeof *direct);
    behaviour_t *functions = calloc((size_t)in->function_count + 1, sizeof *functions);
    bool good = direct != NULL && functions != NULL, changed = good;
    for (int round = 0; changed && round < ROUNDS; round++) {
        changed = false;
        memset(functions, 0, in->function_count * sizeof *functions);
        observe(in, stacks, wanted, direct, functions);
        for (uint32_t id = 0; id < in->function_count; id++) {
            const behaviour_t *b = &functions[id];
            const na_function_name_t *f = na_symbols_function(in->symbols, id);
            if (in->wrappers[id] || !f->named || f->runtime || !b->several ||
                (uint64_t)b->direct * 10 < ((uint64_t)b->direct + b->indirect) * DIRECT_OF_10 ||
                !says_alloc(f->function))
                continue;
            in->wrappers[id] = changed = true;
        }
    }
    free(direct);
    free(functions);
    return good;
}

/* Puts functions without symbols together, by module. The modules that have some are few. */
static bool make_groups(na_view_input_t *in) {
    na_function_table_t *table = &in->functions;
    size_t room = 0;
    for (uint32_t id = 0; id < in->function_count; id++) {
        const na_function_name_t *f = na_symbols_function(in->symbols, id);
        if (f->named || f->runtime) continue;
        size_t at = 0;
        while (at < table->group_count &&
               strcmp(na_symbols_function(in->symbols, table->groups[at].id)->module, f->module) !=
                   0)
            at++;
        if (at == table->group_count) {
            if (!NA_ARRAY_RESERVE(table->groups, room, table->group_count + 1u)) return false;
            table->groups[table->group_count++] =
                (na_function_row_t){.id = id, .self = na_counters_none()};
        }
        table->groups[at].members++;
        table->items[id].group = (uint32_t)at + 1;
    }
    /* One alone is shown as itself. */
    for (uint32_t id = 0; id < in->function_count; id++) {
        uint32_t group = table->items[id].group;
        if (group != 0 && table->groups[group - 1].members < 2) table->items[id].group = 0;
    }
    return true;
}

typedef struct fold {
    const na_view_input_t *in;
    uint32_t ids[256]; /* more than twice the frames of one entry (MAX_INLINED of symbols.c) */
} fold_t;

static uint32_t frame_functions(void *arg, uint32_t node, const uint32_t **ids) {
    fold_t *fold = arg;
    const na_symbol_frame_t *frames;
    uint32_t count = na_symbols_frames(fold->in->symbols, node, &frames), used = 0;
    for (uint32_t i = 0; i < count && used + 1 < sizeof fold->ids / sizeof fold->ids[0]; i++) {
        /* A frame whose symbols came too late for want of memory has no row. */
        if (frames[i].id >= fold->in->function_count) continue;
        fold->ids[used++] = frames[i].id;
        uint32_t group = fold->in->functions.items[frames[i].id].group;
        if (group != 0) fold->ids[used++] = fold->in->function_count + group - 1;
    }
    *ids = fold->ids;
    return used;
}

static int64_t below_key(const na_function_row_t *row, na_order_t order) {
    switch (order) {
    case NA_ORDER_LIVE:
        return row->below.live_bytes;
    case NA_ORDER_TOTAL:
        return row->below.alloc_bytes;
    case NA_ORDER_COUNT:
        return row->below.alloc_count;
    case NA_ORDER_PEAK:
    default:
        return row->below.peak_bytes;
    }
}

typedef struct by {
    na_order_t order;
    bool below;
} by_t;

static int compare_functions(const void *a, const void *b, void *arg) {
    const na_function_row_t *x = a, *y = b;
    const by_t *by = arg;
    int64_t keys[6][2] = {
        {by->below ? below_key(x, by->order) : na_counters_key(&x->self, by->order),
         by->below ? below_key(y, by->order) : na_counters_key(&y->self, by->order)},
        {x->self.peak_bytes, y->self.peak_bytes},
        {na_counters_key(&x->self, NA_ORDER_TOTAL), na_counters_key(&y->self, NA_ORDER_TOTAL)},
        {na_counters_key(&x->self, NA_ORDER_COUNT), na_counters_key(&y->self, NA_ORDER_COUNT)},
        {x->below.alloc_bytes, y->below.alloc_bytes},
        {y->id, x->id},
    };
    for (size_t i = 0; i < 6; i++) {
        if (keys[i][0] != keys[i][1]) return keys[i][0] > keys[i][1] ? -1 : 1;
    }
    return 0;
}

void na_view_functions_sort(na_function_table_t *table, na_order_t order, bool below) {
    by_t by = {order, below};
    if (table->count != 0)
        qsort_r(table->items, table->count, sizeof *table->items, compare_functions, &by);
}

/* Entries that are a site or above one; symbolises them, so that all functions are known. */
static bool *find_wanted(const na_view_input_t *in, na_stack_table_t stacks) {
    bool *wanted = calloc((size_t)stacks.count + 1, sizeof *wanted);
    if (wanted == NULL) return NULL;
    for (size_t s = 0; s < in->sites.count; s++) {
        if (in->sites.items[s].site < stacks.count) wanted[in->sites.items[s].site] = true;
    }
    for (uint32_t node = stacks.count; node-- > NA_NPROF_ROOT + 1;) {
        if (!wanted[node]) continue;
        const na_symbol_frame_t *frames;
        na_progress("looking up symbols", stacks.count - node, stacks.count);
        na_symbols_frames(in->symbols, node, &frames);
        wanted[stacks.items[node].parent] = true;
    }
    /* What maps memory is no site, and no wrapper's behaviour; its functions are to be known. */
    for (size_t i = 0; i < in->maps.count; i++) {
        for (uint32_t node = in->maps.items[i].site;
             node > NA_NPROF_ROOT && node < stacks.count && !wanted[node];
             node = stacks.items[node].parent) {
            const na_symbol_frame_t *frames;
            na_symbols_frames(in->symbols, node, &frames);
        }
    }
    return wanted;
}

/* What functions and, after them, groups asked for with all that they call. */
static na_function_t *make_costs(na_view_input_t *in, na_stack_table_t stacks) {
    size_t count = in->function_count + in->functions.group_count;
    na_function_t *costs = count < UINT32_MAX ? calloc(count + 1, sizeof *costs) : NULL;
    fold_t fold = {.in = in};
    if (costs != NULL &&
        na_functions_fold(stacks, &in->sites, frame_functions, &fold, costs, (uint32_t)count))
        return costs;
    free(costs);
    return NULL;
}

static void add_mappings(na_view_input_t *in) {
    for (size_t i = 0; i < in->maps.count; i++) {
        const na_nprof_map_t *map = &in->maps.items[i];
        const na_symbol_frame_t *by, *frame = na_view_site(in, map->site, &by);
        if (!na_view_maps_more(map) || frame == NULL || frame->id >= in->function_count) continue;
        na_function_row_t *row = &in->functions.items[frame->id];
        na_function_row_t *of[] = {row,
                                   row->group != 0 ? &in->functions.groups[row->group - 1] : NULL};
        for (size_t k = 0; k < 2 && of[k] != NULL; k++) {
            of[k]->mapped += (double)map->bytes;
            of[k]->mappings += (double)map->count;
        }
    }
}

#define MAPPERS 3u /* that are named */

void na_view_row_label(const na_view_input_t *in, const na_function_row_t *row,
                       char out[NA_LABEL]) {
    const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
    if (row->members == 0) {
        na_view_function_label(f, out);
        return;
    }
    const char *slash = strrchr(f->module, '/');
    snprintf(out, NA_LABEL, "%.600s (without symbols)", slash == NULL ? f->module : slash + 1);
}

bool na_view_mappers(const na_view_input_t *in, char *out, size_t size, double *all) {
    const na_function_row_t *most[MAPPERS] = {NULL};
    *all = 0;
    for (size_t i = 0; i < in->maps.count; i++)
        if (na_view_maps_more(&in->maps.items[i])) *all += (double)in->maps.items[i].bytes;
    for (size_t i = 0; i < in->functions.count + in->functions.group_count; i++) {
        bool group = i >= in->functions.count;
        const na_function_row_t *row =
            group ? &in->functions.groups[i - in->functions.count] : &in->functions.items[i];
        if (group ? row->members < 2 : row->group != 0) continue;
        for (size_t m = 0; m < MAPPERS && row != NULL && row->mapped > 0; m++) {
            if (most[m] != NULL && row->mapped <= most[m]->mapped) continue;
            const na_function_row_t *less = most[m];
            most[m] = row;
            row = less;
        }
    }
    out[0] = 0;
    for (size_t m = 0; m < MAPPERS && most[m] != NULL; m++) {
        char label[NA_LABEL], a[NA_TEXT], b[NA_TEXT];
        na_view_row_label(in, most[m], label);
        na_text_append(out, size, "%s%s  %s in %s call%s", m == 0 ? "" : "; ", label,
                       na_text_bytes(a, most[m]->mapped), na_text_count(b, most[m]->mappings),
                       most[m]->mappings > 1 ? "s" : "");
    }
    return *all > 0;
}

static bool make_rows(na_view_input_t *in, na_stack_table_t stacks) {
    na_function_table_t *table = &in->functions;
    table->items = calloc((size_t)in->function_count + 1, sizeof *table->items);
    if (table->items == NULL || !make_groups(in)) return false;
    na_function_t *costs = make_costs(in, stacks);
    if (costs == NULL) return false;
    for (size_t i = 0; i < table->group_count; i++)
        table->groups[i].below = costs[in->function_count + i].below;
    for (uint32_t id = 0; id < in->function_count; id++) {
        table->items[id].id = id;
        table->items[id].self = na_counters_none();
        table->items[id].below = costs[id].below;
        table->items[id].wrapper = in->wrappers[id];
    }
    free(costs);
    table->count = in->function_count;
    for (size_t s = 0; s < in->sites.count; s++) {
        const na_site_t *site = &in->sites.items[s];
        const na_symbol_frame_t *by;
        const na_symbol_frame_t *frame = na_view_site(in, site->site, &by);
        if (frame == NULL || frame->id >= in->function_count) {
            na_counters_add(&table->nowhere, &site->sum);
            table->nowhere_sites++;
            continue;
        }
        na_function_row_t *row = &table->items[frame->id];
        row->sites++;
        na_counters_add(&row->self, &site->sum);
        if (row->group != 0) {
            table->groups[row->group - 1].sites++;
            na_counters_add(&table->groups[row->group - 1].self, &site->sum);
        }
        if (by == NULL || by->id >= in->function_count) continue;
        if (row->by == 0)
            row->by = by->id + 1;
        else if (row->by != by->id + 1)
            row->by_more = true;
    }
    add_mappings(in);
    for (size_t i = 0; i < table->count; i++) {
        const na_function_row_t *row = &table->items[i];
        if (row->sites == 0) continue;
        table->responsible++;
        if (row->group != 0) table->groups[row->group - 1].responsible++;
    }
    return true;
}

bool na_view_functions(na_view_input_t *in, bool automatic, const regex_t *skip,
                       size_t skip_count) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    in->functions.nowhere = na_counters_none();
    bool *wanted = find_wanted(in, stacks);
    if (wanted == NULL) return false;
    in->function_count = na_symbols_function_count(in->symbols);
    in->wrappers = calloc((size_t)in->function_count + 1, sizeof *in->wrappers);
    bool good = in->wrappers != NULL;
    for (uint32_t id = 0; good && id < in->function_count; id++) {
        for (size_t i = 0; i < skip_count && !in->wrappers[id]; i++)
            in->wrappers[id] =
                regexec(&skip[i], na_symbols_function(in->symbols, id)->function, 0, NULL, 0) == 0;
    }
    if (good && automatic && stacks.count != 0) good = find_wrappers(in, stacks, wanted);
    free(wanted);
    return good && make_rows(in, stacks);
}

void na_view_functions_free(na_view_input_t *in) {
    free(in->wrappers);
    free(in->functions.items);
    free(in->functions.groups);
    in->wrappers = NULL;
    in->functions = (na_function_table_t){.items = NULL};
    in->function_count = 0;
}

/* ---- without names ---- */

typedef struct sought {
    const char *module;
    bool missing;
} sought_t;

static void compare_missing(void *arg, const char *path, const char *why) {
    sought_t *sought = arg;
    (void)why;
    sought->missing |= strcmp(path, sought->module) == 0;
}

static bool lacks(const na_function_name_t *f, na_lack_t lack) {
    return lack == NA_LACK_NAME ? !f->named : f->by_symbol && !f->runtime;
}

const char *na_view_lacking(const na_view_input_t *in, na_lack_t lack, double *share) {
    double all = na_view_metric(in, &in->sites.total), lacking = 0, most = 0;
    const char *module = NULL;
    for (size_t i = 0; i < in->functions.count; i++) {
        const na_function_row_t *row = &in->functions.items[i];
        const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
        double part = na_view_metric(in, &row->self);
        if (!lacks(f, lack) || row->sites == 0) continue;
        lacking += part;
        if (module == NULL || part > most) {
            most = part;
            module = f->module;
        }
    }
    if (module == NULL || !(lacking >= 0.01 * all)) return NULL;
    sought_t sought = {.module = module}; /* why it has none was said already */
    na_symbols_missing(in->symbols, compare_missing, &sought);
    *share = lacking / all;
    return sought.missing ? NULL : module;
}
