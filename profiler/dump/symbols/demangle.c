/* demangle.c - readable names: libiberty's demangler or the C++ runtime's own. See demangle.h. */
#include "profiler/dump/symbols/demangle.h"

#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#ifdef NA_HAVE_LIBIBERTY
/* Its headers declare what libc's do, otherwise. */
#define HAVE_DECL_BASENAME 1
#include <demangle.h>
#endif

/* Longer names are left alone: the demangled form can be exponentially longer. */
#define LONGEST 4096

#ifdef NA_HAVE_LIBIBERTY

static char *demangle_cxx(const char *name) {
    return cplus_demangle_v3(name, DMGL_PARAMS | DMGL_TYPES);
}

/* Rust's older names are C++ names by their form, with a checksum at their end. */
static char *demangle_rust(const char *name) {
    return rust_demangle(name, DMGL_PARAMS);
}

static char *demangle_d(const char *name) {
    return dlang_demangle(name, DMGL_PARAMS);
}

/* What it does not know comes back as <name>. */
static char *demangle_ada(const char *name) {
    char *readable = ada_demangle(name, DMGL_GNAT);
    if (readable == NULL || readable[0] != '<') return readable;
    free(readable);
    return NULL;
}

#else

typedef char *(*cxa_demangle_t)(const char *name, char *buffer, size_t *size, int *status);

static cxa_demangle_t demangler;

static void find_demangler(void) {
    static const char *const homes[] = {"libstdc++.so.6", "libc++abi.so.1"};
    for (size_t i = 0; i < sizeof homes / sizeof homes[0] && demangler == NULL; i++) {
        void *library = dlopen(homes[i], RTLD_LAZY | RTLD_LOCAL);
        if (library != NULL) demangler = (cxa_demangle_t)dlsym(library, "__cxa_demangle");
    }
}

/* Looked for when the first name comes up, so that numalloc-dump needs no C++ library. */
static char *demangle_cxx(const char *name) {
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, find_demangler);
    int status = -1;
    char *readable = demangler == NULL ? NULL : demangler(name, NULL, NULL, &status);
    if (status == 0) return readable;
    free(readable);
    return NULL;
}

static char *demangle_rust(const char *name) {
    (void)name;
    return NULL;
}

static char *demangle_d(const char *name) {
    (void)name;
    return NULL;
}

static char *demangle_ada(const char *name) {
    (void)name;
    return NULL;
}

#endif

/* gfortran's procedures of modules: __module_MOD_procedure. NULL: something else. */
static char *demangle_fortran(const char *name) {
    const char *procedure = strncmp(name, "__", 2) == 0 ? strstr(name, "_MOD_") : NULL;
    char *readable = NULL;
    if (procedure == NULL || procedure == name + 1 || procedure[5] == 0 ||
        asprintf(&readable, "%.*s::%s", (int)(procedure - name - 2), name + 2, procedure + 5) < 0)
        return NULL;
    return readable;
}

char *na_demangle(const char *name, bool ada) {
    char *readable = NULL;
    if (strlen(name) > LONGEST) return strdup(name);
    if (name[0] == '_' && name[1] == 'Z') {
        readable = demangle_rust(name);
        if (readable == NULL) readable = demangle_cxx(name);
    } else if (name[0] == '_' && name[1] == 'R') {
        readable = demangle_rust(name);
    } else if (name[0] == '_' && name[1] == 'D') {
        readable = demangle_d(name);
    } else if (name[0] == '_' && name[1] == '_') {
        readable = demangle_fortran(name);
    }
    if (readable == NULL && ada) readable = demangle_ada(name);
    return readable != NULL ? readable : strdup(name);
}

