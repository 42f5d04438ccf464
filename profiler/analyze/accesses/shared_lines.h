/* shared_lines.h - which threads use which parts of a line of the cache, of the lines that
 * watchpoints looked at word by word (nprof_access.h, ACCESS_PROBES). A line is shared falsely
 * where threads use parts of it, one writing, that each is one thread's: it goes back and forth
 * between their CPUs, on one node as well, although they have nothing in common.
 *
 * Rates are means over the probes of a part, of a thread's own time. Of what is touched more than
 * some 100,000 times a second they are too low, alike for all. A word that several threads use is
 * taken apart where its halves are one thread's each; else they share it truly. (Of a line with
 * such a word this is open for words of whose halves none was met with several threads.)
 *
 * A line has an entry for each set of blocks that lived in it: what was done to blocks that are
 * gone says nothing of those that came after them. What the lives of blocks of one origin say
 * together is an entry as well.
 *
 * Pure. */
#ifndef NUMALLOC_PROFILER_ANALYZE_ACCESSES_SHARED_LINES_H
#define NUMALLOC_PROFILER_ANALYZE_ACCESSES_SHARED_LINES_H

#include "profiler/analyze/accesses/flows.h"

#define NA_LINE_BYTES 64u
#define NA_LINE_PARTS 16u

typedef struct na_line_part {
    uint64_t address;
    uint32_t length;      /* bytes */
    uint32_t object;      /* NA_FLOWS_NONE: not known */
    uint32_t thread;      /* that uses it most */
    uint32_t threads;     /* that were seen to */
    double own;           /* share of that thread */
    double reads, writes; /* a second, of all threads */
} na_line_part_t;

typedef struct na_line {
    uint64_t address;
    uint16_t process;
    uint32_t object;                     /* that has most of it; NA_FLOWS_NONE: not known */
    uint32_t objects;                    /* that have parts */
    na_line_part_t parts[NA_LINE_PARTS]; /* that were used, by address */
    uint32_t count;
    uint32_t threads;   /* that have a part */
    uint32_t probes;    /* with any use */
    uint32_t conflicts; /* of them: different threads used different parts, one writing */
    uint32_t turns;     /* of these: not at once, but in looks one soon after the other */
    double handovers;   /* looks that would meet both threads if each life had one hand-over */
    uint32_t lives;     /* 1; of several together: how many */
    double own;         /* share of the accesses that were by the thread that other looks at their
                         * part say it is of */
    double compared;    /* these accesses, in all, */
    uint32_t repeats;   /* and looks with any; what one look met says nothing of whose it is, unless
                         * several threads were at work in it */
    uint32_t apart;     /* words that were taken apart */
    uint32_t open;      /* and words of which it is open */
    double writes;      /* a second, to parts that are written */
    double readers; /* reads a second of parts that nobody writes, by threads that use no other */
    double reading; /* their share of the accesses to these */
    double others;  /* accesses a second by others than the thread with most */
    double rate;    /* of all */
    uint64_t first_ns, last_ns; /* of its probes */
} na_line_t;

typedef struct na_lines {
    na_line_t *items; /* most accesses by others first; after them those of several lives */
    uint32_t count;
} na_lines_t;

/* Is what some threads read beside what others write, and is nobody's to write? */
bool na_line_is_beside(const na_line_t *line);

/* Lines that any thread used. False: out of memory. Free in both cases. */
bool na_lines_make(const na_flows_t *set, na_lines_t *lines);
void na_lines_free(na_lines_t *lines);

#endif
