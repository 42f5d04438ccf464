/* early.h - what the libraries of early.c leave for the program to look at. */
#ifndef NUMALLOC_TESTS_CONFORM_EARLY_H
#define NUMALLOC_TESTS_CONFORM_EARLY_H

#define EARLY_SIZE 777
#define EARLY_SEED 42

typedef struct early_note {
    void *block; /* EARLY_SIZE bytes, filled with EARLY_SEED; made in the library's constructor */
} early_note_t;

/* Of the library that the program is linked with. */
extern early_note_t early_linked_note;
/* Of the library that the linked one's constructor loads (EARLY_LOADED: its path); its note's
 * address, NULL if that failed. */
extern early_note_t *early_loaded_note;

#endif
