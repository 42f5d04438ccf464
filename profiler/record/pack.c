/* pack.c - Huffman codes of a part's bytes, as deflate wants them. See pack.h. */
#include "profiler/record/pack.h"

#include <stdbool.h>
#include <stddef.h>

#define LITERALS    257u /* bytes, and the end of a block */
#define END         256u
#define LONGEST     14u /* bits of a code: four of them and 7 bits fit in a word */
#define META        19u /* codes of lengths of codes */
#define META_LONG   7u
#define SMALL       1024u  /* parts that are not worth codes of their own */
#define STORED_MOST 65535u /* bytes of a stored block */
/* Header of a block, with the longest lengths; a stored one's with padding. */
#define BLOCK_BYTES 400u
#define HEAD_BYTES  16u

typedef struct code {
    uint16_t bits; /* first bit lowest */
    uint16_t length;
} code_t;

/* Bits on their way, lowest first. Fewer than 8 of them between calls. */
typedef struct bits {
    uint64_t word;
    unsigned count;
    uint8_t *to;
} bits_t;

static inline void flush(bits_t *b) {
    __builtin_memcpy(b->to, &b->word, 8);
    b->to += b->count / 8;
    b->word >>= b->count & ~7u;
    b->count %= 8;
}

static inline void add(bits_t *b, uint64_t bits, unsigned count) {
    b->word |= bits << b->count;
    b->count += count;
}

static void put(bits_t *b, uint64_t bits, unsigned count) {
    add(b, bits, count);
    flush(b);
}

static void to_byte(bits_t *b) {
    b->count = (b->count + 7) & ~7u;
    flush(b);
}

/* ---- codes ---- */

/* Lengths of an optimal code for the frequencies, ascending, all above 0, n >= 2; by Moffat and
 * Katajainen, in place. */
static void optimal_lengths(uint32_t *a, unsigned n) {
    unsigned root = 0, leaf = 2;
    a[0] += a[1];
    for (unsigned next = 1; next < n - 1; next++) { /* weights of inner nodes, then parents */
        if (leaf >= n || a[root] < a[leaf]) {
            a[next] = a[root];
            a[root++] = next;
        } else {
            a[next] = a[leaf++];
        }
        if (leaf >= n || (root < next && a[root] < a[leaf])) {
            a[next] += a[root];
            a[root++] = next;
        } else {
            a[next] += a[leaf++];
        }
    }
    a[n - 2] = 0; /* depths of inner nodes */
    for (unsigned next = n - 2; next-- > 0;)
        a[next] = a[a[next]] + 1;
    unsigned available = 1, used = 0, depth = 0, inner = n - 1, at = n;
    while (available > 0) { /* depths of leaves */
        while (inner > 0 && a[inner - 1] == depth) {
            used++;
            inner--;
        }
        while (available > used) {
            a[--at] = depth;
            available--;
        }
        available = 2 * used;
        depth++;
        used = 0;
    }
}

/* Symbols that occur, by frequency, rare ones first. */
static unsigned by_frequency(const uint32_t *frequency, unsigned symbols, uint16_t *order) {
    unsigned n = 0;
    for (unsigned s = 0; s < symbols; s++)
        if (frequency[s] != 0) order[n++] = (uint16_t)s;
    for (unsigned gap = n > 57 ? 132 : 10;; gap = gap == 132  ? 57
                                                  : gap == 57 ? 23
                                                  : gap == 23 ? 10
                                                  : gap == 10 ? 4
                                                              : 1) {
        for (unsigned i = gap; i < n; i++) {
            uint16_t symbol = order[i];
            unsigned at = i;
            for (; at >= gap && frequency[order[at - gap]] > frequency[symbol]; at -= gap)
                order[at] = order[at - gap];
            order[at] = symbol;
        }
        if (gap == 1) return n;
    }
}

static uint16_t reversed(unsigned bits, unsigned length) {
    unsigned r = 0;
    for (unsigned i = 0; i < length; i++)
        r |= (bits >> i & 1) << (length - 1 - i);
    return (uint16_t)r;
}

