/* rounds.c - does a policy pay? The program is run with it and without in turn, and both are
 * compared round by round: what a machine does meanwhile meets both alike. The median of the ratios
 * has an interval by their order alone: of N rounds, all are below the true median with a chance of
 * 2^-N. So nothing is supposed of how times are spread. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "profiler/run/run.h"

/* A policy may cost so much of one figure to be worth what it gains of another. */
#define LOSS 1.01
/* Differences of memory up to this are the policy's own tables, chance, and a huge page that is not
 * full. */
#define LEAST_KIB 2048.0
#define LOOK_MS   5 /* from look to look at what is resident */

static const struct {
    const char *name, *unit;
    double scale;
} figure_rows[NA_RUN_FIGURES] = {{"time", "s", 1}, {"peak", "MiB", 1024}, {"mean", "MiB", 1024}};

/* ---- signals ---- */

volatile sig_atomic_t na_run_child;
static volatile sig_atomic_t stopped;

static void stop_rounds(int signal) {
    stopped = signal;
    if (na_run_child > 0) kill(na_run_child, signal);
}

void na_run_stop_by_signals(void) {
    static const int signals[] = {SIGINT, SIGTERM, SIGHUP};
    for (size_t i = 0; i < sizeof signals / sizeof signals[0]; i++) {
        struct sigaction action = {.sa_handler = stop_rounds}, old;
        if (sigaction(signals[i], NULL, &old) == 0 && old.sa_handler != SIG_IGN)
            sigaction(signals[i], &action, NULL);
    }
}

/* ---- a run ---- */

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* In the child; nothing is read. */
static void redirect(na_run_shown_t shown) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    dup2(null, STDIN_FILENO);
    if (shown != NA_RUN_SHOWN) dup2(null, STDOUT_FILENO);
    if (shown == NA_RUN_HIDDEN) dup2(null, STDERR_FILENO);
}

