/* live_profile.c - see live_profile.h. */
#include "profiler/dump/profile/live_profile.h"

#include <errno.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/format/process_info.h"

bool na_live_is_pid(const char *word) {
    return word[0] != 0 && word[strspn(word, "0123456789")] == 0 && strlen(word) <= 10;
}

na_status_t na_live_profile_find(const char *word, char path[PATH_MAX], pid_t *pid) {
    na_process_maps_t maps;
    long given = strtol(word, NULL, 10);
    unsigned ms = 0;
    do {
        *pid = given > 0 && given <= INT_MAX ? na_process_behind((pid_t)given) : INT_MAX;
        if (kill(*pid, 0) != 0 && errno == ESRCH) return na_fail("no process %s", word);
        if (!na_process_look(*pid, &maps))
            return na_fail("process %d may not be looked at: %s", (int)*pid,
                           errno == EACCES || errno == EPERM ? "another user's" : strerror(errno));
    } while (maps.recording[0] == 0 && na_process_wait(*pid, &ms));
    if (maps.recording[0] == 0)
        return na_fail("process %d records no profile%s; start it with NUMALLOC_PROFILE=sites, or "
                       "switch one on in it (docs/profiling.md)",
                       (int)*pid, maps.shared ? " in a file that can be read here" : "");
    snprintf(path, PATH_MAX, "%s", maps.recording);
    return NA_STATUS_WHOLE;
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
