/* unwind.h - the call stack of the calling thread, from inside malloc.
 *
 * x86-64: exact, by call frame information, whatever the program was compiled with; every read of
 * the stack is known to be safe before it is made. Other machines: frame pointers.
 * Thread-safe, async-signal-safe, allocates nothing, takes no lock, keeps errno. */
#ifndef NUMALLOC_PROFILER_RECORD_UNWIND_UNWIND_H
#define NUMALLOC_PROFILER_RECORD_UNWIND_UNWIND_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

/* A return address as it lies on the stack: on aarch64 its upper bits may be a signature (pointer
 * authentication). The instruction that takes that off is none to processors that do not sign. */
NA_INLINE uintptr_t na_unwind_address(uintptr_t ra) {
#if defined(__aarch64__)
    __asm__("mov x30, %0\n\t"
            "hint #7\n\t" /* xpaclri */
            "mov %0, x30"
            : "+r"(ra)
            :
            : "x30");
#endif
    return ra;
}

/* What is known of one thread's stack: [lo, hi) has been found readable throughout, and [other_lo,
 * other_hi) is known not to be that stack. All zero at first. Used by its own thread only, never by
 * a signal handler that interrupted a walk with the same state. */
typedef struct na_unwind_thread {
    uintptr_t lo, hi;
    uintptr_t size; /* hi - lo */
    uintptr_t other_lo, other_hi;
    uintptr_t lowest; /* the stack that ends at hi does not reach below it */
    bool far_tried;   /* its end was looked for as far as a stack may reach, once */
} na_unwind_thread_t;

/* [sp, hi) is the thread's own stack, and known to be readable from now on; false: it is not, or
 * cannot be told to be. For a stack pointer outside of [lo, hi). */
bool na_unwind_learn(na_unwind_thread_t *thread, uintptr_t sp);

/* Fills pcs[0 .. max) with the calling thread's stack, innermost first, and returns how many. For
 * those who walk seldom: its rules are kept in 32 KiB, apart from those of na_unwind_thread. pcs[0]
 * lies in the caller of na_unwind, unless the frames of this library are skipped. A pc is a return
 * address; where `exact` is not NULL, the bits of *exact name the first 64 frames that are not
 * (they were interrupted by a signal). *truncated: outer frames are missing. */
size_t na_unwind(uintptr_t *pcs, size_t max, bool *truncated);
/* How many code addresses na_unwind had to learn the rule of, in all threads: what takes nearly all
 * of a walk's time where it is new, some 1,000 instructions each. Wraps around. */
uint32_t na_unwind_learnt(void);

/* The same, faster, with a state kept for the thread (NULL: none), and rules in 512 KiB. */
size_t na_unwind_thread(na_unwind_thread_t *thread, uintptr_t *pcs, size_t max, uint64_t *exact,
                        bool *truncated);

/* The same by all callee-saved registers, with no rule from a cache: slow, what the others are held
 * against. */
size_t na_unwind_exact(na_unwind_thread_t *thread, uintptr_t *pcs, size_t max, uint64_t *exact,
                       bool *truncated);

/* The stack of a thread that a signal interrupted, from its ucontext_t; pcs[0] is the interrupted
 * instruction's. In the handler. */
size_t na_unwind_context(const void *context, uintptr_t *pcs, size_t max, bool *truncated);

/* Code whose frames are left out where they are innermost; both 0: none. Constant after
 * na_unwind_init. */
extern uintptr_t na_unwind_skip_lo, na_unwind_skip_hi;

/* A loaded module that no walk has met before, or that took the place of another. */
typedef struct na_unwind_seen {
    uintptr_t start, end;
    const void *link_map;  /* struct link_map, NULL if not known */
    uintptr_t replaced;    /* start of a module that was here before, 0: none */
    const uint8_t *eh_hdr; /* NULL: it has none */
} na_unwind_seen_t;

/* Before the first walk, once: `seen` (may be NULL) is told of every module, those loaded now
 * included, one call at a time. skip_own: leave out the innermost frames that lie in this library,
 * if it is a shared one. Not async-signal-safe (it asks the loader); call it from a constructor. */
void na_unwind_init(void (*seen)(const na_unwind_seen_t *), bool skip_own);

/* In a forked child: the observer is told of the modules again, as walks meet them. Takes no lock.
 */
void na_unwind_after_fork(void);

#endif
