/* track.h - what tracking keeps of a thread: where it is while it touches records or calls hooks,
 * and which of its blocks mode "sample" looks at.
 *
 * What reads or changes records, and every call of a hook, runs between na_section_enter and
 * na_section_leave: the switch (thread/switch.h) waits until no thread is there. They nest, for the
 * sake of signal handlers. */
#ifndef NUMALLOC_ALLOC_CORE_TRACK_TRACK_H
#define NUMALLOC_ALLOC_CORE_TRACK_TRACK_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/track/hooks.h"
#include "pagemap/pagemap.h"

/* --- what tracking keeps of a thread ---
 *
 * A member of its thread cache (alloc/core/cache/thread_cache.h).
 *
 * Tracking is all that makes blocks known: records, samples, timed calls, the profiler's hooks. It
 * lies below the thread caches, and knows nothing of them but this. Written by the thread that the
 * cache belongs to, where nothing else is said. */

typedef struct na_track {
    void *profile;            /* the profiler's word (hooks.h) */
    uint32_t session;         /* that it is of */
    uint32_t alarm, switches; /* as last noticed (thread/switch.h) */
    _Atomic(uint32_t) inside; /* sections that the thread is in; read by the switch */
    uint32_t countdown;       /* of the path that the thread's misses go (seam.h): calls until it
                               * does something else with one */
    uint64_t timed_from;      /* ticks when the call that is being timed began; 0: none is */
    uint64_t timed_out;       /* of those since, not the call's */
    uint64_t random;          /* state of the sampler's generator; 0: no seed yet */
    uint32_t lineage;         /* of the process that it draws for (below) */
    uint16_t id;              /* of the thread cache */
    uint8_t node;             /* the thread cache's */
    bool in_realloc;          /* the calls that it makes are no calls of the program */
    bool is_timed;            /* as last noticed, calls are timed */
} na_track_t;

/* NUMALLOC_CHECK: every free is verified against the registry before it is believed. */
extern bool na_strict;
/* Every block has a record from the first on, whether or not a profile runs: strict, or a scan for
 * leaks is to come. Constant since na_init. */
extern bool na_record_all;
/* Every block is to have a record, from the first on (na_record_all). While na_init runs. */
void na_record_each(void);
/* One of both: sized frees are checked. */
extern NA_NEAR bool na_sizes_count;

/* What a slow path compares with the thread's word: raised for every switch, every request to the
 * controller, and when a profile that was held still goes on. While it is held still the alarm is
 * NA_ALARM_HELD more, which no thread's word is. Another process raises it by its last byte, which
 * nobody here writes by itself (profiler/format/mailbox.h). */
extern NA_NEAR _Atomic(uint32_t) na_alarm;
#define NA_ALARM_HELD   1u
#define NA_ALARM_RAISE  2u
#define NA_ALARM_OTHERS 3 /* the byte */

/* There is a switch, or a request, that the thread has not noticed (na_switch_alarmed). */
NA_INLINE bool na_section_alarmed(const na_track_t *track) {
    return track->alarm != atomic_load_explicit(&na_alarm, memory_order_acquire);
}

/* What na_hooks points to while all threads that meet an event are to wait. */
extern NA_NEAR const na_hooks_t na_hooks_paused;

/* The thread's word of the profiler is that of this session from now on. */
NA_INLINE void na_section_join(na_track_t *track, uint32_t session) {
    if (track->session == session) return;
    track->session = session;
    track->profile = NULL; /* lay in what is no longer there */
}

/* Says that the thread is inside a section, before it looks at anything that the switch changes.
 * Where the kernel has membarrier, the switch makes all threads order the two; otherwise, and for
 * ThreadSanitizer, which does not know it, each thread does. */
extern NA_NEAR _Atomic(bool) na_section_by_membarrier;
NA_INLINE void na_section_announce(na_track_t *track) {
    uint32_t depth = atomic_load_explicit(&track->inside, memory_order_relaxed);
    if (NA_LIKELY(atomic_load_explicit(&na_section_by_membarrier, memory_order_relaxed))) {
        atomic_store_explicit(&track->inside, depth + 1, memory_order_relaxed);
        atomic_signal_fence(memory_order_seq_cst);
    } else {
        atomic_exchange_explicit(&track->inside, depth + 1, memory_order_seq_cst);
#ifndef __x86_64__ /* where that alone would let later loads come first */
        atomic_thread_fence(memory_order_seq_cst);
#endif
    }
}

/* na_section_enter while the profile is held still, or in a session that is new to the thread. */
const na_hooks_t *na_section_enter_slow(na_track_t *track);

NA_INLINE void na_section_leave(na_track_t *track) {
    uint32_t depth = atomic_load_explicit(&track->inside, memory_order_relaxed);
    atomic_store_explicit(&track->inside, depth - 1, memory_order_release);
}

/* The hooks to call, or NULL; waits while the profile is held still. */
NA_INLINE const na_hooks_t *na_section_enter(na_track_t *track) {
    na_section_announce(track);
    const na_hooks_t *hooks = atomic_load_explicit(&na_hooks, memory_order_acquire);
    if (NA_UNLIKELY(hooks == &na_hooks_paused) ||
        NA_UNLIKELY(track->session != atomic_load_explicit(&na_session, memory_order_relaxed))) {
        na_section_leave(track);
        return na_section_enter_slow(track);
    }
    return hooks;
}

/* Pages that were slow for the sake of a profile may become fast with the next free in them, or may
 * not; what was so before. For the switch. */
bool na_section_let_quicken(bool may);
bool na_section_may_quicken(void);

/* For the switch. Threads announce themselves by plain stores from now on, if the kernel lets. */
void na_section_use_membarrier(void);
/* After it, every thread sees what the caller stored before it, or shows that it is inside. */
void na_section_order_all(void);
/* Threads that meet an event wait, but the one of `self`; until the profile goes on. */
void na_section_hold(const na_track_t *self);
void na_section_release(void);

/* --- Which blocks mode "sample" looks at ---
 *
 * Samples are the points of a Poisson process over the bytes handed out, of rate 1 / interval: each
 * class of each thread cache counts down bytes drawn from an exponential distribution. The
 * processes of all classes and threads add up to one Poisson process, so that a block of b usable
 * bytes is sampled with probability 1 - exp(-b / interval), whatever else goes on.
 *
 * For the path (na_path.drawn) blocks are drawn by their number, not by their bytes, unless a
 * profile draws them: the interval of each small class is so many blocks of it, and that of large
 * blocks, all together, is another number. That is so beside the modes that record every event,
 * too. */

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
/* The interval while no profile has another one: 0, or NA_SAMPLE_EACH where the path wants some. */
extern uint64_t na_sample_idle;

/* A profile samples: small blocks and large ones by their bytes, and those of heaps. */
NA_INLINE bool na_samples_bytes(void) {
    return na_sample_interval + 1 > 1;
}
/* Blocks are drawn by their number: the path wants some, and no profile draws any. */
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
/* By bytes only, whatever their size: of large blocks, and of the program's own heaps. */
int64_t na_sampler_draw_bytes(na_track_t *track);
/* By number only: of large blocks up to the one that is drawn; INT64_MAX where none is. */
int64_t na_sampler_draw_number(na_track_t *track, uint8_t *step);
/* With which a block of `usable` bytes is sampled, where that was drawn by `step`. */
double na_sampler_chance(size_t usable, uint8_t step);
/* How many events to pass over, so that each is met with the same probability, one in `each` or a
 * little less, independently of the others. */
uint32_t na_sampler_gap(na_track_t *track, uint32_t each);

#endif
