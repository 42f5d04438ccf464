/* tables.c - the tables of the summary: where the memory came from, by function and by site. */
#include <stdio.h>
#include <string.h>

#include "profiler/dump/demangle.h"
#include "profiler/dump/text.h"
#include "profiler/dump/view.h"

static const char *const titles[] = {"bytes live at the peak", "bytes still live",
                                     "bytes requested in total", "allocations"};

static void print_frame(const na_frame_t *frame, size_t limit) {
    char name[512];
    if (limit != 0) {
        na_demangle_short(frame->function, limit, name, sizeof name);
        na_text_put(stdout, name);
    } else {
        na_text_put(stdout, frame->function);
    }
    if (frame->file != NULL) {
        fputs("  ", stdout);
        const char *slash = limit == 0 ? NULL : strrchr(frame->file, '/');
        na_text_put(stdout, slash == NULL ? frame->file : slash + 1);
        if (frame->line != 0) printf(":%u", frame->line);
    } else if (frame->named) {
        const char *slash = strrchr(frame->module, '/');
        fputs("  (", stdout);
        na_text_put(stdout, slash == NULL ? frame->module : slash + 1);
        putchar(')');
    }
}

static void print_stack(const na_view_input_t *in, uint32_t site) {
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    uint32_t depth = 0;
    for (uint32_t node = site; node > NA_NPROF_ROOT && node < stacks.count;
         node = stacks.items[node].parent) {
        if (depth++ == NA_VIEW_DEEPEST) {
            printf("%49s| (deeper than %u: not shown)\n", "", NA_VIEW_DEEPEST);
            return;
        }
        const na_frame_t *frames;
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            printf("%49s%s ", "", frames[i].inlined ? "~" : "|");
            print_frame(&frames[i], 0);
            putchar('\n');
        }
        if ((stacks.items[node].flags & NA_NPROF_STACK_TRUNCATED) != 0)
            printf("%49s| (outer frames not known)\n", "");
    }
}

static bool is_sampled(const na_view_input_t *in) {
    return na_reader_header(in->reader)->mode == NA_NPROF_MODE_SAMPLE;
}

/* The column of the 95 % error, in mode sample. */
static void print_error(const na_view_input_t *in, const na_counters_t *sum) {
    if (!is_sampled(in)) return;
    if (sum->raw_allocs == 0) {
        fputs("    -    ", stdout);
        return;
    }
    int64_t count = in->order == NA_ORDER_PEAK   ? sum->peak_count
                    : in->order == NA_ORDER_LIVE ? sum->live_count
                                                 : (int64_t)sum->alloc_count;
    double error = na_counters_error(sum, count, na_reader_header(in->reader)->count_scale) * 100;
    if (error < 1000)
        printf("+-%3.0f %%  ", error);
    else
        printf("    ?    ");
}

static void print_site(const na_view_input_t *in, const na_site_t *site) {
    const na_counters_t *sum = &site->sum;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT], d[NA_TEXT];
    printf("%10s %10s %10s %13s  ", na_text_bytes(a, (double)sum->peak_bytes),
           na_text_bytes(b, (double)sum->live_bytes), na_text_bytes(c, (double)sum->alloc_bytes),
           na_text_count(d, na_view_count(in, (double)sum->alloc_count)));
    print_error(in, sum);
    const na_frame_t *leaf;
    const na_frame_t *frame = na_view_site(in, site->site, &leaf);
    if (frame == NULL)
        fputs(site->site == NA_NPROF_NO_STACK ? "(stacks missing from the file)" : "(no stack)",
              stdout);
    else
        print_frame(frame, 60);
    if (leaf != NULL) {
        char name[512];
        na_demangle_short(leaf->function, 40, name, sizeof name);
        fputs("  by ", stdout);
        na_text_put(stdout, name);
    }
    putchar('\n');
    if (in->stacks) print_stack(in, site->site);
}

void na_view_site_table(const na_view_input_t *in) {
    size_t shown = in->sites->count < in->top ? in->sites->count : in->top;
    char a[NA_TEXT], b[NA_TEXT];
    printf("\nSites by %s (%s of %s)\n", titles[in->order], na_text_count(a, (double)shown),
           na_text_count(b, (double)in->sites->count));
    printf("%10s %10s %10s %13s  %ssite\n", "at peak", "live", "total", "allocations",
           is_sampled(in) ? "   95 %  " : "");
    for (size_t i = 0; i < shown; i++)
        print_site(in, &in->sites->items[i]);
}

