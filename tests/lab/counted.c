/* counted.c - runs a command and counts its calls of mbind, in all its threads: fails if there are
 * more than so many, or none.
 *
 * usage: counted MOST COMMAND [ARGUMENT...]
 *
 * A seccomp filter stops the command at mbind only, so that it runs at full speed otherwise. */
#include <errno.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <signal.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <sys/prctl.h>
#include <sys/ptrace.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

static void run(char **command) {
    struct sock_filter filter[] = {
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mbind, 0, 1),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRACE),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
    };
    struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    if (ptrace(PTRACE_TRACEME, 0, NULL, NULL) != 0 || raise(SIGSTOP) != 0 ||
        prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0) {
        perror("counted: calls cannot be counted");
        _exit(77);
    }
    execvp(command[0], command);
    perror(command[0]);
    _exit(127);
}

int main(int argc, char **argv) {
    if (argc < 3 || atol(argv[1]) <= 0) {
        fprintf(stderr, "usage: %s MOST COMMAND [ARGUMENT...]\n", argv[0]);
        return 2;
    }
    pid_t child = fork();
    if (child == 0) run(argv + 2);
    int status;
    if (child < 0 || waitpid(child, &status, 0) != child || !WIFSTOPPED(status) ||
        ptrace(PTRACE_SETOPTIONS, child, NULL,
               (void *)(PTRACE_O_TRACESECCOMP | PTRACE_O_TRACECLONE | PTRACE_O_TRACEFORK |
                        PTRACE_O_TRACEVFORK | PTRACE_O_EXITKILL)) != 0) {
        perror("counted: calls cannot be counted");
        return 77;
    }
    ptrace(PTRACE_CONT, child, NULL, NULL);
    long calls = 0;
    int result = 125;
    pid_t stopped;
    while ((stopped = waitpid(-1, &status, __WALL)) > 0) {
        if (!WIFSTOPPED(status)) {
            if (stopped != child) continue;
            result = WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
            continue;
        }
        int event = status >> 16, signal = WSTOPSIG(status);
        calls += event == PTRACE_EVENT_SECCOMP;
        /* Signals are passed on, but for those of tracing itself. */
        bool own = event != 0 || signal == SIGSTOP || signal == SIGTRAP;
        ptrace(PTRACE_CONT, stopped, NULL, own ? NULL : (void *)(long)signal);
    }
    printf("%ld calls of mbind, at most %s\n", calls, argv[1]);
    if (result != 0) return result;
    return calls > 0 && calls <= atol(argv[1]) ? 0 : 1;
}
