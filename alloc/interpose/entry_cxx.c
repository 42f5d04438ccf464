/* entry_cxx.c - C++ operator new and delete, in C.
 *
 * They must be ours even though libstdc++'s would call our malloc: theirs cost a call more, and a
 * program may bind to them directly. When memory runs out the standard asks for the new_handler
 * loop and then std::bad_alloc; both live in the C++ runtime, which is looked up only then. Without
 * one, no code can have installed a handler or catch anything, and the program is ended with a
 * message. Exceptions pass through these frames: they hold nothing that needs unwinding. */
#include <dlfcn.h>
#include <stddef.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/malloc/small.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "alloc/interpose/operators.h"

#ifndef NA_PREFIXED

typedef void (*handler_t)(void);

/* std::get_new_handler() and std::__throw_bad_alloc(). Weak: there at link time (static programs),
 * or NULL and found by dlsym (a C++ runtime that came later). */
extern handler_t get_new_handler(void) __asm__("_ZSt15get_new_handlerv") __attribute__((weak));
extern void throw_bad_alloc(void) __asm__("_ZSt17__throw_bad_allocv") __attribute__((weak));
#pragma weak dlsym

static void *runtime(void *linked, const char *name) {
    if (linked != NULL || &dlsym == NULL) return linked;
    return dlsym(RTLD_DEFAULT, name);
}

static handler_t current_handler(void) {
    void *found = runtime((void *)get_new_handler, "_ZSt15get_new_handlerv");
    handler_t (*get)(void);
    *(void **)&get = found;
    return get != NULL ? get() : NULL;
}

static _Noreturn void out_of_memory(size_t size) {
    void *found = runtime((void *)throw_bad_alloc, "_ZSt17__throw_bad_allocv");
    void (*throw)(void);
    *(void **)&throw = found;
    if (throw != NULL) throw();
    na_warn("operator new: no memory for %u bytes, and no C++ runtime to throw std::bad_alloc",
            (uint64_t)size);
    na_os_abort();
}

/* The standard's loop: ask the handler to make room and try again, until there is none. The handler
 * may throw, or not return. NULL only when there is no handler. */
static NA_COLD void *retry(size_t size, size_t alignment, na_entry_t entry) {
    for (;;) {
        handler_t handler = current_handler();
        if (handler == NULL) return NULL;
        handler();
        void *block = na_alloc_aligned(alignment, size, entry);
        if (block != NULL) return block;
    }
}

static NA_COLD void *retry_or_throw(size_t size, size_t alignment, na_entry_t entry) {
    void *block = retry(size, alignment, entry);
    if (block == NULL) out_of_memory(size);
    return block;
}

/* A nothrow form must swallow what a handler throws, which C cannot do. libstdc++'s form can: it
 * calls operator new, which is ours, inside a try block. Without one (static, or another runtime) a
 * throwing handler ends as that runtime ends a broken noexcept. */
static NA_COLD void *fail_nothrow(size_t size, size_t alignment, na_entry_t entry, const char *name,
                                  const void *nothrow) {
    if (current_handler() == NULL) return NULL;
    void *found = &dlsym != NULL ? dlsym(RTLD_NEXT, name) : NULL;
    if (found == NULL) return retry(size, alignment, entry);
    if (alignment == NA_CLASS_STEP) {
        void *(*next)(size_t, const void *);
        *(void **)&next = found;
        return next(size, nothrow);
    }
    void *(*next)(size_t, size_t, const void *);
    *(void **)&next = found;
    return next(size, alignment, nothrow);
}

#define ONE   NA_ENTRY_NEW
#define ARRAY NA_ENTRY_NEW_ARRAY

/* --- forms that somebody has replaced, or calls before that is known (operators.h) --- */

static void *call_new(const na_operator_target_t *target, size_t n, size_t a, const void *t) {
    union {
        void *function;
        void *(*n)(size_t);
        void *(*nt)(size_t, const void *);
        void *(*na)(size_t, size_t);
        void *(*nat)(size_t, size_t, const void *);
    } call = {target->function};
    switch (target->shape) {
    case NA_NEW_NT:
        return call.nt(n, t);
    case NA_NEW_NA:
        return call.na(n, a);
    case NA_NEW_NAT:
        return call.nat(n, a, t);
    default:
        return call.n(n);
    }
}

