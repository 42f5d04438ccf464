/* fork_first_thread.c - a process makes a child that no fork handler knows of while its second
 * thread gets a thread cache: the child's own second thread gets one, too.
 *
 * Arguments: [processes]; 3,000 otherwise. */
#include "support/check.h"

#include <pthread.h>
#include <signal.h>
#include <sys/syscall.h>
#include <sys/wait.h>

#include "support/alloc_api.h"

static void *allocate(void *unused) {
    for (size_t i = 0; i < 20; i++)
        free(malloc(100 * i));
    return unused;
}

static void start_thread(pthread_t *id) {
    REQUIRE(pthread_create(id, NULL, allocate, NULL) == 0);
}

static void wait_for(pid_t pid, size_t turn) {
    int status = -1;
    REQUIRE(pid > 0 && waitpid(pid, &status, 0) == pid);
    CHECK_MSG(status == 0, "turn %zu: status %#x", turn, (unsigned)status);
}

/* A process of one thread. */
__attribute__((noreturn)) static void parent(size_t turn) {
    alarm(100); /* one that hangs ends by SIGALRM */
    pthread_t id;
    start_thread(&id);
    for (volatile size_t i = 0; i < turn * 37 % 20000; i++)
        continue;
    pid_t pid = (pid_t)syscall(SYS_clone, SIGCHLD, 0, 0, 0, 0);
    if (pid == 0) {
        alarm(100);
        start_thread(&id);
        REQUIRE(pthread_join(id, NULL) == 0);
        _exit(check_status());
    }
    wait_for(pid, turn);
    REQUIRE(pthread_join(id, NULL) == 0);
    _exit(check_status());
}

int main(int argc, char **argv) {
    check_begin();
    size_t processes = argc > 1 ? strtoul(argv[1], NULL, 10) : 3000;
    REQUIRE(processes > 0);
    free(malloc(1));
    for (size_t turn = 0; turn < processes; turn++) {
        pid_t pid = fork();
        if (pid == 0) parent(turn);
        wait_for(pid, turn);
    }
    return check_status();
}
