/* html_parts.c - the run, global variables and findings, for the page. */
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "profiler/analyze/blocks/detail.h"
#include "profiler/analyze/blocks/globals.h"
#include "profiler/dump/page/html_page.h"
#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/ui/text.h"
#include "profiler/dump/views/summary/summary.h"

/* ---- the run ---- */

static void put_fact(na_json_t *json, const char *name, const char *value) {
    na_json_array(json, NULL);
    na_json_string(json, NULL, name);
    na_json_string(json, NULL, value);
    na_json_end(json);
}

/* What functions lack, if it is worth a line. */
static void put_lacking(const na_webpage_t *r, na_lack_t lack, const char *fact, const char *by,
                        const char *before, const char *behind) {
    double share;
    char text[256];
    const char *module = na_view_lacking(r->in, lack, &share);
    if (module == NULL) return;
    snprintf(text, sizeof text,
             "functions with %.0f %% of the %s are known by their %s only; %s %.80s%s", 100 * share,
             na_view_order_title(r->in->order), by, before, module, behind);
    put_fact(r->json, fact, text);
}

static void put_run_facts(const na_webpage_t *r) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    const na_counters_t *t = &r->in->sites.total;
    char text[256], a[NA_TEXT], b[NA_TEXT];
    na_json_t *json = r->json;
    na_json_array(json, "facts");
    put_fact(json, "Command", h->command[0] != 0 ? h->command : h->program);
    snprintf(text, sizeof text, "%d (parent %d) on %s", h->pid, h->ppid, h->host);
    put_fact(json, "Process", text);
    if (h->mpi_rank >= 0) {
        snprintf(text, sizeof text, "%d of %u", h->mpi_rank, h->mpi_size);
        put_fact(json, "Rank", text);
    }
    if (h->inherited_pid != 0) {
        snprintf(text, sizeof text, "%d", h->inherited_pid);
        put_fact(json, "Forked from", text);
    }
    if (h->mode == NA_NPROF_MODE_SAMPLE)
        snprintf(text, sizeof text, "sample, one in %s on average: figures are estimates",
                 na_text_bytes(a, (double)h->sample_interval));
    else
        snprintf(text, sizeof text, "%s, every event", na_mode_name(h->mode));
    put_fact(json, "Mode", text);
    time_t start = (time_t)(h->start_unix_ns / 1000000000u);
    struct tm tm;
    if (gmtime_r(&start, &tm) != NULL) {
        size_t length = strftime(text, sizeof text, "%Y-%m-%d %H:%M:%S UTC", &tm);
        if (na_begun_late(r->in->reader))
            snprintf(text + length, sizeof text - length, ", after the process");
        put_fact(json, "Began", text);
    }
    snprintf(text, sizeof text, "%s allocations, %s frees",
             na_text_count(a, na_view_count(r->in, (double)t->alloc_count)),
             na_text_count(b, na_view_count(r->in, (double)t->free_count)));
    put_fact(json, "Events", text);
    snprintf(text, sizeof text, "%s, at %s", na_text_bytes(a, (double)t->peak_bytes),
             na_text_ms(b, na_view_peak_ms(r->in)));
    put_fact(json, "Peak", text);
    bool at_peak;
    put_fact(json, "The profiler's own memory", na_text_bytes(a, na_view_own(r->in, &at_peak)));
    put_lacking(r, NA_LACK_NAME, "Names", "address", "debug symbols of",
                " would name most of them");
    put_lacking(r, NA_LACK_INLINED, "Inlined calls", "symbol", "most of them of",
                "; what was inlined into them counts as theirs");
    na_json_end(json);
}

static void put_modules_part(const na_webpage_t *r) {
    na_module_table_t modules = na_reader_modules(r->in->reader);
    na_json_array(r->json, "modules");
    for (uint32_t i = 1; i < modules.count; i++) {
        const na_nprof_module_t *m = &modules.items[i];
        char id[2 * NA_NPROF_BUILD_ID_BYTES + 1] = "";
        if ((m->flags & NA_NPROF_MODULE_VALID) == 0) continue;
        for (uint32_t b = 0; b < m->build_id_size && b < NA_NPROF_BUILD_ID_BYTES; b++)
            snprintf(id + (size_t)b * 2, 3, "%02x", m->build_id[b]);
        put_fact(r->json, m->path, id);
    }
    na_json_end(r->json);
}

