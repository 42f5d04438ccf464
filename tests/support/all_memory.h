/* all_memory.h - takes blocks of one size until malloc has no more, and gives them back. They are
 * chained through themselves: the list takes nothing. */
#ifndef NUMALLOC_TESTS_SUPPORT_ALL_MEMORY_H
#define NUMALLOC_TESTS_SUPPORT_ALL_MEMORY_H

#include "support/check.h"

#include <errno.h>
#include <stdlib.h>

typedef struct node {
    struct node *next;
} node_t;

/* *total: bytes got. */
static node_t *take_all(size_t size, size_t *total) {
    node_t *list = NULL;
    *total = 0;
    for (;;) {
        errno = 0;
        node_t *node = malloc(size);
        if (node == NULL) {
            CHECK_MSG(errno == ENOMEM, "errno %d", errno);
            return list;
        }
        node->next = list;
        list = node;
        *total += size;
    }
}

static void give_all(node_t *list) {
    while (list != NULL) {
        node_t *next = list->next;
        free(list);
        list = next;
    }
}

#endif
