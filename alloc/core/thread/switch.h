/* switch.h - turning recording on, off and still while threads run.
 *
 * The hot path knows nothing of it: what changes is what slow paths find. A thread that is under
 * way on the credits it was granted before the switch notices at its next slow path, whatever that
 * is for, and from then on has no credit at all (mode sites) or what the sampler allows (mode
 * sample). So the bound on what a profile that begins in the middle of a run misses is: of each
 * running thread, in each size class, at most NA_CREDIT_MAX allocations and as many frees of blocks
 * without a record; and no more than that again of a thread that was inside a slow path just then.
 * A thread that uses one class passes a slow path at least every NA_CREDIT_MAX operations, and the
 * first one in any class ends it for all. Nothing that was missed is ever half there: a block that
 * was handed out unseen has no record of this profile, so its free is one of "before". (A span
 * whose blocks all have records begins no sooner than the alarm is raised: na_noticed_session.)
 *
 * Turning off costs nothing at once: pages stay tagged slow until the first of their blocks is
 * freed (recording.c), then free is as fast as before.
 *
 * One switch at a time (the controller holds a lock); never by a thread that is inside a section.
 */
#ifndef NUMALLOC_ALLOC_CORE_THREAD_SWITCH_H
#define NUMALLOC_ALLOC_CORE_THREAD_SWITCH_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/track/hooks.h"

/* When a profile begins, ends and is copied is for the controller (profiler/control) to say, which
 * registers itself here. */
typedef struct na_controller {
    /* Carries out what was asked for, if nobody else is at it. Not behind the gate. */
    void (*attend)(na_tcache_t *tcache);
    /* Slow paths come by now and then. Not behind the gate. */
    void (*poll)(na_tcache_t *tcache, uint64_t now_ms);
    /* A fork waits for a switch that is under way. False: it is that of the thread itself, which a
     * signal handler interrupted to fork, or does not end. */
    bool (*before_fork)(void);
    void (*after_fork_parent)(void); /* where it was true */
    void (*after_fork_child)(bool held);
} na_controller_t;

/* NULL: nobody asks for profiles. Set once, by na_init. */
extern const na_controller_t *na_controller;

/* Recording can begin: no thread is inside a section of before. False: one has been inside for a
 * second (stopped, or out of a signal handler by longjmp); nothing has changed. After it, the
 * profiler may make everything new; then na_switch_on or na_switch_give_up. */
bool na_switch_prepare(const na_tcache_t *self);
/* every_event: mode sites or trace; else samples at the hooks' interval. na_traced_choose
 * (alloc/record/recording.h) comes before it. */
void na_switch_on(const na_hooks_t *hooks, bool every_event);
void na_switch_give_up(void);
/* No hook is called from here on; true: and none is running, the profiler may take everything down.
 * False: as above; it must leave all as it is. */
bool na_switch_off(const na_tcache_t *self);
/* Holds all threads at their next event; true: none is inside a hook. False: nothing is held. */
bool na_switch_pause(const na_tcache_t *self);
void na_switch_resume(void);

/* What the sampler's interval is while no profile has one of its own; it holds at once if none
 * runs. Once, in the library's constructor. */
void na_switch_idle_samples(uint64_t interval);

/* A thread cache that was made just now, before its first draw of the sampler. */
void na_switch_new_tcache(na_tcache_t *tcache);
/* The thread cache's word differs from na_alarm: takes credits back and has the controller attend.
 */
NA_COLD void na_switch_alarmed(na_tcache_t *tcache);

/* In a child: its threads draw their samples anew. */
void na_switch_forked_samples(void);
void na_switch_after_fork_child(void);
/* A child that no fork handler has seen: what the profiler keeps for its threads was the parent's.
 */
NA_NEAR void na_switch_new_process(void);

#endif
