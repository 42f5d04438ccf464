/* syscall.h - system calls by number of arguments (alloc/core/sys/os.h makes them), for code that
 * runs inside malloc and inside signal handlers.
 *
 * Every function returns what the kernel returned: a value >= 0, or -errno. errno is never touched,
 * no C library function is called, and so all of this is async-signal-safe. */
#ifndef NUMALLOC_ALLOC_CORE_SYS_SYSCALL_H
#define NUMALLOC_ALLOC_CORE_SYS_SYSCALL_H

#include <errno.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"

NA_INLINE long na_sys6(long n, long a, long b, long c, long d, long e, long f) {
    return na_syscall(n, a, b, c, d, e, f);
}
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

/* For a call that nothing depends on and that a sandbox may refuse, perhaps with a handler's
 * message each time: once refused it is not asked for again by who shares `refused`, in this
 * process and its children. */
NA_INLINE long na_sys_optional(_Atomic bool *refused, long n, long a, long b, long c) {
    if (atomic_load_explicit(refused, memory_order_relaxed)) return -ENOSYS;
    long r = na_sys3(n, a, b, c);
    if (NA_UNLIKELY(r == -ENOSYS || r == -EPERM || r == -EACCES))
        atomic_store_explicit(refused, true, memory_order_relaxed);
    return r;
}

/* The aligned word at `p` can be read. */
NA_INLINE bool na_sys_readable(uintptr_t p) {
    return na_os_readable((const void *)(p & ~(uintptr_t)7));
}

#endif
