/* lookup.c - see lookup.h. */
#include "alloc/record/lookup.h"

#include <string.h>

#include "alloc/core/central/block.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"

bool (*na_lookup_beside)(const void *address, na_found_t *found);

/* No block of ours begins here, or none that could be read at rest. */
static NA_COLD void without_span(const void *address, na_found_t *found) {
    if (na_lookup_beside != NULL && na_lookup_beside(address, found)) return;
    found->kind =
        na_pageheap_node_of((uintptr_t)address) != NA_NO_NODE ? NA_LOOKUP_FREE : NA_LOOKUP_FOREIGN;
}

static NA_COLD void without_record(const na_span_t *span, na_found_t *found) {
    found->kind =
        na_record_is_live(span, (const void *)found->base) ? NA_LOOKUP_PLAIN : NA_LOOKUP_DEAD;
}

void na_lookup(const void *address, na_found_t *found) {
    const na_span_t *span = na_span_of(address);
    if (NA_UNLIKELY(span == NULL)) {
        without_span(address, found);
        return;
    }
    /* The span may end at any time: its fields are read once, in this order, and its start is
     * looked at again below. (na_span_new clears it before the rest is written anew.) */
    uintptr_t start = __atomic_load_n(&span->start, __ATOMIC_ACQUIRE);
    size_t offset = (uintptr_t)address - start;
    unsigned cls = __atomic_load_n(&span->cls, __ATOMIC_ACQUIRE);
    uint32_t index = 0;
    if (NA_LIKELY(cls != 0)) {
        if (NA_UNLIKELY(cls >= NA_CLASS_COUNT)) {
            found->kind = NA_LOOKUP_FREE;
            return;
        }
        const na_class_t *class = &na_classes[cls];
        index = na_block_index(class, offset);
        uint32_t capacity = __atomic_load_n(&span->capacity, __ATOMIC_ACQUIRE);
        if (NA_UNLIKELY(index >= capacity)) { /* the span's last bytes, or a torn read */
            found->kind = NA_LOOKUP_FREE;
            return;
        }
        found->usable = class->size;
        found->base = start + (uintptr_t)index * class->size;
    } else {
        found->usable = (uint64_t)__atomic_load_n(&span->pages, __ATOMIC_ACQUIRE) * NA_PAGE_SIZE;
        found->base = start;
    }
    const na_record_t *record = atomic_load_explicit(&span->records, memory_order_acquire);
    if (NA_UNLIKELY(record == NULL)) {
        without_record(span, found);
        return;
    }
    if (NA_UNLIKELY(index > na_span_records_mask(record))) {
        found->kind = NA_LOOKUP_FREE;
        return;
    }
    bool same = na_record_read(record + index, &found->record);
    if (NA_UNLIKELY(!same || __atomic_load_n(&span->start, __ATOMIC_RELAXED) != start)) {
        found->kind = NA_LOOKUP_DEAD;
        return;
    }
    found->kind = NA_LOOKUP_BLOCK;
    if (NA_UNLIKELY(found->record.epoch == 0)) without_record(span, found);
}
