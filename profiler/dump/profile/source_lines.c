/* source_lines.c - see source_lines.h. */
#include "profiler/dump/profile/source_lines.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"

static na_source_line_t *find_line(na_source_lines_t *lines, const na_symbol_frame_t *frame) {
    const char *file = frame->file;
    uint32_t number = frame->line;
    uint64_t hash = na_hash_text(NA_HASH_BEGIN ^ number, file);
    na_probe_t probe = na_index_probe(&lines->index, hash);
    while (na_index_next(&lines->index, &probe)) {
        na_source_line_t *line = &lines->items[probe.number];
        if (line->number == number && strcmp(line->file, file) == 0) return line;
    }
    if (!NA_ARRAY_RESERVE(lines->items, lines->room, lines->count + 1u) ||
        !na_index_add(&lines->index, hash, lines->count))
        return NULL;
    lines->items[lines->count] =
        (na_source_line_t){.file = file, .number = number, .module = frame->module};
    return &lines->items[lines->count++];
}

int na_source_lines_compare(const na_source_line_t *x, const na_source_line_t *y) {
    int order = strcmp(x->file, y->file);
    return order != 0 ? order : (x->number > y->number) - (x->number < y->number);
}

static int by_place(const void *a, const void *b) {
    return na_source_lines_compare(a, b);
}

bool na_source_lines_gather(const na_view_input_t *in, const na_options_t *options, bool maps,
                            na_source_lines_t *lines) {
    na_stack_t stack = {0};
    bool good = true;
    for (size_t s = 0; s < in->sites.count && good; s++) {
        const na_site_t *site = &in->sites.items[s];
        na_cost_t cost = na_view_cost_of(&site->sum);
        const na_symbol_frame_t *leaf, *own = na_view_site(in, site->site, &leaf);
        good = na_view_stack(in, site->site, &stack);
        for (uint32_t i = 0; i < stack.count && good; i++) {
            const na_symbol_frame_t *frame = stack.items[i];
            if (frame->file == NULL || frame->line == 0 || !na_filter_matches(options, frame->file))
                continue;
            na_source_line_t *line = find_line(lines, frame);
            good = line != NULL;
            if (!good) break;
            if (line->seen != s + 1) na_cost_add(&line->below, &cost);
            line->seen = s + 1;
            if (frame == own) na_cost_add(&line->self, &cost);
        }
    }
    free(stack.items);
    for (size_t i = 0; i < in->maps.count && maps && good; i++) {
        const na_nprof_map_t *map = &in->maps.items[i];
        const na_symbol_frame_t *leaf, *own = na_view_site(in, map->site, &leaf);
        if (!na_view_maps_more(map) || own == NULL || own->file == NULL || own->line == 0 ||
            !na_filter_matches(options, own->file))
            continue;
        na_source_line_t *line = find_line(lines, own);
        good = line != NULL;
        if (good) line->mapped += (double)map->bytes;
    }
    if (good && lines->count != 0)
        qsort(lines->items, lines->count, sizeof *lines->items, by_place);
    return good;
}

void na_source_lines_free(na_source_lines_t *lines) {
    free(lines->items);
    na_index_free(&lines->index);
}
