/* report_parts.c - the parts of the page that are no tree: the run, threads, sizes and lifetimes.
 */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/analyze/detail.h"
#include "profiler/analyze/globals.h"
#include "profiler/dump/report.h"
#include "profiler/dump/text.h"
#include "profiler/dump/views.h"

/* ---- the run ---- */

static void put_fact(FILE *to, bool first, const char *name, const char *value) {
    fputs(first ? "[" : ",[", to);
    na_json_put(to, name);
    putc(',', to);
    na_json_put(to, value);
    putc(']', to);
}

static void put_facts(const na_report_t *r) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    const na_counters_t *t = &r->in->sites.total;
    char text[256], a[NA_TEXT], b[NA_TEXT];
    FILE *to = r->json;
    fputs(",\"facts\":[", to);
    put_fact(to, true, "Command", h->command[0] != 0 ? h->command : h->program);
    snprintf(text, sizeof text, "%d (parent %d) on %s", h->pid, h->ppid, h->host);
    put_fact(to, false, "Process", text);
    if (h->mpi_rank >= 0) {
        snprintf(text, sizeof text, "%d of %u", h->mpi_rank, h->mpi_size);
        put_fact(to, false, "Rank", text);
    }
    if (h->inherited_pid != 0) {
        snprintf(text, sizeof text, "%d", h->inherited_pid);
        put_fact(to, false, "Forked from", text);
    }
    if (h->mode == NA_NPROF_MODE_SAMPLE)
        snprintf(text, sizeof text, "sample, one in %s on average: figures are estimates",
                 na_text_bytes(a, (double)h->sample_interval));
    else
        snprintf(text, sizeof text, "%s, every event", na_mode_name(h->mode));
    put_fact(to, false, "Mode", text);
    time_t start = (time_t)(h->start_unix_ns / 1000000000u);
    struct tm tm;
    if (gmtime_r(&start, &tm) != NULL) {
        strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm);
        put_fact(to, false, "Began", text);
    }
    snprintf(text, sizeof text, "%s allocations, %s frees",
             na_text_count(a, na_view_count(r->in, (double)t->alloc_count)),
             na_text_count(b, na_view_count(r->in, (double)t->free_count)));
    put_fact(to, false, "Events", text);
    snprintf(text, sizeof text, "%s, at %s", na_text_bytes(a, (double)t->peak_bytes),
             na_text_ms(b, na_view_peak_ms(r->in)));
    put_fact(to, false, "Peak", text);
    put_fact(to, false, "The profiler's own memory", na_text_bytes(a, (double)h->own_bytes));
    putc(']', to);
}

static void put_environment(const na_report_t *r) {
    size_t size;
    const char *text = na_reader_environment(r->in->reader, &size);
    fputs(",\"environment\":[", r->json);
    for (size_t at = 0; text != NULL && at < size; at += strlen(text + at) + 1) {
        if (at != 0) putc(',', r->json);
        na_json_put(r->json, text + at);
    }
    putc(']', r->json);
}

static void put_modules(const na_report_t *r) {
    na_module_table_t modules = na_reader_modules(r->in->reader);
    fputs(",\"modules\":[", r->json);
    for (uint32_t i = 1, n = 0; i < modules.count; i++) {
        const na_nprof_module_t *m = &modules.items[i];
        char id[2 * NA_NPROF_BUILD_ID_BYTES + 1] = "";
        if ((m->flags & NA_NPROF_MODULE_VALID) == 0) continue;
        for (uint32_t b = 0; b < m->build_id_size && b < NA_NPROF_BUILD_ID_BYTES; b++)
            snprintf(id + (size_t)b * 2, 3, "%02x", m->build_id[b]);
        put_fact(r->json, n++ == 0, m->path, id);
    }
    putc(']', r->json);
}

static void put_lost(const na_report_t *r) {
    na_lost_t lost[NA_LOST_MAX];
    size_t count = na_view_lost(r->in, lost);
    fputs(",\"lost\":[", r->json);
    for (size_t i = 0; i < count; i++)
        fprintf(r->json, "%s[%" PRIu64 ",\"%s\"]", i == 0 ? "" : ",", lost[i].count, lost[i].what);
    putc(']', r->json);
}

