/* counting.h - the log that counting_malloc.c writes of every call of malloc and its kin.
 *
 * The log is a file: one counting_log_t. The environment variable NA_COUNTING_LOG names it. A
 * record of a free is made before the block is released, one of an allocation after it was got, and
 * realloc makes both; so that in the order of the records no block is given out twice without a
 * free between. Records of one thread are in the order of its calls. */
#ifndef NUMALLOC_TESTS_SUPPORT_COUNTING_H
#define NUMALLOC_TESTS_SUPPORT_COUNTING_H

#include <stdint.h>

#define COUNTING_LOG_ENV  "NA_COUNTING_LOG"
#define COUNTING_SLOW_ENV "NA_COUNTING_SLOW"
#define COUNTING_CAPACITY (UINT64_C(1) << 20)

typedef enum counting_kind {
    COUNTING_NONE, /* a record that was not finished */
    COUNTING_MALLOC,
    COUNTING_CALLOC,
    COUNTING_REALLOC, /* old: the block given, or 0 */
    COUNTING_MEMALIGN,
    COUNTING_FREE,
    COUNTING_REALLOC_BEGIN, /* block: the one given; its COUNTING_REALLOC follows in the thread */
} counting_kind_t;

typedef struct counting_record {
    uint64_t block;
    uint64_t old;    /* of a realloc */
    uint64_t size;   /* bytes asked for */
    uint32_t thread; /* 1, 2, ... in the order of each thread's first call */
    uint16_t kind;
    uint16_t program; /* 1: called from the program itself, 0: from a library (the C library's) */
} counting_record_t;

typedef struct counting_log {
    uint64_t next;    /* atomic: calls so far; above COUNTING_CAPACITY when records were lost */
    uint64_t threads; /* atomic */
    counting_record_t record[COUNTING_CAPACITY];
} counting_log_t;

#endif
