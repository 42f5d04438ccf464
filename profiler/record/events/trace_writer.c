/* trace_writer.c - mode trace: where buffers come from, and how full ones become chunks.
 *
 * Buffers are chunks of the file, in two sizes (a thread's first is small). One lock guards the
 * lists of free and of full ones; it is held for a few stores. At most QUEUE full ones wait: then
 * the thread that has filled another helps, and if it cannot, it waits. Two may be packed at the
 * same time, one by the recorder's thread and one by a helper.
 *
 * A full buffer's chunk is complete in the file before the buffer is used again, under the same
 * sequence number: a kill between loses nothing, and a reader takes the chunk. */
#include <errno.h>
#include <linux/futex.h>
#include <time.h>
#include <zlib.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/thread.h"
#include "profiler/format/trace_code.h"
#include "profiler/record/events/rthreads.h"
#include "profiler/record/events/trace.h"

#define SMALL_BYTES (UINT64_C(64) << 10)
#define QUEUE       4u /* full buffers that wait, at most */

/* zlib is part of the shared library. A static program has it if it links it. */
#pragma weak deflateInit2_
#pragma weak deflate
#pragma weak deflateParams
#pragma weak deflateReset
#pragma weak crc32

typedef struct packer {
    na_trace_coder_t *coder;
    uint8_t *raw, *packed; /* room for the coded events of a buffer; and compressed */
    uint64_t raw_room, packed_room;
    z_stream zlib;
    bool zlib_ready;
} packer_t;

/* One chunk of the file that holds events: what the limit on size needs to know. */
typedef struct sealed {
    uint64_t offset, length;
    uint32_t events;
} sealed_t;

static struct {
    na_lock_t lock;
    uint64_t buffer_bytes;
    unsigned level;
    bool lossy, wants_thread;
    uint64_t max;
    uint16_t shift; /* ticks >> shift are kept */
    /* Guarded by the lock: lists by offset in the file, 0: none. */
    uint64_t free[2], first, last;
    uint32_t queued, packing, sequence;
    bool sleeping, ended;
    /* Futex words. */
    _Atomic uint32_t work, done;
    _Atomic bool helper_busy;
    _Atomic bool has_thread; /* a hint while it is being made */
    packer_t packers[2];     /* of the thread, of helpers */
    /* The limit on size: a ring of the chunks there are; guarded by ring_lock. */
    na_lock_t ring_lock;
    sealed_t *ring;
    uint32_t ring_first, ring_count;
    uint64_t ring_bytes;
    na_nprof_chunk_t dropped; /* the latest room of dropped chunks; length 0: none */
} trace_writer;

#define RING (1u << 20)

/* The recorder's own thread runs. A futex word that outlives the profile: the next one must not
 * find the thread of the last. */
static _Atomic uint32_t thread_runs;

static na_nprof_buffer_t *buffer_at(uint64_t offset) {
    return na_rec_at(offset);
}

static uint64_t buffer_offset(const na_nprof_buffer_t *b) {
    return na_writer_offset(b);
}

static const na_nprof_chunk_t *chunk_of(const na_nprof_buffer_t *b) {
    return (const na_nprof_chunk_t *)b - 1;
}

unsigned na_trace_writer_shift(void) {
    return trace_writer.shift;
}

/* 0: its page was cut off the file and came back as zeros. */
uint32_t na_trace_buffer_units(const na_nprof_buffer_t *b) {
    const uint32_t header = (uint32_t)(sizeof *b / sizeof(na_nprof_unit_t));
    uint32_t count = chunk_of(b)->count;
    return count > header ? count - header : 0;
}

static bool is_small(const na_nprof_buffer_t *b) {
    return chunk_of(b)->length < trace_writer.buffer_bytes;
}

/* ---- packing ---- */

static voidpf own_zalloc(voidpf unused, uInt count, uInt size) {
    (void)unused;
    uint64_t bytes = (uint64_t)count * size;
    return na_own_alloc(bytes);
}

