/* timeline.c - live memory over time: a fixed number of points, each the extremes of its interval.
 *
 * When the buffer is full, pairs of points are merged into the other buffer and the interval
 * doubles, so the whole run always fits. Driven by publications (there is no thread of ours);
 * points between two of them get the level between.
 *
 * What is in memory and the number of threads are read every 10 ms, from /proc/self/status, and are
 * absent without /proc; besides when memory has grown by an eighth to what it never was, and when
 * it has fallen as far from there. What the recorder has of it (own.c) is counted at the same time.
 * That takes some 10 us for each MiB of its own: samples are apart fifty times as long as one
 * takes. The kernel knows the most that ever was in memory: where that has risen since the sample
 * before, it is what is sampled, so no peak is too short. */
#include <time.h>

#include "alloc/core/sys/os.h"
#include "alloc/core/sys/syscall.h"
#include "alloc/core/sys/thread.h"
#include "profiler/record/state/state.h"

#define FIRST_INTERVAL_MS 1u
#define SAMPLE_EVERY_MS   10u
#define REFUSED_MOST      7u /* doublings of that: 1.3 s */
#define REST              50u
#define GROWN_LEAST       (INT64_C(1) << 20)
#define LEAST_OFTEN_MS    10u /* a thread that does anything publishes so often */

static struct {
    na_lock_t lock;
    na_nprof_timeline_t *data; /* NULL: the disk was full at the start */
    uint64_t next_sample;
    bool sampling;    /* a thread is at it, without the lock */
    unsigned refused; /* samples in a row that a sandbox refused: each time it is asked later */
    uint64_t took_ns; /* the last one, of a processor */
    uint64_t most_resident;         /* ever, as the kernel said then; 0: it was not asked yet */
    uint64_t given_back;            /* own_given_back then */
    int64_t last_bytes, last_count; /* of the publication before */
    int64_t most;                   /* at publications */
    int64_t grown, fallen;          /* what that was when it was sampled for that */
    uint32_t last_point;            /* where that went */
    bool any;
} line;

bool na_timeline_start(void) {
    na_lock_reset(&line.lock);
    line.next_sample = 0;
    line.sampling = false;
    line.refused = 0;
    line.took_ns = line.most_resident = line.given_back = 0;
    line.last_bytes = line.last_count = line.most = line.grown = line.fallen = 0;
    line.last_point = 0;
    line.any = false;
    line.data = NULL;
    na_nprof_chunk_t *c =
        na_writer_chunk(NA_NPROF_TIMELINE, na_nprof_chunk_length(1, sizeof(na_nprof_timeline_t)),
                        sizeof(na_nprof_timeline_t), 0, 0, 0);
    if (c == NULL) return false;
    c->capacity = 1; /* the padding is no second entry */
    line.data = (na_nprof_timeline_t *)(c + 1);
    line.data->interval_ms[0] = FIRST_INTERVAL_MS;
    line.data->check = na_nprof_timeline_check(line.data);
    c->count = 1;
    na_writer_publish(c);
    return true;
}

static void merge_points(na_nprof_point_t *to, const na_nprof_point_t *from) {
    if (from->flags & NA_NPROF_POINT_COUNTED) {
        bool first = !(to->flags & NA_NPROF_POINT_COUNTED);
        if (first || from->requested_max > to->requested_max)
            to->requested_max = from->requested_max;
        if (first || from->requested_min < to->requested_min)
            to->requested_min = from->requested_min;
        if (first || from->blocks_max > to->blocks_max) to->blocks_max = from->blocks_max;
    }
    if (from->physical > to->physical) to->physical = from->physical;
    if (from->virtual_bytes > to->virtual_bytes) to->virtual_bytes = from->virtual_bytes;
    if (from->mapped > to->mapped) to->mapped = from->mapped;
    if (from->own > to->own) to->own = from->own;
    if (from->threads > to->threads) to->threads = from->threads;
    to->alloc_count += from->alloc_count;
    to->alloc_bytes += from->alloc_bytes;
    to->flags |= from->flags & NA_NPROF_POINT_KINDS;
}

/* The head changes between these two. */
static void open_head(na_nprof_timeline_t *d) {
    __atomic_store_n(&d->check, NA_NPROF_CHECK_OPEN, __ATOMIC_RELAXED);
    __atomic_thread_fence(__ATOMIC_RELEASE);
}

static void seal_head(na_nprof_timeline_t *d) {
    __atomic_store_n(&d->check, na_nprof_timeline_check(d), __ATOMIC_RELEASE);
}

