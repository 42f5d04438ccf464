/* reserve.c - pieces of address space: finding a place, growing, giving back the end; memory for
 * tables.
 */
#include "alloc/core/sys/reserve.h"

#include <stdatomic.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/tuned.h"

/* Used memory is made part of core files by so much at a time. What is and what is not are two
 * mappings to the system, and it makes no huge page across their border: where it makes them
 * unasked, or they are always asked for, larger pieces go by whole ones. */
#define DUMP_STEP       ((size_t)NA_LITTLE_BYTES)
#define DUMP_STEP_LARGE (2 * DUMP_STEP) /* of pieces that have: */
#define LARGE           ((size_t)2 << 20)

static bool files;       /* may be opened */
static bool huge_always; /* huge pages are always asked for */

/* The word in brackets is in force, unless the process (or one that it is a child of) refuses. */
static NA_COLD na_huge_grant_t look_at_huge_pages(void) {
    char text[64];
    if (!files ||
        na_os_ask_file("/sys/kernel/mm/transparent_hugepage/enabled", text, sizeof text) <= 0)
        return NA_HUGE_GRANT_UNKNOWN;
    if (na_os_refuses_huge()) return NA_HUGE_GRANT_NEVER;
    const char *at = text;
    while (*at != 0 && *at != '[')
        at++;
    return at[0] == 0     ? NA_HUGE_GRANT_UNKNOWN
           : at[1] == 'a' ? NA_HUGE_GRANT_UNASKED
           : at[1] == 'm' ? NA_HUGE_GRANT_ASKED
                          : NA_HUGE_GRANT_NEVER;
}

na_huge_grant_t na_reserve_huge_grant(void) {
    static _Atomic(int) known;
    int grant = atomic_load_explicit(&known, memory_order_relaxed);
    if (grant == 0) /* the same for all who come here at once */
        atomic_store_explicit(&known, grant = (int)look_at_huge_pages(), memory_order_relaxed);
    return (na_huge_grant_t)grant;
}

static size_t large_step(void) {
    na_huge_grant_t grant = na_reserve_huge_grant();
    bool whole = grant == NA_HUGE_GRANT_UNASKED || grant == NA_HUGE_GRANT_UNKNOWN || huge_always;
    return whole ? NA_RESERVE_UNIT : DUMP_STEP_LARGE;
}

static na_lock_t reserve_lock; /* guards `reserved` of all pieces, and the list */
static na_reserve_t *pieces;

_Atomic(bool) na_reserve_limited;

static void set_limited(bool limited) {
    atomic_store_explicit(&na_reserve_limited, limited, memory_order_relaxed);
}

void na_reserve_init(bool may_open, bool asks_for_huge) {
    files = may_open;
    huge_always = asks_for_huge;
    set_limited(na_os_space_limit() != UINT64_MAX);
}

static void set_opened(na_reserve_t *piece, size_t opened) {
    __atomic_store_n(&piece->opened, opened, __ATOMIC_RELAXED);
}

static size_t unit_up(size_t bytes) {
    return na_align_up(bytes, NA_RESERVE_UNIT);
}

/* Not all of `most` can be mapped, even for a moment. The system puts what is mapped next below
 * what it mapped last: far enough below that, `most` is likely free. */
static NA_COLD uintptr_t find_below(size_t first, size_t most) {
    void *probe = na_os_reserve(first, na_os_page);
    if (probe == NULL) return 0;
    uintptr_t at = (uintptr_t)probe;
    na_os_unmap(probe, first);
    if (at > 2 * most) {
        at = na_align_down(at + first - most, NA_RESERVE_UNIT);
        if (na_os_reserve_exactly((void *)at, first) == 0) return at;
    }
    return (uintptr_t)na_os_reserve(first, NA_RESERVE_UNIT);
}

