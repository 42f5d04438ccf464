/* reader.c - opens a profile file, checks its header page and indexes its chunks. */
#include <errno.h>
#include <fcntl.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/format/nprof_access.h"
#include "profiler/format/nprof_python.h"
#include "profiler/format/nprof_trace.h"
#include "profiler/format/reader/reader_priv.h"

#define MAX_ENTRY_SIZE (1u << 20)

/* What compressed chunks of other than events and symbols may inflate to beyond the file's size. */
#define INFLATED_MORE (UINT64_C(2) << 20)

void na_reader_issue(na_reader_t *reader, na_issue_kind_t kind, uint64_t where, uint64_t detail) {
    na_issue_t *issue = &reader->issues[kind];
    if (issue->times++ == 0) {
        issue->where = where;
        issue->detail = detail;
    }
}

void na_reader_no_memory(na_reader_t *reader, uint64_t where) {
    bool refused = na_budget_refused(reader->budget);
    na_reader_issue(reader, refused ? NA_ISSUE_BUDGET : NA_ISSUE_MEMORY, where, 0);
}

size_t na_reader_pread(na_reader_t *reader, void *buffer, size_t size, uint64_t offset) {
    size_t done = 0;
    while (done < size) {
        ssize_t n = pread(reader->fd, (char *)buffer + done, size - done, (off_t)(offset + done));
        if (n < 0 && errno == EINTR) continue;
        if (n < 0) na_reader_issue(reader, NA_ISSUE_IO, offset, (uint64_t)errno);
        if (n <= 0) break;
        done += (size_t)n;
    }
    return done;
}

uint64_t na_reader_next_data(const na_reader_t *reader, uint64_t offset) {
    off_t next = lseek(reader->fd, (off_t)offset, SEEK_DATA);
    if (next >= 0) return (uint64_t)next;
    return errno == ENXIO ? UINT64_MAX : offset; /* other errors: no support for holes */
}

uint32_t na_reader_known_size(uint16_t type) {
    switch (type) {
    case NA_NPROF_STACKS:
        return sizeof(na_nprof_stack_t);
    case NA_NPROF_CELLS:
        return sizeof(na_nprof_cell_t);
    case NA_NPROF_THREADS:
        return NA_NPROF_THREAD_LEAST;
    case NA_NPROF_MODULES:
        return sizeof(na_nprof_module_t);
    case NA_NPROF_TIMELINE:
        return sizeof(na_nprof_timeline_t);
    case NA_NPROF_ENVIRONMENT:
    case NA_NPROF_SYMBOLS:
        return 1;
    case NA_NPROF_SUMS:
        return sizeof(na_nprof_sum_t);
    case NA_NPROF_PYTHON:
        return sizeof(na_nprof_python_t);
    case NA_NPROF_PYTHON_CODES:
        return sizeof(na_nprof_python_code_t);
    case NA_NPROF_PYTHON_TEXT:
        return 8;
    case NA_NPROF_POLICY:
        return sizeof(na_nprof_policy_t);
    case NA_NPROF_POLICY_RULES:
        return sizeof(na_nprof_rule_t);
    case NA_NPROF_LEAKS:
        return sizeof(na_nprof_leaks_t);
    case NA_NPROF_LEAK_SITES:
        return sizeof(na_nprof_leak_site_t);
    case NA_NPROF_LEAK_HELD:
        return sizeof(na_nprof_leak_held_t);
    case NA_NPROF_SHARES:
        return sizeof(na_nprof_share_t);
    case NA_NPROF_SERIES:
        return sizeof(na_nprof_series_t);
    case NA_NPROF_LIVES:
        return sizeof(na_nprof_lives_t);
    case NA_NPROF_SIZES:
        return sizeof(na_nprof_sizes_t);
    case NA_NPROF_MAPS:
        return sizeof(na_nprof_map_t);
    case NA_NPROF_SPANS:
        return sizeof(na_nprof_span_sum_t);
    case NA_NPROF_SPAN_SITES:
        return sizeof(na_nprof_span_site_t);
    case NA_NPROF_TRACE_BUFFER:
        return sizeof(na_nprof_unit_t);
    case NA_NPROF_TRACE:
    case NA_NPROF_TRACE_DROPPED:
        return 1;
    case NA_NPROF_SESSION:
        return sizeof(na_nprof_session_t);
    case NA_NPROF_MARKERS:
        return NA_NPROF_MARKER_LEAST;
    case NA_NPROF_POOLS:
        return sizeof(na_nprof_pool_t);
    case NA_NPROF_POOL_CELLS:
        return sizeof(na_nprof_pool_cell_t);
    case NA_NPROF_ORIGINS:
        return sizeof(na_nprof_origin_t);
    case NA_NPROF_INHERITED:
        return sizeof(na_nprof_inherited_t);
    case NA_NPROF_ACCESS_SOURCES:
        return sizeof(na_nprof_access_source_t) - NA_NPROF_ACCESS_CHECK;
    case NA_NPROF_ACCESS_NODES:
        return sizeof(na_nprof_access_node_t) - NA_NPROF_ACCESS_CHECK;
    case NA_NPROF_ACCESS_THREADS:
        return sizeof(na_nprof_access_thread_t) - NA_NPROF_ACCESS_CHECK;
    case NA_NPROF_ACCESS_MAPPINGS:
        return sizeof(na_nprof_access_mapping_t) - NA_NPROF_ACCESS_CHECK;
    case NA_NPROF_ACCESS_OBJECTS:
        return sizeof(na_nprof_access_object_t);
    case NA_NPROF_ACCESS_WINDOWS:
        return sizeof(na_nprof_access_window_t) - NA_NPROF_ACCESS_CHECK;
    case NA_NPROF_ACCESS_SAMPLES:
        return sizeof(na_nprof_access_sample_t) - NA_NPROF_ACCESS_CHECK;
    case NA_NPROF_ACCESS_PROBES:
        return sizeof(na_nprof_access_probe_t) - NA_NPROF_ACCESS_CHECK;
    default:
        return 0;
    }
}

