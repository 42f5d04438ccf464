/* view_control.c - how the profile was made, and what the program said itself: session, markers,
 * pools, and what a forked child inherited. */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"

/* ---- session ---- */

static void take_session(void *arg, uint32_t id, const void *entry) {
    (void)id;
    memcpy(arg, entry, sizeof(na_nprof_session_t));
}

static const na_column_t session_columns[] = {
    {"session", "session", NA_KIND_NUMBER, NULL},
    {"copy", "copy", NA_KIND_NUMBER, NULL},
    {"copied_ms", "copied at", NA_KIND_MS, NULL},
    {"from_start", "from the start", NA_KIND_NUMBER, NULL},
    {"missed_at_most", "missed at most", NA_KIND_NUMBER, NULL},
    {"pid", "pid", NA_KIND_NUMBER, NULL},
    {"inherited_pid", "forked from", NA_KIND_NUMBER, NULL},
    {"rank", "rank", NA_KIND_NUMBER, NULL},
    {"ranks", "of", NA_KIND_NUMBER, NULL},
    {"job", "job", NA_KIND_TEXT, NULL},
    {"host", "host", NA_KIND_TEXT, NULL},
    {"file", "profile", NA_KIND_TEXT, NULL},
};
static const na_columns_t session_table = NA_COLUMNS(session_columns);

static na_status_t show_session(na_view_input_t *in) {
    enum {
        SESSION,
        COPY,
        COPIED,
        FROM_START,
        MISSED,
        PID,
        PARENT,
        RANK,
        SIZE,
        JOB,
        HOST,
        FILE_NAME
    };
    const na_nprof_header_t *h = na_reader_header(in->reader);
    na_nprof_session_t s = {.session = 1, .flags = NA_NPROF_SESSION_FROM_START};
    na_reader_control(in->reader, NA_NPROF_SESSION, take_session, &s);
    na_table_t *table = na_table_open(&session_table);
    na_status_t status = NA_STATUS_MEMORY;
    if (table != NULL) {
        na_table_row(table, 0);
        na_table_number(table, SESSION, s.session);
        na_table_number(table, COPY, s.copy);
        na_table_number(table, COPIED, s.copy == 0 ? NAN : (double)s.copied_ms);
        na_table_number(table, FROM_START, (s.flags & NA_NPROF_SESSION_FROM_START) != 0);
        na_table_number(table, MISSED, s.missed);
        na_table_number(table, PID, h->pid);
        na_table_number(table, PARENT,
                        h->inherited_pid == 0 ? (double)NAN : (double)h->inherited_pid);
        na_table_number(table, RANK, h->mpi_rank < 0 ? (double)NAN : (double)h->mpi_rank);
        na_table_number(table, SIZE, h->mpi_size == 0 ? (double)NAN : (double)h->mpi_size);
        na_table_text(table, JOB, h->job[0] == 0 ? NULL : h->job);
        na_table_text(table, HOST, h->host);
        na_table_text(table, FILE_NAME, s.file[0] == 0 ? NULL : s.file);
        const na_table_print_t print = {
            .view = "session",
            .title = "Session; \"missed\": events of each kind, size class and running thread at "
                     "its beginning"};
        status = na_table_write(table, in->options, &print);
    }
    na_table_close(table);
    return status;
}

/* ---- markers ---- */

typedef struct markers {
    const na_view_input_t *in;
    na_table_t *table;
} markers_t;

static void add_marker(void *arg, uint32_t id, const void *entry) {
    const na_nprof_marker_t *m = entry;
    enum { MS, THREAD, NAME, LIVE, BLOCKS, ALLOCATIONS, TOTAL };
    const markers_t *markers = arg;
    na_table_t *t = markers->table;
    na_table_row(t, id);
    na_table_number(t, THREAD, m->thread);
    na_table_text(t, NAME, m->name);
    na_table_number(t, MS, (double)m->ms);
    if ((m->flags & NA_NPROF_MARKER_PLACED) == 0) return;
    na_table_number(t, MS, (double)m->ticks * na_tick_ms(na_reader_header(markers->in->reader)));
    na_table_number(t, LIVE, (double)m->live_bytes);
    na_table_number(t, BLOCKS, na_view_count(markers->in, (double)m->live_count));
    na_table_number(t, ALLOCATIONS, na_view_count(markers->in, (double)m->alloc_count));
    na_table_number(t, TOTAL, (double)m->alloc_bytes);
}

