/* memory.c - the memory benchmark: what an allocator takes from the system for what the program
 * asked for, while producers hand their objects to consumers.
 *
 *   main thread       a snapshot
 *   each of K producers  for each of its M consumers a buffer; allocates N objects of random sizes
 *                        for each of them, a round for one after the other, snapshots meanwhile
 *   each consumer        waits until `free-start` objects were allocated for it, then frees them
 *                        in the order of their allocation, a round at a time, snapshots meanwhile
 *
 * A producer begins a round while at most free-start + round objects of that buffer are allocated,
 * a consumer frees one while at least free-start are (all, once the last is allocated). So both run
 * at the same time, and yet the number of live objects follows from the knobs to within two rounds:
 * what is measured is the allocator, not how the system happened to schedule threads. With
 * free-start = objects everything is allocated before anything is freed.
 *
 * A snapshot stops all threads between two operations. It has the bytes requested and not yet
 * freed, and of the whole process the bytes mapped writable, mapped at all, and resident. What was
 * there before the first allocation is subtracted, unless the allocator mapped it ahead: program,
 * thread stacks, the suite's own tables. Overhead is the rest beyond the bytes requested, as a
 * share of those. */
#include "bench/load/sizes.h"
#include "bench/load/team.h"
#include "bench/suite/limits.h"
#include "bench/suite/work.h"
#include "bench/system/footprint.h"

#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum {
    K_PRODUCERS,
    K_CONSUMERS,
    K_OBJECTS,
    K_ROUND,
    K_FREE_START,
    K_MIN,
    K_MAX,
    K_STEP,
    K_DISTRIBUTION,
    K_SNAPSHOT,
    K_SERIES,
    K_SEED,
    K_TOUCH,
    K_PIN,
    K_WARMUP,
    K_REPETITIONS,
    K_COUNT,
};

enum { TOUCH_OFF, TOUCH_FIRST, TOUCH_ALL };

#define SNAPSHOTS 200 /* of a repetition, unless --snapshot says otherwise */

static const na_knob_t knobs_table[K_COUNT] = {
    [K_PRODUCERS] = {"producers", "threads", NA_KNOB_NUMBER, 2, 1, 512, NULL, "producer threads"},
    [K_CONSUMERS] = {"consumers", "threads", NA_KNOB_NUMBER, 2, 1, 512, NULL,
                     "consumer threads of each producer"},
    [K_OBJECTS] = {"objects", "objects", NA_KNOB_NUMBER, 25000, 1, UINT64_C(1) << 32, NULL,
                   "objects that a producer allocates for each of its consumers"},
    [K_ROUND] = {"round", "objects", NA_KNOB_NUMBER, 500, 1, UINT64_C(1) << 32, NULL,
                 "objects that are allocated or freed at a time"},
    [K_FREE_START] = {"free-start", "objects", NA_KNOB_NUMBER, UINT64_MAX, 0, UINT64_C(1) << 32,
                      NULL, "objects of a consumer before it begins to free; without it, half"},
    [K_MIN] = NA_KNOB_MIN(16),
    [K_MAX] = NA_KNOB_MAX(2048),
    [K_STEP] = NA_KNOB_STEP(16),
    [K_DISTRIBUTION] = NA_KNOB_DISTRIBUTION,
    [K_SNAPSHOT] = {"snapshot", "calls", NA_KNOB_NUMBER, 0, 1, UINT64_C(1) << 40, NULL,
                    "mallocs and frees between two snapshots; without it, as many as make 200"},
    [K_SERIES] = {"series", "", NA_KNOB_TEXT, 0, 0, 0, NULL,
                  "a file for all snapshots, as tab-separated lines"},
    [K_SEED] = NA_KNOB_SEED,
    [K_TOUCH] = {"touch", "", NA_KNOB_CHOICE, TOUCH_ALL, 0, 0, "off|first|all",
                 "what is written of every new block: nothing, its first byte, all of it"},
    [K_PIN] = NA_KNOB_PIN,
    [K_WARMUP] = NA_KNOB_WARMUP(0),
    [K_REPETITIONS] = NA_KNOB_REPETITIONS(5),
};

