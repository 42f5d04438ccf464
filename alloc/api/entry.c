/* entry.c - the C allocation functions. */
#include "alloc/api/api.h"

#include <errno.h>
#include <string.h>

#include "alloc/api/init.h"
#include "alloc/cache/overflow.h"
#include "alloc/malloc/foreign.h"
#include "alloc/malloc/hardened.h"
#include "alloc/malloc/heap_blocks.h"
#include "alloc/malloc/large.h"
#include "alloc/malloc/small.h"
#include "alloc/page/pageheap.h"
#include "alloc/sys/os.h"
#include "alloc/thread/attach.h"
#include "alloc/track/guarded.h"
#include "alloc/track/misuse.h"
#include "alloc/track/recording.h"
#include "alloc/track/slack.h"
#include "alloc/track/timing.h"
#include "numalloc/numalloc.h"

NA_AT_LINE NA_RACES_WITH_EMPTY void *NA_FN(malloc)(size_t size) {
    return na_alloc(size, NA_ENTRY_MALLOC);
}

NA_AT_LINE NA_RACES_WITH_EMPTY void NA_FN(free)(void *block) {
    na_free(block);
}

static NA_NOINLINE void *calloc_slow(size_t bytes) {
    bool zeroed = false;
    void *block = bytes <= NA_SMALL_MAX
                      ? na_alloc_missed(bytes, NA_ENTRY_CALLOC, 0)
                      : na_large_alloc(bytes, NA_PAGE_SIZE, NA_ENTRY_CALLOC, &zeroed);
    if (block != NULL && !zeroed) memset(block, 0, bytes);
    return block;
}

NA_AT_LINE NA_RACES_WITH_EMPTY void *NA_FN(calloc)(size_t count, size_t size) {
    size_t bytes;
    if (NA_UNLIKELY(__builtin_mul_overflow(count, size, &bytes))) bytes = SIZE_MAX; /* refused */
    if (NA_UNLIKELY(bytes > NA_SMALL_MAX)) return calloc_slow(bytes);
    void *block = na_pop_to_clear(na_bin_for(bytes), bytes);
    return NA_LIKELY(block != NULL) ? memset(block, 0, bytes) : calloc_slow(bytes);
}

/* --- aligned --- */

NA_INLINE void *alloc_of_class(unsigned cls, size_t size, na_entry_t entry) {
    void *block = na_pop(&na_self->bins[cls]);
    return block != NULL ? block : na_alloc_missed(size, entry, cls);
}

/* The block lies in a mixed span, and badly (mixed.h): a few more of its class, then whole pages.
 */
static NA_COLD NA_NOINLINE void *align_again(void *block, unsigned cls, size_t alignment,
                                             size_t size, na_entry_t entry) {
    void *missed[8];
    unsigned count = 0, most = sizeof missed / sizeof missed[0];
    while (block != NULL && ((uintptr_t)block & (alignment - 1)) != 0) {
        missed[count++] = block;
        block = count < most ? alloc_of_class(cls, size, entry) : NULL;
    }
    while (count-- > 0)
        na_free(missed[count]);
    return block != NULL ? block : na_large_alloc(size, NA_PAGE_SIZE, entry, NULL);
}

NA_RACES_WITH_EMPTY void *na_alloc_aligned(size_t alignment, size_t size, na_entry_t entry) {
    entry = na_entry_aligned(entry, alignment);
    if (alignment <= NA_CLASS_STEP) return na_alloc(size, entry);
    if (alignment <= NA_PAGE_SIZE && size <= NA_SMALL_MAX) {
        na_init();
        unsigned cls = na_class_of_aligned(size, alignment);
        if (cls != 0) {
            void *block = alloc_of_class(cls, size, entry);
            return NA_LIKELY(((uintptr_t)block & (alignment - 1)) == 0)
                       ? block
                       : align_again(block, cls, alignment, size, entry);
        }
    }
    return na_large_alloc(size, alignment < NA_PAGE_SIZE ? NA_PAGE_SIZE : alignment, entry, NULL);
}

void *NA_FN(aligned_alloc)(size_t alignment, size_t size) {
    if (!na_is_pow2(alignment)) {
        errno = EINVAL;
        return NULL;
    }
    return na_alloc_aligned(alignment, size, NA_ENTRY_ALIGNED);
}

