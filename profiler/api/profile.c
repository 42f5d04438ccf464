/* profile.c - the C API of profile.h over the reader, the analysis and the symbols. */
#include "numalloc/profile.h"

#include <math.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/blocks/metric_keys.h"
#include "profiler/api/profile_priv.h"

/* What the recorder keeps at most; only a hostile file has deeper stacks. */
#define DEEPEST 1024u

numalloc_profile_t *numalloc_profile_open(const char *path, char *why, size_t why_size) {
    numalloc_profile_t *p = calloc(1, sizeof *p);
    if (p != NULL) {
        p->reader = na_reader_open(path, why, why_size);
        if (p->reader != NULL && na_sites_fold(p->reader, &p->sites)) {
            na_sites_sort(&p->sites, NA_ORDER_PEAK);
            /* Damage anywhere is known from here on. */
            uint32_t count, interval;
            na_reader_threads(p->reader);
            na_reader_modules(p->reader);
            na_reader_timeline(p->reader, &count, &interval);
            if (na_access_load(p->reader, &p->access)) return p;
        }
    }
    char text[256] = "out of memory";
    if (p == NULL || p->reader != NULL) {
        if (p != NULL) na_reader_over_budget(p->reader, text, sizeof text);
        snprintf(why, why_size, "%.200s: %s", path, text);
    }
    numalloc_profile_close(p);
    return NULL;
}

void numalloc_profile_close(numalloc_profile_t *p) {
    if (p == NULL) return;
    if (p->events != NULL) na_events_close(p->events);
    na_access_free(&p->access);
    na_symbols_close(p->symbols);
    na_sites_free(&p->sites);
    na_reader_close(p->reader);
    free(p);
}

int numalloc_profile_damage(numalloc_profile_t *p, size_t index, char *text, size_t size) {
    if (index >= na_reader_issue_count(p->reader)) return -1;
    na_reader_issue_text(p->reader, (uint32_t)index, text, size);
    return 0;
}

void numalloc_profile_header(numalloc_profile_t *p, numalloc_profile_header_t *header,
                             size_t size) {
    const na_nprof_header_t *h = na_reader_header(p->reader);
    const numalloc_profile_header_t full = {
        .program = h->program,
        .command = h->command,
        .host = h->host,
        .writer = h->writer,
        .pid = h->pid,
        .ppid = h->ppid,
        .inherited_pid = h->inherited_pid,
        .rank = h->mpi_rank,
        .ranks = h->mpi_size,
        .mode = h->mode,
        .nodes = h->node_count,
        .closed = h->state == NA_NPROF_CLOSED,
        .start_unix_ns = h->start_unix_ns,
        .duration_ms = h->last_ms,
        .peak_ms = na_peak_ms(h, &p->sites),
        .sample_interval = h->sample_interval,
        .publish_quantum = h->publish_quantum,
        .own_bytes = h->own_bytes,
        .lost_events = h->lost_events,
        .truncated_stacks = h->truncated_stacks,
        .before_frees = h->before_frees,
        .job = h->job,
        .dump = na_reader_dump(p->reader),
    };
    na_fill_struct(header, size, &full, sizeof full);
}

const char *numalloc_profile_environment(numalloc_profile_t *p, size_t index) {
    size_t size;
    const char *text = na_reader_environment(p->reader, &size);
    for (size_t at = 0; text != NULL && at < size; at += strlen(text + at) + 1)
        if (index-- == 0) return text + at;
    return NULL;
}

uint32_t numalloc_profile_modules(numalloc_profile_t *p) {
    uint32_t count = na_reader_modules(p->reader).count;
    return count == 0 ? 0 : count - 1;
}

int numalloc_profile_module(numalloc_profile_t *p, uint32_t id, numalloc_profile_module_t *module,
                            size_t size) {
    na_module_table_t modules = na_reader_modules(p->reader);
    if (id == 0 || id >= modules.count || modules.items[id].flags == 0) return -1;
    const na_nprof_module_t *m = &modules.items[id];
    const numalloc_profile_module_t full = {
        .path = m->path,
        .start = m->start,
        .end = m->end,
        .bias = m->bias,
        .load_ms = m->load_ms,
        .unload_ms = m->unload_ms,
        .build_id = m->build_id,
        .build_id_size = m->build_id_size,
        .main = (m->flags & NA_NPROF_MODULE_MAIN) != 0,
    };
    na_fill_struct(module, size, &full, sizeof full);
    return 0;
}

