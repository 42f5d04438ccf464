/* mailbox.h - how another process asks for a profile: by a byte that it writes to this process's
 * memory (/proc/PID/mem, so who may trace it may ask it).
 *
 * No code runs in the process for it, no thread of it is stopped, no system call is interrupted:
 * after a stop by ptrace, epoll_wait and others end with EINTR. A slow path of whatever thread
 * comes first finds the request, as it finds one of a signal handler. Until then nothing looks, and
 * nothing is set up: the mailbox is a part of the library's data, which who asks finds by its
 * magic, at a multiple of NA_MAILBOX_ALIGN.
 *
 * Who asks
 *   1. waits until `self` is the mailbox's address: the library has begun;
 *   2. to begin a profile, writes two strings to the text, "" as the options say: MODE FILE, where
 *      a name that is not absolute counts from the directory that the process is in then;
 *   3. writes NA_MAILBOX_ASK to the request's byte of `requests`;
 *   4. adds one to the alarm's byte, so that threads look at their next slow path and not only when
 *      they come by a clock. Nobody else writes that byte but by a carry, and what is written does
 *      not matter, if only it changes. So no write of the process is lost, nor is this one.
 *   5. waits until `answers` changes: then `error` is 0, or a positive errno: EALREADY (start: one
 *      is running; stop: none is), EINVAL (no such mode), ECANCELED (the options leave this program
 *      out), EBUSY (a thread does not come out of the profiler), EIO (the file cannot be made),
 *      ENODATA (dump: none is running), EPERM (the process began with more rights than its user).
 */
#ifndef NUMALLOC_PROFILER_FORMAT_MAILBOX_H
#define NUMALLOC_PROFILER_FORMAT_MAILBOX_H

#include <stdint.h>

#define NA_MAILBOX_MAGIC   "numalloc mailbox" /* without its NUL */
#define NA_MAILBOX_VERSION 1u
#define NA_MAILBOX_ALIGN   64

/* The bytes of `requests`; the last one is the process's own. */
enum { NA_MAILBOX_START, NA_MAILBOX_STOP, NA_MAILBOX_DUMP };
#define NA_MAILBOX_ASK 2u

typedef struct na_mailbox {
    _Alignas(NA_MAILBOX_ALIGN) char magic[16];
    uint32_t version;
    _Atomic(uint32_t) requests;
    _Atomic(uint64_t) self; /* stored last; 0: the library has not begun */
    int32_t alarm, text;    /* where they are, counted from the mailbox */
    uint32_t text_size;
    int32_t error;
    _Atomic(uint32_t) answers; /* how many times requests of others were carried out */
} na_mailbox_t;

_Static_assert(sizeof(na_mailbox_t) == NA_MAILBOX_ALIGN, "");

#endif
