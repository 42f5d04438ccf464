/* report_words.h - the words of a guard's report, from what the process said about the block. */
#ifndef NUMALLOC_TESTS_SUPPORT_REPORT_WORDS_H
#define NUMALLOC_TESTS_SUPPORT_REPORT_WORDS_H

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>

/* The block that the error is in, and the address that was used wrongly. */
typedef struct report_facts {
    uintptr_t block, address;
    size_t size;
} report_facts_t;

/* How far the address is from the block: before it, into it, or behind its last byte. */
static size_t report_distance(const report_facts_t *f) {
    uintptr_t end = f->block + f->size;
    return f->address < f->block ? f->block - f->address
           : f->address < end    ? f->address - f->block
                                 : f->address - end + 1;
}

/* Writes `from` with %A: the address, %B: the block, %S: its size, and %D: the distance, both with
 * their unit ("1 byte", "40 bytes"). */
static void report_expand(char *to, size_t room, const char *from, const report_facts_t *f) {
    size_t n = 0;
    for (; *from != 0 && n + 32 < room; from++) {
        size_t bytes = 0;
        if (*from != '%') {
            to[n++] = *from;
            continue;
        }
        switch (*++from) {
        case 'A':
            n += (size_t)snprintf(to + n, room - n, "%#" PRIxPTR, f->address);
            continue;
        case 'B':
            n += (size_t)snprintf(to + n, room - n, "%#" PRIxPTR, f->block);
            continue;
        case 'S':
            bytes = f->size;
            break;
        default:
            bytes = report_distance(f);
        }
        n += (size_t)snprintf(to + n, room - n, "%zu byte%s", bytes, bytes == 1 ? "" : "s");
    }
    to[n] = 0;
}

#endif
