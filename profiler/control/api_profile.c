/* api_profile.c - numalloc_profile_*: what a program may say to the profiler. */
#include <errno.h>

#include "alloc/api/init.h"
#include "alloc/thread/attach.h"
#include "alloc/track/recording.h"
#include "numalloc/numalloc.h"
#include "profiler/control/control.h"
#include "profiler/record/state/record.h"

/* Begins a call: the thread's cache, or NULL with errno. */
static na_tcache_t *enter(void) {
    na_init();
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (tcache->track.inside == 0) return tcache;
    na_tcache_leave(tcache); /* a signal handler that interrupted the profiler itself */
    errno = EBUSY;
    return NULL;
}

static int leave(na_tcache_t *tcache, int error) {
    na_tcache_leave(tcache);
    if (error == 0) return 0;
    errno = error;
    return -1;
}

int numalloc_profile_start(const char *mode, const char *file) {
    na_tcache_t *tcache = enter();
    return tcache == NULL ? -1 : leave(tcache, na_control_start(tcache, mode, file));
}

int numalloc_profile_stop(void) {
    na_tcache_t *tcache = enter();
    return tcache == NULL ? -1 : leave(tcache, na_control_stop(tcache));
}

int numalloc_profile_dump(void) {
    na_tcache_t *tcache = enter();
    return tcache == NULL ? -1 : leave(tcache, na_control_dump(tcache));
}

int numalloc_profile_is_running(void) {
    return na_hooks != NULL;
}

void numalloc_profile_request(int what) {
    switch (what) {
    case NUMALLOC_PROFILE_START:
        na_control_request(NA_REQUEST_START);
        break;
    case NUMALLOC_PROFILE_STOP:
        na_control_request(NA_REQUEST_STOP);
        break;
    case NUMALLOC_PROFILE_DUMP:
        na_control_request(NA_REQUEST_DUMP);
        break;
    default:
        break;
    }
}
