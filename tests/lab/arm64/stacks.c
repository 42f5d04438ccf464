/* stacks.c - allocates from stacks that are known: what a profile of it must say is in
 * read_profile.
 *
 *   stacks PLUGIN     from some, one of them through the plugin (stacks_plugin.c)
 *   stacks grow       from WIDE different ones, so that the profile's file grows
 *
 * Prints the system's page size. Built as the compiler makes it, and with signed return addresses:
 * then it fails where no return address on the stack is signed, since it would prove nothing. */
#include <dlfcn.h>
#include <pthread.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#define APART   __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory") /* no tail call */

static unsigned signed_seen;
static void *volatile kept;

APART static void inner(void) {
    const uintptr_t *frame = __builtin_frame_address(0);
    if (frame[1] >> 48 != 0) signed_seen++;
    kept = malloc(64);
    BARRIER;
}

APART static void middle(unsigned count) {
    for (unsigned i = 0; i < count; i++)
        inner();
    BARRIER;
}

APART static void by_one(void) {
    middle(100);
    BARRIER;
}

APART static void by_two(void) {
    volatile char large[3000];
    large[0] = 1;
    middle(50);
    large[1] = large[0];
}

APART static void deep(unsigned depth) {
    if (depth == 0)
        middle(10);
    else
        deep(depth - 1);
    BARRIER;
}

static void *worker(void *unused) {
    middle(30);
    BARRIER;
    return unused;
}

/* A path of DEPTH turns to the left or the right: each makes a stack of its own. */
#define DEPTH 12
#define WIDE  (1u << DEPTH)
APART static void go(unsigned path, unsigned depth);
APART static void left(unsigned path, unsigned depth) {
    go(path >> 1, depth + 1);
    BARRIER;
}
APART static void right(unsigned path, unsigned depth) {
    volatile char frame[40];
    frame[0] = 1;
    go(path >> 1, depth + 1);
    frame[1] = frame[0];
}
APART static void go(unsigned path, unsigned depth) {
    if (depth == DEPTH)
        inner();
    else if ((path & 1) != 0)
        right(path, depth);
    else
        left(path, depth);
    BARRIER;
}

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    printf("page %ld\n", sysconf(_SC_PAGESIZE));
    fflush(stdout);
    if (strcmp(argv[1], "grow") == 0) {
        for (unsigned path = 0; path < WIDE; path++)
            go(path, 0);
        return 0;
    }
    by_one();
    by_two();
    deep(4);
    pthread_t thread;
    if (pthread_create(&thread, NULL, worker, NULL) != 0) return 1;
    pthread_join(thread, NULL);
    void *plugin = dlopen(argv[1], RTLD_NOW);
    if (plugin == NULL) {
        fprintf(stderr, "%s\n", dlerror());
        return 1;
    }
    void (*plugged)(void (*)(unsigned), unsigned);
    *(void **)&plugged = dlsym(plugin, "plugged");
    plugged(middle, 20);
#ifdef __ARM_FEATURE_PAC_DEFAULT
    if (signed_seen == 0) {
        fprintf(stderr, "no return address is signed: this processor or kernel does not\n");
        return 1;
    }
#else
    if (signed_seen != 0) return 1;
#endif
    return 0;
}
