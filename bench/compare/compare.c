/* compare.c - `numalloc-bench compare`: reads its command line and drives the rounds.
 *
 * In each round every case runs once under every allocator, each time in a process of its own; the
 * allocators of a case follow each other at once, in an order that changes from round to round. So
 * whatever else changes on the machine meets all alike, and ratios are taken within a round. */
#include "bench/compare/compare.h"

#include "alloc/options/nearest.h"
#include "bench/benchmarks/registry.h"
#include "bench/compare/allocators.h"
#include "bench/compare/child.h"
#include "bench/compare/html.h"
#include "bench/compare/journal.h"
#include "bench/compare/plan.h"
#include "bench/compare/ratios.h"
#include "bench/compare/report.h"
#include "bench/compare/result.h"
#include "bench/system/busy.h"
#include "bench/system/process.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define SUITE_ROUNDS  9
#define SINGLE_ROUNDS 5
#define HANGS_MAX     3 /* cases that time out before all of an allocator's are left out */
#define WORDS_MAX     512

enum { U_HTML, U_JSON, U_CSV, U_DETAILS, U_RESUME, U_COUNT };

/* What changes only where the result goes: may differ when a comparison is resumed. */
static const na_knob_t output_table[U_COUNT] = {
    [U_HTML] = {"html", "", NA_KNOB_TEXT, 0, 0, 0, NULL, "draw the result into this file, too"},
    [U_JSON] = {"json", "", NA_KNOB_FLAG, 0, 0, 0, NULL, "print everything as JSON"},
    [U_CSV] = {"csv", "", NA_KNOB_FLAG, 0, 0, 0, NULL,
               "print everything as CSV: a row for each value"},
    [U_DETAILS] = {"details", "", NA_KNOB_FLAG, 0, 0, 0, NULL, "print the details too"},
    [U_RESUME] = {"resume", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                  "keep the journal in this file; if it is there, go on where it ends"},
};

enum {
    O_ALLOCATORS,
    O_ALLOCATOR,
    O_BENCHMARKS,
    O_THREADS,
    O_PROGRAM,
    O_REPLAY,
    O_SET,
    O_ROUNDS,
    O_BASE,
    O_CONTROL,
    O_BUDGET,
    O_TIMEOUT,
    O_COUNT
};

static const na_knob_t options_table[O_COUNT] = {
    [O_ALLOCATORS] = {"allocators", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                      "a,b,NAME=PATH: those to compare; without it, all that are found"},
    [O_ALLOCATOR] = {"allocator", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                     "one more: NAME=PATH (of a known one: where it is); may be given several "
                     "times"},
    [O_BENCHMARKS] =
        {"benchmarks", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
         "a,b: benchmarks to run; without it (and without a program or a replay), all"},
    [O_THREADS] = {"threads", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                   "1,2: each benchmark that has threads runs with each of these; of all "
                   "benchmarks, 1,2 without it"},
    [O_PROGRAM] = {"program", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                   "NAME=COMMAND: a program, for /bin/sh; may be given several times"},
    [O_REPLAY] =
        {"replay", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
         "FILE or NAME=FILE: a trace that is played back, or shape:NAME, a made-up one, and "
         "all words without dashes that follow; may be given several times"},
    [O_SET] = {"set", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
               "BENCHMARK.KNOB=VALUE; may be given several times"},
    [O_ROUNDS] = {"rounds", "rounds", NA_KNOB_NUMBER, 0, 0, NA_ROUNDS_MAX, NULL,
                  "how often each combination runs; 0: 9, or 5 for one named benchmark"},
    [O_BASE] = {"base", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                "the allocator that the others are held against; without it, the first"},
    [O_CONTROL] = {"control", "", NA_KNOB_CHOICE, 0, 0, 0, "auto|on|off",
                   "run the base twice under two names, which must come out as a tie; auto: not "
                   "for one named benchmark"},
    [O_BUDGET] = {"budget", "minutes", NA_KNOB_NUMBER, 0, 0, 100000, NULL,
                  "fit repetitions and work of the benchmarks into this time; 0: no limit, and the "
                  "same work whenever it runs"},
    [O_TIMEOUT] = {"timeout", "s", NA_KNOB_NUMBER, 0, 0, 86400, NULL,
                   "the longest that one run may take; 0: 60, or 120 for one named benchmark"},
};

