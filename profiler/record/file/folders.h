/* folders.h - makes directories that a name leads through. Async-signal-safe; errno stays. */
#ifndef NUMALLOC_PROFILER_RECORD_FILE_FOLDERS_H
#define NUMALLOC_PROFILER_RECORD_FILE_FOLDERS_H

#include <errno.h>
#include <sys/syscall.h>

#include "alloc/core/sys/os.h"

/* Those before each slash of `path`, which counts from `directory` (AT_FDCWD) and is changed
 * meanwhile. 0, or the negative errno of the last one that is not there. */
static inline long na_make_folders(long directory, char *path) {
    long error = 0;
    for (char *at = path; *at != 0; at++) {
        if (*at != '/' || at == path || at[-1] == '/') continue;
        *at = 0;
        error = na_syscall(SYS_mkdirat, directory, (long)path, 0777, 0, 0, 0);
        if (error == -EEXIST) error = 0; /* what is no directory opening will tell */
        *at = '/';
    }
    return error;
}

#endif
