/* access_chain.h - call chains of samples: the kernel copies the thread's registers and the inner
 * part of its stack into the sample, and the access thread unwinds the copy by call frame
 * information, whatever the program was compiled with. A chain that is longer than the copy lacks
 * its outer frames, and says so. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_CHAIN_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_CHAIN_H

#include <linux/perf_event.h>

#include "profiler/record/access/access_priv.h"

#define NA_BATCH_STACK_MOST 8192u /* bytes of stack a sample, at most */

/* A chain from the innermost frame on. */
typedef struct na_access_batch {
    const uint64_t *pcs;
    const bool *exact; /* each is an instruction's, not that after a call; NULL: the first is */
    uint32_t count;
    bool exact_first; /* false: the first is not */
    bool truncated;   /* frames are missing further out */
} na_access_batch_t;
/* Its node in STACKS; 0: no room. */
uint32_t na_access_batch_enter(const na_access_batch_t *chain);

/* Has the samples of an event carry what a chain is made of. They get longer by
 * na_access_batch_bytes(stack). `stack`: bytes; 0: no chains. */
void na_access_batch_ask(struct perf_event_attr *attr, uint32_t stack);
uint32_t na_access_batch_bytes(uint32_t stack);

/* The chain's node in STACKS from what follows the other fields of a sample; 0: there is none.
 * `after_ip`: the sample's ip is the instruction after the accessing one, as if it had called. */
uint32_t na_access_batch_of(const uint64_t *words, uint32_t count, bool after_ip);

#endif
