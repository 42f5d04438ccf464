/* mixed.c - sparse spans that are opened to blocks of all classes. */
#include "alloc/central/mixed.h"

#include "alloc/central/batch.h"
#include "alloc/page/pressure.h"
#include "alloc/page/region.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/meta.h"
#include "pagemap/pagemap.h"

enum {
    WORD = 64,      /* steps */
    PAGE_WORDS = 8, /* of a map, for each page */
    TRIES = 8,      /* spans whose holes are long enough, but may lie badly */
};
_Static_assert(PAGE_WORDS *WORD *NA_CLASS_STEP == NA_PAGE_SIZE, "a page's part of a map");

/* A thread cache's mixed spans, by its id. */
struct na_mixer {
    na_lock_t lock;
    uint16_t id;                     /* the thread cache's */
    uint64_t fits;                   /* by class: lists that are not empty */
    na_span_t *list[NA_MIX_CLASSES]; /* by the largest class that the longest hole has room for */
};
_Static_assert(NA_MIX_CLASSES <= 64, "a bit for each class");

NA_SPARSE static na_mixer_t *mixers[NA_OWNER_POOL];
static _Atomic(unsigned) mixers_end; /* only ids below have one */

/* --- maps --- */

/* The map of a span; steps count from its first. */
typedef struct map {
    na_mix_word_t *word;
    uint32_t steps;
} map_t;

NA_INLINE uint64_t used_word(const na_mix_word_t *word) {
    return atomic_load_explicit(&word->used, memory_order_acquire);
}
NA_INLINE uint64_t starts_word(const na_mix_word_t *word) {
    return atomic_load_explicit(&word->starts, memory_order_relaxed);
}

/* The word of an address, NULL if its hugepage has none. */
NA_INLINE na_mix_word_t *word_of(uintptr_t address) {
    const na_hugepage_t *hp = na_region_hugepage(address);
    na_mix_word_t *words =
        NA_LIKELY(hp != NULL) ? atomic_load_explicit(&hp->mix, memory_order_acquire) : NULL;
    return NA_LIKELY(words != NULL) ? words + address % NA_HUGE_SIZE / (WORD * NA_CLASS_STEP)
                                    : NULL;
}

static map_t map_of(const na_span_t *span) {
    return (map_t){word_of(span->start), span->pages * PAGE_WORDS * WORD};
}

/* First step from `from` on that is in use, or free; the number of steps if there is none. */
static uint32_t next_step(map_t m, uint32_t from, bool used) {
    uint64_t flip = used ? 0 : ~UINT64_C(0);
    if (from >= m.steps) return m.steps;
    uint32_t i = from / WORD;
    uint64_t word = (used_word(&m.word[i]) ^ flip) & ~UINT64_C(0) << from % WORD;
    while (word == 0) {
        if (++i == m.steps / WORD) return m.steps;
        word = used_word(&m.word[i]) ^ flip;
    }
    return i * WORD + (uint32_t)__builtin_ctzll(word);
}

/* Free steps right before `end`. */
static uint32_t gap_before(map_t m, uint32_t end) {
    uint32_t i = end / WORD;
    if (end % WORD != 0) {
        uint64_t word = used_word(&m.word[i]) & ~(~UINT64_C(0) << end % WORD);
        if (word != 0) return end - (i * WORD + WORD - (uint32_t)__builtin_clzll(word));
    }
    while (i-- > 0) {
        uint64_t word = used_word(&m.word[i]);
        if (word != 0) return end - (i * WORD + WORD - (uint32_t)__builtin_clzll(word));
    }
    return end;
}

/* Where use begins and ends, one after the other: what came before a word is in `last`. */
typedef struct cursor {
    map_t m;
    uint32_t i;     /* word */
    uint64_t turns; /* in it, not passed yet */
    uint64_t last;
} cursor_t;

NA_INLINE uint32_t next_turn(cursor_t *c) {
    while (c->turns == 0) {
        if (++c->i >= c->m.steps / WORD) return c->m.steps;
        uint64_t used = used_word(&c->m.word[c->i]);
        c->turns = used ^ (used << 1 | c->last);
        c->last = used >> (WORD - 1);
    }
    uint32_t turn = c->i * WORD + (uint32_t)__builtin_ctzll(c->turns);
    c->turns &= c->turns - 1;
    return turn;
}

