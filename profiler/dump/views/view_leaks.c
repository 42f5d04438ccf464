/* view_leaks.c - what was never freed, with LeakSanitizer's suppressions.
 *
 * Of a process that was scanned (NUMALLOC_LEAKS) the profile knows what is lost. Of others it knows
 * what was not freed, not what could still be reached: a cache that lives to the end is listed as
 * well. The text says so. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/profile/counter_columns.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/profile/suppress.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/free_lists.h"
#include "profiler/dump/views/leak_blocks.h"

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

/* --- a scan --- */

typedef struct scanned {
    na_nprof_leaks_t totals; /* state 0: there was no scan */
    na_nprof_leak_site_t *rows;
    size_t count, room;
    bool full; /* out of memory */
} scanned_t;

static void take_totals(void *arg, uint32_t id, const void *entry) {
    (void)id;
    memcpy(&((scanned_t *)arg)->totals, entry, sizeof(na_nprof_leaks_t));
}

static void take_row(void *arg, uint32_t id, const void *entry) {
    (void)id;
    scanned_t *s = arg;
    if (!NA_ARRAY_RESERVE(s->rows, s->room, s->count + 1u)) {
        s->full = true;
        return;
    }
    memcpy(&s->rows[s->count++], entry, sizeof *s->rows);
}

static int leaks_by_site(const void *a, const void *b) {
    const na_nprof_leak_site_t *x = a, *y = b;
    return x->site < y->site ? -1 : x->site > y->site;
}

static void read_scan(const na_view_input_t *in, scanned_t *s) {
    na_reader_control(in->reader, NA_NPROF_LEAKS, take_totals, s);
    if (s->totals.state == 0) return;
    na_reader_control(in->reader, NA_NPROF_LEAK_SITES, take_row, s);
    if (s->count != 0) qsort(s->rows, s->count, sizeof *s->rows, leaks_by_site);
}

/* What became of a site's blocks, by kind. */
typedef struct classes {
    double blocks[NA_NPROF_LEAK_KINDS], bytes[NA_NPROF_LEAK_KINDS];
} classes_t;

static classes_t classes_of(const scanned_t *s, uint32_t site) {
    classes_t c = {0};
    size_t low = 0, high = s->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (s->rows[middle].site < site)
            low = middle + 1;
        else
            high = middle;
    }
    for (; low < s->count && s->rows[low].site == site; low++) {
        c.blocks[s->rows[low].kind - 1] += (double)s->rows[low].blocks;
        c.bytes[s->rows[low].kind - 1] += (double)s->rows[low].bytes;
    }
    return c;
}

static void put_scan(const na_nprof_leaks_t *t) {
    char a[NA_TEXT], b[NA_TEXT];
    static const char *const words[] = {"lost: nothing leads there",
                                        "lost, and lost blocks lead there", "still reachable"};
    printf("At %.1f s, %u thread%s stood still for %.1f ms:\n", (double)t->ms / 1000, t->threads,
           t->threads == 1 ? "" : "s", (double)t->still_ns / 1e6);
    for (unsigned kind = 0; kind < NA_NPROF_LEAK_KINDS; kind++)
        printf("%10s  in %8s blocks  %s\n", na_text_bytes(a, (double)t->bytes[kind]),
               na_text_count(b, (double)t->blocks[kind]), words[kind]);
    if (t->suppressed_blocks != 0)
        printf("%10s  in %8s blocks  suppressed by the process\n",
               na_text_bytes(a, (double)t->suppressed_bytes),
               na_text_count(b, (double)t->suppressed_blocks));
    if (t->missed != 0)
        printf("%s could not be stopped: what only they held is listed as lost\n",
               na_text_counted(a, t->missed, "thread"));
    putchar('\n');
}

static const na_column_t leaks_columns[] = {
    {"kind", "kind", NA_KIND_TEXT, NULL},
    {"lost_bytes", "lost", NA_KIND_BYTES, NULL},
    {"lost_blocks", "blocks", NA_KIND_COUNT, NULL},
    {"indirect_bytes", "indirect", NA_KIND_BYTES, NULL},
    {"indirect_blocks", "blocks", NA_KIND_COUNT, NULL},
    {"reachable_bytes", NULL, NA_KIND_BYTES, NULL},
    {"reachable_blocks", NULL, NA_KIND_COUNT, NULL},
    {NULL, "site", NA_KIND_TEXT, NULL},
    {"site", NULL, NA_KIND_NUMBER, NULL},
    {"function", NULL, NA_KIND_TEXT, NULL},
    {"file", NULL, NA_KIND_TEXT, NULL},
    {"line", NULL, NA_KIND_NUMBER, NULL},
    {"module", NULL, NA_KIND_TEXT, NULL},
};
static const na_columns_t leaks_table = NA_COUNTERS_AND(leaks_columns);

