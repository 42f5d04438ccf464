/* access_spe.c - Arm's SPE by perf's arm_spe_0: loads and stores of each thread, which the
 * processor writes into a buffer of the thread's (perf's AUX area). spe_sample.h has the way from
 * there.
 *
 * - The kernel says what was written when a thread loses its CPU, at each page, and when the event
 *   is disabled. A thread that says nothing for a while is made to: disabled, and enabled again.
 * - An event whose buffer is full is disabled by the kernel, and enabled here when there is room.
 * - Where the processor cannot leave out what is neither load nor store, it is left out here.
 * - Who may (CAP_PERFMON) has physical addresses, too: with them the page's node is known at the
 *   time of the access. Others ask for it later, as with other sources.
 * - The thread's number is not asked for: the buffer is the thread's.
 * - No minimum of latency: stores have none that says the same, so the share of writes would be
 *   wrong. */
#include <errno.h>
#include <linux/perf_event.h>
#include <sys/ioctl.h>

#include "profiler/containers/number.h"
#include "profiler/record/sources/access_perf.h"
#include "profiler/record/sources/access_sample.h"
#include "profiler/record/sources/phys_nodes.h"
#include "profiler/record/sources/spe_sample.h"

#define PMU         "/sys/bus/event_source/devices/arm_spe_0/"
#define MIDR        "/sys/devices/system/cpu/cpu0/regs/identification/midr_el1"
#define PERIOD      262144u /* operations */
#define STEP        256u    /* periods are multiples of it */
#define PERIOD_MOST 0xffffff00u
#define BUFFER      65536u             /* bytes, some thousand samples; two pages at least */
#define RECORDS     16384u             /* bytes of perf's own ring, a page at least */
#define DRAIN_EVERY UINT64_C(50000000) /* ns; less while buffers are rather full */
#define DRAIN_OFTEN UINT64_C(3000000)
#define QUIET       UINT64_C(200000000) /* ns without a word of a thread */

/* The driver's bits of config. */
#define TIMESTAMPS (UINT64_C(1) << 0)
#define PHYSICAL   (UINT64_C(1) << 1)
#define JITTER     (UINT64_C(1) << 16)
#define LOADS      (UINT64_C(1) << 33)
#define STORES     (UINT64_C(1) << 34)

/* What follows an AUX record: perf's identification of its moment. */
#define AUX_TYPE (PERF_SAMPLE_TID | PERF_SAMPLE_TIME | PERF_SAMPLE_CPU | PERF_SAMPLE_IDENTIFIER)

static na_perf_plan_t spe_plan;
static na_spe_setup_t setup;
static na_spe_counts_t spe_counts;
static uint64_t spe_drain_every, looked; /* `looked`: for quiet threads, last time */

/* ---- the system counter against CLOCK_MONOTONIC ---- */

static struct {
    uint64_t mono0, ticks0; /* at the beginning */
    uint64_t mono, ticks;   /* the latest pair */
    double ns_per_tick;
} counter_pair;

static void clock_tick(void) {
    uint64_t least = UINT64_MAX;
    for (int i = 0; i < 5; i++) {
        uint64_t before = na_ticks(), mono = na_access_mono(), took = na_ticks() - before;
        if (took >= least) continue;
        least = took;
        counter_pair.mono = mono;
        counter_pair.ticks = before + took / 2;
    }
    if (counter_pair.mono - counter_pair.mono0 > 100000000)
        counter_pair.ns_per_tick = (double)(counter_pair.mono - counter_pair.mono0) /
                                   (double)(counter_pair.ticks - counter_pair.ticks0);
}

static void clock_start(void) {
    uint64_t hz = 1000000000;
#if defined(__aarch64__)
    __asm__("mrs %0, cntfrq_el0" : "=r"(hz));
#endif
    counter_pair.mono0 = na_access_mono();
    counter_pair.ns_per_tick = hz != 0 ? 1e9 / (double)hz : 1;
    clock_tick();
    counter_pair.mono0 = counter_pair.mono;
    counter_pair.ticks0 = counter_pair.ticks;
}

/* A record is not older than a minute, nor from later than a moment after the last look. */
static uint64_t mono_of(uint64_t ticks) {
    double off = (double)(int64_t)(ticks - counter_pair.ticks) * counter_pair.ns_per_tick;
    if (off < -60e9 || off > 1e9) return 0;
    return counter_pair.mono + (uint64_t)(int64_t)off;
}

