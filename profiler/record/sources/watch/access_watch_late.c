/* access_watch_late.c - see access_watch_late.h. */
#include "profiler/record/sources/watch/access_watch_late.h"

#include <sys/ioctl.h>
#include <sys/prctl.h>
#include <time.h>

#define PROBES      32u
#define WARM        32u
#define NAP         20000 /* ns */
#define COST_UNSEEN 20000 /* ns: nothing could be measured */
/* Measuring takes so long at most, ns. On a full machine each nap ends when others leave a CPU: it
 * would take seconds, in which nothing is watched. */
#define NAPS_MOST  UINT64_C(100000000)
#define NAPS_LEAST 4u /* of each kind, to say what getting a CPU costs */
/* Getting a CPU writes the registers that a hit reads: never many times as dear. What is measured
 * beyond that is the wait for it. */
#define WOKEN_MOST 8u /* hits */

na_late_costs_t na_late_cost;

/* Of a target in this window. */
typedef struct late {
    uint64_t begun, now, spent;
} late_t;

static late_t late[NA_PERF_TARGETS];

/* ---- in a window ---- */

void na_late_open(void) {
    __builtin_memset(late, 0, na_perf_count * sizeof late[0]);
}

void na_late_begin(uint32_t target, uint64_t begun) {
    late[target].begun = begun;
}

void na_late_hit(uint32_t target, uint64_t time, uint64_t cost) {
    late_t *l = &late[target];
    l->spent += cost;
    if (time >= l->begun) l->now += cost;
}

void na_late_woken(uint32_t target, uint64_t time) {
    na_late_hit(target, time, na_late_cost.woken);
}

uint64_t na_late_now(uint32_t target) {
    return late[target].now;
}

uint64_t na_late_spent(uint32_t target) {
    return late[target].spent;
}

/* ---- what things cost ---- */

static volatile uint64_t probe, no_probe;
static uint64_t probe_hit;
static bool fired;

static void take_probe(na_perf_target_t *t, const struct perf_event_header *header,
                       const uint64_t *words, uint32_t count) {
    (void)t;
    na_perf_hit_t b;
    if (header->type != PERF_RECORD_SAMPLE || count * 8 < sizeof b || probe_hit != 0) return;
    __builtin_memcpy(&b, words, sizeof b);
    probe_hit = b.time;
    fired = true;
}

/* Some times, in order. */
typedef struct times {
    uint64_t ns[PROBES];
    uint32_t count;
} times_t;

static void add_time(times_t *to, uint64_t ns) {
    uint32_t at = to->count++;
    for (; at > 0 && to->ns[at - 1] > ns; at--)
        to->ns[at] = to->ns[at - 1];
    to->ns[at] = ns;
}

static uint64_t median_time(const times_t *of) {
    return of->count != 0 ? of->ns[of->count / 2] : 0;
}

static void switch_probes(const na_perf_plan_t *plan, long how) {
    for (uint32_t k = 0; k < plan->events; k++)
        na_sys3(SYS_ioctl, na_perf_target[0].fd[k], how, 0);
}

static uint64_t first_cycle, last_cycle; /* the former began then, the latter ended */

/* Is there time for one more nap? */
static bool naps(void) {
    return last_cycle - first_cycle < NAPS_MOST;
}

/* Sleeps, and uses its word: what a thread does that waits for work. */
static uint64_t cycle(bool write, times_t *hit, times_t *entry) {
    const struct timespec t = {.tv_nsec = NAP};
    uint64_t began = na_access_mono();
    if (first_cycle == 0) first_cycle = began;
    if (naps()) na_sys2(SYS_nanosleep, (long)&t, 0);
    na_perf_drain(&na_perf_target[0], take_probe);
    probe_hit = 0;
    uint64_t before = na_access_mono();
    if (write)
        probe = before;
    else
        (void)probe;
    uint64_t after = last_cycle = na_access_mono();
    na_perf_drain(&na_perf_target[0], take_probe);
    if (hit != NULL) add_time(hit, after - before);
    if (entry != NULL && probe_hit > before && probe_hit < after)
        add_time(entry, probe_hit - before);
    return after - began;
}

bool na_late_measure(const na_perf_plan_t *plan, uint32_t each) {
    na_perf_plan_t probes = *plan; /* all of them are on, as they will be */
    times_t all[2] = {{.count = 0}, {.count = 0}}, entry = all[0], hit[2] = {entry, entry};
    na_late_cost = (na_late_costs_t){.hit = {COST_UNSEEN, COST_UNSEEN}};
    for (uint32_t k = 0; k < plan->events; k++)
        probes.attr[k].bp_addr = (uintptr_t)(k < each ? &probe : &no_probe);
    if (na_perf_open_self(&probes) != 0) return true;
    fired = false;
    long slack = na_sys6(SYS_prctl, PR_GET_TIMERSLACK, 0, 0, 0, 0, 0);
    na_sys6(SYS_prctl, PR_SET_TIMERSLACK, 1, 0, 0, 0, 0);
    first_cycle = last_cycle = 0;
    for (uint32_t k = 0; k < WARM; k++)
        cycle(false, NULL, NULL);
    for (uint32_t i = 0; i < 4; i++) { /* off, on, off, on: what else goes on may change */
        bool on = i % 2 != 0;
        if (on) switch_probes(plan, PERF_EVENT_IOC_ENABLE);
        for (uint32_t k = 0; k < PROBES / 2; k++) {
            bool write = k % 2 != 0, napped = naps();
            uint64_t took = cycle(write, on ? &hit[write] : NULL, on ? &entry : NULL);
            if (napped) add_time(&all[on], took);
        }
        if (on) switch_probes(plan, PERF_EVENT_IOC_DISABLE);
    }
    if (slack > 0) na_sys6(SYS_prctl, PR_SET_TIMERSLACK, slack, 0, 0, 0, 0);
    na_perf_close_all();
    na_late_costs_t c = {{median_time(&hit[0]), median_time(&hit[1])}, median_time(&entry), 0};
    uint64_t more = median_time(&all[1]), less = median_time(&all[0]) + c.hit[0];
    if (c.hit[1] < c.hit[0]) c.hit[1] = c.hit[0];
    if (c.entry > c.hit[0]) c.entry = c.hit[0];
    if (all[0].count < NAPS_LEAST || all[1].count < NAPS_LEAST)
        c.woken = c.hit[0];
    else if (more > less)
        c.woken = more - less;
    if (c.woken > WOKEN_MOST * c.hit[0]) c.woken = WOKEN_MOST * c.hit[0];
    na_late_cost = c;
    return fired;
}
