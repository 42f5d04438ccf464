/* reader_sites.c - reads what belongs to sites beside their cells: lifetimes, shares, sizes, the
 * program's own mappings, figures over time. */
#include <stdlib.h>
#include <string.h>

#include "profiler/format/nprof_check.h"
#include "profiler/format/reader/reader_priv.h"

#define SERIES_KINDS (NA_NPROF_SERIES_RESIDENT + 1)

typedef struct visit {
    void (*call)(void);
    void *arg;
} visit_t;

static void visit_lives(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                        const void *entry) {
    (void)chunk, (void)index;
    const visit_t *to = arg;
    na_nprof_lives_t lives;
    memcpy(&lives, entry, sizeof lives);
    lives.site = na_reader_stack_id(reader, lives.site);
    if (lives.site != NA_NPROF_NO_STACK) ((na_lives_fn_t)to->call)(to->arg, &lives);
}

void na_reader_lives(na_reader_t *reader, na_lives_fn_t visit, void *arg) {
    visit_t to = {(void (*)(void))visit, arg};
    na_reader_each_entry(reader, NA_NPROF_LIVES, visit_lives, &to);
}

static void visit_share(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                        const void *entry) {
    (void)chunk, (void)index;
    const visit_t *to = arg;
    na_nprof_share_t share;
    memcpy(&share, entry, sizeof share);
    share.site = na_reader_stack_id(reader, share.site);
    if (share.site != NA_NPROF_NO_STACK) ((na_share_fn_t)to->call)(to->arg, &share);
}

void na_reader_shares(na_reader_t *reader, na_share_fn_t visit, void *arg) {
    visit_t to = {(void (*)(void))visit, arg};
    na_reader_each_entry(reader, NA_NPROF_SHARES, visit_share, &to);
}

static void visit_map(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                      const void *entry) {
    (void)index;
    const visit_t *to = arg;
    na_nprof_map_t map;
    memcpy(&map, entry, sizeof map);
    map.site = na_reader_stack_id(reader, map.site);
    if (map.site == NA_NPROF_NO_STACK) return;
    if (map.call < NA_NPROF_MAP_MMAP || map.call > NA_NPROF_MAP_UNBRK)
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, map.call);
    else
        ((na_map_fn_t)to->call)(to->arg, &map);
}

void na_reader_maps(na_reader_t *reader, na_map_fn_t visit, void *arg) {
    visit_t to = {(void (*)(void))visit, arg};
    na_reader_each_entry(reader, NA_NPROF_MAPS, visit_map, &to);
}

static void visit_sizes(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                        const void *entry) {
    (void)reader, (void)chunk, (void)index;
    const visit_t *to = arg;
    na_nprof_sizes_t sizes;
    memcpy(&sizes, entry, sizeof sizes);
    ((na_sizes_fn_t)to->call)(to->arg, &sizes);
}

void na_reader_sizes(na_reader_t *reader, na_sizes_fn_t visit, void *arg) {
    visit_t to = {(void (*)(void))visit, arg};
    na_reader_each_entry(reader, NA_NPROF_SIZES, visit_sizes, &to);
}

static void visit_span_sum(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                           uint32_t index, const void *entry) {
    (void)index;
    const visit_t *to = arg;
    na_nprof_span_sum_t sum;
    memcpy(&sum, entry, sizeof sum);
    if (sum.spans == 0) return;
    if (sum.eighths > 8 || (sum.node > UINT8_MAX && sum.cls != NA_NPROF_SPANS_UNSEEN))
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, sum.eighths);
    else
        ((na_span_sum_fn_t)to->call)(to->arg, &sum);
}

void na_reader_span_sums(na_reader_t *reader, na_span_sum_fn_t visit, void *arg) {
    visit_t to = {(void (*)(void))visit, arg};
    na_reader_each_entry(reader, NA_NPROF_SPANS, visit_span_sum, &to);
}

static void visit_span_site(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                            uint32_t index, const void *entry) {
    (void)chunk, (void)index;
    const visit_t *to = arg;
    na_nprof_span_site_t site;
    memcpy(&site, entry, sizeof site);
    site.site = na_reader_stack_id(reader, site.site);
    if (site.site != NA_NPROF_NO_STACK) ((na_span_site_fn_t)to->call)(to->arg, &site);
}

void na_reader_span_sites(na_reader_t *reader, na_span_site_fn_t visit, void *arg) {
    visit_t to = {(void (*)(void))visit, arg};
    na_reader_each_entry(reader, NA_NPROF_SPAN_SITES, visit_span_site, &to);
}

