/* modes.h - what a profile records: for those who begin one (numalloc.h) and who read it
 * (profile.h).
 */
#ifndef NUMALLOC_MODES_H
#define NUMALLOC_MODES_H

typedef enum numalloc_mode {
    NUMALLOC_MODE_DEFAULT = 0, /* as the environment says; no profile has it */
    NUMALLOC_MODE_SITES = 1,   /* every event: figures are exact */
    NUMALLOC_MODE_SAMPLE = 2,  /* blocks drawn at random: figures are estimates */
    NUMALLOC_MODE_TRACE = 3    /* every event by itself: figures are exact */
} numalloc_mode_t;

#endif
