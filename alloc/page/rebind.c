/* rebind.c - bringing pages back to their node, and looking up whether they came. */
#include "alloc/page/rebind.h"

#include <stdbool.h>

#include "alloc/machine/node_free.h"
#include "alloc/machine/place.h"
#include "alloc/machine/topology.h"
#include "alloc/page/free_pages.h"
#include "alloc/page/region.h"
#include "alloc/sys/os.h"

enum {
    ROOM_LEAST = 256, /* pages: with less the kernel could bring nothing back */
    BATCH = 64,       /* pages of the system that are looked up at a time */
};

/* False: one of these pages is resident elsewhere. Where the system does not say, none is. */
static bool are_on(unsigned node, void *pages[], unsigned n) {
    int status[BATCH];
    if (n == 0 || na_os_page_nodes(pages, n, status) < 0) return true;
    for (unsigned i = 0; i < n; i++)
        if (status[i] >= 0 && (unsigned)status[i] != na_node_system_id(node)) return false;
    return true;
}

static bool is_hugepage_on(unsigned node, uintptr_t start, const na_bits_t *used) {
    void *pages[BATCH];
    unsigned n = 0;
    for (uintptr_t at = start; at < start + NA_HUGE_SIZE; at += na_os_page) {
        unsigned page = (unsigned)((at - start) >> NA_PAGE_SHIFT);
        if (na_bits_next(used, page) != page) continue;
        pages[n++] = (void *)at;
        if (n < BATCH) continue;
        if (!are_on(node, pages, n)) return false;
        n = 0;
    }
    return are_on(node, pages, n);
}

/* All pages in use. Nothing beside mbind, which has just looked at every one of them, too. */
static bool is_in_place(unsigned node) {
    na_free_pages_t *s = &na_free_pages[node];
    na_lock(&s->lock);
    const na_region_t *region = s->regions; /* regions stay for ever */
    na_unlock(&s->lock);
    for (; region; region = region->next) {
        for (size_t i = 0;; i++) {
            const na_hugepage_t *hp = &region->hugepages[i];
            na_lock(&s->lock);
            bool is_open = i << NA_HUGE_SHIFT < region->frontier;
            na_bits_t used = is_open ? hp->used : (na_bits_t){{0}};
            na_unlock(&s->lock);
            if (!is_open) break;
            if (!is_hugepage_on(node, na_hugepage_start(hp), &used)) return false;
        }
    }
    return true;
}

static bool has_room(unsigned node) {
    return na_node_free(node) >> NA_PAGE_SHIFT >= ROOM_LEAST;
}

void na_placement_bring_back(unsigned node) {
    if (!na_pageheap_rebind(node) || (has_room(node) && !is_in_place(node)))
        na_topology_not_yet(node);
}
