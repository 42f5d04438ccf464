/* memory_group.h - a memory cgroup of the test's own, which a child enters. Needs the right to make
 * one (root; version 1 or 2). */
#ifndef NUMALLOC_TESTS_SUPPORT_MEMORY_GROUP_H
#define NUMALLOC_TESTS_SUPPORT_MEMORY_GROUP_H

#include "support/check.h"

#include <fcntl.h>
#include <sys/stat.h>

static char memory_group[256]; /* its directory */

static bool memory_group_put(const char *file, const char *text) {
    char path[320];
    snprintf(path, sizeof path, "%s/%s", memory_group, file);
    int fd = open(path, O_WRONLY | O_CLOEXEC);
    if (fd < 0) return false;
    bool done = write(fd, text, strlen(text)) == (ssize_t)strlen(text);
    close(fd);
    return done;
}

/* Makes the group; `limit`: bytes. False: it cannot be made. */
static bool memory_group_make(const char *limit) {
    static const char *const roots[] = {"/sys/fs/cgroup/memory", "/sys/fs/cgroup"};
    for (size_t i = 0; i < 2; i++) {
        snprintf(memory_group, sizeof memory_group, "%s/numalloc-test-%ld", roots[i],
                 (long)getpid());
        if (mkdir(memory_group, 0755) != 0) continue;
        if (memory_group_put("memory.limit_in_bytes", limit) ||
            memory_group_put("memory.max", limit)) {
            /* No way out by swapping, where there is swap. */
            if (!memory_group_put("memory.memsw.limit_in_bytes", limit))
                memory_group_put("memory.swap.max", "0");
            return true;
        }
        rmdir(memory_group);
    }
    return false;
}

static void memory_group_remove(void) {
    rmdir(memory_group);
}

/* A child's setup (child.h): it goes on in the group. */
static int memory_group_enter(void *context) {
    (void)context;
    char pid[32];
    snprintf(pid, sizeof pid, "%ld", (long)getpid());
    return memory_group_put("cgroup.procs", pid) ? 0 : -1;
}

#endif
