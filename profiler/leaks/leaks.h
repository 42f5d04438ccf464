/* leaks.h - which blocks that were not freed can still be reached: NUMALLOC_LEAKS.
 *
 * A scan, when the process ends or when it is asked for. All other threads stand still meanwhile.
 *
 *   roots     writable data of loaded modules, but this library's; of each thread the stack from
 *             its stack pointer on, registers, static thread-local storage and what the C library
 *             keeps of the thread (pthread_setspecific); blocks that the loader has asked for
 *             (thread-local storage of libraries opened later), and those of heaps that are alive
 *   blocks    all live ones: each has a record from the process's first on (pagemap/pagemap.h)
 *   pointers  aligned words that lead anywhere into a block, as far as was asked for
 *
 *   reachable   a pointer in a root, or in a reachable block, leads there
 *   lost        none does
 *   indirect    lost, and a pointer in another lost block leads there
 *
 * Marks are the four spare bits of each block's record, so that they take no memory. The scan's own
 * memory is mapped for it, and given back after it.
 *
 *   leaks.c         begins a scan; the end of the process
 *   world.c         other threads stand still: traced by a helper,
 *   world_signals.c or in a signal handler
 *   roots.c         mappings, modules, stacks
 *   mark.c          marks, classes, sums by site
 *   leak_names.c    names of functions
 *   leak_report.c   lines on stderr, and what is suppressed
 *   record/file/lost.c   the same in the profile, where there is one
 *
 * One scan at a time, by a thread that is behind no lock and no gate of the allocator's: it reads
 * what is lock-free, in whatever state the others stand. Not in a signal handler. */
#ifndef NUMALLOC_PROFILER_LEAKS_LEAKS_H
#define NUMALLOC_PROFILER_LEAKS_LEAKS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum na_leak_kind { NA_LEAK_LOST, NA_LEAK_INDIRECT, NA_LEAK_REACHABLE } na_leak_kind_t;
#define NA_LEAK_KINDS 3u

typedef struct na_leak_sum {
    uint64_t blocks, bytes; /* as asked for */
} na_leak_sum_t;

typedef struct na_leaks {
    na_leak_sum_t of[NA_LEAK_KINDS]; /* less what is suppressed */
    na_leak_sum_t suppressed;        /* lost ones */
    uint32_t threads;                /* that stood still, the calling one among them */
    uint32_t missed;   /* that could not be stopped: what only they held counts as lost */
    uint64_t still_ns; /* how long they did */
} na_leak_totals_t;

/* NUMALLOC_LEAKS asks for it. Set by na_init, before any block is handed out. */
extern bool na_leaks_on;

/* Not 0 of a block that is in a heap because a policy says so: the program knows of no heap. NULL:
 * there is no policy. Set by who knows of both. */
extern uint32_t (*na_leaks_ruled)(const void *block);
/* In the library's constructor: what only the loader knows, and the last of all exit handlers,
 * which is `at_exit`. False: the C library has no such handlers. */
bool na_leaks_at_load(void (*at_exit)(void));
/* This process is a forked child. */
void na_leaks_after_fork_child(void);

/* Where the stack of the function that this is in begins, what its callers may have in registers
 * being on it from then on. What is called further on leaves old words behind, and is left out. */
__attribute__((always_inline)) static inline uintptr_t na_leaks_here(void) {
#ifdef __x86_64__
    enum { SAVED = 48 }; /* bytes of registers below the frame's address */
#else
    enum { SAVED = 0 };
#endif
    __builtin_unwind_init();
    return (uintptr_t)__builtin_frame_address(0) - SAVED;
}

/* `from`: na_leaks_here. 0, or a positive errno, having said why: ENOTSUP, there is no /proc;
 * ENOMEM; ECANCELED, the scan failed. `report`: lines on stderr where something is lost, and rows
 * in the profile; at last, if another program makes the report, a profile for it instead. */
typedef enum na_leak_report { NA_LEAK_NOTHING, NA_LEAK_REPORT, NA_LEAK_LAST } na_leak_report_t;
int na_leaks_scan(na_leak_totals_t *leaks, na_leak_report_t report, uintptr_t from);
/* The process ends: a scan, if this is a process to scan. True: blocks are lost. */
bool na_leaks_at_exit(void);
/* Ends the process with the status that NUMALLOC_LEAKS_EXIT names; from the last exit handler. */
void na_leaks_exit(void);

#endif
