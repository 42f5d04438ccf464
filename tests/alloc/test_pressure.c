/* test_pressure.c - pageheap.c and limits.c: what the page heap does when the control group's
 * memory runs out. How much room the group leaves is the test's to say (na_cgroup_room and
 * na_charge_ask are replaced); the memory is real. */
#include <criterion/criterion.h>
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <ucontext.h>
#include <unistd.h>

#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/page/purge.h"
#include "alloc/core/sys/os.h"
#include "alloc/limits/cgroup.h"
#include "alloc/limits/charge.h"
#include "alloc/limits/limits.h"
#include "alloc/options/options_read.h"
#include "support/vm_flags.h"

#define MIB     ((uint64_t)1 << 20)
#define LIMIT   (64 * MIB)
#define UNKNOWN UINT64_MAX

static uint64_t room = UNKNOWN;
static uint64_t uncharged = UNKNOWN; /* and easy; UNKNOWN: as `room` */
static na_charge_t brink;
static unsigned looks, asked;

bool __wrap_na_cgroup_room(const char *proc, const char *sys, na_cgroup_room_t *result);
bool __wrap_na_cgroup_room(const char *proc, const char *sys, na_cgroup_room_t *result) {
    (void)proc, (void)sys;
    looks++;
    uint64_t last = uncharged != UNKNOWN ? uncharged : room;
    *result = (na_cgroup_room_t){LIMIT, room, last, last};
    return room != UNKNOWN;
}

na_charge_t __wrap_na_charge_ask(void);
na_charge_t __wrap_na_charge_ask(void) {
    asked++;
    return brink;
}

static void start(void) {
    setenv("NUMALLOC_NUMA", "off", 1);
    na_os_init();
    na_options_init();
    na_limits_init();
    na_topology_init(NULL, NULL);
    na_topology_ignore();
}

TestSuite(pressure, .init = start);

enum { RUN = 8, RUNS = 8192 }; /* pages; 64 KiB each */
static uintptr_t runs[RUNS];

static void take(unsigned i) {
    bool zeroed;
    runs[i] = na_pageheap_alloc_filled(0, RUN, &zeroed);
    cr_assert_neq(runs[i], 0);
    for (unsigned page = 0; page < RUN; page++)
        *(volatile char *)(runs[i] + page * NA_PAGE_SIZE) = 1;
}

static void give(unsigned i) {
    na_pageheap_free_filled(0, runs[i], RUN);
    runs[i] = 0;
}

static na_pageheap_stats_t stats(void) {
    na_pageheap_stats_t s;
    na_pageheap_get_stats(0, &s);
    return s;
}

/* New memory until the thread cache has looked again. */
static void take_until_look(unsigned *next) {
    for (unsigned before = looks; looks == before; (*next)++) {
        cr_assert_lt(*next, RUNS, "nobody has looked");
        take(*next);
    }
}

/* While memory is low pages get memory when they are touched (backing.h). */
Test(pressure, nothing_is_had_ahead_while_memory_is_low) {
    room = LIMIT; /* where there is no limit, the next look is a second away */
    unsigned next = 0;
    uint64_t ahead = 0;
    for (; next < 64; next++) {
        take(next);
        ahead += stats().dirty;
    }
    cr_assert_gt(ahead, 0);
    room = 6 * MIB;
    take_until_look(&next);
    cr_assert(na_pressure_is_low() && !na_pressure_is_critical());
    na_pageheap_trim(0, 0);
    for (unsigned end = next + 16; next < end; next++) {
        take(next);
        cr_assert_eq(stats().dirty, 0);
    }
}

Test(pressure, without_a_limit_nobody_is_bothered) {
    for (unsigned i = 0; i < 2048; i++) /* 128 MiB */
        take(i);
    cr_assert_not(na_pressure_is_critical());
    cr_assert_leq(looks, 2);
}

Test(pressure, a_small_process_does_not_look) {
    room = 0;
    for (unsigned i = 0; i < 32; i++) /* 2 MiB */
        take(i);
    cr_assert_eq(looks, 0);
}

