/* view_warnings.c - what in a profile asks for attention, each with its evidence, the reason and a
 * remedy. All thresholds are in one table. */
#include <math.h>
#include <stdio.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/views.h"

#define EVIDENCE 256
#define MIB      1048576.0

/* What is measured for a warning: compared with its threshold. NaN: does not apply. `where`: the
 * figure of a site that the warning is about, to name the largest; NULL: about the process. */
typedef struct warning {
    const char *key;
    double threshold;
    double (*measure)(const na_view_input_t *in, char evidence[EVIDENCE]);
    double (*where)(const na_counters_t *sum);
    const char *reason, *remedy;
    bool (*places)(const na_view_input_t *in, char *place, size_t size); /* instead of `where` */
} warning_t;

static const na_counters_t *total(const na_view_input_t *in) {
    return &in->sites.total;
}

static double share(double part, double all) {
    return all > 0 ? part / all : NAN;
}

static double other_malloc(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const char *name = na_reader_header(in->reader)->other_malloc;
    snprintf(evidence, EVIDENCE, "malloc was that of %.220s, not numalloc's", name);
    return name[0] != 0;
}

static double lost(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    double events = (double)h->lost_events;
    char a[NA_TEXT];
    snprintf(evidence, EVIDENCE, "%s events found no counter%s", na_text_count(a, events),
             h->disk_full != 0 ? ": the profile could not grow (disk full, quota or limit)" : "");
    return events;
}

static double truncated(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    double part =
        share((double)h->truncated_stacks, na_view_count(in, (double)(total(in)->alloc_count)));
    snprintf(evidence, EVIDENCE, "%.1f %% of the allocations have a stack without its outer frames",
             100 * part);
    return part;
}

static double few_samples(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (h->mode != NA_NPROF_MODE_SAMPLE) return NAN;
    char a[NA_TEXT];
    snprintf(evidence, EVIDENCE, "%s sample%s in all",
             na_text_count(a, (double)total(in)->raw_allocs),
             total(in)->raw_allocs == 1 ? "" : "s");
    return 1 / ((double)total(in)->raw_allocs + 1);
}

static double not_freed(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    if (na_reader_header(in->reader)->state != NA_NPROF_CLOSED || (double)t->live_bytes < MIB)
        return NAN;
    char a[NA_TEXT];
    double part = share((double)t->live_bytes, (double)t->peak_bytes);
    snprintf(evidence, EVIDENCE, "%s were not freed at the end, %.0f %% of the peak",
             na_text_bytes(a, (double)t->live_bytes), 100 * part);
    return part;
}

static double rate(const na_view_input_t *in, char evidence[EVIDENCE]) {
    double seconds = (double)na_reader_header(in->reader)->last_ms / 1000;
    double count = na_view_count(in, (double)total(in)->alloc_count);
    if (seconds < 0.1) return NAN;
    char a[NA_TEXT];
    snprintf(evidence, EVIDENCE, "%s allocations a second", na_text_count(a, count / seconds));
    return count / seconds;
}

static double recycling(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    if ((double)t->alloc_bytes < 100 * MIB) return NAN;
    char a[NA_TEXT], b[NA_TEXT];
    double times = share((double)t->alloc_bytes, (double)t->peak_bytes);
    snprintf(evidence, EVIDENCE, "%s were allocated in all, %.0f times the peak of %s",
             na_text_bytes(a, (double)t->alloc_bytes), times,
             na_text_bytes(b, (double)t->peak_bytes));
    return times;
}

static double temporaries(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    double part = share((double)t->temporary_count, (double)t->alloc_count);
    if (na_view_count(in, (double)t->temporary_count) < 10000) return NAN;
    snprintf(evidence, EVIDENCE,
             "%.0f %% of the blocks were freed before their thread allocated again", 100 * part);
    return part;
}

static double tiny(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    double count = na_view_count(in, (double)t->peak_count);
    if (count < 100000) return NAN;
    double mean = (double)t->peak_bytes / count;
    char a[NA_TEXT];
    snprintf(evidence, EVIDENCE, "%s blocks of %.0f bytes on average lived at the peak",
             na_text_count(a, count), mean);
    return 1 / mean;
}

static double rounding(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    double waste = (double)t->alloc_usable - (double)t->alloc_bytes;
    double part = share(waste, (double)t->alloc_bytes);
    if ((double)t->peak_bytes < MIB) return NAN;
    snprintf(evidence, EVIDENCE, "rounding up to block sizes adds %.0f %%", 100 * part);
    return part;
}

