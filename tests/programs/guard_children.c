/* guard_children.c - a correct program that makes processes in every way: fork, by several threads
 * and in a signal handler, vfork, posix_spawn, system, popen, exec, daemon, a double fork; and has
 * threads and timers that allocate meanwhile. Before each, blocks are there that parent and child
 * both give back. Ends with 0, unless a child did not.
 *
 * Arguments: [rounds]; 1 otherwise. */
#define _GNU_SOURCE 1
#include <errno.h>
#include <pthread.h>
#include <signal.h>
#include <spawn.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/time.h>
#include <sys/wait.h>
#include <unistd.h>

extern char **environ;

enum { BLOCKS = 40, THREADS = 3 };
static int stop; /* __atomic */
static int bad;  /* __atomic */

static void ended(int status) {
    if (status == 0) return;
    fprintf(stderr, "a child ended with status %#x\n", (unsigned)status);
    __atomic_store_n(&bad, 1, __ATOMIC_RELAXED);
}

static void wait_for(pid_t pid) {
    int status = -1;
    while (pid > 0 && waitpid(pid, &status, 0) < 0 && errno == EINTR) {
    }
    ended(status);
}

typedef struct blocks {
    char *at[BLOCKS];
} blocks_t;

static void take(blocks_t *b, unsigned seed) {
    for (unsigned i = 0; i < BLOCKS; i++) {
        size_t size = 16 + (seed * 31 + i * 97) % 3000;
        b->at[i] = malloc(size);
        if (b->at[i] == NULL) abort();
        memset(b->at[i], 'x', size);
    }
}

static void give(blocks_t *b) {
    for (unsigned i = 0; i < BLOCKS; i++)
        free(b->at[i]);
}

static void work(unsigned seed) {
    blocks_t b;
    take(&b, seed);
    for (unsigned i = 0; i < BLOCKS; i += 3)
        b.at[i] = realloc(b.at[i], 4000 + i);
    give(&b);
}

static void *busy(void *argument) {
    for (unsigned seed = (unsigned)(uintptr_t)argument;
         __atomic_load_n(&stop, __ATOMIC_RELAXED) == 0; seed++) {
        work(seed);
        usleep(200);
    }
    return NULL;
}

static void *once(void *argument) {
    work((unsigned)(uintptr_t)argument);
    return NULL;
}

static void in_child(unsigned seed) {
    pthread_t id;
    work(seed);
    if (seed % 3 == 0 && pthread_create(&id, NULL, once, (void *)(uintptr_t)seed) == 0)
        pthread_join(id, NULL);
    if (seed % 4 == 0) {
        pid_t pid = fork();
        if (pid == 0) {
            work(seed + 1);
            exit(0);
        }
        wait_for(pid);
    }
}

static void by_fork(unsigned seed) {
    blocks_t b;
    take(&b, seed);
    pid_t pid = fork();
    if (pid != 0) {
        give(&b);
        work(seed);
        wait_for(pid);
        return;
    }
    in_child(seed);
    give(&b);
    if (seed % 2 == 0) exit(bad);
    _exit(bad);
}

static void *forks(void *argument) {
    for (unsigned i = 0; i < 5; i++)
        by_fork((unsigned)(uintptr_t)argument * 5 + i);
    return NULL;
}

static void in_handler(int number) {
    (void)number;
    int kept = errno;
    pid_t pid = fork();
    if (pid == 0) _exit(0);
    wait_for(pid);
    errno = kept;
}

/* A handler of the program's on a stack of its own, which fork and exec keep. */
static void by_signal(void) {
    struct sigaction action = {.sa_handler = in_handler, .sa_flags = SA_ONSTACK | SA_RESTART};
    stack_t stack = {.ss_size = 1 << 17, .ss_sp = malloc(1 << 17)};
    sigaltstack(&stack, NULL);
    sigaction(SIGALRM, &action, NULL);
    struct itimerval each = {{0, 3000}, {0, 1000}};
    setitimer(ITIMER_REAL, &each, NULL);
    for (unsigned i = 0; i < 200; i++)
        work(i);
    setitimer(ITIMER_REAL, &(struct itimerval){{0, 0}, {0, 0}}, NULL);
    sigaltstack(&(stack_t){.ss_flags = SS_DISABLE}, NULL);
    free(stack.ss_sp);
}

static void by_exec(void) {
    char *argv[] = {strdup("sed"), strdup("s/a/b/"), strdup("/dev/null"), NULL};
    pid_t pid = vfork();
    if (pid == 0) {
        execvp(argv[0], argv);
        _exit(127);
    }
    wait_for(pid);
    pid_t spawned = 0;
    if (posix_spawnp(&spawned, argv[0], NULL, NULL, argv, environ) == 0) wait_for(spawned);
    pid = fork();
    if (pid == 0) {
        work(3);
        execvp(argv[0], argv);
        _exit(127);
    }
    wait_for(pid);
    for (unsigned i = 0; i < 3; i++)
        free(argv[i]);
    ended(system("exit 0"));
    FILE *from = popen("echo a; echo b", "r");
    char line[100];
    while (from != NULL && fgets(line, sizeof line, from) != NULL)
        work(7);
    if (from != NULL) ended(pclose(from));
}

/* Two forks and a session, as daemons do; the pipe says that the last one has ended well. */
static void by_daemon(void) {
    int ends[2];
    char said = 1;
    blocks_t b;
    take(&b, 5);
    if (pipe(ends) != 0) abort();
    pid_t pid = fork();
    if (pid == 0) {
        close(ends[0]);
        if (daemon(1, 1) != 0) _exit(1);
        in_child(12);
        give(&b);
        said = (char)bad;
        if (write(ends[1], &said, 1) != 1) _exit(1);
        exit(0);
    }
    close(ends[1]);
    give(&b);
    wait_for(pid);
    ended(read(ends[0], &said, 1) == 1 ? said : -1);
    close(ends[0]);
}

int main(int argc, char **argv) {
    unsigned rounds = argc > 1 ? (unsigned)strtoul(argv[1], NULL, 10) : 1;
    pthread_t ids[2 * THREADS];
    alarm(0);
    for (unsigned round = 0; round < rounds; round++) {
        for (unsigned i = 0; i < 10; i++)
            by_fork(i);
        by_signal();
        __atomic_store_n(&stop, 0, __ATOMIC_RELAXED);
        for (size_t i = 0; i < THREADS; i++)
            pthread_create(&ids[i], NULL, busy, (void *)(i + 1));
        for (size_t i = 0; i < THREADS; i++)
            pthread_create(&ids[THREADS + i], NULL, forks, (void *)(i + 1));
        by_exec();
        by_daemon();
        for (size_t i = 0; i < THREADS; i++)
            pthread_join(ids[THREADS + i], NULL);
        __atomic_store_n(&stop, 1, __ATOMIC_RELAXED);
        for (size_t i = 0; i < THREADS; i++)
            pthread_join(ids[i], NULL);
    }
    return bad;
}