/* Like glibc, rounds an odd alignment up to the next power of two. */
void *NA_FN(memalign)(size_t alignment, size_t size) {
    if (alignment > SIZE_MAX / 2 + 1) {
        errno = EINVAL;
        return NULL;
    }
    size_t power = NA_CLASS_STEP;
    while (power < alignment)
        power *= 2;
    return na_alloc_aligned(power, size, NA_ENTRY_ALIGNED);
}

/* Returns the error, and like glibc's leaves ENOMEM in errno as well. */
int NA_FN(posix_memalign)(void **result, size_t alignment, size_t size) {
    if (!na_is_pow2(alignment) || alignment % sizeof(void *) != 0) return EINVAL;
    void *block = na_alloc_aligned(alignment, size, NA_ENTRY_ALIGNED);
    if (block == NULL) return ENOMEM;
    *result = block;
    return 0;
}

void *NA_FN(valloc)(size_t size) {
    na_init();
    return na_alloc_aligned(na_os_page, size, NA_ENTRY_ALIGNED);
}

void *NA_FN(pvalloc)(size_t size) {
    na_init();
    if (size > SIZE_MAX - na_os_page) {
        errno = ENOMEM;
        return NULL;
    }
    return na_alloc_aligned(na_os_page, na_align_up(size, na_os_page), NA_ENTRY_ALIGNED);
}

/* --- size --- */

static size_t usable(const na_span_t *span, const void *block) {
    if (NA_UNLIKELY(na_harden > 1)) return na_slack_asked(span, block);
    return span->cls != 0 ? na_classes[na_class_in(span, block)].size : na_span_bytes(span);
}

/* NULL has no bytes, nor has what is no block of ours, as far as is known. A small block that was
 * freed has what it had, as other allocators say. */
static NA_COLD size_t usable_otherwise(const na_span_t *span, const void *block) {
    static const char what[] = "malloc_usable_size of";
    if (block == NULL) return 0;
    if (na_guard_holds(block)) {
        size_t size = na_guard->size(block);
        return size != SIZE_MAX ? size : 0;
    }
    if (na_harden != 0) {
        if (span == NULL && na_foreign_is_block(block)) return 0;
        bool live = na_hardened_is_live(what, block);
        return live && span != NULL ? usable(span, block) : 0;
    }
    if (span != NULL || na_pageheap_node_of((uintptr_t)block) != NA_NO_NODE)
        na_misuse_asked(what, block); /* where no block begins, or one that was freed */
    return span != NULL && span->cls != 0 && na_is_block_start(span, block) ? usable(span, block)
                                                                            : 0;
}

NA_RACES_WITH_EMPTY size_t NA_FN(malloc_usable_size)(void *block) {
    const na_span_t *span = na_span_of(block);
    if (NA_LIKELY(span != NULL) && NA_LIKELY(na_harden == 0) &&
        NA_LIKELY(na_is_block_start(span, block)) && NA_LIKELY(na_record_is_live(span, block)) &&
        NA_LIKELY(na_self->bins[span->cls].head != block)) /* freed last */
        return usable(span, block);
    return usable_otherwise(span, block);
}

/* --- realloc --- */

/* A block that would fill less than half of itself moves, so that shrinking gives memory back. One
 * comparison: where size > have, the difference is huge. Size 0 fits nowhere. */
NA_HOT bool fits_in_place(size_t have, size_t size) {
    size_t spare = have <= 4 * NA_CLASS_STEP ? have : have / 2;
    return have - size < spare;
}

static void *resize_small(na_span_t *span, void *block, size_t size) {
    size_t have = na_classes[na_class_in(span, block)].size;
    if (!fits_in_place(have, size)) return NULL;
    if (NA_UNLIKELY(span->records != NULL)) {
        na_tcache_t *tcache = na_tcache_enter();
        if (tcache != NULL) {
            na_record_resize(&tcache->track, span, block, block, have, size, have);
            na_tcache_leave(tcache);
        }
    }
    return block;
}

static void *resize_large(na_span_t *span, size_t size) {
    na_tcache_t *tcache = size > NA_SMALL_MAX ? na_tcache_enter() : NULL;
    if (tcache == NULL) return NULL;
    void *block = na_large_resize(tcache, span, size);
    na_tcache_leave(tcache);
    return block;
}