/* ---- what was written ---- */

static void take_aux(na_perf_target_t *t, const struct perf_event_header *header,
                     const uint64_t *body, uint32_t words) {
    if (header->type != PERF_RECORD_AUX || words < 3 || t->aux == NULL) return;
    na_spe_stretch_t stretch = {.offset = body[0],
                                .size = body[1],
                                .flags = body[2],
                                .mono_ns = counter_pair.mono,
                                .tid = t->tid,
                                .cpu = UINT16_MAX};
    if (words >= 7) { /* thread, time, CPU, id */
        stretch.mono_ns = body[4];
        stretch.cpu = (uint16_t)body[5];
    }
    na_spe_aux_t aux = {.base = t->aux, .bytes = spe_plan.aux_bytes, .at = t->aux_tail};
    na_spe_aux_take(&aux, &setup, &stretch, &spe_counts, na_access_store_sample);
    t->aux_tail = aux.at;
    if ((stretch.flags & PERF_AUX_FLAG_TRUNCATED) != 0) t->throttled = true;
}

static void read_counts(void) {
    na_access_entry->filtered = spe_counts.filtered;
    na_access_entry->lost = spe_counts.broken + spe_counts.collided;
    na_access_entry->throttled = spe_counts.truncated;
}

static void enable(const na_perf_target_t *t, bool on) {
    na_sys3(SYS_ioctl, t->fd[0], on ? PERF_EVENT_IOC_ENABLE : PERF_EVENT_IOC_DISABLE, 0);
}

/* Returns how many bytes there were. */
static uint64_t drain(na_perf_target_t *t, bool made_to_speak) {
    uint64_t before = t->aux_tail;
    na_perf_drain(t, take_aux);
    uint64_t taken = t->aux_tail - before;
    if (taken != 0) na_perf_aux_read(t);
    if (t->throttled) {
        enable(t, true);
        t->throttled = false;
    } else if (taken == 0 && made_to_speak) {
        enable(t, false);
        enable(t, true);
        na_perf_drain(t, take_aux);
        na_perf_aux_read(t);
    }
    return taken;
}

static uint64_t step_spe(void) {
    long error = 0;
    clock_tick();
    uint32_t unarmed = na_perf_scan(&spe_plan, take_aux, &error);
    if (unarmed > na_access_entry->unarmed) na_access_entry->unarmed = unarmed;
    bool quiet = counter_pair.mono - looked >= QUIET;
    if (quiet) looked = counter_pair.mono;
    uint64_t most = 0;
    for (uint32_t i = 0; i < na_perf_count; i++) {
        if (na_perf_target[i].events == 0) continue;
        uint64_t taken = drain(&na_perf_target[i], quiet);
        if (taken > most) most = taken;
    }
    if (most > spe_plan.aux_bytes / 4 && spe_drain_every > DRAIN_OFTEN)
        spe_drain_every /= 2;
    else if (most < spe_plan.aux_bytes / 16 && spe_drain_every < DRAIN_EVERY)
        spe_drain_every *= 2;
    na_access_store_flush();
    read_counts();
    return na_access_mono() + spe_drain_every;
}

static void stop_spe(void) {
    clock_tick();
    for (uint32_t i = 0; i < na_perf_count; i++) {
        if (na_perf_target[i].events == 0) continue;
        enable(&na_perf_target[i], false);
        na_perf_drain(&na_perf_target[i], take_aux);
    }
    na_access_store_flush();
    read_counts();
    na_perf_close_all();
}

/* ---- the beginning ---- */

static uint64_t midr(void) {
    char text[32];
    if (na_os_read_file(MIDR, text, sizeof text) <= 2 || text[0] != '0' || text[1] != 'x') return 0;
    const char *digits = text + 2;
    return na_number_read(&digits, 16);
}

static uint64_t period_of(uint64_t asked) {
    long least = na_access_number_in(PMU "caps/min_interval");
    uint64_t period = asked != 0 ? asked : PERIOD;
    if (least > 0 && period < (uint64_t)least) period = (uint64_t)least;
    if (period > PERIOD_MOST) period = PERIOD_MOST;
    return (period + STEP - 1) / STEP * STEP;
}

