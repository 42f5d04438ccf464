/* nprof_trace.h - the chunks of mode trace: every event by itself. See nprof.h for the rules. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_TRACE_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_TRACE_H

#include "profiler/format/nprof.h"

/* chunk.type */
#define NA_NPROF_TRACE_BUFFER  16u
#define NA_NPROF_TRACE         17u
#define NA_NPROF_TRACE_DROPPED 18u

/* Events are units of 16 bytes, one or two an event:
 *
 *   unit 0   head   bits 0..3 kind, bit 4 BEFORE, bit 5 MORE (a second unit follows),
 *                   bits 8..63 ticks of the profile's clock since its start
 *            word   bits 0..47 address of the block; bits 48..63: allocations: base-2 logarithm of
 *                   the alignment asked for, 0: none; frees: usable size / 16, 0: above 32 KiB
 *   unit 1   first  allocations and RESIZE: size asked for; frees: MOVED: address of the block that
 *                   realloc put in its place, else 0
 *            second bits 0..31 stack node, 0: not recorded; bits 32..63 allocations: slack = usable
 *                   size - size asked for
 *
 * Allocations and RESIZE always have both units. A realloc that copied its block is an allocation
 * (REALLOC), then a free (MOVED) that names it; one whose pages the system moved is the two the
 * other way round, because the old address is free first; one that left the block where it is, is
 * a RESIZE. realloc(NULL) is REALLOC alone. The two events have one stamp where they can (the one
 * of the time at which the new block was taken) and are one thread's next to each other: they are
 * one change of one block. THREAD: from here on the events are those of the
 * thread whose index is `word`.
 *
 * Order. A free is stamped before another thread can get the block, an allocation after the block
 * was taken, so that an allocation of an address never carries an earlier stamp than the free
 * before it. Equal stamps (after rounding): frees first. Stamps of one buffer never go back, and
 * the first one of a thread's next buffer is later, after rounding, than the last one here. */
#define NA_NPROF_EVENT_MALLOC       1u
#define NA_NPROF_EVENT_CALLOC       2u
#define NA_NPROF_EVENT_REALLOC      3u
#define NA_NPROF_EVENT_ALIGNED      4u
#define NA_NPROF_EVENT_NEW          5u
#define NA_NPROF_EVENT_NEW_ARRAY    6u
#define NA_NPROF_EVENT_RESIZE       7u
#define NA_NPROF_EVENT_FREE         8u
#define NA_NPROF_EVENT_DELETE       9u
#define NA_NPROF_EVENT_DELETE_ARRAY 10u
#define NA_NPROF_EVENT_MOVED        11u
#define NA_NPROF_EVENT_THREAD       12u
#define NA_NPROF_EVENT_KIND         15u /* mask */
#define NA_NPROF_EVENT_BEFORE       16u /* frees: the block is from before the profile (or a fork) */
#define NA_NPROF_EVENT_MORE         32u

typedef struct na_nprof_unit {
    uint64_t head; /* unit 1: first */
    uint64_t word; /* unit 1: second */
} na_nprof_unit_t;

_Static_assert(sizeof(na_nprof_unit_t) == 16, "");

/* TRACE_BUFFER: live, entries are units; four units of header, then events. It belongs to one
 * thread at a time and serves again and again. `used` is 0 while its header changes and is stored
 * (release) after each event: a kill loses at most the event that was being written. When it is
 * full its events become a TRACE chunk with the same sequence; a buffer whose sequence exists as a
 * TRACE chunk does not count. Sequences are given out in order over all threads, so that of one
 * thread's (or two with equal stamps) the lower comes first. */
typedef struct na_nprof_buffer {
    uint32_t used;       /* units after this header */
    uint32_t thread;     /* at its beginning; a THREAD event changes it */
    uint32_t sequence;   /* from 1 */
    uint32_t tick_shift; /* of stamps, once they are in a TRACE chunk */
    uint64_t next;       /* the writer's own use: its lists of buffers */
    uint64_t reserved1[5];
} na_nprof_buffer_t;

_Static_assert(sizeof(na_nprof_buffer_t) == 64, "four units");

/* TRACE: sealed, entry_size 1. chunk.sequence as above, chunk.thread the thread at its beginning,
 * chunk.first_id the stamp of its first event >> 24, so that a reader need not unpack it before its
 * turn. The payload is this header and then the columns, one after the other, that code the units
 * (docs/profile-format.md); stamps are multiples of 1 << tick_shift. */
#define NA_NPROF_TRACE_COLUMNS 11u
#define NA_NPROF_TRACE_OPS     0u /* the first two of them */
#define NA_NPROF_TRACE_TIMES   1u
#define NA_NPROF_TRACE_UNITS   (1u << 20) /* of one buffer or chunk, at most */
#define NA_NPROF_TRACE_RAW                                                                         \
    (UINT64_C(24) << 20) /* of a TRACE chunk's raw_length: 22 bytes a unit                         \
                          */

typedef struct na_nprof_trace {
    uint64_t first_ticks; /* >> tick_shift */
    uint32_t events;
    uint32_t units;
    uint16_t tick_shift;
    uint16_t free_stacks; /* 1: stacks of frees are there */
    uint32_t columns;     /* 0: the units follow as they are (tick_shift is 0) */
    uint32_t column_bytes[NA_NPROF_TRACE_COLUMNS];
    uint32_t reserved;
} na_nprof_trace_t;

/* TRACE_DROPPED: live, no entries: room of events that the limit on size has thrown away. */

#endif