NA_INLINE cursor_t first_turn(map_t m) {
    return (cursor_t){.m = m, .i = UINT32_MAX, .last = 1};
}

static uint16_t longest_hole(map_t m) {
    uint32_t longest = 0;
    cursor_t c = first_turn(m);
    for (uint32_t at = next_turn(&c); at < m.steps && m.steps - at > longest;) {
        uint32_t end = next_turn(&c);
        if (end - at > longest) longest = end - at;
        at = next_turn(&c);
    }
    return (uint16_t)longest;
}

/* The part of word i that [at, at + n) covers. */
NA_INLINE uint64_t part(uint32_t i, uint32_t at, uint32_t n) {
    uint32_t low = i * WORD, from = at > low ? at - low : 0;
    uint32_t to = at + n < low + WORD ? at + n - low : WORD;
    return ~UINT64_C(0) >> (WORD - (to - from)) << from;
}

NA_INLINE void set_used(na_mix_word_t *word, uint64_t mask, uint64_t start) {
    atomic_store_explicit(&word->starts, (starts_word(word) & ~mask) | start, memory_order_relaxed);
    atomic_store_explicit(&word->used, used_word(word) | mask, memory_order_release);
}

NA_INLINE void set_free(na_mix_word_t *word, uint64_t mask) {
    atomic_store_explicit(&word->used, used_word(word) & ~mask, memory_order_release);
}

static NA_NOINLINE void mark_long(map_t m, uint32_t at, uint32_t n, bool used) {
    uint64_t start = UINT64_C(1) << at % WORD;
    for (uint32_t i = at / WORD; i <= (at + n - 1) / WORD; i++, start = 0) {
        if (used)
            set_used(&m.word[i], part(i, at, n), start);
        else
            set_free(&m.word[i], part(i, at, n));
    }
}

NA_INLINE void mark_used(map_t m, uint32_t at, uint32_t n) {
    uint64_t start = UINT64_C(1) << at % WORD;
    if (NA_LIKELY(at % WORD + n < WORD))
        set_used(&m.word[at / WORD], (start << n) - start, start);
    else
        mark_long(m, at, n, true);
}

NA_INLINE void mark_free(map_t m, uint32_t at, uint32_t n) {
    uint64_t start = UINT64_C(1) << at % WORD;
    if (NA_LIKELY(at % WORD + n < WORD))
        set_free(&m.word[at / WORD], (start << n) - start);
    else
        mark_long(m, at, n, false);
}

/* Steps of a block that begins at a bit of a word and goes on to the next. */
static NA_NOINLINE uint32_t steps_from(const na_mix_word_t *word, uint32_t bit) {
    for (uint32_t steps = WORD - bit;; steps += WORD) {
        word++;
        uint64_t ends = ~used_word(word);
        ends |= starts_word(word);
        if (ends != 0) return steps + (uint32_t)__builtin_ctzll(ends);
    }
}

/* Bytes of the block that begins there; 0: none does. Behind the words of a hugepage is one more,
 * where nothing is in use. */
NA_INLINE uint32_t length_at(uintptr_t address) {
    const na_mix_word_t *word = word_of(address);
    uint32_t bit = (uint32_t)(address / NA_CLASS_STEP) % WORD;
    if (NA_UNLIKELY(word == NULL) || NA_UNLIKELY(address % NA_CLASS_STEP != 0)) return 0;
    uint64_t used = used_word(word), ends = ~used | starts_word(word);
    if (NA_UNLIKELY(((used & ends) >> bit & 1) == 0)) return 0;
    ends = ends >> bit & ~UINT64_C(1);
    if (NA_LIKELY(ends != 0)) return (uint32_t)__builtin_ctzll(ends) * NA_CLASS_STEP;
    return steps_from(word, bit) * NA_CLASS_STEP;
}

