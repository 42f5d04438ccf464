/* findings.c - the thresholds of what asks for attention, in one table, and what is measured. */
#include "profiler/analyze/blocks/findings.h"

#include <math.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/format/nprof_control.h"

#define MIB 1048576.0

typedef struct profile {
    na_reader_t *reader;
    const na_nprof_header_t *header;
    const na_sites_t *sites;
    const na_counters_t *total;
} profile_t;

/* Measures: fills in figures and saving, and returns the value; NaN: does not apply. */
typedef double (*measure_t)(const profile_t *p, na_finding_figure_t *f);

static double share_or_none(double part, double all) {
    return all > 0 ? part / all : NAN;
}

static double count_unscaled(const profile_t *p, double scaled) {
    return scaled / (double)p->header->count_scale;
}

static void saves_bytes(const profile_t *p, na_finding_figure_t *f, double bytes) {
    f->unit = NA_SAVING_BYTES;
    f->saves = bytes;
    f->worth = share_or_none(bytes, (double)p->total->peak_bytes);
}

static void saves_ns(const profile_t *p, na_finding_figure_t *f, double ns) {
    f->unit = NA_SAVING_MS;
    f->saves = ns / 1e6;
    f->worth = share_or_none(f->saves, (double)na_nprof_together_ms(p->header));
}

/* ---- about the profile ---- */

static double other_malloc(const profile_t *p, na_finding_figure_t *f) {
    (void)f;
    return p->header->other_malloc[0] != 0;
}

static double lost_events_figure(const profile_t *p, na_finding_figure_t *f) {
    f->figure[0] = (double)p->header->lost_events;
    return f->figure[0];
}

static double truncated(const profile_t *p, na_finding_figure_t *f) {
    f->figure[0] = share_or_none((double)p->header->truncated_stacks,
                                 count_unscaled(p, (double)p->total->alloc_count));
    return f->figure[0];
}

static double few_samples(const profile_t *p, na_finding_figure_t *f) {
    if (p->header->mode != NA_NPROF_MODE_SAMPLE) return NAN;
    f->figure[0] = (double)p->total->raw_allocs;
    return 1 / (f->figure[0] + 1);
}

/* ---- about the program ---- */

/* Bytes, the share of the peak that they are. While the process runs, blocks are in use. */
static double not_freed(const profile_t *p, na_finding_figure_t *f) {
    double live = (double)p->total->live_bytes;
    if (na_reader_moment(p->reader) != NA_MOMENT_END || live < MIB) return NAN;
    f->figure[0] = live;
    f->figure[1] = share_or_none(f->whole, (double)p->total->peak_bytes);
    f->at_most = true;
    saves_bytes(p, f, f->whole);
    return f->figure[1];
}

/* Allocations, those a second. */
static double rate(const profile_t *p, na_finding_figure_t *f) {
    double seconds = (double)na_nprof_together_ms(p->header) / 1000;
    if (seconds < 0.1) return NAN;
    f->figure[0] = count_unscaled(p, (double)p->total->alloc_count);
    f->figure[1] = f->figure[0] / seconds;
    saves_ns(p, f, f->figure[0] * NA_FINDING_PAIR_NS);
    return f->worth;
}

/* Their share of the blocks. */
static double temporaries(const profile_t *p, na_finding_figure_t *f) {
    double blocks = count_unscaled(p, (double)p->total->temporary_count);
    if (blocks < 10000) return NAN;
    f->figure[0] = share_or_none((double)p->total->temporary_count, (double)p->total->alloc_count);
    saves_ns(p, f, blocks * NA_FINDING_PAIR_NS);
    return f->figure[0];
}

/* Blocks at the peak, their mean size. A block of its own costs at least the pointer to it. */
static double tiny(const profile_t *p, na_finding_figure_t *f) {
    const na_counters_t *t = p->total;
    double blocks = count_unscaled(p, (double)t->peak_count);
    if (blocks < 100000) return NAN;
    f->figure[0] = blocks;
    f->figure[1] = (double)t->peak_bytes / blocks;
    saves_bytes(p, f, blocks * (double)sizeof(void *));
    return 1 / f->figure[1];
}

