/* slack.c - see slack.h. */
#include "alloc/harden/slack.h"

#include <string.h>

#include "alloc/core/central/block.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/track/misuse.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"

/* The guard page of a large one is no part of it. */
static size_t room_of(const na_span_t *span) {
    if (span->cls != 0) return na_classes[span->cls].size;
    return span->each - (span->dedicated ? NA_PAGE_SIZE : 0);
}

size_t na_slack_asked(const na_span_t *span, const void *block) {
    if (span->cls == 0) return span->requested;
    const na_record_t *record = na_record_of(span, block);
    size_t room = room_of(span);
    if (record != NULL && na_record_epoch(record) != 0) return room - record->slack;
    return room -
           1; /* not known; but each has a byte more than was asked for, which stays filled */
}

static bool has_one_before(const na_span_t *span, const void *block) {
    return span->cls != 0 && (uintptr_t)block != span->start && !na_span_is_others(span);
}

NA_RACY void na_slack_fill(const na_span_t *span, void *block, size_t asked) {
    size_t room = room_of(span);
    if (asked < room) memset((char *)block + asked, NA_SLACK_BYTE, room - asked);
    if (has_one_before(span, block)) ((unsigned char *)block)[-1] = NA_SLACK_BYTE;
}

/* The first byte of so many that is another; NULL: none. */
static const unsigned char *first_other(const void *from, size_t bytes) {
    const unsigned char *at = from, *end = at + bytes;
    const uint64_t all = UINT64_C(0x0101010101010101) * NA_SLACK_BYTE;
    while (at < end && (uintptr_t)at % sizeof all != 0)
        if (*at++ != NA_SLACK_BYTE) return at - 1;
    for (uint64_t word; (size_t)(end - at) >= sizeof word; at += sizeof word) {
        memcpy(&word, at, sizeof word);
        if (NA_UNLIKELY(word != all)) break;
    }
    for (; at < end; at++)
        if (*at != NA_SLACK_BYTE) return at;
    return NULL;
}

NA_RACY void na_slack_check(const na_span_t *span, const void *block) {
    size_t asked = na_slack_asked(span, block), room = room_of(span);
    const unsigned char *fault =
        asked < room ? first_other((const char *)block + asked, room - asked) : NULL;
    if (fault != NULL) {
        na_text_t what = {0};
        na_text_str(&what, "overrun (");
        na_text_u64(&what, asked);
        na_text_str(&what, " bytes were asked for, and byte ");
        na_text_u64(&what, (uint64_t)(fault - (const unsigned char *)block));
        na_text_str(&what, " was written) of");
        what.data[what.length] = '\0';
        na_misuse(what.data, block);
    }
    if (has_one_before(span, block) && ((const unsigned char *)block)[-1] != NA_SLACK_BYTE)
        na_misuse("underrun (the byte before it was written) of", block);
}

void na_slack_fill_freed(void *block, size_t size) {
    memset(block, NA_SLACK_BYTE, size);
}

bool na_slack_is_untouched(const void *block, size_t size) {
    const size_t words = 2 * sizeof(void *); /* the link and its signature */
    return first_other((const char *)block + words, size - words) == NULL;
}

static void check_span(const na_span_t *span, na_record_t *records, uint32_t count, void *arg) {
    (void)arg;
    size_t each = span->cls != 0 ? na_classes[span->cls].size : 0;
    for (uint32_t i = 0; i < count; i++) {
        const char *block = (const char *)span->start + i * each;
        /* (One whose free was deferred keeps its record, and has a link in it.) */
        if (na_record_epoch(&records[i]) != 0 && na_live_at(block) != NA_BIRTH_NONE)
            na_slack_check(span, block);
    }
}

bool na_slack_is_partial;

void na_slack_check_all(void) {
    if (!na_slack_is_partial) na_span_each_records(check_span, NULL);
}
