/* drawn.h - what a seed draws, and what is true of it; see drawn.c. */
#ifndef NUMALLOC_TESTS_ACCESS_DRAWN_H
#define NUMALLOC_TESTS_ACCESS_DRAWN_H

#include <stdatomic.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum { MOST = 8, LINE = 64, LOCK_COUNT = 64, PAGE = 4096 };

typedef enum shape {
    OWN,      /* each its own block */
    PARTS,    /* one block, each its own part, some with a halo */
    ALL,      /* one block, all read and write all of it */
    TABLE,    /* the same, only read */
    ELEMENT,  /* an array, each its own element */
    PAIR,     /* small blocks, allocated one after the other, each its own */
    COUNTER,  /* one word of all */
    BESIDE,   /* one word written by some, others read the word beside it */
    LOCKS,    /* an array of locks, each takes every n-th */
    ACCEPTOR, /* one allocates for all, block after block; each lives for some milliseconds */
    SHAPES
} shape_t;
extern const char *const drawn_shapes[SHAPES];

typedef enum policy { NONE, INTERLEAVE, BIND, PREFERRED, POLICIES } policy_t;

typedef struct drawn {
    shape_t shape;
    unsigned threads, nodes;
    bool mended;
    bool one; /* one thread allocates for all */
    bool fill_by_one, pinned, rounds;
    bool moved;           /* each goes to another node after it allocated */
    bool together;        /* all on one node, which is not the one that allocates for all */
    bool written;         /* by the main thread first, as by one that reads files for others */
    bool halo;            /* parts: each reads some of the next one's, too */
    bool huge, balancing; /* huge pages and the kernel's balancing are allowed */
    size_t size, stride;
    unsigned writes; /* every n-th access; 0: none */
    unsigned writers;
    policy_t policy;
} drawn_t;

typedef struct drawn_thread {
    unsigned node;
    atomic_ulong used; /* turns since the last drawn_look */
} drawn_thread_t;

extern drawn_t drawn;
extern void *drawn_block[MOST];
extern drawn_thread_t drawn_thread[MOST];

/* The node that the calling thread runs on. */
unsigned drawn_node(void);

/* Notes where the pages lie that each thread used; threads rest meanwhile. */
void drawn_look(void);

/* The same of a block that thread `me` alone used, for as many turns. */
void drawn_look_at(unsigned me, void *block, unsigned long turns);

/* Prints the verdicts that are true, the likeliest first, as a JSON array, and the remote share. */
void drawn_say_truth(void);

/* The words of a block that a thread's part begins with, and how many it has. */
static inline size_t drawn_part(unsigned me, size_t *from) {
    size_t words = drawn.size / 8;
    *from = 0;
    if (drawn.shape == PARTS) {
        words /= drawn.threads;
        *from = words * me;
    }
    return words;
}

#endif
