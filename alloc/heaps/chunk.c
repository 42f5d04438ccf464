/* chunk.c - runs of pages out of mappings that are placed for a purpose. */
#include "alloc/heaps/chunk.h"

#include "alloc/core/central/central.h"
#include "alloc/core/machine/pressure.h"
#include "alloc/core/machine/topology.h"
#include "alloc/core/page/backing.h"
#include "alloc/core/page/free_pages.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/reserve.h"

/* Of a heap's chunks, for pages: the first so many. What had pages freed comes first. */
enum { LOOK_AT = 16 };

struct na_chunk {
    na_chunk_t *next, *prev;
    na_chunks_t *of;
    uintptr_t start;
    na_bits_t used, held;
};

static _Atomic(uint32_t) chunk_count;
NA_SPARSE static _Atomic(uint64_t) mapped_bytes[NA_MAX_NODES + 1], used_bytes[NA_MAX_NODES + 1];

static void add_bytes(_Atomic(uint64_t) *total, size_t more, size_t less) {
    atomic_fetch_add_explicit(total, more - less, memory_order_relaxed);
}

uint64_t na_chunks_mapped(unsigned node) {
    return atomic_load_explicit(&mapped_bytes[node], memory_order_relaxed);
}

uint64_t na_chunks_used(unsigned node) {
    return atomic_load_explicit(&used_bytes[node], memory_order_relaxed);
}

/* --- mapping --- */

static bool count_one(void) {
    if (atomic_fetch_add_explicit(&chunk_count, 1, memory_order_relaxed) < NA_CHUNKS_MOST)
        return true;
    atomic_fetch_sub_explicit(&chunk_count, 1, memory_order_relaxed);
    return false;
}

static void link_first(na_chunks_t *chunks, na_chunk_t *chunk) {
    chunk->prev = NULL;
    chunk->next = chunks->first;
    if (chunk->next != NULL) chunk->next->prev = chunk;
    chunks->first = chunk;
}

static void unlink_chunk(na_chunk_t *chunk) {
    if (chunk->prev != NULL)
        chunk->prev->next = chunk->next;
    else
        chunk->of->first = chunk->next;
    if (chunk->next != NULL) chunk->next->prev = chunk->prev;
}

static void place(const na_chunks_t *chunks, void *start) {
    if (chunks->turns != NULL)
        na_place_interleaved(start, NA_HUGE_SIZE, chunks->turns, NA_OS_NODES);
    else
        na_place(start, NA_HUGE_SIZE, chunks->node, na_place_binds(chunks->node));
    if (chunks->huge && !na_pressure_is_critical())
        na_os_hugepage(start, NA_HUGE_SIZE, true);
    else if (na_place_keeps_small())
        na_os_hugepage(start, NA_HUGE_SIZE, false);
}

/* A struct for a chunk, from those that are left over or new. */
static na_chunk_t *take_chunk_struct(na_chunks_t *chunks) {
    na_chunk_t *chunk = chunks->unused;
    if (chunk == NULL) return na_meta_alloc(sizeof *chunk, NA_CACHE_LINE);
    chunks->unused = chunk->next;
    *chunk = (na_chunk_t){0};
    return chunk;
}

static void leave_chunk_struct(na_chunks_t *chunks, na_chunk_t *chunk) {
    chunk->next = chunks->unused;
    chunks->unused = chunk;
}

static na_chunk_t *map_chunk(na_chunks_t *chunks) {
    if (!count_one()) return NULL;
    na_chunk_t *chunk = take_chunk_struct(chunks);
    void *start = chunk != NULL ? na_reserve_whole(NA_HUGE_SIZE, NA_HUGE_SIZE) : NULL;
    if (start != NULL) place(chunks, start);
    if (start == NULL || !na_os_commit(start, NA_HUGE_SIZE)) {
        if (start != NULL) na_os_unmap(start, NA_HUGE_SIZE);
        if (chunk != NULL) leave_chunk_struct(chunks, chunk);
        atomic_fetch_sub_explicit(&chunk_count, 1, memory_order_relaxed);
        return NULL;
    }
    chunk->of = chunks;
    chunk->start = (uintptr_t)start;
    link_first(chunks, chunk);
    add_bytes(&mapped_bytes[chunks->node], NA_HUGE_SIZE, 0);
    return chunk;
}

