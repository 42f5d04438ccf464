/* followed.h - numalloc-dump policy --follow as a process beside the one that it follows. */
#ifndef NUMALLOC_TESTS_LAB_FOLLOWED_H
#define NUMALLOC_TESTS_LAB_FOLLOWED_H

#include "lab.h"

#include <errno.h>
#include <sys/wait.h>
#include <unistd.h>

/* Follows the process, writes rules of placement into the file. MENDED_DUMP is numalloc-dump. */
static inline pid_t followed_start(pid_t of, const char *policy) {
    char number[16];
    snprintf(number, sizeof number, "%d", (int)of);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        const char *dump = getenv("MENDED_DUMP");
        execl(dump, dump, "policy", "--follow", number, "--only", "place", "--interval", "0.5",
              "-o", policy, (char *)NULL);
        _exit(125);
    }
    return pid;
}

/* Of a child: its status. */
static inline int followed_end_of(pid_t pid) {
    int status = -1;
    while (waitpid(pid, &status, 0) < 0 && errno == EINTR)
        ;
    return status;
}

#endif