static double resident(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    double peak = (double)total(in)->peak_bytes;
    if (point == NULL || (double)point->physical - peak < 32 * MIB) return NAN;
    char a[NA_TEXT], b[NA_TEXT];
    snprintf(evidence, EVIDENCE, "%s were resident near the peak of %s requested",
             na_text_bytes(a, (double)point->physical), na_text_bytes(b, peak));
    return share((double)point->physical, peak);
}

static double cross_thread(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    if (na_view_count(in, (double)t->free_count) < 10000) return NAN;
    double part = share((double)t->cross_thread_free_count, (double)t->free_count);
    snprintf(evidence, EVIDENCE, "%.0f %% of the frees are by another thread than allocated",
             100 * part);
    return part;
}

static double cross_node(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    if (na_view_count(in, (double)t->free_count) < 10000) return NAN;
    double part = share((double)t->cross_node_free_count, (double)t->free_count);
    snprintf(evidence, EVIDENCE, "%.0f %% of the frees are on another node than allocated",
             100 * part);
    return part;
}

static double reallocs(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    if ((double)t->realloc_copy_bytes < 16 * MIB) return NAN;
    double part = share((double)t->realloc_copy_bytes, (double)t->alloc_bytes);
    char a[NA_TEXT];
    snprintf(evidence, EVIDENCE, "realloc moved %s, %.0f %% of all that was allocated",
             na_text_bytes(a, (double)t->realloc_copy_bytes), 100 * part);
    return part;
}

static double growth(const na_view_input_t *in, char evidence[EVIDENCE]) {
    const na_counters_t *t = total(in);
    if ((double)t->growth_copied < 16 * MIB) return NAN;
    double part = share((double)t->growth_copied, (double)t->alloc_bytes);
    char a[NA_TEXT];
    snprintf(evidence, EVIDENCE, "blocks of %s were replaced by larger ones, %.0f %% of all",
             na_text_bytes(a, (double)t->growth_copied), 100 * part);
    return part;
}

/* ---- what keeps memory at the end ---- */

static void add_small(void *arg, const na_nprof_span_sum_t *s) {
    double *held = arg; /* resident and in no live block; in live blocks */
    if (s->cls == NA_NPROF_SPANS_UNSEEN) return;
    held[1] += (double)s->usable;
    /* Large blocks are often resident in part: that is not memory that is kept for others. */
    if (s->cls != 0 && s->resident > s->usable) held[0] += (double)(s->resident - s->usable);
}

static double fragmentation(const na_view_input_t *in, char evidence[EVIDENCE]) {
    double held[2] = {0, 0};
    na_reader_span_sums(in->reader, add_small, held);
    if (held[0] < 16 * MIB) return NAN;
    char a[NA_TEXT], b[NA_TEXT];
    snprintf(evidence, EVIDENCE,
             "%s lay between live blocks at the end, which took %s: spans that few blocks keep",
             na_text_bytes(a, held[0]), na_text_bytes(b, held[1]));
    return held[0] / (held[0] + held[1]);
}

/* The sites whose blocks keep most, the first ones. */
typedef struct keepers {
    na_nprof_span_site_t most[3];
} keepers_t;

static void add_keeper(void *arg, const na_nprof_span_site_t *s) {
    keepers_t *keepers = arg;
    na_nprof_span_site_t site = *s;
    for (size_t i = 0; i < 3; i++) {
        if (site.sparse_kept <= keepers->most[i].sparse_kept) continue;
        na_nprof_span_site_t less = keepers->most[i];
        keepers->most[i] = site;
        site = less;
    }
}

static bool find_keepers(const na_view_input_t *in, char *place, size_t size) {
    keepers_t keepers = {0};
    na_reader_span_sites(in->reader, add_keeper, &keepers);
    size_t used = 0;
    for (size_t i = 0; i < 3; i++) {
        const na_nprof_span_site_t *s = &keepers.most[i];
        char label[NA_LABEL], a[NA_TEXT], b[NA_TEXT];
        const na_symbol_frame_t *leaf,
            *frame = s->sparse_kept == 0 ? NULL : na_view_site(in, s->site, &leaf);
        if (frame == NULL) break;
        na_view_frame_label(frame, label);
        int length =
            snprintf(place + used, size - used, "%s%s  %s by %s block%s", used == 0 ? "" : "; ",
                     label, na_text_bytes(a, (double)s->sparse_kept),
                     na_text_count(b, (double)s->sparse_blocks), s->sparse_blocks == 1 ? "" : "s");
        if (length < 0 || (size_t)length >= size - used) break;
        used += (size_t)length;
    }
    return used != 0;
}

