/* access_watch_lines.h - which lines of the cache are looked at word by word: where threads write
 * words of one line that none of them shares, it goes back and forth between their CPUs all the
 * same (false sharing). Words drawn at random (access_watch_draw.h) say little of that: two of one
 * line are hardly ever drawn at one time.
 *
 * A line is looked at once a window has seen that one of its words is written often. Then probes
 * follow: windows over that word and one of the others, each in turn, so that who uses the two at
 * one time is seen and not concluded. What no other thread uses is looked at again later and later,
 * what several do again and again until ENOUGH was seen, and then every now and then. A word that
 * several threads use is probed by its halves, too: it may be two.
 *
 * Probes are extra: they come between the windows of the estimate, and have no part in it.
 *
 * Decides only; used by the access thread. No calls. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_LINES_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_LINES_H

#include <stdbool.h>
#include <stdint.h>

/* What one debug register watches. */
typedef struct na_line_range {
    uintptr_t address;
    uint32_t length; /* 4 or 8, at a multiple of it */
} na_line_range_t;

/* What a probe saw of one of its ranges. */
typedef struct na_line_seen {
    uint32_t threads; /* that used it; 2: or more */
    uint32_t thread;  /* one of them, if there is any */
    bool written;
} na_line_seen_t;

void na_lines_start(void);

/* A window saw this word used, `each_ns` from one access to the next: if that is often, and some
 * were writes, its line is to be looked at. `used`: words of the line that are known to be used, a
 * bit each. */
void na_lines_met(uintptr_t word, const na_line_seen_t *seen, uint32_t used, double each_ns,
                  uint64_t now);

/* Called in a round that has the time for a probe: the next one, if one is due. */
bool na_lines_next(uint64_t now, na_line_range_t range[2]);

/* Do threads share the line that was probed last, and was too little seen of that? */
bool na_lines_open(void);

/* What that probe saw. */
void na_lines_learn(const na_line_seen_t seen[2]);

#endif
