/* access_sampled.c - sources whose samples perf or the kernel module takes by themselves: rings are
 * drained every so often. Counters of perf: AMD's ibs_op, Intel's PEBS loads and stores, page
 * faults, NUMA hinting faults. The module: IBS, page faults, and made-up samples for tests. */
#include <errno.h>
#include <fcntl.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "alloc/core/machine/topology.h"
#include "alloc/core/sys/thread.h"
#include "kmod-ibs/uapi/numalloc_ibs.h"
#include "kmod-ibs/uapi/numalloc_ibs_decode.h"
#include "profiler/containers/number.h"
#include "profiler/record/sources/access_kmod.h"
#include "profiler/record/sources/access_perf.h"
#include "profiler/record/sources/access_sample.h"

#define DRAIN_EVERY  UINT64_C(50000000) /* ns; less while rings are rather full */
#define DRAIN_OFTEN  UINT64_C(3000000)
#define IBS_PERIOD   262144u /* operations; a multiple of 16 */
#define LOAD_PERIOD  10007u
#define SAMPLE_BYTES 152u /* the longest without a chain */
#define PMUS         "/sys/bus/event_source/devices/"

static na_perf_plan_t sampled_plan, sampled_plan_without; /* call chains */
static uint32_t frames;   /* of a chain, at most; 0: there are none */
static uint8_t stores_id; /* PEBS: the entry of the second event */
static uint64_t sampled_drain_every = DRAIN_EVERY;

/* ---- levels: the module's names to the file's ---- */

static uint8_t perf_level(uint32_t level, uint32_t flags) {
    bool remote = (flags & NA_IBS_F_REMOTE) != 0, local = (flags & NA_IBS_F_LOCAL) != 0;
    switch (level) {
    case NA_IBS_LEVEL_L1:
        return NA_NPROF_LEVEL_L1;
    case NA_IBS_LEVEL_L2:
        return NA_NPROF_LEVEL_L2;
    case NA_IBS_LEVEL_L3:
        return remote ? NA_NPROF_LEVEL_FAR_CACHE : NA_NPROF_LEVEL_L3;
    case NA_IBS_LEVEL_LFB:
        return NA_NPROF_LEVEL_LFB;
    case NA_IBS_LEVEL_CACHE:
        return remote ? NA_NPROF_LEVEL_FAR_CACHE : NA_NPROF_LEVEL_NEAR_CACHE;
    case NA_IBS_LEVEL_DRAM:
        return remote ? NA_NPROF_LEVEL_REMOTE_DRAM
                      : (local ? NA_NPROF_LEVEL_LOCAL_DRAM : NA_NPROF_LEVEL_DRAM);
    case NA_IBS_LEVEL_PMEM:
        return NA_NPROF_LEVEL_PMEM;
    case NA_IBS_LEVEL_CXL:
    case NA_IBS_LEVEL_PEER:
        return NA_NPROF_LEVEL_CXL;
    case NA_IBS_LEVEL_IO:
        return NA_NPROF_LEVEL_IO;
    case NA_IBS_LEVEL_UNCACHED:
        return NA_NPROF_LEVEL_UNCACHED;
    default:
        return NA_NPROF_LEVEL_UNKNOWN;
    }
}

static uint8_t sample_flags(uint32_t flags) {
    return (uint8_t)((flags & NA_IBS_F_KERNEL ? NA_NPROF_SAMPLE_KERNEL : 0) |
                     (flags & (NA_IBS_F_TLB_L1MISS | NA_IBS_F_TLB_L2MISS) ? NA_NPROF_SAMPLE_TLB_MISS
                                                                          : 0) |
                     (flags & NA_IBS_F_LOCKED ? NA_NPROF_SAMPLE_LOCKED : 0));
}

/* ---- perf ---- */

static struct perf_event_attr attr_of(uint32_t type, uint64_t config, uint64_t period) {
    return (struct perf_event_attr){
        .type = type,
        .size = PERF_ATTR_SIZE_VER5,
        .config = config,
        .sample_period = period,
        .sample_type = NA_SAMPLE_TYPE,
        .read_format = NA_PERF_TIMES,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
        .use_clockid = 1,
        .clockid = 1, /* CLOCK_MONOTONIC */
    };
}

