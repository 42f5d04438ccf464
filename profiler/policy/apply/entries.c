/* entries.c - malloc and its kin once more, for modules whose calls rules may mean.
 *
 * Each looks at a byte of the filter and goes on to the plain function by a jump, so that is called
 * as if from the program: with its return address, its stack and its rbp. That is also how the
 * functions that decide are called: their own frame is then the one that the program's call made,
 * and has all that na_policy_match needs. Without optimisation there are no such jumps, and the
 * entry hands on its frame. */
#include <errno.h>
#include <string.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/track/misuse.h"
#include "alloc/interpose/operators.h"
#include "alloc/record/recording.h"
#include "pagemap/pagemap.h"
#include "profiler/policy/apply/ruled_live.h"

NA_SPARSE uint8_t na_policy_filter[NA_POLICY_FILTER];
_Atomic(const na_policy_live_t *) na_policy_live;

#if defined(__OPTIMIZE__) && !defined(NA_PREFIXED) /* sanitizers want each function to return */
#define JUMPS       1
#define ENTERED()   NULL
#define FRAME(from) ((const uintptr_t *)__builtin_frame_address(0))
#else
#define ENTERED()   __builtin_frame_address(0)
#define FRAME(from) ((const uintptr_t *)(from))
#endif
/* (A byte that binding changes is read as it is; an atomic load would be one instruction more.) */
#define MAY_BE_RULED()                                                                             \
    NA_UNLIKELY(                                                                                   \
        na_policy_filter[(uintptr_t)__builtin_return_address(0) & (NA_POLICY_FILTER - 1)] != 0)

/* NULL: no rule means the call. */
NA_INLINE na_policy_site_t *site_of(const uintptr_t *frame) {
    const na_policy_live_t *live = atomic_load_explicit(&na_policy_live, memory_order_acquire);
    return NA_LIKELY(live != NULL) ? na_policy_match(live, frame) : NULL;
}

/* --- what decides --- */

/* What the usual call leaves. */
static NA_NOINLINE void *ruled_malloc_slow(size_t size, na_policy_site_t *site) {
    void *block = na_policy_give(site, size, NA_CLASS_STEP, NA_ENTRY_MALLOC, NULL);
    return NA_LIKELY(block != NULL) ? block : NA_FN(malloc)(size);
}

/* The usual one is for a site whose blocks are malloc's, in whole lines. */
NA_HOT void *malloc_for(na_policy_site_t *site, size_t size) {
    na_policy_sums_t *sums = &site->sums[na_self->id % NA_POLICY_SHARDS];
    if (NA_UNLIKELY(!na_policy_is_usual(site, sums, size))) return ruled_malloc_slow(size, site);
    size_t mask = atomic_load_explicit(&sums->line_mask, memory_order_relaxed);
    size_t whole = (size + mask) & ~mask;
    void *block = na_pop(na_bin_for(whole));
    return NA_LIKELY(block != NULL) ? block
                                    : na_alloc_missed(size, NA_ENTRY_MALLOC, na_class_of(whole));
}

NA_RACES_WITH_EMPTY static NA_NOINLINE void *malloc_by_frames(size_t size, const void *entered) {
    (void)entered;
    na_policy_site_t *site = site_of(FRAME(entered));
    return NA_LIKELY(site != NULL) ? malloc_for(site, size) : NA_FN(malloc)(size);
}

NA_RACES_WITH_EMPTY static NA_NOINLINE void *ruled_malloc(size_t size, const void *entered) {
#ifdef JUMPS
    const na_policy_live_t *live = atomic_load_explicit(&na_policy_live, memory_order_acquire);
    na_policy_site_t *site =
        live != NULL ? na_policy_root(live, (uintptr_t)__builtin_return_address(0)) : NULL;
    if (NA_LIKELY(site != NULL)) return malloc_for(site, size);
#endif
    return malloc_by_frames(size, entered);
}

static NA_NOINLINE void *ruled_calloc(size_t count, size_t size, const void *entered) {
    (void)entered;
    size_t bytes;
    na_policy_site_t *site = site_of(FRAME(entered));
    if (site == NULL || __builtin_mul_overflow(count, size, &bytes))
        return NA_FN(calloc)(count, size);
    bool zeroed;
    void *block = na_policy_give(site, bytes, NA_CLASS_STEP, NA_ENTRY_CALLOC, &zeroed);
    if (NA_UNLIKELY(block == NULL)) return NA_FN(calloc)(count, size);
    if (!zeroed) memset(block, 0, bytes);
    return block;
}

