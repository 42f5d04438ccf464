/* reader_sums.c - a finished file says what its live parts were: a bit that flipped since is told.
 *
 * Files of processes that run, or were killed, have no checksums of those parts, nor have older
 * ones. Entries that lie in a part whose checksum is wrong are left out. */
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "profiler/containers/array.h"
#include "profiler/format/reader/reader_priv.h"

/* The chunk's payload, or NULL. */
static na_nprof_sum_t *read_sum_chunk(na_reader_t *reader, uint64_t at, size_t *count) {
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

static void note_wrong_sum(na_reader_t *reader, const na_nprof_sum_t *sum) {
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
static bool compare_sums(na_reader_t *reader, const na_nprof_sum_t *sums, size_t count) {
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
        if (got < sum->bytes || (uint32_t)crc32_z(0, buffer, got) != sum->crc)
            note_wrong_sum(reader, sum);
    }
    free(buffer);
    return sound;
}

void na_reader_check_sums(na_reader_t *reader) {
    const na_nprof_header_t *h = &reader->header;
    if (h->finished == 0 || h->sums == 0) return;
    if (h->used > reader->size) return; /* cut: said already, and they were the last */
    size_t count = 0;
    na_nprof_sum_t *sums = read_sum_chunk(reader, h->sums, &count);
    if (sums == NULL || !compare_sums(reader, sums, count))
        na_reader_issue(reader, NA_ISSUE_BAD_SUMS, h->sums, 0);
    free(sums);
}

/* While a thread changes an entry it is open. One that is wrong all the same was read just as it
 * was opened or sealed, and is not the same when it is read again; damage is. */
#define LOOKS 8

/* What has no checksum of the whole file. */
static bool has_checks(const na_nprof_header_t *h) {
    return (h->checks & NA_NPROF_CHECK_ONCE) != 0 && (h->finished == 0 || h->sums == 0);
}

bool na_reader_entry_holds(na_reader_t *reader, const na_chunk_ref_t *chunk, uint32_t index,
                           void *entry, size_t size, na_entry_holds_fn_t holds) {
    if (!has_checks(&reader->header) || holds(entry)) return true;
    uint64_t at = chunk->data + (uint64_t)index * chunk->entry_size;
    bool live = (chunk->flags & NA_NPROF_LIVE) != 0, same = !live;
    for (int look = 0; !same && look < LOOKS; look++) {
        uLong before = crc32_z(0, entry, size);
        size_t got = na_reader_pread(reader, entry, size, at);
        if (got == size && holds(entry)) return true;
        same = got < size || crc32_z(0, entry, size) == before;
    }
    if (!same) return true; /* it changes all the while: as good as open */
    na_reader_issue(reader, NA_ISSUE_BAD_CHECK, at, chunk->type);
    return false;
}

static bool peak_holds(const na_nprof_header_t *h) {
    return na_nprof_check_holds(h->peak_check, na_nprof_peak_check(h));
}

void na_reader_check_peak(na_reader_t *reader) {
    na_nprof_header_t *h = &reader->header, now;
    if (!has_checks(h) || h->finished != 0 || peak_holds(h)) return;
    for (int look = 0; look < LOOKS; look++) {
        if (na_reader_pread(reader, &now, sizeof now, 0) < sizeof now || !peak_holds(&now))
            continue;
        h->peak_epoch = now.peak_epoch;
        h->peak_bytes = now.peak_bytes;
        h->peak_count = now.peak_count;
        h->peak_ms = now.peak_ms;
        return;
    }
    na_reader_issue(reader, NA_ISSUE_BAD_PEAK, 0, 0);
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
