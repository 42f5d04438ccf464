/* view_merge.c - one profile of many: every view that needs no timeline then shows a fleet, or a
 * parallel job, as a whole. Of each process its newest dump counts. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/dump/profile/view.h"
#include "profiler/dump/runs/jobs.h"
#include "profiler/dump/runs/merge.h"

static bool add_merged_file(void *arg, const na_merge_file_t *file) {
    return na_merge_add(arg, file);
}

static na_status_t show_merge(const char *const *files, size_t count, const na_options_t *options) {
    (void)options;
    na_status_t status;
    na_recorded_run_t *runs = na_runs_read(files, count, true, &status);
    size_t *order = calloc(count + 1, sizeof *order);
    na_merge_t *merge = na_merge_open();
    na_merge_sums_t sums = {0};
    na_status_t shown = NA_STATUS_MEMORY;
    if (runs != NULL && order != NULL && merge != NULL) {
        size_t n = na_runs_newest(runs, na_runs_by_process(runs, count, order), order);
        if (status == NA_STATUS_NOTHING) {
            shown = na_fail("none of the files can be merged");
        } else if (na_merge_read(merge, runs, order, n, add_merged_file, &sums, &status)) {
            fflush(stdout);
            shown = sums.files == 0 ? na_fail("none of the files can be merged")
                    : na_merge_write(merge, &sums, STDOUT_FILENO)
                        ? status
                        : na_fail("cannot write the output: %s", strerror(errno));
        }
    }
    free(sums.items);
    na_merge_close(merge);
    free(order);
    free(runs);
    return shown;
}

const na_view_t na_view_row_merge = {
    .name = "merge",
    .words = "FILE...",
    .help = "one profile of many (-o FILE), for all views that need no timeline",
    .more = "Stacks are put together by binary and place in it. Of each process its newest dump "
            "counts.\nFigures at the peak are sums of what each process had at its own. A "
            "directory stands for\nthe profiles in it. Exit status 1: a file could not be read, or "
            "is damaged, and is left out.",
    .modes = NA_IN_ALL,
    .flags = NA_VIEW_FACTS | NA_VIEW_PROFILE,
    .without = "it writes a profile",
    .show_files = show_merge,
};
