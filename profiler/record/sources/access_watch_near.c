/* access_watch_near.c - see access_watch_near.h. */
#include "profiler/record/sources/access_watch_near.h"

#include <linux/sched.h>

#include "alloc/sys/syscall.h"
#include "profiler/record/sources/access_perf.h"

#define SLOW                                                                                       \
    UINT64_C(1000000) /* ns that switching one thread takes: hundreds of times the usual           \
                       */
#define AGAIN 32u     /* times after which it is tried again without going */
#define CPUS  8192u
#define NONE  UINT32_MAX

static struct {
    uint32_t cpu[NA_PERF_TARGETS]; /* where it ran since the last time; NONE: it was not seen to */
    uint64_t waited, went;         /* ns a target by either way, the last time; 0: not known */
    uint64_t began, sum;
    uint32_t count, times;
    bool goes;  /* this time */
    bool moved; /* `everywhere` is to be restored */
    long bytes; /* of it */
    uint64_t everywhere[CPUS / 64], here[CPUS / 64];
} n;

static void forget(void) {
    for (uint32_t i = 0; i < NA_PERF_TARGETS; i++)
        n.cpu[i] = NONE;
}

void na_near_start(void) {
    n.waited = n.went = 0;
    n.times = 0;
    forget();
}

void na_near_seen(uint32_t target, uint32_t cpu) {
    n.cpu[target] = cpu;
}

bool na_near_begin(void) {
    n.goes = n.waited > SLOW && n.went < n.waited && ++n.times % AGAIN != 0;
    n.sum = n.count = 0;
    n.moved = false;
    return n.goes;
}

static bool is_ordinary(uint32_t tid) {
    long policy = na_sys1(SYS_sched_getscheduler, tid);
    return policy == SCHED_NORMAL || policy == SCHED_BATCH || policy == SCHED_IDLE;
}

static void go_to(uint32_t cpu) {
    if (!n.moved) n.bytes = na_sys3(SYS_sched_getaffinity, 0, CPUS / 8, (long)n.everywhere);
    if (n.bytes <= 0 || cpu >= (uint32_t)n.bytes * 8) return;
    n.here[cpu / 64] = UINT64_C(1) << cpu % 64;
    /* (Refused: the process may not go there any more. Then it waits, as it would have.) */
    n.moved |= na_sys3(SYS_sched_setaffinity, 0, n.bytes, (long)n.here) == 0;
    n.here[cpu / 64] = 0;
}

void na_near_go(uint32_t target, uint32_t tid) {
    n.began = 0;
    if (n.cpu[target] == NONE) return;
    n.began = na_access_mono();
    if (n.goes && is_ordinary(tid)) go_to(n.cpu[target]);
}

void na_near_done(void) {
    if (n.began == 0) return;
    n.sum += na_access_mono() - n.began;
    n.count++;
}

void na_near_end(void) {
    if (n.moved) na_sys3(SYS_sched_setaffinity, 0, n.bytes, (long)n.everywhere);
    if (n.count != 0) *(n.goes ? &n.went : &n.waited) = n.sum / n.count;
    forget();
}