static na_access_raw_t raw_of(const na_perf_body_t *b, uint64_t period) {
    return (na_access_raw_t){.mono_ns = b->time,
                             .ip = b->ip,
                             .address = b->address,
                             .weight = (double)period,
                             .tid = b->tid,
                             .latency = -1,
                             .cpu = (uint16_t)b->cpu,
                             .home = NA_NPROF_NO_NODE,
                             .exact_ip = true};
}

static uint32_t chain_of(const na_perf_body_t *b, const struct perf_event_header *header) {
    if (frames == 0) return 0;
    bool in_kernel = (header->misc & PERF_RECORD_MISC_CPUMODE_MASK) == PERF_RECORD_MISC_KERNEL;
    return na_frames_chain(b, in_kernel, frames);
}

static bool amd;
static struct na_ibs_cpu processor; /* AMD's: what its registers mean */

/* perf's own summary of a sample has an instruction that reads and writes as one that reads, and no
 * width. Where the registers came with it, they are asked. */
static void describe_sample(const na_perf_body_t *b, struct na_ibs_decoded *to) {
    struct na_ibs_cpu cpu = processor;
    struct na_ibs_regs regs;
    memset(to, 0, sizeof *to);
    if (b->raw != NULL && na_ibs_parse(b->raw, b->raw_bytes, &cpu.caps, &regs))
        na_ibs_decode(&cpu, &regs, to);
    else
        na_ibs_decode_data_src(b->data_src, amd, to);
}

static void take_memory(na_perf_target_t *t, const struct perf_event_header *header,
                        const uint64_t *words, uint32_t count) {
    na_perf_body_t b;
    if (!na_perf_body(words, count, sampled_plan.attr[sampled_plan.events - 1].sample_type, &b))
        return;
    struct na_ibs_decoded decoded;
    describe_sample(&b, &decoded);
    if (!decoded.is_access || b.pid != (uint32_t)na_rec.header->pid ||
        na_thread_tid_is_ours(b.tid)) {
        na_access_entry->filtered++;
        return;
    }
    bool store = !amd && t->events > 1 && b.id == t->id[t->events - 1];
    na_access_raw_t raw = raw_of(&b, sampled_plan.attr[sampled_plan.events - 1].sample_period);
    raw.op = decoded.op;
    raw.level = perf_level(decoded.level, decoded.flags);
    raw.width = decoded.width;
    raw.flags = sample_flags(decoded.flags);
    /* Where the processor does not know it, it is where the interrupt came. */
    raw.exact_ip = !amd || (header->misc & PERF_RECORD_MISC_EXACT_IP) != 0;
    if (b.latency != 0) raw.latency = (int32_t)(b.latency & 0x7fffffff);
    raw.source = store ? stores_id : 0;
    raw.stack = chain_of(&b, header);
    na_access_store_sample(&raw);
}

static void take_fault(na_perf_target_t *t, const struct perf_event_header *header,
                       const uint64_t *words, uint32_t count) {
    (void)t;
    na_perf_body_t b;
    if (!na_perf_body(words, count, sampled_plan.attr[0].sample_type, &b)) return;
    na_access_raw_t raw = raw_of(&b, 1);
    raw.stack = chain_of(&b, header);
    na_access_store_sample(&raw);
}

static uint64_t next_drain(void) {
    na_access_store_flush();
    return na_access_mono() + sampled_drain_every;
}

/* How much of the fullest ring is in use decides when to come again: a busy processor fills one in
 * a few milliseconds, and an idle one should not be woken. */
static void pace(uint64_t most, uint64_t room) {
    if (most > room / 4 && sampled_drain_every > DRAIN_OFTEN)
        sampled_drain_every /= 2;
    else if (most < room / 16 && sampled_drain_every < DRAIN_EVERY)
        sampled_drain_every *= 2;
}

#define NO_FRAMES                                                                                  \
    "no call chains, from some thread on: their rings are more than may be locked; raise "         \
    "kernel.perf_event_mlock_kb, or lower NUMALLOC_ACCESS_FRAMES"

/* Opens for all threads. Rings for chains may be more memory than the system lets a user lock
 * (kernel.perf_event_mlock_kb, ulimit -l): then it goes on without. */
