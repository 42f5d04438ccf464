/* profile_priv.h - what the files of the C API share. */
#ifndef NUMALLOC_PROFILER_API_PROFILE_PRIV_H
#define NUMALLOC_PROFILER_API_PROFILE_PRIV_H

#include <string.h>

#include "numalloc/profile.h"
#include "profiler/analyze/blocks/site_sums.h"
#include "profiler/dump/symbols/symbols.h"
#include "profiler/format/reader/access.h"
#include "profiler/format/reader/events.h"
#include "profiler/format/reader/reader.h"

struct numalloc_profile {
    na_reader_t *reader;
    na_sites_t sites;
    na_access_t access;
    na_symbols_t *symbols; /* opened when the first frame is asked for */
    na_events_t *events;   /* when the first event is */
};

/* The caller's structure may be shorter (older) or longer (newer) than ours. */
static inline void na_profile_fill(void *to, size_t size, const void *from, size_t from_size) {
    memset(to, 0, size);
    memcpy(to, from, size < from_size ? size : from_size);
}

#endif
