/* test_access_sample.c - samples of counters with call chains by frame pointers, from records that
 * the kernel wrote: page faults of this process, with the fields of the memory events as well. */
#include <criterion/criterion.h>
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "profiler/record/sources/access_sample.h"
#include "profiler/record/unwind/umodules.h"

TestSuite(access_sample, .timeout = 300);

/* ---- the recorder's surroundings: a chain's nodes, from the outermost ---- */

enum { MOST = 192, PAGE = 4096, PAGES = 8, RING = 16 * PAGE, WORDS = 256 };
static struct {
    uint64_t pc;
    bool exact, truncated;
} nodes[MOST];
static uint32_t node_count;

na_lock_t na_access_store_lock;

uint32_t na_stacks_child(uint32_t parent, uint64_t pc, bool exact, bool truncated) {
    cr_assert_eq(parent, node_count == 0 ? NA_NPROF_ROOT : node_count + 100);
    cr_assert_lt(node_count, MOST);
    nodes[node_count].pc = pc;
    nodes[node_count].exact = exact;
    nodes[node_count].truncated = truncated;
    return ++node_count + 100;
}

const na_nprof_access_mapping_t *na_amaps_find(uintptr_t address, uint32_t *id) {
    (void)address;
    (void)id;
    return NULL;
}

long na_access_number_in(const char *path) {
    long v = -1;
    FILE *f = fopen(path, "r");
    if (f == NULL || fscanf(f, "%ld", &v) != 1) v = -1;
    if (f != NULL) fclose(f);
    return v;
}

/* The i-th frame from the innermost on. */
static uint64_t pc_of(uint32_t i) {
    return nodes[node_count - 1 - i].pc;
}

/* ---- records ---- */

static struct perf_event_attr attr;
static uint64_t record[WORDS]; /* what follows the header */
static uint32_t record_words;
static uint16_t misc;
static unsigned char *touched;

/* A function that needs no stack would have no frame, whatever it is compiled with. */
static __attribute__((noinline, no_sanitize("address", "thread", "undefined"))) void touch(void) {
    for (volatile unsigned i = 0; i < PAGES; i++)
        ((volatile unsigned char *)touched)[i * PAGE] = 1;
    __asm__ volatile("" ::: "memory");
}

static __attribute__((noinline, no_sanitize("address", "thread", "undefined"))) void
touch_by(unsigned calls) {
    if (calls == 0)
        touch();
    else
        touch_by(calls - 1);
    __asm__ volatile("" ::: "memory"); /* no tail call */
}

