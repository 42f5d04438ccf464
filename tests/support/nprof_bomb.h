/* nprof_bomb.h - small files that inflate to a great deal (nprof_make.h), for the tests of the
 * reader's budget and the fuzzer's corpus. */
#ifndef NUMALLOC_TESTS_SUPPORT_NPROF_BOMB_H
#define NUMALLOC_TESTS_SUPPORT_NPROF_BOMB_H

#include "profiler/format/trace_code.h"
#include "tests/support/nprof_make.h"

/* Begins a trace with three stacks. */
static inline void na_make_trace(na_make_t *m) {
    na_make_begin(m);
    na_make_header(m)->mode = NA_NPROF_MODE_TRACE;
    na_make_seal_header(m);
    na_nprof_chunk_t *c =
        na_make_chunk(m, NA_NPROF_STACKS, NA_NPROF_PAGE, sizeof(na_nprof_stack_t), 1);
    for (uint32_t i = 0; i < 3; i++)
        na_make_stack(c, i, 0x1000 + i);
    na_make_seal(c);
}

/* Adds a compressed chunk of allocations that are never freed, 64 bytes each, one behind the other.
 * jitter 0: all at the same distance in time, which compresses to next to nothing; else as uneven
 * as a clock's. Returns the stamp after the last. */
static inline uint64_t na_make_blocks(na_make_t *m, uint32_t number, uint32_t blocks,
                                      uint64_t ticks, uint32_t jitter) {
    static uint64_t state = UINT64_C(88172645463325252);
    na_nprof_unit_t *units = malloc(2 * (size_t)blocks * sizeof *units);
    uint8_t *coded = malloc(na_trace_code_bound(2 * blocks));
    na_trace_coder_t *coder =
        aligned_alloc(64, (na_trace_coder_bytes(2 * blocks) + 63) & ~UINT64_C(63));
    if (units == NULL || coded == NULL || coder == NULL) abort();
    uint64_t base = UINT64_C(0x7f0000000000) + (uint64_t)number * blocks * 64;
    uint64_t first = ticks;
    for (uint32_t i = 0; i < blocks; i++) {
        units[2 * i] = (na_nprof_unit_t){ticks << 8 | NA_NPROF_EVENT_MORE | NA_NPROF_EVENT_MALLOC,
                                         base + (uint64_t)i * 64};
        units[2 * i + 1] = (na_nprof_unit_t){64, 3};
        state ^= state << 13, state ^= state >> 7, state ^= state << 17;
        ticks += 64 + (jitter != 0 ? state % jitter : 0);
    }
    uint32_t events;
    uint64_t size = na_trace_encode(coder, coded, units, 2 * blocks, 2, &events);
    na_nprof_chunk_t *c =
        na_make_chunk(m, NA_NPROF_TRACE, na_nprof_chunk_length((uint32_t)size, 1), 1, 0);
    c->sequence = number + 1;
    c->thread = 1;
    c->first_id = (uint32_t)(first >> 24);
    memcpy(c + 1, coded, size);
    c->count = (uint32_t)size;
    na_make_seal_last(m, c, 1);
    free(coder);
    free(coded);
    free(units);
    return ticks;
}

/* Adds a compressed chunk of cells, one for each of so many sites. */
static inline void na_make_sites(na_make_t *m, uint32_t first, uint32_t sites) {
    na_nprof_chunk_t *c =
        na_make_chunk(m, NA_NPROF_CELLS, na_nprof_chunk_length(sites, sizeof(na_nprof_cell_t)),
                      sizeof(na_nprof_cell_t), 0);
    na_nprof_cell_t cell = {.alloc_count = 1, .alloc_bytes = 64};
    for (uint32_t i = 0; i < sites; i++) {
        cell.site = first + i;
        na_make_entry(c, &cell, sizeof cell);
    }
    na_make_seal_last(m, c, 1);
}

#endif