/* The header's fields are made safe to use; what had to be changed becomes an issue. */
static void check_header(na_reader_t *reader) {
    na_nprof_header_t *h = &reader->header;
    if (h->const_crc != na_nprof_header_crc(h)) na_reader_issue(reader, NA_ISSUE_HEADER_CRC, 0, 0);
    if (h->finished != 0 &&
        (h->finished != NA_NPROF_FINISHED || h->mutable_crc != na_nprof_mutable_crc(*h)))
        na_reader_issue(reader, NA_ISSUE_HEADER_SUM, 0, 0);
    h->writer[sizeof h->writer - 1] = 0;
    h->host[sizeof h->host - 1] = 0;
    h->program[sizeof h->program - 1] = 0;
    h->job[sizeof h->job - 1] = 0;
    h->other_malloc[sizeof h->other_malloc - 1] = 0;
    h->command[sizeof h->command - 1] = 0;

    bool bad = false;
    if (h->count_scale == 0) {
        h->count_scale = 1;
        bad = true;
    }
    if (h->node_count == 0 || h->node_count > NA_NPROF_MAX_NODES) {
        h->node_count = 1;
        bad = true;
    }
    if (h->state != NA_NPROF_RUNNING && h->state != NA_NPROF_CLOSED) {
        h->state = NA_NPROF_RUNNING;
        bad = true;
    }
    if (h->mode < NA_NPROF_MODE_SITES || h->mode > NA_NPROF_MODE_TRACE) {
        h->mode = NA_NPROF_MODE_SITES;
        bad = true;
    }
    if (h->age_shift > 32) {
        h->age_shift = 32;
        bad = true;
    }
    if (h->used < NA_NPROF_PAGE || h->used % NA_NPROF_PAGE != 0) {
        h->used = reader->size;
        bad = true;
    }
    if (bad) na_reader_issue(reader, NA_ISSUE_HEADER_FIELD, 0, 0);
    if (h->used > reader->size) na_reader_issue(reader, NA_ISSUE_CUT_FILE, reader->size, h->used);
}

