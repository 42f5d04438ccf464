/* reader_data.c - reads the entries of indexed chunks: stored as they are or compressed. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "profiler/format/reader/reader_priv.h"

#define BLOCK (256u << 10)

/* No byte of a zlib stream becomes more than so many. */
#define MAX_ZLIB_RATIO 1032u

/* No writer makes more call stacks than this; a file that does is cut here. 4 GiB of table. */
#define MAX_STACKS (UINT32_C(1) << 28)
/* Thread and module ids are small: 16 and 24 bits. */
#define MAX_THREADS (UINT32_C(1) << 20)
#define MAX_MODULES (UINT32_C(1) << 24)

/* Entries lie in the file as in memory; a hole is zeros, that is, entries that do not exist. */
static void read_live(na_reader_t *reader, const na_chunk_ref_t *chunk, char *buffer,
                      uint32_t per_block, na_entry_fn_t visit, void *arg) {
    uint32_t index = 0;
    while (index < chunk->count) {
        uint64_t offset = chunk->data + (uint64_t)index * chunk->entry_size;
        uint64_t next = na_reader_next_data(reader, offset);
        if (next == UINT64_MAX || next >= chunk->data + chunk->size) return;
        if (next > offset) {
            uint64_t skip = (next - chunk->data) / chunk->entry_size;
            if (skip >= chunk->count) return;
            index = (uint32_t)skip;
            offset = chunk->data + (uint64_t)index * chunk->entry_size;
        }
        uint32_t left = chunk->count - index;
        uint32_t want = left < per_block ? left : per_block;
        size_t got = na_reader_pread(reader, buffer, (size_t)want * chunk->entry_size, offset);
        uint32_t whole = (uint32_t)(got / chunk->entry_size);
        for (uint32_t i = 0; i < whole; i++)
            if (!na_reader_is_damaged(reader, offset + (uint64_t)i * chunk->entry_size,
                                      chunk->entry_size))
                visit(reader, arg, chunk, index + i, buffer + (size_t)i * chunk->entry_size);
        if (whole < want) return;
        index += whole;
    }
}

static bool check_data_crc(na_reader_t *reader, const na_chunk_ref_t *chunk, char *buffer) {
    uLong crc = crc32(0, NULL, 0);
    for (uint64_t done = 0; done < chunk->size;) {
        size_t want = chunk->size - done < BLOCK ? (size_t)(chunk->size - done) : BLOCK;
        if (na_reader_pread(reader, buffer, want, chunk->data + done) < want) return false;
        crc = crc32(crc, (const Bytef *)buffer, (uInt)want);
        done += want;
    }
    return crc == chunk->data_crc;
}

static void read_zlib(na_reader_t *reader, const na_chunk_ref_t *chunk, char *out,
                      uint32_t per_block, char *in, na_entry_fn_t visit, void *arg) {
    z_stream z;
    memset(&z, 0, sizeof z);
    if (inflateInit(&z) != Z_OK) {
        na_reader_issue(reader, NA_ISSUE_MEMORY, chunk->data, 0);
        return;
    }
    uint32_t index = 0;
    uint64_t fed = 0;
    bool ended = false;
    while (index < chunk->count && !ended) {
        uint32_t left = chunk->count - index;
        uint32_t want = left < per_block ? left : per_block;
        z.next_out = (Bytef *)out;
        z.avail_out = (uInt)((size_t)want * chunk->entry_size);
        while (z.avail_out > 0 && !ended) {
            if (z.avail_in == 0 && fed < chunk->size) {
                size_t size = chunk->size - fed < BLOCK ? (size_t)(chunk->size - fed) : BLOCK;
                size = na_reader_pread(reader, in, size, chunk->data + fed);
                z.next_in = (Bytef *)in;
                z.avail_in = (uInt)size;
                fed = size == 0 ? chunk->size : fed + size;
            }
            ended = inflate(&z, Z_NO_FLUSH) != Z_OK; /* the stream's end, or no way on */
        }
        uint32_t whole =
            (uint32_t)(((size_t)want * chunk->entry_size - z.avail_out) / chunk->entry_size);
        for (uint32_t i = 0; i < whole; i++)
            visit(reader, arg, chunk, index + i, out + (size_t)i * chunk->entry_size);
        index += whole;
    }
    if (index < chunk->count) na_reader_issue(reader, NA_ISSUE_BAD_ZLIB, chunk->data, 0);
    inflateEnd(&z);
}

