/* registry.h - what is known of one live object, kept beside its span while a profile runs.
 *
 * A span that holds objects allocated under a profile has a side array of na_record, one for each
 * object slot; address -> span -> slot -> record is O(1), takes no lock and is async-signal-safe.
 * The allocator owns the array (pagemap/span.h says when it exists); the profiler owns the
 * contents.
 *
 * A record whose epoch differs from the current profile epoch belongs to an object that was
 * allocated before this profile began (or before a fork): it is "before profiling", and its other
 * fields mean nothing. Epoch 0 is never a profile's epoch, so zeroed memory reads as "before". */
#ifndef NUMALLOC_PAGEMAP_REGISTRY_H
#define NUMALLOC_PAGEMAP_REGISTRY_H

#include <stdint.h>

typedef struct na_record {
    uint32_t site;   /* stack node of the allocation, 0: none (not sampled) */
    uint32_t birth;  /* milliseconds since the profile began */
    uint32_t slack;  /* usable size - requested size, bytes; so that 32 bits serve any size */
    uint16_t thread; /* profile thread index of the allocating thread */
    uint8_t node;    /* dense node index of the cpu that allocated */
    uint8_t epoch;   /* profile epoch, see above */
} na_record_t;

_Static_assert(sizeof(na_record_t) == 16, "four records a cache line");

#endif
