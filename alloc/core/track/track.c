/* track.c - announcing oneself, and waiting while a profile is held still; exponential draws
 * without libm. */
#include "alloc/core/track/track.h"

#include <sys/syscall.h>

#include "alloc/core/sys/options.h"
#include "alloc/core/sys/os.h"

/* linux/membarrier.h */
#define COMMAND_PRIVATE  (1 << 3)
#define COMMAND_REGISTER (1 << 4)

_Atomic(uint32_t) na_alarm;
bool na_strict;
bool na_record_all;

void na_record_each(void) {
    na_record_all = true;
    na_every_event |= NA_EVERY_RECORDED;
}
bool na_sizes_count;
const na_hooks_t na_hooks_paused;
_Atomic(bool) na_section_by_membarrier;
_Atomic(const na_hooks_t *) na_hooks;

static _Atomic(uint32_t) held_by; /* id of the thread cache whose thread holds the profile still */
static _Atomic(uint32_t) pauses;  /* a futex: changes when the profile goes on */
static const na_hooks_t *held;    /* while na_hooks is &na_hooks_paused */

static _Atomic(bool) quicken;

bool na_section_let_quicken(bool may) {
    return atomic_exchange(&quicken, may);
}

bool na_section_may_quicken(void) {
    return atomic_load_explicit(&quicken, memory_order_relaxed);
}

void na_section_order_all(void) {
    if (na_section_by_membarrier)
        na_syscall(SYS_membarrier, COMMAND_PRIVATE, 0, 0, 0, 0, 0);
    else
        atomic_thread_fence(memory_order_seq_cst);
}

void na_section_use_membarrier(void) {
#ifndef __SANITIZE_THREAD__
    /* Threads that announced themselves the dear way before this did more than they have to. */
    na_section_by_membarrier = na_syscall(SYS_membarrier, COMMAND_REGISTER, 0, 0, 0, 0, 0) == 0 &&
                               na_syscall(SYS_membarrier, COMMAND_PRIVATE, 0, 0, 0, 0, 0) == 0;
#endif
}

void na_section_hold(const na_track_t *self) {
    held = na_hooks;
    atomic_store(&held_by, self->id);
    atomic_fetch_or(&na_alarm, NA_ALARM_HELD); /* first: na_traced_hooks */
    atomic_store(&na_hooks, &na_hooks_paused);
}

void na_section_release(void) {
    atomic_store(&na_hooks, held);
    /* Not back to what it was: who looked at the hooks while they were held still, and looks at the
     * alarm only now, is to find it, and not to take na_hooks_paused for hooks (na_traced_hooks).
     */
    atomic_fetch_add(&na_alarm, NA_ALARM_RAISE - NA_ALARM_HELD);
    atomic_store(&held_by, 0);
    atomic_fetch_add(&pauses, 1);
    na_os_futex_wake((const uint32_t *)&pauses, INT32_MAX);
}

/* Waits until the profile is no longer held; false: it is held by this very thread. */
static NA_COLD bool wait_for_release(const na_track_t *track) {
    uint32_t word = atomic_load(&pauses);
    if (atomic_load(&na_hooks) != &na_hooks_paused) return true;
    if (atomic_load(&held_by) == track->id) return false;
    na_os_futex_wait((const uint32_t *)&pauses, word);
    return true;
}

const na_hooks_t *na_section_enter_slow(na_track_t *track) {
    const na_hooks_t *hooks;
    for (;;) {
        na_section_announce(track);
        hooks = atomic_load_explicit(&na_hooks, memory_order_acquire);
        if (NA_LIKELY(hooks != &na_hooks_paused)) break;
        na_section_leave(track);
        if (!wait_for_release(track)) { /* an event of the very thread that holds the others */
            na_section_announce(track);
            return NULL;
        }
    }
    na_section_join(track, atomic_load_explicit(&na_session, memory_order_relaxed));
    return hooks;
}

/* --- samples --- */

_Atomic(uint64_t) na_sample_interval;
_Atomic(uint8_t) na_sample_step, na_sample_large_step;
uint64_t na_sample_fixed;
uint64_t na_sample_idle;

/* What a process is told apart by: 0 in the first one; in a child, a hash of its parent's and of
 * which child it is, so that it is the same in each run. And the children so far. */
static uint32_t lineage, children;

void na_sampler_forked(bool child) {
    children++;
    if (!child) return;
    lineage = (lineage ^ children) * 0x9e3779b1u;
    children = 0;
}

bool na_sampler_part(na_track_t *track) {
    if (track->lineage == lineage) return false;
    track->lineage = lineage;
    track->random = 0;
    return true;
}

static uint64_t next_random(na_track_t *track) {
    if (NA_UNLIKELY(track->random == 0)) na_sampler_seed(track);
    uint64_t x = track->random; /* xorshift64*, never zero once there is a seed */
    x ^= x >> 12;
    x ^= x << 25;
    x ^= x >> 27;
    track->random = x;
    return x * 0x2545f4914f6cdd1dull;
}

