/* input.c - opens a profile for a view: reader, sites, symbols, functions. */
#include <stdio.h>
#include <string.h>

#include "profiler/dump/profile/input.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/ui/text.h"

static const struct {
    const char *word, *title;
} orders[] = {
    [NA_ORDER_PEAK] = {"peak", "bytes live at the peak"},
    [NA_ORDER_LIVE] = {"live", "bytes still live"},
    [NA_ORDER_TOTAL] = {"total", "bytes requested in total"},
    [NA_ORDER_COUNT] = {"count", "allocations"},
};

bool na_view_order(const char *word, na_order_t *order) {
    for (size_t i = 0; i < sizeof orders / sizeof orders[0]; i++) {
        if (strcmp(orders[i].word, word) == 0) {
            *order = (na_order_t)i;
            return true;
        }
    }
    return false;
}

const char *na_view_order_title(na_order_t order) {
    return orders[order].title;
}

const char *na_mode_name(uint32_t mode) {
    switch (mode) {
    case NA_NPROF_MODE_SITES:
        return "sites";
    case NA_NPROF_MODE_SAMPLE:
        return "sample";
    case NA_NPROF_MODE_TRACE:
        return "trace";
    default:
        return "?";
    }
}

const na_moment_words_t *na_view_moment(const na_view_input_t *in) {
    static const na_moment_words_t words[] = {
        [NA_MOMENT_END] = {"end", "never freed", "at the end", "ended normally"},
        [NA_MOMENT_STOPPED] = {"stopped", "live then", "when the profile was stopped",
                               "stopped; the process ran on"},
        [NA_MOMENT_DUMP] = {"dump", "live now", "at the dump", "dumped; the process ran on"},
        [NA_MOMENT_LAST] = {"last", "live last", "at the last update",
                            "no end seen: it was killed, runs still, or became another program "
                            "(exec)"},
        [NA_MOMENT_MANY] = {"many", "live last", "when each was last seen", "of many processes"},
    };
    return &words[na_reader_moment(in->reader)];
}

const char *na_view_spans_when(const na_view_input_t *in) {
    return na_reader_moment(in->reader) == NA_MOMENT_LAST ? "at the last dump"
                                                          : na_view_moment(in)->when;
}

static void reading(void *arg, uint64_t done, uint64_t all) {
    (void)arg;
    na_progress("reading", done, all);
}

void na_view_drop(na_view_input_t *in) {
    na_view_functions_free(in);
    na_maps_free(&in->maps);
    na_symbols_close(in->symbols);
    na_budget_free(in->places);
    in->places = NULL;
    na_sites_free(&in->sites);
    na_reader_close(in->reader);
    in->symbols = NULL;
    in->reader = NULL;
}

na_status_t na_view_open(na_view_input_t *in, const char *path, const na_options_t *options) {
    memset(in, 0, sizeof *in);
    in->path = path;
    in->options = options;
    in->order = NA_ORDER_PEAK;
    const char *word =
        options->drawing.metric != NULL ? options->drawing.metric : options->table.sort;
    if (word != NULL) (void)na_view_order(word, &in->order); /* other words: names of columns */
    char error[512];
    in->reader = na_reader_open(path, error, sizeof error);
    if (in->reader == NULL) return na_fail("%s", error);
    na_reader_python_frames(in->reader,
                            options->frames.python
                                ? (options->frames.native ? NA_PYTHON_BOTH : NA_PYTHON_ONLY)
                            : options->frames.native ? NA_PYTHON_NATIVE
                                                     : NA_PYTHON_LEAVES);
    na_reader_progress(in->reader, reading, NULL);
    return NA_STATUS_WHOLE;
}

