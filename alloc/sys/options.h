/* options.h - NUMALLOC_* environment variables: one table (options.def) holds them all.
 *
 * Read once at start-up from the environment as it was at exec; ignored when AT_SECURE. An unknown
 * name that begins with NUMALLOC_ or a bad value gives one warning line on stderr naming the
 * option, the value and what is accepted; the default stays and the program goes on. Immutable
 * afterwards. */
#ifndef NUMALLOC_ALLOC_SYS_OPTIONS_H
#define NUMALLOC_ALLOC_SYS_OPTIONS_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef enum na_option_id {
#define NA_OPTION(id, type, fallback, meaning) NA_OPT_##id,
#define NA_TEST_OPTION(id, type, fallback, meaning)
#include "alloc/sys/options.def"
#undef NA_OPTION
#undef NA_TEST_OPTION
    NA_OPT_COUNT, /* of users' options; those of our own tests follow */
    NA_OPT_BEFORE_TESTS = NA_OPT_COUNT - 1,
#define NA_OPTION(id, type, fallback, meaning)
#define NA_TEST_OPTION(id, type, fallback, meaning) NA_OPT_##id,
#include "alloc/sys/options.def"
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
    NA_NUMA_OFF,
    NA_NUMA_BALANCED
} na_numa_mode_t;

void na_options_init(void);

/* Value of a bool, number or choice option. */
uint64_t na_option(na_option_id_t id);
/* Value of a text option; NULL or empty when unset. */
const char *na_option_text(na_option_id_t id);

/* Of "MODE[,access[=SOURCE]]": the number of the source's word (0, off: none is named), -1: not
 * one; *length is that of the mode. */
int na_option_access(const char *mode, size_t *length);

/* "NUMALLOC_STATS" */
const char *na_option_name(na_option_id_t id);

#endif
