/* access_view.c - loads what the views of accesses look at, and names it. See access_view.h. */
#include "profiler/dump/accesses/access_view.h"

#include <inttypes.h>
#include <math.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/analyze/accesses/flows_where.h"
#include "profiler/containers/path.h"
#include "profiler/dump/source/source_line.h"
#include "profiler/dump/symbols/names/demangle.h"
#include "profiler/dump/ui/table.h"
#include "profiler/dump/ui/text.h"
#include "profiler/format/reader/reader_access.h"

static na_status_t say_no_accesses(const na_access_view_t *view) {
    const char *path = view->in[0].path;
    char why[512];
    na_access_none(view, why, sizeof why);
    if (view->flows.source_count != 0)
        return na_fail("%s: no accesses were sampled: %s; 'numalloc-dump run' lists the sources",
                       path, why);
    return na_fail("%s: has no accesses; record it with NUMALLOC_PROFILE=sites,access=auto", path);
}

static na_status_t make_view(na_access_view_t *view) {
    na_reader_t **readers = calloc(view->count + 1, sizeof *readers);
    if (readers == NULL) return NA_STATUS_MEMORY;
    for (size_t i = 0; i < view->count; i++)
        readers[i] = view->in[i].reader;
    bool good = na_flows_read(readers, view->count, &view->flows);
    free(readers);
    if (!good) return NA_STATUS_MEMORY;
    const char *path = view->in[0].path;
    if (view->flows.count == 0 && view->flows.probe_count == 0) return say_no_accesses(view);
    char why[NA_WHERE_WHY];
    if (view->options->accesses.where != NULL &&
        !na_flows_select(&view->flows, view->options->accesses.where, why))
        return na_fail("--where %s; see numalloc-dump --help", why);
    if (view->flows.count == 0 && view->options->accesses.where != NULL)
        return na_fail("%s: no access fulfils --where %s", path, view->options->accesses.where);
    if (!na_verdicts_make(&view->flows, &view->verdicts)) return NA_STATUS_MEMORY;
    /* Looks at lines may say something without any sample; without that, too, nothing is known. */
    bool nothing = view->flows.count == 0 && view->verdicts.count == 0;
    return nothing ? say_no_accesses(view) : NA_STATUS_WHOLE;
}

na_status_t na_access_view_open(na_access_view_t *view, const char *const *files, size_t count,
                                const na_options_t *options) {
    *view = (na_access_view_t){.options = options, .in = calloc(count + 1, sizeof *view->in)};
    if (view->in == NULL) return NA_STATUS_MEMORY;
    na_status_t status = NA_STATUS_WHOLE;
    while (view->count < count && status == NA_STATUS_WHOLE) {
        status = na_view_load(&view->in[view->count], files[view->count], options, false);
        if (status == NA_STATUS_WHOLE) view->count++;
    }
    if (status == NA_STATUS_WHOLE) status = make_view(view);
    if (status == NA_STATUS_WHOLE) return status;
    return na_access_view_close(view, status);
}

na_status_t na_access_view_of(na_access_view_t *view, na_view_input_t *in) {
    *view = (na_access_view_t){.options = in->options, .in = in, .count = 1, .borrowed = true};
    na_status_t status = make_view(view);
    return status == NA_STATUS_WHOLE ? status : na_access_view_close(view, status);
}

na_status_t na_access_view_close(na_access_view_t *view, na_status_t status) {
    na_verdicts_free(&view->verdicts);
    na_flows_free(&view->flows);
    for (size_t i = 0; !view->borrowed && i < view->count; i++) {
        na_status_t damage = na_view_unload(&view->in[i], view->count > 1);
        if (status == NA_STATUS_WHOLE) status = damage;
    }
    if (!view->borrowed) free(view->in);
    return status;
}

na_status_t na_access_view_show(const char *const *files, size_t count, const na_options_t *options,
                                na_status_t (*show)(na_access_view_t *view)) {
    na_access_view_t view;
    na_status_t status = na_access_view_open(&view, files, count, options);
    return status == NA_STATUS_WHOLE ? na_access_view_close(&view, show(&view)) : status;
}

/* ---- names ---- */

