/* reader.h - reads a profile file (nprof.h): every tool that looks at profiles goes through here.
 *
 * The file may be damaged, cut short, hostile, or still written by a running process. Contract:
 *   - Never a crash. Everything returned is checked: ids are in range, parents come before their
 *     children, strings end inside their field.
 *   - What cannot be read is left out and listed as an issue; only a file whose header page says
 *     nothing useful is refused, with one line of text.
 *   - Memory: one record per chunk, plus the tables that are asked for. Cells are streamed. All of
 * it together is bounded by the file's size (budget.h), time by the bytes that are really in the
 * file (holes are skipped), sealed chunks by what they inflate to. The file is read with pread,
 * never mapped: a file that shrinks meanwhile costs entries, not a signal. Not thread-safe; one
 * reader per thread. */
#ifndef NUMALLOC_PROFILER_FORMAT_READER_READER_H
#define NUMALLOC_PROFILER_FORMAT_READER_READER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/format/nprof.h"
#include "profiler/format/nprof_control.h"
#include "profiler/format/nprof_policy.h"
#include "profiler/format/reader/budget.h"

typedef struct na_reader na_reader_t;

/* Opens and indexes a file. NULL: error holds one line without a newline that names the file. */
na_reader_t *na_reader_open(const char *path, char *error, size_t error_size);

/* The same for an open descriptor, which the reader owns from here on, also when it fails. */
na_reader_t *na_reader_open_fd(int fd, const char *name, char *error, size_t error_size);

void na_reader_close(na_reader_t *reader);

/* Calls say(arg, done, all) now and then while much is read; all > 0. NULL: no more. */
typedef void (*na_progress_fn_t)(void *arg, uint64_t done, uint64_t all);
void na_reader_progress(na_reader_t *reader, na_progress_fn_t say, void *arg);

/* A copy taken when the file was opened; strings are terminated, count_scale is at least 1. */
const na_nprof_header_t *na_reader_header(const na_reader_t *reader);

/* Bytes of the file as they are, from an offset on; as they were, where it is packed. How many
 * there were. */
size_t na_reader_raw(na_reader_t *reader, void *buffer, size_t size, uint64_t offset);

/* Bytes of the file when it was opened. */
uint64_t na_reader_file_size(const na_reader_t *reader);

/* What tables made of this file are taken from, here and in the layers above. */
na_budget_t *na_reader_budget(const na_reader_t *reader);

/* True: something did not fit into the budget. One line without a newline, not the file's name. */
bool na_reader_over_budget(const na_reader_t *reader, char *text, size_t size);

/* Tables indexed by id. items[0] never counts; an entry that does not exist is all zeros. They
 * belong to the reader, are read at the first call, and are NULL with count 0 if the file has none.
 * Read stacks after the cells of a running process: a cell's stack is always older than the cell.
 */
typedef struct na_stack_table {
    const na_nprof_stack_t *items; /* every existing entry leads to NA_NPROF_ROOT by parents */
    uint32_t count;                /* highest id + 1 */
} na_stack_table_t;

typedef struct na_thread_table {
    const na_nprof_thread_t *items;
    uint32_t count;
} na_thread_table_t;

typedef struct na_module_table {
    const na_nprof_module_t *items;
    uint32_t count;
} na_module_table_t;

na_stack_table_t na_reader_stacks(na_reader_t *reader);
na_thread_table_t na_reader_threads(na_reader_t *reader);
/* Threads that were seen: some entries stand for several, and some threads have none. */
uint64_t na_reader_threads_seen(na_reader_t *reader);
na_module_table_t na_reader_modules(na_reader_t *reader);

/* Every cell that exists, one after the other; `thread` is the index of the thread that wrote it.
 */
typedef void (*na_cell_fn_t)(void *arg, uint32_t thread, const na_nprof_cell_t *cell);
void na_reader_cells(na_reader_t *reader, na_cell_fn_t visit, void *arg);

/* Entries that belong to cells or sites, streamed like cells. A lives entry's site is that of its
 * cell; every size entry is one part of the whole. */
