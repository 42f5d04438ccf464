/* ibs_perf.c - see ibs_perf.h. */
#include "ibs_perf.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "ibs_known.h"

enum { RING_PAGES = 256 };

static uint32_t type_of(const char *path) {
    FILE *file = fopen(path, "r");
    unsigned type = 0;
    if (file == NULL || fscanf(file, "%u", &type) != 1) type = 0;
    if (file != NULL) fclose(file);
    return type;
}

uint32_t ibs_perf_type(void) {
    return type_of("/sys/bus/event_source/devices/ibs_op/type");
}

/* Linux 6.1 counts both on CPUs only, so all programs' samples come, the kernel's too. */
static ibs_perf_t open_type(uint32_t type, int cpu, uint64_t period, uint64_t config) {
    struct perf_event_attr attr = {
        .type = type,
        .size = sizeof attr,
        .config = config,
        .sample_period = period,
        .disabled = 1,
        .sample_type = PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU |
                       PERF_SAMPLE_RAW | PERF_SAMPLE_DATA_SRC | PERF_SAMPLE_PHYS_ADDR,
    };
    ibs_perf_t c = {.fd = (int)syscall(SYS_perf_event_open, &attr, -1, cpu, -1, 0)};
    if (c.fd < 0) check_say("perf_event_open: %s\n", strerror(errno));
    REQUIRE(c.fd >= 0);
    c.ring = mmap(NULL, (1 + RING_PAGES) * KNOWN_PAGE, PROT_READ | PROT_WRITE, MAP_SHARED, c.fd, 0);
    REQUIRE(c.ring != MAP_FAILED);
    return c;
}

ibs_perf_t ibs_perf_open(int cpu, uint64_t period, uint64_t config) {
    return open_type(ibs_perf_type(), cpu, period, config);
}

ibs_perf_t ibs_perf_open_fetch(int cpu, uint64_t period, uint64_t config) {
    ibs_perf_t c =
        open_type(type_of("/sys/bus/event_source/devices/ibs_fetch/type"), cpu, period, config);
    c.fetch = true;
    return c;
}

void ibs_perf_on(const ibs_perf_t *c) {
    REQUIRE(ioctl(c->fd, PERF_EVENT_IOC_ENABLE, 0) == 0);
}

void ibs_perf_off(const ibs_perf_t *c) {
    REQUIRE(ioctl(c->fd, PERF_EVENT_IOC_DISABLE, 0) == 0);
}

void ibs_perf_close(ibs_perf_t *c) {
    munmap(c->ring, (1 + RING_PAGES) * KNOWN_PAGE);
    close(c->fd);
}

static uint64_t get64(const char **at) {
    uint64_t value;
    memcpy(&value, *at, 8);
    *at += 8;
    return value;
}

/* The layout of a record with the sample_type above; see perf_event_open(2). */
static void parse(const char *at, bool fetch, ibs_sample_t *s) {
    uint32_t size;
    s->ip = get64(&at);
    memcpy(&s->pid, at, 4);
    memcpy(&s->tid, at + 4, 4);
    at += 8;
    s->addr = get64(&at);
    s->cpu = (uint32_t)get64(&at);
    memcpy(&size, at, 4);
    memcpy(&s->caps, at + 4, 4);
    CHECK_MSG(size >= 4 + (fetch ? 3 : 7) * 8, "%u bytes of registers", size);
    const char *registers = at + 8;
    uint64_t control = get64(&registers);
    s->fetch_ctl = fetch ? control : 0;
    s->rip = fetch ? 0 : get64(&registers);
    s->data = fetch ? 0 : get64(&registers);
    s->data2 = fetch ? 0 : get64(&registers);
    s->data3 = fetch ? 0 : get64(&registers);
    s->linear = get64(&registers);
    s->physical = get64(&registers);
    at += 4 + size;
    s->data_src = get64(&at);
    s->phys_addr = get64(&at);
}

static bool in_loop(const ibs_perf_t *c, const ibs_sample_t *s) {
    uint64_t at = c->fetch ? s->linear : s->rip;
    if (at >= (uintptr_t)known_prefetch_at && at < (uintptr_t)known_prefetch_end) return true;
    return at >= (uintptr_t)(c->fetch ? known_fetch_at : known_at) &&
           at < (uintptr_t)(c->fetch ? known_fetch_end : known_end);
}

size_t ibs_perf_drain(ibs_perf_t *c, ibs_sample_t *to, size_t most) {
    static _Thread_local char record[65536];
    const char *data = (const char *)c->ring + KNOWN_PAGE;
    const uint64_t mask = RING_PAGES * KNOWN_PAGE - 1;
    uint64_t head = __atomic_load_n(&c->ring->data_head, __ATOMIC_ACQUIRE);
    uint64_t tail = c->ring->data_tail;
    size_t count = 0;
    while (tail != head) {
        struct perf_event_header header;
        for (size_t i = 0; i < sizeof header; i++)
            ((char *)&header)[i] = data[(tail + i) & mask];
        for (size_t i = 0; i < header.size; i++)
            record[i] = data[(tail + i) & mask];
        if (header.type == PERF_RECORD_LOST) c->lost++;
        if (header.type == PERF_RECORD_THROTTLE) c->throttled++;
        if (header.type == PERF_RECORD_SAMPLE && count < most) {
            ibs_sample_t *s = &to[count];
            parse(record + sizeof header, c->fetch, s);
            c->nowhere += c->fetch && s->linear == 0;
            count += s->tid == (uint32_t)gettid() && in_loop(c, s);
        }
        tail += header.size;
    }
    __atomic_store_n(&c->ring->data_tail, tail, __ATOMIC_RELEASE);
    return count;
}