static void call_delete(const na_operator_target_t *target, void *p, size_t n, size_t a,
                        const void *t) {
    union {
        void *function;
        void (*p)(void *);
        void (*pn)(void *, size_t);
        void (*pt)(void *, const void *);
        void (*pa)(void *, size_t);
        void (*pna)(void *, size_t, size_t);
        void (*pat)(void *, size_t, const void *);
    } call = {target->function};
    switch (target->shape) {
    case NA_DELETE_PN:
        call.pn(p, n);
        break;
    case NA_DELETE_PT:
        call.pt(p, t);
        break;
    case NA_DELETE_PA:
        call.pa(p, a);
        break;
    case NA_DELETE_PNA:
        call.pna(p, n, a);
        break;
    case NA_DELETE_PAT:
        call.pat(p, a, t);
        break;
    default:
        call.p(p);
        break;
    }
}

static NA_COLD void *new_asked(na_operator_t op, size_t n, size_t a, const void *t,
                               na_entry_t entry, const char *name) {
    const na_operator_target_t *target = na_operator_target(op);
    if (target->function != NULL) return call_new(target, n, a, t);
    void *block = na_alloc_aligned(a, n, entry);
    if (NA_LIKELY(block != NULL)) return block;
    return name != NULL ? fail_nothrow(n, a, entry, name, t) : retry_or_throw(n, a, entry);
}

static NA_COLD void delete_asked(na_operator_t op, void *p, size_t n, size_t a, const void *t,
                                 na_release_t how) {
    const na_operator_target_t *target = na_operator_target(op);
    if (target->function != NULL)
        call_delete(target, p, n, a, t);
    else if (na_path.is_of_form != NULL && !na_path.is_of_form(p, a > NA_CLASS_STEP))
        na_misuse(a > NA_CLASS_STEP ? "aligned delete, though plain new gave it, of"
                                    : "plain delete, though aligned new gave it, of",
                  p);
    else if (!na_sizes_count || !na_operator_is_sized(op) ||
             na_size_is_right(p, n, a > NA_CLASS_STEP ? a : NA_CLASS_STEP))
        na_release(p, how);
}

/* --- the forms; `name`: of a nothrow one, else NULL --- */

NA_INLINE void *new_plain(na_operator_t op, size_t n, const void *t, na_entry_t entry,
                          const char *name) {
    if (NA_UNLIKELY(n >= na_operator_limits[op]))
        return new_asked(op, n, NA_CLASS_STEP, t, entry, name);
    void *block = na_pop(na_bin_for(n));
    if (NA_UNLIKELY(block == NULL)) block = na_alloc_missed(n, entry, 0);
    if (NA_LIKELY(block != NULL)) return block;
    return name != NULL ? fail_nothrow(n, NA_CLASS_STEP, entry, name, t)
                        : retry_or_throw(n, NA_CLASS_STEP, entry);
}

NA_INLINE void *new_aligned(na_operator_t op, size_t n, size_t a, const void *t, na_entry_t entry,
                            const char *name) {
    if (NA_UNLIKELY(n >= na_operator_limits[op])) return new_asked(op, n, a, t, entry, name);
    void *block = na_alloc_aligned(a, n, entry);
    if (NA_LIKELY(block != NULL)) return block;
    return name != NULL ? fail_nothrow(n, a, entry, name, t) : retry_or_throw(n, a, entry);
}

NA_INLINE void release(na_operator_t op, void *p, size_t n, size_t a, const void *t,
                       na_release_t how) {
    uintptr_t address = (uintptr_t)p, page = na_home_page(address);
    if (NA_LIKELY(page < na_operator_limits[op]))
        na_free_tagged(p, na_home_tag(page), how);
    else if (na_is_address(address) && na_operator_limits[op] != 0)
        na_free_tagged(p, na_page_tag(address), how);
    else
        delete_asked(op, p, n, a, t, how);
}

