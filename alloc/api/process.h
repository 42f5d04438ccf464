/* process.h - the process begins and ends. */
#ifndef NUMALLOC_ALLOC_API_PROCESS_H
#define NUMALLOC_ALLOC_API_PROCESS_H

#include <stdbool.h>

#include "alloc/core/thread/attach.h"

/* Hardening and statistics. Of all libraries the first of na_above. */
extern const na_above_t na_process_above;

/* The process ends: all parts do, and statistics are printed. By the library's destructor; blocks
 * may still be allocated and freed after it, which goes unreported. */
void na_process_end(void);
/* Set in the library's constructor: a part calls it, later than the destructor. */
extern bool na_process_ends_later;

#endif
