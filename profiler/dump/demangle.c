/* demangle.c - C++ names, by the C++ runtime's own demangler.
 *
 * It is looked for when the first mangled name comes up, so that numalloc-dump needs no C++ library
 * on a machine without C++ programs: there the names stay mangled. */
#include "profiler/dump/demangle.h"

#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>

/* Longer names are left alone: the demangled form can be exponentially longer. */
#define LONGEST 4096

typedef char *(*cxa_demangle_t)(const char *name, char *buffer, size_t *size, int *status);

static cxa_demangle_t demangler;

static void find_demangler(void) {
    static const char *const homes[] = {"libstdc++.so.6", "libc++abi.so.1"};
    for (size_t i = 0; i < sizeof homes / sizeof homes[0] && demangler == NULL; i++) {
        void *library = dlopen(homes[i], RTLD_LAZY | RTLD_LOCAL);
        if (library != NULL) demangler = (cxa_demangle_t)dlsym(library, "__cxa_demangle");
    }
}

char *na_demangle(const char *name) {
    if (strncmp(name, "_Z", 2) == 0 && strlen(name) <= LONGEST) {
        static pthread_once_t once = PTHREAD_ONCE_INIT;
        pthread_once(&once, find_demangler);
        int status = -1;
        char *readable = demangler == NULL ? NULL : demangler(name, NULL, NULL, &status);
        if (readable != NULL && status == 0) return readable;
        free(readable);
    }
    return strdup(name);
}

/* The part of a demangled name that is the name: without return type, up to the parameters. */
static void name_range(const char *name, size_t *begin, size_t *end) {
    size_t length = strlen(name), start = 0;
    int depth = 0;
    for (size_t i = 0; i < length; i++) {
        if (strncmp(name + i, "operator", 8) == 0 && depth == 0) {
            /* An operator's own brackets, and its blanks ("operator new"), are part of the name. */
            i += 8;
            while (i < length && name[i] != '(' && !(name[i] == '<' && name[i - 1] == ' '))
                i++;
            if (name[i] == '(' && name[i + 1] == ')') i += 2;
            *begin = start;
            *end = i < length ? i : length;
            return;
        }
        if (strncmp(name + i, "(anonymous namespace)", 21) == 0) {
            i += 20;
            continue;
        }
        char c = name[i];
        if (c == '<')
            depth++;
        else if (c == '>' && depth > 0)
            depth--;
        else if (depth == 0 && c == ' ')
            start = i + 1;
        else if (depth == 0 && c == '(') {
            *begin = start;
            *end = i;
            return;
        }
    }
    *begin = 0; /* no parameters: a C name, or one without a return type */
    *end = length;
}

void na_demangle_short(const char *name, size_t limit, char *out, size_t size) {
    size_t begin, end;
    name_range(name, &begin, &end);
    bool fold = end - begin > limit;
    size_t at = 0;
    int depth = 0;
    for (size_t i = begin; i < end && at + 8 < size; i++) {
        char c = name[i];
        if (fold && c == '<' && depth++ == 0) {
            memcpy(out + at, "<...>", 5);
            at += 5;
        } else if (fold && c == '>' && depth > 0) {
            depth--;
        } else if (depth == 0) {
            out[at++] = c;
        }
    }
    out[at] = 0;
}

bool na_demangle_is_runtime(const char *name) {
    size_t begin, end;
    name_range(name, &begin, &end);
    static const char *const prefixes[] = {"operator new", "std::", "__gnu_cxx::", "__cxxabiv1::"};
    for (size_t i = 0; i < sizeof prefixes / sizeof prefixes[0]; i++) {
        if (strncmp(name + begin, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return false;
}