void na_access_group_label(const na_access_view_t *view, uint32_t group, char out[NA_LABEL]) {
    const na_flow_group_t *g = &view->flows.groups[group];
    if (g->name != NULL && g->kind != NA_FLOW_POOL) {
        snprintf(out, NA_LABEL, "%s", g->name);
        return;
    }
    const na_view_input_t *in = &view->in[g->process];
    const na_symbol_frame_t *leaf, *frame = na_view_site(in, g->site, &leaf);
    char place[NA_LABEL] = "(no stack)", text[128];
    if (frame != NULL) {
        na_view_frame_label(frame, place);
        if (na_source_target(view->options, frame, leaf != NULL ? leaf->function : NULL, text,
                             sizeof text))
            snprintf(place, sizeof place, "%s (%.300s:%u)", text, na_base_name(frame->file),
                     frame->line);
    }
    if (g->kind == NA_FLOW_POOL)
        snprintf(out, NA_LABEL, "pool %.100s: %.600s", g->name, place);
    else
        snprintf(out, NA_LABEL, "%s", place);
}

void na_access_object_label(const na_access_view_t *view, uint32_t object, char out[NA_LABEL]) {
    const na_flow_object_t *o = &view->flows.objects[object];
    char name[NA_LABEL], size[NA_TEXT];
    na_access_group_label(view, o->group, name);
    if (o->size != 0)
        snprintf(out, NA_LABEL, "%.700s, object %u of %s", name, object,
                 na_text_bytes(size, (double)o->size));
    else
        snprintf(out, NA_LABEL, "%.700s, object %u", name, object);
}

void na_access_verdict_label(const na_access_view_t *view, const na_verdict_t *v,
                             char out[NA_LABEL]) {
    if (v->object != NA_FLOWS_NONE && view->flows.groups[v->group].kind != NA_FLOW_UNKNOWN)
        na_access_object_label(view, v->object, out);
    else
        na_access_group_label(view, v->group, out);
}

bool na_access_no_gain(const na_access_view_t *view) {
    const na_verdicts_t *v = &view->verdicts;
    for (uint32_t i = 0; i < v->count; i++)
        if (v->items[i].kind == NA_VERDICT_FALSE_SHARING) return false;
    return v->remote < na_limit(NA_T_GAIN);
}

void na_access_cost_text(const na_access_view_t *view, const na_verdict_t *v, char out[NA_LABEL]) {
    double remote = view->verdicts.remote;
    if (!(remote == remote))
        snprintf(out, NA_LABEL, "%.1f %% of all remote cost", 100 * v->cost_share);
    else if (v->kind == NA_VERDICT_FALSE_SHARING && remote < na_limit(NA_T_GAIN))
        snprintf(out, NA_LABEL, "on one node as on several");
    else
        snprintf(out, NA_LABEL, "of %.1f %% remote in all%s %.1f %% of all remote cost",
                 100 * remote, remote < na_limit(NA_T_GAIN) ? ": nothing to gain;" : ",",
                 100 * v->cost_share);
}

void na_access_thread_label(const na_access_view_t *view, uint32_t thread, char out[NA_LABEL]) {
    if (thread == NA_FLOWS_NONE) {
        snprintf(out, NA_LABEL, "?");
        return;
    }
    const na_flow_thread_t *t = &view->flows.threads[thread];
    if (view->flows.process_count > 1)
        snprintf(out, NA_LABEL, "%s %u of %d", t->name, t->tid,
                 view->flows.processes[t->process].pid);
    else
        snprintf(out, NA_LABEL, "%s %u", t->name, t->tid);
}

const na_symbol_frame_t *na_access_frame(const na_access_view_t *view, const na_touch_t *a) {
    const na_view_input_t *in = &view->in[a->process];
    const na_symbol_frame_t *frames, *first = NULL;
    if (a->ip != 0 && na_symbols_at(in->symbols, a->ip, &frames) != 0) first = &frames[0];
    if (a->stack == 0 || (first != NULL && !first->runtime)) return first;
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    uint32_t depth = 0;
    for (uint32_t node = a->stack;
         node > NA_NPROF_ROOT && node < stacks.count && depth < NA_VIEW_DEEPEST;
         node = stacks.items[node].parent, depth++) {
        uint32_t count = na_symbols_frames(in->symbols, node, &frames);
        for (uint32_t i = 0; i < count; i++) {
            if (first == NULL) first = &frames[i];
            if (!frames[i].runtime) return &frames[i];
        }
    }
    return first;
}

static bool has_function(const na_symbol_frame_t *const *frames, uint32_t count, uint32_t id) {
    for (uint32_t i = 0; i < count; i++)
        if (frames[i]->id == id) return true;
    return false;
}

