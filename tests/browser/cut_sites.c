/* cut_sites.c - 60,000 sites, all with a block at the end: each path down a tree of calls is a
 * stack of its own. Four functions allocate, each blocks of other sizes; those of the first are so
 * small that a page merges all its sites with others. */
#include <stdio.h>
#include <stdlib.h>

#include "browser/paths.h"

#define SITES 60000u
#define DEPTH 16u

static void *kept[SITES];

static void least(unsigned path) {
    kept[path] = malloc(16 + path % 1000);
}

static void less(unsigned path) {
    kept[path] = malloc(16 + path % 1000);
}

static void more(unsigned path) {
    kept[path] = malloc(16 + path % 1000);
}

static void most(unsigned path) {
    kept[path] = malloc(16 + path % 1000);
}

static void (*const leaves[])(unsigned path) = {least, less, more, most};

static void leaf(unsigned path) {
    leaves[path % 1000 / 250](path);
}

int main(void) {
    for (unsigned path = 0; path < SITES; path++)
        left(path, DEPTH);
    return kept[SITES - 1] == NULL;
}