Test(pressure, what_is_free_goes_back_and_huge_pages_are_over) {
    room = 40 * MIB;
    unsigned next = 0;
    take_until_look(&next);
    cr_assert_not(na_pressure_is_critical());
    for (unsigned i = 0; i < next; i += 2)
        give(i);
    cr_assert_gt(stats().dirty, MIB);
    room = 2 * MIB;
    next = RUNS / 2;
    take_until_look(&next);
    cr_assert(na_pressure_is_critical());
    cr_assert_eq(na_pressure_turn(), 1);
    cr_assert_lt(stats().dirty, MIB / 4);
    if (vm_has_huge_pages()) cr_assert(vm_has_flag((void *)runs[1], " nh "));

    room = LIMIT;
    for (unsigned i = 0; na_pressure_is_critical() && i < 3; i++)
        take_until_look(&next);
    cr_assert_not(na_pressure_is_critical());
}

Test(pressure, low_comes_before_critical) {
    room = 40 * MIB;
    unsigned next = 0;
    take_until_look(&next);
    cr_assert_not(na_pressure_is_low());
    room = 20 * MIB;
    take_until_look(&next);
    cr_assert(na_pressure_is_low());
    cr_assert_not(na_pressure_is_critical());
    room = LIMIT;
    take_until_look(&next);
    cr_assert_not(na_pressure_is_low());
    room = 20 * MIB;
    take_until_look(&next);
    cr_assert(na_pressure_is_low());
    room = UNKNOWN; /* the limit is lifted */
    take_until_look(&next);
    cr_assert_not(na_pressure_is_low());
}

/* Runs of many sizes, so that what was freed often does not fit. */
Test(pressure, no_more_is_resident_than_was_in_use) {
    static struct {
        uintptr_t start;
        uint32_t pages;
    } table[512];
    room = 2 * MIB;
    unsigned next = 0;
    take_until_look(&next);
    cr_assert(na_pressure_is_critical());
    uint32_t random = 1;
    uint64_t peak = 0, held = 0;
    for (unsigned i = 0; i < 20000; i++) {
        random = random * 1664525 + 1013904223;
        unsigned slot = random >> 16 & 511, pages = 1 + (random >> 8 & 15);
        if (table[slot].start != 0) na_pageheap_free(0, table[slot].start, table[slot].pages);
        bool zeroed;
        table[slot].start = na_pageheap_alloc(0, pages, 1, &zeroed);
        table[slot].pages = pages;
        cr_assert_neq(table[slot].start, 0);
        na_pageheap_stats_t s = stats();
        if (s.used > peak) peak = s.used;
        if (s.used + s.dirty > held) held = s.used + s.dirty;
    }
    uint64_t slack = (uint64_t)na_pressure_slack() << NA_PAGE_SHIFT;
    cr_assert_leq(slack, LIMIT / 64);
    cr_assert_leq(held, peak + 2 * slack + 16 * NA_PAGE_SIZE, "%lu held, %lu used",
                  (unsigned long)held, (unsigned long)peak);
}

/* Where a run of pages is had, or refused. */
static uintptr_t try(uint32_t pages) {
    bool zeroed;
    uintptr_t run = na_pageheap_alloc(0, pages, 1, &zeroed);
    for (uint32_t page = 0; run != 0 && page < pages; page++)
        *(volatile char *)(run + page * NA_PAGE_SIZE) = 1;
    return run;
}

/* What was refused just now is not asked for again. */
static void let_time_pass(void) {
    for (uint64_t now = na_os_ms(); na_os_ms() == now;)
        ;
}

static void begin_the_last(unsigned *next) {
    room = 40 * MIB;
    *next = 0;
    take_until_look(next);
    cr_assert_not(na_pressure_is_exhausted());
    room = MIB / 2; /* a quarter of half of it is what a run takes */
    brink = NA_CHARGE_UNKNOWN;
    take_until_look(next);
    cr_assert(na_pressure_is_exhausted());
}