/* --- series --- */

/* Copies the active buffer and the rows that are used. False: the entry makes no sense, or there
 * is no memory. */
static bool keep_series(na_reader_t *reader, na_series_table_t *to, const na_nprof_series_t *head,
                        const unsigned char *entry, uint32_t entry_size) {
    uint32_t a = head->active;
    if (a > 1 || head->rows > UINT16_MAX || head->points > UINT16_MAX ||
        head->count[a] > head->points || head->interval_ms[a] == 0 ||
        na_nprof_series_size(head->rows, head->points) > entry_size)
        return false;
    uint32_t count = head->count[a];
    if (count == 0 || head->rows == 0) return true;
    na_nprof_series_row_t *rows = calloc(head->rows, sizeof *rows);
    uint64_t *values = calloc((size_t)head->rows * count, sizeof *values);
    if (rows == NULL || values == NULL) {
        free(rows);
        free(values);
        return false;
    }
    const unsigned char *heads = entry + sizeof *head;
    const unsigned char *buffer = heads + (size_t)head->rows * sizeof *rows +
                                  (size_t)a * head->rows * head->points * sizeof *values;
    for (uint32_t r = 0; r < head->rows; r++) {
        memcpy(&rows[to->rows], heads + (size_t)r * sizeof *rows, sizeof *rows);
        if (rows[to->rows].used == 0) continue;
        if (head->kind == NA_NPROF_SERIES_SITES)
            rows[to->rows].id = na_reader_stack_id(reader, rows[to->rows].id);
        memcpy(values + (size_t)to->rows * count,
               buffer + (size_t)r * head->points * sizeof *values, count * sizeof *values);
        to->rows++;
    }
    to->count = count;
    to->interval_ms = head->interval_ms[a];
    to->row = rows;
    to->values = values;
    return true;
}

/* Of an entry whose size, without the check, is the word before it. (What its head says of rows and
 * points may be what is damaged.) */
static bool series_holds(const void *entry) {
    const unsigned char *bytes = entry;
    uint64_t size, check;
    memcpy(&size, bytes - sizeof size, sizeof size);
    memcpy(&check, bytes + size, sizeof check);
    return na_nprof_check_holds(check, na_nprof_series_check(na_nprof_series_sum(bytes, size)));
}

/* False: it is damaged, which is an issue now. */
static bool check_series(na_reader_t *reader, const na_chunk_ref_t *chunk, uint32_t index,
                         const void *entry) {
    if ((reader->header.checks & NA_NPROF_CHECK_SERIES) == 0) return true;
    uint64_t whole = chunk->entry_size, size = whole - sizeof(uint64_t); /* (of whole words) */
    uint64_t *copy = malloc(sizeof size + whole);
    if (copy == NULL) {
        na_reader_issue(reader, NA_ISSUE_MEMORY, chunk->data, 0);
        return true;
    }
    copy[0] = size;
    memcpy(copy + 1, entry, whole);
    bool holds = na_reader_entry_holds(reader, chunk, index, copy + 1, whole, series_holds);
    free(copy);
    return holds;
}

static void visit_series(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                         uint32_t index, const void *entry) {
    (void)arg;
    na_nprof_series_t head;
    memcpy(&head, entry, sizeof head);
    if (!check_series(reader, chunk, index, entry)) return;
    if (head.kind >= SERIES_KINDS) return; /* of a later writer */
    if (head.kind == 0 || reader->series[head.kind].row != NULL ||
        !keep_series(reader, &reader->series[head.kind], &head, entry, chunk->entry_size))
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, head.kind);
}

na_series_table_t na_reader_series(na_reader_t *reader, uint32_t kind) {
    if (reader->series == NULL) {
        reader->series = calloc(SERIES_KINDS, sizeof *reader->series);
        if (reader->series == NULL)
            na_reader_issue(reader, NA_ISSUE_MEMORY, 0, 0);
        else
            na_reader_each_entry(reader, NA_NPROF_SERIES, visit_series, NULL);
    }
    if (reader->series == NULL || kind >= SERIES_KINDS) return (na_series_table_t){0};
    return reader->series[kind];
}

void na_reader_series_free(na_reader_t *reader) {
    for (uint32_t kind = 0; reader->series != NULL && kind < SERIES_KINDS; kind++) {
        free((void *)(uintptr_t)reader->series[kind].row);
        free((void *)(uintptr_t)reader->series[kind].values);
    }
    free(reader->series);
}