size_t na_demangle_plain_length(const char *name) {
    static const char *const clones[] = {".part.", ".isra.",     ".constprop.",
                                         ".cold",  ".lto_priv.", ".llvm."};
    if (name[0] == 0) return 0;
    for (const char *at = strchr(name + 1, '.'); at != NULL; at = strchr(at + 1, '.')) {
        for (size_t i = 0; i < sizeof clones / sizeof clones[0]; i++)
            if (strncmp(at, clones[i], strlen(clones[i])) == 0) return (size_t)(at - name);
    }
    return strlen(name);
}

bool na_demangle_is_gnat(const char *name) {
    return strncmp(name, "__gnat_", 7) == 0 || strncmp(name, "_ada_", 5) == 0;
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

/* True where a bracket at `i` closes: not in an arrow, as Rust's types of functions have it. */
static bool closes(const char *name, size_t i) {
    return name[i] == '>' && (i == 0 || name[i - 1] != '-');
}

void na_demangle_short(const char *name, size_t limit, char *out, size_t size) {
    size_t begin, end;
    name_range(name, &begin, &end);
    bool fold = end - begin > limit;
    size_t at = 0;
    int depth = 0;
    /* Rust's "<Type as Trait>::method": what is in the first brackets is the name. */
    int most = limit != 0 && name[begin] == '<' ? 1 : 0;
    for (size_t i = begin; i < end && at + 8 < size; i++) {
        char c = name[i];
        if (c == '<' && fold && depth++ == most) {
            memcpy(out + at, "<...>", 5);
            at += 5;
        } else if (fold && depth > 0 && closes(name, i)) {
            if (--depth < most) {
                most = 0;
                out[at++] = c;
            }
        } else if (depth <= most) {
            out[at++] = c;
        }
    }
    out[at] = 0;
}

static bool begins_with_any(const char *name, const char *const *prefixes, size_t count) {
    for (size_t i = 0; i < count; i++) {
        if (strncmp(name, prefixes[i], strlen(prefixes[i])) == 0) return true;
    }
    return false;
}

/* Whether a Rust type is the standard library's or the language's own: not a path into a crate. */
static bool is_rust_own(const char *type, size_t length) {
    static const char *const crates[] = {"alloc::", "core::", "std::", "hashbrown::"};
    while (length != 0 && strchr("&*[( ", type[0]) != NULL) {
        type++;
        length--;
    }
    if (begins_with_any(type, crates, sizeof crates / sizeof crates[0])) return true;
    for (size_t i = 0; i < length && type[i] != '<'; i++) {
        if (type[i] == ':') return false;
    }
    return true;
}

/* "<Type as Trait>::method" or "<Type>::method", of the standard library if Type and Trait are. */
static bool is_rust_runtime(const char *name) {
    size_t trait = 0, end = 0;
    int depth = 0;
    for (size_t i = 0; name[i] != 0 && end == 0; i++) {
        if (name[i] == '<')
            depth++;
        else if (closes(name, i) && --depth == 0)
            end = i;
        else if (depth == 1 && strncmp(name + i, " as ", 4) == 0)
            trait = i;
    }
    if (end == 0) return false;
    return is_rust_own(name + 1, (trait != 0 ? trait : end) - 1) &&
           (trait == 0 || is_rust_own(name + trait + 4, end - trait - 4));
}

bool na_demangle_is_runtime(const char *name) {
    size_t begin, end;
    name_range(name, &begin, &end);
    static const char *const prefixes[] = {
        "operator new", "std::", "__gnu_cxx::", "__cxxabiv1::",           "__rust_",
        "__rdl_",       "__rg_", "__gnat_",     "<signal handler called>"};
    if (begins_with_any(name + begin, prefixes, sizeof prefixes / sizeof prefixes[0])) return true;
    /* Rust's names have no parameters, C++'s always have. */
    static const char *const crates[] = {"alloc::", "core::", "hashbrown::"};
    if (name[end] != 0) return false;
    return begins_with_any(name, crates, sizeof crates / sizeof crates[0]) ||
           (name[0] == '<' && is_rust_runtime(name));
}