uint32_t na_access_chain(const na_access_view_t *view, const na_touch_t *a,
                         const na_symbol_frame_t *frames[NA_ACCESS_CHAIN]) {
    const na_view_input_t *in = &view->in[a->process];
    const na_symbol_frame_t *found;
    frames[0] = na_access_frame(view, a);
    if (frames[0] == NULL) return 0;
    na_stack_table_t stacks = na_reader_stacks(in->reader);
    uint32_t count = 1, depth = 0;
    bool met = false; /* what is inside of it is the runtime's */
    for (uint32_t node = a->stack;
         node > NA_NPROF_ROOT && node < stacks.count && depth < NA_VIEW_DEEPEST;
         node = stacks.items[node].parent, depth++) {
        uint32_t n = na_symbols_frames(in->symbols, node, &found);
        for (uint32_t i = 0; i < n && count < NA_ACCESS_CHAIN; i++) {
            if (found[i].id == frames[0]->id) met = true;
            if (met && !found[i].runtime && !has_function(frames, count, found[i].id))
                frames[count++] = &found[i];
        }
    }
    return count;
}

void na_access_vote(na_access_vote_t *of, const na_symbol_frame_t *frame, double weight) {
    if (of->votes <= 0) of->frame = frame;
    bool same =
        of->frame == frame || (of->frame != NULL && frame != NULL && of->frame->id == frame->id);
    of->votes += same ? weight : -weight;
    if (of->votes < 0) of->votes = 0;
}

const char *na_access_node(const na_access_view_t *view, int node, char out[NA_LABEL]) {
    if (node < 0)
        strcpy(out, "-");
    else
        snprintf(out, NA_LABEL, "%u", view->flows.nodes[node].kernel_id);
    return out;
}

const char *na_access_main_nodes(const na_access_view_t *view, const double *weights,
                                 char out[NA_LABEL]) {
    const na_flows_t *f = &view->flows;
    bool used[NA_FLOWS_NODES] = {false};
    double all = 0;
    for (uint32_t n = 0; n < f->node_count; n++)
        all += weights[n];
    out[0] = 0;
    for (bool first = true;; first = false) {
        uint32_t best = NA_FLOWS_NONE;
        for (uint32_t n = 0; n < f->node_count; n++)
            if (!used[n] && weights[n] > 0 && weights[n] >= 0.1 * all &&
                (best == NA_FLOWS_NONE || weights[n] > weights[best]))
                best = n;
        if (best == NA_FLOWS_NONE) return out;
        used[best] = true;
        na_text_append(out, NA_LABEL, "%s%u", first ? "" : " ", f->nodes[best].kernel_id);
    }
}

/* ---- estimates ---- */

void na_access_estimate_cells(na_table_t *table, size_t first, const na_interval_t *interval) {
    char sum[NA_TEXT], low[NA_TEXT], high[NA_TEXT];
    if (interval->rounds == 0) return; /* no watchpoints */
    na_table_number(table, first, interval->low);
    na_table_number(table, first + 1, interval->high);
    na_table_number(table, first + 2, interval->rounds);
    if (isnan(interval->low))
        na_table_text(table, first + 3, "undetermined");
    else
        na_table_format(table, first + 3, "%s (%s to %s)", na_text_count(sum, interval->sum),
                        na_text_count(low, interval->low), na_text_count(high, interval->high));
}

/* ---- heading ---- */

const char *na_access_share(const na_nprof_access_source_t *s, double share, char out[NA_LABEL]) {
    char lost[NA_TEXT * 2] = "";
    if (s->lost != 0)
        snprintf(lost, sizeof lost, " (%.1f to %.1f %% with what was lost)",
                 100 * na_share_at_worst(s, share, true), 100 * na_share_at_worst(s, share, false));
    snprintf(out, NA_LABEL, "%.1f %%%s%s", 100 * share, lost,
             s->throttled != 0 ? " (not certain: the kernel paused the sampling)" : "");
    return out;
}

