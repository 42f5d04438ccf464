/* entry_fork.c - __register_atfork, which pthread_atfork calls in every library and program: before
 * the first one registers its handlers, ours are.
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

#include "alloc/base.h"
#include "alloc/fork.h"

#ifndef NA_PREFIXED

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