Test(pressure, what_cannot_be_charged_is_refused) {
    unsigned next;
    begin_the_last(&next);
    room = 0;
    brink = NA_CHARGE_NONE;
    uint64_t before = na_limits_refusals();
    cr_assert_eq(try(RUN), 0);
    cr_assert_gt(na_limits_refusals(), before);
    let_time_pass();
    asked = 0;
    cr_assert_eq(try(NA_HUGE_PAGES * 16), 0, "large ones must find a part");
    cr_assert_eq(asked, 1);
    cr_assert_eq(try(RUN), 0);
    cr_assert_leq(asked, 2, "not each time");

    /* What is given back serves again, without asking. */
    give(1);
    asked = 0;
    cr_assert_neq(try(RUN), 0);
    cr_assert_eq(asked, 0);

    /* And so does what others have given back. */
    cr_assert_eq(try(RUN), 0);
    room = 2 * MIB;
    let_time_pass();
    uintptr_t large = try(NA_HUGE_PAGES * 16);
    cr_assert_neq(large, 0);
    cr_assert(na_pressure_is_exhausted());
    room = LIMIT;
    take_until_look(&next);
    cr_assert_not(na_pressure_is_exhausted());
}

/* At once, and not after the moment for which a refusal holds. */
Test(pressure, what_went_back_to_the_system_may_be_had_at_once) {
    unsigned next;
    begin_the_last(&next);
    room = 0;
    brink = NA_CHARGE_NONE;
    cr_assert_eq(try(RUN), 0);
    give(1);
    cr_assert_eq(na_purge_trim(&na_free_pages[0], 0), RUN);
    room = 2 * MIB;
    cr_assert_neq(try(RUN), 0);
}

Test(pressure, the_kernel_has_the_last_word) {
    unsigned next;
    begin_the_last(&next);
    room = 0;
    asked = 0;
    brink = NA_CHARGE_ROOM; /* what seemed to be in use was not */
    cr_assert_neq(try(RUN), 0);
    brink = NA_CHARGE_UNKNOWN;
    cr_assert_neq(try(RUN), 0);
    cr_assert_eq(asked, 2);
    cr_assert_eq(na_limits_refusals(), 0);
}

Test(pressure, a_run_is_not_extended_by_what_there_is_not) {
    unsigned next;
    begin_the_last(&next);
    bool zeroed;
    uintptr_t run = na_pageheap_alloc_growing(0, RUN, RUN, &zeroed);
    cr_assert_neq(run, 0);
    room = 0;
    brink = NA_CHARGE_NONE;
    cr_assert_not(na_pageheap_extend(0, run, RUN, RUN, &zeroed));
    room = 2 * MIB;
    let_time_pass();
    cr_assert(na_pageheap_extend(0, run, RUN, RUN, &zeroed));
}

/* What was granted is charged, so that the next look sees it. */
Test(pressure, while_exhausted_all_is_touched) {
    unsigned next;
    begin_the_last(&next);
    bool zeroed;
    uintptr_t run = na_pageheap_alloc_filled(0, RUN, &zeroed);
    cr_assert_neq(run, 0);
    for (size_t at = 0; at < RUN * NA_PAGE_SIZE; at += na_os_page)
        cr_assert(na_os_is_resident((void *)(run + at)));
}

Test(pressure, memory_taken_before_is_asked_for_when_it_is_used) {
    bool zeroed;
    uintptr_t early = na_pageheap_alloc_filled(0, RUN, &zeroed);
    cr_assert_not(na_os_is_resident((void *)early));
    unsigned next;
    begin_the_last(&next);
    room = 0;
    brink = NA_CHARGE_NONE;
    cr_assert_not(na_limits->may_use(early, 64));
    cr_assert_not(na_os_is_resident((void *)early));
    cr_assert(na_limits->may_use(runs[1], 64), "it has its page");
    room = 2 * MIB;
    let_time_pass();
    cr_assert(na_limits->may_use(early, 64));
    cr_assert(na_os_is_resident((void *)early));
}