static uint32_t meet_sampled_threads(na_perf_sample_fn_t each, long *error) {
    uint32_t unarmed = na_perf_scan(&sampled_plan, each, error);
    if (unarmed == 0 || *error != -EPERM || frames == 0) return unarmed;
    for (uint32_t i = 0; i < na_perf_count; i++)
        if (na_perf_target[i].events != 0) na_perf_drain(&na_perf_target[i], each);
    na_perf_close_all();
    sampled_plan = sampled_plan_without;
    frames = 0;
    na_rec_copy(na_access_entry->why, sizeof na_access_entry->why, NO_FRAMES);
    return na_perf_scan(&sampled_plan, each, error);
}

static void drain_all(na_perf_sample_fn_t each) {
    long error = 0;
    uint32_t unarmed = meet_sampled_threads(each, &error);
    if (unarmed > na_access_entry->unarmed) na_access_entry->unarmed = unarmed;
    uint64_t most = 0;
    for (uint32_t i = 0; i < na_perf_count; i++) {
        if (na_perf_target[i].events == 0) continue;
        uint64_t taken = na_perf_drain(&na_perf_target[i], each);
        if (taken > most) most = taken;
    }
    pace(most, sampled_plan.ring_bytes);
}

static uint64_t step_memory(void) {
    drain_all(take_memory);
    return next_drain();
}

static uint64_t step_fault(void) {
    drain_all(take_fault);
    return next_drain();
}

static void stop_memory(void) {
    drain_all(take_memory);
    na_perf_close_all();
}

static void stop_fault(void) {
    drain_all(take_fault);
    na_perf_close_all();
}

/* The plan's attributes may be used as they are: opens it for all threads. */
static bool open_sampled(na_perf_sample_fn_t each, char why[NA_WHY]) {
    sampled_plan_without = sampled_plan;
    frames = 0;
    for (uint32_t i = 0; i < sampled_plan.events; i++)
        if (sampled_plan.attr[i].sample_period != 0)
            frames = na_frames_ask(&sampled_plan.attr[i], na_access_config->access_frames);
    /* Room for as many samples as without. */
    uint32_t room =
        sampled_plan.ring_bytes / SAMPLE_BYTES * (SAMPLE_BYTES + na_frames_bytes(frames));
    while (sampled_plan.ring_bytes < room)
        sampled_plan.ring_bytes *= 2;
    long error = na_perf_try(&sampled_plan);
    if (error == 0) {
        meet_sampled_threads(each, &error);
        if (na_perf_open_count() != 0) error = 0;
    }
    if (error != 0) na_perf_refusal(error, why);
    if (error == 0 && frames == 0 && sampled_plan_without.ring_bytes < room) /* given up */
        na_rec_copy(why, NA_WHY, NO_FRAMES);
    if (error == 0 && frames != 0) na_access_entry->flags |= NA_NPROF_ACCESS_STACK;
    return error == 0;
}

static bool vendor_is(const char *wanted) {
#if defined(__x86_64__)
    unsigned eax, name[3] = {0};
    if (__get_cpuid(0, &eax, &name[0], &name[2], &name[1]) == 0) return false;
    return __builtin_memcmp(name, wanted, 12) == 0;
#else
    (void)wanted;
    return false;
#endif
}

/* The family and model, as AMD's manuals count them, and the capabilities of IBS. */
static void identify(void) {
#if defined(__x86_64__)
    unsigned eax = 0, ebx, ecx, edx;
    if (__get_cpuid(1, &eax, &ebx, &ecx, &edx) == 0) return;
    processor.family = eax >> 8 & 15;
    processor.model = eax >> 4 & 15;
    if (processor.family == 15) {
        processor.family += eax >> 20 & 255;
        processor.model |= eax >> 12 & 0xf0;
    }
    if (__get_cpuid(0x8000001b, &eax, &ebx, &ecx, &edx) != 0) processor.caps = eax;
#endif
}

/* AMD's ibs_op. Which attributes a kernel accepts: before 6.2 no events of a thread, before 6.14
 * nothing may be excluded, from then on the kernel can be by its own filter (swfilt). */
