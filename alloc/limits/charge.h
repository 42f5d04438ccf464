/* charge.h - asking the kernel whether the process's control groups can be charged for more.
 *
 * What a group's files say is not what it can still be charged for: each processor may hold 64
 * pages that are charged and not in use, caches go when they have to, so do pages that there is
 * swap for, and what is mapped of a file may stay whatever happens. The kernel knows when it tries.
 * It tries, and neither kills nor waits, when it is to collapse 2 MiB into a huge page
 * (MADV_COLLAPSE, Linux 6.1): if the charge is refused even after all of the above has been given
 * up, the call says so, and small pages stay as they are.
 *
 *   area, 2 MiB:  |one page, touched|       never touched            |
 *
 * Half a millisecond and more: only where memory would be refused otherwise. One thread at a time;
 * allocates nothing, leaves errno alone. */
#ifndef NUMALLOC_ALLOC_LIMITS_CHARGE_H
#define NUMALLOC_ALLOC_LIMITS_CHARGE_H

typedef enum na_charge {
    NA_CHARGE_NONE, /* 2 MiB cannot be charged for, and nothing is left to be given up for them */
    NA_CHARGE_ROOM, /* 2 MiB were, and are free again */
    NA_CHARGE_UNKNOWN, /* the kernel does not say: too old, no huge pages, or none to be had */
} na_charge_t;

na_charge_t na_charge_ask(void);
/* The area is not the child's. */
void na_charge_after_fork_child(void);

#endif
