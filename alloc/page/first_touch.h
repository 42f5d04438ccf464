/* first_touch.h - large blocks whose pages lie where they were first touched.
 *
 * The thread that allocates a large block is often not the one that uses it: one thread asks for an
 * array, each worker writes its part first, and uses that. So the pages of large blocks that hold
 * no memory yet are not bound to the node of who asks (place.h): they are taken from a set of their
 * own (free_pages.h), and the kernel places each where it is first touched. What was used before
 * lies at its node, as everything else: when such a block is freed, one page in 64 KiB is looked
 * up, and of each hugepage of it that holds any page elsewhere, or none, the memory goes back to
 * the system; with it what the system's own huge pages put behind the block, if nobody else has a
 * part of that hugepage.
 *
 *   pages of the node       bound; what is small, or has been used
 *   first-touch pages       not bound; of large blocks: at the node, or without memory, when free
 */
#ifndef NUMALLOC_ALLOC_PAGE_FIRST_TOUCH_H
#define NUMALLOC_ALLOC_PAGE_FIRST_TOUCH_H

#include <stdbool.h>
#include <stdint.h>

/* Gives back a run (or its end) whose pages may lie elsewhere than at the node whose page heap has
 * it: those that do are given up. `look`: they are looked up; else all of them are given up. */
void na_touch_free(unsigned node, uintptr_t start, uint32_t pages, bool look);

#endif
