/* report.h - prints the result of one benchmark: as a table, as JSON, or for `compare` to read. */
#ifndef NUMALLOC_BENCH_SUITE_REPORT_H
#define NUMALLOC_BENCH_SUITE_REPORT_H

#include "bench/measure/stats.h"
#include "bench/suite/bench.h"
#include "bench/system/process.h"

typedef struct na_report {
    const na_bench_t *bench;
    const na_knobs_t *knobs;
    const na_allocator_id_t *allocator;
    const na_result_t *result;
} na_report_t;

/* What is measured, on what, with which knobs; before the run. */
void na_report_header(const na_report_t *report, FILE *out);

void na_report_table(const na_report_t *report, bool details, FILE *out);
void na_report_json(const na_report_t *report, FILE *out);

/* Tab-separated lines: "malloc PATH", then "metric NAME UNIT lower|higher headline|detail KIND
 * MEDIAN" for each metric, then "end" (a reader that misses it knows that the run was cut short).
 */
void na_report_tsv(const na_report_t *report, FILE *out);

/* "time", "memory" or "ratio"; "lower" or "higher"; "headline" or "detail". */
const char *na_kind_word(na_kind_t kind);
const char *na_better_word(na_better_t better);
const char *na_rank_word(na_rank_t rank);

/* Members of the innermost object: median, quartiles, extremes. */
void na_stats_json(const na_stats_t *stats, na_json_t *json);

/* A number with as many decimals as keep four digits. */
void na_report_number(double value, char *out, size_t size);

#endif