double na_run_resident_kib(pid_t pid) {
    char name[64], text[128];
    snprintf(name, sizeof name, "/proc/%d/statm", (int)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return 0;
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *second = strchr(text, ' ');
    return second == NULL ? 0 : strtod(second, NULL) * (double)sysconf(_SC_PAGESIZE) / 1024;
}

/* Until the process ends; its mean resident KiB. (A kernel without such descriptors: 0.) */
static double watch_mean(pid_t pid) {
    double begin = now(), last = begin, sum = 0;
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (end.fd < 0) return 0;
    for (int n; (n = poll(&end, 1, LOOK_MS)) == 0 || (n < 0 && errno == EINTR);) {
        double at = now();
        sum += na_run_resident_kib(pid) * (at - last);
        last = at;
    }
    close(end.fd);
    return last > begin ? sum / (last - begin) : 0;
}

/* False: it could not be run, or failed, which was said. */
static bool once(const na_run_command_t *c, const na_run_program_t *program, const char *policy,
                 na_run_shown_t shown, double f[NA_RUN_FIGURES]) {
    double begin = now();
    pid_t pid = stopped ? -1 : fork();
    if (stopped) return false;
    if (pid < 0) {
        na_run_say("fork: %s", strerror(errno));
        return false;
    }
    if (pid == 0) {
        redirect(shown);
        if (policy == NULL ? unsetenv("NUMALLOC_POLICY") != 0
                           : setenv("NUMALLOC_POLICY", policy, 1) != 0)
            _exit(NA_RUN_FAILED);
        _exit(na_run_become(program, c->program));
    }
    int status;
    struct rusage usage;
    na_run_child = pid;
    f[NA_RUN_MEAN] = watch_mean(pid);
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR) return false;
    na_run_child = 0;
    f[NA_RUN_TIME] = now() - begin;
    f[NA_RUN_PEAK] = (double)usage.ru_maxrss;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    na_run_say("%s %s the policy: %s %d", c->program[0], policy == NULL ? "without" : "with",
               WIFEXITED(status) ? "status" : "killed by signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return false;
}

static int ratios_by_value(const void *a, const void *b) {
    double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

/* How many may be left out at each end: the binomial tails of both together stay below 5 %. */
static unsigned outside(unsigned n) {
    double term = 1, tail = 0; /* in units of 2^-n */
    double all = 1;
    for (unsigned i = 0; i < n; i++)
        all *= 2;
    unsigned k = 0;
    for (;; k++) {
        tail += term;
        if (2 * tail > 0.05 * all || 2 * (k + 1) >= n) return k;
        term = term * (n - k) / (k + 1);
    }
}

static double sort_to_median(double *values, unsigned n) {
    qsort(values, n, sizeof *values, ratios_by_value);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static na_run_ratio_t ratio_of(double *values, unsigned n) {
    na_run_ratio_t r = {.median = sort_to_median(values, n)};
    unsigned k = outside(n);
    if (k != 0) k--;
    r.low = values[k];
    r.high = values[n - 1 - k];
    return r;
}

/* Of one round. */
static double compare_figure(na_run_figure_t figure, const double without[NA_RUN_FIGURES],
                             const double with[NA_RUN_FIGURES]) {
    double a = without[figure], b = with[figure];
    double apart = a > b ? a - b : b - a;
    if (!(a > 0) || (figure != NA_RUN_TIME && apart < LEAST_KIB)) return 1;
    return b / a;
}

static na_run_says_t judge_ratios(const na_run_ratio_t r[NA_RUN_FIGURES]) {
    unsigned better = 0, worse = 0, not_worse = 0, same = 0;
    for (int i = 0; i < NA_RUN_FIGURES; i++) {
        better += r[i].high < 1;
        worse += r[i].low > LOSS;
        not_worse += r[i].median <= LOSS;
        same += r[i].low > 1 / LOSS && r[i].high < LOSS;
    }
    if (worse != 0) return NA_RUN_LOSES;
    if (better != 0 && not_worse == NA_RUN_FIGURES) return NA_RUN_PAYS;
    return same == NA_RUN_FIGURES ? NA_RUN_SAME : NA_RUN_UNCLEAR;
}

/* Values of all rounds: of each figure without, with, and their ratios. */
static void sum_up_rounds(double *values, unsigned n, na_run_compared_t *to) {
    for (unsigned i = 0; i < NA_RUN_FIGURES; i++) {
        double *of = values + (size_t)3 * n * i;
        to->ratio[i] = ratio_of(of + (size_t)2 * n, n);
        to->without[i] = sort_to_median(of, n);
        to->with[i] = sort_to_median(of + n, n);
    }
    to->says = judge_ratios(to->ratio);
}

bool na_run_compare(const na_run_command_t *c, const na_run_program_t *program, unsigned n,
                    const char *without, const char *with, na_run_shown_t shown,
                    na_run_compared_t *to) {
    double *values = calloc((size_t)n * 3 * NA_RUN_FIGURES, sizeof *values);
    double f[2][NA_RUN_FIGURES]; /* without, with */
    const char *policy[2] = {without, with};
    na_run_shown_t first = shown == NA_RUN_HIDDEN ? NA_RUN_HIDDEN : NA_RUN_ERRORS;
    if (shown == NA_RUN_ERRORS) shown = NA_RUN_HIDDEN;
    /* One of each first, so that files are in memory. */
    bool good = values != NULL && once(c, program, without, shown, f[0]) &&
                once(c, program, with, first, f[1]);
    for (unsigned i = 0; good && i < n; i++) {
        for (unsigned turn = 0; good && turn < 2; turn++) {
            unsigned which = (turn + i) % 2;
            good = once(c, program, policy[which], NA_RUN_HIDDEN, f[which]);
        }
        for (unsigned k = 0; good && k < NA_RUN_FIGURES; k++) {
            double *of = values + (size_t)3 * n * k;
            of[i] = f[0][k];
            of[n + i] = f[1][k];
            of[2 * n + i] = compare_figure((na_run_figure_t)k, f[0], f[1]);
        }
    }
    if (good) sum_up_rounds(values, n, to);
    free(values);
    return good;
}

void na_run_show_compared(const na_run_compared_t *of) {
    static const char *const words[] = {[NA_RUN_PAYS] = "it pays",
                                        [NA_RUN_LOSES] = "it does not pay",
                                        [NA_RUN_SAME] = "it makes no difference",
                                        [NA_RUN_UNCLEAR] = "unclear: more rounds may tell"};
    for (unsigned i = 0; i < NA_RUN_FIGURES; i++)
        fprintf(stderr, "  %s %10.4g %-3s without, %10.4g %-3s with: %.3f times (%.3f to %.3f)\n",
                figure_rows[i].name, of->without[i] / figure_rows[i].scale, figure_rows[i].unit,
                of->with[i] / figure_rows[i].scale, figure_rows[i].unit, of->ratio[i].median,
                of->ratio[i].low, of->ratio[i].high);
    fprintf(stderr, "  %s\n", words[of->says]);
}

int na_run_rounds(const na_run_command_t *c, const na_run_program_t *program) {
    const char *set = getenv("NUMALLOC_POLICY"); /* by na_run_set_environment */
    char *policy = set == NULL ? NULL : strdup(set);
    na_run_compared_t compared;
    bool good = policy != NULL &&
                na_run_compare(c, program, c->rounds, NULL, policy, NA_RUN_SHOWN, &compared);
    free(policy);
    if (!good) return NA_RUN_FAILED;
    fprintf(stderr, "%s, %u rounds:\n", c->policy, c->rounds);
    na_run_show_compared(&compared);
    return compared.says == NA_RUN_PAYS ? 0 : 1;
}
