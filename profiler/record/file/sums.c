/* sums.c - checksums over what a finished file holds, so that a bit that flips later is told.
 *
 * Sealed chunks have one of their own. All else was changed through the mapping up to the end: when
 * nothing more will be, it is read back once, page by page, and the checksums become a chunk behind
 * all others (SUMS), which the header names. A thread may still be in the event that was its last,
 * so the mapping has become private before (na_writer_freeze). Where any of it fails, the file is
 * as good as one without. */
#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

#define PART  NA_NPROF_PAGE /* of the live chunks: what one flipped bit costs */
#define PIECE (UINT32_C(64) << 10)

typedef struct summer {
    uint32_t table[8][256]; /* of the crc, eight bytes at a time */
    uint8_t bytes[PIECE];
} summer_t;

typedef struct sums {
    summer_t *s;
    na_nprof_sum_t *sum;
    uint32_t count;
    int fd;
} sums_t;

static void make_crc_table(uint32_t table[8][256]) {
    for (uint32_t i = 0; i < 256; i++) {
        uint32_t crc = i;
        for (int bit = 0; bit < 8; bit++)
            crc = crc >> 1 ^ (UINT32_C(0xedb88320) & (0u - (crc & 1)));
        table[0][i] = crc;
    }
    for (uint32_t i = 0; i < 256; i++)
        for (int k = 1; k < 8; k++)
            table[k][i] = table[k - 1][i] >> 8 ^ table[0][table[k - 1][i] & 255];
}

static uint32_t crc_of(const uint32_t table[8][256], const uint8_t *p, uint64_t bytes) {
    uint32_t crc = ~0u;
    for (; bytes >= 8; p += 8, bytes -= 8) {
        uint32_t word[2];
        __builtin_memcpy(word, p, sizeof word);
        uint32_t a = word[0] ^ crc, b = word[1];
        crc = table[7][a & 255] ^ table[6][a >> 8 & 255] ^ table[5][a >> 16 & 255] ^
              table[4][a >> 24] ^ table[3][b & 255] ^ table[2][b >> 8 & 255] ^
              table[1][b >> 16 & 255] ^ table[0][b >> 24];
    }
    for (; bytes != 0; p++, bytes--)
        crc = crc >> 8 ^ table[0][(crc ^ *p) & 255];
    return ~crc;
}

static bool add_part(sums_t *m, uint64_t offset, uint64_t bytes, uint64_t part) {
    for (uint64_t end = offset + bytes; offset < end;) {
        uint64_t n = end - offset < PIECE ? end - offset : PIECE;
        if (!na_writer_read(m->fd, m->s->bytes, n, offset)) return false;
        for (uint64_t i = 0; i < n; i += part)
            m->sum[m->count++] = (na_nprof_sum_t){
                .offset = offset + i,
                .bytes = (uint32_t)(n - i < part ? n - i : part),
                .crc = crc_of(m->s->table, m->s->bytes + i, n - i < part ? n - i : part)};
        offset += n;
    }
    return true;
}

/* Where no chunk is, one was in the making: pages like others. What was thrown away means nothing.
 */
static bool add_all(sums_t *m, uint64_t end) {
    for (uint64_t at = NA_NPROF_PAGE; at < end;) {
        na_nprof_chunk_t c;
        if (!na_writer_read(m->fd, &c, sizeof c, at)) return false;
        uint64_t length = na_nprof_is_chunk(&c, at, end) ? c.length : NA_NPROF_PAGE;
        bool head = na_nprof_is_chunk(&c, at, end) &&
                    ((c.flags & NA_NPROF_SEALED) != 0 || c.type == NA_NPROF_TRACE_DROPPED);
        if (!add_part(m, at, head ? sizeof c : length, PART)) return false;
        at += length;
    }
    return true;
}

static bool may_reach(uint64_t end) {
    uint64_t limit[2]; /* soft, hard: to exceed it is a signal */
    return na_sys4(SYS_prlimit64, 0, 1 /* RLIMIT_FSIZE */, 0, (long)limit) != 0 || end <= limit[0];
}

/* Writes the chunk at header->used. */
static bool write_sums(int fd, na_nprof_chunk_t *c, const sums_t *m, uint64_t at) {
    c->magic = NA_NPROF_CHUNK_MAGIC;
    c->type = NA_NPROF_SUMS;
    c->flags = NA_NPROF_SEALED;
    c->raw_length = (uint64_t)m->count * sizeof *m->sum;
    c->length = na_nprof_chunk_length(m->count, sizeof *m->sum);
    c->self_offset = at;
    c->entry_size = sizeof *m->sum;
    c->capacity = c->count = m->count;
    c->data_crc = crc_of(m->s->table, (const uint8_t *)(c + 1), c->length - sizeof *c);
    c->header_crc = na_nprof_chunk_crc(*c);
    if (c->raw_length > NA_NPROF_MAX_RAW || !may_reach(at + c->length)) return false;
    if (na_writer_write(fd, c + 1, c->length - sizeof *c, at + sizeof *c) == 0 &&
        na_writer_write(fd, c, sizeof *c, at) == 0)
        return true;
    na_sys2(SYS_ftruncate, fd, (long)at);
    return false;
}

void na_sums_add(int fd, na_nprof_header_t *h) {
    uint64_t most = na_nprof_chunk_length(h->used / PART, sizeof(na_nprof_sum_t));
    if (h->used / PART > NA_NPROF_MAX_RAW / sizeof(na_nprof_sum_t)) return;
    sums_t m = {.fd = fd, .s = na_own_alloc(sizeof *m.s)};
    if (m.s == NULL) return;
    na_nprof_chunk_t *c = na_own_alloc(most);
    if (c != NULL) {
        m.sum = (na_nprof_sum_t *)(void *)(c + 1);
        make_crc_table(m.s->table);
        if (add_all(&m, h->used) && write_sums(fd, c, &m, h->used)) {
            h->sums = h->used;
            h->used += c->length;
        }
        na_own_give_back(c, most);
    }
    na_own_give_back(m.s, sizeof *m.s);
}

void na_sums_seal(na_nprof_header_t *h) {
    h->finished = NA_NPROF_FINISHED;
    h->mutable_crc = na_nprof_mutable_crc(*h);
}

void na_sums_finish(bool packed) {
    na_nprof_header_t *h = na_own_alloc(sizeof *h);
    if (h == NULL || !na_writer_still_ours()) return;
    __builtin_memcpy(h, na_rec.header, sizeof *h);
    if (!packed) na_sums_add(na_rec.fd, h);
    na_sums_seal(h);
    na_writer_write(na_rec.fd, &h->state, sizeof *h - NA_NPROF_MUTABLE, NA_NPROF_MUTABLE);
}
