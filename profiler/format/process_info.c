/* process_info.c - see process_info.h. */
#include "profiler/format/process_info.h"

#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/containers/path.h"
#include "profiler/format/nprof.h"

char *na_process_read(pid_t pid, const char *name) {
    char path[128];
    snprintf(path, sizeof path, "/proc/%d/%s", (int)pid, name);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return NULL;
    size_t used = 0, room = 0;
    char *text = NULL;
    ssize_t n = 1;
    int error = ENOMEM;
    while (n > 0 && NA_ARRAY_RESERVE(text, room, used + 65538)) {
        n = read(fd, text + used, room - used - 2);
        if (n > 0) used += (size_t)n;
        error = n < 0 ? errno : ENOMEM;
    }
    close(fd);
    if (n != 0) {
        free(text);
        errno = error;
        return NULL;
    }
    text[used] = text[used + 1] = 0;
    return text;
}

/* ---- numalloc-run ---- */

/* By its name: the one that runs may have been replaced by a newer one. */
bool na_process_is_run(pid_t pid) {
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(name, path, sizeof path - 1);
    if (n <= 0) return false;
    path[na_exe_part(path, (size_t)n)] = 0;
    return strcmp(na_base_name(path), "numalloc-run") == 0;
}

pid_t na_process_behind(pid_t pid) {
    char name[64];
    if (!na_process_is_run(pid)) return pid;
    snprintf(name, sizeof name, "task/%d/children", (int)pid);
    char *children = na_process_read(pid, name);
    long child = children != NULL ? strtol(children, NULL, 10) : 0;
    free(children);
    return child > 0 ? (pid_t)child : pid;
}

/* ---- its memory ---- */

/* The file may be anything that a process has mapped. */
static bool is_recording(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    na_nprof_header_t h;
    bool is = fd >= 0 && pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
              h.magic == NA_NPROF_MAGIC && h.state == NA_NPROF_RUNNING;
    if (fd >= 0) close(fd);
    return is;
}

/* The kernel writes a line's end in a name as \012. */
static void put_line_ends(char *name) {
    for (char *at = name; (at = strstr(at, "\\012")) != NULL;) {
        *at++ = '\n';
        memmove(at, at + 3, strlen(at + 3) + 1);
    }
}

bool na_process_look(pid_t pid, na_process_maps_t *to) {
    char *maps = na_process_read(pid, "maps"), *rest = maps, *line;
    to->library = to->shared = false;
    to->recording[0] = 0;
    if (maps == NULL) return false;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char permissions[8] = "", path[PATH_MAX];
        int at = 0;
        if (sscanf(line, "%*s %7s %*s %*s %*s %n", permissions, &at) != 1 || at == 0) continue;
        to->library |= strstr(line + at, "/libnumalloc.so") != NULL;
        if (permissions[3] != 's' || line[at] != '/' || to->recording[0] != 0) continue;
        to->shared = true;
        put_line_ends(line + at);
        int n = snprintf(path, sizeof path, "%s", line + at);
        bool is = n < PATH_MAX && is_recording(path);
        if (!is) { /* in a container: as the process sees it */
            n = snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, line + at);
            is = n < PATH_MAX && is_recording(path);
        }
        if (is) memcpy(to->recording, path, (size_t)n + 1);
    }
    free(maps);
    return true;
}

/* ---- its lock ---- */

/* After so long what another kernel wrote is not written any more. */
enum { FORGOTTEN_S = 24 * 60 * 60 };

static bool is_this_kernel(const char *boot) {
    char own[64] = "";
    int fd = open("/proc/sys/kernel/random/boot_id", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, own, sizeof own - 1) : 0;
    if (fd >= 0) close(fd);
    own[n > 0 ? strcspn(own, "\n") : 0] = 0;
    return own[0] != 0 && strcmp(own, boot) == 0;
}

int na_process_writes(const char *path) {
    na_nprof_header_t h;
    struct stat st;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY), writes = -1;
    if (fd < 0) return -1;
    if (pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h && h.magic == NA_NPROF_MAGIC &&
        fstat(fd, &st) == 0) {
        bool closed = h.state == NA_NPROF_CLOSED;
        h.boot[sizeof h.boot - 1] = 0;
        if (closed && h.finished == NA_NPROF_FINISHED)
            writes = 0;
        else if (flock(fd, LOCK_SH | LOCK_NB) != 0)
            writes = errno == EWOULDBLOCK ? 1 : -1;
        else if (closed || (h.locked == 1 &&
                            (is_this_kernel(h.boot) || time(NULL) - st.st_mtime > FORGOTTEN_S)))
            writes = 0;
    }
    close(fd);
    return writes;
}

/* ---- its age ---- */

enum { NEW_S = 5, PATIENCE_MS = 3000, STEP_MS = 50 };

/* The name, between parentheses, may hold any character: fields count from the last one on. */
static bool is_new(pid_t pid) {
    enum { FIELDS = 19 }; /* up to that of the start */
    char *stat = na_process_read(pid, "stat"), *at = stat != NULL ? strrchr(stat, ')') : NULL;
    for (int i = 0; i <= FIELDS && at != NULL; i++)
        at = strchr(at + 1, ' ');
    double start = at != NULL ? strtod(at, NULL) / (double)sysconf(_SC_CLK_TCK) : -NEW_S;
    struct timespec now;
    free(stat);
    return clock_gettime(CLOCK_BOOTTIME, &now) == 0 && (double)now.tv_sec - start < NEW_S;
}

bool na_process_wait(pid_t pid, unsigned *ms) {
    if (*ms >= PATIENCE_MS || (*ms == 0 && !is_new(pid))) return false;
    const struct timespec step = {0, STEP_MS * 1000000L};
    nanosleep(&step, NULL);
    *ms += STEP_MS;
    return true;
}