/* Whether a block of n steps begins at step `at`. */
NA_INLINE bool is_block(map_t m, uint32_t at, uint32_t n) {
    const na_mix_word_t *word = &m.word[at / WORD];
    uint64_t used = used_word(word), starts = starts_word(word), bit = at % WORD;
    if (NA_UNLIKELY(((used & starts) >> bit & 1) == 0)) return false;
    uint64_t ends = (~used | starts) >> bit & ~UINT64_C(1);
    if (NA_LIKELY(ends != 0)) return (uint32_t)__builtin_ctzll(ends) == n;
    return steps_from(word, (uint32_t)bit) == n;
}

unsigned na_mix_class(const void *block) {
    uint32_t length = length_at((uintptr_t)block);
    return NA_LIKELY(length <= NA_SMALL_MAX) && NA_LIKELY(length != 0) ? na_class_of(length) : 0;
}

unsigned na_mix_find(const void *address, uintptr_t *start) {
    uintptr_t at = na_align_down((uintptr_t)address, NA_CLASS_STEP);
    uintptr_t least = na_align_down(at, NA_HUGE_SIZE); /* no small span goes beyond */
    const na_mix_word_t *word = word_of(at);
    if (word == NULL) return 0;
    uint64_t begins = starts_word(word) & used_word(word) &
                      ~UINT64_C(0) >> (WORD - 1 - at / NA_CLASS_STEP % WORD);
    at = na_align_down(at, WORD * NA_CLASS_STEP);
    while (begins == 0) {
        if (at == least) return 0;
        word--;
        at -= WORD * NA_CLASS_STEP;
        begins = starts_word(word) & used_word(word);
    }
    *start = at + (WORD - 1 - (uint32_t)__builtin_clzll(begins)) * NA_CLASS_STEP;
    unsigned cls = na_mix_class((void *)*start);
    return (uintptr_t)address - *start < na_classes[cls].size ? cls : 0;
}

/* --- a thread cache's spans; under its lock --- */

/* The list for spans with such a hole; 0: none. */
static unsigned list_for(uint32_t longest) {
    if (longest >= na_classes[NA_MIX_CLASSES - 1].size / NA_CLASS_STEP) return NA_MIX_CLASSES - 1;
    unsigned cls = na_class_table[longest] / NA_BIN_SIZE; /* the smallest that is no smaller */
    return longest != 0 && na_classes[cls].size == longest * NA_CLASS_STEP ? cls
           : longest != 0                                                  ? cls - 1
                                                                           : 0;
}

static void unlist_mixed(na_mixer_t *mixer, na_span_t *span) {
    if (span->list == NA_SPAN_UNLISTED) return;
    if (span->prev != NULL)
        span->prev->next = span->next;
    else
        mixer->list[span->list] = span->next;
    if (span->next != NULL) span->next->prev = span->prev;
    if (mixer->list[span->list] == NULL) mixer->fits &= ~(UINT64_C(1) << span->list);
    span->prev = span->next = NULL;
    span->list = NA_SPAN_UNLISTED;
}

static void relist_mixed(na_mixer_t *mixer, na_span_t *span) {
    unsigned list = list_for(span->mix_longest);
    if (list == span->list) return;
    unlist_mixed(mixer, span);
    if (list == 0) return;
    span->next = mixer->list[list];
    if (span->next != NULL) span->next->prev = span;
    mixer->list[list] = span;
    mixer->fits |= UINT64_C(1) << list;
    span->list = (uint8_t)list;
}

/* What the blocks of a class are to lie at multiples of; steps. */
static uint32_t alignment_of(unsigned cls) {
    uint32_t size = na_classes[cls].size, align = size & -size;
    uint32_t most = na_pressure_is_low() ? NA_CACHE_LINE : (uint32_t)NA_PAGE_SIZE;
    return (align < most ? align : most) / NA_CLASS_STEP;
}