void na_reader_each_entry(na_reader_t *reader, uint16_t type, na_entry_fn_t visit, void *arg) {
    for (size_t c = 0; c < reader->chunk_count; c++) {
        const na_chunk_ref_t *chunk = &reader->chunks[c];
        if (chunk->type != type || chunk->count == 0) continue;
        if (reader->progress != NULL)
            reader->progress(reader->progress_arg, c, reader->chunk_count);
        uint32_t per_block = chunk->entry_size < BLOCK ? BLOCK / chunk->entry_size : 1;
        if (per_block > chunk->count) per_block = chunk->count;
        size_t room = (size_t)per_block * chunk->entry_size; /* most chunks are small */
        size_t packed = chunk->size < BLOCK ? (size_t)chunk->size : BLOCK;
        char *out = malloc(room > packed ? room : packed);
        char *in = (chunk->flags & NA_NPROF_ZLIB) != 0 ? malloc(packed) : NULL;
        if (out == NULL || ((chunk->flags & NA_NPROF_ZLIB) != 0 && in == NULL))
            na_reader_issue(reader, NA_ISSUE_MEMORY, chunk->data, 0);
        else if ((chunk->flags & NA_NPROF_SEALED) != 0 && !check_data_crc(reader, chunk, out))
            na_reader_issue(reader, NA_ISSUE_BAD_DATA_CRC, chunk->data, 0);
        else if ((chunk->flags & NA_NPROF_ZLIB) != 0)
            read_zlib(reader, chunk, out, per_block, in, visit, arg);
        else
            read_live(reader, chunk, out, per_block, visit, arg);
        free(in);
        free(out);
    }
}

uint32_t na_reader_id_bound(const na_reader_t *reader, uint16_t type, uint32_t limit) {
    /* Ids are dense, so none is larger than the number of entries that the file has room for,
     * lost chunks included. A false first_id therefore cannot ask for more than the file's size. */
    uint64_t room = reader->size / na_reader_known_size(type) + 2;
    uint64_t bound = 0;
    for (size_t c = 0; c < reader->chunk_count; c++) {
        const na_chunk_ref_t *chunk = &reader->chunks[c];
        if (chunk->type != type || chunk->count == 0) continue;
        if ((chunk->flags & NA_NPROF_ZLIB) != 0) {
            uint64_t most = chunk->size * MAX_ZLIB_RATIO;
            most = chunk->raw_length < most ? chunk->raw_length : most;
            room += most / na_reader_known_size(type);
        }
        uint64_t end = (uint64_t)chunk->first_id + chunk->count;
        if (end > bound) bound = end;
    }
    if (bound > room) bound = room;
    return bound > limit ? limit : (uint32_t)bound;
}

static void visit_stack(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                        const void *entry) {
    (void)arg;
    na_nprof_stack_t node;
    memcpy(&node, entry, sizeof node);
    uint64_t id = (uint64_t)chunk->first_id + index;
    if (node.flags == 0 || id <= NA_NPROF_ROOT) return;
    if ((reader->header.checks & NA_NPROF_CHECK_ENTRIES) != 0 &&
        (node.flags & NA_NPROF_STACK_CHECK) != na_nprof_stack_check(node)) {
        na_reader_issue(reader, NA_ISSUE_BAD_CHECK, chunk->data, chunk->type);
        return;
    }
    if ((node.flags & NA_NPROF_STACK_VALID) == 0) return;
    node.flags &= ~NA_NPROF_STACK_CHECK;
    if (id >= reader->stack_count || reader->stacks[id].flags != 0) {
        na_reader_issue(reader, NA_ISSUE_BAD_NODE, chunk->data, id);
        return;
    }
    reader->stacks[id] = node;
}

