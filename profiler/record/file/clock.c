/* clock.c - the recorder's one clock: the processor's counter (on x86-64 the time stamp counter)
 * where it is steady and fine enough, otherwise CLOCK_MONOTONIC in nanoseconds. */
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "alloc/core/sys/syscall.h"
#include "profiler/record/state/state.h"

uint64_t na_rec_clock_ns(long id) {
    struct timespec t = {0};
    na_sys2(SYS_clock_gettime, id, (long)&t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

uint64_t na_rec_ticks(void) {
    return NA_LIKELY(na_rec.tsc) ? na_ticks() : na_rec_ticks_slow();
}

uint64_t na_rec_ticks_slow(void) {
    return na_os_ns();
}

uint64_t na_rec_ms(void) {
    return na_rec_ms_of(na_rec_ticks());
}

uint64_t na_rec_ticks_of_ms(uint64_t ms) {
    return na_rec.header->ticks_hz / 1000 * ms;
}

uint64_t na_rec_ms_of(uint64_t ticks) {
    int64_t t = (int64_t)(ticks - na_rec.start_ticks);
    return t <= 0 ? 0 : (uint64_t)((unsigned __int128)(uint64_t)t * na_rec.tick_mult >> 64);
}

uint64_t na_rec_ns_of(uint64_t ticks) {
    return (uint64_t)((unsigned __int128)ticks * na_rec.tick_mult * 1000000 >> 64);
}

/* The time stamp counter serves if the processor says that it never changes its rate. That of
 * aarch64 never does, but many count so slowly that lifetimes (NA_AGE_SHIFT) would be in steps of
 * 10 us. */
bool na_rec_tsc_is_steady(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1U << 8) != 0;
#elif defined(__aarch64__)
    enum { FINE_HZ = 200000000 }; /* those of Armv8.6 and later count at 1 GHz */
    uint64_t hz;
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
    return hz >= FINE_HZ;
#else
    return false;
#endif
}

void na_rec_both_clocks(uint64_t *mono_ns, uint64_t *ticks) {
    uint64_t least = UINT64_MAX;
    *mono_ns = *ticks = 0;
    for (int i = 0; i < 5; i++) {
        uint64_t before = na_rec_ticks(), ns = na_rec_ticks_slow(), took = na_rec_ticks() - before;
        if (took >= least) continue;
        least = took;
        *mono_ns = ns;
        *ticks = before + took / 2;
    }
}

/* Two pairs lie apart by what setting up the profile takes, at least 200 us, and a pair is exact to
 * some 20 ns: good to a few parts in ten thousand. The header's pair of closing stamps makes it
 * exact for the reader. */
uint64_t na_rec_measure_hz(uint64_t mono_ns, uint64_t ticks) {
    enum { APART_NS = 200000 };
    if (!na_rec.tsc) return 1000000000U;
    uint64_t n1, t1;
    do {
        na_rec_both_clocks(&n1, &t1);
    } while (n1 - mono_ns < APART_NS);
    return (uint64_t)((unsigned __int128)(t1 - ticks) * 1000000000U / (n1 - mono_ns));
}
