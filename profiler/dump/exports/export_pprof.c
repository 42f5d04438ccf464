/* export_pprof.c - pprof's profile.proto, gzip-compressed, written by hand: five sample types, a
 * location for each address of code with a line for each inlined call, and labels that say of which
 * service, host and so on a sample is.
 *
 * Many profiles are merged first (merge.h): what is kept then are sums by stack and set of labels.
 * With --baseline what was allocated is that since an earlier dump of the same process, as servers
 * want it that add up what they are sent; what is live is as it is, or with --changes what it
 * differs by.
 *
 * Numbers below are the fields of the public format description (message Profile and its parts). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/runs/labels.h"
#include "profiler/dump/runs/merge.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

/* Bytes of one message. */
typedef struct buffer {
    unsigned char *bytes;
    size_t used, room;
    bool failed;
} buffer_t;

static void put_bytes(buffer_t *b, const void *bytes, size_t size) {
    if (b->failed) return;
    if (!NA_ARRAY_RESERVE(b->bytes, b->room, b->used + size)) {
        b->failed = true;
        return;
    }
    if (size != 0) memcpy(b->bytes + b->used, bytes, size);
    b->used += size;
}

static void put_varint(buffer_t *b, uint64_t value) {
    unsigned char bytes[10];
    size_t n = 0;
    while (value >= 0x80) {
        bytes[n++] = (unsigned char)(value | 0x80);
        value >>= 7;
    }
    bytes[n++] = (unsigned char)value;
    put_bytes(b, bytes, n);
}

/* A field of type varint; 0 is the default and is left out. */
static void put_number_field(buffer_t *b, uint32_t field, uint64_t value) {
    if (value == 0) return;
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, value);
}

static void put_bytes_field(buffer_t *b, uint32_t field, const void *bytes, size_t size) {
    put_varint(b, (uint64_t)field << 3 | 2);
    put_varint(b, size);
    put_bytes(b, bytes, size);
}

/* Strings are written at the end, in the order of their numbers. */
typedef struct strings {
    char **items; /* [0] is "" */
    uint32_t count, room;
    na_index_t index;
    bool failed;
} strings_t;

/* UINT32_MAX: none. */
static uint32_t known_string(const strings_t *s, const char *text, uint64_t hash) {
    na_probe_t probe = na_index_probe(&s->index, hash);
    while (na_index_next(&s->index, &probe))
        if (strcmp(s->items[probe.number], text) == 0) return probe.number;
    return UINT32_MAX;
}

/* protobuf strings are UTF-8: what is not becomes '?', as in text. NULL: out of memory. */
static char *as_utf8(const char *text) {
    char *copy = NULL;
    size_t size = 0;
    FILE *to = open_memstream(&copy, &size);
    if (to == NULL) return NULL;
    na_text_put(to, text);
    fclose(to);
    return copy;
}

static uint32_t string_id(strings_t *s, const char *text) {
    if (s->failed) return 0;
    if (s->count == 0 && text[0] != 0) (void)string_id(s, "");
    uint32_t id = known_string(s, text, na_hash_text(NA_HASH_BEGIN, text));
    if (id != UINT32_MAX) return id;
    char *copy = as_utf8(text);
    uint64_t hash = copy == NULL ? 0 : na_hash_text(NA_HASH_BEGIN, copy);
    if (copy != NULL) id = known_string(s, copy, hash);
    if (id == UINT32_MAX && copy != NULL && NA_ARRAY_RESERVE(s->items, s->room, s->count + 1u) &&
        na_index_add(&s->index, hash, s->count)) {
        s->items[s->count] = copy;
        return s->count++;
    }
    free(copy);
    s->failed |= id == UINT32_MAX;
    return s->failed ? 0 : id;
}

/* alloc_objects, alloc_space, inuse_objects, inuse_space, peak */
#define VALUES 5

typedef struct sample {
    uint32_t stack, set;
    double values[VALUES];
} sample_t;

/* What is written: figures by stack and set of labels. */
typedef struct samples {
    sample_t *items;
    uint32_t count, room;
    na_index_t index;
    na_label_sets_t sets;
} samples_t;

