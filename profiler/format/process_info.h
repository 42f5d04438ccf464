/* process_info.h - what /proc says of a process that records a profile: a file that it maps and
 * changes in place. For tools; needs the C library alone. */
#ifndef NUMALLOC_PROFILER_FORMAT_PROCESS_INFO_H
#define NUMALLOC_PROFILER_FORMAT_PROCESS_INFO_H

#include <limits.h>
#include <stdbool.h>
#include <sys/types.h>

/* A file of /proc/PID with two NULs behind it; NULL: errno says why. free() it. */
char *na_process_read(pid_t pid, const char *name);

/* The process is a numalloc-run. */
bool na_process_is_run(pid_t pid);
/* The program that a numalloc-run waits for; of all others the process itself. */
pid_t na_process_behind(pid_t pid);

typedef struct na_process_maps {
    bool library;             /* numalloc's, preloaded */
    bool shared;              /* some file is mapped that others may see change */
    char recording[PATH_MAX]; /* its profile, by a name that this process can open; "": none */
} na_process_maps_t;

/* False: its memory cannot be looked at; errno says why. */
bool na_process_look(pid_t pid, na_process_maps_t *maps);

/* Is a process writing the file, in whatever namespace? 1, 0, or -1: that cannot be told for sure
 * (a filesystem without locks, another machine). A forked child that lives on counts. */
int na_process_writes(const char *path);

/* Waits a moment, if the process began just now and may not have come to its allocator yet; *ms, 0
 * at first, counts up to some seconds. False: no use in looking again. */
bool na_process_wait(pid_t pid, unsigned *ms);

#endif
