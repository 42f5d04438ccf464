/* access_clock.c - samples carry CLOCK_MONOTONIC, blocks the profile's clock. A pair of both, taken
 * for each batch, relates them: near that moment to well under a microsecond, and far from it as
 * well as the rate is known, which is measured over all of the profile. */
#include "profiler/record/access/access_priv.h"

static struct {
    uint64_t mono0, ticks0; /* at the beginning */
    uint64_t mono, ticks;   /* the latest pair */
    double per_ns;          /* ticks a ns */
} pair;

uint64_t na_access_mono(void) {
    return na_os_ns();
}

void na_access_clock_tick(void) {
    if (!na_rec.tsc) { /* the profile's clock is CLOCK_MONOTONIC */
        pair.mono = pair.ticks = na_access_mono();
        return;
    }
    na_rec_both_clocks(&pair.mono, &pair.ticks);
    if (pair.mono - pair.mono0 > 100000000)
        pair.per_ns = (double)(pair.ticks - pair.ticks0) / (double)(pair.mono - pair.mono0);
}

void na_access_clock_start(void) {
    pair.per_ns = na_rec.tsc ? (double)na_rec.header->ticks_hz / 1e9 : 1;
    pair.mono0 = na_access_mono();
    na_access_clock_tick();
    pair.mono0 = pair.mono;
    pair.ticks0 = pair.ticks;
}

uint64_t na_access_moment_of(uint64_t mono_ns) {
    double ticks = (double)(int64_t)(mono_ns - pair.mono) * pair.per_ns;
    uint64_t ages = na_ages(pair.ticks + (uint64_t)(int64_t)ticks), last = na_ages(pair.ticks) - 1;
    if ((int64_t)(last - ages) < 0) ages = last;
    return (uint64_t)na_profile_epoch << NA_RECORD_EPOCH_SHIFT |
           (ages & NA_RECORD_TIME_MASK) << NA_RECORD_BIRTH_SHIFT |
           ((UINT64_C(1) << NA_RECORD_BIRTH_SHIFT) - 1);
}

/* Only the low bits of ages are kept by records: of the two times that fit, the one in the past. */
uint64_t na_access_mono_of(uint64_t ages) {
    uint64_t mask = NA_RECORD_TIME_MASK;
    uint64_t age = (na_ages(pair.ticks) - ages) & mask;
    if (age >> (NA_RECORD_TIME_BITS - 1) != 0) age = 0; /* a little after the pair */
    return pair.mono - (uint64_t)((double)(age << NA_AGE_SHIFT) / pair.per_ns);
}

uint64_t na_access_since(uint64_t mono_ns) {
    uint64_t start = na_rec.header->start_mono_ns;
    return mono_ns > start ? mono_ns - start : 0;
}