/* NULL: out of memory. */
static sample_t *sample_of(samples_t *s, uint32_t stack, uint32_t set) {
    uint64_t hash = na_hash_number(na_hash_number(NA_HASH_BEGIN, stack), set);
    na_probe_t probe = na_index_probe(&s->index, hash);
    while (na_index_next(&s->index, &probe))
        if (s->items[probe.number].stack == stack && s->items[probe.number].set == set)
            return &s->items[probe.number];
    if (s->count == UINT32_MAX || !NA_ARRAY_RESERVE(s->items, s->room, s->count + 1u) ||
        !na_index_add(&s->index, hash, s->count))
        return NULL;
    s->items[s->count] = (sample_t){.stack = stack, .set = set};
    return &s->items[s->count++];
}

/* Adds the figures of a site, or takes away the first `older` of those that an older dump has. */
static bool add_site_sample(samples_t *s, uint32_t stack, uint32_t set, const na_counters_t *sum,
                            double scale, size_t older) {
    sample_t *sample = sample_of(s, stack, set);
    if (sample == NULL) return false;
    const double values[VALUES] = {(double)sum->alloc_count / scale, (double)sum->alloc_bytes,
                                   (double)sum->live_count / scale, (double)sum->live_bytes,
                                   (double)sum->peak_bytes};
    for (size_t i = 0; i < VALUES; i++)
        if (older == 0)
            sample->values[i] += values[i];
        else if (i < older)
            sample->values[i] -= values[i];
    return true;
}

static void samples_free(samples_t *s) {
    free(s->items);
    na_index_free(&s->index);
    na_label_sets_free(&s->sets);
}

/* In the order of the fields 7 to 10 of a mapping. */
enum { MODULE_FUNCTIONS = 1, MODULE_FILES = 2, MODULE_LINES = 4, MODULE_INLINED = 8 };
#define MODULE_SEEN 16u

typedef struct pprof {
    const na_view_input_t *in;
    const samples_t *samples;
    uint64_t start_unix_ns, duration_ns;
    gzFile to;
    strings_t strings;
    uint64_t *location; /* by stack entry: id, 0: not written */
    bool *functions;    /* by function id: written */
    uint8_t *modules;   /* by module id: what its locations have, MODULE_* */
    buffer_t *labels;   /* by set: as they are in a sample */
    buffer_t message, part, packed;
    bool failed;
} pprof_t;

/* Writes what `message` holds as a field of the profile, and empties it. */
static void flush_message(pprof_t *p, uint32_t field) {
    buffer_t head = {0};
    put_varint(&head, (uint64_t)field << 3 | 2);
    put_varint(&head, p->message.used);
    p->failed = p->failed || head.failed || p->message.failed ||
                gzwrite(p->to, head.bytes, (unsigned)head.used) != (int)head.used ||
                gzwrite(p->to, p->message.bytes, (unsigned)p->message.used) != (int)p->message.used;
    free(head.bytes);
    p->message.used = 0;
}

/* A number that is a field of the profile itself. */
static void put_plain(pprof_t *p, uint32_t field, uint64_t value) {
    buffer_t b = {0};
    put_number_field(&b, field, value);
    p->failed = p->failed || b.failed || gzwrite(p->to, b.bytes, (unsigned)b.used) != (int)b.used;
    free(b.bytes);
}

static void put_type(pprof_t *p, uint32_t field, const char *type, const char *unit) {
    put_number_field(&p->message, 1, string_id(&p->strings, type));
    put_number_field(&p->message, 2, string_id(&p->strings, unit));
    flush_message(p, field);
}

