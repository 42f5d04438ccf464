/* merge.c - puts the call stacks of many profiles together. See merge.h. */
#include "profiler/dump/runs/merge.h"

#include <inttypes.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/dump/symbols/symbols.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_python.h"

#define MOST_THREADS 64
#define OFFSET_MOST  (UINT64_C(1) << NA_MERGE_SHIFT)

/* Frames without a module and without a name. */
#define GENERATED 1u

struct na_merge {
    na_nprof_stack_t *stacks;
    uint32_t stack_count, stack_room;
    na_index_t by_frame;
    na_nprof_module_t *modules;
    uint32_t module_count, module_room;
    na_index_t by_identity;
    bool *there; /* by module: its file is on this machine */
    uint32_t there_room;
    FILE *symbols;
    char *symbol_text;
    size_t symbol_size;
    uint64_t *named; /* (pc, exact) that symbols has */
    uint32_t named_count, named_room;
    na_index_t by_pc;
    bool generated; /* there is such a frame */
};

na_merge_t *na_merge_open(void) {
    na_merge_t *m = calloc(1, sizeof *m);
    if (m == NULL) return NULL;
    m->symbols = open_memstream(&m->symbol_text, &m->symbol_size);
    if (m->symbols == NULL || !NA_ARRAY_RESERVE(m->stacks, m->stack_room, 2u) ||
        !NA_ARRAY_RESERVE(m->modules, m->module_room, 1u)) {
        na_merge_close(m);
        return NULL;
    }
    m->stacks[0] = (na_nprof_stack_t){0};
    m->stacks[NA_NPROF_ROOT] = (na_nprof_stack_t){.flags = NA_NPROF_STACK_VALID};
    m->stack_count = 2;
    m->modules[0] = (na_nprof_module_t){0};
    m->module_count = 1;
    return m;
}

void na_merge_close(na_merge_t *m) {
    if (m == NULL) return;
    if (m->symbols != NULL) fclose(m->symbols);
    free(m->symbol_text);
    free(m->stacks);
    free(m->modules);
    free(m->there);
    free(m->named);
    na_index_free(&m->by_frame);
    na_index_free(&m->by_identity);
    na_index_free(&m->by_pc);
    free(m);
}

uint32_t na_merge_stack_count(const na_merge_t *m) {
    return m->stack_count;
}

na_stack_table_t na_merge_stacks(const na_merge_t *m) {
    return (na_stack_table_t){m->stacks, m->stack_count};
}

na_module_table_t na_merge_modules(const na_merge_t *m) {
    return (na_module_table_t){m->modules, m->module_count};
}

const char *na_merge_symbols(na_merge_t *m, size_t *size) {
    if (fflush(m->symbols) != 0) return NULL;
    *size = m->symbol_size;
    return m->symbol_text;
}

/* ---- modules ---- */

static bool is_same_file(const na_nprof_module_t *a, const na_nprof_module_t *b) {
    if (((a->flags ^ b->flags) & NA_NPROF_MODULE_INSIDE) != 0) return false;
    if (a->build_id_size != b->build_id_size) return false;
    if (a->build_id_size != 0) return memcmp(a->build_id, b->build_id, a->build_id_size) == 0;
    return strcmp(a->path, b->path) == 0;
}

