/* input.c - opens a profile for a view: reader, sites, symbols, functions. */
#include <stdio.h>
#include <string.h>

#include "profiler/dump/profile/input.h"
#include "profiler/dump/ui/progress.h"

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

static void reading(void *arg, uint64_t done, uint64_t all) {
    (void)arg;
    na_progress("reading", done, all);
}

void na_view_drop(na_view_input_t *in) {
    na_view_functions_free(in);
    na_symbols_close(in->symbols);
    na_sites_free(&in->sites);
    na_reader_close(in->reader);
    in->symbols = NULL;
    in->reader = NULL;
}

na_status_t na_view_load(na_view_input_t *in, const char *path, const na_options_t *options,
                         bool light) {
    memset(in, 0, sizeof *in);
    in->path = path;
    in->options = options;
    in->order = NA_ORDER_PEAK;
    const char *word = options->metric != NULL ? options->metric : options->sort;
    if (word != NULL) (void)na_view_order(word, &in->order); /* other words: names of columns */
    char error[512];
    in->reader = na_reader_open(path, error, sizeof error);
    if (in->reader == NULL) return na_fail("%s", error);
    na_reader_python_frames(in->reader, options->python
                                            ? (options->native ? NA_PYTHON_BOTH : NA_PYTHON_ONLY)
                                        : options->native ? NA_PYTHON_NATIVE
                                                          : NA_PYTHON_LEAVES);
    na_reader_progress(in->reader, reading, NULL);
    bool good = na_sites_fold(in->reader, &in->sites);
    if (good) {
        na_sites_sort(&in->sites, in->order);
        /* Everything that can turn up damage is read before the view says what is damaged. */
        uint32_t count, interval;
        na_reader_threads(in->reader);
        na_reader_timeline(in->reader, &count, &interval);
        na_module_table_t modules = na_reader_modules(in->reader);
        if (!light) {
            in->symbols = na_symbols_open(na_reader_stacks(in->reader), modules);
            na_symbols_downloading(na_progress_download);
            if (in->symbols != NULL) na_symbols_cache(in->symbols, options->symbol_cache);
            if (in->symbols != NULL) na_symbols_python(in->symbols, in->reader);
            if (in->symbols != NULL) na_symbols_jit(in->symbols, na_reader_header(in->reader));
            size_t size;
            const char *added = na_reader_symbols(in->reader, &size);
            good = in->symbols != NULL &&
                   (added == NULL || na_symbols_add(in->symbols, added, size)) &&
                   na_view_functions(in, options->automatic_wrappers, options->skip,
                                     options->skip_count);
        }
    }
    na_progress_end();
    if (good) return NA_STATUS_WHOLE;
    bool made_to = na_reader_over_budget(in->reader, error, sizeof error);
    na_view_drop(in);
    return made_to ? na_fail("%s: %s", path, error) : NA_STATUS_MEMORY;
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