void na_access_head(const na_access_view_t *view) {
    const na_flows_t *f = &view->flows;
    const na_verdicts_t *v = &view->verdicts;
    const na_nprof_access_source_t *s = &f->sources[v->source].of;
    char a[NA_TEXT], b[NA_TEXT], c[NA_TEXT], share[NA_LABEL];
    printf("Accesses%s: %s by %s, ", v->dram ? " that memory or another core's cache answered" : "",
           na_text_counted(a, v->samples, "sample"), na_access_source_name(s->source));
    if (s->source == NA_NPROF_SOURCE_WATCH)
        printf("in %s; ", na_text_counted(b, (double)f->rounds, "round"));
    else if (s->period != 0)
        printf("one for %s; ", na_text_counted(b, (double)s->period, na_access_unit_name(s->unit)));
    else
        printf("unit %s; ", na_access_unit_name(s->unit));
    printf("%s, %s, %s", na_text_counted(a, f->thread_count, "thread"),
           na_text_counted(b, f->node_count, "node"),
           na_text_ms(c, (f->end_ns - f->start_ns) / 1000000));
    if (f->process_count > 1) printf(", %u processes", f->process_count);
    if (view->options->accesses.where != NULL) {
        fputs("; only ", stdout);
        na_text_put(stdout, view->options->accesses.where);
    }
    if (v->remote == v->remote)
        printf("\nTo other nodes: %s%s", na_access_share(s, v->remote, share),
               na_access_no_gain(view) ? ", nothing to gain" : "");
    if (v->local_latency == v->local_latency)
        printf("; local latency %.0f cycles (median)", v->local_latency);
    putchar('\n');
}

void na_access_notes(const na_access_view_t *view) {
    const na_flows_t *f = &view->flows;
    const na_verdicts_t *v = &view->verdicts;
    const na_nprof_access_source_t *s = &f->sources[v->source].of;
    char a[NA_TEXT], b[NA_TEXT], more[256] = "run longer";
    if ((s->flags & NA_NPROF_ACCESS_MADE_UP) != 0)
        printf("Note: these samples are made up, for tests; they say nothing about the program.\n");
    if ((v->evidence & NA_EVIDENCE_LEVEL) == 0)
        printf("Note: %s does not tell whether memory or a cache answered; all accesses count.\n",
               na_access_source_name(s->source));
    if (v->samples != 0)
        na_access_more(view, na_limit(NA_T_SAMPLES_ALL) / v->samples, more, sizeof more);
    if (!v->enough)
        printf("Note: %s; below %s, small shares are uncertain: %s.\n",
               na_text_counted(a, v->samples, "sample"),
               na_text_count(b, na_limit(NA_T_SAMPLES_ALL)), more);
    if (s->lost != 0)
        printf("Note: %s samples were lost (%.2f %%).\n", na_text_count(a, (double)s->lost),
               100 * (double)s->lost / (double)(s->lost + s->stored));
    if (s->throttled != 0) {
        char less[128];
        na_access_less(s, less, sizeof less);
        printf("Note: the kernel paused the sampling %s times, when there was most to sample: no "
               "verdict is certain%s.\n",
               na_text_count(a, (double)s->throttled), less);
    }
    if (na_access_counted(s) < NA_ACCESS_SHARED) /* the figures hold: they are shares */
        printf(
            "Note: the counter ran for %.0f %% of the time; another user, such as perf, had it for "
            "the rest.\n",
            100 * na_access_counted(s));
    for (uint32_t i = 0; i < f->source_count; i++) {
        const na_nprof_access_source_t *other = &f->sources[i].of;
        if (i != v->source && f->sources[i].samples != 0)
            printf("Note: %s samples by %s are left out: units do not mix (--where source=%s).\n",
                   na_text_count(a, (double)f->sources[i].samples),
                   na_access_source_name(other->source), na_access_source_name(other->source));
    }
}

/* ---- JSON ---- */

void na_access_json_nodes(na_json_t *json, const na_access_view_t *view, const char *name,
                          const double *weights) {
    double all = 0;
    for (uint32_t n = 0; n < view->flows.node_count; n++)
        all += weights[n];
    na_json_array(json, name);
    for (uint32_t n = 0; n < view->flows.node_count; n++)
        na_json_number(json, NULL, na_touch_ratio(weights[n], all));
    na_json_end(json);
}

void na_access_json_sum(na_json_t *json, const char *name, const na_access_view_t *view,
                        const na_touch_sum_t *s) {
    const struct {
        const char *name;
        double value;
    } members[] = {
        {"samples", (double)s->samples},
        {"weight", s->weight},
        {"share", na_touch_ratio(s->weight, view->verdicts.weight)},
        {"remote", na_touch_ratio(s->remote, s->known)},
        {"remote_weight", s->remote},
        {"writes", na_touch_ratio(s->writes, s->told)},
        {"latency", na_touch_ratio(s->latency, s->latency_weight)},
        {"own", na_touch_ratio(s->own, s->made)},
    };
    na_json_object(json, name);
    for (size_t i = 0; i < sizeof members / sizeof members[0]; i++)
        na_json_number(json, members[i].name, members[i].value);
    na_json_end(json);
}

