/* api_profile.c - numalloc_record_*: what a program may say to the profiler. */
#include <errno.h>
#include <stdbool.h>
#include <stddef.h>

#include "alloc/api/fill_struct.h"
#include "alloc/core/thread/attach.h"
#include "alloc/record/lookup.h"
#include "alloc/record/recording.h"
#include "numalloc/numalloc.h"
#include "profiler/control/control.h"
#include "profiler/record/state/record.h"
#include "profiler/record/state/state.h"

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

static int start(const char *mode, const char *file, const char *settings) {
    na_tcache_t *tcache = enter();
    return tcache == NULL ? -1 : leave(tcache, na_control_start(tcache, mode, file, settings));
}

int numalloc_profile_start(const char *mode, const char *file) { /* deprecated.h */
    return start(mode, file, NULL);
}

/* Of a later version's structure what we know; false: it uses more than that. */
static bool read_options(const numalloc_record_options_t *from, numalloc_record_options_t *to) {
    if (from->size < offsetof(numalloc_record_options_t, file)) return false;
    for (size_t i = sizeof *to; i < from->size; i++)
        if (((const unsigned char *)from)[i] != 0) return false;
    na_fill_struct(to, sizeof *to, from, from->size);
    return true;
}

int numalloc_record_start_with(const numalloc_record_options_t *options) {
    static const char *const names[] = {NULL, "sites", "sample", "trace"};
    numalloc_record_options_t o;
    if (!read_options(options, &o) || (unsigned)o.mode >= sizeof names / sizeof *names) {
        errno = EINVAL;
        return -1;
    }
    return start(names[o.mode], o.file, o.settings);
}

int numalloc_record_start(numalloc_mode_t mode, const char *file) {
    return numalloc_record_start_with(&(numalloc_record_options_t){
        .size = sizeof(numalloc_record_options_t), .mode = mode, .file = file});
}

int numalloc_record_stop(void) {
    na_tcache_t *tcache = enter();
    return tcache == NULL ? -1 : leave(tcache, na_control_stop(tcache));
}

int numalloc_record_dump(void) {
    na_tcache_t *tcache = enter();
    return tcache == NULL ? -1 : leave(tcache, na_control_dump(tcache));
}

int numalloc_record_is_running(void) {
    return na_hooks != NULL;
}

int numalloc_find_site(const void *address, numalloc_site_t *site, size_t size) {
    na_found_t found = {0};
    if (na_hooks == NULL) return -1;
    na_lookup(address, &found);
    const na_record_t *record = &found.record;
    if (found.kind != NA_LOOKUP_BLOCK || record->epoch != na_profile_epoch ||
        record->site == NA_NPROF_NO_STACK || record->birth == NA_RECORD_UNBORN)
        return -1;
    uint64_t age = (na_ages(na_rec_now()) - record->birth) & NA_RECORD_TIME_MASK;
    const numalloc_site_t all = {.block = (const void *)found.base,
                                 .size = found.usable - record->slack,
                                 .age = na_rec_ns_of(age << NA_AGE_SHIFT),
                                 .stack = record->site,
                                 .thread = record->thread,
                                 .node = (int32_t)na_node_system_id(record->node)};
    na_fill_struct(site, size, &all, sizeof all);
    return 0;
}

void numalloc_record_request(numalloc_request_t what) {
    switch (what) {
    case NUMALLOC_REQUEST_START:
        na_control_request(NA_REQUEST_START);
        break;
    case NUMALLOC_REQUEST_STOP:
        na_control_request(NA_REQUEST_STOP);
        break;
    case NUMALLOC_REQUEST_DUMP:
        na_control_request(NA_REQUEST_DUMP);
        break;
    default:
        break;
    }
}
