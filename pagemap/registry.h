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

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/sys/base.h"

/* Not 0: every malloc and free takes the slow path: no bin is granted credit, and every span that
 * blocks come from is tagged slow. Changed by the switch (alloc/thread/switch.h). One bit for each
 * reason: each call gets a record (profile mode sites or trace, strict checking); each is checked
 * (alloc/malloc/hardened.h), which does not change. */
extern _Atomic(uint8_t) na_every_event;
#define NA_EVERY_RECORDED 1u
#define NA_EVERY_HARDENED 2u

/* Every block gets a record. */
NA_INLINE bool na_every_is_recorded(void) {
    return (na_every_event & NA_EVERY_RECORDED) != 0;
}
/* Counts profiles begun and ended, from 1: a word or a span of another session means nothing. */
extern NA_NEAR _Atomic(uint32_t) na_session;
/* na_session, from when each thread's next slow path is sure to find that it has begun
 * (thread/switch.c); until then an earlier one. Spans are born in it: before that a thread may hand
 * out their blocks on credit, unrecorded, though every event is wanted already. */
extern _Atomic(uint32_t) na_noticed_session;

/* Who looks at a record of a block that lives, ends or begins just now reads words[0], then
 * words[1]. The latter says of which life the record is, and is written last when it begins
 * (na_record_publish), first when it ends. So if its birth is earlier than the look, words[0] is of
 * the same life: any later life was born later. */
typedef struct na_record {
    union {
        struct {
            uint32_t site;   /* stack node of the allocation, 0: none (not sampled) */
            uint16_t slack;  /* usable size - requested size, bytes: less than a page, or a class */
            uint16_t thread; /* profile thread index of the allocating thread */
            uint8_t node;    /* dense node index of the cpu that allocated */
            uint64_t marks : 4; /* NA_MARK_*, during a scan for leaks; 0 */
            /* When the object was allocated: the low bits of (ticks of the profile's clock >> 8);
             * some 20 days or more before they repeat. */
            uint64_t birth : 44;
            uint8_t epoch; /* profile epoch, see above */
        };
        uint64_t words[2];
    };
} na_record_t;

/* Profile epochs are 1..NA_EPOCH_LAST, in turn. (ThreadSanitizer's tests begin few profiles, and
 * shall see what happens when the first one comes round again.) */
#ifdef __SANITIZE_THREAD__
#define NA_EPOCH_LAST 2u
#else
#define NA_EPOCH_LAST 254u
#endif
#define NA_EPOCH_BEFORE 255u

/* The block was met; what it holds was, too; a lost block leads to it (profiler/leaks/mark.c). */
#define NA_MARK_REACHED  1u
#define NA_MARK_SCANNED  2u
#define NA_MARK_INDIRECT 4u

#define NA_RECORD_SLACK_MAX   0xffffu
#define NA_RECORD_TIME_BITS   44
#define NA_RECORD_TIME_MASK   ((UINT64_C(1) << NA_RECORD_TIME_BITS) - 1)
#define NA_RECORD_SLACK_SHIFT 32
#define NA_RECORD_BIRTH_SHIFT 12
#define NA_RECORD_EPOCH_SHIFT 56
/* Birth of a record that is not filled yet: later than any time. */
#define NA_RECORD_UNBORN NA_RECORD_TIME_MASK

_Static_assert(sizeof(na_record_t) == 16, "four records a cache line");
_Static_assert(offsetof(na_record_t, slack) * 8 == NA_RECORD_SLACK_SHIFT,
               "little-endian, as all machines that this runs on");
_Static_assert(offsetof(na_record_t, node) == 8 && offsetof(na_record_t, epoch) == 15,
               "birth lies in words[1], below the epoch");

/* The record says of which life it is: its site, slack and thread are set. */
static inline void na_record_publish(na_record_t *record, uint64_t birth, uint8_t epoch) {
    uint64_t word = record->node | (birth & NA_RECORD_TIME_MASK) << NA_RECORD_BIRTH_SHIFT |
                    (uint64_t)epoch << NA_RECORD_EPOCH_SHIFT;
    __atomic_store_n(&record->words[1], word, __ATOMIC_RELEASE);
}

