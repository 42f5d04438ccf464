/* pagemap.h - from any address to what this allocator knows of it.
 *
 * For every 8 KiB page a tag and a span, in two maps of two levels, because only the tag is wanted
 * in a hurry: tag leaves serve 4 GiB each (2 MiB of address space), so that shifting the low half
 * of an address gives the index; span leaves serve 512 MiB (514 KiB), so that a process whose
 * memory is locked or counted pays for little: tags can be written in those parts only that leaves
 * of spans go with. Leaves are mapped when the first pages there are opened
 * (alloc/core/page/free_pages.h), or a span is entered, and never unmapped; most of a leaf is never
 * touched. The first tag leaf that is wanted and those of the 12 GiB below, where the system maps
 * next, lie side by side: the home leaves. Most blocks of most processes are there, and free finds
 * their tags without a load of a root. (They are no static table, since garbage collectors look
 * through all of a library's variables: Boehm's takes its pace from how many there are.)
 *
 *   tag    {bin offset : 16 (low), owner : 16}   what free needs, in one load
 *          bin offset   of the class's bin in a thread cache (small.h); 0: take the slow path (the
 *                       page is not ours, large, or every free of it must be seen; or no block
 *                       begins there, since they are longer than a page: who frees something there
 *                       is wrong)
 *          owner        of the span
 *
 *   span   the span that the page belongs to; NULL: not ours
 *
 * An entry of a root is not a pointer but the distance from a static leaf that is always zero (the
 * map's own first bytes, for spans as well); an entry of 0 therefore leads to "not ours" without a
 * test. Writes happen only when spans are made and deleted, before the memory is handed out and
 * after it came back, so readers need no lock; foreign addresses may be looked up at any time, from
 * signal handlers as well.
 *
 * Of a span that has whole hugepages in it (a large block), one entry serves each of them; the
 * pages before its first and behind its last hugepage boundary have their own (a sparse 100 GiB
 * block costs 400 KiB, not 100 MiB, and few writes). */
#ifndef NUMALLOC_PAGEMAP_PAGEMAP_H
#define NUMALLOC_PAGEMAP_PAGEMAP_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

#define NA_PAGE_SHIFT 13
#define NA_PAGE_SIZE  ((size_t)1 << NA_PAGE_SHIFT)
#define NA_HUGE_SHIFT 21
#define NA_HUGE_SIZE  ((size_t)1 << NA_HUGE_SHIFT)

/* --- Spans: what is known of a run of pages, and of the objects in it ---
 *
 *   small span (class c)      |b0|b1|b2|...|b[carved-1]|  never handed out yet  |tail|
 *                             ^start                    ^start + carved * size
 *   large span (class 0)      |one block ................................ unused < page|
 *
 * Blocks of a small span are in exactly one place each: with the program, in a bin, in a batch
 * (overflow, remote free list, transfer cache), on a thread cache's remote batches, or on
 * the span's own free list.
 * Invariants: free_count <= carved <= capacity; free_count == length of the list at `free`;
 * free_tail is its last block when it is not empty (so that the list joins another in O(1)).
 *
 * Who may write: a span of an OWNED class only its thread cache (under that thread cache's gate); a
 * span of a POOLED class or of the sampler only the holder of its central list's lock; a large span
 * only whoever holds the block. `start`, `pages`, `cls`, `owner`, `node` are constant while the
 * span is in the page map. The structs are type-stable: reused for other spans, never unmapped, so
 * that a reader that races with a free sees an old or a new span, never garbage. */

/* --- What is known of one live object, kept beside its span while a profile runs ---
 *
 * A span that holds objects allocated under a profile has a side array of na_record, one for each
 * object slot; address -> span -> slot -> record is O(1), takes no lock and is async-signal-safe.
 * The allocator owns the array (na_span_add_records); the profiler owns the
 * contents.
 *
 * A record whose epoch differs from the current profile epoch belongs to an object that was
 * allocated before this profile began (or before a fork): it is "before profiling", and its other
 * fields mean nothing but to the profile of that epoch. Epoch 0 is never a profile's: no object is
 * known to live there. NA_EPOCH_BEFORE is neither: an object lives there, of no profile. */

