/* ratios.c - ratios of paired measurements, with bootstrap intervals. */
#include "bench/compare/ratios.h"

#include "bench/compare/result.h"
#include "bench/load/prng.h"

#include <math.h>
#include <string.h>

/* The control counts as a tie when its mean is within this of 1, interval or not: less is below
 * what the alignment of one process's memory changes. */
#define CONTROL_TOLERANCE 0.01

/* The 97.5 % quantile of Student's t. */
static double student(size_t freedom) {
    static const double exact[] = {2.571, 2.447, 2.365, 2.306, 2.262, 2.228};
    const size_t first = NA_INTERVAL_ROUNDS - 1;
    if (freedom < first + NA_COUNT(exact)) return exact[freedom - first];
    /* Cornish and Fisher's expansion; off by less than 0.001 from here on. */
    double z = 1.959964, n = (double)freedom;
    return z + (z * z * z + z) / (4 * n) + (5 * pow(z, 5) + 16 * z * z * z + 3 * z) / (96 * n * n);
}

double na_ratio_tail(size_t count) {
    double n = (double)count;
    return 0.5 * erfc(student(count - 1) * sqrt(n / (n - 1)) / sqrt(2));
}

/* A value and how often it was drawn: tens of thousands of medians of the same values are taken,
 * which are sorted only once. */
typedef struct drawn {
    double value;
    size_t round;
} drawn_t;

static void sort_drawn(drawn_t *v, size_t count) {
    for (size_t i = 1; i < count; i++) {
        drawn_t x = v[i];
        size_t j = i;
        for (; j > 0 && v[j - 1].value > x.value; j--)
            v[j] = v[j - 1];
        v[j] = x;
    }
}

/* The median of sorted values, each as often as times[its round] says; NaN when none was drawn. */
static double median_of(const drawn_t *v, size_t count, const uint16_t *times) {
    size_t total = 0, seen = 0, i = 0;
    for (size_t k = 0; k < count; k++)
        total += times[v[k].round];
    if (total == 0) return NAN;
    while ((seen += times[v[i].round]) <= (total - 1) / 2)
        i++;
    double lower = v[i].value;
    if (total % 2 != 0 || seen > total / 2) return lower;
    do
        i++;
    while (times[v[i].round] == 0);
    return 0.5 * (lower + v[i].value);
}

static void draw_rounds(uint16_t *times, size_t count, na_prng_t *prng) {
    memset(times, 0, count * sizeof *times);
    for (size_t i = 0; i < count; i++)
        times[na_prng_scale(na_prng_next(prng), count)]++;
}

static na_ratio_t interval(double center, double *drawn, size_t samples, size_t pairs) {
    double tail = na_ratio_tail(samples);
    na_stats_of(drawn, NA_BOOTSTRAPS); /* sorts */
    return (na_ratio_t){exp(center), exp(na_stats_quantile(drawn, NA_BOOTSTRAPS, tail)),
                        exp(na_stats_quantile(drawn, NA_BOOTSTRAPS, 1 - tail)), pairs, samples};
}

/* log(a/b) of one pair; NaN when one is missing. Sets *noise for values that have no logarithm. */
static double log_ratio(double a, double b, bool *noise) {
    if (isnan(a) || isnan(b)) return NAN;
    if (a > 0 && b > 0) return log(a / b);
    *noise = true;
    return NAN;
}