typedef struct snapshot {
    uint64_t repetition, calls, requested;
    na_footprint_t found;
} snapshot_t;

/* The buffer between a producer and one consumer. */
typedef struct buffer {
    void **block;                                    /* N */
    uint32_t *bytes;                                 /* N sizes, drawn beforehand */
    uint64_t produced __attribute__((aligned(128))); /* atomic, written by the producer */
    uint64_t consumed __attribute__((aligned(128))); /* atomic, written by the consumer */
} buffer_t;

/* Bytes allocated minus bytes freed by one thread; wraps, the sum of all does not. */
typedef struct account {
    uint64_t bytes;
} __attribute__((aligned(128))) account_t;

typedef struct memory {
    buffer_t *buffer;   /* producers x consumers */
    account_t *account; /* of each worker */
    snapshot_t *snapshot;
    size_t taken, room;
    unsigned producers, consumers;
    uint64_t objects, round, free_start, every;
    uint64_t touch, repetition;
    uint64_t calls;   /* atomic */
    uint64_t due;     /* atomic: the number of calls at which all stop for the next snapshot */
    unsigned running; /* atomic: workers that have not finished */
    unsigned parked;  /* atomic: workers that wait for a snapshot to be taken */
} memory_t;

/* ---- Snapshots --------------------------------------------------------------------------------
 */

/* The caller is alone: every other worker is parked or done. */
static void take_snapshot(memory_t *memory) {
    if (memory->taken == memory->room)
        na_bench_fail("memory: more than %zu snapshots", memory->room);
    snapshot_t *snapshot = &memory->snapshot[memory->taken++];
    unsigned workers = memory->producers * (1 + memory->consumers);
    snapshot->repetition = memory->repetition;
    snapshot->calls = __atomic_load_n(&memory->calls, __ATOMIC_SEQ_CST);
    snapshot->requested = 0;
    for (unsigned i = 0; i < workers; i++)
        snapshot->requested += memory->account[i].bytes;
    snapshot->found = na_footprint_read();
}

static bool closed(memory_t *memory) {
    return __atomic_load_n(&memory->calls, __ATOMIC_SEQ_CST) >=
           __atomic_load_n(&memory->due, __ATOMIC_SEQ_CST);
}

/* Every worker passes here before each operation and while it waits for its turn. The call that
 * makes a snapshot due closes the gate by being counted: no more calls than there are other workers
 * come before the snapshot, whenever a worker is stopped by the kernel. After counting itself out a
 * worker looks again: one that leaves has seen the gate open since, so that whoever closes it
 * afterwards no longer counts that worker as parked. */
static void pass_gate(memory_t *memory) {
    while (closed(memory)) {
        __atomic_add_fetch(&memory->parked, 1, __ATOMIC_SEQ_CST);
        while (closed(memory))
            sched_yield();
        __atomic_sub_fetch(&memory->parked, 1, __ATOMIC_SEQ_CST);
    }
}

static void wait_turn(memory_t *memory) {
    pass_gate(memory);
    sched_yield();
}

/* The worker whose call was due takes the snapshot, once all others are parked. With fewer calls
 * between snapshots than workers, the next one may be due already: its worker waits like the rest.
 */
static void count_call(memory_t *memory) {
    uint64_t calls = __atomic_add_fetch(&memory->calls, 1, __ATOMIC_SEQ_CST);
    if (calls % memory->every != 0) return;
    if (__atomic_load_n(&memory->due, __ATOMIC_SEQ_CST) != calls) {
        __atomic_add_fetch(&memory->parked, 1, __ATOMIC_SEQ_CST);
        while (__atomic_load_n(&memory->due, __ATOMIC_SEQ_CST) != calls)
            sched_yield();
        __atomic_sub_fetch(&memory->parked, 1, __ATOMIC_SEQ_CST);
    }
    while (__atomic_load_n(&memory->parked, __ATOMIC_SEQ_CST) + 1 !=
           __atomic_load_n(&memory->running, __ATOMIC_SEQ_CST))
        sched_yield();
    take_snapshot(memory);
    __atomic_store_n(&memory->due, calls + memory->every, __ATOMIC_SEQ_CST);
}