static double threads(const na_view_input_t *in, char evidence[EVIDENCE]) {
    double count = na_threads_peak(in->reader);
    char a[NA_TEXT];
    snprintf(evidence, EVIDENCE, "%s threads at one time", na_text_count(a, count));
    return count;
}

#define FIGURE(name)                                                                               \
    static double name##_of(const na_counters_t *sum) {                                            \
        return (double)sum->name;                                                                  \
    }
FIGURE(live_bytes)
FIGURE(alloc_count)
FIGURE(alloc_bytes)
FIGURE(temporary_count)
FIGURE(peak_count)
FIGURE(cross_thread_free_count)
FIGURE(cross_node_free_count)
FIGURE(realloc_copy_bytes)
FIGURE(growth_copied)

static double rounding_of(const na_counters_t *sum) {
    return (double)sum->alloc_usable - (double)sum->alloc_bytes;
}

static const warning_t warnings[] = {
    {"other-malloc", 0, other_malloc, NULL, "numalloc saw none of its blocks",
     "put libnumalloc.so before it in LD_PRELOAD, or build the program without its allocator",
     NULL},
    {"lost-events", 0, lost, NULL, "the figures lack them",
     "make room for the profile (NUMALLOC_PROFILE_FILE on another disk) and run again", NULL},
    {"truncated-stacks", 0.01, truncated, NULL,
     "their bytes are counted, but not below the functions that asked for them",
     "build with unwind tables (-fasynchronous-unwind-tables) or frame pointers; generated code "
     "cannot be followed",
     NULL},
    {"few-samples", 1 / 400.0, few_samples, NULL,
     "fewer than 400 samples: even the totals are known to no better than 10 %",
     "take a smaller NUMALLOC_SAMPLE_INTERVAL, or mode sites", NULL},
    {"not-freed", 0.5, not_freed, live_bytes_of,
     "a leak looks like this; so does a cache that is never emptied",
     "see numalloc-dump leaks; free it, or suppress what is meant to stay", NULL},
    {"allocation-rate", 100000, rate, alloc_count_of,
     "allocating takes time of its own, and cools the caches",
     "keep blocks for reuse, reserve containers, move allocations out of inner loops", NULL},
    {"recycling", 10, recycling, alloc_bytes_of, "the same memory is asked for again and again",
     "keep the buffers of the sites with the largest total instead of freeing them", NULL},
    {"temporaries", 0.5, temporaries, temporary_count_of,
     "such a block does what a local variable or a kept buffer would do for nothing",
     "use the stack, or a buffer that is kept between calls", NULL},
    {"tiny-blocks", 1 / 32.0, tiny, peak_count_of,
     "bookkeeping, pointers and cache misses outweigh what such blocks hold",
     "store objects in arrays or pools; put members by value instead of by pointer", NULL},
    {"rounding", 0.25, rounding, rounding_of, "memory is handed out that nobody asked for",
     "ask for sizes just at, not just above, the sizes that blocks come in", NULL},
    {"resident", 2, resident, NULL,
     "memory that was freed is kept by the allocator, lies between live blocks, or belongs to "
     "code, "
     "stacks and mappings of the program itself",
     "look at the timeline for an earlier peak; lower NUMALLOC_PURGE_DELAY; look at stacks and "
     "mmap",
     NULL},
    {"fragmentation", 1 / 3.0, fragmentation, NULL,
     "a span of many blocks is kept as a whole while one of them lives",
     "allocate what lives long before or apart from what does not (an arena of its own, one "
     "array), "
     "or copy it together when the rest is freed; see numalloc-dump allocator --retention",
     find_keepers},
    {"cross-thread", 0.25, cross_thread, cross_thread_free_count_of,
     "a block that goes back to another thread costs more and leaves its cache",
     "free where it was allocated, or hand blocks over in batches", NULL},
    {"cross-node", 0.1, cross_node, cross_node_free_count_of,
     "such blocks lived on one node and were used on another: remote memory is slower",
     "keep producer and consumer on one node; bind threads (numactl, OMP_PROC_BIND)", NULL},
    {"reallocs", 0.25, reallocs, realloc_copy_bytes_of, "growing step by step copies what is there",
     "ask for the final size, or double it at each step", NULL},
    {"growth", 0.25, growth, growth_copied_of,
     "a container that grows allocates, copies and frees at each step", "reserve its final size",
     NULL},
    {"threads", 2048, threads, NULL, "each thread that allocates has caches and a stack of its own",
     "use a pool of threads", NULL},
};
#define WARNINGS (sizeof warnings / sizeof warnings[0])