static bool start_ibs(uint64_t period, char why[NA_WHY]) {
    long type = na_access_number_in(PMUS "ibs_op/type");
    amd = true;
    if (!vendor_is("AuthenticAMD") || type < 0) {
        na_access_why(why,
                      vendor_is("AuthenticAMD")
                          ? "this processor's IBS is hidden, by a hypervisor or the firmware"
                          : "the processor is not AMD's",
                      NULL);
        return false;
    }
    unsigned kernel = na_access_kernel();
    period = period != 0 ? (period + 15) & ~UINT64_C(15) : IBS_PERIOD;
    if (period < 0x90) period = 0x90;
    sampled_plan = (na_perf_plan_t){.events = 1, .ring_bytes = (uint32_t)(16 * na_os_page)};
    struct perf_event_attr *attr = &sampled_plan.attr[0];
    *attr = attr_of((uint32_t)type, UINT64_C(1) << 19, period); /* operations, not cycles */
    attr->sample_type |= NA_SAMPLE_MEMORY;
    sampled_plan.cpus = kernel < 6002;
    /* All processes' samples come, some ten thousand a second. (As much as the system lets a user
     * lock by default.) */
    if (sampled_plan.cpus) sampled_plan.ring_bytes = (uint32_t)(64 * na_os_page);
    char format[16];
    if (na_os_read_file(PMUS "ibs_op/format/swfilt", format, sizeof format) > 0) {
        attr->config2 = 1;
        attr->exclude_kernel = 1;
    }
    na_access_entry->period = period;
    identify();
    if (!na_ibs_raw_overflows(processor.caps)) attr->sample_type |= PERF_SAMPLE_RAW;
    if (na_perf_try(&sampled_plan) != 0) attr->sample_type &= ~(uint64_t)PERF_SAMPLE_RAW;
    return open_sampled(take_memory, why);
}

/* "event=0xcd,umask=0x1,ldlat=3" of a file. */
static bool read_event(const char *path, uint64_t *config, uint64_t *ldlat) {
    char text[128];
    if (na_os_read_file(path, text, sizeof text) <= 0) return false;
    *config = *ldlat = 0;
    for (const char *p = text; *p != 0;) {
        char key = *p;
        while (*p != 0 && *p != '=' && *p != ',')
            p++;
        uint64_t v = 0;
        if (*p == '=') {
            p++;
            unsigned base = 10;
            if (p[0] == '0' && p[1] == 'x') {
                base = 16;
                p += 2;
            }
            v = na_number_read(&p, base);
        }
        if (key == 'e') *config |= v;
        if (key == 'u') *config |= v << 8;
        if (key == 'l') *ldlat = v;
        while (*p != 0 && *p != ',')
            p++;
        if (*p == ',') p++;
    }
    return *config != 0;
}

/* Intel: loads above a latency, and stores. Where the kernel has mem-loads-aux, loads want it as
 * the leader of their group. */
static bool start_pebs(uint64_t period, char why[NA_WHY]) {
    uint64_t loads, stores, aux, ldlat, unused;
    amd = false;
    if (!vendor_is("GenuineIntel")) {
        na_access_why(why, "the processor is not Intel's", NULL);
        return false;
    }
    long type = na_access_number_in(PMUS "cpu/type");
    if (type < 0 || !read_event(PMUS "cpu/events/mem-loads", &loads, &ldlat) ||
        !read_event(PMUS "cpu/events/mem-stores", &stores, &unused)) {
        na_access_why(why,
                      "perf has no memory events for this processor, or a hypervisor hides "
                      "them",
                      NULL);
        return false;
    }
    if (period == 0) period = LOAD_PERIOD;
    sampled_plan = (na_perf_plan_t){.ring_bytes = (uint32_t)(16 * na_os_page)};
    if (read_event(PMUS "cpu/events/mem-loads-aux", &aux, &unused)) {
        sampled_plan.attr[sampled_plan.events++] = attr_of((uint32_t)type, aux, 0);
        sampled_plan.group = 3;
    }
    sampled_plan.attr[sampled_plan.events++] = attr_of((uint32_t)type, loads, period);
    sampled_plan.attr[sampled_plan.events - 1].config1 = ldlat;
    sampled_plan.attr[sampled_plan.events++] = attr_of((uint32_t)type, stores, period);
    for (uint32_t i = 0; i < sampled_plan.events; i++) {
        sampled_plan.attr[i].exclude_kernel = sampled_plan.attr[i].exclude_hv = 1;
        if (sampled_plan.attr[i].sample_period != 0) {
            sampled_plan.attr[i].precise_ip = 2;
            sampled_plan.attr[i].sample_type |= NA_SAMPLE_MEMORY;
        }
    }
    na_access_entry->period = period;
    if (!open_sampled(take_memory, why)) return false;
    const na_access_source_t source = na_access_pebs();
    na_nprof_access_source_t *second = na_access_store_source(&source);
    if (second != NULL) {
        second->unit = NA_NPROF_UNIT_STORES;
        second->period = period;
        second->flags |= NA_NPROF_ACCESS_USED | (na_access_entry->flags & NA_NPROF_ACCESS_STACK);
        stores_id = (uint8_t)(na_access_entry_id + 1);
    }
    return true;
}