static void put_mapping(pprof_t *p, uint32_t id) {
    const na_nprof_module_t *m = &na_reader_modules(p->in->reader).items[id];
    char build_id[2 * NA_NPROF_BUILD_ID_BYTES + 1] = "";
    for (uint32_t i = 0; i < m->build_id_size; i++)
        snprintf(build_id + 2 * i, 3, "%02x", m->build_id[i]);
    put_number_field(&p->message, 1, id);
    put_number_field(&p->message, 2, m->start);
    put_number_field(&p->message, 3, m->end);
    put_number_field(&p->message, 5, string_id(&p->strings, m->path));
    put_number_field(&p->message, 6, string_id(&p->strings, build_id));
    for (uint32_t i = 0; i < 4; i++)
        put_number_field(&p->message, 7 + i, p->modules[id] >> i & 1);
    flush_message(p, 3);
}

/* Readers take the first mapping for the program. */
static void put_pprof_mappings(pprof_t *p) {
    na_module_table_t modules = na_reader_modules(p->in->reader);
    uint32_t program = 1;
    while (program < modules.count && (modules.items[program].flags & NA_NPROF_MODULE_MAIN) == 0)
        program++;
    if (program < modules.count) put_mapping(p, program);
    for (uint32_t id = 1; id < modules.count; id++)
        if (p->modules[id] != 0 && id != program) put_mapping(p, id);
}

static void put_pprof_function(pprof_t *p, uint32_t id) {
    const na_function_name_t *f = na_symbols_function(p->in->symbols, id);
    put_number_field(&p->message, 1, (uint64_t)id + 1);
    put_number_field(&p->message, 2, string_id(&p->strings, f->function));
    put_number_field(&p->message, 3, string_id(&p->strings, f->function));
    if (f->file != NULL) put_number_field(&p->message, 4, string_id(&p->strings, f->file));
    put_number_field(&p->message, 5, f->line);
    flush_message(p, 5);
}

/* What a location with these frames has. */
static uint8_t module_of_frames(const na_symbol_frame_t *frames, uint32_t count) {
    uint32_t has = MODULE_SEEN | (count > 1 ? MODULE_INLINED : 0);
    for (uint32_t i = 0; i < count; i++)
        has |= (frames[i].named ? MODULE_FUNCTIONS : 0) |
               (frames[i].file != NULL ? MODULE_FILES : 0) |
               (frames[i].line != 0 ? MODULE_LINES : 0);
    return (uint8_t)has;
}

/* Writes the location of a stack entry, and its functions, if they are not yet. */
static uint64_t put_location(pprof_t *p, uint32_t node) {
    if (p->location[node] != 0) return p->location[node];
    const na_symbol_frame_t *frames;
    uint32_t count = na_symbols_frames(p->in->symbols, node, &frames);
    uint32_t module = na_symbols_module(p->in->symbols, node);
    for (uint32_t i = 0; i < count; i++) {
        if (p->functions[frames[i].id]) continue;
        p->functions[frames[i].id] = true;
        put_pprof_function(p, frames[i].id);
    }
    p->modules[module] |= module_of_frames(frames, count);
    put_number_field(&p->message, 1, node);
    put_number_field(&p->message, 2, module);
    put_number_field(&p->message, 3, na_reader_stacks(p->in->reader).items[node].pc);
    for (uint32_t i = 0; i < count; i++) {
        p->part.used = 0;
        put_number_field(&p->part, 1, (uint64_t)frames[i].id + 1);
        put_number_field(&p->part, 2, frames[i].line);
        put_bytes_field(&p->message, 4, p->part.bytes, p->part.used);
    }
    flush_message(p, 4);
    return p->location[node] = node;
}

/* As the bits of an int64. */
static uint64_t rounded(double value) {
    return (uint64_t)llround(value);
}

static void add_pprof_label(void *arg, const char *key, const char *value) {
    pprof_t *p = arg;
    p->part.used = 0;
    put_number_field(&p->part, 1, string_id(&p->strings, key));
    put_number_field(&p->part, 2, string_id(&p->strings, value));
    put_bytes_field(&p->packed, 3, p->part.bytes, p->part.used);
}

/* Sets repeat with every site: each is encoded once. */
static void put_label_set(pprof_t *p, uint32_t set) {
    buffer_t *labels = &p->labels[set];
    if (labels->used == 0) {
        p->packed.used = 0;
        na_labels_each(p->samples->sets.items[set], add_pprof_label, p);
        put_bytes(labels, p->packed.bytes, p->packed.used);
        p->failed |= labels->failed;
    }
    put_bytes(&p->message, labels->bytes, labels->used);
}