static void compare_help(void) {
    puts("numalloc-bench compare [options]\n"
         "numalloc-bench compare BENCHMARK [knobs of the benchmark] [options]\n\n"
         "Runs benchmarks and programs under several allocators in alternating rounds: the first\n"
         "form all benchmarks at several numbers of threads within a budget of time, the second "
         "one\n"
         "benchmark (whose knobs come before options of the same name). Known allocators:\n");
    na_compare_list_known(stdout);
    puts("\nOptions:");
    na_knobs_help(options_table, O_COUNT, stdout);
    na_knobs_help(output_table, U_COUNT, stdout);
}

static int compare_usage_error(const char *error) {
    fprintf(stderr, "numalloc-bench: compare: %s; see numalloc-bench compare --help\n", error);
    return 2;
}

/* What the command line asks for. */
typedef struct request {
    const na_bench_t *single; /* the second form */
    const char *passed[NA_CASE_WORDS_MAX];
    size_t passed_count;
    const char *set[NA_CASE_WORDS_MAX], *program[NA_CASES_MAX], *allocator[NA_CONTENDERS_MAX];
    const char *replay[NA_CASES_MAX];
    size_t sets, programs, allocators, replays;
    na_knobs_t options;
} request_t;

/* Moves the text of a repeatable option into its list. */
static bool collect(na_knobs_t *options, size_t option, const char **list, size_t *count,
                    size_t max, char *error, size_t size) {
    const char *text = options->value[option].text;
    if (*text == '\0') return true;
    options->value[option].text = "";
    if (*count == max) {
        snprintf(error, size, "--%s is given more than %zu times", options_table[option].name, max);
        return false;
    }
    list[(*count)++] = text;
    return true;
}

static bool collect_replay(request_t *request, bool *any, char *error, size_t size) {
    *any = *request->options.value[O_REPLAY].text != '\0';
    return collect(&request->options, O_REPLAY, request->replay, &request->replays,
                   NA_COUNT(request->replay), error, size);
}

static bool is_threads(const char *word) {
    return strcmp(word, "--threads") == 0 || strncmp(word, "--threads=", 10) == 0;
}

static bool parse_request(request_t *request, int argc, char **argv, char *error, size_t size) {
    na_knobs_t knobs;
    bool unknown;
    int i = 0;
    na_knobs_init(&request->options, options_table, O_COUNT);
    if (argc > 0 && argv[0][0] != '-') {
        request->single = na_bench_find(argv[0]);
        if (request->single == NULL) {
            na_bench_none(argv[0], error, size);
            return false;
        }
        na_knobs_init(&knobs, request->single->knobs, request->single->knob_count);
        i = 1;
    }
    bool replaying = false; /* the word before was of --replay */
    while (i < argc) {
        int first = i;
        if (replaying && argv[i][0] != '-') {
            request->options.value[O_REPLAY].text = argv[i++];
            if (!collect_replay(request, &replaying, error, size)) return false;
            continue;
        }
        if (request->single != NULL && !is_threads(argv[i])) {
            if (na_knobs_take(&knobs, argc, argv, &i, error, size, &unknown)) {
                for (int at = first; at < i; at++) {
                    if (request->passed_count == NA_COUNT(request->passed)) {
                        snprintf(error, size, "more than %d knobs", NA_CASE_WORDS_MAX);
                        return false;
                    }
                    request->passed[request->passed_count++] = argv[at];
                }
                continue;
            }
            if (!unknown) return false;
        }
        if (!na_knobs_take(&request->options, argc, argv, &i, error, size, &unknown) ||
            !collect(&request->options, O_ALLOCATOR, request->allocator, &request->allocators,
                     NA_COUNT(request->allocator), error, size) ||
            !collect(&request->options, O_PROGRAM, request->program, &request->programs,
                     NA_COUNT(request->program), error, size) ||
            !collect_replay(request, &replaying, error, size) ||
            !collect(&request->options, O_SET, request->set, &request->sets, NA_COUNT(request->set),
                     error, size))
            return false;
    }
    return true;
}

