/* whose.c - finds who else is malloc. */
#include "alloc/interpose/whose.h"

#include <elf.h>
#include <fcntl.h>
#include <link.h>
#include <stdatomic.h>
#include <sys/syscall.h>

#include "alloc/core/malloc/api.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/interpose/loaded.h"
#include "pagemap/pagemap.h"

#ifndef NA_PREFIXED

typedef void *malloc_t(size_t size);
typedef void free_t(void *block);

typedef struct first {
    na_symbol_name_t malloc_name, free_name;
    malloc_t *malloc;
    free_t *free;
    bool program, numalloc;
} first_t;

/* By this a module is known that numalloc is linked into: what a program takes of a static library
 * has no name that others find. */
typedef struct elf_note {
    uint32_t name_bytes, content_bytes, type;
    char name[12]; /* a multiple of 4 */
} elf_note_t;

__attribute__((used, aligned(4), section(".note.numalloc"))) static const elf_note_t own_note = {
    sizeof "numalloc", 0, 1, "numalloc"};

static bool has_own_note(const na_loaded_t *module) {
    const ElfW(Phdr) *headers = module->headers;
    for (unsigned i = 0; i < module->header_count; i++) {
        if (headers[i].p_type != PT_NOTE) continue;
        const char *notes = (const char *)(module->base + headers[i].p_vaddr);
        for (size_t at = 0; at + sizeof own_note <= headers[i].p_memsz; at += 4)
            if (__builtin_memcmp(notes + at, &own_note, sizeof own_note) == 0) return true;
    }
    return false;
}

static char other[256];
static bool is_program; /* it is the program itself */
static enum { UNKNOWN, ASKING, KNOWN } state;

static void note_name(const char *name) {
    size_t n = 0;
    for (; name[n] != 0 && n < sizeof other - 1; n++)
        other[n] = name[n];
    other[n] = 0;
}

static bool note_module(const na_loaded_t *module, void *context) {
    first_t *first = context;
    void *found = na_loaded_function(module, &first->malloc_name);
    if (found == NULL) return true;
    if (found == (void *)malloc) return false;
    *(void **)&first->malloc = found;
    *(void **)&first->free = na_loaded_function(module, &first->free_name);
    first->program = module->name[0] == 0;
    first->numalloc = has_own_note(module);
    note_name(module->name);
    return false;
}

static first_t look_at_modules(void) {
    first_t first = {.malloc_name = na_symbol_name("malloc"), .free_name = na_symbol_name("free")};
    na_loaded_visit(note_module, &first);
    is_program = first.program;
    if (first.malloc != NULL && first.program) {
        long n = na_syscall(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)other,
                            sizeof other - 1, 0, 0);
        if (n > 0)
            other[n] = 0;
        else
            note_name("the program itself");
    }
    return first;
}

bool na_whose_init(void) {
    first_t first = look_at_modules();
    if (first.numalloc) return false;
    if (first.malloc != NULL && first.free != NULL) {
        state = ASKING; /* what comes to us meanwhile proves that ours is called */
        void *block = first.malloc(64);
        if (na_span_of(block) != NULL) other[0] = 0;
        first.free(block);
    }
    state = KNOWN;
    return true;
}

void na_whose_warn(void) {
    const char *name = na_whose_malloc();
    if (name[0] == 0) return;
    na_warn("malloc is that of %s, not numalloc's: no profile has its blocks, and options do "
            "nothing; %s",
            name,
            is_program ? "build the program without its allocator"
                       : "put libnumalloc.so.0 before it in LD_PRELOAD");
}

const char *na_whose_malloc(void) {
    if (state == ASKING) return "";
    if (state == UNKNOWN) {
        look_at_modules(); /* a profile begins before the library's constructor, or on request */
        state = KNOWN;
    }
    return other;
}

#else

bool na_whose_init(void) {
    return true;
}

void na_whose_warn(void) {}

const char *na_whose_malloc(void) {
    return "";
}

#endif