static void put_sample(pprof_t *p, const sample_t *sample) {
    bool any = false;
    for (size_t i = 0; i < VALUES; i++)
        any |= rounded(sample->values[i]) != 0;
    if (!any) return;
    na_stack_table_t stacks = na_reader_stacks(p->in->reader);
    p->packed.used = 0;
    uint32_t depth = 0;
    for (uint32_t node = sample->stack; node > NA_NPROF_ROOT && depth < NA_VIEW_DEEPEST;
         node = stacks.items[node].parent, depth++)
        put_varint(&p->packed, put_location(p, node));
    if (depth != 0) put_bytes_field(&p->message, 1, p->packed.bytes, p->packed.used);
    p->packed.used = 0;
    for (size_t i = 0; i < VALUES; i++)
        put_varint(&p->packed, rounded(sample->values[i]));
    put_bytes_field(&p->message, 2, p->packed.bytes, p->packed.used);
    put_label_set(p, sample->set);
    flush_message(p, 2);
}

static void put_pprof_profile(pprof_t *p) {
    const na_nprof_header_t *h = na_reader_header(p->in->reader);
    put_type(p, 1, "alloc_objects", "count");
    put_type(p, 1, "alloc_space", "bytes");
    put_type(p, 1, "inuse_objects", "count");
    put_type(p, 1, "inuse_space", "bytes");
    put_type(p, 1, "peak", "bytes");
    for (uint32_t s = 0; s < p->samples->count; s++) {
        na_progress("writing", s, p->samples->count);
        put_sample(p, &p->samples->items[s]);
    }
    put_pprof_mappings(p);
    put_type(p, 11, "space", "bytes");
    put_plain(p, 9, p->start_unix_ns);
    put_plain(p, 10, p->duration_ns);
    put_plain(p, 12, h->sample_interval != 0 ? h->sample_interval : 1);
    put_plain(p, 13, string_id(&p->strings, h->command));
    put_plain(p, 14, string_id(&p->strings, "peak"));
    for (uint32_t i = 0; i < p->strings.count; i++) {
        put_bytes(&p->message, p->strings.items[i], strlen(p->strings.items[i]));
        flush_message(p, 6);
    }
}

static na_status_t write_pprof(const na_view_input_t *in, const samples_t *samples,
                               uint64_t start_unix_ns, uint64_t duration_ns) {
    pprof_t p = {
        .in = in, .samples = samples, .start_unix_ns = start_unix_ns, .duration_ns = duration_ns};
    p.location = calloc((size_t)na_reader_stacks(in->reader).count + 1, sizeof *p.location);
    p.modules = calloc((size_t)na_reader_modules(in->reader).count + 1, sizeof *p.modules);
    p.functions = calloc((size_t)in->function_count + 1, sizeof *p.functions);
    p.labels = calloc((size_t)samples->sets.count + 1, sizeof *p.labels);
    fflush(stdout);
    int fd = dup(STDOUT_FILENO);
    p.to = fd < 0 ? NULL : gzdopen(fd, "wb");
    na_status_t status = NA_STATUS_MEMORY;
    if (p.location != NULL && p.modules != NULL && p.functions != NULL && p.labels != NULL &&
        p.to != NULL) {
        put_pprof_profile(&p);
        bool memory = p.strings.failed || p.message.failed || p.part.failed || p.packed.failed;
        int closed = gzclose(p.to);
        if (!memory)
            status = p.failed || closed != Z_OK
                         ? na_fail("cannot write the output; is the disk full?")
                         : NA_STATUS_WHOLE;
    } else if (p.to != NULL) {
        gzclose(p.to);
    } else if (fd >= 0) {
        close(fd);
    }
    for (uint32_t i = 0; i < p.strings.count; i++)
        free(p.strings.items[i]);
    for (uint32_t i = 0; p.labels != NULL && i < samples->sets.count; i++)
        free(p.labels[i].bytes);
    free(p.labels);
    free(p.strings.items);
    na_index_free(&p.strings.index);
    free(p.location);
    free(p.modules);
    free(p.functions);
    free(p.message.bytes);
    free(p.part.bytes);
    free(p.packed.bytes);
    return status;
}

