/* error_files.h - files of errors (profiler/format/guard_file.h), read whole and checked. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEWS_ERRORS_ERROR_FILES_H
#define NUMALLOC_PROFILER_DUMP_VIEWS_ERRORS_ERROR_FILES_H

#include "profiler/dump/symbols/symbols.h"
#include "profiler/dump/ui/command_line.h"
#include "profiler/format/guard_file.h"

typedef struct na_error_file {
    const char *path;
    char *data;
    const na_gf_head_t *head;
    const na_gf_node_t *nodes;
    const na_gf_site_t *sites;
    const na_gf_record_t *records;
    const na_gf_error_t *errors;
    uint32_t error_count; /* of those that are in the file */
    na_nprof_module_t *modules;
    uint32_t module_count; /* with entry 0, which is none */
    na_symbols_t *symbols;
} na_error_file_t;

/* False: said why. Close it in any case. */
bool na_error_file_open(na_error_file_t *file, const char *path, const na_options_t *options);
void na_error_file_close(na_error_file_t *file);

/* The return addresses of a stack, innermost first; 0: it is not known any more. */
uint32_t na_error_file_stack(const na_error_file_t *file, uint32_t stack, uint64_t *pcs,
                             uint32_t most);
/* Frames of an address, innermost first; the frames of inlined calls among them. `exact`: it is no
 * return address. */
uint32_t na_error_file_frames(const na_error_file_t *file, uint64_t pc, bool exact,
                              const na_symbol_frame_t **frames);
/* "module+0x1234", the same in every process that has this module. */
void na_error_file_place(const na_error_file_t *file, uint64_t pc, char *to, size_t size);

/* The record that an address belongs to: in a block, or beside one; the newest. NULL: none. */
const na_gf_record_t *na_error_file_at(const na_error_file_t *file, uint64_t address);

#endif
