/* policy_grower.c - a server whose blocks grow by realloc, again and again, until they have room
 * from the beginning: then it says so and ends. Status 1: they had none in 500 seconds. */
#include <malloc.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#define SITE __attribute__((noinline, noclone, noipa)) static void *

enum { FIRST = 100, LAST = 6400, BLOCKS = 300, MOST_MS = 500000 };

/* Not known to the compiler, which would make a call for each size: the site is a stack. */
static volatile size_t last = LAST;

static void *keep(void *block) {
    __asm__ volatile("" : "+r"(block) : : "memory");
    return block;
}

SITE more_room(void *buffer, size_t size) {
    return keep(realloc(buffer, size));
}

static long now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return t.tv_sec * 1000 + t.tv_nsec / 1000000;
}

int main(void) {
    long began = now_ms();
    while (now_ms() - began < MOST_MS) {
        size_t room = 0;
        for (int i = 0; i < BLOCKS; i++) {
            char *buffer = NULL;
            for (size_t size = FIRST; size <= last; size *= 2) {
                buffer = more_room(keep(buffer), size);
                memset(buffer, 1, size);
                if (size == FIRST) room = malloc_usable_size(buffer);
            }
            free(buffer);
        }
        if (room >= LAST / 2) {
            printf("room after %ld ms\n", now_ms() - began);
            return 0;
        }
        nanosleep(&(struct timespec){.tv_nsec = 5000000}, NULL);
    }
    return 1;
}
