/* findings.c - the thresholds of what asks for attention, in one table, and what is measured. */
#include "profiler/analyze/blocks/findings.h"

#include <math.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/metric_keys.h"

#define MIB 1048576.0

typedef struct profile {
    na_reader_t *reader;
    const na_nprof_header_t *header;
    const na_sites_t *sites;
    const na_counters_t *total;
} profile_t;

/* Measures: fills in figures and saving, and returns the value; NaN: does not apply. */
typedef double (*measure_t)(const profile_t *p, na_found_t *f);

static double share_or_none(double part, double all) {
    return all > 0 ? part / all : NAN;
}

static double count_unscaled(const profile_t *p, double scaled) {
    return scaled / (double)p->header->count_scale;
}

static void saves_bytes(const profile_t *p, na_found_t *f, double bytes) {
    f->unit = NA_SAVING_BYTES;
    f->saves = bytes;
    f->worth = share_or_none(bytes, (double)p->total->peak_bytes);
}

static void saves_ns(const profile_t *p, na_found_t *f, double ns) {
    f->unit = NA_SAVING_MS;
    f->saves = ns / 1e6;
    f->worth = share_or_none(f->saves, (double)p->header->last_ms);
}

/* ---- about the profile ---- */

static double other_malloc(const profile_t *p, na_found_t *f) {
    (void)f;
    return p->header->other_malloc[0] != 0;
}

static double lost_events_figure(const profile_t *p, na_found_t *f) {
    f->figure[0] = (double)p->header->lost_events;
    return f->figure[0];
}

static double truncated(const profile_t *p, na_found_t *f) {
    f->figure[0] = share_or_none((double)p->header->truncated_stacks,
                                 count_unscaled(p, (double)p->total->alloc_count));
    return f->figure[0];
}

static double few_samples(const profile_t *p, na_found_t *f) {
    if (p->header->mode != NA_NPROF_MODE_SAMPLE) return NAN;
    f->figure[0] = (double)p->total->raw_allocs;
    return 1 / (f->figure[0] + 1);
}

/* ---- about the program ---- */

/* Bytes, their share of the peak. */
static double not_freed(const profile_t *p, na_found_t *f) {
    double live = (double)p->total->live_bytes;
    if (p->header->state != NA_NPROF_CLOSED || live < MIB) return NAN;
    f->figure[0] = live;
    f->figure[1] = share_or_none(live, (double)p->total->peak_bytes);
    f->at_most = true;
    saves_bytes(p, f, live);
    return f->figure[1];
}

/* Allocations, those a second. */
static double rate(const profile_t *p, na_found_t *f) {
    double seconds = (double)p->header->last_ms / 1000;
    if (seconds < 0.1) return NAN;
    f->figure[0] = count_unscaled(p, (double)p->total->alloc_count);
    f->figure[1] = f->figure[0] / seconds;
    saves_ns(p, f, f->figure[0] * NA_FINDING_PAIR_NS);
    return f->worth;
}

/* Their share of the blocks. */
static double temporaries(const profile_t *p, na_found_t *f) {
    double blocks = count_unscaled(p, (double)p->total->temporary_count);
    if (blocks < 10000) return NAN;
    f->figure[0] = share_or_none((double)p->total->temporary_count, (double)p->total->alloc_count);
    saves_ns(p, f, blocks * NA_FINDING_PAIR_NS);
    return f->figure[0];
}

/* Blocks at the peak, their mean size. A block of its own costs at least the pointer to it. */
static double tiny(const profile_t *p, na_found_t *f) {
    const na_counters_t *t = p->total;
    double blocks = count_unscaled(p, (double)t->peak_count);
    if (blocks < 100000) return NAN;
    f->figure[0] = blocks;
    f->figure[1] = (double)t->peak_bytes / blocks;
    saves_bytes(p, f, blocks * (double)sizeof(void *));
    return 1 / f->figure[1];
}

