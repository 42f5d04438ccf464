/* python_missing.c - see python_missing.h. */
#include "profiler/dump/profile/python_missing.h"

#include <stdio.h>
#include <string.h>

#include "profiler/containers/path.h"
#include "profiler/format/reader/reader_python.h"

bool na_view_environment_has(const na_view_input_t *in, const char *entry) {
    size_t size = 0;
    const char *environment = na_reader_environment(in->reader, &size);
    for (size_t at = 0; environment != NULL && at < size; at += strlen(environment + at) + 1)
        if (strcmp(environment + at, entry) == 0) return true;
    return false;
}

static bool has_module(const na_view_input_t *in, const char *part) {
    na_module_table_t modules = na_reader_modules(in->reader);
    for (uint32_t id = 1; id < modules.count; id++)
        if (strstr(na_base_name(modules.items[id].path), part) != NULL) return true;
    return strstr(na_base_name(na_reader_header(in->reader)->program), part) != NULL;
}

bool na_view_python_missing(const na_view_input_t *in, char why[NA_PYTHON_WHY]) {
    const na_nprof_python_t *refused = na_reader_python_refused(in->reader);
    if (refused != NULL) {
        unsigned major = refused->version >> 8, minor = refused->version & 255;
        snprintf(why, NA_PYTHON_WHY, "%u.%u%s: its frames are not read, stacks are native", major,
                 minor,
                 refused->refused == NA_NPROF_PY_REFUSED_NO_GIL ? " without the GIL"
                 : minor < 9                                    ? " or older"
                                                                : " is not known");
        return true;
    }
    if (na_reader_python(in->reader) != NULL || !na_view_environment_has(in, "NUMALLOC_PYTHON=1"))
        return false;
    snprintf(why, NA_PYTHON_WHY, "%s, stacks are native",
             has_module(in, "pypy")     ? "PyPy: only CPython's frames are read"
             : has_module(in, "python") ? "the interpreter exports no symbols"
                                        : "no CPython ran in this process");
    return true;
}
