/* remap.c - moving the memory of free hugepages to where it is wanted. */
#include "alloc/page/remap.h"

#include <stdatomic.h>

#include "alloc/page/purge.h"
#include "alloc/sys/os.h"

enum {
    PLACES_MOST = 8192, /* hugepages that memory was ever moved to: each may be two mappings more */
    REFUSALS_MOST = 8,  /* of the system, before it is no longer asked */
    AT_ONCE = 8,        /* hugepages a system call, so that page faults elsewhere wait little */
};

static _Atomic(uint32_t) places;

static const na_bits_t all_pages = {{~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0), ~UINT64_C(0)}};

/* The hugepages of a run that was just taken. The last one may belong to it in part. */
typedef struct target {
    na_hugepage_t *hp, *end;
    unsigned rest; /* pages of the run in the last one; 0: all of them are whole */
} target_t;

static bool is_partial(const target_t *t, const na_hugepage_t *hp) {
    return t->rest != 0 && hp + 1 == t->end;
}

/* Whether memory may be moved there: it holds none, and there are places left. */
static bool is_place(const target_t *t, const na_hugepage_t *hp) {
    if (!hp->was_clean ||
        (!hp->remapped && atomic_load_explicit(&places, memory_order_relaxed) >= PLACES_MOST))
        return false;
    /* Others may have taken from what the run has left over, and given back. */
    return !is_partial(t, hp) ||
           (na_bits_empty(&hp->dirty) && !na_bits_any(&hp->used, t->rest, NA_HUGE_PAGES - t->rest));
}

static bool is_source(const na_hugepage_t *hp) {
    return hp->region != NULL && hp->list == NA_LIST_EMPTY_DIRTY;
}

/* How many hugepages from t->hp on can have the memory of those from `from` on. A place that memory
 * was moved to is moved by itself, because the system moves no more than one mapping at a time. */
static unsigned count_pairs(const target_t *t, const na_hugepage_t *from) {
    const na_region_t *region = from->region;
    size_t most = (region->size >> NA_HUGE_SHIFT) - (size_t)(from - region->hugepages);
    if (most > (size_t)(t->end - t->hp)) most = (size_t)(t->end - t->hp);
    if (most > AT_ONCE) most = AT_ONCE;
    unsigned n = 1;
    while (n < most && !from[0].remapped && !from[n].remapped && is_source(&from[n]) &&
           is_place(t, &t->hp[n]))
        n++;
    return n;
}

static void mark_moved(na_hugepage_t *hp) {
    hp->was_clean = false;
    if (hp->remapped) return;
    hp->remapped = true;
    atomic_fetch_add_explicit(&places, 1, memory_order_relaxed);
}

/* With the lock, which it lets go meanwhile. */
static na_os_remap_t move_some(na_free_pages_t *s, const target_t *t, na_hugepage_t *from,
                               unsigned n) {
    for (unsigned i = 0; i < n; i++)
        na_pages_isolate(s, &from[i], all_pages);
    na_hugepage_t *last = &t->hp[n - 1];
    na_bits_t over = {{0, 0, 0, 0}}; /* free pages of the last one */
    if (is_partial(t, last)) na_bits_set(&over, t->rest, NA_HUGE_PAGES - t->rest);
    if (!na_bits_empty(&over)) na_pages_isolate(s, last, over);
    na_unlock(&s->lock);

    void *target = (void *)na_hugepage_start(t->hp);
    size_t bytes = (size_t)n << NA_HUGE_SHIFT;
    bool fresh;
    na_os_remap_t result = na_os_remap((void *)na_hugepage_start(from), bytes, target, &fresh);
    if (fresh) na_region_place(last->region, target, bytes);

    na_lock(&s->lock);
    for (unsigned i = 0; i < n; i++) {
        na_pages_restore(s, &from[i], all_pages, result != NA_OS_REMAP_DONE);
        if (result == NA_OS_REMAP_DONE) mark_moved(&t->hp[i]);
    }
    /* What was lost stays marked as in use. */
    if (!na_bits_empty(&over) && result != NA_OS_REMAP_LOST)
        na_pages_restore(s, last, over, result == NA_OS_REMAP_DONE);
    return result;
}

/* Gives back the run but for n hugepages from t->hp on, whose addresses are no longer ours. */
static void give_back_rest(na_free_pages_t *s, const target_t *t, na_hugepage_t *first,
                           unsigned n) {
    uint64_t now = atomic_load_explicit(&s->clock, memory_order_relaxed);
    for (na_hugepage_t *hp = first; hp < t->end; hp++)
        if (hp < t->hp || hp >= t->hp + n)
            na_pages_give(s, hp, 0, is_partial(t, hp) ? t->rest : NA_HUGE_PAGES, now);
}

na_remap_t na_remap(na_free_pages_t *s, uintptr_t start, uint32_t pages) {
    na_remap_t outcome = NA_REMAP_NONE;
    if (start % NA_HUGE_SIZE != 0) return outcome; /* then it is a short one */
    na_lock(&s->lock);
    na_hugepage_t *first = na_region_hugepage(start);
    unsigned rest = pages % NA_HUGE_PAGES;
    target_t t = {first, first + pages / NA_HUGE_PAGES + (rest != 0), rest};
    while (t.hp < t.end && s->empty_dirty.head && s->remap_refusals < REFUSALS_MOST &&
           na_purge_exceeds(s)) {
        if (!is_place(&t, t.hp)) {
            t.hp++;
            continue;
        }
        na_hugepage_t *from = s->empty_dirty.head;
        unsigned n = count_pairs(&t, from);
        switch (move_some(s, &t, from, n)) {
        case NA_OS_REMAP_DONE:
            outcome = NA_REMAP_SOME;
            break;
        case NA_OS_REMAP_REFUSED:
            s->remap_refusals++;
            break;
        case NA_OS_REMAP_LOST:
            s->remap_refusals = REFUSALS_MOST;
            give_back_rest(s, &t, first, n);
            na_unlock(&s->lock);
            return NA_REMAP_LOST;
        }
        t.hp += n;
    }
    na_unlock(&s->lock);
    return outcome;
}
