/* recording.c - registry records and profiler hooks around an allocation's life. */
#include "alloc/recording.h"

#include "alloc/init.h"
#include "alloc/misuse.h"
#include "alloc/sizeclass.h"

const na_hooks_t *na_hooks;
uint8_t na_profile_epoch = 1;

na_record_t *na_record_of(const na_span_t *span, const void *block) {
    if (span->records == NULL) return NULL;
    if (span->cls == 0) return &span->records[0];
    return &span->records[na_block_index(&na_classes[span->cls], (uintptr_t)block - span->start)];
}

void na_record_alloc(na_heap_t *heap, na_span_t *span, void *block, size_t requested, size_t usable,
                     na_entry_t entry) {
    na_record_t *record = na_record_of(span, block);
    if (record == NULL) return;
    *record = (na_record_t){.slack = (uint32_t)(usable - requested) & NA_RECORD_SLACK_MAX,
                            .node = heap->node,
                            .epoch = na_profile_epoch};
    if (na_hooks != NULL)
        na_hooks->on_alloc(&heap->profile, record, block, requested, usable, entry);
}

bool na_record_free(na_heap_t *heap, na_span_t *span, void *block, size_t usable, na_release_t how,
                    const void *moved_to) {
    na_record_t *record = na_record_of(span, block);
    if (record == NULL) return true;
    if (record->epoch ==
        0) { /* every block of a span with records has had one since its first day */
        na_misuse("double free of", block);
        return false;
    }
    if (na_hooks != NULL) na_hooks->on_free(&heap->profile, record, block, usable, how, moved_to);
    record->epoch = 0;
    return true;
}

bool na_record_is_live(const na_span_t *span, const void *block) {
    const na_record_t *record = na_record_of(span, block);
    return record == NULL || record->epoch != 0;
}

void na_record_before_move(na_heap_t *heap, const na_span_t *span) {
    const na_record_t *record = span->records;
    if (record == NULL || record->epoch == 0 || na_hooks == NULL) return;
    na_hooks->before_move(&heap->profile, record, (const void *)span->start);
}

void na_record_resize(na_heap_t *heap, na_span_t *span, const void *old_block, void *block,
                      size_t old_usable, size_t requested, size_t usable) {
    na_record_t *record = na_record_of(span, block);
    if (record == NULL || record->epoch == 0) return;
    if (na_hooks != NULL)
        na_hooks->on_resize(&heap->profile, record, old_block, block, old_usable, requested,
                            usable);
    record->slack = (uint32_t)(usable - requested) & NA_RECORD_SLACK_MAX;
}

void na_record_map(na_map_call_t call, size_t bytes) {
    na_heap_t *heap = na_heap_enter();
    if (heap == NULL) return;
    if (na_hooks != NULL) na_hooks->on_map(&heap->profile, call, bytes);
    na_heap_leave(heap);
}