bool na_reserve_find(na_reserve_t *piece, size_t first, size_t most) {
    uintptr_t start = (uintptr_t)na_os_reserve_part(first, most, NA_RESERVE_UNIT);
    if (start == 0) {
        set_limited(true);
        start = find_below(first, most);
    }
    if (start == 0 && na_reserve_give_back()) start = find_below(first, most);
    if (start == 0) return false;
    na_os_dump((void *)start, first, false);
    *piece = (na_reserve_t){.start = start, .reserved = first, .most = most};
    return true;
}

void na_reserve_drop(na_reserve_t *piece) {
    na_os_unmap((void *)piece->start, piece->reserved);
}

/* With the lock. */
static void unlink_piece(const na_reserve_t *piece) {
    for (na_reserve_t **link = &pieces; *link != NULL; link = &(*link)->next)
        if (*link == piece) {
            *link = piece->next;
            return;
        }
}

void na_reserve_join(na_reserve_t *piece) {
    na_lock(&reserve_lock);
    piece->next = pieces;
    pieces = piece;
    na_unlock(&reserve_lock);
}

void na_reserve_forget(na_reserve_t *piece) {
    na_lock(&reserve_lock);
    unlink_piece(piece);
    na_unlock(&reserve_lock);
}

void na_reserve_leave(na_reserve_t *piece) {
    na_lock(&reserve_lock);
    unlink_piece(piece);
    na_os_unmap((void *)piece->start, piece->reserved);
    piece->reserved = 0;
    set_opened(piece, 0);
    na_unlock(&reserve_lock);
}

/* With the lock. But for the hugepage that will be opened next: its mapping is what grows. */
static NA_COLD bool return_address_space(const na_reserve_t *but) {
    bool some = false;
    for (na_reserve_t *piece = pieces; piece != NULL; piece = piece->next) {
        size_t keep = unit_up(piece->opened + 1);
        if (piece == but || piece->reserved <= keep) continue;
        na_os_unmap((void *)(piece->start + keep), piece->reserved - keep);
        piece->reserved = keep;
        some = true;
    }
    return some;
}

bool na_reserve_give_back(void) {
    na_lock(&reserve_lock);
    bool some = return_address_space(NULL);
    na_unlock(&reserve_lock);
    return some;
}

void na_reserve_see_limit(uint64_t limit) {
    set_limited(limit != UINT64_MAX);
    if (limit != UINT64_MAX) (void)na_reserve_give_back();
}

/* The inaccessible end grows where it is, and keeps what was said of it; where that cannot be, a
 * mapping of the same kind comes behind it. With the lock. */
static NA_COLD na_reserve_result_t grow_to(na_reserve_t *piece, size_t to, na_reserve_place_t place,
                                           void *owner) {
    size_t end = piece->reserved - piece->opened;
    char *behind = (char *)piece->start + piece->reserved;
    if (end == 0 || !na_os_resize((char *)piece->start + piece->opened, end, to - piece->opened)) {
        long result = na_os_reserve_exactly(behind, to - piece->reserved);
        if (result != 0) return result == NA_OS_TAKEN ? NA_RESERVE_TAKEN : NA_RESERVE_REFUSED;
        na_os_dump(behind, to - piece->reserved, false);
        place(owner, behind, to - piece->reserved);
    }
    piece->reserved = to;
    return NA_RESERVE_DONE;
}

/* At least `to` bytes are to be reserved: that and what is wanted ahead, else a little ahead, else
 * just that. */
static NA_COLD na_reserve_result_t reserve_more(na_reserve_t *piece, size_t to, size_t ahead,
                                                na_reserve_place_t place, void *owner) {
    const size_t aheads[] = {ahead, NA_RESERVE_UNIT, 0};
    na_reserve_result_t result = NA_RESERVE_REFUSED;
    size_t tried = 0;
    for (unsigned i = 0; i < 3; i++) {
        size_t wish = unit_up(to + aheads[i]);
        if (wish > piece->most) wish = piece->most;
        if (wish == tried) continue;
        result = grow_to(piece, tried = wish, place, owner);
        if (result == NA_RESERVE_DONE) return result;
    }
    if (result == NA_RESERVE_REFUSED) set_limited(true);
    if (result == NA_RESERVE_REFUSED && return_address_space(piece))
        result = grow_to(piece, tried, place, owner);
    return result;
}

