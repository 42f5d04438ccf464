/* run_leaks.c - --leaks: processes leave what they lost in files (NUMALLOC_LEAKS_FILE), and
 * numalloc-dump writes the reports, with names and lines, which a process cannot look up while it
 * ends. */
#include <dirent.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profiler/run/run.h"

static char folder[PATH_MAX]; /* "": processes report by themselves */

bool na_run_watch_leaks(const na_run_tools_t *tools) {
    const char *temporary = getenv("TMPDIR");
    if (tools->dump[0] == 0 || na_run_variable("NUMALLOC_LEAKS_FILE") != NULL) return true;
    int n = snprintf(folder, sizeof folder, "%s/numalloc-leaks.XXXXXX",
                     temporary != NULL && *temporary == '/' ? temporary : "/tmp");
    if (n < (int)sizeof folder && mkdtemp(folder) != NULL &&
        setenv("NUMALLOC_LEAKS_FILE", folder, 1) == 0)
        return true;
    na_run_say("no place for what is lost: %s: %s", folder, strerror(errno));
    folder[0] = 0;
    return false;
}

/* Into `memory`. A list of suppressions that cannot be read, which is said, suppresses nothing. */
static bool make_report(const na_run_tools_t *tools, const char *file, int memory) {
    static char view[] = "leaks", stacks[] = "--stacks", whole[] = "--no-builtin";
    static char list[] = "--suppressions";
    const char *known = na_run_variable("NUMALLOC_LEAKS_SUPPRESSIONS");
    /* exec does not write to its words. */
    char *words[] = {(char *)(size_t)tools->dump,
                     view,
                     (char *)(size_t)file,
                     stacks,
                     whole,
                     known != NULL ? list : NULL,
                     (char *)(size_t)known,
                     NULL};
    if (na_run_tool(words, dup(memory))) return true;
    words[5] = NULL;
    return known != NULL && na_run_tool(words, dup(memory));
}

/* The report of one process, to stderr. False: all that it lost is suppressed. */
static bool put_report(const na_run_tools_t *tools, const char *file, bool quiet) {
    int memory = memfd_create("report", MFD_CLOEXEC);
    if (memory < 0 || !make_report(tools, file, memory)) {
        if (memory >= 0) close(memory);
        return true; /* it is there, and something was lost */
    }
    char buffer[16384];
    bool found = false;
    ssize_t n;
    for (off_t at = 0; (n = pread(memory, buffer, sizeof buffer, at)) > 0; at += n) {
        /* The report begins with a leak, if there is one. */
        if (at == 0)
            found =
                n > 8 && (memcmp(buffer, "Direct ", 7) == 0 || memcmp(buffer, "Indirect", 8) == 0);
        if (!found || quiet || write(STDERR_FILENO, buffer, (size_t)n) != n) break;
    }
    close(memory);
    return found;
}

size_t na_run_report_leaks(const na_run_tools_t *tools, bool quiet) {
    size_t found = 0;
    DIR *open = folder[0] != 0 ? opendir(folder) : NULL;
    for (struct dirent *entry; open != NULL && (entry = readdir(open)) != NULL;) {
        char file[PATH_MAX];
        if (entry->d_name[0] == '.' ||
            snprintf(file, sizeof file, "%s/%s", folder, entry->d_name) >= (int)sizeof file)
            continue;
        found += put_report(tools, file, quiet);
        unlink(file);
    }
    if (open != NULL) closedir(open);
    if (folder[0] != 0) rmdir(folder);
    return found;
}