/* The module of the merge; 0: out of memory, or there are too many. */
static uint32_t merged_module(na_merge_t *m, const na_nprof_module_t *from) {
    uint64_t hash = na_hash_number(NA_HASH_BEGIN, from->flags & NA_NPROF_MODULE_INSIDE);
    for (uint32_t i = 0; i < from->build_id_size; i++)
        hash = na_hash_number(hash, from->build_id[i]);
    if (from->build_id_size == 0) hash = na_hash_text(hash, from->path);
    uint64_t size = from->end - from->bias;
    na_probe_t probe = na_index_probe(&m->by_identity, hash);
    uint32_t id = 0;
    while (id == 0 && na_index_next(&m->by_identity, &probe))
        if (is_same_file(&m->modules[probe.number], from)) id = probe.number;
    if (id == 0) {
        id = m->module_count;
        if (id >= 1u << 24 || !NA_ARRAY_RESERVE(m->modules, m->module_room, id + 1u) ||
            !NA_ARRAY_RESERVE(m->there, m->there_room, id + 1u) ||
            !na_index_add(&m->by_identity, hash, id))
            return 0;
        na_nprof_module_t *to = &m->modules[id];
        *to = *from;
        to->start = to->end = to->bias = (uint64_t)id << NA_MERGE_SHIFT;
        to->load_ms = 0;
        to->unload_ms = UINT64_MAX;
        m->there[id] = access(to->path, R_OK) == 0;
        m->module_count++;
    }
    na_nprof_module_t *to = &m->modules[id];
    to->flags |= from->flags;
    /* The same file may lie elsewhere on another machine: here, if anywhere. */
    if (!m->there[id] && strcmp(to->path, from->path) != 0 && access(from->path, R_OK) == 0) {
        memcpy(to->path, from->path, sizeof to->path);
        m->there[id] = true;
    }
    if (size < OFFSET_MOST && to->bias + size > to->end) to->end = to->bias + size;
    return id;
}

/* ---- names that a file has ---- */

typedef struct name {
    uint64_t pc;
    const char *frames; /* lines that begin with F, up to `length` */
    size_t length;
    uint32_t module;
    bool exact;
} name_t;

typedef struct names {
    name_t *items;
    uint32_t count, room;
    na_index_t index;
} names_t;

static uint64_t name_hash(uint64_t pc, uint32_t module, bool exact) {
    return na_hash_number(na_hash_number(NA_HASH_BEGIN, pc), (uint64_t)module << 1 | exact);
}

static bool read_names(names_t *names, const char *text, size_t size) {
    for (const char *at = text, *end = text + size; at < end;) {
        const char *line = memchr(at, '\n', (size_t)(end - at));
        if (line == NULL) break;
        uint64_t pc;
        uint32_t module;
        int exact;
        /* The text ends with a NUL: sscanf stays within. It must not see more than the line. */
        char head[80];
        size_t length = (size_t)(line - at) < sizeof head - 1 ? (size_t)(line - at) : 0;
        memcpy(head, at, length);
        head[length] = 0;
        const char *frames = line + 1, *next = frames;
        while (next < end && *next == 'F') {
            const char *stop = memchr(next, '\n', (size_t)(end - next));
            next = stop == NULL ? end : stop + 1;
        }
        if (sscanf(head, "P\t%" SCNx64 "\t%u\t%d", &pc, &module, &exact) == 3 && next > frames) {
            if (!NA_ARRAY_RESERVE(names->items, names->room, names->count + 1u) ||
                !na_index_add(&names->index, name_hash(pc, module, exact != 0), names->count))
                return false;
            names->items[names->count++] =
                (name_t){pc, frames, (size_t)(next - frames), module, exact != 0};
        }
        at = next > frames ? next : line + 1;
    }
    return true;
}

static const name_t *find_name(const names_t *names, uint64_t pc, uint32_t module, bool exact) {
    na_probe_t probe = na_index_probe(&names->index, name_hash(pc, module, exact));
    while (na_index_next(&names->index, &probe)) {
        const name_t *n = &names->items[probe.number];
        if (n->pc == pc && n->module == module && n->exact == exact) return n;
    }
    return NULL;
}

/* The line of a Python frame; the caller frees it. NULL: out of memory. */
static char *python_line(na_reader_t *reader, uint64_t pc, size_t *length) {
    char *line = NULL;
    FILE *to = open_memstream(&line, length);
    if (to == NULL) return NULL;
    na_python_code_t code;
    bool known = na_reader_python_at(reader, pc, &code);
    fputs("F\t", to);
    na_text_put(to, known && code.name[0] != 0 ? code.name : "?");
    for (int home = 0; home < 2; home++) {
        putc('\t', to);
        if (known) na_text_put(to, code.file);
        fprintf(to, "\t%u", !known ? 0 : home ? code.first_line : code.line);
    }
    fprintf(to, "\t0\t%d\n", known ? 2 : 0); /* a line is one frame: no offset */
    if (fclose(to) == 0) return line;
    free(line);
    return NULL;
}

