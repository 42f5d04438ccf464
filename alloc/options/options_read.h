/* options_read.h - reads the options of the core (options.h) from the environment, NUMALLOC_*.
 *
 * Once at start-up, from the environment as it was at exec; it is ignored when AT_SECURE. An
 * unknown name that begins with NUMALLOC_ or a bad value gives one warning line on stderr naming
 * the option, the value and what is accepted; the default stays and the program goes on. */
#ifndef NUMALLOC_ALLOC_OPTIONS_OPTIONS_READ_H
#define NUMALLOC_ALLOC_OPTIONS_OPTIONS_READ_H

#include <stdbool.h>
#include <stdint.h>

#include "alloc/core/sys/options.h"

/* All defaults, and what the environment names (na_above_t.options). */
void na_options_init(void);

/* Reads settings of a profile, "access=watch,sample_interval=64K", into numbers: of the options
 * that are read when a profile begins, by their names without NUMALLOC_, in any case. "access"
 * alone is "access=auto". False: something else is in the list; numbers may have changed. */
bool na_option_settings(const char *list, uint64_t numbers[NA_OPT_ALL]);

/* "NUMALLOC_STATS" */
const char *na_option_name(na_option_id_t id);

#endif
