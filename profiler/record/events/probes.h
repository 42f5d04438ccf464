/* probes.h - where others attach to what is sampled: USDT probes, which bpftrace, perf and eBPF
 * profilers find by notes in the library's file.
 *
 *     numalloc:alloc, free   a sampled block (mode sample): site, size, address, thread
 *     numalloc:sample        a sampled access to a block: site, the block's size, address, thread
 *     otel_memory:alloc      address, size, weight: the bytes that the block stands for
 *     otel_memory:free       address
 *
 * The last two are the contract of OpenTelemetry's eBPF profiler for memory. Sites and threads have
 * the numbers that the profile has. A probe is a nop, and its arguments are computed only while
 * somebody listens: the kernel counts listeners in na_probe_listeners, one counter for all. */
#ifndef NUMALLOC_PROFILER_RECORD_EVENTS_PROBES_H
#define NUMALLOC_PROFILER_RECORD_EVENTS_PROBES_H

#include <stdbool.h>
#include <stdint.h>

#include "profiler/record/events/rthreads.h"

/* Written by the kernel. */
extern volatile uint16_t na_probe_listeners;

NA_INLINE bool na_probe_is_heard(void) {
    return NA_UNLIKELY(na_probe_listeners != 0);
}

/* Of blocks that mode sample has drawn; their thread is the calling one. */
void na_probe_alloc(const na_record_t *record, const void *block, uint64_t requested,
                    uint64_t usable);
void na_probe_free(const na_record_t *record, const void *block, uint64_t usable);
/* Of an access that has led to a block. */
void na_probe_access(const na_record_t *record, uint64_t address, uint64_t usable, uint32_t thread);

#endif
