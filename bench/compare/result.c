/* result.c - keeps what the children of a comparison measured. */
#include "bench/compare/result.h"

#include "bench/suite/report.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

/* A combination that failed so often is not run again. */
#define FAILURES_MAX 2

/* Cuts a line at its tabs. Returns the number of fields, at most `max`. */
static size_t cut(char *line, char **field, size_t max) {
    size_t fields = 0;
    field[fields++] = line;
    for (char *at = line; fields < max && (at = strchr(at, '\t')) != NULL;) {
        *at++ = '\0';
        field[fields++] = at;
    }
    return fields;
}

static na_kind_t kind_of_word(const char *word) {
    return strcmp(word, "memory") == 0  ? NA_MEMORY
           : strcmp(word, "ratio") == 0 ? NA_RATIO
                                        : NA_TIME;
}

static na_compared_t *find_metric(const na_comparison_t *comparison, na_case_t *which,
                                  const char *name) {
    if (which->metric == NULL)
        which->metric = na_compare_memory(NA_METRICS_MAX * sizeof(na_compared_t));
    for (size_t i = 0; i < which->metrics; i++)
        if (strcmp(which->metric[i].name, name) == 0) return &which->metric[i];
    if (which->metrics == NA_METRICS_MAX)
        na_bench_fail("compare: more than %d metrics", NA_METRICS_MAX);
    na_compared_t *metric = &which->metric[which->metrics++];
    size_t values = comparison->contenders * comparison->rounds;
    snprintf(metric->name, sizeof metric->name, "%s", name);
    metric->value = na_compare_memory(values * sizeof(double));
    for (size_t i = 0; i < values; i++)
        metric->value[i] = NAN;
    return metric;
}

/* The journal's line grows with each value that is stored. */
typedef struct store {
    na_comparison_t *comparison;
    na_case_t *which;
    size_t c, round;
    char *line;
    size_t length, size;
} store_t;

static void append(store_t *store, const char *text) {
    size_t length = strlen(text);
    if (store->line == NULL) return;
    if (store->length + length + 1 > store->size)
        na_bench_fail("compare: the line of one child has more than %zu bytes", store->size);
    memcpy(store->line + store->length, text, length + 1);
    store->length += length;
}

/* field: NAME UNIT better rank kind VALUE, as in na_report_tsv. */
static void put_metric(store_t *store, char *const *field) {
    char *end, text[256];
    double value = strtod(field[5], &end);
    if (end == field[5] || *end != '\0' || !isfinite(value)) return;
    na_compared_t *metric = find_metric(store->comparison, store->which, field[0]);
    snprintf(metric->unit, sizeof metric->unit, "%s", field[1]);
    metric->better = strcmp(field[2], "higher") == 0 ? NA_HIGHER : NA_LOWER;
    metric->rank = strcmp(field[3], "headline") == 0 ? NA_HEADLINE : NA_DETAIL;
    metric->kind = kind_of_word(field[4]);
    metric->value[store->c * store->comparison->rounds + store->round] = value;
    snprintf(text, sizeof text, "\t%s\t%s\t%s\t%s\t%s\t%.17g", metric->name, metric->unit, field[2],
             field[3], field[4], value);
    append(store, text);
}

static void put_failure(store_t *store, const char *reason, bool timed_out) {
    na_failure_t *failure = &store->which->failure[store->c];
    snprintf(failure->reason, sizeof failure->reason, "%s", reason);
    failure->timed_out |= timed_out;
    if (++failure->count >= FAILURES_MAX || timed_out) failure->given_up = true;
}

/* The lines of na_report_tsv. */
static bool put_report(store_t *store, char *text, char *reason, size_t size) {
    na_contender_t *contender = &store->comparison->contender[store->c];
    const char *object = "";
    bool complete = false;
    /* Twice: nothing is stored of a child that does not pass. */
    for (int pass = 0; pass < 2; pass++) {
        for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
            char *field[7], copy[512];
            next = strchr(line, '\n');
            size_t length = next != NULL ? (size_t)(next - line) : strlen(line);
            if (next != NULL) next++;
            if (length >= sizeof copy - 1) continue;
            memcpy(copy, line, length);
            copy[length] = '\0';
            size_t fields = cut(copy, field, NA_COUNT(field));
            if (pass == 0 && fields == 2 && strcmp(field[0], "malloc") == 0) {
                snprintf(contender->object, sizeof contender->object, "%s", field[1]);
                object = contender->object;
            } else if (pass == 1 && fields == 7 && strcmp(field[0], "metric") == 0) {
                put_metric(store, field + 1);
            } else if (fields == 1 && strcmp(field[0], "end") == 0) {
                complete = true;
            }
        }
        if (!complete) {
            snprintf(reason, size, "its result was cut short");
            return false;
        }
        if (*contender->path != '\0' && strcmp(object, contender->path) != 0) {
            snprintf(reason, size,
                     "preloaded, but malloc came from %.100s: it is no allocator, or "
                     "cannot be loaded",
                     object);
            return false;
        }
        if (pass == 0) {
            append(store, "\tok\t");
            append(store, object);
        }
    }
    return true;
}

/* Whether the fields of a line are a metric that a program may report of itself. A benchmark's need
 * no such check. */
static bool good_metric(char *const *field, size_t fields) {
    char *end;
    if (fields != 7 || strcmp(field[0], "metric") != 0 || *field[1] == '\0' ||
        strlen(field[1]) >= sizeof((na_compared_t *)0)->name ||
        strlen(field[2]) >= sizeof((na_compared_t *)0)->unit ||
        (strcmp(field[3], "lower") != 0 && strcmp(field[3], "higher") != 0) ||
        (strcmp(field[4], "headline") != 0 && strcmp(field[4], "detail") != 0) ||
        (strcmp(field[5], "time") != 0 && strcmp(field[5], "memory") != 0 &&
         strcmp(field[5], "ratio") != 0))
        return false;
    double value = strtod(field[6], &end);
    return end != field[6] && *end == '\0' && isfinite(value);
}