na_stack_table_t na_reader_stacks(na_reader_t *reader) {
    if (!reader->stacks_read) {
        reader->stacks_read = true;
        uint32_t bound = na_reader_id_bound(reader, NA_NPROF_STACKS, MAX_STACKS);
        if (bound < NA_NPROF_ROOT + 1) bound = NA_NPROF_ROOT + 1;
        reader->stacks = na_budget_calloc(reader->budget, bound, sizeof *reader->stacks);
        if (reader->stacks == NULL) {
            na_reader_no_memory(reader, 0);
            return (na_stack_table_t){NULL, 0};
        }
        reader->stack_count = bound;
        na_reader_each_entry(reader, NA_NPROF_STACKS, visit_stack, NULL);
        reader->stacks[NA_NPROF_ROOT] = (na_nprof_stack_t){0, NA_NPROF_STACK_VALID, 0};
        uint32_t highest = NA_NPROF_ROOT;
        for (uint32_t id = NA_NPROF_ROOT + 1; id < bound; id++) {
            na_nprof_stack_t *node = &reader->stacks[id];
            if (node->flags == 0) continue;
            highest = id;
            if (node->parent >= id || node->parent == 0 ||
                reader->stacks[node->parent].flags == 0) {
                na_reader_issue(reader, NA_ISSUE_ORPHAN, 0, id);
                node->parent = NA_NPROF_ROOT;
                node->flags |= NA_NPROF_STACK_TRUNCATED;
            }
        }
        reader->stack_count = highest + 1;
        na_reader_python_stacks(reader);
    }
    return (na_stack_table_t){reader->stacks, reader->stack_count};
}

static bool thread_holds(const void *entry) {
    const na_nprof_thread_t *t = entry;
    if (t->check <= NA_NPROF_CHECK_OPEN) return true;
    return t->tid != 0 && t->check == na_nprof_thread_check(t);
}

static void visit_thread(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                         uint32_t index, const void *entry) {
    (void)arg;
    na_nprof_thread_t thread = {0};
    memcpy(&thread, entry, chunk->entry_size < sizeof thread ? chunk->entry_size : sizeof thread);
    uint64_t id = (uint64_t)chunk->first_id + index;
    size_t size = chunk->entry_size < sizeof thread ? chunk->entry_size : sizeof thread;
    if (!na_reader_entry_holds(reader, chunk, index, &thread, size, thread_holds)) return;
    if (thread.tid == 0) return;
    if (id == 0 || id >= reader->thread_count || reader->threads[id].tid != 0) {
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, id);
        return;
    }
    thread.name[sizeof thread.name - 1] = 0;
    reader->threads[id] = thread;
}

na_thread_table_t na_reader_threads(na_reader_t *reader) {
    if (!reader->threads_read) {
        reader->threads_read = true;
        uint32_t bound = na_reader_id_bound(reader, NA_NPROF_THREADS, MAX_THREADS);
        reader->threads =
            bound == 0 ? NULL : na_budget_calloc(reader->budget, bound, sizeof *reader->threads);
        if (reader->threads != NULL)
            reader->thread_count = bound;
        else if (bound != 0)
            na_reader_no_memory(reader, 0);
        if (reader->threads != NULL)
            na_reader_each_entry(reader, NA_NPROF_THREADS, visit_thread, NULL);
    }
    return (na_thread_table_t){reader->threads, reader->thread_count};
}

uint64_t na_reader_threads_seen(na_reader_t *reader) {
    na_thread_table_t threads = na_reader_threads(reader);
    uint64_t seen = na_reader_header(reader)->lost_threads;
    for (uint32_t i = 1; i < threads.count; i++)
        if (threads.items[i].tid != 0) seen += UINT64_C(1) + threads.items[i].more;
    return seen;
}

static void visit_module(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                         uint32_t index, const void *entry) {
    (void)arg;
    na_nprof_module_t module;
    memcpy(&module, entry, sizeof module);
    uint64_t id = (uint64_t)chunk->first_id + index;
    if (module.flags == 0 || module.flags == NA_NPROF_MODULE_CUT) return; /* being made */
    if ((reader->header.checks & NA_NPROF_CHECK_ENTRIES) != 0 &&
        (module.flags & NA_NPROF_MODULE_CHECK) != na_nprof_module_check(&module, module.flags)) {
        na_reader_issue(reader, NA_ISSUE_BAD_CHECK, chunk->data, chunk->type);
        return;
    }
    if ((module.flags & NA_NPROF_MODULE_VALID) == 0) return;
    module.flags &= ~NA_NPROF_MODULE_CHECK;
    if (id == 0 || id >= reader->module_count || reader->modules[id].flags != 0 ||
        module.start >= module.end || module.build_id_size > NA_NPROF_BUILD_ID_BYTES) {
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, id);
        return;
    }
    module.path[sizeof module.path - 1] = 0;
    reader->modules[id] = module;
}