static const na_column_t markers_columns[] = {
    {"ms", "time", NA_KIND_MS, NULL},
    {"thread", "thread", NA_KIND_NUMBER, NULL},
    {"name", "name", NA_KIND_TEXT, NULL},
    {"live_bytes", "live then", NA_KIND_BYTES, NULL},
    {"live_blocks", "in blocks", NA_KIND_COUNT, NULL},
    {"allocations", "blocks so far", NA_KIND_COUNT, NULL},
    {"total_bytes", "bytes so far", NA_KIND_BYTES, NULL},
};
static const na_columns_t markers_table = NA_COLUMNS(markers_columns);

static na_status_t show_markers(na_view_input_t *in) {
    na_table_t *table = na_table_open(&markers_table);
    na_status_t status = NA_STATUS_MEMORY;
    if (table != NULL) {
        markers_t markers = {in, table};
        na_reader_control(in->reader, NA_NPROF_MARKERS, add_marker, &markers);
        const na_table_print_t print = {
            .view = "markers",
            .title = "Markers (%s)",
            .sort = "ms",
            .ascending = true,
            .all = true,
            .empty = "No markers: the program did not call numalloc_record_marker"};
        status = na_table_write(table, in->options, &print);
    }
    na_table_close(table);
    return status;
}

/* ---- the name of a site ---- */

static void put_pool_site(na_table_t *table, size_t column, const na_view_input_t *in,
                          uint32_t site) {
    char label[NA_LABEL];
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, site, &leaf);
    if (frame == NULL) {
        na_table_format(table, column, "site %u", site);
        return;
    }
    na_view_frame_label(frame, label);
    na_table_text(table, column, label);
}

/* ---- pools ---- */

enum {
    POOL,
    SITE,
    LIVE,
    PEAK,
    PEAK_AT,
    TOTAL,
    COUNT,
    FREES,
    SMALLEST,
    LARGEST,
    LIFE,
    BEFORE,
    LOST
};

typedef struct pools {
    const na_view_input_t *in;
    na_table_t *table;
    na_nprof_pool_t *items; /* by id */
    uint32_t room;
    bool memory;
} pools_t;

static void put_pool_counts(na_table_t *t, uint64_t allocs, uint64_t alloc_bytes, uint64_t frees,
                            uint64_t free_bytes) {
    na_table_number(t, LIVE, (double)(int64_t)(alloc_bytes - free_bytes));
    na_table_number(t, TOTAL, (double)alloc_bytes);
    na_table_number(t, COUNT, (double)allocs);
    na_table_number(t, FREES, (double)frees);
}

/* A row for the pool as a whole: it has no site. */
static void add_pool_row(void *arg, uint32_t id, const void *entry) {
    pools_t *pools = arg;
    const na_nprof_pool_t *p = entry;
    if (id == 0 || id >= pools->room) return;
    pools->items[id] = *p;
    na_table_row(pools->table, id);
    na_table_text(pools->table, POOL, p->name);
    put_pool_counts(pools->table, p->alloc_count, p->alloc_bytes, p->free_count, p->free_bytes);
    na_table_number(pools->table, PEAK, (double)p->peak_bytes);
    na_table_number(pools->table, PEAK_AT, (double)p->peak_ms);
    na_table_number(pools->table, BEFORE, (double)p->before_frees);
    na_table_number(pools->table, LOST, (double)p->lost);
}

static void add_pool_cell(void *arg, uint32_t id, const void *entry) {
    pools_t *pools = arg;
    const na_nprof_pool_cell_t *c = entry;
    if (id == 0 || id >= pools->room) return;
    const na_nprof_pool_t *p = &pools->items[id];
    na_table_t *t = pools->table;
    na_table_row(t, id);
    na_table_text(t, POOL, p->name);
    put_pool_site(t, SITE, pools->in, c->site);
    put_pool_counts(t, c->alloc_count, c->alloc_bytes, c->free_count, c->free_bytes);
    na_table_number(t, PEAK,
                    c->peak_epoch == p->peak_epoch
                        ? (double)c->peak_bytes
                        : (double)(int64_t)(c->alloc_bytes - c->free_bytes));
    if (c->alloc_count != 0) {
        na_table_number(t, SMALLEST, (double)c->size_min);
        na_table_number(t, LARGEST, (double)c->size_max);
    }
    if (c->free_count != 0)
        na_table_number(t, LIFE, (double)c->lifetime_sum_ms / (double)c->free_count);
}

