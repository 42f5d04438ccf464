/* spe_make.h - writes records of Arm's SPE as a processor would, packet by packet, for the tests of
 * their decoder and for the fuzzer's seeds. Written from the architecture's manual, with nothing of
 * the decoder's. */
#ifndef NUMALLOC_TESTS_SUPPORT_SPE_MAKE_H
#define NUMALLOC_TESTS_SUPPORT_SPE_MAKE_H

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

enum { SPE_MAKE_MOST = 65536 };

typedef struct spe_make {
    uint8_t bytes[SPE_MAKE_MOST];
    size_t size;
} spe_make_t;

static inline void spe_byte(spe_make_t *m, unsigned byte) {
    if (m->size >= SPE_MAKE_MOST) abort();
    m->bytes[m->size++] = (uint8_t)byte;
}

static inline void spe_payload(spe_make_t *m, unsigned bytes, uint64_t value) {
    for (unsigned i = 0; i < bytes; i++)
        spe_byte(m, (unsigned)(value >> 8 * i & 0xff));
}

static inline unsigned spe_size_bits(unsigned bytes) {
    return bytes == 1 ? 0x00 : bytes == 2 ? 0x10 : bytes == 4 ? 0x20 : 0x30;
}

static inline void spe_pad(spe_make_t *m, unsigned count) {
    while (count-- > 0)
        spe_byte(m, 0x00);
}

static inline void spe_end(spe_make_t *m) {
    spe_byte(m, 0x01);
}

static inline void spe_events(spe_make_t *m, unsigned bytes, uint64_t events) {
    spe_byte(m, 0x42 | spe_size_bits(bytes));
    spe_payload(m, bytes, events);
}

static inline void spe_source(spe_make_t *m, unsigned bytes, uint64_t source) {
    spe_byte(m, 0x43 | spe_size_bits(bytes));
    spe_payload(m, bytes, source);
}

static inline void spe_op(spe_make_t *m, unsigned class, unsigned op) {
    spe_byte(m, 0x48 | class);
    spe_payload(m, 1, op);
}

static inline void spe_context(spe_make_t *m, unsigned index, uint32_t context) {
    spe_byte(m, 0x64 | index);
    spe_payload(m, 4, context);
}

static inline void spe_time(spe_make_t *m, uint64_t time) {
    spe_byte(m, 0x71);
    spe_payload(m, 8, time);
}

/* Indices of eight and more have the longer header. */
static inline void spe_indexed(spe_make_t *m, unsigned header, unsigned index) {
    if (index > 7) spe_byte(m, 0x20 | index >> 3);
    spe_byte(m, header | (index & 7));
}

static inline void spe_counter(spe_make_t *m, unsigned index, unsigned cycles) {
    spe_indexed(m, 0x98, index);
    spe_payload(m, 2, cycles);
}

static inline void spe_address(spe_make_t *m, unsigned index, uint64_t address) {
    spe_indexed(m, 0xb0, index);
    spe_payload(m, 8, address);
}

/* Not a secure world's, at a level of privilege. */
static inline uint64_t spe_pc(uint64_t address, unsigned level) {
    return (address & 0xffffffffffffff) | UINT64_C(1) << 63 | (uint64_t)level << 61;
}

/* The next packet begins at a multiple of 2^(n+1). */
static inline void spe_align(spe_make_t *m, unsigned n) {
    spe_byte(m, 0x20 | n);
    spe_byte(m, 0x00);
    while (m->size % (2u << n) != 0)
        spe_byte(m, 0xee); /* never looked at */
}

/* A load as Neoverse cores write one: 61 bytes, then padding to 64. */
static inline void spe_load(spe_make_t *m, uint64_t pc, uint64_t address, uint64_t time) {
    spe_address(m, 0, spe_pc(pc, 0));
    spe_context(m, 0, 4711);
    spe_op(m, 1, 0x00);
    spe_events(m, 2, 0x0a | 0x14 | 0x300); /* retired, missed the first and the last cache */
    spe_counter(m, 1, 20);
    spe_counter(m, 2, 3);
    spe_counter(m, 0, 320);
    spe_address(m, 2, address);
    spe_source(m, 1, 0x0e);
    spe_time(m, time);
    spe_pad(m, (unsigned)(-m->size & 63));
}

static inline void spe_store(spe_make_t *m, uint64_t pc, uint64_t address, uint64_t time) {
    spe_address(m, 0, spe_pc(pc, 0));
    spe_op(m, 1, 0x01);
    spe_events(m, 2, 0x02 | 0x14);
    spe_counter(m, 1, 5);
    spe_counter(m, 0, 9);
    spe_address(m, 2, address);
    spe_address(m, 3, UINT64_C(1) << 63 | (address & 0xfffff));
    spe_time(m, time);
    spe_pad(m, (unsigned)(-m->size & 63));
}

#endif