static void json_source(na_json_t *json, const na_flow_source_t *source) {
    const na_nprof_access_source_t *s = &source->of;
    na_json_object(json, NULL);
    na_json_string(json, "name", na_access_source_name(s->source));
    na_json_string(json, "unit", na_access_unit_name(s->unit));
    na_json_bool(json, "used", (s->flags & NA_NPROF_ACCESS_USED) != 0);
    na_json_string(json, "why", s->why);
    na_json_bool(json, "made_up", (s->flags & NA_NPROF_ACCESS_MADE_UP) != 0);
    na_json_u64(json, "period", s->period);
    na_json_u64(json, "samples", source->samples);
    na_json_u64(json, "stored", s->stored);
    na_json_u64(json, "lost", s->lost);
    na_json_u64(json, "impossible", s->impossible);
    na_json_u64(json, "filtered", s->filtered);
    na_json_u64(json, "unresolved", s->unresolved);
    na_json_u64(json, "throttled", s->throttled);
    na_json_u64(json, "dram", s->dram);
    na_json_u64(json, "windows", s->windows);
    na_json_end(json);
}

void na_access_json_machine(na_json_t *json, const na_access_view_t *view) {
    const na_flows_t *f = &view->flows;
    const na_verdicts_t *v = &view->verdicts;
    na_json_array(json, "nodes");
    for (uint32_t n = 0; n < f->node_count; n++) {
        na_json_object(json, NULL);
        na_json_u64(json, "node", f->nodes[n].kernel_id);
        na_json_u64(json, "cpus", f->nodes[n].cpus);
        na_json_u64(json, "memory_bytes", f->nodes[n].memory_bytes);
        na_json_array(json, "distance");
        for (uint32_t m = 0; m < f->node_count; m++)
            na_json_u64(json, NULL, f->nodes[n].distance[m]);
        na_json_end(json);
        na_json_number(json, "share", v->nodes[n].share);
        na_json_number(json, "latency", v->nodes[n].latency);
        na_json_number(json, "latency_ratio", v->nodes[n].latency_ratio);
        na_json_bool(json, "saturated", v->nodes[n].saturated);
        na_json_end(json);
    }
    na_json_end(json);
}

void na_access_json_remote_range(na_json_t *json, const na_access_view_t *view) {
    const na_verdicts_t *v = &view->verdicts;
    const na_nprof_access_source_t *s = &view->flows.sources[v->source].of;
    na_json_number(json, "remote_low", na_share_at_worst(s, v->remote, true));
    na_json_number(json, "remote_high", na_share_at_worst(s, v->remote, false));
}

void na_access_json_head(na_json_t *json, const na_access_view_t *view, const char *name) {
    const na_flows_t *f = &view->flows;
    const na_verdicts_t *v = &view->verdicts;
    na_json_document(json, name);
    na_json_string(json, "where", view->options->accesses.where);
    na_json_string(json, "source", na_access_source_name(f->sources[v->source].of.source));
    na_json_string(json, "unit", na_access_unit_name(f->sources[v->source].of.unit));
    na_json_bool(json, "made_up", (f->sources[v->source].of.flags & NA_NPROF_ACCESS_MADE_UP) != 0);
    na_json_bool(json, "dram_only", v->dram);
    na_json_u64(json, "samples", v->samples);
    na_json_bool(json, "enough", v->enough);
    na_json_u64(json, "start_ns", f->start_ns);
    na_json_u64(json, "end_ns", f->end_ns);
    na_json_number(json, "remote", v->remote);
    na_access_json_remote_range(json, view);
    na_json_number(json, "local_latency", v->local_latency);
    na_json_array(json, "sources");
    for (uint32_t i = 0; i < f->source_count; i++)
        json_source(json, &f->sources[i]);
    na_json_end(json);
    na_access_json_machine(json, view);
    na_json_array(json, "processes");
    for (uint32_t p = 0; p < f->process_count; p++) {
        na_json_object(json, NULL);
        na_json_i64(json, "pid", f->processes[p].pid);
        na_json_string(json, "program", f->processes[p].program);
        na_json_end(json);
    }
    na_json_end(json);
    na_json_array(json, "threads");
    for (uint32_t t = 0; t < f->thread_count; t++) {
        na_json_object(json, NULL);
        na_json_u64(json, "process", f->threads[t].process);
        na_json_u64(json, "tid", f->threads[t].tid);
        na_json_string(json, "name", f->threads[t].name);
        na_json_u64(json, "samples", f->threads[t].samples);
        na_json_end(json);
    }
    na_json_end(json);
}
