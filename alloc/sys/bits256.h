/* bits256.h - 256-bit bitmaps, one bit for each page of a hugepage.
 *
 * Pure functions over values: no state, no locks, nothing to fail. "Run" is a stretch of bits that
 * are set. Positions and lengths are in pages (0..255 and 1..256); ranges must lie inside the map.
 */
#ifndef NUMALLOC_ALLOC_SYS_BITS256_H
#define NUMALLOC_ALLOC_SYS_BITS256_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/sys/base.h"

#define NA_BITS      256u
#define NA_BITS_NONE NA_BITS /* "no such bit" */

typedef struct na_bits {
    uint64_t w[4];
} na_bits_t;

/* The bits of [start, start + n) that fall into word i. */
NA_INLINE uint64_t na_bits_word_mask(unsigned i, unsigned start, unsigned n) {
    unsigned low = i * 64, high = low + 64;
    unsigned from = start > low ? start : low;
    unsigned to = start + n < high ? start + n : high;
    if (from >= to) return 0;
    return (~(uint64_t)0 >> (64 - (to - from))) << (from - low);
}

NA_INLINE void na_bits_set(na_bits_t *b, unsigned start, unsigned n) {
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++)
        b->w[i] |= na_bits_word_mask(i, start, n);
}

NA_INLINE void na_bits_clear(na_bits_t *b, unsigned start, unsigned n) {
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++)
        b->w[i] &= ~na_bits_word_mask(i, start, n);
}

/* How many bits are set. (The compiler's builtin is a call of its library where the processor may
 * lack the instruction, of a function that lies far from ours: layout.ld.) */
NA_INLINE unsigned na_bits_in_word(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (unsigned)(word * 0x0101010101010101 >> 56);
}

/* How many bits of the range are set. */
NA_INLINE unsigned na_bits_count(const na_bits_t *b, unsigned start, unsigned n) {
    unsigned sum = 0;
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++) {
        uint64_t word = b->w[i] & na_bits_word_mask(i, start, n);
        sum += word ? na_bits_in_word(word) : 0;
    }
    return sum;
}

NA_INLINE bool na_bits_any(const na_bits_t *b, unsigned start, unsigned n) {
    uint64_t seen = 0;
    for (unsigned i = start / 64; i <= (start + n - 1) / 64; i++)
        seen |= b->w[i] & na_bits_word_mask(i, start, n);
    return seen != 0;
}

NA_INLINE bool na_bits_empty(const na_bits_t *b) {
    return (b->w[0] | b->w[1] | b->w[2] | b->w[3]) == 0;
}

NA_INLINE na_bits_t na_bits_not(na_bits_t b) {
    return (na_bits_t){{~b.w[0], ~b.w[1], ~b.w[2], ~b.w[3]}};
}

NA_INLINE na_bits_t na_bits_and(na_bits_t a, na_bits_t b) {
    return (na_bits_t){{a.w[0] & b.w[0], a.w[1] & b.w[1], a.w[2] & b.w[2], a.w[3] & b.w[3]}};
}

NA_INLINE na_bits_t na_bits_or(na_bits_t a, na_bits_t b) {
    return (na_bits_t){{a.w[0] | b.w[0], a.w[1] | b.w[1], a.w[2] | b.w[2], a.w[3] | b.w[3]}};
}

NA_INLINE bool na_bits_full(const na_bits_t *b) {
    return (b->w[0] & b->w[1] & b->w[2] & b->w[3]) == ~(uint64_t)0;
}

/* How many of all bits are set: seldom some. */
NA_INLINE unsigned na_bits_count_all(const na_bits_t *b) {
    if (na_bits_empty(b)) return 0;
    return na_bits_full(b) ? NA_BITS : na_bits_count(b, 0, NA_BITS);
}

/* First set bit at or after `from` (0..256); NA_BITS_NONE if there is none. */
NA_INLINE unsigned na_bits_next(const na_bits_t *b, unsigned from) {
    if (from >= NA_BITS) return NA_BITS_NONE;
    unsigned i = from / 64;
    uint64_t word = b->w[i] & (~(uint64_t)0 << (from % 64));
    while (word == 0) {
        if (++i == 4) return NA_BITS_NONE;
        word = b->w[i];
    }
    return i * 64 + (unsigned)__builtin_ctzll(word);
}