static double unscaled(const numalloc_profile_t *p, uint64_t count) {
    return (double)count / (double)na_reader_header(p->reader)->count_scale;
}

uint32_t numalloc_profile_threads(numalloc_profile_t *p) {
    uint32_t count = na_reader_threads(p->reader).count;
    return count == 0 ? 0 : count - 1;
}

int numalloc_profile_thread(numalloc_profile_t *p, uint32_t id, numalloc_profile_thread_t *thread,
                            size_t size) {
    na_thread_table_t threads = na_reader_threads(p->reader);
    if (id == 0 || id >= threads.count || threads.items[id].tid == 0) return -1;
    const na_nprof_thread_t *t = &threads.items[id];
    const numalloc_profile_thread_t full = {
        .name = t->name,
        .tid = t->tid,
        .start_ms = t->start_ms,
        .end_ms = t->end_ms,
        .allocations = unscaled(p, t->alloc_count),
        .frees = unscaled(p, t->free_count),
        .total_bytes = t->alloc_bytes,
    };
    na_fill_struct(thread, size, &full, sizeof full);
    return 0;
}

/* ---- figures ---- */

int numalloc_profile_metrics(const numalloc_profile_t *p) {
    (void)p;
    return (int)na_metric_count();
}

int numalloc_profile_metric(const numalloc_profile_t *p, const char *name) {
    for (int m = 0; m < numalloc_profile_metrics(p); m++) {
        const char *key = na_metric_key((size_t)m);
        if (key != NULL && strcmp(key, name) == 0) return m;
    }
    return -1;
}

static bool exists(int metric) {
    return metric >= 0 && (size_t)metric < na_metric_count();
}

const char *numalloc_profile_metric_name(const numalloc_profile_t *p, int metric,
                                         const char **meaning) {
    (void)p;
    if (!exists(metric)) return NULL;
    if (meaning != NULL) *meaning = na_metrics[metric].meaning;
    return na_metric_key((size_t)metric);
}

double numalloc_profile_total(const numalloc_profile_t *p, int metric) {
    if (!exists(metric) || na_metrics[metric].alone) return NAN;
    return na_metric_shown(na_reader_header(p->reader), (size_t)metric, &p->sites.total);
}

size_t numalloc_profile_sites(const numalloc_profile_t *p) {
    return p->sites.count;
}

double numalloc_profile_site(const numalloc_profile_t *p, size_t site, int metric) {
    if (!exists(metric) || site >= p->sites.count) return NAN;
    return na_metric_shown(na_reader_header(p->reader), (size_t)metric, &p->sites.items[site].sum);
}

uint32_t numalloc_profile_site_stack(const numalloc_profile_t *p, size_t site) {
    return site < p->sites.count ? p->sites.items[site].site : 0;
}

static bool open_profile_symbols(numalloc_profile_t *p) {
    if (p->symbols != NULL) return true;
    p->symbols = na_symbols_open(na_reader_stacks(p->reader), na_reader_modules(p->reader));
    if (p->symbols != NULL) na_symbols_python(p->symbols, p->reader);
    if (p->symbols != NULL) na_symbols_process(p->symbols, na_reader_header(p->reader));
    size_t size;
    const char *added = na_reader_symbols(p->reader, &size);
    return p->symbols != NULL && (added == NULL || na_symbols_add(p->symbols, added, size));
}

size_t numalloc_profile_stack_frames(numalloc_profile_t *p, uint32_t stack, size_t first,
                                     numalloc_profile_frame_t *frames, size_t frame_size,
                                     size_t room) {
    if (!open_profile_symbols(p)) return 0;
    na_stack_table_t stacks = na_reader_stacks(p->reader);
    size_t at = 0;
    uint32_t depth = 0;
    for (uint32_t node = stack; node > NA_NPROF_ROOT && node < stacks.count && depth < DEEPEST;
         node = stacks.items[node].parent, depth++) {
        const na_symbol_frame_t *known;
        uint32_t count = na_symbols_frames(p->symbols, node, &known);
        for (uint32_t i = 0; i < count; i++, at++) {
            if (at < first || at - first >= room) continue;
            const numalloc_profile_frame_t full = {
                .function = known[i].function,
                .file = known[i].file,
                .line = known[i].line,
                .inlined = known[i].inlined,
                .named = known[i].named,
                .runtime = known[i].runtime,
                .module = known[i].module,
                .offset = known[i].offset,
            };
            na_fill_struct((char *)frames + (at - first) * frame_size, frame_size, &full,
                           sizeof full);
        }
    }
    return at > first ? at - first : 0;
}

