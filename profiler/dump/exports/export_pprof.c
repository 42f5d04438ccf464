/* export_pprof.c - pprof's profile.proto, gzip-compressed, written by hand: five sample types, a
 * location for each address of code with a line for each inlined call.
 *
 * Numbers below are the fields of the public format description (message Profile and its parts). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "profiler/containers/array.h"
#include "profiler/containers/index.h"
#include "profiler/dump/profile/view.h"
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
static void put_number(buffer_t *b, uint32_t field, uint64_t value) {
    if (value == 0) return;
    put_varint(b, (uint64_t)field << 3);
    put_varint(b, value);
}

static void put_block(buffer_t *b, uint32_t field, const void *bytes, size_t size) {
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

typedef struct pprof {
    const na_view_input_t *in;
    gzFile to;
    strings_t strings;
    uint64_t *location; /* by stack entry: id, 0: not written */
    bool *functions;    /* by function id: written */
    bool *modules;      /* by module id */
    buffer_t message, part, packed;
    bool failed;
} pprof_t;

/* Writes what `message` holds as a field of the profile, and empties it. */
static void flush(pprof_t *p, uint32_t field) {
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
    put_number(&b, field, value);
    p->failed = p->failed || b.failed || gzwrite(p->to, b.bytes, (unsigned)b.used) != (int)b.used;
    free(b.bytes);
}

static void put_type(pprof_t *p, uint32_t field, const char *type, const char *unit) {
    put_number(&p->message, 1, string_id(&p->strings, type));
    put_number(&p->message, 2, string_id(&p->strings, unit));
    flush(p, field);
}

static void put_mapping(pprof_t *p, uint32_t id) {
    const na_nprof_module_t *m = &na_reader_modules(p->in->reader).items[id];
    char build_id[2 * NA_NPROF_BUILD_ID_BYTES + 1] = "";
    for (uint32_t i = 0; i < m->build_id_size; i++)
        snprintf(build_id + 2 * i, 3, "%02x", m->build_id[i]);
    put_number(&p->message, 1, id);
    put_number(&p->message, 2, m->start);
    put_number(&p->message, 3, m->end);
    put_number(&p->message, 5, string_id(&p->strings, m->path));
    put_number(&p->message, 6, string_id(&p->strings, build_id));
    for (uint32_t field = 7; field <= 10; field++)
        put_number(&p->message, field, 1); /* symbols are here: nobody need look for them */
    flush(p, 3);
}

static void put_function(pprof_t *p, uint32_t id) {
    const na_function_name_t *f = na_symbols_function(p->in->symbols, id);
    put_number(&p->message, 1, (uint64_t)id + 1);
    put_number(&p->message, 2, string_id(&p->strings, f->function));
    put_number(&p->message, 3, string_id(&p->strings, f->function));
    if (f->file != NULL) put_number(&p->message, 4, string_id(&p->strings, f->file));
    put_number(&p->message, 5, f->line);
    flush(p, 5);
}

/* Writes the location of a stack entry, and its functions and module, if they are not yet. */
static uint64_t put_location(pprof_t *p, uint32_t node) {
    if (p->location[node] != 0) return p->location[node];
    const na_symbol_frame_t *frames;
    uint32_t count = na_symbols_frames(p->in->symbols, node, &frames);
    uint32_t module = na_symbols_module(p->in->symbols, node);
    for (uint32_t i = 0; i < count; i++) {
        if (p->functions[frames[i].id]) continue;
        p->functions[frames[i].id] = true;
        put_function(p, frames[i].id);
    }
    if (module != 0 && !p->modules[module]) {
        p->modules[module] = true;
        put_mapping(p, module);
    }
    put_number(&p->message, 1, node);
    put_number(&p->message, 2, module);
    put_number(&p->message, 3, na_reader_stacks(p->in->reader).items[node].pc);
    for (uint32_t i = 0; i < count; i++) {
        p->part.used = 0;
        put_number(&p->part, 1, (uint64_t)frames[i].id + 1);
        put_number(&p->part, 2, frames[i].line);
        put_block(&p->message, 4, p->part.bytes, p->part.used);
    }
    flush(p, 4);
    return p->location[node] = node;
}

static uint64_t positive(double value) {
    return value > 0 ? (uint64_t)(value + 0.5) : 0;
}

static void put_sample(pprof_t *p, const na_site_t *site) {
    na_stack_table_t stacks = na_reader_stacks(p->in->reader);
    p->packed.used = 0;
    uint32_t depth = 0;
    for (uint32_t node = site->site; node > NA_NPROF_ROOT && depth < NA_VIEW_DEEPEST;
         node = stacks.items[node].parent, depth++)
        put_varint(&p->packed, put_location(p, node));
    if (depth != 0) put_block(&p->message, 1, p->packed.bytes, p->packed.used);
    p->packed.used = 0;
    const na_counters_t *sum = &site->sum;
    const double values[] = {na_view_count(p->in, (double)sum->alloc_count),
                             (double)sum->alloc_bytes,
                             na_view_count(p->in, (double)sum->live_count), (double)sum->live_bytes,
                             (double)sum->peak_bytes};
    for (size_t i = 0; i < sizeof values / sizeof values[0]; i++)
        put_varint(&p->packed, positive(values[i]));
    put_block(&p->message, 2, p->packed.bytes, p->packed.used);
    flush(p, 2);
}

static void put_all(pprof_t *p) {
    const na_nprof_header_t *h = na_reader_header(p->in->reader);
    put_type(p, 1, "alloc_objects", "count");
    put_type(p, 1, "alloc_space", "bytes");
    put_type(p, 1, "inuse_objects", "count");
    put_type(p, 1, "inuse_space", "bytes");
    put_type(p, 1, "peak", "bytes");
    for (size_t s = 0; s < p->in->sites.count; s++) {
        na_progress("writing", s, p->in->sites.count);
        put_sample(p, &p->in->sites.items[s]);
    }
    put_type(p, 11, "space", "bytes");
    put_plain(p, 9, h->start_unix_ns);
    put_plain(p, 10, h->last_ms * 1000000);
    put_plain(p, 12, h->sample_interval != 0 ? h->sample_interval : 1);
    put_plain(p, 13, string_id(&p->strings, h->command));
    put_plain(p, 14, string_id(&p->strings, "peak"));
    for (uint32_t i = 0; i < p->strings.count; i++) {
        put_bytes(&p->message, p->strings.items[i], strlen(p->strings.items[i]));
        flush(p, 6);
    }
}

static na_status_t show_pprof(na_view_input_t *in) {
    pprof_t p = {.in = in};
    p.location = calloc((size_t)na_reader_stacks(in->reader).count + 1, sizeof *p.location);
    p.modules = calloc((size_t)na_reader_modules(in->reader).count + 1, sizeof *p.modules);
    p.functions = calloc((size_t)in->function_count + 1, sizeof *p.functions);
    fflush(stdout);
    int fd = dup(STDOUT_FILENO);
    p.to = fd < 0 ? NULL : gzdopen(fd, "wb");
    na_status_t status = NA_STATUS_MEMORY;
    if (p.location != NULL && p.modules != NULL && p.functions != NULL && p.to != NULL) {
        put_all(&p);
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

const na_view_t na_view_row_pprof = {
    .name = "pprof",
    .words = "FILE",
    .help = "for pprof (gzip-compressed profile.proto)",
    .more = "Sample types: alloc_objects, alloc_space, inuse_objects, inuse_space, peak.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .show = show_pprof,
};
