/* kmod_made.c - the kernel module's made-up samples: the whole way of an IBS sample but for the
 * hardware, and the instructions that it takes.
 *
 * usage: kmod_made TEST   (sim, inject, cost) */
#include "kmod.h"

#include <fcntl.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/utsname.h>

#include "kmod-ibs/uapi/numalloc_ibs_decode.h"

#define WEIGHT_STRUCT (UINT64_C(1) << 24) /* PERF_SAMPLE_WEIGHT_STRUCT, since Linux 5.12 */

#define PAGE KMOD_PAGE

/* ---- sim: the path of IBS, in its context -----------------------------------------------------
 */

static void spin_ms(unsigned ms) {
    for (uint64_t end = lab_now_ms() + ms; lab_now_ms() < end;)
        for (volatile int i = 0; i < 10000; i++)
            continue;
}

static void sim_run(uint32_t flags, const char *what) {
    enum { PAGES = 64 };
    unsigned char *block[LAB_NODES];
    struct na_ibs_range range[LAB_NODES];
    int ranges = 0;
    for (int i = 0; i < lab_nodes; i++) {
        if (!lab_node[i].memory || lab_node[i].cpu < 0) continue;
        lab_pin(i);
        block[ranges] = kmod_pages(PAGES);
        memset(block[ranges], 1, PAGES / 2 * PAGE); /* the other half has no memory */
        ranges++;
    }
    /* Ranges go up. */
    for (int i = 0; i < ranges; i++)
        for (int k = i + 1; k < ranges; k++)
            if (block[k] < block[i]) {
                unsigned char *swap = block[i];
                block[i] = block[k];
                block[k] = swap;
            }
    for (int i = 0; i < ranges; i++)
        range[i] = kmod_range(block[i], PAGES);
    kmod_log_t log = kmod_log_make(20000);
    na_kmod_t kmod;
    kmod_session(&kmod, 4096, 512);
    kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SIM,
                                            .flags = flags,
                                            .period = 200000,
                                            .ranges = (uint32_t)ranges,
                                            .range = (uintptr_t)range});
    /* 2500 periods pass in 500 ms, but emulation is slow, and its host may be busy. */
    for (int i = 0; i < 5 || (log.count < 200 && i < 200); i++) {
        spin_ms(100);
        kmod_log_drain(&kmod, &log);
    }
    REQUIRE(na_kmod_stop(&kmod) == 0);
    kmod_log_drain(&kmod, &log);
    struct na_ibs_stats stats = kmod_balance(&kmod);
    unsigned homed = 0, read = 0, dram = 0, nmi = 0;
    for (size_t i = 0; i < log.count; i++) {
        const struct na_ibs_record *record = &log.record[i];
        int in = -1;
        for (int k = 0; k < ranges; k++)
            if (record->addr >= range[k].start && record->addr < range[k].end) in = k;
        REQUIRE(in >= 0);
        CHECK(record->flags & NA_IBS_F_SIM);
        CHECK(record->op == NA_IBS_OP_READ || record->op == NA_IBS_OP_WRITE);
        CHECK(record->width == 8 && record->weight == 200000);
        bool there = record->addr - range[in].start < PAGES / 2 * PAGE;
        CHECK((record->home_node == NA_IBS_NO_NODE) == !there);
        if (there) {
            CHECK(record->home_node == kmod_page_node((void *)record->addr));
            homed++;
        }
        read += record->op == NA_IBS_OP_READ;
        dram += record->level == NA_IBS_LEVEL_DRAM;
        nmi += (record->flags & NA_IBS_F_NMI) != 0;
        if (record->level == NA_IBS_LEVEL_DRAM) CHECK(record->flags & NA_IBS_F_LATENCY);
    }
    check_say("sim, %s: %zu samples, %u with a home, %u reads, %u DRAM, %u in NMI; throttled %lu, "
              "filtered %lu\n",
              what, log.count, homed, read, dram, nmi, kmod_count(&stats, NA_IBS_THROTTLED),
              kmod_count(&stats, NA_IBS_FILTERED));
    CHECK(log.count > 50);
    CHECK(homed > log.count / 4 && read > log.count / 4 && read < log.count && dram > 0);
    if (flags & NA_IBS_START_NMI)
        CHECK_MSG(nmi > log.count * 9 / 10, "%u of %zu", nmi, log.count);
    else
        CHECK(nmi == 0);
    na_kmod_close(&kmod);
    for (int i = 0; i < ranges; i++)
        munmap(block[i], PAGES * PAGE);
}