/* ---- Producers and consumers ------------------------------------------------------------------
 */

static uint64_t load_counter(const uint64_t *counter) {
    return __atomic_load_n(counter, __ATOMIC_ACQUIRE);
}

static void produce_round(memory_t *memory, buffer_t *buffer, account_t *account) {
    uint64_t from = buffer->produced, to = from + memory->round;
    if (to > memory->objects) to = memory->objects;
    while (from - load_counter(&buffer->consumed) > memory->free_start + memory->round)
        wait_turn(memory);
    for (uint64_t at = from; at < to; at++) {
        size_t size = buffer->bytes[at];
        pass_gate(memory);
        void *block = malloc(size);
        if (block == NULL)
            na_bench_fail("memory: malloc(%zu) gave NULL: the allocator is out of memory", size);
        if (memory->touch == TOUCH_ALL)
            memset(block, 1, size);
        else
            na_bench_touch(block, memory->touch == TOUCH_FIRST);
        buffer->block[at] = block;
        account->bytes += size;
        count_call(memory);
    }
    __atomic_store_n(&buffer->produced, to, __ATOMIC_RELEASE);
}

static void produce_buffers(memory_t *memory, unsigned producer, account_t *account) {
    buffer_t *buffers = memory->buffer + (size_t)producer * memory->consumers;
    for (uint64_t done = 0; done < memory->objects; done += memory->round)
        for (unsigned i = 0; i < memory->consumers; i++)
            produce_round(memory, &buffers[i], account);
}

/* How many objects may be freed now: a round, or less at the end, or none. */
static uint64_t may_consume(const memory_t *memory, const buffer_t *buffer) {
    uint64_t produced = load_counter(&buffer->produced), live = produced - buffer->consumed;
    if (produced < memory->objects && (produced < memory->free_start || live < memory->free_start))
        return 0;
    return live < memory->round ? live : memory->round;
}

static void consume_buffer(memory_t *memory, buffer_t *buffer, account_t *account) {
    while (buffer->consumed < memory->objects) {
        uint64_t count = may_consume(memory, buffer);
        if (count == 0) {
            wait_turn(memory);
            continue;
        }
        uint64_t from = buffer->consumed;
        for (uint64_t at = from; at < from + count; at++) {
            pass_gate(memory);
            account->bytes -= buffer->bytes[at];
            free(buffer->block[at]);
            count_call(memory);
        }
        __atomic_store_n(&buffer->consumed, from + count, __ATOMIC_RELEASE);
    }
}

static void memory_phase(void *argument, unsigned worker) {
    memory_t *memory = argument;
    account_t *account = &memory->account[worker];
    if (worker < memory->producers)
        produce_buffers(memory, worker, account);
    else
        consume_buffer(memory, &memory->buffer[worker - memory->producers], account);
    pass_gate(memory);
    __atomic_sub_fetch(&memory->running, 1, __ATOMIC_SEQ_CST);
}

/* Brings a thread's stack and the gate into memory before the first snapshot. */
static void arrive_phase(void *argument, unsigned worker) {
    memory_t *memory = argument;
    volatile char stack[65536];
    for (size_t i = 0; i < sizeof stack; i += 4096)
        stack[i] = 0;
    memory->account[worker].bytes = 0;
}

/* ---- Results ----------------------------------------------------------------------------------
 */

/* What the allocator has of it: 0 where it has less than there was before. */
static double grown_by(uint64_t now, uint64_t before) {
    return now > before ? (double)(now - before) : 0.0;
}

