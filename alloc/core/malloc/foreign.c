/* foreign.c - recognising the C library's blocks, and handing them over. */
#include "alloc/core/malloc/foreign.h"

#include <dlfcn.h>
#include <errno.h>
#include <stdbool.h>
#include <stdint.h>
#include <sys/syscall.h>

#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/track/misuse.h"

#pragma weak dlsym

NA_FIRST static uintptr_t break_at_start; /* the program break before anybody moved it */

static uintptr_t program_break(void) {
    return (uintptr_t)na_syscall(SYS_brk, 0, 0, 0, 0, 0, 0);
}

void na_foreign_init(void) {
    break_at_start = program_break();
}

/* --- what glibc's blocks look like (its malloc.c and arena.c; unchanged since 2.26) ---
 *
 *   | size of the block before | size of this one, flags in bits 0..2 | block ...
 *                                                                     ^ multiple of 16
 * The words are read only after the system said that they can be. */

enum { IS_MAPPED = 2, IN_THREAD_ARENA = 4, FLAGS = 7 };
#define ARENA_HEAP_SIZE ((uintptr_t)64 << 20) /* and alignment */

typedef struct arena_heap {
    void *arena;
    void *previous;
    size_t size;
} arena_heap_t;

/* A mapping of its own: it begins and ends on pages. */
static bool is_mapped_block(uintptr_t at, size_t before, size_t size) {
    return (size & FLAGS) == IS_MAPPED && before < at &&
           ((at - 16 - before) | (before + (size & ~(size_t)FLAGS))) % na_os_page == 0;
}

/* In a thread's arena: its heap begins 64 MiB aligned, names the arena, and reaches this
 * far. */
static bool is_arena_block(uintptr_t at, size_t size) {
    const arena_heap_t *heap = (const arena_heap_t *)na_align_down(at, ARENA_HEAP_SIZE);
    return (size & IN_THREAD_ARENA) != 0 && na_os_readable(heap) && na_os_readable(&heap->size) &&
           heap->size <= ARENA_HEAP_SIZE && heap->size > at - (uintptr_t)heap &&
           na_os_readable(heap->arena);
}

static bool is_libc_block(uintptr_t at) {
    if (at % 16 != 0 || na_pageheap_node_of(at) != NA_NO_NODE) return false;
    /* We never move the break, so what lies between belongs to the C library. */
    if (break_at_start != 0 && at >= break_at_start && at < program_break()) return true;
    const size_t *header = (const size_t *)at - 2;
    if (!na_os_readable(header) || !na_os_readable(header + 1)) return false;
    return is_mapped_block(at, header[0], header[1]) || is_arena_block(at, header[1]);
}

/* The C library's own function, if the address is one of its blocks. NULL in static programs, which
 * have no other heap. dlsym takes the loader's lock and may allocate, which is safe here:
 * no lock of ours is held, and no other call of a correct program comes this way. */
static void *libc_function(const char *name, const void *address) {
    na_init();
    if (&dlsym == NULL || !is_libc_block((uintptr_t)address)) return NULL;
    int saved = errno;
    void *found = dlsym(RTLD_NEXT, name);
    errno = saved;
    return found;
}

void na_free_foreign(void *address) {
    void (*libc_free)(void *);
    *(void **)&libc_free = libc_function("free", address);
    if (libc_free != NULL)
        libc_free(address);
    else
        na_misuse("free of", address);
}

void *na_realloc_foreign(void *address, size_t size) {
    void *(*libc_realloc)(void *, size_t);
    *(void **)&libc_realloc = libc_function("realloc", address);
    if (libc_realloc != NULL) return libc_realloc(address, size);
    na_misuse("realloc of", address);
    return NULL;
}