/* Weak: a static program may have its own in their place. */
/* clang-format off */
#define CXX(result, symbol, ...)                                          \
    NA_EXPORT NA_AT_LINE __attribute__((weak)) result symbol(__VA_ARGS__); \
    extern __attribute__((alias(#symbol), visibility("hidden"))) result na_own##symbol(__VA_ARGS__); \
    result symbol(__VA_ARGS__)

CXX(void *, _Znwm, size_t n) { return new_plain(NA_OP_NEW, n, NULL, ONE, NULL); }
CXX(void *, _Znam, size_t n) { return new_plain(NA_OP_NEW_ARRAY, n, NULL, ARRAY, NULL); }
CXX(void *, _ZnwmRKSt9nothrow_t, size_t n, const void *t) { return new_plain(NA_OP_NEW_NOTHROW, n, t, ONE, "_ZnwmRKSt9nothrow_t"); }
CXX(void *, _ZnamRKSt9nothrow_t, size_t n, const void *t) { return new_plain(NA_OP_NEW_ARRAY_NOTHROW, n, t, ARRAY, "_ZnamRKSt9nothrow_t"); }
CXX(void *, _ZnwmSt11align_val_t, size_t n, size_t a) { return new_aligned(NA_OP_NEW_ALIGNED, n, a, NULL, ONE, NULL); }
CXX(void *, _ZnamSt11align_val_t, size_t n, size_t a) { return new_aligned(NA_OP_NEW_ARRAY_ALIGNED, n, a, NULL, ARRAY, NULL); }
CXX(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t n, size_t a, const void *t) { return new_aligned(NA_OP_NEW_ALIGNED_NOTHROW, n, a, t, ONE, "_ZnwmSt11align_val_tRKSt9nothrow_t"); }
CXX(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t n, size_t a, const void *t) { return new_aligned(NA_OP_NEW_ARRAY_ALIGNED_NOTHROW, n, a, t, ARRAY, "_ZnamSt11align_val_tRKSt9nothrow_t"); }

CXX(void, _ZdlPv, void *p) { release(NA_OP_DELETE, p, 0, 0, NULL, NA_RELEASE_DELETE); }
CXX(void, _ZdaPv, void *p) { release(NA_OP_DELETE_ARRAY, p, 0, 0, NULL, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvm, void *p, size_t n) { release(NA_OP_DELETE_SIZED, p, n, 0, NULL, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvm, void *p, size_t n) { release(NA_OP_DELETE_ARRAY_SIZED, p, n, 0, NULL, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvRKSt9nothrow_t, void *p, const void *t) { release(NA_OP_DELETE_NOTHROW, p, 0, 0, t, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvRKSt9nothrow_t, void *p, const void *t) { release(NA_OP_DELETE_ARRAY_NOTHROW, p, 0, 0, t, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvSt11align_val_t, void *p, size_t a) { release(NA_OP_DELETE_ALIGNED, p, 0, a, NULL, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvSt11align_val_t, void *p, size_t a) { release(NA_OP_DELETE_ARRAY_ALIGNED, p, 0, a, NULL, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvmSt11align_val_t, void *p, size_t n, size_t a) { release(NA_OP_DELETE_SIZED_ALIGNED, p, n, a, NULL, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvmSt11align_val_t, void *p, size_t n, size_t a) { release(NA_OP_DELETE_ARRAY_SIZED_ALIGNED, p, n, a, NULL, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, void *p, size_t a, const void *t) { release(NA_OP_DELETE_ALIGNED_NOTHROW, p, 0, a, t, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, void *p, size_t a, const void *t) { release(NA_OP_DELETE_ARRAY_ALIGNED_NOTHROW, p, 0, a, t, NA_RELEASE_DELETE_ARRAY); }
/* clang-format on */

/* Keeps the compiler from reading addresses two at a time from where the loader has put them: one
 * by one the linker knows most of them, and the loader has nothing to do. */
NA_INLINE void *where_it_is(void *function) {
    __asm__("" : "+r"(function));
    return function;
}

NA_COLD void na_operators_linked(na_operators_linked_t *to) {
#define X(form, symbol, shape, below)                                                              \
    to->ours[NA_OP_##form] = (void *)na_own##symbol;                                               \
    to->named[NA_OP_##form] = where_it_is((void *)symbol);
    NA_OPERATORS(X)
#undef X
}

#endif
