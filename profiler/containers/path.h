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

/* How much of a name fits into `most` bytes, without a part of a character (UTF-8). */
static inline size_t na_name_part(const char *name, size_t most) {
    size_t length = 0;
    while (length < most && name[length] != 0)
        length++;
    while (length > 0 && name[length] != 0 && ((unsigned char)name[length] & 0xc0) == 0x80)
        length--;
    return length;
}

/* How much of the path of a program that runs, as the kernel has it, is its path: " (deleted)" is
 * behind that of one that was removed, or never had a name (memfd). */
static inline size_t na_exe_part(const char *path, size_t length) {
    static const char gone[] = " (deleted)";
    size_t end = sizeof gone - 1;
    return length > end && memcmp(path + length - end, gone, end) == 0 ? length - end : length;
}

/* Most bytes of a program's name in that of a file: more is behind it, and 255 are all. */
#define NA_NAME_IN_FILE 100u

#endif
