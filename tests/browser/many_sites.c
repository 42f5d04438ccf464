/* many_sites.c - 200,000 sites from five functions: each path down a tree of calls is a stack of
 * its own. Every hundredth block is kept. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "browser/paths.h"

#ifndef SITES
#define SITES 200000u
#endif
#ifndef DEPTH
#define DEPTH 18u
#endif

static void *kept[SITES / 100 + 1];
static unsigned count;

static void leaf(unsigned path) {
    size_t size = 16 + path % 1000;
    void *block = malloc(size);
    memset(block, 1, size);
    if (path % 100 == 0)
        kept[count++] = block;
    else
        free(block);
}

int main(void) {
    for (unsigned path = 0; path < SITES; path++)
        left(path, DEPTH);
    printf("%u\n", count);
    return 0;
}
