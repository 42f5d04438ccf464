/* span.c - where span structs and their record arrays come from. */
#include "pagemap/span.h"

#include <string.h>

#include "alloc/lock.h"
#include "alloc/meta.h"

static na_lock_t lock;
static na_span_t *unused;

/* Record arrays that are not in use, by power of two of their length. */
enum { RECORD_SIZES = 20 };
static na_record_t *unused_records[RECORD_SIZES];

static unsigned record_size(uint32_t count) {
    return count <= 1 ? 0 : 32u - (unsigned)__builtin_clz(count - 1);
}

na_span_t *na_span_new(void) {
    na_lock(&lock);
    na_span_t *span = unused;
    if (span != NULL) unused = span->next;
    na_unlock(&lock);
    if (span == NULL) span = na_meta_alloc(sizeof *span, NA_CACHE_LINE);
    if (span != NULL) {
        memset(span, 0, sizeof *span);
        span->list = NA_SPAN_UNLISTED;
    }
    return span;
}

void na_span_delete(na_span_t *span) {
    na_lock(&lock);
    if (span->records != NULL) {
        unsigned size = record_size(span->capacity);
        *(na_record_t **)span->records = unused_records[size];
        unused_records[size] = span->records;
        span->records = NULL;
    }
    span->next = unused;
    unused = span;
    na_unlock(&lock);
}

bool na_span_add_records(na_span_t *span, uint32_t count) {
    if (span->records != NULL) return true;
    unsigned size = record_size(count);
    size_t bytes = sizeof(na_record_t) << size;
    na_lock(&lock);
    na_record_t *records = unused_records[size];
    if (records != NULL) unused_records[size] = *(na_record_t **)records;
    na_unlock(&lock);
    if (records != NULL)
        memset(records, 0, bytes);
    else if ((records = na_meta_alloc(bytes, sizeof(na_record_t))) == NULL)
        return false;
    span->records = records;
    return true;
}

void na_span_after_fork_child(void) {
    na_lock_reset(&lock);
}
