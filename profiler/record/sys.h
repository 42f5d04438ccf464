/* sys.h - system calls made directly, for code that runs inside malloc and inside signal handlers.
 *
 * Every function returns what the kernel returned: a value >= 0, or -errno. errno is never touched,
 * no C library function is called, and so all of this is async-signal-safe. */
#ifndef NUMALLOC_RECORD_SYS_H
#define NUMALLOC_RECORD_SYS_H

#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "alloc/base.h"

#if defined(__x86_64__)

NA_INLINE long na_sys6(long n, long a, long b, long c, long d, long e, long f) {
    long r;
    register long r10 __asm__("r10") = d;
    register long r8 __asm__("r8") = e;
    register long r9 __asm__("r9") = f;
    __asm__ volatile("syscall"
                     : "=a"(r)
                     : "0"(n), "D"(a), "S"(b), "d"(c), "r"(r10), "r"(r8), "r"(r9)
                     : "rcx", "r11", "memory");
    return r;
}

NA_INLINE uintptr_t na_thread_pointer(void) {
    uintptr_t tp;
    __asm__("movq %%fs:0, %0" : "=r"(tp));
    return tp;
}

/* The time stamp counter: monotone on one core, synchronous over cores on every machine whose
 * kernel calls it invariant. */
NA_INLINE uint64_t na_ticks(void) {
    uint32_t lo, hi;
    __asm__ volatile("rdtsc" : "=a"(lo), "=d"(hi));
    return (uint64_t)hi << 32 | lo;
}

#elif defined(__aarch64__)

NA_INLINE long na_sys6(long n, long a, long b, long c, long d, long e, long f) {
    register long x8 __asm__("x8") = n;
    register long x0 __asm__("x0") = a;
    register long x1 __asm__("x1") = b;
    register long x2 __asm__("x2") = c;
    register long x3 __asm__("x3") = d;
    register long x4 __asm__("x4") = e;
    register long x5 __asm__("x5") = f;
    __asm__ volatile("svc 0"
                     : "+r"(x0)
                     : "r"(x8), "r"(x1), "r"(x2), "r"(x3), "r"(x4), "r"(x5)
                     : "memory");
    return x0;
}

NA_INLINE uintptr_t na_thread_pointer(void) {
    uintptr_t tp;
    __asm__("mrs %0, tpidr_el0" : "=r"(tp));
    return tp;
}

NA_INLINE uint64_t na_ticks(void) {
    uint64_t t;
    __asm__ volatile("isb; mrs %0, cntvct_el0" : "=r"(t));
    return t;
}

#else
#error "numalloc's profiler knows the system calls of x86-64 and aarch64 only"
#endif

NA_INLINE long na_sys0(long n) {
    return na_sys6(n, 0, 0, 0, 0, 0, 0);
}
NA_INLINE long na_sys1(long n, long a) {
    return na_sys6(n, a, 0, 0, 0, 0, 0);
}
NA_INLINE long na_sys2(long n, long a, long b) {
    return na_sys6(n, a, b, 0, 0, 0, 0);
}
NA_INLINE long na_sys3(long n, long a, long b, long c) {
    return na_sys6(n, a, b, c, 0, 0, 0);
}
NA_INLINE long na_sys4(long n, long a, long b, long c, long d) {
    return na_sys6(n, a, b, c, d, 0, 0);
}

/* Does the kernel let this process read the aligned word at `p`? rt_sigprocmask copies the set in
 * before it looks at `how`, and refuses an unknown `how` without doing anything: EFAULT means
 * unreadable, EINVAL readable. No seccomp filter forbids it, and it costs one short system call. */
NA_INLINE int na_sys_readable(uintptr_t p) {
    return na_sys4(SYS_rt_sigprocmask, -1, (long)(p & ~(uintptr_t)7), 0, 8) != -14;
}

#endif