/* The size to ask for. A small block that has grown is likely to grow again, a little at a time: a
 * step is a quarter at least, or a string that is appended to would move with every few bytes.
 * (have < size < have + more, by one comparison.) */
NA_HOT size_t resized(size_t have, size_t size) {
    size_t more = have / 4;
    bool by_little = size - have - 1 < more - 1;
    return __builtin_expect_with_probability(by_little, 1, 0.5) ? have + more : size;
}

NA_RACES_WITH_EMPTY static void *alloc_resized(size_t have, size_t size, na_entry_t entry) {
    size_t want = resized(have, size);
    if (want > NA_SMALL_MAX) return na_alloc(size, entry);
    void *fresh = na_pop(na_bin_for(want));
    return fresh != NULL ? fresh : na_alloc_missed(size, entry, na_class_of(want));
}

NA_RACES_WITH_EMPTY static void *resize_by_copy(na_span_t *span, void *block, size_t size,
                                                na_entry_t entry) {
    size_t have = usable(span, block);
    size_t grown = have < NA_CLASS_STEP ? NA_CLASS_STEP : have; /* hardened: as was asked for */
    void *fresh = NULL;
    if (na_span_is_heaps(span)) /* it stays there */
        fresh = na_heap_alloc(na_heap_of_owner(span->owner), resized(grown, size), entry);
    else if (span->cls == 0)
        fresh = na_large_alloc_grown(size, entry);
    if (fresh == NULL) fresh = alloc_resized(grown, size, entry);
    if (fresh == NULL) return NULL;
    memcpy(fresh, block, have < size ? have : size);
    na_free_slow(block, NA_TAG_NONE, NA_RELEASE_REALLOC, fresh);
    return fresh;
}

/* Bytes behind the end of a large block that has shrunk, which are filled and checked. */
#define NA_SHRUNK_MOST ((size_t)64 << 10)

/* NUMALLOC_HARDEN=2: a block moves where it can, so that what still points to it dangles. But what
 * would shrink in place without hardening does so here: programs count on that. */
static NA_COLD void *shrink_hardened(na_span_t *span, void *block, size_t size) {
    size_t asked = usable(span, block);
    size_t have = span->cls != 0 ? na_classes[na_class_in(span, block)].size : na_span_bytes(span);
    bool stays = span->cls != 0 ? fits_in_place(have, size)
                                : size > NA_SMALL_MAX && asked - size <= NA_SHRUNK_MOST;
    if (size > asked || !stays) return NULL;
    na_tcache_t *tcache = na_tcache_enter();
    if (tcache == NULL) return NULL;
    na_slack_check(span, block);
    if (span->cls == 0) span->requested = size;
    na_record_resize(&tcache->track, span, block, block, have, size, have);
    na_slack_fill(span, block, size);
    na_tcache_leave(tcache);
    return block;
}

static void *resize(na_span_t *span, void *block, size_t size, na_entry_t entry) {
    void *same = NA_UNLIKELY(na_harden > 1) ? shrink_hardened(span, block, size)
                 : span->cls != 0           ? resize_small(span, block, size)
                                            : resize_large(span, size);
    return same != NULL ? same : resize_by_copy(span, block, size, entry);
}

/* While every event is recorded, calls of which one block is large are timed, and of others those
 * that are drawn. What realloc does is no call by itself. */
static NA_NOINLINE void *resize_recorded(na_span_t *span, void *block, size_t size) {
    na_tcache_t *tcache = na_self;
    na_entry_t moves = NA_ENTRY_REALLOC | (na_entry_t)NA_ENTRY_MOVES;
    if (tcache->track.until_timed == 0 || na_harden != 0)
        return resize(span, block, size,
                      na_every_is_recorded() || na_record_is_told(span, block) ? moves
                                                                               : NA_ENTRY_REALLOC);
    bool large = span->cls == 0 || size > NA_SMALL_MAX,
         timed = --tcache->track.until_timed == 0 || large;
    if (timed) {
        tcache->track.until_timed =
            1; /* its parts go ways on which the clock stops for the profiler */
        na_timed_begin(&tcache->track);
    }
    tcache->track.in_realloc = true;
    void *resized = resize(span, block, size, moves);
    if (na_self == tcache) {
        if (timed) {
            na_timed_end(&tcache->track, NA_CALL_REALLOC, !large);
            /* 0: the thread has noticed meanwhile that the profile has ended */
            if (tcache->track.until_timed != 0) na_timed_draw(&tcache->track);
        }
        tcache->track.in_realloc = false;
    }
    return resized;
}

