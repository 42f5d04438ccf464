/* mix.h - sparse spans that are opened to blocks of all classes.
 *
 * A program whose phases ask for different sizes leaves a few survivors of each phase in every
 * span, and no other class could use what is free around them. So a heap that would take memory
 * that was never touched first turns sparse spans of classes that it no longer draws from into
 * MIXED ones:
 *
 *   small span   |b0|  |  |b3|  |  |  |  |b8|  |tail|      blocks of one class, a list of free ones
 *   mixed span   |b0|XXXXX|b3|YYYYYYY|..|b8|.........|      free stretches serve any class that
 * fits
 *
 * What is in use is in a map, a bit for each NA_CLASS_STEP bytes, and another for where blocks
 * begin; nothing is linked through free memory. A block is as long as its class, and lies at a
 * multiple of the largest power of two that divides its size (as it would in a span of its own), so
 * that blocks of pooled classes have their cache lines to themselves. (Where memory is scarce
 * (tight.h) these are all that a block is aligned to, and who asks for more looks at what he got.)
 *
 * A hole does not end with its span where another mixed span of the same heap follows in the same
 * hugepage: a block belongs to the span that it begins in, and each of the two is in use for as
 * long as the block is.
 *
 * Its pages are tagged slow, and it stays at its place: a free finds the block's class in the map
 * (na_mix_tag), and from there on the block is like any other of that class: in bins, chains, mail
 * and depots no one can tell, and what comes home finds out by its span. Blocks of owned classes
 * are the heap's that opened the span, which alone takes from it; any thread may bring them home.
 *
 * Spans with records are not opened, none is while every event is wanted, and blocks of mixed spans
 * are then not handed out either: they have no records, as blocks from before a profile.
 *
 * A map is written under its heap's lock only, and read by anyone who holds a block of the span:
 * the bits of that block and the one behind its last are at rest, but for the latter's turning from
 * "free" to "a block begins here" (starts before used, and starts stay when the block ends). */
#ifndef NUMALLOC_ALLOC_MIX_H
#define NUMALLOC_ALLOC_MIX_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/base.h"
#include "alloc/heap.h"
#include "alloc/pageheap.h"
#include "pagemap/span.h"

/* Accessible bytes of a node; with less it is not worth it. */
#define NA_MIX_LEAST ((uint64_t)4 << 20)

typedef struct na_mixer na_mixer_t;

NA_INLINE bool na_is_mixed(const na_span_t *span) {
    return NA_UNLIKELY(atomic_load_explicit(&span->mixed, memory_order_acquire));
}

/* The class of the block that begins there; 0: no block of a mixed span does. Any address of a
 * region. */
unsigned na_mix_class(const void *block);
/* The same for any address in such a block; *start: where it begins. True of some moment of the
 * call; async-signal-safe. */
unsigned na_mix_find(const void *address, uintptr_t *start);
/* What the tag of the block's page, which is `mixed`, would be if it lay in a span of its own
 * class; NA_TAG_NONE: no block begins there. */
uint32_t na_mix_tag(const void *block, uint32_t mixed);

/* Whether the heap, about to take `pages` from the page heap, should look for holes instead. */
bool na_mix_is_wanted(const na_heap_t *heap, uint32_t pages);
/* Blocks of a class as a list, at most `want`, from mixed spans, of which some are made if need be;
 * NULL: there are no holes for it. Behind the gate. */
void *na_mix_take(na_heap_t *heap, unsigned cls, uint32_t want, uint32_t *got);
/* Gives back `count` blocks of a class and of this span, linked from `first` on. Returns the bytes
 * that went to the page heap. Behind the caller's gate. */
size_t na_mix_give(na_span_t *span, unsigned cls, void *first, uint32_t count);

/* Makes the span, which is in no set any more, a mixed one of the heap. False: no memory, and
 * nothing was done. By who may write to the span. */
bool na_mix_open(na_heap_t *heap, na_span_t *span);

void na_mix_after_fork_child(void);

#endif
