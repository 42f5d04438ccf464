/* life_verdicts.c - see life_verdicts.h. */
#include "profiler/analyze/policy/life_verdicts.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/block_histogram.h"
#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/findings.h"
#include "profiler/analyze/blocks/trace_replay.h"

#define LONG_PART 0.5     /* of the run */
#define MOSTLY    0.5     /* of a site's blocks, long-lived */
#define SMALL_MAX 32768.0 /* larger blocks have spans of their own (alloc/core/central/block.h) */
#define SPAN_PAGE 8192.0  /* of small blocks (page/pageheap.h); most spans are one or a few */
#define SIZES     12u     /* doublings, 16 bytes to SMALL_MAX */

typedef struct lives {
    na_reader_t *reader;
    const na_sites_t *sites;
    na_site_life_t *items;
    uint32_t *index; /* by stack: of its site, plus 1; 0: none */
    uint32_t stacks;
} lives_t;

static double scale_of(const lives_t *l) {
    return (double)na_reader_header(l->reader)->count_scale;
}

static na_site_life_t *life_of(const lives_t *l, uint32_t stack) {
    return stack < l->stacks && l->index[stack] != 0 ? &l->items[l->index[stack] - 1] : NULL;
}

static double mean_size(const na_counters_t *sum, double scale) {
    return sum->alloc_count == 0 ? 0 : (double)sum->alloc_bytes * scale / (double)sum->alloc_count;
}

/* Ages that make a block long-lived. */
static double long_age(const lives_t *l) {
    const na_nprof_header_t *h = na_reader_header(l->reader);
    double age_ns = na_age_ns(h);
    return age_ns > 0 ? LONG_PART * (double)h->last_ms * 1e6 / age_ns : INFINITY;
}

/* Share of the freed blocks that had lived so long; within a bucket lifetimes are taken as even. */
static double share_above(const na_site_lives_t *lives, double age) {
    double all = 0, above = 0;
    for (uint32_t b = 0; b < NA_NPROF_AGE_BUCKETS; b++) {
        double count = (double)lives->count[b];
        double from = na_bucket_from(b), below = na_bucket_from(b + 1);
        all += count;
        if (from >= age || b + 1 == NA_NPROF_AGE_BUCKETS)
            above += count;
        else if (below > age)
            above += count * (below - age) / (below - from);
    }
    return all > 0 ? above / all : 0;
}

static bool count_summed(const lives_t *l) {
    na_lives_table_t table = {0};
    bool good = na_lives_fold(l->reader, &table);
    double age = long_age(l), scale = scale_of(l);
    for (size_t i = 0; good && i < l->sites->count; i++) {
        const na_site_t *site = &l->sites->items[i];
        const na_site_lives_t *lives = na_lives_of(&table, site->site);
        if (lives != NULL)
            l->items[i].longs += share_above(lives, age) * (double)site->sum.free_count / scale;
    }
    na_lives_free(&table);
    return good;
}

static bool count_events(const lives_t *l) {
    const na_nprof_header_t *h = na_reader_header(l->reader);
    na_replay_t *replay = na_replay_open(l->reader);
    if (replay == NULL) return false;
    double age = long_age(l) * (double)(UINT64_C(1) << h->age_shift); /* ticks */
    na_event_t event;
    na_live_t freed;
    while (na_replay_next(replay, &event, &freed)) {
        na_site_life_t *life = freed.address == 0 ? NULL : life_of(l, freed.stack);
        if (life != NULL && event.ticks >= freed.ticks &&
            (double)(event.ticks - freed.ticks) >= age)
            life->longs++;
    }
    bool good = !na_replay_failed(replay);
    na_replay_close(replay);
    return good;
}

static void add_kept_span(void *arg, const na_nprof_span_site_t *site) {
    const lives_t *l = arg;
    na_site_life_t *life = life_of(l, site->site);
    if (life != NULL) life->kept += (double)site->sparse_kept;
}

/* ---- the estimate ---- */

/* Bytes of a span for blocks of this size, about: the fewest pages of which an eighth at most lies
 * unused at the end. */
static double span_bytes(double size) {
    for (double bytes = SPAN_PAGE; bytes < 8 * SPAN_PAGE; bytes += SPAN_PAGE)
        if (bytes >= size && fmod(bytes, size) * 8 <= bytes) return bytes;
    return 8 * SPAN_PAGE;
}