/* ---- Allocators -------------------------------------------------------------------------------
 */

static void note_left_out(na_comparison_t *comparison, const char *line) {
    if (comparison->left_out_count < NA_NOTES_MAX)
        comparison->left_out[comparison->left_out_count++] = na_compare_text(line, strlen(line));
}

static bool add_one(na_comparison_t *comparison, const char *text, char *error, size_t size) {
    na_added_t added = na_compare_add(comparison, text, error, size);
    if (added == NA_ABSENT) note_left_out(comparison, error);
    return added != NA_REFUSED;
}

/* "NAME" or "NAME=PATH" is of this name. */
static bool is_named(const char *text, const char *name) {
    size_t length = strlen(name);
    return strncmp(text, name, length) == 0 && (text[length] == '\0' || text[length] == '=');
}

static bool is_known(const char *text) {
    const char *name;
    for (size_t i = 0; (name = na_compare_known(i)) != NULL; i++)
        if (is_named(text, name)) return true;
    return false;
}

/* All known ones that are there, each in its place; --allocator may say where one is. */
static bool add_known(na_comparison_t *comparison, const request_t *request, char *error,
                      size_t size) {
    const char *name;
    for (size_t i = 0; (name = na_compare_known(i)) != NULL; i++) {
        bool given = false;
        for (size_t k = 0; k < request->allocators; k++) {
            if (!is_named(request->allocator[k], name)) continue;
            given = true;
            if (!add_one(comparison, request->allocator[k], error, size)) return false;
        }
        if (!given) na_compare_add(comparison, name, error, size);
    }
    return true;
}

static bool add_allocators(na_comparison_t *comparison, const request_t *request, char *error,
                           size_t size) {
    const char *list = request->options.value[O_ALLOCATORS].text;
    const char *base = request->options.value[O_BASE].text;
    for (const char *at = list; *list != '\0'; at++) {
        size_t length = strcspn(at, ",");
        if (!add_one(comparison, na_compare_text(at, length), error, size)) return false;
        at += length;
        if (*at == '\0') break;
    }
    if (*list == '\0' && !add_known(comparison, request, error, size)) return false;
    for (size_t i = 0; i < request->allocators; i++)
        if ((*list != '\0' || !is_known(request->allocator[i])) &&
            !add_one(comparison, request->allocator[i], error, size))
            return false;
    if (comparison->contenders == 0) {
        snprintf(error, size, "none of the allocators is there");
        return false;
    }
    comparison->base = 0;
    while (*base != '\0' && strcmp(comparison->contender[comparison->base].name, base) != 0) {
        if (++comparison->base == comparison->contenders) {
            snprintf(error, size, "--base takes one of the allocators compared, not '%.64s'", base);
            return false;
        }
    }
    uint64_t control = request->options.value[O_CONTROL].number;
    comparison->control = NA_NONE;
    if (control == 1 || (control == 0 && request->single == NULL))
        return na_compare_add_control(comparison, error, size);
    return true;
}

/* ---- Cases ------------------------------------------------------------------------------------
 */

/* "BENCHMARK.KNOB=VALUE" as a word for that benchmark, or NULL when it is of another. */
static const char *word_of_set(const char *set, const na_bench_t *bench) {
    size_t length = strlen(bench->name);
    if (strncmp(set, bench->name, length) != 0 || set[length] != '.') return NULL;
    size_t rest = strlen(set + length + 1);
    char *word = na_compare_memory(rest + 3);
    snprintf(word, rest + 3, "--%s", set + length + 1);
    return word;
}