static void own_zfree(voidpf unused, voidpf memory) {
    (void)unused; /* never happens: a stream is made once and reset */
    (void)memory;
}

static bool packer_ready(packer_t *p) {
    if (p->packed != NULL) return true;
    uint32_t units = (uint32_t)(trace_writer.buffer_bytes / sizeof(na_nprof_unit_t));
    p->raw_room = na_trace_code_bound(units);
    p->packed_room = (uint64_t)units * 40 + 4 * NA_NPROF_PAGE; /* 32 a unit would do */
    p->coder = na_own_alloc(na_trace_coder_bytes(units));
    p->raw = na_own_alloc(p->raw_room);
    uint8_t *packed = na_own_alloc(p->packed_room);
    if (p->coder == NULL || p->raw == NULL || packed == NULL) return false;
    if (trace_writer.level != 0 && &deflateInit2_ != NULL) {
        p->zlib = (z_stream){.zalloc = own_zalloc, .zfree = own_zfree};
        /* Looking for repetitions takes twice as long for a fifth of the size at most: from level
         * 2 on. */
        int strategy = trace_writer.level == 1 ? Z_HUFFMAN_ONLY : Z_DEFAULT_STRATEGY;
        p->zlib_ready =
            deflateInit2(&p->zlib, (int)trace_writer.level, Z_DEFLATED, 15, 8, strategy) == Z_OK;
    }
    p->packed = packed;
    return true;
}

static uint32_t checksum(const uint8_t *data, uint64_t bytes) {
    if (&crc32 != NULL) return (uint32_t)crc32(0, data, (uInt)bytes);
    return na_nprof_crc32(data, bytes);
}

/* So much of the input, with this level from here on; the block ends with it. */
static bool deflate_part(z_stream *z, uint64_t bytes, int level) {
    if (deflateParams(z, level, Z_HUFFMAN_ONLY) != Z_OK) return false;
    z->avail_in = (uInt)bytes;
    return deflate(z, Z_BLOCK) == Z_OK && z->avail_in == 0;
}

/* All of it; at level 1 the times are stored as they are: they are two fifths of the bytes, and
 * would shrink by a quarter. */
static bool deflate_all(packer_t *p, uint64_t bytes, const na_nprof_trace_t *h) {
    uint64_t done = 0;
    if (trace_writer.level == 1 && h->columns != 0 && &deflateParams != NULL) {
        uint64_t times = h->column_bytes[NA_NPROF_TRACE_TIMES];
        done = sizeof *h + h->column_bytes[NA_NPROF_TRACE_OPS] + times;
        if (!deflate_part(&p->zlib, done - times, 1) || !deflate_part(&p->zlib, times, 0) ||
            deflateParams(&p->zlib, 1, Z_HUFFMAN_ONLY) != Z_OK)
            return false;
    }
    p->zlib.avail_in = (uInt)(bytes - done);
    return deflate(&p->zlib, Z_FINISH) == Z_STREAM_END;
}

/* Compresses `raw` into p->packed and fills what depends on that. */
static bool squeeze(packer_t *p, const uint8_t *raw, uint64_t bytes, na_nprof_chunk_t *c) {
    uint64_t size = 0;
    if (p->zlib_ready && deflateReset(&p->zlib) == Z_OK) {
        p->zlib.next_in = (z_const Bytef *)raw;
        p->zlib.avail_in = 0;
        p->zlib.next_out = p->packed;
        p->zlib.avail_out = (uInt)(p->packed_room - NA_NPROF_PAGE);
        na_nprof_trace_t h;
        __builtin_memcpy(&h, raw, sizeof h);
        if (deflate_all(p, bytes, &h)) {
            size = p->zlib.total_out;
            c->flags = NA_NPROF_SEALED | NA_NPROF_ZLIB;
        }
    }
    if (size == 0) {
        if (bytes > p->packed_room - NA_NPROF_PAGE) return false;
        __builtin_memcpy(p->packed, raw, bytes);
        size = bytes;
        c->flags = NA_NPROF_SEALED;
    }
    c->length = (sizeof *c + size + NA_NPROF_PAGE - 1) & ~(uint64_t)(NA_NPROF_PAGE - 1);
    uint64_t payload = c->length - sizeof *c;
    __builtin_memset(p->packed + size, 0, payload - size);
    c->raw_length = bytes;
    c->capacity = c->count = (uint32_t)bytes;
    c->data_crc = checksum(p->packed, payload);
    return true;
}