typedef struct missing {
    FILE *to;
    bool any;
} missing_t;

static void put_missing(void *arg, const char *path, const char *why) {
    missing_t *m = arg;
    put_fact(m->to, !m->any, path, why);
    m->any = true;
}

static void put_run(const na_report_t *r) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    FILE *to = r->json;
    fputs(",\"run\":{\"program\":", to);
    na_json_put(to, h->program);
    fputs(",\"command\":", to);
    na_json_put(to, h->command);
    fprintf(to, ",\"pid\":%d,\"mode\":\"%s\",\"duration_ms\":%" PRIu64 ",\"ended\":\"%s\"", h->pid,
            na_mode_name(h->mode), h->last_ms,
            h->state == NA_NPROF_CLOSED ? "normally" : "not closed: killed, or still running");
    put_facts(r);
    put_environment(r);
    put_modules(r);
    put_lost(r);
    fputs(",\"missing\":[", to);
    na_symbols_missing(r->in->symbols, put_missing, &(missing_t){to, false});
    fputs("]}", to);
}

/* ---- threads ---- */

enum { T_ID, T_TID, T_START, T_END, T_ALLOCATIONS, T_FREES, T_BYTES, T_COLUMNS };

static void put_thread_figure(const na_report_t *r, const na_nprof_thread_t *t, uint32_t id,
                              int column) {
    FILE *to = r->json;
    const uint64_t plain[T_COLUMNS] = {[T_ID] = id,
                                       [T_TID] = t->tid,
                                       [T_START] = t->start_ms,
                                       [T_END] = t->end_ms,
                                       [T_BYTES] = t->alloc_bytes};
    if (column == T_END && t->end_ms == UINT64_MAX)
        fputs("null", to);
    else if (column == T_ALLOCATIONS)
        na_json_number(to, na_view_count(r->in, (double)t->alloc_count));
    else if (column == T_FREES)
        na_json_number(to, na_view_count(r->in, (double)t->free_count));
    else
        fprintf(to, "%" PRIu64, plain[column]);
}

static void put_threads(const na_report_t *r) {
    static const char *const names[T_COLUMNS] = {"id",          "tid",   "start_ms", "end_ms",
                                                 "allocations", "frees", "bytes"};
    na_thread_table_t threads = na_reader_threads(r->in->reader);
    FILE *to = r->json;
    fputs(",\"threads\":{\"name\":[", to);
    for (uint32_t i = 1, n = 0; i < threads.count; i++) {
        if (threads.items[i].tid == 0) continue;
        if (n++ != 0) putc(',', to);
        na_json_put(to, threads.items[i].name);
    }
    putc(']', to);
    for (int column = 0; column < T_COLUMNS; column++) {
        fprintf(to, ",\"%s\":[", names[column]);
        for (uint32_t i = 1, n = 0; i < threads.count; i++) {
            if (threads.items[i].tid == 0) continue;
            if (n++ != 0) putc(',', to);
            put_thread_figure(r, &threads.items[i], i, column);
        }
        putc(']', to);
    }
    putc('}', to);
}

/* ---- sizes and lifetimes ---- */

/* The lower end of a bucket that holds 2^(n-1) up to 2^n. */
static double bucket_from(uint32_t bucket) {
    return bucket == 0 ? 0 : (double)(UINT64_C(1) << (bucket - 1));
}

static void put_sizes_axis(FILE *to, uint32_t from, uint32_t upto) {
    char text[NA_TEXT];
    putc('[', to);
    for (uint32_t i = from; i <= upto; i++) {
        if (i != from) putc(',', to);
        na_json_put(to, na_text_bytes(text, bucket_from(i)));
    }
    putc(']', to);
}

static void put_ages_axis(const na_report_t *r, uint32_t from, uint32_t upto) {
    double ns = na_age_ns(na_reader_header(r->in->reader));
    char text[NA_TEXT];
    putc('[', r->json);
    for (uint32_t i = from; i <= upto; i++) {
        double age = bucket_from(i) * ns;
        if (i != from) putc(',', r->json);
        if (age < 1e3)
            snprintf(text, sizeof text, "%.0f ns", age);
        else if (age < 1e6)
            snprintf(text, sizeof text, "%.3g us", age / 1e3);
        else if (age < 1e9)
            snprintf(text, sizeof text, "%.3g ms", age / 1e6);
        else
            snprintf(text, sizeof text, "%.3g s", age / 1e9);
        na_json_put(r->json, text);
    }
    putc(']', r->json);
}