/* What rounding adds, as a share. */
static double rounding(const profile_t *p, na_found_t *f) {
    const na_counters_t *t = p->total;
    if ((double)t->peak_bytes < MIB) return NAN;
    f->figure[0] =
        share_or_none((double)t->alloc_usable - (double)t->alloc_bytes, (double)t->alloc_bytes);
    saves_bytes(p, f, f->figure[0] * (double)t->peak_bytes);
    return f->figure[0];
}

/* What the program and its libraries map of their files: at most so much of it is resident. */
static double module_bytes(const profile_t *p) {
    na_module_table_t modules = na_reader_modules(p->reader);
    double bytes = 0;
    for (uint32_t i = 0; i < modules.count; i++)
        bytes += (double)(modules.items[i].end - modules.items[i].start);
    return bytes;
}

/* Resident, the peak, mapped by the allocator (0: not known). */
static double resident_figures(const profile_t *p, na_found_t *f) {
    const na_nprof_point_t *point = na_point_at_peak(p->reader, p->sites);
    double peak = (double)p->total->peak_bytes;
    if (point == NULL) return NAN;
    double more = (double)point->physical - peak - module_bytes(p);
    if (more < 32 * MIB) return NAN;
    f->figure[0] = (double)point->physical;
    f->figure[1] = peak;
    f->figure[2] = (double)point->mapped;
    f->at_most = true;
    saves_bytes(p, f, more);
    return share_or_none(peak + more, peak);
}

static void add_small(void *arg, const na_nprof_span_sum_t *s) {
    double *held = arg; /* resident and in no live block; in live blocks */
    if (s->cls == NA_NPROF_SPANS_UNSEEN) return;
    held[1] += (double)s->usable;
    /* Large blocks are often resident in part: that is not memory that is kept for others. */
    if (s->cls != 0 && s->resident > s->usable) held[0] += (double)(s->resident - s->usable);
}

/* Bytes between live blocks at the end, in live blocks. */
static double fragmentation(const profile_t *p, na_found_t *f) {
    double held[2] = {0, 0};
    na_reader_span_sums(p->reader, add_small, held);
    if (held[0] < 16 * MIB) return NAN;
    memcpy(f->figure, held, sizeof held);
    saves_bytes(p, f, held[0]);
    return held[0] / (held[0] + held[1]);
}

static double of_frees(const profile_t *p, uint64_t part) {
    if (count_unscaled(p, (double)p->total->free_count) < 10000) return NAN;
    return share_or_none((double)part, (double)p->total->free_count);
}

/* Their share of the frees. */
static double cross_thread(const profile_t *p, na_found_t *f) {
    f->figure[0] = of_frees(p, p->total->cross_thread_free_count);
    saves_ns(p, f,
             count_unscaled(p, (double)p->total->cross_thread_free_count) * NA_FINDING_PAIR_NS);
    return f->figure[0];
}

static double cross_node(const profile_t *p, na_found_t *f) {
    f->figure[0] = of_frees(p, p->total->cross_node_free_count);
    return f->figure[0];
}

/* Bytes that were copied, their share of all that was allocated. */
static double copied(const profile_t *p, na_found_t *f, uint64_t bytes) {
    if ((double)bytes < 16 * MIB) return NAN;
    f->figure[0] = (double)bytes;
    f->figure[1] = share_or_none(f->figure[0], (double)p->total->alloc_bytes);
    saves_ns(p, f, f->figure[0] * NA_FINDING_COPY_NS);
    return f->figure[1];
}

static double reallocs(const profile_t *p, na_found_t *f) {
    return copied(p, f, p->total->realloc_copy_bytes);
}

static double growth(const profile_t *p, na_found_t *f) {
    return copied(p, f, p->total->growth_copied);
}

static double thread_count(const profile_t *p, na_found_t *f) {
    f->figure[0] = na_threads_peak(p->reader);
    return f->figure[0];
}

/* ---- what a site has of it ---- */

#define FIGURE(name)                                                                               \
    static double name##_of(const na_counters_t *sum) {                                            \
        return (double)sum->name;                                                                  \
    }
FIGURE(live_bytes)
FIGURE(alloc_count)
FIGURE(temporary_count)
FIGURE(peak_count)
FIGURE(cross_thread_free_count)
FIGURE(cross_node_free_count)
FIGURE(realloc_copy_bytes)
FIGURE(growth_copied)