/* Where most of it comes from: the responsible frame of the site with the largest figure. */
static bool find_place(const na_view_input_t *in, const warning_t *w, char *place) {
    if (w->where == NULL) return false;
    const na_site_t *largest = NULL;
    for (size_t i = 0; i < in->sites.count; i++) {
        const na_site_t *site = &in->sites.items[i];
        if (largest == NULL || w->where(&site->sum) > w->where(&largest->sum)) largest = site;
    }
    if (largest == NULL) return false;
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, largest->site, &leaf);
    if (frame == NULL) return false;
    na_view_frame_label(frame, place);
    return true;
}

size_t na_warnings_each(const na_view_input_t *in,
                        void (*visit)(void *arg, const na_finding_t *finding), void *arg) {
    size_t count = 0;
    for (size_t i = 0; i < WARNINGS; i++) {
        const warning_t *w = &warnings[i];
        char evidence[EVIDENCE], place[4 * NA_LABEL];
        double value = w->measure(in, evidence);
        if (!(value > w->threshold)) continue;
        count++;
        bool placed =
            w->places != NULL ? w->places(in, place, sizeof place) : find_place(in, w, place);
        visit(arg, &(na_finding_t){.key = w->key,
                                   .value = value,
                                   .threshold = w->threshold,
                                   .evidence = evidence,
                                   .place = placed ? place : NULL,
                                   .reason = w->reason,
                                   .remedy = w->remedy});
    }
    return count;
}

size_t na_warnings_count(const na_view_input_t *in) {
    size_t count = 0;
    char evidence[EVIDENCE];
    for (size_t i = 0; i < WARNINGS; i++)
        count += warnings[i].measure(in, evidence) > warnings[i].threshold;
    return count;
}

static void list_one(void *arg, const na_finding_t *finding) {
    size_t *count = arg;
    if ((*count)++ == 0) printf("Warnings (numalloc-dump warnings has reasons and remedies)\n");
    printf("  %-16s ", finding->key);
    na_text_put(stdout, finding->evidence);
    putchar('\n');
}

size_t na_warnings_list(const na_view_input_t *in) {
    size_t count = 0;
    return na_warnings_each(in, list_one, &count);
}

enum { KEY, VALUE, THRESHOLD, EVIDENCE_TEXT, PLACE, REASON, REMEDY };
static const na_column_t warnings_columns[] = {
    {"warning", "warning", NA_KIND_TEXT, NULL},  {"value", NULL, NA_KIND_NUMBER, NULL},
    {"threshold", NULL, NA_KIND_NUMBER, NULL},   {"evidence", "evidence", NA_KIND_TEXT, NULL},
    {"place", "most of it", NA_KIND_TEXT, NULL}, {"reason", "reason", NA_KIND_TEXT, NULL},
    {"remedy", "remedy", NA_KIND_TEXT, NULL},
};
static const na_columns_t warnings_table = NA_COLUMNS(warnings_columns);

static void add_row(void *arg, const na_finding_t *finding) {
    na_table_t *table = arg;
    na_table_row(table, na_table_rows(table));
    na_table_text(table, KEY, finding->key);
    na_table_number(table, VALUE, finding->value);
    na_table_number(table, THRESHOLD, finding->threshold);
    na_table_text(table, EVIDENCE_TEXT, finding->evidence);
    na_table_text(table, PLACE, finding->place);
    na_table_text(table, REASON, finding->reason);
    na_table_text(table, REMEDY, finding->remedy);
}

static na_status_t show_warnings(na_view_input_t *in) {
    na_table_t *table = na_table_open(&warnings_table);
    if (table == NULL) return NA_STATUS_MEMORY;
    char empty[80];
    size_t count = na_warnings_each(in, add_row, table);
    snprintf(empty, sizeof empty, "Nothing: none of %zu warnings %s.",
             count == 0 ? WARNINGS : count, count == 0 ? "applies" : "matches --filter");
    const na_table_print_t print = {
        .view = "warnings", .empty = empty, .all = true, .lines_from = PLACE};
    na_status_t status = na_table_write(table, in->options, &print);
    na_table_close(table);
    return status;
}

const na_view_t na_view_row_warnings = {
    .name = "warnings",
    .words = "FILE",
    .help = "what asks for attention, with reason and remedy",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
    .tables = {{&warnings_table, 0}},
    .show = show_warnings,
};
