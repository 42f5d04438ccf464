/* compare_plan.c - which cases a comparison has, in which order its children run, and how long each
 * may take when the time is limited. */
#include "compare.h"

#include "team.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

size_t na_plan_turn(size_t contenders, size_t round, size_t index, size_t i) {
    size_t first = (round + index) % contenders;
    bool backwards = (round / contenders + index) % 2 != 0;
    return backwards ? (first + contenders - i % contenders) % contenders
                     : (first + i) % contenders;
}

bool na_plan_threads(const char *text, unsigned *list, size_t *count, char *error, size_t size) {
    const char *at = text;
    *count = 0;
    for (;;) {
        char word[16];
        size_t length = strcspn(at, ",");
        uint64_t number;
        snprintf(word, sizeof word, "%.*s", length < sizeof word ? (int)length : 15, at);
        if (length >= sizeof word || !na_knobs_number(word, 0, 1024, &number)) {
            snprintf(error, size,
                     "--threads takes numbers from 0 (as many as CPUs) to 1024 with commas between "
                     "them, not '%.64s'",
                     text);
            return false;
        }
        unsigned threads = na_team_threads(number);
        bool twice = false;
        for (size_t i = 0; i < *count; i++)
            twice |= list[i] == threads;
        if (!twice) {
            if (*count == NA_THREAD_LISTS_MAX) {
                snprintf(error, size, "--threads takes at most %d numbers", NA_THREAD_LISTS_MAX);
                return false;
            }
            list[(*count)++] = threads;
        }
        if (at[length] == '\0') return true;
        at += length + 1;
    }
}

size_t na_plan_knob(const na_bench_t *bench, const char *name) {
    for (size_t i = 0; i < bench->knob_count; i++)
        if (strcmp(bench->knobs[i].name, name) == 0) return i;
    return NA_NONE;
}

bool na_plan_knobs(const na_bench_t *bench, const char *const *words, size_t count,
                   na_knobs_t *knobs, char *error, size_t size) {
    bool unknown;
    char *argument[NA_CASE_WORDS_MAX + 1] = {NULL};
    for (size_t i = 0; i < count && i < NA_CASE_WORDS_MAX; i++)
        argument[i] = (char *)(uintptr_t)words[i];
    na_knobs_init(knobs, bench->knobs, bench->knob_count);
    for (int i = 0; i < (int)count;)
        if (!na_knobs_take(knobs, (int)count, argument, &i, error, size, &unknown)) return false;
    return true;
}

static na_case_t *add_case(na_comparison_t *comparison, const char *name, size_t length,
                           char *error, size_t size) {
    if (comparison->cases == NULL)
        comparison->cases = na_compare_memory(NA_CASES_MAX * sizeof(na_case_t));
    if (comparison->case_count == NA_CASES_MAX) {
        snprintf(error, size, "more than %d benchmarks and programs at all numbers of threads",
                 NA_CASES_MAX);
        return NULL;
    }
    na_case_t *made = &comparison->cases[comparison->case_count];
    if (length == 0 || length >= sizeof made->name) {
        snprintf(error, size, "the name '%.*s' has not 1 to %zu letters",
                 length > 64 ? 64 : (int)length, name, sizeof made->name - 1);
        return NULL;
    }
    *made = (na_case_t){0};
    memcpy(made->name, name, length);
    return made;
}

static void add_word(na_case_t *which, const char *word) {
    if (which->words == NA_CASE_WORDS_MAX)
        na_bench_fail("compare: more than %d knobs for %s", NA_CASE_WORDS_MAX, which->name);
    which->word[which->words++] = word;
}

static void add_number(na_case_t *which, const char *knob, uint64_t value) {
    char word[96];
    int length = snprintf(word, sizeof word, "--%s=%llu", knob, (unsigned long long)value);
    add_word(which, na_compare_text(word, (size_t)length));
}

na_case_t *na_plan_bench(na_comparison_t *comparison, const na_bench_t *bench, unsigned threads,
                         const char *const *words, size_t count, char *error, size_t size) {
    na_knobs_t knobs;
    na_case_t *made = add_case(comparison, bench->name, strlen(bench->name), error, size);
    if (made == NULL) return NULL;
    made->bench = bench;
    made->threads = threads;
    for (size_t i = 0; i < count; i++)
        add_word(made, words[i]);
    if (threads != 0) add_number(made, "threads", threads);
    if (!na_plan_knobs(bench, made->word, made->words, &knobs, error, size)) return NULL;
    if (bench->settle != NULL && !bench->settle(&knobs, error, size)) return NULL;
    comparison->case_count++;
    return made;
}

na_case_t *na_plan_program(na_comparison_t *comparison, const char *text, char *error,
                           size_t size) {
    size_t length = strcspn(text, "=");
    if (text[length] == '\0' || text[length + 1] == '\0') {
        snprintf(error, size, "--program takes NAME=COMMAND, not '%.100s'", text);
        return NULL;
    }
    if (strpbrk(text, "\t\n") != NULL && strpbrk(text, "\t\n") < text + length) {
        snprintf(error, size, "the name of a program has no tabs and line ends");
        return NULL;
    }
    na_case_t *made = add_case(comparison, text, length, error, size);
    if (made == NULL) return NULL;
    made->command = text + length + 1;
    comparison->case_count++;
    return made;
}

/* ---- Time -------------------------------------------------------------------------------------
 */

double na_cut_seconds(const na_cut_t *cut) {
    return cut->pass_s * ldexp(1, -(int)cut->halvings) * (double)(cut->repetitions + cut->warmup);
}

