/* quantity.h - sizes and times that users write: "200M", "1.5 GiB", "300ms". For the tools. */
#ifndef NUMALLOC_PROFILER_CONTAINERS_QUANTITY_H
#define NUMALLOC_PROFILER_CONTAINERS_QUANTITY_H

#include <math.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

/* A decimal number, and *end behind it and the blanks that follow. False: there is none, or one
 * with a sign, or as computers write it (hexadecimal, inf, nan). */
static inline bool na_quantity_number(const char *text, double *value, const char **end) {
    size_t digits = strspn(text, "0123456789.");
    char *behind;
    *value = strtod(text, &behind);
    *end = behind + strspn(behind, " ");
    return digits != 0 && behind != text && text[1] != 'x' && text[1] != 'X' && isfinite(*value);
}

/* Bytes: a number, with K, M, G or T (powers of 1024) as in "2G", "2GiB", "2GB"; letters in either
 * case. */
static inline bool na_quantity_bytes(const char *text, double *bytes) {
    static const char units[] = "KMGT";
    const char *end;
    if (!na_quantity_number(text, bytes, &end)) return false;
    const char *unit = *end == 0 ? NULL : strchr(units, *end & ~0x20);
    if (unit != NULL) {
        *bytes = ldexp(*bytes, 10 * (int)(unit - units + 1));
        end++;
        if ((*end | 0x20) == 'i') end++;
    }
    if ((*end | 0x20) == 'b') end++;
    return *end == 0;
}

/* Milliseconds: a number with ms, s, m or h; one without is of `bare` ms (0: it is refused). */
static inline bool na_quantity_ms(const char *text, double bare, double *ms) {
    const struct {
        const char *unit;
        double ms;
    } units[] = {{"", bare}, {"ms", 1}, {"s", 1000}, {"m", 60e3}, {"h", 3600e3}};
    const char *end;
    double value;
    if (!na_quantity_number(text, &value, &end)) return false;
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++)
        if (strcasecmp(end, units[i].unit) == 0) {
            *ms = value * units[i].ms;
            return units[i].ms > 0;
        }
    return false;
}

#endif
