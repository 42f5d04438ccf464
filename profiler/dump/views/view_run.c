/* view_run.c - the circumstances of a profile: program, options, clock, modules, what the file is
 * made of. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "profiler/dump/profile/profile_json.h"
#include "profiler/dump/profile/view.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_access.h"

static void put_module_rows(const na_view_input_t *in) {
    na_module_table_t modules = na_reader_modules(in->reader);
    printf("\nModules\n  id  loaded    unloaded  build-id          path\n");
    for (uint32_t id = 1; id < modules.count; id++) {
        const na_nprof_module_t *m = &modules.items[id];
        char a[NA_TEXT], b[NA_TEXT], build_id[17] = "-";
        if (m->flags == 0) continue;
        for (uint32_t i = 0; i < m->build_id_size && i < 8; i++)
            snprintf(build_id + 2 * i, 3, "%02x", m->build_id[i]);
        printf("%4u  %-8s  %-8s  %-16s  ", id, na_text_ms(a, m->load_ms),
               m->unload_ms == NA_NPROF_MODULE_STILL ? "-" : na_text_ms(b, m->unload_ms), build_id);
        na_text_put(stdout, m->path);
        if ((m->flags & NA_NPROF_MODULE_MAIN) != 0) printf("  (the program)");
        if ((m->flags & NA_NPROF_MODULE_INSIDE) != 0) printf("  (inside Python frames)");
        if ((m->flags & NA_NPROF_MODULE_SELF) != 0) printf("  (the allocator)");
        putchar('\n');
    }
}

static void put_file_lines(const na_view_input_t *in) {
    static const char *const format = "%-14s %7" PRIu64 "  %10" PRIu64 "  %10s  %10s\n";
    char a[NA_TEXT], b[NA_TEXT];
    printf("\nFile           chunks     entries     in file      inflated\n");
    for (uint16_t type = 0;; type++) {
        na_chunk_sum_t sum;
        const char *name = na_reader_chunk_sum(in->reader, type, &sum);
        if (name == NULL) break;
        if (sum.chunks == 0) continue;
        printf(format, name, sum.chunks, sum.entries, na_text_bytes(a, (double)sum.stored),
               na_text_bytes(b, (double)sum.raw));
    }
    printf("%-14s %42s\n", "all", na_text_bytes(a, (double)na_reader_file_size(in->reader)));
}

/* Every source of accesses that was considered: what it gave, or why it was not used. */
static na_status_t put_source_lines(const na_view_input_t *in) {
    na_access_t access;
    char a[NA_TEXT], b[NA_TEXT];
    if (!na_access_load(in->reader, &access)) return NA_STATUS_MEMORY;
    bool any = false;
    for (uint32_t i = 1; i < access.source_count; i++) {
        const na_nprof_access_source_t *s = &access.sources[i];
        if (s->source == 0) continue;
        if (!any) printf("\nSources of accesses\n");
        any = true;
        printf("  %-12s ", na_access_source_name(s->source));
        if ((s->flags & NA_NPROF_ACCESS_USED) != 0) {
            printf("%s", na_text_counted(a, (double)s->stored, "sample"));
            if (s->period != 0)
                printf(", one for %s",
                       na_text_counted(b, (double)s->period, na_access_unit_name(s->unit)));
            printf("; lost %s", na_text_count(a, (double)s->lost));
            if (s->throttled != 0)
                printf(", paused %s times", na_text_count(a, (double)s->throttled));
            printf(", unresolved %s", na_text_count(a, (double)s->unresolved));
            if (s->unresolved != 0)
                printf(" (%.1f %%)", 100 * (double)s->unresolved / (double)s->stored);
            if (s->why[0] != 0) printf("; ");
        } else {
            printf("not used: ");
        }
        na_text_put(stdout, s->why);
        putchar('\n');
    }
    na_access_free(&access);
    return NA_STATUS_WHOLE;
}

/* ---- --json ---- */

static void put_chunks_json(na_json_t *json, const na_view_input_t *in) {
    na_json_line(json);
    na_json_array(json, "chunks");
    for (uint16_t type = 0;; type++) {
        na_chunk_sum_t sum;
        const char *name = na_reader_chunk_sum(in->reader, type, &sum);
        if (name == NULL) break;
        if (sum.chunks == 0) continue;
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "type", name);
        na_json_u64(json, "chunks", sum.chunks);
        na_json_u64(json, "entries", sum.entries);
        na_json_u64(json, "stored_bytes", sum.stored);
        na_json_u64(json, "inflated_bytes", sum.raw);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_u64(json, "file_bytes", na_reader_file_size(in->reader));
}

