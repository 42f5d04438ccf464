/* access_kmod.c - see access_kmod.h. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/mman.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/sources/access_kmod.h"

#define NA_IBS_TYPE_FILE "/sys/bus/event_source/devices/ibs_op/type"

static void na_why(char why[NA_KMOD_WHY], const char *text) {
    size_t length = strlen(text);
    if (length >= NA_KMOD_WHY) length = NA_KMOD_WHY - 1;
    memcpy(why, text, length);
    why[length] = '\0';
}

static long na_ioctl(const na_kmod_t *kmod, unsigned long command, void *argument) {
    return na_sys3(SYS_ioctl, kmod->fd, (long)command, (long)argument);
}

int na_kmod_open(na_kmod_t *kmod, char why[NA_KMOD_WHY]) {
    memset(kmod, 0, sizeof *kmod);
    long fd = na_sys4(SYS_openat, AT_FDCWD, (long)NA_IBS_PATH, O_RDWR | O_CLOEXEC, 0);
    kmod->fd = (int)(fd < 0 ? -1 : fd);
    if (fd < 0) {
        const char *text = "the module numalloc_ibs cannot be opened";
        if (fd == -ENOENT)
            text = "the kernel module numalloc_ibs is not loaded (docs/kmod-ibs.md)";
        else if (fd == -EACCES)
            text = "no right to open " NA_IBS_PATH " (its file mode; docs/kmod-ibs.md)";
        else if (fd == -EPERM)
            text = NA_IBS_PATH " wants CAP_PERFMON, or its module loaded with trust_file_mode=1";
        else if (fd == -EUSERS)
            text = "the module numalloc_ibs has as many sessions as its max_sessions allows";
        else if (fd == -EDQUOT)
            text = "this user has as many sessions as the module's max_user_sessions allows";
        na_why(why, text);
        return (int)fd;
    }
    kmod->info.size = sizeof kmod->info;
    long error = na_ioctl(kmod, NA_IBS_INFO, &kmod->info);
    if (error == 0 && kmod->info.abi != NA_IBS_ABI) error = -EPROTO;
    if (error < 0) {
        na_why(why, "the module numalloc_ibs is of another version than this library");
        na_kmod_close(kmod);
        return (int)error;
    }
    why[0] = '\0';
    return 0;
}

static void na_kmod_unmap(na_kmod_t *kmod) {
    if (kmod->ring == NULL) return;
    long size = (long)NA_IBS_RING_SIZE(kmod->records);
    for (uint32_t i = 0; i < kmod->rings; i++) {
        if (kmod->ring[i].shared == NULL) continue;
        if (kmod->places == NULL)
            na_sys2(SYS_munmap, (long)kmod->ring[i].shared, size);
        else
            na_sys6(SYS_mmap, (long)kmod->ring[i].shared, size, PROT_READ,
                    MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE | MAP_FIXED, -1, 0);
    }
    na_sys2(SYS_munmap, (long)kmod->ring, (long)(kmod->rings * sizeof *kmod->ring));
    kmod->ring = NULL;
    kmod->records = kmod->mapped = 0;
}

void na_kmod_why(na_kmod_t *kmod, const char *otherwise, char why[NA_KMOD_WHY]) {
    struct na_ibs_info info = {.size = sizeof info};
    bool said = na_ioctl(kmod, NA_IBS_INFO, &info) == 0 && info.refused[0] != '\0';
    info.refused[sizeof info.refused - 1] = '\0';
    na_why(why, said ? info.refused : otherwise);
}

/* Maps the rings of CPUs that have none yet. */
static long na_kmod_map_missing(na_kmod_t *kmod) {
    for (uint32_t cpu = 0; cpu < kmod->rings; cpu++) {
        if (kmod->ring[cpu].shared != NULL) continue;
        long ring =
            na_sys6(SYS_mmap, 0, (long)NA_IBS_RING_SIZE(kmod->records), PROT_READ | PROT_WRITE,
                    MAP_SHARED, kmod->fd, (long)NA_IBS_RING_OFFSET(cpu));
        /* CPU numbers may have gaps, and some are not online. */
        if (ring == -EINVAL || ring == -ENODEV) continue;
        if (ring < 0 && ring > -4096) return ring;
        kmod->ring[cpu].shared = (struct na_ibs_ring *)ring;
        kmod->mapped++;
        if (kmod->places == NULL) continue;
        /* Not mapped there at once: where that fails, it leaves a hole that others may fill. */
        long size = (long)NA_IBS_RING_SIZE(kmod->records);
        ring = na_sys6(SYS_mremap, ring, size, size, MREMAP_MAYMOVE | MREMAP_FIXED,
                       (long)(kmod->places + cpu * kmod->stride), 0);
        if (ring < 0 && ring > -4096) return ring;
        kmod->ring[cpu].shared = (struct na_ibs_ring *)ring;
    }
    return 0;
}

