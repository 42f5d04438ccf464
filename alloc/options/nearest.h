/* nearest.h - "did you mean": the known word that a mistyped one resembles. Pure. */
#ifndef NUMALLOC_ALLOC_OPTIONS_NEAREST_H
#define NUMALLOC_ALLOC_OPTIONS_NEAREST_H

#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NA_NEAREST_MOST 40u /* longer words resemble none */

/* Fewest characters to insert, drop, change or swap with their neighbour between a[0 .. n) and b[0
 * .. m), both at most NA_NEAREST_MOST. */
static inline unsigned na_nearest_distance(const char *a, size_t n, const char *b, size_t m) {
    unsigned before[NA_NEAREST_MOST + 1], last[NA_NEAREST_MOST + 1], row[NA_NEAREST_MOST + 1];
    for (size_t j = 0; j <= m; j++)
        before[j] = last[j] = row[j] = (unsigned)j;
    for (size_t i = 1; i <= n; i++) {
        row[0] = (unsigned)i;
        for (size_t j = 1; j <= m; j++) {
            unsigned best = last[j - 1] + (a[i - 1] != b[j - 1]);
            if (last[j] + 1 < best) best = last[j] + 1;
            if (row[j - 1] + 1 < best) best = row[j - 1] + 1;
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1] &&
                before[j - 2] + 1 < best)
                best = before[j - 2] + 1;
            row[j] = best;
        }
        for (size_t j = 0; j <= m; j++) {
            before[j] = last[j];
            last[j] = row[j];
        }
    }
    return row[m];
}

typedef struct na_nearest {
    const char *typed; /* `length` characters */
    size_t length;
    const char *word; /* the best so far; NULL: none */
    unsigned mistakes;
} na_nearest_t;

/* A known word of `length` characters. Two mistakes at most, and less than half of what follows the
 * first `prefix` of them, which all known words have: else anything would resemble a short one. */
static inline void na_nearest_among(na_nearest_t *nearest, const char *known, size_t length,
                                    size_t prefix) {
    if (nearest->length > NA_NEAREST_MOST || length > NA_NEAREST_MOST) return;
    unsigned mistakes = na_nearest_distance(nearest->typed, nearest->length, known, length);
    if (mistakes > 2 || 2 * mistakes >= length - prefix) return;
    if (nearest->word != NULL && mistakes >= nearest->mistakes) return;
    nearest->word = known;
    nearest->mistakes = mistakes;
}

static inline void na_nearest_try(na_nearest_t *nearest, const char *known) {
    na_nearest_among(nearest, known, strlen(known), 0);
}

/* ", did you mean `dashes``word`?", or "". */
static inline const char *na_nearest_text(const na_nearest_t *nearest, const char *dashes,
                                          char out[80]) {
    out[0] = 0;
    if (nearest->word != NULL) snprintf(out, 80, ", did you mean %s%s?", dashes, nearest->word);
    return out;
}

#endif
