/* base.h - the few macros that every part of the library shares.
 *
 * Depends on nothing but the compiler, so that any file may include it first. */
#ifndef NUMALLOC_ALLOC_CORE_SYS_BASE_H
#define NUMALLOC_ALLOC_CORE_SYS_BASE_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define NA_LIKELY(x)   __builtin_expect(!!(x), 1)
#define NA_UNLIKELY(x) __builtin_expect(!!(x), 0)

/* Slow paths are kept out of line so that the hot path needs no stack frame. */
#define NA_NOINLINE __attribute__((noinline))
#define NA_COLD     __attribute__((noinline, cold))
#define NA_INLINE   static inline __attribute__((always_inline))

/* A zeroed table of which most processes touch little: it lies away from the variables that all
 * touch (layout.ld). */
#define NA_SPARSE __attribute__((section(".bss.sparse")))

/* A zeroed variable that every process touches as it starts or ends, whether or not it calls
 * malloc: it lies behind the data, on a page that the loader has written to (layout.ld). */
#define NA_FIRST __attribute__((section(".bss.first")))

/* Part of the dynamic symbol table (see alloc/numalloc.map for the full list). */
#define NA_EXPORT __attribute__((visibility("default")))

#if defined(__has_feature) && !defined(__SANITIZE_THREAD__) /* clang */
#if __has_feature(thread_sanitizer)
#define __SANITIZE_THREAD__ 1 /* gcc's word for it */
#endif
#endif
/* A function that on purpose reads what other threads change meanwhile: ThreadSanitizer looks away.
 */
#ifdef __SANITIZE_THREAD__
#define NA_RACY __attribute__((no_sanitize("thread")))
#else
#define NA_RACY
#endif

/* A variable of the library that is read where instructions are counted: the compiler takes it from
 * where it is, not from an address that it looks up. (-fvisibility says it of definitions only.) */
#define NA_NEAR __attribute__((visibility("hidden")))

#define NA_CACHE_LINE 64

/* A function of two lines of code or a few: begins with one, so that how many it has does not
 * depend on what was compiled before it (one more is 8 % of a malloc and free). */
#define NA_AT_LINE __attribute__((aligned(NA_CACHE_LINE)))

/* User addresses lie below 2^47 on x86-64, and below 2^48 on aarch64 (more only where a program
 * asks mmap for it; we do not). */
#ifdef __x86_64__
#define NA_ADDRESS_BITS 47
#else
#define NA_ADDRESS_BITS 48
#endif

/* One word of static TLS; the only model that never calls __tls_get_addr (which can allocate). */
#define NA_TLS _Thread_local __attribute__((tls_model("initial-exec")))

NA_INLINE uintptr_t na_align_up(uintptr_t x, uintptr_t alignment) {
    return (x + alignment - 1) & ~(alignment - 1);
}

NA_INLINE uintptr_t na_align_down(uintptr_t x, uintptr_t alignment) {
    return x & ~(alignment - 1);
}

NA_INLINE bool na_is_pow2(uintptr_t x) {
    return x != 0 && (x & (x - 1)) == 0;
}

/* gcc has the instruction only with a flag; processors without it (Intel before 2014) pass it by.
 */
NA_INLINE void na_prefetch_to_write(const void *address) {
#ifdef __x86_64__
    __asm__ volatile("prefetchw (%0)" : : "r"(address));
#else
    __builtin_prefetch(address, 1);
#endif
}

/* A function's result, as soon as it is known: kept where it is returned. (gcc would have another
 * pointer there, and move this one in the end.) */
#ifdef __x86_64__
#define NA_AS_RETURNED(pointer) __asm__("" : "+a"(pointer))
#else
#define NA_AS_RETURNED(pointer) ((void)0)
#endif

/* How many bits are set. (The compiler's builtin is a call of its library where the processor may
 * lack the instruction, of a function that lies far from ours: layout.ld.) */
NA_INLINE unsigned na_bits_in_word(uint64_t word) {
    word -= word >> 1 & 0x5555555555555555;
    word = (word & 0x3333333333333333) + (word >> 2 & 0x3333333333333333);
    word = (word + (word >> 4)) & 0x0f0f0f0f0f0f0f0f;
    return (unsigned)(word * 0x0101010101010101 >> 56);
}

#endif
