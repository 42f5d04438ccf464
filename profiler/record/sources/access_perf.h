/* access_perf.h - perf events of this process's threads (or of CPUs), and their rings. Used by one
 * thread, the access thread; na_perf_forget in a forked child.
 *
 * One target is one thread: up to NA_PERF_EVENTS events of it, which share a ring. Threads come and
 * go: na_perf_scan makes targets for new ones and closes those of ended ones. */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_PERF_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_PERF_H

#include <linux/perf_event.h>

#include "profiler/record/access/access_priv.h"

#define NA_PERF_EVENTS  6u
#define NA_PERF_TIMES   (PERF_FORMAT_TOTAL_TIME_ENABLED | PERF_FORMAT_TOTAL_TIME_RUNNING)
#define NA_PERF_TARGETS 512u

typedef struct na_perf_target {
    uint32_t tid;    /* 0: of a CPU, or free */
    uint32_t events; /* open; 0: free */
    int fd[NA_PERF_EVENTS];
    uint64_t id[NA_PERF_EVENTS];     /* what samples carry */
    uint32_t budget[NA_PERF_EVENTS]; /* for the owner of the events */
    struct perf_event_mmap_page *ring;
    uint64_t tail;
    const void *aux;   /* the buffer that the hardware writes; NULL: it has none */
    uint64_t aux_tail; /* for the owner of the events, who tells the kernel (na_perf_aux_read) */
    bool seen;
    bool timed;     /* the first event's times are kept */
    bool throttled; /* the kernel paused one of its events */
} na_perf_target_t;

typedef struct na_perf_plan {
    /* Where the first one's read_format is NA_PERF_TIMES, its times are added to the source's entry
     * when a target is closed. */
    struct perf_event_attr attr[NA_PERF_EVENTS];
    uint32_t events;
    uint32_t ring_bytes; /* of data: a power of two of pages */
    uint32_t
        aux_bytes;  /* the same, of a buffer for what the hardware writes; 0: it writes none. The
                     * first event must be disabled: it is enabled when the buffer is there */
    uint32_t group; /* so many of the first are one group, which the first leads; 0: none */
    bool cpus;      /* of each CPU, all processes, instead of this process's threads */
    /* Whether a thread may have events; asked in each scan, and what it has is closed where not.
     * NULL: all may. */
    bool (*may)(uint32_t tid);
    /* Called before a thread's events are opened, and after; NULL: nobody wants to know. */
    void (*before)(uint32_t tid);
    void (*after)(void);
} na_perf_plan_t;

/* Targets of a plan, one after the other; a free one has no events. */
extern NA_NEAR na_perf_target_t na_perf_target[NA_PERF_TARGETS];
extern uint32_t na_perf_count; /* used ones lie below */

/* What follows the header of a record: of a sample, or (header.type is PERF_RECORD_SWITCH) of a
 * thread that loses its CPU or gets one, where a plan asks for these, or (PERF_RECORD_AUX) of what
 * the hardware wrote. */
typedef void (*na_perf_sample_fn_t)(na_perf_target_t *target,
                                    const struct perf_event_header *header, const uint64_t *body,
                                    uint32_t words);

/* Opens for every thread that has none, closes for those that are gone, whose last samples go to
 * `each`. Returns how many threads have none because something was refused; *error (may be NULL): a
 * refusal, negative errno. */
uint32_t na_perf_scan(const na_perf_plan_t *plan, na_perf_sample_fn_t each, long *error);
/* Targets that have events now. */
uint32_t na_perf_open_count(void);
/* The next scan opens it anew. */
void na_perf_close(na_perf_target_t *target);
void na_perf_close_all(void);
/* In a forked child: descriptors only. */
void na_perf_forget(void);
/* Can the plan's events be opened for this thread? 0 or negative errno. */
long na_perf_try(const na_perf_plan_t *plan);

/* Opens the plan for the calling thread, as the only target. 0 or negative errno. */
long na_perf_open_self(const na_perf_plan_t *plan);

/* Does a watchpoint that spent its budget tell more when it is given some (PERF_EVENT_IOC_REFRESH)?
 * Not on kernels from 6.16 on. Tried in the calling thread, with this event of the plan; leaves no
 * targets. */
bool na_perf_refills(const na_perf_plan_t *plan, uint32_t event);

/* Calls `each` with every sample and switch. Counts what was lost and throttled in
 * na_access_entry. Returns how many bytes of the ring were in use. */
uint64_t na_perf_drain(na_perf_target_t *target, na_perf_sample_fn_t each);

/* The hardware's buffer was read up to aux_tail: there is room again. */
void na_perf_aux_read(na_perf_target_t *target);

/* Why perf_event_open refused, for people. */
void na_perf_refusal(long error, char why[NA_WHY]);

#endif
