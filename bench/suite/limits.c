/* limits.c - checks of knobs against each other and against the memory of the machine. */
#include "bench/suite/limits.h"

#include <fcntl.h>
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

/* Without stdio: its buffers would come from the allocator under test. */
static bool read_limit_file(const char *path, char *out, size_t size) {
    int file = open(path, O_RDONLY | O_CLOEXEC);
    if (file < 0) return false;
    size_t length = 0;
    ssize_t got;
    while (length < size - 1 && (got = read(file, out + length, size - 1 - length)) > 0)
        length += (size_t)got;
    close(file);
    out[length] = '\0';
    return length != 0;
}

static bool read_limit_bytes(const char *path, uint64_t *out) {
    char text[64];
    if (!read_limit_file(path, text, sizeof text)) return false;
    text[strcspn(text, "\n")] = '\0';
    return na_knobs_number(text, 0, UINT64_MAX, out); /* "max" is no number: no limit */
}

/* What the control group leaves; the root group has no such files. A process in a group of its own
 * finds them at the root of its view, where containers put it. */
static uint64_t group_room(void) {
    static const char *const pairs[][2] = {
        {"/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"},
        {"/sys/fs/cgroup/memory/memory.limit_in_bytes",
         "/sys/fs/cgroup/memory/memory.usage_in_bytes"},
    };
    for (size_t i = 0; i < sizeof pairs / sizeof pairs[0]; i++) {
        uint64_t limit, used;
        if (read_limit_bytes(pairs[i][0], &limit) && read_limit_bytes(pairs[i][1], &used))
            return limit > used ? limit - used : 0;
    }
    return UINT64_MAX;
}

uint64_t na_limits_memory(void) {
    static char text[8192];
    uint64_t room = group_room();
    if (read_limit_file("/proc/meminfo", text, sizeof text)) {
        const char *at = strstr(text, "MemAvailable:");
        if (at == NULL) at = strstr(text, "MemTotal:");
        uint64_t available =
            at == NULL ? UINT64_MAX : strtoull(strchr(at, ':') + 1, NULL, 10) * 1024;
        if (available < room) room = available;
    }
    struct rlimit limit;
    if (getrlimit(RLIMIT_AS, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < room)
        room = limit.rlim_cur;
    if (getrlimit(RLIMIT_DATA, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        limit.rlim_cur < room)
        room = limit.rlim_cur;
    return room;
}

uint64_t na_limits_threads(void) {
    static const char *const limits[] = {"/proc/sys/kernel/threads-max", "/proc/sys/kernel/pid_max",
                                         "/sys/fs/cgroup/pids.max"};
    uint64_t room = UINT64_MAX, limit, used;
    for (size_t i = 0; i < sizeof limits / sizeof limits[0]; i++)
        if (read_limit_bytes(limits[i], &limit) && limit < room) room = limit;
    if (read_limit_bytes("/sys/fs/cgroup/pids.max", &limit) &&
        read_limit_bytes("/sys/fs/cgroup/pids.current", &used) &&
        (limit < used || room > limit - used))
        room = limit > used ? limit - used : 0;
    struct rlimit processes; /* of all processes of the user; not of a privileged one */
    if (geteuid() != 0 && getrlimit(RLIMIT_NPROC, &processes) == 0 &&
        processes.rlim_cur != RLIM_INFINITY && processes.rlim_cur < room)
        room = processes.rlim_cur;
    return room;
}

bool na_limits_fit(double bytes, const char *mend, char *error, size_t size) {
    double room = (double)na_limits_memory(), gib = 1024.0 * 1024.0 * 1024.0;
    if (bytes <= room) return true;
    snprintf(error, size, "this needs about %.1f GiB of memory and %.1f GiB are there; lower %s",
             bytes / gib, room / gib, mend);
    return false;
}

bool na_limits_ordered(const na_knobs_t *knobs, size_t low, size_t high, char *error, size_t size) {
    if (knobs->value[low].number <= knobs->value[high].number) return true;
    snprintf(error, size, "--%s (%" PRIu64 ") must not be above --%s (%" PRIu64 ")",
             knobs->table[low].name, knobs->value[low].number, knobs->table[high].name,
             knobs->value[high].number);
    return false;
}
