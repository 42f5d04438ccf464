/* run_status.c - --status: what processes say of themselves on their pages (format/status.h), as a
 * table, figure by figure, or as OpenMetrics text, version 1.0. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/format/process_info.h"
#include "profiler/format/status.h"
#include "profiler/run/run.h"

enum { TRIES = 3000 }; /* ms: a page is written in microseconds, but its writer may have to wait */

typedef enum unit { BYTES, COUNT } unit_t;
typedef enum kind { GAUGE, COUNTER } kind_t;
typedef struct figure {
    const char *name, *meaning;
    kind_t kind;
    unit_t unit;
} figure_t;

static const figure_t figures[] = {
#define NA_FIGURE(name, kind, unit, meaning, value) {#name, meaning, kind, unit},
#include "alloc/api/figures.def"
};
static const figure_t node_figures[] = {
#define NA_NODE_FIGURE(name, kind, unit, meaning, value) {#name, meaning, kind, unit},
#include "alloc/api/figures.def"
};
enum {
#define NA_FIGURE(name, kind, unit, meaning, value) AT_##name,
#include "alloc/api/figures.def"
    FIGURES
};
enum { NODE_FIGURES = sizeof node_figures / sizeof node_figures[0] };

/* ---- the pages ---- */

typedef struct pages {
    na_status_page_t *all;
    size_t count, room;
} pages_t;

/* What was there at one moment. A file of anybody's, with anything in it. */
static bool read_page(int fd, na_status_page_t *page) {
    struct stat st;
    if (fstat(fd, &st) != 0 || !S_ISREG(st.st_mode)) return false;
    const bool few = st.st_size == NA_STATUS_SIZE;
    if (!few && st.st_size != NA_STATUS_MOST) return false;
    const uint32_t most = few ? NA_STATUS_NODES_FEW : NA_STATUS_NODES;
    const ssize_t size = (ssize_t)offsetof(na_status_page_t, node[most]);
    const off_t at = offsetof(na_status_page_t, sequence);
    for (int i = 0; i < TRIES; i++) {
        uint32_t before, after;
        if (pread(fd, &before, sizeof before, at) != sizeof before ||
            pread(fd, page, (size_t)size, 0) != size ||
            pread(fd, &after, sizeof after, at) != sizeof after)
            return false;
        if (before != after || (before & 1) != 0) {
            nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
            continue;
        }
        return memcmp(page->magic, NA_STATUS_MAGIC, sizeof page->magic) == 0 &&
               page->version == NA_STATUS_VERSION && page->nodes <= most;
    }
    return false; /* its writer was stopped or killed just then */
}

static uint64_t own_namespace(void) {
    struct stat st;
    return stat("/proc/self/ns/pid", &st) == 0 ? st.st_ino : 0;
}

static uint64_t born_of(pid_t pid) {
    uint64_t born = 0;
    char *text = na_process_read(pid, "stat");
    const char *p = text != NULL ? strrchr(text, ')') : NULL;
    for (int field = 2; p != NULL && field < 22; field++)
        if ((p = strchr(p, ' ')) != NULL) p++;
    if (p != NULL) born = strtoull(p, NULL, 10);
    free(text);
    return born;
}

/* False: the process is gone, or has become another program, which does not map the page. Where
 * that cannot be told (another namespace, another user) it counts. */
static bool is_alive(const na_status_page_t *page) {
    if (page->pid_namespace != own_namespace() || page->born == 0) return true;
    if (born_of((pid_t)page->pid) != page->born) return false;
    char name[64];
    snprintf(name, sizeof name, "/" NA_STATUS_PREFIX "%u" NA_STATUS_SUFFIX, page->pid);
    char *maps = na_process_read((pid_t)page->pid, "maps");
    bool alive = maps == NULL || *maps == 0 || strstr(maps, name) != NULL;
    free(maps);
    return alive;
}

static bool add_page(pages_t *pages, const na_status_page_t *page) {
    if (pages->count == pages->room) {
        size_t room = pages->room == 0 ? 16 : 2 * pages->room;
        na_status_page_t *all = realloc(pages->all, room * sizeof *all);
        if (all == NULL) {
            na_run_say("not enough memory");
            return false;
        }
        pages->all = all;
        pages->room = room;
    }
    pages->all[pages->count++] = *page;
    return true;
}

static bool has_end(const char *name, const char *end) {
    size_t n = strlen(name), m = strlen(end);
    return n > m && strcmp(name + n - m, end) == 0;
}

