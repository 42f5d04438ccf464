/* control.h - when a profile begins, ends and is copied: at the start, by option, by signal, by
 * time, by memory, by a file, by the program itself, by another process
 * (profiler/format/mailbox.h).
 *
 * Requests may be made anywhere, in signal handlers as well; they are carried out by a slow path of
 * whatever thread comes first (or by the thread of NUMALLOC_BACKGROUND, which comes every 100 ms
 * also when the program sleeps), by one thread at a time, never by one that is inside a hook. */
#ifndef NUMALLOC_PROFILER_CONTROL_CONTROL_H
#define NUMALLOC_PROFILER_CONTROL_CONTROL_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"
#include "profiler/format/mailbox.h"
#include "profiler/leaks/leaks.h"

typedef enum na_request {
    NA_REQUEST_START = 1 << 8 * NA_MAILBOX_START,
    NA_REQUEST_STOP = 1 << 8 * NA_MAILBOX_STOP,
    NA_REQUEST_DUMP = 1 << 8 * NA_MAILBOX_DUMP,
    NA_REQUEST_TOGGLE = 1 << 24,
    NA_REQUEST_LEAKS = 2 << 24,
} na_request_t;

/* With the options read: registers itself as the controller (thread/switch.h), and begins the
 * profile if it is to begin with the program. Under na_init's lock. */
void na_control_init(void);
/* In the library's constructor: signal handlers. */
void na_control_at_load(void);

/* Async-signal-safe. */
void na_control_request(unsigned requests);
/* At once; for the API. 0, or a positive errno: EALREADY (start: one is running; stop: none is),
 * EINVAL (no such mode), ECANCELED (this program or rank is not to be profiled), EBUSY (a thread
 * does not come out of the profiler), EIO (the file; said on stderr), ENODATA (dump: none is
 * running, or nothing was recorded yet). `mode`, with or without settings; `file`, `settings`: NULL
 * as the options say. */
int na_control_start(na_tcache_t *tcache, const char *mode, const char *file, const char *settings);
int na_control_stop(na_tcache_t *tcache);
int na_control_dump(na_tcache_t *tcache);

/* There is a policy, and looks at it from now on: a profile that runs says what it is. */
void na_control_note_policy(void);

/* A forked child: pools that were being named are nobody's. (api_pool.c) */
void na_pools_after_fork_child(void);

/* A scan for leaks (profiler/leaks/leaks.h), by whoever is inside no hook. */
int na_control_leaks(na_leak_totals_t *leaks, bool report, uintptr_t from);

/* The process ends: a scan for leaks, the profile is closed, no other begins. True: blocks are
 * lost. */
bool na_control_at_exit(na_tcache_t *tcache);

/* control_filter.c: this program, and this process of its job, is one to profile. `programs` is a
 * list of names with *, `ranks` one of numbers and ranges; NULL or empty: any. False with
 * *bad_ranks: the list of ranks is not one. */
bool na_control_is_wanted(const char *programs, const char *ranks, bool *bad_ranks);
/* A name against a pattern with *. For tests. */
bool na_control_matches(const char *name, const char *pattern, size_t pattern_length);
/* 1 in the list, 0 not, -1: not a list. For tests. */
int na_control_has_rank(const char *ranks, int rank);
/* key=value,... with keys of letters, digits and _, and values that are not empty; at most
 * NA_NPROF_LABELS - 1 characters. */
bool na_control_are_labels(const char *labels);

#endif
