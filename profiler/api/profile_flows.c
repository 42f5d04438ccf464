/* flows.c - the part of the C API that gives flows and verdicts (numalloc/profile.h). */
#include <math.h>
#include <stdio.h>
#include <stdlib.h>

#include "profiler/analyze/accesses/flows.h"
#include "profiler/analyze/accesses/flows_where.h"
#include "profiler/analyze/accesses/verdict.h"
#include "profiler/api/profile_priv.h"

struct numalloc_profile_flows {
    na_flows_t of;
    na_verdicts_t verdicts;
    bool judged;
};

numalloc_profile_flows_t *numalloc_profile_flows_open(numalloc_profile_t *const *profiles,
                                                      size_t count, const char *where, char *why,
                                                      size_t why_size) {
    numalloc_profile_flows_t *f = calloc(1, sizeof *f);
    na_reader_t **readers = calloc(count + 1, sizeof *readers);
    bool good = f != NULL && readers != NULL;
    for (size_t i = 0; good && i < count; i++)
        readers[i] = profiles[i]->reader;
    good = good && na_flows_read(readers, count, &f->of);
    free(readers);
    if (!good) snprintf(why, why_size, "out of memory");
    if (good && where != NULL) {
        char reason[NA_WHERE_WHY];
        good = na_flows_select(&f->of, where, reason);
        if (!good) snprintf(why, why_size, "conditions %s", reason);
    }
    if (good) return f;
    numalloc_profile_flows_close(f);
    return NULL;
}

void numalloc_profile_flows_close(numalloc_profile_flows_t *f) {
    if (f == NULL) return;
    na_verdicts_free(&f->verdicts);
    na_flows_free(&f->of);
    free(f);
}

uint32_t numalloc_profile_flows_objects(const numalloc_profile_flows_t *f) {
    return f->of.object_count;
}

uint32_t numalloc_profile_flows_threads(const numalloc_profile_flows_t *f) {
    return f->of.thread_count;
}

int numalloc_profile_flows_node(const numalloc_profile_flows_t *f, int node) {
    return node < 0 || (uint32_t)node >= f->of.node_count ? -1 : (int)f->of.nodes[node].kernel_id;
}

static int32_t thread_number(uint32_t thread) {
    return thread == NA_FLOWS_NONE ? -1 : (int32_t)thread;
}

int numalloc_profile_flows_object(const numalloc_profile_flows_t *f, uint32_t object,
                                  numalloc_profile_flow_object_t *to, size_t size) {
    if (object >= f->of.object_count) return -1;
    const na_flow_object_t *o = &f->of.objects[object];
    const numalloc_profile_flow_object_t full = {
        .kind = na_flow_kind_name(o->kind),
        .name = f->of.groups[o->group].name,
        .base = o->base,
        .size = o->size,
        .birth_ns = o->birth_ns,
        .end_ns = o->end_ns,
        .group = o->group,
        .site = o->site,
        .process = o->process,
        .thread = thread_number(o->thread),
        .node = o->node,
        .touches = o->samples,
    };
    na_fill_struct(to, size, &full, sizeof full);
    return 0;
}

int numalloc_profile_flows_thread(const numalloc_profile_flows_t *f, uint32_t thread,
                                  numalloc_profile_flow_thread_t *to, size_t size) {
    if (thread >= f->of.thread_count) return -1;
    const na_flow_thread_t *t = &f->of.threads[thread];
    const numalloc_profile_flow_thread_t full = {
        .name = t->name,
        .tid = t->tid,
        .process = t->process,
        .pid = f->of.processes[t->process].pid,
        .touches = t->samples,
    };
    na_fill_struct(to, size, &full, sizeof full);
    return 0;
}

static int give_touch(const na_flows_t *flows, na_flow_t flow, size_t index,
                      numalloc_profile_touch_t *to, size_t size) {
    if (index >= flow.count) return -1;
    const na_touch_t *a = &flows->items[flow.items[index]];
    const numalloc_profile_touch_t full = {
        .ns = a->ns,
        .address = a->address,
        .ip = a->ip,
        .weight = a->weight,
        .object = a->object,
        .thread = a->thread,
        .tid = flows->threads[a->thread].tid,
        .process = a->process,
        .stack = a->stack,
        .latency = a->latency,
        .cpu = a->cpu == UINT16_MAX ? -1 : a->cpu,
        .from = a->from,
        .home = a->home,
        .op = a->op,
        .dram = na_touch_is_dram(a),
    };
    na_fill_struct(to, size, &full, sizeof full);
    return 0;
}

int numalloc_profile_flows_of_object(const numalloc_profile_flows_t *f, uint32_t object,
                                     size_t index, numalloc_profile_touch_t *to, size_t size) {
    if (object >= f->of.object_count) return -1;
    return give_touch(&f->of, na_flow_of_object(&f->of, object), index, to, size);
}

int numalloc_profile_flows_of_thread(const numalloc_profile_flows_t *f, uint32_t thread,
                                     size_t index, numalloc_profile_touch_t *to, size_t size) {
    if (thread >= f->of.thread_count) return -1;
    return give_touch(&f->of, na_flow_of_thread(&f->of, thread), index, to, size);
}

uint32_t numalloc_profile_flows_verdicts(numalloc_profile_flows_t *f) {
    if (!f->judged && !na_verdicts_make(&f->of, &f->verdicts)) {
        na_verdicts_free(&f->verdicts);
        return UINT32_MAX;
    }
    f->judged = true;
    return f->verdicts.count;
}

int numalloc_profile_flows_verdict(numalloc_profile_flows_t *f, uint32_t index,
                                   numalloc_profile_verdict_t *to, size_t size) {
    uint32_t count = numalloc_profile_flows_verdicts(f);
    if (count == UINT32_MAX || index >= count) return -1;
    const na_verdict_t *v = &f->verdicts.items[index];
    const numalloc_profile_verdict_t full = {
        .verdict = na_verdict_texts[v->kind].key,
        .title = na_verdict_texts[v->kind].title,
        .because = na_undecided_names[v->undecided],
        .runner = {na_verdict_texts[v->runners[0]].key, na_verdict_texts[v->runners[1]].key},
        .group = v->group,
        .object = v->object == NA_FLOWS_NONE ? -1 : (int32_t)v->object,
        .samples = v->measure.samples,
        .chance = v->chance,
        .needed = v->needed,
        .cost_share = v->cost_share,
        .remote = v->measure.remote,
        .gain_remote = v->gain_remote,
        .gain_latency = v->gain_latency,
    };
    na_fill_struct(to, size, &full, sizeof full);
    return 0;
}