static double overhead_percent(double taken, double requested) {
    return requested > 0 ? 100.0 * (taken - requested) / requested : 0.0;
}

typedef struct memory_metrics {
    na_metric_t *per_request, *writable, *resident, *mean, *kept_writable, *kept_resident,
        *requested, *mapped;
    na_metric_t *series[4];
} memory_metrics_t;

static memory_metrics_t make_metrics(na_result_t *result, size_t n, size_t snapshots) {
    memory_metrics_t made = {
        .per_request =
            na_result_metric(result, "resident per requested", "x", NA_LOWER, NA_HEADLINE, n),
        .writable = na_result_metric(result, "overhead", "%", NA_LOWER, NA_HEADLINE, n),
        .resident = na_result_metric(result, "resident overhead", "%", NA_LOWER, NA_HEADLINE, n),
        .kept_resident =
            na_result_metric(result, "resident after all frees", "MiB", NA_LOWER, NA_HEADLINE, n),
        .mean = na_result_metric(result, "mean overhead", "%", NA_LOWER, NA_DETAIL, n),
        .kept_writable =
            na_result_metric(result, "writable after all frees", "MiB", NA_LOWER, NA_DETAIL, n),
        .requested = na_result_metric(result, "peak requested", "MiB", NA_HIGHER, NA_DETAIL, n),
        .mapped = na_result_metric(result, "peak mapped", "MiB", NA_LOWER, NA_DETAIL, n),
        .series =
            {
                na_result_metric(result, "series: requested", "MiB", NA_LOWER, NA_DETAIL,
                                 snapshots),
                na_result_metric(result, "series: writable", "MiB", NA_LOWER, NA_DETAIL, snapshots),
                na_result_metric(result, "series: mapped", "MiB", NA_LOWER, NA_DETAIL, snapshots),
                na_result_metric(result, "series: resident", "MiB", NA_LOWER, NA_DETAIL, snapshots),
            },
    };
    return made;
}

/* One repetition's snapshots; the series metrics get those of the last repetition. */
static void report_snapshots(const snapshot_t *first, size_t count, const na_footprint_t *before,
                             memory_metrics_t *metrics, bool last) {
    const double mib = 1024.0 * 1024.0;
    const snapshot_t *peak = first;
    double requested = 0, writable = 0, mapped = 0;
    for (size_t i = 0; i < count; i++) {
        const snapshot_t *at = &first[i];
        double now_mapped = grown_by(at->found.mapped, before->mapped);
        if (at->requested > peak->requested) peak = at;
        if (now_mapped > mapped) mapped = now_mapped;
        requested += (double)at->requested;
        writable += grown_by(at->found.writable, before->writable);
        if (!last) continue;
        na_metric_add(metrics->series[0], (double)at->requested / mib);
        na_metric_add(metrics->series[1], grown_by(at->found.writable, before->writable) / mib);
        na_metric_add(metrics->series[2], now_mapped / mib);
        na_metric_add(metrics->series[3], grown_by(at->found.resident, before->resident) / mib);
    }
    const snapshot_t *end = &first[count - 1];
    double top = (double)peak->requested;
    if (top > 0)
        na_metric_add(metrics->per_request, grown_by(peak->found.resident, before->resident) / top);
    na_metric_add(metrics->writable,
                  overhead_percent(grown_by(peak->found.writable, before->writable), top));
    na_metric_add(metrics->resident,
                  overhead_percent(grown_by(peak->found.resident, before->resident), top));
    na_metric_add(metrics->mean, overhead_percent(writable, requested));
    na_metric_add(metrics->kept_writable, grown_by(end->found.writable, before->writable) / mib);
    na_metric_add(metrics->kept_resident, grown_by(end->found.resident, before->resident) / mib);
    na_metric_add(metrics->requested, top / mib);
    na_metric_add(metrics->mapped, mapped / mib);
}

