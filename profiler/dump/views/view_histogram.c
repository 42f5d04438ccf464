/* view_histogram.c - blocks by size and by age, for the views "sizes" and "lifetimes". */
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/views/views.h"

na_status_t na_view_histogram(na_view_input_t *in, na_block_histogram_t *histogram) {
    bool filter = in->options->table.filter.given;
    bool trace = na_reader_header(in->reader)->mode == NA_NPROF_MODE_TRACE;
    bool once = trace && !filter;
    na_status_t status = once ? NA_STATUS_WHOLE : na_view_sum(in, NULL, !filter);
    if (status != NA_STATUS_WHOLE) return status;
    na_replay_t *replay = trace ? na_replay_open(in->reader) : NULL;
    bool good = (!trace || replay != NULL) &&
                na_block_histogram_read(in->reader, replay, &in->sites,
                                        filter ? na_site_wanted : NULL, in, histogram);
    if (once)
        status = na_view_sum(in, replay, true); /* says why, if the replay failed */
    else
        na_replay_close(replay);
    return status == NA_STATUS_WHOLE && !good ? NA_STATUS_MEMORY : status;
}
