/* record.h - starting a profile. */
#ifndef NUMALLOC_PROFILER_RECORD_RECORD_H
#define NUMALLOC_PROFILER_RECORD_RECORD_H

#include <stdint.h>

#include "alloc/hooks.h"

typedef enum na_profile_mode { NA_PROFILE_SAMPLE, NA_PROFILE_SITES } na_profile_mode_t;

typedef struct na_profile_config {
    na_profile_mode_t mode;
    uint64_t sample_interval; /* mean bytes between samples; mode sample */
    /* Name pattern, or a directory for the default name; NULL or empty: that in the working
     * directory. */
    const char *file;
    /* Bytes of memory that the allocator holds for blocks; NULL: not known. Called from inside
     * hooks, also in signal handlers: must take no lock. */
    uint64_t (*mapped)(void);
} na_profile_config_t;

/* Opens the profile and returns the hook table to install; NULL after one warning line on stderr
 * when the file cannot be made. Called once, before the first block is handed out. */
const na_hooks_t *na_profile_start(const na_profile_config_t *config);

#endif
