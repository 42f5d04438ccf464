/* access_watch_trap.c - see access_watch_trap.h. */
#include "profiler/record/sources/watch/access_watch_trap.h"

#include <signal.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "alloc/sys/syscall.h"

/* The C library's, also where the program or a library of its own has put another before that. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
    __attribute__((weak));

/* The kernel knows no cause (TRAP_BRKPT without a breakpoint's code), and there is no int1 right
 * before. (int3 has another code: SI_KERNEL.) */
static bool is_lost_watchpoint(const siginfo_t *info, const ucontext_t *context) {
#if defined(__x86_64__)
    enum { INT1 = 0xf1 };
    if (info->si_code != TRAP_BRKPT) return false;
    const uint8_t *next = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    return next[-1] != INT1;
#else
    (void)info, (void)context;
    return false;
#endif
}

static void on_trap(int number, siginfo_t *info, void *context) {
    if (is_lost_watchpoint(info, context)) return;
    static const uint64_t fallback[4]; /* as in na_os_abort */
    na_sys4(SYS_rt_sigaction, number, (long)fallback, 0, sizeof(uint64_t));
    na_sys3(SYS_tgkill, na_sys0(SYS_getpid), na_sys0(SYS_gettid), number);
}

void na_trap_start(void) {
    struct sigaction old;
    if (&__sigaction == NULL || __sigaction(SIGTRAP, NULL, &old) != 0) return;
    if ((old.sa_flags & SA_SIGINFO) != 0 || old.sa_handler != SIG_DFL) return;
    struct sigaction action = {.sa_sigaction = on_trap,
                               .sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART};
    __sigaction(SIGTRAP, &action, NULL);
}
