/* place.c - binding and huge-page advice. */
#include "alloc/machine/place.h"

#include <errno.h>

#include "alloc/machine/topology.h"
#include "alloc/sys/bits256.h"
#include "alloc/sys/options.h"
#include "alloc/sys/os.h"
#include "alloc/sys/reserve.h"

_Atomic(bool) na_place_small_pages;

bool na_place_binds(unsigned node) {
    uint64_t mode = na_option(NA_OPT_NUMA);
    return na_node_many && node < na_node_count && mode != NA_NUMA_UNBOUND && mode != NA_NUMA_OFF;
}

bool na_place_spills(unsigned node) {
    return na_place_binds(node) && na_option(NA_OPT_NUMA) != NA_NUMA_STRICT;
}

static bool place_on(void *start, size_t size, unsigned node, bool move) {
    uint64_t mode = na_option(NA_OPT_NUMA);
    na_bind_t how = mode == NA_NUMA_STRICT     ? NA_BIND_STRICT
                    : mode == NA_NUMA_BALANCED ? NA_BIND_BALANCED
                                               : NA_BIND_PREFERRED;
    long result = na_os_bind(start, size, node, how, move);
    if (result == -EINVAL && how == NA_BIND_BALANCED)
        result = na_os_bind(start, size, node, NA_BIND_PREFERRED, move);
    return result >= 0;
}

static void advise(void *start, size_t size) {
    bool small = atomic_load_explicit(&na_place_small_pages, memory_order_relaxed);
    uint64_t huge = NA_UNLIKELY(small) ? NA_HUGE_NEVER : na_option(NA_OPT_HUGEPAGES);
    if (huge >= NA_HUGE_ALWAYS) na_os_hugepage(start, size, huge == NA_HUGE_ALWAYS);
}

bool na_place_keeps_small(void) {
    return na_option(NA_OPT_HUGEPAGES) == NA_HUGE_AUTO &&
           na_reserve_huge_grant() == NA_HUGE_GRANT_UNASKED;
}

bool na_place(void *start, size_t size, unsigned node, bool bind) {
    bool bound = bind && place_on(start, size, na_node_system_id(node), false);
    advise(start, size);
    return bound;
}

bool na_place_by_touch(void *start, size_t size) {
    bool done = na_option(NA_OPT_NUMA) == NA_NUMA_BALANCED ||
                na_os_bind(start, size, 0, NA_BIND_LOCAL, false) >= 0;
    advise(start, size);
    return done;
}

bool na_place_back(void *start, size_t size, unsigned node) {
    return place_on(start, size, na_node_system_id(node), true);
}

/* Huge pages are dealt out whole: with few of them for a node the shares would be uneven. */
bool na_place_interleaved(void *start, size_t size, const uint64_t *set, unsigned nodes) {
    enum { HUGE_PAGES_EACH = 16, HUGE = 2 << 20 };
    unsigned members = 0;
    for (unsigned i = 0; i < (nodes + 63) / 64; i++)
        members += na_bits_in_word(set[i]);
    bool bound = na_node_many && na_os_interleave(start, size, set, nodes) >= 0;
    advise(start, size);
    if (na_node_many && na_option(NA_OPT_HUGEPAGES) <= NA_HUGE_KEEP &&
        size / HUGE < (size_t)members * HUGE_PAGES_EACH)
        na_os_hugepage(start, size, false);
    return bound;
}