/* A code for these frequencies, none longer than `most`. They are changed. */
static void make_code(uint32_t *frequency, unsigned symbols, unsigned most, code_t *code) {
    uint16_t order[LITERALS];
    uint32_t lengths[LITERALS];
    for (unsigned s = 0; s < symbols; s++)
        code[s] = (code_t){0, 0};
    unsigned n = by_frequency(frequency, symbols, order);
    if (n == 1) { /* one symbol takes a bit as well; another makes the code complete */
        unsigned other = order[0] == 0 ? 1 : 0;
        order[1] = (uint16_t)other;
        if (other == 0) order[1] = order[0], order[0] = 0;
        frequency[other] = 1;
        n = 2;
    }
    for (;;) {
        for (unsigned i = 0; i < n; i++)
            lengths[i] = frequency[order[i]];
        optimal_lengths(lengths, n);
        if (lengths[0] <= most) break;
        for (unsigned i = 0; i < n; i++) /* flatter; their order stays */
            frequency[order[i]] = frequency[order[i]] / 4 + 1;
    }
    unsigned count[LONGEST + 2] = {0}, next[LONGEST + 2] = {0};
    for (unsigned i = 0; i < n; i++) {
        code[order[i]].length = (uint16_t)lengths[i];
        count[lengths[i]]++;
    }
    for (unsigned l = 1; l <= most; l++)
        next[l + 1] = (next[l] + count[l]) << 1;
    for (unsigned s = 0; s < symbols; s++)
        if (code[s].length != 0) code[s].bits = reversed(next[code[s].length]++, code[s].length);
}

/* ---- blocks ---- */

static void histogram(const uint8_t *from, uint64_t bytes, uint32_t *frequency) {
    /* Four tables: equal neighbours would wait for each other. */
    uint32_t some[4][256] = {{0}};
    uint64_t i = 0;
    for (; i + 4 <= bytes; i += 4)
#pragma GCC unroll 4
        for (unsigned k = 0; k < 4; k++)
            some[k][from[i + k]]++;
    for (; i < bytes; i++)
        some[0][from[i]]++;
    for (unsigned s = 0; s < 256; s++)
        frequency[s] = some[0][s] + some[1][s] + some[2][s] + some[3][s];
    frequency[END] = 1;
}

/* Lengths of the codes as deflate writes them: symbols of META, each with a number. */
typedef struct lengths {
    uint8_t symbol[LITERALS + 1], number[LITERALS + 1];
    unsigned count;
} lengths_t;

static void describe(lengths_t *d, const code_t *code) {
    d->count = 0;
    for (unsigned at = 0; at < LITERALS;) {
        unsigned length = code[at].length, run = 1;
        while (at + run < LITERALS && code[at + run].length == length)
            run++;
        at += run;
        if (length != 0) {
            d->symbol[d->count++] = (uint8_t)length;
            run--;
        }
        while (run >= 3) {
            unsigned most = length != 0 ? 6 : 138, n = run < most ? run : most;
            d->symbol[d->count] = length != 0 ? 16 : n <= 10 ? 17 : 18;
            d->number[d->count++] = (uint8_t)(length == 0 && n > 10 ? n - 11 : n - 3);
            run -= n;
        }
        for (; run != 0; run--)
            d->symbol[d->count++] = (uint8_t)length;
    }
    d->symbol[d->count++] = 1; /* the only distance: zlib's inflate wants one */
}

static void put_lengths(bits_t *b, const code_t *code) {
    static const uint8_t order[META] = {16, 17, 18, 0, 8,  7, 9,  6, 10, 5,
                                        11, 4,  12, 3, 13, 2, 14, 1, 15};
    lengths_t d;
    uint32_t frequency[META] = {0};
    code_t meta[META];
    describe(&d, code);
    for (unsigned i = 0; i < d.count; i++)
        frequency[d.symbol[i]]++;
    make_code(frequency, META, META_LONG, meta);
    unsigned used = META;
    while (used > 4 && meta[order[used - 1]].length == 0)
        used--;
    put(b, LITERALS - 257, 5);
    put(b, 1 - 1, 5);
    put(b, used - 4, 4);
    for (unsigned i = 0; i < used; i++)
        put(b, meta[order[i]].length, 3);
    for (unsigned i = 0; i < d.count; i++) {
        unsigned s = d.symbol[i];
        put(b, meta[s].bits, meta[s].length);
        if (s >= 16) put(b, d.number[i], s == 16 ? 2 : s == 17 ? 3 : 7);
    }
}

