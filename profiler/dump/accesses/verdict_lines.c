/* verdict_lines.c - false sharing in words: which line, which parts of it, whose they are, and how
 * to take them apart. */
#include <inttypes.h>
#include <stdio.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/ui/text.h"

static const na_line_t *line_of(const na_access_view_t *view, const na_verdict_t *v) {
    return &view->verdicts.lines.items[v->line];
}

static uint64_t part_offset(const na_access_view_t *view, const na_line_part_t *p) {
    return p->object == NA_FLOWS_NONE ? p->address % NA_LINE_BYTES
                                      : p->address - view->flows.objects[p->object].base;
}

static double writes_of(const na_line_part_t *p) {
    return p->writes / (p->reads + p->writes);
}

/* The part that is written most. */
static const na_line_part_t *written_part(const na_line_t *line) {
    const na_line_part_t *most = &line->parts[0];
    for (uint32_t i = 1; i < line->count; i++)
        if (line->parts[i].writes > most->writes) most = &line->parts[i];
    return most;
}

void na_verdict_put_line(const na_access_view_t *view, const na_verdict_t *v) {
    const na_line_t *line = line_of(view, v);
    char rate[NA_TEXT], thread[NA_LABEL], first[NA_TEXT], last[NA_TEXT];
    printf("  line        0x%" PRIx64 ": %u threads use %u parts of its %u bytes; looked at %u "
           "times, from %s to %s\n",
           line->address, line->threads, line->count, NA_LINE_BYTES, line->probes,
           na_text_ms(first, line->first_ns / 1000000), na_text_ms(last, line->last_ns / 1000000));
    for (uint32_t i = 0; i < line->count; i++) {
        const na_line_part_t *p = &line->parts[i];
        na_access_thread_label(view, p->thread, thread);
        printf("    offset %" PRIu64, part_offset(view, p));
        if (line->objects > 1 && p->object != NA_FLOWS_NONE) printf(" of object %u", p->object);
        printf(", %u bytes: ", p->length);
        na_text_put(stdout, thread);
        if (p->threads > 1) printf(" (%.0f %% of %u threads)", 100 * p->own, p->threads);
        printf(", %s accesses a second, %.0f %% writes\n",
               na_text_count(rate, p->reads + p->writes), 100 * writes_of(p));
    }
    if (line->lives > 1)
        printf("    the same was seen of other blocks of this origin: %u sets of them\n",
               line->lives);
    if (v->line_count > 1)
        printf("    and %u line%s more of the same origin\n", v->line_count - 1,
               v->line_count == 2 ? "" : "s");
}

void na_verdict_json_line(na_json_t *json, const na_access_view_t *view, const na_verdict_t *v) {
    na_json_key(json, "line");
    if (v->kind != NA_VERDICT_FALSE_SHARING) {
        na_json_null(json, NULL);
        return;
    }
    const na_line_t *line = line_of(view, v);
    na_json_object(json, NULL);
    na_json_u64(json, "address", line->address);
    na_json_u64(json, "lines", v->line_count);
    na_json_u64(json, "threads", line->threads);
    na_json_u64(json, "lives", line->lives);
    na_json_bool(json, "beside", na_line_is_beside(line));
    na_json_u64(json, "looks", line->probes);
    na_json_u64(json, "conflicts", line->conflicts);
    na_json_u64(json, "first_ns", line->first_ns);
    na_json_u64(json, "last_ns", line->last_ns);
    na_json_number(json, "own", line->own);
    na_json_number(json, "accesses", line->rate);
    na_json_number(json, "others", line->others);
    na_json_array(json, "parts");
    for (uint32_t i = 0; i < line->count; i++) {
        const na_line_part_t *p = &line->parts[i];
        char thread[NA_LABEL];
        na_access_thread_label(view, p->thread, thread);
        na_json_object(json, NULL);
        na_json_number(json, "object", p->object == NA_FLOWS_NONE ? -1.0 : (double)p->object);
        na_json_u64(json, "offset", part_offset(view, p));
        na_json_u64(json, "bytes", p->length);
        na_json_u64(json, "thread", p->thread);
        na_json_string(json, "thread_name", thread);
        na_json_u64(json, "threads", p->threads);
        na_json_number(json, "own", p->own);
        na_json_number(json, "reads", p->reads);
        na_json_number(json, "writes", p->writes);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_end(json);
}

/* Bytes that a thread's part takes, where each is as long as the others; the distances from one to
 * the next are multiples of it, since not every thread need have been met. 0: they are not. */
static uint64_t line_distance(const na_line_t *line) {
    uint64_t step = 0, begins = line->parts[0].address;
    if (line->apart != 0) return 4; /* words that are two; of others it need not be known yet */
    for (uint32_t i = 1; i < line->count; i++) {
        if (line->parts[i].length != line->parts[0].length) return 0;
        if (line->parts[i].thread == line->parts[i - 1].thread) continue;
        for (uint64_t rest = line->parts[i].address - begins; rest != 0;) {
            uint64_t most = step % rest;
            step = rest;
            rest = most;
        }
        begins = line->parts[i].address;
    }
    return step;
}

void na_verdict_advice_line(const na_access_view_t *view, const na_verdict_t *v,
                            na_verdict_advice_t *a) {
    const na_line_t *line = line_of(view, v);
    const na_flow_group_t *g = &view->flows.groups[v->group];
    char count[NA_TEXT];
    uint64_t apart = line_distance(line);
    if (na_line_is_beside(line)) {
        const na_line_part_t *written = written_part(line);
        NA_ADVISE(
            a->code,
            "keep what is written away from what is only read: give the %s at offset %" PRIu64
            " a line of its own (alignas(64) on it, and on what follows it); each write takes "
            "the line from the threads that read what lies beside it",
            line->objects > 1           ? "block"
            : g->kind == NA_FLOW_STATIC ? "variable"
                                        : "field",
            part_offset(view, written));
        NA_ADVISE(a->placement, "separate");
    } else if (line->objects > 1) {
        NA_ADVISE(
            a->code,
            "separate them: these %u objects are smaller than a line and lie in one. Give each "
            "a line of its own (%s), or let the thread that uses it allocate it",
            line->objects, g->kind == NA_FLOW_STATIC ? "alignas(64)" : "aligned_alloc(64, 64)");
        NA_ADVISE(a->placement, "separate");
    } else if (apart != 0 && (line->count > 2 || line->threads > 2)) {
        NA_ADVISE(a->code,
                  "pad: each thread's part takes %" PRIu64 " bytes, give it a line of its own: "
                  "alignas(64) on the element's type and 64-byte alignment of the array "
                  "(aligned_alloc); or let each thread count in a variable of its own and add it "
                  "at the end",
                  apart);
        NA_ADVISE(a->placement, "pad");
    } else {
        NA_ADVISE(a->code,
                  "separate what different threads use: alignas(64) on the %s at offset %" PRIu64
                  ", so that a line begins there; of an array, on its element's type",
                  g->kind == NA_FLOW_STATIC ? "variable" : "part",
                  part_offset(view, &line->parts[line->count - 1]));
        NA_ADVISE(a->placement, "separate");
    }
    double moves = line->rate < 2 * line->others ? line->rate : 2 * line->others;
    NA_ADVISE(a->expected,
              "the line stays with its thread; now it moves up to %s times a second, some 0.1 us "
              "each, which its threads wait for",
              na_text_count(count, moves));
}