static bool has_metric(const na_case_t *which, const char *name) {
    for (size_t i = 0; i < which->metrics; i++)
        if (strcmp(which->metric[i].name, name) == 0) return true;
    return false;
}

/* What a program reports of itself comes before its time: the first headline stands for the case.
 */
static bool put_program(store_t *store, const na_child_t *child, char *reason, size_t size) {
    char seconds[32], peak[32], copy[512], *field[8];
    size_t metrics = store->which->metrics > 2 ? store->which->metrics : 2; /* two are our own */
    /* Twice: nothing is stored of a child that does not pass. */
    for (int pass = 0; pass < 2; pass++) {
        const char *line = child->text != NULL ? child->text : "";
        if (pass == 1) append(store, "\tok\t");
        while (*line != '\0') {
            size_t length = strcspn(line, "\n");
            int kept = (int)(length < sizeof copy ? length : sizeof copy);
            snprintf(copy, sizeof copy, "%.*s", kept, line);
            line += length + (line[length] == '\n');
            size_t fields = cut(copy, field, NA_COUNT(field));
            if (pass == 1) {
                put_metric(store, field + 1);
            } else if (!good_metric(field, fields)) {
                snprintf(reason, size,
                         "what it wrote to file descriptor 3 is not: metric, NAME, UNIT, lower or "
                         "higher, headline or detail, time or memory or ratio, VALUE; with tabs");
                return false;
            } else if (!has_metric(store->which, field[1]) && ++metrics > NA_METRICS_MAX) {
                snprintf(reason, size, "it reports more than %d metrics", NA_METRICS_MAX - 2);
                return false;
            }
        }
    }
    snprintf(seconds, sizeof seconds, "%.9g", child->seconds);
    snprintf(peak, sizeof peak, "%.9g", (double)child->peak / (1024.0 * 1024.0));
    char *time[] = {"time", "s", "lower", "headline", "time", seconds};
    char *memory[] = {"peak memory", "MiB", "lower", "headline", "memory", peak};
    put_metric(store, time);
    put_metric(store, memory);
    return true;
}

void na_result_take(na_comparison_t *comparison, size_t index, size_t c, size_t round,
                    na_child_t *child, char *line, size_t size) {
    char head[96];
    store_t store = {comparison, &comparison->cases[index], c, round, line, 0, size};
    snprintf(head, sizeof head, "run\t%zu\t%zu\t%zu", round, index, c);
    append(&store, head);
    if (child->outcome == NA_DONE &&
        !(store.which->bench == NULL
              ? put_program(&store, child, child->reason, sizeof child->reason)
              : put_report(&store, child->text, child->reason, sizeof child->reason)))
        child->outcome = NA_FAILED;
    if (child->outcome == NA_DONE) return;
    append(&store, child->outcome == NA_TIMED_OUT ? "\ttimeout\t" : "\tfailed\t");
    append(&store, child->reason);
    put_failure(&store, child->reason, child->outcome == NA_TIMED_OUT);
}

bool na_result_line(na_comparison_t *comparison, char *line, bool *present) {
    static char *field[6 + 6 * NA_METRICS_MAX];
    uint64_t round, index, c;
    size_t fields = cut(line, field, NA_COUNT(field));
    if (fields < 6 || (fields - 6) % 6 != 0 || strcmp(field[0], "run") != 0 ||
        !na_knobs_number(field[1], 0, comparison->rounds - 1, &round) ||
        !na_knobs_number(field[2], 0, comparison->case_count - 1, &index) ||
        !na_knobs_number(field[3], 0, comparison->contenders - 1, &c))
        return false;
    store_t store = {comparison, &comparison->cases[index], c, round, NULL, 0, 0};
    if (strcmp(field[4], "ok") == 0) {
        if (*field[5] != '\0')
            snprintf(comparison->contender[c].object, sizeof comparison->contender[c].object, "%s",
                     field[5]);
        for (size_t i = 6; i < fields; i += 6)
            put_metric(&store, field + i);
    } else if (fields == 6 &&
               (strcmp(field[4], "failed") == 0 || strcmp(field[4], "timeout") == 0)) {
        put_failure(&store, field[5], field[4][0] == 't');
    } else {
        return false;
    }
    if (present != NULL)
        present[(round * comparison->case_count + index) * comparison->contenders + c] = true;
    if (comparison->rounds_done <= round) comparison->rounds_done = round + 1;
    return true;
}

const na_compared_t *na_case_main(const na_case_t *which) {
    const char *wanted = which->bench != NULL ? which->bench->headline : NULL;
    for (size_t i = 0; i < which->metrics; i++) {
        const na_compared_t *metric = &which->metric[i];
        if (wanted != NULL ? strcmp(metric->name, wanted) == 0 : metric->rank == NA_HEADLINE)
            return metric;
    }
    return NULL;
}

const na_compared_t *na_case_memory(const na_case_t *which) {
    const na_compared_t *headline = na_case_main(which);
    if (headline != NULL && headline->kind == NA_MEMORY) return headline;
    for (size_t i = 0; i < which->metrics; i++)
        if (strcmp(which->metric[i].name, "peak memory") == 0) return &which->metric[i];
    return NULL;
}

const char *na_case_label(const na_case_t *which, char *buffer, size_t size) {
    if (which->threads == 0)
        snprintf(buffer, size, "%s", which->name);
    else
        snprintf(buffer, size, "%s, %u thread%s", which->name, which->threads,
                 which->threads == 1 ? "" : "s");
    return buffer;
}
