/* allocators.c - finds the allocators to compare: known ones where they are usually installed,
 * others by their path. */
#include "bench/compare/allocators.h"

#include "bench/system/process.h"

#include <numalloc/numalloc.h>

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* Without the number it is a link of the development package only. */
#define TEXT_OF(macro)       TEXT_OF_VALUE(macro)
#define TEXT_OF_VALUE(value) #value
#define LIBNUMALLOC          "libnumalloc.so." TEXT_OF(NUMALLOC_VERSION_MAJOR)

/* `file` NULL: none is preloaded. */
static const struct known {
    const char *name, *file;
    const char *package; /* of Debian; NULL: lies beside this program */
} known_allocators[] = {
    {"numalloc", LIBNUMALLOC, NULL},
    {"glibc", NULL, NULL},
    {"jemalloc", "libjemalloc.so.2", "libjemalloc2"},
    {"mimalloc", "libmimalloc.so.2", "libmimalloc2.0"},
    {"tcmalloc", "libtcmalloc_minimal.so.4", "libtcmalloc-minimal4"},
};

static bool find_known(const struct known *which, char *out, size_t size) {
    static const char *const places[] = {NA_BENCH_SYSTEM_LIBDIR, "/usr/lib64", "/usr/lib",
                                         "/usr/local/lib"};
    char path[1024], full[4096];
    *out = '\0';
    if (which->file == NULL) return true;
    if (which->package == NULL) return na_beside_program(which->file, out, size);
    for (size_t i = 0; i < NA_COUNT(places); i++) {
        snprintf(path, sizeof path, "%s/%s", places[i], which->file);
        if (access(path, R_OK) == 0 && realpath(path, full) != NULL && strlen(full) < size) {
            memcpy(out, full, strlen(full) + 1);
            return true;
        }
    }
    return false;
}

static na_added_t add_contender(na_comparison_t *comparison, const char *name, size_t length,
                                const char *path, char *error, size_t size) {
    if (comparison->contenders == NA_CONTENDERS_MAX) {
        snprintf(error, size, "more than %d allocators, the control included", NA_CONTENDERS_MAX);
        return NA_REFUSED;
    }
    na_contender_t *contender = &comparison->contender[comparison->contenders];
    if (length == 0 || length >= sizeof contender->name || strlen(path) >= sizeof contender->path) {
        snprintf(error, size, "an allocator is NAME or NAME=PATH, with a name of 1 to %zu letters",
                 sizeof contender->name - 1);
        return NA_REFUSED;
    }
    memcpy(contender->name, name, length);
    contender->name[length] = '\0';
    for (size_t i = 0; i < comparison->contenders; i++) {
        if (strcmp(comparison->contender[i].name, contender->name) == 0) {
            snprintf(error, size, "the allocator '%s' is given twice", contender->name);
            return NA_REFUSED;
        }
    }
    memcpy(contender->path, path, strlen(path) + 1);
    comparison->contenders++;
    return NA_ADDED;
}

na_added_t na_compare_add(na_comparison_t *comparison, const char *text, char *error, size_t size) {
    char path[4096];
    size_t length = strcspn(text, "=");
    for (size_t i = 0; i < length; i++) {
        if (strchr("._+-", text[i]) != NULL || (text[i] >= '0' && text[i] <= '9') ||
            ((text[i] | 32) >= 'a' && (text[i] | 32) <= 'z'))
            continue;
        snprintf(error, size,
                 "the name of an allocator has letters, digits and . _ + - only, not "
                 "'%.*s'",
                 (int)length, text);
        return NA_REFUSED;
    }
    if (text[length] == '=') {
        const char *file = text + length + 1;
        if (realpath(file, path) == NULL || access(path, R_OK) != 0) {
            snprintf(error, size, "cannot read the allocator '%.300s': %s", file, strerror(errno));
            return NA_REFUSED;
        }
        if (strpbrk(path, " :\t\n") != NULL) {
            snprintf(error, size, "'%.300s' has a blank or a colon, which LD_PRELOAD cannot take",
                     path);
            return NA_REFUSED;
        }
        return add_contender(comparison, text, length, path, error, size);
    }
    for (size_t i = 0; i < NA_COUNT(known_allocators); i++) {
        if (strcmp(known_allocators[i].name, text) != 0) continue;
        if (find_known(&known_allocators[i], path, sizeof path))
            return add_contender(comparison, text, length, path, error, size);
        if (known_allocators[i].package != NULL)
            snprintf(error, size, "%s is not installed (apt install %s), or give %s=PATH", text,
                     known_allocators[i].package, text);
        else
            snprintf(error, size, "%s is not beside this program: build it, or give %s=PATH",
                     known_allocators[i].file, text);
        return NA_ABSENT;
    }
    snprintf(error, size, "no allocator is known as '%.64s'; give its path: %.64s=PATH", text,
             text);
    return NA_REFUSED;
}

const char *na_compare_known(size_t i) {
    return i < NA_COUNT(known_allocators) ? known_allocators[i].name : NULL;
}

bool na_compare_add_control(na_comparison_t *comparison, char *error, size_t size) {
    char name[64];
    const na_contender_t *base = &comparison->contender[comparison->base];
    snprintf(name, sizeof name, "%.30s (A/A)", base->name);
    comparison->control = comparison->contenders;
    return add_contender(comparison, name, strlen(name), base->path, error, size) == NA_ADDED;
}

void na_compare_list_known(FILE *out) {
    char path[1024];
    for (size_t i = 0; i < NA_COUNT(known_allocators); i++) {
        if (known_allocators[i].file == NULL)
            fprintf(out, "  %-10s nothing preloaded: the C library's malloc\n",
                    known_allocators[i].name);
        else if (find_known(&known_allocators[i], path, sizeof path))
            fprintf(out, "  %-10s %s\n", known_allocators[i].name, path);
        else
            fprintf(out, "  %-10s not found%s%s\n", known_allocators[i].name,
                    known_allocators[i].package != NULL ? "; Debian's package: " : "",
                    known_allocators[i].package != NULL ? known_allocators[i].package : "");
    }
}