/* The point of `ms`, after as many doublings as it takes. A file that has lost this page reads as
 * zero from one moment to the next (guard.c). */
static na_nprof_point_t *timeline_point(uint64_t ms) {
    na_nprof_timeline_t *d = line.data;
    uint32_t a = d->active & 1;
    uint32_t interval = d->interval_ms[a];
    uint64_t i = 0;
    while (interval != 0 && (i = ms / interval) >= NA_NPROF_POINTS) {
        uint32_t b = !a, n = d->count[a];
        for (uint32_t k = 0; k < NA_NPROF_POINTS; k++)
            d->points[b][k] = (na_nprof_point_t){0};
        for (uint32_t k = 0; k < n; k++)
            merge_points(&d->points[b][k / 2], &d->points[a][k]);
        for (uint32_t k = 0; k < (n + 1) / 2; k++)
            if (d->points[b][k].flags != 0) na_nprof_point_seal(&d->points[b][k]);
        interval *= 2;
        open_head(d);
        d->interval_ms[b] = interval;
        d->count[b] = (n + 1) / 2;
        __atomic_store_n(&d->active, b, __ATOMIC_RELEASE);
        seal_head(d);
        line.last_point /= 2;
        a = b;
        uint64_t ticks = na_rec_ticks_of_ms(interval < LEAST_OFTEN_MS ? interval : LEAST_OFTEN_MS);
        atomic_store_explicit(&na_rec.publish_ticks, ticks, memory_order_relaxed);
    }
    if (i >= d->count[a]) {
        open_head(d);
        __atomic_store_n(&d->count[a], (uint32_t)i + 1, __ATOMIC_RELEASE);
        seal_head(d);
    }
    return &d->points[a][i];
}

/* What /proc/self/status says; what it does not say is 0. */
typedef struct status {
    uint64_t size, resident, most, threads; /* KiB, but for the last */
} status_t;

static void read_status_line(const char *p, status_t *to) {
    const struct {
        const char *name;
        uint64_t *number;
    } lines[] = {{"VmSize:", &to->size},
                 {"VmRSS:", &to->resident},
                 {"VmHWM:", &to->most},
                 {"Threads:", &to->threads}};
    for (size_t i = 0; i < sizeof lines / sizeof lines[0]; i++) {
        size_t n = 0;
        while (lines[i].name[n] != 0 && p[n] == lines[i].name[n])
            n++;
        if (lines[i].name[n] != 0) continue;
        p += n;
        while (*p == ' ' || *p == '\t')
            p++;
        for (; *p >= '0' && *p <= '9'; p++)
            *lines[i].number = *lines[i].number * 10 + (uint64_t)(*p - '0');
        return;
    }
}

/* By one thread at a time. */
static status_t read_status(void) {
    static char text[8192]; /* before what is looked for stand the process's groups */
    status_t status = {0};
    long length = na_os_read_file("/proc/self/status", text, sizeof text - 1);
    text[length > 0 ? length : 0] = 0;
    for (const char *p = text; *p != 0; p += *p != 0) {
        read_status_line(p, &status);
        while (*p != '\n' && *p != 0)
            p++;
    }
    return status;
}

void na_timeline_threads(void) {
    if (na_rec.threads_most != NULL)
        __atomic_store_n(&na_rec.header->threads_most, na_rec.threads_most(false),
                         __ATOMIC_RELAXED);
}

/* The most that was in memory since the sample before. What the recorder gave back meanwhile may
 * have been part of it. */
static uint64_t most_since(uint64_t resident, uint64_t most_ever) {
    uint64_t given_back = atomic_load_explicit(&na_rec.own_given_back, memory_order_relaxed);
    uint64_t by = given_back - line.given_back;
    if (line.most_resident != 0 && most_ever > line.most_resident && most_ever > resident + by)
        resident = most_ever - by;
    line.most_resident = most_ever;
    line.given_back = given_back;
    return resident;
}