/* Blocks in the span's holes, in address order, until there are `want`; in front of `rest`. */
static void *carve_holes(na_span_t *span, unsigned cls, uint32_t want, void *rest, uint32_t *got) {
    map_t m = map_of(span);
    uint32_t n = na_classes[cls].size / NA_CLASS_STEP, align = alignment_of(cls), before = *got;
    void *first = NULL, **link = &first;
    uint32_t longest = 0; /* of what is left up to `at` */
    cursor_t c = first_turn(m);
    uint32_t at = next_turn(&c);
    while (at < m.steps && (m.steps - at > longest || *got < want)) {
        uint32_t end = next_turn(&c), block = (uint32_t)na_align_up(at, align);
        if (block + n <= end && *got < want) {
            longest = block - at > longest ? block - at : longest;
            for (; block + n <= end && *got < want; block += n, ++*got) {
                uintptr_t start = span->start + (uintptr_t)block * NA_CLASS_STEP;
                if (NA_UNLIKELY(na_pressure_is_exhausted()) &&
                    !na_pressure_may_use(start, na_classes[cls].size)) {
                    want = *got;
                    break;
                }
                mark_used(m, block, n);
                *link = (void *)start;
                link = na_block_next(*link);
            }
            at = block;
        }
        if (end - at > longest) longest = end - at;
        at = next_turn(&c);
    }
    *link = rest;
    span->mix_in_use = (uint16_t)(span->mix_in_use + (*got - before) * n);
    span->mix_longest = (uint16_t)longest;
    return first;
}

/* From some span on one of these lists; false: there is none with such a hole. */
static bool take_some(na_mixer_t *mixer, uint64_t lists, unsigned cls, uint32_t want, void **blocks,
                      uint32_t *got) {
    uint32_t before = *got, most = na_pressure_is_low() ? UINT32_MAX : TRIES;
    for (lists &= mixer->fits; lists != 0; lists &= lists - 1) {
        na_span_t *span = mixer->list[__builtin_ctzll(lists)], *next;
        for (uint32_t tries = 0; span != NULL && tries < most; tries++, span = next) {
            next = span->next;
            *blocks = carve_holes(span, cls, want, *blocks, got);
            relist_mixed(mixer, span);
            if (*got != before) return true;
        }
    }
    return false;
}

/* Where the hole is sure to be long enough wherever it begins, then where it may be. */
static void *take_from_holes(na_mixer_t *mixer, unsigned cls, uint32_t want, uint32_t *got) {
    void *blocks = NULL;
    uint64_t from = ~UINT64_C(0) << cls, sure = 0;
    size_t bytes = na_classes[cls].size + (alignment_of(cls) - 1) * NA_CLASS_STEP;
    if (bytes <= na_classes[NA_MIX_CLASSES - 1].size) sure = ~UINT64_C(0) << na_class_of(bytes);
    while (*got < want && (take_some(mixer, sure, cls, want, &blocks, got) ||
                           take_some(mixer, from & ~sure, cls, want, &blocks, got)))
        ;
    return blocks;
}

static size_t release_mixed(na_mixer_t *mixer, na_span_t *span) {
    size_t bytes = (size_t)span->pages << NA_PAGE_SHIFT;
    unlist_mixed(mixer, span);
    na_pagemap_remove(span);
    if (na_class_fills(span->cls)) /* it was one of its class */
        na_pageheap_free_filled(span->node, span->start, span->pages);
    else
        na_pageheap_free(span->node, span->start, span->pages);
    na_span_delete(span);
    return bytes;
}

/* A block at step `at` of the span is free. Returns the bytes that went to the page heap. */
static size_t give_block(na_mixer_t *mixer, na_span_t *span, uint32_t at, uint32_t n) {
    map_t m = map_of(span);
    mark_free(m, at, n);
    span->mix_in_use = (uint16_t)(span->mix_in_use - n);
    if (span->mix_in_use == 0) return release_mixed(mixer, span);
    uint32_t hole = next_step(m, at + n, true) - (at - gap_before(m, at));
    if (hole > span->mix_longest) span->mix_longest = (uint16_t)hole;
    relist_mixed(mixer, span);
    return 0;
}

size_t na_mix_give(na_span_t *span, unsigned cls, void *first, uint32_t count) {
    na_mixer_t *mixer = mixers[span->mix_owner];
    uint32_t n = na_classes[cls].size / NA_CLASS_STEP;
    size_t released = 0;
    na_lock(&mixer->lock);
    map_t m = map_of(span);
    for (void *block = first; count > 0; count--) {
        void *next = *na_block_next(block);
        uint32_t at = (uint32_t)(((uintptr_t)block - span->start) / NA_CLASS_STEP);
        if (NA_UNLIKELY(!is_block(m, at, n)) ||
            NA_UNLIKELY((uintptr_t)block % NA_CLASS_STEP != 0)) {
            na_span_fault("double free of", block);
            break;
        }
        released += give_block(mixer, span, at, n);
        block = next;
    }
    na_unlock(&mixer->lock);
    return released;
}

