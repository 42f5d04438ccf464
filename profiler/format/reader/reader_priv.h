/* reader_priv.h - what the parts of the reader share: reader.c opens the file and makes the index
 * of its chunks, reader_data.c reads their entries, reader_sites.c those that belong to sites. */
#ifndef NUMALLOC_PROFILER_FORMAT_READER_READER_PRIV_H
#define NUMALLOC_PROFILER_FORMAT_READER_READER_PRIV_H

#include "profiler/format/nprof_check.h"
#include "profiler/format/nprof_control.h"
#include "profiler/format/nprof_leaks.h"
#include "profiler/format/nprof_policy.h"
#include "profiler/format/reader/reader.h"
#include "profiler/format/reader/reader_python.h"

/* Each kind is reported once, with how often it happened and where first. */
typedef enum na_issue_kind {
    NA_ISSUE_CUT_FILE, /* shorter than header.used */
    NA_ISSUE_HEADER_CRC,
    NA_ISSUE_HEADER_FIELD,
    NA_ISSUE_LOST_PAGES, /* pages where a chunk header should be and none is */
    NA_ISSUE_HEADER_SUM, /* the mutable part's checksum */
    NA_ISSUE_BAD_PEAK,   /* the peak's, in a file that is not finished */
    NA_ISSUE_BAD_SUM,    /* a part whose checksum is wrong */
    NA_ISSUE_BAD_SUMS,   /* the checksums are gone */
    NA_ISSUE_BAD_CHECK,  /* an entry whose checksum is wrong */
    NA_ISSUE_TOTALS,     /* figures that are there twice and differ */
    NA_ISSUE_CUT_CHUNK,
    NA_ISSUE_UNKNOWN_TYPE,
    NA_ISSUE_BAD_CHUNK, /* a chunk header whose fields contradict each other */
    NA_ISSUE_BAD_COUNT,
    NA_ISSUE_BAD_DATA_CRC,
    NA_ISSUE_BAD_ZLIB,
    NA_ISSUE_BAD_NODE,   /* stack entry out of range or given twice */
    NA_ISSUE_ORPHAN,     /* stack entry whose outer frames are missing */
    NA_ISSUE_BAD_ENTRY,  /* thread, module or timeline entry that makes no sense */
    NA_ISSUE_BAD_EVENTS, /* a chunk or buffer of events that makes no sense */
    NA_ISSUE_BAD_ACCESS, /* entries or samples of accesses that name what is not there */
    NA_ISSUE_LOST_SITES, /* cells whose stack is missing */
    NA_ISSUE_PYTHON,     /* stacks whose Python frames do not fit */
    NA_ISSUE_IO,
    NA_ISSUE_MEMORY,
    NA_ISSUE_BUDGET, /* left out: it would take more than the file's size explains */
    NA_ISSUE_KINDS
} na_issue_kind_t;

typedef struct na_issue {
    uint64_t times; /* 0: did not happen */
    uint64_t where; /* file offset of the first */
    uint64_t detail;
} na_issue_t;

/* One chunk that passed the checks of its header. */
typedef struct na_chunk_ref {
    uint64_t data; /* file offset of entry 0 */
    uint64_t size; /* bytes of payload that are in the file */
    uint64_t raw_length;
    uint16_t type;
    uint16_t flags;
    uint32_t thread;
    uint32_t sequence;
    uint32_t entry_size;
    uint32_t count; /* entries to read; all of them fit in size (live) or raw_length (sealed) */
    uint32_t first_id;
    uint32_t data_crc;
} na_chunk_ref_t;

struct na_reader {
    int fd;
    na_progress_fn_t progress; /* NULL: nobody wants to know */
    void *progress_arg;
    uint64_t size;
    na_budget_t *budget;
    uint64_t inflated; /* what compressed chunks claim, but for events and symbols */
    uint64_t events;   /* bytes of TRACE chunks */
    na_nprof_header_t header;
    na_chunk_ref_t *chunks;
    size_t chunk_count, chunk_room;
    na_nprof_sum_t *damaged; /* parts of the file whose checksum is wrong, by offset */
    size_t damaged_count, damaged_room;
    na_issue_t issues[NA_ISSUE_KINDS];
    na_nprof_stack_t *stacks;
    na_nprof_thread_t *threads;
    na_nprof_module_t *modules;
    na_nprof_timeline_t *timeline;
    char *environment;
    char *symbols;
    struct na_series_table *series;  /* by kind */
    struct na_reader_python *python; /* reader_python.c; NULL: nothing was asked of it */
    uint32_t stack_count, thread_count, module_count;
    size_t environment_size, symbols_size;
    uint8_t python_asked; /* 0: not yet; 1: the file has no Python frames; 2: it has */
    bool stacks_read, threads_read, modules_read, timeline_read, environment_read, symbols_read;
};

