/* site.c - what several views say about a site and about the peak. */
#include "profiler/dump/view.h"

const na_frame_t *na_view_site(const na_view_input_t *in, uint32_t site, const na_frame_t **leaf) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    *leaf = NULL;
    const na_frame_t *innermost = NULL;
    uint32_t depth = 0;
    for (uint32_t node = site;
         node > NA_NPROF_ROOT && node < stacks.count && depth < NA_VIEW_DEEPEST;
         node = stacks.items[node].parent, depth++) {
        const na_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            if (innermost == NULL) innermost = &frames[i];
            if (!na_view_passes_on(in, &frames[i])) return &frames[i];
            /* The outermost of them is the one that the program called. */
            if (frames[i].named) *leaf = &frames[i];
        }
    }
    *leaf = NULL;
    return innermost;
}

uint64_t na_view_peak_ms(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    return in->sites->peak_is_now || h->peak_ms > h->last_ms ? h->last_ms : h->peak_ms;
}

const na_nprof_point_t *na_view_point_at_peak(const na_view_input_t *in) {
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(in->reader, &count, &interval);
    if (points == NULL) return NULL;
    uint64_t at = na_view_peak_ms(in) / interval;
    if (at >= count) at = count - 1;
    /* Sampled: the interval may lack a sample, then the nearest one counts, the later first. */
    for (uint32_t distance = 0; distance < count; distance++) {
        if (at + distance < count && (points[at + distance].flags & NA_NPROF_POINT_SAMPLED) != 0)
            return &points[at + distance];
        if (distance <= at && (points[at - distance].flags & NA_NPROF_POINT_SAMPLED) != 0)
            return &points[at - distance];
    }
    return NULL;
}