static void unmap(na_chunk_t *chunk) {
    unlink_chunk(chunk);
    na_os_unmap((void *)chunk->start, NA_HUGE_SIZE);
    add_bytes(&mapped_bytes[chunk->of->node], 0, NA_HUGE_SIZE);
    atomic_fetch_sub_explicit(&chunk_count, 1, memory_order_relaxed);
    leave_chunk_struct(chunk->of, chunk);
}

/* --- runs --- */

/* Where a run fits, in pages from the chunk's start: over memory that is there, if there is such a
 * place. */
static unsigned find_pages(const na_chunk_t *chunk, uint32_t pages) {
    na_bits_t free = na_bits_not(chunk->used), held = na_bits_and(free, chunk->held);
    unsigned at = na_bits_find_run(held, pages, 1);
    return at != NA_BITS_NONE ? at : na_bits_find_run(free, pages, 1);
}

static uintptr_t take(na_chunks_t *chunks, uint32_t pages, na_chunk_t **out) {
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT;
    if (!na_limit_charge(bytes)) return 0;
    unsigned at = NA_BITS_NONE;
    na_chunk_t *chunk = chunks->first;
    for (unsigned i = 0; i < LOOK_AT && chunk != NULL; i++, chunk = chunk->next)
        if ((at = find_pages(chunk, pages)) != NA_BITS_NONE) break;
    if (at == NA_BITS_NONE) {
        chunk = map_chunk(chunks);
        at = 0;
    }
    if (chunk == NULL) {
        na_limit_release(bytes);
        return 0;
    }
    na_bits_set(&chunk->used, at, pages);
    na_bits_set(&chunk->held, at, pages);
    add_bytes(&used_bytes[chunks->node], bytes, 0);
    *out = chunk;
    return chunk->start + ((uintptr_t)at << NA_PAGE_SHIFT);
}

/* One of the first few. */
static bool has_other_free(const na_chunk_t *chunk) {
    const na_chunk_t *other = chunk->of->first;
    for (unsigned i = 0; i < LOOK_AT && other != NULL; i++, other = other->next)
        if (other != chunk && na_bits_empty(&other->used)) return true;
    return false;
}

static void give(na_chunk_t *chunk, uintptr_t start, uint32_t pages) {
    size_t bytes = (size_t)pages << NA_PAGE_SHIFT;
    na_bits_clear(&chunk->used, (unsigned)((start - chunk->start) >> NA_PAGE_SHIFT), pages);
    add_bytes(&used_bytes[chunk->of->node], 0, bytes);
    na_limit_release(bytes);
    if (na_bits_empty(&chunk->used) && has_other_free(chunk)) {
        unmap(chunk);
    } else if (chunk != chunk->of->first) {
        unlink_chunk(chunk);
        link_first(chunk->of, chunk);
    }
}

void na_chunks_attach(void) {
    static na_chunk_source_t source; /* filled as it is wanted, like na_owners */
    source = (na_chunk_source_t){take, give};
    na_chunk_source = &source;
}

/* Free pages that hold memory, run by run. */
static size_t purge(na_chunk_t *chunk) {
    na_bits_t idle = na_bits_and(chunk->held, na_bits_not(chunk->used)), rest = na_bits_not(idle);
    size_t purged = 0;
    for (unsigned at = 0, end; (at = na_bits_next(&idle, at)) < NA_BITS; at = end) {
        end = na_bits_next(&rest, at);
        size_t bytes = (size_t)(end - at) << NA_PAGE_SHIFT;
        if (!na_os_purge((void *)(chunk->start + ((uintptr_t)at << NA_PAGE_SHIFT)), bytes))
            continue;
        na_bits_clear(&chunk->held, at, end - at);
        purged += bytes;
    }
    return purged;
}

size_t na_chunks_trim(na_chunks_t *chunks) {
    size_t bytes = 0;
    for (na_chunk_t *chunk = chunks->first, *next; chunk != NULL; chunk = next) {
        next = chunk->next;
        if (!na_bits_empty(&chunk->used)) {
            bytes += purge(chunk);
            continue;
        }
        bytes += (size_t)na_bits_count_all(&chunk->held) << NA_PAGE_SHIFT;
        unmap(chunk);
    }
    return bytes;
}