static void put_lost(const na_webpage_t *r) {
    na_lost_t lost[NA_LOST_MAX];
    size_t count = na_view_lost(r->in, lost);
    na_json_array(r->json, "lost");
    for (size_t i = 0; i < count; i++) {
        na_json_array(r->json, NULL);
        na_json_u64(r->json, NULL, lost[i].count);
        na_json_string(r->json, NULL, lost[i].what);
        na_json_end(r->json);
    }
    na_json_end(r->json);
}

static void put_missing_file(void *arg, const char *path, const char *why) {
    put_fact(arg, path, why);
}

static void put_run(const na_webpage_t *r) {
    const na_nprof_header_t *h = na_reader_header(r->in->reader);
    na_json_t *json = r->json;
    na_json_object(json, "run");
    na_json_string(json, "program", h->program);
    na_json_string(json, "command", h->command);
    na_json_i64(json, "pid", h->pid);
    na_json_string(json, "mode", na_mode_name(h->mode));
    na_json_u64(json, "duration_ms", h->last_ms);
    na_json_string(json, "ended", na_view_moment(r->in)->ended);
    put_run_facts(r);
    na_json_environment(json, r->in);
    put_modules_part(r);
    put_lost(r);
    na_json_array(json, "missing");
    na_symbols_missing(r->in->symbols, put_missing_file, json);
    na_json_end(json);
    na_json_end(json);
}

/* ---- global variables ---- */

#define MOST_GLOBALS 2000u

static const char *module_path(const na_webpage_t *r, uint32_t module) {
    na_module_table_t modules = na_reader_modules(r->in->reader);
    return module < modules.count ? modules.items[module].path : "?";
}

static void put_globals_part(na_webpage_t *r) {
    na_globals_t g;
    na_json_t *json = r->json;
    r->out_of_memory |= !na_globals_read(r->in->reader, na_webpage_most(r, MOST_GLOBALS), &g);
    if (!r->out_of_memory && g.count > 0) {
        na_json_object(json, "globals");
        na_json_array(json, "name");
        for (size_t i = 0; i < g.count; i++)
            na_json_string(json, NULL, g.items[i].name);
        na_json_end(json);
        na_json_array(json, "module");
        for (size_t i = 0; i < g.count; i++)
            na_json_string(json, NULL, module_path(r, g.items[i].module));
        na_json_end(json);
        na_json_array(json, "bytes");
        for (size_t i = 0; i < g.count; i++)
            na_json_u64(json, NULL, na_global_bytes(&g, &g.items[i]));
        na_json_end(json);
        na_json_array(json, "tls");
        for (size_t i = 0; i < g.count; i++)
            na_json_i64(json, NULL, g.items[i].tls);
        na_json_end(json);
        na_json_end(json);
    }
    na_globals_free(&g);
}

/* ---- findings ---- */

/* Where the page shows what a warning is about. */
static const char *finding_page(const char *key) {
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

static void put_page_finding(void *arg, const na_finding_t *finding) {
    na_json_t *json = arg;
    na_json_object(json, NULL);
    na_json_string(json, "level", finding->of_profile ? "note" : "warning");
    na_json_string(json, "id", finding->key);
    na_json_string(json, "line", finding->line);
    na_json_string(json, "evidence", finding->evidence);
    na_json_string(json, "place", finding->place);
    if (finding->site != NA_NPROF_NO_STACK) na_json_u64(json, "site", finding->site);
    na_json_string(json, "reason", finding->reason);
    na_json_string(json, "remedy", finding->remedy);
    na_json_string(json, "saves", finding->saves);
    na_json_string(json, "page", finding_page(finding->key));
    na_json_end(json);
}

static void put_page_findings(const na_webpage_t *r) {
    na_json_array(r->json, "findings");
    na_warnings_each(r->in, put_page_finding, r->json);
    na_json_end(r->json);
}

void na_webpage_parts(na_webpage_t *r) {
    put_globals_part(r);
    put_page_findings(r);
    put_run(r);
}