/* Gives up the oldest chunks until the limit is kept. Dropped chunks that lie one after the other
 * become one; their first page stays, so that a reader finds its way. */
static void overflow_limit(const na_nprof_chunk_t *c, uint64_t offset, uint32_t events) {
    if (trace_writer.max == 0 || trace_writer.ring == NULL) return;
    na_lock(&trace_writer.ring_lock);
    trace_writer.ring[(trace_writer.ring_first + trace_writer.ring_count) % RING] =
        (sealed_t){offset, c->length, events};
    trace_writer.ring_count++;
    trace_writer.ring_bytes += c->length;
    while ((trace_writer.ring_bytes > trace_writer.max || trace_writer.ring_count == RING) &&
           trace_writer.ring_count > 1) {
        sealed_t old = trace_writer.ring[trace_writer.ring_first];
        trace_writer.ring_first = (trace_writer.ring_first + 1) % RING;
        trace_writer.ring_count--;
        trace_writer.ring_bytes -= old.length;
        na_rec_lose(&na_rec.header->dropped_events, old.events);
        uint64_t from = old.offset + NA_NPROF_PAGE;
        if (trace_writer.dropped.length != 0 &&
            trace_writer.dropped.self_offset + trace_writer.dropped.length == old.offset) {
            trace_writer.dropped.length += old.length;
            from = old.offset;
        } else {
            trace_writer.dropped = (na_nprof_chunk_t){.type = NA_NPROF_TRACE_DROPPED,
                                                      .flags = NA_NPROF_LIVE,
                                                      .length = old.length,
                                                      .self_offset = old.offset,
                                                      .entry_size = 1};
        }
        na_writer_rewrite(&trace_writer.dropped);
        na_writer_punch(from, old.offset + old.length - from);
    }
    na_unlock(&trace_writer.ring_lock);
}

/* Makes a chunk of a buffer's events. */
static void seal(packer_t *p, const na_nprof_buffer_t *b) {
    if (b->used == 0) return;
    na_nprof_unit_t *units = (na_nprof_unit_t *)(uintptr_t)(b + 1);
    na_nprof_chunk_t c = {
        .type = NA_NPROF_TRACE,
        .thread = b->thread,
        .sequence = b->sequence,
        .entry_size = 1,
        .first_id = (uint32_t)(units->head >> 8 >> 24),
    };
    uint32_t events = 0;
    uint64_t bytes = 0, offset = 0;
    bool done = packer_ready(p);
    if (done) {
        bytes = trace_writer.level == 0 ? na_trace_store(p->raw, units, b->used, &events)
                                        : na_trace_encode(p->coder, p->raw, units, b->used,
                                                          trace_writer.shift, &events);
        done = squeeze(p, p->raw, bytes, &c) && na_writer_append(&c, p->packed, &offset);
    } else {
        events = b->used;
    }
    if (done)
        overflow_limit(&c, offset, events);
    else
        na_rec_lose(&na_rec.header->lost_events, events);
}

/* ---- lists ---- */

static void wake(_Atomic uint32_t *word) {
    atomic_fetch_add(word, 1);
    na_os_futex_wake((const uint32_t *)word, INT32_MAX);
}

static void enqueue(na_nprof_buffer_t *b) {
    uint64_t offset = buffer_offset(b);
    b->next = 0;
    na_lock(&trace_writer.lock);
    if (trace_writer.last != 0)
        buffer_at(trace_writer.last)->next = offset;
    else
        trace_writer.first = offset;
    trace_writer.last = offset;
    trace_writer.queued++;
    bool sleeping = trace_writer.sleeping;
    trace_writer.sleeping = false;
    na_unlock(&trace_writer.lock);
    if (sleeping) wake(&trace_writer.work);
}

