/* ahead.h - unpacks the TRACE chunks of a file by threads of its own, some ahead of their use.
 *
 * To inflate and decode takes about as long as to play events back, so that a machine with two
 * processors reads a trace in the time of one of both. Memory: the chunks that are ready, at most
 * two for each thread, and as many that are empty; it is taken from the reader's budget when it is
 * opened, because how far the threads are must not decide what fits. The threads take no signals.
 * With one processor, a few chunks, little memory for them, or where threads cannot be made, each
 * chunk is unpacked when it is asked for. */
#ifndef NUMALLOC_PROFILER_FORMAT_READER_AHEAD_H
#define NUMALLOC_PROFILER_FORMAT_READER_AHEAD_H

#include "profiler/format/nprof_trace.h"
#include "profiler/format/reader/reader_priv.h"

typedef struct na_unpacked {
    na_nprof_unit_t *units; /* given back by na_ahead_return; NULL: it could not be read, */
    uint32_t count;
    uint32_t room;         /* units that the memory has room for */
    na_issue_kind_t issue; /* and this is why; else NA_ISSUE_KINDS */
} na_unpacked_t;

typedef struct na_ahead na_ahead_t;

/* Bytes that it takes at most to have a chunk unpacked, its units included. */
uint64_t na_ahead_cost(const na_chunk_ref_t *chunk);

/* `chunks`: indices of TRACE chunks in the reader, in the order in which they will be taken. NULL:
 * out of memory. The reader and the array must live as long. */
na_ahead_t *na_ahead_open(const na_reader_t *reader, const size_t *chunks, size_t count);

/* The next one. Called at most `count` times, by one thread. */
na_unpacked_t na_ahead_take(na_ahead_t *ahead);

/* The units of one that was taken are not needed any more. */
void na_ahead_return(na_ahead_t *ahead, na_nprof_unit_t *units, uint32_t room);

/* What was not taken is thrown away, what was not returned stays the caller's. Waits for threads.
 */
void na_ahead_close(na_ahead_t *ahead);

#endif
