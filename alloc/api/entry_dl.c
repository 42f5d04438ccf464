/* entry_dl.c - dlopen as the program calls it, without RTLD_DEEPBIND.
 *
 * A library opened with that flag looks for its symbols in itself and the libraries it needs first,
 * so it finds the C library's malloc and free although ours come first for everybody else. Blocks
 * then cross between two heaps: what the C library allocates on its behalf (strdup,
 * getline) is ours, and it frees that by the C library's free, which ends or corrupts the process.
 * PHP opens its extensions so. Hence the flag is taken away, unless NUMALLOC_DEEPBIND=1 says not
 * to: then na_free_foreign does what can be done.
 *
 * Shared library only, as entry_map.c. The real dlopen searches by its caller's RUNPATH and
 * namespace, which it tells by the return address: so this one must not appear as the caller, and
 * jumps there with its own caller's return address on top of the stack. */
#include <dlfcn.h>
#include <stdatomic.h>
#include <stddef.h>

#include "alloc/api/init.h"
#include "alloc/api/operators.h"
#include "alloc/policy/policy.h"
#include "alloc/sys/base.h"
#include "alloc/sys/options.h"

#ifndef NA_PREFIXED

typedef void *na_dlopen_t(const char *file, int flags);

/* Returned in two registers (rax, rdx). */
typedef struct next_dlopen {
    na_dlopen_t *function;
    unsigned long keep; /* of the flags */
} next_dlopen_t;

/* Called by the code below, hence not static. */
__attribute__((visibility("hidden"), used)) next_dlopen_t na_dlopen_next(void);

static void *none(const char *file, int flags) {
    (void)file, (void)flags;
    return NULL;
}

/* dlsym takes the loader's lock, as dlopen is about to; nothing of ours is locked. Two threads that
 * come here at once find the same. */
NA_COLD next_dlopen_t na_dlopen_next(void) {
    static _Atomic(na_dlopen_t *) found;
    na_init();
    na_dlopen_t *next = atomic_load_explicit(&found, memory_order_relaxed);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
        if (next == NULL) next = none;
        na_operators_before_dlopen();
        atomic_store_explicit(&found, next, memory_order_relaxed);
    }
    na_policy_bind_opened(); /* what came by then */
    unsigned drop = na_option(NA_OPT_DEEPBIND) ? 0 : RTLD_DEEPBIND;
    return (next_dlopen_t){.function = next, .keep = ~drop};
}

#ifdef __x86_64__
__asm__(".pushsection .text.unlikely.dlopen, \"ax\", @progbits\n"
        ".globl dlopen\n"
        ".type dlopen, @function\n"
        "dlopen:\n"
        "    .cfi_startproc\n"
        "    endbr64\n"
        "    pushq %rdi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    pushq %rsi\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    subq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset 8\n"
        "    call na_dlopen_next\n"
        "    addq $8, %rsp\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rsi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    popq %rdi\n"
        "    .cfi_adjust_cfa_offset -8\n"
        "    andl %edx, %esi\n"
        "    jmpq *%rax\n"
        "    .cfi_endproc\n"
        ".size dlopen, .-dlopen\n"
        ".popsection\n");
#else
/* A call in tail position: compilers make it a jump from -O2 on. */
NA_EXPORT void *dlopen(const char *file, int flags) {
    next_dlopen_t next = na_dlopen_next();
    return next.function(file, flags & (int)next.keep);
}
#endif

#endif
