/* span.h - the description of a run of pages, and of the objects in it.
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
#ifndef NUMALLOC_PAGEMAP_SPAN_H
#define NUMALLOC_PAGEMAP_SPAN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/sys/base.h"
#include "pagemap/registry.h"

/* Owners, as in page tags: 1..NA_OWNER_POOL-1 a thread cache, NA_OWNER_POOL | node a node's pool,
 * NA_OWNER_HEAP and above a heap of the program's own (alloc/central/heap.h). */
#define NA_OWNER_NONE 0u
#define NA_OWNER_POOL 0x8000u
#define NA_OWNER_HEAP 0xc000u

struct na_chunk;

/* What a large block's run is kept and handed out by lies on the first line. */
typedef struct na_span {
    uintptr_t start;
    union {
        uintptr_t run; /* of a plain run (alloc/page/run_cache.h): `start` while its block lives,
                        * NA_RUN_KEPT while it is kept; of others 0 */
        struct na_chunk *chunk; /* small and `dedicated`: whose pages it has (alloc/page/chunk.h) */
    };
    struct na_span *next;
    uint64_t each;  /* usable bytes of a block */
    uint32_t pages; /* of NA_PAGE_SIZE */
    uint16_t owner; /* NA_OWNER_*; of a large one none, or a heap of the program's own */
    uint8_t cls;    /* size class, 0: large */
    uint8_t node;   /* dense node of the memory */
    union {
        void *free;     /* blocks that came home, linked (na_block_next) */
        uint64_t reach; /* large: its last byte's offset (alloc/cache/large_bins.h) */
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
        struct { /* of a mixed span, under the lock of its thread cache's mixed spans; in 16 bytes:
                  */
            uint16_t mix_in_use;
            uint16_t mix_longest; /* free stretch */
        };
        uint16_t run_slot; /* of a plain one (alloc/page/run_cache.h), by its length */
    };
    uint16_t capacity; /* blocks that fit */
    uint8_t list;      /* occupancy list that the span is on (span_list.h), or one of the below */
    bool sampled;      /* holds sampled blocks only */
    bool dedicated;    /* not part of a region: a mapping of its own, or of a chunk */
    uint8_t home;      /* dense node that the memory was wanted on: not `node` for a stray */
    uint8_t placement; /* large: NA_PLACEMENT_* */
    /* A small span that was opened to all classes (alloc/central/mixed.h). `cls` and what follows
     * from it stay true of blocks from before. */
    _Atomic(bool) mixed;
    uint32_t born; /* recording session (na_noticed_session) that it was made in with records */
    /* One a block where a profile or strict checking wanted them, else NULL; kept until the span
     * goes. Set once, by whoever holds a block of the span. */
    _Atomic(na_record_t *) records;
    _Atomic(uint32_t) recorded; /* session in which it was last seen to have records and slow tags,
                                 * 0: none; by whoever holds a block of the span. Stored (release)
                                 * when it has all of them, read (acquire) before they are used */
    uint16_t mix_owner;         /* the thread cache that opened it, constant since */
    _Atomic(uint32_t)
        emergency; /* not 0: its blocks were handed out one by one (alloc/malloc/emergency.h) */
    struct na_span *prev;
    uint64_t at_home; /* of a span of up to 64 blocks: a bit for each that is on the free list */
    /* For na_access_resolve: any byte of the span leads to a record without a test. */
    uint64_t reciprocal; /* offset -> index (sizeclass.h); large: 0 */
    /* `records`; where there are none, an array with one record, of no life. */
    _Atomic(const na_record_t *) registry;
} na_span_t;

#define NA_SPAN_UNLISTED 0xff

/* Its blocks are those of a heap of the program's own. */
NA_INLINE bool na_span_is_heaps(const na_span_t *span) {
    return NA_UNLIKELY(span->owner >= NA_OWNER_HEAP);
}
#define NA_RUN_KEPT ((uintptr_t)1) /* no block begins there */

/* Where the pages of a large block lie. */
enum {
    NA_PLACEMENT_REGION,      /* on the node that their region is bound to */
    NA_PLACEMENT_FIRST_TOUCH, /* where they are first touched */
    NA_PLACEMENT_MIGRATED,    /* in a region, and numalloc_migrate may have moved them */
};

_Static_assert(sizeof(na_span_t) <= 2 * NA_CACHE_LINE, "two lines a span");

/* A blank span, or NULL when the system refuses memory for it. Thread-safe. */
na_span_t *na_span_new(void);
/* `span` is in no list and no longer in the page map. */
void na_span_delete(na_span_t *span);

/* Gives the span zeroed records (kept if it has them), one for each block of its capacity. False:
 * no memory. Thread-safe, for threads that hold a block of the span. */
bool na_span_add_records(na_span_t *span);

/* Bytes of all records that spans were ever given, and that they keep: an estimate of what is
 * resident of them. Async-signal-safe. */
uint64_t na_span_records_bytes(void);

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

#endif
