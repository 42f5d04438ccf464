/* live_profile.c - see live_profile.h. */
#include "profiler/dump/profile/live_profile.h"

#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "profiler/format/nprof_live.h"

bool na_live_is_pid(const char *word) {
    return word[0] != 0 && word[strspn(word, "0123456789")] == 0 && strlen(word) <= 10;
}

na_status_t na_live_profile_find(const char *pid, char *path, size_t size) {
    char name[64], line[8192];
    snprintf(name, sizeof name, "/proc/%.20s/maps", pid);
    FILE *maps = fopen(name, "re");
    if (maps == NULL && errno == ENOENT) return na_fail("no process %s", pid);
    if (maps == NULL) return na_fail("process %s may not be looked at: %s", pid, strerror(errno));
    bool found = false, shared = false;
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        char permissions[8] = "";
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%*s %7s %*s %*s %*s %n", permissions, &at) != 1 || at == 0 ||
            permissions[3] != 's' || line[at] != '/')
            continue;
        shared = true;
        snprintf(path, size, "%s", line + at);
        found = na_nprof_is_live(path);
        if (!found) { /* in a container: as the process sees it */
            snprintf(path, size, "/proc/%.20s/root%.4000s", pid, line + at);
            found = na_nprof_is_live(path);
        }
    }
    bool unread = ferror(maps) != 0;
    fclose(maps);
    if (found) return NA_STATUS_WHOLE;
    if (unread) return na_fail("process %s may not be looked at: another user's", pid);
    return na_fail(
        "process %s records no profile%s; start it with NUMALLOC_PROFILE=sites, or switch "
        "one on in it (docs/profiling.md)",
        pid, shared ? " in a file that can be read here" : "");
}

uint64_t na_live_now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

void na_live_wait_ms(uint64_t ms, const volatile sig_atomic_t *ended) {
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR && (ended == NULL || *ended == 0))
        ;
}
