/* place.c - binding and huge-page advice. */
#include "alloc/place.h"

#include "alloc/options.h"
#include "alloc/os.h"
#include "alloc/topology.h"

bool na_place_binds(unsigned node) {
    uint64_t mode = na_option(NA_OPT_NUMA);
    return na_node_count > 1 && node < na_node_count &&
           (mode == NA_NUMA_PREFERRED || mode == NA_NUMA_STRICT);
}

bool na_place(void *start, size_t size, unsigned node, bool bind) {
    bool strict = na_option(NA_OPT_NUMA) == NA_NUMA_STRICT;
    bool bound = bind && na_os_bind(start, size, na_node_system_id(node), strict) >= 0;
    uint64_t huge = na_option(NA_OPT_HUGEPAGES);
    if (huge != NA_HUGE_KEEP) na_os_hugepage(start, size, huge == NA_HUGE_ALWAYS);
    return bound;
}
