/* error_files.c - see error_files.h. Nothing in a file is believed: counts, places and lengths are
 * held against the file's size, texts end, and loops in its tree end. */
#include "profiler/dump/views/errors/error_files.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/containers/path.h"

#define MOST_BYTES ((off_t)64 << 20)

static bool read_error_file(na_error_file_t *file, size_t *size) {
    int fd = open(file->path, O_RDONLY | O_CLOEXEC);
    struct stat st;
    bool good = fd >= 0 && fstat(fd, &st) == 0;
    if (!good) {
        na_fail("%s: %s", file->path, strerror(errno));
    } else if (!S_ISREG(st.st_mode) || st.st_size < (off_t)sizeof(na_gf_head_t) ||
               st.st_size > MOST_BYTES) {
        na_fail("%s is no file of errors that numalloc wrote", file->path);
        good = false;
    } else {
        file->data = malloc((size_t)st.st_size);
        ssize_t n = file->data != NULL ? pread(fd, file->data, (size_t)st.st_size, 0) : -1;
        good = n == st.st_size;
        if (!good) na_fail("%s: it cannot be read whole", file->path);
        *size = good ? (size_t)st.st_size : 0;
    }
    if (fd >= 0) close(fd);
    return good;
}

static const void *file_part(const na_error_file_t *file, size_t size, na_gf_part_t which,
                             size_t entry) {
    const na_gf_section_t *s = &file->head->parts[which];
    if (s->entry != entry || s->offset > size || s->offset % 8 != 0 ||
        s->count > (size - s->offset) / entry)
        return NULL;
    return file->data + s->offset;
}

static bool is_terminated(const char *text, size_t size) {
    return memchr(text, 0, size) != NULL;
}

static bool take_modules(na_error_file_t *file, const na_gf_module_t *modules) {
    uint32_t count = file->head->parts[NA_GF_MODULES].count;
    file->modules = calloc((size_t)count + 1, sizeof *file->modules);
    if (file->modules == NULL) return false;
    for (uint32_t i = 0; i < count && modules[i].end != 0; i++) {
        const na_gf_module_t *from = &modules[i];
        if (!is_terminated(from->name, sizeof from->name) ||
            from->build_id_bytes > sizeof from->build_id)
            continue;
        na_nprof_module_t *to = &file->modules[++file->module_count];
        to->flags = NA_NPROF_MODULE_VALID;
        if (strcmp(from->name, file->head->program) == 0) to->flags |= NA_NPROF_MODULE_MAIN;
        to->start = from->start;
        to->end = from->end;
        to->bias = from->bias;
        to->unload_ms = NA_NPROF_MODULE_STILL;
        to->build_id_size = from->build_id_bytes;
        memcpy(to->build_id, from->build_id, from->build_id_bytes);
        snprintf(to->path, sizeof to->path, "%s", from->name);
    }
    file->module_count++;
    return true;
}

bool na_error_file_open(na_error_file_t *file, const char *path, const na_options_t *options) {
    *file = (na_error_file_t){.path = path};
    size_t size;
    if (!read_error_file(file, &size)) return false;
    file->head = (const void *)file->data;
    if (memcmp(file->head->magic, NA_GF_MAGIC, sizeof file->head->magic) != 0) {
        na_fail("%s is no file of errors that numalloc wrote (NUMALLOC_GUARD=1)", path);
        return false;
    }
    if (file->head->version != NA_GF_VERSION) {
        na_fail("%s is of version %u, this numalloc-dump reads version %u", path,
                file->head->version, NA_GF_VERSION);
        return false;
    }
    const na_gf_module_t *modules = file_part(file, size, NA_GF_MODULES, sizeof *modules);
    file->nodes = file_part(file, size, NA_GF_NODES, sizeof *file->nodes);
    file->sites = file_part(file, size, NA_GF_SITES, sizeof *file->sites);
    file->records = file_part(file, size, NA_GF_RECORDS, sizeof *file->records);
    file->errors = file_part(file, size, NA_GF_ERRORS, sizeof *file->errors);
    if (modules == NULL || file->nodes == NULL || file->sites == NULL || file->records == NULL ||
        file->errors == NULL || !is_terminated(file->head->program, sizeof file->head->program) ||
        file->head->page == 0) {
        na_fail("%s is damaged: its sections are not where its head says", path);
        return false;
    }
    uint32_t room = file->head->parts[NA_GF_ERRORS].count;
    file->error_count = file->head->errors < room ? file->head->errors : room;
    if (take_modules(file, modules))
        file->symbols = na_symbols_open((na_stack_table_t){NULL, 0},
                                        (na_module_table_t){file->modules, file->module_count});
    if (file->symbols == NULL) {
        na_fail("%s: not enough memory", path);
        return false;
    }
    na_symbols_cache(file->symbols, options->frames.symbol_cache);
    return true;
}

void na_error_file_close(na_error_file_t *file) {
    if (file->symbols != NULL) na_symbols_close(file->symbols);
    free(file->modules);
    free(file->data);
    *file = (na_error_file_t){0};
}

uint32_t na_error_file_stack(const na_error_file_t *file, uint32_t stack, uint64_t *pcs,
                             uint32_t most) {
    uint32_t half = file->head->parts[NA_GF_NODES].count / 2, turn = na_gf_stack_turn(stack),
             now = file->head->turns & 0xffff, place = na_gf_stack_place(stack), n = 0;
    if (turn != now && ((turn + 1) & 0xffff) != now) return 0;
    while (place != 0 && place < half && n < most) {
        const na_gf_node_t *node = &file->nodes[(turn & 1) * half + place];
        pcs[n++] = node->pc;
        place = node->parent;
    }
    return n;
}

uint32_t na_error_file_frames(const na_error_file_t *file, uint64_t pc, bool exact,
                              const na_symbol_frame_t **frames) {
    return na_symbols_at(file->symbols, exact || pc == 0 ? pc : pc - 1, frames);
}

void na_error_file_place(const na_error_file_t *file, uint64_t pc, char *to, size_t size) {
    for (uint32_t i = file->module_count; i-- > 1;) {
        const na_nprof_module_t *m = &file->modules[i];
        if (pc - m->start >= m->end - m->start) continue;
        snprintf(to, size, "%.200s+%#llx", na_base_name(m->path),
                 (unsigned long long)(pc - m->bias));
        return;
    }
    snprintf(to, size, "%#llx", (unsigned long long)pc);
}

const na_gf_record_t *na_error_file_at(const na_error_file_t *file, uint64_t address) {
    uint64_t page = file->head->page, nearest = UINT64_MAX;
    const na_gf_record_t *best = NULL;
    for (uint32_t i = 0; i < file->head->parts[NA_GF_RECORDS].count; i++) {
        const na_gf_record_t *r = &file->records[i];
        if (r->state == NA_GF_NEVER) continue;
        if ((r->flags & NA_GF_CANARIES) != 0) { /* it has no pages of its own */
            if (address - r->address < r->size) return r;
            continue;
        }
        uint64_t start = r->address / page * page, end = start + (r->size + page - 1) / page * page;
        if (address - (start - page) >= end + page - (start - page)) continue;
        /* In its pages; else beside a live one. The newest of those counts. */
        bool inside = address - start < end - start;
        if (!inside && r->state != NA_GF_LIVE) continue;
        uint64_t distance = inside                 ? 0
                            : address < r->address ? r->address - address
                                                   : address - r->address - r->size + 1;
        if (distance < nearest ||
            (distance == nearest && best != NULL && (int32_t)(r->alloc_ms - best->alloc_ms) > 0)) {
            nearest = distance;
            best = r;
        }
    }
    return best;
}