/* ---- one profile ---- */

static na_status_t export_one(const char *path, const na_options_t *options) {
    na_view_input_t in;
    na_status_t status = na_view_load(&in, path, options, false);
    if (status != NA_STATUS_WHOLE) return status;
    char set[NA_LABELS];
    na_recorded_run_t run;
    na_labels_read(in.reader, path, &run);
    na_labels_of(&run, options, options->fleet.by, set);
    samples_t samples = {0};
    const na_nprof_header_t *h = na_reader_header(in.reader);
    bool good = na_label_sets_add(&samples.sets, set) == 0;
    for (size_t i = 0; good && i < in.sites.count; i++)
        good = add_site_sample(&samples, in.sites.items[i].site, 0, &in.sites.items[i].sum,
                               (double)h->count_scale, 0);
    status = good ? write_pprof(&in, &samples, h->start_unix_ns, h->last_ms * 1000000)
                  : NA_STATUS_MEMORY;
    samples_free(&samples);
    na_status_t damage = na_view_unload(&in, false);
    return status == NA_STATUS_WHOLE ? damage : status;
}

/* ---- many ---- */

typedef struct many {
    const na_recorded_run_t *runs;
    const na_options_t *options;
    size_t older;    /* the first ones, each less its process's run of those behind; 0: none */
    uint64_t before; /* when the oldest of them was made, Unix ns */
    na_merge_sums_t sums;
    samples_t samples;
} many_t;

static bool add_pprof_file(void *arg, const na_merge_file_t *file) {
    many_t *m = arg;
    const na_recorded_run_t *run = &m->runs[file->run];
    bool older = file->run < m->older;
    if (older) { /* the newer one's labels hold for both */
        const na_recorded_run_t *newer = m->runs + m->older;
        while (!na_runs_same_process(run, newer))
            newer++;
        uint64_t made = run->start_unix_ns + run->duration_ms * 1000000;
        if (made < m->before) m->before = made;
        run = newer;
    }
    char set[NA_LABELS];
    na_labels_of(run, m->options, m->options->fleet.by, set);
    uint32_t id = na_label_sets_add(&m->samples.sets, set);
    if (id == UINT32_MAX || !na_merge_add(&m->sums, file)) return false;
    size_t less = !older ? 0 : m->options->check.changes ? VALUES : 2;
    for (size_t i = 0; i < file->count; i++)
        if (!add_site_sample(&m->samples, file->stacks[i], id, &file->sites[i].sum,
                             (double)file->header->count_scale, less))
            return false;
    return true;
}

static na_status_t show_merged(many_t *m, na_merge_t *merge) {
    na_options_t own = *m->options;
    char path[32];
    na_view_input_t in;
    int fd = na_merge_in_memory(merge, &m->sums, path);
    if (fd < 0) return NA_STATUS_MEMORY;
    na_status_t status = na_view_load(&in, path, &own, false);
    if (status == NA_STATUS_WHOLE) {
        uint64_t start = m->before != UINT64_MAX ? m->before : m->sums.start_unix_ns;
        uint64_t end = m->sums.end_unix_ns;
        status = write_pprof(&in, &m->samples, start, end > start ? end - start : 0);
        na_status_t damage = na_view_unload(&in, false);
        if (status == NA_STATUS_WHOLE) status = damage;
    }
    close(fd);
    return status;
}

/* Of the first `older` runs the newest of each process that a later run goes with, of those that
 * the `newer` numbers before `order` name. How many. */
