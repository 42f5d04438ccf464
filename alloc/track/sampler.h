/* sampler.h - which blocks mode "sample" looks at.
 *
 * Samples are the points of a Poisson process over the bytes handed out, of rate 1 / interval: each
 * class of each thread cache counts down bytes drawn from an exponential distribution. The
 * processes of all classes and threads add up to one Poisson process, so that a block of b usable
 * bytes is sampled with probability 1 - exp(-b / interval), whatever else goes on. */
#ifndef NUMALLOC_ALLOC_TRACK_SAMPLER_H
#define NUMALLOC_ALLOC_TRACK_SAMPLER_H

#include <stdint.h>

#include "alloc/track/track.h"

/* Mean bytes between samples; 0: the sampler is off. Changed by the switch (switch.h). */
extern _Atomic(uint64_t) na_sample_interval;
#define NA_SAMPLE_ALL 1u /* an interval by which no block is passed over, not even by chance */

void na_sampler_seed(na_track_t *track);
/* Bytes until the next sample, at least 1; INT64_MAX when off. */
int64_t na_sampler_draw(na_track_t *track);
/* How many events to pass over, so that each is met with the same probability, one in `each` or a
 * little less, independently of the others. */
uint32_t na_sampler_gap(na_track_t *track, uint32_t each);

#endif
