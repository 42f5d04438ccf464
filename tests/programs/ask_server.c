/* ask_server.c - a server that is asked for profiles while it runs, and tells whether it noticed.
 * Usage: ask_server ROLE. It ends when its standard input does, with status 0 and "undisturbed" as
 * the last line if no call of its was interrupted and no block of its changed. */
#include <errno.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#define SITE __attribute__((noinline, noclone))

static _Atomic(int) disturbed, ends, blocked;

static void check(int good, const char *what) {
    if (good) return;
    printf("disturbed: %s: %s\n", what, strerror(errno));
    disturbed = 1;
}

static void pause_us(long us) {
    const struct timespec t = {us / 1000000, us % 1000000 * 1000};
    errno = clock_nanosleep(CLOCK_MONOTONIC, 0, &t, NULL);
    check(errno == 0, "clock_nanosleep");
}

/* --- what it does --- */

enum { KEPT = 50 };
static unsigned char *kept[KEPT];
static void *volatile lost; /* the last one */

SITE static void add_session(void) {
    lost = malloc(300);
}

SITE static void add_cookie(void) {
    lost = malloc(900);
}

SITE static void serve_request(unsigned i) {
    unsigned char **slot = &kept[i % KEPT];
    if (*slot != NULL) check((*slot)[0] == i % KEPT % 251 && (*slot)[499] == 77, "a block changed");
    free(*slot);
    *slot = malloc(500 + i % KEPT * 60);
    (*slot)[0] = (unsigned char)(i % KEPT % 251);
    (*slot)[499] = 77;
}

/* A thread begins to record when its credit of blocks is used up (alloc/core/thread/switch.h). */
SITE static void parse_request(void) {
    for (int i = 0; i < 300; i++) {
        char *volatile word = malloc(40);
        free(word);
    }
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

/* A request each millisecond, also where the machine is too busy to let it run so often. */
static void *serve(void *arg) {
    long begin = now_ms();
    for (unsigned i = 0; !ends; pause_us(1000))
        for (; i <= now_ms() - begin && !ends; i++) {
            parse_request();
            serve_request(i);
            if (i % 3 == 0) add_session();
            if (i % 10 == 0) add_cookie();
        }
    return arg;
}

static void *churn(void *arg) {
    while (!ends) {
        for (size_t i = 0; i < 1000; i++) {
            char *volatile block = malloc(16 + i % 700);
            free(block);
        }
        pause_us(100); /* for the others, on a busy machine */
    }
    return arg;
}

/* --- what it waits in --- */

static int pipes[4][2]; /* one for each kind of wait; a byte ends it */
static sem_t semaphore;

static void *wait_in_read(void *arg) {
    char byte;
    blocked++;
    check(read(pipes[0][0], &byte, 1) == 1, "read");
    return arg;
}

static void *wait_in_poll(void *arg) {
    struct pollfd fd = {pipes[1][0], POLLIN, 0};
    blocked++;
    check(poll(&fd, 1, 600000) == 1, "poll");
    return arg;
}

static void *wait_in_epoll(void *arg) {
    struct epoll_event event = {.events = EPOLLIN};
    int fd = epoll_create1(0);
    epoll_ctl(fd, EPOLL_CTL_ADD, pipes[2][0], &event);
    blocked++;
    check(epoll_wait(fd, &event, 1, 600000) == 1, "epoll_wait");
    close(fd);
    return arg;
}

static void *wait_in_semaphore(void *arg) {
    blocked++;
    check(sem_wait(&semaphore) == 0, "sem_wait");
    return arg;
}

static void *(*const waits[])(void *) = {wait_in_read, wait_in_poll, wait_in_epoll,
                                         wait_in_semaphore};
enum { WAITS = sizeof waits / sizeof waits[0], BUSY = 2 };

/* --- roles --- */

static void say_ready(void) {
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
}

static int end(void) {
    puts(disturbed ? "disturbed" : "undisturbed");
    return disturbed;
}

static void wait_for_end_of_input(void) {
    char byte;
    check(read(STDIN_FILENO, &byte, 1) == 0, "read of standard input");
}

static int server(void) {
    pthread_t threads[WAITS + BUSY + 1];
    for (size_t i = 0; i < WAITS; i++)
        if (i < 4 && pipe(pipes[i]) != 0) return 2;
    sem_init(&semaphore, 0, 0);
    for (size_t i = 0; i < WAITS; i++)
        pthread_create(&threads[i], NULL, waits[i], NULL);
    for (size_t i = 0; i < BUSY; i++)
        pthread_create(&threads[WAITS + i], NULL, churn, NULL);
    pthread_create(&threads[WAITS + BUSY], NULL, serve, NULL);
    while (blocked < WAITS)
        pause_us(1000);
    say_ready();
    wait_for_end_of_input();
    for (size_t i = 0; i < WAITS; i++)
        check(write(pipes[i][1], "", 1) == 1, "write");
    sem_post(&semaphore);
    ends = 1;
    for (size_t i = 0; i < WAITS + BUSY + 1; i++)
        pthread_join(threads[i], NULL);
    return end();
}

/* Allocates when it is told to: a line on its input each. */
static int obedient(int forks) {
    char line[16];
    free(malloc(10));
    say_ready();
    while (fgets(line, sizeof line, stdin) != NULL) {
        pid_t child = forks ? fork() : 0;
        if (child == 0)
            for (unsigned i = 0; i < 20000; i++)
                serve_request(i);
        if (child == 0 && forks) _exit(0);
        if (child > 0) waitpid(child, NULL, 0);
        forks = 0; /* the next is the parent's own turn */
        puts("did");
        fflush(stdout);
    }
    return end();
}

/* A child that serves like its parent. */
static int family(void) {
    if (fork() == 0) {
        prctl(PR_SET_PDEATHSIG, 9);
        say_ready();
        serve(NULL);
    }
    pthread_t thread;
    pthread_create(&thread, NULL, serve, NULL);
    say_ready();
    wait_for_end_of_input();
    ends = 1;
    pthread_join(thread, NULL);
    return end();
}

int main(int argc, char **argv) {
    const char *role = argc > 1 ? argv[1] : "";
    setvbuf(stdout, NULL, _IOLBF, 0);
    if (strcmp(role, "server") == 0) return server();
    if (strcmp(role, "obedient") == 0) return obedient(0);
    if (strcmp(role, "forker") == 0) return obedient(1);
    if (strcmp(role, "family") == 0) return family();
    if (strcmp(role, "undumpable") == 0) {
        prctl(PR_SET_DUMPABLE, 0);
        return server();
    }
    fprintf(stderr, "ask_server: no such role\n");
    return 2;
}