static bool keep_chunk(na_reader_t *reader, const na_chunk_ref_t *ref) {
    if (!NA_ARRAY_RESERVE(reader->chunks, reader->chunk_room, reader->chunk_count + 1u)) {
        na_reader_issue(reader, NA_ISSUE_MEMORY, ref->data, 0);
        return false;
    }
    reader->chunks[reader->chunk_count++] = *ref;
    return true;
}

/* Checks one chunk's fields against each other and the file, and adds it to the index. */
static bool index_chunk(na_reader_t *reader, const na_nprof_chunk_t *c, uint64_t offset) {
    uint32_t known = na_reader_known_size(c->type);
    if (known == 0) {
        na_reader_issue(reader, NA_ISSUE_UNKNOWN_TYPE, offset, c->type);
        return true;
    }
    uint64_t payload = c->length - sizeof *c;
    bool sealed = (c->flags & NA_NPROF_SEALED) != 0;
    bool live = (c->flags & NA_NPROF_LIVE) != 0;
    bool zlib = (c->flags & NA_NPROF_ZLIB) != 0;
    if (sealed == live || (zlib && !sealed) || c->entry_size < known ||
        c->entry_size > MAX_ENTRY_SIZE || (known == 1 && c->entry_size != 1) ||
        (sealed && c->raw_length > NA_NPROF_MAX_RAW) ||
        (c->type == NA_NPROF_TRACE && sealed && c->raw_length > NA_NPROF_TRACE_RAW) ||
        (sealed && !zlib && c->raw_length > payload)) {
        na_reader_issue(reader, NA_ISSUE_BAD_CHUNK, offset, c->type);
        return true;
    }

    uint64_t available = reader->size - offset - sizeof *c;
    bool cut = available < payload;
    if (cut) {
        na_reader_issue(reader, NA_ISSUE_CUT_CHUNK, offset, payload - available);
        if (sealed) return true; /* its checksum cannot be checked */
        payload = available;
    }
    uint64_t whole = sealed ? c->raw_length : c->length - sizeof *c;
    uint64_t count = c->count;
    if (count > c->capacity || count > whole / c->entry_size) {
        na_reader_issue(reader, NA_ISSUE_BAD_COUNT, offset, count);
        count = c->capacity < whole / c->entry_size ? c->capacity : whole / c->entry_size;
    }
    if (cut && count > payload / c->entry_size) count = payload / c->entry_size;
    if (c->type == NA_NPROF_TRACE) reader->events += payload;
    if (zlib && c->type != NA_NPROF_TRACE && c->type != NA_NPROF_SYMBOLS) {
        if (c->raw_length > reader->size + INFLATED_MORE - reader->inflated) {
            na_reader_issue(reader, NA_ISSUE_BUDGET, offset, 0);
            return true;
        }
        reader->inflated += c->raw_length;
    }

    na_chunk_ref_t ref = {
        .data = offset + sizeof *c,
        .size = payload,
        .raw_length = c->raw_length,
        .type = c->type,
        .flags = c->flags,
        .thread = c->thread,
        .sequence = c->sequence,
        .entry_size = c->entry_size,
        .count = (uint32_t)count,
        .first_id = c->first_id,
        .data_crc = c->data_crc,
    };
    return keep_chunk(reader, &ref);
}

/* Walks the chunks. Where no header is, the next page is tried: the length of what was lost is not
 * known. Past header.used that is the end, since the rest was only preallocated. */
static void index_file(na_reader_t *reader) {
    uint64_t offset = NA_NPROF_PAGE;
    while (offset < reader->size && reader->size - offset >= sizeof(na_nprof_chunk_t)) {
        na_nprof_chunk_t c;
        if (na_reader_pread(reader, &c, sizeof c, offset) < sizeof c) return;
        /* It may end beyond the file, which may have been cut. */
        if (na_nprof_is_chunk(&c, offset, offset + UINT64_MAX / 4)) {
            if (!index_chunk(reader, &c, offset)) return;
            if (c.length > reader->size - offset) return;
            offset += c.length;
            continue;
        }
        if (offset >= reader->header.used) return;
        na_reader_issue(reader, NA_ISSUE_LOST_PAGES, offset, 0);
        uint64_t next = na_reader_next_data(reader, offset + NA_NPROF_PAGE);
        if (next == UINT64_MAX) return;
        next &= ~(uint64_t)(NA_NPROF_PAGE - 1);
        offset = next > offset ? next : offset + NA_NPROF_PAGE;
    }
}

