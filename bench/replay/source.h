/* source.h - from a file that a user names to a program that can be played. */
#ifndef NUMALLOC_BENCH_REPLAY_SOURCE_H
#define NUMALLOC_BENCH_REPLAY_SOURCE_H

#include "bench/replay/program.h"

/* The file is a trace, a program that was made of one, or "shape:NAME" (shape.h). Returns a
 * descriptor that children inherit, of a file that holds the program; -1 with one line in `error`.
 */
int na_replay_open(const char *path, uint64_t window, na_replay_program_t *program, char *error,
                   size_t size);

#endif