/* Packs the oldest full buffer. False: there is none. */
static bool pack_one(packer_t *p) {
    na_lock(&trace_writer.lock);
    uint64_t offset = trace_writer.first;
    bool cut = offset == 0 && trace_writer.queued != 0; /* the links lie in the file */
    if (cut) trace_writer.queued = 0;
    if (offset != 0) {
        trace_writer.first = buffer_at(offset)->next;
        if (trace_writer.first == 0) trace_writer.last = 0;
        trace_writer.queued--;
        trace_writer.packing++;
    }
    na_unlock(&trace_writer.lock);
    if (cut) na_rec_end_at_once();
    if (offset == 0) return false;
    na_nprof_buffer_t *b = buffer_at(offset);
    seal(p, b);
    __atomic_store_n(&b->used, 0, __ATOMIC_RELEASE);
    na_lock(&trace_writer.lock);
    b->next = trace_writer.free[is_small(b)];
    trace_writer.free[is_small(b)] = offset;
    trace_writer.packing--;
    na_unlock(&trace_writer.lock);
    wake(&trace_writer.done);
    return true;
}

/* The same by a thread of the program; false: nothing to do, or another is at it. */
static bool help_writer(void) {
    if (atomic_exchange(&trace_writer.helper_busy, true)) return false;
    bool packed = pack_one(&trace_writer.packers[1]);
    atomic_store(&trace_writer.helper_busy, false);
    return packed;
}

static na_nprof_buffer_t *new_buffer(uint64_t bytes) {
    na_nprof_chunk_t *c =
        na_writer_chunk(NA_NPROF_TRACE_BUFFER, bytes, sizeof(na_nprof_unit_t), 0, 0, 0);
    if (c == NULL) return NULL;
    c->count = c->capacity;
    na_writer_publish(c);
    return (na_nprof_buffer_t *)(c + 1);
}

na_nprof_buffer_t *na_trace_writer_turn(na_rthread_t *t) {
    bool small = t->trace == NULL && trace_writer.buffer_bytes > SMALL_BYTES;
    if (t->trace != NULL) enqueue(t->trace);
    for (;;) {
        uint32_t seen =
            atomic_load(&trace_writer.done); /* before `lost`, after which it changes once more */
        if (atomic_load(&na_rec.lost)) return NULL;
        na_lock(&trace_writer.lock);
        uint64_t offset = trace_writer.free[small];
        if (offset != 0) trace_writer.free[small] = buffer_at(offset)->next;
        bool crowded = trace_writer.queued >= QUEUE;
        bool idle = trace_writer.queued + trace_writer.packing == 0;
        uint32_t sequence = ++trace_writer.sequence;
        na_unlock(&trace_writer.lock);
        if (offset == 0 && !trace_writer.has_thread && help_writer()) continue;
        na_nprof_buffer_t *b = offset != 0 ? buffer_at(offset) : NULL;
        if (b == NULL && !crowded) b = new_buffer(small ? SMALL_BYTES : trace_writer.buffer_bytes);
        if (b != NULL && na_trace_buffer_units(b) == 0) {
            na_rec_end_at_once();
            return NULL;
        }
        if (b != NULL) {
            b->thread = t->index;
            b->sequence = sequence;
            b->tick_shift = trace_writer.shift;
            return b;
        }
        if (trace_writer.lossy || idle) return NULL;
        if (!help_writer()) na_os_futex_wait((const uint32_t *)&trace_writer.done, seen);
    }
}

void na_trace_writer_lost(void) {
    wake(&trace_writer.done);
}

/* ---- the thread ---- */

