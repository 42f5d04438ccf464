/* perfmap.c - reads a perf map into ranges sorted by address. See perfmap.h. */
#include "profiler/dump/symbols/perfmap.h"

#include <fcntl.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#define LARGEST (INT64_C(256) << 20)
/* Ranges that begin before an address and may still reach it; code that overlaps more is damage. */
#define LOOK_BACK 64u

typedef struct range {
    uint64_t start, end;
    uint32_t line; /* of the file: later ones count */
    na_perf_name_t name;
} range_t;

struct na_perf_map {
    char *text; /* the file; names point into it */
    range_t *ranges;
    size_t count;
};

static char *read_perf_map(const char *path, uint64_t since_ns) {
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY | O_NOFOLLOW);
    struct stat st;
    char *text = NULL;
    if (fd >= 0 && fstat(fd, &st) == 0 && S_ISREG(st.st_mode) && st.st_size <= LARGEST &&
        (uint64_t)st.st_mtim.tv_sec * UINT64_C(1000000000) + (uint64_t)st.st_mtim.tv_nsec >=
            since_ns)
        text = malloc((size_t)st.st_size + 1);
    size_t done = 0;
    while (text != NULL && done < (size_t)st.st_size) {
        ssize_t n = read(fd, text + done, (size_t)st.st_size - done);
        if (n <= 0) break;
        done += (size_t)n;
    }
    if (text != NULL) text[done] = 0;
    if (fd >= 0) close(fd);
    return text;
}

/* "PATH:LINE" or "PATH:LINE:COLUMN"; cuts the numbers off. */
static void split_place(char *place, na_perf_name_t *name) {
    uint32_t numbers[2];
    unsigned count = 0;
    char *colon;
    while (count < 2 && (colon = strrchr(place, ':')) != NULL) {
        char *end;
        unsigned long number = strtoul(colon + 1, &end, 10);
        if (end == colon + 1 || *end != 0 || number > UINT32_MAX) break;
        numbers[count++] = (uint32_t)number;
        *colon = 0;
    }
    if (place[0] == 0) return;
    name->file = place;
    if (count != 0) name->line = numbers[count - 1]; /* the first of them is read last */
}

/* V8: `JS:*name path:line:column`, where * is the tier; CPython: `py::name:path`. */
static na_perf_name_t parse_name(char *text) {
    static const char *const v8[] = {"JS:", "LazyCompile:", "Function:", "Script:", "Eval:"};
    na_perf_name_t name = {.function = text};
    if (strncmp(text, "py::", 4) == 0) {
        char *colon = strchr(text + 4, ':');
        if (colon == NULL) return name;
        *colon = 0;
        name.function = text + 4;
        if (colon[1] != 0) name.file = colon + 1;
        return name;
    }
    for (size_t i = 0; i < sizeof v8 / sizeof v8[0]; i++) {
        size_t length = strlen(v8[i]);
        if (strncmp(text, v8[i], length) != 0) continue;
        char *function = text + length;
        function += strspn(function, "~^+*");
        char *place = strchr(function, ' ');
        if (place != NULL) {
            *place = 0;
            split_place(place + 1, &name);
        }
        name.function = function[0] != 0 ? function : "(anonymous)";
        break;
    }
    return name;
}

static bool parse_line(char *line, range_t *range) {
    char *at, *end;
    range->start = strtoull(line, &at, 16);
    if (at == line || *at != ' ') return false;
    uint64_t size = strtoull(at + 1, &end, 16);
    if (end == at + 1 || *end != ' ' || end[1] == 0 || size > UINT64_MAX - range->start)
        return false;
    range->end = range->start + size;
    range->name = parse_name(end + 1);
    return true;
}

static int by_start(const void *a, const void *b) {
    const range_t *x = a, *y = b;
    if (x->start != y->start) return x->start < y->start ? -1 : 1;
    return (x->line > y->line) - (x->line < y->line);
}

na_perf_map_t *na_perf_map_open(const char *path, uint64_t since_ns) {
    na_perf_map_t *map = calloc(1, sizeof *map);
    if (map == NULL) return NULL;
    map->text = read_perf_map(path, since_ns);
    size_t lines = 1;
    for (const char *p = map->text; p != NULL && (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    if (map->text != NULL) map->ranges = calloc(lines, sizeof *map->ranges);
    if (map->ranges == NULL) {
        na_perf_map_close(map);
        return NULL;
    }
    uint32_t number = 0;
    for (char *line = map->text, *next; line != NULL; line = next) {
        next = strchr(line, '\n');
        if (next != NULL) *next++ = 0;
        range_t *range = &map->ranges[map->count];
        range->line = number++;
        map->count += parse_line(line, range);
    }
    if (map->count != 0) qsort(map->ranges, map->count, sizeof *map->ranges, by_start);
    return map;
}

void na_perf_map_close(na_perf_map_t *map) {
    if (map == NULL) return;
    free(map->ranges);
    free(map->text);
    free(map);
}

const na_perf_name_t *na_perf_map_find(const na_perf_map_t *map, uint64_t address) {
    size_t low = 0, high = map->count;
    while (low < high) {
        size_t middle = low + (high - low) / 2;
        if (map->ranges[middle].start <= address)
            low = middle + 1;
        else
            high = middle;
    }
    const range_t *best = NULL;
    for (size_t i = low; i-- > 0 && low - i <= LOOK_BACK;) {
        const range_t *range = &map->ranges[i];
        if (address < range->end && (best == NULL || range->line > best->line)) best = range;
    }
    return best == NULL ? NULL : &best->name;
}