static bool is_page_name(const char *name) {
    return strncmp(name, NA_STATUS_PREFIX, sizeof NA_STATUS_PREFIX - 1) == 0 &&
           has_end(name, NA_STATUS_SUFFIX);
}

/* What killed processes left goes, where this user may remove it. */
static bool read_all(pages_t *pages, const char *directory) {
    DIR *dir = opendir(directory);
    if (dir == NULL) {
        na_run_say("%s: %s; NUMALLOC_PUBLISH names the directory", directory, strerror(errno));
        return false;
    }
    bool done = true;
    struct dirent *entry;
    while (done && (entry = readdir(dir)) != NULL) {
        na_status_page_t page;
        if (!is_page_name(entry->d_name)) continue;
        int fd = openat(dirfd(dir), entry->d_name, O_RDONLY | O_CLOEXEC | O_NOFOLLOW | O_NONBLOCK);
        bool is = fd >= 0 && read_page(fd, &page);
        if (fd >= 0) close(fd);
        if (!is) continue;
        if (is_alive(&page))
            done = add_page(pages, &page);
        else
            unlinkat(dirfd(dir), entry->d_name, 0);
    }
    closedir(dir);
    return done;
}

static const char *directory_of_pages(void) {
    const char *named = na_run_variable("NUMALLOC_PUBLISH");
    return named != NULL && *named == '/' ? named : NA_STATUS_DIRECTORY;
}

/* The page that the process maps, in whatever root directory it lives; else by its name. */
static int open_page_of(pid_t pid) {
    char path[PATH_MAX + 64];
    int fd = -1;
    char *maps = na_process_read(pid, "maps"), *rest = maps, *line;
    while (fd < 0 && rest != NULL && (line = strsep(&rest, "\n")) != NULL) {
        const char *name = strchr(line, '/');
        if (name == NULL || !has_end(name, NA_STATUS_SUFFIX) ||
            !is_page_name(strrchr(name, '/') + 1))
            continue;
        snprintf(path, sizeof path, "/proc/%d/root%s", (int)pid, name);
        fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
    }
    free(maps);
    if (fd >= 0) return fd;
    snprintf(path, sizeof path, "%s/" NA_STATUS_PREFIX "%d" NA_STATUS_SUFFIX, directory_of_pages(),
             (int)pid);
    return open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK);
}

static bool read_one(pages_t *pages, pid_t pid) {
    na_status_page_t page;
    pid = na_process_behind(pid);
    int fd = open_page_of(pid);
    bool is = fd >= 0 && read_page(fd, &page) && is_alive(&page);
    if (fd >= 0) close(fd);
    if (is) return add_page(pages, &page);
    if (kill(pid, 0) != 0 && errno == ESRCH)
        na_run_say("there is no process %d", (int)pid);
    else
        na_run_say("process %d publishes no figures; start it with NUMALLOC_PUBLISH=1 numalloc-run",
                   (int)pid);
    return false;
}

/* ---- as text ---- */

static const char *bytes_text(uint64_t bytes, char out[24]) {
    static const char *const units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
    double value = (double)bytes;
    unsigned unit = 0;
    while (value >= 1000 && unit < 4) {
        value /= 1024;
        unit++;
    }
    snprintf(out, 24,
             value < 10 && unit > 0    ? "%.2f %s"
             : value < 100 && unit > 0 ? "%.1f %s"
                                       : "%.0f %s",
             value, units[unit]);
    return out;
}

static double age_s(const na_status_page_t *page) {
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    double age = (double)now.tv_sec + 1e-9 * (double)now.tv_nsec - 1e-9 * (double)page->written_ns;
    return age > 0 ? age : 0;
}

static void print_table(const pages_t *pages) {
    static const int columns[] = {AT_allocated, AT_active,   AT_dirty,
                                  AT_retained,  AT_metadata, AT_resident};
    printf("%9s  %-16s", "process", "program");
    for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++)
        printf("  %9s", figures[columns[c]].name);
    printf("  %8s\n", "age");
    for (size_t i = 0; i < pages->count; i++) {
        const na_status_page_t *p = &pages->all[i];
        printf("%9u  %-16.40s", p->pid, p->program);
        for (size_t c = 0; c < sizeof columns / sizeof columns[0]; c++) {
            char text[24];
            printf("  %9s", bytes_text(p->process[columns[c]], text));
        }
        printf("  %6.1f s\n", age_s(p));
    }
}

