/* export_bundle.c - a copy of the profile with its symbols in it, so that it reads on a machine
 * that has neither the programs nor their debug information. */
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>
#include <zlib.h>

#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

/* A chunk is closed when its text is about to pass this: well below NA_NPROF_MAX_RAW. */
#define CHUNK_TEXT ((size_t)16 << 20)

typedef struct bundle {
    const na_view_input_t *in;
    FILE *text; /* the chunk being made */
    char *bytes;
    size_t size;
    uint64_t offset; /* in the new file */
    uint32_t sequence;
} bundle_t;

static bool open_text(bundle_t *b) {
    b->text = open_memstream(&b->bytes, &b->size);
    return b->text != NULL;
}

/* Writes what was gathered as one sealed chunk. */
static bool close_chunk(bundle_t *b) {
    bool good = fclose(b->text) == 0;
    b->text = NULL;
    uLongf packed = compressBound((uLong)b->size);
    size_t room = sizeof(na_nprof_chunk_t) + packed + NA_NPROF_PAGE;
    unsigned char *chunk = good && b->size != 0 ? calloc(1, room) : NULL;
    if (chunk != NULL && compress2(chunk + sizeof(na_nprof_chunk_t), &packed, (Bytef *)b->bytes,
                                   (uLong)b->size, Z_BEST_COMPRESSION) == Z_OK) {
        na_nprof_chunk_t head = {
            .magic = NA_NPROF_CHUNK_MAGIC,
            .type = NA_NPROF_SYMBOLS,
            .flags = NA_NPROF_SEALED | NA_NPROF_ZLIB,
            .length = na_nprof_chunk_length(packed, 1),
            .self_offset = b->offset,
            .raw_length = b->size,
            .sequence = b->sequence++,
            .entry_size = 1,
            .capacity = (uint32_t)b->size,
            .count = (uint32_t)b->size,
        };
        head.data_crc = (uint32_t)crc32(crc32(0, NULL, 0), chunk + sizeof head,
                                        (uInt)(head.length - sizeof head));
        head.header_crc = na_nprof_chunk_crc(head);
        memcpy(chunk, &head, sizeof head);
        good = fwrite(chunk, 1, head.length, stdout) == head.length;
        b->offset += head.length;
    } else if (b->size != 0) {
        good = false;
    }
    free(chunk);
    free(b->bytes);
    b->bytes = NULL;
    b->size = 0;
    return good;
}

/* A field; what would divide lines or fields becomes '?' (na_text_put). */
static void put_field(bundle_t *b, const char *text) {
    putc('\t', b->text);
    if (text != NULL) na_text_put(b->text, text);
}

static bool put_node_frames(bundle_t *b, const na_nprof_stack_t *node,
                            const na_symbol_frame_t *frames, uint32_t count) {
    fprintf(b->text, "P\t%" PRIx64 "\t%u\t%d\n", node->pc, NA_NPROF_STACK_MODULE(node->flags),
            (node->flags & NA_NPROF_STACK_EXACT) != 0);
    for (uint32_t i = 0; i < count; i++) {
        const na_symbol_frame_t *f = &frames[i];
        const na_function_name_t *home = na_symbols_function(b->in->symbols, f->id);
        putc('F', b->text);
        put_field(b, f->function);
        put_field(b, f->file);
        fprintf(b->text, "\t%u", f->line);
        put_field(b, home->file);
        fprintf(b->text, "\t%u\t%" PRIx64 "\t%d\t%u\n", home->line, f->offset,
                (f->inlined ? 1 : 0) | (f->named ? 2 : 0) | (f->runtime ? 4 : 0), home->apart);
    }
    if (ftell(b->text) < (long)CHUNK_TEXT) return true;
    return close_chunk(b) && open_text(b);
}

static int frames_by_address(const void *a, const void *b) {
    const na_symbol_frame_t *x = *(const na_symbol_frame_t *const *)a,
                            *y = *(const na_symbol_frame_t *const *)b;
    return (x > y) - (x < y);
}