enum {
    KIND = NA_COUNTER_COUNT,
    LOST_BYTES,
    LOST_BLOCKS,
    INDIRECT_BYTES,
    INDIRECT_BLOCKS,
    REACHABLE_BYTES,
    REACHABLE_BLOCKS,
    LABEL,
    SITE,
    FUNCTION,
    FILE_NAME,
    LINE,
    MODULE
};

static void put_leak_classes(na_table_t *table, const classes_t *c) {
    static const char *const kinds[] = {"lost", "indirect", "reachable"};
    for (size_t kind = NA_NPROF_LEAK_KINDS; kind-- > 0;) {
        if (c->blocks[kind] > 0) na_table_text(table, KIND, kinds[kind]);
        na_table_number(table, LOST_BYTES + 2 * kind, c->bytes[kind]);
        na_table_number(table, LOST_BLOCKS + 2 * kind, c->blocks[kind]);
    }
}

/* Blocks of no known stack. */
static void put_others(na_table_t *table, const scanned_t *scanned) {
    classes_t c = classes_of(scanned, 0);
    if (c.blocks[0] + c.blocks[1] <= 0) return;
    na_table_row(table, 0);
    put_leak_classes(table, &c);
    na_table_text(table, LABEL, "(no stack)");
}

/* Why what is listed may be no leak. */
static const char *no_leaks_yet(const na_view_input_t *in) {
    return na_reader_moment(in->reader) == NA_MOMENT_END
               ? "A block may still have been\nreachable; one that is meant to live for ever is no "
                 "leak: suppress it (--suppressions)."
               : "The process may have\nneeded and freed them later: what leaks grows from dump "
                 "to dump (numalloc-dump aggregate --leaks).";
}

static na_status_t show_leaks(na_view_input_t *in) {
    na_suppressions_t list;
    na_status_t status = na_suppressions_read(&list, in->options);
    if (status != NA_STATUS_WHOLE) return status;
    na_table_t *table = na_table_open_counters(&leaks_table);
    status = NA_STATUS_MEMORY;
    if (table != NULL) {
        /* Shares and the order are those of what is live, whatever else was asked for. */
        if (in->options->table.sort == NULL) {
            in->order = NA_ORDER_LIVE;
            na_sites_sort(&in->sites, in->order);
        }
        na_leaks_t leaks = {0};
        na_stack_t stack = {0};
        scanned_t scanned = {0};
        read_scan(in, &scanned);
        bool good = !scanned.full, any = scanned.totals.state != 0;
        bool text = in->options->table.format == NA_FORMAT_TEXT;
        if (any) put_others(table, &scanned);
        bool blocks = any && text && in->options->frames.stacks;
        for (size_t i = 0; i < in->sites.count && good && !blocks; i++) {
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
            if (any) {
                classes_t c = classes_of(&scanned, site->site);
                put_leak_classes(table, &c);
            }
            if (frame != NULL) na_view_frame_label(frame, label);
            char by[61];
            if (leaf != NULL) na_demangle_short(leaf->function, 40, by, sizeof by);
            if (leaf != NULL)
                na_table_format(table, LABEL, "%s  by %s", label, by);
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
        if (good && blocks) status = na_leak_blocks_put(in, &list, scanned.rows, scanned.count);
        free(scanned.rows);
        char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
        if (good && text && any && !blocks) put_scan(&scanned.totals);
        if (good && text && !any)
            printf("%s %s: %s in %s, from %s. %s\n\n",
                   na_reader_moment(in->reader) == NA_MOMENT_END ? "Not freed" : "Live",
                   na_view_moment(in)->when, na_text_bytes(a, leaks.bytes),
                   na_text_counted(b, leaks.blocks, "block"),
                   na_text_counted(c, (double)leaks.sites, "site"), no_leaks_yet(in));
        const na_table_print_t print = {
            .view = "leaks",
            .title = any ? "Sites by bytes lost (%s)" : "Sites by bytes still live (%s)",
            .empty = "Nothing.",
            .sort = any ? "lost_bytes" : "live_bytes",
            .below = in->options->frames.stacks ? na_view_put_stack : NULL,
            .members = in->options->frames.stacks ? na_view_json_stack : NULL,
            .arg = in,
        };
        if (good && !blocks) status = na_table_write(table, in->options, &print);
        if (status == NA_STATUS_WHOLE && text) put_used(&list);
        if (status == NA_STATUS_WHOLE && text) na_view_say_free_lists(in);
    }
    na_table_close(table);
    na_suppressions_free(&list);
    return status;
}

const na_view_t na_view_row_leaks = {
    .name = "leaks",
    .words = "FILE",
    .help = "what was never freed, or is lost, less what suppressions match",
    .more = "--stacks, of a process that was scanned (NUMALLOC_LEAKS): each site that lost blocks "
            "with its\n"
            "stack, as LeakSanitizer writes it, and below it what those blocks hold.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(STACKS) | NA_TAKES(WRAPPERS) | NA_TAKES(SUPPRESSIONS),
    .tables = {{&leaks_table, 0}},
    .show = show_leaks,
};
