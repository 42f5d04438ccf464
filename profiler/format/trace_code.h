/* trace_code.h - events, coded: units (nprof.h) to columns of bytes and back, without loss but for
 * the lowest bits of stamps.
 *
 * Both sides keep the same model of what the program did in these units, and only what the model
 * does not foresee is written. What it knows:
 *   - the allocator hands out the block of a size that was freed last, or the one after the last;
 *   - a stack asks for what it asked for last; stacks follow each other as they did before;
 *   - blocks are freed at the age at which others were, or in the order (or the reverse) in which
 *     they were allocated. A block of these units is named by its age in allocations, others by
 *     their address.
 * Each chunk begins with an empty model, so that one can be read without the others.
 *
 * Column   a varint (7 bits a byte, low ones first) each, unless it says byte
 *   0 OPS      byte: kind in bits 0..3 (8..15: frees, bit 2 of them BEFORE; 0: see EXTRA),
 * bits 4..7 how 1 TIMES    difference of stamp >> tick_shift to the event before 2 STACKS   0: as
 * the last time after the same stack; else 1 + number of the stack in this chunk 3 NODES    a stack
 * that is new in this chunk: zigzag difference to the new one before 4 SIZES    size asked for * 2
 * + 1 if the slack is as the last time for this size; else * 2, and 5 SLACKS   the slack 6 BLOCKS
 * byte (depth in the list of free blocks), or the address 7 AGES     of freed blocks 8 OLD
 * addresses of freed blocks that are not from these units 9 CLASSES  usable size / 16 of those + 1;
 * 0: as the last time in the same 8 KiB 10 EXTRA    kind 0: thread * 2, or alignment * 2 + 1 of the
 * next event; ALIGNED: alignment; MOVED with bit 7: difference of the new address
 *
 * For code inside malloc too: calls nothing, and works on memory that it is given. */
#ifndef NUMALLOC_PROFILER_FORMAT_TRACE_CODE_H
#define NUMALLOC_PROFILER_FORMAT_TRACE_CODE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/format/nprof_trace.h"

typedef struct na_trace_coder na_trace_coder_t;

/* Bytes of a coder for up to so many units; it needs no other preparation than zeroed or used
 * memory of that size, aligned to 16 bytes. */
uint64_t na_trace_coder_bytes(uint32_t units);
/* The same of one that only decodes. */
uint64_t na_trace_decoder_bytes(uint32_t units);

/* Bytes that coded (or stored) units take at most, header included. */
uint64_t na_trace_code_bound(uint32_t units);

/* Writes header and columns to `to`; returns their bytes. */
uint64_t na_trace_encode(na_trace_coder_t *coder, uint8_t *to, const na_nprof_unit_t *units,
                         uint32_t count, uint16_t tick_shift, uint32_t *events);

/* The same without coding. */
uint64_t na_trace_store(uint8_t *to, const na_nprof_unit_t *units, uint32_t count,
                        uint32_t *events);

/* Units of what either has written; false: damaged (header->units of them fit in `units`). The
 * header has been checked by na_trace_header. */
bool na_trace_decode(na_trace_coder_t *coder, const uint8_t *from, uint64_t bytes,
                     const na_nprof_trace_t *header, na_nprof_unit_t *units);

/* Copies the header out; false: it contradicts itself or the number of bytes. */
bool na_trace_header(const uint8_t *from, uint64_t bytes, na_nprof_trace_t *header);

/* Units of the event that begins with this head. */
static inline uint32_t na_trace_units(uint64_t head) {
    return (head & NA_NPROF_EVENT_MORE) != 0 ? 2 : 1;
}

#endif
