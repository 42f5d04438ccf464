/* child.c - runs one child with an allocator preloaded, in a process group of its own, and keeps
 * what it wrote.
 *
 * A benchmark is this program itself, and its result is its standard output (na_report_tsv). A
 * program's output is thrown away, since reading it would take time from the program; its time is
 * that from its start to its end, and what it measures itself it may write to REPORT_FILE. Of
 * standard error the end is kept, to say why a child failed. */
#include "bench/compare/child.h"

#include "bench/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#define REPORT_FILE 3 /* the file descriptor that a program's own figures go to */

extern char **environ;

static volatile sig_atomic_t stop_asked;

static void on_end(int number) {
    (void)number;
    stop_asked = 1;
}

void na_child_catch_signals(void) {
    /* No SA_RESTART: poll() shall return. SA_RESETHAND: a second one ends this process. */
    struct sigaction action = {.sa_handler = on_end, .sa_flags = (int)SA_RESETHAND};
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
}

bool na_child_stop(void) {
    return stop_asked != 0;
}

static char **child_environment(const char *preload) {
    static char entry[1100];
    static char **made;
    static size_t room;
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    if (made == NULL) {
        room = count + 2;
        made = na_compare_memory(room * sizeof(char *));
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

/* ---- What it writes ---------------------------------------------------------------------------
 */

typedef struct stream {
    int from; /* -1: ended */
    char *text;
    size_t length, size;
    bool keep_end; /* when it is too much, its beginning is dropped; otherwise that is an error */
} stream_t;

static void take_output(stream_t *stream) {
    if (stream->length == stream->size - 1) {
        size_t half = stream->size / 2;
        if (!stream->keep_end)
            na_bench_fail("compare: a child wrote more than %zu bytes of results", stream->length);
        memmove(stream->text, stream->text + half, stream->length - half);
        stream->length -= half;
    }
    ssize_t got =
        read(stream->from, stream->text + stream->length, stream->size - 1 - stream->length);
    if (got < 0 && errno != EINTR)
        na_bench_fail("compare: reading from a child: %s", strerror(errno));
    if (got > 0) stream->length += (size_t)got;
    if (got == 0) {
        close(stream->from);
        stream->from = -1;
    }
}

/* Reads until the child has ended and its streams are empty. A stream may outlive it (a daemon that
 * it left behind holds it): then what is there by its end counts. The streams of most children
 * close with their end, so that *end is exact; of others it may be late by the 100 ms of poll(). */
static na_outcome_t read_until_end(pid_t child, stream_t *streams, uint64_t deadline, int *status,
                                   struct rusage *usage, uint64_t *end) {
    bool gone = false;
    for (;;) {
        struct pollfd waiting[2];
        nfds_t open = 0;
        for (int i = 0; i < 2; i++)
            if (streams[i].from >= 0)
                waiting[open++] = (struct pollfd){.fd = streams[i].from, .events = POLLIN};
        uint64_t now = na_bench_now();
        if (!gone) {
            pid_t waited = wait4(child, status, open > 0 ? WNOHANG : 0, usage);
            if (waited < 0 && errno != EINTR)
                na_bench_fail("compare: waiting for a child: %s", strerror(errno));
            if (waited == child) {
                gone = true;
                *end = na_bench_now();
            }
        }
        if (gone && open == 0) return NA_DONE;
        if (stop_asked && !gone) return NA_STOPPED;
        if (now >= deadline && !gone) return NA_TIMED_OUT;
        if (open == 0) continue;
        uint64_t left_ms = gone ? 0 : (deadline - now) / 1000000 + 1;
        int ready = poll(waiting, open, left_ms > 100 ? 100 : (int)left_ms);
        if (ready < 0 && errno != EINTR) na_bench_fail("compare: poll: %s", strerror(errno));
        if (ready <= 0) {
            if (gone) return NA_DONE; /* nothing more from it; someone else holds the stream */
            continue;
        }
        for (nfds_t w = 0; w < open; w++)
            for (int i = 0; i < 2; i++)
                if (waiting[w].revents != 0 && streams[i].from == waiting[w].fd)
                    take_output(&streams[i]);
    }
}

/* The last line of what the child said, printable and short. */
static void last_words(const stream_t *stream, char *out, size_t size) {
    size_t end = stream->length, begin, length = 0;
    while (end > 0 && strchr("\n\r ", stream->text[end - 1]) != NULL)
        end--;
    for (begin = end;
         begin > 0 && stream->text[begin - 1] != '\n' && stream->text[begin - 1] != '\r';)
        begin--;
    for (; begin < end && length + 1 < size; begin++) {
        unsigned char c = (unsigned char)stream->text[begin];
        out[length++] = c < 0x20 || c == 0x7f ? ' ' : (char)c;
    }
    out[length] = '\0';
}

/* ---- The child --------------------------------------------------------------------------------
 */

static void make_arguments(const na_case_t *which, const char *const *extra, char **out) {
    static char program[2048];
    size_t count = 0;
    if (*program == '\0' && !na_program_path(program, sizeof program))
        na_bench_fail("compare: cannot find my own path in /proc/self/exe");
    if (which->bench == NULL) {
        out[count++] = (char *)(uintptr_t) "/bin/sh";
        out[count++] = (char *)(uintptr_t) "-c";
        out[count++] = (char *)(uintptr_t)which->command;
    } else {
        out[count++] = program;
        out[count++] = (char *)(uintptr_t)which->bench->name;
        for (size_t i = 0; i < which->words; i++)
            out[count++] = (char *)(uintptr_t)which->word[i];
        if (which->program_file != NULL) out[count++] = (char *)(uintptr_t)which->program_file;
        for (size_t i = 0; extra != NULL && extra[i] != NULL; i++)
            out[count++] = (char *)(uintptr_t)extra[i];
        out[count++] = (char *)(uintptr_t) "--tsv";
    }
    out[count] = NULL;
}

/* `result` becomes the child's file descriptor `as`: its standard output, or REPORT_FILE beside a
 * standard output that goes nowhere.
 *
 * fork() and not posix_spawn(): the kernel counts what a process had resident before its exec into
 * its peak. A fork has copies of our few own pages only, where a vfork would count all of them. */
static pid_t start_child(char **arguments, const char *preload, int result, int as, int err) {
    char **environment = child_environment(preload);
    pid_t child = fork();
    if (child < 0) na_bench_fail("compare: cannot start a child: %s", strerror(errno));
    if (child > 0) {
        setpgid(child, child); /* as the child does: whoever comes first */
        return child;
    }
    /* A group of its own: the end of a time-out reaches what it started, too, and an interrupt from
     * the terminal comes to us alone. */
    setpgid(0, 0);
    /* All from above the numbers that are given away; none is there after the exec. */
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);
    if (null >= 0) null = fcntl(null, F_DUPFD_CLOEXEC, REPORT_FILE + 1);
    result = fcntl(result, F_DUPFD_CLOEXEC, REPORT_FILE + 1);
    err = fcntl(err, F_DUPFD_CLOEXEC, REPORT_FILE + 1);
    if (null >= 0 && dup2(null, STDIN_FILENO) >= 0 && dup2(null, STDOUT_FILENO) >= 0 &&
        dup2(err, STDERR_FILENO) >= 0 && dup2(result, as) >= 0) {
        signal(SIGINT, SIG_DFL);
        signal(SIGTERM, SIG_DFL);
        execve(arguments[0], arguments, environment);
    }
    dprintf(STDERR_FILENO, "cannot start %s: %s\n", arguments[0], strerror(errno));
    _exit(127);
}

void na_child_run(const na_comparison_t *comparison, const na_case_t *which, size_t c,
                  const char *const *extra, na_child_t *child) {
    static char out_text[65536], err_text[4096];
    const na_contender_t *contender = &comparison->contender[c];
    char *arguments[NA_CASE_WORDS_MAX + 16], words[120];
    int out[2], err[2], status = 0;
    struct rusage usage = {0};
    if (pipe2(out, O_CLOEXEC) != 0 || pipe2(err, O_CLOEXEC) != 0)
        na_bench_fail("compare: pipe: %s", strerror(errno));
    make_arguments(which, extra, arguments);
    *child = (na_child_t){.text = out_text};
    bool program = which->bench == NULL;
    stream_t streams[2] = {{out[0], out_text, 0, sizeof out_text, program},
                           {err[0], err_text, 0, sizeof err_text, true}};
    uint64_t begin = na_bench_now(), end = begin;
    pid_t pid = start_child(arguments, contender->path, out[1],
                            program ? REPORT_FILE : STDOUT_FILENO, err[1]);
    close(out[1]);
    close(err[1]);
    child->outcome = read_until_end(
        pid, streams, begin + comparison->timeout_s * UINT64_C(1000000000), &status, &usage, &end);
    if (child->outcome != NA_DONE) {
        kill(-pid, SIGKILL);
        while (wait4(pid, &status, 0, &usage) < 0)
            if (errno != EINTR) na_bench_fail("compare: waitpid: %s", strerror(errno));
        end = na_bench_now();
    }
    for (int i = 0; i < 2; i++)
        if (streams[i].from >= 0) close(streams[i].from);
    out_text[streams[0].length] = '\0';
    child->seconds = (double)(end - begin) / 1e9;
    child->peak = (uint64_t)usage.ru_maxrss * 1024;

    last_words(&streams[1], words, sizeof words);
    if (child->outcome == NA_TIMED_OUT) {
        snprintf(child->reason, sizeof child->reason, "took longer than %llu s (--timeout)",
                 (unsigned long long)comparison->timeout_s);
    } else if (child->outcome == NA_STOPPED) {
        snprintf(child->reason, sizeof child->reason, "interrupted");
    } else if (WIFSIGNALED(status)) {
        child->outcome = NA_FAILED;
        snprintf(child->reason, sizeof child->reason, "ended by signal %d (%s)%s%s",
                 WTERMSIG(status), strsignal(WTERMSIG(status)), *words ? ": " : "", words);
    } else if (WEXITSTATUS(status) != 0) {
        child->outcome = NA_FAILED;
        snprintf(child->reason, sizeof child->reason, "ended with status %d%s%s",
                 WEXITSTATUS(status), *words ? ": " : "", words);
    } else if (memmem(err_text, streams[1].length, "from LD_PRELOAD cannot be preloaded", 35)) {
        child->outcome = NA_FAILED;
        snprintf(child->reason, sizeof child->reason, "%s", words);
    }
}
