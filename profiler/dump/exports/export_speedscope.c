/* export_speedscope.c - the file format of speedscope (https://www.speedscope.app): the sites as
 * samples, once for each of the four figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numalloc/numalloc.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/progress.h"

static void put_frame_table(na_json_t *json, const na_view_input_t *in) {
    na_json_object(json, "shared");
    na_json_array(json, "frames");
    for (uint32_t id = 0; id < in->function_count; id++) {
        const na_function_name_t *f = na_symbols_function(in->symbols, id);
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "name", f->function);
        na_json_string(json, "file", f->file != NULL ? f->file : f->module);
        if (f->file != NULL && f->line != 0) na_json_u64(json, "line", f->line);
        na_json_end(json);
    }
    /* One more for what has no stack. */
    na_json_line(json);
    na_json_object(json, NULL);
    na_json_string(json, "name", "(no stack)");
    na_json_end(json);
    na_json_end(json);
    na_json_end(json);
}

/* One profile; twice over the sites: samples, then their weights. */
static bool put_profile(na_json_t *json, na_view_input_t *in, na_order_t order, na_stack_t *stack) {
    in->order = order;
    double sum = 0;
    na_json_object(json, NULL);
    na_json_string(json, "type", "sampled");
    na_json_string(json, "name", na_view_order_title(order));
    na_json_string(json, "unit", order == NA_ORDER_COUNT ? "none" : "bytes");
    na_json_u64(json, "startValue", 0);
    na_json_array(json, "samples");
    for (size_t s = 0; s < in->sites.count; s++) {
        na_progress("writing", s, in->sites.count);
        double value = na_view_metric(in, &in->sites.items[s].sum);
        if (value <= 0) continue;
        if (!na_view_stack(in, in->sites.items[s].site, stack)) return false;
        na_json_line(json);
        na_json_array(json, NULL);
        if (stack->count == 0) na_json_u64(json, NULL, in->function_count);
        for (uint32_t i = stack->count; i-- > 0;)
            na_json_u64(json, NULL, stack->items[i]->id);
        na_json_end(json);
        sum += value;
    }
    na_json_end(json);
    na_json_array(json, "weights");
    for (size_t s = 0; s < in->sites.count; s++) {
        na_progress("writing", s, in->sites.count);
        double value = na_view_metric(in, &in->sites.items[s].sum);
        if (value <= 0) continue;
        na_json_number(json, NULL, value);
    }
    na_json_end(json);
    na_json_number(json, "endValue", sum);
    na_json_end(json);
    return true;
}

static na_status_t show_speedscope(na_view_input_t *in) {
    na_json_t json = na_json_open(stdout);
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const char *slash = strrchr(h->program, '/');
    na_json_object(&json, NULL);
    na_json_string(&json, "$schema", "https://www.speedscope.app/file-format-schema.json");
    na_json_text(&json, "exporter", "numalloc-dump %d.%d.%d", NUMALLOC_VERSION_MAJOR,
                 NUMALLOC_VERSION_MINOR, NUMALLOC_VERSION_PATCH);
    na_json_string(&json, "name", slash == NULL ? h->program : slash + 1);
    na_order_t wanted = in->order;
    na_json_i64(&json, "activeProfileIndex", (int)wanted);
    put_frame_table(&json, in);
    na_json_array(&json, "profiles");
    na_stack_t stack = {0};
    bool good = true;
    for (int order = NA_ORDER_PEAK; order <= NA_ORDER_COUNT && good; order++)
        good = put_profile(&json, in, (na_order_t)order, &stack);
    in->order = wanted;
    na_json_end(&json);
    na_json_end(&json);
    free(stack.items);
    return good ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
}

const na_view_t na_view_row_speedscope = {
    .name = "speedscope",
    .words = "FILE",
    .help = "for speedscope",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .takes = NA_TAKES(METRIC),
    .show = show_speedscope,
};
