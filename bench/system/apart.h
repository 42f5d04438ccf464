/* apart.h - work in a process of its own, and the memory that it takes there. */
#ifndef NUMALLOC_BENCH_SYSTEM_APART_H
#define NUMALLOC_BENCH_SYSTEM_APART_H

#include <stdint.h>

/* Calls work(argument) in a forked child, whose heap is as small as the caller's, and returns by
 * how many bytes its anonymous resident memory grew. Ends the program when the child does not come
 * to its end. One caller at a time. */
uint64_t na_apart_resident(void (*work)(void *argument), void *argument);

#endif
