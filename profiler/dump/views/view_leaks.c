/* view_leaks.c - what was never freed, with LeakSanitizer's suppressions.
 *
 * A profile knows what was not freed, not what could still be reached: a cache that lives to the
 * end is listed as well. The text says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/profile/suppress.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

static void put_used(const na_suppressions_t *list) {
    char a[NA_TEXT], b[NA_TEXT];
    bool first = true;
    for (size_t i = 0; i < list->count; i++) {
        const na_suppression_t *s = &list->items[i];
        if (s->blocks <= 0 && s->bytes <= 0) continue;
        if (first) printf("\nSuppressed\n%10s  %10s  pattern\n", "bytes", "blocks");
        first = false;
        printf("%10s  %10s  ", na_text_bytes(a, s->bytes), na_text_count(b, s->blocks));
        na_text_put(stdout, s->pattern);
        putchar('\n');
    }
}

static const na_column_t leaks_columns[] = {
    {NULL, "site", NA_KIND_TEXT, NULL},     {"site", NULL, NA_KIND_NUMBER, NULL},
    {"function", NULL, NA_KIND_TEXT, NULL}, {"file", NULL, NA_KIND_TEXT, NULL},
    {"line", NULL, NA_KIND_NUMBER, NULL},   {"module", NULL, NA_KIND_TEXT, NULL},
};
static const na_columns_t leaks_table = NA_COUNTERS_AND(leaks_columns);

static na_status_t show_leaks(na_view_input_t *in) {
    enum { LABEL = NA_COUNTER_COUNT, SITE, FUNCTION, FILE_NAME, LINE, MODULE };
    na_suppressions_t list;
    na_status_t status = na_suppressions_read(&list, in->options);
    if (status != NA_STATUS_WHOLE) return status;
    na_table_t *table = na_table_open_counters(&leaks_table);
    status = NA_STATUS_MEMORY;
    if (table != NULL) {
        /* Shares and the order are those of what is live, whatever else was asked for. */
        if (in->options->sort == NULL) {
            in->order = NA_ORDER_LIVE;
            na_sites_sort(&in->sites, in->order);
        }
        na_leaks_t leaks = {0};
        na_stack_t stack = {0};
        bool good = true;
        for (size_t i = 0; i < in->sites.count && good; i++) {
            const na_site_t *site = &in->sites.items[i];
            if (site->sum.live_bytes <= 0 && site->sum.live_count <= 0) continue;
            good = na_view_stack(in, site->site, &stack);
            if (!good || na_suppressed(&list, in, site, &stack)) continue;
            leaks.bytes += (double)site->sum.live_bytes;
            leaks.blocks += na_view_count(in, (double)site->sum.live_count);
            leaks.sites++;
            const na_symbol_frame_t *leaf, *frame = na_view_site(in, site->site, &leaf);
            char label[NA_LABEL] = "(no stack)";
            na_table_row(table, site->site);
            na_table_counters(table, in, &site->sum, true);
            if (frame != NULL) na_view_frame_label(frame, label);
            if (leaf != NULL)
                na_table_format(table, LABEL, "%s  by %.60s", label, leaf->function);
            else
                na_table_text(table, LABEL, label);
            na_table_number(table, SITE, site->site);
            if (frame == NULL) continue;
            na_table_text(table, FUNCTION, frame->function);
            na_table_text(table, FILE_NAME, frame->file);
            if (frame->line != 0) na_table_number(table, LINE, frame->line);
            na_table_text(table, MODULE, frame->module);
        }
        free(stack.items);
        bool text = in->options->format == NA_FORMAT_TEXT;
        char a[NA_TEXT], b[NA_TEXT];
        if (good && text)
            printf("Not freed at the end: %s in %s blocks, from %zu sites. A block may still have "
                   "been\nreachable; one that is meant to live for ever is no leak: suppress it "
                   "(--suppressions).\n\n",
                   na_text_bytes(a, leaks.bytes), na_text_count(b, leaks.blocks), leaks.sites);
        const na_table_print_t print = {
            .view = "leaks",
            .title = "Sites by bytes still live (%s)",
            .empty = "Nothing.",
            .sort = "live_bytes",
            .below = in->options->stacks ? na_view_put_stack : NULL,
            .members = in->options->stacks ? na_view_json_stack : NULL,
            .arg = in,
        };
        if (good) status = na_table_write(table, in->options, &print);
        if (status == NA_STATUS_WHOLE && text) put_used(&list);
    }
    na_table_close(table);
    na_suppressions_free(&list);
    return status;
}

const na_view_t na_view_row_leaks = {
    .name = "leaks",
    .words = "FILE",
    .help = "what was never freed, less what suppressions match",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS | NA_TAKES_SUPPRESSIONS,
    .tables = {{&leaks_table, 0}},
    .show = show_leaks,
};
