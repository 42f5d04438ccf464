/* block_histogram.c - fills histograms from a trace's events, or from the sums of the other modes.
 */
#include "profiler/analyze/blocks/block_histogram.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/trace_replay.h"

typedef struct fill {
    na_block_histogram_t *to;
    na_wanted_fn_t wanted;
    void *arg;
    uint64_t end; /* ticks of the last event */
    uint32_t age_shift;
    uint64_t scale;
} fill_t;

static bool takes(const fill_t *f, uint32_t site) {
    return f->wanted == NULL || f->wanted(f->arg, site == NA_NPROF_NO_STACK ? NA_NPROF_ROOT : site);
}

/* ---- a trace ---- */

static void add_new_block(const fill_t *f, const na_event_t *event) {
    if (!takes(f, event->stack)) return;
    na_size_sum_t *s = &f->to->size[na_bucket_of(event->size, NA_NPROF_SIZE_BUCKETS)];
    s->count += f->scale;
    s->told += f->scale;
    s->bytes += event->size;
    s->usable += event->size + event->slack;
}

static void add_freed_block(const fill_t *f, const na_live_t *block, uint64_t ticks) {
    if (!takes(f, block->stack)) return;
    uint64_t age = ticks > block->ticks ? (ticks - block->ticks) >> f->age_shift : 0;
    uint32_t bucket = na_bucket_of(age, NA_NPROF_AGE_BUCKETS);
    f->to->freed[bucket] += f->scale;
    f->to->by_size[na_bucket_of(block->size, NA_NPROF_SIZE_BUCKETS)][bucket] += f->scale;
}

static void add_live(void *arg, const na_live_t *block) {
    const fill_t *f = arg;
    if (!takes(f, block->stack)) return;
    uint64_t age = f->end > block->ticks ? (f->end - block->ticks) >> f->age_shift : 0;
    na_size_sum_t *s = &f->to->size[na_bucket_of(block->size, NA_NPROF_SIZE_BUCKETS)];
    f->to->live[na_bucket_of(age, NA_NPROF_AGE_BUCKETS)] += f->scale;
    f->to->live_count = na_add_signed(f->to->live_count, (int64_t)f->scale);
    s->live_count = na_add_signed(s->live_count, (int64_t)f->scale);
    s->live_bytes = na_add_signed(s->live_bytes, (int64_t)block->size);
}

static bool read_trace(fill_t *f, na_replay_t *replay) {
    na_event_t event;
    na_live_t freed;
    f->to->sized = true;
    while (na_replay_next(replay, &event, &freed)) {
        f->end = event.ticks;
        if (freed.address != 0) add_freed_block(f, &freed, event.ticks);
        if (na_event_is_alloc(&event) && event.address != 0) add_new_block(f, &event);
    }
    na_replay_each(replay, add_live, f);
    return !na_replay_failed(replay);
}

/* ---- sums ---- */

static void add_site_sums(const fill_t *f, const na_site_t *site) {
    const na_counters_t *c = &site->sum;
    f->to->live_count = na_add_signed(f->to->live_count, c->live_count);
    if (c->alloc_count == 0) return;
    uint32_t least = na_bucket_of(c->size_min, NA_NPROF_SIZE_BUCKETS);
    bool one = least == na_bucket_of(c->size_max, NA_NPROF_SIZE_BUCKETS);
    na_size_sum_t *s = one ? &f->to->size[least] : &f->to->mixed;
    s->count += c->alloc_count;
    s->told += c->alloc_count;
    s->bytes += c->alloc_bytes;
    s->usable += c->alloc_usable;
    s->live_count = na_add_signed(s->live_count, c->live_count);
    s->live_bytes = na_add_signed(s->live_bytes, c->live_bytes);
}

/* Of the whole profile there are counts by size, whatever the sites' ranges are. */
static bool use_whole(na_block_histogram_t *to, na_reader_t *reader) {
    na_nprof_sizes_t *whole = malloc(sizeof *whole);
    if (whole == NULL) return false;
    na_sizes_fold(reader, whole);
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++) {
        uint64_t gone = 0;
        for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++) {
            gone += to->by_size[s][a] = whole->lives[s][a];
            to->freed[a] += whole->lives[s][a];
        }
        to->size[s].count = whole->allocs[s];
        to->size[s].live_count = (int64_t)(whole->allocs[s] - gone);
    }
    to->mixed.count = 0;
    to->mixed.live_count = 0;
    to->sized = true;
    free(whole);
    return true;
}

static bool read_size_sums(const fill_t *f, na_reader_t *reader, const na_sites_t *sites) {
    na_block_histogram_t *to = f->to;
    for (size_t i = 0; i < sites->count; i++)
        if (takes(f, sites->items[i].site)) add_site_sums(f, &sites->items[i]);
    if (f->wanted == NULL) return use_whole(to, reader);
    na_lives_table_t lives;
    bool good = na_lives_fold(reader, &lives);
    to->raw = na_reader_header(reader)->mode == NA_NPROF_MODE_SAMPLE;
    for (size_t i = 0; good && i < lives.count; i++)
        for (uint32_t a = 0; takes(f, lives.items[i].site) && a < NA_NPROF_AGE_BUCKETS; a++)
            to->freed[a] += lives.items[i].count[a] * (to->raw ? 1 : f->scale);
    na_lives_free(&lives);
    return good;
}

bool na_block_histogram_read(na_reader_t *reader, na_replay_t *replay, const na_sites_t *sites,
                             na_wanted_fn_t wanted, void *arg, na_block_histogram_t *histogram) {
    const na_nprof_header_t *h = na_reader_header(reader);
    memset(histogram, 0, sizeof *histogram);
    fill_t fill = {.to = histogram,
                   .wanted = wanted,
                   .arg = arg,
                   .age_shift = h->age_shift,
                   .scale = h->count_scale};
    return replay != NULL ? read_trace(&fill, replay) : read_size_sums(&fill, reader, sites);
}