/* A block that is a heap's stays there, one that fits stays where it is, and what is wrong is
 * realloc's to say; else the site's memory has the new one. */
static NA_NOINLINE void *ruled_realloc(void *block, size_t size, const void *entered) {
    (void)entered;
    na_policy_site_t *site = site_of(FRAME(entered));
    if (site == NULL || (block != NULL && size == 0)) return NA_FN(realloc)(block, size);
    if (block == NULL) {
        void *first = na_policy_give(site, size, NA_CLASS_STEP, NA_ENTRY_REALLOC, NULL);
        return NA_LIKELY(first != NULL) ? first : NA_FN(realloc)(block, size);
    }
    na_span_t *span = na_span_of(block);
    if (span == NULL || na_span_is_others(span) || !site->pool->apart ||
        !na_is_block_start(span, block) || !na_record_is_live(span, block))
        return NA_FN(realloc)(block, size);
    size_t have = NA_FN(malloc_usable_size)(block);
    if (size <= have) return NA_FN(realloc)(block, size);
    na_entry_t entry = NA_ENTRY_REALLOC;
    if (na_every_is_recorded() || na_record_is_told(span, block))
        entry |= (na_entry_t)NA_ENTRY_MOVES;
    void *fresh = na_policy_give(site, size, NA_CLASS_STEP, entry, NULL);
    if (NA_UNLIKELY(fresh == NULL)) return NA_FN(realloc)(block, size);
    memcpy(fresh, block, have);
    na_free_slow(block, NA_TAG_NONE, NA_RELEASE_REALLOC, fresh);
    return fresh;
}

static void *give_aligned(na_policy_site_t *site, size_t alignment, size_t size) {
    na_entry_t entry = na_entry_aligned(NA_ENTRY_ALIGNED, alignment);
    return na_policy_give(site, size, alignment, entry, NULL);
}

static NA_NOINLINE void *ruled_aligned(size_t alignment, size_t size, const void *entered) {
    (void)entered;
    na_policy_site_t *site = site_of(FRAME(entered));
    void *block =
        site != NULL && na_is_pow2(alignment) ? give_aligned(site, alignment, size) : NULL;
    return block != NULL ? block : NA_FN(aligned_alloc)(alignment, size);
}

static NA_NOINLINE void *ruled_memalign(size_t alignment, size_t size, const void *entered) {
    (void)entered;
    na_policy_site_t *site = site_of(FRAME(entered));
    void *block =
        site != NULL && na_is_pow2(alignment) ? give_aligned(site, alignment, size) : NULL;
    return block != NULL ? block : NA_FN(memalign)(alignment, size);
}

static NA_NOINLINE int ruled_posix_memalign(void **result, size_t alignment, size_t size,
                                            const void *entered) {
    (void)entered;
    na_policy_site_t *site = site_of(FRAME(entered));
    void *block = NULL;
    if (site != NULL && na_is_pow2(alignment) && alignment % sizeof(void *) == 0)
        block = give_aligned(site, alignment, size);
    if (block == NULL) return NA_FN(posix_memalign)(result, alignment, size);
    *result = block;
    return 0;
}

#ifndef NA_PREFIXED /* there are no operators then */
/* Of an operator that somebody has replaced no rule is asked: it is his. */
static void *give_new(na_policy_site_t *site, na_operator_t op, size_t size, size_t alignment,
                      na_entry_t entry) {
    if (site == NULL || na_operator_target(op)->function != NULL || !na_is_pow2(alignment))
        return NULL;
    if (alignment > NA_CLASS_STEP) entry = na_entry_aligned(entry, alignment);
    return na_policy_give(site, size, alignment, entry, NULL);
}
#endif

/* --- the entries, each with its plain function --- */

#define ENTRY(result, name, parameters, ...)                                                       \
    NA_RACY static result entry_##name parameters {                                                \
        if (MAY_BE_RULED()) return ruled_##name(__VA_ARGS__, ENTERED());                           \
        return NA_FN(name)(__VA_ARGS__);                                                           \
    }
#define ruled_aligned_alloc ruled_aligned
ENTRY(void *, malloc, (size_t size), size)
ENTRY(void *, calloc, (size_t count, size_t size), count, size)
ENTRY(void *, realloc, (void *block, size_t size), block, size)
ENTRY(void *, aligned_alloc, (size_t alignment, size_t size), alignment, size)
ENTRY(void *, memalign, (size_t alignment, size_t size), alignment, size)
ENTRY(int, posix_memalign, (void **result, size_t alignment, size_t size), result, alignment, size)

