/* access_watch_near.h - on which CPU the recorder is while it switches a thread's watchpoints.
 *
 * Each register of a thread that runs is switched by an interrupt of its CPU, which the recorder
 * waits for: ten of them for one look, and six where its events are opened. Where CPUs answer at
 * once that is some microseconds. Where they are virtual, and more than the machine has for them,
 * each wait is a time slice of the host: one look at two busy threads took 60 ms of the recorder's
 * time, so that at the usual cost there was one in two seconds. A thread that does not run has its
 * registers switched without asking anybody. So the recorder goes to the CPU of the thread, which
 * makes the thread wait, switches them all there, and goes on.
 *
 * It does so only where waiting was measured to take longer, and measures the other way again when
 * it has spent many times as much on this one. It goes where the target was seen to run since the
 * last time, and only to threads of an ordinary scheduling policy: behind one that never gives its
 * CPU away it would stand for ever.
 *
 * Used by the access thread. No signal, no lock. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_NEAR_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_NEAR_H

#include <stdbool.h>
#include <stdint.h>

/* What is known of the two ways. ns of the recorder's CPU time (it is busy while it waits for an
 * interrupt, and not while it waits for its turn): the mean of a thread, 0: not tried yet; and what
 * was spent on this way since the other one was tried. */
typedef struct na_near_ways {
    struct na_near_way {
        uint64_t mean, spent;
    } waiting, going;
} na_near_ways_t;

/* Which is to be taken? True: going. Pure. */
bool na_near_choose(const na_near_ways_t *ways);
/* It was taken, and took so long for one thread. Pure. */
void na_near_took(na_near_ways_t *ways, bool going, uint64_t ns);

void na_near_start(void);

/* A sample says that the target runs there. */
void na_near_seen(uint32_t target, uint32_t cpu);

/* Switching begins, and ends: the recorder may be anywhere again. True: it will go to threads. */
bool na_near_begin(void);
void na_near_end(void);

/* What is between the two is the switching of this target. */
void na_near_go(uint32_t target, uint32_t tid);
void na_near_done(void);

/* The same, beginning and end included, of a thread whose events are opened or closed: where it
 * runs, no sample need have told. */
void na_near_meet(uint32_t tid);
void na_near_met(void);

#endif