typedef void (*na_lives_fn_t)(void *arg, const na_nprof_lives_t *lives);
typedef void (*na_share_fn_t)(void *arg, const na_nprof_share_t *share);
typedef void (*na_map_fn_t)(void *arg, const na_nprof_map_t *map);
typedef void (*na_sizes_fn_t)(void *arg, const na_nprof_sizes_t *sizes);
typedef void (*na_span_sum_fn_t)(void *arg, const na_nprof_span_sum_t *sum);
typedef void (*na_span_site_fn_t)(void *arg, const na_nprof_span_site_t *site);
void na_reader_lives(na_reader_t *reader, na_lives_fn_t visit, void *arg);
void na_reader_shares(na_reader_t *reader, na_share_fn_t visit, void *arg);
void na_reader_maps(na_reader_t *reader, na_map_fn_t visit, void *arg);
void na_reader_sizes(na_reader_t *reader, na_sizes_fn_t visit, void *arg);
void na_reader_span_sums(na_reader_t *reader, na_span_sum_fn_t visit, void *arg);
void na_reader_span_sites(na_reader_t *reader, na_span_site_fn_t visit, void *arg);

/* Figures over time of one kind (NA_NPROF_SERIES_*), the active buffer only. Belongs to the reader;
 * count 0: none. */
typedef struct na_series_table {
    uint32_t rows, count; /* rows that are used; points */
    uint32_t interval_ms;
    const na_nprof_series_row_t *row; /* rows heads */
    const uint64_t *values;           /* [row * count + point], as in the file */
} na_series_table_t;
na_series_table_t na_reader_series(na_reader_t *reader, uint32_t kind);

/* The active buffer of the timeline. NULL: none. */
const na_nprof_point_t *na_reader_timeline(na_reader_t *reader, uint32_t *count,
                                           uint32_t *interval_ms);

/* Every entry that exists of one of the types of nprof_control.h, as a pointer to its structure;
 * strings are terminated. `id`: of the entry; of the pool of a POOL_CELL; of the origin of an
 * INHERITED; 0 of a SESSION. */
typedef void (*na_control_fn_t)(void *arg, uint32_t id, const void *entry);
void na_reader_control(na_reader_t *reader, uint16_t type, na_control_fn_t visit, void *arg);

/* What moment the figures of what lives are of. */
typedef enum na_moment {
    NA_MOMENT_END,     /* the process ended in order: after its destructors */
    NA_MOMENT_STOPPED, /* the profile ended, the process ran on */
    NA_MOMENT_DUMP,    /* the profile went on: a copy that was made meanwhile */
    NA_MOMENT_LAST,    /* the last update of a process that runs still, or did not end in order */
    NA_MOMENT_MANY,    /* a moment of each of many processes */
} na_moment_t;
na_moment_t na_reader_moment(na_reader_t *reader);
/* Number of the dump that this is; 0: none, but the profile itself. */
uint32_t na_reader_dump(na_reader_t *reader);

/* The policy that the process ran under; as it was where there is none. */
void na_reader_policy(na_reader_t *reader, na_nprof_policy_t *policy);

/* NUL-terminated strings one after the other; the last byte is NUL. NULL: none. */
const char *na_reader_environment(na_reader_t *reader, size_t *size);

/* Symbols that were added to the file, as docs/profile-format.md has them; ends with a NUL that
 * does not count. NULL: none. */
const char *na_reader_symbols(na_reader_t *reader, size_t *size);

/* What the file is made of, for index 0, 1, ...: the name of a type of chunk, and sums over its
 * chunks. NULL: no more types. */
typedef struct na_chunk_sum {
    uint64_t chunks, entries;
    uint64_t stored, raw; /* bytes of payload in the file, and inflated */
} na_chunk_sum_t;
const char *na_reader_chunk_sum(const na_reader_t *reader, size_t index, na_chunk_sum_t *sum);
/* Entries of all chunks of a type, as they say: is there anything to read? */
uint64_t na_reader_entries(const na_reader_t *reader, uint16_t type);

/* What is damaged or not understood, found so far; grows while tables and cells are read. */
uint32_t na_reader_issue_count(const na_reader_t *reader);

/* Writes issue number `index` as one line without a newline. */
void na_reader_issue_text(const na_reader_t *reader, uint32_t index, char *text, size_t size);

/* For the layers above, which check what the reader cannot: cells that name a missing stack. */
void na_reader_note_lost_sites(na_reader_t *reader, uint64_t cells);

#endif
