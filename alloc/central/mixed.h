/* mixed.h - sparse spans that are opened to blocks of all classes.
 *
 * A program whose phases ask for different sizes leaves a few survivors of each phase in every
 * span, and no other class could use what is free around them. So a thread cache that would take
 * memory that was never touched first turns sparse spans of classes that it no longer draws from
 * into MIXED ones:
 *
 *   small span   |b0|  |  |b3|  |  |  |  |b8|  |tail|   blocks of one class, a list of free ones
 *   mixed span   |b0|XXXXX|b3|YYYYYYY|..|b8|.........|   free stretches serve any class that fits
 *
 * What is in use is in a map, a bit for each NA_CLASS_STEP bytes, and another for where blocks
 * begin; nothing is linked through free memory. A block is as long as its class, and lies at a
 * multiple of the largest power of two that divides its size (as it would in a span of its own), so
 * that blocks of pooled classes have their cache lines to themselves. (Under memory pressure
 * (pressure.h) these are all that a block is aligned to, and who asks for more looks at what he
 * got.)
 *
 * Its pages are tagged slow, and it stays at its place: a free finds the block's class in the map
 * (na_holes_tag), and from there on the block is like any other of that class: in bins, batches,
 * remote frees and transfer cache no one can tell, and what comes home finds out by its span.
 * Blocks of owned classes are the thread cache's that opened the span, which alone takes from it;
 * any thread may bring them home.
 *
 * Spans with records are not opened, none is while every event is wanted, and blocks of mixed spans
 * are then not handed out either: they have no records, as blocks from before a profile.
 *
 * A map is written under its thread cache's lock only, and read by anyone who holds a block of the
 * span: the bits of that block and the one behind its last are at rest, but for the latter's
 * turning from "free" to "a block begins here" (starts before used, and starts stay when the block
 * ends). A free learns from the page's tag that the span is mixed: the map was written before the
 * tag was, and is read after it (two fences: na_pagemap_retag, na_free_slow). */
#ifndef NUMALLOC_ALLOC_CENTRAL_MIXED_H
#define NUMALLOC_ALLOC_CENTRAL_MIXED_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "alloc/central/sizeclass.h"
#include "alloc/central/tag.h"
#include "alloc/sys/base.h"
#include "pagemap/span.h"

/* Told what the program did wrong with a block that comes home ("double free of"); set by na_init.
 * Returns where the program is to go on. */
extern void (*na_span_fault)(const char *what, const void *block);

typedef struct na_mixer na_mixer_t;

/* Classes that take part: of the others, more than 14 KiB, a span has four blocks at most. */
#define NA_MIX_CLASSES 64u

NA_INLINE bool na_is_mixed(const na_span_t *span) {
    return NA_UNLIKELY(atomic_load_explicit(&span->mixed, memory_order_acquire));
}

/* The class of the block that begins there; 0: no block of a mixed span does. Any address of a
 * region. */
unsigned na_mix_class(const void *block);
/* The same for any address in such a block; *start: where it begins. True of some moment of the
 * call; async-signal-safe. */
unsigned na_mix_find(const void *address, uintptr_t *start);
/* The mixed spans of the thread cache of that id, of which there are none yet; NULL: no memory. */
na_mixer_t *na_mixer_make(unsigned id);
/* A racing guess. */
bool na_mixer_is_empty(const na_mixer_t *mixer);
/* Blocks of a class as a list, at most `want`; NULL: there are no holes for it. Behind the thread
 * cache's gate. */
void *na_mixer_take(na_mixer_t *mixer, unsigned cls, uint32_t want, uint32_t *got);
/* Gives back `count` blocks of a class and of this span, linked from `first` on. Returns the bytes
 * that went to the page heap. Behind the caller's gate. */
size_t na_mix_give(na_span_t *span, unsigned cls, void *first, uint32_t count);

/* Makes the span, which is on no list any more, a mixed one. False: no memory, and nothing was
 * done. By who may write to the span. */
bool na_mix_open(na_mixer_t *mixer, na_span_t *span);

void na_mix_after_fork_child(void);

#endif
