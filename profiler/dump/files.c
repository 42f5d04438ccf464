/* files.c - finds the profiles of a directory. See files.h. */
#include "profiler/dump/files.h"

#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/format/guard_file.h"
#include "profiler/format/nprof.h"

bool na_is_directory(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static bool add_path(na_files_t *files, size_t *room, char *path) {
    if (path == NULL) return false;
    if (!NA_ARRAY_RESERVE(files->items, *room, files->count + 1u)) {
        free(path);
        return false;
    }
    files->items[files->count++] = path;
    return true;
}

static bool has_magic(const char *path, const void *magic) {
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    char found[sizeof(uint64_t)];
    bool is = fd >= 0 && read(fd, found, sizeof found) == sizeof found &&
              memcmp(found, magic, sizeof found) == 0;
    if (fd >= 0) close(fd);
    return is;
}

bool na_is_error_file(const char *path) {
    return has_magic(path, NA_GF_MAGIC);
}

/* By its name, or by its first bytes: names are the user's choice. */
static bool is_profile(const char *path, const char *name) {
    static const uint64_t magic = NA_NPROF_MAGIC;
    struct stat st;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    return strstr(name, ".nprof") != NULL || has_magic(path, &magic);
}

static int paths_by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static na_status_t add_directory(na_files_t *files, size_t *room, const char *path, bool errors) {
    DIR *directory = opendir(path);
    if (directory == NULL) return na_fail("%s: %s", path, strerror(errno));
    size_t first = files->count, length = strlen(path);
    bool good = true;
    for (struct dirent *e; good && (e = readdir(directory)) != NULL;) {
        char *name = NULL;
        const char *slash = length != 0 && path[length - 1] == '/' ? "" : "/";
        if (asprintf(&name, "%s%s%s", path, slash, e->d_name) < 0) name = NULL;
        good = name != NULL;
        if (good && (errors ? na_is_error_file(name) : is_profile(name, e->d_name)))
            good = add_path(files, room, name);
        else
            free(name);
    }
    closedir(directory);
    if (!good) return NA_STATUS_MEMORY;
    if (files->count == first && errors)
        return na_fail("%s: no file of errors is in this directory; NUMALLOC_GUARD_FILE=%s puts "
                       "them there",
                       path, path);
    if (files->count == first)
        return na_fail("%s: no profile is in this directory; NUMALLOC_PROFILE_FILE=%s puts them "
                       "there",
                       path, path);
    qsort(files->items + first, files->count - first, sizeof *files->items, paths_by_name);
    return NA_STATUS_WHOLE;
}

na_status_t na_files_find(const char *const *words, size_t count, bool errors, na_files_t *files) {
    *files = (na_files_t){0};
    size_t room = 0;
    for (size_t i = 0; i < count; i++) {
        na_status_t status = NA_STATUS_WHOLE;
        if (na_is_directory(words[i]))
            status = add_directory(files, &room, words[i], errors);
        else if (!add_path(files, &room, strdup(words[i])))
            status = NA_STATUS_MEMORY;
        if (status != NA_STATUS_WHOLE) return status;
    }
    return NA_STATUS_WHOLE;
}

void na_files_free(na_files_t *files) {
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i]);
    free(files->items);
}
