/* export_speedscope.c - the file format of speedscope (https://www.speedscope.app): the sites as
 * samples, once for each of the four figures. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "numalloc/numalloc.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

static void put_frames(const na_view_input_t *in) {
    fputs("\"shared\":{\"frames\":[", stdout);
    for (uint32_t id = 0; id < in->function_count; id++) {
        const na_function_name_t *f = na_symbols_function(in->symbols, id);
        fputs(id == 0 ? "\n{\"name\":" : ",\n{\"name\":", stdout);
        na_json_put(stdout, f->function);
        fputs(",\"file\":", stdout);
        na_json_put(stdout, f->file != NULL ? f->file : f->module);
        if (f->file != NULL && f->line != 0) printf(",\"line\":%u", f->line);
        putchar('}');
    }
    /* One more for what has no stack. */
    printf("%s{\"name\":\"(no stack)\"}]}", in->function_count == 0 ? "" : ",\n");
}

/* One profile; twice over the sites: samples, then their weights. */
static bool put_profile(na_view_input_t *in, na_order_t order, na_stack_t *stack) {
    in->order = order;
    double sum = 0;
    printf("{\"type\":\"sampled\",\"name\":\"%s\",\"unit\":\"%s\",\"startValue\":0,\"samples\":[",
           na_view_order_title(order), order == NA_ORDER_COUNT ? "none" : "bytes");
    bool first = true;
    for (size_t s = 0; s < in->sites.count; s++) {
        na_progress("writing", s, in->sites.count);
        double value = na_view_metric(in, &in->sites.items[s].sum);
        if (value <= 0) continue;
        if (!na_view_stack(in, in->sites.items[s].site, stack)) return false;
        fputs(first ? "\n[" : ",\n[", stdout);
        first = false;
        if (stack->count == 0) printf("%u", in->function_count);
        for (uint32_t i = stack->count; i-- > 0;)
            printf("%u%s", stack->items[i]->id, i == 0 ? "" : ",");
        putchar(']');
        sum += value;
    }
    fputs("],\"weights\":[", stdout);
    first = true;
    for (size_t s = 0; s < in->sites.count; s++) {
        na_progress("writing", s, in->sites.count);
        double value = na_view_metric(in, &in->sites.items[s].sum);
        if (value <= 0) continue;
        if (!first) putchar(',');
        first = false;
        na_json_number(stdout, value);
    }
    fputs("],\"endValue\":", stdout);
    na_json_number(stdout, sum);
    putchar('}');
    return true;
}

static na_status_t show_speedscope(na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const char *slash = strrchr(h->program, '/');
    printf("{\"$schema\":\"https://www.speedscope.app/file-format-schema.json\","
           "\"exporter\":\"numalloc-dump %d.%d.%d\",\"name\":",
           NUMALLOC_VERSION_MAJOR, NUMALLOC_VERSION_MINOR, NUMALLOC_VERSION_PATCH);
    na_json_put(stdout, slash == NULL ? h->program : slash + 1);
    na_order_t wanted = in->order;
    printf(",\"activeProfileIndex\":%d,", (int)wanted);
    put_frames(in);
    fputs(",\"profiles\":[", stdout);
    na_stack_t stack = {0};
    bool good = true;
    for (int order = NA_ORDER_PEAK; order <= NA_ORDER_COUNT && good; order++) {
        if (order != NA_ORDER_PEAK) putchar(',');
        good = put_profile(in, (na_order_t)order, &stack);
    }
    in->order = wanted;
    fputs("]}\n", stdout);
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
    .takes = NA_TAKES_METRIC,
    .show = show_speedscope,
};