#ifndef NA_PREFIXED
/* (In C++ names are not to be written twice: ops has them.) */
#define NEW_FORMS(X)                                                                               \
    X(NEW, _Znwm, NA_ENTRY_NEW, NA_CLASS_STEP, (size_t n), n)                                      \
    X(NEW_ARRAY, _Znam, NA_ENTRY_NEW_ARRAY, NA_CLASS_STEP, (size_t n), n)                          \
    X(NEW_NOTHROW, _ZnwmRKSt9nothrow_t, NA_ENTRY_NEW, NA_CLASS_STEP, (size_t n, const void *t), n, \
      t)                                                                                           \
    X(NEW_ARRAY_NOTHROW, _ZnamRKSt9nothrow_t, NA_ENTRY_NEW_ARRAY, NA_CLASS_STEP,                   \
      (size_t n, const void *t), n, t)                                                             \
    X(NEW_ALIGNED, _ZnwmSt11align_val_t, NA_ENTRY_NEW, a, (size_t n, size_t a), n, a)              \
    X(NEW_ARRAY_ALIGNED, _ZnamSt11align_val_t, NA_ENTRY_NEW_ARRAY, a, (size_t n, size_t a), n, a)  \
    X(NEW_ALIGNED_NOTHROW, _ZnwmSt11align_val_tRKSt9nothrow_t, NA_ENTRY_NEW, a,                    \
      (size_t n, size_t a, const void *t), n, a, t)                                                \
    X(NEW_ARRAY_ALIGNED_NOTHROW, _ZnamSt11align_val_tRKSt9nothrow_t, NA_ENTRY_NEW_ARRAY, a,        \
      (size_t n, size_t a, const void *t), n, a, t)

#define NEW_ENTRY(op, symbol, kind, alignment, parameters, ...)                                    \
    extern NA_NEAR void *na_own##symbol parameters;                                                \
    static NA_NOINLINE void *ruled_##symbol(UNPAREN parameters, const void *entered) {             \
        (void)entered;                                                                             \
        void *block = give_new(site_of(FRAME(entered)), NA_OP_##op, n, alignment, kind);           \
        return NA_LIKELY(block != NULL) ? block : na_own##symbol(__VA_ARGS__);                     \
    }                                                                                              \
    static void *entry_##symbol parameters {                                                       \
        if (MAY_BE_RULED()) return ruled_##symbol(__VA_ARGS__, ENTERED());                         \
        return na_own##symbol(__VA_ARGS__);                                                        \
    }
#define UNPAREN(...) __VA_ARGS__
NEW_FORMS(NEW_ENTRY)
#endif

/* --- which is whose --- */

/* Called for each function that has an entry, until it says true. (Calls, not a table: addresses in
 * a table are relocations.) */
typedef bool visit_t(const char *name, uintptr_t plain, uintptr_t entry, void *arg);
static bool each_entry(visit_t *visit, void *arg) {
#define TEXT_OF(name) #name
#define VISIT_AS(name, plain, entry)                                                               \
    if (visit(TEXT_OF(name), (uintptr_t)(plain), (uintptr_t)(entry), arg)) return true;
#define VISIT(name) VISIT_AS(NA_FN(name), NA_FN(name), entry_##name)
    VISIT(malloc)
    VISIT(calloc)
    VISIT(realloc)
    VISIT(aligned_alloc)
    VISIT(memalign)
    VISIT(posix_memalign)
#ifndef NA_PREFIXED
#define VISIT_NEW(op, symbol, kind, alignment, parameters, ...)                                    \
    VISIT_AS(symbol, na_own##symbol, entry_##symbol)
    NEW_FORMS(VISIT_NEW)
#endif
    return false;
}

typedef struct wanted {
    const char *name;
    uintptr_t address;
} wanted_t;

static bool is_plain_call(const char *name, uintptr_t plain, uintptr_t entry, void *arg) {
    (void)name;
    wanted_t *wanted = arg;
    if (plain != wanted->address) return false;
    wanted->address = entry;
    return true;
}

uintptr_t na_policy_entry_for(uintptr_t function) {
    wanted_t wanted = {.address = function};
    return function != 0 && each_entry(is_plain_call, &wanted) ? wanted.address : 0;
}

static bool is_entry_named(const char *name, uintptr_t plain, uintptr_t entry, void *arg) {
    (void)entry;
    wanted_t *wanted = arg;
    if (strcmp(name, wanted->name) != 0) return false;
    wanted->address = plain;
    return true;
}

uintptr_t na_policy_function_named(const char *name) {
    wanted_t wanted = {.name = name};
    return each_entry(is_entry_named, &wanted) ? wanted.address : 0;
}
