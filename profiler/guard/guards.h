/* guards.h - guarded blocks: NUMALLOC_GUARD.
 *
 * A few blocks of the program lie by themselves on pages of a large range of addresses, the area,
 * between pages that nobody may touch. An access beyond such a block, or to it after it was freed,
 * is a fault where it happens, and a handler says what it was: whose block, and where it was
 * allocated and freed.
 *
 *   area   | inaccessible | slot | - | slot | - - - | slot | - | ... freed slots: inaccessible too
 *   slot   one or more of the system's pages; the block lies at their end (three of four) or at
 * their beginning; what is left beside it, up to NA_GUARD_CANARY bytes, has a pattern that is
 *          looked at when the block is freed, and when the process ends
 *
 * Slots are made in the order of addresses, round and round; those of live blocks are passed by. So
 * a freed block stays inaccessible until the area has gone round once: NA_GUARD_AREA bytes of
 * slots, 17 seconds or more at the highest rate. What is known of it (the record) lies in a ring
 * of NA_GUARD_RECORDS. All tables and what live blocks hold are about a megabyte.
 *
 * What was drawn and is not guarded, for want of room or since its site has its share, lies between
 * canaries (canaries.c), on accessible pages: errors there are found late.
 *
 * Who calls whom:
 *
 *   guards.c        begins; the functions of alloc/guard/guarded.h; fork; the end
 *   choose.c        whether a block that was drawn is guarded; sites
 *   known_sites.c   where earlier runs found errors
 *   area.c          slots, records; the system calls
 *   canaries.c      blocks between canaries
 *   guard_stacks.c  stacks and modules
 *   guard_file.c    the file
 *   handler.c       signals: ours, and the program's behind it
 *   guard_report.c  an error: what it is, in words, into the file
 *
 * Locks: one, `na_guards.lock`, innermost, held for microseconds, and by fork. Who cannot have it
 * at once does not guard a block; who frees one and cannot have it in two milliseconds, because it
 * is the holder itself (a signal handler) or a fork holds it, leaves the block to the holder. The
 * handler takes none: it reads records as they are, and looks again. */
#ifndef NUMALLOC_PROFILER_GUARD_GUARDS_H
#define NUMALLOC_PROFILER_GUARD_GUARDS_H

#include <signal.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/guard/guarded.h"

#define NA_GUARD_SMALL 32768u /* bytes of a block: the small classes; larger ones: guarded.h */

/* In the library's constructor, when a profile that begins with the program has begun. Nothing,
 * unless NUMALLOC_GUARD asks for it. */
void na_guard_at_load(void);
/* The process ends: live guarded blocks are looked at. */
void na_guard_at_exit(void);
/* For NUMALLOC_STATS=1. */
void na_guard_print(int fd);

/* --- handler.c --- */

/* na_guard_t.sigaction. */
int na_guard_sigaction(int number, const struct sigaction *action, struct sigaction *old,
                       na_sigaction_t *next);

#endif
