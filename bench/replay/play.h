/* play.h - plays the program of a replay, and measures. */
#ifndef NUMALLOC_BENCH_REPLAY_PLAY_H
#define NUMALLOC_BENCH_REPLAY_PLAY_H

#include "bench/replay/program.h"

/* How much of a block is written when it is new. In the order of the knob's choices. */
typedef enum na_replay_touch {
    NA_REPLAY_TOUCH_NONE,
    NA_REPLAY_TOUCH_FIRST, /* its first byte */
    NA_REPLAY_TOUCH_PAGES, /* a byte of each of its pages */
    NA_REPLAY_TOUCH_ALL,   /* each byte that was asked for */
} na_replay_touch_t;

typedef struct na_replay_played {
    uint64_t elapsed; /* ns, from the first operation to the end of the last thread */
    uint64_t player;  /* ns, of the same without any call, touching and other threads */
    uint64_t peak;    /* resident bytes, above what was there before */
    uint64_t final;   /* the same after the last operation */
    uint64_t calls;   /* as counted while playing */
    uint64_t slow[3]; /* with `timed`: ns, quantiles 0.5, 0.99 and 0.999 of a call */
    uint64_t began;   /* threads, the main one too */
} na_replay_played_t;

/* Plays it once. From here to the end nothing but the program's own calls goes to malloc, and what
 * the C library allocates for a new thread. */
void na_replay_play(const na_replay_program_t *program, na_replay_touch_t touch, bool timed,
                    na_replay_played_t *played);

#endif
