/* options_read.h - between the values of options (options.c) and what reads them from the
 * environment (options_read.c). */
#ifndef NUMALLOC_ALLOC_SYS_OPTIONS_READ_H
#define NUMALLOC_ALLOC_SYS_OPTIONS_READ_H

#include "alloc/sys/base.h"
#include "alloc/sys/options.h"

#define NA_OPTION_PREFIX "NUMALLOC_"

/* Units of options.def. */
#define KIB  ((uint64_t)1 << 10)
#define MIB  ((uint64_t)1 << 20)
#define GIB  ((uint64_t)1 << 30)
#define TIB  ((uint64_t)1 << 40)
#define DAY  ((uint64_t)24 * 60 * 60 * 1000)
#define YEAR (366 * DAY)

typedef struct na_option_values {
    uint64_t numbers[NA_OPT_ALL];
    const char *texts[NA_OPT_ALL];
} na_option_values_t;

/* Sets what the environment names; *values has the defaults, and stays. */
void na_options_read(na_option_values_t *values);

uint64_t na_option_default(na_option_id_t id);

#endif
