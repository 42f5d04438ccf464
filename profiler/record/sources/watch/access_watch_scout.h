/* access_watch_scout.h - finds the memory that threads work on now: words that are used much are
 * few, and drawing among all of the heap's meets them late.
 *
 * A clock of perf's interrupts each thread every few milliseconds of its CPU time; the kernel
 * copies its registers, and the instruction that it is at is decoded here, or one of the next:
 * where its operand lies. What waits longest is seen most often, as threads that wait for a line of
 * another CPU's. It is not known which of these accesses happened, and none is counted: the words
 * are only looked at first (access_watch_lines.h, and as words that are known:
 * access_watch_draw.h).
 *
 * Used by the access thread. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_SCOUT_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_SCOUT_H

#include <linux/perf_event.h>
#include <stdbool.h>
#include <stdint.h>

/* The clock's event. */
void na_scout_ask(struct perf_event_attr *attr);
#define NA_SCOUT_BYTES 256u /* of a sample, at most */

void na_scout_start(void);

/* The memory operand of the instruction at `code`, of which `count` bytes can be read, with the
 * general registers in the order that instructions number them. `ip`: where it is. 0: it has none,
 * or that is not known. *next: where the next one is, as far as that is known, else 0; of a branch
 * backward its target. */
uintptr_t na_scout_operand(const uint8_t *code, uint32_t count, uint64_t ip,
                           const uint64_t registers[16], uint64_t *next);

/* Does the instruction write its operand, if it has one? True as well where that is not known. */
bool na_scout_may_write(const uint8_t *code);

/* What a sample says: `words` follow the fields of na_perf_hit_t. */
typedef struct na_scout_word {
    uintptr_t address; /* 0: none */
    bool shared;       /* its line was seen with several threads lately */
    bool written;      /* and with an instruction that writes, or may */
    bool again;        /* and the word itself before */
    uint32_t words;    /* of its line that were seen: a bit each */
} na_scout_word_t;
na_scout_word_t na_scout_take(uint64_t ip, uint32_t tid, const uint64_t *words, uint32_t count);

#endif
