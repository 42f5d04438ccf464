/* stack_instructions.c - pairs of malloc and free at a call depth of 20 frames, main's callers
 * included, to have their instructions counted.
 *
 *   stack_instructions changing COUNT    the innermost frame is another at each pair
 *   stack_instructions same COUNT        all pairs from one place
 *   stack_instructions shallow COUNT     the two innermost of the frames alternate with two others
 *   stack_instructions apart COUNT       the seven innermost do
 *
 * Each COUNT times to warm up, and COUNT times in the function `measured`.
 *
 * Built with and without frame pointers. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART   __attribute__((noinline, noclone))
#define BARRIER __asm__ volatile("" ::: "memory") /* no tail call, no merging of functions */

/* Eight innermost functions with frames of their own sizes. */
#define LEAF(n)                                                                                    \
    APART static void leaf##n(void) {                                                              \
        volatile char frame[16 * ((n) + 1)];                                                       \
        frame[0] = (n);                                                                            \
        frame[1] = frame[0];                                                                       \
        free(malloc(64));                                                                          \
        BARRIER;                                                                                   \
    }
LEAF(0)
LEAF(1)
LEAF(2)
LEAF(3)
LEAF(4)
LEAF(5)
LEAF(6)
LEAF(7)

static void (*const leaves[])(void) = {leaf0, leaf1, leaf2, leaf3, leaf4, leaf5, leaf6, leaf7};

APART static void changing(long count) {
    for (long i = 0; i < count; i++)
        leaves[i % 8]();
    BARRIER;
}

APART static void same(long count) {
    for (long i = 0; i < count; i++)
        leaf3();
    BARRIER;
}

APART static void above(unsigned i) {
    leaves[i]();
    BARRIER;
}

APART static void beside(unsigned i) {
    volatile char frame[48];
    frame[0] = 1;
    frame[1] = frame[0];
    leaves[i]();
    BARRIER;
}

APART static void shallow(long count) {
    for (long i = 0; i < count; i++) {
        if (i % 2 == 0)
            above((unsigned)(i / 2 % 8));
        else
            beside((unsigned)(i / 2 % 8));
    }
    BARRIER;
}

APART static void one(int depth) {
    volatile char frame[32];
    frame[0] = (char)depth;
    if (frame[0] > 0)
        one(depth - 1);
    else
        leaf1();
    BARRIER;
}

APART static void another(int depth) {
    volatile char frame[48];
    frame[0] = (char)depth;
    if (frame[0] > 0)
        another(depth - 1);
    else
        leaf2();
    BARRIER;
}

APART static void apart(long count) {
    for (long i = 0; i < count; i++)
        (i % 2 == 0 ? one : another)(5);
    BARRIER;
}

/* As many frames for each. */
APART static void warm(void (*run)(long), long count) {
    run(count);
    BARRIER;
}

APART static void measured(void (*run)(long), long count) {
    run(count);
    __asm__ volatile("nop" ::: "memory"); /* not the same function as warm */
}

/* `depth` frames, kept from becoming a loop. Each keeps values over its call, as real functions do.
 */
APART static long deeper(int depth, void (*run)(long), long count) {
    volatile char frame[40];
    frame[0] = (char)depth;
    if (depth > 0)
        count += deeper(depth - 1, run, count);
    else {
        warm(run, count);
        measured(run, count);
    }
    BARRIER;
    return count + frame[0];
}

/* Frames that are there besides deeper's own: run's and who calls it, leaf's, main's and the two of
 * the C library and _start below it; shallow has one more, apart six. */
enum { OTHERS = 7, DEPTH = 20 };

int main(int argc, char **argv) {
    if (argc == 3) {
        long count = atol(argv[2]);
        static const struct {
            const char *name;
            void (*run)(long count);
            int others;
        } runs[] = {{"changing", changing, OTHERS},
                    {"same", same, OTHERS},
                    {"shallow", shallow, OTHERS + 1},
                    {"apart", apart, OTHERS + 6}};
        for (unsigned i = 0; i < sizeof runs / sizeof runs[0]; i++) {
            if (strcmp(argv[1], runs[i].name) == 0) {
                deeper(DEPTH - runs[i].others - 1, runs[i].run, count);
                return 0;
            }
        }
    }
    fprintf(stderr, "usage: stack_instructions changing|same|shallow|apart COUNT\n");
    return 2;
}
