/* flows.c - flows and groups over the samples of a set: sorted and counted, in linear time but for
 * the sorting. See flows.h. */
#include "profiler/analyze/accesses/flows.h"

#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"

static const char *const flow_kinds[NA_FLOW_KINDS] = {
    [NA_FLOW_HEAP] = "heap block",     [NA_FLOW_POOL] = "pool block",
    [NA_FLOW_STATIC] = "variable",     [NA_FLOW_FILE] = "mapped file",
    [NA_FLOW_ANONYMOUS] = "anonymous", [NA_FLOW_CODE] = "code",
    [NA_FLOW_STACK] = "stack",         [NA_FLOW_UNKNOWN] = "unknown",
};

const char *na_flow_kind_name(na_flow_kind_t kind) {
    return kind < NA_FLOW_KINDS ? flow_kinds[kind] : "?";
}

const char *na_flow_keep(na_flows_t *set, const char *text) {
    if (!NA_ARRAY_RESERVE(set->names, set->name_room, set->name_count + 1u)) return NULL;
    char *copy = strdup(text);
    if (copy != NULL) set->names[set->name_count++] = copy;
    return copy;
}

/* Samples of one moment: by process and thread, so that the order never varies. */
static int samples_by_time(const void *a, const void *b) {
    const na_touch_t *x = a, *y = b;
    if (x->ns != y->ns) return x->ns < y->ns ? -1 : 1;
    if (x->thread != y->thread) return x->thread < y->thread ? -1 : 1;
    return x->address < y->address ? -1 : x->address > y->address;
}

static bool in_order(const na_flows_t *set) {
    for (uint32_t i = 1; i < set->count; i++)
        if (samples_by_time(&set->items[i - 1], &set->items[i]) > 0) return false;
    return true;
}

/* Where each flow begins, and the flows themselves: a counting sort, which keeps the order. */
static void index_flows(na_flows_t *set) {
    for (uint32_t i = 0; i < set->object_count; i++)
        set->objects[i].samples = 0;
    for (uint32_t i = 0; i < set->thread_count; i++)
        set->threads[i].samples = 0;
    for (uint32_t i = 0; i < set->count; i++) {
        set->objects[set->items[i].object].samples++;
        set->threads[set->items[i].thread].samples++;
    }
    uint32_t at = 0;
    for (uint32_t i = 0; i < set->object_count; i++) {
        set->objects[i].first = at;
        at += set->objects[i].samples;
        set->objects[i].samples = 0;
    }
    at = 0;
    for (uint32_t i = 0; i < set->thread_count; i++) {
        set->threads[i].first = at;
        at += set->threads[i].samples;
        set->threads[i].samples = 0;
    }
    for (uint32_t i = 0; i < set->count; i++) {
        na_flow_object_t *o = &set->objects[set->items[i].object];
        na_flow_thread_t *t = &set->threads[set->items[i].thread];
        set->by_object[o->first + o->samples++] = i;
        set->by_thread[t->first + t->samples++] = i;
    }
}

/* Most samples first; ties by number. */
static int by_samples(const void *a, const void *b, void *arg) {
    const na_flow_object_t *objects = arg;
    uint32_t i = *(const uint32_t *)a, j = *(const uint32_t *)b;
    if (objects[i].samples != objects[j].samples)
        return objects[i].samples > objects[j].samples ? -1 : 1;
    return i < j ? -1 : i > j;
}

static bool index_groups(na_flows_t *set) {
    uint32_t *members = reallocarray(set->group_count != 0 ? set->groups[0].members : NULL,
                                     (size_t)set->object_count + 1, sizeof *members);
    if (members == NULL) return false;
    for (uint32_t g = 0; g < set->group_count; g++) {
        na_flow_group_t *group = &set->groups[g];
        group->members = NULL;
        group->objects = 0;
        group->samples = group->bytes = group->bytes_most = 0;
    }
    if (set->group_count == 0) {
        free(members);
        return true;
    }
    for (uint32_t i = 0; i < set->object_count; i++)
        set->groups[set->objects[i].group].objects++;
    uint32_t at = 0;
    for (uint32_t g = 0; g < set->group_count; g++) {
        set->groups[g].members = members + at;
        at += set->groups[g].objects;
        set->groups[g].objects = 0;
    }
    for (uint32_t i = 0; i < set->object_count; i++) {
        const na_flow_object_t *o = &set->objects[i];
        na_flow_group_t *group = &set->groups[o->group];
        group->members[group->objects++] = i;
        group->samples += o->samples;
        group->bytes += o->size;
        if (o->size > group->bytes_most) group->bytes_most = o->size;
    }
    for (uint32_t g = 0; g < set->group_count; g++)
        qsort_r(set->groups[g].members, set->groups[g].objects, sizeof *members, by_samples,
                set->objects);
    return true;
}

bool na_flows_index(na_flows_t *set) {
    if (!in_order(set)) qsort(set->items, set->count, sizeof *set->items, samples_by_time);
    uint32_t *by_object =
        reallocarray(set->by_object, (size_t)set->count + 1, sizeof *set->by_object);
    if (by_object != NULL) set->by_object = by_object;
    uint32_t *by_thread =
        reallocarray(set->by_thread, (size_t)set->count + 1, sizeof *set->by_thread);
    if (by_thread != NULL) set->by_thread = by_thread;
    if (by_object == NULL || by_thread == NULL) return false;
    set->start_ns = set->count != 0 ? set->items[0].ns : 0;
    set->end_ns = set->count != 0 ? set->items[set->count - 1].ns : 0;
    for (uint32_t i = 0; i < set->source_count; i++)
        set->sources[i].samples = 0;
    for (uint32_t i = 0; i < set->count; i++)
        set->sources[set->items[i].source].samples++;
    index_flows(set);
    return index_groups(set);
}

void na_flows_free(na_flows_t *set) {
    for (size_t i = 0; i < set->name_count; i++)
        free(set->names[i]);
    if (set->group_count != 0) free(set->groups[0].members);
    free(set->names);
    free(set->by_object);
    free(set->by_thread);
    free(set->items);
    free(set->objects);
    free(set->groups);
    free(set->threads);
    free(set->processes);
    free(set->sources);
    free(set->probes);
    *set = (na_flows_t){0};
}
