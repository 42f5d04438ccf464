/* fuzz_reader.c - libFuzzer target: any bytes as a profile file. Everything that the reader and the
 * analysis offer is called; the sanitizers watch. Checksums are made true first in half of the runs
 * (by the last input byte), or no mutation would ever get past them.
 *
 * FUZZ_REPEATABLE=1 in the environment: what an input does depends on nothing else. The reader has
 * no threads (their timing would change the coverage, and so all later mutations), and what it
 * draws at random follows from the input. */
#include <sanitizer/allocator_interface.h>
#include <sched.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/random.h>
#include <time.h>
#include <unistd.h>
#include <zlib.h>

#include "profiler/analyze/accesses/flows_where.h"
#include "profiler/analyze/accesses/verdict.h"
#include "profiler/analyze/blocks/block_histogram.h"
#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/function_costs.h"
#include "profiler/analyze/blocks/site_sums.h"
#include "profiler/analyze/blocks/trace_replay.h"
#include "profiler/format/nprof_policy.h"
#include "profiler/format/reader/reader_access.h"
#include "profiler/format/reader/reader_python.h"

/* ---- what depends on the machine ---- */

static bool repeatable;
static uint64_t drawn; /* the next "random" number of a repeatable run */

/* The linker leads calls of the reader here (--wrap). */
ssize_t __real_getrandom(void *to, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags);
ssize_t __wrap_getrandom(void *to, size_t size, unsigned flags) {
    if (!repeatable || size > sizeof drawn) return __real_getrandom(to, size, flags);
    drawn = (drawn ^ drawn >> 29) * UINT64_C(0xbf58476d1ce4e5b9) + 1;
    memcpy(to, &drawn, size);
    return (ssize_t)size;
}

int __real_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set);
int __wrap_sched_getaffinity(pid_t pid, size_t size, cpu_set_t *set) {
    if (!repeatable) return __real_sched_getaffinity(pid, size, set);
    memset(set, 0, size);
    CPU_SET_S(0, size, set);
    return 0;
}

int LLVMFuzzerInitialize(int *argc, char ***argv);
int LLVMFuzzerInitialize(int *argc, char ***argv) {
    (void)argc, (void)argv;
    const char *text = getenv("FUZZ_REPEATABLE");
    repeatable = text != NULL && strcmp(text, "1") == 0;
    return 0;
}

/* ---- time ---- */

static double seconds(void) {
    struct timespec t;
    clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &t);
    return (double)t.tv_sec + (double)t.tv_nsec / 1e9;
}

/* Processor time that a file may take: a second, and one for each 10 MB that it inflates to; times
 * four, because sanitizers watch and the events are played more than once. */
static double allowed(const na_reader_t *reader) {
    uint64_t inflated = 0;
    na_chunk_sum_t sum;
    for (size_t i = 0; na_reader_chunk_sum(reader, i, &sum) != NULL; i++)
        inflated += sum.raw;
    return 4 * (1 + (double)inflated / 1e7);
}

/* How many times slower than meant the processor is now: a second is that of one which inflates 200
 * MB in it. At least 1. What shares the processor (hyperthreads, a hypervisor that counts the time
 * in which it ran others) slows this down as it does the reader. */
static double slowness(void) {
    enum { BYTES = 4 << 20, TIMES = 10 };
    static unsigned char packed[BYTES / 512], plain[BYTES]; /* zeros become a thousandth */
    uLongf size = sizeof packed;
    memset(plain, 0, sizeof plain);
    if (compress(packed, &size, plain, sizeof plain) != Z_OK) abort();
    double began = seconds();
    for (int i = 0; i < TIMES; i++) {
        uLongf most = sizeof plain;
        if (uncompress(plain, &most, packed, size) != Z_OK) abort();
    }
    double slow = (seconds() - began) * 200e6 / ((double)BYTES * TIMES);
    return slow > 1 ? slow : 1;
}

/* ---- memory ---- */

/* Memory that the process holds now, and the most since the last `begin_heap`: what malloc gave
 * out, by the sanitizer's hooks, and what was mapped. */
