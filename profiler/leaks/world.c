/* world.c - all other threads stand still.
 *
 * A helper traces them: a process of its own to the kernel, which may trace, and one that shares
 * this process's memory, so that it looks at what is there. The calling thread waits for it. A
 * thread that is stopped so goes on later as if nothing had been; no signal is sent to it, and
 * system calls that it is in go on. If the helper dies, the kernel lets go of all.
 *
 * Where tracing is refused (a container's filter, or a debugger that traces already) signals stop
 * the threads (world_signals.c), and the calling thread looks. What cannot be stopped either way
 * goes on running, and is counted as missed: neither its stack nor its registers are looked at.
 * Where there are no other threads nobody has to be stopped. */
#include <fcntl.h>
#include <linux/prctl.h>
#include <signal.h>
#include <string.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/types.h>
#include <sys/uio.h>
#include <sys/user.h>
#include <sys/wait.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "profiler/leaks/leaks_state.h"

#ifndef PTRACE_EVENT_STOP
#define PTRACE_EVENT_STOP 128
#endif
#define NT_PRSTATUS   1
#define NT_FPREGSET   2
#define NT_X86_XSTATE 0x202
#define NT_ARM_TLS    0x401

enum {
    HELPER_STACK = 256 << 10,
    MOST_THREADS = 32768,
    PATIENCE_MS = 1000, /* for a thread to stop */
    RED_ZONE = 128,     /* below the stack pointer, that leaf functions use */
};

typedef struct stopped {
    int32_t tid;
    int32_t signal; /* that it was about to get */
    bool waiting, still;
} stopped_t;

typedef struct world {
    na_leak_scan_t *scan;
    na_leak_look_t *begin, *end;
    int32_t pid, caller;
    _Atomic(uint32_t) go; /* the helper may trace */
    _Atomic(uint32_t) done;
    bool refused;
    stopped_t *threads;
    uint32_t count;
    union {
        uintptr_t words[2048];
        char bytes[16384];
    } registers;
} world_t;

/* --- the threads of the process --- */

typedef struct entry {
    uint64_t inode, offset;
    uint16_t length;
    uint8_t type;
    char name[];
} entry_t;

static char *add_path_number(char *to, uint32_t value) {
    char digits[12];
    unsigned n = 0;
    do
        digits[n++] = (char)('0' + value % 10);
    while ((value /= 10) != 0);
    while (n > 0)
        *to++ = digits[--n];
    return to;
}

static char *add_path_text(char *to, const char *text) {
    while (*text != 0)
        *to++ = *text++;
    *to = 0;
    return to;
}

/* Calls `visit` for each thread; false: they cannot be listed. */
static bool each_thread(const world_t *w, void (*visit)(world_t *w, int32_t tid), world_t *to) {
    char path[64], buffer[4096];
    *add_path_text(add_path_number(add_path_text(path, "/proc/"), (uint32_t)w->pid), "/task") = 0;
    long fd =
        na_syscall(SYS_openat, AT_FDCWD, (long)path, O_RDONLY | O_DIRECTORY | O_CLOEXEC, 0, 0, 0);
    if (fd < 0) return false;
    long n;
    while ((n = na_sys3(SYS_getdents64, fd, (long)buffer, sizeof buffer)) > 0) {
        for (long at = 0; at < n;) {
            const entry_t *e = (const entry_t *)(const void *)(buffer + at);
            int32_t tid = 0;
            for (const char *c = e->name; *c >= '0' && *c <= '9'; c++)
                tid = tid * 10 + (*c - '0');
            if (tid != 0) visit(to, tid);
            at += e->length;
        }
    }
    na_sys1(SYS_close, fd);
    return true;
}

static void count_thread(world_t *w, int32_t tid) {
    if (tid != w->caller) w->count++;
}

/* It has ended, and is not gone (the first thread, until the process ends). */
static bool has_ended(const world_t *w, int32_t tid) {
    char path[64], text[256];
    char *at =
        add_path_text(add_path_number(add_path_text(path, "/proc/"), (uint32_t)w->pid), "/task/");
    add_path_text(add_path_number(at, (uint32_t)tid), "/stat");
    if (na_os_read_file(path, text, sizeof text) <= 0) return true;
    const char *p = text; /* behind the name, which may have anything in it */
    for (const char *c = text; *c != 0; c++)
        if (*c == ')') p = c;
    return p[0] == ')' && p[1] == ' ' && (p[2] == 'Z' || p[2] == 'X');
}

/* --- stopping --- */

static long trace(long request, int32_t tid, long address, long data) {
    return na_sys4(SYS_ptrace, request, tid, address, data);
}

static bool is_known(const world_t *w, int32_t tid) {
    for (uint32_t i = 0; i < w->count; i++)
        if (w->threads[i].tid == tid) return true;
    return false;
}

static void stop_thread(world_t *w, int32_t tid) {
    if (tid == w->caller || is_known(w, tid)) return;
    if (w->count == MOST_THREADS) {
        w->scan->leaks->missed++;
        return;
    }
    stopped_t *t = &w->threads[w->count++];
    *t = (stopped_t){.tid = tid};
    long r = trace(PTRACE_SEIZE, tid, 0, 0);
    if (r == 0) {
        t->waiting = trace(PTRACE_INTERRUPT, tid, 0, 0) == 0;
    } else if (r != -ESRCH && !has_ended(w, tid)) {
        w->refused = true;
    }
}

