/* spe_sample.c - see spe_sample.h. */
#include "profiler/record/sources/spe_sample.h"

#include <linux/perf_event.h>

/* ---- what answered ---- */

na_spe_sources_t na_spe_sources_of(uint64_t midr) {
    uint64_t implementer = midr >> 24 & 0xff, part = midr >> 4 & 0xfff;
    if (implementer == 0xc0 && part == 0xac4) return NA_SPE_SOURCES_AMPERE;
    if (implementer != 0x41) return NA_SPE_SOURCES_UNKNOWN;
    switch (part) {
    case 0xd0c: /* Neoverse N1 */
    case 0xd40: /* Neoverse V1 */
    case 0xd49: /* Neoverse N2 */
    case 0xd4c: /* Cortex-X1C */
    case 0xd4e: /* Cortex-X3 */
    case 0xd4f: /* Neoverse V2 */
    case 0xd81: /* Cortex-A720 */
    case 0xd85: /* Cortex-X925 */
    case 0xd87: /* Cortex-A725 */
    case 0xd89: /* Cortex-A720AE */
        return NA_SPE_SOURCES_ARM;
    default:
        return NA_SPE_SOURCES_UNKNOWN;
    }
}

/* "Another socket" does not say whether its memory or one of its caches. Taken for memory: the wait
 * is of that order, and where the page lies says whose it is. */
#define OTHER_SOCKET NA_NPROF_LEVEL_DRAM

static uint8_t level_of_arm(uint64_t source) {
    switch (source) {
    case 0x0:
        return NA_NPROF_LEVEL_L1;
    case 0x8:
        return NA_NPROF_LEVEL_L2;
    case 0x9: /* another core */
    case 0xa: /* another core of the cluster, or its cache */
    case 0xc: /* another cluster */
        return NA_NPROF_LEVEL_NEAR_CACHE;
    case 0xb:
        return NA_NPROF_LEVEL_L3;
    case 0xd:
        return OTHER_SOCKET;
    case 0xe:
        return NA_NPROF_LEVEL_DRAM;
    default:
        return NA_NPROF_LEVEL_UNKNOWN;
    }
}

static uint8_t level_of_ampere(uint64_t source) {
    switch (source) {
    case 0x0: /* or a device */
        return NA_NPROF_LEVEL_NEAR_CACHE;
    case 0x3:
        return NA_NPROF_LEVEL_L3;
    case 0x5:
        return NA_NPROF_LEVEL_FAR_CACHE;
    case 0x7:
        return NA_NPROF_LEVEL_DRAM;
    case 0x8:
        return NA_NPROF_LEVEL_L1;
    case 0x9:
        return NA_NPROF_LEVEL_L2;
    default:
        return NA_NPROF_LEVEL_UNKNOWN;
    }
}

/* The farthest that they name. Of stores nothing else is known. */
static uint8_t level_of_events(uint64_t events) {
    if ((events & NA_SPE_EVENT_REMOTE) != 0) return OTHER_SOCKET;
    if ((events & NA_SPE_EVENT_LLC_MISS) != 0) return NA_NPROF_LEVEL_DRAM;
    if ((events & NA_SPE_EVENT_LLC) != 0) return NA_NPROF_LEVEL_L3;
    if ((events & (NA_SPE_EVENT_L2 | NA_SPE_EVENT_L2_MISS)) == NA_SPE_EVENT_L2)
        return NA_NPROF_LEVEL_L2;
    if ((events & (NA_SPE_EVENT_L1 | NA_SPE_EVENT_L1_MISS)) == NA_SPE_EVENT_L1)
        return NA_NPROF_LEVEL_L1;
    return NA_NPROF_LEVEL_UNKNOWN;
}

static uint8_t spe_level(na_spe_sources_t sources, const na_spe_record_t *r) {
    uint8_t level = NA_NPROF_LEVEL_UNKNOWN;
    if ((r->has & NA_SPE_HAS_SOURCE) != 0 && sources == NA_SPE_SOURCES_ARM)
        level = level_of_arm(r->source);
    if ((r->has & NA_SPE_HAS_SOURCE) != 0 && sources == NA_SPE_SOURCES_AMPERE)
        level = level_of_ampere(r->source);
    return level != NA_NPROF_LEVEL_UNKNOWN ? level : level_of_events(r->events);
}

/* ---- records ---- */

static bool is_extended(uint8_t op) {
    return (op & NA_SPE_OP_EXTENDED_MASK) == NA_SPE_OP_EXTENDED;
}

static uint8_t op_of(uint8_t op) {
    if (is_extended(op) && (op & NA_SPE_OP_ATOMIC) != 0)
        return NA_NPROF_OP_READ | NA_NPROF_OP_WRITE;
    return (op & NA_SPE_OP_STORE) != 0 ? NA_NPROF_OP_WRITE : NA_NPROF_OP_READ;
}