/* Keeps the frames of an address of the merge, if it has none. */
static bool keep_frames(na_merge_t *m, const name_t *name, uint64_t pc, uint32_t module) {
    uint64_t key = pc << 1 | name->exact, hash = na_hash_number(NA_HASH_BEGIN, key);
    na_probe_t probe = na_index_probe(&m->by_pc, hash);
    while (na_index_next(&m->by_pc, &probe))
        if (m->named[probe.number] == key) return true;
    if (!NA_ARRAY_RESERVE(m->named, m->named_room, m->named_count + 1u) ||
        !na_index_add(&m->by_pc, hash, m->named_count))
        return false;
    m->named[m->named_count++] = key;
    fprintf(m->symbols, "P\t%" PRIx64 "\t%u\t%d\n", pc, module, name->exact);
    fwrite(name->frames, 1, name->length, m->symbols);
    if (name->frames[name->length - 1] != '\n') putc('\n', m->symbols);
    return ferror(m->symbols) == 0;
}

/* ---- stacks ---- */

/* UINT32_MAX: out of memory. */
static uint32_t stack_of(na_merge_t *m, uint32_t parent, uint32_t flags, uint64_t pc) {
    uint32_t kind = flags & ~NA_NPROF_STACK_TRUNCATED;
    uint64_t hash = na_hash_number(na_hash_number(na_hash_number(NA_HASH_BEGIN, parent), pc), kind);
    na_probe_t probe = na_index_probe(&m->by_frame, hash);
    while (na_index_next(&m->by_frame, &probe)) {
        na_nprof_stack_t *s = &m->stacks[probe.number];
        if (s->parent == parent && s->pc == pc && (s->flags & ~NA_NPROF_STACK_TRUNCATED) == kind) {
            s->flags |= flags;
            return probe.number;
        }
    }
    uint32_t id = m->stack_count;
    if (id == UINT32_MAX || !NA_ARRAY_RESERVE(m->stacks, m->stack_room, id + 1u) ||
        !na_index_add(&m->by_frame, hash, id))
        return UINT32_MAX;
    m->stacks[id] = (na_nprof_stack_t){parent, flags, pc};
    return m->stack_count++;
}

static uint32_t module_at(na_module_table_t modules, const na_nprof_stack_t *node) {
    uint32_t hint = NA_NPROF_STACK_MODULE(node->flags), best = 0;
    if (hint != 0 && hint < modules.count && modules.items[hint].flags != 0) return hint;
    for (uint32_t id = 1; id < modules.count; id++) {
        const na_nprof_module_t *m = &modules.items[id];
        if (m->flags != 0 && node->pc >= m->start && node->pc < m->end &&
            (best == 0 || m->load_ms >= modules.items[best].load_ms))
            best = id;
    }
    return best;
}

/* ---- files ---- */

/* One file, read by a thread of its own and merged when its turn comes. */
typedef struct file {
    na_reader_t *reader;
    na_sites_t sites;
    na_stack_table_t stacks;
    na_module_table_t modules;
    uint32_t *to;         /* by stack entry of the file: that of the merge; 0: not needed */
    uint32_t *modules_to; /* by module: outside of Python frames, and inside */
    uint32_t *of_site;
    names_t names;
    bool damaged, failed; /* failed: out of memory */
    char why[256];
} file_t;

static void close_merge_file(file_t *f) {
    na_sites_free(&f->sites);
    na_reader_close(f->reader);
    free(f->to);
    free(f->modules_to);
    free(f->of_site);
    free(f->names.items);
    na_index_free(&f->names.index);
}

