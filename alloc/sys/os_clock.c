/* os_clock.c - the system's clocks, read where the kernel maps the code for it into every process
 * (its vDSO), without a system call.
 *
 * Not by libc's clock_gettime: programs and preloaded libraries replace it (libfaketime), and
 * theirs allocate, which would come back here with our locks held; or stand still, and we would
 * wait for ever. Where the kernel maps no such code or its symbols are not as expected, the clocks
 * are read by system call. */
#include "alloc/sys/os.h"

#include <elf.h>
#include <link.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <sys/auxv.h>
#include <sys/syscall.h>
#include <time.h>

#include "alloc/sys/base.h"

#if defined(__aarch64__)
#define SYMBOL "__kernel_clock_gettime"
#else
#define SYMBOL "__vdso_clock_gettime"
#endif

typedef int clock_call_t(clockid_t id, struct timespec *t);

static int by_system_call(clockid_t id, struct timespec *t) {
    return (int)na_syscall(SYS_clock_gettime, id, (long)t, 0, 0, 0, 0);
}

static bool is_symbol(const char *name) {
    const char *want = SYMBOL;
    while (*name == *want && *want != 0)
        name++, want++;
    return *name == *want;
}

/* Names begin where the table of symbols ends: so every linker has laid them out. Were it
 * otherwise, nothing would be found. */
static clock_call_t *find_symbol(const ElfW(Dyn) * dynamic, uintptr_t bias) {
    const ElfW(Sym) *symbol = NULL;
    const char *names = NULL;
    for (; dynamic->d_tag != DT_NULL; dynamic++) {
        uintptr_t at = bias + dynamic->d_un.d_ptr;
        if (dynamic->d_tag == DT_SYMTAB) symbol = (const ElfW(Sym) *)at;
        if (dynamic->d_tag == DT_STRTAB) names = (const char *)at;
    }
    if (symbol == NULL || names == NULL) return NULL;
    for (; (uintptr_t)(symbol + 1) <= (uintptr_t)names; symbol++) {
        if (symbol->st_shndx != SHN_UNDEF && is_symbol(names + symbol->st_name))
            return (clock_call_t *)(bias + symbol->st_value);
    }
    return NULL;
}

static clock_call_t *find_clock(void) {
    uintptr_t image = getauxval(AT_SYSINFO_EHDR), bias = 0;
    if (image == 0) return NULL;
    const ElfW(Ehdr) *header = (const ElfW(Ehdr) *)image;
    const ElfW(Phdr) *part = (const ElfW(Phdr) *)(image + header->e_phoff);
    const ElfW(Dyn) *dynamic = NULL;
    bool loaded = false;
    for (unsigned i = 0; i < header->e_phnum; i++) {
        if (part[i].p_type == PT_LOAD && !loaded) {
            bias = image + part[i].p_offset - part[i].p_vaddr;
            loaded = true;
        }
        if (part[i].p_type == PT_DYNAMIC) dynamic = (const ElfW(Dyn) *)(image + part[i].p_offset);
    }
    return loaded && dynamic != NULL ? find_symbol(dynamic, bias) : NULL;
}

/* Threads that come here at once find the same. */
static NA_COLD clock_call_t *choose(_Atomic(clock_call_t *) *chosen) {
    clock_call_t *call = find_clock();
    if (call == NULL) call = by_system_call;
    atomic_store_explicit(chosen, call, memory_order_relaxed);
    return call;
}

static void read_clock(clockid_t id, struct timespec *t) {
    static _Atomic(clock_call_t *) chosen;
    clock_call_t *call = atomic_load_explicit(&chosen, memory_order_relaxed);
    if (NA_UNLIKELY(call == NULL)) call = choose(&chosen);
    if (NA_UNLIKELY(call(id, t) != 0)) *t = (struct timespec){0, 0};
}

uint64_t na_os_ms(void) {
    struct timespec t;
    read_clock(CLOCK_MONOTONIC_COARSE, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

uint64_t na_os_ns(void) {
    struct timespec t;
    read_clock(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}
