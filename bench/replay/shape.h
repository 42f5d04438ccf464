/* shape.h - made-up traces: the allocation shapes of kinds of programs, in a few lines each.
 *
 * A shape is a table of groups of blocks: what share of all allocations it has, sizes, lifetimes,
 * which threads make its blocks and which free them. The events are drawn from it by a seed of its
 * own, in whole numbers only, so that they are the same on every machine. numalloc-bench-compile
 * makes a program of them as it does of a trace. */
#ifndef NUMALLOC_BENCH_REPLAY_SHAPE_H
#define NUMALLOC_BENCH_REPLAY_SHAPE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NA_SHAPE_PREFIX "shape:" /* of what a user names in place of a file */

typedef enum na_shape_kind {
    NA_SHAPE_MALLOC,
    NA_SHAPE_CALLOC,
    NA_SHAPE_ALIGNED, /* to 64 bytes */
    NA_SHAPE_REALLOC, /* of the block: its new size */
    NA_SHAPE_FREE,
} na_shape_kind_t;

typedef struct na_shape_event {
    na_shape_kind_t kind;
    uint32_t thread; /* from 0, the main thread */
    uint32_t block;  /* from 0; one that was freed does not come again */
    uint32_t size;
} na_shape_event_t;

typedef struct na_shape na_shape_t;

/* The shape of "shape:NAME". NULL: there is none, and one line in `error` names those that are. */
const na_shape_t *na_shape_find(const char *text, char *error, size_t size);

static inline bool na_shape_named(const char *text) {
    return __builtin_strncmp(text, NA_SHAPE_PREFIX, sizeof NA_SHAPE_PREFIX - 1) == 0;
}

/* A line for each shape, on standard output. */
void na_shape_list(void);

void na_shape_draw(const na_shape_t *shape, void (*event)(void *to, const na_shape_event_t *event),
                   void *to);

#endif
