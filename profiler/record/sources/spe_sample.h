/* spe_sample.h - what a record of Arm's SPE says of a memory access, and the way from the buffer
 * that the processor writes to records. No function here calls the system, but for the store that
 * samples go to. Used by the access thread only.
 *
 *   perf's ring: AUX records            AUX buffer: bytes of SPE
 *      | from, to, flags, CPU               |
 *      v                                    v
 *   na_spe_aux_take -> spe_decode.h -> na_spe_describe -> each() */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_SPE_SAMPLE_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_SPE_SAMPLE_H

#include "profiler/record/access/access_priv.h"
#include "profiler/record/sources/spe_decode.h"

/* Whose numbers the data source is in. The architecture leaves them to the processor; of those that
 * are not known here, events say what there is. */
typedef enum na_spe_sources {
    NA_SPE_SOURCES_UNKNOWN,
    NA_SPE_SOURCES_ARM,    /* Neoverse N1, N2, V1, V2, and what is like them */
    NA_SPE_SOURCES_AMPERE, /* AmpereOne */
} na_spe_sources_t;

/* By the processor's MIDR_EL1. */
na_spe_sources_t na_spe_sources_of(uint64_t midr);

/* What is the same for all samples of a profile. */
typedef struct na_spe_setup {
    na_spe_sources_t sources;
    uint16_t cycles_most; /* counters stop there: 4095 or 65535 */
    double weight;        /* operations from one sample to the next */
    /* The record's time (the system counter) as CLOCK_MONOTONIC; 0: it cannot be. */
    uint64_t (*mono_of)(uint64_t time);
    /* The node of a physical address, where records have one (phys_nodes.h); NULL: they have none.
     */
    int16_t (*node_of)(uint64_t physical);
} na_spe_setup_t;

/* False: it is no access of the program's, or one that was not carried out. Into `to` goes what the
 * record says; thread, CPU and, where it has no time, mono_ns are left as they are. */
bool na_spe_describe(const na_spe_setup_t *setup, const na_spe_record_t *record,
                     na_access_raw_t *to);

/* ---- the buffer of one thread ---- */

typedef struct na_spe_aux {
    const uint8_t *base;
    uint64_t bytes; /* a power of two */
    uint64_t at;    /* all before was taken, or left out; counts on, as perf's offsets do */
} na_spe_aux_t;

/* What perf said of a stretch. */
typedef struct na_spe_stretch {
    uint64_t offset, size;
    uint64_t flags;   /* PERF_AUX_FLAG_* */
    uint64_t mono_ns; /* when it ended */
    uint32_t tid;
    uint16_t cpu; /* UINT16_MAX: not known */
} na_spe_stretch_t;

/* What became of records, since the object was zeroed. */
typedef struct na_spe_counts {
    uint64_t taken;
    uint64_t filtered; /* na_spe_describe said no */
    uint64_t broken;   /* were cut off, or made no sense */
    uint64_t collided; /* stretches in which the processor had to leave out samples: one or more */
    uint64_t
        truncated; /* times that the buffer was full, or the processor lost some, and stopped */
} na_spe_counts_t;

/* Takes the records of a stretch. What lies before it and was in none (perf's word of it was lost,
 * or it is padding) is taken first, as of no known CPU. Stretches that overlap, or are longer than
 * the buffer, are cut: nothing is read twice, and nothing outside of the buffer. */
void na_spe_aux_take(na_spe_aux_t *aux, const na_spe_setup_t *setup,
                     const na_spe_stretch_t *stretch, na_spe_counts_t *counts,
                     void (*each)(const na_access_raw_t *raw));

#endif