static void read_merge_file(file_t *f, const char *path) {
    f->reader = na_reader_open(path, f->why, sizeof f->why);
    if (f->reader == NULL) return;
    f->why[0] = 0;
    if (!na_sites_fold(f->reader, &f->sites)) {
        char text[200] = "out of memory";
        na_reader_over_budget(f->reader, text, sizeof text);
        snprintf(f->why, sizeof f->why, "%.120s: %.120s", path, text);
        return;
    }
    f->modules = na_reader_modules(f->reader);
    f->stacks = na_reader_stacks(f->reader);
    size_t size;
    const char *names = na_reader_symbols(f->reader, &size);
    if (na_reader_issue_count(f->reader) != 0) {
        snprintf(f->why, sizeof f->why,
                 "left out: %.160s is damaged; numalloc-dump check says more", path);
        return;
    }
    f->to = calloc((size_t)f->stacks.count + 1, sizeof *f->to);
    f->modules_to = calloc(2 * ((size_t)f->modules.count + 1), sizeof *f->modules_to);
    f->of_site = calloc(f->sites.count + 1, sizeof *f->of_site);
    f->failed = f->to == NULL || f->modules_to == NULL || f->of_site == NULL ||
                (names != NULL && !read_names(&f->names, names, size));
    if (f->failed) return;
    for (size_t i = 0; i < f->sites.count; i++)
        for (uint32_t node = f->sites.items[i].site;
             node > NA_NPROF_ROOT && node < f->stacks.count && f->to[node] == 0;
             node = f->stacks.items[node].parent)
            f->to[node] = 1; /* needed */
}

static uint64_t pc_of_name(const name_t *name) {
    uint64_t hash = NA_HASH_BEGIN;
    for (size_t i = 0; i < name->length; i++)
        hash = na_hash_number(hash, (unsigned char)name->frames[i]);
    return GENERATED + 1 + hash % (OFFSET_MOST - 2 - GENERATED);
}

/* A Python frame is known by its line: code has other ids in each file. False: out of memory. */
static bool merge_python(na_merge_t *m, na_reader_t *reader, const na_nprof_stack_t *s,
                         uint32_t *module, uint64_t *pc) {
    static const na_nprof_module_t python = {
        .flags = NA_NPROF_MODULE_VALID, .end = OFFSET_MOST - 1, .path = NA_PYTHON_MODULE};
    *module = merged_module(m, &python);
    size_t length;
    char *line = *module == 0 ? NULL : python_line(reader, s->pc, &length);
    if (line == NULL) return false;
    const name_t name = {.frames = line, .length = length, .exact = true};
    *pc = (uint64_t)*module << NA_MERGE_SHIFT | pc_of_name(&name);
    bool kept = keep_frames(m, &name, *pc, *module);
    free(line);
    return kept;
}

/* The module in the merge of a node in the file's module `own`; 0: out of memory. */
static uint32_t merge_module(na_merge_t *m, file_t *f, uint32_t own, bool inside) {
    uint32_t *to = &f->modules_to[2 * own + inside];
    if (*to == 0) {
        na_nprof_module_t from = f->modules.items[own];
        if (inside) from.flags |= NA_NPROF_MODULE_INSIDE;
        *to = merged_module(m, &from);
    }
    return *to;
}

/* Where a node lies in the merge. False: out of memory. */
static bool merge_frame(na_merge_t *m, file_t *f, const na_nprof_stack_t *s, uint32_t *module,
                        uint64_t *pc, bool *exact) {
    *exact = (s->flags & NA_NPROF_STACK_EXACT) != 0;
    /* (Without CPython in it, code of aarch64 may have such an address.) */
    if (na_nprof_is_py(s->pc) && na_reader_python(f->reader) != NULL)
        return merge_python(m, f->reader, s, module, pc);
    uint32_t own = module_at(f->modules, s), hint = NA_NPROF_STACK_MODULE(s->flags);
    const name_t *name = f->names.count == 0 ? NULL : find_name(&f->names, s->pc, hint, *exact);
    *module = 0;
    if (own != 0) {
        *module = merge_module(m, f, own, (s->flags & NA_READER_BELOW_PYTHON) != 0);
        if (*module == 0) return false;
        uint64_t offset = s->pc - f->modules.items[own].bias;
        *pc = (uint64_t)*module << NA_MERGE_SHIFT | (offset & (OFFSET_MOST - 1));
    } else if (name != NULL) {
        *pc = pc_of_name(name);
    } else {
        *pc = GENERATED;
        *exact = false;
        if (!m->generated)
            fprintf(m->symbols, "P\t%x\t0\t0\nF\t[generated code]\t\t0\t\t0\t0\t2\n", GENERATED);
        m->generated = true;
    }
    return name == NULL || keep_frames(m, name, *pc, *module);
}

