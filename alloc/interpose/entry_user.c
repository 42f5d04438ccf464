/* entry_user.c - what changes the user of the process, as the program calls it: a server that
 * begins as root forks its workers, which then become another user. A profile of theirs that has
 * not begun begins before that, while the file can be made.
 *
 * Shared library only, as entry_map.c. Who calls the system directly, or gives up rights in another
 * way, is not noticed: its profile begins later, where the new user may write. */
#include <dlfcn.h>
#include <errno.h>
#include <stdatomic.h>
#include <stddef.h>
#include <unistd.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/track.h"

#ifndef NA_PREFIXED

static NA_COLD void begin_profile(void) {
    int saved = errno;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache != NULL) {
        const na_hooks_t *hooks = na_section_enter(&tcache->track);
        if (hooks != NULL && hooks->on_stay != NULL) hooks->on_stay(&tcache->track.profile);
        na_section_leave(&tcache->track);
        na_tcache_leave(tcache);
    }
    errno = saved;
}

/* The C library's: it changes all threads. */
static NA_COLD void *next_of(_Atomic(void *) *found, const char *name) {
    if (na_hooks != NULL) begin_profile();
    void *next = atomic_load_explicit(found, memory_order_relaxed);
    if (next == NULL) next = dlsym(RTLD_NEXT, name);
    if (next == NULL) errno = ENOSYS;
    atomic_store_explicit(found, next, memory_order_relaxed);
    return next;
}

#define CHANGES_USER(name, parameters, arguments)                                                  \
    NA_EXPORT int name parameters;                                                                 \
    NA_COLD int name parameters {                                                                  \
        static _Atomic(void *) found;                                                              \
        int(*next) parameters;                                                                     \
        *(void **)&next = next_of(&found, #name);                                                  \
        return next != NULL ? next arguments : -1;                                                 \
    }

CHANGES_USER(setuid, (uid_t user), (user))
CHANGES_USER(seteuid, (uid_t effective), (effective))
CHANGES_USER(setreuid, (uid_t real, uid_t effective), (real, effective))
CHANGES_USER(setresuid, (uid_t real, uid_t effective, uid_t saved), (real, effective, saved))

#endif