static bool start_fault(uint64_t period, char why[NA_WHY]) {
    (void)period;
    sampled_plan = (na_perf_plan_t){.events = 1, .ring_bytes = (uint32_t)(8 * na_os_page)};
    sampled_plan.attr[0] = attr_of(PERF_TYPE_SOFTWARE, PERF_COUNT_SW_PAGE_FAULTS, 1);
    sampled_plan.attr[0].exclude_kernel = sampled_plan.attr[0].exclude_hv = 1;
    na_access_entry->period = 1;
    return open_sampled(take_fault, why);
}

/* ---- NUMA hinting faults ----
 * They look like any page fault; the first of a page that is seen is taken for its first touch. */

#define PAGES (1u << 20)
static uint64_t *seen; /* a bit for each value of a hash of the page */

static bool start_numa(uint64_t period, char why[NA_WHY]) {
    if (na_node_count < 2) {
        na_access_why(why, "there is one memory node", NULL);
        return false;
    }
    long on = na_access_number_in("/proc/sys/kernel/numa_balancing");
    if (on <= 0) {
        na_access_why(why,
                      "the kernel's NUMA balancing is off; as root: sysctl "
                      "kernel.numa_balancing=1",
                      NULL);
        return false;
    }
    seen = na_own_alloc(PAGES / 8);
    if (seen == NULL) {
        na_access_why(why, "no memory", NULL);
        return false;
    }
    if (!start_fault(period, why)) return false;
    na_access_why(why, "heap pages show up only with NUMALLOC_NUMA=unbound", NULL);
    return true;
}

static void take_hint(na_perf_target_t *t, const struct perf_event_header *header,
                      const uint64_t *words, uint32_t count) {
    na_perf_body_t b;
    if (!na_perf_body(words, count, sampled_plan.attr[0].sample_type, &b)) return;
    uint32_t h = (uint32_t)((b.address >> 12) * UINT64_C(0x9e3779b97f4a7c15) >> 44);
    if ((seen[h / 64] >> h % 64 & 1) == 0) {
        seen[h / 64] |= UINT64_C(1) << h % 64;
        na_access_entry->filtered++;
        return;
    }
    take_fault(t, header, words, count);
}

static uint64_t step_numa(void) {
    drain_all(take_hint);
    return next_drain();
}

static void stop_numa(void) {
    drain_all(take_hint);
    na_perf_close_all();
}

/* ---- the kernel module ---- */

static na_kmod_t kmod = {.fd = -1};

static int16_t dense(int node) {
    return node >= 0 ? (int16_t)na_node_dense((unsigned)node) : NA_NPROF_NO_NODE;
}

static uint64_t own_records;

