/* replay.c - the replay benchmark: what a program did, played back from its trace.
 *
 * The trace is made a program (program.h) by numalloc-bench-compile, which runs without what is
 * preloaded here, in memory that the processes share. Then each repetition is a process of its own
 * that plays it once: a program's heap begins cold, and so does each of these. */
#include "bench/replay/play.h"
#include "bench/replay/program.h"
#include "bench/replay/shape.h"
#include "bench/replay/source.h"
#include "bench/suite/bench.h"
#include "bench/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { K_FILE, K_TOUCH, K_LATENCY, K_INSIDE, K_WINDOW, K_REPETITIONS, K_COUNT };

static const na_knob_t knobs_table[K_COUNT] = {
    [K_FILE] = {"file", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                "the trace: a profile of mode trace, or shape:NAME, a made-up one (shape:list: "
                "which there "
                "are); the word without dashes means the same"},
    [K_TOUCH] = {"touch", "", NA_KNOB_CHOICE, NA_REPLAY_TOUCH_PAGES, 0, 0, "none|first|pages|all",
                 "what is written of a new block: its first byte, a byte of each of its pages, or "
                 "all that was asked for"},
    [K_LATENCY] = {"latency", "", NA_KNOB_FLAG, 0, 0, 0, NULL,
                   "time each call by itself, too: median, p99 and p99.9"},
    [K_INSIDE] = {"inside", "", NA_KNOB_FLAG, 0, 0, 0, NULL,
                  "play it once in this process; without it, each repetition is a process"},
    [K_WINDOW] = {"window", "events", NA_KNOB_NUMBER, 10000, 16, 1000000000, NULL,
                  "the events of all threads are cut into windows of so many; no thread is more "
                  "than one window ahead of another"},
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(5),
};

/* ---- Metrics ----------------------------------------------------------------------------------
 */

enum {
    M_TIME,
    M_PEAK,
    M_FINAL,
    M_OVER_LIVE,
    M_WALL,
    M_PLAYER,
    M_CALLS,
    M_ALLOCATIONS,
    M_FREES,
    M_REALLOCS,
    M_EVENTS,
    M_MOVED,
    M_LEFT_OUT,
    M_REPLACED,
    M_HANDED,
    M_THREADS,
    M_LIVE,
    M_LIVE_BLOCKS,
    M_LEFT,
    M_PRINT,
    M_P50,
    M_P99,
    M_P999,
    M_COUNT
};

/* What the trace was is the same with every allocator: in no mean. */
static const struct {
    const char *name, *unit;
    na_rank_t rank;
    na_kind_t kind;
} metrics_table[M_COUNT] = {
    [M_TIME] = {"replay", "ns/event", NA_HEADLINE, NA_TIME},
    [M_PEAK] = {"peak memory", "MiB", NA_HEADLINE, NA_MEMORY},
    [M_FINAL] = {"final memory", "MiB", NA_HEADLINE, NA_MEMORY},
    [M_OVER_LIVE] = {"peak memory over peak live", "x", NA_DETAIL, NA_RATIO},
    [M_WALL] = {"time of all", "ms", NA_DETAIL, NA_TIME},
    [M_PLAYER] = {"player alone", "ns/event", NA_DETAIL, NA_RATIO},
    [M_CALLS] = {"calls", "calls", NA_DETAIL, NA_RATIO},
    [M_ALLOCATIONS] = {"calls: allocations", "calls", NA_DETAIL, NA_RATIO},
    [M_FREES] = {"calls: frees", "calls", NA_DETAIL, NA_RATIO},
    [M_REALLOCS] = {"calls: reallocs", "calls", NA_DETAIL, NA_RATIO},
    [M_EVENTS] = {"events in the trace", "events", NA_DETAIL, NA_RATIO},
    [M_MOVED] = {"reallocs of two events", "calls", NA_DETAIL, NA_RATIO},
    [M_LEFT_OUT] = {"frees of unknown blocks", "events", NA_DETAIL, NA_RATIO},
    [M_REPLACED] = {"frees that were added", "calls", NA_DETAIL, NA_RATIO},
    [M_HANDED] = {"blocks handed over", "blocks", NA_DETAIL, NA_RATIO},
    [M_THREADS] = {"threads", "threads", NA_DETAIL, NA_RATIO},
    [M_LIVE] = {"peak live", "bytes", NA_DETAIL, NA_RATIO},
    [M_LIVE_BLOCKS] = {"peak live blocks", "blocks", NA_DETAIL, NA_RATIO},
    [M_LEFT] = {"live at the end", "bytes", NA_DETAIL, NA_RATIO},
    [M_PRINT] = {"fingerprint", "", NA_DETAIL, NA_RATIO},
    [M_P50] = {"call p50", "ns", NA_DETAIL, NA_TIME},
    [M_P99] = {"call p99", "ns", NA_DETAIL, NA_TIME},
    [M_P999] = {"call p99.9", "ns", NA_DETAIL, NA_TIME},
};