/* What rounding adds at the peak. */
static double rounding_of(const na_counters_t *sum) {
    double waste = (double)sum->alloc_usable - (double)sum->alloc_bytes;
    return sum->alloc_bytes > 0 ? waste / (double)sum->alloc_bytes * (double)sum->peak_bytes : 0;
}

static const struct {
    double threshold;
    measure_t measure;
    double (*part)(const na_counters_t *sum); /* NULL: the finding has no place */
} kinds[NA_FINDING_KINDS] = {
    [NA_FINDING_OTHER_MALLOC] = {0, other_malloc, NULL},
    [NA_FINDING_LOST_EVENTS] = {0, lost_events_figure, NULL},
    [NA_FINDING_TRUNCATED_STACKS] = {0.01, truncated, NULL},
    [NA_FINDING_FEW_SAMPLES] = {1 / 400.0, few_samples, NULL},
    [NA_FINDING_NOT_FREED] = {0.5, not_freed, live_bytes_of},
    [NA_FINDING_ALLOCATION_RATE] = {0.02, rate, alloc_count_of},
    [NA_FINDING_TEMPORARIES] = {0.5, temporaries, temporary_count_of},
    [NA_FINDING_TINY_BLOCKS] = {1 / 32.0, tiny, peak_count_of},
    [NA_FINDING_ROUNDING] = {0.25, rounding, rounding_of},
    [NA_FINDING_RESIDENT] = {2, resident_figures, NULL},
    [NA_FINDING_FRAGMENTATION] = {1 / 3.0, fragmentation, NULL},
    [NA_FINDING_CROSS_THREAD] = {0.25, cross_thread, cross_thread_free_count_of},
    [NA_FINDING_CROSS_NODE] = {0.1, cross_node, cross_node_free_count_of},
    [NA_FINDING_REALLOCS] = {0.25, reallocs, realloc_copy_bytes_of},
    [NA_FINDING_GROWTH] = {0.25, growth, growth_copied_of},
    [NA_FINDING_THREADS] = {2048, thread_count, NULL},
};

bool na_finding_has_place(na_finding_kind_t kind) {
    return kinds[kind].part != NULL || kind == NA_FINDING_FRAGMENTATION;
}

double na_finding_part(na_finding_kind_t kind, const na_counters_t *sum) {
    return kinds[kind].part == NULL ? 0 : kinds[kind].part(sum);
}

size_t na_findings(na_reader_t *reader, const na_sites_t *sites,
                   na_found_t found[NA_FINDING_KINDS]) {
    const profile_t p = {reader, na_reader_header(reader), sites, &sites->total};
    size_t held = 0;
    for (int kind = 0; kind < NA_FINDING_KINDS; kind++) {
        na_found_t f = {.kind = (na_finding_kind_t)kind, .threshold = kinds[kind].threshold};
        f.value = kinds[kind].measure(&p, &f);
        if (!(f.value > f.threshold)) continue;
        if (f.unit != NA_SAVING_UNKNOWN && f.worth <= NA_FINDING_WORTH) continue;
        if (!(f.worth >= 0)) f.worth = 0;
        if (f.worth > 1) f.worth = 1;
        found[held++] = f;
    }
    return held;
}

const na_nprof_point_t *na_point_at_peak(na_reader_t *reader, const na_sites_t *sites) {
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(reader, &count, &interval);
    if (points == NULL) return NULL;
    uint64_t at = na_peak_ms(na_reader_header(reader), sites) / interval;
    if (at >= count) at = count - 1;
    /* Sampled: the interval may lack a sample, then the nearest one counts, the later first. */
    for (uint32_t distance = 0; distance < count; distance++) {
        if (at + distance < count && (points[at + distance].flags & NA_NPROF_POINT_SAMPLED) != 0)
            return &points[at + distance];
        if (distance <= at && (points[at - distance].flags & NA_NPROF_POINT_SAMPLED) != 0)
            return &points[at - distance];
    }
    return NULL;
}