static void *pack_forever(void *unused) {
    (void)unused;
    na_rthread_inside = na_rthread_own = true;
    for (;;) {
        uint32_t seen = atomic_load(&trace_writer.work);
        if (pack_one(&trace_writer.packers[0])) continue;
        na_lock(&trace_writer.lock);
        bool empty = trace_writer.first == 0, ended = trace_writer.ended;
        if (empty) trace_writer.sleeping = true;
        na_unlock(&trace_writer.lock);
        if (ended) break;
        if (!empty) continue;
        struct timespec limit = {.tv_sec = 1};
        long r = na_sys6(SYS_futex, (long)&trace_writer.work, FUTEX_WAIT_PRIVATE, seen,
                         (long)&limit, 0, 0);
        if (r != -ETIMEDOUT || !na_rthread_left_alone()) continue;
        trace_writer.wants_thread = false;
        atomic_store(&trace_writer.has_thread, false);
        break;
    }
    atomic_store(&thread_runs, 0); /* nothing of the profile is touched any more */
    na_os_futex_wake((const uint32_t *)&thread_runs, INT32_MAX);
    return NULL;
}

void na_trace_writer_thread(void) {
    if (!trace_writer.wants_thread || trace_writer.has_thread) return;
    bool inside = na_rthread_inside, own = na_rthread_own;
    na_rthread_inside = na_rthread_own = true;
    atomic_store(&thread_runs, 1);
    trace_writer.has_thread = na_thread_start(pack_forever);
    if (!trace_writer.has_thread) atomic_store(&thread_runs, 0);
    na_rthread_inside = inside;
    na_rthread_own = own;
}

/* ---- beginning and end ---- */

void na_trace_writer_start(const na_profile_config_t *config) {
    uint64_t bytes = config->trace_buffer != 0 ? config->trace_buffer : UINT64_C(1) << 20;
    __builtin_memset(&trace_writer, 0, sizeof trace_writer);
    atomic_store(&thread_runs, 0); /* a forked child has none */
    trace_writer.buffer_bytes = (bytes + NA_NPROF_PAGE - 1) & ~(uint64_t)(NA_NPROF_PAGE - 1);
    trace_writer.level = config->trace_level;
    trace_writer.lossy = config->trace_lossy;
    trace_writer.wants_thread = !config->trace_no_thread;
    trace_writer.max = config->trace_max;
    trace_writer.shift = na_rec.tsc ? 5 : 3;
    if (trace_writer.max != 0) trace_writer.ring = na_own_alloc(RING * sizeof *trace_writer.ring);
}

void na_trace_writer_take(na_nprof_buffer_t *b) {
    enqueue(b);
}

/* Until nothing is queued nor being packed; then, if it is `last`, for ever. */
static void drain_events(bool last) {
    for (;;) {
        uint32_t seen = atomic_load(&trace_writer.done);
        if (help_writer()) continue;
        na_lock(&trace_writer.lock);
        if (atomic_load(&na_rec.lost)) { /* so are the buffers, and their list */
            trace_writer.first = trace_writer.last = 0;
            trace_writer.queued = 0;
        }
        bool busy = trace_writer.queued + trace_writer.packing != 0;
        trace_writer.ended = last && !busy;
        na_unlock(&trace_writer.lock);
        if (!busy) return;
        na_os_futex_wait((const uint32_t *)&trace_writer.done, seen);
    }
}

void na_trace_writer_settle(void) {
    drain_events(false);
}

void na_trace_writer_finish(void) {
    /* What threads that have ended left. */
    for (na_rthread_t *t = atomic_exchange(&na_rec.idle, NULL); t != NULL; t = t->next)
        na_trace_ended(t);
    drain_events(true);
    wake(&trace_writer.work);
    while (atomic_load(&thread_runs) != 0)
        na_os_futex_wait((const uint32_t *)&thread_runs, 1);
    for (unsigned i = 0; i < 2; i++)
        for (uint64_t at = trace_writer.free[i]; at != 0; at = buffer_at(at)->next) {
            uint64_t from = at - sizeof(na_nprof_chunk_t);
            na_writer_punch(from + NA_NPROF_PAGE, chunk_of(buffer_at(at))->length - NA_NPROF_PAGE);
        }
}
