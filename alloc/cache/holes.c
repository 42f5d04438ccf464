/* holes.c - when a thread cache looks for holes, and which spans it opens. */
#include "alloc/cache/holes.h"

#include "alloc/central/central.h"
#include "alloc/central/mixed.h"
#include "alloc/central/span_list.h"
#include "alloc/page/pageheap.h"
#include "alloc/page/pressure.h"
#include "alloc/sys/meta.h"

enum {
    OPEN_AT_ONCE = 4, /* spans opened before a look whether that will do */
    SPARSE_PART = 8,  /* of what a node holds, at least, is in sparse spans before any are opened */
    SPARSE_REST = 64, /* once some are, they go on to be until so little is */
    TAKES_TO_COOL = 32, /* between two looks which classes are still drawn from; */
    OWNED_TAKES = 4,    /* so many times less for owned classes, of which a thread cache has few */
    TAKES_LOW = 4,      /* and under memory pressure */
};

/* Which of a set of classes are still drawn from. A node's of pooled classes are read and written
 * without a lock: what comes of a race is a span opened too early, or too late. */
typedef struct watch {
    uint32_t takes; /* from holes */
    uint64_t pages; /* as last looked at: in sparse spans of classes not drawn from; */
    bool opening;   /* they are worth it; */
    uint64_t cold;  /* by class: those that have some left, then */
    uint32_t drawn[NA_CLASS_COUNT]; /* na_span_list_t.takes at the last look */
} watch_t;

NA_SPARSE static watch_t pooled[NA_MAX_NODES + 1];

/* What a thread cache knows of its own classes, and its mixed spans. */
struct na_holes {
    na_mixer_t *mixer;
    watch_t owned;
};

static const na_span_list_t *set_of(const na_tcache_t *tcache, unsigned cls) {
    return na_classes[cls].pooled ? na_central_spans(tcache->node, cls) : &tcache->spans[cls];
}

/* Which classes were not drawn from since the last look; none if sparse spans are but a small part
 * of what the node holds: then their holes are not worth that frees there cost more. (What other
 * thread caches have of owned classes is guessed to be what this one has.) */
NA_RACY static void look(const na_tcache_t *tcache, volatile watch_t *watch, bool of_pooled) {
    uint64_t pages = 0, cold = 0;
    for (unsigned cls = 1; cls < NA_MIX_CLASSES; cls++) {
        if (na_classes[cls].pooled != of_pooled) continue;
        if (!of_pooled && tcache->states[cls].cap == 0) continue;
        const na_span_list_t *spans = set_of(tcache, cls);
        uint32_t takes = *(volatile const uint32_t *)&spans->takes;
        if (takes == watch->drawn[cls] && takes != 0) {
            cold |= UINT64_C(1) << cls;
            pages +=
                (uint64_t) * (volatile const uint32_t *)&spans->sparse * na_classes[cls].span_pages;
        }
        watch->drawn[cls] = takes;
    }
    watch->pages = of_pooled ? pages : pages * na_tcache_attached();
    pages = ((const volatile watch_t *)&tcache->holes->owned)->pages +
            ((const volatile watch_t *)&pooled[tcache->node])->pages;
    uint32_t part = watch->opening ? SPARSE_REST : SPARSE_PART;
    watch->opening = na_pressure_is_low() ||
                     pages * part << NA_PAGE_SHIFT >= na_pageheap_committed_on(tcache->node);
    watch->cold = watch->opening ? cold : 0;
}

/* A draw from holes. */
NA_RACY static void pass(const na_tcache_t *tcache, volatile watch_t *watch, bool of_pooled) {
    uint32_t least = of_pooled ? TAKES_TO_COOL : TAKES_TO_COOL / OWNED_TAKES;
    if (watch->takes++ % (na_pressure_is_low() ? TAKES_LOW : least) == 0)
        look(tcache, watch, of_pooled);
}

static bool open_one(na_tcache_t *tcache, unsigned cls) {
    if (na_classes[cls].pooled) return na_central_open(tcache->holes->mixer, tcache->node, cls);
    return na_span_list_open(na_tcache_spans(tcache, cls), tcache->holes->mixer);
}

NA_RACY static unsigned open_cold(na_tcache_t *tcache, volatile watch_t *watch, unsigned opened) {
    uint64_t cold;
    while (opened < OPEN_AT_ONCE && (cold = watch->cold) != 0) {
        unsigned cls = (unsigned)__builtin_ctzll(cold);
        if (open_one(tcache, cls))
            opened++;
        else
            watch->cold &= ~(UINT64_C(1) << cls);
    }
    return opened;
}

/* Some sparse span of a class that is not drawn from. */
static bool open_some(na_tcache_t *tcache) {
    unsigned opened = open_cold(tcache, &tcache->holes->owned, 0);
    return open_cold(tcache, &pooled[tcache->node], opened) != 0;
}

bool na_holes_are_wanted(const na_tcache_t *tcache, uint32_t pages) {
    return na_pageheap_committed_on(tcache->node) >= NA_HOLES_LEAST &&
           (na_pressure_is_low() || !na_pageheap_has_dirty(tcache->node, pages)) && !na_every_event;
}

/* Racing guesses: others may just now bring blocks home. */
NA_RACY static bool has_none(const na_tcache_t *tcache) {
    return na_mixer_is_empty(tcache->holes->mixer) &&
           ((const volatile watch_t *)&tcache->holes->owned)->cold == 0 &&
           ((const volatile watch_t *)&pooled[tcache->node])->cold == 0;
}

static bool begin_holes(na_tcache_t *tcache) {
    na_mixer_t *mixer = na_mixer_make(tcache->id);
    na_holes_t *holes = mixer != NULL ? na_meta_alloc(sizeof *holes, NA_CACHE_LINE) : NULL;
    if (holes == NULL) return false;
    holes->mixer = mixer;
    tcache->holes = holes;
    return true;
}

void *na_holes_take(na_tcache_t *tcache, unsigned cls, uint32_t want, uint32_t *got) {
    *got = 0;
    if (cls >= NA_MIX_CLASSES || (tcache->holes == NULL && !begin_holes(tcache))) return NULL;
    pass(tcache, &tcache->holes->owned, false);
    pass(tcache, &pooled[tcache->node], true);
    for (;;) {
        if (has_none(tcache)) return NULL;
        void *blocks = na_mixer_take(tcache->holes->mixer, cls, want, got);
        if (blocks != NULL || !open_some(tcache)) return blocks;
    }
}
