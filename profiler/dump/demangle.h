/* demangle.h - C++ names in readable form. */
#ifndef NUMALLOC_PROFILER_DUMP_DEMANGLE_H
#define NUMALLOC_PROFILER_DUMP_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* A new string (free it): the readable name, or a copy of `name` if it is none or no C++ runtime is
 * installed. NULL: out of memory. */
char *na_demangle(const char *name);

/* Writes the name without its parameters, and with template arguments as <...> where the whole is
 * longer than `limit` characters. */
void na_demangle_short(const char *name, size_t limit, char *out, size_t size);

/* True for what the C++ language calls on behalf of the program: operator new and std::. */
bool na_demangle_is_runtime(const char *name);

#endif
