/* export_folded.c - stacks in one line each, outermost first, with one figure: what flamegraph.pl,
 * inferno, speedscope and others read. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

/* The format has no quoting: what divides frames and lines becomes something else. */
static void put_folded_name(const char *name) {
    char *copy = NULL;
    if (asprintf(&copy, "%s", name) < 0) return;
    for (char *p = copy; *p != 0; p++) {
        if (*p == ';') *p = ':';
        if (*p == '\n' || *p == '\r') *p = '?';
    }
    na_text_put(stdout, copy);
    free(copy);
}

static na_status_t show_folded(na_view_input_t *in) {
    na_stack_t stack = {0};
    bool good = true;
    for (size_t s = 0; s < in->sites.count && good; s++) {
        na_progress("writing", s, in->sites.count);
        double value = na_view_metric(in, &in->sites.items[s].sum);
        if (value < 0.5) continue;
        good = na_view_stack(in, in->sites.items[s].site, &stack);
        if (stack.count == 0) fputs("(no stack)", stdout);
        for (uint32_t i = stack.count; i-- > 0;) {
            put_folded_name(stack.items[i]->function);
            if (i != 0) putchar(';');
        }
        printf(" %.0f\n", value);
    }
    free(stack.items);
    return good ? NA_STATUS_WHOLE : NA_STATUS_MEMORY;
}

const na_view_t na_view_row_folded = {
    .name = "folded",
    .words = "FILE",
    .help = "a line for each stack, as flamegraph.pl reads it",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_EXPORT,
    .without = NA_VIEW_WHOLE,
    .takes = NA_TAKES(METRIC),
    .show = show_folded,
};
