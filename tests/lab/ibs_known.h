/* ibs_known.h - a loop whose every instruction and access is known, for tests of machines that
 * sample instructions; and what the kernel says of the pages that it uses. */
#ifndef NUMALLOC_TESTS_LAB_IBS_KNOWN_H
#define NUMALLOC_TESTS_LAB_IBS_KNOWN_H

#include "lab.h"

enum {
    KNOWN_PAGE = 4096,
    KNOWN_INSTRUCTIONS = 16, /* of the loop */
    KNOWN_ACCESSES = 6,      /* so many of them access memory */
    KNOWN_PREFETCH = 4,      /* instructions of the loop of prefetches */
    KNOWN_FETCHES = 33,      /* of the other loop: no power of two, as periods are */
};

typedef struct known {
    const char *at; /* the instruction */
    const char *name;
    bool load, store, locked;
    unsigned width, offset; /* bytes; from a multiple of 16 */
} known_t;

extern const known_t known[KNOWN_ACCESSES];
extern const char known_at[], known_jump[], known_end[]; /* the loop, and its last instruction */

/* Goes round so many times; each time all accesses are to one place of the buffer, a pseudo-random
 * multiple of 16 bytes. `bytes` is a power of two. */
void known_run(void *buffer, size_t bytes, uint64_t rounds);
/* Straight code of KNOWN_FETCHES pieces of 32 bytes, aligned, so many times; no access to memory.
 */
void known_fetch(uint64_t rounds);
extern const char known_fetch_at[], known_fetch_end[];

/* Prefetches the address so many times: one instruction of KNOWN_PREFETCH. */
void known_prefetch(const void *address, uint64_t rounds);
extern const char known_prefetch_at[], known_prefetch_end[];

/* NULL: not one that accesses memory. */
const known_t *known_at_address(uint64_t instruction);

/* Written memory; page i is on node (first + i * step) of the table. */
char *known_buffer(size_t pages, int first, int step);
/* Of a page that has memory: from /proc/self/pagemap (root), and from move_pages. */
uint64_t known_physical(const void *address);
int known_node(const void *address);

#endif
