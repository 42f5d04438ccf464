/* background.h - the thread that gives memory back while the program sleeps. */
#ifndef NUMALLOC_ALLOC_THREAD_BACKGROUND_H
#define NUMALLOC_ALLOC_THREAD_BACKGROUND_H

/* Starts it, if NUMALLOC_BACKGROUND asks for it. Not started in forked children. */
void na_background_init(void);

#endif
