/* access_watch_late.h - how late a thread is for being watched, at each moment of a window.
 *
 * Watching costs a thread time: each hit, and each time that it gets a CPU (the kernel writes four
 * debug registers; in a virtual machine that takes nearly as long as a hit). What it would have
 * done unwatched, it does later. A thread that sleeps until a certain time may catch up, but no
 * record tells which does: all are taken for such that stay late. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_LATE_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_WATCH_ACCESS_WATCH_LATE_H

#include "profiler/record/sources/access_perf.h"

/* What the kernel writes for each hit, in the order of sample_type's bits. */
typedef struct na_perf_hit {
    uint64_t id, ip;
    uint32_t pid, tid;
    uint64_t time, address;
    uint32_t cpu, reserved;
} na_perf_hit_t;

/* What the times of a window's records depend on, measured by the calling thread. ns. */
typedef struct na_late_costs {
    uint64_t hit[2]; /* a hit that is a read, a write */
    uint64_t entry;  /* of these, before the time that its sample carries */
    uint64_t woken;  /* getting a CPU, more than without words that are watched */
} na_late_costs_t;

extern na_late_costs_t na_late_cost;

/* Measures the costs with events of the plan, `each` of them for one word, in the calling thread.
 * Leaves no targets. False: they could be opened, and told of none of the accesses. */
bool na_late_measure(const na_perf_plan_t *plan, uint32_t each);

/* A window begins: no thread is late. */
void na_late_open(void);
/* A target's part of it begins: records from before `begun` make it no later. Before any of its
 * records. */
void na_late_begin(uint32_t target, uint64_t begun);
/* A target's records, in their order: a hit; it got a CPU. */
void na_late_hit(uint32_t target, uint64_t time, uint64_t cost);
void na_late_woken(uint32_t target, uint64_t time);

/* By how much a target is late after its latest record; what it lost in all. */
uint64_t na_late_now(uint32_t target);
uint64_t na_late_spent(uint32_t target);

#endif
