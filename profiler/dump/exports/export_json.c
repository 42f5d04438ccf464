/* export_json.c - all of a profile as one JSON document, for programs: docs/profile-json.md has the
 * schema. Stacks are a tree and frames are a list, each written once, so that the size grows with
 * the profile and not with the depth of its stacks. Sites leave out what is 0, stack entries what
 * is false or said by their function: there may be hundreds of thousands of both. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/exports/export_json.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/views/views.h"

static void put_functions_json(na_json_t *json, na_view_input_t *in) {
    na_json_line(json);
    na_json_array(json, "functions");
    /* By id, so that "function" of a frame is an index. */
    for (uint32_t id = 0; id < in->function_count; id++) {
        const na_function_name_t *f = na_symbols_function(in->symbols, id);
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "name", f->function);
        na_json_string(json, "file", f->file);
        na_json_u64(json, "line", f->line);
        na_json_string(json, "module", f->module);
        na_json_bool(json, "named", f->named);
        na_json_bool(json, "runtime", f->runtime);
        na_json_bool(json, "wrapper", in->wrappers[id]);
        na_json_end(json);
    }
    na_json_end(json);
}

/* "file" only where it is not that of the function (its definition in a header, or unknown). */
static void put_frame_json(na_json_t *json, const na_view_input_t *in,
                           const na_symbol_frame_t *frame) {
    const char *file = na_symbols_function(in->symbols, frame->id)->file;
    na_json_object(json, NULL);
    na_json_u64(json, "function", frame->id);
    if (frame->file != NULL && (file == NULL || strcmp(file, frame->file) != 0))
        na_json_string(json, "file", frame->file);
    if (frame->line != 0) na_json_u64(json, "line", frame->line);
    if (frame->inlined) na_json_bool(json, "inlined", true);
    na_json_end(json);
}

/* Entries that are a site, or map memory, or are above one, each with its frames. */
static bool put_stacks(na_json_t *json, const na_view_input_t *in) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    bool *wanted = calloc((size_t)stacks.count + 1, sizeof *wanted);
    if (wanted == NULL) return false;
    for (size_t s = 0; s < in->sites.count; s++)
        if (in->sites.items[s].site < stacks.count) wanted[in->sites.items[s].site] = true;
    for (size_t i = 0; i < in->maps.count; i++)
        if (in->maps.items[i].site < stacks.count) wanted[in->maps.items[i].site] = true;
    for (uint32_t node = stacks.count; node-- > NA_NPROF_ROOT + 1;)
        if (wanted[node]) wanted[stacks.items[node].parent] = true;
    na_json_line(json);
    na_json_array(json, "stacks");
    for (uint32_t node = NA_NPROF_ROOT + 1; node < stacks.count; node++) {
        na_progress("writing stacks", node, stacks.count);
        if (!wanted[node]) continue;
        const na_nprof_stack_t *entry = &stacks.items[node];
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_u64(json, "id", node);
        na_json_u64(json, "parent", entry->parent == NA_NPROF_ROOT ? 0 : entry->parent);
        na_json_u64(json, "pc", entry->pc);
        na_json_u64(json, "module", na_symbols_module(in->symbols, node));
        if ((entry->flags & NA_NPROF_STACK_TRUNCATED) != 0) na_json_bool(json, "truncated", true);
        na_json_array(json, "frames");
        const na_symbol_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++)
            put_frame_json(json, in, &frames[i]);
        na_json_end(json);
        na_json_end(json);
    }
    na_json_end(json);
    free(wanted);
    return true;
}

static void put_sites_json(na_json_t *json, const na_view_input_t *in) {
    na_json_line(json);
    na_json_array(json, "sites");
    for (size_t s = 0; s < in->sites.count; s++) {
        na_progress("writing sites", s, in->sites.count);
        const na_site_t *site = &in->sites.items[s];
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_u64(json, "stack", site->site == NA_NPROF_ROOT ? 0 : site->site);
        na_json_u64(json, "threads", site->cells);
        na_json_counters_sparse(json, in, &site->sum);
        const na_symbol_frame_t *leaf;
        const na_symbol_frame_t *frame = na_view_site(in, site->site, &leaf);
        if (frame == NULL)
            na_json_null(json, "responsible");
        else
            na_json_u64(json, "responsible", frame->id);
        na_json_end(json);
    }
    na_json_end(json);
}

static na_status_t show_json(na_view_input_t *in) {
    na_json_t json = na_json_open(stdout);
    na_json_object(&json, NULL);
    na_json_string(&json, "schema", "numalloc-profile");
    na_json_u64(&json, "schema_version", 2);
    na_json_line(&json);
    na_json_header(&json, in);
    na_json_line(&json);
    na_json_object(&json, "total");
    na_json_counters(&json, in, &in->sites.total);
    na_json_end(&json);
    na_json_u64(&json, "peak_ms", na_view_peak_ms(in));
    na_json_threads(&json, in);
    na_json_timeline(&json, in);
    na_json_environment(&json, in);
    na_json_modules(&json, in);
    put_functions_json(&json, in);
    if (!put_stacks(&json, in)) return NA_STATUS_MEMORY;
    put_sites_json(&json, in);
    if (!na_json_metrics(&json, in)) return NA_STATUS_MEMORY;
    na_json_rest(&json, in);
    na_json_end(&json);
    return NA_STATUS_WHOLE;
}

const na_view_t na_view_row_json = {
    .name = "json",
    .words = "FILE",
    .help = "all of the profile, for programs (docs/profile-json.md)",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .takes = NA_TAKES(WRAPPERS),
    .show = show_json,
};
