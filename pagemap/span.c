/* span.c - where span structs and their record arrays come from. */
#include "pagemap/span.h"

#include <string.h>

#include "alloc/sys/lock.h"
#include "alloc/sys/meta.h"
#include "pagemap/pagemap.h"

_Atomic(uint8_t) na_every_event;
_Atomic(uint32_t) na_session = 1, na_noticed_session = 1;

static na_lock_t spans_lock; /* guards `unused` and the lists of arrays */
static na_span_t *unused_spans;

/* An array of records: mask + 1 of them, a power of two. Never given back, so that a reader that
 * races with the end of its span reads another's records, never garbage. */
typedef struct na_record_array {
    struct na_record_array *next;   /* in the list of all; constant */
    struct na_record_array *unused; /* next that is not in use; guarded by the lock */
    _Atomic(na_span_t *) span;      /* NULL: not in use */
    uint64_t mask;
    na_record_t records[];
} na_record_array_t;
_Static_assert(sizeof(na_record_array_t) % sizeof(na_record_t) == 0, "records are aligned");
_Static_assert(offsetof(na_record_array_t, mask) + sizeof(uint64_t) == sizeof(na_record_array_t),
               "na_span_records_mask");

/* Of spans without records: one, that stays zero. */
static union {
    na_record_array_t array;
    char bytes[sizeof(na_record_array_t) + sizeof(na_record_t)];
} nothing;

enum { RECORD_SIZES = 20 };
static na_record_array_t *unused_arrays[RECORD_SIZES]; /* by power of two of their length */
static _Atomic(na_record_array_t *) all_arrays;
static _Atomic(uint64_t) records_bytes; /* of all arrays, what spans use of them */

static unsigned record_size(uint32_t count) {
    return count <= 1 ? 0 : 32u - (unsigned)__builtin_clz(count - 1);
}

static na_record_array_t *array_of(na_record_t *records) {
    return (na_record_array_t *)((char *)records - sizeof(na_record_array_t));
}

static unsigned size_of(const na_record_array_t *array) {
    return (unsigned)__builtin_popcountll(array->mask);
}

/* Word by word: others may look at `mixed` and `emergency` of a span that has ended, and find none
 * (alloc/central/mixed.c, alloc/malloc/emergency.c). */
static void make_blank(na_span_t *span) {
    typedef uint64_t __attribute__((may_alias)) word_t;
    for (size_t i = 0; i < sizeof *span / sizeof(word_t); i++)
        __atomic_store_n((word_t *)span + i, 0, __ATOMIC_RELAXED);
}
_Static_assert(sizeof(na_span_t) % sizeof(uint64_t) == 0, "make_new clears whole words");

na_span_t *na_span_new(void) {
    na_lock(&spans_lock);
    na_span_t *span = unused_spans;
    if (span != NULL) unused_spans = span->next;
    na_unlock(&spans_lock);
    if (span == NULL) span = na_meta_alloc(sizeof *span, NA_CACHE_LINE);
    if (span != NULL) {
        make_blank(span);
        span->list = NA_SPAN_UNLISTED;
        atomic_store_explicit(&span->registry, nothing.array.records, memory_order_relaxed);
        /* Who finds a field of the new span finds none of the old one's (na_lookup,
         * na_access_resolve). */
        atomic_thread_fence(memory_order_release);
    }
    return span;
}

void na_span_delete(na_span_t *span) {
    na_lock(&spans_lock);
    if (span->records != NULL) {
        na_record_array_t *array = array_of(span->records);
        atomic_store_explicit(&array->span, NULL, memory_order_relaxed);
        array->unused = unused_arrays[size_of(array)];
        unused_arrays[size_of(array)] = array;
        span->records = NULL;
        atomic_store_explicit(&span->registry, nothing.array.records, memory_order_relaxed);
    }
    span->next = unused_spans;
    unused_spans = span;
    na_unlock(&spans_lock);
}

/* na_span_age_records may be looking at them, and leaves what is 0 alone. */
static void clear_records(na_record_t *records, size_t bytes) {
#ifdef __SANITIZE_THREAD__
    for (size_t i = 0; i < bytes / sizeof *records; i++) {
        __atomic_store_n(&records[i].words[0], 0, __ATOMIC_RELAXED);
        __atomic_store_n(&records[i].words[1], 0, __ATOMIC_RELAXED);
    }
#else
    memset(records, 0, bytes);
#endif
}

/* An array with room for so many zeroed records; NULL: no memory. Under the lock. */
static na_record_array_t *take_array(uint32_t count) {
    unsigned size = record_size(count);
    size_t bytes = sizeof(na_record_t) << size;
    na_record_array_t *array = unused_arrays[size];
    if (array != NULL) {
        unused_arrays[size] = array->unused;
        clear_records(array->records, bytes);
        return array;
    }
    array = na_meta_alloc(sizeof *array + bytes, sizeof(na_record_t));
    if (array == NULL) return NULL;
    array->mask = (UINT64_C(1) << size) - 1;
    array->next = atomic_load_explicit(&all_arrays, memory_order_relaxed);
    atomic_store_explicit(&all_arrays, array, memory_order_release);
    atomic_fetch_add_explicit(&records_bytes, sizeof *array + count * sizeof(na_record_t),
                              memory_order_relaxed);
    return array;
}

bool na_span_add_records(na_span_t *span) {
    if (atomic_load_explicit(&span->records, memory_order_acquire) != NULL) return true;
    if (span->cls == 0 && span->run != 0) span->run = 0; /* not to be kept */
    bool has_tail = span->each * span->capacity != (uint64_t)span->pages << NA_SPAN_PAGE_SHIFT;
    uint32_t count = (uint32_t)span->capacity + has_tail;
    na_lock(&spans_lock);
    bool there = span->records != NULL;
    na_record_array_t *array = there ? NULL : take_array(count);
    if (array != NULL) {
        atomic_store_explicit(&span->records, array->records, memory_order_release);
        atomic_store_explicit(&span->registry, array->records, memory_order_release);
        atomic_store_explicit(&array->span, span, memory_order_release);
    }
    na_unlock(&spans_lock);
    return there || array != NULL;
}

NA_RACY void na_span_each_records(na_records_fn_t visit, void *arg) {
    na_record_array_t *array = atomic_load_explicit(&all_arrays, memory_order_acquire);
    for (; array != NULL; array = array->next) {
        const na_span_t *span = atomic_load_explicit(&array->span, memory_order_acquire);
        if (span == NULL) continue;
        uint64_t room = array->mask + 1;
        visit(span, array->records, span->capacity < room ? span->capacity : (uint32_t)room, arg);
    }
}

uint64_t na_span_records_bytes(void) {
    return atomic_load_explicit(&records_bytes, memory_order_relaxed);
}

void na_span_age_records(void) {
    na_record_array_t *array = atomic_load_explicit(&all_arrays, memory_order_acquire);
    for (; array != NULL; array = array->next) {
        for (size_t i = 0; i <= array->mask; i++) {
            uint8_t *epoch = &array->records[i].epoch;
            uint8_t was = __atomic_load_n(epoch, __ATOMIC_RELAXED);
            if (was != 0)
                __atomic_compare_exchange_n(epoch, &was, NA_EPOCH_BEFORE, false, __ATOMIC_RELAXED,
                                            __ATOMIC_RELAXED);
        }
    }
}

void na_span_after_fork_child(void) {
    na_lock_reset(&spans_lock);
}