/* Gives every stack that is needed its place in the merge. False: out of memory. */
static bool merge_file(na_merge_t *m, file_t *f) {
    for (uint32_t node = NA_NPROF_ROOT + 1; node < f->stacks.count; node++) {
        if (f->to[node] == 0) continue;
        const na_nprof_stack_t *s = &f->stacks.items[node];
        uint32_t module;
        uint64_t pc;
        bool exact;
        if (!merge_frame(m, f, s, &module, &pc, &exact)) return false;
        uint32_t parent = s->parent > NA_NPROF_ROOT ? f->to[s->parent] : NA_NPROF_ROOT;
        uint32_t flags = NA_NPROF_STACK_VALID | (s->flags & NA_NPROF_STACK_TRUNCATED) |
                         (exact ? NA_NPROF_STACK_EXACT : 0) | module << 8;
        f->to[node] = stack_of(m, parent, flags, pc);
        if (f->to[node] == UINT32_MAX) return false;
    }
    for (size_t i = 0; i < f->sites.count; i++) {
        uint32_t site = f->sites.items[i].site;
        f->of_site[i] =
            site > NA_NPROF_ROOT && site < f->stacks.count ? f->to[site] : NA_NPROF_ROOT;
    }
    return true;
}

/* ---- many files ---- */

typedef struct work {
    na_merge_t *merge;
    const na_recorded_run_t *runs;
    const size_t *order;
    size_t count;
    na_merge_fn_t visit;
    void *arg;
    pthread_mutex_t lock;
    pthread_cond_t turned;
    size_t taken; /* by a thread; under the lock, like all below */
    size_t turn;  /* the next to be merged */
    bool failed;
    na_status_t *status;
} work_t;

/* With the lock. */
static void take_turn(work_t *w, file_t *f, size_t run) {
    if (f->why[0] != 0) {
        na_fail("%s", f->why);
        *w->status = NA_STATUS_PARTIAL;
        return;
    }
    const na_merge_file_t out = {run, na_reader_header(f->reader), f->sites.items, f->sites.count,
                                 f->of_site};
    if (f->failed || !merge_file(w->merge, f) || !w->visit(w->arg, &out)) w->failed = true;
}

static void *merge_files(void *arg) {
    work_t *w = arg;
    pthread_mutex_lock(&w->lock);
    while (w->taken < w->count && !w->failed) {
        size_t mine = w->taken++, run = w->order[mine];
        pthread_mutex_unlock(&w->lock);
        na_progress("merging", mine, w->count);
        file_t f = {0};
        read_merge_file(&f, w->runs[run].path);
        pthread_mutex_lock(&w->lock);
        while (w->turn != mine && !w->failed)
            pthread_cond_wait(&w->turned, &w->lock);
        if (!w->failed) take_turn(w, &f, run);
        w->turn++;
        pthread_cond_broadcast(&w->turned);
        pthread_mutex_unlock(&w->lock);
        close_merge_file(&f);
        pthread_mutex_lock(&w->lock);
    }
    pthread_mutex_unlock(&w->lock);
    return NULL;
}

bool na_merge_read(na_merge_t *merge, const na_recorded_run_t *runs, const size_t *order,
                   size_t count, na_merge_fn_t visit, void *arg, na_status_t *status) {
    work_t w = {.merge = merge,
                .runs = runs,
                .order = order,
                .count = count,
                .visit = visit,
                .arg = arg,
                .lock = PTHREAD_MUTEX_INITIALIZER,
                .turned = PTHREAD_COND_INITIALIZER,
                .status = status};
    long cpus = sysconf(_SC_NPROCESSORS_ONLN);
    size_t wanted = cpus < 1 ? 1 : (size_t)cpus, started = 0;
    pthread_t threads[MOST_THREADS];
    while (started + 1 < wanted && started + 1 < count && started < MOST_THREADS &&
           pthread_create(&threads[started], NULL, merge_files, &w) == 0)
        started++;
    merge_files(&w);
    for (size_t i = 0; i < started; i++)
        pthread_join(threads[i], NULL);
    na_progress_end();
    return !w.failed;
}
