/* handler.c - SIGSEGV and SIGBUS: ours first, then as if we were not there.
 *
 * The kernel has our handler, with the program's flags and mask, so what it does around a handler
 * (stack, mask, SA_NODEFER) is what it would do for the program's. What the program set is in
 * `program_actions`. A signal that is no fault in the area goes to the program's handler with the
 * same arguments, or to the default: the disposition is set to that, and the faulting instruction
 * runs again, or the signal is queued again.
 *
 * Where the program ignores the signal, so does the kernel: a fault kills then, as it would have,
 * without a report (the file has what is needed: numalloc-dump errors --address). The same where
 * the program sets a handler by a system call of its own.
 *
 * A child of vfork changes dispositions that are its own, in memory that is its parent's: it goes
 * to the system directly. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE 1
#endif
#include <errno.h>
#include <string.h>
#include <sys/syscall.h>
#include <ucontext.h>

#include "profiler/guard/guard_state.h"

enum { SEGV, BUS, HANDLED };
static const int numbers[HANDLED] = {SIGSEGV, SIGBUS};

static struct sigaction program_actions[HANDLED]; /* by the lock below, all signals blocked */
static na_lock_t changing;                        /* held by fork as well */

static int handled_index(int number) {
    return number == SIGSEGV ? SEGV : number == SIGBUS ? BUS : -1;
}

typedef uint64_t mask_t; /* the kernel's set of signals */

typedef struct change {
    mask_t before;
    bool taken; /* false: the thread forks, and has it; or nobody has who is here */
} change_t;
enum { CHANGE_MS = 1000 }; /* one takes microseconds */

static change_t begin_change(void) {
    mask_t all = ~(mask_t)0, before = 0;
    na_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&before, sizeof all, 0, 0);
    return (change_t){before, na_guard_handler_before_fork()};
}

static void end_change(change_t change) {
    if (change.taken) na_unlock(&changing);
    na_syscall(SYS_rt_sigprocmask, SIG_SETMASK, (long)&change.before, 0, sizeof change.before, 0,
               0);
}

bool na_guard_handler_before_fork(void) {
    return !na_lock_is_mine(&changing) && na_lock_for(&changing, CHANGE_MS);
}

void na_guard_handler_after_fork(bool child, bool taken) {
    if (taken) na_unlock(&changing);
    if (child) na_lock_reset(&changing);
}

/* --- passing on --- */

/* What the kernel knows as struct kernel_sigaction; the handler SIG_DFL needs no restorer. */
static void set_default(int number) {
    struct {
        uint64_t handler, flags, restorer, mask;
    } action = {0};
    na_syscall(SYS_rt_sigaction, number, (long)&action, 0, sizeof action.mask, 0, 0);
}

/* A fault comes again when its instruction does; what somebody sent does not. */
static bool comes_again(int number, const siginfo_t *info) {
    if (info->si_code <= 0) return false;
#ifdef BUS_MCEERR_AO
    if (number == SIGBUS && info->si_code == BUS_MCEERR_AO) return false;
#endif
    return true;
}

static void pass_on(int number, siginfo_t *info, void *context) {
    int i = handled_index(number);
    change_t change = begin_change();
    struct sigaction action = program_actions[i];
    if ((action.sa_flags & (int)SA_RESETHAND) != 0 && action.sa_handler != SIG_DFL)
        program_actions[i] = (struct sigaction){.sa_handler = SIG_DFL};
    end_change(change);
    if (action.sa_handler == SIG_IGN && !comes_again(number, info)) return;
    if (action.sa_handler == SIG_DFL || action.sa_handler == SIG_IGN) {
        set_default(number);
        if (!comes_again(number, info))
            na_syscall(SYS_rt_tgsigqueueinfo, na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0),
                       na_syscall(SYS_gettid, 0, 0, 0, 0, 0, 0), number, (long)info, 0, 0);
    } else if ((action.sa_flags & SA_SIGINFO) != 0) {
        action.sa_sigaction(number, info, context);
    } else {
        action.sa_handler(number);
    }
}

/* --- a fault in the area --- */

static uintptr_t pc_of(const ucontext_t *uc) {
#if defined(__x86_64__)
    return (uintptr_t)uc->uc_mcontext.gregs[REG_RIP];
#else
    return (uintptr_t)uc->uc_mcontext.pc;
#endif
}

/* x86-64: the page fault's error code, bit 1: a write, bit 4: an instruction was fetched. */
static uint32_t access_of(const ucontext_t *uc, uintptr_t address, bool *fetch) {
#if defined(__x86_64__)
    uint64_t code = (uint64_t)uc->uc_mcontext.gregs[REG_ERR];
    *fetch = (code & 16) != 0 || pc_of(uc) == address;
    return (code & 2) != 0 ? NA_GF_WRITE : NA_GF_READ;
#else
    *fetch = pc_of(uc) == address;
    return 0;
#endif
}

/* Of the two slots that an inaccessible page lies between, the block that is nearer: an access
 * beyond one's end or before the other's beginning. */