/* One fault of touch(), which touch_by called so many times; false: no event may be had. */
static bool take(uint64_t type, uint32_t frames, unsigned calls) {
    attr = (struct perf_event_attr){.size = PERF_ATTR_SIZE_VER5,
                                    .type = PERF_TYPE_SOFTWARE,
                                    .config = PERF_COUNT_SW_PAGE_FAULTS,
                                    .sample_period = 1,
                                    .sample_type = NA_SAMPLE_TYPE | type,
                                    .exclude_kernel = 1,
                                    .exclude_hv = 1,
                                    .disabled = 1};
    uint32_t asked = na_frames_ask(&attr, frames);
    cr_assert_eq(asked, frames, "kernel.perf_event_max_stack is lower");
    int fd = (int)syscall(SYS_perf_event_open, &attr, 0, -1, -1, PERF_FLAG_FD_CLOEXEC);
    if (fd < 0) {
        cr_log_info("perf_event_open: %s", strerror(errno));
        return false;
    }
    struct perf_event_mmap_page *ring =
        mmap(NULL, PAGE + RING, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    cr_assert_neq(ring, MAP_FAILED);
    touched = mmap(NULL, PAGES * PAGE, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    cr_assert_neq(touched, MAP_FAILED);
    madvise(touched, PAGES * PAGE, MADV_NOHUGEPAGE);
    ioctl(fd, PERF_EVENT_IOC_ENABLE, 0);
    touch_by(calls);
    ioctl(fd, PERF_EVENT_IOC_DISABLE, 0);
    const char *data = (const char *)ring + PAGE;
    uint64_t head = __atomic_load_n(&ring->data_head, __ATOMIC_ACQUIRE);
    bool found = false;
    for (uint64_t at = 0; at < head && !found;) { /* far less than the ring holds */
        struct perf_event_header header;
        memcpy(&header, data + at, sizeof header);
        record_words = (header.size - (uint32_t)sizeof header) / 8;
        misc = header.misc;
        if (header.type == PERF_RECORD_SAMPLE && record_words <= WORDS) {
            memcpy(record, data + at + sizeof header, record_words * 8u);
            found = record[4] - (uintptr_t)touched < (uint64_t)PAGES * PAGE;
        }
        at += header.size;
    }
    cr_assert(found, "no fault of the pages");
    munmap(ring, PAGE + RING);
    munmap(touched, PAGES * PAGE);
    close(fd);
    return true;
}

static bool in(uint64_t pc, void (*function)(void)) {
    return pc - (uintptr_t)function < 128;
}

static void body_of_record(na_perf_body_t *b) {
    cr_assert(na_perf_body(record, record_words, attr.sample_type, b));
    cr_assert_eq(b->pid, (uint32_t)getpid());
    cr_assert_eq(b->tid, (uint32_t)syscall(SYS_gettid));
    cr_assert_lt(b->address - (uintptr_t)touched, PAGES * PAGE);
    cr_assert(in(b->ip, touch));
    cr_assert_neq(b->time, 0);
    /* Cut short anywhere, it is refused; but where nothing is wanted of the end. */
    na_perf_body_t cut;
    for (uint32_t n = 0; n < record_words; n++) {
        uint64_t *copy = malloc(n * 8 + 1);
        memcpy(copy, record, n * 8);
        cr_assert(!na_perf_body(copy, n, attr.sample_type, &cut), "%u of %u words", n,
                  record_words);
        free(copy);
    }
}

/* ---- tests ---- */

static void setup(void) {
    na_umodule_init(NULL, NULL);
}

Test(access_sample, without_chain, .init = setup) {
    na_perf_body_t b;
    if (!take(0, 0, 3)) cr_skip_test("perf_event_open is refused");
    body_of_record(&b);
    cr_assert_eq(b.frame_count, 0);
    cr_assert_eq(na_frames_chain(&b, false, 0), 0);
}

Test(access_sample, chain, .init = setup) {
    na_perf_body_t b;
    if (!take(0, 64, 3)) cr_skip_test("perf_event_open is refused");
    body_of_record(&b);
    cr_assert_eq(misc & PERF_RECORD_MISC_CPUMODE_MASK, PERF_RECORD_MISC_USER);
    cr_assert_eq(na_frames_chain(&b, false, 64), node_count + 100);
    cr_assert_geq(node_count, 6, "%u frames", node_count);
    cr_assert_eq(pc_of(0), b.ip);
    cr_assert(nodes[node_count - 1].exact);
    for (uint32_t i = 1; i <= 4; i++) {
        cr_assert(in(pc_of(i), (void (*)(void))(uintptr_t)touch_by), "frame %u", i);
        cr_assert(!nodes[node_count - 1 - i].exact);
    }
    cr_assert(!in(pc_of(5), (void (*)(void))(uintptr_t)touch_by));
}

/* The memory events' fields come behind the chain. */
Test(access_sample, memory_fields, .init = setup) {
    na_perf_body_t b;
    if (!take(NA_SAMPLE_MEMORY, 64, 3)) cr_skip_test("perf_event_open is refused");
    body_of_record(&b);
    uint64_t none = PERF_MEM_S(OP, NA) | PERF_MEM_S(LVL, NA) | PERF_MEM_S(SNOOP, NA) |
                    PERF_MEM_S(LOCK, NA) | PERF_MEM_S(TLB, NA);
    cr_assert_eq(b.data_src & none, none, "%lx", (unsigned long)b.data_src);
    cr_assert_eq(b.latency, 0);
    cr_assert_neq(na_frames_chain(&b, false, 64), 0);
    cr_assert(in(pc_of(4), (void (*)(void))(uintptr_t)touch_by));
    cr_assert(take(NA_SAMPLE_MEMORY, 0, 3));
    body_of_record(&b);
    cr_assert_eq(b.data_src & none, none);
}

Test(access_sample, as_deep_as_allowed, .init = setup) {
    na_perf_body_t b;
    if (!take(0, 5, 40)) cr_skip_test("perf_event_open is refused");
    body_of_record(&b);
    cr_assert_neq(na_frames_chain(&b, false, 5), 0);
    cr_assert_eq(node_count, 5);
    cr_assert(nodes[0].truncated);
    node_count = 0;
    cr_assert(take(0, NA_SAMPLE_FRAMES_MOST, 150));
    body_of_record(&b);
    cr_assert_neq(na_frames_chain(&b, false, NA_SAMPLE_FRAMES_MOST), 0);
    cr_assert_eq(node_count, NA_SAMPLE_FRAMES_MOST);
    cr_assert(nodes[0].truncated);
}

/* A record of the kernel's, of which something is changed: code without frame pointers. */
Test(access_sample, into_the_blue, .init = setup) {
    na_perf_body_t b;
    if (!take(0, 64, 3)) cr_skip_test("perf_event_open is refused");
    body_of_record(&b);
    cr_assert_geq(b.frame_count, 5);
    record[b.frames + 4 - record] = 0x1234; /* the marks, touch, touch_by, touch_by, here */
    cr_assert_neq(na_frames_chain(&b, false, 64), 0);
    cr_assert_eq(node_count, 3, "%u frames", node_count);
    cr_assert(nodes[0].truncated);
    /* What the kernel does for the program: its instruction, and the whole chain. */
    node_count = 0;
    record[1] = b.ip = UINT64_C(0xffffffff81000000);
    cr_assert_neq(na_frames_chain(&b, true, 64), 0);
    cr_assert_eq(node_count, 4);
    cr_assert_eq(pc_of(0), b.ip);
    cr_assert(in(pc_of(1), touch));
    cr_assert(in(pc_of(2), (void (*)(void))(uintptr_t)touch_by));
    /* Marks alone are no chain. */
    node_count = 0;
    b.frame_count = 1;
    cr_assert_eq(na_frames_chain(&b, false, 64), 0);
    cr_assert_eq(node_count, 0);
}
