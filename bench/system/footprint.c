/* footprint.c - sums up /proc/self/maps without allocating. */
#include "bench/system/footprint.h"

#include "bench/system/base.h"
#include "bench/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <link.h>
#include <pthread.h>
#include <stdbool.h>
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
    bool writable = at[1] != '\0' && at[2] == 'w';
    const char *path = strpbrk(at + 1, "/[");
    bool anonymous = path == NULL || strcmp(path, "[heap]") == 0;
    sum->mapped += end - begin;
    if (writable) sum->writable += end - begin;
    if (anonymous) sum->anonymous += end - begin;
    if (anonymous && writable) sum->writable_anonymous += end - begin;
}

/* The pages of zeroed data that have no file. */
static int add_zeroed_data(struct dl_phdr_info *object, size_t size, void *sum) {
    (void)size;
    const ElfW(Addr) page = (ElfW(Addr))sysconf(_SC_PAGESIZE);
    for (size_t i = 0; i < object->dlpi_phnum; i++) {
        const ElfW(Phdr) *h = &object->dlpi_phdr[i];
        if (h->p_type != PT_LOAD || (h->p_flags & PF_W) == 0) continue;
        ElfW(Addr) of_file = (h->p_vaddr + h->p_filesz + page - 1) / page;
        ElfW(Addr) all = (h->p_vaddr + h->p_memsz + page - 1) / page;
        *(uint64_t *)sum += (all - of_file) * page;
    }
    return 0;
}

na_footprint_t na_footprint_without_allocator(na_footprint_t found, unsigned threads) {
    size_t stack = 0;
    pthread_attr_t attributes;
    if (pthread_attr_init(&attributes) == 0) {
        (void)pthread_attr_getstacksize(&attributes, &stack);
        (void)pthread_attr_destroy(&attributes);
    }
    uint64_t ours = na_bench_mapped() + (uint64_t)threads * stack;
    dl_iterate_phdr(add_zeroed_data, &ours);
    if (found.writable_anonymous > ours) found.writable -= found.writable_anonymous - ours;
    if (found.anonymous > ours) found.mapped -= found.anonymous - ours;
    return found;
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