/* The same of a record that has node and epoch already. */
static inline void na_record_publish_birth(na_record_t *record, uint64_t birth) {
    uint64_t rest = ~(NA_RECORD_TIME_MASK << NA_RECORD_BIRTH_SHIFT);
    uint64_t word = (record->words[1] & rest) | (birth & NA_RECORD_TIME_MASK)
                                                    << NA_RECORD_BIRTH_SHIFT;
    __atomic_store_n(&record->words[1], word, __ATOMIC_RELEASE);
}

/* Its life ends, and another will be published. */
static inline void na_record_unpublish(na_record_t *record, uint8_t epoch) {
    na_record_publish(record, NA_RECORD_UNBORN, epoch);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

/* Parts of words[0], which others may be reading. */
static inline void na_record_set_site(na_record_t *record, uint32_t site) {
    __atomic_store_n(&record->site, site, __ATOMIC_RELAXED);
}
static inline void na_record_set_thread(na_record_t *record, uint16_t thread) {
    __atomic_store_n(&record->thread, thread, __ATOMIC_RELAXED);
}
static inline void na_record_set_slack(na_record_t *record, uint16_t slack) {
    __atomic_store_n(&record->slack, slack, __ATOMIC_RELAXED);
}

/* Copies a record that may begin or end just now; false: it did. */
static inline bool na_record_read(const na_record_t *record, na_record_t *copy) {
    const uint64_t *words = record->words;
    copy->words[0] = __atomic_load_n(&words[0], __ATOMIC_ACQUIRE);
    copy->words[1] = __atomic_load_n(&words[1], __ATOMIC_ACQUIRE);
    return copy->words[0] == __atomic_load_n(&words[0], __ATOMIC_RELAXED) &&
           copy->words[1] == __atomic_load_n(&words[1], __ATOMIC_RELAXED);
}

/* The record of a block that is taken, to be published. (It has ended before: epoch 0.) */
static inline void na_record_take(na_record_t *record, uint64_t slack, uint8_t node,
                                  uint8_t epoch) {
    __atomic_thread_fence(__ATOMIC_RELEASE);
    __atomic_store_n(&record->words[0], (slack & NA_RECORD_SLACK_MAX) << NA_RECORD_SLACK_SHIFT,
                     __ATOMIC_RELAXED);
    uint64_t word =
        node | NA_RECORD_UNBORN << NA_RECORD_BIRTH_SHIFT | (uint64_t)epoch << NA_RECORD_EPOCH_SHIFT;
    __atomic_store_n(&record->words[1], word, __ATOMIC_RELAXED);
}

/* The epoch, by whoever holds the block while no profile runs: one that begins may be making
 * records of an old epoch NA_EPOCH_BEFORE (na_span_age_records), which changes nothing that they
 * ask. */
static inline uint8_t na_record_epoch(const na_record_t *record) {
    return __atomic_load_n(&record->epoch, __ATOMIC_RELAXED);
}
static inline void na_record_set_epoch(na_record_t *record, uint8_t epoch) {
    __atomic_store_n(&record->epoch, epoch, __ATOMIC_RELAXED);
}

/* Marks are the low half of the byte behind the node. Whoever begins or ends a life meanwhile
 * writes the word over them, or another byte. */
static inline uint8_t *na_record_marks_byte(na_record_t *record) {
    return (uint8_t *)record + offsetof(na_record_t, node) + 1;
}
static inline unsigned na_record_marks(na_record_t *record) {
    return __atomic_load_n(na_record_marks_byte(record), __ATOMIC_RELAXED) & 15u;
}
static inline void na_record_mark(na_record_t *record, unsigned marks) {
    __atomic_fetch_or(na_record_marks_byte(record), (uint8_t)marks, __ATOMIC_RELAXED);
}
static inline void na_record_clear_marks(na_record_t *record) {
    if (na_record_marks(record) != 0)
        __atomic_fetch_and(na_record_marks_byte(record), (uint8_t)0xf0, __ATOMIC_RELAXED);
}

/* Of an object that is freed at this time (ticks >> 8); 0 where the processors' clocks disagree. */
static inline uint64_t na_record_age(const na_record_t *record, uint64_t now) {
    /* Both with their highest bit on top; what lies below the birth in its word is less than what
     * lies below the other time. */
    const unsigned below = 64 - NA_RECORD_TIME_BITS;
    uint64_t word = record->words[1] << (below - NA_RECORD_BIRTH_SHIFT);
    int64_t age = (int64_t)((now << below | ((UINT64_C(1) << below) - 1)) - word);
    return age >= 0 ? (uint64_t)age >> below : 0;
}

#endif
