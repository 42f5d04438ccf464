/* view_top.c - a running process's memory, again and again: its profile is a file that it maps and
 * changes in place, so looking needs no ptrace and does not stop it. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/views.h"

#define INTERVAL_S 2.0

/* Is this the profile of a process that records now? A mapped file may be anything. */
static bool is_recording(const char *path) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    na_nprof_header_t h;
    bool is = fd >= 0 && pread(fd, &h, sizeof h, 0) == (ssize_t)sizeof h &&
              h.magic == NA_NPROF_MAGIC && h.state == NA_NPROF_RUNNING;
    if (fd >= 0) close(fd);
    return is;
}

/* The file that the process maps as its profile, by a name that this process can open. */
static na_status_t find_profile(const char *pid, char *path, size_t size) {
    char name[64], line[8192];
    snprintf(name, sizeof name, "/proc/%.20s/maps", pid);
    FILE *maps = fopen(name, "re");
    if (maps == NULL && errno == ENOENT) return na_fail("no process %s", pid);
    if (maps == NULL) return na_fail("process %s may not be looked at: %s", pid, strerror(errno));
    bool found = false, shared = false;
    while (!found && fgets(line, sizeof line, maps) != NULL) {
        char permissions[8] = "";
        int at = 0;
        line[strcspn(line, "\n")] = 0;
        if (sscanf(line, "%*s %7s %*s %*s %*s %n", permissions, &at) != 1 || at == 0 ||
            permissions[3] != 's' || line[at] != '/')
            continue;
        shared = true;
        snprintf(path, size, "%s", line + at);
        found = is_recording(path);
        if (!found) { /* in a container: as the process sees it */
            snprintf(path, size, "/proc/%.20s/root%.4000s", pid, line + at);
            found = is_recording(path);
        }
    }
    bool unread = ferror(maps) != 0;
    fclose(maps);
    if (found) return NA_STATUS_WHOLE;
    if (unread) return na_fail("process %s may not be looked at: another user's", pid);
    return na_fail(
        "process %s records no profile%s; start it with NUMALLOC_PROFILE=sites, or switch "
        "one on in it (docs/profiling.md)",
        pid, shared ? " in a file that can be read here" : "");
}

typedef struct look {
    uint64_t ms;
    double allocations, bytes;
} look_t;

static void put_head(const na_view_input_t *in, const look_t *before, const look_t *now) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    const na_counters_t *t = &in->sites.total;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT];
    na_text_put(stdout, h->program);
    printf(", process %d, mode %s, %s\n", h->pid, na_mode_name(h->mode), na_text_ms(a, h->last_ms));
    printf("live  %s in %s blocks; peak %s\n", na_text_bytes(a, (double)t->live_bytes),
           na_text_count(b, na_view_count(in, (double)t->live_count)),
           na_text_bytes(c, (double)t->peak_bytes));
    double seconds = (double)(now->ms - before->ms) / 1000;
    if (before->ms != 0 && now->ms > before->ms)
        printf("rate  %s allocations a second, %s a second\n",
               na_text_count(a, (now->allocations - before->allocations) / seconds),
               na_text_bytes(b, (now->bytes - before->bytes) / seconds));
    putchar('\n');
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* Shows the profile once. *over: it will not change any more. */
static na_status_t look(const char *path, const na_options_t *options, look_t *before, bool clear,
                        bool *over) {
    na_view_input_t in;
    na_status_t status = na_view_load(&in, path, options, false);
    if (status != NA_STATUS_WHOLE) return status;
    look_t now = {now_ms(), na_view_count(&in, (double)in.sites.total.alloc_count),
                  (double)in.sites.total.alloc_bytes};
    *over = na_reader_header(in.reader)->state == NA_NPROF_CLOSED;
    if (clear) fputs("\033[H\033[2J", stdout);
    if (options->format == NA_FORMAT_TEXT) put_head(&in, before, &now);
    status = na_view_function_table(&in, false);
    *before = now;
    na_view_drop(&in);
    return status;
}

static void wait_ms(uint64_t ms) {
    struct timespec t = {(time_t)(ms / 1000), (long)(ms % 1000) * 1000000};
    while (nanosleep(&t, &t) != 0 && errno == EINTR)
        ;
}

static na_status_t show_top(const char *const *files, size_t count, const na_options_t *given) {
    (void)count;
    const char *pid = files[0];
    if (pid[0] == 0 || pid[strspn(pid, "0123456789")] != 0 || strlen(pid) > 10)
        return na_fail("'top' takes the number of a process, not: %s", pid);
    char path[8192];
    na_status_t status = find_profile(pid, path, sizeof path);
    if (status != NA_STATUS_WHOLE) return status;
    na_options_t options = *given;
    if (options.sort == NULL) options.sort = "live";
    bool terminal = isatty(STDOUT_FILENO) == 1 && options.format == NA_FORMAT_TEXT;
    uint64_t times = options.iterations != 0 ? options.iterations : terminal ? UINT64_MAX : 1;
    uint64_t interval =
        (uint64_t)((options.interval_s > 0 ? options.interval_s : INTERVAL_S) * 1000);
    look_t before = {0};
    bool over = false;
    for (uint64_t i = 0; i < times && status == NA_STATUS_WHOLE && !over; i++) {
        if (i != 0 && !terminal && options.format == NA_FORMAT_TEXT) putchar('\n');
        uint64_t began = now_ms();
        status = look(path, &options, &before, terminal, &over);
        fflush(stdout);
        /* Half of the time at most goes into looking. */
        uint64_t took = now_ms() - began;
        if (i + 1 < times && !over) wait_ms(took > interval / 2 ? took : interval - took);
    }
    if (over && options.format == NA_FORMAT_TEXT) puts("\nThe process has ended its profile.");
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
    .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS | NA_TAKES_LIVE,
    .tables = {{&na_columns_functions, 0}},
    .show_files = show_top,
};