static void add_sample(na_result_t *result, size_t which, size_t capacity, double sample) {
    na_metric_t *metric = NULL;
    for (size_t i = 0; i < result->count; i++)
        if (strcmp(result->metric[i].name, metrics_table[which].name) == 0)
            metric = &result->metric[i];
    if (metric == NULL) {
        metric = na_result_metric(result, metrics_table[which].name, metrics_table[which].unit,
                                  NA_LOWER, metrics_table[which].rank, capacity);
        metric->kind = metrics_table[which].kind;
    }
    na_metric_add(metric, sample);
}

/* ---- One repetition ---------------------------------------------------------------------------
 */

static void play_inside(const na_replay_program_t *program, const na_knob_value_t *value,
                        na_result_t *result) {
    const na_replay_head_t *head = program->head;
    bool timed = value[K_LATENCY].number != 0;
    na_replay_played_t played;
    na_replay_play(program, (na_replay_touch_t)value[K_TOUCH].number, timed, &played);
    uint64_t calls = head->allocations + head->frees + head->reallocs;
    if (played.calls != calls || played.began != head->threads)
        na_bench_fail("replay: %llu of %llu calls were played by %llu of %u threads",
                      (unsigned long long)played.calls, (unsigned long long)calls,
                      (unsigned long long)played.began, head->threads);
    double live = (double)head->peak_bytes, mib = 0x1p20;
    const double sample[M_COUNT] = {
        [M_TIME] = (double)played.elapsed / (double)calls,
        [M_PEAK] = (double)played.peak / mib,
        [M_FINAL] = (double)played.final / mib,
        [M_OVER_LIVE] = live > 0 ? (double)played.peak / live : 0,
        [M_WALL] = (double)played.elapsed / 1e6,
        [M_PLAYER] = (double)played.player / (double)calls,
        [M_CALLS] = (double)played.calls,
        [M_ALLOCATIONS] = (double)head->allocations,
        [M_FREES] = (double)head->frees,
        [M_REALLOCS] = (double)head->reallocs,
        [M_EVENTS] = (double)head->events,
        [M_MOVED] = (double)head->moved,
        [M_LEFT_OUT] = (double)head->left_out,
        [M_REPLACED] = (double)head->replaced,
        [M_HANDED] = (double)head->handed,
        [M_THREADS] = (double)head->threads,
        [M_LIVE] = live,
        [M_LIVE_BLOCKS] = (double)head->peak_blocks,
        [M_LEFT] = (double)head->left_bytes,
        [M_PRINT] = (double)(head->print >> 16), /* a double has 53 bits */
        [M_P50] = (double)played.slow[0],
        [M_P99] = (double)played.slow[1],
        [M_P999] = (double)played.slow[2],
    };
    for (size_t i = 0; i < (timed ? M_COUNT : M_P50); i++)
        add_sample(result, i, 1, sample[i]);
}

/* Reads all that comes, then waits. The text is kept up to `size` and terminated. */
static int read_child(int from, pid_t child, char *text, size_t size) {
    size_t length = 0;
    int status;
    for (;;) {
        ssize_t got = read(from, text + length, size - 1 - length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        length += (size_t)got;
    }
    text[length] = '\0';
    close(from);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) na_bench_fail("replay: waitpid: %s", strerror(errno));
    return status;
}

/* The lines of na_report_tsv. */
static void take_samples(char *text, na_result_t *result, size_t repetitions) {
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        if (strncmp(line, "metric\t", 7) != 0) continue;
        const char *name = line + 7, *value = strrchr(line, '\t') + 1;
        size_t length = strcspn(name, "\t");
        for (size_t i = 0; i < M_COUNT; i++)
            if (strlen(metrics_table[i].name) == length &&
                memcmp(metrics_table[i].name, name, length) == 0)
                add_sample(result, i, repetitions, strtod(value, NULL));
    }
}

