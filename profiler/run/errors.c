/* errors.c - --check, --leaks: whether any process of the run did something wrong with its memory,
 * or lost some. The library adds each message to a file, whatever becomes of the process and of its
 * status. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/run/run.h"

static const char guard_variable[] = "NUMALLOC_MISUSE_FILE";
static int file = -1;
static off_t size_before; /* what was in the user's own */

bool na_run_watch_errors(void) {
    const char *own = na_run_variable(guard_variable), *folder = getenv("TMPDIR");
    char name[PATH_MAX];
    if (own == NULL) {
        int n = snprintf(name, sizeof name, "%s/numalloc-check.XXXXXX",
                         folder != NULL && *folder == '/' ? folder : "/tmp");
        file = n < (int)sizeof name ? mkostemp(name, O_CLOEXEC | O_APPEND) : -1;
    } else {
        file = open(own, O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0644);
        size_before = file >= 0 ? lseek(file, 0, SEEK_END) : 0;
    }
    if (file >= 0 && (own != NULL || setenv(guard_variable, name, 1) == 0)) return true;
    na_run_say("no place for messages: %s: %s", own != NULL ? own : name, strerror(errno));
    return false;
}

/* The line that a scan for leaks ends with: "numalloc: N bytes in N blocks are lost, ...". */
static bool is_leaks(const char *line) {
    static const char begin[] = "numalloc: ";
    if (strncmp(line, begin, sizeof begin - 1) != 0) return false;
    const char *at = line + sizeof begin - 1;
    at += strspn(at, "0123456789");
    return strncmp(at, " byte", 5) == 0 && strstr(at, " are lost, ") != NULL;
}

na_run_errors_t na_run_count_errors(void) {
    na_run_errors_t found = {0, 0};
    FILE *lines = lseek(file, size_before, SEEK_SET) == size_before ? fdopen(file, "r") : NULL;
    char *line = NULL;
    size_t room = 0;
    while (lines != NULL && getline(&line, &room, lines) > 0)
        *(is_leaks(line) ? &found.leaks : &found.errors) += 1;
    free(line);
    const char *name = na_run_variable(guard_variable);
    if (name != NULL && strstr(name, "/numalloc-check.") != NULL) unlink(name);
    if (lines != NULL)
        fclose(lines);
    else
        close(file);
    return found;
}
