/* compare.h - the command `compare`: benchmarks and programs under several allocators, in turn. */
#ifndef NUMALLOC_BENCH_COMPARE_COMPARE_H
#define NUMALLOC_BENCH_COMPARE_COMPARE_H

/* argv[0] is the word after "compare". Returns the exit status of the program. */
int na_compare(int argc, char **argv);

#endif
