/* view_top.c - a running process's memory, again and again: its profile is a file that it maps and
 * changes in place, so looking needs no ptrace and does not stop it. */
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/dump/profile/live_profile.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/views.h"

#define INTERVAL_S 2.0

typedef struct look {
    uint64_t ms;
    double allocations, bytes;
} look_t;

static void put_top_head(const na_view_input_t *in, const look_t *before, const look_t *now) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_counters_t *t = &in->sites.total;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
    na_text_put(stdout, h->program);
    printf(", process %d, mode %s, %s\n", h->pid, na_mode_name(h->mode), na_text_ms(a, h->last_ms));
    printf("live  %s in %s; peak %s\n", na_text_bytes(a, (double)t->live_bytes),
           na_text_counted(b, na_view_count(in, (double)t->live_count), "block"),
           na_text_bytes(c, (double)t->peak_bytes));
    double seconds = (double)(now->ms - before->ms) / 1000;
    if (before->ms != 0 && now->ms > before->ms)
        printf("rate  %s a second, %s a second\n",
               na_text_counted(a, (now->allocations - before->allocations) / seconds, "allocation"),
               na_text_bytes(b, (now->bytes - before->bytes) / seconds));
    putchar('\n');
}

/* Shows the profile once. *over: it will not change any more. */
static na_status_t show_once(const char *path, const na_options_t *options, look_t *before,
                             bool clear, bool *over) {
    na_view_input_t in;
    na_status_t status = na_view_load(&in, path, options, false);
    if (status != NA_STATUS_WHOLE) return status;
    look_t now = {na_live_now_ms(), na_view_count(&in, (double)in.sites.total.alloc_count),
                  (double)in.sites.total.alloc_bytes};
    *over = na_reader_header(in.reader)->state == NA_NPROF_CLOSED;
    if (clear) fputs("\033[H\033[2J", stdout);
    if (options->table.format == NA_FORMAT_TEXT) put_top_head(&in, before, &now);
    status = na_view_function_table(&in, false);
    *before = now;
    na_view_drop(&in);
    return status;
}

static na_status_t show_top(const char *const *files, size_t count, const na_options_t *given) {
    (void)count;
    if (!na_live_is_pid(files[0]))
        return na_fail("'top' takes the number of a process, not: %s", files[0]);
    char path[PATH_MAX];
    pid_t pid;
    na_status_t status = na_live_profile_find(files[0], path, &pid);
    if (status != NA_STATUS_WHOLE) return status;
    na_options_t options = *given;
    if (options.table.sort == NULL) options.table.sort = "live";
    bool terminal = isatty(STDOUT_FILENO) == 1 && options.table.format == NA_FORMAT_TEXT;
    uint64_t times = options.live.iterations != 0 ? options.live.iterations
                     : terminal                   ? UINT64_MAX
                                                  : 1;
    uint64_t interval =
        (uint64_t)((options.live.interval_s > 0 ? options.live.interval_s : INTERVAL_S) * 1000);
    look_t before = {0};
    bool over = false;
    for (uint64_t i = 0; i < times && status == NA_STATUS_WHOLE && !over; i++) {
        if (i != 0 && !terminal && options.table.format == NA_FORMAT_TEXT) putchar('\n');
        uint64_t began = na_live_now_ms();
        status = show_once(path, &options, &before, terminal, &over);
        fflush(stdout);
        /* Half of the time at most goes into looking. */
        uint64_t took = na_live_now_ms() - began;
        if (i + 1 < times && !over)
            na_live_wait_ms(took > interval / 2 ? took : interval - took, NULL);
    }
    if (over && options.table.format == NA_FORMAT_TEXT)
        puts("\nThe process has ended its profile.");
    return status;
}

const na_view_t na_view_row_top = {
    .name = "top",
    .words = "PID",
    .help = "a running process, again and again: functions by what they have live",
    .more =
        "Reads the profile that the process records, without stopping it. Written to a file or a "
        "pipe: "
        "once.",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES_TABLE | NA_TAKES(WRAPPERS) | NA_TAKES(LIVE),
    .tables = {{&na_columns_functions, 0}},
    .show_files = show_top,
};
