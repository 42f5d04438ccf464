/* section.c - announcing oneself, and waiting while a profile is held still. */
#include "alloc/track/section.h"

#include <sys/syscall.h>

#include "alloc/sys/os.h"

/* linux/membarrier.h */
#define COMMAND_PRIVATE  (1 << 3)
#define COMMAND_REGISTER (1 << 4)

_Atomic(uint32_t) na_alarm;
const na_hooks_t na_hooks_paused;
_Atomic(bool) na_section_by_membarrier;
_Atomic(const na_hooks_t *) na_hooks;

static _Atomic(uint32_t) held_by; /* id of the thread cache whose thread holds the profile still */
static _Atomic(uint32_t) pauses;  /* a futex: changes when the profile goes on */
static const na_hooks_t *held;    /* while na_hooks is &na_hooks_paused */

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
