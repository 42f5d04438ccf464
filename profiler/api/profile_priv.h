/* profile_priv.h - what the files of the C API share. */
#ifndef NUMALLOC_PROFILER_API_PROFILE_PRIV_H
#define NUMALLOC_PROFILER_API_PROFILE_PRIV_H

#include <string.h>

#include "alloc/api/fill_struct.h"
#include "numalloc/profile.h"
#include "profiler/analyze/blocks/site_sums.h"
#include "profiler/dump/symbols/symbols.h"
#include "profiler/format/reader/events.h"
#include "profiler/format/reader/reader.h"
#include "profiler/format/reader/reader_access.h"

struct numalloc_profile {
    na_reader_t *reader;
    na_sites_t sites;
    na_access_t access;
    na_symbols_t *symbols; /* opened when the first frame is asked for */
    na_events_t *events;   /* when the first event is */
};

#endif