int na_kmod_map(na_kmod_t *kmod, uint32_t records, uint32_t watermark) {
    struct na_ibs_setup setup = {.size = sizeof setup, .records = records, .watermark = watermark};
    long error = na_ioctl(kmod, NA_IBS_SETUP, &setup);
    if (error < 0) return (int)error;
    kmod->rings = kmod->info.cpus;
    long table = na_sys6(SYS_mmap, 0, (long)(kmod->rings * sizeof *kmod->ring),
                         PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (table < 0 && table > -4096) return (int)table;
    kmod->ring = (na_kmod_ring_t *)table; /* zeroes */
    kmod->records = records;
    error = na_kmod_map_missing(kmod);
    if (error == 0 && kmod->mapped == 0) error = -ENXIO;
    if (error != 0) na_kmod_unmap(kmod);
    return (int)error;
}

/* perf's number of the ibs_op PMU, 0: there is none. */
static uint32_t na_ibs_type(void) {
    char text[16];
    long fd = na_sys4(SYS_openat, AT_FDCWD, (long)NA_IBS_TYPE_FILE, O_RDONLY | O_CLOEXEC, 0);
    if (fd < 0) return 0;
    long length = na_sys3(SYS_read, fd, (long)text, sizeof text);
    na_sys1(SYS_close, fd);
    uint32_t type = 0;
    for (long i = 0; i < length && text[i] >= '0' && text[i] <= '9'; i++)
        type = type * 10 + (uint32_t)(text[i] - '0');
    return type;
}

int na_kmod_start(na_kmod_t *kmod, struct na_ibs_start *start, char why[NA_KMOD_WHY]) {
    start->size = sizeof *start;
    if (start->source == NA_IBS_SOURCE_IBS) {
        if (kmod->info.why[0] != '\0') {
            na_why(why, kmod->info.why);
            return -EOPNOTSUPP;
        }
        if (start->type == 0) start->type = na_ibs_type();
    }
    long error = na_ioctl(kmod, NA_IBS_START, start);
    if (error == 0)
        why[0] = '\0';
    else
        na_kmod_why(kmod, "the module numalloc_ibs refuses to start this source", why);
    return (int)error;
}

int na_kmod_stop(na_kmod_t *kmod) {
    return (int)na_ioctl(kmod, NA_IBS_STOP, NULL);
}

size_t na_kmod_drain(na_kmod_t *kmod, void (*each)(void *argument, const struct na_ibs_record *),
                     void *argument) {
    size_t count = 0;
    kmod->most = 0;
    for (uint32_t cpu = 0; cpu < kmod->rings; cpu++) {
        struct na_ibs_ring *shared = kmod->ring[cpu].shared;
        if (shared == NULL) continue;
        const struct na_ibs_record *record =
            (const struct na_ibs_record *)((const char *)shared + NA_IBS_HEADER_SIZE);
        uint64_t head = __atomic_load_n(&shared->head, __ATOMIC_ACQUIRE);
        uint64_t tail = shared->tail;
        if (head - tail > kmod->most) kmod->most = head - tail;
        for (; tail != head; tail++) {
            const struct na_ibs_record *at = &record[tail & (kmod->records - 1)];
            if (at->seq != (uint32_t)tail) {
                kmod->broken++;
                continue;
            }
            each(argument, at);
            count++;
        }
        __atomic_store_n(&shared->tail, tail, __ATOMIC_RELEASE);
    }
    kmod->drained += count;
    return count;
}

int na_kmod_wait(na_kmod_t *kmod, int milliseconds) {
    struct pollfd poll = {.fd = kmod->fd, .events = POLLIN};
    struct timespec limit = {.tv_sec = milliseconds / 1000,
                             .tv_nsec = (long)(milliseconds % 1000) * 1000000};
    long ready = na_sys6(SYS_ppoll, (long)&poll, 1, (long)&limit, 0, 0, 0);
    if (ready <= 0) return (int)ready;
    if (poll.revents & (POLLHUP | POLLERR | POLLNVAL)) return -ENXIO;
    return 1;
}

int na_kmod_stats(na_kmod_t *kmod, int cpu, struct na_ibs_stats *stats) {
    memset(stats, 0, sizeof *stats);
    stats->size = sizeof *stats;
    stats->cpu = cpu;
    long error = na_ioctl(kmod, NA_IBS_STATS, stats);
    if (error == 0 && stats->no_ring > kmod->no_ring) { /* a CPU came */
        kmod->no_ring = stats->no_ring;
        na_kmod_map_missing(kmod);
    }
    return (int)error;
}

void na_kmod_close(na_kmod_t *kmod) {
    na_kmod_unmap(kmod);
    if (kmod->fd >= 0) na_sys1(SYS_close, kmod->fd);
    kmod->fd = -1;
}
