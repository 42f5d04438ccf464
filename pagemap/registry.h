/* registry.h - what is known of one live object, kept beside its span while a profile runs.
 *
 * A span that holds objects allocated under a profile has a side array of na_record, one for each
 * object slot; address -> span -> slot -> record is O(1), takes no lock and is async-signal-safe.
 * The allocator owns the array (pagemap/span.h says when it exists); the profiler owns the
 * contents.
 *
 * A record whose epoch differs from the current profile epoch belongs to an object that was
 * allocated before this profile began (or before a fork): it is "before profiling", and its other
 * fields mean nothing but to the profile of that epoch. Epoch 0 is never a profile's: no object is
 * known to live there. NA_EPOCH_BEFORE is neither: an object lives there, of no profile. */
#ifndef NUMALLOC_PAGEMAP_REGISTRY_H
#define NUMALLOC_PAGEMAP_REGISTRY_H

#include <stdint.h>

typedef struct na_record {
    uint32_t site;       /* stack node of the allocation, 0: none (not sampled) */
    uint32_t birth;      /* low part of the time of allocation: see na_record_birth */
    uint32_t slack : 20; /* usable size - requested size, bytes: less than a page, or a class */
    uint32_t birth_high : 12; /* high part */
    uint16_t thread;          /* profile thread index of the allocating thread */
    uint8_t node;             /* dense node index of the cpu that allocated */
    uint8_t epoch;            /* profile epoch, see above */
} na_record_t;

/* Profile epochs are 1..NA_EPOCH_LAST, in turn. */
#define NA_EPOCH_LAST   254u
#define NA_EPOCH_BEFORE 255u

_Static_assert(sizeof(na_record_t) == 16, "four records a cache line");

#define NA_RECORD_SLACK_MAX 0xfffffu
#define NA_RECORD_TIME_BITS 44

/* When the object was allocated: ticks of the profile's clock >> 8, the low 44 bits of them (some
 * 20 days or more before they repeat). */
static inline uint64_t na_record_birth(const na_record_t *record) {
    return (uint64_t)record->birth_high << 32 | record->birth;
}

/* Of an object that is freed at this time (ticks >> 8); 0 where the processors' clocks disagree. */
static inline uint64_t na_record_age(const na_record_t *record, uint64_t now) {
    uint64_t age = (now - na_record_birth(record)) & ((UINT64_C(1) << NA_RECORD_TIME_BITS) - 1);
    return age >> (NA_RECORD_TIME_BITS - 1) == 0 ? age : 0;
}

#endif
