/* hooks.h - the one door between the allocator and the profiler.
 *
 * Nothing in alloc/ names anything in profiler/. What begins and ends with the process is in a
 * table of the library (na_above, thread/attach.h); what happens to blocks is told through
 * na_hooks, which is NULL until a profile is asked for. The hot path never looks at it: while a
 * profile runs, credits stay at zero and page tags say "slow", so that every event (mode sites) or
 * every sampled one (mode sample) reaches a slow path, and only slow paths test na_hooks.
 *
 * A profile may begin and end while threads run (switch.h): a hook may find that its thread's word
 * is NULL again, and is never called for a profile that has ended.
 *
 * Contract of every hook: called with no allocator lock held, on the thread that made the event;
 * it must not allocate from this allocator, must preserve errno, and must be async-signal-safe (the
 * host's signal handlers may call malloc). */
#ifndef NUMALLOC_ALLOC_CORE_TRACK_HOOKS_H
#define NUMALLOC_ALLOC_CORE_TRACK_HOOKS_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "pagemap/pagemap.h"

/* The entry point that made an allocation: its kind in the low eight bits, above them the base-2
 * logarithm of the alignment asked for, else 0. MOVES: realloc is about to copy a block here, whose
 * on_free follows on this thread and names this one; to the program both are one. API: a call of
 * numalloc.h that names the place, which no policy's rule redirects. */
typedef enum na_entry {
    NA_ENTRY_MALLOC,
    NA_ENTRY_CALLOC,
    NA_ENTRY_REALLOC, /* of NULL as well; a block that it replaces is freed afterwards */
    NA_ENTRY_ALIGNED,
    NA_ENTRY_NEW,
    NA_ENTRY_NEW_ARRAY,
    NA_ENTRY_KIND = 0x00ff,
    NA_ENTRY_ALIGNMENT = 0xff00,
    NA_ENTRY_MOVES = 0x10000,
    NA_ENTRY_API = 0x20000,
} na_entry_t;

NA_INLINE na_entry_t na_entry_kind(na_entry_t entry) {
    return (na_entry_t)((unsigned)entry & 0xffu);
}

/* 0: no alignment was asked for. */
NA_INLINE unsigned na_entry_align_log2(na_entry_t entry) {
    return ((unsigned)entry & NA_ENTRY_ALIGNMENT) >> 8;
}

NA_INLINE bool na_entry_moves(na_entry_t entry) {
    return ((unsigned)entry & NA_ENTRY_MOVES) != 0;
}

NA_INLINE na_entry_t na_entry_aligned(na_entry_t kind, size_t alignment) {
    return (na_entry_t)((unsigned)kind | (unsigned)__builtin_ctzll(alignment) << 8);
}

/* The entry point that gave a block back. */
typedef enum na_release {
    NA_RELEASE_FREE,
    NA_RELEASE_DELETE,
    NA_RELEASE_DELETE_ARRAY,
    NA_RELEASE_REALLOC, /* it was copied to another block */
} na_release_t;

/* An entry point, as it is timed: that of an allocation (na_entry_t), or of a free. */
typedef enum na_call {
    NA_CALL_REALLOC = NA_ENTRY_REALLOC,
    NA_CALL_FREE = NA_ENTRY_NEW_ARRAY + 1,
    NA_CALL_DELETE, /* and delete[] */
} na_call_t;

NA_INLINE na_call_t na_call_of_release(na_release_t how) {
    return how == NA_RELEASE_FREE ? NA_CALL_FREE : NA_CALL_DELETE;
}

/* How the program mapped memory itself. */
typedef enum na_map_call {
    NA_MAP_MMAP = 1,
    NA_MAP_MUNMAP,
    NA_MAP_MREMAP,
    NA_MAP_BRK,   /* raised the break */
    NA_MAP_UNBRK, /* lowered it */
} na_map_call_t;

/* What a program's own allocator announces (numalloc_pool_*). */
typedef enum na_pool_event { NA_POOL_ALLOC, NA_POOL_FREE, NA_POOL_DESTROY } na_pool_event_t;
#define NA_POOLS 4096u

struct na_misses; /* path/seam.h */

