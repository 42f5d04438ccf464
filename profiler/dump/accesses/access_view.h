/* access_view.h - what the views of accesses share: the flows of the processes named on the command
 * line, the verdicts, and names for objects. */
#ifndef NUMALLOC_PROFILER_DUMP_ACCESSES_ACCESS_VIEW_H
#define NUMALLOC_PROFILER_DUMP_ACCESSES_ACCESS_VIEW_H

#include "profiler/analyze/accesses/estimate.h"
#include "profiler/analyze/accesses/touch_sum.h"
#include "profiler/analyze/accesses/verdict.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"

typedef struct na_access_view {
    const na_options_t *options;
    na_view_input_t *in; /* by process */
    size_t count;
    bool borrowed; /* `in` belongs to the caller */
    na_flows_t flows;
    na_verdicts_t verdicts; /* of the source that they choose; views look at its samples */
} na_access_view_t;

/* Loads the files, selects by --where, judges. Any other status than WHOLE: nothing to close, and
 * the reason was said. A profile without samples is refused, with what its sources said. */
na_status_t na_access_view_open(na_access_view_t *view, const char *const *files, size_t count,
                                const na_options_t *options);
/* The same for one profile that is loaded. */
na_status_t na_access_view_of(na_access_view_t *view, na_view_input_t *in);

/* Frees, and says what is damaged. The status to end with. */
na_status_t na_access_view_close(na_access_view_t *view, na_status_t status);
/* A whole view: opens, shows, closes. */
na_status_t na_access_view_show(const char *const *files, size_t count, const na_options_t *options,
                                na_status_t (*show)(na_access_view_t *view));

/* Does the sample count here? */
static inline bool na_access_view_has(const na_access_view_t *view, const na_touch_t *a) {
    return na_verdict_counts(a, view->verdicts.source, view->verdicts.dram);
}

/* Names of groups as the paper has them: "s->basis (csuCommonSubspace.c:455)", with the text of the
 * source line where it can be read; else the function. */
void na_access_group_label(const na_access_view_t *view, uint32_t group, char out[NA_LABEL]);
/* The same with the instance: "..., object 17 of 4.00 MiB". */
void na_access_object_label(const na_access_view_t *view, uint32_t object, char out[NA_LABEL]);
/* What a verdict is on: an object with its id, or a group. */
void na_access_verdict_label(const na_access_view_t *view, const na_verdict_t *verdict,
                             char out[NA_LABEL]);
/* Nothing is to be gained, wherever things lie, and no line goes from thread to thread. */
bool na_access_no_gain(const na_access_view_t *view);
/* "of 45.0 % remote in all, 100.0 % of all remote cost": how much there is to gain. */
void na_access_cost_text(const na_access_view_t *view, const na_verdict_t *verdict,
                         char out[NA_LABEL]);
/* "worker 1234", with the process where there are several. */
void na_access_thread_label(const na_access_view_t *view, uint32_t thread, char out[NA_LABEL]);

/* The innermost function of an access that is no runtime's; NULL: not known. */
const na_symbol_frame_t *na_access_frame(const na_access_view_t *view, const na_touch_t *a);
/* That one and those that called it, innermost first, of each function one frame; returns how many,
 * at most NA_ACCESS_CHAIN. Of a source without call chains it is alone. */
#define NA_ACCESS_CHAIN 128u
uint32_t na_access_chain(const na_access_view_t *view, const na_touch_t *a,
                         const na_symbol_frame_t *frames[NA_ACCESS_CHAIN]);

/* Which function calls most, by majority vote; NULL: none, or not known. */
typedef struct na_access_vote {
    const na_symbol_frame_t *frame;
    double votes;
} na_access_vote_t;
void na_access_vote(na_access_vote_t *of, const na_symbol_frame_t *frame, double weight);

/* "2", or "-": the kernel's number of a node. */
const char *na_access_node(const na_access_view_t *view, int node, char out[NA_LABEL]);
/* "2 0 3": nodes with a tenth of the weight or more, heaviest first. */
const char *na_access_main_nodes(const na_access_view_t *view, const double *weights,
                                 char out[NA_LABEL]);

/* "45.0 %"; where samples were lost with what it may be, and whether the source was paused. */
const char *na_access_share(const na_nprof_access_source_t *source, double share,
                            char out[NA_LABEL]);

/* How sure a verdict is. */
static inline const char *na_access_confidence(double chance) {
    return chance >= 0.95 ? "high" : chance >= 0.8 ? "medium" : "low";
}