size_t numalloc_profile_frames(numalloc_profile_t *p, size_t site, size_t first,
                               numalloc_profile_frame_t *frames, size_t frame_size, size_t room) {
    if (site >= p->sites.count) return 0;
    return numalloc_profile_stack_frames(p, p->sites.items[site].site, first, frames, frame_size,
                                         room);
}

int numalloc_profile_stack_truncated(const numalloc_profile_t *p, uint32_t stack) {
    na_stack_table_t stacks = na_reader_stacks(p->reader);
    uint32_t depth = 0;
    for (uint32_t node = stack; node > NA_NPROF_ROOT && node < stacks.count && depth < DEEPEST;
         node = stacks.items[node].parent, depth++)
        if ((stacks.items[node].flags & NA_NPROF_STACK_TRUNCATED) != 0) return 1;
    return 0;
}

/* ---- events ---- */

int numalloc_profile_events_rewind(numalloc_profile_t *p) {
    if (p->events != NULL) na_events_close(p->events);
    p->events = na_events_open(p->reader);
    return p->events == NULL ? -1 : 0;
}

int numalloc_profile_events_next(numalloc_profile_t *p, numalloc_profile_event_t *event,
                                 size_t size) {
    if (na_reader_header(p->reader)->mode != NA_NPROF_MODE_TRACE) return 0;
    if (p->events == NULL && numalloc_profile_events_rewind(p) != 0) return -1;
    na_event_t from;
    if (!na_events_next(p->events, &from)) return 0;
    double ns_per_tick = 1e9 / (double)na_reader_header(p->reader)->ticks_hz;
    bool allocates = na_event_is_alloc(&from);
    const numalloc_profile_event_t full = {
        .index = from.index,
        .ns = (uint64_t)((double)from.ticks * ns_per_tick),
        .address = from.address,
        .size = allocates ? from.size : 0,
        .moved_to = from.moved_to,
        .kind = na_event_name(&from),
        .stack = from.stack,
        .thread = from.thread,
        .allocates = allocates,
    };
    na_fill_struct(event, size, &full, sizeof full);
    return 1;
}

/* ---- time ---- */

size_t numalloc_profile_points(numalloc_profile_t *p, uint32_t *interval_ms) {
    uint32_t count = 0, interval = 0;
    if (na_reader_timeline(p->reader, &count, &interval) == NULL) count = 0;
    if (interval_ms != NULL) *interval_ms = interval;
    return count;
}

int numalloc_profile_point(numalloc_profile_t *p, size_t index, numalloc_profile_point_t *point,
                           size_t size) {
    uint32_t count = 0, interval = 0;
    const na_nprof_point_t *points = na_reader_timeline(p->reader, &count, &interval);
    if (points == NULL || index >= count) return -1;
    const na_nprof_point_t *from = &points[index];
    bool counted = (from->flags & NA_NPROF_POINT_COUNTED) != 0;
    bool sampled = (from->flags & NA_NPROF_POINT_SAMPLED) != 0;
    const numalloc_profile_point_t full = {
        .ms = index * interval,
        .requested_max = counted ? (double)from->requested_max : NAN,
        .requested_min = counted ? (double)from->requested_min : NAN,
        .blocks_max = counted ? unscaled(p, (uint64_t)from->blocks_max) : NAN,
        .allocations = counted ? unscaled(p, from->alloc_count) : NAN,
        .allocated_bytes = counted ? (double)from->alloc_bytes : NAN,
        .physical = sampled ? (double)from->physical : NAN,
        .virtual_bytes = sampled ? (double)from->virtual_bytes : NAN,
        .mapped = sampled ? (double)from->mapped : NAN,
        .own = sampled ? (double)from->own : NAN,
    };
    na_fill_struct(point, size, &full, sizeof full);
    return 0;
}
