/* place.c - where the profiles of a run go. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/containers/path.h"
#include "profiler/format/nprof.h"
#include "profiler/run/run.h"

static bool too_long(int length, const char *path) {
    if (length >= 0 && length < PATH_MAX) return false;
    na_run_say("%.200s...: path too long; name a shorter one with -o", path);
    return true;
}

static bool join_path(char out[PATH_MAX], const char *folder, const char *name) {
    int n = snprintf(out, PATH_MAX, "%s/%s", folder, name);
    return n > 0 && n < PATH_MAX;
}

/* The header of a profile. False: the file is none. */
static bool read_header(const char *path, na_nprof_header_t *header) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool good = fd >= 0 && pread(fd, header, sizeof *header, 0) == (ssize_t)sizeof *header &&
                header->magic == NA_NPROF_MAGIC;
    if (fd >= 0) close(fd);
    return good;
}

/* Its process writes it still. */
static bool is_running(const na_nprof_header_t *header) {
    return header->state == NA_NPROF_RUNNING && header->pid > 0 &&
           (kill(header->pid, 0) == 0 || errno == EPERM);
}

/* Visits the profiles of a directory. */
static void each_profile(const char *directory,
                         void (*visit)(void *arg, const char *path, const na_nprof_header_t *h),
                         void *arg) {
    DIR *open_directory = opendir(directory);
    if (open_directory == NULL) return;
    na_nprof_header_t header;
    for (struct dirent *e; (e = readdir(open_directory)) != NULL;) {
        char path[PATH_MAX];
        if (join_path(path, directory, e->d_name) && read_header(path, &header))
            visit(arg, path, &header);
    }
    closedir(open_directory);
}

/* ---- before ---- */

/* An earlier profile may be replaced, other files not. */
static bool may_replace(const char *path) {
    struct stat st;
    na_nprof_header_t header;
    if (lstat(path, &st) != 0) return true;
    if (S_ISREG(st.st_mode) && (st.st_size == 0 || read_header(path, &header))) return true;
    na_run_say("%s is there and is no profile; name another with -o", path);
    return false;
}

static void remove_profile(void *arg, const char *path, const na_nprof_header_t *header) {
    (void)arg;
    (void)header;
    unlink(path);
}

static bool make_profile_directory(const char *path, bool again) {
    struct stat st;
    if (mkdir(path, 0777) == 0) return true;
    if (again && errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        each_profile(path, remove_profile, NULL);
        return true;
    }
    na_run_say("no profile can be written: %s: %s; name another place with -o", path,
               strerror(errno));
    return false;
}

/* For na_run_environment_of; not as standard input, output or error. */
static void keep_open(const char *directory) {
    int fd = open(directory, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (fd < 0) return;
    if (fd <= STDERR_FILENO) {
        (void)fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
        close(fd);
    }
}

bool na_run_make_place(na_run_place_t *place, const char *output, const char *program) {
    *place = (na_run_place_t){.directory = ""};
    struct stat st;
    size_t length = output != NULL ? strlen(output) : 0;
    bool slash = length != 0 && output[length - 1] == '/';
    bool folder = slash || (output != NULL && stat(output, &st) == 0 && S_ISDIR(st.st_mode));
    if (slash && stat(output, &st) != 0 && !make_profile_directory(output, false)) return false;
    int n;
    if (output != NULL && !folder) {
        if (!may_replace(output)) return false;
        if (too_long(snprintf(place->target, PATH_MAX, "%s", output), output)) return false;
        n = snprintf(place->shown, PATH_MAX, "%s.all", output);
    } else {
        n = snprintf(place->shown, PATH_MAX, "%s%snumalloc.%.100s.%d.%lld",
                     output != NULL ? output : "", output != NULL && !slash ? "/" : "",
                     na_base_name(program), (int)getpid(), (long long)time(NULL));
    }
    if (too_long(n, place->shown) || !make_profile_directory(place->shown, place->target[0] != 0))
        return false;
    if (realpath(place->shown, place->directory) == NULL) {
        na_run_say("%s: %s", place->shown, strerror(errno));
        return false;
    }
    if (!join_path(place->trigger, place->directory, NA_RUN_REQUESTS))
        return !too_long(PATH_MAX, place->shown);
    keep_open(place->directory);
    if (access(place->directory, W_OK) == 0) return true;
    na_run_say("%s: %s; name another place with -o", place->shown, strerror(errno));
    return false;
}

/* ---- after ---- */

typedef struct found {
    na_run_files_t *files;
    char path[PATH_MAX]; /* the last one */
} found_t;

static void count_profile(void *arg, const char *path, const na_nprof_header_t *header) {
    found_t *found = arg;
    found->files->count++;
    found->files->running += is_running(header);
    snprintf(found->path, sizeof found->path, "%s", path);
}

/* To the name that the user gave, or out of the directory. */
static bool move_one(const na_run_place_t *place, const char *path, char to[PATH_MAX]) {
    if (place->target[0] != 0) {
        snprintf(to, PATH_MAX, "%s", place->target);
    } else {
        const char *slash = strrchr(place->shown, '/');
        int folder = slash == NULL ? 0 : (int)(slash + 1 - place->shown);
        int n = snprintf(to, PATH_MAX, "%.*s%s", folder, place->shown, na_base_name(path));
        if (n >= PATH_MAX) return false;
        if (access(to, F_OK) == 0) return false;
    }
    return rename(path, to) == 0;
}

/* The name that the user gave is the largest one's, beside its own: processes that it forked find
 * it by that. */
static void link_largest(const na_run_place_t *place, char path[PATH_MAX]) {
    char at[PATH_MAX];
    if (!join_path(at, place->directory, na_base_name(path))) return;
    unlink(place->target);
    if (link(at, place->target) == 0 || symlink(at, place->target) == 0)
        snprintf(path, PATH_MAX, "%s", place->target);
    else
        na_run_say("%s: %s; the profiles are in %s", place->target, strerror(errno), place->shown);
}

void na_run_collect(const na_run_place_t *place, const na_run_tools_t *tools,
                    na_run_files_t *files) {
    *files = (na_run_files_t){.count = 0};
    found_t found = {.files = files, .path = ""};
    each_profile(place->directory, count_profile, &found);
    if (files->running == 0) unlink(place->trigger);
    if (files->count == 1 && files->running == 0 && move_one(place, found.path, files->name)) {
        snprintf(files->largest, sizeof files->largest, "%s", files->name);
        rmdir(place->directory);
        return;
    }
    if (files->count == 0) {
        rmdir(place->directory);
        return;
    }
    snprintf(files->name, sizeof files->name, "%s", place->shown);
    bool known = files->count == 1
                     ? join_path(files->largest, place->shown, na_base_name(found.path))
                     : na_run_find_largest(tools, place->shown, files->largest);
    if (!known) files->largest[0] = 0;
    if (place->target[0] != 0 && files->largest[0] != 0) link_largest(place, files->largest);
}
