/* demangle.h - names of C++, Rust, D, Ada and Fortran in readable form, by libiberty's demangler.
 *
 * Built without libiberty: C++ alone, where a C++ runtime is installed, and Fortran. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_DEMANGLE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* A new string (free it): the readable name, or a copy of `name` if it is mangled in no way that is
 * known. NULL: out of memory. `ada`: the name is of Ada code, whose names look like those of C. */
char *na_demangle(const char *name, bool ada);

/* True for names that only the Ada compiler and its library have: what has them is, in part, Ada.
 */
bool na_demangle_is_gnat(const char *name);

/* Length of a function's name without what gcc and clang append to the names of its clones. */
size_t na_demangle_plain_length(const char *name);

/* Writes the name without its parameters, and with template arguments as <...> where the whole is
 * longer than `limit` characters. */
void na_demangle_short(const char *name, size_t limit, char *out, size_t size);

/* True for what the language calls on behalf of the program: operator new and std::, Rust's alloc,
 * core and std, and what implements these for the program's types or them by each other. */
bool na_demangle_is_runtime(const char *name);

#endif
