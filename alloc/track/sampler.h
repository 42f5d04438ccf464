/* sampler.h - which blocks mode "sample" looks at.
 *
 * Samples are the points of a Poisson process over the bytes handed out, of rate 1 / interval: each
 * class of each thread cache counts down bytes drawn from an exponential distribution. The
 * processes of all classes and threads add up to one Poisson process, so that a block of b usable
 * bytes is sampled with probability 1 - exp(-b / interval), whatever else goes on.
 *
 * For guards (guarded.h) blocks are drawn by their number, not by their bytes, unless a profile
 * draws them: the interval of each small class is so many blocks of it, and that of large blocks,
 * all together, is another number. That is so beside the modes that record every event, too. */
#ifndef NUMALLOC_ALLOC_TRACK_SAMPLER_H
#define NUMALLOC_ALLOC_TRACK_SAMPLER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/track/track.h"

/* Mean bytes between samples; 0: the sampler is off. Changed by the switch (switch.h). */
extern _Atomic(uint64_t) na_sample_interval;
#define NA_SAMPLE_ALL 1u /* an interval by which no block is passed over, not even by chance */

#define NA_SAMPLE_EACH UINT64_MAX /* the interval is na_sampler_each(na_sample_step) blocks */
/* Steps are eighths of a doubling, so that a byte says by which interval a class's next sample was
 * drawn, whatever it is by then. */
#define NA_SAMPLE_STEPS 208u
#define NA_SAMPLE_FIXED 255u /* na_sample_fixed blocks, constant */
extern _Atomic(uint8_t) na_sample_step, na_sample_large_step;
extern uint64_t na_sample_fixed;
double na_sampler_each(uint8_t step);
/* Where blocks are drawn by number: of the class with blocks of `size` bytes NA_SAMPLE_MORE times
 * as many, from its next draw on. The last NA_SAMPLE_PREFERRED classes. Thread-safe. */
#define NA_SAMPLE_MORE      16u
#define NA_SAMPLE_PREFERRED 4u
void na_sampler_prefer(uint32_t size);
/* The interval while no profile has another one: 0, or NA_SAMPLE_EACH where blocks are guarded. */
extern uint64_t na_sample_idle;

/* A profile samples: small blocks and large ones by their bytes, and those of heaps. */
NA_INLINE bool na_samples_bytes(void) {
    return na_sample_interval + 1 > 1;
}
/* Blocks are drawn by their number: they are guarded, and no profile draws any. */
NA_INLINE bool na_samples_number(void) {
    return !na_samples_bytes() && (na_sample_interval != 0 || na_sample_idle != 0);
}

void na_sampler_seed(na_track_t *track);

/* After a fork. Children of one process are told apart, or all of them would draw the same blocks:
 * of a hundred workers that do the same, each would look at what the first one has looked at. */
void na_sampler_forked(bool child);
/* True: the thread's latest draw was its parent's. Its generator begins anew then. */
bool na_sampler_part(na_track_t *track);

/* Bytes until the next sample of a small class with blocks of `size` bytes, at least 1; INT64_MAX
 * when off. *step: what it was drawn by, if blocks are drawn by number. */
int64_t na_sampler_draw(na_track_t *track, uint32_t size, uint8_t *step);
/* The same of large blocks: bytes, or the number of them up to the one that is drawn. */
int64_t na_sampler_draw_large(na_track_t *track, uint8_t *step);
/* By bytes only: of blocks of the program's own heaps. */
int64_t na_sampler_draw_bytes(na_track_t *track);
/* With which a block of `usable` bytes is sampled, where that was drawn by `step`. */
double na_sampler_chance(size_t usable, uint8_t step);
/* How many events to pass over, so that each is met with the same probability, one in `each` or a
 * little less, independently of the others. */
uint32_t na_sampler_gap(na_track_t *track, uint32_t each);

#endif