na_ratio_t na_ratio_of(const double *a, const double *b, size_t count) {
    static drawn_t logs[NA_ROUNDS_MAX];
    static double drawn[NA_BOOTSTRAPS];
    uint16_t times[NA_ROUNDS_MAX];
    size_t pairs = 0;
    bool noise = false;
    for (size_t i = 0; i < count && i < NA_ROUNDS_MAX; i++) {
        double value = log_ratio(a[i], b[i], &noise);
        if (isnan(value)) continue;
        logs[pairs] = (drawn_t){value, pairs};
        times[pairs++] = 1;
    }
    if (noise || pairs == 0) return (na_ratio_t){0};
    sort_drawn(logs, pairs);
    double center = median_of(logs, pairs, times);
    if (pairs < NA_INTERVAL_ROUNDS)
        return (na_ratio_t){exp(center), exp(logs[0].value), exp(logs[pairs - 1].value), pairs,
                            pairs};
    na_prng_t prng = na_prng_make(20, pairs);
    for (size_t s = 0; s < NA_BOOTSTRAPS; s++) {
        draw_rounds(times, pairs, &prng);
        drawn[s] = median_of(logs, pairs, times);
    }
    return interval(center, drawn, pairs, pairs);
}

const char *na_ratio_words(size_t rounds) {
    return rounds >= NA_INTERVAL_ROUNDS ? "the 95 % interval"
           : rounds > 1 ? "the extremes of the rounds; for a 95 % interval six are needed"
                        : "nothing to say how sure it is, of one round";
}

bool na_ratio_tie(const na_ratio_t *ratio) {
    return ratio->rounds > 1 && ratio->low <= 1 && ratio->high >= 1;
}

na_ratio_t na_case_ratio(const na_comparison_t *comparison, const na_compared_t *metric, size_t a,
                         size_t b) {
    size_t rounds = comparison->rounds;
    const double *mine = metric->value + a * rounds, *other = metric->value + b * rounds;
    return metric->better == NA_LOWER ? na_ratio_of(mine, other, rounds)
                                      : na_ratio_of(other, mine, rounds);
}

/* The metric that a case puts into the mean of this kind, or NULL. */
static const na_compared_t *meant(const na_case_t *which, na_kind_t kind, unsigned threads) {
    if (threads != 0 && which->threads != threads) return NULL;
    if (kind == NA_MEMORY) return na_case_memory(which);
    const na_compared_t *metric = na_case_main(which);
    return metric != NULL && metric->kind == kind ? metric : NULL;
}

/* Of all contenders but `a` and the control the one with the best median; NA_NONE: none has one. */
static size_t best_other(const na_comparison_t *comparison, const na_compared_t *metric, size_t a) {
    size_t best = NA_NONE;
    double least = 0;
    for (size_t c = 0; c < comparison->contenders; c++) {
        if (c == a || c == comparison->control) continue;
        na_stats_t stats = na_case_stats(comparison, metric, c);
        if (stats.count == 0) continue;
        double cost = metric->better == NA_LOWER ? stats.median : -stats.median;
        if (best != NA_NONE && cost >= least) continue;
        best = c;
        least = cost;
    }
    return best;
}

/* The mean of the cases' medians over rounds that count so many times. */
static double mean_of(const drawn_t (*logs)[NA_ROUNDS_MAX], const size_t *pairs,
                      const double *center, size_t cases, const uint16_t *times) {
    double total = 0;
    for (size_t i = 0; i < cases; i++) {
        double median = median_of(logs[i], pairs[i], times);
        total += isnan(median) ? center[i] : median; /* it ran in none of these rounds */
    }
    return total / (double)cases;
}

static na_ratio_t mean_extremes(const drawn_t (*logs)[NA_ROUNDS_MAX], const size_t *pairs,
                                const double *center, size_t cases, double mean, size_t rounds) {
    double low = mean, high = mean;
    for (size_t r = 0; r < rounds; r++) {
        uint16_t times[NA_INTERVAL_ROUNDS] = {0};
        times[r] = 1;
        double one = mean_of(logs, pairs, center, cases, times);
        if (one < low) low = one;
        if (one > high) high = one;
    }
    return (na_ratio_t){exp(mean), exp(low), exp(high), cases, rounds};
}

