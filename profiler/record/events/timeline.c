/* timeline.c - live memory over time: a fixed number of points, each the extremes of its interval.
 *
 * When the buffer is full, pairs of points are merged into the other buffer and the interval
 * doubles, so the whole run always fits. Driven by publications (there is no thread of ours);
 * points between two of them get the level between. Resident size and number of threads are read at
 * most every 10 ms, from /proc/self/stat, and are absent without /proc. */
#include <fcntl.h>

#include "alloc/sys/os.h"
#include "alloc/sys/syscall.h"
#include "alloc/sys/thread.h"
#include "profiler/record/state/state.h"

#define FIRST_INTERVAL_MS 1u
#define SAMPLE_EVERY_MS   10u
#define REFUSED_MOST      7u  /* doublings of that: 1.3 s */
#define LEAST_OFTEN_MS    10u /* a thread that does anything publishes so often */

static struct {
    na_lock_t lock;
    na_nprof_timeline_t *data; /* NULL: the disk was full at the start */
    uint64_t next_sample;
    unsigned refused; /* samples in a row that a sandbox refused: each time it is asked later */
    int64_t last_bytes, last_count; /* of the publication before */
    uint32_t last_point;            /* where that went */
    bool any;
} line;

bool na_timeline_start(void) {
    na_lock_reset(&line.lock);
    line.next_sample = 0;
    line.refused = 0;
    line.last_bytes = line.last_count = 0;
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
    atomic_fetch_add_explicit(&na_rec.own_resident, c->length, memory_order_relaxed);
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

static uint64_t next_number(const char **p) {
    uint64_t v = 0;
    while (**p >= '0' && **p <= '9')
        v = v * 10 + (uint64_t)(*(*p)++ - '0');
    while (**p == ' ')
        (*p)++;
    return v;
}

void na_timeline_threads(void) {
    if (na_rec.threads_most != NULL)
        __atomic_store_n(&na_rec.header->threads_most, na_rec.threads_most(false),
                         __ATOMIC_RELAXED);
}

static void sample_totals(na_nprof_point_t *now) {
    char text[1024];
    long length = na_os_read_file("/proc/self/stat", text, sizeof text - 1);
    if (length <= 0) {
        if (line.refused < REFUSED_MOST) line.refused++;
        return;
    }
    line.refused = 0;
    text[length] = 0;
    const char *p = text + length; /* the program's name may contain anything: from the last ')' */
    while (p > text && *p != ')')
        p--;
    /* field 3 follows; 20: threads, 23: virtual size in bytes, 24: resident pages */
    for (unsigned field = 2; field < 20 && *p != 0; p++)
        field += *p == ' ';
    uint64_t threads = next_number(&p);
    for (unsigned field = 20; field < 22 && *p != 0; p++)
        field += *p == ' ';
    uint64_t size = next_number(&p), resident = next_number(&p) * na_os_page;
    if (size == 0) return;
    uint64_t ours = atomic_load(&na_thread_own); /* they are not the program's */
    threads = threads > ours ? threads - ours : 1;
    now->threads = threads < UINT32_MAX ? (uint32_t)threads : UINT32_MAX;
    na_timeline_threads();
    /* Records lie among the allocator's metadata, and are there for the profile's sake. */
    uint64_t records = na_rec.records != NULL ? na_rec.records() : 0;
    uint64_t own = atomic_load_explicit(&na_rec.own_resident, memory_order_relaxed) + records;
    uint64_t space = na_writer_space() + records;
    now->physical = resident > own ? resident - own : 0;
    now->virtual_bytes = size > space ? size - space : 0;
    now->mapped = na_rec.mapped != NULL ? na_rec.mapped() : 0;
    now->own = own;
    now->flags |= NA_NPROF_POINT_SAMPLED;
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

void na_timeline_note(const na_timeline_event_t *event, uint64_t ms) {
    if (line.data == NULL) return;
    na_nprof_point_t now = {.requested_max = level_now(event->most),
                            .requested_min = level_now(event->least),
                            .blocks_max = level_now(event->count),
                            .alloc_count = event->allocs,
                            .alloc_bytes = event->alloc_bytes,
                            .flags = NA_NPROF_POINT_COUNTED};
    na_lock(&line.lock);
    if (ms >= line.next_sample) {
        sample_totals(&now);
        line.next_sample = ms + ((uint64_t)SAMPLE_EVERY_MS << line.refused);
    }
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
