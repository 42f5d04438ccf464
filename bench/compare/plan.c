/* plan.c - which cases a comparison has, in which order its children run, and how long each may
 * take when the time is limited. */
#include "bench/compare/plan.h"

#include "bench/benchmarks/registry.h"
#include "bench/compare/child.h"
#include "bench/load/team.h"
#include "bench/replay/source.h"

#include <fcntl.h>
#include <math.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

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

static void add_case_word(na_case_t *which, const char *word) {
    if (which->words == NA_CASE_WORDS_MAX)
        na_bench_fail("compare: more than %d knobs for %s", NA_CASE_WORDS_MAX, which->name);
    which->word[which->words++] = word;
}

static void add_case_number(na_case_t *which, const char *knob, uint64_t value) {
    char word[96];
    int length = snprintf(word, sizeof word, "--%s=%llu", knob, (unsigned long long)value);
    add_case_word(which, na_compare_text(word, (size_t)length));
}

na_case_t *na_plan_bench(na_comparison_t *comparison, const na_bench_t *bench, unsigned threads,
                         const char *const *words, size_t count, char *error, size_t size) {
    na_knobs_t knobs;
    na_case_t *made = add_case(comparison, bench->name, strlen(bench->name), error, size);
    if (made == NULL) return NULL;
    made->bench = bench;
    made->threads = threads;
    for (size_t i = 0; i < count; i++)
        add_case_word(made, words[i]);
    if (threads != 0) add_case_number(made, "threads", threads);
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

/* The name of a trace: of its file, without directory, ".nprof" and the process's number. */
static size_t trace_name(const char **text, const char **file) {
    size_t length = strcspn(*text, "=/");
    if ((*text)[length] == '=') {
        *file = *text + length + 1;
        return length;
    }
    *file = *text;
    const char *slash = strrchr(*text, '/');
    if (slash != NULL) *text = slash + 1;
    length = strlen(*text);
    if (length > 6 && strcmp(*text + length - 6, ".nprof") == 0) length -= 6;
    size_t digits = length;
    while (digits > 0 && (*text)[digits - 1] >= '0' && (*text)[digits - 1] <= '9')
        digits--;
    if (digits > 1 && digits < length && (*text)[digits - 1] == '.') length = digits - 1;
    return length;
}

na_case_t *na_plan_replay(na_comparison_t *comparison, const char *text, char *error, size_t size) {
    const na_bench_t *bench = na_bench_find("replay");
    const char *name = text, *file;
    na_replay_program_t program;
    na_knobs_t knobs;
    char word[4096];
    size_t length = trace_name(&name, &file);
    na_case_t *made = add_case(comparison, name, length, error, size);
    if (made == NULL) return NULL;
    snprintf(word, sizeof word, "--file=%s", file);
    made->bench = bench;
    add_case_word(made, na_compare_text(word, strlen(word)));
    if (!na_plan_knobs(bench, made->word, made->words, &knobs, error, size) ||
        !bench->settle(&knobs, error, size))
        return NULL;
    uint64_t window = bench->knobs[na_plan_knob(bench, "window")].def;
    int descriptor = na_replay_open(file, window, &program, error, size);
    if (descriptor < 0) return NULL;
    /* Mapped and checked once more by each child. */
    munmap((void *)(uintptr_t)program.head, na_replay_bytes(program.head));
    fcntl(descriptor, F_SETFD, FD_CLOEXEC);
    snprintf(word, sizeof word, "--file=/proc/%ld/fd/%d", (long)getpid(), descriptor);
    made->program_file = na_compare_text(word, strlen(word));
    comparison->case_count++;
    return made;
}

/* ---- Time -------------------------------------------------------------------------------------
 */

static double measured(const na_cut_t *cut) {
    return cut->fastest_s * ldexp(1, -(int)cut->halvings) * (double)cut->repetitions;
}

/* What can be cut of a child. */
static double cuttable(const na_cut_t *cut) {
    return cut->pass_s * ldexp(1, -(int)cut->halvings) * (double)(cut->repetitions + cut->warmup);
}

double na_cut_seconds(const na_cut_t *cut) {
    return cut->fixed_s + cuttable(cut);
}

/* The most work of `most` that ends within `seconds`, its fixed part not counted, or else the least
 * that is worth its while. */
static na_cut_t cut_to(const na_cut_t *most, double seconds) {
    na_cut_t cut = *most;
    cut.halvings = 0;
    if (cut.warmup > 1 && cuttable(&cut) > seconds) cut.warmup = 1;
    double fit = floor(seconds / cut.pass_s) - (double)cut.warmup;
    double least = ceil(NA_MEASURED_MIN_S / cut.fastest_s);
    if (fit < least) fit = least;
    if (fit < (double)cut.repetitions) cut.repetitions = (uint64_t)fit;
    while (cuttable(&cut) > seconds && cut.halvings < cut.halvings_max) {
        cut.halvings++;
        if (measured(&cut) >= NA_MEASURED_MIN_S) continue;
        cut.halvings--;
        break;
    }
    return cut;
}

void na_plan_share(na_cut_t *cuts, size_t count, double total_s, size_t children) {
    static na_cut_t most[NA_CASES_MAX];
    double each = total_s / (double)children, low = 0, high = 0;
    memcpy(most, cuts, count * sizeof *cuts);
    for (size_t i = 0; i < count; i++)
        if (cuttable(&most[i]) > high) high = cuttable(&most[i]);
    /* The largest share with which all cases together stay within their time: what they take grows
     * with it. First the whole, then halved steps. */
    for (int step = 0; step < 40; step++) {
        double share = step == 0 ? high : 0.5 * (low + high), taken = 0;
        for (size_t i = 0; i < count; i++) {
            cuts[i] = cut_to(&most[i], share);
            taken += na_cut_seconds(&cuts[i]);
        }
        if (taken > each)
            high = share;
        else if (step == 0)
            return;
        else
            low = share;
    }
    for (size_t i = 0; i < count; i++)
        cuts[i] = cut_to(&most[i], low);
}

/* The value of a number knob of the case, or `none` when it has no such knob. */
static uint64_t knob_number(const na_case_t *which, const na_knobs_t *knobs, const char *name,
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

/* Which contenders are still tried while times are estimated. */
typedef struct trial {
    bool hopeless[NA_CONTENDERS_MAX]; /* it timed out, or failed twice: do not wait for it again */
    unsigned failures[NA_CONTENDERS_MAX];
} trial_t;

/* One child with so many repetitions and no warm-up, as far as the case has these knobs and they
 * are not given. NaN when it fails. */
static double try_child(const na_comparison_t *comparison, const na_case_t *which, size_t c,
                        unsigned repetitions, trial_t *trial) {
    const char *extra[3] = {NULL};
    char text[32];
    size_t count = 0;
    na_child_t child;
    snprintf(text, sizeof text, "--repetitions=%u", repetitions);
    if (may_set(which, "warmup")) extra[count++] = "--warmup=0";
    if (may_set(which, "repetitions")) extra[count++] = text;
    na_child_run(comparison, which, c, extra, &child);
    if (child.outcome == NA_DONE) return child.seconds;
    if (child.outcome == NA_TIMED_OUT || ++trial->failures[c] == 2) trial->hopeless[c] = true;
    return NAN;
}

/* Fills in the times of a cut from children of all contenders. The base runs with one repetition
 * and with more, so that what comes with each child can be told from what comes with each
 * repetition; the others' repetitions follow from their one child. */
static bool time_case(const na_comparison_t *comparison, const na_case_t *which, na_cut_t *cut,
                      trial_t *trial) {
    enum { MORE = 3 };
    const double least = 1e-5; /* a repetition is not shorter: divided by it, numbers stay finite */
    double one = try_child(comparison, which, comparison->base, 1, trial), sum;
    if (isnan(one)) return false;
    if (comparison->control != NA_NONE) { /* the same: the lower one was disturbed less */
        double again = try_child(comparison, which, comparison->control, 1, trial);
        if (again < one) one = again;
    }
    cut->pass_s = one;
    if (may_set(which, "repetitions")) {
        double more = try_child(comparison, which, comparison->base, MORE, trial);
        if (!isnan(more)) cut->pass_s = (more - one) / (MORE - 1);
    }
    /* Whatever disturbed one of them: a repetition is a fifth of the first child or more. */
    if (!(cut->pass_s > 0.2 * one)) cut->pass_s = 0.2 * one;
    if (cut->pass_s > one) cut->pass_s = one;
    if (cut->pass_s < least) cut->pass_s = least;
    cut->fixed_s = one - cut->pass_s;
    cut->fastest_s = cut->pass_s;
    sum = cut->pass_s;
    size_t count = 1;
    for (size_t c = 0; c < comparison->contenders && !na_child_stop(); c++) {
        if (c == comparison->base) continue;
        double pass = cut->pass_s;
        if (c != comparison->control && !trial->hopeless[c]) {
            double taken = try_child(comparison, which, c, 1, trial) - cut->fixed_s;
            /* Below a fifth of the base's the fixed part was wrong, not the allocator fast. */
            if (!isnan(taken)) pass = taken > 0.2 * cut->pass_s ? taken : 0.2 * cut->pass_s;
        }
        if (pass < cut->fastest_s) cut->fastest_s = pass;
        sum += pass;
        count++;
    }
    cut->pass_s = sum / (double)count;
    return true;
}

static bool measure_case(const na_comparison_t *comparison, const na_case_t *which, na_cut_t *cut,
                         trial_t *trial) {
    na_knobs_t knobs;
    char error[256];
    na_plan_knobs(which->bench, which->word, which->words, &knobs, error, sizeof error);
    *cut = (na_cut_t){.repetitions = 1};
    if (!time_case(comparison, which, cut, trial)) return false;
    if (may_set(which, "repetitions")) {
        double least = ceil(NA_MEASURED_MIN_S / cut->fastest_s);
        cut->repetitions = knob_number(which, &knobs, "repetitions", 1);
        if (least > (double)cut->repetitions)
            cut->repetitions = least < 1000 ? (uint64_t)least : 1000;
        if (may_set(which, "warmup")) cut->warmup = knob_number(which, &knobs, "warmup", 0);
    }
    if (may_set(which, which->bench->work)) {
        const na_knob_t *work =
            &which->bench->knobs[na_plan_knob(which->bench, which->bench->work)];
        uint64_t value = knob_number(which, &knobs, work->name, 1);
        uint64_t least = work->min > 16 ? work->min : 16;
        while (cut->halvings_max < 6 && value >> (cut->halvings_max + 1) >= least)
            cut->halvings_max++;
    }
    return true;
}

/* Knobs that the user left open. */
static void set_open(na_case_t *which, const char *const *word) {
    for (; word != NULL && *word != NULL; word++) {
        size_t length = strcspn(*word + 2, "=");
        if (may_set(which, na_compare_text(*word + 2, length))) add_case_word(which, *word);
    }
}

void na_plan_fixed(na_comparison_t *comparison) {
    for (size_t i = 0; i < comparison->case_count; i++) {
        na_case_t *which = &comparison->cases[i];
        if (which->bench == NULL) continue;
        set_open(which, which->bench->brief);
        set_open(which, which->bench->suite);
    }
}

static void settle(na_case_t *which, const na_cut_t *cut) {
    na_knobs_t knobs;
    char error[256];
    na_plan_knobs(which->bench, which->word, which->words, &knobs, error, sizeof error);
    if (may_set(which, "repetitions")) {
        add_case_number(which, "repetitions", cut->repetitions);
        if (may_set(which, "warmup")) add_case_number(which, "warmup", cut->warmup);
    }
    if (cut->halvings > 0) {
        const char *work = which->bench->work;
        add_case_number(which, work, knob_number(which, &knobs, work, 1) >> cut->halvings);
    }
}

double na_plan_fit(na_comparison_t *comparison, double seconds) {
    static na_cut_t cuts[NA_CASES_MAX];
    static na_case_t *cut_case[NA_CASES_MAX];
    trial_t trial = {{false}, {0}};
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
        set_open(which, which->bench->brief);
        /* One that fails here will fail in the first round, and be reported then. */
        if (measure_case(comparison, which, &cuts[count], &trial))
            cut_case[count++] = which;
        else if (++failures == 4)
            break; /* the base is no good: do not wait for all of its time-outs twice */
    }
    na_bench_progress("compare: estimating", 1, 1);
    double spent = (double)(na_bench_now() - begin) / 1e9, total = programs * (double)children;
    double left = 0.95 * (seconds - spent) - total; /* some children will be slower than others */
    na_plan_share(cuts, count, left > 0 ? left : 0, children);
    for (size_t i = 0; i < count; i++) {
        settle(cut_case[i], &cuts[i]);
        total += na_cut_seconds(&cuts[i]) * (double)children;
    }
    return total;
}
