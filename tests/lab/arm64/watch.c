/* watch.c - whether hardware watchpoints reach a program here, as perf gives them: 77 and a line if
 * the system has none; else each write and read of one word must be told, with the address of the
 * instruction that did it. */
#include <linux/hw_breakpoint.h>
#include <linux/perf_event.h>
#include <stdint.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

enum { WRITES = 20, READS = 10 };
static volatile uint64_t word;

__attribute__((noinline)) static void touch(void) {
    for (unsigned i = 0; i < WRITES; i++)
        word = i;
    uint64_t sum = 0;
    for (unsigned i = 0; i < READS; i++)
        sum += word;
    __asm__ volatile("" : : "r"(sum) : "memory");
}
__attribute__((noinline)) static void behind_touch(void) {
    __asm__ volatile("");
}

int main(void) {
    struct perf_event_attr attr = {
        .type = PERF_TYPE_BREAKPOINT,
        .size = sizeof attr,
        .bp_type = HW_BREAKPOINT_RW,
        .bp_addr = (uintptr_t)&word,
        .bp_len = HW_BREAKPOINT_LEN_8,
        .sample_period = 1,
        .sample_type = PERF_SAMPLE_IP,
        .disabled = 1,
        .exclude_kernel = 1,
        .exclude_hv = 1,
    };
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        perror("perf_event_open of a watchpoint");
        return 77;
    }
    size_t page = (size_t)sysconf(_SC_PAGESIZE);
    struct perf_event_mmap_page *ring =
        mmap(NULL, 2 * page, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    if (ring == MAP_FAILED) {
        perror("mmap of its ring");
        return 1;
    }
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    touch();
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    uint64_t count = 0;
    if (read(fd, &count, sizeof count) != sizeof count) return 1;
    unsigned samples = 0, inside = 0;
    uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
    for (uint64_t at = 0; at < head;) {
        struct perf_event_header event;
        uint64_t ip;
        memcpy(&event, (char *)ring + page + at % page, sizeof event);
        memcpy(&ip, (char *)ring + page + at % page + sizeof event, sizeof ip);
        if (event.type == PERF_RECORD_SAMPLE) {
            samples++;
            inside += ip >= (uintptr_t)touch && ip < (uintptr_t)behind_touch;
        }
        at += event.size;
    }
    printf("watchpoint: %llu hits, %u samples, %u of them in the function; %d accesses\n",
           (unsigned long long)count, samples, inside, WRITES + READS);
    behind_touch();
    if (count == 0) return 77;
    return count == WRITES + READS && samples == count && inside == samples ? 0 : 1;
}
