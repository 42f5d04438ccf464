/* events.h - the events of a trace, of all threads, in the order in which they happened.
 *
 * Like the rest of the reader (reader.h): never a crash, what cannot be read is left out and
 * becomes an issue. Memory: the chunks that are being merged, one for each thread that ran at the
 * time, a few that are unpacked ahead (ahead.h), and 40 bytes for each chunk of the file. Not
 * thread-safe. */
#ifndef NUMALLOC_PROFILER_FORMAT_READER_EVENTS_H
#define NUMALLOC_PROFILER_FORMAT_READER_EVENTS_H

#include "profiler/format/nprof_trace.h"
#include "profiler/format/reader/reader.h"

typedef struct na_event {
    uint64_t index; /* from 0 */
    uint64_t ticks; /* since the start of the profile */
    uint64_t address;
    uint64_t size;     /* asked for; allocations and RESIZE */
    uint64_t moved_to; /* MOVED: the block that realloc put in its place; else 0 */
    uint32_t slack;    /* usable size - size; allocations and RESIZE */
    uint32_t stack;    /* 0: not recorded */
    uint32_t thread;   /* index in the table of threads; 0: not known */
    uint16_t usable16; /* frees: usable size / 16; 0: above 32 KiB */
    uint8_t kind;      /* NA_NPROF_EVENT_MALLOC to NA_NPROF_EVENT_MOVED */
    uint8_t align;     /* base-2 logarithm of the alignment asked for; 0: none */
    bool before;       /* a free of a block from before the profile (or a fork) */
} na_event_t;

/* An allocation, or RESIZE. */
static inline bool na_event_is_alloc(const na_event_t *event) {
    return event->kind < NA_NPROF_EVENT_FREE;
}

/* "malloc", "delete[]", "realloc (moved)" and so on. */
const char *na_event_name(const na_event_t *event);

typedef struct na_events na_events_t;

/* NULL: no memory. The reader must live as long. */
na_events_t *na_events_open(na_reader_t *reader);
bool na_events_next(na_events_t *events, na_event_t *event);
/* The next `most` of them, fewer only at the end; returns how many. */
size_t na_events_take(na_events_t *events, na_event_t *to, size_t most);
void na_events_close(na_events_t *events);

#endif