/* The most work of `most` that ends within `seconds`. */
static na_cut_t cut_to(const na_cut_t *most, double seconds) {
    na_cut_t cut = *most;
    cut.halvings = 0;
    if (cut.warmup > 1 && na_cut_seconds(&cut) > seconds) cut.warmup = 1;
    double passes = floor(seconds / cut.pass_s);
    double repetitions = passes - (double)cut.warmup;
    if (repetitions >= (double)cut.repetitions) return cut;
    cut.repetitions = repetitions >= 1 ? (uint64_t)repetitions : 1;
    while (na_cut_seconds(&cut) > seconds && cut.halvings < cut.halvings_max)
        cut.halvings++;
    return cut;
}

void na_plan_share(na_cut_t *cuts, size_t count, double total_s, size_t children) {
    static na_cut_t most[NA_CASES_MAX];
    double each = total_s / (double)children, share = each / (double)count;
    memcpy(most, cuts, count * sizeof *cuts);
    /* What the short ones do not need goes to the others; a few passes come close to the end. */
    for (int pass = 0; pass < 8; pass++) {
        double taken = 0;
        size_t hungry = 0;
        for (size_t i = 0; i < count; i++) {
            cuts[i] = cut_to(&most[i], share);
            if (na_cut_seconds(&most[i]) <= share)
                taken += na_cut_seconds(&most[i]);
            else
                hungry++;
        }
        if (hungry == 0 || taken >= each) return;
        share = (each - taken) / (double)hungry;
    }
}

/* The value of a number knob of the case, or `none` when it has no such knob. */
static uint64_t number_of(const na_case_t *which, const na_knobs_t *knobs, const char *name,
                          uint64_t none) {
    size_t place = name == NULL ? NA_NONE : na_plan_knob(which->bench, name);
    return place == NA_NONE ? none : knobs->value[place].number;
}

static bool given(const na_case_t *which, const char *name) {
    size_t length = strlen(name);
    for (size_t i = 0; i < which->words; i++) {
        const char *word = which->word[i];
        if (strncmp(word, "--", 2) == 0 && strncmp(word + 2, name, length) == 0 &&
            (word[2 + length] == '\0' || word[2 + length] == '='))
            return true;
    }
    return false;
}

/* Knobs that the user gave are left alone. */
static bool may_set(const na_case_t *which, const char *name) {
    return name != NULL && na_plan_knob(which->bench, name) != NA_NONE && !given(which, name);
}

static bool measure(const na_comparison_t *comparison, const na_case_t *which, na_cut_t *cut) {
    const char *extra[3] = {NULL};
    size_t count = 0;
    na_knobs_t knobs;
    na_child_t child;
    char error[256];
    na_plan_knobs(which->bench, which->word, which->words, &knobs, error, sizeof error);
    if (may_set(which, "warmup")) extra[count++] = "--warmup=0";
    if (may_set(which, "repetitions")) extra[count++] = "--repetitions=1";
    na_child_run(comparison, which, comparison->base, extra, &child);
    *cut = (na_cut_t){.pass_s = child.seconds, .repetitions = 1};
    if (child.outcome != NA_DONE) return false;
    if (may_set(which, "repetitions")) {
        cut->repetitions = number_of(which, &knobs, "repetitions", 1);
        if (may_set(which, "warmup")) cut->warmup = number_of(which, &knobs, "warmup", 0);
    }
    if (may_set(which, which->bench->work)) {
        const na_knob_t *work =
            &which->bench->knobs[na_plan_knob(which->bench, which->bench->work)];
        uint64_t value = number_of(which, &knobs, work->name, 1);
        uint64_t least = work->min > 16 ? work->min : 16;
        while (cut->halvings_max < 6 && value >> (cut->halvings_max + 1) >= least)
            cut->halvings_max++;
    }
    return true;
}

static void settle(na_case_t *which, const na_cut_t *cut) {
    na_knobs_t knobs;
    char error[256];
    na_plan_knobs(which->bench, which->word, which->words, &knobs, error, sizeof error);
    if (may_set(which, "repetitions")) {
        add_number(which, "repetitions", cut->repetitions);
        if (may_set(which, "warmup")) add_number(which, "warmup", cut->warmup);
    }
    if (cut->halvings > 0) {
        const char *work = which->bench->work;
        add_number(which, work, number_of(which, &knobs, work, 1) >> cut->halvings);
    }
}

void na_plan_fit(na_comparison_t *comparison, double seconds) {
    static na_cut_t cuts[NA_CASES_MAX];
    static na_case_t *cut_case[NA_CASES_MAX];
    uint64_t begin = na_bench_now();
    double programs = 0;
    size_t count = 0, failures = 0, children = comparison->rounds * comparison->contenders;
    for (size_t i = 0; i < comparison->case_count && !na_child_stop(); i++) {
        na_case_t *which = &comparison->cases[i];
        na_bench_progress("compare: estimating", i, comparison->case_count);
        if (which->bench == NULL) {
            na_child_t child;
            na_child_run(comparison, which, comparison->base, NULL, &child);
            programs += child.seconds;
            continue;
        }
        /* One that fails here will fail in the first round, and be reported then. */
        if (measure(comparison, which, &cuts[count]))
            cut_case[count++] = which;
        else if (++failures == 4)
            break; /* the base is no good: do not wait for all of its time-outs twice */
    }
    na_bench_progress("compare: estimating", 1, 1);
    if (count == 0) return;
    /* Other allocators may be slower than the base, and the first pass may have had luck. */
    double spent = (double)(na_bench_now() - begin) / 1e9;
    double left = 0.8 * (seconds - spent) - programs * (double)children;
    na_plan_share(cuts, count, left > 0 ? left : 0, children);
    for (size_t i = 0; i < count; i++)
        settle(cut_case[i], &cuts[i]);
}