/* A guarded block moves, so that what still points to where it was is found; but not where another
 * one would shrink in place, which programs count on. Then it keeps its size. */
static NA_COLD void *resize_guarded(void *block, size_t size) {
    size_t have = na_guard->size(block);
    if (have == SIZE_MAX) {
        na_guard->not_live(block);
        return NULL;
    }
    if (size <= have && (size > NA_SMALL_MAX || fits_in_place(have, size))) return block;
    void *fresh = na_alloc(size, NA_ENTRY_REALLOC);
    if (fresh == NULL) return NULL;
    memcpy(fresh, block, have < size ? have : size);
    na_free_slow(block, NA_TAG_NONE, NA_RELEASE_REALLOC, fresh);
    return fresh;
}

/* Anything but a small block on an ordinary page that gets another size than 0. */
NA_RACES_WITH_EMPTY static NA_NOINLINE void *realloc_slow(void *block, size_t size) {
    if (block == NULL) return na_alloc(size, NA_ENTRY_REALLOC);
    if (size == 0) {
        na_free(block);
        return NULL;
    }
    na_span_t *span = na_span_of(block);
    if (NA_UNLIKELY(na_harden > 1) && na_hardened_is_nothing(block)) {
        void *fresh = na_alloc(size, NA_ENTRY_REALLOC);
        if (fresh != NULL) na_free_slow(block, NA_TAG_NONE, NA_RELEASE_REALLOC, fresh);
        return fresh;
    }
    if (NA_UNLIKELY(span == NULL))
        return na_guard_holds(block) ? resize_guarded(block, size)
                                     : na_realloc_foreign(block, size);
    if (NA_UNLIKELY(!na_hardened_is_live("realloc of", block))) return NULL;
    if (NA_UNLIKELY(!na_is_block_start(span, block) || !na_record_is_live(span, block))) {
        na_misuse("realloc of", block);
        return NULL;
    }
    if (NA_UNLIKELY(span->records != NULL)) return resize_recorded(span, block, size);
    return resize(span, block, size, NA_ENTRY_REALLOC);
}

static NA_NOINLINE void *move_and_free(void *fresh, void *block, size_t bytes, uint32_t tag) {
    memcpy(fresh, block, bytes);
    na_free_missed(block, tag, NA_RELEASE_REALLOC, na_bin_for_tag(tag));
    return fresh;
}

NA_RACES_WITH_EMPTY static NA_NOINLINE void *move_slowly(void *block, size_t have, size_t size,
                                                         uint32_t tag) {
    void *fresh = alloc_resized(have, size, NA_ENTRY_REALLOC);
    if (NA_UNLIKELY(fresh == NULL)) return NULL;
    memcpy(fresh, block, have < size ? have : size);
    na_free_tagged(block, tag, NA_RELEASE_REALLOC);
    return fresh;
}

/* It becomes a large one: there is time to look whether it begins there, and whether the thread has
 * freed it. */
static NA_NOINLINE void *move_to_large(void *block, size_t have, size_t size, uint32_t tag) {
    const na_span_t *span = na_span_by_page(block);
    bool begins = NA_LIKELY(span != NULL) && NA_LIKELY(na_is_block_start(span, block));
    unsigned cls = (tag & 0xffff) / NA_BIN_SIZE;
    bool freed =
        begins && na_bin_for_tag(tag)->tag == tag && na_overflow_has_freed(na_self, cls, block);
    if (NA_LIKELY(begins) && NA_LIKELY(!freed)) return move_slowly(block, have, size, tag);
    na_misuse(freed ? "realloc of freed" : "realloc of", block);
    return NULL;
}

/* A block that the hot path can free is in its bin before it is copied, all but its first bytes,
 * where the link is: so nothing has to be remembered across memcpy. Every block has whole steps of
 * 16 bytes. */
