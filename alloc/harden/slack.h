/* slack.h - what lies around a block's bytes, and in freed blocks (NUMALLOC_HARDEN=2).
 *
 *   | bytes that were asked for | slack: NA_SLACK_BYTE |      small block, and large one before
 *                                                             its guard page
 *   | link, signature | NA_SLACK_BYTE ...              |      small block that was freed and waits
 *
 * Every block has one byte of slack at least, but for those of the program's own heaps and large
 * ones with a guard page right behind them. So the last byte of a small block is NA_SLACK_BYTE at
 * any time, whosever the block is: the byte before a block may be checked as well, without a look
 * at whose it is. (That of a block that was never handed out is set with the one behind it.)
 *
 * What was asked for is in the block's record, which each block has then (recording.h). */
#ifndef NUMALLOC_ALLOC_HARDEN_SLACK_H
#define NUMALLOC_ALLOC_HARDEN_SLACK_H

#include <stdbool.h>
#include <stddef.h>

#include "alloc/core/sys/base.h"
#include "pagemap/pagemap.h"

#define NA_SLACK_BYTE 0xd5u

/* Bytes that were asked for; where there is no record, all that the block has but its spare one. */
size_t na_slack_asked(const na_span_t *span, const void *block);
/* The block is about to be handed out. */
NA_COLD void na_slack_fill(const na_span_t *span, void *block, size_t asked);
/* Reports what was written around the block, which is about to be freed, or at the program's end.
 */
NA_COLD void na_slack_check(const na_span_t *span, const void *block);
/* A small block was freed and waits. */
NA_COLD void na_slack_fill_freed(void *block, size_t size);
/* It goes on. False: it was written to, behind its first 16 bytes. */
NA_COLD bool na_slack_is_untouched(const void *block, size_t size);
/* Of all live blocks; the calling thread is the only one. */
NA_COLD void na_slack_check_all(void);
/* A thread was lost to a forked child while it had blocks in the making: not all can be checked. */
extern bool na_slack_is_partial;

#endif