static void sample_totals(na_nprof_point_t *now) {
    uint64_t began = na_rec_clock_ns(CLOCK_THREAD_CPUTIME_ID);
    const status_t status = read_status();
    na_own_t own;
    if (status.size == 0 || !na_own_measure(&own)) {
        if (line.refused < REFUSED_MOST) line.refused++;
        return;
    }
    line.refused = 0;
    uint64_t size = status.size << 10, threads = status.threads;
    uint64_t resident = most_since(status.resident << 10, status.most << 10);
    uint64_t ours = atomic_load(&na_thread_own); /* they are not the program's */
    threads = threads > ours ? threads - ours : 1;
    now->threads = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX;
    na_timeline_threads();
    now->physical = resident > own.resident ? resident - own.resident : 0;
    now->virtual_bytes = size > own.space ? size - own.space : 0;
    now->mapped = na_rec.mapped != NULL ? na_rec.mapped() : 0;
    now->own = own.resident;
    now->flags |= NA_NPROF_POINT_SAMPLED;
    line.took_ns = na_rec_clock_ns(CLOCK_THREAD_CPUTIME_ID) - began;
}

/* Under the lock, which is let go of meanwhile: no other thread waits for it. */
static void sample(na_nprof_point_t *now, uint64_t ms) {
    line.sampling = true;
    na_unlock(&line.lock);
    sample_totals(now);
    na_lock(&line.lock);
    uint64_t rest = line.took_ns * REST / 1000000,
             least = (uint64_t)SAMPLE_EVERY_MS << line.refused;
    line.next_sample = ms + (rest > least ? rest : least);
    line.sampling = false;
}

/* What was live at the publication before stayed so until this one's interval. */
static void fill_gap(uint32_t point) {
    na_nprof_timeline_t *d = line.data;
    for (uint32_t i = line.last_point + 1; i < point; i++) {
        na_nprof_point_t *p = &d->points[d->active][i];
        if (p->flags & NA_NPROF_POINT_COUNTED) continue;
        na_nprof_point_open(p);
        p->requested_max = p->requested_min = line.last_bytes;
        p->blocks_max = line.last_count;
        p->flags |= NA_NPROF_POINT_COUNTED;
        na_nprof_point_seal(p);
    }
}

/* Below zero: published in another order than it happened. */
static int64_t level_now(int64_t published) {
    return published < 0 ? 0 : published;
}

/* See above. */
static bool is_turn(const na_timeline_event_t *event) {
    if (line.most - line.grown > line.grown / 8 + GROWN_LEAST) {
        line.grown = line.most;
        return true;
    }
    if (line.most - line.fallen > line.fallen / 16 + GROWN_LEAST &&
        event->bytes < line.most - line.most / 32) {
        line.fallen = line.most;
        return true;
    }
    return false;
}

/* `last`: in any case with a sample. */
static void note_event(const na_timeline_event_t *event, uint64_t ms, bool last) {
    na_nprof_point_t now = {.requested_max = level_now(event->most),
                            .requested_min = level_now(event->least),
                            .blocks_max = level_now(event->count),
                            .alloc_count = event->allocs,
                            .alloc_bytes = event->alloc_bytes,
                            .flags = NA_NPROF_POINT_COUNTED};
    na_lock(&line.lock);
    if (event->most > line.most) line.most = event->most;
    if (!line.sampling && (is_turn(event) || ms >= line.next_sample || last)) sample(&now, ms);
    na_nprof_point_t *p = timeline_point(ms);
    uint32_t point = (uint32_t)(p - line.data->points[line.data->active]);
    if (line.any) fill_gap(point);
    /* What was live before this publication was live at the start of the interval, too. */
    if (line.any && !(p->flags & NA_NPROF_POINT_COUNTED)) {
        if (line.last_bytes > now.requested_max) now.requested_max = line.last_bytes;
        if (line.last_bytes < now.requested_min) now.requested_min = line.last_bytes;
        if (line.last_count > now.blocks_max) now.blocks_max = line.last_count;
    }
    na_nprof_point_open(p);
    merge_points(p, &now);
    na_nprof_point_seal(p);
    line.any = true;
    line.last_bytes = level_now(event->bytes);
    line.last_count = level_now(event->count);
    line.last_point = point;
    __atomic_store_n(&na_rec.header->last_ms, ms, __ATOMIC_RELAXED);
    na_unlock(&line.lock);
}

void na_timeline_note(const na_timeline_event_t *event, uint64_t ms) {
    if (line.data != NULL) note_event(event, ms, false);
}

void na_timeline_end(void) {
    na_timeline_threads();
    if (line.data == NULL) return;
    na_lock(&line.lock);
    const na_timeline_event_t event = {.bytes = line.last_bytes,
                                       .most = line.last_bytes,
                                       .least = line.last_bytes,
                                       .count = line.last_count};
    na_unlock(&line.lock);
    note_event(&event, na_rec_ms(), true);
}