static void take_kernel_record(void *unused, const struct na_ibs_record *r) {
    (void)unused;
    /* Counters of whole CPUs, and the module, sample the library's own threads, too. */
    if (na_thread_tid_is_ours(r->tid)) {
        own_records++;
        return;
    }
    na_access_raw_t raw = {
        .mono_ns = r->time,
        .ip = r->ip,
        .address = r->addr,
        .weight = r->weight,
        .tid = r->tid,
        .latency = (r->flags & NA_IBS_F_LATENCY) != 0 ? r->latency : -1,
        .cpu = r->cpu,
        .home = dense(r->home_node),
        .op = r->op,
        .level = perf_level(r->level, r->flags),
        .width = r->width,
        .flags = sample_flags(r->flags),
        .exact_ip = (r->flags & NA_IBS_F_IP_INVALID) == 0,
    };
    raw.caught = na_caught_find(r->cpu, r->seq, &raw.life);
    if (r->latency == UINT16_MAX) raw.flags |= NA_NPROF_SAMPLE_LATENCY_MAX;
    na_access_store_sample(&raw);
}

/* Those who free look into the rings (access_caught.c): what they read stays mapped. */
static char *places;

static void show_rings(void) {
    if (places == NULL) return;
    for (uint32_t cpu = 0; cpu < kmod.rings; cpu++)
        if (kmod.ring[cpu].shared != NULL)
            na_caught_ring(cpu, kmod.rings, kmod.ring[cpu].shared, kmod.records);
}

/* The kernel asks every processor for the times of its counter: not at each step. */
#define COUNTERS_EVERY UINT64_C(500000000) /* ns */
static uint64_t counters_next;

static void read_counters(void) {
    struct na_ibs_stats stats;
    counters_next = na_access_mono() + COUNTERS_EVERY;
    if (na_kmod_stats(&kmod, -1, &stats) != 0) return;
    show_rings(); /* of processors that came meanwhile, too */
    na_nprof_access_source_t *e = na_access_entry;
    e->lost =
        stats.counter[NA_IBS_LOST] + stats.counter[NA_IBS_NESTED] + stats.no_ring + kmod.broken;
    e->filtered = stats.counter[NA_IBS_FILTERED] + stats.counter[NA_IBS_GATED] +
                  stats.counter[NA_IBS_STOPPED] + own_records;
    e->throttled = stats.counter[NA_IBS_THROTTLED];
    e->enabled_ns = stats.enabled;
    e->running_ns = stats.running;
    e->unarmed = stats.unarmed;
}

/* Records of a ring. At the usual period a processor gives 20 in a millisecond at most. */
#define RING_RECORDS     4096u
#define RING_RECORDS_MIN 256u
#define ALL_RECORDS      (256u << 10) /* of all rings, 16 MiB; on 384 processors 512 each */

