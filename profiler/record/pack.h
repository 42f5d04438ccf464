/* pack.h - a zlib stream made fast: each part's bytes coded by how frequent they are in it, and
 * nothing else (RFC 1950, RFC 1951: literals in blocks of their own codes; any inflate reads it).
 *
 * For data that has little else to find, and whose parts differ in what is frequent: coded events
 * (trace_code.h), a part a column. A fifth of the time that zlib takes for it.
 *
 * For code inside malloc too: calls nothing. */
#ifndef NUMALLOC_RECORD_PACK_H
#define NUMALLOC_RECORD_PACK_H

#include <stdint.h>

/* Room that the stream of so many bytes in so many parts needs while it is written. */
uint64_t na_pack_bound(uint64_t bytes, unsigned parts);

/* Writes the stream of the parts, which follow each other at `from`; returns its bytes. */
uint64_t na_pack(uint8_t *to, const uint8_t *from, const uint32_t *part_bytes, unsigned parts);

#endif