na_module_table_t na_reader_modules(na_reader_t *reader) {
    if (!reader->modules_read) {
        reader->modules_read = true;
        uint32_t bound = na_reader_id_bound(reader, NA_NPROF_MODULES, MAX_MODULES);
        reader->modules =
            bound == 0 ? NULL : na_budget_calloc(reader->budget, bound, sizeof *reader->modules);
        if (reader->modules != NULL)
            reader->module_count = bound;
        else if (bound != 0)
            na_reader_no_memory(reader, 0);
        if (reader->modules != NULL)
            na_reader_each_entry(reader, NA_NPROF_MODULES, visit_module, NULL);
    }
    return (na_module_table_t){reader->modules, reader->module_count};
}

typedef struct cell_visit {
    na_cell_fn_t visit;
    void *arg;
} cell_visit_t;

static void visit_cell(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk, uint32_t index,
                       const void *entry) {
    (void)index;
    const cell_visit_t *to = arg;
    na_nprof_cell_t cell;
    memcpy(&cell, entry, sizeof cell);
    cell.site = na_reader_stack_id(reader, cell.site);
    if (cell.site != NA_NPROF_NO_STACK) to->visit(to->arg, chunk->thread, &cell);
}

void na_reader_cells(na_reader_t *reader, na_cell_fn_t visit, void *arg) {
    cell_visit_t to = {visit, arg};
    na_reader_each_entry(reader, NA_NPROF_CELLS, visit_cell, &to);
}

static bool timeline_holds(const void *entry) {
    const na_nprof_timeline_t *t = entry;
    if (t->check > NA_NPROF_CHECK_OPEN && t->check != na_nprof_timeline_check(t)) return false;
    if (t->active > 1 || t->count[t->active] > NA_NPROF_POINTS) return true; /* told elsewhere */
    for (uint32_t i = 0; i < t->count[t->active]; i++)
        if (!na_nprof_point_holds(&t->points[t->active][i])) return false;
    return true;
}

/* Without the checks, and without points that are damaged. */
static void clean_timeline(na_nprof_timeline_t *t, bool good) {
    for (uint32_t i = 0; i < t->count[t->active]; i++) {
        na_nprof_point_t *p = &t->points[t->active][i];
        if (!good && !na_nprof_point_holds(p)) *p = (na_nprof_point_t){0};
        p->flags &= NA_NPROF_POINT_KINDS;
    }
}

static void visit_timeline(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                           uint32_t index, const void *entry) {
    (void)arg;
    if (reader->timeline != NULL) return;
    na_nprof_timeline_t *t = malloc(sizeof *t);
    if (t == NULL) {
        na_reader_issue(reader, NA_ISSUE_MEMORY, chunk->data, 0);
        return;
    }
    memcpy(t, entry, sizeof *t);
    bool good = na_reader_entry_holds(reader, chunk, index, t, sizeof *t, timeline_holds);
    if (t->active > 1 || t->count[t->active] > NA_NPROF_POINTS || t->interval_ms[t->active] == 0) {
        na_reader_issue(reader, NA_ISSUE_BAD_ENTRY, chunk->data, 0);
        free(t);
        return;
    }
    clean_timeline(t, good);
    reader->timeline = t;
}

const na_nprof_point_t *na_reader_timeline(na_reader_t *reader, uint32_t *count,
                                           uint32_t *interval_ms) {
    if (!reader->timeline_read) {
        reader->timeline_read = true;
        na_reader_each_entry(reader, NA_NPROF_TIMELINE, visit_timeline, NULL);
    }
    const na_nprof_timeline_t *t = reader->timeline;
    if (t == NULL || t->count[t->active] == 0) return NULL;
    *count = t->count[t->active];
    *interval_ms = t->interval_ms[t->active];
    return t->points[t->active];
}

