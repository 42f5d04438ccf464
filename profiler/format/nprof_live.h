/* nprof_live.h - which files are profiles of processes that record now. For tools. */
#ifndef NUMALLOC_PROFILER_FORMAT_NPROF_LIVE_H
#define NUMALLOC_PROFILER_FORMAT_NPROF_LIVE_H

#include <fcntl.h>
#include <stdbool.h>
#include <unistd.h>

#include "profiler/format/nprof.h"

/* The file may be anything that a process has mapped. */
static inline bool na_nprof_is_live(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    na_nprof_header_t h;
    bool is = fd >= 0 && pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
              h.magic == NA_NPROF_MAGIC && h.state == NA_NPROF_RUNNING;
    if (fd >= 0) close(fd);
    return is;
}

#endif
