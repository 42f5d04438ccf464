/* misuse.c - the messages, and the look over a bin's newest blocks. */
#include "alloc/misuse.h"

#include "alloc/init.h"
#include "alloc/mix.h"
#include "alloc/options.h"
#include "alloc/os.h"
#include "alloc/print.h"
#include "alloc/recording.h"

enum { INSPECT_BLOCKS = 4 };

bool na_is_block_start(const na_span_t *span, const void *address) {
    size_t offset = (uintptr_t)address - span->start;
    if (span->cls == 0) return offset == 0;
    if (na_is_mixed(span)) return na_mix_class(address) != 0;
    const na_class_t *c = &na_classes[span->cls];
    uint32_t index = na_block_index(c, offset);
    return index < span->capacity && offset == (size_t)index * c->size;
}

static void describe(na_text_t *t, const void *address) {
    const na_span_t *span = na_span_of(address);
    if (span == NULL) {
        na_text_str(t, ": numalloc has no block there (never given out, or already freed)");
        return;
    }
    uintptr_t block = span->start;
    size_t size = span->requested;
    const na_class_t *c = &na_classes[span->cls];
    uint32_t index = 0;
    if (na_is_mixed(span)) {
        c = &na_classes[na_mix_find(address, &block)];
        if (c->size == 0) {
            na_text_str(t, ": it lies between blocks that numalloc has given out");
            return;
        }
        size = c->size;
    } else if (span->cls != 0) {
        index = na_block_index(c, (uintptr_t)address - span->start);
        block = span->start + (uintptr_t)index * c->size;
        size = c->size;
    }
    na_text_str(t, ": ");
    if ((uintptr_t)address != block) {
        na_text_u64(t, (uintptr_t)address - block);
        na_text_str(t, " bytes into ");
    }
    na_text_str(t, span->cls == 0 ? "a large block of " : "a block of ");
    na_text_u64(t, size);
    na_text_str(t, " bytes at ");
    na_text_hex(t, block);
    if (span->cls != 0 && !na_is_mixed(span) && index >= span->carved)
        na_text_str(t, ", which was never given out");
    na_text_str(t, ", node ");
    na_text_u64(t, span->node);
}

void na_misuse(const char *what, const void *address) {
    na_text_t t = {0};
    na_text_str(&t, "numalloc: ");
    na_text_str(&t, what);
    na_text_str(&t, " ");
    na_text_hex(&t, (uintptr_t)address);
    describe(&t, address);
    if (!na_strict) na_text_str(&t, "; NUMALLOC_CHECK=1 finds it where it happens");
    na_text_str(&t, "\n");
    na_os_say(t.data, t.length);
    if (na_option(NA_OPT_ABORT)) na_os_abort();
}

/* --- the newest blocks of a bin --- */

bool na_is_in_slow_span(unsigned cls, const void *block) {
    const na_span_t *span = na_span_of(block);
    if (span != NULL && na_is_mixed(span)) return na_mix_class(block) == cls;
    return span != NULL && span->cls == cls; /* the tag may be another by now */
}

static NA_COLD void report(na_heap_t *heap, unsigned cls, void *const *blocks, uint32_t at,
                           const char *what) {
    na_misuse(what, blocks[at]);
    /* Going on: what lies behind cannot be trusted, and is lost. */
    if (at == 0)
        heap->bins[cls].head = NULL;
    else
        *na_block_next(blocks[at - 1]) = NULL;
    heap->states[cls].count = at;
}

/* Something is wrong with the first `count` blocks: finds and reports it. */
static NA_COLD void name_the_fault(na_heap_t *heap, unsigned cls, uint32_t count) {
    void *blocks[INSPECT_BLOCKS];
    void *block = heap->bins[cls].head;
    for (uint32_t i = 0; i < count; i++) {
        blocks[i] = block;
        if (!na_is_of_class(cls, block)) {
            report(heap, cls, blocks, i, "a freed block was written to, and now links to");
            return;
        }
        for (uint32_t k = 0; k < i; k++) {
            if (blocks[k] == block) {
                report(heap, cls, blocks, i, "double free of");
                return;
            }
        }
        block = *na_block_next(block);
    }
    report(heap, cls, blocks, 0, "free of");
}

/* A list that comes back to one of its first blocks is a circle, and the last block looked at is
 * another one of its blocks, too: comparing that one is enough. */
void na_bin_inspect(na_heap_t *heap, unsigned cls) {
    uint32_t count = heap->states[cls].count;
    void *blocks[INSPECT_BLOCKS];
    if (count > INSPECT_BLOCKS) count = INSPECT_BLOCKS;
    if (count == 0) return;
    void *block = heap->bins[cls].head;
    bool sound = true;
    for (uint32_t i = 0; i < count; i++) {
        sound = na_is_of_class(cls, block);
        if (NA_UNLIKELY(!sound)) break;
        blocks[i] = block;
        block = *na_block_next(block);
    }
    for (uint32_t i = 0; sound && i < count - 1; i++)
        sound = blocks[i] != blocks[count - 1];
    /* The span was last looked at long ago: as likely as not it has to come from memory, which
     * takes longer than all else here. So this comes with every look at the clock only. */
    if (sound && heap->settles == 0) sound = na_is_block_start(na_span_of(blocks[0]), blocks[0]);
    if (NA_UNLIKELY(!sound)) name_the_fault(heap, cls, count);
}
