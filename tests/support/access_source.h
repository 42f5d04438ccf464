/* access_source.h - the environment of a program whose accesses are to be recorded. */
#ifndef NUMALLOC_TESTS_SUPPORT_ACCESS_SOURCE_H
#define NUMALLOC_TESTS_SUPPORT_ACCESS_SOURCE_H

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* Samples come from this source, as users name it, or from one of those that only tests have.
 * NA_TEST_MODE is what else is recorded (sites). */
static inline void access_from(const char *source) {
    char mode[64];
    bool ours = strncmp(source, "kmod-", 5) == 0;
    const char *what = getenv("NA_TEST_MODE");
    snprintf(mode, sizeof mode, "%s,access=%s", what != NULL ? what : "sites",
             ours ? "auto" : source);
    setenv("NUMALLOC_PROFILE", mode, 1);
    if (ours) setenv("NUMALLOC_TEST_ACCESS", source, 1);
}

#endif
