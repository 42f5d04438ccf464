/* paths.h - calls leaf(path) at the end of each path down a tree of calls: a stack of its own each.
 */
#ifndef NUMALLOC_TESTS_BROWSER_PATHS_H
#define NUMALLOC_TESTS_BROWSER_PATHS_H

static void leaf(unsigned path);
static void right(unsigned path, unsigned depth);

static void left(unsigned path, unsigned depth) {
    if (depth == 0)
        leaf(path);
    else if (path >> (depth - 1) & 1)
        right(path, depth - 1);
    else
        left(path, depth - 1);
}

static void right(unsigned path, unsigned depth) {
    if (depth == 0)
        leaf(path);
    else if (path >> (depth - 1) & 1)
        right(path, depth - 1);
    else
        left(path, depth - 1);
}

#endif