/* Columns of an estimate from watchpoints, absent with other sources, and their cells; `first` is
 * the first column. */
#define NA_ESTIMATE_COLUMNS                                                                        \
    {"weight_low", NULL, NA_KIND_NUMBER, NULL}, {"weight_high", NULL, NA_KIND_NUMBER, NULL},       \
        {"rounds", NULL, NA_KIND_COUNT, NULL}, {                                                   \
        NULL, "accesses (95 %)", NA_KIND_TEXT, NULL                                                \
    }
enum { NA_ESTIMATE_COLUMN_COUNT = 4 };
void na_access_estimate_cells(na_table_t *table, size_t first, const na_interval_t *interval);

/* Text: what the samples are, in two lines. */
void na_access_head(const na_access_view_t *view);
/* Text: where too few samples were taken to conclude, and what else limits them. */
void na_access_notes(const na_access_view_t *view);

/* JSON: the same, members of an object without braces: sources, nodes, threads, samples, ... */
/* "nodes": what each has, and how much goes there. */
void na_access_json_machine(na_json_t *json, const na_access_view_t *view);
/* "remote_low" and "remote_high": what its share may be, had all that was lost been local or not.
 */
void na_access_json_remote_range(na_json_t *json, const na_access_view_t *view);
void na_access_json_head(na_json_t *json, const na_access_view_t *view, const char *name);
/* "name":[...] of weights by node, as shares of their sum. Begins with a comma. */
void na_access_json_nodes(na_json_t *json, const na_access_view_t *view, const char *name,
                          const double *weights);
/* {...} of a sum. */
void na_access_json_sum(na_json_t *json, const char *name, const na_access_view_t *view,
                        const na_touch_sum_t *sum);
void na_access_json_verdict(na_json_t *json, const char *name, const na_access_view_t *view,
                            const na_verdict_t *verdict);

/* verdict_words.c: what to do about it, in code, by command, by placement; and the reason of an
 * undecided one. */
typedef struct na_verdict_advice {
    char code[2048];    /* in the program */
    char command[256];  /* around the program; "": none helps */
    char placement[64]; /* "node 2", "interleave", "local", "replicate", "pin", "pad"; "": none */
    char expected[256]; /* what it may gain */
    char reason[512];   /* undecidable: why */
    char cause[256];    /* a memory policy of the program's own; "": not that */
} na_verdict_advice_t;
/* Adds to one of these. */
#define NA_ADVISE(to, ...) na_text_append(to, sizeof(to), __VA_ARGS__)
/* access_more.c: what to do where there are too few samples, by how many times; and why a profile
 * has none at all. */
void na_access_more(const na_access_view_t *view, double factor, char *out, size_t size);
/* How to sample so many times as often, four times at most, from what was set; empty: not at all.
 */
void na_access_more_often(const na_nprof_access_source_t *source, double factor, char *out,
                          size_t size);
/* "; sample less often: ...", of a source that the kernel paused; empty: nobody can set it. */
void na_access_less(const na_nprof_access_source_t *source, char *out, size_t size);
void na_access_none(const na_access_view_t *view, char *out, size_t size);
/* For which part of the time the source's counters counted; 1: not known. Below NA_ACCESS_SHARED
 * the reader is told that somebody else had them. */
#define NA_ACCESS_SHARED 0.9
double na_access_counted(const na_nprof_access_source_t *source);

/* verdict_lines.c: false sharing: the line, its parts, whose they are; and what to do. */
void na_verdict_put_line(const na_access_view_t *view, const na_verdict_t *verdict);
void na_verdict_json_line(na_json_t *json, const na_access_view_t *view,
                          const na_verdict_t *verdict);
/* What the verdict means, in a sentence. */
const char *na_verdict_means(const na_access_view_t *view, const na_verdict_t *verdict);
void na_verdict_advice_line(const na_access_view_t *view, const na_verdict_t *verdict,
                            na_verdict_advice_t *advice);
void na_verdict_advice(const na_access_view_t *view, const na_verdict_t *verdict,
                       na_verdict_advice_t *advice);

/* Parts of the views functions and threads. */
na_status_t na_view_access_functions(na_view_input_t *in);
na_status_t na_view_access_threads(na_view_input_t *in);

/* Columns of tables that views of other figures show with --access. */
extern const na_columns_t na_columns_access_functions, na_columns_access_threads;

#endif
