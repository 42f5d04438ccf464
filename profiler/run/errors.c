/* errors.c - --check: whether any process of the run did something wrong with its memory. The
 * library adds each message to a file, whatever becomes of the process and of its status. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/run/run.h"

static const char variable[] = "NUMALLOC_MISUSE_FILE";
static int file = -1;
static off_t before; /* what was in the user's own */

bool na_run_watch_errors(void) {
    const char *own = na_run_variable(variable), *folder = getenv("TMPDIR");
    char name[PATH_MAX];
    if (own == NULL) {
        int n = snprintf(name, sizeof name, "%s/numalloc-check.XXXXXX",
                         folder != NULL && *folder == '/' ? folder : "/tmp");
        file = n < (int)sizeof name ? mkostemp(name, O_CLOEXEC | O_APPEND) : -1;
    } else {
        file = open(own, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        before = file >= 0 ? lseek(file, 0, SEEK_END) : 0;
    }
    if (file >= 0 && (own != NULL || setenv(variable, name, 1) == 0)) return true;
    na_run_say("--check: %s: %s", own != NULL ? own : name, strerror(errno));
    return false;
}

size_t na_run_count_errors(void) {
    char part[4096];
    size_t lines = 0;
    for (ssize_t n; (n = pread(file, part, sizeof part, before)) > 0; before += n)
        for (ssize_t i = 0; i < n; i++)
            lines += part[i] == '\n';
    const char *name = na_run_variable(variable);
    if (name != NULL && strstr(name, "/numalloc-check.") != NULL) unlink(name);
    close(file);
    return lines;
}