static int open_at_places(char text[NA_KMOD_WHY]) {
    static uint64_t reserved;
    int error = na_kmod_open(&kmod, text);
    if (error != 0) return error;
    kmod.stride = NA_IBS_RING_SIZE(RING_RECORDS);
    uint64_t bytes = kmod.info.cpus * kmod.stride;
    if (places == NULL || bytes > reserved) {
        long at = na_sys6(SYS_mmap, 0, (long)bytes, PROT_READ,
                          MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
        places = at < 0 && at > -4096 ? NULL : (char *)at;
        reserved = bytes;
    }
    kmod.places = places;
    return 0;
}

static void close_kmod(void) {
    na_caught_end();
    na_kmod_close(&kmod);
}

/* The largest rings, up to what is wanted, that the user may lock. */
static int map_rings(char text[NA_KMOD_WHY]) {
    uint32_t records = RING_RECORDS;
    while (records > RING_RECORDS_MIN && records * kmod.info.online > ALL_RECORDS)
        records /= 2;
    for (;; records /= 2) {
        int error = na_kmod_map(&kmod, records, records / 2);
        if (error == 0) return 0;
        na_kmod_why(&kmod, "its rings cannot be mapped; raise ulimit -v", text);
        if (records == NA_IBS_MIN_RECORDS) return error;
        na_kmod_close(&kmod); /* a session's rings are of one size */
        char ignored[NA_KMOD_WHY];
        if (open_at_places(ignored) != 0) return error;
    }
}

static bool open_kmod(char why[NA_WHY]) {
    char text[NA_KMOD_WHY];
    if (open_at_places(text) != 0 || map_rings(text) != 0) {
        na_access_why(why, text, NULL);
        na_kmod_close(&kmod);
        return false;
    }
    long high = na_sys3(SYS_fcntl, kmod.fd, F_DUPFD_CLOEXEC, 600);
    if (high >= 0) { /* out of the way of programs that count on small numbers */
        na_sys1(SYS_close, kmod.fd);
        kmod.fd = (int)high;
    }
    show_rings();
    return true;
}

static bool start_kmod(struct na_ibs_start *start, char why[NA_WHY]) {
    char text[NA_KMOD_WHY];
    own_records = counters_next = 0;
    sampled_drain_every = DRAIN_EVERY / 16;
    if (!open_kmod(why)) return false;
    if (na_kmod_start(&kmod, start, text) != 0) {
        na_access_why(why, text, NULL);
        close_kmod();
        return false;
    }
    na_access_entry->period = start->period;
    return true;
}

static bool start_kmod_ibs(uint64_t period, char why[NA_WHY]) {
    struct na_ibs_start start = {.source = NA_IBS_SOURCE_IBS,
                                 .period = period != 0 ? period : IBS_PERIOD,
                                 .flags = NA_IBS_START_RAW, /* see describe_sample() */
                                 .config = UINT64_C(1) << 19};
    return start_kmod(&start, why);
}

static bool start_kmod_fault(uint64_t period, char why[NA_WHY]) {
    struct na_ibs_start start = {.source = NA_IBS_SOURCE_SWFAULT,
                                 .period = period != 0 ? period : 1};
    return start_kmod(&start, why);
}

/* Made-up accesses to the heap: what a test sees of them is only what becomes of samples. A program
 * may have no heap yet when the library comes up, or one of which it uses nothing later on, so that
 * now and then samples begin anew where it has other pages. */
#define SIM_EVERY UINT64_C(100000000) /* ns */
static struct na_ibs_start sim;
static uint64_t sim_pages, sim_next;
static bool sim_ended; /* it was refused */

/* Stretches of pages of the heap that have memory: elsewhere no sample would have a home. */
static uint32_t heap_ranges(struct na_ibs_range range[NA_IBS_MAX_RANGES], uint64_t *all) {
    unsigned char there[512];
    const na_nprof_access_mapping_t *m;
    uint32_t count = 0;
    *all = 0;
    for (uint32_t i = 0; (m = na_amaps_heap(i)) != NULL; i++) {
        uint64_t end = 0; /* of the stretch that may go on */
        for (uint64_t at = m->start; at < m->end; at += sizeof there * na_os_page) {
            uint64_t pages = (m->end - at) / na_os_page;
            if (pages > sizeof there) pages = sizeof there;
            if (na_sys3(SYS_mincore, (long)at, (long)(pages * na_os_page), (long)there) != 0) break;
            for (uint64_t k = 0; k < pages; k++) {
                uint64_t page = at + k * na_os_page;
                if ((there[k] & 1) == 0) continue;
                if (page != end) {
                    if (count == NA_IBS_MAX_RANGES) return count;
                    range[count++].start = page;
                }
                range[count - 1].end = end = page + na_os_page;
                ++*all;
            }
        }
    }
    return count;
}

/* True: there is no heap, or samples are being made of what it is now. */
static bool begin_sim(char why[NA_WHY]) {
    struct na_ibs_range range[NA_IBS_MAX_RANGES];
    uint64_t pages;
    uint32_t count = heap_ranges(range, &pages);
    sim_next = na_access_mono() + SIM_EVERY;
    if (pages == sim_pages || pages == 0) return true;
    if (sim_pages != 0) na_kmod_stop(&kmod);
    sim_pages = pages;
    char text[NA_KMOD_WHY];
    sim.ranges = count;
    sim.range = (uintptr_t)range;
    int error = na_kmod_start(&kmod, &sim, text);
    if (error != 0) na_access_why(why, text, NULL);
    return error == 0;
}

static bool start_kmod_sim(uint64_t period, char why[NA_WHY]) {
    sim = (struct na_ibs_start){.source = NA_IBS_SOURCE_SIM,
                                .period = period != 0 ? period : 1000000}; /* ns */
    if (!open_kmod(why)) return false;
    sim_pages = 0;
    sim_ended = false;
    if (!begin_sim(why)) {
        close_kmod();
        return false;
    }
    na_access_entry->period = sim.period;
    return true;
}

static uint64_t step_kmod(void) {
    na_kmod_drain(&kmod, take_kernel_record, NULL);
    if (na_access_mono() >= counters_next) read_counters();
    pace(kmod.most, kmod.records);
    return next_drain();
}

static uint64_t step_sim(void) {
    if (!sim_ended && na_access_mono() >= sim_next) {
        char why[NA_WHY];
        na_amaps_read(na_access_mono());
        if (!begin_sim(why)) {
            sim_ended = true;
            na_rec_copy(na_access_entry->why, sizeof na_access_entry->why, why);
        }
    }
    return step_kmod();
}

static void stop_kmod(void) {
    na_kmod_stop(&kmod);
    step_kmod();
    read_counters();
    close_kmod();
}

/* The rings are not inherited. */
static void forget_kmod(void) {
    if (kmod.fd >= 0) na_sys1(SYS_close, kmod.fd);
    kmod = (na_kmod_t){.fd = -1};
    places = NULL; /* it has holes where rings were */
    na_caught_forget();
}

#define MEMORY_FLAGS                                                                               \
    (NA_NPROF_ACCESS_OP | NA_NPROF_ACCESS_LEVEL | NA_NPROF_ACCESS_LATENCY | NA_NPROF_ACCESS_EXACT)

na_access_source_t na_access_kmod(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_KMOD_IBS,
                                .unit = NA_NPROF_UNIT_OPS,
                                .flags = MEMORY_FLAGS | NA_NPROF_ACCESS_HOME,
                                .choice = NA_ACCESS_KMOD,
                                .automatic = true,
                                .start = start_kmod_ibs,
                                .step = step_kmod,
                                .stop = stop_kmod,
                                .forget = forget_kmod};
}

