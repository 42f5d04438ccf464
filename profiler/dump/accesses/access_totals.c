/* access_totals.c - sums over the accesses of a view. See access_totals.h. */
#include "profiler/dump/accesses/access_totals.h"

#include <stdlib.h>

bool na_access_totals_make(const na_access_view_t *view, na_access_totals_t *all) {
    const na_flows_t *f = &view->flows;
    size_t nodes = f->node_count;
    *all = (na_access_totals_t){.pair = calloc(nodes * nodes + 1, sizeof *all->pair),
                                .step = calloc(nodes * NA_ACCESS_STEPS + 1, sizeof *all->step),
                                .step_ns = (f->end_ns - f->start_ns) / NA_ACCESS_STEPS + 1};
    if (all->pair == NULL || all->step == NULL) return false;
    for (uint32_t i = 0; i < f->count; i++) {
        const na_touch_t *a = &f->items[i];
        if (a->source != view->verdicts.source) continue;
        all->level[a->level] += a->weight;
        all->levels += a->weight;
        if (!na_access_view_has(view, a)) continue;
        na_touch_sum_add(&all->sum, f, a);
        na_touch_sum_add(&all->kind[f->objects[a->object].kind], f, a);
        if (na_touch_has_nodes(a))
            na_touch_sum_add(&all->pair[(size_t)a->from * nodes + (size_t)a->home], f, a);
        uint64_t step = (a->ns - f->start_ns) / all->step_ns;
        if (step >= NA_ACCESS_STEPS) step = NA_ACCESS_STEPS - 1;
        if (a->home >= 0) all->step[(size_t)a->home * NA_ACCESS_STEPS + step] += a->weight;
        if (na_touch_is_remote(a)) all->step_remote[step] += a->weight;
        all->step_all[step] += a->weight;
    }
    return true;
}

void na_access_totals_free(na_access_totals_t *all) {
    free(all->pair);
    free(all->step);
}