/* With as much as the system allows and the processor has: 0 or negative errno. */
static long try_events(void) {
    struct perf_event_attr *attr = &spe_plan.attr[0];
    if (na_phys_nodes_start()) attr->config |= PHYSICAL;
    long error = na_perf_try(&spe_plan);
    if (error == -EACCES && (attr->config & PHYSICAL) != 0) {
        attr->config &= ~PHYSICAL;
        error = na_perf_try(&spe_plan);
    }
    if (error == -EOPNOTSUPP) { /* no filter by kind of operation */
        attr->config &= ~(LOADS | STORES);
        error = na_perf_try(&spe_plan);
    }
    if (error == 0 && (attr->config & PHYSICAL) != 0) {
        na_access_entry->flags |= NA_NPROF_ACCESS_HOME;
        setup.node_of = na_phys_node;
    }
    return error;
}

static void refusal(long error, char why[NA_WHY]) {
    if (error == -EBUSY)
        na_access_why(why, "another program samples whole CPUs by SPE", NULL);
    else
        na_perf_refusal(error, why);
}

static bool start_spe(uint64_t period, char why[NA_WHY]) {
#if !defined(__aarch64__)
    na_access_why(why, "the processor is not Arm's", NULL);
    return false;
#endif
    long type = na_access_number_in(PMU "type");
    if (type < 0) {
        na_access_why(why,
                      "the processor has no SPE, or the kernel cannot use it: a hypervisor or the "
                      "firmware hides it, or page-table isolation is on (boot with kpti=off)",
                      NULL);
        return false;
    }
    period = period_of(period);
    setup = (na_spe_setup_t){.sources = na_spe_sources_of(midr()),
                             .cycles_most = 4095,
                             .weight = (double)period,
                             .mono_of = mono_of};
    if (na_access_number_in(PMU "caps/count_size") == 16) setup.cycles_most = UINT16_MAX;
    spe_counts = (na_spe_counts_t){0};
    spe_drain_every = DRAIN_EVERY;
    looked = 0;
    spe_plan = (na_perf_plan_t){.events = 1, .ring_bytes = RECORDS, .aux_bytes = BUFFER};
    if (spe_plan.ring_bytes < na_os_page) spe_plan.ring_bytes = (uint32_t)na_os_page;
    if (spe_plan.aux_bytes < 2 * na_os_page) spe_plan.aux_bytes = (uint32_t)(2 * na_os_page);
    spe_plan.attr[0] = (struct perf_event_attr){
        .type = (uint32_t)type,
        .size = PERF_ATTR_SIZE_VER5,
        .config = TIMESTAMPS | JITTER | LOADS | STORES,
        .sample_period = period,
        .sample_type = AUX_TYPE,
        .sample_id_all = 1,
        .disabled = 1, /* until it has its buffer */
        .exclude_kernel = 1,
        .exclude_hv = 1,
        .watermark = 1,
        .wakeup_watermark = UINT32_MAX,
        .aux_watermark = (uint32_t)na_os_page,
        .use_clockid = 1,
        .clockid = 1, /* CLOCK_MONOTONIC */
    };
    na_access_entry->period = period;
    clock_start();
    long error = try_events();
    if (error != 0) {
        refusal(error, why);
        return false;
    }
    na_perf_scan(&spe_plan, take_aux, &error);
    if (na_perf_open_count() == 0 && error == -EPERM) {
        na_access_why(why,
                      "its buffers are more than may be locked; raise kernel.perf_event_mlock_kb "
                      "or ulimit -l",
                      NULL);
        return false;
    }
    if (na_perf_open_count() == 0 && error != 0) {
        refusal(error, why);
        return false;
    }
    if (setup.sources == NA_SPE_SOURCES_UNKNOWN)
        na_access_why(why, "what answered is known as far as the processor's events tell", NULL);
    return true;
}

na_access_source_t na_access_spe(void) {
    return (na_access_source_t) {
        .kind = NA_NPROF_SOURCE_SPE, .unit = NA_NPROF_UNIT_OPS,
        .flags = NA_NPROF_ACCESS_OP | NA_NPROF_ACCESS_LEVEL | NA_NPROF_ACCESS_LATENCY |
                 NA_NPROF_ACCESS_EXACT,
        .choice = NA_ACCESS_SPE,
#if defined(__aarch64__)
        .automatic = true,
#endif
        .start = start_spe, .step = step_spe, .stop = stop_spe, .forget = na_perf_forget
    };
}
