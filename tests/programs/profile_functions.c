/* profile_functions.c - a program whose functions allocate known amounts, some through wrappers:
 * what profile_functions.sh holds the tables of functions against. Everything stays live. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define APART __attribute__((noinline, noclone))

static void *volatile keep; /* no allocation is dropped, and no call is the last of its function */

/* Two callers and more, nothing but malloc below: a wrapper. */
APART static void *xmalloc(size_t size) {
    void *block = malloc(size);
    if (block == NULL) abort();
    keep = block;
    return block;
}

/* A wrapper of a wrapper. */
APART static char *xstrdup(const char *text) {
    char *copy = strcpy(xmalloc(strlen(text) + 1), text);
    keep = copy;
    return copy;
}

/* 100,000 bytes. */
APART static void reader(void) {
    for (int i = 0; i < 100; i++)
        keep = xmalloc(1000);
}

/* 50 * 8 + 20 * 8 bytes, in two places. */
APART static void parser(void) {
    for (int i = 0; i < 50; i++)
        keep = xstrdup("seven..");
    for (int i = 0; i < 20; i++)
        keep = xstrdup("7 bytes");
}

/* 1 byte; the second function that makes a wrapper of xstrdup. */
APART static void namer(void) {
    keep = xstrdup("");
}

/* 10 * 100 bytes, each one level deeper. */
APART static void walker(int depth) {
    keep = xmalloc(100);
    if (depth > 1) walker(depth - 1);
    keep = NULL;
}

/* Named like a wrapper, but for one caller only: 3000 bytes of its own. */
APART static void alloc_table(void) {
    keep = malloc(3000);
    keep = NULL;
}

/* 40 bytes of its own, and then 400 that reader_of_half asks for: no wrapper, whatever its name. */
APART static void reader_of_half(void) {
    keep = malloc(400);
    keep = NULL;
}
APART static void new_half(void) {
    keep = malloc(40);
    reader_of_half();
    keep = NULL;
}
APART static void first_user(void) {
    new_half();
    keep = NULL;
}
APART static void second_user(void) {
    new_half();
    keep = NULL;
}

int main(void) {
    reader();
    parser();
    namer();
    walker(10);
    alloc_table();
    first_user();
    second_user();
    return 0;
}
