/* meta.c - the bump allocator of meta.h. */
#include "alloc/sys/meta.h"

#include <stdatomic.h>

#include "alloc/sys/base.h"
#include "alloc/sys/lock.h"
#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"

#define FIRST_CHUNK ((size_t)64 << 10) /* what a small program needs in all */
#define CHUNK       ((size_t)256 << 10)
#define OWN_MAPPING ((size_t)64 << 10) /* from here on: bounds what the end of a chunk wastes */

static na_lock_t meta_lock;
static uintptr_t cursor; /* next free byte of the current chunk, under meta_lock */
static uintptr_t limit;  /* its end */
static _Atomic(uint64_t) mapped;

bool na_meta_guarded;

/* Between two pages that nobody can reach. */
static NA_COLD void *map_guarded(size_t size) {
    char *start = na_os_reserve(size + 2 * na_os_page, na_os_page);
    if (start == NULL) return NULL;
    if (na_os_commit(start + na_os_page, size)) {
        na_os_hugepage(start + na_os_page, size, false);
        return start + na_os_page;
    }
    na_os_unmap(start, size + 2 * na_os_page);
    return NULL;
}

static void *map(size_t size) {
    return NA_UNLIKELY(na_meta_guarded) ? map_guarded(size) : na_os_map(size);
}

static uintptr_t map_counted(size_t size) {
    void *start = map(size);
    if (start == NULL && na_reserve_give_back()) start = map(size);
    if (start != NULL) atomic_fetch_add_explicit(&mapped, size, memory_order_relaxed);
    return (uintptr_t)start;
}

void *na_meta_alloc(size_t size, size_t alignment) {
    if (!na_is_pow2(alignment) || alignment > na_os_page || size > SIZE_MAX / 2) return NULL;
    if (size >= OWN_MAPPING) return (void *)map_counted(na_align_up(size, na_os_page));
    if (size == 0) size = 1; /* results stay distinct */

    uintptr_t block = 0;
    na_lock(&meta_lock);
    uintptr_t start = na_align_up(cursor, alignment);
    if (cursor == 0 || start > limit || size > limit - start) {
        size_t chunk = na_align_up(limit == 0 ? FIRST_CHUNK : CHUNK, na_os_page);
        start = map_counted(chunk);
        if (start != 0) limit = start + chunk;
    }
    if (start != 0) {
        block = start;
        cursor = start + size;
    }
    na_unlock(&meta_lock);
    return (void *)block;
}

uint64_t na_meta_bytes(void) {
    return atomic_load_explicit(&mapped, memory_order_relaxed);
}

void na_meta_after_fork_child(void) {
    /* A thread that was inside at the fork may have left cursor and limit of different chunks: the
     * child begins a new chunk rather than trust them. */
    if (atomic_load_explicit(&meta_lock.word, memory_order_relaxed) != 0 &&
        !na_lock_is_mine(&meta_lock)) {
        cursor = 0;
        limit = 0;
    }
    na_lock_reset(&meta_lock);
}
