/* base.c - memory of the suite's own, the time, messages. */
#include "bench/system/base.h"

#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

static uint64_t bench_mapped;

void *na_bench_map(size_t bytes) {
    void *memory = mmap(NULL, bytes, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_POPULATE, -1, 0);
    if (memory == MAP_FAILED)
        na_bench_fail("the suite itself needs %zu bytes: %s; use fewer objects, spots or threads",
                      bytes, strerror(errno));
    uint64_t page = (uint64_t)sysconf(_SC_PAGESIZE);
    bench_mapped += (bytes + page - 1) / page * page;
    return memory;
}

uint64_t na_bench_mapped(void) {
    return bench_mapped;
}

uint64_t na_bench_now(void) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (uint64_t)now.tv_sec * UINT64_C(1000000000) + (uint64_t)now.tv_nsec;
}

void na_bench_fail(const char *format, ...) {
    va_list arguments;
    va_start(arguments, format);
    fputs("numalloc-bench: ", stderr);
    vfprintf(stderr, format, arguments);
    fputc('\n', stderr);
    va_end(arguments);
    /* Workers may still be running: no destructors beneath them. */
    fflush(stderr);
    _exit(1);
}

static int progress_shown = -1; /* -1: not known yet whether stderr is a terminal */

void na_bench_progress_off(void) {
    progress_shown = 0;
}

void na_bench_progress(const char *what, size_t done, size_t total) {
    if (progress_shown < 0) progress_shown = isatty(STDERR_FILENO);
    if (!progress_shown) return;
    if (done < total)
        fprintf(stderr, "\r\033[K%s %zu of %zu", what, done + 1, total);
    else
        fputs("\r\033[K", stderr);
    fflush(stderr);
}