/* Every list of frames once. */
static bool put_frame_lists(bundle_t *b) {
    na_stack_table_t stacks = na_reader_stacks(b->in->reader);
    const na_symbol_frame_t **seen = calloc((size_t)stacks.count + 1, sizeof *seen);
    bool *first = calloc((size_t)stacks.count + 1, sizeof *first);
    bool good = seen != NULL && first != NULL && open_text(b);
    size_t count = 0;
    for (uint32_t node = NA_NPROF_ROOT + 1; good && node < stacks.count; node++) {
        const na_symbol_frame_t *frames;
        if (na_symbols_frames(b->in->symbols, node, &frames) != 0) seen[count++] = frames;
    }
    /* Entries of one pc share their list: of a run of equal addresses the first counts. */
    if (good && count != 0) qsort(seen, count, sizeof *seen, frames_by_address);
    size_t kept = 0;
    for (size_t i = 0; i < count; i++)
        if (kept == 0 || seen[kept - 1] != seen[i]) seen[kept++] = seen[i];
    for (uint32_t node = NA_NPROF_ROOT + 1; good && node < stacks.count; node++) {
        const na_symbol_frame_t *frames;
        uint32_t frame_count = na_symbols_frames(b->in->symbols, node, &frames);
        if (frame_count == 0) continue;
        const na_symbol_frame_t **at =
            bsearch(&frames, seen, kept, sizeof *seen, frames_by_address);
        if (at == NULL || first[at - seen]) continue;
        first[at - seen] = true;
        good = put_node_frames(b, &stacks.items[node], frames, frame_count);
    }
    if (b->text != NULL) good = close_chunk(b) && good;
    free(first);
    free(seen);
    return good;
}

static na_status_t copy_file(bundle_t *b) {
    uint64_t used = na_reader_header(b->in->reader)->used;
    uint64_t size = na_reader_file_size(b->in->reader);
    if (used > size) used = size & ~(uint64_t)(NA_NPROF_PAGE - 1);
    char *block = malloc(1 << 20);
    errno = 0;
    na_status_t status = block == NULL ? NA_STATUS_MEMORY : NA_STATUS_WHOLE;
    while (status == NA_STATUS_WHOLE && b->offset < used) {
        size_t want = used - b->offset < (1 << 20) ? (size_t)(used - b->offset) : 1 << 20;
        size_t got = na_reader_raw(b->in->reader, block, want, b->offset);
        if (got == 0) {
            status = na_fail("%s: cannot read: %s", b->in->path,
                             errno != 0 ? strerror(errno) : "it has become shorter");
            break;
        }
        fwrite(block, 1, got, stdout);
        b->offset += got;
    }
    free(block);
    return status;
}

/* The header's second part has a checksum, if the file is finished. One that was wrong stays so. */
static na_status_t patch_used(bundle_t *b) {
    if (fflush(stdout) != 0) return NA_STATUS_WHOLE; /* na_output_end says it */
    na_nprof_header_t h;
    if (na_reader_raw(b->in->reader, &h, sizeof h, 0) < sizeof h)
        return na_fail("%s: cannot read: it has become shorter", b->in->path);
    bool good = h.finished != 0 && h.mutable_crc == na_nprof_mutable_crc(h);
    h.used = b->offset;
    if (good) h.mutable_crc = na_nprof_mutable_crc(h);
    const char *from = (const char *)&h + NA_NPROF_MUTABLE;
    size_t bytes = sizeof h - NA_NPROF_MUTABLE;
    ssize_t n = pwrite(STDOUT_FILENO, from, bytes, NA_NPROF_MUTABLE);
    if (n == (ssize_t)bytes) return NA_STATUS_WHOLE;
    return na_fail("cannot write the output: %s", n < 0 ? strerror(errno) : "no room");
}

static na_status_t show_bundle(na_view_input_t *in) {
    size_t size;
    if (na_reader_symbols(in->reader, &size) != NULL)
        return na_fail("%s: has its symbols already", in->path);
    bundle_t b = {.in = in};
    na_status_t status = copy_file(&b);
    if (status != NA_STATUS_WHOLE) return status;
    if (!put_frame_lists(&b)) return ferror(stdout) ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
    return patch_used(&b);
}

const na_view_t na_view_row_bundle = {
    .name = "bundle",
    .words = "FILE",
    .help = "a copy with its symbols in it (-o FILE), which reads on any machine",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_FACTS | NA_VIEW_PROFILE,
    .without = "it writes a profile",
    .show = show_bundle,
};
