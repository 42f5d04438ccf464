/* world_signals.c - threads stand still in a handler: the way where tracing is refused.
 *
 * A real-time signal that the program has no handler for is sent to each thread; its handler waits.
 * The frame that the kernel makes for a handler has all registers, so a stack from the handler on
 * is all that has to be known of a thread. System calls that it interrupts go on later or fail with
 * EINTR, as the system has it for each; so this is the second choice. A thread that blocks the
 * signal is missed. The handler stays: such a thread may get the signal later. */
#include <signal.h>
#include <sys/syscall.h>

#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/leaks/leaks_state.h"

/* The C library's, also where the program has put another before that. */
extern int __sigaction(int number, const struct sigaction *action, struct sigaction *old)
    __attribute__((weak));

enum { PATIENCE_MS = 500, FIRST = 40, LAST = 64 };

typedef struct held {
    int32_t tid;
    _Atomic(uint32_t) still; /* sp and tp are set */
    uintptr_t sp, tp;
} held_t;

static struct {
    _Atomic(uint32_t) turn; /* of this scan; even: none is under way */
    _Atomic(uint32_t) inside;
    int number; /* 0: no signal was found */
    held_t *threads;
    _Atomic(uint32_t) count;
} held;

static NA_NOINLINE void wait_here(held_t *t, uint32_t turn) {
    t->sp = (uintptr_t)__builtin_frame_address(0);
    t->tp = na_thread_pointer();
    atomic_store(&t->still, 1);
    while (atomic_load(&held.turn) == turn)
        na_os_futex_wait((const uint32_t *)&held.turn, turn);
}

static void on_stop_signal(int number) {
    (void)number;
    atomic_fetch_add(&held.inside, 1);
    uint32_t turn = atomic_load(&held.turn);
    int32_t tid = (int32_t)na_sys0(SYS_gettid);
    for (uint32_t i = 0; turn % 2 != 0 && i < atomic_load(&held.count); i++) {
        if (held.threads[i].tid != tid) continue;
        wait_here(&held.threads[i], turn);
        break;
    }
    atomic_fetch_sub(&held.inside, 1);
}

static bool find_signal(void) {
    if (held.number != 0) return true;
    if (&__sigaction == NULL) return false;
    for (int number = LAST; number >= FIRST; number--) {
        struct sigaction old;
        if (__sigaction(number, NULL, &old) != 0 || (old.sa_flags & SA_SIGINFO) != 0 ||
            old.sa_handler != SIG_DFL)
            continue;
        struct sigaction action = {.sa_handler = on_stop_signal, .sa_flags = SA_RESTART};
        sigset_t *mask = &action.sa_mask;
        __builtin_memset(mask, 0xff, sizeof *mask);
        if (__sigaction(number, &action, NULL) != 0) continue;
        held.number = number;
        return true;
    }
    return false;
}

bool na_leak_hold_begin(void *memory) {
    if (!find_signal()) return false;
    held.threads = memory;
    atomic_store(&held.count, 0);
    atomic_fetch_add(&held.turn, 1);
    return true;
}

bool na_leak_hold(int32_t pid, int32_t tid, uint32_t most) {
    uint32_t count = atomic_load(&held.count);
    for (uint32_t i = 0; i < count; i++)
        if (held.threads[i].tid == tid) return false;
    if (count == most) return false;
    held.threads[count].tid = tid;
    atomic_store(&held.count, count + 1);
    na_sys3(SYS_tgkill, pid, tid, held.number);
    return true;
}

void na_leak_hold_wait(void) {
    uint64_t until = na_os_ns() + PATIENCE_MS * UINT64_C(1000000);
    for (uint32_t i = 0; i < atomic_load(&held.count); i++)
        while (atomic_load(&held.threads[i].still) == 0 && na_os_ns() < until)
            na_os_yield();
}

uint32_t na_leak_hold_each(na_leak_scan_t *scan) {
    uint32_t still = 0;
    for (uint32_t i = 0; i < atomic_load(&held.count); i++) {
        if (atomic_load(&held.threads[i].still) == 0) continue;
        na_leak_thread_t t = {.sp = held.threads[i].sp, .tp = held.threads[i].tp};
        na_leak_scan_thread(scan, &t);
        still++;
    }
    return still;
}

bool na_leak_hold_end(void) {
    uint64_t until = na_os_ns() + PATIENCE_MS * UINT64_C(1000000);
    atomic_store(&held.count, 0);
    atomic_fetch_add(&held.turn, 1);
    na_os_futex_wake((const uint32_t *)&held.turn, INT32_MAX);
    while (atomic_load(&held.inside) != 0)
        if (na_os_ns() > until)
            return false;
        else
            na_os_yield();
    return true;
}