static uint32_t size_index(double size) {
    uint32_t at = 0;
    for (double most = 16; most < size && at + 1 < SIZES; most *= 2)
        at++;
    return at;
}

typedef struct mixed {
    double longs, others, bytes; /* blocks at the peak; bytes of all of them */
} mixed_t;

/* Bytes that each long-lived block of about this size keeps in vain. */
static double kept_each(const mixed_t *m) {
    double all = m->longs + m->others;
    if (!(m->longs > 0) || !(m->others > 0)) return 0;
    double size = m->bytes / all, span = span_bytes(size < 16 ? 16 : size), fit = span / size;
    double pinned = all / fit * (1 - pow(1 - m->longs / all, fit));
    double kept = pinned * span - m->longs * size;
    return kept > 0 ? kept / m->longs : 0;
}

static void estimate_lives(const lives_t *l) {
    mixed_t sums[SIZES] = {{0}};
    double scale = scale_of(l);
    for (size_t i = 0; i < l->sites->count; i++) {
        const na_site_life_t *life = &l->items[i];
        double size = mean_size(&l->sites->items[i].sum, scale);
        if (!life->small || !(life->peak > 0)) continue;
        mixed_t *to = &sums[size_index(size)];
        *(life->is_long ? &to->longs : &to->others) += life->peak;
        to->bytes += life->peak * size;
    }
    for (size_t i = 0; i < l->sites->count; i++) {
        na_site_life_t *life = &l->items[i];
        if (!life->is_long || life->measured) continue;
        life->kept =
            life->peak * kept_each(&sums[size_index(mean_size(&l->sites->items[i].sum, scale))]);
    }
}

static void judge_lives(const lives_t *l, bool walked) {
    double scale = scale_of(l);
    for (size_t i = 0; i < l->sites->count; i++) {
        const na_counters_t *sum = &l->sites->items[i].sum;
        na_site_life_t *life = &l->items[i];
        double live = sum->live_count > 0 ? (double)sum->live_count / scale : 0;
        double peak = sum->peak_count > 0 ? (double)sum->peak_count / scale : 0;
        life->blocks = (double)sum->alloc_count / scale;
        life->longs += live;
        life->peak = live > peak ? live : peak;
        life->small = life->blocks > 0 && mean_size(sum, scale) <= SMALL_MAX;
        life->is_long = life->small && life->longs >= MOSTLY * life->blocks;
        life->measured = walked && life->is_long && live >= MOSTLY * life->peak;
        if (!life->measured) life->kept = 0;
    }
    estimate_lives(l);
}

static bool read_lives(lives_t *l, na_lives_found_t *found) {
    const na_nprof_header_t *h = na_reader_header(l->reader);
    l->stacks = na_reader_stacks(l->reader).count;
    l->index = calloc((size_t)l->stacks + 1, sizeof *l->index);
    l->items = found->items = calloc(l->sites->count + 1, sizeof *l->items);
    if (l->index == NULL || l->items == NULL) return false;
    for (size_t i = 0; i < l->sites->count; i++)
        if (l->sites->items[i].site < l->stacks)
            l->index[l->sites->items[i].site] = (uint32_t)i + 1;
    if (!(h->mode == NA_NPROF_MODE_TRACE ? count_events(l) : count_summed(l))) return false;
    bool walked = na_reader_entries(l->reader, NA_NPROF_SPAN_SITES) != 0;
    if (walked) na_reader_span_sites(l->reader, add_kept_span, l);
    judge_lives(l, walked);
    for (size_t i = 0; i < l->sites->count; i++) {
        if (!l->items[i].is_long) continue;
        found->kept += l->items[i].kept;
        if (l->items[i].measured) found->measured += l->items[i].kept;
    }
    const na_nprof_point_t *point = na_point_at_peak(l->reader, l->sites);
    found->resident = point == NULL ? 0 : (double)point->physical;
    found->run_s = (double)h->last_ms / 1e3;
    return true;
}

bool na_life_verdicts(na_reader_t *reader, const na_sites_t *sites, na_lives_found_t *found) {
    *found = (na_lives_found_t){0};
    lives_t l = {.reader = reader, .sites = sites};
    bool good = read_lives(&l, found);
    free(l.index);
    return good;
}

void na_life_verdicts_free(na_lives_found_t *found) {
    free(found->items);
    *found = (na_lives_found_t){0};
}
