/* test_watch_trap.c - access_watch_trap.c: a SIGTRAP that is a watchpoint's, lost by the
 * hypervisor, and all others. */
#include <criterion/criterion.h>
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdint.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#include <unistd.h>

#include "profiler/record/sources/watch/access_watch_trap.h"
#if defined(__x86_64__)
#include <cpuid.h>
#endif

static volatile sig_atomic_t caught;

static void catch (int number) {
    caught += number;
}

static void set(void (*handler)(int), int flags) {
    struct sigaction action = {.sa_handler = handler, .sa_flags = flags};
    cr_assert_eq(sigaction(SIGTRAP, &action, NULL), 0);
}

/* As the kernel has it where it finds no cause, or a watchpoint that is gone. */
static void lose_watchpoint(int code) {
    siginfo_t info = {.si_signo = SIGTRAP, .si_code = code};
    cr_assert_eq(syscall(SYS_rt_tgsigqueueinfo, getpid(), gettid(), SIGTRAP, &info), 0);
}

static void lose_both(void) {
    lose_watchpoint(TRAP_BRKPT);
    lose_watchpoint(TRAP_HWBKPT);
}

static bool under_hypervisor(void) {
    uint32_t a, b, c = 0, d;
    return __get_cpuid(1, &a, &b, &c, &d) != 0 && c >> 31 != 0;
}

/* An int1. Some hypervisors run one again and again, for ever: there the signal that the kernel
 * makes of it is made here. */
static void int1(void) {
    if (!under_hypervisor()) {
        __asm__ volatile(".byte 0xf1");
        return;
    }
    static const uint8_t code[] = {0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90,
                                   0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0x90, 0xf1};
    struct sigaction ours;
    siginfo_t info = {.si_signo = SIGTRAP, .si_code = TRAP_BRKPT};
    ucontext_t context = {0};
    context.uc_mcontext.gregs[REG_RIP] = (greg_t)(code + sizeof code);
    cr_assert_eq(sigaction(SIGTRAP, NULL, &ours), 0);
    ours.sa_sigaction(SIGTRAP, &info, &context);
}

Test(watch_trap, lost_ones_end_nothing) {
    na_trap_start();
    lose_both();
}

#if defined(__x86_64__)
/* As int1's, their last byte is 0xf1. */
Test(watch_trap, lost_ones_behind_such_a_byte_end_nothing) {
    static const struct {
        uint8_t code[8], length;
    } accesses[] = {
        {{0x48, 0x8b, 0x04, 0xf1}, 4},             /* mov (%rcx,%rsi,8),%rax */
        {{0x48, 0x89, 0x2c, 0xf1}, 4},             /* mov %rbp,(%rcx,%rsi,8) */
        {{0x0f, 0xb6, 0x43, 0xf1}, 4},             /* movzbl -15(%rbx),%eax */
        {{0x80, 0x7a, 0xff, 0xf1}, 4},             /* cmpb $0xf1,-1(%rdx) */
        {{0xc5, 0xfa, 0x6f, 0x5c, 0x16, 0xf1}, 6}, /* memcpy: vmovdqu -15(%rsi,%rdx),%xmm3 */
        {{0xf2, 0x0f, 0x11, 0x04, 0xf1}, 5}};      /* movsd %xmm0,(%rcx,%rsi,8) */
    static uint8_t code[4096] __attribute__((aligned(4096)));
    struct sigaction ours;
    na_trap_start();
    cr_assert_eq(sigaction(SIGTRAP, NULL, &ours), 0);
    for (size_t i = 0; i < sizeof accesses / sizeof accesses[0]; i++)
        for (size_t at = 0; at < 64; at++) {
            memset(code, 0x90, sizeof code);
            memcpy(code + at, accesses[i].code, accesses[i].length);
            siginfo_t info = {.si_signo = SIGTRAP, .si_code = TRAP_BRKPT};
            ucontext_t context = {0};
            context.uc_mcontext.gregs[REG_RIP] = (greg_t)(code + at + accesses[i].length);
            ours.sa_sigaction(SIGTRAP, &info, &context);
        }
}
#endif

Test(watch_trap, a_sent_one_ends_the_program, .signal = SIGTRAP) {
    na_trap_start();
    raise(SIGTRAP);
}

Test(watch_trap, a_breakpoint_ends_the_program, .signal = SIGTRAP) {
    na_trap_start();
    __asm__ volatile("int3");
}

Test(watch_trap, an_int1_ends_the_program, .signal = SIGTRAP) {
    na_trap_start();
    int1();
}

Test(watch_trap, a_handler_has_its_own) {
    set(catch, 0);
    na_trap_start();
    lose_both();
    cr_assert_eq(caught, 0);
    raise(SIGTRAP);
    __asm__ volatile("int3");
    int1();
    cr_assert_eq(caught, 3 * SIGTRAP);
}

Test(watch_trap, a_handler_of_one_use, .signal = SIGTRAP) {
    set(catch, (int)SA_RESETHAND);
    na_trap_start();
    lose_both();
    raise(SIGTRAP);
    cr_assert_eq(caught, SIGTRAP);
    raise(SIGTRAP);
}

Test(watch_trap, ignored_ones_stay_ignored) {
    set(SIG_IGN, 0);
    na_trap_start();
    lose_both();
    raise(SIGTRAP);
}

Test(watch_trap, what_is_ignored_is_raised, .signal = SIGTRAP) {
    set(SIG_IGN, 0);
    na_trap_start();
    __asm__ volatile("int3");
}

Test(watch_trap, reset_to_the_default) {
    set(catch, 0);
    na_trap_start();
    set(SIG_DFL, 0);
    na_trap_look();
    lose_both();
    cr_assert_eq(caught, 0);
}

/* ---- who may be watched, in a virtual machine ---- */

static _Atomic uint32_t other;
static atomic_bool over;

static void *wait_over(void *how) {
    sigset_t some;
    sigemptyset(&some);
    sigaddset(&some, SIGTRAP);
    sigaddset(&some, SIGUSR1);
    if (how != NULL) sigaddset(&some, SIGILL);
    if (how != NULL) sigdelset(&some, SIGTRAP);
    pthread_sigmask(SIG_SETMASK, &some, NULL);
    atomic_store(&other, (uint32_t)gettid());
    while (!atomic_load(&over))
        usleep(1000);
    return NULL;
}

static bool may_watch(void *how) {
    pthread_t thread;
    atomic_store(&other, 0);
    atomic_store(&over, false);
    cr_assert_eq(pthread_create(&thread, NULL, wait_over, how), 0);
    while (atomic_load(&other) == 0)
        usleep(1000);
    bool may = na_trap_may_watch(atomic_load(&other));
    atomic_store(&over, true);
    pthread_join(thread, NULL);
    return may;
}

Test(watch_trap, threads_that_block_it) {
    na_trap_start();
    na_trap_look();
    cr_assert(may_watch((void *)1)); /* the signals beside it */
    cr_assert_eq(may_watch(NULL), !under_hypervisor());
}

Test(watch_trap, a_handler_that_came_later) {
    na_trap_start();
    set(catch, 0);
    na_trap_look();
    cr_assert_eq(na_trap_may_watch((uint32_t)gettid()), !under_hypervisor());
    raise(SIGTRAP);
    cr_assert_eq(caught, SIGTRAP);
    set(SIG_DFL, 0);
    na_trap_look();
    cr_assert(na_trap_may_watch((uint32_t)gettid()));
    lose_both();
}
