/* proc.c - what /proc says of another process, and the variables that it was started with. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/format/nprof.h"
#include "profiler/format/process_info.h"
#include "profiler/run/run.h"

/* ---- numalloc-run itself ---- */

static pid_t parent_process(pid_t pid) {
    char *status = na_process_read(pid, "status");
    const char *line = status != NULL ? strstr(status, "\nPPid:") : NULL;
    long parent = line != NULL ? strtol(line + 6, NULL, 10) : 0;
    free(status);
    return (pid_t)parent;
}

/* The numalloc-run that a process descends from; 0: none. */
static pid_t numalloc_run_above(pid_t pid) {
    enum { MOST = 64 };
    for (int i = 0; i < MOST && pid > 1; i++)
        if (na_process_is_run(pid = parent_process(pid))) return pid;
    return 0;
}

/* The directory that a numalloc-run keeps open (na_run_make_place). It has no other: those that it
 * was started with were not to be closed by exec. */
static bool output_place(pid_t pid, char path[PATH_MAX]) {
    char name[64];
    snprintf(name, sizeof name, "/proc/%d/fd", (int)pid);
    DIR *directory = opendir(name);
    bool found = false;
    for (struct dirent *e; directory != NULL && !found && (e = readdir(directory)) != NULL;) {
        int fd = atoi(e->d_name); /* of "." and "..": 0, which is none of ours */
        snprintf(name, sizeof name, "fdinfo/%d", fd);
        char *info = na_process_read(pid, name);
        const char *line = info != NULL ? strstr(info, "flags:") : NULL;
        long flags = line != NULL ? strtol(line + 6, NULL, 8) : 0;
        free(info);
        if ((flags & O_CLOEXEC) == 0 || (flags & O_DIRECTORY) == 0) continue;
        snprintf(name, sizeof name, "/proc/%d/fd/%d", (int)pid, fd);
        ssize_t n = readlink(name, path, PATH_MAX - 1);
        if (n <= 0) continue;
        path[n] = 0;
        found = true;
    }
    if (directory != NULL) closedir(directory);
    return found;
}

/* ---- variables ---- */

#define TRIGGER "NUMALLOC_PROFILE_TRIGGER"

static bool has_variable(const char *environment, const char *name) {
    size_t length = strlen(name);
    for (const char *v = environment; *v != 0; v += strlen(v) + 1)
        if (strncmp(v, name, length) == 0 && v[length] == '=') return true;
    return false;
}

/* Some way to ask the process. */
static bool has_a_way(const char *environment) {
    return has_variable(environment, TRIGGER) ||
           has_variable(environment, "NUMALLOC_PROFILE_SIGNAL") ||
           has_variable(environment, "NUMALLOC_PROFILE_DUMP_SIGNAL");
}

/* Those in a profile (ENVIRONMENT). NULL: none. */
static char *recorded(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    char *text = NULL;
    na_nprof_chunk_t chunk;
    off_t at = NA_NPROF_PAGE;
    while (text == NULL && fd >= 0 &&
           pread(fd, &chunk, sizeof chunk, at) == (ssize_t)sizeof chunk) {
        bool is = chunk.magic == NA_NPROF_CHUNK_MAGIC && chunk.self_offset == (uint64_t)at;
        uint64_t size = chunk.count < chunk.capacity ? chunk.count : chunk.capacity;
        if (is && chunk.type == NA_NPROF_ENVIRONMENT && size <= chunk.length) {
            text = calloc(1, (size_t)size + 2);
            if (text == NULL || pread(fd, text, (size_t)size, at + (off_t)sizeof chunk) < 0) break;
        }
        at += is && chunk.length >= NA_NPROF_PAGE && chunk.length < INT64_MAX / 2
                  ? (off_t)chunk.length
                  : (off_t)NA_NPROF_PAGE;
    }
    if (fd >= 0) close(fd);
    return text;
}

/* Those that a numalloc-run gave what it started. NULL: it cannot be looked at. */
static char *given_by(pid_t pid) {
    char place[PATH_MAX], *environment = na_process_read(pid, "environ");
    if (environment == NULL || has_variable(environment, TRIGGER) || !output_place(pid, place))
        return environment;
    size_t used = 0;
    while (environment[used] != 0)
        used += strlen(environment + used) + 1;
    size_t more = sizeof TRIGGER + strlen(place) + sizeof "/" NA_RUN_REQUESTS;
    char *larger = realloc(environment, used + more + 1);
    if (larger == NULL) {
        free(environment);
        return NULL;
    }
    snprintf(larger + used, more, "%s=%s/%s", TRIGGER, place, NA_RUN_REQUESTS);
    larger[used + more - 1] = larger[used + more] = 0;
    return larger;
}

char *na_run_environment_of(pid_t pid, const char *recording) {
    char *environment = na_process_read(pid, "environ");
    if (environment == NULL || has_a_way(environment)) return environment;
    pid_t above = numalloc_run_above(pid);
    /* A profile that began after the title was written may know no more than the process. */
    char *others[] = {above != 0 ? given_by(above) : NULL,
                      recording[0] != 0 ? recorded(recording) : NULL};
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++) {
        if (others[i] == NULL || !has_a_way(others[i])) continue;
        char *keep = environment;
        environment = others[i];
        others[i] = keep;
        break;
    }
    free(others[0]);
    free(others[1]);
    return environment;
}