/* Not 0: every malloc and free takes the slow path: no bin is granted credit, and every span that
 * blocks come from is tagged slow. Changed by the switch (alloc/core/thread/switch.h). One bit for
 * each reason: each call gets a record (profile mode sites or trace, strict checking); each is seen
 * by the path in force (alloc/core/path/seam.h), which does not change. */
extern _Atomic(uint8_t) na_every_event;
#define NA_EVERY_RECORDED 1u
#define NA_EVERY_SEEN     2u

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
#define NA_MARK_CLAIMED  8u

#define NA_RECORD_SLACK_MAX    0xffffu
#define NA_RECORD_TIME_BITS    44
#define NA_RECORD_TIME_MASK    ((UINT64_C(1) << NA_RECORD_TIME_BITS) - 1)
#define NA_RECORD_SLACK_SHIFT  32
#define NA_RECORD_THREAD_SHIFT 48
#define NA_RECORD_BIRTH_SHIFT  12
#define NA_RECORD_EPOCH_SHIFT  56
/* Birth of a record that is not filled yet: later than any time. */
#define NA_RECORD_UNBORN NA_RECORD_TIME_MASK

_Static_assert(sizeof(na_record_t) == 16, "four records a cache line");
_Static_assert(offsetof(na_record_t, slack) * 8 == NA_RECORD_SLACK_SHIFT &&
                   offsetof(na_record_t, thread) * 8 == NA_RECORD_THREAD_SHIFT,
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

/* Owners, as in page tags: 1..NA_OWNER_POOL-1 a thread cache, NA_OWNER_POOL | node a node's pool,
 * NA_OWNER_OTHERS and above a heap of the program's own (alloc/heaps/heap.h). */
#define NA_OWNER_NONE   0u
#define NA_OWNER_POOL   0x8000u
#define NA_OWNER_OTHERS 0xc000u

struct na_chunk;

/* What a large block's run is kept and handed out by lies on the first line. */
typedef struct na_span {
    uintptr_t start;
    union {
        uintptr_t run; /* of a plain run (alloc/core/cache/large_bins.h): `start` while its block
                        * lives, NA_RUN_KEPT while it is kept; of others 0 */
        struct na_chunk
            *chunk; /* small and `dedicated`: whose pages it has (alloc/heaps/chunk.h) */
    };
    struct na_span *next;
    uint64_t each;  /* usable bytes of a block */
    uint32_t pages; /* of NA_PAGE_SIZE */
    uint16_t owner; /* NA_OWNER_*; of a large one none, or a heap of the program's own */
    uint8_t cls;    /* size class, 0: large */
    uint8_t node;   /* dense node of the memory */
    union {
        void *free;   /* blocks that came home, linked (na_block_next) */
        int64_t toll; /* large: pages << 32, less 1 (na_large_room_t, cache/thread_cache.h) */
    };
    union {
        void *free_tail;  /* last of them */
        size_t requested; /* large: bytes asked for */
    };
    union {
        struct {
            uint16_t free_count;
            uint16_t carved; /* blocks that were ever handed out; the memory behind is untouched */
        };
        uint16_t run_slot; /* of a plain one (alloc/core/cache/large_bins.h), by its length */
    };
    uint16_t capacity; /* blocks that fit */
    uint8_t list;      /* occupancy list that the span is on (central.h), or one of the below */
    bool sampled;      /* holds sampled blocks only */
    bool dedicated;    /* not part of a region: a mapping of its own, or of a chunk */
    uint8_t home;      /* dense node that the memory was wanted on: not `node` for a stray */
    uint8_t placement; /* large: NA_PLACEMENT_* */
    uint32_t born;     /* recording session (na_noticed_session) that it was made in with records */
    /* One a block where a profile or strict checking wanted them, else NULL; kept until the span
     * goes. Set once, by whoever holds a block of the span. */
    _Atomic(na_record_t *) records;
    _Atomic(uint32_t) recorded;  /* session in which it was last seen to have records and slow tags,
                                  * 0: none; by whoever holds a block of the span. Stored (release)
                                  * when it has all of them, read (acquire) before they are used */
    bool zeroed;                 /* what is not carved reads as zero */
    uint8_t pool;                /* where the struct goes when the span ends */
    _Atomic(uint32_t) emergency; /* not 0: its blocks were handed out one by one
                                    (alloc/core/malloc/emergency.h) */
    struct na_span *prev;
    uint64_t at_home; /* of a span of up to 64 blocks: a bit for each that is on the free list */
    /* For na_access_resolve: any byte of the span leads to a record without a test. */
    uint64_t reciprocal; /* na_span_index; large: 0 */
    /* `records`; where there are none, an array with one record, of no life. */
    _Atomic(const na_record_t *) registry;
} na_span_t;

#define NA_SPAN_UNLISTED 0xff

NA_INLINE size_t na_span_bytes(const na_span_t *span) {
    return (size_t)span->pages << NA_PAGE_SHIFT;
}

/* Its blocks are those of a heap of the program's own. */
NA_INLINE bool na_span_is_others(const na_span_t *span) {
    return NA_UNLIKELY(span->owner >= NA_OWNER_OTHERS);
}
#define NA_RUN_KEPT ((uintptr_t)1) /* no block begins there */

/* The number of the block that an address of the span lies in. Exact for offsets below 2^20: the
 * error of the rounded-up reciprocal is below offset / 2^40 < 1 / size. */
NA_INLINE uint32_t na_span_index(const na_span_t *span, const void *address) {
    return (uint32_t)(((uintptr_t)address - span->start) * span->reciprocal >> 40);
}

/* The block of the span that `address` is in begins there. */
static inline bool na_is_block_start(const na_span_t *span, const void *address) {
    uint32_t index = na_span_index(span, address);
    return index < span->capacity && (uintptr_t)address - span->start == index * span->each;
}

/* Where the pages of a large block lie. */
enum {
    NA_PLACEMENT_REGION,      /* on the node that their region is bound to */
    NA_PLACEMENT_FIRST_TOUCH, /* where they are first touched */
    NA_PLACEMENT_MIGRATED,    /* in a region, and numalloc_migrate may have moved them */
};

_Static_assert(sizeof(na_span_t) <= 2 * NA_CACHE_LINE, "two lines a span");

/* A blank span, or NULL when the system refuses memory for it. Thread-safe. Structs of spans for
 * different nodes come from different pools: one lock of all would be written on all nodes. */
na_span_t *na_span_new(unsigned node);
/* `span` is in no list and no longer in the page map. */
void na_span_delete(na_span_t *span);

/* Gives the span zeroed records (kept if it has them), one for each block of its capacity. False:
 * no memory. Thread-safe, for threads that hold a block of the span. */
bool na_span_add_records(na_span_t *span);

/* The memory that holds records and nothing else, whole pages; never given back. Lock-free and
 * async-signal-safe. */
void na_span_each_records_room(void (*visit)(void *arg, uintptr_t start, size_t bytes), void *arg);

/* One less than the number of records in an array that a span had at some time, for readers that
 * race with its end: a power of two. There is one for the span's last bytes, too, if these are of
 * no block: it is of no life. */
NA_INLINE uint64_t na_span_records_mask(const na_record_t *records) {
    return ((const uint64_t *)(const void *)records)[-1];
}

/* Calls `visit` for the records of every span that has any, `count` of them. Lock-free and
 * async-signal-safe. Exact only while no other thread makes or deletes spans (in a forked child);
 * otherwise spans that come or go meanwhile may be missed, or be met under another's name (the
 * records are there all the same). */
typedef void (*na_records_fn_t)(const na_span_t *span, na_record_t *records, uint32_t count,
                                void *arg);
NA_NEAR void na_span_each_records(na_records_fn_t visit, void *arg);
/* Marks every record of an earlier epoch as NA_EPOCH_BEFORE, so that epochs may begin anew. No
 * hook may be running; records that strict checking changes meanwhile are left to it. */
NA_NEAR void na_span_age_records(void);

void na_span_after_fork_child(void);

/* --- The map --- */

#define NA_TAG_LEAF_SHIFT   32
#define NA_TAG_LEAF_PAGES   (1u << (NA_TAG_LEAF_SHIFT - NA_PAGE_SHIFT))
#define NA_TAG_ROOT_ENTRIES (1u << (NA_ADDRESS_BITS - NA_TAG_LEAF_SHIFT))

#define NA_SPAN_LEAF_SHIFT     29
#define NA_SPAN_LEAF_PAGES     (1u << (NA_SPAN_LEAF_SHIFT - NA_PAGE_SHIFT))
#define NA_SPAN_LEAF_HUGEPAGES (1u << (NA_SPAN_LEAF_SHIFT - NA_HUGE_SHIFT))
#define NA_SPAN_ROOT_ENTRIES   (1u << (NA_ADDRESS_BITS - NA_SPAN_LEAF_SHIFT))

typedef struct na_tag_leaf {
    uint32_t tag[NA_TAG_LEAF_PAGES];
} na_tag_leaf_t;

typedef struct na_pagemap {
    na_tag_leaf_t nothing; /* always zero; first, so that leaf and root share one base address */
    intptr_t tags[NA_TAG_ROOT_ENTRIES];
    intptr_t spans[NA_SPAN_ROOT_ENTRIES];
} na_pagemap_t;

extern na_pagemap_t na_pagemap;

#define NA_TAG_HOME_LEAVES 4u
#define NA_TAG_HOME_PAGES  (NA_TAG_HOME_LEAVES * NA_TAG_LEAF_PAGES)
/* `start`: the first address that they are for; until the first is wanted, one where nothing is.
 * `tags`: the leaves, stored before it. (Who frees a block has got it from who entered its span,
 * and finds both.) Every free reads this: it is alone on its cache line. */
#define NA_TAG_NO_HOME ((uintptr_t)1 << 62)
typedef struct na_tag_home {
    _Alignas(NA_CACHE_LINE) uintptr_t start;
    uint32_t *tags;
} na_tag_home_t;
extern NA_NEAR na_tag_home_t na_tag_home;

typedef struct na_span_leaf {
    na_span_t *span[NA_SPAN_LEAF_PAGES];
    na_span_t *huge[NA_SPAN_LEAF_HUGEPAGES];
} na_span_leaf_t;

_Static_assert(sizeof(na_span_leaf_t) <= sizeof(na_tag_leaf_t), "a leaf of nothing");

NA_INLINE uint32_t na_page_in_span_leaf(uintptr_t address) {
    return (uint32_t)(address >> NA_PAGE_SHIFT) % NA_SPAN_LEAF_PAGES;
}

NA_INLINE uint32_t na_hugepage_in_span_leaf(uintptr_t address) {
    return (uint32_t)(address >> NA_HUGE_SHIFT) % NA_SPAN_LEAF_HUGEPAGES;
}

/* An entry of a root as it was when the caller's block was entered, or later. (ThreadSanitizer
 * takes a compare-and-swap that failed for a write; an atomic load costs an instruction.) */
#ifdef __SANITIZE_THREAD__
#define NA_ROOT_ENTRY(entry) __atomic_load_n(&(entry), __ATOMIC_RELAXED)
#else
#define NA_ROOT_ENTRY(entry) (entry)
#endif

NA_INLINE bool na_is_address(uintptr_t address) {
    return address >> NA_TAG_LEAF_SHIFT < NA_TAG_ROOT_ENTRIES;
}

/* The page's number in the home leaves, any address; it is there if that is below
 * NA_TAG_HOME_PAGES. Its tag takes no other load before it: what a free must wait for until it
 * knows the bin, the next malloc of the class waits for as well. */
NA_INLINE uintptr_t na_home_page(uintptr_t address) {
    return (address - NA_ROOT_ENTRY(na_tag_home.start)) >> NA_PAGE_SHIFT;
}
NA_INLINE uint32_t na_home_tag(uintptr_t page) {
    return __atomic_load_n(&NA_ROOT_ENTRY(na_tag_home.tags)[page], __ATOMIC_RELAXED);
}

/* The tag of the page; address: na_is_address. One root load, one leaf load. */
NA_INLINE uint32_t na_page_tag(uintptr_t address) {
    const na_tag_leaf_t *leaf =
        (const na_tag_leaf_t *)((const char *)&na_pagemap +
                                NA_ROOT_ENTRY(na_pagemap.tags[address >> NA_TAG_LEAF_SHIFT]));
    /* Hidden from the optimiser, which would otherwise spend an instruction on factoring the sum.
     */
    __asm__("" : "+r"(leaf));
    /* Relaxed: a profile that begins makes pages slow while others free their blocks. */
    return __atomic_load_n(&leaf->tag[(uint32_t)address >> NA_PAGE_SHIFT], __ATOMIC_RELAXED);
}

/* Keeps huge pages away from the roots, of which a process touches a few pages. Before the library
 * writes to any variable of its own, which a huge page could share with them. Idempotent. */
void na_pagemap_init(void);

/* The live span that holds `address`, NULL: none of ours, or no block is there (NA_RUN_KEPT).
 * Any address. Async-signal-safe. */
na_span_t *na_span_of(const void *address);

/* address: na_is_address */
NA_INLINE const na_span_leaf_t *na_span_leaf_of(uintptr_t address) {
    return (const na_span_leaf_t *)((const char *)&na_pagemap +
                                    NA_ROOT_ENTRY(na_pagemap.spans[address >> NA_SPAN_LEAF_SHIFT]));
}

/* The same, by its page's own entry, which every small span has: NULL may also be a large one. */
NA_INLINE na_span_t *na_span_by_page(const void *address) {
    uintptr_t at = (uintptr_t)address;
    if (NA_UNLIKELY(!na_is_address(at))) return NULL;
    return na_span_leaf_of(at)->span[na_page_in_span_leaf(at)];
}

/* Makes the leaves for a range, so that entering a span there cannot fail. False: no memory. */
bool na_pagemap_prepare(uintptr_t start, size_t bytes);

/* Enters a span under `tag`. If that has a bin offset, only pages in which a block begins get it
 * (by the span's `each` and `capacity`), and the others 0. False: no memory for a leaf. */
bool na_pagemap_enter(na_span_t *span, uint32_t tag);
void na_pagemap_remove(const na_span_t *span);
/* Changes the tag of a small span's pages in the same way (profiles and strict checking turn them
 * slow). */
void na_pagemap_retag(const na_span_t *span, uint32_t tag);

/* --- Where live blocks begin, and who gave them: the ground of NUMALLOC_HARDEN ---
 *
 * Two bits for every 16 bytes of address space, away from the blocks: 0 where no block of the
 * program's begins, else how it was asked for. So one look says of any address whether it may be
 * freed: an address inside a block, one that was freed, and one that was never ours all read 0.
 * The bits are taken by one atomic operation, so of two frees of a block one finds 0, whatever the
 * threads do.
 *
 * A leaf serves 512 MiB (8 MiB of address space, of which a page is touched for 256 KiB of blocks).
 * Leaves are mapped when the first block there begins, and never unmapped. Nothing of this is
 * touched unless blocks are begun: by default none is.
 *
 * Invariant: the bits of a block are set from before the program knows of it until its free is
 * believed; blocks that lie in a list, a bin or a span have none. */

/* Who gave a block. */
typedef enum na_birth {
    NA_BIRTH_NONE,
    NA_BIRTH_MALLOC, /* and the like of it */
    NA_BIRTH_NEW,
    NA_BIRTH_NEW_ARRAY,
} na_birth_t;

#define NA_LIVE_STEP       16u /* bytes for which there are two bits */
#define NA_LIVE_WORD_SHIFT 9   /* bytes of a word of them, base-2 logarithm */
#define NA_LIVE_LEAF_SHIFT 29
#define NA_LIVE_LEAF_WORDS (1u << (NA_LIVE_LEAF_SHIFT - NA_LIVE_WORD_SHIFT))

typedef uint64_t na_live_leaf_t[NA_LIVE_LEAF_WORDS];
/* By address. NULL: no block ever began there. */
extern NA_NEAR na_live_leaf_t *na_live_leaves[1u << (NA_ADDRESS_BITS - NA_LIVE_LEAF_SHIFT)];
/* There was no memory for a leaf: what is known of addresses without one is not all. */
extern NA_NEAR bool na_live_is_partial;

NA_INLINE uint64_t *na_live_word(na_live_leaf_t *leaf, uintptr_t address) {
    return &(*leaf)[(uint32_t)(address >> NA_LIVE_WORD_SHIFT) % NA_LIVE_LEAF_WORDS];
}

NA_INLINE unsigned na_live_shift(uintptr_t address) {
    return (unsigned)(address / (NA_LIVE_STEP / 2)) & 62u;
}

NA_INLINE na_live_leaf_t *na_live_leaf(uintptr_t address) {
    return __atomic_load_n(&na_live_leaves[address >> NA_LIVE_LEAF_SHIFT], __ATOMIC_ACQUIRE);
}

/* No block is ever begun: the table can only be read from now on, so that it is not made resident
 * where the program locks its memory (mlockall), and does not count as data (RLIMIT_DATA). */
NA_COLD void na_live_never(void);

/* Of an address whose leaf is not there yet. */
NA_COLD void na_live_begin_first(const void *block, na_birth_t birth);

/* The block, whose leaf this is, is the program's from now on; it was nobody's. */
NA_INLINE void na_live_set(na_live_leaf_t *leaf, const void *block, na_birth_t birth) {
    uintptr_t at = (uintptr_t)block;
    __atomic_fetch_or(na_live_word(leaf, at), (uint64_t)birth << na_live_shift(at),
                      __ATOMIC_RELAXED);
}

/* The same. */
NA_INLINE void na_live_begin(const void *block, na_birth_t birth) {
    na_live_leaf_t *leaf = na_live_leaf((uintptr_t)block);
    if (NA_LIKELY(leaf != NULL))
        na_live_set(leaf, block, birth);
    else
        na_live_begin_first(block, birth);
}

/* It is no more. What it was: NA_BIRTH_NONE of any address where no live block begins. */
NA_INLINE na_birth_t na_live_end(const void *block) {
    uintptr_t at = (uintptr_t)block;
    if (NA_UNLIKELY(at >> NA_ADDRESS_BITS != 0) || NA_UNLIKELY(at % NA_LIVE_STEP != 0))
        return NA_BIRTH_NONE;
    na_live_leaf_t *leaf = na_live_leaf(at);
    if (NA_UNLIKELY(leaf == NULL)) return NA_BIRTH_NONE;
    unsigned shift = na_live_shift(at);
    uint64_t was =
        __atomic_fetch_and(na_live_word(leaf, at), ~(UINT64_C(3) << shift), __ATOMIC_RELAXED);
    return (na_birth_t)(was >> shift & 3);
}

/* The same without an end. */
NA_INLINE na_birth_t na_live_at(const void *block) {
    uintptr_t at = (uintptr_t)block;
    if (NA_UNLIKELY(at >> NA_ADDRESS_BITS != 0) || NA_UNLIKELY(at % NA_LIVE_STEP != 0))
        return NA_BIRTH_NONE;
    na_live_leaf_t *leaf = na_live_leaf(at);
    if (NA_UNLIKELY(leaf == NULL)) return NA_BIRTH_NONE;
    uint64_t word = __atomic_load_n(na_live_word(leaf, at), __ATOMIC_RELAXED);
    return (na_birth_t)(word >> na_live_shift(at) & 3);
}

/* All blocks that begin in the range end: their heap has. Multiples of a page. */
NA_COLD void na_live_forget(uintptr_t start, size_t bytes);

#endif
