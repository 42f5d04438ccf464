/* free_lists.h - what CPython's free lists do to a profile. */
#ifndef NUMALLOC_PROFILER_DUMP_VIEWS_FREE_LISTS_H
#define NUMALLOC_PROFILER_DUMP_VIEWS_FREE_LISTS_H

#include "profiler/dump/profile/input.h"

/* CPython hands the block of a dropped dict, list, tuple or float to the next that is made, without
 * a call of free or malloc: it stays at the line that made the first. If a function among those
 * with most has such blocks, a paragraph says so; else nothing is printed. */
void na_view_say_free_lists(const na_view_input_t *in);

#endif