typedef void na_on_alloc_t(void **prof, na_record_t *record, void *block, size_t requested,
                           size_t usable, na_entry_t entry, const void *entered);
typedef void na_on_free_t(void **prof, const na_record_t *record, void *block, size_t usable,
                          na_release_t how, const void *moved_to);

typedef struct na_hooks {
    /* In mode sites every event is reported; in mode sample only blocks chosen by the sampler:
     * bytes between samples follow an exponential distribution of mean sample_interval (0: every
     * event). Constant while the table is installed. */
    uint64_t sample_interval;

    /* A block was taken and is not yet known to the program. (Where another thread may have freed
     * it a moment ago, the processor has been kept from reading clocks ahead of that: whoever takes
     * blocks from others tells of the first one behind a fence; see recording.c.) Fills *record, of
     * which slack, node and epoch are set and the rest is 0. `prof` is a word kept for the profiler
     * in the calling thread's cache (NULL at first). Sizes are in bytes. `entered`: NULL, or
     * __builtin_frame_address(0) of a function of the library that the hook's caller is or was
     * called by: it has its caller's rbp and the return address, and the caller's stack begins
     * behind them (x86-64). */
    na_on_alloc_t *on_alloc;

    /* A block is about to be given back; called before another thread can get it. A record of
     * another epoch than na_profile_epoch: the block is from before the profile. `moved_to`: the
     * block that realloc put in its place (its on_alloc came before, on this thread), else NULL. */
    na_on_free_t *on_free;

    /* realloc is about to move the pages of a block elsewhere, if it can: from now on other threads
     * may be given its addresses. on_resize follows when it could. */
    void (*before_move)(void **prof, const na_record_t *record, const void *block);

    /* realloc kept the block: where it is, or its pages were moved (`block` != `old_block`);
     * *record is updated. */
    void (*on_resize)(void **prof, na_record_t *record, const void *old_block, void *block,
                      size_t old_usable, size_t requested, size_t usable);

    /* The program mapped memory itself, or gave it back. */
    void (*on_map)(void **prof, na_map_call_t call, size_t bytes);

    /* The calling thread leaves its thread cache (thread exit); *prof becomes NULL. */
    void (*on_thread_exit)(void **prof);

    /* Around fork(): before in the parent, then after in the parent or in the child. In the child
     * only the calling thread exists, and *prof is that thread's word. */
    void (*before_fork)(void);
    void (*after_fork_parent)(void);
    void (*after_fork_child)(void **prof);

    /* A forked child lives on, or is about to become another user: its profile begins if no event
     * has begun it. NULL: as on_map. */
    void (*on_stay)(void **prof);

    /* The library's constructor runs: the C library is ready, threads can be started. NULL: not
     * wanted. The only hook that may call out, and allocate. */
    void (*on_load)(void);

    /* The process ends normally (library destructor): everything known is in the file after this.
     */
    void (*on_exit)(void **prof);

    /* The program's own words; NULL: not listened to. `pool` is below NA_POOLS; `name` its name. */
    void (*on_pool)(void **prof, na_pool_event_t event, uint32_t pool, const char *name,
                    const void *block, size_t size);
    void (*on_marker)(void **prof, const char *name);

    /* A call of which the allocator's own part took so many ticks of the time stamp counter; it was
     * `drawn`, or is of a kind that is always timed (recording.h). NULL: not wanted. Its events
     * came before. */
    void (*on_timed)(void **prof, na_call_t call, uint64_t ticks, bool drawn);

    /* NULL, or what is to be called instead of na_traced_alloc and na_traced_free (recording.h):
     * the same, with on_alloc and on_free inlined. */
    const struct na_misses *misses;
} na_hooks_t;

/* NULL: no profile. Installed and taken away by switch.h while threads run; read behind
 * na_section_enter only (recording.h), or while no switch can happen. */
extern NA_NEAR _Atomic(const na_hooks_t *) na_hooks;

/* Profile epoch of new records, 1..NA_EPOCH_LAST; changes when a profile begins and in a forked
 * child. */
extern NA_NEAR _Atomic(uint8_t) na_profile_epoch;

#endif
