/* footprint.c - sums up /proc/self/maps without allocating. */
#include "bench/system/footprint.h"

#include "bench/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

/* One line: "begin-end rwxp offset device inode path". */
static void add_mapping_line(const char *line, na_footprint_t *sum) {
    char *at;
    uint64_t begin = strtoull(line, &at, 16);
    if (*at != '-') return;
    uint64_t end = strtoull(at + 1, &at, 16);
    if (at[0] != ' ' || end < begin) return;
    sum->mapped += end - begin;
    if (at[1] != '\0' && at[2] == 'w') sum->writable += end - begin;
}

/* The fallback for kernels without smaps_rollup: the second number of statm, in pages. */
static uint64_t resident_pages(void) {
    char text[128];
    int file = open("/proc/self/statm", O_RDONLY | O_CLOEXEC);
    if (file < 0) return 0;
    ssize_t got = read(file, text, sizeof text - 1);
    close(file);
    if (got <= 0) return 0;
    text[got] = '\0';
    char *at;
    strtoull(text, &at, 10);
    return strtoull(at, NULL, 10) * (uint64_t)sysconf(_SC_PAGESIZE);
}

na_footprint_t na_footprint_read(void) {
    static char text[65536];
    na_footprint_t sum = {0};
    size_t length = 0;
    int file = open("/proc/self/maps", O_RDONLY | O_CLOEXEC);
    if (file < 0) return sum;
    for (;;) {
        ssize_t got = read(file, text + length, sizeof text - 1 - length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        length += (size_t)got;
        text[length] = '\0';
        char *line = text;
        for (char *end; (end = strchr(line, '\n')) != NULL; line = end + 1) {
            *end = '\0';
            add_mapping_line(line, &sum);
        }
        /* The rest is the begin of a line; a path is at most 4096 bytes long, so it has room. */
        length -= (size_t)(line - text);
        memmove(text, line, length);
    }
    close(file);
    /* The counters behind statm lag by some pages per CPU; those of smaps_rollup do not. */
    sum.resident = na_memory_read().now;
    if (sum.resident == 0) sum.resident = resident_pages();
    return sum;
}
