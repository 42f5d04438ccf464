/* run_child.c - runs a program as if this process were not between it and its parent.
 *
 * The program is in the process group of this process, so that the terminal and the shell treat
 * both as one job: Ctrl-C and Ctrl-Z reach it without help. All signals are blocked here and taken
 * one by one:
 *
 *   - what the terminal sends has reached the program already;
 *   - what others send to this process is sent on, unless they sent it to the whole job (as
 *     `kill %1` does): a process that does nothing but keep its signals tells;
 *   - when the program stops, this process stops in the same way, and the shell sees it; when this
 *     process goes on, so does the program.
 *
 * If this process is killed in a way that it cannot send on, the program is killed, too. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "profiler/run/run.h"

static sigset_t everything, signals_before;
static struct sigaction chld_before;

void na_run_take_signals(void) {
    sigfillset(&everything);
    sigprocmask(SIG_BLOCK, &everything, &signals_before);
    /* Ignored, it would leave no status to wait for. */
    const struct sigaction usual = {.sa_handler = SIG_DFL};
    sigaction(SIGCHLD, &usual, &chld_before);
}

/* In the child, before exec: signals as they were for this process. */
static void restore_signals(void) {
    sigaction(SIGCHLD, &chld_before, NULL);
    sigprocmask(SIG_SETMASK, &signals_before, NULL);
}

/* ---- starting ---- */

static void execute(const na_run_program_t *program, char **argv) {
    if (!program->by_shell) {
        execv(program->path, argv);
        return;
    }
    size_t count = 0;
    while (argv[count] != NULL)
        count++;
    char **words = calloc(count + 2, sizeof *words);
    if (words == NULL) return;
    static char shell[] = "/bin/sh";
    words[0] = shell;
    words[1] = (char *)(size_t)program->path; /* exec does not write to it */
    for (size_t i = 1; i < count; i++)
        words[i + 1] = argv[i];
    execv(shell, words);
    int error = errno;
    free(words);
    errno = error;
}

static int failed_to_execute(const na_run_program_t *program, int error) {
    if (error == ENOEXEC)
        na_run_say("%s: not a program that this system can run", program->path);
    else
        na_run_say("%s: %s", program->path, strerror(error));
    return error == ENOENT ? NA_RUN_NOT_FOUND : NA_RUN_CANNOT;
}

int na_run_become(const na_run_program_t *program, char **argv) {
    execute(program, argv);
    return failed_to_execute(program, errno);
}

/* ---- stopping ---- */

/* The terminal sends these to the whole job. */
static bool is_of_terminal(int signal) {
    return signal == SIGINT || signal == SIGQUIT || signal == SIGTSTP || signal == SIGTTIN ||
           signal == SIGTTOU || signal == SIGHUP || signal == SIGWINCH || signal == SIGCONT;
}

static void pause_ms(long ms) {
    const struct timespec t = {ms / 1000, ms % 1000 * 1000000};
    nanosleep(&t, NULL);
}

char na_run_process_state(pid_t pid) {
    char name[64], text[512];
    snprintf(name, sizeof name, "/proc/%d/stat", (int)pid);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    if (fd < 0) return '?';
    ssize_t n = read(fd, text, sizeof text - 1);
    close(fd);
    text[n > 0 ? n : 0] = 0;
    const char *end = strrchr(text, ')');
    return end != NULL && end[1] == ' ' ? end[2] : '?';
}

/* The program has stopped: so does this process, by the same signal. Who lets it go on sends that
 * to the job as a rule; if to this process alone, it is sent on. */
static void stop_with(pid_t pid, int signal) {
    if (signal != SIGSTOP) {
        struct sigaction usual = {.sa_handler = SIG_DFL}, old;
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signal);
        sigaction(signal, &usual, &old);
        raise(signal);
        sigprocmask(SIG_UNBLOCK, &one, NULL); /* stops here */
        sigprocmask(SIG_BLOCK, &one, NULL);
        sigaction(signal, &old, NULL);
    } else {
        raise(SIGSTOP);
    }
    for (int i = 0; i < 10 && na_run_process_state(pid) == 'T'; i++)
        pause_ms(5);
    if (na_run_process_state(pid) == 'T') kill(pid, SIGCONT);
}

/* ---- the witness ---- */

/* A third process of the group, whose signals stay pending: what has come to it as well was sent to
 * the group, and the program has it already. A second one could mean something else to it: "end at
 * once", say. */
static pid_t witness;

static void begin_witness(void) {
    pid_t self = getpid();
    witness = fork();
    if (witness != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != self) _exit(0);
    close_range(0, ~0u, 0);
    for (;;)
        sigsuspend(&everything);
}

static void end_witness(void) {
    if (witness <= 0) return;
    kill(witness, SIGKILL);
    waitpid(witness, NULL, 0);
    witness = 0;
}

static bool is_pending(const char *status, const char *set, int signal) {
    const char *line = strstr(status, set);
    return line != NULL && (strtoull(line + strlen(set), NULL, 16) >> (signal - 1) & 1) != 0;
}

