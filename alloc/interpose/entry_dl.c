/* entry_dl.c - dlopen as the program calls it, without RTLD_DEEPBIND.
 *
 * A library opened with that flag looks for its symbols in itself and the libraries it needs first,
 * so it finds the C library's malloc and free although ours come first for everybody else. Blocks
 * then cross between two heaps: what the C library allocates on its behalf (strdup,
 * getline) is ours, and it frees that by the C library's free, which ends or corrupts the process.
 * PHP opens its extensions so. Hence the flag is taken away, unless NUMALLOC_DEEPBIND=1 says not
 * to: then na_free_foreign does what can be done.
 *
 * Shared library only, as entry_map.c. The real dlopen searches by its caller's RUNPATH, which it
 * tells by the return address: so this one must not appear as the caller, and jumps there with its
 * own caller's return address on top of the stack.
 *
 * Under a policy it is to come back here, so that what was opened is bound before the program goes
 * on. It is called as usual then, where the caller makes no difference: for a path, or for a name
 * that no RUNPATH is asked about. (Nor does the namespace: a library that is preloaded is in the
 * first one only, and only its calls come here.) Else what was opened is bound by the next call. */
#include <dlfcn.h>
#include <elf.h>
#include <errno.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <string.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/options.h"
#include "alloc/core/thread/attach.h"
#include "alloc/interpose/loaded.h"
#include "alloc/interpose/operators.h"

#if !defined(NA_PREFIXED) && defined(RTLD_DEEPBIND) /* musl has no such flag */

typedef void *na_dlopen_t(const char *file, int flags);

/* Returned in two registers (rax, rdx). */
typedef struct next_dlopen {
    na_dlopen_t *function;
    unsigned long keep; /* of the flags */
} next_dlopen_t;

/* Called by the code below, hence not static. */
__attribute__((visibility("hidden"), used)) next_dlopen_t
na_dlopen_next(const char *file, int flags, const void *caller);

static _Atomic(na_dlopen_t *) real;

static void *none(const char *file, int flags) {
    (void)file, (void)flags;
    return NULL;
}

/* --- under a policy --- */

static void *open_and_bind(const char *file, int flags) {
    void *handle = atomic_load_explicit(&real, memory_order_relaxed)(file, flags);
    if (handle == NULL) return NULL; /* dlerror says why */
    int kept = errno;
    na_loaded_opened();
    errno = kept;
    return handle;
}

typedef struct search {
    uintptr_t caller;
    bool by_caller; /* it may matter who calls */
} search_t;

/* RPATH counts for all that the module has brought, RUNPATH for itself. */
static bool look_for_path(const na_loaded_t *module, void *arg) {
    search_t *search = arg;
    bool calls = false;
    const ElfW(Dyn) *entry = NULL;
    const ElfW(Phdr) *headers = module->headers;
    for (unsigned i = 0; i < module->header_count; i++) {
        uintptr_t at = module->base + headers[i].p_vaddr;
        if (headers[i].p_type == PT_DYNAMIC) entry = (const ElfW(Dyn) *)at;
        if (headers[i].p_type == PT_LOAD && search->caller - at < headers[i].p_memsz) calls = true;
    }
    for (; entry != NULL && entry->d_tag != DT_NULL; entry++)
        if (entry->d_tag == DT_RPATH || (entry->d_tag == DT_RUNPATH && calls))
            search->by_caller = true;
    return !search->by_caller;
}

static bool caller_matters(const char *file, const void *caller) {
    if (file == NULL || strchr(file, '$') != NULL) return true;
    if (strchr(file, '/') != NULL) return false;
    search_t search = {.caller = (uintptr_t)caller};
    na_loaded_visit(look_for_path, &search);
    return search.by_caller;
}

/* --- all calls --- */

/* dlsym takes the loader's lock, as dlopen is about to; nothing of ours is locked. Two threads that
 * come here at once find the same. */
NA_COLD next_dlopen_t na_dlopen_next(const char *file, int flags, const void *caller) {
    (void)flags;
    na_init();
    na_dlopen_t *next = atomic_load_explicit(&real, memory_order_relaxed);
    if (next == NULL) {
        *(void **)&next = dlsym(RTLD_NEXT, "dlopen");
        if (next == NULL) next = none;
        na_operators_before_dlopen();
        atomic_store_explicit(&real, next, memory_order_relaxed);
    }
    if (NA_UNLIKELY(na_loaded_opened != NULL) && na_loaded_opened() && /* what came by other ways */
        !caller_matters(file, caller))
        next = open_and_bind;
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
        "    movq 24(%rsp), %rdx\n"
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
    next_dlopen_t next = na_dlopen_next(file, flags, __builtin_return_address(0));
    return next.function(file, flags & (int)next.keep);
}
#endif

#endif
