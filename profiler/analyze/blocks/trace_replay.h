/* trace_replay.h - plays a trace back: after any event the blocks that live are known, and the
 * figures of every site.
 *
 * Memory grows with sites and with blocks that live, not with events. What a trace cannot know
 * (blocks from before it, or from its part that a limit on size has dropped) is counted as unknown;
 * what cannot be (two blocks at one address) as a contradiction. */
#ifndef NUMALLOC_PROFILER_ANALYZE_BLOCKS_TRACE_REPLAY_H
#define NUMALLOC_PROFILER_ANALYZE_BLOCKS_TRACE_REPLAY_H

#include "profiler/format/reader/events.h"

typedef struct na_live {
    uint64_t address; /* never 0 */
    uint64_t size;    /* asked for */
    uint64_t ticks;   /* of the event that made it what it is: allocation or last resize */
    uint32_t slack;
    uint32_t stack;
    uint32_t thread;
    bool marked; /* that event came after na_replay_mark */
} na_live_t;

typedef struct na_replay_totals {
    uint64_t events;         /* played */
    uint64_t allocs, frees;  /* a realloc that kept its block is one of each */
    uint64_t live_blocks;    /* now */
    uint64_t live_bytes;     /* now, asked for */
    uint64_t peak_bytes;     /* most that ever lived, */
    uint64_t peak_blocks;    /* how many blocks then, */
    uint64_t peak_event;     /* and after which event (index) it was first so */
    uint64_t peak_ticks;     /* its stamp */
    uint64_t unknown;        /* frees of blocks that the trace does not know, "before" included */
    uint64_t contradictions; /* an allocation where a block lives: that one is taken for freed */
} na_replay_totals_t;

typedef struct na_replay na_replay_t;

/* NULL: no memory. The reader must live as long. */
na_replay_t *na_replay_open(na_reader_t *reader);
void na_replay_close(na_replay_t *replay);

/* Gives back what events need; only na_replay_cells and na_replay_close may follow. */
void na_replay_end(na_replay_t *replay);

/* Plays one event. *freed, unless NULL: the block that it freed (address 0: none, or not known).
 * False: there are no more, or no memory (na_replay_failed). */
bool na_replay_next(na_replay_t *replay, na_event_t *event, na_live_t *freed);
bool na_replay_failed(const na_replay_t *replay);
/* The event that is played next, NULL: none. Good until then. */
const na_event_t *na_replay_peek(na_replay_t *replay);
/* Plays events until `count` have been played, or there are no more. */
void na_replay_to(na_replay_t *replay, uint64_t count);

/* From here on blocks that are allocated or resized are marked. */
void na_replay_mark(na_replay_t *replay);

const na_replay_totals_t *na_replay_totals(const na_replay_t *replay);
/* The block that begins at the address; NULL: none lives there. Good until the next
 * call. */
const na_live_t *na_replay_find(na_replay_t *replay, uint64_t address);
/* The block that the event played last made live, NULL: none. Of a realloc that copied its block
 * that is the second event: both blocks are one to the program, and never in a figure together.
 * Good until the next call. */
const na_live_t *na_replay_came(na_replay_t *replay);
/* That event freed a block before its thread had allocated anything else. */
bool na_replay_was_temporary(const na_replay_t *replay);
/* Every block that lives, in no order. */
void na_replay_each(const na_replay_t *replay, void (*visit)(void *arg, const na_live_t *block),
                    void *arg);

/* One cell for each site, as mode sites would have recorded it; figures of its peak are those of
 * the exact peak. Blocks without a stack are the root's. */
void na_replay_cells(const na_replay_t *replay, na_cell_fn_t visit, void *arg);

#endif