na_ratio_t na_mean_ratio(const na_comparison_t *comparison, na_kind_t kind, unsigned threads,
                         size_t a, size_t b) {
    static drawn_t logs[NA_CASES_MAX][NA_ROUNDS_MAX];
    static double center[NA_CASES_MAX], drawn[NA_BOOTSTRAPS];
    static size_t pairs[NA_CASES_MAX];
    uint16_t times[NA_ROUNDS_MAX];
    size_t cases = 0;
    double sum = 0;
    for (size_t r = 0; r < NA_ROUNDS_MAX; r++)
        times[r] = 1;
    for (size_t i = 0; i < comparison->case_count; i++) {
        const na_compared_t *metric = meant(&comparison->cases[i], kind, threads);
        bool noise = false;
        if (metric == NULL) continue;
        size_t other = b != NA_NONE ? b : best_other(comparison, metric, a);
        if (other == NA_NONE) continue;
        pairs[cases] = 0;
        for (size_t r = 0; r < comparison->rounds_done; r++) {
            double value = log_ratio(metric->value[a * comparison->rounds + r],
                                     metric->value[other * comparison->rounds + r], &noise);
            if (isnan(value)) continue;
            logs[cases][pairs[cases]++] = (drawn_t){metric->better == NA_LOWER ? value : -value, r};
        }
        if (noise || pairs[cases] == 0) continue;
        sort_drawn(logs[cases], pairs[cases]);
        center[cases] = median_of(logs[cases], pairs[cases], times);
        sum += center[cases++];
    }
    if (cases == 0) return (na_ratio_t){0};
    double mean = sum / (double)cases;
    size_t done = comparison->rounds_done;
    if (done < NA_INTERVAL_ROUNDS) return mean_extremes(logs, pairs, center, cases, mean, done);
    na_prng_t prng = na_prng_make(21, cases);
    for (size_t s = 0; s < NA_BOOTSTRAPS; s++) {
        draw_rounds(times, done, &prng);
        drawn[s] = mean_of(logs, pairs, center, cases, times);
    }
    return interval(mean, drawn, done, cases);
}

na_stats_t na_case_stats(const na_comparison_t *comparison, const na_compared_t *metric, size_t c) {
    static double copy[NA_ROUNDS_MAX];
    size_t count = 0;
    for (size_t r = 0; r < comparison->rounds; r++) {
        double value = metric->value[c * comparison->rounds + r];
        if (!isnan(value)) copy[count++] = value;
    }
    return na_stats_of(copy, count);
}

size_t na_control_allowed(size_t n, double p) {
    double term = pow(1 - p, (double)n), below = term;
    size_t k = 0;
    while (1 - below >= 0.01 && k < n) {
        term *= (double)(n - k) / (double)(k + 1) * p / (1 - p);
        below += term;
        k++;
    }
    return k;
}

na_control_t na_control_of(const na_comparison_t *comparison) {
    na_control_t control = {0};
    size_t fewest = NA_ROUNDS_MAX;
    if (comparison->control == NA_NONE) return control;
    for (size_t i = 0; i < comparison->case_count; i++) {
        const na_compared_t *metric = na_case_main(&comparison->cases[i]);
        if (metric == NULL) continue;
        na_ratio_t ratio = na_case_ratio(comparison, metric, comparison->control, comparison->base);
        if (ratio.pairs < 2) continue;
        control.cases++;
        if (!na_ratio_tie(&ratio)) control.off++;
        if (ratio.pairs < fewest) fewest = ratio.pairs;
    }
    /* The extremes of n leave out the median with probability 2 * 2^-n. */
    double extremes = pow(2, 1 - (double)fewest);
    control.allowed = na_control_allowed(control.cases, extremes > 0.06 ? extremes : 0.06);
    control.mean = na_mean_ratio(comparison, NA_TIME, 0, comparison->control, comparison->base);
    bool mean_ties = control.mean.pairs == 0 || na_ratio_tie(&control.mean) ||
                     fabs(control.mean.ratio - 1) < CONTROL_TOLERANCE;
    control.tie = control.cases > 0 && control.off <= control.allowed && mean_ties;
    return control;
}
