/* limits.h - when a control group's memory runs out.
 *
 * A group's limit (memory.max, and the like) is enforced by killing, and the kernel cannot ask for
 * what an allocator keeps free, nor for the untouched rest of a huge page in use. So the group's
 * room (cgroup.h) is looked at on the way to new memory: first when the process has taken 4 MiB,
 * then whenever a node has taken its share of half of what was found, at most 64 MiB; where there
 * is no limit, once a second at most. What the core does at each level: core/machine/pressure.h.
 *
 *   room < 4 least     low
 *   room < least       critical. On the way there all free pages of all nodes are given back, what
 *                      is left of huge pages is split, and regions use no more of them.
 *   easy < least       exhausted (easy: below a limit that kills; caches count as free, except of
 *                      files that are mapped). A run that the group cannot be charged for, so far
 *                      as the kernel can be asked (charge.h), is refused: malloc fails with ENOMEM,
 *                      and nobody is killed. Who asks for more than 1 MiB often uses a part of it:
 *                      that much must be there.
 *   room < least / 2   and not exhausted: what is free goes back at every look
 *   room > 2 least     as before; but regions that were told to use small pages keep to them
 *
 * least: a sixteenth of the limit, 4 to 64 MiB, and 2 MiB a node: the kernel takes huge pages as
 * long as there is room for them, so that each node may be one further than it was told.
 *
 * One thread looks. The others go on meanwhile, by what was known to be left (a look that is
 * interrupted may take long), and wait for it when they have used that up; while it is exhausted,
 * always. Thread-safe; no lock of a page heap may be held. */
#ifndef NUMALLOC_ALLOC_LIMITS_LIMITS_H
#define NUMALLOC_ALLOC_LIMITS_LIMITS_H

#include <stdint.h>

/* From now on the core asks here, unless the options say that groups do not count. */
void na_limits_init(void);

/* How often the answer was 0. */
uint64_t na_limits_refusals(void);

/* The program is about to forbid itself system calls, which may be a reason to be killed
 * (na_os_confine). The groups are looked at once more; from then on their room is what it was, less
 * what the page heaps took since. No look is under way when this returns. */
void na_limits_confine(void);

#endif