static void play_in_child(int file, const na_knobs_t *knobs, na_result_t *result) {
    static char text[16384], path[2048], name[64], touch[64], word[32];
    const na_knob_value_t *value = knobs->value;
    int ends[2];
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (!na_program_path(path, sizeof path))
        na_bench_fail("replay: cannot find my own path in /proc/self/exe");
    snprintf(name, sizeof name, "--file=/proc/self/fd/%d", file);
    snprintf(touch, sizeof touch, "--touch=%s", na_knobs_value(knobs, K_TOUCH, word, sizeof word));
    char *arguments[] = {path,
                         (char *)(uintptr_t) "replay",
                         name,
                         touch,
                         (char *)(uintptr_t) "--inside",
                         (char *)(uintptr_t) "--tsv",
                         (char *)(uintptr_t)(value[K_LATENCY].number ? "--latency" : NULL),
                         NULL};
    if (pipe2(ends, O_CLOEXEC) != 0) na_bench_fail("replay: pipe: %s", strerror(errno));
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    int error = posix_spawn(&child, path, &actions, NULL, arguments, environ);
    posix_spawn_file_actions_destroy(&actions);
    if (error != 0) na_bench_fail("replay: cannot start %s: %s", path, strerror(error));
    close(ends[1]);
    int status = read_child(ends[0], child, text, sizeof text);
    if (WIFSIGNALED(status))
        na_bench_fail("replay: a repetition was ended by signal %d (%s)", WTERMSIG(status),
                      strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0) _exit(1); /* it has said why */
    if (strstr(text, "\nend\n") == NULL)
        na_bench_fail("replay: the result of a repetition was cut short");
    take_samples(text, result, (size_t)value[K_REPETITIONS].number);
}

/* ---- The benchmark ----------------------------------------------------------------------------
 */

static bool replay_settle(na_knobs_t *knobs, char *error, size_t size) {
    const char *file = knobs->value[K_FILE].text;
    struct stat about;
    if (strcmp(file, NA_SHAPE_PREFIX "list") == 0) {
        na_shape_list();
        exit(0);
    }
    if (na_shape_named(file)) return na_shape_find(file, error, size) != NULL;
    if (*file == '\0') {
        snprintf(error, size,
                 "name a trace or a shape: numalloc-bench replay FILE.nprof, or shape:list");
        return false;
    }
    if (stat(file, &about) != 0 || access(file, R_OK) != 0) {
        snprintf(error, size, "cannot read '%.200s': %s", file, strerror(errno));
        return false;
    }
    if (!S_ISREG(about.st_mode)) {
        snprintf(error, size, "'%.200s' is not a regular file", file);
        return false;
    }
    return true;
}

static void replay_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    na_replay_program_t program;
    char error[512];
    int file =
        na_replay_open(value[K_FILE].text, value[K_WINDOW].number, &program, error, sizeof error);
    if (file < 0) na_bench_fail("replay: %s", error);
    if (value[K_INSIDE].number != 0) {
        play_inside(&program, value, result);
        return;
    }
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    /* What all share is there once and counted nowhere. */
    munmap((void *)(uintptr_t)program.head, na_replay_bytes(program.head));
    for (size_t r = 0; r < repetitions; r++) {
        na_bench_progress("replay: repetition", r, repetitions);
        play_in_child(file, knobs, result);
    }
    na_bench_progress("replay: repetition", 1, 1);
}

/** What a program called, played back from its trace (`numalloc-run --trace`, or
 *  `NUMALLOC_PROFILE=trace`): the same sizes, in the order of the trace, by as many threads, each
 *  block freed by the thread that freed it. *Time of all divided by calls*, the player's own in it;
 *  `peak memory` is what the calls added to the resident size. Each repetition is a process.
 *  `shape:NAME` in place of a file is a [made-up trace](#made-up-traces); `shape:list` names them.
 *  [Replays](#replays) has what is as it was and what is not. */
const na_bench_t na_bench_replay = {
    .name = "replay",
    .summary = "a program's calls, played back from its trace",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = false,
    .headline = "replay",
    .suite = (const char *const[]){"--repetitions=3", NULL},
    .operand = "file",
    .settle = replay_settle,
    .run = replay_run,
};
