/* estimate.c - see estimate.h. */
#include "profiler/analyze/accesses/estimate.h"

#include <math.h>
#include <stdlib.h>

#include "profiler/containers/array.h"

#define TAIL 0.025 /* on each side */

/* ---- the gamma distribution ---- */

/* P(shape, x), the lower incomplete gamma function over the whole: by its series below the mean,
 * else by the continued fraction of the rest (Lentz). Good to some 1e-12. */
static double gamma_below(double shape, double x) {
    if (!(x > 0)) return 0;
    double scale = exp(shape * log(x) - x - lgamma(shape));
    if (x < shape + 1) {
        double term = 1 / shape, sum = term;
        for (double n = shape + 1; term > sum * 1e-14; n++)
            sum += term *= x / n;
        return fmin(1, sum * scale);
    }
    double b = x + 1 - shape, c = 1e300, d = 1 / b, h = d;
    for (double i = 1; i < 1e6; i++) {
        double an = -i * (i - shape);
        b += 2;
        d = an * d + b;
        c = b + an / c;
        if (fabs(d) < 1e-300) d = 1e-300;
        if (fabs(c) < 1e-300) c = 1e-300;
        d = 1 / d;
        h *= d * c;
        if (fabs(d * c - 1) < 1e-14) break;
    }
    return fmax(0, 1 - h * scale);
}

typedef struct law {
    double shape, scale;
} law_t;

static law_t law_of(double mean, double variance) {
    return (law_t){mean * mean / variance, variance / mean};
}

/* Where the even mixture of two gamma distributions reaches a probability. */
static double quantile(law_t a, law_t b, double wanted) {
    double low = 0, high = b.shape * b.scale;
    while (gamma_below(a.shape, high / a.scale) + gamma_below(b.shape, high / b.scale) < 2 * wanted)
        high *= 2;
    for (unsigned i = 0; i < 60; i++) { /* halves until a double has no more digits */
        double middle = (low + high) / 2;
        double there =
            (gamma_below(a.shape, middle / a.scale) + gamma_below(b.shape, middle / b.scale)) / 2;
        *(there < wanted ? &low : &high) = middle;
    }
    return (low + high) / 2;
}

na_interval_t na_watched_interval(double sum, double squares, double most, uint32_t rounds,
                                  uint64_t all) {
    na_interval_t to = {.sum = sum, .low = NAN, .high = NAN, .rounds = rounds};
    if (!(sum > 0) || !(squares > 0) || !(most > 0) || !isfinite(sum) || !isfinite(squares))
        return to;
    /* The mean of the rounds is no variance. But never less is left than one round's worth. */
    double variance = squares;
    if (all > 1) {
        double n = (double)all, least = squares / rounds;
        variance = (squares - sum * sum / n) * (n / (n - 1));
        if (variance < least) variance = least;
    }
    law_t met = law_of(sum, variance);
    law_t one_more = law_of(sum + most, variance + most * most);
    to.low = quantile(met, one_more, TAIL);
    to.high = quantile(one_more, one_more, 1 - TAIL);
    return to;
}

/* ---- rounds ---- */

void na_watched_add(na_watched_t *estimate, const na_touch_t *a) {
    if (a->round == 0) {
        estimate->sampled = true;
        return;
    }
    if (!NA_ARRAY_RESERVE(estimate->items, estimate->room, estimate->count + 1u)) {
        estimate->failed = true;
        return;
    }
    /* The hits of a round follow each other: they are summed as they come. */
    uint64_t round = (uint64_t)a->process << 32 | a->round;
    double kept = a->weight * (1 - (double)a->if_kept / NA_TOUCH_PARTS);
    if (estimate->count != 0 && estimate->items[estimate->count - 1].round == round) {
        estimate->items[estimate->count - 1].weight += a->weight;
        estimate->items[estimate->count - 1].kept += kept;
    } else {
        estimate->items[estimate->count++] = (struct na_watched_item){round, a->weight, kept};
    }
}

static int by_round(const void *a, const void *b) {
    uint64_t x = ((const struct na_watched_item *)a)->round;
    uint64_t y = ((const struct na_watched_item *)b)->round;
    return x < y ? -1 : x > y;
}

typedef struct sums {
    double sum, squares, most;
    uint32_t rounds;
} sums_t;

static void add_round(sums_t *to, double weight) {
    if (!(weight > 0)) return;
    to->sum += weight;
    to->squares += weight * weight;
    if (weight > to->most) to->most = weight;
    to->rounds++;
}

na_interval_t na_watched_take(na_watched_t *estimate, const na_flows_t *set) {
    sums_t late = {0}, kept = {0};
    if (estimate->count != 0)
        qsort(estimate->items, estimate->count, sizeof *estimate->items, by_round);
    for (size_t i = 0; i < estimate->count;) {
        uint64_t round = estimate->items[i].round;
        double weight = 0, if_kept = 0;
        for (; i < estimate->count && estimate->items[i].round == round; i++) {
            weight += estimate->items[i].weight;
            if_kept += estimate->items[i].kept;
        }
        add_round(&late, weight);
        add_round(&kept, if_kept);
    }
    bool none_here = estimate->sampled || estimate->failed;
    estimate->count = 0;
    estimate->sampled = estimate->failed = false;
    if (none_here || late.rounds < NA_WATCHED_ROUNDS)
        return (na_interval_t){.sum = NAN, .low = NAN, .high = NAN, .rounds = late.rounds};
    na_interval_t to =
        na_watched_interval(late.sum, late.squares, late.most, late.rounds, set->rounds);
    double low =
        na_watched_interval(kept.sum, kept.squares, kept.most, kept.rounds, set->rounds).low;
    if (isnan(low)) low = 0; /* nothing is left */
    if (low < to.low) to.low = low;
    return to;
}

void na_watched_free(na_watched_t *estimate) {
    free(estimate->items);
    *estimate = (na_watched_t){0};
}