static _Atomic int64_t heap_now, heap_most;

static void heap_add(int64_t bytes) {
    int64_t now = atomic_fetch_add(&heap_now, bytes) + bytes, most = atomic_load(&heap_most);
    while (now > most && !atomic_compare_exchange_weak(&heap_most, &most, now))
        ;
}

static void on_malloc(const volatile void *at, size_t size) {
    (void)at;
    heap_add((int64_t)size);
}

static void on_free(const volatile void *at) {
    if (at != NULL) heap_add(-(int64_t)__sanitizer_get_allocated_size(at));
}

/* The replay maps its table of blocks: the linker leads such calls here (--wrap). */
void *__real_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset);
void *__wrap_mmap(void *at, size_t bytes, int protection, int flags, int fd, off_t offset) {
    heap_add((int64_t)bytes);
    return __real_mmap(at, bytes, protection, flags, fd, offset);
}

int __real_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes);
int __wrap_munmap(void *at, size_t bytes) {
    heap_add(-(int64_t)bytes);
    return __real_munmap(at, bytes);
}

static int64_t begin_heap(void) {
    static bool hooked;
    if (!hooked && !__sanitizer_install_malloc_and_free_hooks(on_malloc, on_free)) abort();
    hooked = true;
    atomic_store(&heap_most, atomic_load(&heap_now));
    return atomic_load(&heap_now);
}

/* budget.h: nothing that a file can say makes its reader, the analysis included, take more. */
static void check_heap(uint64_t bound, int64_t began) {
    int64_t most = atomic_load(&heap_most) - began;
    if (most <= (int64_t)bound) return;
    fprintf(stderr, "%lld bytes of memory, and %llu are allowed\n", (long long)most,
            (unsigned long long)bound);
    abort();
}

/* ---- what is called ---- */

/* Whatever the mode: events may be in any file. */
static void play_events(na_reader_t *reader) {
    na_replay_t *replay = na_replay_open(reader);
    if (replay == NULL) return;
    na_event_t event;
    uint64_t last = 0;
    while (na_replay_next(replay, &event, NULL)) {
        if (event.ticks < last) abort();
        last = event.ticks;
        const na_live_t *block = na_replay_find(replay, event.address);
        if (na_event_is_alloc(&event) && event.address != 0 &&
            (block == NULL || block->size != event.size))
            abort();
    }
    na_replay_close(replay);
}

static void see_control(void *arg, uint32_t id, const void *entry) {
    *(uint64_t *)arg += id + *(const uint8_t *)entry;
}

/* Flows and verdicts, of the file as two processes. */
static void judge(na_reader_t *reader) {
    na_reader_t *const twice[] = {reader, reader};
    na_flows_t flows;
    na_verdicts_t verdicts;
    char why[NA_WHERE_WHY];
    if (na_flows_read(twice, 2, &flows) && na_verdicts_make(&flows, &verdicts)) {
        for (uint32_t i = 0; i < verdicts.count; i++)
            if (verdicts.items[i].group >= flows.group_count ||
                verdicts.items[i].kind >= NA_VERDICTS)
                abort();
        na_verdicts_free(&verdicts);
        uint32_t before = flows.count;
        if (!na_flows_select(&flows, "remote,time=-100", why) || flows.count > before) abort();
    }
    na_flows_free(&flows);
}

static uint32_t frames_of(void *arg, uint32_t node, const uint32_t **ids) {
    static uint32_t id[2];
    (void)arg;
    id[0] = node % 16;
    id[1] = node / 16 % 16;
    *ids = id;
    return node % 3;
}

static bool is_odd(void *arg, uint32_t site) {
    (void)arg;
    return site % 2 == 1;
}

static void see_span_sum(void *arg, const na_nprof_span_sum_t *sum) {
    (void)arg;
    if (sum->spans == 0 || sum->eighths > 8 ||
        (sum->node > 255 && sum->cls != NA_NPROF_SPANS_UNSEEN))
        abort();
}

static void see_span_site(void *arg, const na_nprof_span_site_t *site) {
    (void)arg;
    if (site->site == NA_NPROF_NO_STACK) abort();
}

