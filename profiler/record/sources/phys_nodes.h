/* phys_nodes.h - which node a physical address is on, as /sys says: memory is there in blocks of
 * one size, each of them listed with its node. What comes later (hot-plugged) is not known. Used by
 * the access thread only. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_PHYS_NODES_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_PHYS_NODES_H

#include "profiler/record/access/access_priv.h"

/* Reads it, for this profile. False: the system does not say, or there is no memory for it. */
bool na_phys_nodes_start(void);
/* Dense; NA_NPROF_NO_NODE: not known. */
int16_t na_phys_node(uint64_t physical);

#endif