static const na_column_t pools_columns[] = {
    {"pool", "pool", NA_KIND_TEXT, NULL},
    {"site", "site", NA_KIND_TEXT, NULL},
    {"live_bytes", "live", NA_KIND_BYTES, "live"},
    {"peak_bytes", "at its peak", NA_KIND_BYTES, "peak"},
    {"peak_ms", "peak at", NA_KIND_MS, NULL},
    {"total_bytes", "total", NA_KIND_BYTES, "total"},
    {"allocations", "blocks", NA_KIND_COUNT, "count"},
    {"frees", "taken back", NA_KIND_COUNT, NULL},
    {"size_min", "smallest", NA_KIND_BYTES, NULL},
    {"size_max", "largest", NA_KIND_BYTES, NULL},
    {"mean_lifetime_ms", "mean life", NA_KIND_MS, NULL},
    {"before_frees", NULL, NA_KIND_COUNT, NULL},
    {"lost", NULL, NA_KIND_COUNT, NULL},
};
static const na_columns_t pools_table = NA_COLUMNS(pools_columns);

static na_status_t show_pools(na_view_input_t *in) {
    enum { MOST = 1u << 16 };
    pools_t pools = {.in = in, .room = MOST, .items = calloc(MOST, sizeof *pools.items)};
    pools.table = na_table_open(&pools_table);
    na_status_t status = NA_STATUS_MEMORY;
    if (pools.items != NULL && pools.table != NULL) {
        na_reader_control(in->reader, NA_NPROF_POOLS, add_pool_row, &pools);
        na_reader_control(in->reader, NA_NPROF_POOL_CELLS, add_pool_cell, &pools);
        const na_table_print_t print = {
            .view = "pools",
            .title = "Pools that the program announced (%s); rows without a site are whole pools",
            .sort = "peak_bytes",
            .empty = "No pools: the program did not call numalloc_pool_create"};
        status = na_table_write(pools.table, in->options, &print);
    }
    na_table_close(pools.table);
    free(pools.items);
    return status;
}

/* ---- inherited ---- */

enum { ORIGINS_MOST = 64 };

typedef struct origins {
    na_view_input_t *in;
    na_table_t *table;
    struct origin {
        na_nprof_origin_t entry;
        na_view_input_t file;
        bool known, open;
    } items[ORIGINS_MOST];
} origins_t;

static void add_origin(void *arg, uint32_t id, const void *entry) {
    origins_t *origins = arg;
    if (id == 0 || id >= ORIGINS_MOST) return;
    origins->items[id].known = true;
    memcpy(&origins->items[id].entry, entry, sizeof(na_nprof_origin_t));
}

/* Is this file the ancestor's profile? */
static bool is_origin(const char *path, const na_nprof_origin_t *entry) {
    char error[512];
    na_reader_t *reader = na_reader_open(path, error, sizeof error);
    if (reader == NULL) return false;
    const na_nprof_header_t *h = na_reader_header(reader);
    bool same = h->pid == entry->pid && h->start_unix_ns == entry->start_unix_ns;
    na_reader_close(reader);
    return same;
}

/* Where it was, or beside the child's. */
static void open_origin(origins_t *origins, struct origin *o) {
    const char *own = origins->in->path, *slash = strrchr(own, '/');
    const char *name = strrchr(o->entry.file, '/');
    char beside[4096 + sizeof o->entry.file];
    snprintf(beside, sizeof beside, "%.*s%s", slash == NULL ? 0 : (int)(slash + 1 - own), own,
             name == NULL ? o->entry.file : name + 1);
    const char *path = is_origin(o->entry.file, &o->entry) ? o->entry.file
                       : is_origin(beside, &o->entry)      ? beside
                                                           : NULL;
    if (path == NULL) return;
    char *kept = strdup(path);
    if (kept == NULL) return;
    o->open = na_view_load(&o->file, kept, origins->in->options, false) == NA_STATUS_WHOLE;
    if (!o->open) free(kept);
}

