/* symbols.h - names for stack entries: function, inlined calls, file and line.
 *
 * Looked up in the modules' own files where these still are what was profiled (module_file.h), by
 * their separate debug files (.build-id, .gnu_debuglink, .debug) where there are any, and by symbol
 * table where there is no DWARF. libdwfl asks debuginfod servers only if DEBUGINFOD_URLS is set. A
 * module is opened when the first of its frames is asked for that is not in the cache on disk;
 * every pc is looked up once, and every stack entry found by its id.
 *
 * A function is a name in a module and, where DWARF says so, a line of a source file: all frames of
 * one function have the same function id, whether they are calls, inlined calls or clones that the
 * compiler made; those of two functions never have, even if they print alike. Without any symbol it
 * is the range that the unwind tables give. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_SYMBOLS_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_SYMBOLS_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/format/reader/reader.h"
#include "profiler/format/reader/reader_python.h"

/* Strings belong to the symbols object. */
typedef struct na_symbol_frame {
    const char *function; /* demangled; "module+0xoffset" of its first instruction known (else
                           * of the pc) if there is no name; never NULL */
    const char *file;     /* NULL: not known */
    uint32_t line;        /* 0: not known */
    const char *tail;     /* of file, where it is told by more than its name; NULL: it is not */
    const char *module;   /* path; "?" if the address belongs to none */
    uint64_t offset;      /* pc - load bias */
    uint32_t id;          /* of the function, below na_symbols_function_count */
    bool inlined;         /* into the frame that follows */
    bool named;           /* function is a name, not an address */
    bool runtime;         /* part of the C or C++ runtime or of the allocator */
} na_symbol_frame_t;

typedef struct na_function_name {
    const char *function, *module; /* as in na_symbol_frame_t */
    const char *file;              /* where it is defined; NULL: not known */
    const char *tail;              /* as there */
    uint32_t line;
    uint32_t apart; /* other functions that agree in all else have another; no more is in it */
    bool named, runtime;
    bool by_symbol; /* by that alone: what is inlined into it is not known */
} na_function_name_t;

typedef struct na_symbols na_symbols_t;

/* NULL: out of memory. The tables must outlive the object. */
na_symbols_t *na_symbols_open(na_stack_table_t stacks, na_module_table_t modules);
void na_symbols_close(na_symbols_t *symbols);

/* Keeps what is looked up on disk, and takes from there what was (symbol_cache.h); `limit`: bytes
 * there, 0: no such thing (the default). Must be called before any frame is asked for. */
void na_symbols_cache(na_symbols_t *symbols, uint64_t limit);

/* When the process began: a file without build-id that is newer is not its. And names of code that
 * it made itself, from its perf map (perfmap.h) if that is still there: frames outside all modules
 * are then functions of the module "[jit]". */
void na_symbols_process(na_symbols_t *symbols, const na_nprof_header_t *header);

/* A directory in which modules are looked for by their paths, and debug files, before those of this
 * machine. NULL: none. Must be called before any frame is asked for. */
void na_symbols_sysroot(na_symbols_t *symbols, const char *directory);

/* Names of Python frames come from this reader, whose tree the stacks are. Their module is
 * NA_PYTHON_MODULE. Native frames inside of them (NA_READER_BELOW_PYTHON) count as runtime: the
 * line that called them is what allocates. */
#define NA_PYTHON_MODULE "[python]"
void na_symbols_python(na_symbols_t *symbols, na_reader_t *reader);

/* From now on calls say(done, all), in bytes, while a debug file comes from a debuginfod server, in
 * the thread that asked for the frame; all <= 0: not known. For all symbols objects of the process;
 * NULL: nobody wants to know. */
void na_symbols_downloading(void (*say)(long done, long all));

/* Takes symbols that were added to the file (na_reader_symbols): what they name is not looked up.
 * Lines that are not as they should be are ignored. Must be called before any frame is asked for;
 * `text` is not needed afterwards. False: out of memory. */
bool na_symbols_add(na_symbols_t *symbols, const char *text, size_t size);

/* The frames of one stack entry, innermost first: one, and one more for each inlined call. 0 for
 * the root and for entries that do not exist. Valid until na_symbols_close. */
uint32_t na_symbols_frames(na_symbols_t *symbols, uint32_t node, const na_symbol_frame_t **frames);

/* The same for an instruction by itself, which is part of no stack: of a sample. */
uint32_t na_symbols_at(na_symbols_t *symbols, uint64_t pc, const na_symbol_frame_t **frames);

/* The module of a stack entry, 0: none. */
uint32_t na_symbols_module(const na_symbols_t *symbols, uint32_t node);

/* The functions of all frames asked for so far. Valid until the next na_symbols_frames. */
uint32_t na_symbols_function_count(const na_symbols_t *symbols);
const na_function_name_t *na_symbols_function(const na_symbols_t *symbols, uint32_t id);

/* Files of Python frames asked for so far get their `tail`: there are many __init__.py. False: out
 * of memory. */
bool na_symbols_tell_files(na_symbols_t *symbols);

/* Modules whose symbols could not be had: calls say(arg, path, why) for each that was needed. */
void na_symbols_missing(const na_symbols_t *symbols,
                        void (*say)(void *arg, const char *path, const char *why), void *arg);

#endif
