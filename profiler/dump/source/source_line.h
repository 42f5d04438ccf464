/* source_line.h - lines of source: what one assigns to is the name that a programmer gave to a
 * block. */
#ifndef NUMALLOC_PROFILER_DUMP_SOURCE_SOURCE_LINE_H
#define NUMALLOC_PROFILER_DUMP_SOURCE_SOURCE_LINE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>

#include "profiler/dump/symbols/symbols.h"
#include "profiler/dump/ui/command_line.h"

/* A source file where --source-path says, else under its own name. NULL: it cannot be read, or is
 * no file of a sensible size. */
FILE *na_source_open(const na_options_t *options, const char *name);

/* Was it changed after this module was built? Then its lines are others. What --source-path says is
 * believed. */
bool na_source_is_changed(const na_options_t *options, const char *name, const char *module);

/* "s->basis" of "    s->basis = malloc(n);": what the call of a frame is assigned to, which called
 * `callee` (NULL: not known). False: it cannot be read, it is assigned to nothing, or the file was
 * changed. */
bool na_source_target(const na_options_t *options, const na_symbol_frame_t *frame,
                      const char *callee, char *out, size_t size);

#endif
