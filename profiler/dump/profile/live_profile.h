/* live_profile.h - the profile of a running process: a file that it maps and changes in place, so
 * looking needs no ptrace and does not stop it. */
#ifndef NUMALLOC_PROFILER_DUMP_PROFILE_LIVE_PROFILE_H
#define NUMALLOC_PROFILER_DUMP_PROFILE_LIVE_PROFILE_H

#include <limits.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#include "profiler/dump/ui/command_line.h"

/* The word is the number of a process. */
bool na_live_is_pid(const char *word);
/* The file that the process of that number maps as its profile, by a name that this process can
 * open; one that began just now is waited for. *pid: the process: of a numalloc-run its program. */
na_status_t na_live_profile_find(const char *word, char path[PATH_MAX], pid_t *pid);

uint64_t na_live_now_ms(void);
/* Less if *ended becomes true; NULL: nobody ends it. */
void na_live_wait_ms(uint64_t ms, const volatile sig_atomic_t *ended);

#endif