static bool came_to_all(int signal) {
    char name[64], status[4096];
    if (witness <= 0) return false;
    pause_ms(5); /* its turn may come after ours */
    snprintf(name, sizeof name, "/proc/%d/status", (int)witness);
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, status, sizeof status - 1) : 0;
    if (fd >= 0) close(fd);
    status[n > 0 ? n : 0] = 0;
    if (!is_pending(status, "\nShdPnd:", signal) && !is_pending(status, "\nSigPnd:", signal))
        return false;
    end_witness(); /* for the next one, one without signals */
    begin_witness();
    return true;
}

/* ---- waiting ---- */

static void send_on(pid_t pid, const siginfo_t *info) {
    int signal = info->si_signo;
    if (info->si_code == SI_KERNEL && is_of_terminal(signal)) return;
    if (info->si_pid == pid) return; /* to its own process group, or its parent */
    if (signal == SIGCONT && na_run_process_state(pid) != 'T') return;
    if (came_to_all(signal)) return;
    if (info->si_code == SI_QUEUE)
        sigqueue(pid, signal, info->si_value);
    else
        kill(pid, signal);
}

/* Its status as waitpid has it. */
static int wait_for_child(pid_t pid) {
    for (;;) {
        siginfo_t info;
        int signal = sigwaitinfo(&everything, &info), status;
        if (signal < 0) continue;
        if (signal != SIGCHLD) {
            send_on(pid, &info);
            continue;
        }
        while (waitpid(pid, &status, WNOHANG | WUNTRACED) == pid) {
            if (!WIFSTOPPED(status)) return status;
            stop_with(pid, WSTOPSIG(status));
        }
    }
}

/* ---- the program ---- */

int na_run_program(const na_run_program_t *program, char **argv, int *status) {
    int report[2];
    pid_t self = getpid(), pid = pipe2(report, O_CLOEXEC) == 0 ? fork() : -1;
    if (pid < 0) {
        na_run_say("no process can be started: %s", strerror(errno));
        return NA_RUN_FAILED;
    }
    if (pid == 0) {
        prctl(PR_SET_PDEATHSIG, SIGKILL);
        if (getppid() != self) _exit(NA_RUN_FAILED);
        restore_signals();
        execute(program, argv);
        int error = errno;
        ssize_t n = write(report[1], &error, sizeof error);
        _exit(n > 0 ? NA_RUN_CANNOT : NA_RUN_FAILED);
    }
    close(report[1]);
    int error = 0;
    ssize_t n;
    while ((n = read(report[0], &error, sizeof error)) < 0 && errno == EINTR)
        ;
    close(report[0]);
    if (n == (ssize_t)sizeof error) {
        waitpid(pid, status, 0);
        return failed_to_execute(program, error);
    }
    /* Who reads what the program writes sees its end when the program closes it, not at our own. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) {
        dup2(null, STDIN_FILENO);
        dup2(null, STDOUT_FILENO);
        if (null > STDERR_FILENO) close(null);
    }
    begin_witness();
    *status = wait_for_child(pid);
    end_witness();
    return 0;
}

/* ---- tools ---- */

int na_run_tool_status(char *const *argv, int to) {
    pid_t pid = fork();
    if (pid == 0) {
        restore_signals();
        dup2(to, STDOUT_FILENO);
        /* Not the user's program: no profile of it. */
        unsetenv("NUMALLOC_PROFILE");
        unsetenv("LD_PRELOAD");
        execv(argv[0], argv);
        na_run_say("%s: %s", argv[0], strerror(errno));
        _exit(NA_RUN_NOT_FOUND);
    }
    if (to > STDERR_FILENO) close(to);
    if (pid < 0) return -1;
    int status = wait_for_child(pid);
    return WIFEXITED(status) ? WEXITSTATUS(status) : -1;
}

bool na_run_tool(char *const *argv, int to) {
    int status = na_run_tool_status(argv, to);
    return status == 0 || status == 1;
}

void na_run_detached(char *const *argv) {
    pid_t pid = fork();
    if (pid == 0) {
        restore_signals();
        int null = open("/dev/null", O_RDWR);
        for (int fd = 0; null >= 0 && fd <= STDERR_FILENO; fd++)
            dup2(null, fd);
        unsetenv("NUMALLOC_PROFILE");
        unsetenv("LD_PRELOAD");
        setsid();
        if (fork() == 0) execvp(argv[0], argv);
        _exit(0);
    }
    if (pid > 0) waitpid(pid, NULL, 0);
}

void na_run_end_as(int status) {
    if (WIFSIGNALED(status)) {
        int signal = WTERMSIG(status);
        /* The program's core is enough. Where a program takes cores, a limit of 0 is not heeded. */
        const struct rlimit none = {0, 0};
        setrlimit(RLIMIT_CORE, &none);
        prctl(PR_SET_DUMPABLE, 0);
        struct sigaction usual = {.sa_handler = SIG_DFL};
        sigset_t one;
        sigemptyset(&one);
        sigaddset(&one, signal);
        sigaction(signal, &usual, NULL);
        sigprocmask(SIG_UNBLOCK, &one, NULL);
        raise(signal);
        _exit(128 + signal);
    }
    _exit(WEXITSTATUS(status));
}