static void see_policy(void *arg, uint32_t id, const void *entry) {
    (void)arg;
    const na_nprof_policy_t *p = entry;
    if (id != 0 || p->state == 0 || strnlen(p->file, sizeof p->file) == sizeof p->file) abort();
}

static void see_rule(void *arg, uint32_t id, const void *entry) {
    (void)arg, (void)id;
    const na_nprof_rule_t *r = entry;
    if (r->line == 0 || strnlen(r->text, sizeof r->text) == sizeof r->text) abort();
}

static void mend(uint8_t *bytes, size_t size) {
    if (size < NA_NPROF_PAGE) return;
    na_nprof_header_t h;
    memcpy(&h, bytes, sizeof h);
    h.magic = NA_NPROF_MAGIC;
    h.version = NA_NPROF_VERSION;
    h.header_size = NA_NPROF_PAGE;
    h.const_crc = na_nprof_header_crc(&h);
    if (h.finished != 0) {
        h.finished = NA_NPROF_FINISHED;
        h.mutable_crc = na_nprof_mutable_crc(h);
    }
    memcpy(bytes, &h, sizeof h);
    size_t offset = NA_NPROF_PAGE;
    while (offset < size && size - offset >= sizeof(na_nprof_chunk_t)) {
        na_nprof_chunk_t c;
        memcpy(&c, bytes + offset, sizeof c);
        c.magic = NA_NPROF_CHUNK_MAGIC;
        c.self_offset = offset;
        c.length = c.length == 0 ? NA_NPROF_PAGE
                                 : (c.length + NA_NPROF_PAGE - 1) & ~(uint64_t)(NA_NPROF_PAGE - 1);
        c.header_crc = na_nprof_chunk_crc(c);
        uint64_t length = c.length;
        if ((c.flags & NA_NPROF_SEALED) != 0 && length >= NA_NPROF_PAGE && length <= size - offset)
            c.data_crc = (uint32_t)crc32(0, bytes + offset + sizeof c, (uInt)(length - sizeof c));
        memcpy(bytes + offset, &c, sizeof c);
        if (length == 0 || length > size - offset) break;
        offset += length;
    }
}