/* --- opening spans --- */

static na_lock_t words_lock;

/* The words of a hugepage. Whoever comes second may find that another thread cache has made them.
 */
static na_mix_word_t *make_words(na_hugepage_t *hp) {
    const size_t bytes = (NA_HUGE_PAGES * PAGE_WORDS + 1) * sizeof(na_mix_word_t);
    na_mix_word_t *words = atomic_load_explicit(&hp->mix, memory_order_acquire);
    if (words != NULL) return words;
    if (NA_UNLIKELY(na_pressure_is_exhausted()) && !na_pressure_may_add(bytes)) return NULL;
    na_lock(&words_lock);
    words = atomic_load_explicit(&hp->mix, memory_order_relaxed);
    if (words == NULL) {
        words = na_meta_alloc(bytes, NA_CACHE_LINE);
        if (words != NULL) atomic_store_explicit(&hp->mix, words, memory_order_release);
    }
    na_unlock(&words_lock);
    return words;
}

bool na_mix_open(na_mixer_t *mixer, na_span_t *span) {
    uint32_t each = na_classes[span->cls].size / NA_CLASS_STEP;
    na_hugepage_t *hp = na_region_hugepage(span->start);
    if (span->home != span->node || make_words(hp) == NULL) return false;
    na_lock(&mixer->lock);
    map_t m = map_of(span);
    const na_class_t *c = &na_classes[span->cls];
    uint64_t is_free[NA_CAPACITY_MAX / 64] = {0};
    /* The list goes to and fro in memory that was not used for long. */
    for (uint32_t i = 0; i < span->carved; i++)
        na_prefetch_to_write((void *)(span->start + (uintptr_t)i * c->size));
    for (void *block = span->free; block != NULL; block = *na_block_next(block)) {
        uint32_t i = na_block_index(c, (uintptr_t)block - span->start);
        is_free[i / 64] |= UINT64_C(1) << i % 64;
    }
    for (uint32_t i = 0; i < span->carved; i += 64) {
        uint64_t held = ~is_free[i / 64];
        if (span->carved - i < 64) held &= ~(~UINT64_C(0) << (span->carved - i));
        for (; held != 0; held &= held - 1)
            mark_used(m, (i + (uint32_t)__builtin_ctzll(held)) * each, each);
    }
    span->mix_owner = mixer->id;
    span->free = span->free_tail = NULL;
    span->mix_in_use = (uint16_t)((uint32_t)(span->carved - span->free_count) * each);
    atomic_store_explicit(&span->mixed, true, memory_order_release);
    na_pagemap_retag(span, NA_TAG_MIXED(mixer->id));
    span->mix_longest = longest_hole(m);
    relist_mixed(mixer, span);
    na_unlock(&mixer->lock);
    return true;
}

na_mixer_t *na_mixer_make(unsigned id) {
    na_mixer_t *mixer = na_meta_alloc(sizeof *mixer, NA_CACHE_LINE);
    if (mixer == NULL) return NULL;
    mixer->id = (uint16_t)id;
    unsigned end = atomic_load_explicit(&mixers_end, memory_order_relaxed);
    while (end <= id && !atomic_compare_exchange_weak(&mixers_end, &end, id + 1))
        ;
    return mixers[id] = mixer;
}

NA_RACY bool na_mixer_is_empty(const na_mixer_t *mixer) {
    return ((const volatile na_mixer_t *)mixer)->fits == 0;
}

void *na_mixer_take(na_mixer_t *mixer, unsigned cls, uint32_t want, uint32_t *got) {
    na_lock(&mixer->lock);
    void *blocks = take_from_holes(mixer, cls, want, got);
    na_unlock(&mixer->lock);
    return blocks;
}

void na_mix_after_fork_child(void) {
    na_lock_reset(&words_lock);
    for (unsigned id = 0, end = atomic_load(&mixers_end); id < end; id++)
        if (mixers[id] != NULL) na_lock_reset(&mixers[id]->lock);
}
