/* entry_prctl.c - prctl as the program calls it: the same system call, and before the program
 * forbids itself system calls (seccomp) the allocator reads what it will want to know, and makes
 * from then on no call that not every allocator makes.
 *
 * Nearly all that install a filter say first that they want no new privileges, which the kernel
 * asks of them, and so are noticed whichever call installs it. Shared library only. Who calls the
 * system directly is not noticed. */
#include <errno.h>
#include <stdarg.h>
#include <sys/prctl.h>
#include <sys/syscall.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"
#include "alloc/core/thread/attach.h"
#include "alloc/limits/limits.h"

#ifndef NA_PREFIXED

static NA_COLD void prepare_for_sandbox(void) {
    na_tcache_t *tcache = na_tcache_enter(); /* what the first block would read */
    if (tcache == NULL) return;
    (void)na_reserve_huge_grant();
    na_limits_confine();
    na_tcache_leave(tcache);
}

NA_EXPORT int prctl(int option, ...) {
    va_list arguments;
    va_start(arguments, option);
    long a = va_arg(arguments, long), b = va_arg(arguments, long);
    long c = va_arg(arguments, long), d = va_arg(arguments, long);
    va_end(arguments);
    if ((option == PR_SET_NO_NEW_PRIVS && a == 1) || option == PR_SET_SECCOMP)
        prepare_for_sandbox();
    long r = na_syscall(SYS_prctl, option, a, b, c, d, 0);
    if (r < 0) {
        errno = (int)-r;
        return -1;
    }
    return (int)r;
}

#endif
