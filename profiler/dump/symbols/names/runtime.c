/* runtime.c - modules by their names, functions by theirs and by where they are defined. */
#include "profiler/dump/symbols/names/runtime.h"

#include <ctype.h>
#include <fnmatch.h>
#include <stddef.h>
#include <string.h>

#include "profiler/containers/path.h"
#include "profiler/dump/symbols/names/demangle.h"

bool na_runtime_module(const na_nprof_module_t *module) {
    static const char *const patterns[] = {
        "libc.so*",        "libc-*.so",   "ld-linux*.so*", "ld-musl*.so*",
        "libstdc++.so*",   "libc++.so*",  "libc++abi.so*", "libgcc_s.so*",
        "libpthread*.so*", "libstd-*.so", "libgnat-*.so*",
    };
    if ((module->flags & NA_NPROF_MODULE_SELF) != 0) return true;
    if ((module->flags & NA_NPROF_MODULE_MAIN) != 0) return false;
    for (size_t i = 0; i < sizeof patterns / sizeof patterns[0]; i++) {
        if (fnmatch(patterns[i], na_base_name(module->path), 0) == 0) return true;
    }
    return false;
}

/* Whether a path is of the C++ library's headers: include/c++/12, include/MACHINE/c++/12,
 * include/c++/v1. */
static bool is_library_path(const char *path) {
    const char *at = path == NULL ? NULL : strstr(path, "/include/");
    while (at != NULL && (at = strstr(at, "/c++/")) != NULL) {
        at += strlen("/c++");
        if (isdigit((unsigned char)at[1]) || strncmp(at, "/v1/", 4) == 0) return true;
    }
    return false;
}

bool na_runtime_function(const char *function, bool inlined, const char *home, const char *file) {
    if (inlined && na_demangle_is_bare(function))
        return is_library_path(home != NULL ? home : file);
    return na_demangle_is_runtime(function) &&
           (home == NULL || strncmp(function, "std::", 5) != 0 || is_library_path(home));
}
