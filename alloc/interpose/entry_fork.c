/* entry_fork.c - fork; and __register_atfork, which pthread_atfork calls in every library and
 * program: before the first one registers its handlers, ours are.
 *
 * Handlers that were registered first prepare last. Ours stop all other threads at their next slow
 * path, so nobody's handler may come after them that waits for another thread: OpenBLAS joins its
 * threads there. A preloaded library's constructor runs after those of the libraries that the
 * program is linked with; this does not wait for it.
 *
 * Shared library only, as entry_map.c. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <sys/types.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/thread/fork.h"

#ifndef NA_PREFIXED

/* The C library's, 1 while the process has one thread. */
extern char __libc_single_threaded __attribute__((weak));
/* fork without handlers, for signal handlers; glibc 2.34 and later. */
extern pid_t _Fork(void) __attribute__((weak));

NA_EXPORT pid_t fork(void);

/* fork in a signal handler that interrupted fork. With several threads (one of them may be the
 * recorder's) the C library's own fork would wait for the locks that it has taken. */
NA_COLD pid_t fork(void) {
    static _Atomic(pid_t(*)(void)) found;
    if (NA_UNLIKELY(na_fork_is_inside()) && &_Fork != NULL && &__libc_single_threaded != NULL &&
        !__libc_single_threaded)
        return na_fork_within(_Fork);
    pid_t (*next)(void) = atomic_load_explicit(&found, memory_order_relaxed);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "fork");
        if (next == NULL) {
            errno = ENOSYS;
            return -1;
        }
        atomic_store_explicit(&found, next, memory_order_relaxed);
    }
    return next();
}

#ifdef __GLIBC__ /* musl has no function of that name: ours are registered by na_fork_init alone   \
                  */
typedef void handler_t(void);
typedef int next_register_t(handler_t *prepare, handler_t *parent, handler_t *child, void *dso);

NA_EXPORT int __register_atfork(handler_t *prepare, handler_t *parent, handler_t *child, void *dso);

int __register_atfork(handler_t *prepare, handler_t *parent, handler_t *child, void *dso) {
    static _Atomic(next_register_t *) found;
    next_register_t *next = atomic_load_explicit(&found, memory_order_relaxed);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "__register_atfork");
        if (next == NULL) return ENOSYS;
        atomic_store_explicit(&found, next, memory_order_relaxed);
    }
    na_fork_init(); /* comes here again, for ours */
    return next(prepare, parent, child, dso);
}
#endif

#endif
