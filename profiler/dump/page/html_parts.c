/* html_parts.c - the run, global variables and findings, for the page. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/globals.h"
#include "profiler/dump/page/html.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/text.h"

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
            h->state == NA_NPROF_CLOSED
                ? "normally"
                : "no end seen: it was killed, runs still, or became another program (exec)");
    put_facts(r);
    put_environment(r);
    put_modules(r);
    put_lost(r);
    fputs(",\"missing\":[", to);
    na_symbols_missing(r->in->symbols, put_missing, &(missing_t){to, false});
    fputs("]}", to);
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
    r->out_of_memory |= !na_globals_read(r->in->reader, na_report_most(r, MOST_GLOBALS), &g);
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
    } pages[] = {{"resident", "timeline"}, {"rounding", "sizes"},
                 {"tiny-blocks", "sizes"}, {"threads", "threads"},
                 {"lost-events", "run"},   {"truncated-stacks", "run"},
                 {"few-samples", "run"},   {"fragmentation", "allocator"}};
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
    fputs(",\"severity\":", to);
    na_json_number(to, finding->threshold > 0 ? finding->value / finding->threshold : 1e9);
    fprintf(to, ",\"page\":\"%s\"}", page_of(finding->key));
}

static void put_findings(const na_report_t *r) {
    listing_t list = {r->json, 0};
    fputs(",\"findings\":[", r->json);
    na_warnings_each(r->in, put_finding, &list);
    putc(']', r->json);
}

void na_report_parts(na_report_t *r) {
    put_globals(r);
    put_findings(r);
    put_run(r);
}
