/* api_profile.c - numalloc_profile_*: what a program may say to the profiler. */
#include <errno.h>

#include "alloc/api/init.h"
#include "alloc/track/recording.h"
#include "numalloc/numalloc.h"
#include "profiler/control/control.h"
#include "profiler/record/record.h"

/* Begins a call: the thread's heap, or NULL with errno. */
static na_heap_t *enter(void) {
    na_init();
    na_heap_t *heap = na_heap_enter();
    if (heap == NULL) {
        errno = ENOMEM;
        return NULL;
    }
    if (heap->track.inside == 0) return heap;
    na_heap_leave(heap); /* a signal handler that interrupted the profiler itself */
    errno = EBUSY;
    return NULL;
}

static int leave(na_heap_t *heap, int error) {
    na_heap_leave(heap);
    if (error == 0) return 0;
    errno = error;
    return -1;
}

int numalloc_profile_start(const char *mode, const char *file) {
    na_heap_t *heap = enter();
    return heap == NULL ? -1 : leave(heap, na_control_start(heap, mode, file));
}

int numalloc_profile_stop(void) {
    na_heap_t *heap = enter();
    return heap == NULL ? -1 : leave(heap, na_control_stop(heap));
}

int numalloc_profile_dump(void) {
    na_heap_t *heap = enter();
    return heap == NULL ? -1 : leave(heap, na_control_dump(heap));
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
