/* apart.c - forks, works, and reads what is resident. */
#include "bench/system/apart.h"

#include "bench/system/base.h"

#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

/* Anonymous memory: pages of files are there whoever works. */
static uint64_t resident(void) {
    char text[4096];
    int file = open("/proc/self/status", O_RDONLY | O_CLOEXEC);
    ssize_t length = file < 0 ? -1 : read(file, text, sizeof text - 1);
    if (file >= 0) close(file);
    text[length < 0 ? 0 : length] = 0;
    const char *line = strstr(text, "\nRssAnon:");
    if (line == NULL) na_bench_fail("/proc/self/status does not say RssAnon: is /proc mounted?");
    return strtoull(line + strlen("\nRssAnon:"), NULL, 10) * 1024;
}

uint64_t na_apart_resident(void (*work)(void *argument), void *argument) {
    int ends[2];
    if (pipe(ends) != 0) na_bench_fail("no pipe to a child");
    free(malloc(100)); /* the allocator is set up */
    pid_t child = fork();
    if (child < 0) na_bench_fail("no process for a case: raise the limit of processes");
    if (child == 0) {
        uint64_t before = resident();
        work(argument);
        uint64_t now = resident();
        uint64_t more = now > before ? now - before : 0;
        _exit(write(ends[1], &more, sizeof more) == sizeof more ? 0 : 1);
    }
    close(ends[1]);
    uint64_t more = 0;
    ssize_t got = read(ends[0], &more, sizeof more);
    close(ends[0]);
    int status;
    if (waitpid(child, &status, 0) != child || status != 0 || got != (ssize_t)sizeof more)
        na_bench_fail("a child did not come to its end: there may be too little memory");
    return more;
}
