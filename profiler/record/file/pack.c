/* pack.c - the file of a process that allocated little takes 16 KiB when it ends.
 *
 * Tables are as large as a program that goes on needs them, and nearly empty where one does not: a
 * closed file whose words other than zero fit into three pages is packed into one chunk of them
 * (docs/profile-format.md, section 3). A process killed at any instruction leaves a whole file: the
 * chunk is written behind all others, the header names it there, it is written once more behind the
 * header, the header names it there, and the rest is cut off.
 *
 * Nobody records any more, but a thread may still be in the event that was its last. So the mapping
 * becomes memory of the process's own before the file changes under it: what lies behind the header
 * does, which has a page to itself only where the system's pages are the file's. Elsewhere files
 * stay as they are. */
#include <errno.h>
#include <sys/mman.h>
#include <unistd.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

#define PACKED_MOST (3 * NA_NPROF_PAGE)   /* of the chunk */
#define LITTLE      (UINT64_C(128) << 10) /* bytes that the process allocated, at most */
#define PIECE       (UINT64_C(8) << 10)

typedef struct packer {
    uint32_t *out; /* the payload so far, in halves of words: each run, and what it holds */
    uint32_t used, room;
    uint32_t *run;       /* the latest: words skipped, words that follow */
    uint64_t next;       /* the word behind it */
    const uint8_t *from; /* of the file, as it was read */
    uint8_t *to;         /* what will be mapped in its place */
} packer_t;

static void append_word(packer_t *p, uint64_t word) {
    p->out[p->used++] = (uint32_t)word;
    p->out[p->used++] = (uint32_t)(word >> 32);
    p->run[1]++;
    p->next++;
}

/* A word that is not zero. False: there is no more room. A single zero between two is a part of
 * their run, which takes no more than two runs would. */
static bool add_packed_word(packer_t *p, uint64_t at, uint64_t word) {
    if (p->used + 6 > p->room) return false;
    if (p->run == NULL || at > p->next + 1) {
        p->run = p->out + p->used;
        p->run[0] = (uint32_t)(at - p->next);
        p->run[1] = 0;
        p->used += 2;
        p->next = at;
    } else if (at > p->next) {
        append_word(p, 0);
    }
    append_word(p, word);
    return true;
}

/* Of the bytes [offset, offset + bytes) of the file, which were read. */
static bool add_piece(packer_t *p, uint64_t offset, uint64_t bytes) {
    for (uint64_t page = 0; page < bytes; page += NA_NPROF_PAGE) {
        const uint64_t *words = (const uint64_t *)(const void *)(p->from + page);
        bool any = false;
        for (uint64_t i = 0; i < NA_NPROF_PAGE / sizeof *words; i++) {
            if (NA_LIKELY(words[i] == 0)) continue;
            any = true;
            if (!add_packed_word(p, (offset + page) / sizeof *words + i, words[i])) return false;
        }
        if (any) __builtin_memcpy(p->to + offset + page, words, NA_NPROF_PAGE);
    }
    return true;
}

/* The threads that there are; few would have ended in a process that allocates so little. */
static bool allocated_little(void) {
    uint64_t bytes = 0;
    na_rthread_t *t = atomic_load_explicit(&na_rec.all, memory_order_acquire);
    for (; t != NULL; t = t->all_next)
        bytes += __atomic_load_n(&t->entry->alloc_bytes, __ATOMIC_RELAXED);
    return bytes <= LITTLE;
}

/* How far behind the file's header anything but a hole begins, from so far on. */
static uint64_t next_data(uint64_t from, uint64_t bytes) {
    if (!na_writer_is_sparse()) return from;
    long at = na_sys3(SYS_lseek, na_rec.fd, (long)(NA_NPROF_PAGE + from), SEEK_DATA);
    if (at == -ENXIO) return bytes;
    if (at < 0) return from;
    return ((uint64_t)at & ~(uint64_t)(NA_NPROF_PAGE - 1)) - NA_NPROF_PAGE;
}

/* All chunks, behind the header of the one that they become. */
static bool pack_chunks(packer_t *p, na_nprof_chunk_t *c, uint64_t bytes) {
    uint8_t *buffer = na_own_alloc(PIECE);
    if (buffer == NULL) return false;
    p->from = buffer;
    p->out = (uint32_t *)(void *)(c + 1);
    p->room = (PACKED_MOST - sizeof *c) / sizeof *p->out;
    for (uint64_t done = 0; (done = next_data(done, bytes)) < bytes;) {
        uint64_t n = bytes - done < PIECE ? bytes - done : PIECE;
        if (!na_writer_read(na_rec.fd, buffer, n, NA_NPROF_PAGE + done) || !add_piece(p, done, n))
            return false;
        done += n;
    }
    c->type = NA_NPROF_PACKED;
    c->flags = NA_NPROF_SEALED;
    c->raw_length = (uint64_t)p->used * sizeof *p->out;
    c->length = (sizeof *c + c->raw_length + NA_NPROF_PAGE - 1) & ~(uint64_t)(NA_NPROF_PAGE - 1);
    c->entry_size = sizeof(uint64_t);
    c->capacity = c->count = (uint32_t)(c->raw_length / sizeof(uint64_t));
    c->data_crc = na_nprof_crc32(c + 1, c->length - sizeof *c);
    return true;
}

static bool put_at(na_nprof_chunk_t *c, uint64_t offset) {
    c->self_offset = offset;
    if (!na_writer_put(c)) return false;
    /* The header may be mapped privately by now. */
    __atomic_store_n(&na_rec.header->packed, offset, __ATOMIC_RELEASE);
    return na_writer_write(na_rec.fd, &offset, sizeof offset,
                           offsetof(na_nprof_header_t, packed)) == 0;
}

bool na_pack(void) {
    na_nprof_header_t *h = na_rec.header;
    uint64_t used = h->used, bytes = used - NA_NPROF_PAGE, mapped = na_rec.mapped_to;
    if (na_os_page != NA_NPROF_PAGE || used > NA_NPROF_PACKED_FILE || bytes <= PACKED_MOST ||
        atomic_load(&na_rec.lost) || h->disk_full != 0 || !allocated_little())
        return false;
    na_nprof_chunk_t *c = na_own_alloc(PACKED_MOST);
    if (c == NULL) return false;
    /* What was appended is not mapped: the copy of that is let go of. */
    uint64_t live = (mapped < used ? mapped : used) - NA_NPROF_PAGE;
    long copy = na_sys6(SYS_mmap, 0, (long)bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (copy <= 0) return false;
    packer_t p = {.to = (uint8_t *)copy};
    long to = (long)na_rec_at(NA_NPROF_PAGE);
    if (live == 0 || !na_writer_still_ours() || !pack_chunks(&p, c, bytes) ||
        na_sys6(SYS_mremap, copy, (long)bytes, (long)live, MREMAP_MAYMOVE | MREMAP_FIXED, to, 0) !=
            to) {
        na_sys2(SYS_munmap, copy, (long)bytes);
        return false;
    }
    if (!put_at(c, used) || !put_at(c, NA_NPROF_PAGE)) return h->packed != 0;
    na_sys2(SYS_ftruncate, na_rec.fd, (long)(NA_NPROF_PAGE + c->length));
    return true;
}
