/* figures.h - figures by name: what numalloc_get, numalloc_set and numalloc_stats_json are made of.
 *
 * One table, figures.def. Figures are gathered when somebody asks (stats.h), so each call of
 * numalloc_get gathers all of its group: a few microseconds, more with thousands of threads. */
#ifndef NUMALLOC_ALLOC_API_FIGURES_H
#define NUMALLOC_ALLOC_API_FIGURES_H

#include <stddef.h>
#include <stdint.h>

#include "alloc/api/stats.h"

enum {
#define NA_FIGURE(name, kind, unit, meaning, value) NA_FIGURE_##name,
#include "alloc/api/figures.def"
    NA_FIGURES
};
enum {
#define NA_NODE_FIGURE(name, kind, unit, meaning, value) NA_NODE_FIGURE_##name,
#include "alloc/api/figures.def"
    NA_NODE_FIGURES
};
enum {
#define NA_CLASS_FIGURE(name, kind, unit, meaning, value) NA_CLASS_FIGURE_##name,
#include "alloc/api/figures.def"
    NA_CLASS_FIGURES
};

/* Physical memory of the process, as the kernel counts; 0: it does not say. */
uint64_t na_resident_bytes(void);

/* In the order of the table. `node` is dense, or the pseudo-node. */
void na_figures_of_process(const na_totals_t *totals, uint64_t out[NA_FIGURES]);
void na_figures_of_node(unsigned node, uint64_t out[NA_NODE_FIGURES]);

#endif
