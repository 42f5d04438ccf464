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

/* A copy that is not whole yet. */
static bool is_unfinished_copy(const char *name) {
    size_t length = strlen(name), end = sizeof NA_NPROF_PART - 1;
    return length > end && strcmp(name + length - end, NA_NPROF_PART) == 0;
}

/* By its name, or by its first bytes: names are the user's choice. */
static bool is_profile(const char *path, const char *name) {
    static const uint64_t magic = NA_NPROF_MAGIC;
    struct stat st;
    if (is_unfinished_copy(name)) return false;
    if (stat(path, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    return strstr(name, ".nprof") != NULL || has_magic(path, &magic);
}

static int paths_by_name(const void *a, const void *b) {
    return strcmp(*(char *const *)a, *(char *const *)b);
}

/* ---- directories ---- */

/* Levels below the one that is named, and directories in all: more is not meant. */
enum { DEEPEST = 8, MOST_DIRECTORIES = 10000 };

typedef struct search {
    na_files_t *files;
    size_t room, directories;
    bool errors;
} search_t;

/* A file that has two names (numalloc-run -o) counts once, by that which is found first. */
static bool is_found_already(const na_files_t *files, const char *path) {
    struct stat st, other;
    if (stat(path, &st) != 0 || st.st_nlink == 1) return false;
    for (size_t i = 0; i < files->count; i++)
        if (stat(files->items[i], &other) == 0 && st.st_ino == other.st_ino &&
            st.st_dev == other.st_dev)
            return true;
    return false;
}

static na_status_t add_found(search_t *s, char *path) {
    if (!is_found_already(s->files, path))
        return add_path(s->files, &s->room, path) ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
    free(path);
    return NA_STATUS_WHOLE;
}

/* Not by a link, and not what is hidden: numalloc-ship keeps what it has sent there. */
static bool is_below(const char *path, const char *name) {
    struct stat st;
    return name[0] != '.' && lstat(path, &st) == 0 && S_ISDIR(st.st_mode);
}

static na_status_t search_directory(search_t *s, const char *path, unsigned level) {
    DIR *directory = opendir(path);
    if (directory == NULL && level == 0) return na_fail("%s: %s", path, strerror(errno));
    if (directory == NULL) {
        na_fail("%s: %s", path, strerror(errno));
        return NA_STATUS_WHOLE;
    }
    na_files_t below = {0};
    size_t first = s->files->count, length = strlen(path), room = 0;
    na_status_t status = NA_STATUS_WHOLE;
    if (s->directories++ == MOST_DIRECTORIES)
        status =
            na_fail("%s: more than %d directories; name one further down", path, MOST_DIRECTORIES);
    for (struct dirent *e; status == NA_STATUS_WHOLE && (e = readdir(directory)) != NULL;) {
        char *name = NULL;
        const char *slash = length != 0 && path[length - 1] == '/' ? "" : "/";
        if (asprintf(&name, "%s%s%s", path, slash, e->d_name) < 0) {
            status = NA_STATUS_MEMORY;
            break;
        }
        if (s->errors ? na_is_error_file(name) : is_profile(name, e->d_name))
            status = add_found(s, name);
        else if (level < DEEPEST && is_below(name, e->d_name))
            status = add_path(&below, &room, name) ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
        else
            free(name);
    }
    closedir(directory);
    if (s->files->count != first)
        qsort(s->files->items + first, s->files->count - first, sizeof *s->files->items,
              paths_by_name);
    if (below.count != 0) qsort(below.items, below.count, sizeof *below.items, paths_by_name);
    for (size_t i = 0; i < below.count && status == NA_STATUS_WHOLE; i++)
        status = search_directory(s, below.items[i], level + 1);
    na_files_free(&below);
    return status;
}

na_status_t na_files_find(const char *const *words, size_t count, bool errors, na_files_t *files) {
    *files = (na_files_t){0};
    search_t s = {.files = files, .errors = errors};
    na_status_t status = NA_STATUS_WHOLE;
    for (size_t i = 0; i < count && status == NA_STATUS_WHOLE; i++) {
        size_t first = files->count;
        if (!na_is_directory(words[i])) {
            status = add_path(files, &s.room, strdup(words[i])) ? status : NA_STATUS_MEMORY;
            continue;
        }
        status = search_directory(&s, words[i], 0);
        if (status != NA_STATUS_WHOLE || files->count != first) continue;
        status = na_fail(errors ? "%s: no file of errors is in this directory; "
                                  "NUMALLOC_GUARD_FILE=%s puts them there"
                                : "%s: no profile is in this directory; NUMALLOC_PROFILE_FILE=%s "
                                  "puts them there",
                         words[i], words[i]);
    }
    return status;
}

void na_files_free(na_files_t *files) {
    for (size_t i = 0; i < files->count; i++)
        free(files->items[i]);
    free(files->items);
}
