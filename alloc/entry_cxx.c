/* entry_cxx.c - C++ operator new and delete, in C.
 *
 * They must be ours even though libstdc++'s would call our malloc: theirs cost a call more, and a
 * program may bind to them directly. When memory runs out the standard asks for the new_handler
 * loop and then std::bad_alloc; both live in the C++ runtime, which is looked up only then. Without
 * one, no code can have installed a handler or catch anything, and the program is ended with a
 * message. Exceptions pass through these frames: they hold nothing that needs unwinding. */
#include <dlfcn.h>
#include <stddef.h>

#include "alloc/api.h"
#include "alloc/base.h"
#include "alloc/cache.h"
#include "alloc/os.h"
#include "alloc/pageheap.h"
#include "alloc/print.h"

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

NA_INLINE void *new_plain(size_t size, na_entry_t entry) {
    void *block = na_alloc(size, entry);
    return NA_LIKELY(block != NULL) ? block : retry_or_throw(size, NA_CLASS_STEP, entry);
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

NA_INLINE void *new_nothrow(size_t size, na_entry_t entry, const char *name, const void *nothrow) {
    void *block = na_alloc(size, entry);
    if (NA_LIKELY(block != NULL)) return block;
    return fail_nothrow(size, NA_CLASS_STEP, entry, name, nothrow);
}

static void *new_aligned(size_t size, size_t alignment, na_entry_t entry) {
    void *block = na_alloc_aligned(alignment, size, entry);
    return NA_LIKELY(block != NULL) ? block : retry_or_throw(size, alignment, entry);
}

static void *new_aligned_nothrow(size_t size, size_t alignment, na_entry_t entry, const char *name,
                                 const void *nothrow) {
    void *block = na_alloc_aligned(alignment, size, entry);
    if (NA_LIKELY(block != NULL)) return block;
    return fail_nothrow(size, alignment, entry, name, nothrow);
}

#define ONE   NA_ENTRY_NEW
#define ARRAY NA_ENTRY_NEW_ARRAY

/* clang-format off */
#define CXX(result, mangled, ...) NA_EXPORT result mangled(__VA_ARGS__); result mangled(__VA_ARGS__)

CXX(void *, _Znwm, size_t n)                                            { return new_plain(n, ONE); }
CXX(void *, _Znam, size_t n)                                            { return new_plain(n, ARRAY); }
CXX(void *, _ZnwmRKSt9nothrow_t, size_t n, const void *t)               { return new_nothrow(n, ONE, "_ZnwmRKSt9nothrow_t", t); }
CXX(void *, _ZnamRKSt9nothrow_t, size_t n, const void *t)               { return new_nothrow(n, ARRAY, "_ZnamRKSt9nothrow_t", t); }
CXX(void *, _ZnwmSt11align_val_t, size_t n, size_t a)                   { return new_aligned(n, a, ONE); }
CXX(void *, _ZnamSt11align_val_t, size_t n, size_t a)                   { return new_aligned(n, a, ARRAY); }
CXX(void *, _ZnwmSt11align_val_tRKSt9nothrow_t, size_t n, size_t a, const void *t) { return new_aligned_nothrow(n, a, ONE, "_ZnwmSt11align_val_tRKSt9nothrow_t", t); }
CXX(void *, _ZnamSt11align_val_tRKSt9nothrow_t, size_t n, size_t a, const void *t) { return new_aligned_nothrow(n, a, ARRAY, "_ZnamSt11align_val_tRKSt9nothrow_t", t); }

CXX(void, _ZdlPv, void *p)                                              { na_release(p, NA_RELEASE_DELETE); }
CXX(void, _ZdaPv, void *p)                                              { na_release(p, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvm, void *p, size_t n)                                   { (void)n; na_release(p, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvm, void *p, size_t n)                                   { (void)n; na_release(p, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvRKSt9nothrow_t, void *p, const void *t)                 { (void)t; na_release(p, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvRKSt9nothrow_t, void *p, const void *t)                 { (void)t; na_release(p, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvSt11align_val_t, void *p, size_t a)                     { (void)a; na_release(p, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvSt11align_val_t, void *p, size_t a)                     { (void)a; na_release(p, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvmSt11align_val_t, void *p, size_t n, size_t a)          { (void)n; (void)a; na_release(p, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvmSt11align_val_t, void *p, size_t n, size_t a)          { (void)n; (void)a; na_release(p, NA_RELEASE_DELETE_ARRAY); }
CXX(void, _ZdlPvSt11align_val_tRKSt9nothrow_t, void *p, size_t a, const void *t) { (void)a; (void)t; na_release(p, NA_RELEASE_DELETE); }
CXX(void, _ZdaPvSt11align_val_tRKSt9nothrow_t, void *p, size_t a, const void *t) { (void)a; (void)t; na_release(p, NA_RELEASE_DELETE_ARRAY); }
/* clang-format on */

#endif
