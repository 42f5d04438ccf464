/* access_sample.h - samples of perf's counters as the kernel writes them, with what it found of the
 * call chain by frame pointers where that was asked for (NUMALLOC_ACCESS_FRAMES).
 *
 * Watchpoints' samples have another form and chains of another kind (access_chain.h). */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_SAMPLE_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_SAMPLE_H

#include <linux/perf_event.h>

#include "profiler/record/access/access_priv.h"

#define NA_SAMPLE_FRAMES_MOST 127u /* that can be asked for; the kernel's own limit, by default */

/* What every sample here has. */
#define NA_SAMPLE_TYPE                                                                             \
    (PERF_SAMPLE_IDENTIFIER | PERF_SAMPLE_IP | PERF_SAMPLE_TID | PERF_SAMPLE_TIME |                \
     PERF_SAMPLE_ADDR | PERF_SAMPLE_CPU)
/* Of memory events. */
#define NA_SAMPLE_MEMORY (PERF_SAMPLE_WEIGHT | PERF_SAMPLE_DATA_SRC)

typedef struct na_perf_body {
    uint64_t id, ip;
    uint32_t pid, tid;
    uint64_t time, address;
    uint32_t cpu;
    uint32_t frame_count;
    const uint64_t *frames; /* the kernel's, with its marks */
    const void *raw;        /* NULL: there is none */
    uint32_t raw_bytes;
    uint64_t latency, data_src;
} na_perf_body_t;

/* From what follows a record's header; `type` is the event's sample_type: NA_SAMPLE_TYPE, with
 * NA_SAMPLE_MEMORY, PERF_SAMPLE_CALLCHAIN and PERF_SAMPLE_RAW or without. False: the record is too
 * short for it. */
bool na_perf_body(const uint64_t *words, uint32_t count, uint64_t type, na_perf_body_t *to);

/* Has samples carry call chains of the program's own frames, as many as the kernel allows, at most
 * `frames`. Returns how many; 0: none. */
uint32_t na_frames_ask(struct perf_event_attr *attr, uint32_t frames);
/* What they add to a sample, on average, if chains are half as long as allowed. */
uint32_t na_frames_bytes(uint32_t frames);

/* The chain's node in STACKS; 0: the sample has none but its instruction. `in_kernel`: that is the
 * kernel's. `most`: what na_frames_ask returned. */
uint32_t na_frames_chain(const na_perf_body_t *body, bool in_kernel, uint32_t most);

#endif