__attribute__((format(printf, 5, 6))) static na_reader_t *
refuse(na_reader_t *reader, const char *name, char *error, size_t size, const char *format, ...) {
    int used = snprintf(error, size, "%.200s: ", name);
    if (used > 0 && (size_t)used < size) {
        va_list args;
        va_start(args, format);
        vsnprintf(error + used, size - (size_t)used, format, args);
        va_end(args);
    }
    na_reader_close(reader);
    return NULL;
}

na_reader_t *na_reader_open(const char *path, char *error, size_t error_size) {
    /* Non-blocking, so that a FIFO named by mistake is refused instead of waited for. */
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (fd < 0) return refuse(NULL, path, error, error_size, "cannot open: %s", strerror(errno));
    return na_reader_open_fd(fd, path, error, error_size);
}

na_reader_t *na_reader_open_fd(int fd, const char *name, char *error, size_t error_size) {
    na_reader_t *reader = calloc(1, sizeof *reader);
    if (reader != NULL) reader->budget = na_budget_open();
    if (reader == NULL || reader->budget == NULL) {
        free(reader);
        close(fd);
        return refuse(NULL, name, error, error_size, "out of memory");
    }
    reader->fd = fd;
    struct stat st;
    if (fstat(fd, &st) != 0)
        return refuse(reader, name, error, error_size, "cannot read: %s", strerror(errno));
    if (S_ISDIR(st.st_mode))
        return refuse(reader, name, error, error_size, "is a directory; name a profile in it");
    if (!S_ISREG(st.st_mode))
        return refuse(reader, name, error, error_size,
                      "is not a regular file; copy the profile to one");
    reader->size = (uint64_t)st.st_size;

    na_nprof_header_t *h = &reader->header;
    size_t got = na_reader_pread(reader, h, sizeof *h, 0);
    /* Caught while its process was just writing it, perhaps. */
    if (got == sizeof *h && h->finished != 0 && h->mutable_crc != na_nprof_mutable_crc(*h))
        got = na_reader_pread(reader, h, sizeof *h, 0);
    if (got == 0 && reader->issues[NA_ISSUE_IO].times != 0)
        return refuse(reader, name, error, error_size, "cannot read: %s",
                      strerror((int)reader->issues[NA_ISSUE_IO].detail));
    if (got == 0)
        return refuse(reader, name, error, error_size,
                      "is empty; the profiled program did not get as far as its first event");
    /* A process that died while it made the header leaves the magic zero and the rest set. */
    if (got == sizeof *h && h->magic == 0 && h->version == NA_NPROF_VERSION)
        return refuse(reader, name, error, error_size,
                      "the profiled program died before its profile began; run it again");
    if (got < sizeof h->magic || h->magic != NA_NPROF_MAGIC)
        return refuse(reader, name, error, error_size,
                      "is not a numalloc profile; make one with NUMALLOC_PROFILE=sites and "
                      "LD_PRELOAD=libnumalloc.so.0");
    if (got < sizeof *h)
        return refuse(reader, name, error, error_size,
                      "cut off inside its header (%zu of %u bytes); copy it again", got,
                      NA_NPROF_PAGE);
    if (h->version > NA_NPROF_VERSION && h->const_crc == na_nprof_header_crc(h))
        return refuse(reader, name, error, error_size,
                      "has format version %u, this reader knows up to %u; use the numalloc-dump of "
                      "the numalloc that wrote it (%.31s)",
                      h->version, NA_NPROF_VERSION, h->writer);
    if (h->version != NA_NPROF_VERSION)
        return refuse(reader, name, error, error_size,
                      "its header is damaged (version %u); copy the profile again", h->version);
    if (h->header_size != NA_NPROF_PAGE)
        return refuse(reader, name, error, error_size,
                      "its header is damaged (header size %u); copy the profile again",
                      h->header_size);
    if (h->packed != 0 && !na_reader_unpack_file(reader))
        return refuse(reader, name, error, error_size,
                      "its packed part is damaged; copy the profile again");
    check_header(reader);
    na_reader_check_peak(reader);
    index_file(reader);
    /* The process may have ended, and packed it, meanwhile. */
    uint64_t packed = 0;
    if (h->packed == 0 && reader->size == (uint64_t)st.st_size &&
        na_reader_pread(reader, &packed, sizeof packed, offsetof(na_nprof_header_t, packed)) ==
            sizeof packed &&
        packed != 0) {
        h->packed = packed;
        if (na_reader_unpack_file(reader)) {
            reader->chunk_count = 0;
            memset(reader->issues, 0, sizeof reader->issues);
            index_file(reader);
        }
    }
    na_reader_check_sums(reader);
    na_reader_check_totals(reader);
    na_budget_set(reader->budget, na_budget_bound(reader->size, reader->events));
    return reader;
}

