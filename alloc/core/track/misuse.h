/* misuse.h - naming what a program does wrong with its blocks.
 *
 * One line on stderr: what was done, the address, and what is known of it; then abort, unless
 * NUMALLOC_ABORT=0: then the bad call has no effect. Always found: a free of an address that lies
 * in no live block of ours (never given out, stack, static, a large block freed twice, a small
 * block whose span is gone), or in the middle of a block of more than a page (8 KiB), on a page in
 * which none begins; a free or realloc of the small block that the thread freed last of its class;
 * realloc of the middle of a small block to a large one. Found at once with NUMALLOC_CHECK=1, or
 * where the free itself takes a slow path, otherwise when one of the thread's next slow paths still
 * has it among the blocks freed last, when a full bin of blocks from 2 KiB on is emptied, when the
 * block goes to its span, or where a list ends that it made longer or shorter (cache/bin.h): a free
 * of the middle of a block, a double free. (So is a write to a freed block, where it met its link.)
 * Found with NUMALLOC_CHECK=1 only: a sized free, or delete, of another size than was asked for.
 *
 * malloc_usable_size of what is no live block (the small one that was freed last, a freed large
 * one, the middle of one) changes nothing, and programs that count their memory do ask when it is
 * too late: it is named once, and the program goes on, but with NUMALLOC_CHECK=1 or hardened. */
#ifndef NUMALLOC_ALLOC_CORE_TRACK_MISUSE_H
#define NUMALLOC_ALLOC_CORE_TRACK_MISUSE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/central/block.h"
#include "alloc/core/sys/print.h"
#include "pagemap/pagemap.h"

/* Reports `what` ("double free of") and the address; returns only with NUMALLOC_ABORT=0. */
void na_misuse(const char *what, const void *address);
/* The same of what was done earlier, and is found now: the line says how to find it where it
 * happens. */
void na_misuse_late(const char *what, const void *address);
/* The same of a call that only asks: named once in a process, which goes on; checked or hardened,
 * as na_misuse. */
void na_misuse_asked(const char *what, const void *address);
/* Adds a line to NUMALLOC_MISUSE_FILE, if that is set. */
NA_COLD void na_misuse_add_to_file(const na_text_t *line);

/* NUMALLOC_CHECK=1, or hardened: the size that a sized free names is the one that was asked for.
 * False: it is not, which has been reported. Without records (recording.h) what is known of a small
 * block is its class, and that is compared. `alignment`: that new was asked for; 0: the block is
 * not of new, and may be larger than was asked for. */
NA_COLD bool na_size_is_right(const void *block, size_t size, size_t alignment);
/* Of a live block that begins there: bytes that were asked for. False: not known. Set by whoever
 * has records of all blocks (record/recording.c). */
extern NA_NEAR bool (*na_size_asked)(const void *block, uint64_t *asked);
/* Memory was so short that blocks of other classes were given: sizes say less. */
extern bool na_sizes_blurred;

#endif