static void test_sim(void) {
    kmod_load("test_sources=1");
    lab_begin(1);
    lab_no_balancing(); /* pages stay where they are until they are compared */
    sim_run(0, "per thread");
    sim_run(NA_IBS_START_WHOLE_CPU, "whole CPUs");
    sim_run(NA_IBS_START_NMI, "per thread, NMI");
    sim_run(NA_IBS_START_WHOLE_CPU | NA_IBS_START_NMI, "whole CPUs, NMI");

    /* Faster than perf allows: it throttles, and that is counted. */
    int fd = open("/proc/sys/kernel/perf_event_max_sample_rate", O_WRONLY | O_CLOEXEC);
    REQUIRE(fd >= 0 && write(fd, "1000", 4) == 4);
    close(fd);
    unsigned char *page = kmod_pages(1);
    struct na_ibs_range range = kmod_range(page, 1);
    na_kmod_t kmod;
    kmod_session(&kmod, 64, 1);
    kmod_begin(&kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_SIM,
                                            .period = 200000,
                                            .ranges = 1,
                                            .range = (uintptr_t)&range});
    struct na_ibs_stats stats;
    for (int i = 0; i < 100; i++) {
        spin_ms(300);
        REQUIRE(na_kmod_stats(&kmod, -1, &stats) == 0);
        if (kmod_count(&stats, NA_IBS_THROTTLED) > 0 && kmod_count(&stats, NA_IBS_LOST) > 0) break;
    }
    REQUIRE(na_kmod_stop(&kmod) == 0);
    stats = kmod_balance(&kmod);
    CHECK(kmod_count(&stats, NA_IBS_THROTTLED) > 0);
    CHECK(kmod_count(&stats, NA_IBS_LOST) > 0);
    check_say("200 us at 1000/s: %lu samples, throttled %lu times, lost %lu\n",
              kmod_count(&stats, NA_IBS_SAMPLED), kmod_count(&stats, NA_IBS_THROTTLED),
              kmod_count(&stats, NA_IBS_LOST));
    na_kmod_close(&kmod);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- inject: the kernel's decoder is this one -------------------------------------------------
 */

static void inject_session(na_kmod_t *kmod, const struct na_ibs_range *range, uint32_t clock) {
    kmod_session(kmod, 65536, 65536);
    kmod_begin(kmod, (struct na_ibs_start){.source = NA_IBS_SOURCE_INJECT,
                                           .clock = clock,
                                           .period = 16,
                                           .ranges = range == NULL ? 0 : 1,
                                           .range = (uintptr_t)range});
}

static void inject(na_kmod_t *kmod, struct na_ibs_inject *block) {
    block->size = sizeof *block;
    if (block->repeat == 0) block->repeat = 1;
    REQUIRE(ioctl(kmod->fd, NA_IBS_INJECT, block) == 0);
}