void na_reader_close(na_reader_t *reader) {
    if (reader == NULL) return;
    close(reader->fd);
    free(reader->chunks);
    free(reader->damaged);
    na_reader_python_free(reader);
    na_budget_free(reader->stacks);
    na_budget_free(reader->threads);
    na_budget_free(reader->modules);
    free(reader->timeline);
    free(reader->environment);
    free(reader->symbols);
    na_reader_series_free(reader);
    na_budget_close(reader->budget);
    free(reader);
}

void na_reader_progress(na_reader_t *reader, na_progress_fn_t say, void *arg) {
    reader->progress = say;
    reader->progress_arg = arg;
}

const na_nprof_header_t *na_reader_header(const na_reader_t *reader) {
    return &reader->header;
}

size_t na_reader_raw(na_reader_t *reader, void *buffer, size_t size, uint64_t offset) {
    return na_reader_pread(reader, buffer, size, offset);
}

uint64_t na_reader_file_size(const na_reader_t *reader) {
    return reader->size;
}

na_budget_t *na_reader_budget(const na_reader_t *reader) {
    return reader->budget;
}

bool na_reader_over_budget(const na_reader_t *reader, char *text, size_t size) {
    if (!na_budget_refused(reader->budget)) return false;
    snprintf(text, size,
             "asks for more memory than a file of its size can need (%llu MB): it is damaged or "
             "made to; record it again",
             (unsigned long long)(na_budget_of(reader->budget) >> 20));
    return true;
}

uint32_t na_reader_issue_count(const na_reader_t *reader) {
    uint32_t count = 0;
    for (int kind = 0; kind < NA_ISSUE_KINDS; kind++)
        count += reader->issues[kind].times != 0;
    return count;
}

