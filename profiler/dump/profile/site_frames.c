/* site_frames.c - what several views say about a site, its names and the peak. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/findings.h"
#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/containers/array.h"
#include "profiler/containers/path.h"
#include "profiler/dump/profile/input.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/text.h"

/* `tail`: of the file, NULL: its name is enough. */
static void write_label(char out[NA_LABEL], const char *function, const char *file,
                        const char *tail, uint32_t line, const char *module, bool named) {
    char name[512];
    na_demangle_short(function, 60, name, sizeof name);
    const char *place = tail != NULL ? tail : na_base_name(file != NULL ? file : module);
    if (file != NULL && line != 0)
        snprintf(out, NA_LABEL, "%s  %.200s:%u", name, place, line);
    else if (file != NULL)
        snprintf(out, NA_LABEL, "%s  %.200s", name, place);
    else if (named)
        snprintf(out, NA_LABEL, "%s  (%.200s)", name, place);
    else
        snprintf(out, NA_LABEL, "%s", name);
}

void na_view_frame_label(const na_symbol_frame_t *frame, char out[NA_LABEL]) {
    write_label(out, frame->function, frame->file, frame->tail, frame->line, frame->module,
                frame->named);
}

void na_view_function_label(const na_function_name_t *f, char out[NA_LABEL]) {
    write_label(out, f->function, f->file, f->tail, f->line, f->module, f->named);
}

/* The entry's own responsible frame, NULL: none is; *leaf: the outermost inside of that with a
 * name. */
static const na_symbol_frame_t *own_site(const na_view_input_t *in, uint32_t node,
                                         const na_symbol_frame_t **leaf) {
    const na_symbol_frame_t *frames;
    uint32_t count = na_symbols_frames(in->symbols, node, &frames);
    *leaf = NULL;
    for (uint32_t i = 0; i < count; i++) {
        if (!na_view_passes_on(in, &frames[i])) return &frames[i];
        if (frames[i].named) *leaf = &frames[i];
    }
    return NULL;
}

/* Of all entries from `site` to the first whose place is known. Each is looked at once, however
 * many sites lie inside of it. */
static void find_places(const na_view_input_t *in, na_stack_table_t stacks, uint32_t site) {
    const na_symbol_frame_t *leaf;
    na_site_place_t found = {0, 0};
    uint32_t node = site;
    for (; node > NA_NPROF_ROOT && node < stacks.count; node = stacks.items[node].parent) {
        if (in->places[node].responsible != 0) {
            if (in->places[node].leaf != 0) found.leaf = in->places[node].leaf;
            found.responsible = in->places[node].responsible;
            break;
        }
        found.responsible = own_site(in, node, &leaf) != NULL ? node : 0;
        if (leaf != NULL) found.leaf = node;
        if (found.responsible != 0) break;
    }
    if (found.responsible == 0) found.responsible = NA_NPROF_ROOT;
    for (; site != node; site = stacks.items[site].parent) {
        in->places[site] = found;
        if (site == found.leaf) found.leaf = 0; /* it lies inside of those that follow */
    }
    if (node > NA_NPROF_ROOT && node < stacks.count && in->places[node].responsible == 0)
        in->places[node] = found;
}

const na_symbol_frame_t *na_view_site(const na_view_input_t *in, uint32_t site,
                                      const na_symbol_frame_t **leaf) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    *leaf = NULL;
    if (site <= NA_NPROF_ROOT || site >= stacks.count) return NULL;
    if (in->places[site].responsible == 0) find_places(in, stacks, site);
    na_site_place_t place = in->places[site];
    if (place.responsible > NA_NPROF_ROOT) {
        if (place.leaf != 0) (void)own_site(in, place.leaf, leaf);
        const na_symbol_frame_t *inside;
        return own_site(in, place.responsible, &inside);
    }
    /* Nobody is: the innermost. */
    const na_symbol_frame_t *frames;
    for (; site > NA_NPROF_ROOT; site = stacks.items[site].parent)
        if (na_symbols_frames(in->symbols, site, &frames) != 0) return &frames[0];
    return NULL;
}

bool na_view_stack(const na_view_input_t *in, uint32_t site, na_stack_t *stack) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    stack->count = 0;
    stack->cut = false;
    uint32_t depth = 0;
    for (uint32_t node = site; node > NA_NPROF_ROOT && node < stacks.count;
         node = stacks.items[node].parent) {
        if (depth++ == NA_VIEW_DEEPEST) {
            stack->cut = true;
            break;
        }
        const na_symbol_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        if (!NA_ARRAY_RESERVE(stack->items, stack->room, stack->count + count)) return false;
        for (uint32_t i = 0; i < count; i++)
            stack->items[stack->count++] = &frames[i];
        if ((stacks.items[node].flags & NA_NPROF_STACK_TRUNCATED) != 0) stack->cut = true;
    }
    return true;
}

double na_view_metric(const na_view_input_t *in, const na_counters_t *sum) {
    double value = (double)na_counters_key(sum, in->order);
    return in->order == NA_ORDER_COUNT ? na_view_count(in, value) : value;
}

double na_view_cost(const na_view_input_t *in, const na_cost_t *cost) {
    switch (in->order) {
    case NA_ORDER_LIVE:
        return (double)cost->live_bytes;
    case NA_ORDER_TOTAL:
        return (double)cost->alloc_bytes;
    case NA_ORDER_COUNT:
        return na_view_count(in, (double)cost->alloc_count);
    case NA_ORDER_PEAK:
    default:
        return (double)cost->peak_bytes;
    }
}

na_cost_t na_view_cost_of(const na_counters_t *sum) {
    return (na_cost_t){sum->peak_bytes, sum->live_bytes, (int64_t)sum->alloc_bytes,
                       (int64_t)sum->alloc_count};
}

const char *na_view_metric_text(const na_view_input_t *in, char out[NA_TEXT], double value) {
    return in->order == NA_ORDER_COUNT ? na_text_count(out, value) : na_text_bytes(out, value);
}

uint64_t na_view_peak_ms(const na_view_input_t *in) {
    return na_peak_ms(na_reader_header(in->reader), &in->sites);
}

const na_nprof_point_t *na_view_point_at_peak(const na_view_input_t *in) {
    return na_point_at_peak(in->reader, &in->sites);
}

/* ---- a stack, a line a frame ---- */

static void put_frame_text(const na_symbol_frame_t *frame) {
    printf("%17s%s ", "", frame->inlined ? "~" : "|");
    na_text_put(stdout, frame->function);
    if (frame->file != NULL) {
        fputs("  ", stdout);
        na_text_put(stdout, frame->file);
        if (frame->line != 0) printf(":%u", frame->line);
    } else if (frame->named) {
        const char *slash = strrchr(frame->module, '/');
        fputs("  (", stdout);
        na_text_put(stdout, slash == NULL ? frame->module : slash + 1);
        putchar(')');
    }
    putchar('\n');
}

void na_view_put_stack(void *arg, uint64_t site) {
    const na_view_input_t *in = arg;
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    uint32_t depth = 0;
    for (uint32_t node = (uint32_t)site; node > NA_NPROF_ROOT && node < stacks.count;
         node = stacks.items[node].parent) {
        if (depth++ == NA_VIEW_DEEPEST) {
            printf("%17s| (deeper than %u: not shown)\n", "", NA_VIEW_DEEPEST);
            return;
        }
        const na_symbol_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++)
            put_frame_text(&frames[i]);
        if ((stacks.items[node].flags & NA_NPROF_STACK_TRUNCATED) != 0)
            printf("%17s| (outer frames not known)\n", "");
    }
}