/* All combinations that matter, on every family: the record is what user space decodes. */
static void inject_families(na_kmod_t *kmod, kmod_log_t *log, unsigned char *page) {
    static const struct na_ibs_cpu cpus[] = {
        {0x10, 4, 0x1f},     {0x15, 1, 0xff},      {0x15, 0x38, 0xff},  {0x16, 0, 0xff},
        {0x17, 0x31, 0x3ff}, {0x19, 0x01, 0x3df},  {0x19, 0x21, 0x3ff}, {0x19, 0x11, 0xbff},
        {0x19, 0x61, 0xfff}, {0x1a, 0x02, 0x81bff}};
    unsigned blocks = 0, filtered = 0;
    uint64_t random = 1;
    for (size_t c = 0; c < NA_COUNT(cpus); c++)
        for (int i = 0; i < 500; i++) {
            struct na_ibs_inject block = {.form = NA_IBS_INJECT_RAW,
                                          .family = cpus[c].family,
                                          .model = cpus[c].model,
                                          .caps = cpus[c].caps};
            for (int k = 0; k < 9; k++)
                block.reg[k] = lab_random(&random);
            block.reg[1] = 0x401000;
            block.reg[4] |= 1ULL << 17 | 1; /* a load with an address */
            block.reg[4] &= ~(1ULL << 18);  /* no physical one */
            block.reg[5] = (uintptr_t)page + (block.reg[5] & 0xff8);
            if (i % 10 == 9) block.reg[4] &= ~(uint64_t)3;       /* neither load nor store */
            if (i % 10 == 8) block.reg[5] |= 0xffff000000000000; /* not of a process */
            inject(kmod, &block);
            log->count = 0;
            size_t got = kmod_log_drain(kmod, log);
            blocks++;
            if (i % 10 >= 8) {
                CHECK(got == 0);
                filtered++;
                continue;
            }
            REQUIRE(got == 1);
            struct na_ibs_regs regs;
            struct na_ibs_decoded want;
            memcpy(&regs, block.reg, sizeof regs);
            na_ibs_decode(&cpus[c], &regs, &want);
            const struct na_ibs_record *record = &log->record[0];
            CHECK(record->addr == want.addr && record->ip == 0x401000);
            CHECK_MSG(record->op == want.op && record->level == want.level,
                      "family %x: op %u level %u, not %u %u", cpus[c].family, record->op,
                      record->level, want.op, want.level);
            CHECK(record->latency == want.latency && record->retire == want.retire);
            CHECK(record->width == want.width && record->tlb_latency == want.tlb_latency);
            CHECK(record->flags == (want.flags | NA_IBS_F_SIM | NA_IBS_F_HOME_WALK));
            CHECK(record->home_node == kmod_page_node(page));
        }
    struct na_ibs_stats stats = kmod_balance(kmod);
    CHECK(kmod_count(&stats, NA_IBS_SAMPLED) == blocks);
    CHECK(kmod_count(&stats, NA_IBS_FILTERED) == filtered);
    check_say("%u blocks of %zu CPUs, %u filtered\n", blocks, NA_COUNT(cpus), filtered);
}

/* perf decodes registers from Linux 6.1 on. */
static bool perf_decodes(void) {
    struct utsname system;
    REQUIRE(uname(&system) == 0);
    char *end;
    unsigned long major = strtoul(system.release, &end, 10);
    return major > 6 || (major == 6 && strtoul(end + 1, NULL, 10) >= 1);
}

