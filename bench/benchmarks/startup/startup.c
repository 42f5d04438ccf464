/* startup.c - what an allocator adds to the start (and end) of a program.
 *
 * An empty program is started N times in three ways, in turn: with the library preloaded, with an
 * empty library preloaded, and with none. The result is the median of the differences of neighbours
 * (library minus empty library), so that a drift of the machine drops out; the order within a round
 * changes from round to round. A start is the time from posix_spawn() to the end of waitpid().
 *
 * The library is --preload, or what this process itself has in LD_PRELOAD. */
#include "bench/load/team.h"
#include "bench/suite/bench.h"
#include "bench/system/process.h"

#include <errno.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

enum {
    K_PRELOAD,
    K_PROGRAM,
    K_STARTS,
    K_PIN,
    K_WARMUP,
    K_COUNT,
};

static const na_knob_t knobs_table[K_COUNT] = {
    [K_PRELOAD] = {"preload", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                   "the library to preload; without it, this process's own LD_PRELOAD"},
    [K_PROGRAM] = {"program", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                   "the program to start; without it, the suite's own empty program"},
    [K_STARTS] = {"starts", "starts", NA_KNOB_NUMBER, 300, 1, 1000000, NULL,
                  "starts of each kind that are measured"},
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(10),
};

enum { ARM_LIBRARY, ARM_EMPTY, ARM_NONE, ARM_COUNT };

extern char **environ;

/* The present environment with LD_PRELOAD replaced, or removed for "". */
static char **make_environment(const char *preload) {
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **made = na_bench_map((count + 2) * sizeof(char *));
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0) made[kept++] = environ[i];
    if (*preload != '\0') {
        size_t size = strlen(preload) + sizeof "LD_PRELOAD=";
        char *entry = na_bench_map(size);
        snprintf(entry, size, "LD_PRELOAD=%s", preload);
        made[kept++] = entry;
    }
    made[kept] = NULL;
    return made;
}

static double start_once(const char *program, char **environment) {
    char *arguments[] = {(char *)(uintptr_t)program, NULL};
    pid_t child;
    int status;
    uint64_t begin = na_bench_now();
    int error = posix_spawn(&child, program, NULL, NULL, arguments, environment);
    if (error != 0) na_bench_fail("startup: cannot start %s: %s", program, strerror(error));
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) na_bench_fail("startup: waitpid: %s", strerror(errno));
    uint64_t end = na_bench_now();
    if (WIFSIGNALED(status))
        na_bench_fail("startup: %s was ended by signal %d (%s)", program, WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        na_bench_fail("startup: %s ended with status %d", program, WEXITSTATUS(status));
    return (double)(end - begin) / 1e3;
}

static bool startup_settle(na_knobs_t *knobs, char *error, size_t size) {
    static char program[4096];
    const char *inherited = getenv("LD_PRELOAD");
    if (*knobs->value[K_PROGRAM].text == '\0') {
        if (!na_beside_program("numalloc-bench-empty", program, sizeof program)) {
            snprintf(error, size,
                     "numalloc-bench-empty is not beside numalloc-bench: build it, or "
                     "name another program with --program");
            return false;
        }
        knobs->value[K_PROGRAM].text = program;
    }
    if (access(knobs->value[K_PROGRAM].text, X_OK) != 0) {
        snprintf(error, size, "cannot run --program '%s': %s", knobs->value[K_PROGRAM].text,
                 strerror(errno));
        return false;
    }
    if (*knobs->value[K_PRELOAD].text == '\0' && inherited != NULL)
        knobs->value[K_PRELOAD].text = inherited;
    /* The dynamic loader only warns of a library that it cannot load, and goes on without it. */
    const char *preload = knobs->value[K_PRELOAD].text;
    if (strchr(preload, '/') != NULL && strpbrk(preload, " :") == NULL &&
        access(preload, R_OK) != 0) {
        snprintf(error, size, "cannot read --preload '%s': %s", preload, strerror(errno));
        return false;
    }
    return true;
}

static void startup_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    size_t warmup = (size_t)value[K_WARMUP].number, starts = (size_t)value[K_STARTS].number;
    char empty[4096];
    const char *program = value[K_PROGRAM].text, *preload = value[K_PRELOAD].text;
    if (!na_beside_program("libempty_preload.so", empty, sizeof empty))
        na_bench_fail("startup: libempty_preload.so is not beside numalloc-bench; build it");
    char **environments[ARM_COUNT] = {
        make_environment(preload),
        make_environment(empty),
        make_environment(""),
    };

    na_metric_t *extra = na_result_metric(result, "library minus empty library", "us", NA_LOWER,
                                          NA_HEADLINE, starts);
    na_metric_t *arms[ARM_COUNT] = {
        na_result_metric(result, "start with the library", "us", NA_LOWER, NA_HEADLINE, starts),
        na_result_metric(result, "start with an empty library", "us", NA_LOWER, NA_DETAIL, starts),
        na_result_metric(result, "start without preload", "us", NA_LOWER, NA_DETAIL, starts),
    };
    na_team_pin_self((na_pin_t)value[K_PIN].number); /* children inherit it */
    for (size_t r = 0; r < warmup + starts; r++) {
        double time[ARM_COUNT];
        if (r % 16 == 0) na_bench_progress("startup: start", r, warmup + starts);
        for (size_t a = 0; a < ARM_COUNT; a++) {
            size_t arm = (a + r) % ARM_COUNT;
            time[arm] = start_once(program, environments[arm]);
        }
        if (r < warmup) continue;
        na_metric_add(extra, time[ARM_LIBRARY] - time[ARM_EMPTY]);
        for (size_t arm = 0; arm < ARM_COUNT; arm++)
            na_metric_add(arms[arm], time[arm]);
    }
    na_bench_progress("startup: start", 1, 1);
}

/** Starts an empty program with a library preloaded, with an empty one, and with none, in turn.
 *  *Median difference of the first two, in microseconds.* `--preload PATH` names the library. */
const na_bench_t na_bench_startup = {
    .name = "startup",
    .summary = "what preloading a library adds to the start of an empty program",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = false,
    .headline = "start with the library", /* the difference is about 0 for the C library's malloc */
    .work = "starts",
    .settle = startup_settle,
    .run = startup_run,
};
