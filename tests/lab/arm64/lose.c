/* lose.c - loses three blocks of 1000 bytes, and keeps two: one in a variable, one on the stack of
 * a thread that sleeps. */
#include <pthread.h>
#include <stdlib.h>
#include <unistd.h>

#define APART   __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory") /* no tail call */

static void *volatile held;
static _Bool volatile sleeps;

APART static void lose(void) {
    void *volatile p = malloc(1000);
    p = NULL;
    BARRIER;
}

static void *keep(void *unused) {
    void *volatile mine = malloc(300);
    sleeps = 1;
    sleep(60);
    free(mine);
    return unused;
}

int main(void) {
    pthread_t thread;
    if (pthread_create(&thread, NULL, keep, NULL) != 0) return 1;
    while (!sleeps)
        usleep(1000);
    for (int i = 0; i < 3; i++)
        lose();
    held = malloc(500);
    return 0;
}
