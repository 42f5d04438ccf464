/* access_watch_trap.c - see access_watch_trap.h. */
#include "profiler/record/sources/watch/access_watch_trap.h"

#include <signal.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "alloc/core/sys/syscall.h"
#include "profiler/record/access/access_priv.h"
#include "profiler/record/sources/watch/access_watch_scout.h"

/* The C library's, also where the program or a library of its own has put another before that. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
    __attribute__((weak));

static struct sigaction hosts; /* what the program had when watching began */
static bool trap_begun, holds, is_virtual;

#if defined(__x86_64__)
/* Does an instruction with an operand in memory end here? Its last byte may be int1's, as that of
 * mov (%rcx,%rsi,8),%rax is. Looked for in this page: the one before may not be there. */
static bool ends_access(const uint8_t *next) {
    enum { PAGE = 4096, LONGEST = 15 };
    uint64_t registers[16], end;
    for (uint32_t i = 0; i < 16; i++)
        registers[i] = UINT64_C(1) << 40; /* an operand is at 0 where there is none */
    uint32_t there = (uint32_t)((uintptr_t)(next - 1) % PAGE) + 1;
    for (uint32_t n = 2; n <= LONGEST && n <= there; n++) {
        const uint8_t *code = next - n;
        if (na_scout_operand(code, n, (uintptr_t)code, registers, &end) != 0 &&
            end == (uintptr_t)next)
            return true;
    }
    return false;
}
#endif

/* The kernel knows no cause (TRAP_BRKPT without a breakpoint's code), and there is no int1 right
 * before. (int3 has another code: SI_KERNEL.) Or it knows a watchpoint that nobody has any more. */
static bool is_lost_watchpoint(const siginfo_t *info, const ucontext_t *context) {
#if defined(__x86_64__)
    enum { INT1 = 0xf1 };
    if (info->si_code == TRAP_HWBKPT) return true;
    if (info->si_code != TRAP_BRKPT) return false;
    const uint8_t *next = (const uint8_t *)(uintptr_t)context->uc_mcontext.gregs[REG_RIP];
    return next[-1] != INT1 || ends_access(next);
#else
    (void)info, (void)context;
    return false;
#endif
}

static bool has_handler(const struct sigaction *action) {
    return (action->sa_flags & SA_SIGINFO) != 0 ||
           (action->sa_handler != SIG_DFL && action->sa_handler != SIG_IGN);
}

static void reset(int number) {
    static const uint64_t fallback[4]; /* as in na_os_abort */
    na_sys4(SYS_rt_sigaction, number, (long)fallback, 0, sizeof(uint64_t));
}

static void on_trap(int number, siginfo_t *info, void *context) {
    if (is_lost_watchpoint(info, context)) return;
    if (has_handler(&hosts)) {
        if ((hosts.sa_flags & (int)SA_RESETHAND) != 0) reset(number);
        if ((hosts.sa_flags & SA_SIGINFO) != 0)
            hosts.sa_sigaction(number, info, context);
        else
            hosts.sa_handler(number);
        return;
    }
    /* Ignored, a signal that was sent is; one that the processor raised never can be. */
    if (hosts.sa_handler == SIG_IGN && info->si_code <= 0) return;
    reset(number);
    na_sys3(SYS_tgkill, na_sys0(SYS_getpid), na_sys0(SYS_gettid), number);
}

static bool set_ours(void) {
    struct sigaction action = hosts;
    action.sa_sigaction = on_trap;
    if (has_handler(&hosts))
        action.sa_flags = (hosts.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
    else
        action.sa_flags = SA_SIGINFO | SA_ONSTACK | SA_RESTART;
    return __sigaction(SIGTRAP, &action, NULL) == 0;
}

void na_trap_start(void) {
#if defined(__x86_64__)
    enum { HYPERVISOR = 1u << 31 };
    uint32_t a, b, c = 0, d;
    is_virtual = __get_cpuid(1, &a, &b, &c, &d) != 0 && (c & HYPERVISOR) != 0;
#endif
    if (trap_begun || &__sigaction == NULL || __sigaction(SIGTRAP, NULL, &hosts) != 0) return;
    trap_begun = set_ours();
}

void na_trap_look(void) {
    struct sigaction now;
    holds = trap_begun && __sigaction(SIGTRAP, NULL, &now) == 0;
    if (!holds || ((now.sa_flags & SA_SIGINFO) != 0 && now.sa_sigaction == on_trap)) return;
    holds = !has_handler(&now);
    if (!holds) return;
    hosts = now;
    holds = set_ours();
}

/* The mask is sixteen digits, the last of which is of the signals 1 to 4. */
static bool blocks(uint32_t tid) {
    enum { DIGIT = 15 - (SIGTRAP - 1) / 4, BIT = 1 << (SIGTRAP - 1) % 4 };
    static const char name[] = "\nSigBlk:\t";
    static char text[8192];
    if (na_access_read_task(tid, "/status", text, sizeof text) <= 0) return true;
    const char *at = strstr(text, name);
    if (at == NULL || strlen(at) < sizeof name + DIGIT) return true;
    char digit = at[sizeof name - 1 + DIGIT];
    return ((digit <= '9' ? digit - '0' : digit - 'a' + 10) & BIT) != 0;
}

bool na_trap_may_watch(uint32_t tid) {
    return !is_virtual || (holds && !blocks(tid));
}
