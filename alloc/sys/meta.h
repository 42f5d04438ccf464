/* meta.h - memory for the allocator's own tables: never given back, type-stable, zeroed.
 *
 * A bump allocator over own mappings, so that metadata does not lie between user blocks and an
 * overrun of a user block cannot reach it. Thread-safe; its lock is the innermost of all. */
#ifndef NUMALLOC_ALLOC_SYS_META_H
#define NUMALLOC_ALLOC_SYS_META_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* `size` bytes aligned to `alignment` (a power of two up to the page). NULL when the system
 * refuses. */
void *na_meta_alloc(size_t size, size_t alignment);
/* Bytes mapped so far, including those not yet touched. */
uint64_t na_meta_bytes(void);
void na_meta_after_fork_child(void);

/* Chunks from now on have a page that nobody can reach before and behind them (NUMALLOC_HARDEN). */
extern bool na_meta_guarded;

#endif
