/* fill.h - patterns that tell a block's bytes from any other block's, and random numbers.
 *
 * A block filled with seed s holds a function of (s, position) in every byte, so a block that was
 * overlapped, moved wrongly or handed out twice does not verify. Needs no state and no memory. */
#ifndef NUMALLOC_TESTS_SUPPORT_FILL_H
#define NUMALLOC_TESTS_SUPPORT_FILL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>

/* A word at any address. (The programs are built with -fno-builtin, where memcpy is a call; under a
 * sanitizer, one into its runtime, for each word.) */
typedef uint64_t __attribute__((may_alias, aligned(1))) fill_word_t;

static inline uint64_t fill_word(uint64_t seed, size_t index) {
    return (seed ^ (uint64_t)index) * UINT64_C(0x9E3779B97F4A7C15) + UINT64_C(0x2545F4914F6CDD1D);
}

__attribute__((unused)) static void fill_block(void *block, size_t size, uint64_t seed) {
    unsigned char *bytes = (unsigned char *)block;
    size_t at = 0;
    for (; at + 8 <= size; at += 8)
        *(fill_word_t *)(bytes + at) = fill_word(seed, at);
    uint64_t last = fill_word(seed, at);
    for (size_t i = 0; at + i < size; i++)
        bytes[at + i] = (unsigned char)(last >> (8 * i));
}

/* True when the first `size` bytes are as fill_block left them. */
__attribute__((unused)) static bool fill_holds(const void *block, size_t size, uint64_t seed) {
    const unsigned char *bytes = (const unsigned char *)block;
    size_t at = 0;
    for (; at + 8 <= size; at += 8)
        if (*(const fill_word_t *)(bytes + at) != fill_word(seed, at)) return false;
    uint64_t last = fill_word(seed, at);
    for (size_t i = 0; at + i < size; i++)
        if (bytes[at + i] != (unsigned char)(last >> (8 * i))) return false;
    return true;
}

/* True when all bytes are zero. */
__attribute__((unused)) static bool fill_is_zero(const void *block, size_t size) {
    const unsigned char *bytes = (const unsigned char *)block;
    size_t at = 0;
    for (; at + 8 <= size; at += 8)
        if (*(const fill_word_t *)(bytes + at) != 0) return false;
    for (; at < size; at++)
        if (bytes[at] != 0) return false;
    return true;
}

/* xorshift64*: the same numbers in every run, so a failure can be repeated. *state is never 0. */
static inline uint64_t fill_random(uint64_t *state) {
    *state ^= *state >> 12;
    *state ^= *state << 25;
    *state ^= *state >> 27;
    return *state * UINT64_C(0x2545F4914F6CDD1D);
}

/* To be added to what a stream of random numbers begins with: other ones for each NA_TEST_SEED
 * (scripts/soak.sh); 0 without it. */
__attribute__((unused)) static uint64_t fill_seed(void) {
    const char *text = getenv("NA_TEST_SEED");
    return text != NULL ? strtoull(text, NULL, 10) << 20 : 0;
}

/* A size from 1 to 2^max_bits, each power of two equally likely. */
__attribute__((unused)) static size_t fill_random_size(uint64_t *state, unsigned max_bits) {
    uint64_t r = fill_random(state);
    unsigned bits = (unsigned)((r >> 40) % max_bits) + 1;
    return 1 + (size_t)((r & 0xFFFFFFFFU) & ((UINT64_C(1) << bits) - 1));
}

#endif
