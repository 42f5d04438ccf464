/* entry_map.c - mmap, munmap, mremap, brk and sbrk as the program calls them: the same system
 * calls, and a profile counts them by site.
 *
 * Shared library only. The C library's own mappings (stacks of threads, buffers, loaded files) do
 * not come by here, because it calls its own by other names; nor do this library's, which makes the
 * system calls itself. Without a profile a call costs what it did, but for one test. */
#include <errno.h>
#include <stdarg.h>
#include <stdint.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "alloc/core/cache/thread_cache.h"
#include "alloc/core/malloc/api.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/track.h"

#ifndef NA_PREFIXED

/* glibc's own idea of where the break is, which its sbrk goes by, and that sbrk. Other C libraries
 * have neither: there, both calls fail as these do on a system without a break. */
extern void *__curbrk __attribute__((weak));
extern void *__sbrk(intptr_t) __attribute__((weak));

static NA_COLD void record(na_map_call_t call, size_t bytes) {
    int saved = errno;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache != NULL) {
        const na_hooks_t *hooks = na_section_enter(&tcache->track);
        if (hooks != NULL && hooks->on_map != NULL)
            hooks->on_map(&tcache->track.profile, call, bytes);
        na_section_leave(&tcache->track);
        na_tcache_leave(tcache);
    }
    errno = saved;
}

#define RECORD(call, bytes)                                                                        \
    do {                                                                                           \
        if (NA_UNLIKELY(na_hooks != NULL)) record(call, bytes);                                    \
    } while (0)

/* -errno in the last page of addresses. */
static long result_of(long r) {
    if ((unsigned long)r <= -4096UL) return r;
    errno = (int)-r;
    return -1;
}

NA_EXPORT void *mmap(void *address, size_t length, int protection, int flags, int fd,
                     off_t offset) {
    long r = result_of(na_syscall(SYS_mmap, (long)(uintptr_t)address, (long)length, protection,
                                  flags, fd, offset));
    if (r != -1) RECORD(NA_MAP_MMAP, length);
    return (void *)r;
}
#ifdef __GLIBC__ /* elsewhere it is another name for mmap */
NA_EXPORT void *mmap64(void *address, size_t length, int protection, int flags, int fd,
                       __off64_t offset) NA_ALIAS_OF(mmap);
#endif

NA_EXPORT int munmap(void *address, size_t length) {
    long r = result_of(na_syscall(SYS_munmap, (long)(uintptr_t)address, (long)length, 0, 0, 0, 0));
    if (r != -1) RECORD(NA_MAP_MUNMAP, length);
    return (int)r;
}

NA_EXPORT void *mremap(void *old, size_t old_length, size_t new_length, int flags, ...) {
    va_list more;
    va_start(more, flags);
    void *to = (flags & MREMAP_FIXED) != 0 ? va_arg(more, void *) : NULL;
#ifdef MREMAP_DONTUNMAP
    if ((flags & (MREMAP_FIXED | MREMAP_DONTUNMAP)) == MREMAP_DONTUNMAP) to = va_arg(more, void *);
#endif
    va_end(more);
    long r = result_of(na_syscall(SYS_mremap, (long)(uintptr_t)old, (long)old_length,
                                  (long)new_length, flags, (long)(uintptr_t)to, 0));
    if (r != -1) RECORD(NA_MAP_MREMAP, new_length);
    return (void *)r;
}

static void record_break(uintptr_t before, uintptr_t after) {
    if (after > before) RECORD(NA_MAP_BRK, after - before);
    if (after < before) RECORD(NA_MAP_UNBRK, before - after);
}

NA_EXPORT int brk(void *end) {
    uintptr_t before = (uintptr_t)na_syscall(SYS_brk, 0, 0, 0, 0, 0, 0);
    uintptr_t after = (uintptr_t)na_syscall(SYS_brk, (long)(uintptr_t)end, 0, 0, 0, 0, 0);
    if (&__curbrk != NULL) __curbrk = (void *)after;
    if (after < (uintptr_t)end) {
        errno = ENOMEM;
        return -1;
    }
    record_break(before, after);
    return 0;
}

NA_EXPORT void *sbrk(intptr_t increment) {
    if (&__sbrk == NULL) {
        errno = ENOMEM;
        return (void *)-1;
    }
    void *before = __sbrk(increment);
    if (before != (void *)-1 && increment != 0)
        record_break((uintptr_t)before, (uintptr_t)before + (uintptr_t)increment);
    return before;
}

#endif
