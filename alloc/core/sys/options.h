/* options.h - one table (options.def) holds all options.
 *
 * Each has its default, unless what stands around the core reads others before the core looks at
 * the first (na_above_t.options in thread/attach.h). Immutable afterwards. */
#ifndef NUMALLOC_ALLOC_CORE_SYS_OPTIONS_H
#define NUMALLOC_ALLOC_CORE_SYS_OPTIONS_H

#include <stdint.h>

typedef enum na_option_id {
#define NA_OPTION(id, type, fallback, meaning) NA_OPT_##id,
#define NA_TEST_OPTION(id, type, fallback, meaning)
#include "alloc/core/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
    NA_OPT_COUNT, /* of users' options; those of our own tests follow */
    NA_OPT_BEFORE_TESTS = NA_OPT_COUNT - 1,
#define NA_OPTION(id, type, fallback, meaning)
#define NA_TEST_OPTION(id, type, fallback, meaning) NA_OPT_##id,
#include "alloc/core/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
    NA_OPT_ALL
} na_option_id_t;

/* Choices, in the order of their words. (Those of ACCESS: na_access_choice_t of the recorder.) */
typedef enum na_cgroups { NA_CGROUPS_IGNORE, NA_CGROUPS_SPARE, NA_CGROUPS_REFUSE } na_cgroups_t;
typedef enum na_hugepages {
    NA_HUGE_AUTO,
    NA_HUGE_KEEP,
    NA_HUGE_ALWAYS,
    NA_HUGE_NEVER
} na_hugepages_t;
typedef enum na_profile_begin { NA_PROFILE_NOW, NA_PROFILE_LATER } na_profile_begin_t;
typedef enum na_numa_mode {
    NA_NUMA_PREFERRED,
    NA_NUMA_STRICT,
    NA_NUMA_UNBOUND,
    NA_NUMA_OFF
} na_numa_mode_t;

typedef struct na_option_values {
    uint64_t numbers[NA_OPT_ALL];
    const char *texts[NA_OPT_ALL];
} na_option_values_t;

/* Written by who reads them. */
extern na_option_values_t na_option_values;

/* Value of a bool, number or choice option. */
uint64_t na_option(na_option_id_t id);
/* Value of a text option; NULL or empty when unset. */
const char *na_option_text(na_option_id_t id);

#endif
