/* demangle.h - names of C++, Rust, D, Ada and Fortran in readable form, by libiberty's demangler.
 *
 * Built without libiberty: C++ alone, where a C++ runtime is installed, and Fortran. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_NAMES_DEMANGLE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_NAMES_DEMANGLE_H

#include <stdbool.h>
#include <stddef.h>

/* A new string (free it): the readable name, or a copy of `name` if it is mangled in no way that is
 * known; without return type, and without what compilers append to the names of clones. NULL: out
 * of memory. `ada`: the name is of Ada code, whose names look like those of C. */
char *na_demangle(const char *name, bool ada);

/* True for names that only the Ada compiler and its library have: what has them is, in part, Ada.
 */
bool na_demangle_is_gnat(const char *name);

/* Where, in the name of a clone or a part, that of its function is, without what gcc and clang
 * append to it: *length characters. Another name is its own. */
const char *na_demangle_plain(const char *name, size_t *length);

/* Whether the function of a mangled name is one in all files: it says of itself that it is not in
 * an anonymous namespace, static or of a lambda. False also where that is not known. */
bool na_demangle_is_external(const char *name, size_t length);

/* Stands for what a name lies in where debug information (-g1) does not say it: it may be nothing.
 */
#define NA_DEMANGLE_UNKNOWN "?::"

/* Whether a readable name is the last part alone: it says nothing of scopes and parameters. */
bool na_demangle_is_bare(const char *name);

/* Whether the last part of a readable name is `plain`, a name without what it lies in. */
bool na_demangle_is_of(const char *name, const char *plain);

/* Writes the name without its parameters, and with template arguments as <...> where the whole is
 * longer than `limit` characters. What still has no room is cut in the middle: of what the function
 * lies in, not of its own name, if that has room. `size` is 16 at least. */
void na_demangle_short(const char *name, size_t limit, char *out, size_t size);

/* True for what the language calls on behalf of the program: operator new and std::, Rust's alloc,
 * core and std, and what implements these for the program's types or them by each other. */
bool na_demangle_is_runtime(const char *name);

#endif
