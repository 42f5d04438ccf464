/* figure_limits.c - reads limits and holds figures against them. See figure_limits.h. */
#include "profiler/dump/runs/figure_limits.h"

#include <math.h>
#include <string.h>

#include "profiler/containers/quantity.h"
#include "profiler/dump/ui/command_line.h"

enum { NOT_LESS, NOT_MORE, EQUAL, OTHER, MORE, LESS, OPERATORS };
static const char *const operators[OPERATORS] = {">=", "<=", "==", "!=", ">", "<"};

bool na_limit_value(const char *text, double *value, bool *percent) {
    const char *end;
    bool negative = *text == '-';
    text += negative;
    *percent = na_quantity_number(text, value, &end) && strcmp(end, "%") == 0;
    if (!*percent && !na_quantity_bytes(text, value)) return false;
    if (negative) *value = -*value;
    return true;
}

size_t na_limit_figure(const na_figure_t *figures, size_t count, const char *name, size_t length) {
    size_t i = 0;
    while (i < count &&
           (strlen(figures[i].name) != length || strncmp(figures[i].name, name, length) != 0))
        i++;
    return i;
}

static bool refuse_limit(const char *text, const na_figure_t *figures, size_t count) {
    char names[256] = "";
    for (size_t i = 0; i < count; i++)
        na_text_append(names, sizeof names, "%s%s", i == 0 ? "" : ", ", figures[i].name);
    na_fail("--fail-if takes FIGURE OP VALUE with OP > >= < <= == != and FIGURE one of %s; not: %s",
            names, text);
    return false;
}

bool na_limit_read(na_limit_t *limit, const char *text, const na_figure_t *figures, size_t count) {
    size_t length = strcspn(text, "<>=! ");
    const char *at = text + length + strspn(text + length, " ");
    *limit = (na_limit_t){.figure = na_limit_figure(figures, count, text, length)};
    while (limit->op < OPERATORS &&
           strncmp(at, operators[limit->op], strlen(operators[limit->op])) != 0)
        limit->op++;
    if (limit->figure == count || limit->op == OPERATORS) return refuse_limit(text, figures, count);
    at += strlen(operators[limit->op]);
    at += strspn(at, " ");
    bool percent;
    return (na_limit_value(at, &limit->value, &percent) && !percent) ||
           refuse_limit(text, figures, count);
}

static const char *figure_text(const na_figure_t *figure, double value, char out[NA_TEXT]) {
    return figure->bytes ? na_text_bytes(out, value) : na_text_count(out, value);
}

const char *na_measured_text(char out[NA_MEASURED_TEXT], const na_figure_t *figure,
                             const na_measured_t *m) {
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
    double below = m->value - m->low, above = m->high - m->value;
    figure_text(figure, m->value, a);
    if (!(m->low < m->high))
        snprintf(out, NA_MEASURED_TEXT, "%s", a);
    else if (fabs(above - below) <= 1e-6 * (above + below))
        snprintf(out, NA_MEASURED_TEXT, "%s +- %s", a, figure_text(figure, above, b));
    else
        snprintf(out, NA_MEASURED_TEXT, "%s (%s to %s)", a, figure_text(figure, m->low, b),
                 figure_text(figure, m->high, c));
    return out;
}

bool na_limit_fails(const na_limit_t *limit, const na_figure_t *figures,
                    const na_measured_t *measured, FILE *to) {
    const na_figure_t *figure = &figures[limit->figure];
    const na_measured_t *m = &measured[limit->figure];
    double x = limit->value;
    bool estimate = m->low < m->high;
    const bool holds[OPERATORS] = {
        [NOT_LESS] = m->low >= x,
        [NOT_MORE] = m->high <= x,
        [EQUAL] = m->low == x && m->high == x,
        [OTHER] = m->low > x || m->high<x, [MORE] = m->low> x,
        [LESS] = m->high < x,
    };
    const bool may[OPERATORS] = {
        [NOT_LESS] = m->high >= x,
        [NOT_MORE] = m->low <= x,
        [EQUAL] = m->low <= x && m->high >= x,
        [OTHER] = estimate || m->value != x,
        [MORE] = m->high > x,
        [LESS] = m->low < x,
    };
    if (isnan(m->value)) {
        fprintf(to, "not known: %s (%s)\n", figure->name, figure->what);
        return true;
    }
    char a[NA_MEASURED_TEXT], b[NA_TEXT];
    if (holds[limit->op] || may[limit->op])
        fprintf(to, "%s: %s %s %s: %s is %s%s\n", holds[limit->op] ? "failed" : "not sure",
                figure->name, operators[limit->op], figure_text(figure, x, b), figure->what,
                estimate ? "an estimate, " : "", na_measured_text(a, figure, m));
    return holds[limit->op];
}