/* First and last bucket that is not empty. False: all are. */
static bool ends_of(const uint64_t *counts, uint32_t buckets, uint32_t *from, uint32_t *upto) {
    bool any = false;
    for (uint32_t i = 0; i < buckets; i++) {
        if (counts[i] == 0) continue;
        if (!any) *from = i;
        *upto = i;
        any = true;
    }
    return any;
}

static void put_counts(const na_report_t *r, const uint64_t *counts, uint32_t from, uint32_t upto) {
    putc('[', r->json);
    for (uint32_t i = from; i <= upto; i++) {
        if (i != from) putc(',', r->json);
        na_json_number(r->json, na_view_count(r->in, (double)counts[i]));
    }
    putc(']', r->json);
}

static void put_distributions(const na_report_t *r) {
    static na_nprof_sizes_t sizes; /* 16 KiB: not for the stack */
    uint64_t lives[NA_NPROF_AGE_BUCKETS] = {0}, freed[NA_NPROF_SIZE_BUCKETS] = {0};
    uint32_t from = 0, upto = 0, low = 0, high = 0;
    na_sizes_fold(r->in->reader, &sizes);
    for (uint32_t s = 0; s < NA_NPROF_SIZE_BUCKETS; s++)
        for (uint32_t a = 0; a < NA_NPROF_AGE_BUCKETS; a++) {
            lives[a] += sizes.lives[s][a];
            freed[s] += sizes.lives[s][a];
        }
    if (!ends_of(sizes.allocs, NA_NPROF_SIZE_BUCKETS, &from, &upto)) return;
    FILE *to = r->json;
    fputs(",\"histograms\":[{\"id\":\"sizes\",\"name\":\"Allocations by requested size, from\","
          "\"unit\":\"count\",\"term\":\"count\",\"x\":",
          to);
    put_sizes_axis(to, from, upto);
    fputs(",\"values\":", to);
    put_counts(r, sizes.allocs, from, upto);
    putc('}', to);
    if (ends_of(lives, NA_NPROF_AGE_BUCKETS, &low, &high)) {
        fputs(",{\"id\":\"lives\",\"name\":\"Frees by lifetime, from\",\"unit\":\"count\","
              "\"term\":\"lifetime\",\"x\":",
              to);
        put_ages_axis(r, low, high);
        fputs(",\"values\":", to);
        put_counts(r, lives, low, high);
        putc('}', to);
    }
    if (ends_of(sizes.grown, NA_NPROF_SIZE_BUCKETS, &from, &upto)) {
        fputs(",{\"id\":\"grown\",\"name\":\"Reallocs by how much larger the block became, "
              "from\",\"unit\":\"count\",\"term\":\"realloc\",\"x\":",
              to);
        put_sizes_axis(to, from, upto);
        fputs(",\"values\":", to);
        put_counts(r, sizes.grown, from, upto);
        putc('}', to);
    }
    putc(']', to);
    if (!ends_of(freed, NA_NPROF_SIZE_BUCKETS, &from, &upto)) return;
    fputs(",\"heat\":[{\"id\":\"lifetime-size\",\"name\":\"Frees by size and lifetime\","
          "\"xName\":\"size from\",\"yName\":\"lifetime from\",\"x\":",
          to);
    put_sizes_axis(to, from, upto);
    fputs(",\"y\":", to);
    put_ages_axis(r, low, high);
    fputs(",\"values\":[", to);
    for (uint32_t a = low; a <= high; a++) {
        fputs(a == low ? "[" : ",[", to);
        for (uint32_t s = from; s <= upto; s++) {
            if (s != from) putc(',', to);
            na_json_number(to, na_view_count(r->in, (double)sizes.lives[s][a]));
        }
        putc(']', to);
    }
    fputs("]}]", to);
}