static na_status_t put_sources_json(na_json_t *json, const na_view_input_t *in) {
    na_access_t access;
    if (!na_access_load(in->reader, &access)) return NA_STATUS_MEMORY;
    na_json_line(json);
    na_json_array(json, "access_sources");
    for (uint32_t i = 1; i < access.source_count; i++) {
        const na_nprof_access_source_t *s = &access.sources[i];
        if (s->source == 0) continue;
        na_json_line(json);
        na_json_object(json, NULL);
        na_json_string(json, "source", na_access_source_name(s->source));
        na_json_bool(json, "used", (s->flags & NA_NPROF_ACCESS_USED) != 0);
        na_json_u64(json, "samples", (uint64_t)s->stored);
        na_json_u64(json, "period", (uint64_t)s->period);
        na_json_string(json, "unit", na_access_unit_name(s->unit));
        na_json_u64(json, "lost", (uint64_t)s->lost);
        na_json_u64(json, "unresolved", (uint64_t)s->unresolved);
        na_json_string(json, "why", s->why);
        na_json_end(json);
    }
    na_json_end(json);
    na_access_free(&access);
    return NA_STATUS_WHOLE;
}

static na_status_t put_run_json(na_json_t *json, const na_view_input_t *in) {
    const na_nprof_header_t *h = na_reader_header(in->reader);
    na_json_document(json, "run");
    na_json_line(json);
    na_json_run(json, in);
    na_json_u64(json, "format", h->version);
    na_json_string(json, "clock", h->clock_kind == NA_NPROF_CLOCK_TSC ? "TSC" : "CLOCK_MONOTONIC");
    na_json_u64(json, "ticks_hz", h->ticks_hz);
    na_json_u64(json, "page_size", h->page_size);
    na_json_array(json, "nodes");
    for (uint32_t i = 0; i < h->node_count; i++)
        na_json_u64(json, NULL, h->node_ids[i]);
    na_json_end(json);
    na_json_environment(json, in);
    na_json_modules(json, in);
    na_status_t status = put_sources_json(json, in);
    if (status != NA_STATUS_WHOLE) return status;
    put_chunks_json(json, in);
    na_json_rest(json, in);
    na_json_end(json);
    return NA_STATUS_WHOLE;
}

static na_status_t show_run(na_view_input_t *in) {
    na_json_t json = na_json_open(stdout);
    if (in->options->table.format == NA_FORMAT_JSON) return put_run_json(&json, in);
    const na_nprof_header_t *h = na_reader_header(in->reader);
    char a[NA_TEXT];
    bool at_peak;
    printf("program        ");
    na_text_put(stdout, h->program);
    printf("\ncommand        ");
    na_text_put(stdout, h->command);
    printf("\nhost           ");
    na_text_put(stdout, h->host);
    printf("\nprocess        %d, parent %d\n", h->pid, h->ppid);
    if (h->inherited_pid != 0) printf("forked from    %d\n", h->inherited_pid);
    if (h->mpi_rank >= 0) printf("MPI rank       %d of %u\n", h->mpi_rank, h->mpi_size);
    printf("writer         ");
    na_text_put(stdout, h->writer);
    printf(", format %u\nmode           %s\n", h->version, na_mode_name(h->mode));
    if (h->sample_interval != 0)
        printf("interval       %s between samples on average\n",
               na_text_bytes(a, (double)h->sample_interval));
    printf("clock          %s, %.6g MHz\n",
           h->clock_kind == NA_NPROF_CLOCK_TSC ? "TSC" : "CLOCK_MONOTONIC",
           (double)h->ticks_hz / 1e6);
    printf("page size      %u\nnodes          %u:", h->page_size, h->node_count);
    for (uint32_t i = 0; i < h->node_count; i++)
        printf(" %u", h->node_ids[i]);
    if (h->mode == NA_NPROF_MODE_SITES)
        printf("\npeak           exact within %s a thread\n",
               na_text_bytes(a, (double)h->publish_quantum));
    else
        printf("\npeak           %s\n", h->mode == NA_NPROF_MODE_SAMPLE ? "an estimate" : "exact");
    printf("own memory     %s\nended          %s, after %s\n",
           na_text_bytes(a, na_view_own(in, &at_peak)), na_view_moment(in)->ended,
           na_text_ms((char[NA_TEXT]){0}, h->last_ms));
    const struct {
        const char *name;
        uint64_t value;
    } lost[] = {
        {"events", h->lost_events},          {"stacks", h->lost_stacks},
        {"cut stacks", h->truncated_stacks}, {"threads", h->lost_threads},
        {"modules", h->lost_modules},        {"frees before", h->before_frees},
    };
    printf("\nNot seen\n");
    for (size_t i = 0; i < sizeof lost / sizeof lost[0]; i++)
        printf("  %-12s %s\n", lost[i].name, na_text_count(a, (double)lost[i].value));
    if (na_view_no_room(in) != NULL) printf("  %s\n", na_view_no_room(in));

    size_t size;
    const char *text = na_reader_environment(in->reader, &size);
    printf("\nEnvironment\n");
    for (size_t at = 0; text != NULL && at < size; at += strlen(text + at) + 1) {
        printf("  ");
        na_text_put(stdout, text + at);
        putchar('\n');
    }
    put_module_rows(in);
    na_status_t status = put_source_lines(in);
    put_file_lines(in);
    return status;
}

const na_view_t na_view_row_run = {
    .name = "run",
    .words = "FILE",
    .help = "options, environment, modules, what the file is made of",
    .modes = NA_IN_ALL,
    .takes = NA_TAKES(JSON),
    .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
    .without = "it is no table",
    .show = show_run,
};
