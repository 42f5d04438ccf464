/* html_intern.h - a set of keys of a few words or of text, numbered from 0 in the order in which
 * they came. */
#ifndef NUMALLOC_PROFILER_DUMP_PAGE_HTML_INTERN_H
#define NUMALLOC_PROFILER_DUMP_PAGE_HTML_INTERN_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "profiler/containers/index.h"

/* A key is three numbers, or, in a set of texts, one text (borrowed: it must outlive the set). */
typedef struct na_intern_key {
    const char *text;
    uint32_t number[3];
} na_intern_key_t;

typedef struct na_intern {
    na_intern_key_t *keys; /* by number */
    uint32_t count, room;
    na_index_t index;
} na_intern_t;

/* The key's number; UINT32_MAX: out of memory. `fresh` (may be NULL): it is new. */
uint32_t na_intern_text(na_intern_t *set, const char *text);
uint32_t na_intern_numbers(na_intern_t *set, uint32_t a, uint32_t b, uint32_t c, bool *fresh);
void na_intern_free(na_intern_t *set);

#endif