/* The lifetimes of the sites that are told apart. */
static void put_site_details(na_report_t *r) {
    na_lives_table_t lives;
    size_t count = 0;
    r->out_of_memory |= !na_lives_fold(r->in->reader, &lives);
    fputs(",\"site_details\":{", r->json);
    for (size_t i = 0; i < r->site_count && !r->out_of_memory; i++) {
        const na_site_lives_t *of = na_lives_of(&lives, r->sites[i].id);
        uint32_t from = 0, upto = 0;
        if (r->sites[i].id == 0 || of == NULL ||
            !ends_of(of->count, NA_NPROF_AGE_BUCKETS, &from, &upto))
            continue;
        fprintf(r->json,
                "%s\"%zu\":{\"histograms\":[{\"id\":\"lives\",\"name\":\"Frees by lifetime, "
                "from\",\"unit\":\"count\",\"term\":\"lifetime\",\"x\":",
                count++ == 0 ? "" : ",", i);
        put_ages_axis(r, from, upto);
        fputs(",\"values\":[", r->json);
        for (uint32_t a = from; a <= upto; a++)
            fprintf(r->json, "%s%" PRIu64, a == from ? "" : ",", of->count[a]);
        fputs("]}]}", r->json);
    }
    putc('}', r->json);
    na_lives_free(&lives);
}

/* ---- global variables ---- */

#define MOST_GLOBALS 2000u

static const char *module_path(const na_report_t *r, uint32_t module) {
    na_module_table_t modules = na_reader_modules(r->in->reader);
    return module < modules.count ? modules.items[module].path : "?";
}

static void put_globals(na_report_t *r) {
    na_globals_t g;
    FILE *to = r->json;
    r->out_of_memory |= !na_globals_read(r->in->reader, MOST_GLOBALS, &g);
    if (!r->out_of_memory && g.count > 0) {
        fputs(",\"globals\":{\"name\":[", to);
        for (size_t i = 0; i < g.count; i++) {
            if (i != 0) putc(',', to);
            na_json_put(to, g.items[i].name);
        }
        fputs("],\"module\":[", to);
        for (size_t i = 0; i < g.count; i++) {
            if (i != 0) putc(',', to);
            na_json_put(to, module_path(r, g.items[i].module));
        }
        fputs("],\"bytes\":[", to);
        for (size_t i = 0; i < g.count; i++)
            fprintf(to, "%s%" PRIu64, i == 0 ? "" : ",", na_global_bytes(&g, &g.items[i]));
        fputs("],\"tls\":[", to);
        for (size_t i = 0; i < g.count; i++)
            fprintf(to, "%s%d", i == 0 ? "" : ",", g.items[i].tls);
        fputs("]}", to);
    }
    na_globals_free(&g);
}

/* ---- findings ---- */

/* Where the page shows what a warning is about. */
static const char *page_of(const char *key) {
    static const struct {
        const char *key, *page;
    } pages[] = {{"resident", "timeline"}, {"rounding", "sizes"},  {"tiny-blocks", "sizes"},
                 {"threads", "threads"},   {"lost-events", "run"}, {"truncated-stacks", "run"},
                 {"few-samples", "run"}};
    for (size_t i = 0; i < sizeof pages / sizeof pages[0]; i++)
        if (strcmp(pages[i].key, key) == 0) return pages[i].page;
    return "sites";
}

typedef struct listing {
    FILE *to;
    size_t count;
} listing_t;

static void put_finding(void *arg, const na_finding_t *finding) {
    listing_t *list = arg;
    FILE *to = list->to;
    fprintf(to, "%s{\"level\":\"warning\",\"id\":\"%s\",\"title\":", list->count++ == 0 ? "" : ",",
            finding->key);
    na_json_put(to, finding->evidence);
    fputs(",\"evidence\":", to);
    na_json_put(to, finding->reason);
    fputs(",\"place\":", to);
    na_json_put(to, finding->place);
    fputs(",\"remedy\":", to);
    na_json_put(to, finding->remedy);
    fprintf(to, ",\"page\":\"%s\"}", page_of(finding->key));
}

static void put_findings(const na_report_t *r) {
    listing_t list = {r->json, 0};
    fputs(",\"findings\":[", r->json);
    na_warnings_each(r->in, put_finding, &list);
    putc(']', r->json);
}

void na_report_parts(na_report_t *r) {
    put_site_details(r);
    put_globals(r);
    put_findings(r);
    put_run(r);
    put_threads(r);
    put_distributions(r);
}
