/* backing.h - how pages come to have memory: moved there, populated ahead, where they are first
 * touched, or brought back to their node.
 *
 * Moving the memory of free hugepages to where it is wanted:
 *
 * A long run needs addresses in a row. Where they are free but hold no memory, while hugepages that
 * do lie free elsewhere, the system can be asked to put the memory of those under the run: it moves
 * 2 MiB by changing one entry of a page table, about 50 times as fast as taking the memory back
 * there and clearing new memory here, page fault by page fault.
 *
 *   before   | run: no memory |   ...   | free, memory |
 *   after    | run: memory    |   ...   | free, none   |
 *
 * Whole hugepages only, each to a place that was wholly free when the run was taken; what the run
 * leaves of its last one is free and holds memory then. A place to
 * which memory was moved stays a mapping of its own (Linux allows a process 65,530), so their
 * number is bounded; beyond it, and where the system refuses (before Linux 5.7), nothing is moved
 * and purging does the rest. */
#ifndef NUMALLOC_ALLOC_CORE_PAGE_BACKING_H
#define NUMALLOC_ALLOC_CORE_PAGE_BACKING_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/page/free_pages.h"
#include "alloc/core/sys/tuned.h"

typedef enum na_remap {
    NA_REMAP_NONE,
    NA_REMAP_SOME, /* the run no longer reads as zero */
    NA_REMAP_LOST, /* the system failed half-way: the run has been given back, take another */
} na_remap_t;

/* Puts memory under a run (or what was added to one, from a hugepage boundary on) that was just
 * taken and is not in use yet, as long as what is resident exceeds what may be (purge.h). Without
 * the lock, which it lets go during system calls. */
na_remap_t na_remap(na_free_pages_t *s, uintptr_t start, uint32_t pages);

/* --- Memory for small blocks in larger pieces than page faults give ---
 *
 * A page fault serves one page of the system. It takes half a microsecond on hardware, and up to
 * twenty in virtual machines whose page tables are shadowed. Blocks of at most a page fill the
 * pages of their spans, so a heap that grows by such blocks will write to all of the next pages,
 * and can have them together:
 *
 *   populate     When a span of such blocks takes pages without memory, these and the free pages
 *                behind are populated by one system call.
 *   huge pages   When such a span begins a hugepage that is wholly free and holds nothing, the
 *                hugepage gets a huge page of the system.
 *
 * The rule: nothing is resident that nobody wrote, but for what small blocks will fill next. One
 * call has at most a sixteenth of what such spans hold (`filled`), and so much is ahead of use in
 * all. What others took of it (`astray`: a large block finds free pages that hold memory) counts as
 * ahead until as much was given back. Nothing is had ahead for larger blocks, which may be used in
 * part: buffers, stacks of coroutines, tables; nor while memory is low, for threads with a policy
 * of their user's, or where such spans hold less than 1 MiB for each thread: of what many threads
 * use, much is used in part only.
 *
 * What is ahead counts as free memory (dirty): it is purged by age and cap like all of that.
 *
 * Huge pages. The system makes them unasked ("always" in
 * /sys/kernel/mm/transparent_hugepage/enabled), when asked, or never; the process may have refused
 * them (prctl PR_SET_THP_DISABLE). With NUMALLOC_HUGEPAGES=auto:
 *
 *   when asked   Only the hugepages of small blocks get them. Advice does not last: where a
 *                hugepage has it and a single page is left there, khugepaged fills it up again, and
 *                what was purged is resident within a minute. So a region is advised against huge
 *                pages when it first gets one; a hugepage is advised, touched, and advised against.
 *   unasked      The first touch of a hugepage would make all of it resident. So regions are
 *                advised against huge pages from the beginning, and small blocks get them as above.
 *                Blocks of more than 4 MiB have advice, as they would have huge pages with any
 *                malloc: below 16 MiB all but their first and last hugepage, which might be all
 *                that is used. It ends when their pages are freed. Each such block is one or two
 * mappings more of some 65,000 that a process may have: NA_PREFAULT_BLOCKS at most.
 *
 * Invariants: hugepage.advice says that a large block's advice is in force there; free pages have
 * none. It is written and read under the set's lock.
 *
 * docs/decisions/ahead.md has the measurements. */

/* Pages of small blocks for each thread, where there are many threads. */
#define NA_PREFAULT_THREAD (NA_SLACK_BYTES >> NA_PAGE_SHIFT)

/* Pages of a block that may be advised as a whole: of a smaller one only an end may be used. */
#define NA_PREFAULT_WHOLE (NA_CACHED_BYTES / 4 >> NA_PAGE_SHIFT)

