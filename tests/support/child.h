/* child.h - runs a program (usually this one again) and gathers how it ended and what it said.
 *
 * Used where a case must abort, needs an environment or limits of its own, or changes its process
 * for good. Never call it from more than one thread. */
#ifndef NUMALLOC_TESTS_SUPPORT_CHILD_H
#define NUMALLOC_TESTS_SUPPORT_CHILD_H

#include "support/check.h"

#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <sys/types.h>
#include <sys/wait.h>

typedef struct child_result {
    int status;      /* as waitpid gives it */
    char err[16384]; /* stderr, cut off if longer */
    char out[16384]; /* stdout, cut off if longer */
} child_result_t;

/* What the child does between fork and exec; may be NULL. Returns 0, or -1 to end with 126. */
typedef int child_setup_t(void *context);

static void child_drain(int fd, char *text, size_t capacity, size_t *length, bool *open_) {
    char spill[4096];
    bool full = *length + 1 >= capacity;
    ssize_t n =
        full ? read(fd, spill, sizeof spill) : read(fd, text + *length, capacity - 1 - *length);
    if (n < 0 && errno == EINTR) return;
    if (n <= 0) *open_ = false;
    if (n > 0 && !full) *length += (size_t)n;
}

/* Runs argv (argv[0]: path) with the "NAME=value" strings of env added to the environment. A child
 * that takes longer than 200 s is ended by SIGALRM. */
__attribute__((unused)) static void child_run(child_result_t *result, char *const argv[],
                                              const char *const env[], child_setup_t *setup,
                                              void *context) {
    int err[2];
    int out[2];
    memset(result, 0, sizeof *result);
    REQUIRE(pipe2(err, O_CLOEXEC) == 0 && pipe2(out, O_CLOEXEC) == 0);
    pid_t pid = fork();
    REQUIRE(pid >= 0);
    if (pid == 0) {
        dup2(err[1], STDERR_FILENO);
        dup2(out[1], STDOUT_FILENO);
        for (size_t i = 0; env != NULL && env[i] != NULL; i++)
            putenv((char *)(uintptr_t)env[i]);
        alarm(200); /* a busy machine has time */
        if (setup != NULL && setup(context) != 0) _exit(126);
        execv(argv[0], argv);
        check_say("cannot run %s: %s\n", argv[0], strerror(errno));
        _exit(127);
    }
    close(err[1]);
    close(out[1]);
    size_t err_length = 0;
    size_t out_length = 0;
    bool err_open = true;
    bool out_open = true;
    while (err_open || out_open) {
        struct pollfd fds[2] = {{.fd = err_open ? err[0] : -1, .events = POLLIN},
                                {.fd = out_open ? out[0] : -1, .events = POLLIN}};
        if (poll(fds, 2, -1) < 0) continue;
        if (fds[0].revents != 0)
            child_drain(err[0], result->err, sizeof result->err, &err_length, &err_open);
        if (fds[1].revents != 0)
            child_drain(out[0], result->out, sizeof result->out, &out_length, &out_open);
    }
    close(err[0]);
    close(out[0]);
    while (waitpid(pid, &result->status, 0) < 0)
        REQUIRE(errno == EINTR);
}

/* Path of this program, so that it can run itself. Static; NULL never (ends the program). */
__attribute__((unused)) static char *child_self(void) {
    static char path[PATH_MAX];
    ssize_t n = readlink("/proc/self/exe", path, sizeof path - 1);
    if (n <= 0) check_skip("no /proc/self/exe: the program cannot run itself");
    path[n] = '\0';
    return path;
}

/* Runs this program with the arguments a and b (b may be NULL). */
__attribute__((unused)) static void child_run_self(child_result_t *result, const char *a,
                                                   const char *b, const char *const env[],
                                                   child_setup_t *setup, void *context) {
    char *argv[] = {child_self(), (char *)(uintptr_t)a, (char *)(uintptr_t)b, NULL};
    child_run(result, argv, env, setup, context);
}

__attribute__((unused)) static bool child_exited(const child_result_t *result, int status) {
    return WIFEXITED(result->status) && WEXITSTATUS(result->status) == status;
}

__attribute__((unused)) static bool child_killed_by(const child_result_t *result, int signal_) {
    return WIFSIGNALED(result->status) && WTERMSIG(result->status) == signal_;
}

/* Hands on the verdict of a child that made checks of its own: its lines, and a failure if it was
 * not content. `what` names the case. */
__attribute__((unused)) static void child_expect_ok(const child_result_t *result,
                                                    const char *what) {
    if (child_exited(result, 0)) return;
    check_say("%s", result->err);
    if (WIFSIGNALED(result->status))
        check_say("%s: ended by signal %d\n", what, WTERMSIG(result->status));
    else
        check_say("%s: exit status %d\n", what, WEXITSTATUS(result->status));
    check_count_failure();
}

#endif
