/* access_watch_near.c - see access_watch_near.h. */
#include "profiler/record/sources/watch/access_watch_near.h"

#include <linux/sched.h>
#include <time.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/sources/access_perf.h"

#define SLOW  UINT64_C(1000000) /* ns for one thread: hundreds of times the usual */
#define TIMES 16u               /* what the better way takes, until the other is tried again */
#define SHARE 4u                /* of a mean that one new value is */
#define CPUS  8192u
#define NONE  UINT32_MAX

static struct {
    uint32_t cpu[NA_PERF_TARGETS]; /* where it ran since the last time; NONE: it was not seen to */
    na_near_ways_t ways;
    uint64_t began;
    bool goes;  /* this time */
    bool timed; /* this thread */
    bool moved; /* `everywhere` is to be restored */
    long bytes; /* of it */
    uint64_t everywhere[CPUS / 64], here[CPUS / 64];
} n;

/* ---- which way ---- */

bool na_near_choose(const na_near_ways_t *ways) {
    const struct na_near_way *waiting = &ways->waiting, *going = &ways->going;
    if (waiting->mean <= SLOW) return false;
    bool better = going->mean < waiting->mean;
    const struct na_near_way *this_one = better ? going : waiting,
                             *other = better ? waiting : going;
    return this_one->spent >= TIMES * other->mean ? !better : better;
}

void na_near_took(na_near_ways_t *ways, bool going, uint64_t ns) {
    struct na_near_way *way = going ? &ways->going : &ways->waiting;
    way->mean = way->mean == 0 ? ns : way->mean - way->mean / SHARE + ns / SHARE;
    way->spent += ns;
    (going ? &ways->waiting : &ways->going)->spent = 0;
}

/* ---- going ---- */

void na_near_start(void) {
    n.ways = (na_near_ways_t){0};
    n.moved = false;
    for (uint32_t i = 0; i < NA_PERF_TARGETS; i++)
        n.cpu[i] = NONE;
}

void na_near_seen(uint32_t target, uint32_t cpu) {
    n.cpu[target] = cpu;
}

bool na_near_begin(void) {
    n.goes = na_near_choose(&n.ways);
    n.moved = false;
    return n.goes;
}

static uint64_t cpu_time(void) {
    struct timespec t = {0};
    na_sys2(SYS_clock_gettime, CLOCK_THREAD_CPUTIME_ID, (long)&t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
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

/* Of a thread that runs: its CPU, by /proc. Fields 3 and 39 of its line, behind its name, which may
 * have anything in it. NONE: it does not run, or nobody knows. */
static uint32_t cpu_of(uint32_t tid) {
    char text[512];
    long length = na_access_read_task(tid, "/stat", text, sizeof text - 1);
    if (length <= 0) return NONE;
    text[length] = 0;
    const char *p = text + length;
    while (p > text && *p != ')')
        p--;
    if (p[0] != ')' || p[1] != ' ' || p[2] != 'R') return NONE;
    uint32_t field = 2, cpu = 0;
    for (; field < 39 && *p != 0; p++)
        field += *p == ' ';
    if (*p < '0' || *p > '9') return NONE;
    for (; *p >= '0' && *p <= '9'; p++)
        cpu = cpu * 10 + (uint32_t)(*p - '0');
    return cpu;
}

static void switch_at(uint32_t cpu, uint32_t tid) {
    n.timed = cpu != NONE;
    if (!n.timed) return;
    n.began = cpu_time();
    if (n.goes && is_ordinary(tid)) go_to(cpu);
}

void na_near_go(uint32_t target, uint32_t tid) {
    uint32_t cpu = n.cpu[target];
    n.cpu[target] = NONE; /* until it is seen again */
    if (cpu == NONE && n.goes) cpu = cpu_of(tid);
    switch_at(cpu, tid);
}

void na_near_done(void) {
    if (n.timed) na_near_took(&n.ways, n.goes, cpu_time() - n.began);
}

void na_near_end(void) {
    if (n.moved) na_sys3(SYS_sched_setaffinity, 0, n.bytes, (long)n.everywhere);
    n.moved = false;
}

void na_near_meet(uint32_t tid) {
    na_near_begin();
    switch_at(cpu_of(tid), tid);
}

void na_near_met(void) {
    na_near_done();
    na_near_end();
}
