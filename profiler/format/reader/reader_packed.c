/* reader_packed.c - a small file that was packed when its process ended is read as it was before:
 * from a file in memory, which has holes where there were zeros. */
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profiler/format/reader/reader_priv.h"

typedef struct run {
    uint32_t skipped, words;
} run_t;

/* Every run lies in the file that it is a part of. */
static bool spread_runs(int fd, const uint8_t *payload, uint64_t size, uint64_t file_size) {
    uint64_t at = NA_NPROF_PAGE;
    while (size >= sizeof(run_t)) {
        run_t run;
        memcpy(&run, payload, sizeof run);
        uint64_t bytes = (uint64_t)run.words * sizeof(uint64_t);
        at += (uint64_t)run.skipped * sizeof(uint64_t);
        payload += sizeof run;
        size -= sizeof run;
        if (bytes > size || at > file_size || bytes > file_size - at) return false;
        if (pwrite(fd, payload, bytes, (off_t)at) != (ssize_t)bytes) return false;
        at += bytes;
        payload += bytes;
        size -= bytes;
    }
    return size == 0;
}

/* The chunk at the offset, or NULL. */
static na_nprof_chunk_t *read_chunk(na_reader_t *reader, uint64_t offset) {
    na_nprof_chunk_t head;
    if (offset < NA_NPROF_PAGE || na_reader_pread(reader, &head, sizeof head, offset) < sizeof head)
        return NULL;
    if (head.magic != NA_NPROF_CHUNK_MAGIC || head.self_offset != offset ||
        head.header_crc != na_nprof_chunk_crc(head) || head.type != NA_NPROF_PACKED ||
        head.flags != NA_NPROF_SEALED || head.length > NA_NPROF_PACKED_MOST ||
        head.length < sizeof head || head.raw_length > head.length - sizeof head)
        return NULL;
    na_nprof_chunk_t *chunk = malloc(head.length);
    if (chunk == NULL) return NULL;
    if (na_reader_pread(reader, chunk, head.length, offset) == head.length &&
        chunk->data_crc == na_nprof_crc32(chunk + 1, head.length - sizeof head))
        return chunk;
    free(chunk);
    return NULL;
}

bool na_reader_unpack_file(na_reader_t *reader) {
    na_nprof_header_t *h = &reader->header;
    if (h->used < NA_NPROF_PAGE || h->used > NA_NPROF_PACKED_FILE || h->used % NA_NPROF_PAGE != 0)
        return false;
    na_nprof_chunk_t *chunk = read_chunk(reader, h->packed);
    if (chunk == NULL) return false;
    int fd = memfd_create("numalloc profile", MFD_CLOEXEC);
    h->packed = 0;
    bool good = fd >= 0 && ftruncate(fd, (off_t)h->used) == 0 &&
                pwrite(fd, h, sizeof *h, 0) == (ssize_t)sizeof *h &&
                spread_runs(fd, (const uint8_t *)(chunk + 1), chunk->raw_length, h->used);
    free(chunk);
    if (!good) {
        if (fd >= 0) close(fd);
        return false;
    }
    close(reader->fd);
    reader->fd = fd;
    reader->size = h->used;
    return true;
}
