/* entry_limit.c - setrlimit and prlimit as the program calls them: the same system call, and the
 * allocator knows that its process's address space is limited, without asking.
 *
 * Shared library only. A limit that is set from outside, or by a system call, is seen when the
 * system first refuses something. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <errno.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"

#ifndef NA_PREFIXED

static int set_rlimit(pid_t pid, int resource, const struct rlimit *new, struct rlimit *old) {
    bool is_ours = resource == RLIMIT_AS && new != NULL &&
                   (pid == 0 || (long)pid == na_syscall(SYS_getpid, 0, 0, 0, 0, 0, 0));
    long r =
        na_syscall(SYS_prlimit64, pid, resource, (long)(uintptr_t) new, (long)(uintptr_t)old, 0, 0);
    if (r < 0) {
        errno = (int)-r;
        return -1;
    }
    if (is_ours) na_reserve_see_limit(new->rlim_cur);
    return 0;
}

#ifdef __GLIBC__
typedef __rlimit_resource_t resource_t;
#else
typedef int resource_t;
#endif

NA_EXPORT int setrlimit(resource_t resource, const struct rlimit *limit) {
    return set_rlimit(0, (int)resource, limit, NULL);
}

NA_EXPORT int prlimit(pid_t pid, resource_t resource, const struct rlimit *new,
                      struct rlimit *old) {
    return set_rlimit(pid, (int)resource, new, old);
}

#ifdef __GLIBC__ /* elsewhere these are other names for the same */
NA_EXPORT int setrlimit64(resource_t resource, const struct rlimit64 *limit)
    __attribute__((alias("setrlimit")));
NA_EXPORT int prlimit64(pid_t pid, resource_t resource, const struct rlimit64 *new,
                        struct rlimit64 *old) __attribute__((alias("prlimit")));
#endif

#endif
