/* cgroup.h - how much memory the process's control groups still allow it.
 *
 * Both versions of cgroups, all ancestors, limits of the kind that kills (memory.max,
 * memory.limit_in_bytes) and of the kind that throttles (memory.high). Page cache of files
 * and the kernel's own caches count as room: the kernel takes them back before it kills. Groups are
 * looked for where they are mounted by convention, below /sys/fs/cgroup; inside a container only
 * its own may be seen there, which then bears the limit.
 *
 * A call opens some ten files, 50 us: for slow paths that come by every few MiB. One thread at a
 * time (static buffers); takes no lock, allocates nothing. */
#ifndef NUMALLOC_ALLOC_LIMITS_CGROUP_H
#define NUMALLOC_ALLOC_LIMITS_CGROUP_H

#include <stdbool.h>
#include <stdint.h>

typedef struct na_cgroup_room {
    uint64_t limit; /* bytes, of the group that has least room */
    uint64_t room;  /* bytes that it still allows; 0 if it is over its limit */
    /* Below the limits that kill (memory.high does not), of the groups that have least of each;
     * UINT64_MAX: there are none. */
    uint64_t uncharged; /* bytes; caches are counted as use */
    uint64_t easy;      /* and with cached pages of files that nobody has mapped */
} na_cgroup_room_t;

/* False: no group sets a limit, or the system does not say. The roots are "/proc" and "/sys" (tests
 * have others). */
bool na_cgroup_room(const char *proc, const char *sys, na_cgroup_room_t *result);

#endif