/* ---- functions ---- */

/* In percent of all; a profile of nothing has no shares. */
static void print_share(double part, double all) {
    if (all > 0)
        printf(" %5.1f %%", 100 * part / all);
    else
        printf("       -");
}

static void print_name(const char *function, size_t limit) {
    char name[512];
    na_demangle_short(function, limit, name, sizeof name);
    na_text_put(stdout, name);
}

static void print_function(const na_view_input_t *in, const na_function_row_t *row) {
    const na_function_name_t *f = na_symbols_function(in->symbols, row->id);
    print_name(f->function, 60);
    if (f->file != NULL) {
        const char *slash = strrchr(f->file, '/');
        fputs("  ", stdout);
        na_text_put(stdout, slash == NULL ? f->file : slash + 1);
        if (f->line != 0) printf(":%u", f->line);
    } else if (f->named) {
        const char *slash = strrchr(f->module, '/');
        fputs("  (", stdout);
        na_text_put(stdout, slash == NULL ? f->module : slash + 1);
        putchar(')');
    }
    if (row->by != 0) {
        fputs("  by ", stdout);
        print_name(na_symbols_function(in->symbols, row->by - 1)->function, 40);
        if (row->by_more) fputs(", ...", stdout);
    }
    putchar('\n');
}

/* The figure of an inclusive cost that the order looks at, and its text. */
static double below_of(const na_view_input_t *in, const na_cost_t *cost, char text[NA_TEXT]) {
    if (in->order == NA_ORDER_COUNT) {
        na_text_count(text, na_view_count(in, (double)cost->alloc_count));
        return (double)cost->alloc_count;
    }
    int64_t bytes = in->order == NA_ORDER_LIVE    ? cost->live_bytes
                    : in->order == NA_ORDER_TOTAL ? cost->alloc_bytes
                                                  : cost->peak_bytes;
    na_text_bytes(text, (double)bytes);
    return (double)bytes;
}

static void print_row(const na_view_input_t *in, const na_function_row_t *row) {
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT], d[NA_TEXT], e[NA_TEXT];
    const na_counters_t *sum = &row->self;
    double all = (double)na_counters_key(&in->sites->total, in->order);
    double below = below_of(in, &row->below, e);
    printf("%10s", na_text_bytes(a, (double)sum->peak_bytes));
    print_share((double)na_counters_key(sum, in->order), all);
    printf(" %10s %10s %13s  ", na_text_bytes(b, (double)sum->live_bytes),
           na_text_bytes(c, (double)sum->alloc_bytes),
           na_text_count(d, na_view_count(in, (double)sum->alloc_count)));
    print_error(in, sum);
    printf("%12s", e);
    print_share(below, all);
    fputs("  ", stdout);
    print_function(in, row);
}

static void print_heading(const na_view_input_t *in) {
    printf("%10s   share %10s %10s %13s  %s%12s   share  function\n", "at peak", "live", "total",
           "allocations", is_sampled(in) ? "   95 %  " : "", "with callees");
}

void na_view_function_tables(na_view_input_t *in) {
    na_function_table_t *table = &in->functions;
    char a[NA_TEXT], b[NA_TEXT];
    na_view_functions_sort(table, in->order, false);
    size_t limit = table->responsible < in->top ? table->responsible : in->top;
    printf("\nFunctions by %s (%s of %s that allocate; shares are of that)\n", titles[in->order],
           na_text_count(a, (double)limit), na_text_count(b, (double)table->responsible));
    print_heading(in);
    size_t shown = 0;
    for (size_t i = 0; i < table->count && shown < limit; i++) {
        if (table->items[i].sites == 0) continue;
        print_row(in, &table->items[i]);
        shown++;
    }
    if (table->nowhere_sites != 0)
        printf("%10s, %s in total: stacks missing\n",
               na_text_bytes(a, (double)table->nowhere.peak_bytes),
               na_text_bytes(b, (double)table->nowhere.alloc_bytes));

    na_view_functions_sort(table, in->order, true);
    printf(
        "\nThe same with all that they call (the columns before \"with callees\" are their own)\n");
    print_heading(in);
    shown = 0;
    for (size_t i = 0; i < table->count && shown < in->top; i++) {
        const na_function_row_t *row = &table->items[i];
        if (row->wrapper || na_symbols_function(in->symbols, row->id)->runtime) continue;
        print_row(in, row);
        shown++;
    }
}
