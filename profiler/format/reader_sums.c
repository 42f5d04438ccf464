/* reader_sums.c - a finished file says what its live parts were: a bit that flipped since is told.
 *
 * Files of processes that run, or were killed, have no checksums of those parts, nor have older
 * ones. Entries that lie in a part whose checksum is wrong are left out. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "profiler/containers/array.h"
#include "profiler/format/reader_priv.h"

/* The chunk's payload, or NULL. */
static na_nprof_sum_t *read_sums(na_reader_t *reader, uint64_t at, size_t *count) {
    na_nprof_chunk_t head;
    if (at < NA_NPROF_PAGE || at > reader->size || reader->size - at < sizeof head ||
        na_reader_pread(reader, &head, sizeof head, at) < sizeof head)
        return NULL;
    if (head.magic != NA_NPROF_CHUNK_MAGIC || head.self_offset != at ||
        head.header_crc != na_nprof_chunk_crc(head) || head.type != NA_NPROF_SUMS ||
        head.flags != NA_NPROF_SEALED || head.entry_size != sizeof(na_nprof_sum_t) ||
        head.length > reader->size - at || head.length < sizeof head ||
        head.raw_length > head.length - sizeof head || head.raw_length > NA_NPROF_MAX_RAW ||
        head.count != head.raw_length / sizeof(na_nprof_sum_t) ||
        head.length > NA_NPROF_MAX_RAW + 2 * NA_NPROF_PAGE)
        return NULL;
    size_t bytes = (size_t)(head.length - sizeof head);
    na_nprof_sum_t *sums = malloc(bytes + 1);
    if (sums != NULL && na_reader_pread(reader, sums, bytes, at + sizeof head) == bytes &&
        (uint32_t)crc32_z(0, (const Bytef *)sums, bytes) == head.data_crc) {
        *count = head.count;
        return sums;
    }
    free(sums);
    return NULL;
}

static uint16_t type_at(const na_reader_t *reader, uint64_t offset) {
    for (size_t c = 0; c < reader->chunk_count; c++) {
        const na_chunk_ref_t *chunk = &reader->chunks[c];
        if (offset + sizeof(na_nprof_chunk_t) >= chunk->data && offset < chunk->data + chunk->size)
            return chunk->type;
    }
    return 0;
}

static void note(na_reader_t *reader, const na_nprof_sum_t *sum) {
    bool first = reader->issues[NA_ISSUE_BAD_SUM].times == 0;
    na_reader_issue(reader, NA_ISSUE_BAD_SUM, sum->offset,
                    first ? type_at(reader, sum->offset) : 0);
    if (!NA_ARRAY_RESERVE(reader->damaged, reader->damaged_room, reader->damaged_count + 1u)) {
        na_reader_issue(reader, NA_ISSUE_MEMORY, sum->offset, 0);
        return;
    }
    reader->damaged[reader->damaged_count++] = *sum;
}

/* In order and apart, so that the file is read once, whatever the chunk says. */
static bool compare(na_reader_t *reader, const na_nprof_sum_t *sums, size_t count) {
    unsigned char *buffer = malloc(NA_NPROF_SUM_BYTES);
    uint64_t end = NA_NPROF_PAGE;
    bool sound = buffer != NULL;
    for (size_t i = 0; sound && i < count; i++) {
        const na_nprof_sum_t *sum = &sums[i];
        sound = sum->offset >= end && sum->bytes != 0 && sum->bytes <= NA_NPROF_SUM_BYTES &&
                sum->offset <= UINT64_MAX / 4;
        if (!sound) break;
        end = sum->offset + sum->bytes;
        size_t got = na_reader_pread(reader, buffer, sum->bytes, sum->offset);
        if (got < sum->bytes || (uint32_t)crc32_z(0, buffer, got) != sum->crc) note(reader, sum);
    }
    free(buffer);
    return sound;
}

void na_reader_check_sums(na_reader_t *reader) {
    const na_nprof_header_t *h = &reader->header;
    if (h->finished == 0 || h->sums == 0) return;
    if (h->used > reader->size) return; /* cut: said already, and they were the last */
    size_t count = 0;
    na_nprof_sum_t *sums = read_sums(reader, h->sums, &count);
    if (sums == NULL || !compare(reader, sums, count))
        na_reader_issue(reader, NA_ISSUE_BAD_SUMS, h->sums, 0);
    free(sums);
}

bool na_reader_is_damaged(const na_reader_t *reader, uint64_t offset, uint64_t bytes) {
    if (reader->damaged_count == 0) return false;
    size_t low = 0, high = reader->damaged_count; /* the first that ends behind `offset` */
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        const na_nprof_sum_t *part = &reader->damaged[middle];
        if (part->offset + part->bytes > offset)
            high = middle;
        else
            low = middle + 1;
    }
    return low < reader->damaged_count && reader->damaged[low].offset < offset + bytes;
}