na_status_t na_view_sum(na_view_input_t *in, na_replay_t *replay, bool light) {
    const na_options_t *options = in->options;
    bool good = na_sites_fold_replay(in->reader, replay, &in->sites);
    if (good) {
        na_sites_sort(&in->sites, in->order);
        /* Everything that can turn up damage is read before the view says what is damaged. */
        uint32_t count, interval;
        na_reader_threads(in->reader);
        na_reader_timeline(in->reader, &count, &interval);
        na_module_table_t modules = na_reader_modules(in->reader);
        if (!light) {
            in->symbols = na_symbols_open(na_reader_stacks(in->reader), modules);
            in->places =
                na_budget_calloc(na_reader_budget(in->reader),
                                 na_reader_stacks(in->reader).count + 1u, sizeof *in->places);
            na_symbols_downloading(na_progress_download);
            if (in->symbols != NULL) na_symbols_sysroot(in->symbols, options->frames.sysroot);
            if (in->symbols != NULL) na_symbols_cache(in->symbols, options->frames.symbol_cache);
            if (in->symbols != NULL) na_symbols_python(in->symbols, in->reader);
            if (in->symbols != NULL) na_symbols_process(in->symbols, na_reader_header(in->reader));
            size_t size;
            const char *added = na_reader_symbols(in->reader, &size);
            good = in->symbols != NULL && in->places != NULL &&
                   (added == NULL || na_symbols_add(in->symbols, added, size)) &&
                   na_maps_fold(in->reader, &in->maps) &&
                   na_view_functions(in, options->frames.wrappers == 0, options->frames.skip.items,
                                     options->frames.skip.count) &&
                   na_symbols_tell_files(in->symbols);
        }
    }
    na_progress_end();
    char error[512];
    if (good) return NA_STATUS_WHOLE;
    return na_reader_over_budget(in->reader, error, sizeof error)
               ? na_fail("%s: %s", in->path, error)
               : NA_STATUS_MEMORY;
}

na_status_t na_view_load(na_view_input_t *in, const char *path, const na_options_t *options,
                         bool light) {
    na_status_t status = na_view_open(in, path, options);
    if (status != NA_STATUS_WHOLE) return status;
    status = na_view_sum(in, NULL, light);
    if (status != NA_STATUS_WHOLE) na_view_drop(in);
    return status;
}

na_status_t na_view_unload(na_view_input_t *in, bool name_it) {
    uint32_t issues = na_reader_issue_count(in->reader);
    for (uint32_t i = 0; i < issues; i++) {
        char text[256];
        na_reader_issue_text(in->reader, i, text, sizeof text);
        if (name_it)
            na_fail("incomplete: %s: %s", in->path, text);
        else
            na_fail("incomplete: %s", text);
    }
    na_view_drop(in);
    return issues == 0 ? NA_STATUS_WHOLE : NA_STATUS_PARTIAL;
}

const char *na_view_no_room(const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    if (h->disk_full == NA_NPROF_FULL_MAPPINGS)
        return "the profile could not grow: the system mapped no more memory";
    if (h->disk_full != 0) return "the profile could not grow: disk full, quota or file size limit";
    return (h->own_full & NA_NPROF_OWN_REFUSED) != 0 ? "the system refused memory to the profiler"
                                                     : NULL;
}

const char *na_view_thread_name(const na_nprof_thread_t *thread, char out[32]) {
    char count[NA_TEXT];
    if (thread->more == 0) return thread->name;
    snprintf(out, 32, "%s threads", na_text_count(count, 1 + (double)thread->more));
    return out;
}

double na_view_own(const na_view_input_t *in, bool *at_peak) {
    const na_nprof_point_t *point = na_view_point_at_peak(in);
    *at_peak = point != NULL;
    return point != NULL ? (double)point->own : (double)na_reader_header(in->reader)->own_bytes;
}

static void say_missing_file(void *arg, const char *path, const char *why) {
    bool *first = arg;
    if (*first) printf("\nNo symbols:\n");
    *first = false;
    fputs("  ", stdout);
    na_text_put(stdout, path);
    printf(": %s\n", why);
}

void na_view_say_missing(const na_view_input_t *in) {
    bool first = true;
    na_symbols_missing(in->symbols, say_missing_file, &first);
}

void na_view_say_lacking(const na_view_input_t *in) {
    static const struct {
        na_lack_t lack;
        const char *before, *behind;
    } said[] = {
        {NA_LACK_NAME,
         "Names: functions with %.0f %% of the %s are known by their address only. "
         "Debug symbols of\n  ",
         "would name most of them: a -dbgsym or -debuginfo package, or DEBUGINFOD_URLS."},
        {NA_LACK_INLINED,
         "Inlined calls: functions with %.0f %% of the %s are known by their "
         "symbol only. What was inlined into\nthem counts as theirs. Most are of\n  ",
         "which -g or a -dbgsym package would tell apart."},
    };
    for (size_t i = 0; i < sizeof said / sizeof said[0]; i++) {
        double share;
        const char *module = na_view_lacking(in, said[i].lack, &share);
        if (module == NULL) continue;
        putchar('\n');
        printf(said[i].before, 100 * share, na_view_order_title(in->order));
        na_text_put(stdout, module);
        printf("\n%s\n", said[i].behind);
    }
}
