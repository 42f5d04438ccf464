/* view_threads.c - what each thread did: its own events, and whose blocks it freed. */
#include <math.h>
#include <stdlib.h>

#include "profiler/dump/table.h"
#include "profiler/dump/views.h"

typedef struct sum {
    uint64_t sites, frees, freed_bytes, cross_thread, cross_node, reallocs;
    int64_t net; /* bytes allocated less bytes freed by this thread */
} sum_t;

typedef struct sums {
    sum_t *items;
    uint32_t count;
} sums_t;

static void add(void *arg, uint32_t thread, const na_nprof_cell_t *cell) {
    const sums_t *sums = arg;
    if (thread >= sums->count) return;
    sum_t *s = &sums->items[thread];
    s->sites += cell->alloc_count != 0;
    s->frees += cell->free_count;
    s->freed_bytes += cell->free_bytes;
    s->cross_thread += cell->cross_thread_free_count;
    s->cross_node += cell->cross_node_free_count;
    s->reallocs += cell->realloc_count;
    s->net = (int64_t)((uint64_t)s->net + cell->alloc_bytes - cell->free_bytes);
}

na_status_t na_view_threads(na_view_input_t *in) {
    enum {
        THREAD,
        TID,
        NAME,
        START,
        END,
        TOTAL,
        SHARE,
        COUNT,
        FREES,
        FREED,
        CROSS,
        NODE,
        REALLOCS,
        NET,
        SITES
    };
    static const na_column_t columns[] = {
        {"thread", "thread", NA_KIND_NUMBER, NULL},
        {"tid", "tid", NA_KIND_NUMBER, NULL},
        {"name", "name", NA_KIND_TEXT, NULL},
        {"start_ms", "start", NA_KIND_MS, NULL},
        {"end_ms", "end", NA_KIND_MS, NULL},
        {"total_bytes", "total", NA_KIND_BYTES, "total"},
        {NULL, "share", NA_KIND_SHARE, NULL},
        {"allocations", "allocations", NA_KIND_COUNT, "count"},
        {"frees", "frees", NA_KIND_COUNT, NULL},
        {"freed_bytes", "freed", NA_KIND_BYTES, NULL},
        {"cross_thread_frees", "of other threads", NA_KIND_COUNT, NULL},
        {"cross_node_frees", "of other nodes", NA_KIND_COUNT, NULL},
        {"reallocs", "reallocs", NA_KIND_COUNT, NULL},
        {"net_bytes", NULL, NA_KIND_BYTES, "live"},
        {"sites", "sites", NA_KIND_COUNT, NULL},
    };
    na_thread_table_t threads = na_reader_threads(in->reader);
    sums_t sums = {calloc((size_t)threads.count + 1, sizeof *sums.items), threads.count};
    na_table_t *table = na_table_open(columns, sizeof columns / sizeof columns[0]);
    na_status_t status = NA_STATUS_MEMORY;
    if (sums.items != NULL && table != NULL) {
        na_reader_cells(in->reader, add, &sums);
        double all = (double)in->sites.total.alloc_bytes;
        for (uint32_t i = 1; i < threads.count; i++) {
            const na_nprof_thread_t *t = &threads.items[i];
            const sum_t *s = &sums.items[i];
            if (t->tid == 0) continue;
            na_table_row(table, i);
            na_table_text(table, NAME, t->name);
            const double values[] = {
                [THREAD] = i,
                [TID] = t->tid,
                [NAME] = NAN,
                [START] = (double)t->start_ms,
                [END] = t->end_ms == UINT64_MAX ? NAN : (double)t->end_ms,
                [TOTAL] = (double)t->alloc_bytes,
                [SHARE] = all > 0 ? (double)t->alloc_bytes / all : NAN,
                [COUNT] = na_view_count(in, (double)t->alloc_count),
                [FREES] = na_view_count(in, (double)s->frees),
                [FREED] = (double)s->freed_bytes,
                [CROSS] = na_view_count(in, (double)s->cross_thread),
                [NODE] = na_view_count(in, (double)s->cross_node),
                [REALLOCS] = na_view_count(in, (double)s->reallocs),
                [NET] = (double)s->net,
                [SITES] = (double)s->sites,
            };
            for (size_t c = 0; c < sizeof values / sizeof values[0]; c++)
                if (c != NAME) na_table_number(table, c, values[c]);
        }
        const na_table_print_t print = {.view = "threads",
                                        .title = "Threads (%s); \"of other threads\" are frees of "
                                                 "blocks that another thread allocated",
                                        .sort = "total_bytes"};
        status = na_table_write(table, in->options, &print);
    }
    na_table_close(table);
    free(sums.items);
    return status;
}
