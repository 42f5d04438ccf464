/* progress.c - one line that is written over itself. See progress.h. */
#include "profiler/dump/ui/progress.h"

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#define AFTER_NS UINT64_C(1000000000)
#define EVERY_NS UINT64_C(100000000)
#define WIDTH    40

static _Thread_local bool may_write; /* the thread that may write */
static bool progress_wanted, is_line_shown;
static uint64_t next_ns; /* not before then */

static uint64_t now_ns(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * UINT64_C(1000000000) + (uint64_t)t.tv_nsec;
}

void na_progress_begin(void) {
    const char *term = getenv("TERM");
    may_write = true;
    progress_wanted = isatty(STDERR_FILENO) && term != NULL && strcmp(term, "dumb") != 0;
    if (progress_wanted) next_ns = now_ns() + AFTER_NS;
}

void na_progress(const char *what, uint64_t done, uint64_t all) {
    if (!may_write || !progress_wanted || all == 0) return;
    uint64_t now = now_ns();
    if (now < next_ns) return;
    next_ns = now + EVERY_NS;
    if (done > all) done = all;
    char bar[WIDTH + 1];
    int full = (int)((double)done / (double)all * WIDTH);
    memset(bar, ' ', WIDTH);
    memset(bar, '#', (size_t)full);
    bar[WIDTH] = 0;
    fprintf(stderr, "\r%-20s [%s] %3d %%", what, bar, (int)((double)done / (double)all * 100));
    fflush(stderr);
    is_line_shown = true;
}

void na_progress_download(long done, long all) {
    /* Servers that answer chunk by chunk do not say how much there will be. */
    na_progress("downloading symbols", done < 0 ? 0 : (uint64_t)done,
                all > 0 ? (uint64_t)all : UINT64_MAX);
}

void na_progress_end(void) {
    if (!may_write) return;
    if (is_line_shown) {
        fputs("\r\033[K", stderr);
        fflush(stderr);
        is_line_shown = false;
    }
    if (progress_wanted && isatty(STDOUT_FILENO)) progress_wanted = false;
}
