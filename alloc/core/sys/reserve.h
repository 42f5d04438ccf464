/* reserve.h - address space that grows: a little more is reserved than is opened, the rest is left
 * to the process until it is wanted.
 *
 *   | opened: readable and writable    | reserved, inaccessible |  nobody's        |
 *   ^start              ^dumped         ^opened                  ^reserved          ^most
 *
 * Address space counts (RLIMIT_AS), and limits are set while programs run. So a piece is put at the
 * bottom of a gap that is large enough for all that it may become, and only its front is kept. The
 * system puts what others map at the top of such gaps, so it can mostly grow to the end; where
 * others came first it ends earlier. What is reserved and not opened is given back, of all pieces,
 * when the system refuses a mapping.
 *
 * What is opened is part of core files from when it is first used (na_reserve_dump_to), so that
 * they hold no more than what was in use.
 *
 * One piece is opened by one thread at a time (the lock of its owner); giving back may come from
 * any other. The lock in here is an innermost one. */
#ifndef NUMALLOC_ALLOC_CORE_SYS_RESERVE_H
#define NUMALLOC_ALLOC_CORE_SYS_RESERVE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

typedef struct na_reserve {
    uintptr_t start; /* on a boundary of NA_RESERVE_UNIT */
    size_t opened;   /* bytes from start; written under the lock in here, read anywhere */
    size_t reserved; /* under the lock in here */
    size_t most;     /* what it may become; shrinks when the addresses are others' (owner only) */
    size_t dumped;   /* in core files: bytes from start (owner only) */
    bool not_in_children; /* forked children have no such mapping (MADV_DONTFORK) */
    struct na_reserve *next;
} na_reserve_t;

#define NA_RESERVE_UNIT ((size_t)2 << 20)

/* Finds a place for `most` bytes and reserves the first `first` of them (both multiples of the
 * unit). Nobody else knows of the piece until it is joined. False: the system refuses. */
bool na_reserve_find(na_reserve_t *piece, size_t first, size_t most);
/* Undoes it, instead of joining. */
void na_reserve_drop(na_reserve_t *piece);
/* The piece stays where it is, and its spare end may be given back from now on. */
void na_reserve_join(na_reserve_t *piece);
/* The piece is not known any more; its mappings stay, if there are any. */
void na_reserve_forget(na_reserve_t *piece);
/* Unmaps all of a joined piece. */
void na_reserve_leave(na_reserve_t *piece);

/* What is said to the system of address space that is new to a piece. */
typedef void (*na_reserve_place_t)(void *owner, void *start, size_t bytes);

typedef enum na_reserve_result {
    NA_RESERVE_DONE,
    NA_RESERVE_REFUSED, /* by the system, for want of memory or address space */
    NA_RESERVE_TAKEN,   /* somebody else's mapping lies there: `most` says where it ends now */
} na_reserve_result_t;

/* Makes the piece accessible up to `to` bytes from its start (more than now, at most `most`).
 * `ahead`: so much more is to be reserved if there is not enough; less will do. */
na_reserve_result_t na_reserve_open(na_reserve_t *piece, size_t to, size_t ahead,
                                    na_reserve_place_t place, void *owner);

/* Unmaps all but the first `to` bytes; what is opened there again begins as new. */
void na_reserve_shrink(na_reserve_t *piece, size_t to);

/* na_reserve_open for an owner who maps something there himself: nothing is made accessible. Any
 * number of threads at a time; nothing to be done where it was opened before. */
na_reserve_result_t na_reserve_claim(na_reserve_t *piece, size_t to, size_t ahead,
                                     na_reserve_place_t place, void *owner);

/* Calls `place` for all that is reserved now from `from` bytes on: quick things only. */
void na_reserve_each(na_reserve_t *piece, size_t from, na_reserve_place_t place, void *owner);
/* Bytes that are reserved, opened or not. */
size_t na_reserve_bytes(const na_reserve_t *piece);

/* The first `to` bytes are used, and part of core files, and a bit more, so that this is asked
 * for rarely. Not beyond what is opened. */
void na_reserve_dump_to(na_reserve_t *piece, size_t to);

/* Gives back what no piece has opened, but for 2 MiB each. True: that was something, so that what
 * was refused may be asked for again. Any thread, with any other lock held. */
bool na_reserve_give_back(void);

/* Address space is limited, as far as is known: it was when the process started, or is since the
 * program said so, or since the system last refused some. None is to be left unused within what is
 * opened. */
extern _Atomic(bool) na_reserve_limited;

/* When the system makes huge pages. */
typedef enum na_huge_grant {
    NA_HUGE_GRANT_UNKNOWN = 1, /* no file says so, or none may be opened */
    NA_HUGE_GRANT_UNASKED,
    NA_HUGE_GRANT_ASKED,
    NA_HUGE_GRANT_NEVER,
} na_huge_grant_t;

/* Opens a file the first time, if that is allowed. Takes no lock. */
na_huge_grant_t na_reserve_huge_grant(void);

/* Asks the system, once; nothing else here does, because sandboxes may kill who asks. `may_open`:
 * a file may be opened later, to see when the system makes huge pages. `asks_for_huge`: they are
 * asked for wherever memory is reserved. */
void na_reserve_init(bool may_open, bool asks_for_huge);
/* The limit is now this (UINT64_MAX: none): what is spare is given back. */
void na_reserve_see_limit(uint64_t limit);

/* na_os_reserve for what is no piece of this kind; others give back for it what they have spare. */
void *na_reserve_whole(size_t bytes, size_t alignment);

/* Forked child only. */
void na_reserve_after_fork_child(void);

/* --- Memory for the allocator's own tables: never given back, type-stable, zeroed ---
 *
 * A bump allocator over own mappings, so that metadata does not lie between user blocks and an
 * overrun of a user block cannot reach it. Thread-safe; its lock is the innermost of all. */

/* `size` bytes aligned to `alignment` (a power of two up to the page). NULL when the system
 * refuses. */
void *na_meta_alloc(size_t size, size_t alignment);
/* Bytes mapped so far, including those not yet touched. */
uint64_t na_meta_bytes(void);
void na_meta_after_fork_child(void);

/* Chunks from now on have a page that nobody can reach before and behind them (NUMALLOC_HARDEN). */
extern bool na_meta_guarded;

#endif