/* All that there is to be read of an open file. */
static void read_all(na_reader_t *reader) {
    na_sites_t sites;
    if (na_sites_fold(reader, &sites)) {
        static na_block_histogram_t histogram;
        const na_wanted_fn_t wanted[] = {NULL, is_odd};
        for (size_t i = 0; i < 2; i++) {
            bool trace = na_reader_header(reader)->mode == NA_NPROF_MODE_TRACE;
            na_replay_t *replay = trace ? na_replay_open(reader) : NULL;
            na_block_histogram_read(reader, replay, &sites, wanted[i], NULL, &histogram);
            na_replay_close(replay);
        }
        na_sites_sort(&sites, NA_ORDER_LIVE);
        na_stack_table_t stacks = na_reader_stacks(reader);
        na_function_t functions[16];
        memset(functions, 0, sizeof functions);
        na_functions_fold(stacks, &sites, frames_of, NULL, functions, 16);
        for (uint32_t id = 2; id < stacks.count; id++) {
            if (stacks.items[id].flags != 0 && stacks.items[id].parent >= id) abort();
            na_python_code_t code;
            if (na_nprof_is_py(stacks.items[id].pc) &&
                na_reader_python_at(reader, stacks.items[id].pc, &code) &&
                (strlen(code.name) == SIZE_MAX || strlen(code.file) == SIZE_MAX))
                abort();
        }
        for (size_t i = 0; i < sites.count; i++)
            na_counters_error(&sites.items[i].sum, sites.items[i].sum.peak_count,
                              na_reader_header(reader)->count_scale);
    }
    for (size_t i = 0; i < sites.count; i++)
        for (size_t m = 0; m < na_metric_count(); m++)
            na_metric_value(m, &sites.items[i].sum, na_reader_header(reader)->count_scale);
    na_sites_free(&sites);
    play_events(reader);
    na_lives_table_t lives;
    na_maps_table_t maps;
    na_nprof_sizes_t sizes;
    na_lives_fold(reader, &lives);
    na_maps_fold(reader, &maps);
    na_sizes_fold(reader, &sizes);
    na_lives_free(&lives);
    na_maps_free(&maps);
    na_reader_span_sums(reader, see_span_sum, NULL);
    na_reader_span_sites(reader, see_span_site, NULL);
    na_reader_control(reader, NA_NPROF_POLICY, see_policy, NULL);
    na_reader_control(reader, NA_NPROF_POLICY_RULES, see_rule, NULL);
    for (uint32_t kind = 0; kind < 8; kind++) {
        na_series_table_t series = na_reader_series(reader, kind);
        uint64_t sum = 0;
        for (size_t i = 0; i < (size_t)series.rows * series.count; i++)
            sum += series.values[i] + series.row[i / series.count].id;
        __asm__ volatile("" ::"r"(sum)); /* read, though nothing comes of it */
    }
    na_access_t access;
    if (na_access_load(reader, &access)) {
        for (size_t i = 0; i < access.sample_count; i++) {
            const na_nprof_access_sample_t *s = &access.samples[i];
            if (access.sources[s->source].source == 0 || !(s->weight >= 0)) abort();
            if (i > 0 && s[-1].ns > s->ns) abort();
            if (s->object != 0 && access.objects[s->object].kind == 0) abort();
        }
        na_access_free(&access);
    }
    judge(reader);
    na_threads_peak(reader);
    na_reader_threads(reader);
    na_reader_modules(reader);
    uint32_t count, interval;
    na_reader_timeline(reader, &count, &interval);
    size_t length;
    na_reader_environment(reader, &length);
    na_reader_symbols(reader, &length);
    uint64_t seen = 0;
    for (uint16_t type = NA_NPROF_SESSION; type <= NA_NPROF_INHERITED; type++)
        na_reader_control(reader, type, see_control, &seen);
    char text[256];
    for (uint32_t i = 0; i < na_reader_issue_count(reader); i++)
        na_reader_issue_text(reader, i, text, sizeof text);
}

/* Returns the share of its time that the file has taken; 0: refused. */
static double examine(const uint8_t *bytes, size_t size) {
    int fd = memfd_create("fuzz", MFD_CLOEXEC);
    if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) abort();
    char error[256] = "";
    double began = seconds();
    int64_t heap_began = begin_heap();
    na_reader_t *reader = na_reader_open_fd(fd, "fuzz", error, sizeof error);
    if (reader == NULL) {
        if (error[0] == 0) abort(); /* refused without a reason */
        return 0;
    }
    na_reader_python_frames(reader, (na_python_frames_t)(size / 64 % 4));
    read_all(reader);
    double taken = (seconds() - began) / allowed(reader);
    uint64_t bound = na_budget_of(na_reader_budget(reader));
    na_reader_close(reader);
    check_heap(bound, heap_began);
    return taken;
}

/* The verdict must not be the machine's: a file that takes too long is examined again, next to a
 * measurement of the machine, and only the least counts. */
static void check_time(const uint8_t *bytes, size_t size, double taken) {
    enum { AGAIN = 5 };
    double least = taken, slow = 1;
    for (int i = 0; least > 1 && i < AGAIN; i++) {
        double before = slowness();
        taken = examine(bytes, size);
        double after = slowness(), now = before > after ? before : after;
        if (taken / now < least) {
            least = taken / now;
            slow = now;
        }
    }
    if (least <= 1) return;
    fprintf(stderr, "%.1f times the processor time that is allowed (machine %.1f times slower)\n",
            least, slow);
    abort();
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);
int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size) {
    if (size == 0 || size > (1u << 18)) return 0;
    bool mended = (data[size - 1] & 1) == 0;
    uint8_t *bytes = malloc(size);
    if (bytes == NULL) return 0;
    memcpy(bytes, data, size);
    if (mended) mend(bytes, size);
    drawn = crc32(0, bytes, (uInt)size);
    check_time(bytes, size, examine(bytes, size));
    free(bytes);
    return 0;
}
