/* use_verdicts.c - see use_verdicts.h. */
#include "profiler/analyze/policy/use_verdicts.h"

#include <math.h>
#include <stdlib.h>

#include "profiler/analyze/policy/rule_change.h"
#include "profiler/format/reader/reader_access.h"

/* ---- verdicts ---- */

/* The classes that sizes are rounded up to (alloc/core/central/block.c): by 16 bytes up to 256,
 * then eight for each doubling. */
#define FINE_CLASSES 16u
#define FINE_MOST    256.0
#define CLASSES      (FINE_CLASSES + 8 * 2) /* up to NA_USE_SIZE; larger blocks count as that */

static uint32_t class_of(double size) {
    if (size <= FINE_MOST) return size <= 16 ? 0 : (uint32_t)ceil(size / 16) - 1;
    uint32_t at = FINE_CLASSES;
    double base = FINE_MOST;
    for (; size > 2 * base && at + 8 < CLASSES; base *= 2)
        at += 8;
    double step = ceil((fmin(size, 2 * base) - base) / (base / 8));
    return at + (uint32_t)step - 1;
}

/* A site's bytes, evenly over the classes from its smallest block's to its largest one's. */
static void spread(const na_site_use_t *use, double *of_class) {
    uint32_t from = class_of(use->smallest), to = class_of(use->largest);
    for (uint32_t k = from; k <= to; k++)
        of_class[k] += use->bytes / (to - from + 1);
}

/* As if the blocks of one class came in no particular order. */
static double share_between(const na_uses_found_t *found) {
    double hot[CLASSES] = {0}, other[CLASSES] = {0}, between = 0, all = 0, used = 0;
    for (size_t i = 0; i < found->count; i++)
        if (found->items[i].hot) used += found->items[i].rate * found->items[i].bytes;
    for (size_t i = 0; i < found->count; i++) {
        const na_site_use_t *use = &found->items[i];
        bool idle = use->looks >= NA_USE_LOOKS && use->rate * found->hot < NA_USE_IDLE * used;
        if (use->bytes > 0 && (use->hot || idle)) spread(use, use->hot ? hot : other);
    }
    for (uint32_t k = 0; k < CLASSES; k++) {
        if (!(hot[k] > 0)) continue;
        between += hot[k] * other[k] / (hot[k] + other[k]);
        all += hot[k];
    }
    return all > 0 ? between / all : 0;
}

void na_uses_judge(na_uses_found_t *found) {
    *found = (na_uses_found_t){.items = found->items, .count = found->count};
    for (size_t i = 0; i < found->count; i++) {
        na_site_use_t *use = &found->items[i];
        na_bounds_t of_used = {0, 1};
        if (use->looks > 0) of_used = na_score_interval(use->used, use->looks);
        use->low = of_used.low;
        use->high = of_used.high;
        use->rate = use->window > 0 ? use->used / use->window : 0;
        found->looks += use->looks;
        found->bytes += use->bytes;
        bool may = use->may && use->bytes > 0 && use->cost <= NA_USE_COST;
        bool known = use->looks >= NA_USE_LOOKS;
        use->hot = may && known && use->low >= NA_USE_LEAST * use->window;
        if (may && !known) found->unknown += use->bytes;
        if (!use->hot) continue;
        found->hot += use->bytes;
        found->cost += use->cost;
    }
    found->between = share_between(found);
    found->say = found->hot < NA_USE_BYTES         ? NA_USES_LITTLE
                 : found->between < NA_USE_BETWEEN ? NA_USES_DENSE
                 : found->cost > NA_USE_COST       ? NA_USES_COSTLY
                                                   : NA_USES_GROUP;
    for (size_t i = 0; i < found->count && found->say != NA_USES_GROUP; i++)
        found->items[i].hot = false;
}

/* ---- of a profile ---- */

/* Of one site's windows: sums of weights, of their squares, of those that saw a use, and of
 * weighted lengths. */
typedef struct looks {
    double all, squares, used, ns;
} looks_t;

/* Windows without a block, or with one of which nothing is recorded, say nothing of a site.
 * `index`: by stack, its site plus 1. */
static void sum_windows(const na_access_t *access, const uint32_t *index, uint32_t stacks,
                        looks_t *of_site) {
    for (uint32_t i = 1; i < access->window_count; i++) {
        const na_nprof_access_window_t *w = &access->windows[i];
        if (w->length == 0 || w->object == 0 || w->object >= access->object_count) continue;
        const na_nprof_access_object_t *o = &access->objects[w->object];
        if (o->kind != NA_NPROF_OBJECT_HEAP || o->site >= stacks || index[o->site] == 0) continue;
        looks_t *to = &of_site[index[o->site] - 1];
        to->all += w->inverse;
        to->squares += w->inverse * w->inverse;
        to->ns += w->inverse * (double)w->watched_ns;
        if (w->hits != 0) to->used += w->inverse;
    }
}

static void fill_sites(const na_sites_t *sites, const na_lives_found_t *lives, double scale,
                       const looks_t *of_site, na_site_use_t *items) {
    for (size_t i = 0; i < sites->count; i++) {
        const na_counters_t *sum = &sites->items[i].sum;
        const na_site_life_t *life = &lives->items[i];
        const looks_t *looks = &of_site[i];
        na_site_use_t *use = &items[i];
        if (looks->squares > 0) {
            use->looks = looks->all * looks->all / looks->squares;
            use->used = looks->used / looks->all;
            use->window = looks->ns / looks->all * 1e-9;
        }
        double mean = sum->alloc_count > 0
                          ? (double)sum->alloc_bytes * scale / (double)sum->alloc_count
                          : INFINITY;
        if (!life->small || mean > NA_USE_SIZE) continue;
        use->bytes = (double)sum->peak_bytes;
        use->largest = (double)sum->size_max;
        use->smallest = fmin((double)sum->size_min, use->largest);
        use->cost = lives->run_s > 0 ? life->blocks * NA_USE_NS * 1e-9 / lives->run_s : INFINITY;
        use->may = life->is_long && sites->items[i].cells <= 1;
    }
}

static bool read_uses(na_reader_t *reader, const na_sites_t *sites, const na_lives_found_t *lives,
                      const na_access_t *access, na_uses_found_t *found) {
    uint32_t stacks = na_reader_stacks(reader).count;
    uint32_t *index = calloc((size_t)stacks + 1, sizeof *index);
    looks_t *of_site = calloc(sites->count + 1, sizeof *of_site);
    found->items = calloc(sites->count + 1, sizeof *found->items);
    found->count = sites->count;
    bool good = index != NULL && of_site != NULL && found->items != NULL;
    for (size_t i = 0; good && i < sites->count; i++)
        if (sites->items[i].site < stacks) index[sites->items[i].site] = (uint32_t)i + 1;
    if (good) {
        sum_windows(access, index, stacks, of_site);
        fill_sites(sites, lives, (double)na_reader_header(reader)->count_scale, of_site,
                   found->items);
        na_uses_judge(found);
    }
    free(index);
    free(of_site);
    return good;
}

bool na_use_verdicts(na_reader_t *reader, const na_sites_t *sites, const na_lives_found_t *lives,
                     na_uses_found_t *found) {
    *found = (na_uses_found_t){0};
    na_access_t access;
    if (!na_access_load(reader, &access)) return false;
    bool good = access.window_count <= 1 || read_uses(reader, sites, lives, &access, found);
    na_access_free(&access);
    return good;
}

void na_use_verdicts_free(na_uses_found_t *found) {
    free(found->items);
    *found = (na_uses_found_t){0};
}
