/* rounds.c - does a policy pay? The program is run with it and without in turn, and both are
 * compared round by round: what a machine does meanwhile meets both alike. The median of the ratios
 * has an interval by their order alone: of N rounds, all are below the true median with a chance of
 * 2^-N. So nothing is supposed of how times are spread. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
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
/* Differences of memory up to this are the policy's own tables, and chance. */
#define LEAST_KIB 1024.0
#define LOOK_MS   5 /* from look to look at what is resident */

typedef enum figure {
    TIME, /* s */
    PEAK, /* KiB, of the largest process of the run */
    MEAN, /* KiB, resident over time, of the process that was started; 0: never looked */
    FIGURES
} figure_t;
static const struct {
    const char *name, *unit;
    double scale;
} rows[FIGURES] = {{"time", "s", 1}, {"peak", "MiB", 1024}, {"mean", "MiB", 1024}};

/* A median, and its interval of at least 95 %. */
typedef struct ratio {
    double median, low, high;
} ratio_t;

static double now(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* What of a run is seen. All of the first; of the first under the policy what it says on stderr,
 * where the library says what is wrong with the policy; nothing of the others. */
typedef enum shown { SHOWN, SHOWN_ERRORS, HIDDEN } shown_t;

/* In the child; nothing is read. */
static void redirect(shown_t shown) {
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null < 0) return;
    dup2(null, STDIN_FILENO);
    if (shown != SHOWN) dup2(null, STDOUT_FILENO);
    if (shown == HIDDEN) dup2(null, STDERR_FILENO);
}

static double resident_kib(pid_t pid) {
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
static double watch(pid_t pid) {
    double begin = now(), last = begin, sum = 0;
    struct pollfd end = {.fd = (int)syscall(SYS_pidfd_open, pid, 0), .events = POLLIN};
    if (end.fd < 0) return 0;
    while (poll(&end, 1, LOOK_MS) == 0) {
        double at = now();
        sum += resident_kib(pid) * (at - last);
        last = at;
    }
    close(end.fd);
    return last > begin ? sum / (last - begin) : 0;
}

/* False: it could not be run, or failed, which was said. */
static bool once(const na_run_command_t *c, const na_run_program_t *program, const char *policy,
                 shown_t shown, double f[FIGURES]) {
    double begin = now();
    pid_t pid = fork();
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
    f[MEAN] = watch(pid);
    while (wait4(pid, &status, 0, &usage) < 0)
        if (errno != EINTR) return false;
    f[TIME] = now() - begin;
    f[PEAK] = (double)usage.ru_maxrss;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) return true;
    na_run_say("%s %s the policy: %s %d", c->program[0], policy == NULL ? "without" : "with",
               WIFEXITED(status) ? "status" : "killed by signal",
               WIFEXITED(status) ? WEXITSTATUS(status) : WTERMSIG(status));
    return false;
}

static int by_value(const void *a, const void *b) {
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

static double median(double *values, unsigned n) {
    qsort(values, n, sizeof *values, by_value);
    return (values[(n - 1) / 2] + values[n / 2]) / 2;
}

static ratio_t ratio_of(double *values, unsigned n) {
    ratio_t r = {.median = median(values, n)};
    unsigned k = outside(n);
    if (k != 0) k--;
    r.low = values[k];
    r.high = values[n - 1 - k];
    return r;
}

/* Of one round. */
static double compare(figure_t figure, const double without[FIGURES], const double with[FIGURES]) {
    double a = without[figure], b = with[figure];
    double apart = a > b ? a - b : b - a;
    if (!(a > 0) || (figure != TIME && apart < LEAST_KIB)) return 1;
    return b / a;
}

static int verdict(const ratio_t r[FIGURES]) {
    const char *says = "unclear: more rounds may tell";
    unsigned better = 0, worse = 0, not_worse = 0, same = 0;
    for (int i = 0; i < FIGURES; i++) {
        better += r[i].high < 1;
        worse += r[i].low > LOSS;
        not_worse += r[i].median <= LOSS;
        same += r[i].low > 1 / LOSS && r[i].high < LOSS;
    }
    if (worse != 0)
        says = "it does not pay";
    else if (better != 0 && not_worse == FIGURES)
        says = "it pays";
    else if (same == FIGURES)
        says = "it makes no difference";
    fprintf(stderr, "  %s\n", says);
    return worse == 0 && better != 0 && not_worse == FIGURES ? 0 : 1;
}

/* Values of all rounds: of each figure without, with, and their ratios. */
static int say_all(const na_run_command_t *c, double *values) {
    unsigned n = c->rounds;
    ratio_t r[FIGURES];
    fprintf(stderr, "%s, %u rounds:\n", c->policy, n);
    for (unsigned i = 0; i < FIGURES; i++) {
        double *of = values + (size_t)3 * n * i;
        r[i] = ratio_of(of + (size_t)2 * n, n);
        fprintf(stderr, "  %s %10.4g %-3s without, %10.4g %-3s with: %.3f times (%.3f to %.3f)\n",
                rows[i].name, median(of, n) / rows[i].scale, rows[i].unit,
                median(of + n, n) / rows[i].scale, rows[i].unit, r[i].median, r[i].low, r[i].high);
    }
    return verdict(r);
}

int na_run_rounds(const na_run_command_t *c, const na_run_program_t *program) {
    unsigned n = c->rounds;
    const char *set = getenv("NUMALLOC_POLICY"); /* by na_run_set_environment */
    char *policy = set == NULL ? NULL : strdup(set);
    double *values = calloc((size_t)n * 3 * FIGURES, sizeof *values);
    double f[2][FIGURES]; /* without, with */
    /* One of each first, so that files are in memory. */
    bool good = policy != NULL && values != NULL && once(c, program, NULL, SHOWN, f[0]) &&
                once(c, program, policy, SHOWN_ERRORS, f[1]);
    for (unsigned i = 0; good && i < n; i++) {
        for (unsigned turn = 0; good && turn < 2; turn++) {
            unsigned with = (turn + i) % 2;
            good = once(c, program, with ? policy : NULL, HIDDEN, f[with]);
        }
        for (unsigned k = 0; good && k < FIGURES; k++) {
            double *of = values + (size_t)3 * n * k;
            of[i] = f[0][k];
            of[n + i] = f[1][k];
            of[2 * n + i] = compare((figure_t)k, f[0], f[1]);
        }
    }
    int status = good ? say_all(c, values) : NA_RUN_FAILED;
    free(values);
    free(policy);
    return status;
}
