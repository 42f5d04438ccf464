/* touch_sum.h - sums over accesses: of an object, a thread, a function, a page, or all. */
#ifndef NUMALLOC_PROFILER_ANALYZE_ACCESSES_TOUCH_SUM_H
#define NUMALLOC_PROFILER_ANALYZE_ACCESSES_TOUCH_SUM_H

#include <math.h>

#include "profiler/analyze/accesses/flows.h"

typedef struct na_touch_sum {
    uint64_t samples;
    double weight;
    double known, remote;           /* both nodes known; and different */
    double told, writes;            /* read or write known; written */
    double latency, latency_weight; /* weight x cycles; weight of those with a latency */
    double own, made;               /* by the thread that allocated; where that is known */
} na_touch_sum_t;

static inline void na_touch_sum_add(na_touch_sum_t *sum, const na_flows_t *flows,
                                    const na_touch_t *a) {
    sum->samples++;
    sum->weight += a->weight;
    if (na_touch_has_nodes(a)) {
        sum->known += a->weight;
        if (a->from != a->home) sum->remote += a->weight;
    }
    if (a->op != NA_NPROF_OP_UNKNOWN) {
        sum->told += a->weight;
        if ((a->op & NA_NPROF_OP_WRITE) != 0) sum->writes += a->weight;
    }
    if (a->latency >= 0) {
        sum->latency += a->weight * a->latency;
        sum->latency_weight += a->weight;
    }
    uint32_t maker = flows->objects[a->object].thread;
    if (maker != NA_FLOWS_NONE) {
        sum->made += a->weight;
        if (maker == a->thread) sum->own += a->weight;
    }
}

static inline void na_touch_sum_merge(na_touch_sum_t *to, const na_touch_sum_t *from) {
    to->samples += from->samples;
    to->weight += from->weight;
    to->known += from->known;
    to->remote += from->remote;
    to->told += from->told;
    to->writes += from->writes;
    to->latency += from->latency;
    to->latency_weight += from->latency_weight;
    to->own += from->own;
    to->made += from->made;
}

/* Not a number: nothing is known. */
static inline double na_touch_ratio(double part, double whole) {
    return whole > 0 ? part / whole : (double)NAN;
}

#endif
