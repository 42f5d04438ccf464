/* place.h - what is said to the system about fresh address space, once, before it is touched. */
#ifndef NUMALLOC_ALLOC_MACHINE_PLACE_H
#define NUMALLOC_ALLOC_MACHINE_PLACE_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* Memory is short, as pressure.c says: ranges are advised to use no huge pages, whatever
 * NUMALLOC_HUGEPAGES asks for. */
extern _Atomic(bool) na_place_small_pages;

/* Memory of this dense node (or the pseudo-node) is to be bound: there are several nodes, and
 * NUMALLOC_NUMA wants it. */
bool na_place_binds(unsigned node);

/* When a node is full its memory is to come from another one: it is bound, and not strictly. */
bool na_place_spills(unsigned node);

/* The system makes huge pages unasked, and NUMALLOC_HUGEPAGES leaves it to us: ranges that blocks
 * are handed out from are advised against them (page/prefault.h). */
bool na_place_keeps_small(void);

/* Binds the range to the node if `bind`, and gives the advice on huge pages that NUMALLOC_HUGEPAGES
 * asks for. Returns whether it is bound: a refusal (EPERM and ENOSYS under containers' seccomp
 * filters, above all) is normal; the range then gets its node by first touch. */
bool na_place(void *start, size_t size, unsigned node, bool bind);

/* The same for a range whose pages are to lie where they are first touched. False: refused; they do
 * all the same, but the kernel's NUMA balancing may hide them from move_pages. */
bool na_place_by_touch(void *start, size_t size);

/* Binds a range again that was bound before, and has the kernel bring pages of it that lie on other
 * nodes. Returns whether it is bound. */
bool na_place_back(void *start, size_t size, unsigned node);

/* The same as na_place for a range whose pages go to the nodes of a set in turn: one bit a node of
 * the system, `nodes` bits. */
bool na_place_interleaved(void *start, size_t size, const uint64_t *set, unsigned nodes);

#endif
