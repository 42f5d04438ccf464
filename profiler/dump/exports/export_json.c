/* export_json.c - all of a profile as one JSON document, for programs: docs/profile-json.md has the
 * schema. Stacks are a tree and frames are a list, each written once, so that the size grows with
 * the profile and not with the depth of its stacks. Sites leave out what is 0, stack entries what
 * is false or said by their function: there may be hundreds of thousands of both. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

static void put_functions(na_view_input_t *in) {
    fputs(",\n\"functions\":[", stdout);
    /* By id, so that "function" of a frame is an index. */
    for (uint32_t id = 0; id < in->function_count; id++) {
        const na_function_name_t *f = na_symbols_function(in->symbols, id);
        fputs(id == 0 ? "\n{\"name\":" : ",\n{\"name\":", stdout);
        na_json_put(stdout, f->function);
        fputs(",\"file\":", stdout);
        na_json_put(stdout, f->file);
        printf(",\"line\":%u,\"module\":", f->line);
        na_json_put(stdout, f->module);
        printf(",\"named\":%s,\"runtime\":%s,\"wrapper\":%s}", f->named ? "true" : "false",
               f->runtime ? "true" : "false", in->wrappers[id] ? "true" : "false");
    }
    putchar(']');
}

/* "file" only where it is not that of the function (its definition in a header, or unknown). */
static void put_frame(const na_view_input_t *in, const na_frame_t *frame) {
    const char *file = na_symbols_function(in->symbols, frame->id)->file;
    printf("{\"function\":%u", frame->id);
    if (frame->file != NULL && (file == NULL || strcmp(file, frame->file) != 0)) {
        fputs(",\"file\":", stdout);
        na_json_put(stdout, frame->file);
    }
    if (frame->line != 0) printf(",\"line\":%u", frame->line);
    fputs(frame->inlined ? ",\"inlined\":true}" : "}", stdout);
}

/* Entries that are a site or above one, each with its frames. */
static bool put_stacks(const na_view_input_t *in) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    bool *wanted = calloc((size_t)stacks.count + 1, sizeof *wanted);
    if (wanted == NULL) return false;
    for (size_t s = 0; s < in->sites.count; s++)
        if (in->sites.items[s].site < stacks.count) wanted[in->sites.items[s].site] = true;
    for (uint32_t node = stacks.count; node-- > NA_NPROF_ROOT + 1;)
        if (wanted[node]) wanted[stacks.items[node].parent] = true;
    fputs(",\n\"stacks\":[", stdout);
    bool first = true;
    for (uint32_t node = NA_NPROF_ROOT + 1; node < stacks.count; node++) {
        na_progress("writing stacks", node, stacks.count);
        if (!wanted[node]) continue;
        const na_nprof_stack_t *entry = &stacks.items[node];
        printf("%s\n{\"id\":%u,\"parent\":%u,\"pc\":%" PRIu64 ",\"module\":%u%s,\"frames\":[",
               first ? "" : ",", node, entry->parent == NA_NPROF_ROOT ? 0 : entry->parent,
               entry->pc, na_symbols_module(in->symbols, node),
               (entry->flags & NA_NPROF_STACK_TRUNCATED) != 0 ? ",\"truncated\":true" : "");
        first = false;
        const na_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            if (i != 0) putchar(',');
            put_frame(in, &frames[i]);
        }
        fputs("]}", stdout);
    }
    putchar(']');
    free(wanted);
    return true;
}

static void put_sites(const na_view_input_t *in) {
    fputs(",\n\"sites\":[", stdout);
    for (size_t s = 0; s < in->sites.count; s++) {
        na_progress("writing sites", s, in->sites.count);
        const na_site_t *site = &in->sites.items[s];
        printf("%s\n{\"stack\":%u,\"threads\":%u,", s == 0 ? "" : ",",
               site->site == NA_NPROF_ROOT ? 0 : site->site, site->cells);
        na_json_counters_sparse(in, &site->sum);
        const na_frame_t *leaf;
        const na_frame_t *frame = na_view_site(in, site->site, &leaf);
        if (frame == NULL)
            fputs("\"responsible\":null}", stdout);
        else
            printf("\"responsible\":%u}", frame->id);
    }
    putchar(']');
}

static na_status_t show_json(na_view_input_t *in) {
    fputs("{\"schema\":\"numalloc-profile\",\"schema_version\":2,\n", stdout);
    na_json_header(in);
    fputs(",\n\"total\":{", stdout);
    na_json_counters(in, &in->sites.total);
    printf("},\"peak_ms\":%" PRIu64, na_view_peak_ms(in));
    na_json_threads(in);
    na_json_timeline(in);
    na_json_environment(in);
    na_json_modules(in);
    put_functions(in);
    if (!put_stacks(in)) return NA_STATUS_MEMORY;
    put_sites(in);
    if (!na_json_metrics(in)) return NA_STATUS_MEMORY;
    na_json_end(in);
    fputs("}\n", stdout);
    return NA_STATUS_WHOLE;
}

/* ---- csv: the table of sites, all of it ---- */

static na_status_t show_csv(na_view_input_t *in) {
    na_options_t options = *in->options;
    options.format = NA_FORMAT_CSV;
    if (!options.top_given) options.top = SIZE_MAX;
    const na_options_t *before = in->options;
    in->options = &options;
    na_status_t status = na_view_site_table(in, false);
    in->options = before;
    return status;
}

const na_view_t na_view_row_json = {
    .name = "json",
    .words = "FILE",
    .help = "all of the profile, for programs (docs/profile-json.md)",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .takes = NA_TAKES_WRAPPERS,
    .show = show_json,
};

const na_view_t na_view_row_csv = {
    .name = "csv",
    .words = "FILE",
    .help = "all sites as comma-separated values",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .takes = NA_TAKES_SORT | NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_WRAPPERS,
    .tables = {{&na_columns_sites, 0}},
    .show = show_csv,
};