static void write_file_text(int file, const char *text, size_t length, const char *path) {
    while (length != 0) {
        ssize_t done = write(file, text, length);
        if (done < 0 && errno == EINTR) continue;
        if (done < 0) na_bench_fail("memory: cannot write %s: %s", path, strerror(errno));
        text += done;
        length -= (size_t)done;
    }
}

/* As found, nothing subtracted: the first line of figures is from before the first allocation. */
static void write_series(const memory_t *memory, const na_footprint_t *before, const char *path) {
    static const char title[] = "repetition\tcalls\trequested\twritable\tmapped\tresident\n";
    char line[192];
    int file = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    if (file < 0) na_bench_fail("memory: cannot write %s: %s", path, strerror(errno));
    write_file_text(file, title, sizeof title - 1, path);
    for (size_t i = 0; i <= memory->taken; i++) {
        snapshot_t at = {.found = *before};
        if (i != 0) at = memory->snapshot[i - 1];
        int length =
            snprintf(line, sizeof line, "%llu\t%llu\t%llu\t%llu\t%llu\t%llu\n",
                     (unsigned long long)at.repetition, (unsigned long long)at.calls,
                     (unsigned long long)at.requested, (unsigned long long)at.found.writable,
                     (unsigned long long)at.found.mapped, (unsigned long long)at.found.resident);
        write_file_text(file, line, (size_t)length, path);
    }
    if (close(file) != 0) na_bench_fail("memory: cannot write %s: %s", path, strerror(errno));
}

/* ---- The benchmark ----------------------------------------------------------------------------
 */

/* One at the begin of a repetition, one at its end, and those between. */
static size_t snapshots_of(uint64_t calls, uint64_t every) {
    return (size_t)(calls / every) + 2;
}

static bool memory_settle(na_knobs_t *knobs, char *error, size_t size) {
    na_knob_value_t *value = knobs->value;
    if (!na_limits_ordered(knobs, K_MIN, K_MAX, error, size)) return false;
    if (value[K_FREE_START].number == UINT64_MAX)
        value[K_FREE_START].number = value[K_OBJECTS].number / 2;
    if (!na_limits_ordered(knobs, K_FREE_START, K_OBJECTS, error, size)) return false;
    double buffers = (double)value[K_PRODUCERS].number * (double)value[K_CONSUMERS].number;
    double objects = buffers * (double)value[K_OBJECTS].number;
    double live = (double)(value[K_FREE_START].number + 2 * value[K_ROUND].number);
    if (live > (double)value[K_OBJECTS].number) live = (double)value[K_OBJECTS].number;
    if (value[K_SNAPSHOT].number == 0) {
        double every = 2 * objects / SNAPSHOTS;
        value[K_SNAPSHOT].number = every < 1 ? 1 : (uint64_t)every;
    }
    double taken = 2 * objects / (double)value[K_SNAPSHOT].number + 2;
    double turns = (double)(value[K_WARMUP].number + value[K_REPETITIONS].number);
    double mean = (double)(value[K_MIN].number + value[K_MAX].number) / 2;
    double bytes = buffers * live * (mean + 16) + objects * (sizeof(void *) + sizeof(uint32_t)) +
                   turns * taken * sizeof(snapshot_t);
    if (!na_limits_fit(bytes, "--objects, --max, --producers or --consumers, or raise --snapshot",
                       error, size))
        return false;
    const char *path = value[K_SERIES].text;
    if (*path == '\0') return true;
    int file = open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0666);
    if (file < 0) {
        snprintf(error, size, "cannot write --series '%s': %s", path, strerror(errno));
        return false;
    }
    close(file);
    return true;
}

