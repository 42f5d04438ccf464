/* tier_verdicts.c - see tier_verdicts.h. */
#include "profiler/analyze/policy/tier_verdicts.h"

#include <math.h>
#include <stdlib.h>

#define SURE 0.8 /* that a site which no sample met is cold */

static double density(const na_tier_site_t *s) {
    return s->bytes > 0 ? s->share / s->bytes : 0;
}

typedef struct ranked {
    na_tier_site_t *site;
} ranked_t;

/* More accesses per byte first; then the larger one, so that of sites which no sample met those
 * that are surely cold come first; then by place, so that the order never varies. */
static int by_density(const void *a, const void *b) {
    const na_tier_site_t *x = ((const ranked_t *)a)->site, *y = ((const ranked_t *)b)->site;
    double p = density(x), q = density(y);
    if (p != q) return p > q ? -1 : 1;
    if (x->bytes != y->bytes) return x->bytes > y->bytes ? -1 : 1;
    return (x > y) - (x < y);
}

/* Chance that no sample meets so many bytes with so many accesses each. */
static double unmet(double accesses_per_byte, double bytes, double draws) {
    return exp(-accesses_per_byte * bytes * draws);
}

/* Chance that `a` has more accesses per byte than `b`. Draws are Poisson counts: the logarithm of
 * the ratio of two has about the variance 1/n + 1/m. */
static double chance_denser(const na_tier_site_t *a, const na_tier_site_t *b, double draws) {
    if (!(a->draws > 0) && !(b->draws > 0)) return 0.5;
    if (!(b->draws > 0)) return 1 - unmet(density(a), b->bytes, draws);
    if (!(a->draws > 0)) return unmet(density(b), a->bytes, draws);
    double z = log(density(a) / density(b)) / sqrt(1 / a->draws + 1 / b->draws);
    return 0.5 * erfc(-z / sqrt(2));
}

static bool is_small_site(const na_tier_site_t *s, const na_tiers_t *tiers, double least) {
    return s->bytes < least * tiers->bytes && s->share < least;
}

static void leave_alone(na_tier_site_t *sites, size_t count, na_tiers_t *tiers,
                        na_tiers_say_t say) {
    for (size_t i = 0; i < count; i++)
        sites[i].tier = NA_TIER_ALONE;
    tiers->say = say;
    tiers->alone = tiers->bytes;
    tiers->near = 0;
}

/* Those that are not left alone, in order. */
static void fill_near(const ranked_t *order, size_t count, double budget, double draws,
                      na_tiers_t *tiers) {
    const na_tier_site_t *coldest = NULL;
    for (size_t i = 0; i < count; i++) {
        na_tier_site_t *s = order[i].site;
        s->left = fmax(0, budget - tiers->alone - tiers->near);
        bool fits = s->bytes <= s->left;
        if (s->draws > 0 && fits) {
            s->tier = NA_TIER_NEAR;
            tiers->near += s->bytes;
            coldest = s;
            continue;
        }
        /* Without a near site to compare with: with the mean. */
        double met = coldest != NULL ? density(coldest) : 1 / tiers->bytes;
        bool unsure = !(s->draws > 0) && 1 - unmet(met, s->bytes, draws) < SURE;
        s->tier = unsure && fits ? NA_TIER_ALONE : NA_TIER_FAR;
        if (s->tier == NA_TIER_ALONE) tiers->alone += s->bytes;
    }
    bool colder = false; /* something colder is near */
    for (size_t i = count; i-- > 0;) {
        order[i].site->too_large = order[i].site->tier == NA_TIER_FAR && colder;
        colder |= order[i].site->tier == NA_TIER_NEAR;
    }
}

static void find_chances(const ranked_t *order, size_t count, double draws) {
    const na_tier_site_t *other = NULL; /* the last one before it of the other tier */
    for (size_t i = 0; i < count; i++) {
        if (order[i].site->tier == NA_TIER_NEAR) other = order[i].site;
        order[i].site->chance = other == NULL ? 1 : chance_denser(other, order[i].site, draws);
    }
    other = NULL;
    for (size_t i = count; i-- > 0;) {
        if (order[i].site->tier == NA_TIER_FAR) other = order[i].site;
        if (order[i].site->tier != NA_TIER_NEAR) continue;
        order[i].site->chance = other == NULL ? 1 : chance_denser(order[i].site, other, draws);
    }
}

bool na_tiers_divide(na_tier_site_t *sites, size_t count, double budget, double draws, double least,
                     na_tiers_t *tiers) {
    *tiers = (na_tiers_t){.say = NA_TIERS_DIVIDED};
    for (size_t i = 0; i < count; i++)
        tiers->bytes += sites[i].bytes;
    if (tiers->bytes <= budget || draws < NA_TIER_DRAWS) {
        leave_alone(sites, count, tiers, tiers->bytes <= budget ? NA_TIERS_ALL_FIT : NA_TIERS_FEW);
        return true;
    }
    ranked_t *order = calloc(count + 1, sizeof *order);
    if (order == NULL) return false;
    size_t ordered = 0;
    for (size_t i = 0; i < count; i++) {
        sites[i].tier = NA_TIER_ALONE;
        /* Without bytes at the peak it takes no room then, whatever its accesses are. */
        if (sites[i].fixed || !(sites[i].bytes > 0) || is_small_site(&sites[i], tiers, least))
            tiers->alone += sites[i].bytes;
        else
            order[ordered++].site = &sites[i];
    }
    qsort(order, ordered, sizeof *order, by_density);
    fill_near(order, ordered, budget, draws, tiers);
    find_chances(order, ordered, draws);
    free(order);
    return true;
}
