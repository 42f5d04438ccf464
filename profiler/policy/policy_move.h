/* policy_move.h - large blocks of ruled sites that lie on another node than their rule says are
 * moved there, pages and all, at the same address (move_pages).
 *
 * Which: those whose call stack a running profile has recorded, and whose rule leads to a node: one
 * that it names (place=node, place=consumer N), that of the threads that free the site's blocks
 * (place=consumer, alloc/heaps/consumer.h), or that of the thread that allocated the block, where
 * this runs now (place=follow). Without a profile nobody knows where a block comes from. Blocks
 * that come under a rule with a node lie right from their birth; this is for those that were there
 * before.
 *
 * Who: a thread of ours, where NUMALLOC_POLICY_MOVE gives it a share of a processor's time. It is
 * started with the program, for a thread cannot be made from inside malloc, and it looks at the
 * policy's file, too. A forked child has none.
 *
 * How much: pages are asked for and moved in slices; after each the thread sleeps for so long that
 * it keeps its share. A block that was moved and lies elsewhere again (the kernel, or the program,
 * wants it there) waits: 10 seconds, then twice as long each time.
 *
 * A block may be freed and its pages may be another's at any moment: then another's pages are moved
 * once in vain. So nothing of a block is written, but that its span's pages are not where its
 * region says (NA_PLACEMENT_MIGRATED), which costs a look when it is freed. */
#ifndef NUMALLOC_PROFILER_POLICY_POLICY_MOVE_H
#define NUMALLOC_PROFILER_POLICY_POLICY_MOVE_H

/* At the end of the library's constructor. */
void na_policy_move_at_load(void);

#endif