/* The node from a physical address, against the page map. */
static void inject_physical(na_kmod_t *kmod, kmod_log_t *log) {
    int map = open("/proc/self/pagemap", O_RDONLY | O_CLOEXEC);
    REQUIRE(map >= 0);
    for (int i = 0; i < lab_nodes; i++) {
        if (!lab_node[i].memory || lab_node[i].cpu < 0) continue;
        lab_pin(i);
        unsigned char *page = kmod_pages(1);
        *page = 1;
        uint64_t entry = 0;
        REQUIRE(pread(map, &entry, 8, (off_t)((uintptr_t)page / PAGE * 8)) == 8);
        uint64_t frame = entry & ((1ULL << 55) - 1);
        REQUIRE(frame != 0);
        struct na_ibs_inject block = {.form = NA_IBS_INJECT_RAW, .family = 0x19, .model = 0x11};
        block.reg[4] = 1 | 1ULL << 17 | 1ULL << 18;
        block.reg[5] = 0x1000; /* nothing is mapped there: the physical address is what is used */
        block.reg[6] = frame * PAGE + 8;
        log->count = 0;
        inject(kmod, &block);
        REQUIRE(kmod_log_drain(kmod, log) == 1);
        CHECK(log->record[0].home_node == kmod_page_node(page));
        CHECK(!(log->record[0].flags & NA_IBS_F_HOME_WALK));
        if (!perf_decodes()) continue;
        /* perf's own decoding, the same way. */
        block = (struct na_ibs_inject){
            .form = NA_IBS_INJECT_DECODED,
            .ip = 0x402000,
            .addr = 0x1000,
            .phys_addr = frame * PAGE,
            .weight = 321,
            .retire = 99,
            .data_src = (uint64_t)PERF_MEM_OP_LOAD |
                        (uint64_t)(PERF_MEM_LVL_REM_RAM1 | PERF_MEM_LVL_HIT) << PERF_MEM_LVL_SHIFT,
            .sample_flags =
                PERF_SAMPLE_ADDR | PERF_SAMPLE_PHYS_ADDR | PERF_SAMPLE_DATA_SRC | WEIGHT_STRUCT};
        log->count = 0;
        inject(kmod, &block);
        REQUIRE(kmod_log_drain(kmod, log) == 1);
        const struct na_ibs_record *record = &log->record[0];
        CHECK(record->home_node == kmod_page_node(page) && record->latency == 321);
        CHECK(record->retire == 99 && record->data_src == block.data_src);
        CHECK(record->level == NA_IBS_LEVEL_DRAM && (record->flags & NA_IBS_F_REMOTE));
        CHECK(record->ip == 0x402000);
        /* What perf does not give is not made up. */
        block.sample_flags &= ~WEIGHT_STRUCT;
        log->count = 0;
        inject(kmod, &block);
        REQUIRE(kmod_log_drain(kmod, log) == 1);
        CHECK(log->record[0].latency == 0 && !(log->record[0].flags & NA_IBS_F_LATENCY));
        block.sample_flags &= ~(uint64_t)PERF_SAMPLE_ADDR;
        inject(kmod, &block);
        CHECK(kmod_log_drain(kmod, log) == 0);
        munmap(page, PAGE);
    }
    /* Physical addresses that are no memory. */
    static const uint64_t nowhere[] = {0,     0xfee00000, 1ULL << 40,
                                       ~0ULL, 1ULL << 63, 0xfffffffff000};
    for (size_t i = 0; i < NA_COUNT(nowhere); i++) {
        struct na_ibs_inject block = {.form = NA_IBS_INJECT_RAW, .family = 0x19, .model = 0x11};
        block.reg[4] = 1 | 1ULL << 17 | 1ULL << 18;
        block.reg[5] = 0x1000;
        block.reg[6] = nowhere[i];
        log->count = 0;
        inject(kmod, &block);
        REQUIRE(kmod_log_drain(kmod, log) == 1);
        CHECK(i == 0 || log->record[0].home_node == NA_IBS_NO_NODE);
    }
    close(map);
}

static void test_inject(void) {
    kmod_load("test_sources=1");
    lab_begin(1);
    unsigned char *page = kmod_pages(1);
    *page = 1;
    kmod_log_t log = kmod_log_make(100);
    na_kmod_t kmod;
    inject_session(&kmod, NULL, NA_IBS_CLOCK_MONOTONIC);
    inject_families(&kmod, &log, page);
    inject_physical(&kmod, &log);
    na_kmod_close(&kmod);
    /* Ranges: ends are not of them. */
    struct na_ibs_range range = kmod_range(page, 1);
    inject_session(&kmod, &range, NA_IBS_CLOCK_TSC);
    static const struct {
        long offset;
        bool in;
    } at[] = {{-1, false}, {0, true}, {4095, true}, {4096, false}};
    for (size_t i = 0; i < NA_COUNT(at); i++) {
        struct na_ibs_inject block = {.form = NA_IBS_INJECT_RAW, .family = 0x19};
        block.reg[4] = 1 | 1ULL << 17;
        block.reg[5] = (uint64_t)((long)(uintptr_t)page + at[i].offset);
        inject(&kmod, &block);
        CHECK(kmod_log_drain(&kmod, &log) == at[i].in);
    }
    CHECK(kmod_balance(&kmod).counter[NA_IBS_GATED] == 2);
    na_kmod_close(&kmod);
    kmod_expect_idle();
    kmod_unload();
}