/* Blocks with advice at one time. */
#define NA_PREFAULT_BLOCKS (NA_OS_MAPPINGS / 16)

/* Instead of a number of pages: a huge page. */
#define NA_PREFAULT_HUGE UINT32_MAX

/* Pages that such spans must have before anything is had ahead for them. */
#define NA_PREFAULT_LEAST (2 * NA_SPARE_PART)

/* With the set's lock, when a run for such a span was just taken of which some pages hold no
 * memory: how many pages from the run's start on na_prefault is to populate (0: none), or
 * NA_PREFAULT_HUGE. Some of them may lie behind the run, and are dirty from now on. */
uint32_t na_prefault_plan(na_free_pages_t *s, uintptr_t start, uint32_t pages);

/* Does so. Without a lock. What the system refuses is left to page faults. */
void na_prefault(uintptr_t start, uint32_t pages);

/* A run of at least two hugepages was taken for a block. Without a lock. */
void na_prefault_block(uintptr_t start, uint32_t pages);

/* Ends what advice there is in these hugepages. With the set's lock. */
void na_prefault_withdraw(na_hugepage_t *hp, size_t count);

/* --- Large blocks whose pages lie where they were first touched ---
 *
 * The thread that allocates a large block is often not the one that uses it: one thread asks for an
 * array, each worker writes its part first, and uses that. So the pages of large blocks that hold
 * no memory yet are not bound to the node of who asks (na_place_by_touch): they are taken from a
 * set of their own (free_pages.h), and the kernel places each where it is first touched. What was
 * used before lies at its node, as everything else: when such a block is freed, one page in 64 KiB
 * is looked up, and of each hugepage of it that holds any page elsewhere, or none, the memory goes
 * back to the system; with it what the system's own huge pages put behind the block, if nobody else
 * has a part of that hugepage.
 *
 *   pages of the node       bound; what is small, or has been used
 *   first-touch pages       not bound; of large blocks: at the node, or without memory, when free
 */

/* Gives back a run (or its end) whose pages may lie elsewhere than at the node whose page heap has
 * it: those that do are given up. `look`: they are looked up; else all of them are given up. */
void na_touch_free(unsigned node, uintptr_t start, uint32_t pages, bool look);

/* --- Bringing a node's memory back to it ---
 *
 * A region's pages are bound to its node, and the kernel moves them all the same when a cpuset
 * forbids the node. When it is allowed again (topology.h) its memory is bound anew, which brings
 * them back. */

/* Binds the node's memory anew and has the kernel bring back what lies elsewhere. It passes over
 * pages silently: what is left of a huge page that it could not split, since somebody else was just
 * looking at it, and any that another migration had in hand. So afterwards each page in use is
 * looked up, and if one still lies elsewhere this is done again a second later
 * (na_topology_not_yet). Behind the gate, no lock held. */
void na_placement_bring_back(unsigned node);

/* --- What is said to the system of fresh address space, once, before it is touched --- */

/* Memory of this dense node (or the pseudo-node) is to be bound: there are several nodes, and
 * NUMALLOC_NUMA wants it. */
bool na_place_binds(unsigned node);

/* When a node is full its memory is to come from another one: it is bound, and not strictly. */
bool na_place_spills(unsigned node);

/* The system makes huge pages unasked, and NUMALLOC_HUGEPAGES leaves it to us: ranges that blocks
 * are handed out from are advised against them (below). */
bool na_place_keeps_small(void);

/* Binds the range to the node if `bind`, and gives the advice on huge pages that NUMALLOC_HUGEPAGES
 * asks for (none while memory is short, pressure.h). Returns whether it is bound: a refusal (EPERM
 * and ENOSYS under containers' seccomp filters, above all) is normal; the range then gets its node
 * by first touch. */
bool na_place(void *start, size_t size, unsigned node, bool bind);

/* The same for a range whose pages are to lie where they are first touched, and where the kernel
 * moves them to afterwards if it balances (na_node_balanced). False: refused; they lie there all
 * the same, but should the kernel begin to balance it may hide them from move_pages. */
bool na_place_by_touch(void *start, size_t size);

/* Binds a range again that was bound before, and has the kernel bring pages of it that lie on other
 * nodes. Returns whether it is bound. */
bool na_place_back(void *start, size_t size, unsigned node);

/* The same as na_place for a range whose pages go to the nodes of a set in turn: one bit a node of
 * the system, `nodes` bits. */
bool na_place_interleaved(void *start, size_t size, const uint64_t *set, unsigned nodes);

#endif
