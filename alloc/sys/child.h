/* child.h - how a process finds that it is a child that no fork handler has seen.
 *
 * A child of a system call of the program's own (fork or clone without CLONE_VM) has one thread and
 * the locks and tables of all of them. A word that reads as zero in each child (MADV_WIPEONFORK,
 * Linux 4.14) says so; children that share the memory, by vfork or CLONE_VM, have it as it is. A
 * process has the word from its second thread on: before that nobody else holds anything. Without
 * the system's help the child is not found, and may wait for ever for a thread that it has not. */
#ifndef NUMALLOC_ALLOC_SYS_CHILD_H
#define NUMALLOC_ALLOC_SYS_CHILD_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "alloc/sys/base.h"

/* What the word is: 0 in a child, until a thread of it finds that and leaves its tag there
 * (lock.h); then NA_CHILD_KNOWN, as in every other process. */
#define NA_CHILD_KNOWN 1u
typedef _Atomic(uint32_t) na_child_word_t;
extern NA_NEAR _Atomic(na_child_word_t *) na_child_word;

/* Slow paths ask before they touch anything that is shared, and who waits for a lock. */
NA_INLINE bool na_child_is_unknown(void) {
    const na_child_word_t *word = atomic_load_explicit(&na_child_word, memory_order_acquire);
    return NA_UNLIKELY(atomic_load_explicit(word, memory_order_acquire) != NA_CHILD_KNOWN);
}

/* There are two threads: children are to be found from now on, and `settle` called in them; false:
 * later. Under a lock of the caller's. */
void na_child_watch(bool (*settle)(void));
/* Has a child settled that is not known to be one; a thread that comes meanwhile waits. Does
 * nothing for the thread that is settling it. */
void na_child_settle(void);
/* This is a child, of which all is known. */
void na_child_is_settled(void);

#endif