/* ---- cost: instructions of the handler --------------------------------------------------------
 */

/* Where the time stamp counter counts instructions (topology `counted`). The least of many: nothing
 * else ran between the stamps. */
static void test_cost(void) {
    kmod_load("test_sources=1");
    unsigned char *page = kmod_pages(1);
    *page = 1;
    struct na_ibs_range range = kmod_range(page, 1);
    static const struct {
        const char *what;
        uint32_t form, clock;
        uint64_t data3;
        uint64_t address; /* added to the page's */
        unsigned limit;
    } row[] = {
        {"stored, node from the page table, decoded here", NA_IBS_INJECT_RAW,
         NA_IBS_CLOCK_MONOTONIC, 1 | 1ULL << 7 | 1ULL << 17 | 1ULL << 20, 8, 600},
        {"stored, the same, time stamp counter", NA_IBS_INJECT_RAW, NA_IBS_CLOCK_TSC,
         1 | 1ULL << 7 | 1ULL << 17 | 1ULL << 20, 8, 600},
        {"stored, node from the physical address, decoded here", NA_IBS_INJECT_RAW,
         NA_IBS_CLOCK_MONOTONIC, 1 | 1ULL << 7 | 1ULL << 17 | 1ULL << 18 | 1ULL << 20, 8, 600},
        {"stored, node from the page table, decoded by perf", NA_IBS_INJECT_DECODED,
         NA_IBS_CLOCK_MONOTONIC, 0, 8, 600},
        {"discarded: another process", NA_IBS_INJECT_FOREIGN, 0, 0, 0, 100},
        {"filtered: no load or store", NA_IBS_INJECT_RAW, 0, 0, 0, 600},
        {"gated: outside of the ranges", NA_IBS_INJECT_RAW, 0, 1 | 1ULL << 17, 1 << 20, 600},
    };
    /* The limits are of Debian 12's kernel and compiler; others differ by some per cent. */
    struct utsname system;
    REQUIRE(uname(&system) == 0);
    bool held = strncmp(system.release, "6.1.", 4) == 0;
    for (size_t i = 0; i < NA_COUNT(row); i++) {
        na_kmod_t kmod;
        inject_session(&kmod, &range, row[i].clock);
        struct na_ibs_inject block = {.form = row[i].form,
                                      .family = 0x19,
                                      .model = 0x11,
                                      .caps = 0xbff,
                                      .repeat = 1000,
                                      .addr = (uintptr_t)page + row[i].address,
                                      .data_src = PERF_MEM_OP_LOAD,
                                      .sample_flags = PERF_SAMPLE_ADDR | PERF_SAMPLE_DATA_SRC};
        block.reg[3] = 3;
        block.reg[4] = row[i].data3;
        block.reg[5] = (uintptr_t)page + row[i].address;
        block.reg[6] = 0x1000000;
        inject(&kmod, &block);
        uint64_t least = block.ticks_min;
        unsigned limit = held ? row[i].limit : row[i].limit / 10 * 11;
        check_say("%-55s %4lu instructions (most %lu)\n", row[i].what, least,
                  (uint64_t)block.ticks_max);
        CHECK_MSG(least <= limit, "%s: %lu, not at most %u", row[i].what, least, limit);
        CHECK(least > 5);
        na_kmod_close(&kmod);
    }
    kmod_unload();
}

int main(int argc, char **argv) {
    static const struct {
        const char *name;
        void (*run)(void);
    } tests[] = {{"sim", test_sim}, {"inject", test_inject}, {"cost", test_cost}};
    for (size_t i = 0; i < NA_COUNT(tests); i++)
        if (argc == 2 && strcmp(argv[1], tests[i].name) == 0) {
            tests[i].run();
            kmod_expect_quiet();
            return kmod_status(check_status());
        }
    fprintf(stderr, "usage: %s TEST\n", argv[0]);
    return 2;
}