/* `entry` has chunk->entry_size bytes and any alignment. */
typedef void (*na_entry_fn_t)(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                              uint32_t index, const void *entry);
/* Calls visit for every entry of every chunk of a type, in file order. */
void na_reader_each_entry(na_reader_t *reader, uint16_t type, na_entry_fn_t visit, void *arg);

/* Memory that is used again from chunk to chunk; begins as zeros. */
typedef struct na_unpack {
    uint8_t *packed, *raw;
    uint64_t packed_room, raw_room;
} na_unpack_t;
void na_unpack_free(na_unpack_t *memory);

/* The payload of a sealed chunk, unpacked, raw_length bytes, in `memory` until it is used again.
 * NULL: it cannot be read, and `issue` says why. Reports nothing itself: several threads may unpack
 * at the same time, each with a memory of its own. */
const uint8_t *na_reader_unpack(const na_reader_t *reader, const na_chunk_ref_t *chunk,
                                na_unpack_t *memory, na_issue_kind_t *issue);

/* Size of a table indexed by id: highest id that chunks of the type may hold, plus one; at most
 * `limit` and what the file has room for. */
uint32_t na_reader_id_bound(const na_reader_t *reader, uint16_t type, uint32_t limit);

void na_reader_series_free(na_reader_t *reader);

/* ---- reader_python.c ---- */
/* The stacks have been read: Python frames are put where they belong. */
void na_reader_python_stacks(na_reader_t *reader);
void na_reader_python_free(na_reader_t *reader);

void na_reader_issue(na_reader_t *reader, na_issue_kind_t kind, uint64_t where, uint64_t detail);

/* Something was not made for want of memory: the machine's, or the budget's. */
void na_reader_no_memory(na_reader_t *reader, uint64_t where);

/* Reads up to `size` bytes; returns how many there were. */
size_t na_reader_pread(na_reader_t *reader, void *buffer, size_t size, uint64_t offset);

/* The header says that the file is packed: from now on the reader reads what it was. False: it is
 * damaged, or there is no memory. */
bool na_reader_unpack_file(na_reader_t *reader);

/* Compares the file, if it is finished, with its checksums. */
void na_reader_check_sums(na_reader_t *reader);

/* An entry of a chunk is compared with its checksum where the file has such and no better ones. One
 * that is wrong is read again, into `entry`, up to `size` bytes of it: its thread may just be
 * changing it. False: it is damaged, which is an issue now. */
typedef bool (*na_entry_holds_fn_t)(const void *entry);
bool na_reader_entry_holds(na_reader_t *reader, const na_chunk_ref_t *chunk, uint32_t index,
                           void *entry, size_t size, na_entry_holds_fn_t holds);

/* The same of the header's peak, when the header was read. */
void na_reader_check_peak(na_reader_t *reader);

/* Compares what a file that is not finished counts twice. */
void na_reader_check_totals(na_reader_t *reader);

/* Of an issue NA_ISSUE_TOTALS: which figures, by its `where`. */
const char *na_reader_totals_name(uint64_t which);

/* Something in [offset, offset + bytes) is not what was written, as those say. */
bool na_reader_is_damaged(const na_reader_t *reader, uint64_t offset, uint64_t bytes);

/* "cells", and so on. */
const char *na_reader_type_name(uint16_t type);

/* First offset >= `offset` that is not in a hole; UINT64_MAX: nothing but holes follow. */
uint64_t na_reader_next_data(const na_reader_t *reader, uint64_t offset);

/* Bytes of an entry of this type that this version knows; 0: unknown type. */
uint32_t na_reader_known_size(uint16_t type);

#endif
