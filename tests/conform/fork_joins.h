/* fork_joins.h - what fork_joins.c and its library share. */
#ifndef NUMALLOC_TESTS_CONFORM_FORK_JOINS_H
#define NUMALLOC_TESTS_CONFORM_FORK_JOINS_H

/* Threads of the library that have ended, each after it freed what it had. */
extern int fork_joins_ended; /* __atomic */
/* Starts the library's thread; it has allocated when this returns. */
void fork_joins_start(void);

#endif