static bool is_access(const na_spe_record_t *r) {
    if ((r->has & NA_SPE_HAS_OP) == 0 || r->op_class != NA_SPE_CLASS_MEMORY) return false;
    if ((r->has & NA_SPE_HAS_VA) == 0) return false;
    uint8_t kind = r->op & (uint8_t)~NA_SPE_OP_STORE;
    if (kind == NA_SPE_OP_TAG || kind == NA_SPE_OP_SYSREG) return false;
    if ((r->has & NA_SPE_HAS_EVENTS) == 0) return true;
    return (r->events & (NA_SPE_EVENT_RETIRED | NA_SPE_EVENT_EXCEPTION)) == NA_SPE_EVENT_RETIRED;
}

bool na_spe_describe(const na_spe_setup_t *setup, const na_spe_record_t *r, na_access_raw_t *to) {
    if (!is_access(r)) return false;
    if ((r->has & NA_SPE_HAS_TIME) != 0) {
        uint64_t mono = setup->mono_of(r->time);
        if (mono != 0) to->mono_ns = mono;
    }
    to->ip = r->pc;
    to->exact_ip = (r->has & NA_SPE_HAS_PC) != 0;
    to->address = r->va;
    to->weight = setup->weight;
    to->op = op_of(r->op);
    to->level = spe_level(setup->sources, r);
    to->width = 0;
    to->home = NA_NPROF_NO_NODE;
    if ((r->has & NA_SPE_HAS_PA) != 0 && setup->node_of != NULL) to->home = setup->node_of(r->pa);
    to->flags = 0;
    if (r->level != 0) to->flags |= NA_NPROF_SAMPLE_KERNEL;
    if ((r->events & NA_SPE_EVENT_TLB_WALK) != 0) to->flags |= NA_NPROF_SAMPLE_TLB_MISS;
    if (is_extended(r->op) && (r->op & (NA_SPE_OP_ATOMIC | NA_SPE_OP_EXCLUSIVE)) != 0)
        to->flags |= NA_NPROF_SAMPLE_LOCKED;
    to->latency = -1;
    if ((r->has & NA_SPE_HAS_TOTAL) != 0) {
        /* Less what the operation waited for its operands. */
        bool most = r->total >= setup->cycles_most;
        if (most) to->flags |= NA_NPROF_SAMPLE_LATENCY_MAX;
        to->latency = r->total - (!most && r->issue < r->total ? r->issue : 0);
    }
    return true;
}

/* ---- stretches of the buffer ---- */

typedef struct taking {
    const na_spe_setup_t *setup;
    const na_spe_stretch_t *stretch;
    na_spe_counts_t *counts;
    void (*each)(const na_access_raw_t *raw);
    uint16_t cpu;
} taking_t;

static void take_spe_record(void *argument, const na_spe_record_t *record) {
    const taking_t *t = argument;
    na_access_raw_t raw = {
        .mono_ns = t->stretch->mono_ns, .tid = t->stretch->tid, .cpu = t->cpu, .latency = -1};
    if (!na_spe_describe(t->setup, record, &raw)) {
        t->counts->filtered++;
        return;
    }
    t->counts->taken++;
    t->each(&raw);
}

static void take_chunk(const na_spe_aux_t *aux, uint64_t from, uint64_t to, taking_t *taking) {
    na_spe_decoder_t decoder = {0};
    uint64_t place = from & (aux->bytes - 1), count = to - from;
    uint64_t first = aux->bytes - place < count ? aux->bytes - place : count;
    na_spe_begin(&decoder, place);
    na_spe_feed(&decoder, aux->base + place, first, take_spe_record, taking);
    na_spe_feed(&decoder, aux->base, count - first, take_spe_record, taking);
    na_spe_end(&decoder);
    taking->counts->broken += decoder.broken;
}

void na_spe_aux_take(na_spe_aux_t *aux, const na_spe_setup_t *setup,
                     const na_spe_stretch_t *stretch, na_spe_counts_t *counts,
                     void (*each)(const na_access_raw_t *raw)) {
    taking_t taking = {
        .setup = setup, .stretch = stretch, .counts = counts, .each = each, .cpu = UINT16_MAX};
    counts->collided += (stretch->flags & PERF_AUX_FLAG_COLLISION) != 0;
    counts->truncated += (stretch->flags & PERF_AUX_FLAG_TRUNCATED) != 0;
    uint64_t from = stretch->offset, to = from + stretch->size;
    if (to - aux->at > UINT64_MAX / 2) return; /* all of it was taken */
    uint64_t oldest = to - aux->bytes;         /* what lies before was written over */
    if (to - aux->at > aux->bytes) aux->at = oldest;
    if (from - aux->at > to - aux->at) from = aux->at; /* it begins before that */
    take_chunk(aux, aux->at, from, &taking);
    taking.cpu = stretch->cpu;
    take_chunk(aux, from, to, &taking);
    aux->at = to;
}