static bool check_sets(const request_t *request, char *error, size_t size) {
    for (size_t i = 0; i < request->sets; i++) {
        const char *set = request->set[i];
        size_t dot = strcspn(set, ".");
        const na_bench_t *bench = na_bench_find(na_compare_text(set, dot));
        if (bench == NULL && set[dot] != '\0') {
            na_bench_none(na_compare_text(set, dot), error, size);
            return false;
        }
        if (bench == NULL || set[dot] == '\0' || strchr(set + dot, '=') == NULL) {
            snprintf(error, size, "--set takes BENCHMARK.KNOB=VALUE, not '%.64s'", set);
            return false;
        }
        na_knobs_t knobs;
        const char *word = word_of_set(set, bench), *name = set + dot + 1;
        na_nearest_t nearest = {.typed = name, .length = strcspn(name, "=")};
        if (na_plan_knob(bench, na_compare_text(name, nearest.length)) == NA_NONE) {
            char hint[80];
            for (size_t k = 0; k < bench->knob_count; k++)
                na_nearest_try(&nearest, bench->knobs[k].name);
            snprintf(error, size, "--set %.64s: %s has no knob '%.*s'%s", set, bench->name,
                     (int)(nearest.length < 40 ? nearest.length : 40), name,
                     na_nearest_text(&nearest, "", hint));
            return false;
        }
        char why[200];
        if (!na_plan_knobs(bench, &word, 1, &knobs, why, sizeof why)) {
            snprintf(error, size, "--set %.64s: %s", set, why);
            return false;
        }
    }
    return true;
}

static bool add_bench(na_comparison_t *comparison, const request_t *request,
                      const na_bench_t *bench, const unsigned *threads, size_t counts, char *error,
                      size_t size) {
    const char *words[NA_CASE_WORDS_MAX];
    size_t count = 0;
    bool set_threads = false;
    for (size_t i = 0; i < request->passed_count; i++)
        words[count++] = request->passed[i];
    for (size_t i = 0; i < request->sets && count < NA_COUNT(words) - 8; i++) {
        const char *word = word_of_set(request->set[i], bench);
        if (word != NULL) words[count++] = word;
        if (word != NULL && is_threads(word)) set_threads = true;
    }
    bool scales = na_plan_knob(bench, "threads") != NA_NONE && !set_threads;
    if (!scales || counts == 0)
        return na_plan_bench(comparison, bench, 0, words, count, error, size) != NULL;
    /* A benchmark may need two threads, or more memory for many than there is. What goes with no
     * number of threads is the fault of the knobs that were given. */
    const char *why[NA_THREAD_LISTS_MAX] = {NULL};
    bool any = false;
    for (size_t i = 0; i < counts; i++) {
        if (na_plan_bench(comparison, bench, threads[i], words, count, error, size) != NULL)
            any = true;
        else
            why[i] = na_compare_text(error, strlen(error));
    }
    if (!any && (count > 0 || request->single != NULL)) return false;
    for (size_t i = 0; i < counts; i++) {
        char line[400];
        if (why[i] == NULL) continue;
        snprintf(line, sizeof line, "%s with %u thread%s: %s", bench->name, threads[i],
                 threads[i] == 1 ? "" : "s", why[i]);
        note_left_out(comparison, line);
    }
    return true;
}

/* Two rows of one name could not be told apart. False with one line in `error`. */
static bool all_distinct(const na_comparison_t *comparison, char *error, size_t size) {
    for (size_t i = 0; i < comparison->case_count; i++) {
        for (size_t k = 0; k < i; k++) {
            const na_case_t *one = &comparison->cases[i], *other = &comparison->cases[k];
            if (strcmp(one->name, other->name) != 0 || one->threads != other->threads) continue;
            snprintf(error, size, "'%s' is given twice", one->name);
            return false;
        }
    }
    return true;
}