/* With the lock: the piece is reserved up to `to`, and beyond if it may grow: what is left at its
 * end can be resized, and needs not be placed anew. */
static na_reserve_result_t reach(na_reserve_t *piece, size_t to, size_t ahead,
                                 na_reserve_place_t place, void *owner) {
    na_reserve_result_t result = NA_RESERVE_DONE;
    if (to > piece->most) return NA_RESERVE_TAKEN;
    if (to >= piece->reserved && piece->reserved < piece->most)
        result = reserve_more(piece, to, ahead, place, owner);
    if (result == NA_RESERVE_TAKEN) piece->most = piece->reserved;
    return to <= piece->reserved ? NA_RESERVE_DONE : result;
}

na_reserve_result_t na_reserve_open(na_reserve_t *piece, size_t to, size_t ahead,
                                    na_reserve_place_t place, void *owner) {
    na_lock(&reserve_lock);
    na_reserve_result_t result = reach(piece, to, ahead, place, owner);
    if (result == NA_RESERVE_DONE) {
        void *from = (void *)(piece->start + piece->opened);
        if (na_os_commit(from, to - piece->opened))
            set_opened(piece, to);
        else
            result = NA_RESERVE_REFUSED;
    }
    na_unlock(&reserve_lock);
    return result;
}

void na_reserve_shrink(na_reserve_t *piece, size_t to) {
    na_lock(&reserve_lock);
    na_os_unmap((void *)(piece->start + to), piece->reserved - to);
    piece->reserved = to;
    set_opened(piece, to);
    if (piece->dumped > to) piece->dumped = to;
    na_unlock(&reserve_lock);
}

na_reserve_result_t na_reserve_claim(na_reserve_t *piece, size_t to, size_t ahead,
                                     na_reserve_place_t place, void *owner) {
    na_lock(&reserve_lock);
    na_reserve_result_t result = reach(piece, to, ahead, place, owner);
    if (result == NA_RESERVE_DONE && to > piece->opened) set_opened(piece, to);
    na_unlock(&reserve_lock);
    return result;
}

void *na_reserve_whole(size_t bytes, size_t alignment) {
    void *start = na_os_reserve(bytes, alignment);
    if (start == NULL && na_reserve_give_back()) start = na_os_reserve(bytes, alignment);
    return start;
}

void na_reserve_each(na_reserve_t *piece, size_t from, na_reserve_place_t place, void *owner) {
    na_lock(&reserve_lock);
    if (from < piece->reserved) place(owner, (char *)piece->start + from, piece->reserved - from);
    na_unlock(&reserve_lock);
}

size_t na_reserve_bytes(const na_reserve_t *piece) {
    na_lock(&reserve_lock);
    size_t bytes = piece->reserved;
    na_unlock(&reserve_lock);
    return bytes;
}

void na_reserve_dump_to(na_reserve_t *piece, size_t to) {
    size_t step = piece->dumped < LARGE ? DUMP_STEP : large_step();
    to = na_align_up(to, step);
    if (to > piece->opened) to = piece->opened;
    if (to <= piece->dumped) return;
    na_os_dump((void *)(piece->start + piece->dumped), to - piece->dumped, true);
    piece->dumped = to;
}

void na_reserve_after_fork_child(void) {
    for (na_reserve_t **link = &pieces; *link != NULL;)
        if ((*link)->not_in_children)
            *link = (*link)->next;
        else
            link = &(*link)->next;
    na_lock_reset(&reserve_lock);
}

/* --- memory for tables: a bump allocator --- */

#define FIRST_CHUNK ((size_t)NA_LITTLE_BYTES / 4) /* what a small program needs in all */
#define CHUNK       ((size_t)NA_LITTLE_BYTES)
#define OWN_MAPPING                                                                                \
    ((size_t)NA_LITTLE_BYTES / 4) /* from here on: bounds what the end of a chunk wastes */

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