static void print_figures(const figure_t *of, uint32_t count, const uint64_t *values) {
    for (uint32_t i = 0; i < count; i++) {
        char text[24];
        snprintf(text, sizeof text, "%" PRIu64, values[i]);
        if (of[i].unit == BYTES) bytes_text(values[i], text);
        printf("  %-18s %12s  %s\n", of[i].name, text, of[i].meaning);
    }
}

static uint32_t least(uint32_t a, uint32_t b) {
    return a < b ? a : b;
}

static void print_one(const na_status_page_t *p) {
    printf("%s (process %u), %.1f s ago\n", p->program, p->pid, age_s(p));
    print_figures(figures, least(p->figures, FIGURES), p->process);
    for (uint32_t n = 0; n < p->nodes; n++) {
        if (p->node[n].id < 0)
            printf("placed by no node\n");
        else
            printf("node %" PRId64 "\n", p->node[n].id);
        print_figures(node_figures, least(p->node_figures, NODE_FIGURES), p->node[n].figures);
    }
}

/* ---- as OpenMetrics ---- */

/* With \, " and line ends escaped. */
static void print_label(const char *text) {
    for (; *text != 0; text++) {
        if (*text == '\\' || *text == '"') putchar('\\');
        if (*text == '\n')
            fputs("\\n", stdout);
        else
            putchar(*text);
    }
}

static void print_family(const char *group, const figure_t *f) {
    const char *unit = f->unit == BYTES ? "_bytes" : "";
    printf("# TYPE numalloc_%s%s%s %s\n", group, f->name, unit,
           f->kind == COUNTER ? "counter" : "gauge");
    if (f->unit == BYTES) printf("# UNIT numalloc_%s%s%s bytes\n", group, f->name, unit);
    printf("# HELP numalloc_%s%s%s %s\n", group, f->name, unit, f->meaning);
}

static void print_sample(const char *group, const figure_t *f, const na_status_page_t *p,
                         int64_t node, uint64_t value) {
    printf("numalloc_%s%s%s%s{pid=\"%u\",program=\"", group, f->name,
           f->unit == BYTES ? "_bytes" : "", f->kind == COUNTER ? "_total" : "", p->pid);
    print_label(p->program);
    if (node >= 0)
        printf("\",node=\"%" PRId64, node);
    else if (*group != 0)
        printf("\",node=\"any");
    printf("\"} %" PRIu64 "\n", value);
}

static void print_openmetrics(const pages_t *pages) {
    for (uint32_t f = 0; f < FIGURES; f++) {
        print_family("", &figures[f]);
        for (size_t i = 0; i < pages->count; i++)
            if (f < pages->all[i].figures)
                print_sample("", &figures[f], &pages->all[i], -1, pages->all[i].process[f]);
    }
    for (uint32_t f = 0; f < NODE_FIGURES; f++) {
        print_family("node_", &node_figures[f]);
        for (size_t i = 0; i < pages->count; i++) {
            const na_status_page_t *p = &pages->all[i];
            for (uint32_t n = 0; n < p->nodes && f < p->node_figures; n++)
                print_sample("node_", &node_figures[f], p, p->node[n].id, p->node[n].figures[f]);
        }
    }
    puts("# EOF");
}

static int by_allocated(const void *a, const void *b) {
    uint64_t x = ((const na_status_page_t *)a)->process[AT_allocated];
    uint64_t y = ((const na_status_page_t *)b)->process[AT_allocated];
    return x < y ? 1 : x > y ? -1 : 0;
}

int na_run_status(const na_run_command_t *command) {
    pages_t pages = {0};
    bool done =
        command->pid != 0 ? read_one(&pages, command->pid) : read_all(&pages, directory_of_pages());
    if (done && pages.count != 0) qsort(pages.all, pages.count, sizeof *pages.all, by_allocated);
    if (done && command->openmetrics)
        print_openmetrics(&pages);
    else if (done && command->pid != 0)
        print_one(&pages.all[0]);
    else if (done && pages.count != 0)
        print_table(&pages);
    else if (done)
        na_run_say("no process publishes figures in %s; start one with NUMALLOC_PUBLISH=1 "
                   "numalloc-run",
                   directory_of_pages());
    free(pages.all);
    return done && fflush(stdout) == 0 ? 0 : NA_RUN_FAILED;
}
