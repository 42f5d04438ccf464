/* policy_text.h - the policy's file: read when the program starts, and again when it has changed.
 *
 * What is wrong in it at the start is said on stderr, and the rest holds. A change is taken whole
 * or not at all: who writes may be in the middle of it. So it is read when two looks have seen the
 * same file (a second apart, a quarter where policy_move.h looks); it must end with a newline, and
 * no line may be wrong. Who writes a new file and renames it into place is safe in any case. */
#ifndef NUMALLOC_PROFILER_POLICY_BIND_POLICY_TEXT_H
#define NUMALLOC_PROFILER_POLICY_BIND_POLICY_TEXT_H

#include <stdbool.h>

#include "profiler/policy/bind/bound.h"

/* NULL: no policy, which was said. Notes which file that was. */
na_policy_reading_t *na_policy_text_first(const char *file);

/* After na_policy_enter; a stat of the file, and its reading if it is to be read. NULL: there is
 * nothing new; na_bound.refused says whether there is something that is wrong. */
na_policy_reading_t *na_policy_text_changed(void);

void na_policy_text_drop(na_policy_reading_t *reading);

#endif
