/* library.c - finds libnumalloc.so and numalloc-dump: beside this program in a build, by the way
 * from one to the other in an install tree, which may have been moved. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/run/run.h"

/* By its soname first: the name without a number may belong to a package for compiling. */
static const char *const library_names[] = {"libnumalloc.so." NA_RUN_SOVERSION, "libnumalloc.so"};
static const char *const places[] = {".", NA_RUN_LIBDIR, "../lib", "../lib64",
                                     ("../lib/" NA_RUN_ARCHITECTURE)};

/* The folder of this program, without links. */
static bool own_folder(char folder[PATH_MAX]) {
    ssize_t n = readlink("/proc/self/exe", folder, PATH_MAX - 1);
    if (n <= 0) return false;
    folder[n] = 0;
    char *slash = strrchr(folder, '/');
    if (slash == NULL) return false;
    *slash = 0;
    return true;
}

/* The path without links in its folders; the name stays, so that an update finds the new file. */
static bool keep_real_path(const char *path, char out[PATH_MAX]) {
    char folder[PATH_MAX], whole[PATH_MAX];
    const char *slash = strrchr(path, '/');
    snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 1 : (int)(slash - path + 1),
             slash == NULL ? "." : path);
    if (realpath(folder, whole) == NULL) return false;
    int n = snprintf(out, PATH_MAX, "%s/%s", strcmp(whole, "/") == 0 ? "" : whole,
                     slash == NULL ? path : slash + 1);
    return n > 0 && n < PATH_MAX;
}

static bool find_in_folder(char out[PATH_MAX], const char *folder) {
    for (size_t p = 0; p < sizeof places / sizeof places[0]; p++) {
        for (size_t i = 0; i < sizeof library_names / sizeof library_names[0]; i++) {
            char path[PATH_MAX];
            int n = snprintf(path, sizeof path, "%s/%s/%s", folder, places[p], library_names[i]);
            if (n < PATH_MAX && access(path, R_OK) == 0 && keep_real_path(path, out)) return true;
        }
    }
    return false;
}

/* Beside this program, else where the shell would find it. By the path by which this program was
 * called, since users are shown it. */
static void find_dump(char out[PATH_MAX], const char *folder) {
    char called[PATH_MAX], whole[PATH_MAX];
    const char *slash = strrchr(program_invocation_name, '/');
    int n = snprintf(called, sizeof called, "%.*s",
                     slash == NULL ? 0 : (int)(slash + 1 - program_invocation_name),
                     program_invocation_name);
    if (slash != NULL && n < PATH_MAX && realpath(called, whole) != NULL &&
        strcmp(whole, folder) == 0) {
        n = snprintf(out, PATH_MAX, "%snumalloc-dump", called);
        if (n < PATH_MAX && access(out, X_OK) == 0) return;
    }
    n = snprintf(out, PATH_MAX, "%s/numalloc-dump", folder);
    if (n < PATH_MAX && access(out, X_OK) == 0) return;
    const char *path = getenv("PATH");
    while (path != NULL && *path != 0) {
        size_t length = strcspn(path, ":");
        n = snprintf(out, PATH_MAX, "%.*s/numalloc-dump", (int)length, path);
        if (length != 0 && n < PATH_MAX && access(out, X_OK) == 0) return;
        path += length + (path[length] == ':');
    }
    out[0] = 0;
}

bool na_run_find_tools(na_run_tools_t *tools, const char *given) {
    char folder[PATH_MAX] = "";
    *tools = (na_run_tools_t){.library = ""};
    bool known = own_folder(folder);
    if (known) find_dump(tools->dump, folder);
    if (given != NULL) {
        if (access(given, R_OK) != 0) {
            na_run_say("--library %s: %s", given, strerror(errno));
            return false;
        }
        if (!keep_real_path(given, tools->library)) {
            na_run_say("--library %s: its path is too long", given);
            return false;
        }
    } else if (!known || !find_in_folder(tools->library, folder)) {
        na_run_say("libnumalloc.so." NA_RUN_SOVERSION
                   " is neither beside this program nor in " NA_RUN_LIBDIR
                   " from there; install it, or name it with --library FILE");
        return false;
    }
    /* What separates names in LD_PRELOAD; there is no way to quote it. */
    if (strpbrk(tools->library, " :\t\n") != NULL) {
        na_run_say("%s: the dynamic linker takes no path with a space or colon in LD_PRELOAD; "
                   "install numalloc elsewhere, or name a link to it with --library",
                   tools->library);
        return false;
    }
    return true;
}
