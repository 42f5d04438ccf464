/* switch.c - the handshakes between who switches recording and the threads that run. */
#include "alloc/core/thread/switch.h"

#include "alloc/core/cache/bin.h"
#include "alloc/core/cache/large_bins.h"
#include "alloc/core/path/seam.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/tuned.h"
#include "alloc/core/track/track.h"

enum { PATIENCE_MS = NA_IDLE_MS };

const na_controller_t *na_controller;

/* Raised with each switch, and in each child, before na_alarm: what credits were granted under. */
static _Atomic(uint32_t) switches;
/* `switches` at the latest switch: from there on only forks have raised it. */
static _Atomic(uint32_t) switched_at;

static void raise_after_fork(void) {
    atomic_fetch_add(&switches, 1);
    atomic_fetch_add(&na_alarm, NA_ALARM_RAISE);
}

static void raise_alarm(void) {
    atomic_store(&switched_at, atomic_load(&switches) + 1);
    raise_after_fork();
}

/* After the alarm that tells of it. */
static void open_session(void) {
    atomic_store(&na_noticed_session, na_session);
}

/* --- waiting for threads to leave --- */

typedef struct leaving {
    const na_tcache_t *self;
    uint64_t until_ms;
    bool all;
} leaving_t;

static void wait_for(na_tcache_t *tcache, void *arg) {
    leaving_t *leaving = arg;
    if (tcache == leaving->self) return;
    while (leaving->all && atomic_load_explicit(&tcache->track.inside, memory_order_seq_cst) != 0) {
        if (na_os_ms() > leaving->until_ms)
            leaving->all = false;
        else
            na_os_yield();
    }
}

static bool all_left(const na_tcache_t *self) {
    leaving_t leaving = {self, na_os_ms() + PATIENCE_MS, true};
    na_section_order_all();
    na_tcache_each(wait_for, &leaving);
    return leaving.all;
}

/* --- the switch --- */

static void set_every_event(bool recorded) {
    na_every_event =
        (recorded || na_record_all ? NA_EVERY_RECORDED : 0u) | (na_every_event & NA_EVERY_SEEN);
}

bool na_switch_prepare(const na_tcache_t *self) {
    static bool registered;
    if (!registered) na_section_use_membarrier();
    registered = true;
    bool was = na_section_let_quicken(false);
    if (all_left(self)) return true;
    na_section_let_quicken(was);
    return false;
}

void na_switch_give_up(void) {
    na_section_let_quicken(!na_every_event);
}

void na_switch_on(const na_hooks_t *hooks, bool every_event) {
    atomic_fetch_add(&na_session, 1);
    na_sample_interval = every_event ? 0 : hooks->sample_interval;
    atomic_store_explicit(&na_hooks, hooks, memory_order_release);
    set_every_event(every_event);
    raise_alarm();
    open_session();
}

bool na_switch_off(const na_tcache_t *self) {
    atomic_store(&na_hooks, NULL);
    set_every_event(false);
    na_sample_interval = na_sample_idle;
    raise_alarm();
    bool all = all_left(self);
    atomic_fetch_add(&na_session, 1);
    open_session(); /* of strict checking, which goes on */
    na_section_let_quicken(all && !na_every_event);
    return all;
}

void na_switch_idle_samples(uint64_t interval) {
    na_sample_idle = interval;
    if (atomic_load(&na_hooks) == NULL) na_sample_interval = interval;
    raise_alarm();
}

bool na_switch_pause(const na_tcache_t *self) {
    na_section_hold(&self->track);
    if (all_left(self)) return true;
    na_section_release();
    return false;
}

void na_switch_resume(void) {
    na_section_release();
}

/* --- the threads' side --- */

static void notice(na_tcache_t *tcache) {
    tcache->track.alarm = atomic_load_explicit(&na_alarm, memory_order_acquire) & ~NA_ALARM_HELD;
}

/* Where calls go that the hot path misses. (They do not look at na_session: a thread that has
 * noticed the beginning of a profile, and not its end, is in its session.) */
static void set_misses(na_tcache_t *tcache) {
    tcache->track.is_timed = false;
    tcache->track.timed_from = 0;
    tcache->track.in_realloc = false;
    tcache->misses = na_path.misses != NULL ? na_path.misses(tcache) : NULL;
}

void na_switch_new_tcache(na_tcache_t *tcache) {
    notice(tcache);
    tcache->track.switches = atomic_load_explicit(&switches, memory_order_acquire);
    set_misses(tcache);
}

void na_switch_alarmed(na_tcache_t *tcache) {
    notice(tcache);
    uint32_t now = atomic_load_explicit(&switches, memory_order_acquire);
    if (tcache->track.switches != now) {
        /* After a fork alone, a sample that is due is still taken: the credit that led up to it was
         * granted because no sample was in it, so to draw again here would lose one. All else is
         * drawn anew. */
        uint32_t at = atomic_load_explicit(&switched_at, memory_order_relaxed);
        bool forked =
            na_sampler_part(&tcache->track) && (int32_t)(tcache->track.switches - at) >= 0;
        tcache->track.switches = now;
        set_misses(tcache);
        na_large_bins_close(tcache);
        for (unsigned cls = 1; cls < NA_CLASS_COUNT; cls++) {
            if (tcache->states[cls].cap == 0) continue;
            na_bin_count(tcache, cls);
            na_bin_state_t *state = &tcache->states[cls];
            if (!forked || state->until_sample >= state->size) /* has no memory */
                state->until_sample =
                    na_sampler_draw(&tcache->track, state->size, &state->sample_step);
            na_bin_grant(tcache, cls);
        }
        if (!forked || (tcache->large.next.bytes > 1 && tcache->large.next.blocks > 1))
            na_large_draw(tcache);
        na_layers_switched(tcache);
    }
    if (na_controller != NULL) na_controller->attend(tcache);
}

void na_switch_forked_samples(void) {
    if (na_sample_interval != 0) raise_after_fork();
}

void na_switch_after_fork_child(void) {
    if (atomic_load(&na_hooks) == &na_hooks_paused) na_section_release();
    atomic_fetch_and(&na_alarm, ~NA_ALARM_HELD); /* the parent was about to */
}

void na_switch_new_process(void) {
    uint32_t session = atomic_fetch_add(&na_session, 1) + 1;
    na_tcache_t *tcache = na_self;
    if (tcache != &na_tcache_empty && tcache != &na_tcache_gone)
        na_section_join(&tcache->track, session);
    na_sampler_forked(true);
    raise_after_fork();
    open_session();
}