static bool add_cases(na_comparison_t *comparison, const request_t *request, char *error,
                      size_t size) {
    unsigned threads[NA_THREAD_LISTS_MAX];
    size_t counts = 0;
    const char *list = request->options.value[O_BENCHMARKS].text;
    const char *text = request->options.value[O_THREADS].text;
    if (*text == '\0' && request->single == NULL) text = "1,2";
    if (*text != '\0' && !na_plan_threads(text, threads, &counts, error, size)) return false;
    if (!check_sets(request, error, size)) return false;
    if (request->single != NULL) {
        if (*list != '\0' || request->programs > 0 || request->replays > 0 || request->sets > 0) {
            snprintf(error, size,
                     "--benchmarks, --program, --replay and --set do not go with the name of one "
                     "benchmark; write --benchmarks %s instead",
                     request->single->name);
            return false;
        }
        if (counts > 0 && na_plan_knob(request->single, "threads") == NA_NONE) {
            snprintf(error, size, "%s has no --threads", request->single->name);
            return false;
        }
        return add_bench(comparison, request, request->single, threads, counts, error, size);
    }
    for (const char *at = list; *list != '\0'; at++) {
        size_t length = strcspn(at, ",");
        const char *name = na_compare_text(at, length);
        const na_bench_t *bench = na_bench_find(name);
        if (bench == NULL) {
            na_bench_none(name, error, size);
            return false;
        }
        if (!add_bench(comparison, request, bench, threads, counts, error, size)) return false;
        at += length;
        if (*at == '\0') break;
    }
    bool all = *list == '\0' && request->programs == 0 && request->replays == 0;
    for (size_t i = 0; all && i < na_bench_count; i++)
        if (na_benches[i]->operand == NULL && !na_benches[i]->own &&
            !add_bench(comparison, request, na_benches[i], threads, counts, error, size))
            return false;
    for (size_t i = 0; i < request->programs; i++)
        if (na_plan_program(comparison, request->program[i], error, size) == NULL) return false;
    for (size_t i = 0; i < request->replays; i++)
        if (na_plan_replay(comparison, request->replay[i], error, size) == NULL) return false;
    if (!all_distinct(comparison, error, size)) return false;
    if (comparison->case_count > 0) return true;
    snprintf(error, size, "nothing is left to compare");
    return false;
}

/* ---- Rounds -----------------------------------------------------------------------------------
 */

static void run_one(na_comparison_t *comparison, na_journal_t *journal, size_t round, size_t index,
                    size_t c) {
    static char line[65536];
    na_child_t child;
    na_child_run(comparison, &comparison->cases[index], c, NULL, &child);
    if (child.outcome == NA_STOPPED) return;
    na_result_take(comparison, index, c, round, &child, line, sizeof line);
    na_journal_add(journal, line);
}

/* Whether another round would end too late. The first always runs. */
static bool out_of_time(const na_comparison_t *comparison, size_t round, uint64_t begin,
                        uint64_t round_ns) {
    if (comparison->budget_s == 0 || round == 0) return false;
    double then = (double)(na_bench_now() - begin + round_ns) / 1e9;
    return then > 1.1 * (double)comparison->budget_s;
}

/* What it will come to: before the first round with a budget, after it without. */
static void tell_estimate(const na_comparison_t *comparison, double whole_s, double spent_s,
                          const char *with) {
    unsigned whole = (unsigned)(whole_s + 0.5);
    if (na_child_stop()) return;
    fprintf(stderr,
            "numalloc-bench: compare: cases %zu, allocators %zu, rounds %zu: about %u min %u s, of "
            "which %.0f s went by with %s\n",
            comparison->case_count, comparison->contenders, comparison->rounds, whole / 60,
            whole % 60, spent_s, with);
    if (comparison->budget_s == 0) return;
    if ((double)whole > 1.1 * (double)comparison->budget_s)
        fprintf(stderr,
                "numalloc-bench: compare: that is more than --budget %llu with each run as short "
                "as is worth its while: the last rounds will be left out; give fewer --rounds, "
                "--threads or --benchmarks, or a larger budget\n",
                (unsigned long long)comparison->budget_s / 60);
}

/* An allocator that hangs in one case after the other would cost a time-out in each. */
static bool hopeless(const na_comparison_t *comparison, size_t c) {
    size_t hangs = 0;
    for (size_t i = 0; i < comparison->case_count; i++)
        hangs += comparison->cases[i].failure[c].timed_out;
    return hangs >= HANGS_MAX;
}