static size_t with_later(const na_recorded_run_t *runs, size_t older, size_t newer, size_t *order) {
    size_t n = na_runs_newest(runs, na_runs_by_process(runs, older, order), order), kept = 0;
    for (size_t i = 0; i < n; i++) {
        const na_recorded_run_t *run = &runs[order[i]];
        bool found = false;
        for (size_t k = 1; k <= newer && !found; k++) {
            const na_recorded_run_t *later = &runs[*(order - k)];
            found = na_runs_same_process(run, later) && run->duration_ms <= later->duration_ms;
        }
        if (found) order[kept++] = order[i];
    }
    return kept;
}

/* `older`: so many of the runs come first that are to be subtracted. */
static na_status_t show_many(const na_recorded_run_t *runs, size_t count, size_t older,
                             const na_options_t *options, na_status_t status) {
    many_t m = {.runs = runs, .options = options, .older = older, .before = UINT64_MAX};
    size_t *order = calloc(count + 1, sizeof *order);
    na_merge_t *merge = na_merge_open();
    na_status_t shown = NA_STATUS_MEMORY;
    if (order != NULL && merge != NULL) {
        size_t newer = na_runs_by_process(runs + older, count - older, order);
        newer = na_runs_newest(runs + older, newer, order);
        for (size_t i = 0; i < newer; i++)
            order[i] += older;
        size_t n = newer + with_later(runs, older, newer, order + newer);
        if (older != 0 && n == newer)
            shown = na_fail("%s is no earlier dump of the process of %s", runs[0].path,
                            runs[older].path);
        else if (na_merge_read(merge, runs, order, n, add_pprof_file, &m, &status))
            shown = m.sums.files < (older != 0 ? n : 1) ? na_fail("none of the files can be read")
                                                        : show_merged(&m, merge);
        if (shown == NA_STATUS_WHOLE) shown = status;
    }
    na_merge_close(merge);
    samples_free(&m.samples);
    free(m.sums.items);
    free(order);
    return shown;
}

static na_status_t show_files(const char *const *files, size_t count, size_t older,
                              const na_options_t *options) {
    na_status_t status;
    na_recorded_run_t *runs = na_runs_read(files, count, true, &status);
    if (runs == NULL) return NA_STATUS_MEMORY;
    /* One that cannot be read leaves nothing to compare. */
    if (count == 2 && older == 1 && status != NA_STATUS_WHOLE) status = NA_STATUS_NOTHING;
    if (status != NA_STATUS_NOTHING) status = show_many(runs, count, older, options, status);
    free(runs);
    return status;
}

static na_status_t show_since(const char *const *files, size_t count, const na_options_t *options) {
    size_t older = options->check.older_count;
    const char **both = calloc(older + count, sizeof *both);
    if (both == NULL) return NA_STATUS_MEMORY;
    memcpy(both, options->check.older, older * sizeof *both);
    memcpy(both + older, files, count * sizeof *both);
    na_status_t status = show_files(both, older + count, older, options);
    free(both);
    return status;
}

static na_status_t show_pprof(const char *const *files, size_t count, const na_options_t *options) {
    if (!na_labels_check(options)) return NA_STATUS_NOTHING;
    if (options->check.baseline != NULL) return show_since(files, count, options);
    if (options->check.changes) return na_fail("--changes goes with --baseline");
    if (count == 1) return export_one(files[0], options);
    return show_files(files, count, 0, options);
}

const na_view_t na_view_row_pprof = {
    .name = "pprof",
    .words = "FILE...",
    .help = "for pprof (gzip-compressed profile.proto)",
    .more = "Sample types: alloc_objects, alloc_space, inuse_objects, inuse_space, peak. Samples "
            "have the\nlabels of their process: service, version, host, job, rank and others. "
            "Several profiles become\none: of each process its newest dump counts, and files that "
            "cannot be read or are damaged\nare left out, with exit status 1. With --baseline "
            "allocations are those since OLD, an\nearlier dump of the same process, or a "
            "directory of dumps of several.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT | NA_VIEW_FILE | NA_VIEW_PACKED,
    .takes = NA_TAKES(LABELS) | NA_TAKES(BY) | NA_TAKES(BASELINE) | NA_TAKES(CHANGES),
    .without = NA_VIEW_WHOLE,
    .show_files = show_pprof,
};