NA_HOT void *move_small(void *block, size_t have, size_t size, uint32_t tag) {
    typedef struct first {
        uint64_t word[2];
    } __attribute__((may_alias)) first_t;
    _Static_assert(sizeof(first_t) == NA_CLASS_STEP, "the part that is copied by itself");
    size_t want = resized(have, size);
    if (NA_UNLIKELY(want > NA_SMALL_MAX)) return move_to_large(block, have, size, tag);
    void *fresh = na_pop(na_bin_for(want));
    if (NA_UNLIKELY(fresh == NULL)) return move_slowly(block, have, size, tag);
    size_t bytes = na_align_up(have < size ? have : size, NA_CLASS_STEP);
    first_t first = *(first_t *)block;
    if (NA_UNLIKELY(!na_push(na_bin_for_tag(tag), block, tag)))
        return move_and_free(fresh, block, bytes, tag);
    *(first_t *)fresh = first;
    char *rest =
        memcpy((char *)fresh + sizeof first, (char *)block + sizeof first, bytes - sizeof first);
    return rest - sizeof first;
}

/* The page tag says the size of a small block. That it is a block at all is looked at as for free:
 * when the old block has been freed, by the thread's next slow path (misuse.h). */
NA_AT_LINE NA_RACES_WITH_EMPTY void *NA_FN(realloc)(void *block, size_t size) {
    uintptr_t address = (uintptr_t)block; /* NULL's page has no tag */
    uint32_t tag = NA_LIKELY(na_is_address(address)) ? na_page_tag(address) : NA_TAG_NONE;
    if (NA_UNLIKELY((uint16_t)tag == 0)) return realloc_slow(block, size); /* mixed ones, too */
    size_t have = na_class_of_tag(tag)->size;
    const na_bin_t *bin = na_bin_for_tag(tag);
    if (NA_UNLIKELY(bin->head == block) && bin->tag == tag) {
        na_misuse("realloc of freed", block);
        return NULL;
    }
    if (fits_in_place(have, size)) return block;
    if (NA_UNLIKELY(size == 0)) return realloc_slow(block, size);
    return move_small(block, have, size, tag);
}

void *NA_FN(reallocarray)(void *block, size_t count, size_t size) {
    size_t bytes;
    if (__builtin_mul_overflow(count, size, &bytes)) {
        errno = ENOMEM;
        return NULL;
    }
    return NA_FN(realloc)(block, bytes);
}

/* --- other frees. The sizes are the program's word, and are only checked, with NUMALLOC_CHECK=1:
 * free needs the page's tag in any case, for it says whose the block is. --- */

NA_RACES_WITH_EMPTY void NA_FN(free_sized)(void *block, size_t size) {
    if (NA_LIKELY(!na_sizes_count) || na_size_is_right(block, size, 0)) na_free(block);
}

NA_RACES_WITH_EMPTY void NA_FN(free_aligned_sized)(void *block, size_t alignment, size_t size) {
    (void)alignment;
    if (NA_LIKELY(!na_sizes_count) || na_size_is_right(block, size, 0)) na_free(block);
}

NA_RACES_WITH_EMPTY void NA_FN(cfree)(void *block) {
    na_free(block);
}

/* --- names that programs and libraries still bind to --- */

#ifndef NA_PREFIXED
#define NA_ALIAS(name, target, result, ...) NA_EXPORT result name(__VA_ARGS__) NA_ALIAS_OF(target)
NA_ALIAS(__libc_malloc, malloc, void *, size_t);
NA_ALIAS(__libc_free, free, void, void *);
NA_ALIAS(__libc_cfree, cfree, void, void *);
NA_ALIAS(__libc_calloc, calloc, void *, size_t, size_t);
NA_ALIAS(__libc_realloc, realloc, void *, void *, size_t);
NA_ALIAS(__libc_reallocarray, reallocarray, void *, void *, size_t, size_t);
NA_ALIAS(__libc_memalign, memalign, void *, size_t, size_t);
NA_ALIAS(__libc_valloc, valloc, void *, size_t);
NA_ALIAS(__libc_pvalloc, pvalloc, void *, size_t);
NA_ALIAS(__posix_memalign, posix_memalign, int, void **, size_t, size_t);
#endif
