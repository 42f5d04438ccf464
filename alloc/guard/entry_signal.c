/* entry_signal.c - sigaction and signal as the program calls them. While blocks are guarded,
 * SIGSEGV and SIGBUS come to the library first, and to the program's handlers behind it; all else,
 * and all without NUMALLOC_GUARD, is the C library's.
 *
 * Shared library only, as entry_map.c. */
#ifndef _GNU_SOURCE
#define _GNU_SOURCE
#endif
#include <dlfcn.h>
#include <errno.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>

#include "alloc/core/sys/base.h"
#include "alloc/guard/guarded.h"

#ifndef NA_PREFIXED

NA_EXPORT int sigaction(int number, const struct sigaction *action, struct sigaction *old);
NA_EXPORT sighandler_t signal(int number, sighandler_t handler);

typedef sighandler_t signal_t(int number, sighandler_t handler);

/* The next library's: the C library's, or one of those that keep a list of handlers (libjsig). */
static int next_sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    static _Atomic(na_sigaction_t *) found;
    na_sigaction_t *next = atomic_load_explicit(&found, memory_order_relaxed);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "sigaction");
        if (next == NULL) {
            errno = ENOSYS;
            return -1;
        }
        atomic_store_explicit(&found, next, memory_order_relaxed);
    }
    return next(number, action, old);
}

NA_COLD int sigaction(int number, const struct sigaction *action, struct sigaction *old) {
    if (NA_UNLIKELY(na_guard_handles(number)))
        return na_guard->sigaction(number, action, old, next_sigaction);
    return next_sigaction(number, action, old);
}

NA_COLD sighandler_t signal(int number, sighandler_t handler) {
    if (NA_UNLIKELY(na_guard_handles(number))) {
        struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART}, old;
        sigemptyset(&action.sa_mask);
        sigaddset(&action.sa_mask, number);
        return na_guard->sigaction(number, &action, &old, next_sigaction) == 0 ? old.sa_handler
                                                                               : SIG_ERR;
    }
    static _Atomic(signal_t *) found;
    signal_t *next = atomic_load_explicit(&found, memory_order_relaxed);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "signal");
        if (next == NULL) {
            errno = ENOSYS;
            return SIG_ERR;
        }
        atomic_store_explicit(&found, next, memory_order_relaxed);
    }
    return next(number, handler);
}

#endif
