/* cgroup.c - reading the limits and the use of the process's control groups. */
#include "alloc/limits/cgroup.h"

#include <stddef.h>

#include "alloc/core/sys/base.h"
#include "alloc/core/sys/os.h"

enum {
    PATH_SIZE = 4096,
    TEXT_SIZE = 8192,  /* memory.stat of either version fits */
    DEPTH_MOST = 32,   /* groups looked at: deeper ones are nested by programs, not by people */
    NUMBER_SIZE = 32,  /* of a file with one number */
    CACHE_MATTERS = 4, /* caches are looked up when less than this part of the limit is left */
};

/* Version 1 says "no limit" by the largest number of whole pages in 63 bits. */
#define NO_LIMIT ((uint64_t)1 << 60)

NA_SPARSE static char path[PATH_SIZE], group_text[TEXT_SIZE];

/* --- texts --- */

static const char *after(const char *s, const char *word) {
    while (*word != 0 && *s == *word)
        s++, word++;
    return *word == 0 ? s : NULL;
}

/* A number at the start of s; NO_LIMIT for anything else ("max"), and for all that is as large. */
static uint64_t number(const char *s) {
    if (*s < '0' || *s > '9') return NO_LIMIT;
    uint64_t value = 0;
    for (; *s >= '0' && *s <= '9' && value < NO_LIMIT; s++)
        value = value * 10 + (uint64_t)(*s - '0');
    return value < NO_LIMIT ? value : NO_LIMIT;
}

/* The number in the line of `group_text` that begins with `word`; 0: there is none. */
static uint64_t stat_of(const char *word) {
    for (const char *line = group_text; *line != 0;) {
        const char *rest = after(line, word);
        if (rest != NULL && *rest == ' ') {
            uint64_t value = number(rest + 1);
            return value == NO_LIMIT ? 0 : value;
        }
        while (*line != 0 && *line != '\n')
            line++;
        if (*line == '\n') line++;
    }
    return 0;
}

/* --- one group: the first `length` characters of `path` --- */

/* Appends to `path`; the new length, or PATH_SIZE when it does not fit. */
static size_t append(size_t length, const char *s) {
    while (*s != 0 && *s != '\n' && length < PATH_SIZE - 1)
        path[length++] = *s++;
    if (*s != 0 && *s != '\n') return PATH_SIZE;
    path[length] = 0;
    return length;
}

static uint64_t number_in(size_t length, const char *file) {
    char digits[NUMBER_SIZE];
    if (append(length, file) == PATH_SIZE || na_os_ask_file(path, digits, sizeof digits) <= 0)
        return NO_LIMIT;
    return number(digits);
}

static bool read_into_text(size_t length, const char *file) {
    return append(length, file) != PATH_SIZE &&
           na_os_ask_file(path, group_text, sizeof group_text) > 0;
}

/* What the kernel takes back before it kills: cached pages of files, and its own caches. Version 1
 * does not tell those from its other memory, which is little beside them. */
typedef struct caches {
    uint64_t all;
    uint64_t easy; /* without pages that are mapped: programs run by those, and want them again */
} caches_t;

static uint64_t less(uint64_t a, uint64_t b) {
    return a > b ? a - b : 0;
}

static caches_t reclaimable(size_t length, bool v2) {
    uint64_t kernel = v2 ? 0 : number_in(length, "/memory.kmem.usage_in_bytes");
    if (kernel == NO_LIMIT) kernel = 0;
    if (!read_into_text(length, "/memory.stat")) return (caches_t){kernel, 0};
    uint64_t files = v2 ? stat_of("inactive_file") + stat_of("active_file")
                        : stat_of("total_inactive_file") + stat_of("total_active_file");
    uint64_t mapped = stat_of(v2 ? "file_mapped" : "total_mapped_file");
    return (caches_t){files + (v2 ? stat_of("slab_reclaimable") : kernel), less(files, mapped)};
}

/* Version 1 has groups whose processes wait for memory instead. */
static bool kills(size_t length, bool v2) {
    return v2 || !read_into_text(length, "/memory.oom_control") || stat_of("oom_kill_disable") == 0;
}

/* Takes the group's room into the result if it is the least so far. */
static void read_group(size_t length, bool v2, na_cgroup_room_t *result) {
    uint64_t most = number_in(length, v2 ? "/memory.max" : "/memory.limit_in_bytes");
    uint64_t high = v2 ? number_in(length, "/memory.high") : NO_LIMIT;
    uint64_t limit = high < most ? high : most;
    if (limit == NO_LIMIT) return;
    uint64_t used = number_in(length, v2 ? "/memory.current" : "/memory.usage_in_bytes");
    if (used == NO_LIMIT) return;
    uint64_t room = less(limit, used), uncharged = less(most, used), easy = uncharged;
    if (room < limit / CACHE_MATTERS) {
        caches_t spare = reclaimable(length, v2);
        room = less(limit, less(used, spare.all));
        easy = less(most, less(used, spare.easy));
    }
    if (room < result->room) result->limit = limit, result->room = room;
    if (most == NO_LIMIT || (easy >= result->easy && uncharged >= result->uncharged)) return;
    if (!kills(length, v2)) return;
    if (easy < result->easy) result->easy = easy;
    if (uncharged < result->uncharged) result->uncharged = uncharged;
}

/* The group `name` below the mount that `path` names, and those above it, the mount's own the last.
 */
static void look_upwards(size_t mount, const char *name, bool v2, na_cgroup_room_t *result) {
    size_t length = append(mount, name);
    if (length == PATH_SIZE) length = mount;
    for (unsigned depth = 0; depth < DEPTH_MOST; depth++) {
        while (length > mount && path[length - 1] == '/')
            length--;
        path[length] = 0;
        read_group(length, v2, result);
        if (length == mount) return;
        while (length > mount && path[length - 1] != '/')
            length--;
    }
}

/* --- all of them --- */

/* A line of /proc/self/cgroup: "0::/name", or "5:cpu,memory:/name" with version 1. The name, or
 * NULL when it is not about memory. */
static const char *memory_group(const char *line, bool *v2) {
    const char *rest = after(line, "0::");
    *v2 = rest != NULL;
    if (*v2) return rest;
    while (*line >= '0' && *line <= '9')
        line++;
    while (*line == ':' || *line == ',') {
        const char *end = after(++line, "memory");
        if (end != NULL && (*end == ',' || *end == ':')) {
            while (*end != ':' && *end != '\n' && *end != 0)
                end++;
            return *end == ':' ? end + 1 : NULL;
        }
        while (*line != ',' && *line != ':' && *line != '\n' && *line != 0)
            line++;
        if (*line == ':') return NULL;
    }
    return NULL;
}

bool na_cgroup_room(const char *proc, const char *sys, na_cgroup_room_t *result) {
    NA_SPARSE static char groups[TEXT_SIZE];
    *result = (na_cgroup_room_t){UINT64_MAX, UINT64_MAX, UINT64_MAX, UINT64_MAX};
    size_t length = append(append(0, proc), "/self/cgroup");
    if (length == PATH_SIZE || na_os_ask_file(path, groups, sizeof groups) <= 0) return false;
    for (const char *line = groups; *line != 0;) {
        bool v2;
        const char *name = memory_group(line, &v2);
        if (name != NULL) {
            size_t mount = append(append(0, sys), v2 ? "/fs/cgroup" : "/fs/cgroup/memory");
            if (mount != PATH_SIZE) look_upwards(mount, name, v2, result);
        }
        while (*line != 0 && *line != '\n')
            line++;
        if (*line == '\n') line++;
    }
    return result->limit != UINT64_MAX;
}