static void note_stop(stopped_t *t, int status) {
    t->waiting = false;
    t->still = WIFSTOPPED(status);
    bool by_us = status >> 16 == PTRACE_EVENT_STOP;
    t->signal = t->still && !by_us ? WSTOPSIG(status) : 0;
}

static bool wait_for_stops(world_t *w) {
    bool all = true;
    for (uint32_t i = 0; i < w->count; i++) {
        stopped_t *t = &w->threads[i];
        if (!t->waiting) continue;
        int status = 0;
        long r = na_sys4(SYS_wait4, t->tid, (long)&status, __WALL | WNOHANG, 0);
        if (r == t->tid)
            note_stop(t, status);
        else if (r == -ECHILD)
            t->waiting = false; /* gone */
        all = all && !t->waiting;
    }
    return all;
}

/* New ones come from threads that run still: there are none when a look finds none. */
static void stop_all(world_t *w) {
    uint64_t until = na_os_ns() + PATIENCE_MS * UINT64_C(1000000);
    uint32_t before;
    do {
        before = w->count;
        if (!each_thread(w, stop_thread, w)) w->refused = true;
        if (w->refused) return;
        while (!wait_for_stops(w) && na_os_ns() < until)
            na_os_yield();
    } while (w->count != before);
}

static void let_threads_go(world_t *w) {
    for (uint32_t i = 0; i < w->count; i++)
        if (w->threads[i].still) trace(PTRACE_DETACH, w->threads[i].tid, 0, w->threads[i].signal);
    w->count = 0;
}

/* --- looking --- */

static size_t get_set(world_t *w, int32_t tid, long set) {
    struct iovec to = {w->registers.bytes, sizeof w->registers};
    return trace(PTRACE_GETREGSET, tid, set, (long)&to) == 0 ? to.iov_len : 0;
}

static void look_at_thread(world_t *w, int32_t tid) {
    na_leak_thread_t t = {.words = w->registers.words};
    t.count = get_set(w, tid, NT_PRSTATUS) / sizeof(uintptr_t);
    if (t.count == 0) {
        w->scan->leaks->missed++;
        return;
    }
    w->scan->leaks->threads++;
#ifdef __x86_64__
    const struct user_regs_struct *r = (const void *)w->registers.bytes;
    t.sp = r->rsp;
    t.tp = r->fs_base;
#else
    t.sp = ((const struct user_regs_struct *)(const void *)w->registers.bytes)->sp;
    uintptr_t general[64], n = t.count < 64 ? t.count : 64;
    memcpy(general, w->registers.bytes, n * sizeof *general);
    if (get_set(w, tid, NT_ARM_TLS) != 0) t.tp = w->registers.words[0];
    memcpy(w->registers.bytes, general, n * sizeof *general);
#endif
    t.sp -= RED_ZONE;
    na_leak_scan_thread(w->scan, &t);
    /* Copies of memory go through the others. */
#ifdef __x86_64__
    t.count = get_set(w, tid, NT_X86_XSTATE) / sizeof(uintptr_t);
#else
    t.count = get_set(w, tid, NT_FPREGSET) / sizeof(uintptr_t);
#endif
    na_leak_scan_words(w->scan, t.words, t.count);
}

/* 0: all was done. */
static int helper_main(void *arg) {
    world_t *w = arg;
    na_sys2(SYS_prctl, PR_SET_PDEATHSIG, SIGKILL);
    while (atomic_load(&w->go) == 0)
        na_os_futex_wait((const uint32_t *)&w->go, 0);
    stop_all(w);
    if (w->refused) {
        let_threads_go(w);
        return 1;
    }
    uint64_t from = na_os_ns();
    w->begin(w->scan);
    for (uint32_t i = 0; i < w->count; i++) {
        if (w->threads[i].still)
            look_at_thread(w, w->threads[i].tid);
        else if (w->threads[i].waiting)
            w->scan->leaks->missed++;
    }
    w->end(w->scan);
    w->scan->leaks->still_ns = na_os_ns() - from;
    let_threads_go(w);
    atomic_store(&w->done, 1);
    return 0;
}

/* A process with this one's memory, of which no signal tells when it ends. Its own stack ends at
 * `top`. The id, or a negative errno. */