static void of_neighbours(na_guard_fault_t *f) {
    const na_gf_record_t *behind = na_guard_record_at(f->address);
    uintptr_t next = na_align_down(f->address, na_os_page) + na_os_page;
    const na_gf_record_t *before =
        next - na_guard_area < na_guard_bytes ? na_guard_record_at(next) : NULL;
    if (before != NULL &&
        (before == behind || before->address < next || na_guard_has_canaries(before)))
        before = NULL;
    uint64_t over = UINT64_MAX, under = UINT64_MAX;
    if (behind != NULL && behind->state == NA_GF_LIVE)
        over = f->address - (behind->address + behind->size);
    if (before != NULL && before->state == NA_GF_LIVE) under = before->address - f->address;
    if (over == UINT64_MAX && under == UINT64_MAX) { /* neither lives: beyond the freed one */
        f->kind = behind != NULL ? NA_GF_USE_AFTER_FREE : NA_GF_WILD;
        f->record = behind;
        f->distance = behind != NULL ? (int64_t)(f->address - behind->address) : 0;
    } else if (over <= under) {
        f->kind = NA_GF_OVERFLOW;
        f->record = behind;
        f->distance = (int64_t)over;
    } else {
        f->kind = NA_GF_UNDERFLOW;
        f->record = before;
        f->distance = (int64_t)under;
    }
}

static void explain(na_guard_fault_t *f) {
    const na_gf_record_t *r = na_guard_record_at(f->address);
    uintptr_t page = na_align_down(f->address, na_os_page);
    bool in_slot = r != NULL && page < na_align_down(r->address, na_os_page) +
                                           na_guard_slot_pages(r->size) * na_os_page;
    if (!in_slot) {
        of_neighbours(f);
        return;
    }
    f->kind = NA_GF_USE_AFTER_FREE;
    f->record = r;
    f->distance = (int64_t)(f->address - r->address);
}

/* The page of a live block is accessible as far as we are concerned: it became so after the fault,
 * when another block got the place, or the program has protected it itself. The first time the
 * instruction runs again. */
static bool may_try_again(const ucontext_t *uc, uintptr_t address) {
    static _Atomic(uintptr_t) last_pc, last_address;
    uintptr_t pc = pc_of(uc);
    bool same = atomic_exchange(&last_pc, pc) == pc && atomic_load(&last_address) == address;
    atomic_store(&last_address, address);
    return !same;
}

/* True: the program goes on. */
static bool on_area(uintptr_t address, const ucontext_t *uc) {
    /* The guards' own work reads nothing of the program's: their fault is not the program's. */
    if (na_lock_is_mine(&na_guards.lock)) return false;
    bool fetch;
    na_guard_fault_t fault = {.address = address, .context = uc};
    fault.access = access_of(uc, address, &fetch);
    na_gf_record_t *r = na_guard_record_at(address);
    if (r != NULL && !na_guard_is_protected(r, address)) {
        if (r->state != NA_GF_LIVE) return true; /* its pages are about to change */
        return !fetch && may_try_again(uc, address);
    }
    explain(&fault);
    r = (na_gf_record_t *)(uintptr_t)fault.record;
    bool reported = r != NULL && (__atomic_fetch_or(&r->flags, NA_GF_REPORTED, __ATOMIC_RELAXED) &
                                  NA_GF_REPORTED) != 0;
    if (!reported) na_guard_report(&fault);
    return na_guards.mode == NA_GUARD_RECOVER && r != NULL && !fetch &&
           na_guard_area_open(r, address);
}

static void on_fault(int number, siginfo_t *info, void *context) {
    uintptr_t address = (uintptr_t)info->si_addr;
    bool is_fault =
        number == SIGSEGV && (info->si_code == SEGV_ACCERR || info->si_code == SEGV_MAPERR);
    if (is_fault && na_guard_holds((void *)address) && on_area(address, context)) return;
    pass_on(number, info, context);
}

/* --- setting --- */

/* Ours, as the kernel is to treat the program's. */
static struct sigaction ours(const struct sigaction *theirs) {
    struct sigaction action = *theirs;
    if (theirs->sa_handler == SIG_IGN) return action;
    if (theirs->sa_handler == SIG_DFL) {
        action.sa_flags = SA_ONSTACK;
        sigemptyset(&action.sa_mask);
    }
    action.sa_flags = (action.sa_flags & ~(int)SA_RESETHAND) | SA_SIGINFO;
    action.sa_sigaction = on_fault;
    return action;
}

static bool in_own_process(void) {
    return (uint32_t)na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0) == na_guards.t->head.pid;
}

int na_guard_sigaction(int number, const struct sigaction *action, struct sigaction *old,
                       na_sigaction_t *next) {
    int i = handled_index(number), result = 0;
    struct sigaction wanted, before;
    if (action != NULL) wanted = *action; /* it may be where `old` is, or nowhere */
    if (!in_own_process()) {
        before = program_actions[i];
        result = action != NULL ? next(number, &wanted, NULL) : 0;
        if (result == 0 && old != NULL) *old = before;
        return result;
    }
    change_t change = begin_change();
    before = program_actions[i];
    if (action != NULL) {
        struct sigaction kernels = ours(&wanted);
        program_actions[i] = wanted;
        result = next(number, &kernels, NULL);
        if (result != 0) program_actions[i] = before;
    }
    end_change(change);
    if (result == 0 && old != NULL) *old = before;
    return result;
}

bool na_guard_handler_install(void) {
    for (int i = 0; i < HANDLED; i++) {
        if (sigaction(numbers[i], NULL, &program_actions[i]) != 0) return false;
        struct sigaction kernels = ours(&program_actions[i]);
        if (program_actions[i].sa_handler != SIG_IGN && sigaction(numbers[i], &kernels, NULL) != 0)
            return false;
    }
    na_guard_has_signals = true;
    return true;
}
