/* symbol_cache.h - what was looked up in a module once, kept on disk: one file for each build-id,
 * from addresses to names, files, lines and inlined calls.
 *
 * A file counts only as long as a new look-up would find the same. It therefore begins with what
 * the look-up depended on: the versions of the library, of libdw and of the format, the debuginfod
 * servers, and the state (device, inode, size, times) of every file that was read, or that would be
 * read if it were there: debug information that is installed later makes the file void.
 *
 * It is read whole and checked whole (owner, checksum, every index) before it is believed; one that
 * is wrong is replaced. A new one is written under another name and renamed, so that writers at the
 * same time leave the file of one of them. Nothing here is an error: where nothing can be
 * kept, nothing is. */
#ifndef NUMALLOC_PROFILER_DUMP_SYMBOLS_SYMBOL_CACHE_H
#define NUMALLOC_PROFILER_DUMP_SYMBOLS_SYMBOL_CACHE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct na_symbol_cache na_symbol_cache_t;

/* Strings that a cache gives out belong to it. */
typedef struct na_cached_frame {
    const char *function;  /* NULL: no name */
    const char *file;      /* NULL: not known */
    const char *home_file; /* where the function is defined; NULL: not known */
    uint64_t start;        /* first address of the function; only if there is no name */
    uint32_t line, home_line, apart;
    bool inlined;
} na_cached_frame_t;

/* The directory: numalloc in $XDG_CACHE_HOME or $HOME/.cache. False: neither is an absolute path.
 */
bool na_symbol_cache_directory(char *path, size_t size);

/* Reads what is kept of a module, by its path and build-id. `limit`: bytes of all files together.
 * NULL: there is no build-id or no directory, or out of memory. */
na_symbol_cache_t *na_symbol_cache_open(const char *module, const unsigned char *build_id,
                                        uint32_t build_id_size, uint64_t limit);
void na_symbol_cache_close(na_symbol_cache_t *cache);

/* Fills frames[], innermost first; addresses are the module's own (p_vaddr). Returns how many, 0:
 * not kept. */
uint32_t na_symbol_cache_find(const na_symbol_cache_t *cache, uint64_t address,
                              na_cached_frame_t *frames, uint32_t room);

/* Before anything is looked up in the files themselves: which they are now. `link`: the name of the
 * debug file that the module gives (.gnu_debuglink), or NULL. What is kept of other files is
 * forgotten: earlier answers stay valid as strings. */
void na_symbol_cache_identify(na_symbol_cache_t *cache, const char *module, const char *link);

/* Once all is looked up: was there any debug information, and in which file if not in the module's
 * own or one from a server (NULL)? */
void na_symbol_cache_debug_file(na_symbol_cache_t *cache, bool found, const char *path);

/* Nothing of this run is to be kept. */
void na_symbol_cache_refuse(na_symbol_cache_t *cache);

/* Keeps what was found (strings are copied). */
void na_symbol_cache_add(na_symbol_cache_t *cache, uint64_t address,
                         const na_cached_frame_t *frames, uint32_t count);

/* Writes the file if something was added, and removes the oldest files of the directory while all
 * of them are larger than the limit. */
void na_symbol_cache_save(na_symbol_cache_t *cache);

#endif
