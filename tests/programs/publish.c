/* publish.c - a process whose live bytes are told to it, for publish.sh. It says "ready PID", then
 * obeys lines of its input, and goes on allocating and freeing meanwhile:
 *
 *   grow N      N blocks of 1 KiB more
 *   fork        a child that says "child PID", and ends with its parent
 *   (the end)   it ends */
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <unistd.h>

enum { SIZE = 1024, TURN = 64, TURN_SIZE = 20000 };

/* Spans come and go, so that slow paths are passed. */
static void turn(void) {
    void *blocks[TURN];
    for (int i = 0; i < TURN; i++)
        memset(blocks[i] = malloc(TURN_SIZE), 1, 8);
    for (int i = 0; i < TURN; i++)
        free(blocks[i]);
}

static void grow(long count) {
    for (long i = 0; i < count; i++) {
        char *volatile block = malloc(SIZE);
        block[0] = 1;
    }
}

static void be_child(void) {
    if (fork() != 0) return;
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    printf("child %d\n", (int)getpid());
    fflush(stdout);
    for (;;)
        turn();
}

int main(void) {
    char line[64];
    struct pollfd input = {.fd = STDIN_FILENO, .events = POLLIN};
    setvbuf(stdin, NULL, _IONBF, 0);
    printf("ready %d\n", (int)getpid());
    fflush(stdout);
    for (;;) {
        turn();
        if (poll(&input, 1, 0) == 0) continue;
        if (fgets(line, sizeof line, stdin) == NULL) return 0;
        if (strncmp(line, "grow ", 5) == 0) grow(strtol(line + 5, NULL, 10));
        if (strcmp(line, "fork\n") == 0) be_child();
    }
}
