/* path.h - names of files. Pure. */
#ifndef NUMALLOC_PROFILER_CONTAINERS_PATH_H
#define NUMALLOC_PROFILER_CONTAINERS_PATH_H

#include <stddef.h>
#include <string.h>

/* Without the folders, part of `path`. NULL: "". */
static inline const char *na_base_name(const char *path) {
    const char *slash = path == NULL ? NULL : strrchr(path, '/');
    return path == NULL ? "" : slash == NULL ? path : slash + 1;
}

#endif