static void give_up(na_case_t *which, size_t c) {
    na_failure_t *failure = &which->failure[c];
    failure->given_up = true;
    failure->count++;
    snprintf(failure->reason, sizeof failure->reason, "left out: it timed out in %d other cases",
             HANGS_MAX);
}

static void run_rounds(na_comparison_t *comparison, na_journal_t *journal, uint64_t begin) {
    size_t contenders = comparison->contenders, each = contenders * comparison->case_count;
    size_t done = 0, total = each * comparison->rounds;
    uint64_t round_ns = 0;
    for (size_t round = 0; round < comparison->rounds; round++) {
        if (out_of_time(comparison, round, begin, round_ns)) {
            comparison->stopped = "the budget of time was spent";
            break;
        }
        uint64_t from = na_bench_now();
        for (size_t index = 0; index < comparison->case_count; index++) {
            for (size_t i = 0; i < contenders && !na_child_stop(); i++, done++) {
                size_t c = na_plan_turn(contenders, round, index, i);
                na_case_t *which = &comparison->cases[index];
                char what[160], label[64];
                if (which->failure[c].given_up ||
                    na_journal_has(journal, comparison, round, index, c))
                    continue;
                if (hopeless(comparison, c)) {
                    give_up(which, c);
                    continue;
                }
                if (comparison->rounds_done <= round) comparison->rounds_done = round + 1;
                snprintf(what, sizeof what, "compare: %s under %s, run",
                         na_case_label(which, label, sizeof label), comparison->contender[c].name);
                na_bench_progress(what, done, total);
                run_one(comparison, journal, round, index, c);
            }
        }
        round_ns = na_bench_now() - from;
        if (na_child_stop()) break;
        if (round == 0 && comparison->rounds > 1 && comparison->budget_s == 0 && !journal->resumed)
            tell_estimate(comparison, (double)round_ns / 1e9 * (double)comparison->rounds,
                          (double)round_ns / 1e9, "the first round");
    }
    na_bench_progress("compare: run", total, total);
    if (na_child_stop()) comparison->stopped = "it was interrupted";
}

static bool any_failure(const na_comparison_t *comparison) {
    for (size_t i = 0; i < comparison->case_count; i++)
        for (size_t c = 0; c < comparison->contenders; c++)
            if (comparison->cases[i].failure[c].count > 0) return true;
    return false;
}

static int report_comparison(const na_comparison_t *comparison, const na_knobs_t *output) {
    const char *html = output->value[U_HTML].text;
    if (output->value[U_JSON].number)
        na_compare_json(comparison, stdout);
    else if (output->value[U_CSV].number)
        na_compare_csv(comparison, stdout);
    else
        na_compare_table(comparison, output->value[U_DETAILS].number != 0, stdout);
    if (fflush(stdout) != 0) na_bench_fail("cannot write the result to standard output");
    if (*html != '\0') {
        FILE *file = fopen(html, "we");
        if (file == NULL) na_bench_fail("compare: cannot write '%s': %s", html, strerror(errno));
        na_compare_html(comparison, file);
        bool bad = ferror(file) != 0;
        if (fclose(file) != 0 || bad)
            na_bench_fail("compare: cannot write '%s': %s", html, strerror(errno));
    }
    return any_failure(comparison) ? 1 : 0;
}

/* Takes the output options out of argv, which keeps the rest. */
static bool split_output(na_knobs_t *output, int *argc, char **argv, char *error, size_t size) {
    bool unknown;
    int kept = 0;
    na_knobs_init(output, output_table, U_COUNT);
    for (int i = 0; i < *argc;) {
        if (na_knobs_take(output, *argc, argv, &i, error, size, &unknown)) continue;
        if (!unknown) return false;
        argv[kept++] = argv[i++];
    }
    *argc = kept;
    return true;
}

