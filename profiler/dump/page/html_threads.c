/* html_threads.c - the threads of the page, and which of them freed whose blocks.
 *
 * A trace says it of every block. Otherwise a site has a cell for each place of threads: what was
 * allocated there, what was freed there, and how much of that came from elsewhere. Of a site where
 * only one other place allocated, this says whose the blocks were; else "one of several" (0). */
#include <stdint.h>
#include <stdlib.h>

#include "profiler/analyze/blocks/calls.h"
#include "profiler/containers/array.h"
#include "profiler/dump/page/html_page.h"

enum { T_ID, T_TID, T_START, T_END, T_ALLOCATIONS, T_FREES, T_BYTES, T_COLUMNS };

static void put_thread_figure(const na_webpage_t *r, const na_nprof_thread_t *t, uint32_t id,
                              int column) {
    na_json_t *json = r->json;
    const uint64_t plain[T_COLUMNS] = {[T_ID] = id,
                                       [T_TID] = t->tid,
                                       [T_START] = t->start_ms,
                                       [T_END] = t->end_ms,
                                       [T_BYTES] = t->alloc_bytes};
    if (column == T_END && t->end_ms == UINT64_MAX)
        na_json_null(json, NULL);
    else if (column == T_ALLOCATIONS)
        na_json_number(json, NULL, na_view_count(r->in, (double)t->alloc_count));
    else if (column == T_FREES)
        na_json_number(json, NULL, na_view_count(r->in, (double)t->free_count));
    else
        na_json_u64(json, NULL, plain[column]);
}

static void put_threads_part(const na_webpage_t *r) {
    static const char *const names[T_COLUMNS] = {"id",          "tid",   "start_ms", "end_ms",
                                                 "allocations", "frees", "bytes"};
    na_thread_table_t threads = na_reader_threads(r->in->reader);
    na_json_t *json = r->json;
    na_json_object(json, "threads");
    na_json_array(json, "name");
    for (uint32_t i = 1; i < threads.count; i++) {
        if (threads.items[i].tid == 0) continue;
        char name[32];
        na_json_string(json, NULL, na_view_thread_name(&threads.items[i], name));
    }
    na_json_end(json);
    for (int column = 0; column < T_COLUMNS; column++) {
        na_json_array(json, names[column]);
        for (uint32_t i = 1; i < threads.count; i++) {
            if (threads.items[i].tid == 0) continue;
            put_thread_figure(r, &threads.items[i], i, column);
        }
        na_json_end(json);
    }
    /* [thread's place, call, calls, timed, ms, error] */
    na_json_end(json);
    na_json_array(json, "thread_calls");
    for (uint32_t i = 1, place = 0; i < threads.count; i++) {
        if (threads.items[i].tid == 0) continue;
        for (unsigned e = 0; e < NA_NPROF_ENTRIES; e++) {
            na_call_time_t call =
                na_call_time(na_reader_header(r->in->reader), &threads.items[i], e);
            if (call.calls == 0) continue;
            na_json_array(json, NULL);
            na_json_u64(json, NULL, place);
            na_json_string(json, NULL, na_call_names[e]);
            const double values[] = {call.calls, call.timed, call.ms, call.error};
            for (size_t c = 0; c < sizeof values / sizeof values[0]; c++)
                na_json_number(json, NULL, values[c]);
            na_json_end(json);
        }
        place++;
    }
    na_json_end(json);
}

/* ---- who freed whose blocks ---- */

#define MOST_PAIRS 4096u

typedef struct part {
    uint32_t site, thread;
    uint64_t allocs, frees, foreign;
} part_t;

typedef struct parts {
    part_t *items;
    size_t count, room;
    bool failed;
} parts_t;

static void keep_part(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    parts_t *p = arg;
    if (p->failed || (cell->free_count == 0 && cell->alloc_count == 0)) return;
    if (!NA_ARRAY_RESERVE(p->items, p->room, p->count + 1u)) {
        p->failed = true;
        return;
    }
    uint64_t foreign = cell->cross_thread_free_count;
    if (foreign > cell->free_count) foreign = cell->free_count; /* torn by a kill */
    p->items[p->count++] =
        (part_t){cell->site, thread, cell->alloc_count, cell->free_count, foreign};
}

static int parts_by_site(const void *a, const void *b) {
    const part_t *x = a, *y = b;
    if (x->site != y->site) return x->site < y->site ? -1 : 1;
    return x->thread < y->thread ? -1 : x->thread > y->thread;
}

/* The parts of one site. */
static bool add_site_parts(na_webpage_t *r, const part_t *parts, size_t count) {
    uint32_t one = 0, allocating = 0;
    for (size_t i = 0; i < count; i++) {
        if (parts[i].allocs == 0) continue;
        one = parts[i].thread;
        allocating++;
    }
    uint32_t row =
        parts[0].site < na_reader_stacks(r->in->reader).count ? r->row_of_site[parts[0].site] : 0;
    na_handovers_t *of = row != 0 && row <= NA_WEBPAGE_COURSES ? &r->site_handed[row - 1] : NULL;
    for (size_t i = 0; i < count; i++) {
        const part_t *p = &parts[i];
        uint32_t from = allocating == 1 ? one : 0;
        if (allocating == 2 && p->allocs != 0) { /* the other one */
            for (size_t k = 0; k < count; k++)
                if (parts[k].allocs != 0 && k != i) from = parts[k].thread;
        }
        uint64_t own = p->frees - p->foreign;
        if (own != 0 && !na_handovers_add(&r->handed, p->thread, p->thread, own)) return false;
        if (p->foreign != 0 && !na_handovers_add(&r->handed, from, p->thread, p->foreign))
            return false;
        if (of == NULL) continue;
        if (own != 0 && !na_handovers_add(of, p->thread, p->thread, own)) return false;
        if (p->foreign != 0 && !na_handovers_add(of, from, p->thread, p->foreign)) return false;
    }
    if (of != NULL) na_handovers_join(of);
    return true;
}

static void from_cells(na_webpage_t *r) {
    parts_t parts = {0};
    r->site_handed = calloc(NA_WEBPAGE_COURSES, sizeof *r->site_handed);
    na_reader_cells(r->in->reader, keep_part, &parts);
    bool good = !parts.failed && r->site_handed != NULL;
    if (good && parts.count != 0)
        qsort(parts.items, parts.count, sizeof *parts.items, parts_by_site);
    for (size_t i = 0, next; good && i < parts.count; i = next) {
        for (next = i + 1; next < parts.count && parts.items[next].site == parts.items[i].site;)
            next++;
        good = add_site_parts(r, &parts.items[i], next - i);
    }
    na_handovers_join(&r->handed);
    free(parts.items);
    r->out_of_memory |= !good;
}

void na_webpage_threads(na_webpage_t *r) {
    if (r->blocks != NULL)
        r->handed = *na_blocks_pairs(r->blocks);
    else
        from_cells(r);
    put_threads_part(r);
    na_json_array(r->json, "handed");
    for (size_t i = 0; i < r->handed.count && i < MOST_PAIRS; i++) {
        const na_handover_t *p = &r->handed.items[i];
        na_json_array(r->json, NULL);
        na_json_u64(r->json, NULL, p->from);
        na_json_u64(r->json, NULL, p->to);
        na_json_number(r->json, NULL, na_view_count(r->in, (double)p->count));
        na_json_end(r->json);
    }
    na_json_end(r->json);
}