#define ENVIRONMENT_MOST (1u << 20) /* bytes */

static void visit_environment(na_reader_t *reader, void *arg, const na_chunk_ref_t *chunk,
                              uint32_t index, const void *entry) {
    (void)arg;
    (void)chunk;
    (void)index;
    if (reader->environment_size < ENVIRONMENT_MOST)
        reader->environment[reader->environment_size++] = *(const char *)entry;
}

const char *na_reader_environment(na_reader_t *reader, size_t *size) {
    if (!reader->environment_read) {
        reader->environment_read = true;
        /* One byte more than is ever filled, zero: the last string ends. */
        size_t room = 0;
        for (size_t c = 0; c < reader->chunk_count && room < ENVIRONMENT_MOST; c++)
            if (reader->chunks[c].type == NA_NPROF_ENVIRONMENT) room += reader->chunks[c].count;
        reader->environment = calloc(1, (room < ENVIRONMENT_MOST ? room : ENVIRONMENT_MOST) + 1);
        if (reader->environment == NULL)
            na_reader_issue(reader, NA_ISSUE_MEMORY, 0, 0);
        else
            na_reader_each_entry(reader, NA_NPROF_ENVIRONMENT, visit_environment, NULL);
        if (reader->environment_size > 0 && reader->environment[reader->environment_size - 1] != 0)
            reader->environment_size++;
    }
    *size = reader->environment_size;
    return reader->environment_size == 0 ? NULL : reader->environment;
}

static bool inflate_all(uint8_t *from, uint64_t size, uint8_t *to, size_t room) {
    z_stream z;
    memset(&z, 0, sizeof z);
    z.next_in = from;
    z.avail_in = (uInt)size;
    z.next_out = to;
    z.avail_out = (uInt)room;
    if (inflateInit(&z) != Z_OK) return false;
    inflate(&z, Z_FINISH);
    inflateEnd(&z);
    return z.avail_out == 0;
}

static bool read_payload(const na_reader_t *reader, const na_chunk_ref_t *chunk, uint8_t *to) {
    for (size_t done = 0; done < chunk->size;) {
        ssize_t n =
            pread(reader->fd, to + done, (size_t)chunk->size - done, (off_t)(chunk->data + done));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) return false;
        done += (size_t)n;
    }
    return true;
}

static bool grow_bytes(uint8_t **bytes, uint64_t *room, uint64_t wanted) {
    if (*bytes != NULL && *room >= wanted) return true;
    free(*bytes);
    *bytes = malloc((size_t)wanted);
    *room = *bytes != NULL ? wanted : 0;
    return *bytes != NULL;
}

void na_unpack_free(na_unpack_t *memory) {
    free(memory->packed);
    free(memory->raw);
    *memory = (na_unpack_t){0};
}

/* Touches nothing of the reader but its descriptor. */
const uint8_t *na_reader_unpack(const na_reader_t *reader, const na_chunk_ref_t *chunk,
                                na_unpack_t *memory, na_issue_kind_t *issue) {
    bool zlib = (chunk->flags & NA_NPROF_ZLIB) != 0;
    *issue = NA_ISSUE_KINDS;
    if (!grow_bytes(&memory->packed, &memory->packed_room, chunk->size + 1) ||
        (zlib && !grow_bytes(&memory->raw, &memory->raw_room, chunk->raw_length + 1)))
        *issue = NA_ISSUE_MEMORY;
    else if (!read_payload(reader, chunk, memory->packed))
        *issue = NA_ISSUE_IO;
    else if (crc32(0, memory->packed, (uInt)chunk->size) != chunk->data_crc)
        *issue = NA_ISSUE_BAD_DATA_CRC;
    else if (zlib &&
             !inflate_all(memory->packed, chunk->size, memory->raw, (size_t)chunk->raw_length))
        *issue = NA_ISSUE_BAD_ZLIB;
    if (*issue != NA_ISSUE_KINDS) return NULL;
    return zlib ? memory->raw : memory->packed; /* raw_length is at most what is stored */
}