/* The words of the journal in place of an empty command line; otherwise both must be the same. */
static bool recorded_words(const char *path, int *argc, char ***argv, char *error, size_t size) {
    const char **words = na_compare_memory(WORDS_MAX * sizeof(char *));
    size_t count;
    if (!na_journal_words(path, words, &count, WORDS_MAX, error, size)) return false;
    if (count == 0) return true;
    bool same = (size_t)*argc == count;
    for (size_t i = 0; same && i < count; i++)
        same = strcmp(words[i], (*argv)[i]) == 0;
    if (*argc != 0 && !same) {
        snprintf(error, size,
                 "'%.200s' is the journal of other options; give the same ones, or "
                 "--resume alone",
                 path);
        return false;
    }
    *argc = (int)count;
    *argv = (char **)(uintptr_t)words;
    return true;
}

int na_compare(int argc, char **argv) {
    static na_comparison_t comparison;
    static request_t request;
    na_knobs_t output;
    na_journal_t journal;
    char error[512];
    uint64_t begin = na_bench_now();
    for (int i = 0; i < argc; i++) {
        if (strcmp(argv[i], "--help") != 0) continue;
        compare_help();
        return 0;
    }
    if (!split_output(&output, &argc, argv, error, sizeof error)) return compare_usage_error(error);
    if (output.value[U_JSON].number && output.value[U_CSV].number)
        return compare_usage_error("--json and --csv exclude each other");
    const char *resume = output.value[U_RESUME].text, *html = output.value[U_HTML].text;
    if (*resume != '\0' && !recorded_words(resume, &argc, &argv, error, sizeof error))
        return compare_usage_error(error);
    if (!parse_request(&request, argc, argv, error, sizeof error) ||
        !add_allocators(&comparison, &request, error, sizeof error) ||
        !add_cases(&comparison, &request, error, sizeof error))
        return compare_usage_error(error);
    if (*html != '\0') { /* now, not after an hour */
        FILE *file = fopen(html, "ae");
        if (file == NULL) {
            snprintf(error, sizeof error, "cannot write --html '%.300s': %s", html,
                     strerror(errno));
            return compare_usage_error(error);
        }
        fclose(file);
    }
    const na_knob_value_t *value = request.options.value;
    bool suite = request.single == NULL;
    comparison.rounds = value[O_ROUNDS].number != 0 ? (size_t)value[O_ROUNDS].number
                        : suite                     ? SUITE_ROUNDS
                                                    : SINGLE_ROUNDS;
    comparison.budget_s = value[O_BUDGET].number * 60;
    comparison.timeout_s = value[O_TIMEOUT].number != 0 ? value[O_TIMEOUT].number
                           : suite                      ? 60
                                                        : 120;
    if (!na_journal_begin(&journal, resume, &comparison, argc, argv, error, sizeof error))
        return compare_usage_error(error);
    for (size_t i = 0; i < comparison.left_out_count; i++)
        fprintf(stderr, "numalloc-bench: compare: left out: %s\n", comparison.left_out[i]);
    na_child_catch_signals();
    if (!journal.resumed) {
        if (comparison.budget_s != 0) {
            double rounds_s = na_plan_fit(&comparison, (double)comparison.budget_s);
            double spent_s = (double)(na_bench_now() - begin) / 1e9;
            tell_estimate(&comparison, rounds_s + spent_s, spent_s, "estimating");
        } else if (suite) {
            na_plan_fixed(&comparison);
        }
        if (!na_child_stop()) na_journal_plan(&journal, &comparison);
    }
    na_busy_t others = na_busy_begin();
    run_rounds(&comparison, &journal, begin);
    char busy[160];
    if (na_busy_others(&others, busy, sizeof busy))
        fprintf(stderr, "numalloc-bench: compare: %s\n", busy);
    int status = report_comparison(&comparison, &output);
    na_journal_end(&journal, !na_child_stop());
    if (!na_child_stop()) return status;
    fprintf(stderr,
            "numalloc-bench: compare: interrupted; to go on: numalloc-bench compare "
            "--resume %s\n",
            journal.path);
    return 130;
}