Test(pressure, refusal_can_be_switched_off) {
    setenv("NUMALLOC_CGROUPS", "1", 1);
    na_options_init();
    room = 40 * MIB;
    unsigned next = 0;
    take_until_look(&next);
    room = 0;
    brink = NA_CHARGE_NONE;
    take_until_look(&next);
    take_until_look(&next);
    cr_assert(na_pressure_is_critical());
    cr_assert_not(na_pressure_is_exhausted());
}

#ifdef __x86_64__
/* Where another thread comes first with the first look, between any two instructions of the one
 * that asks: one is stepped through by the trap flag, in a process for each place. */
enum { TRAP_FLAG = 0x100, STEPS_LEAST = 20, STEPS_MOST = 10000 };
enum { MET = 10, LOCKED, ENDED }; /* how a process ends whose thread was not refused */

static unsigned steps, step_at;
static atomic_bool other_is_there, other_begins, other_has_asked, other_waits;
static char other_stat[64]; /* a path */

/* Whether the other thread is in a system call that waits: for the lock, it has no other. */
static bool other_sleeps(void) {
    char text[64] = "";
    int fd = open(other_stat, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return false;
    ssize_t length = read(fd, text, sizeof text - 1); /* "TID (NAME) STATE ..." */
    close(fd);
    return length > 0 && strstr(text, ") S ") != NULL;
}

static void *ask_in_between(void *unused) {
    snprintf(other_stat, sizeof other_stat, "/proc/self/task/%ld/stat", syscall(SYS_gettid));
    atomic_store(&other_is_there, true);
    while (!atomic_load(&other_begins))
        sched_yield();
    na_limits_ask(NA_PAGE_SIZE, false);
    atomic_store(&other_has_asked, true);
    return unused;
}

/* (Who looks already has the lock, and the other one waits for it.) */
static void step(int signal, siginfo_t *info, void *context) {
    (void)signal, (void)info;
    if (++steps != step_at) return;
    ((ucontext_t *)context)->uc_mcontext.gregs[REG_EFL] &= ~TRAP_FLAG;
    atomic_store(&other_begins, true);
    bool waits = false;
    while (!atomic_load(&other_has_asked) && !(waits = other_sleeps()))
        sched_yield();
    atomic_store(&other_waits, waits);
}

static __attribute__((noinline)) uint64_t ask_in_steps(void) {
    unsigned long long flags = __builtin_ia32_readeflags_u64();
    __builtin_ia32_writeeflags_u64(flags | TRAP_FLAG);
    uint64_t bytes = na_limits_ask(NA_PAGE_SIZE, false);
    __builtin_ia32_writeeflags_u64(flags);
    return bytes;
}

static int ask_and_be_met(unsigned at) {
    struct sigaction action = {.sa_sigaction = step, .sa_flags = SA_SIGINFO};
    pthread_t other;
    step_at = at;
    if (sigaction(SIGTRAP, &action, NULL) != 0 || na_limits_ask(NA_PAGE_SIZE, false) == 0 ||
        looks != 0 || pthread_create(&other, NULL, ask_in_between, NULL) != 0)
        return 1;
    while (!atomic_load(&other_is_there))
        sched_yield();
    if (ask_in_steps() == 0) return 2;
    if (steps < at) return ENDED;
    return atomic_load(&other_waits) ? LOCKED : MET;
}

Test(pressure, nobody_is_refused_while_another_looks_first) {
    unsigned at = 0;
    int how = MET;
    while (how == MET && at < STEPS_MOST) {
        int status = 0;
        pid_t child = fork();
        cr_assert_geq(child, 0);
        at++;
        if (child == 0) _exit(ask_and_be_met(at));
        cr_assert_eq(waitpid(child, &status, 0), child);
        cr_assert(WIFEXITED(status), "step %u", at);
        how = WEXITSTATUS(status);
        cr_assert(how >= MET, "step %u: %s", at, how == 2 ? "refused" : "not begun");
    }
    cr_assert_eq(how, LOCKED);
    cr_assert_geq(at, STEPS_LEAST);
}
#endif