void na_reader_issue_text(const na_reader_t *reader, uint32_t index, char *text, size_t size) {
    int kind = 0;
    for (; kind < NA_ISSUE_KINDS; kind++) {
        if (reader->issues[kind].times != 0 && index-- == 0) break;
    }
    if (size > 0) text[0] = 0;
    if (kind == NA_ISSUE_KINDS) return;
    const na_issue_t *issue = &reader->issues[kind];
    unsigned long long n = issue->times, at = issue->where, detail = issue->detail;
    switch ((na_issue_kind_t)kind) {
    case NA_ISSUE_CUT_FILE:
        snprintf(text, size, "the file is cut short: %llu of %llu bytes", at, detail);
        break;
    case NA_ISSUE_HEADER_CRC:
        snprintf(text, size, "the header's checksum is wrong: program, times and units may be too");
        break;
    case NA_ISSUE_HEADER_FIELD:
        snprintf(text, size, "the header has impossible values: they were replaced");
        break;
    case NA_ISSUE_LOST_PAGES:
        snprintf(text, size, "%llu page(s) skipped where no chunk begins (first at %llu)", n, at);
        break;
    case NA_ISSUE_HEADER_SUM:
        snprintf(text, size,
                 "the checksum of the header's figures is wrong: the peak, times and what is "
                 "missing may be too");
        break;
    case NA_ISSUE_BAD_PEAK:
        snprintf(text, size,
                 "the peak's checksum is wrong: its bytes, blocks and time may be too; copy the "
                 "profile again, or record it again");
        break;
    case NA_ISSUE_BAD_SUM:
        snprintf(text, size,
                 "%llu part(s) left out: wrong checksum (first at %llu: %s); copy the profile "
                 "again, or record it again",
                 n, at, na_reader_type_name((uint16_t)detail));
        break;
    case NA_ISSUE_BAD_SUMS:
        snprintf(text, size,
                 "the file's checksums (at %llu) are damaged: what it says could not be checked",
                 at);
        break;
    case NA_ISSUE_BAD_CHECK:
        snprintf(text, size,
                 "%llu entries left out: wrong checksum (first at %llu: %s); copy the profile "
                 "again, or record it again",
                 n, at, na_reader_type_name((uint16_t)detail));
        break;
    case NA_ISSUE_TOTALS:
        snprintf(text, size,
                 "the figures do not add up (%s, by %llu): something changed in the file after it "
                 "was recorded; copy the profile again, or record it again",
                 na_reader_totals_name(at), detail);
        break;
    case NA_ISSUE_CUT_CHUNK:
        snprintf(text, size, "the chunk at %llu lacks its last %llu bytes", at, detail);
        break;
    case NA_ISSUE_UNKNOWN_TYPE:
        snprintf(text, size,
                 "%llu chunk(s) of a type that this version does not know (first: type %llu at "
                 "%llu)",
                 n, detail, at);
        break;
    case NA_ISSUE_BAD_CHUNK:
        snprintf(text, size,
                 "%llu chunk(s) skipped: contradictory header (first: type %llu at "
                 "%llu)",
                 n, detail, at);
        break;
    case NA_ISSUE_BAD_COUNT:
        snprintf(text, size, "%llu chunk(s) claim more entries than fit (first: %llu at %llu)", n,
                 detail, at);
        break;
    case NA_ISSUE_BAD_DATA_CRC:
        snprintf(text, size, "%llu sealed chunk(s) skipped: wrong checksum (first at %llu)", n, at);
        break;
    case NA_ISSUE_BAD_ZLIB:
        snprintf(text, size, "%llu compressed chunk(s) end early (first at %llu)", n, at);
        break;
    case NA_ISSUE_BAD_NODE:
        snprintf(text, size, "%llu stack entries skipped: out of range or twice (first: %llu)", n,
                 detail);
        break;
    case NA_ISSUE_ORPHAN:
        snprintf(text, size, "%llu stack entries have lost their outer frames (first: %llu)", n,
                 detail);
        break;
    case NA_ISSUE_BAD_ENTRY:
        snprintf(
            text, size,
            "%llu thread, module, timeline or series entries skipped: impossible values (first at "
            "%llu)",
            n, at);
        break;
    case NA_ISSUE_BAD_EVENTS:
        snprintf(text, size, "%llu chunk(s) of events skipped: damaged (first at %llu)", n, at);
        break;
    case NA_ISSUE_BAD_ACCESS:
        snprintf(text, size, "%llu access sample(s) or entries name what is missing or impossible",
                 n);
        break;
    case NA_ISSUE_PYTHON:
        snprintf(text, size,
                 "%llu stacks are shown without their Python frames: all would take more memory "
                 "than a file of this size may",
                 detail);
        break;
    case NA_ISSUE_LOST_SITES:
        snprintf(text, size, "%llu counter(s) belong to stacks that are missing", n);
        break;
    case NA_ISSUE_IO:
        snprintf(text, size, "reading failed at %llu: %s", at, strerror((int)detail));
        break;
    case NA_ISSUE_MEMORY:
        snprintf(text, size, "not enough memory to read all of it");
        break;
    case NA_ISSUE_BUDGET:
        snprintf(text, size,
                 "%llu part(s) left out that would take more memory than a file of its size can "
                 "need (%llu MB; first at %llu)",
                 n, (unsigned long long)(na_budget_of(reader->budget) >> 20), at);
        break;
    case NA_ISSUE_KINDS:
        break;
    }
}

void na_reader_note_lost_sites(na_reader_t *reader, uint64_t cells) {
    if (cells == 0) return;
    na_reader_issue(reader, NA_ISSUE_LOST_SITES, 0, 0);
    reader->issues[NA_ISSUE_LOST_SITES].times = cells;
}