static void put_stored(bits_t *b, const uint8_t *from, uint64_t bytes, bool last) {
    do {
        uint64_t n = bytes < STORED_MOST ? bytes : STORED_MOST;
        put(b, last && n == bytes, 3);
        to_byte(b);
        put(b, n | (~n & 0xffff) << 16, 32);
        __builtin_memcpy(b->to, from, n);
        b->to += n;
        from += n;
        bytes -= n;
    } while (bytes != 0);
}

static void put_block(bits_t *at, const uint8_t *from, uint64_t bytes, bool last) {
    uint32_t frequency[LITERALS], scaled[LITERALS];
    code_t code[LITERALS];
    histogram(from, bytes, frequency);
    __builtin_memcpy(scaled, frequency, sizeof scaled);
    make_code(scaled, LITERALS, LONGEST, code);
    uint64_t size = 0;
    for (unsigned s = 0; s < LITERALS; s++)
        size += (uint64_t)frequency[s] * code[s].length;
    if (size / 8 >= bytes) {
        put_stored(at, from, bytes, last);
        return;
    }
    bits_t b = *at;
    put(&b, (last ? 1 : 0) | 2 << 1, 3);
    put_lengths(&b, code);
    uint64_t i = 0;
    for (; i + 4 <= bytes; i += 4) {
#pragma GCC unroll 4
        for (unsigned k = 0; k < 4; k++)
            add(&b, code[from[i + k]].bits, code[from[i + k]].length);
        flush(&b);
    }
    for (; i < bytes; i++)
        put(&b, code[from[i]].bits, code[from[i]].length);
    put(&b, code[END].bits, code[END].length);
    *at = b;
}

/* ---- the stream ---- */

static uint32_t adler32(const uint8_t *from, uint64_t bytes) {
    uint32_t a = 1, b = 0;
    while (bytes != 0) {
        /* Sums of blocks of 16: each adds 16 times the bytes before it, and its own by place. */
        uint64_t n = bytes < 4096 ? bytes : 4096, whole = n & ~UINT64_C(15);
        uint32_t sum = 0, before = 0, placed = 0;
        for (uint64_t i = 0; i < whole; i += 16) {
            before += sum;
            for (unsigned k = 0; k < 16; k++) {
                sum += from[i + k];
                placed += from[i + k] * (16 - k);
            }
        }
        b = (uint32_t)((b + (uint64_t)a * whole + UINT64_C(16) * before + placed) % 65521);
        a = (a + sum) % 65521;
        for (uint64_t i = whole; i < n; i++) {
            a += from[i];
            b += a;
        }
        a %= 65521;
        b %= 65521;
        from += n;
        bytes -= n;
    }
    return b << 16 | a;
}

uint64_t na_pack_bound(uint64_t bytes, unsigned parts) {
    return bytes + (bytes / STORED_MOST + parts + 1) * BLOCK_BYTES + HEAD_BYTES;
}

uint64_t na_pack(uint8_t *to, const uint8_t *from, const uint32_t *part_bytes, unsigned parts) {
    bits_t b = {.to = to};
    put(&b, 0x0178, 16); /* deflate, window of 32 KiB; fastest */
    uint64_t done = 0, end = 0;
    for (unsigned p = 0; p < parts; p++) {
        end += part_bytes[p];
        uint64_t next = p + 1 < parts ? part_bytes[p + 1] : 0;
        if (p + 1 == parts || (end - done >= SMALL && next >= SMALL)) {
            put_block(&b, from + done, end - done, p + 1 == parts);
            done = end;
        }
    }
    to_byte(&b);
    put(&b, __builtin_bswap32(adler32(from, end)), 32);
    return (uint64_t)(b.to - to);
}