void na_sampler_seed(na_track_t *track) {
    uint64_t seed = na_option(NA_OPT_SAMPLE_SEED), from = (uintptr_t)track ^ na_os_ms();
    if (seed != 0)
        from = seed << 16 | track->id; /* each thread cache its own draws, the same in each run */
    track->lineage = lineage;
    from = (from ^ (uint64_t)lineage << 32) * 0x9e3779b97f4a7c15ull;
    track->random = (from ^ from >> 32) | 1;
    for (unsigned i = 0; i < 4; i++)
        next_random(track);
}

/* -ln(u) for u = (m + 1) / 2^53, by the exponent and a series in the mantissa: ln x = 2 artanh t,
 * t = (x - 1) / (x + 1); |t| <= 0.172 after centring, so that seven terms give 1e-12. */
static double minus_log(uint64_t m) {
    double u = (double)(m + 1) * 0x1p-53;
    int exponent = 0;
    while (u < 0.70710678118654752) {
        u *= 2;
        exponent++;
    }
    double t = (u - 1) / (u + 1), t2 = t * t, sum = 0;
    for (int k = 13; k >= 1; k -= 2)
        sum = sum * t2 + 1.0 / k;
    return exponent * 0.69314718055994531 - 2 * t * sum;
}

/* Of this mean. */
static int64_t exponential(na_track_t *track, double mean) {
    double bytes = minus_log(next_random(track) >> 11) * mean;
    return bytes < 1 ? 1 : bytes > 0x1p62 ? (int64_t)1 << 62 : (int64_t)bytes;
}

int64_t na_sampler_draw_bytes(na_track_t *track) {
    uint64_t interval = na_sample_interval;
    if (interval <= NA_SAMPLE_ALL) return interval == 0 ? INT64_MAX : 1;
    return interval == NA_SAMPLE_EACH ? INT64_MAX : exponential(track, (double)interval);
}

/* The whole part of an exponential draw is geometric; the one that is drawn counts as well. */
int64_t na_sampler_draw_number(na_track_t *track, uint8_t *step) {
    if (!na_samples_number()) return INT64_MAX;
    *step = atomic_load_explicit(&na_sample_large_step, memory_order_relaxed);
    double each = na_sampler_each(*step);
    return each <= 1 ? 1 : 1 + (int64_t)(minus_log(next_random(track) >> 11) * each);
}

double na_sampler_each(uint8_t step) {
    static const double eighths[8] = {1,
                                      1.0905077326652577,
                                      1.189207115002721,
                                      1.2968395546510096,
                                      1.4142135623730951,
                                      1.5422108254079407,
                                      1.681792830507429,
                                      1.8340080864093424};
    if (step == NA_SAMPLE_FIXED) return (double)na_sample_fixed;
    return (double)(UINT64_C(1) << step / 8 % 64) * eighths[step % 8];
}

static _Atomic(uint32_t) preferred[NA_SAMPLE_PREFERRED]; /* sizes of classes; 0: none */
static _Atomic(uint32_t) preferred_count;

static bool is_preferred(uint32_t size) {
    for (unsigned i = 0; i < NA_SAMPLE_PREFERRED; i++)
        if (atomic_load_explicit(&preferred[i], memory_order_relaxed) == size) return true;
    return false;
}

void na_sampler_prefer(uint32_t size) {
    if (is_preferred(size)) return;
    uint32_t place = atomic_fetch_add_explicit(&preferred_count, 1, memory_order_relaxed);
    atomic_store_explicit(&preferred[place % NA_SAMPLE_PREFERRED], size, memory_order_relaxed);
}

/* The step of a class's next draw. (Steps are eighths of a doubling.) */
static uint8_t step_of(uint32_t size) {
    enum { MORE = 4 * 8 };
    _Static_assert(NA_SAMPLE_MORE == 1u << MORE / 8, "so many doublings");
    uint8_t step = atomic_load_explicit(&na_sample_step, memory_order_relaxed);
    if (step == NA_SAMPLE_FIXED || !is_preferred(size)) return step;
    return step > MORE ? (uint8_t)(step - MORE) : 0;
}

int64_t na_sampler_draw(na_track_t *track, uint32_t size, uint8_t *step) {
    if (!na_samples_number()) return na_sampler_draw_bytes(track);
    *step = step_of(size);
    double each = na_sampler_each(*step);
    return each <= 1 ? 1 : exponential(track, each * size);
}

double na_sampler_chance(size_t usable, uint8_t step) {
    uint64_t interval = na_sample_interval;
    double x;
    if (!na_samples_bytes()) {
        double each = na_sampler_each(step);
        if (each <= 1) return 1;
        x = 1 / each;
    } else {
        if (interval <= NA_SAMPLE_ALL) return 1;
        x = (double)usable / (double)interval;
    }
    if (x > 40) return 1;
    unsigned halved = 0;
    for (; x > 0.125; x /= 2)
        halved++;
    /* 1 - exp(-x) */
    double met = x * (1 - x / 2 * (1 - x / 3 * (1 - x / 4 * (1 - x / 5 * (1 - x / 6)))));
    if (halved == 0) return met;
    double missed = 1 - met;
    while (halved-- > 0)
        missed *= missed;
    return 1 - missed;
}

/* The whole part of an exponential draw is geometric: p = 1 - exp(-1 / each). */
uint32_t na_sampler_gap(na_track_t *track, uint32_t each) {
    return (uint32_t)(minus_log(next_random(track) >> 11) * each);
}
