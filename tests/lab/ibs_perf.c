/* ibs_perf.c - see ibs_perf.h. */
#include "ibs_perf.h"

#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>

#include "ibs_known.h"

enum { RING_PAGES = 256 };

uint32_t ibs_perf_type(void) {
    FILE *file = fopen("/sys/bus/event_source/devices/ibs_op/type", "r");
    unsigned type = 0;
    if (file == NULL || fscanf(file, "%u", &type) != 1) type = 0;
    if (file != NULL) fclose(file);
    return type;
}

/* Linux 6.1 counts ibs_op on CPUs only, so all programs' samples come, the kernel's too. */
ibs_perf_t ibs_perf_open(int cpu, uint64_t period, uint64_t config) {
    struct perf_event_attr attr = {
        .type = ibs_perf_type(),
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
static void parse(const char *at, ibs_sample_t *s) {
    uint32_t size;
    s->ip = get64(&at);
    memcpy(&s->pid, at, 4);
    memcpy(&s->tid, at + 4, 4);
    at += 8;
    s->addr = get64(&at);
    s->cpu = (uint32_t)get64(&at);
    memcpy(&size, at, 4);
    memcpy(&s->caps, at + 4, 4);
    CHECK_MSG(size >= 4 + 7 * 8, "%u bytes of registers", size);
    const char *registers = at + 8;
    get64(&registers); /* control */
    s->rip = get64(&registers);
    s->data = get64(&registers);
    s->data2 = get64(&registers);
    s->data3 = get64(&registers);
    s->linear = get64(&registers);
    s->physical = get64(&registers);
    at += 4 + size;
    s->data_src = get64(&at);
    s->phys_addr = get64(&at);
}

/* Those of this thread, in the loop. */
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
            parse(record + sizeof header, s);
            count += s->tid == (uint32_t)gettid() && s->rip >= (uintptr_t)known_at &&
                     s->rip < (uintptr_t)known_end;
        }
        tail += header.size;
    }
    __atomic_store_n(&c->ring->data_tail, tail, __ATOMIC_RELEASE);
    return count;
}