static void memory_run(const na_knobs_t *knobs, na_result_t *result) {
    const na_knob_value_t *value = knobs->value;
    const na_sizes_t sizes = NA_WORK_SIZES_OF(value);
    size_t warmup = (size_t)value[K_WARMUP].number;
    size_t repetitions = (size_t)value[K_REPETITIONS].number;
    memory_t memory = {
        .producers = (unsigned)value[K_PRODUCERS].number,
        .consumers = (unsigned)value[K_CONSUMERS].number,
        .objects = value[K_OBJECTS].number,
        .round = value[K_ROUND].number,
        .free_start = value[K_FREE_START].number,
        .every = value[K_SNAPSHOT].number,
        .touch = value[K_TOUCH].number,
    };
    unsigned buffers = memory.producers * memory.consumers;
    unsigned workers = memory.producers + buffers;
    size_t each = snapshots_of(2 * buffers * memory.objects, memory.every);
    memory.room = each * (warmup + repetitions);
    memory.snapshot = na_bench_map(memory.room * sizeof(snapshot_t));
    memory.account = na_bench_map(workers * sizeof(account_t));
    memory.buffer = na_bench_map(buffers * sizeof(buffer_t));
    for (unsigned i = 0; i < buffers; i++) {
        buffer_t *buffer = &memory.buffer[i];
        na_prng_t prng = na_prng_make(value[K_SEED].number, 1 + i);
        buffer->block = na_bench_map(memory.objects * sizeof(void *));
        buffer->bytes = na_bench_map(memory.objects * sizeof(uint32_t));
        na_sizes_fill(&sizes, &prng, buffer->bytes, memory.objects);
    }
    memory_metrics_t metrics = make_metrics(result, repetitions, each);
    na_metric_t *rate =
        na_result_metric(result, "throughput", "Mop/s", NA_HIGHER, NA_DETAIL, repetitions);

    na_team_t *team = na_team_start(workers, (na_pin_t)value[K_PIN].number);
    na_team_run(team, arrive_phase, &memory);
    na_footprint_read(); /* its own buffers come into memory */
    na_footprint_t found = na_footprint_read();
    na_footprint_t before = na_footprint_without_allocator(found, workers);
    for (size_t r = 0; r < warmup + repetitions; r++) {
        na_bench_progress("memory: repetition", r, warmup + repetitions);
        memory.repetition = r + 1;
        memory.calls = 0;
        memory.due = memory.every;
        memory.running = workers;
        for (unsigned i = 0; i < buffers; i++)
            memory.buffer[i].produced = memory.buffer[i].consumed = 0;
        size_t first = memory.taken;
        take_snapshot(&memory);
        uint64_t elapsed = na_team_run(team, memory_phase, &memory);
        take_snapshot(&memory);
        if (r < warmup) continue;
        report_snapshots(&memory.snapshot[first], memory.taken - first, &before, &metrics,
                         r + 1 == warmup + repetitions);
        na_metric_add(rate, 1e3 * (double)memory.calls / (double)(elapsed == 0 ? 1 : elapsed));
    }
    na_bench_progress("memory: repetition", 1, 1);
    na_team_stop(team);
    if (*value[K_SERIES].text != '\0') write_series(&memory, &found, value[K_SERIES].text);
}

/** What an allocator takes from the system. Producers allocate for consumers, which begin to free
 *  at `free-start` objects; live objects follow from the knobs to within two rounds. *Resident per
 *  requested*, at the peak of requests. `overhead` is writable bytes beyond those requested;
 *  `resident after all frees` is what the allocator keeps; what was there before is subtracted.
 *  `--series` writes every snapshot. On an allocator that wastes a known amount the overheads are
 *  right within 2 %. */
const na_bench_t na_bench_memory = {
    .name = "memory",
    .summary = "what is taken from the system for what producers request and consumers free",
    .knobs = knobs_table,
    .knob_count = K_COUNT,
    .memory = true,
    .headline = "resident per requested", /* an overhead may be 0 */
    .work = "objects",
    .suite = (const char *const[]){"--repetitions=1", "--warmup=0", NULL},
    .settle = memory_settle,
    .run = memory_run,
};
