/* test_pack.c - what the recorder's own compression writes, zlib's inflate reads. */
#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>
#include <zlib.h>

#include "profiler/record/pack.h"

#define PARTS 12u

static uint64_t seed = 1;

static uint32_t draw(uint32_t below) {
    seed = seed * 6364136223846793005u + 1442695040888963407u;
    return (uint32_t)((seed >> 24) % below);
}

/* Returns the size of the stream. Room is exactly what na_pack_bound says: run under a sanitizer as
 * well. */
static uint64_t there_and_back(const uint8_t *from, const uint32_t *parts, unsigned count) {
    uint64_t bytes = 0;
    for (unsigned i = 0; i < count; i++)
        bytes += parts[i];
    uint64_t room = na_pack_bound(bytes, count);
    uint8_t *packed = malloc(room), *back = malloc(bytes + 1);
    cr_assert(packed != NULL && back != NULL);
    uint64_t size = na_pack(packed, from, parts, count);
    cr_assert_leq(size, room);
    z_stream z = {.next_in = packed, .avail_in = (uInt)size, .next_out = back};
    z.avail_out = (uInt)bytes + 1;
    cr_assert_eq(inflateInit(&z), Z_OK);
    cr_assert_eq(inflate(&z, Z_FINISH), Z_STREAM_END, "%s", z.msg != NULL ? z.msg : "no end");
    cr_assert_eq(z.total_out, bytes);
    cr_assert_eq(z.avail_in, 0u, "bytes after the end");
    cr_assert_eq(memcmp(back, from, bytes), 0);
    inflateEnd(&z);
    free(packed);
    free(back);
    return size;
}

static uint8_t drawn(unsigned kind, uint32_t at, unsigned range) {
    switch (kind) {
    case 0: /* one value */
        return (uint8_t)range;
    case 1: /* nothing to gain */
        return (uint8_t)draw(256);
    case 2: /* one that is rare */
        return draw(1000) == 0 ? (uint8_t)range : 0;
    case 3: /* all as frequent */
        return (uint8_t)draw(range);
    case 4: /* each half as frequent as the last: long codes */
        return (uint8_t)(__builtin_ctz(draw(UINT32_MAX) | UINT32_C(1) << 25) * 9);
    default:
        return (uint8_t)at;
    }
}

Test(pack, is_read_by_zlib) {
    uint8_t *from = malloc(PARTS * 140000);
    cr_assert_not_null(from);
    for (unsigned round = 0; round < 300; round++) {
        uint32_t parts[PARTS], count = 1 + draw(PARTS), at = 0;
        for (unsigned i = 0; i < count; i++) {
            uint32_t most = draw(8) == 0 ? 140000 : draw(2) == 0 ? 3000 : 20;
            parts[i] = draw(6) == 0 ? 0 : draw(most);
            unsigned kind = draw(6), range = 1 + draw(255);
            for (uint32_t k = 0; k < parts[i]; k++)
                from[at++] = drawn(kind, k, range);
        }
        there_and_back(from, parts, count);
    }
    free(from);
}

/* Frequencies that grow as Fibonacci's numbers have the longest codes there are: 24 bits here,
 * which are more than deflate has. */
Test(pack, longest_codes) {
    uint32_t part = 0, a = 1, b = 1;
    for (unsigned symbol = 0; symbol < 25; symbol++) {
        part += a;
        uint32_t next = a + b;
        a = b;
        b = next;
    }
    uint8_t *from = malloc(part);
    cr_assert_not_null(from);
    uint32_t at = 0;
    a = b = 1;
    for (unsigned symbol = 0; symbol < 25; symbol++) {
        memset(from + at, (int)symbol * 7, a);
        at += a;
        uint32_t next = a + b;
        a = b;
        b = next;
    }
    uint64_t size = there_and_back(from, &part, 1);
    cr_assert_lt(size, part / 2, "%lu of %u bytes", (unsigned long)size, part);
    free(from);
}

/* What is never compressed takes little more than itself; and nothing at all. */
Test(pack, ends_of_the_range) {
    uint32_t part = 200000;
    uint8_t *from = malloc(part);
    cr_assert_not_null(from);
    for (uint32_t i = 0; i < part; i++)
        from[i] = (uint8_t)draw(256);
    uint64_t size = there_and_back(from, &part, 1);
    cr_assert_lt(size, part + 100);
    /* Equal ones: a bit each. */
    memset(from, 200, part);
    size = there_and_back(from, &part, 1);
    cr_assert_lt(size, part / 8 + 100);
    const uint32_t nothing[3] = {0, 0, 0}, one[2] = {0, 1};
    there_and_back(from, nothing, 3);
    there_and_back(from, one, 2);
    free(from);
}