/* Number of bits before `end` (0..256), counted leftwards up to the nearest set bit. */
NA_INLINE unsigned na_bits_gap_before(const na_bits_t *b, unsigned end) {
    unsigned i = end / 64;
    if (end % 64) {
        uint64_t word = b->w[i] & ~(~(uint64_t)0 << (end % 64));
        if (word) return end - (i * 64 + 64 - (unsigned)__builtin_clzll(word));
    }
    while (i-- > 0)
        if (b->w[i]) return end - (i * 64 + 64 - (unsigned)__builtin_clzll(b->w[i]));
    return end;
}

/* Number of bits from `start` on (0..256), up to the nearest set bit. */
NA_INLINE unsigned na_bits_gap_after(const na_bits_t *b, unsigned start) {
    return na_bits_next(b, start) - start;
}

/* Towards bit 0 by n (0..255); zeros enter at the top. */
NA_INLINE na_bits_t na_bits_down(na_bits_t b, unsigned n) {
    na_bits_t r;
    if (NA_LIKELY(n > 0 && n < 64)) {
        r.w[0] = b.w[0] >> n | b.w[1] << (64 - n);
        r.w[1] = b.w[1] >> n | b.w[2] << (64 - n);
        r.w[2] = b.w[2] >> n | b.w[3] << (64 - n);
        r.w[3] = b.w[3] >> n;
        return r;
    }
    unsigned words = n / 64, bits = n % 64;
    for (unsigned i = 0; i < 4; i++) {
        uint64_t low = i + words < 4 ? b.w[i + words] : 0;
        uint64_t high = i + words + 1 < 4 ? b.w[i + words + 1] : 0;
        r.w[i] = bits ? low >> bits | high << (64 - bits) : low;
    }
    return r;
}

/* The positions at which a run of at least n (1..256) bits begins or goes on: the map is and-ed
 * with itself moved, doubling the distance, so the cost is log2(n) moves whatever the pattern. */
NA_INLINE na_bits_t na_bits_starts(na_bits_t b, unsigned n) {
    unsigned have = 1;
    while (have < n) {
        unsigned step = n - have < have ? n - have : have;
        b = na_bits_and(b, na_bits_down(b, step));
        have += step;
    }
    return b;
}

/* Lowest position, a multiple of `align` (a power of two up to 256), where n bits are set in a row;
 * NA_BITS_NONE if there is none. */
NA_INLINE unsigned na_bits_find_run(na_bits_t b, unsigned n, unsigned align) {
    b = na_bits_starts(b, n);
    if (align > 1) {
        uint64_t pattern = 1;
        for (unsigned step = align; step < 64; step *= 2)
            pattern |= pattern << step;
        for (unsigned i = 0; i < 4; i++)
            b.w[i] &= i * 64 % align == 0 ? pattern : 0;
    }
    return na_bits_next(&b, 0);
}

/* The same by doubling while something is left, then adding the powers of two below: at most 16
 * moves, whatever the pattern. */
static inline unsigned na_bits_longest_of_many(na_bits_t b) {
    if (na_bits_empty(&b)) return 0;
    na_bits_t at[9]; /* at[k]: where runs of 2^k begin */
    unsigned k = 0;
    at[0] = b;
    while (k < 8) {
        na_bits_t next = na_bits_and(at[k], na_bits_down(at[k], 1u << k));
        if (na_bits_empty(&next)) break;
        at[++k] = next;
    }
    unsigned have = 1u << k;
    b = at[k]; /* where runs of `have` begin */
    while (k-- > 0 && have < NA_BITS) {
        /* A run of have + 2^k: one of `have` here, and one of 2^k right behind it. */
        na_bits_t longer = na_bits_and(b, na_bits_down(at[k], have));
        if (!na_bits_empty(&longer)) {
            b = longer;
            have += 1u << k;
        }
    }
    return have;
}

/* Length of the longest run of set bits: 0..256. Most maps have few runs: those are walked. */
NA_INLINE unsigned na_bits_longest(na_bits_t b) {
    na_bits_t gaps = na_bits_not(b);
    unsigned longest = 0, end = 0;
    for (unsigned walked = 0; walked < 6; walked++) {
        unsigned from = na_bits_next(&b, end);
        if (NA_BITS - from <= longest) return longest;
        end = na_bits_next(&gaps, from);
        if (end - from > longest) longest = end - from;
    }
    return na_bits_longest_of_many(b);
}

#endif