na_access_source_t na_access_kmod_fault(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_KMOD_FAULT,
                                .unit = NA_NPROF_UNIT_FAULTS,
                                .flags = NA_NPROF_ACCESS_EXACT,
                                .choice = NA_ACCESS_KMOD_FAULT,
                                .start = start_kmod_fault,
                                .step = step_kmod,
                                .stop = stop_kmod,
                                .forget = forget_kmod};
}

na_access_source_t na_access_kmod_sim(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_KMOD_SIM,
                                .unit = NA_NPROF_UNIT_MADE_UP,
                                .flags =
                                    MEMORY_FLAGS | NA_NPROF_ACCESS_HOME | NA_NPROF_ACCESS_MADE_UP,
                                .choice = NA_ACCESS_KMOD_SIM,
                                .start = start_kmod_sim,
                                .step = step_sim,
                                .stop = stop_kmod,
                                .forget = forget_kmod};
}

na_access_source_t na_access_perf_ibs(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_PERF_IBS,
                                .unit = NA_NPROF_UNIT_OPS,
                                .flags = MEMORY_FLAGS,
                                .choice = NA_ACCESS_IBS,
                                .automatic = true,
                                .start = start_ibs,
                                .step = step_memory,
                                .stop = stop_memory,
                                .forget = na_perf_forget};
}

na_access_source_t na_access_pebs(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_PEBS,
                                .unit = NA_NPROF_UNIT_LOADS,
                                .flags = MEMORY_FLAGS,
                                .choice = NA_ACCESS_PEBS,
                                .automatic = true,
                                .start = start_pebs,
                                .step = step_memory,
                                .stop = stop_memory,
                                .forget = na_perf_forget};
}

na_access_source_t na_access_fault(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_FAULT,
                                .unit = NA_NPROF_UNIT_FAULTS,
                                .flags = NA_NPROF_ACCESS_EXACT,
                                .choice = NA_ACCESS_FAULT,
                                .start = start_fault,
                                .step = step_fault,
                                .stop = stop_fault,
                                .forget = na_perf_forget};
}

na_access_source_t na_access_numa(void) {
    return (na_access_source_t){.kind = NA_NPROF_SOURCE_NUMA,
                                .unit = NA_NPROF_UNIT_SCANS,
                                .flags = NA_NPROF_ACCESS_EXACT,
                                .choice = NA_ACCESS_NUMA,
                                .start = start_numa,
                                .step = step_numa,
                                .stop = stop_numa,
                                .forget = na_perf_forget};
}