/* What rounding adds to the peak, as a share. */
static double rounding(const profile_t *p, na_finding_figure_t *f) {
    const na_counters_t *t = p->total;
    if ((double)t->peak_bytes < MIB) return NAN;
    f->figure[0] = share_or_none(f->whole, (double)t->peak_bytes);
    saves_bytes(p, f, f->whole);
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

/* The point with most resident; NULL: never sampled. */
static const na_nprof_point_t *most_resident(const profile_t *p) {
    uint32_t count = 0, interval;
    const na_nprof_point_t *points = na_reader_timeline(p->reader, &count, &interval), *most = NULL;
    for (uint32_t i = 0; points != NULL && i < count; i++)
        if ((points[i].flags & NA_NPROF_POINT_SAMPLED) != 0 &&
            (most == NULL || points[i].physical > most->physical))
            most = &points[i];
    return most;
}

static void take_start(void *arg, uint32_t id, const void *entry) {
    (void)id;
    bool *late = arg;
    *late = (((const na_nprof_session_t *)entry)->flags & NA_NPROF_SESSION_FROM_START) == 0;
}

bool na_begun_late(na_reader_t *reader) {
    bool late = false;
    na_reader_control(reader, NA_NPROF_SESSION, take_start, &late);
    return late;
}

/* What was resident before the profile began, and is not in it; 0 if it began with the process. */
static double resident_before(const profile_t *p) {
    bool late = na_begun_late(p->reader);
    uint32_t count, interval;
    const na_nprof_point_t *points = na_reader_timeline(p->reader, &count, &interval);
    for (uint32_t i = 0; late && points != NULL && i < count; i++) {
        if ((points[i].flags & NA_NPROF_POINT_SAMPLED) == 0) continue;
        double live = points[i].requested_max > 0 ? (double)points[i].requested_max : 0;
        double before = (double)points[i].physical - live;
        return before > 0 ? before : 0;
    }
    return 0;
}

/* Resident at most, the peak, mapped by the allocator then (0: not known). At no time more is
 * requested than at the peak: what is resident beyond that is not what the program asked for. */
static double resident_figures(const profile_t *p, na_finding_figure_t *f) {
    const na_nprof_point_t *point = most_resident(p);
    double peak = (double)p->total->peak_bytes;
    if (point == NULL) return NAN;
    double before = resident_before(p), modules = module_bytes(p);
    double more = (double)point->physical - peak - (before > modules ? before : modules);
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

/* Is what lives at the end what lived for a while before? Else destructors have freed the rest. */
static bool stayed(const profile_t *p) {
    uint32_t count = 0, interval = 1, back = 0;
    const na_nprof_point_t *points = na_reader_timeline(p->reader, &count, &interval);
    double most = NA_FINDING_NEAR * (double)p->total->live_bytes + MIB;
    while (back < count && ((points[count - 1 - back].flags & NA_NPROF_POINT_COUNTED) == 0 ||
                            (double)points[count - 1 - back].requested_max <= most))
        back++;
    double last = (double)p->header->last_ms;
    return last - (double)(count - back) * interval >= NA_FINDING_STAY * last;
}

/* Bytes between live blocks when the spans were looked at, in live blocks. */
static double fragmentation(const profile_t *p, na_finding_figure_t *f) {
    double held[2] = {0, 0};
    na_reader_span_sums(p->reader, add_small, held);
    if (held[0] < 16 * MIB) return NAN;
    if (na_reader_moment(p->reader) == NA_MOMENT_END && !stayed(p)) return NAN;
    memcpy(f->figure, held, sizeof held);
    f->not_peak = true;
    saves_bytes(p, f, held[0]);
    return held[0] / (held[0] + held[1]);
}

static double of_frees(const profile_t *p, uint64_t part) {
    if (count_unscaled(p, (double)p->total->free_count) < 10000) return NAN;
    return share_or_none((double)part, (double)p->total->free_count);
}

/* Their share of the frees. */
static double cross_thread(const profile_t *p, na_finding_figure_t *f) {
    f->figure[0] = of_frees(p, p->total->cross_thread_free_count);
    saves_ns(p, f,
             count_unscaled(p, (double)p->total->cross_thread_free_count) * NA_FINDING_PAIR_NS);
    return f->figure[0];
}

static double cross_node(const profile_t *p, na_finding_figure_t *f) {
    f->figure[0] = of_frees(p, p->total->cross_node_free_count);
    return f->figure[0];
}

/* Bytes that were copied, their share of all that was allocated. */
static double copied(const profile_t *p, na_finding_figure_t *f, uint64_t bytes) {
    if ((double)bytes < 16 * MIB) return NAN;
    f->figure[0] = (double)bytes;
    f->figure[1] = share_or_none(f->figure[0], (double)p->total->alloc_bytes);
    saves_ns(p, f, f->figure[0] * NA_FINDING_COPY_NS);
    return f->figure[1];
}

static double reallocs(const profile_t *p, na_finding_figure_t *f) {
    return copied(p, f, p->total->realloc_copy_bytes);
}

static double growth(const profile_t *p, na_finding_figure_t *f) {
    return copied(p, f, p->total->growth_copied);
}

static double thread_count(const profile_t *p, na_finding_figure_t *f) {
    f->figure[0] = na_threads_peak(p->reader);
    return f->figure[0];
}

/* ---- what a site has of it ---- */

#define FIGURE(name)                                                                               \
    static double name##_of(const na_counters_t *sum) {                                            \
        return (double)sum->name;                                                                  \
    }
FIGURE(alloc_count)
FIGURE(temporary_count)
FIGURE(peak_count)
FIGURE(cross_thread_free_count)
FIGURE(cross_node_free_count)
FIGURE(realloc_copy_bytes)
FIGURE(growth_copied)

FIGURE(live_count)
FIGURE(realloc_count)
FIGURE(growth_count)

/* What lived at the peak and was not freed: at most the smaller of both. */
static double not_freed_of(const na_counters_t *sum) {
    int64_t both = sum->live_bytes < sum->peak_bytes ? sum->live_bytes : sum->peak_bytes;
    return both > 0 ? (double)both : 0;
}

/* What rounding adds at the peak. */
static double rounding_of(const na_counters_t *sum) {
    double waste = (double)sum->alloc_usable - (double)sum->alloc_bytes;
    return sum->alloc_bytes > 0 ? waste / (double)sum->alloc_bytes * (double)sum->peak_bytes : 0;
}

static const struct {
    double threshold;
    measure_t measure;
    double (*part)(const na_counters_t *sum);   /* NULL: the finding has no place */
    double (*blocks)(const na_counters_t *sum); /* of which it is; NULL: no estimate */
} kinds[NA_FINDING_KINDS] = {
    [NA_FINDING_OTHER_MALLOC] = {0, other_malloc, NULL, NULL},
    [NA_FINDING_LOST_EVENTS] = {0, lost_events_figure, NULL, NULL},
    [NA_FINDING_TRUNCATED_STACKS] = {0.01, truncated, NULL, NULL},
    [NA_FINDING_FEW_SAMPLES] = {1 / 400.0, few_samples, NULL, NULL},
    [NA_FINDING_NOT_FREED] = {0.5, not_freed, not_freed_of, live_count_of},
    [NA_FINDING_ALLOCATION_RATE] = {0.02, rate, alloc_count_of, alloc_count_of},
    [NA_FINDING_TEMPORARIES] = {0.5, temporaries, temporary_count_of, temporary_count_of},
    [NA_FINDING_TINY_BLOCKS] = {1 / 32.0, tiny, peak_count_of, peak_count_of},
    [NA_FINDING_ROUNDING] = {0.25, rounding, rounding_of, peak_count_of},
    [NA_FINDING_RESIDENT] = {2, resident_figures, NULL, NULL},
    [NA_FINDING_FRAGMENTATION] = {1 / 3.0, fragmentation, NULL, NULL},
    [NA_FINDING_CROSS_THREAD] = {0.25, cross_thread, cross_thread_free_count_of,
                                 cross_thread_free_count_of},
    [NA_FINDING_CROSS_NODE] = {0.1, cross_node, cross_node_free_count_of, cross_node_free_count_of},
    [NA_FINDING_REALLOCS] = {0.25, reallocs, realloc_copy_bytes_of, realloc_count_of},
    [NA_FINDING_GROWTH] = {0.25, growth, growth_copied_of, growth_count_of},
    [NA_FINDING_THREADS] = {2048, thread_count, NULL, NULL},
};

bool na_finding_has_place(na_finding_kind_t kind) {
    return kinds[kind].part != NULL || kind == NA_FINDING_FRAGMENTATION;
}

double na_finding_part(na_finding_kind_t kind, const na_counters_t *sum) {
    return kinds[kind].part == NULL ? 0 : kinds[kind].part(sum);
}

size_t na_findings(na_reader_t *reader, const na_sites_t *sites,
                   na_finding_figure_t found[NA_FINDING_KINDS]) {
    const profile_t p = {reader, na_reader_header(reader), sites, &sites->total};
    size_t held = 0;
    double whole[NA_FINDING_KINDS] = {0};
    for (size_t i = 0; i < sites->count; i++)
        for (int kind = 0; kind < NA_FINDING_KINDS; kind++)
            whole[kind] += na_finding_part((na_finding_kind_t)kind, &sites->items[i].sum);
    for (int kind = 0; kind < NA_FINDING_KINDS; kind++) {
        na_finding_figure_t f = {.kind = (na_finding_kind_t)kind,
                                 .threshold = kinds[kind].threshold,
                                 .whole = whole[kind]};
        f.value = kinds[kind].measure(&p, &f);
        if (!(f.value > f.threshold)) continue;
        if (f.unit != NA_SAVING_UNKNOWN && f.worth <= NA_FINDING_WORTH) continue;
        if (!(f.worth >= 0)) f.worth = 0;
        if (f.worth > 1) f.worth = 1;
        if (p.header->mode == NA_NPROF_MODE_SAMPLE && kinds[kind].blocks != NULL)
            f.error = na_counters_error(p.total, (int64_t)kinds[kind].blocks(p.total),
                                        p.header->count_scale);
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
    /* The last sample until the peak, or the first after it if there was more in memory: what was
     * asked for is touched later. */
    const na_nprof_point_t *before = NULL, *after = NULL;
    for (uint64_t i = at + 1; i-- != 0 && before == NULL;)
        if ((points[i].flags & NA_NPROF_POINT_SAMPLED) != 0) before = &points[i];
    for (uint64_t i = at + 1; i < count && after == NULL; i++)
        if ((points[i].flags & NA_NPROF_POINT_SAMPLED) != 0) after = &points[i];
    if (before == NULL || after == NULL) return before == NULL ? after : before;
    return after->physical > before->physical ? after : before;
}
