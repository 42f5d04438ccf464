/* program.h - the program that the replay benchmark plays: what a trace's threads called, made
 * small.
 *
 * Three parts, in the order of calls:
 *   replay.c          the benchmark: its knobs; has the program made; a process for each repetition
 *   play.c            plays the program in this process, once, and measures
 *   trace/compile.c   numalloc-bench-compile, which makes the program of a trace (mode trace of a
 *                     profile). A program of its own, run without any preloaded library: what reads
 *                     traces allocates, and needs zlib.
 *
 * A program is one file, mapped read-only: a head, the threads, the number of each window's events
 * by threads, and the operations of all threads, one thread's after another's.
 *
 * Slots. Every block lies in a slot of a table from the call that makes it to the call that takes
 * it. Blocks that the thread which made them takes back share that thread's slots: its own order of
 * calls keeps them apart. A block that another thread takes has a slot that no other block ever
 * has: it is empty (NULL) until the block is there, and whoever is to take it waits for that.
 *
 * Order. Each thread's operations are played in the order of the trace. Between threads: a block is
 * taken after it was made; a thread begins after the operation before its first event in the trace,
 * of the thread that is likely to have made it; and nobody runs ahead for long: the events of all
 * are cut into windows of equal numbers, and no thread enters window w before all have left window
 * w - NA_REPLAY_AHEAD. The trace's own order keeps all of these, so that the earliest operation not
 * yet played can always be played: no program that a trace gave stands still. */
#ifndef NUMALLOC_BENCH_REPLAY_PROGRAM_H
#define NUMALLOC_BENCH_REPLAY_PROGRAM_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NA_REPLAY_MAGIC   UINT64_C(0x0a79616c7065524e) /* "NReplay\n" */
#define NA_REPLAY_VERSION 1
#define NA_REPLAY_AHEAD   2

/* Exit status of the compiler, beside 0: the file is not what can be played, and one line on
 * standard error says why. */
#define NA_REPLAY_REFUSED 2

typedef struct na_replay_head {
    uint64_t magic;
    uint32_t version;
    uint32_t threads; /* that have operations; the first is the main thread, even without any */
    uint32_t windows;
    uint32_t window; /* events of each but the last */
    uint64_t slots;
    uint64_t units; /* of all threads' operations */

    /* What the trace was, for the report. Bytes are as asked for. */
    uint64_t events;      /* in the file; a realloc that moved its block is two */
    uint64_t allocations; /* calls; realloc of NULL is one */
    uint64_t frees;
    uint64_t reallocs;
    uint64_t moved;      /* of those, recorded as two events */
    uint64_t left_out;   /* frees of blocks that the trace does not know */
    uint64_t replaced;   /* allocations at an address that was live: a free was added before each */
    uint64_t handed;     /* blocks taken by another thread than the one that made them */
    uint64_t bytes;      /* of all allocations, and of what reallocs made */
    uint64_t peak_bytes; /* live at one time, */
    uint64_t peak_blocks;
    uint64_t left_bytes; /* live at the end */
    uint64_t left_blocks;
    uint64_t print; /* of the operations of all threads: equal programs have equal ones */
} na_replay_head_t;

typedef struct na_replay_thread {
    uint64_t first; /* unit, */
    uint64_t units; /* and how many; the last one is NA_REPLAY_END */
} na_replay_thread_t;

/* Operations are one or two units. Of each, `what` is kind << 27 | slot. */
typedef struct na_replay_unit {
    uint32_t what;
    uint32_t size; /* bytes; of the PAGES kinds, 4096 bytes, rounded up */
} na_replay_unit_t;

#define NA_REPLAY_SLOT_BITS 27
#define NA_REPLAY_SLOT_MASK ((UINT32_C(1) << NA_REPLAY_SLOT_BITS) - 1)
#define NA_REPLAY_PAGES     16u /* added to a kind with a size */

typedef enum na_replay_kind {
    NA_REPLAY_END,
    NA_REPLAY_MALLOC,
    NA_REPLAY_CALLOC,
    NA_REPLAY_ALIGNED, /* second unit: what is the base-2 logarithm of the alignment */
    NA_REPLAY_FREE,
    NA_REPLAY_REALLOC, /* takes from the slot; second unit: what is the slot for the new block, size
                          that of the old one (at most UINT32_MAX) */
    NA_REPLAY_WINDOW,  /* size is the window that the thread enters */
    NA_REPLAY_THREAD,  /* size is the thread that begins */
    NA_REPLAY_KINDS,
} na_replay_kind_t;

static inline uint32_t na_replay_what(uint32_t kind, uint64_t slot) {
    return kind << NA_REPLAY_SLOT_BITS | (uint32_t)slot;
}

/* A program in memory. The arrays lie in the mapping. */
typedef struct na_replay_program {
    const na_replay_head_t *head;
    const na_replay_thread_t *thread; /* [threads] */
    const uint32_t *in_window;        /* [windows]: threads with events in it */
    const na_replay_unit_t *unit;     /* [units] */
} na_replay_program_t;

/* Bytes of the file that such a head begins. */
uint64_t na_replay_bytes(const na_replay_head_t *head);

/* Maps a program and checks every operation of it: any file is safe to play that passes. False with
 * one line in `error`; *other, where it is not a program at all. */
bool na_replay_map(int file, na_replay_program_t *program, bool *other, char *error, size_t size);

#endif
