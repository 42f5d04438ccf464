/* export_callgrind.c - the profile format of callgrind, for kcachegrind and callgrind_annotate:
 * what each line asked for, and for each call of a line what was asked for below it.
 *
 * An edge that comes up several times on a stack (recursion) is counted once for that stack. Costs
 * are never negative in this format: figures of a cut profile that are become 0. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numalloc/numalloc.h"
#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

#define NOBODY UINT32_MAX /* callee of a line's own cost */

/* A line of a function, and whom it calls. `file`: compared by address; strings of one frame list
 * are shared, others only make one more record of the same line. */
typedef struct edge {
    uint32_t function, callee, line, callee_line;
    const char *file;
    na_cost_t cost;
    uint64_t seen; /* number of the stack that it was added for last, from 1 */
} edge_t;

typedef struct edges {
    edge_t *items;
    uint32_t count, room;
    na_index_t index;
} edges_t;

/* The record of this line and callee; NULL: out of memory. */
static edge_t *find_edge(edges_t *edges, const edge_t *wanted) {
    uint64_t hash =
        na_hash_number(NA_HASH_BEGIN, (uint64_t)wanted->function << 32 | wanted->callee);
    hash = na_hash_number(na_hash_number(hash, wanted->line), (uintptr_t)wanted->file);
    na_probe_t probe = na_index_probe(&edges->index, hash);
    while (na_index_next(&edges->index, &probe)) {
        edge_t *e = &edges->items[probe.number];
        if (e->function == wanted->function && e->callee == wanted->callee &&
            e->line == wanted->line && e->file == wanted->file)
            return e;
    }
    if (!NA_ARRAY_RESERVE(edges->items, edges->room, edges->count + 1u) ||
        !na_index_add(&edges->index, hash, edges->count))
        return NULL;
    edges->items[edges->count] = *wanted;
    return &edges->items[edges->count++];
}

static int64_t not_negative(int64_t value) {
    return value > 0 ? value : 0;
}

static void add_cost(na_cost_t *to, const na_cost_t *cost) {
    to->peak_bytes += not_negative(cost->peak_bytes);
    to->live_bytes += not_negative(cost->live_bytes);
    to->alloc_bytes += not_negative(cost->alloc_bytes);
    to->alloc_count += not_negative(cost->alloc_count);
}

static bool gather_edges(const na_view_input_t *in, edges_t *edges, na_cost_t *total) {
    na_stack_t stack = {0};
    bool good = true;
    for (size_t s = 0; s < in->sites.count && good; s++) {
        na_progress("adding up calls", s, in->sites.count);
        good = na_view_stack(in, in->sites.items[s].site, &stack);
        na_cost_t cost = na_view_cost_of(&in->sites.items[s].sum);
        for (uint32_t i = 0; i < stack.count && good; i++) {
            const na_symbol_frame_t *frame = stack.items[i],
                                    *inner = i == 0 ? NULL : stack.items[i - 1];
            edge_t wanted = {.function = frame->id,
                             .callee = inner == NULL ? NOBODY : inner->id,
                             .line = frame->line,
                             .callee_line = inner == NULL ? 0 : inner->line,
                             .file = frame->file};
            edge_t *edge = find_edge(edges, &wanted);
            good = edge != NULL;
            if (!good || edge->seen == s + 1) continue;
            edge->seen = s + 1;
            add_cost(&edge->cost, &cost);
            if (inner == NULL) add_cost(total, &cost);
        }
    }
    free(stack.items);
    return good;
}

static int by_function(const void *a, const void *b) {
    const edge_t *x = a, *y = b;
    if (x->function != y->function) return x->function < y->function ? -1 : 1;
    if (x->line != y->line) return x->line < y->line ? -1 : 1;
    return (x->callee + 1 > y->callee + 1) - (x->callee + 1 < y->callee + 1); /* NOBODY first */
}

static void put_cost_line(const na_view_input_t *in, const na_cost_t *cost) {
    printf("%" PRId64 " %" PRId64 " %" PRId64 " %.0f\n", cost->peak_bytes, cost->live_bytes,
           cost->alloc_bytes, na_view_count(in, (double)cost->alloc_count));
}

static void put_name_line(const char *prefix, const char *name) {
    fputs(prefix, stdout);
    na_text_put(stdout, name);
    putchar('\n');
}

static const char *file_of(const na_function_name_t *f) {
    return f->file != NULL ? f->file : "???";
}

/* Where a function's code is: object, file, name. `c`: of a called function. */
static void put_callgrind_function(const char *c, const na_function_name_t *f, uint32_t id) {
    char prefix[32];
    snprintf(prefix, sizeof prefix, "%sob=", c);
    put_name_line(prefix, f->module);
    put_name_line(c[0] == 0 ? "fl=" : "cfi=", file_of(f));
    /* Names are numbered, since two functions of different files may have one name. */
    snprintf(prefix, sizeof prefix, "%sfn=(%u) ", c, id + 1);
    put_name_line(prefix, f->function);
}

static void put_edges(const na_view_input_t *in, const edges_t *edges) {
    uint32_t function = NOBODY;
    const char *file = NULL;
    for (uint32_t i = 0; i < edges->count; i++) {
        na_progress("writing", i, edges->count);
        const edge_t *e = &edges->items[i];
        const na_function_name_t *f = na_symbols_function(in->symbols, e->function);
        if (e->function != function) {
            putchar('\n');
            put_callgrind_function("", f, e->function);
            function = e->function;
            file = file_of(f);
        }
        const char *own = e->file != NULL ? e->file : file_of(f);
        if (strcmp(own, file) != 0) {
            put_name_line(strcmp(own, file_of(f)) == 0 ? "fe=" : "fi=", own);
            file = own;
        }
        if (e->callee != NOBODY) {
            const na_function_name_t *callee = na_symbols_function(in->symbols, e->callee);
            put_callgrind_function("c", callee, e->callee);
            printf("calls=%.0f %u\n", na_view_count(in, (double)e->cost.alloc_count),
                   callee->line != 0 ? callee->line : e->callee_line);
        }
        printf("%u ", e->line);
        put_cost_line(in, &e->cost);
    }
}

static na_status_t show_callgrind(na_view_input_t *in) {
    edges_t edges = {0};
    na_cost_t total = {0};
    bool good = gather_edges(in, &edges, &total);
    if (good) {
        const na_nprof_header_t *h = na_reader_header(in->reader);
        if (edges.count != 0) qsort(edges.items, edges.count, sizeof *edges.items, by_function);
        printf("# callgrind format\nversion: 1\ncreator: numalloc-dump %d.%d.%d\npid: %d\n",
               NUMALLOC_VERSION_MAJOR, NUMALLOC_VERSION_MINOR, NUMALLOC_VERSION_PATCH, h->pid);
        put_name_line("cmd: ", h->command[0] != 0 ? h->command : h->program);
        printf("part: 1\n\npositions: line\n"
               "event: peak : Bytes live at the peak\n"
               "event: live : Bytes still live\n"
               "event: total : Bytes requested\n"
               "event: count : Allocations\n"
               "events: peak live total count\nsummary: ");
        put_cost_line(in, &total);
        put_edges(in, &edges);
        fputs("\ntotals: ", stdout);
        put_cost_line(in, &total);
    }
    free(edges.items);
    na_index_free(&edges.index);
    return good ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
}

const na_view_t na_view_row_callgrind = {
    .name = "callgrind",
    .words = "FILE",
    .help = "for kcachegrind and callgrind_annotate",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .show = show_callgrind,
};
