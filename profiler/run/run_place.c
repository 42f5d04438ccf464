/* run_place.c - where the profiles of a run go. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/statvfs.h>
#include <time.h>
#include <unistd.h>

#include "profiler/containers/array.h"
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

/* Copies that processes which have ended were making. */
static void remove_parts(const char *directory) {
    DIR *parts = opendir(directory);
    for (struct dirent *e; parts != NULL && (e = readdir(parts)) != NULL;) {
        const char *end = strrchr(e->d_name, '.');
        if (end != NULL && strcmp(end, NA_NPROF_PART) == 0) unlinkat(dirfd(parts), e->d_name, 0);
    }
    if (parts != NULL) closedir(parts);
}

static void remove_profile(void *arg, const char *path, const na_nprof_header_t *header) {
    (void)arg;
    (void)header;
    unlink(path);
}

static bool make_profile_directory(na_run_place_t *place, const char *path, bool again) {
    struct stat st;
    if (mkdir(path, 0777) == 0) return true;
    if (again && errno == EEXIST && stat(path, &st) == 0 && S_ISDIR(st.st_mode)) {
        each_profile(path, remove_profile, NULL);
        return true;
    }
    int error = errno;
    place->shut =
        error == EROFS || error == EACCES || error == EPERM || error == ENOSPC || error == EDQUOT;
    na_run_say("no profile can be written: %s: %s; name another place with -o%s", path,
               strerror(error), place->shut ? "; the program runs without" : "");
    return false;
}

static void parent_directory(const char *path, char out[PATH_MAX]) {
    const char *slash = strrchr(path, '/');
    snprintf(out, PATH_MAX, "%.*s", slash == NULL ? 1 : (int)(slash - path) + 1,
             slash == NULL ? "." : path);
}

static bool make_file(const char *directory, const char *name, mode_t mode) {
    char path[PATH_MAX];
    if (!join_path(path, directory, name)) return false;
    int fd = open(path, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC | O_NOFOLLOW, 0600);
    bool made = fd >= 0 && fchmod(fd, mode) == 0;
    if (fd >= 0) close(fd);
    return made;
}

/* Processes that root starts become other users. Where those may write to the directory that this
 * one is in, they may write to this one. The file of requests is there before: in a directory that
 * is sticky no other user can make it then. */
static void open_to_others(const na_run_place_t *place) {
    char parent[PATH_MAX];
    struct stat st;
    (void)make_file(place->directory, NA_NPROF_MISSING, 0622);
    parent_directory(place->directory, parent);
    if (geteuid() != 0 || stat(parent, &st) != 0 || (st.st_mode & (S_IWGRP | S_IWOTH)) == 0) return;
    (void)make_file(place->directory, NA_RUN_REQUESTS, 0644);
    if (chown(place->directory, (uid_t)-1, st.st_gid) == 0)
        (void)chmod(place->directory, (st.st_mode & 07777) | S_IRWXU);
}

/* -o DIRECTORY/, which is not there. */
static bool make_output_directory(na_run_place_t *place, const char *output) {
    char path[PATH_MAX];
    struct stat st;
    if (too_long(snprintf(path, sizeof path, "%s", output), output)) return false;
    for (char *at = path + 1; *at != 0; at++) {
        if (*at != '/' || at[-1] == '/' || at[1] == 0) continue;
        *at = 0;
        (void)mkdir(path, 0777);
        *at = '/';
    }
    return stat(path, &st) == 0 ? S_ISDIR(st.st_mode) : make_profile_directory(place, path, false);
}

bool na_run_make_directory(const char *output) {
    na_run_place_t place;
    return make_output_directory(&place, output);
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
    if (slash && stat(output, &st) != 0 && !make_output_directory(place, output)) return false;
    int n;
    if (output != NULL && !folder) {
        if (!may_replace(output)) return false;
        if (too_long(snprintf(place->target, PATH_MAX, "%s", output), output)) return false;
        n = snprintf(place->shown, PATH_MAX, "%s.all", output);
    } else {
        const char *name = na_base_name(program);
        n = snprintf(place->shown, PATH_MAX, "%s%snumalloc.%.*s.%d.%lld",
                     output != NULL ? output : "", output != NULL && !slash ? "/" : "",
                     (int)na_name_part(name, NA_NAME_IN_FILE), name, (int)getpid(),
                     (long long)time(NULL));
    }
    if (too_long(n, place->shown) ||
        !make_profile_directory(place, place->shown, place->target[0] != 0))
        return false;
    if (realpath(place->shown, place->directory) == NULL) {
        na_run_say("%s: %s", place->shown, strerror(errno));
        return false;
    }
    if (!join_path(place->trigger, place->directory, NA_RUN_REQUESTS))
        return !too_long(PATH_MAX, place->shown);
    open_to_others(place);
    keep_open(place->directory);
    if (access(place->directory, W_OK) == 0) return true;
    na_run_say("%s: %s; name another place with -o", place->shown, strerror(errno));
    return false;
}

/* ---- after ---- */

typedef struct found {
    na_run_files_t *files;
    char path[PATH_MAX]; /* the last one */
    struct process {
        int32_t pid;
        uint64_t start_unix_ns;
        size_t count;
    } * processes;
    size_t process_count, room;
} found_t;

static void count_process(found_t *found, const na_nprof_header_t *header) {
    struct process *at = found->processes, *end = at + found->process_count;
    while (at != end && (at->pid != header->pid || at->start_unix_ns != header->start_unix_ns))
        at++;
    if (at == end) {
        if (!NA_ARRAY_RESERVE(found->processes, found->room, found->process_count + 1u)) return;
        at = &found->processes[found->process_count++];
        *at = (struct process){header->pid, header->start_unix_ns, 0};
    }
    if (++at->count > found->files->most) found->files->most = at->count;
}

static void count_profile(void *arg, const char *path, const na_nprof_header_t *header) {
    found_t *found = arg;
    found->files->count++;
    found->files->running += is_running(header);
    count_process(found, header);
    snprintf(found->path, sizeof found->path, "%s", path);
}

/* Processes that could not make one. */
static void count_missing(const char *directory, na_run_files_t *files) {
    char path[PATH_MAX];
    FILE *lines = join_path(path, directory, NA_NPROF_MISSING) ? fopen(path, "re") : NULL;
    int pid, error, last = 0;
    while (lines != NULL && fscanf(lines, "%9d %4d", &pid, &error) == 2) {
        files->missing += pid != last;
        files->missing_error = error;
        last = pid;
    }
    if (lines != NULL) fclose(lines);
    if (files->running == 0) unlink(path);
    struct statvfs disk;
    bool none = files->count == 0 && files->missing == 0;
    if (none && statvfs(directory, &disk) == 0 && disk.f_bavail == 0) { /* no room for a line */
        files->missing = 1;
        files->missing_error = ENOSPC;
    }
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
    free(found.processes);
    count_missing(place->directory, files);
    if (files->running == 0) {
        unlink(place->trigger);
        remove_parts(place->directory);
    }
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