static void add_inherited(void *arg, uint32_t id, const void *entry) {
    enum { PID, NAME, BYTES, BLOCKS, FREED, FREES };
    origins_t *origins = arg;
    const na_nprof_inherited_t *e = entry;
    if (id == 0 || id >= ORIGINS_MOST || !origins->items[id].known) return;
    const struct origin *o = &origins->items[id];
    na_table_t *t = origins->table;
    na_table_row(t, id);
    na_table_number(t, PID, o->entry.pid);
    if (o->open)
        put_pool_site(t, NAME, &o->file, na_reader_stack_id(o->file.reader, e->site));
    else
        na_table_format(t, NAME, "site %u of %s", e->site, o->entry.file);
    na_table_number(t, BYTES, (double)e->live_bytes);
    na_table_number(t, BLOCKS, na_view_count(origins->in, (double)e->live_count));
    na_table_number(t, FREED, (double)e->free_bytes);
    na_table_number(t, FREES, na_view_count(origins->in, (double)e->free_count));
}

static const na_column_t inherited_columns[] = {
    {"origin_pid", "of pid", NA_KIND_NUMBER, NULL},
    {"site", "site", NA_KIND_TEXT, NULL},
    {"inherited_bytes", "inherited", NA_KIND_BYTES, NULL},
    {"inherited_blocks", "blocks", NA_KIND_COUNT, NULL},
    {"freed_bytes", "freed since", NA_KIND_BYTES, NULL},
    {"freed_blocks", "blocks freed", NA_KIND_COUNT, NULL},
};
static const na_columns_t inherited_table = NA_COLUMNS(inherited_columns);

static na_status_t show_inherited(na_view_input_t *in) {
    origins_t *origins = calloc(1, sizeof *origins);
    na_table_t *table = na_table_open(&inherited_table);
    na_status_t status = NA_STATUS_MEMORY;
    if (origins != NULL && table != NULL) {
        origins->in = in;
        origins->table = table;
        na_reader_control(in->reader, NA_NPROF_ORIGINS, add_origin, origins);
        for (size_t i = 0; i < ORIGINS_MOST; i++)
            if (origins->items[i].known) open_origin(origins, &origins->items[i]);
        na_reader_control(in->reader, NA_NPROF_INHERITED, add_inherited, origins);
        const na_table_print_t print = {
            .view = "inherited",
            .title = "Blocks inherited from ancestors, by their sites (%s)",
            .sort = "inherited_bytes",
            .empty = "Nothing was inherited: the process is no forked child of a profiled one"};
        status = na_table_write(table, in->options, &print);
        for (size_t i = 0; i < ORIGINS_MOST; i++) {
            if (!origins->items[i].open) continue;
            char *path = (char *)(uintptr_t)origins->items[i].file.path;
            na_view_unload(&origins->items[i].file, true);
            free(path);
        }
    }
    na_table_close(table);
    free(origins);
    return status;
}

const na_view_t na_view_row_pools = {
    .name = "pools",
    .words = "FILE",
    .help = "blocks that the program's own pools announced, by pool and site",
    .more =
        "Pools are a kind of their own: their memory is counted under malloc or mappings as well.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_FACTS,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&pools_table, 0}},
    .show = show_pools,
};

const na_view_t na_view_row_markers = {
    .name = "markers",
    .words = "FILE",
    .help = "moments that the program named",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
    .takes = NA_TAKES_TABLE,
    .tables = {{&markers_table, 0}},
    .show = show_markers,
};

const na_view_t na_view_row_inherited = {
    .name = "inherited",
    .words = "FILE",
    .help = "a forked child: blocks that it has from its ancestors, and what it freed of them",
    .more = "Sites are named if the ancestor's profile lies where it was, or beside this one.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS),
    .tables = {{&inherited_table, 0}},
    .show = show_inherited,
};

const na_view_t na_view_row_session = {
    .name = "session",
    .words = "FILE",
    .help = "which part of which run, and which process of a job, this is",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
    .takes = NA_TAKES_TABLE,
    .tables = {{&session_table, 0}},
    .show = show_session,
};
