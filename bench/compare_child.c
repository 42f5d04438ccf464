/* compare_child.c - runs one benchmark in a child with an allocator preloaded, and reads its
 * medians from its standard output (the lines of na_report_tsv). */
#include "compare.h"
#include "process.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

static char **child_environment(const char *preload) {
    static char entry[1100];
    static char **made;
    static size_t room;
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    if (made == NULL) {
        room = count + 2;
        made = na_bench_map(room * sizeof(char *));
    }
    for (size_t i = 0; i < count && kept + 2 < room; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0) made[kept++] = environ[i];
    if (*preload != '\0') {
        snprintf(entry, sizeof entry, "LD_PRELOAD=%s", preload);
        made[kept++] = entry;
    }
    made[kept] = NULL;
    return made;
}

/* Everything that the child writes until it closes its output, or false at the deadline. */
static bool read_until_end(int from, char *text, size_t size, uint64_t deadline) {
    size_t length = 0;
    for (;;) {
        uint64_t now = na_bench_now();
        if (now >= deadline) return false;
        struct pollfd waiting = {.fd = from, .events = POLLIN};
        uint64_t left_ms = (deadline - now) / 1000000 + 1;
        int ready = poll(&waiting, 1, left_ms > 60000 ? 60000 : (int)left_ms);
        if (ready < 0 && errno != EINTR) na_bench_fail("compare: poll: %s", strerror(errno));
        if (ready <= 0) continue;
        if (length == size - 1)
            na_bench_fail("compare: a child wrote more than %zu bytes of results", size - 1);
        ssize_t got = read(from, text + length, size - 1 - length);
        if (got < 0 && errno != EINTR)
            na_bench_fail("compare: reading a child's result: %s", strerror(errno));
        if (got == 0) {
            text[length] = '\0';
            return true;
        }
        if (got > 0) length += (size_t)got;
    }
}

static void check_object(na_comparison_t *comparison, size_t c, const char *object) {
    na_contender_t *contender = &comparison->contender[c];
    snprintf(contender->object, sizeof contender->object, "%s", object);
    if (*contender->path != '\0' && strcmp(object, contender->path) != 0)
        na_bench_fail("compare: %s (%s) was preloaded, but malloc came from %s: it is not an "
                      "allocator, or cannot be loaded",
                      contender->name, contender->path, object);
}

static na_compared_t *find_metric(na_comparison_t *comparison, char **field) {
    for (size_t i = 0; i < comparison->metrics; i++)
        if (strcmp(comparison->metric[i].name, field[1]) == 0) return &comparison->metric[i];
    if (comparison->metrics == NA_METRICS_MAX)
        na_bench_fail("compare: more than %d metrics", NA_METRICS_MAX);
    na_compared_t *metric = &comparison->metric[comparison->metrics++];
    snprintf(metric->name, sizeof metric->name, "%s", field[1]);
    snprintf(metric->unit, sizeof metric->unit, "%s", field[2]);
    metric->better = strcmp(field[3], "higher") == 0 ? NA_HIGHER : NA_LOWER;
    metric->rank = strcmp(field[4], "headline") == 0 ? NA_HEADLINE : NA_DETAIL;
    double *values = na_bench_map(comparison->contenders * comparison->rounds * sizeof(double));
    for (size_t c = 0; c < comparison->contenders; c++)
        metric->value[c] = values + c * comparison->rounds;
    return metric;
}

static void parse(na_comparison_t *comparison, size_t c, size_t round, char *text) {
    bool complete = false;
    for (char *line = text, *next; line != NULL && *line != '\0'; line = next) {
        char *field[7] = {line};
        size_t fields = 1;
        next = strchr(line, '\n');
        if (next != NULL) *next++ = '\0';
        for (char *at = line; fields < NA_COUNT(field) && (at = strchr(at, '\t')) != NULL;) {
            *at++ = '\0';
            field[fields++] = at;
        }
        if (fields == 2 && strcmp(field[0], "malloc") == 0)
            check_object(comparison, c, field[1]);
        else if (fields == 7 && strcmp(field[0], "metric") == 0)
            find_metric(comparison, field)->value[c][round] = strtod(field[6], NULL);
        else if (fields == 1 && strcmp(field[0], "end") == 0)
            complete = true;
    }
    if (!complete)
        na_bench_fail("compare: the result of %s under %s was cut short", comparison->bench->name,
                      comparison->contender[c].name);
}

void na_compare_run(na_comparison_t *comparison, size_t c, size_t round) {
    static char text[65536], program[2048];
    const na_contender_t *contender = &comparison->contender[c];
    const char *bench = comparison->bench->name;
    if (*program == '\0' && !na_program_path(program, sizeof program))
        na_bench_fail("compare: cannot find my own path in /proc/self/exe");
    char **arguments = na_bench_map((comparison->passed_count + 4) * sizeof(char *));
    size_t count = 0;
    arguments[count++] = program;
    arguments[count++] = (char *)(uintptr_t)bench;
    for (size_t i = 0; i < comparison->passed_count; i++)
        arguments[count++] = comparison->passed[i];
    arguments[count] = (char *)(uintptr_t) "--tsv";

    int ends[2];
    if (pipe(ends) != 0) na_bench_fail("compare: pipe: %s", strerror(errno));
    posix_spawn_file_actions_t actions;
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDOUT_FILENO);
    posix_spawn_file_actions_addclose(&actions, ends[0]);
    posix_spawn_file_actions_addclose(&actions, ends[1]);
    pid_t child;
    int error =
        posix_spawn(&child, program, &actions, NULL, arguments, child_environment(contender->path));
    if (error != 0) na_bench_fail("compare: cannot start %s: %s", program, strerror(error));
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    uint64_t deadline = na_bench_now() + comparison->timeout_s * UINT64_C(1000000000);
    bool ended = read_until_end(ends[0], text, sizeof text, deadline);
    close(ends[0]);
    if (!ended) kill(child, SIGKILL);
    int status;
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) na_bench_fail("compare: waitpid: %s", strerror(errno));
    if (!ended)
        na_bench_fail("compare: %s under %s took longer than %llu s; see --timeout", bench,
                      contender->name, (unsigned long long)comparison->timeout_s);
    if (WIFSIGNALED(status))
        na_bench_fail("compare: %s under %s was ended by signal %d (%s)", bench, contender->name,
                      WTERMSIG(status), strsignal(WTERMSIG(status)));
    if (WEXITSTATUS(status) != 0)
        na_bench_fail("compare: %s under %s ended with status %d", bench, contender->name,
                      WEXITSTATUS(status));
    parse(comparison, c, round, text);
}