static long start_helper(uintptr_t top, int (*run)(void *), void *arg) {
    const long flags = 0x00000100 /* CLONE_VM */ | 0x00000200 /* CLONE_FS */ |
                       0x00000400 /* CLONE_FILES */ | 0x00800000 /* CLONE_UNTRACED */;
    uintptr_t *stack = (uintptr_t *)(top & ~(uintptr_t)15);
    *--stack = (uintptr_t)arg;
    *--stack = (uintptr_t)run;
#ifdef __x86_64__
    long result;
    register long tid __asm__("r10") = 0;
    register long tls __asm__("r8") = 0;
    __asm__ volatile("syscall\n\t"
                     "test %%rax, %%rax\n\t"
                     "jnz 1f\n\t"
                     "xor %%ebp, %%ebp\n\t"
                     "pop %%rax\n\t"
                     "pop %%rdi\n\t"
                     "call *%%rax\n\t"
                     "mov %%eax, %%edi\n\t"
                     "mov %[exit], %%eax\n\t"
                     "syscall\n\t"
                     "hlt\n"
                     "1:"
                     : "=a"(result)
                     : "a"((long)SYS_clone), "D"(flags), "S"(stack), "d"(0L), "r"(tid),
                       "r"(tls), [exit] "i"(SYS_exit)
                     : "rcx", "r11", "memory");
    return result;
#else
    register long x0 __asm__("x0") = flags;
    register long x1 __asm__("x1") = (long)stack;
    register long x2 __asm__("x2") = 0;
    register long x3 __asm__("x3") = 0;
    register long x4 __asm__("x4") = 0;
    register long x8 __asm__("x8") = SYS_clone;
    __asm__ volatile("svc 0\n\t"
                     "cbnz x0, 1f\n\t"
                     "mov x29, 0\n\t"
                     "ldp x1, x0, [sp], #16\n\t"
                     "blr x1\n\t"
                     "mov x8, %[exit]\n\t"
                     "svc 0\n\t"
                     "brk 0\n"
                     "1:"
                     : "+r"(x0)
                     : "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x8), [exit] "i"(SYS_exit)
                     : "memory");
    return x0;
#endif
}

/* True: it looked, or failed at it, as scan->failed says; false: it could not. */
static bool look_by_helper(world_t *w) {
    uint8_t *stack = na_os_map(HELPER_STACK);
    size_t bytes = na_align_up(MOST_THREADS * sizeof(stopped_t), na_os_page);
    w->threads = na_os_map(bytes);
    bool looked = false;
    long helper = stack == NULL || w->threads == NULL
                      ? -ENOMEM
                      : start_helper((uintptr_t)stack + HELPER_STACK, helper_main, w);
    if (helper > 0) {
        na_sys2(SYS_prctl, PR_SET_PTRACER, helper);
        atomic_store(&w->go, 1);
        na_os_futex_wake((const uint32_t *)&w->go, 1);
        int status = 0;
        long r;
        do
            r = na_sys4(SYS_wait4, helper, (long)&status, __WALL, 0);
        while (r == -EINTR);
        na_sys2(SYS_prctl, PR_SET_PTRACER, 0);
        looked = atomic_load(&w->done) != 0 || !w->refused;
        if (looked && atomic_load(&w->done) == 0) w->scan->failed = true;
    }
    if (w->threads != NULL) na_os_unmap(w->threads, bytes);
    if (stack != NULL) na_os_unmap(stack, HELPER_STACK);
    return looked;
}

static void hold_thread(world_t *w, int32_t tid) {
    if (tid != w->caller && na_leak_hold(w->pid, tid, MOST_THREADS)) w->count++;
}

/* By signals; or, without other threads, as it is. */
static void look_myself(world_t *w, uint32_t others) {
    size_t bytes = na_align_up(MOST_THREADS * (size_t)NA_LEAK_HELD, na_os_page);
    void *memory = others != 0 ? na_os_map(bytes) : NULL;
    bool held = memory != NULL && na_leak_hold_begin(memory);
    w->count = 0;
    uint32_t before;
    do { /* new ones come from threads that run still */
        before = w->count;
        if (held && each_thread(w, hold_thread, w)) na_leak_hold_wait();
    } while (w->count != before);
    if (w->count > others) others = w->count;
    uint64_t from = na_os_ns();
    w->begin(w->scan);
    uint32_t still = held ? na_leak_hold_each(w->scan) : 0;
    w->scan->leaks->threads += still;
    w->scan->leaks->missed += others - still;
    w->end(w->scan);
    w->scan->leaks->still_ns = na_os_ns() - from;
    bool left = !held || na_leak_hold_end();
    if (memory != NULL && left) na_os_unmap(memory, bytes);
}

void na_leak_stop_world(na_leak_scan_t *scan, na_leak_look_t *begin, na_leak_look_t *end) {
    size_t bytes = na_align_up(sizeof(world_t), na_os_page);
    world_t *w = na_os_map(bytes);
    if (w == NULL) {
        scan->failed = true;
        return;
    }
    uint64_t all = ~(1ull << (SIGTRAP - 1)), old = 0; /* that one: of a word that is watched */
    na_sys4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&all, (long)&old, sizeof all);
    w->scan = scan;
    w->begin = begin;
    w->end = end;
    w->pid = (int32_t)na_sys0(SYS_getpid);
    w->caller = (int32_t)na_sys0(SYS_gettid);
    if (!each_thread(w, count_thread, w)) {
        scan->failed = true;
    } else {
        uint32_t others = w->count;
        w->count = 0;
        if (others == 0 || !look_by_helper(w)) look_myself(w, others);
    }
    na_sys4(SYS_rt_sigprocmask, SIG_SETMASK, (long)&old, 0, sizeof old);
    na_os_unmap(w, bytes);
}
