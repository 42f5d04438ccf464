/* access_kmod.h - the reader of the kernel module's samples (kmod-ibs/): one session of this
 * process, its rings, and how to drain them.
 *
 * Calls of one object come from one thread at a time. Nothing here calls malloc or a C library
 * function that may; memory for the table of rings is mapped. After fork the child may only close.
 */
#ifndef NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_KMOD_H
#define NUMALLOC_PROFILER_RECORD_SOURCES_ACCESS_KMOD_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "kmod-ibs/uapi/numalloc_ibs.h"

typedef struct na_kmod_ring {
    struct na_ibs_ring *shared; /* NULL: no such CPU, or it was not online */
} na_kmod_ring_t;

typedef struct na_kmod {
    int fd; /* -1: not open */
    struct na_ibs_info info;
    uint32_t records; /* of each ring; 0: none are mapped */
    uint32_t rings;   /* size of the table */
    uint32_t mapped;  /* of these */
    char *places;     /* where they go, one each `stride` bytes, and what stays mapped after them;
                         NULL: anywhere, and nothing stays */
    uint64_t stride;
    uint64_t no_ring; /* samples on CPUs that had none, when they were looked for */
    na_kmod_ring_t *ring;
    uint64_t drained; /* records handed out */
    uint64_t most;    /* of these, of the last drain, from the fullest ring */
    uint64_t broken;  /* records that were not what the ring promised, skipped: 0 unless there is a
                         defect */
} na_kmod_t;

/* What a source that failed says to the user: one line, without its end. */
#define NA_KMOD_WHY 160

/* Opens the device and asks what it can do. 0, or -errno with the reason in `why`. */
int na_kmod_open(na_kmod_t *kmod, char why[NA_KMOD_WHY]);

/* Makes and maps the rings of the CPUs that are online. Poll and na_kmod_wait return when one holds
 * `watermark` records. Once an object. */
int na_kmod_map(na_kmod_t *kmod, uint32_t records, uint32_t watermark);

/* Why the last call was refused, as the module says, or else as the caller does. */
void na_kmod_why(na_kmod_t *kmod, const char *otherwise, char why[NA_KMOD_WHY]);

/* Fills in the size and starts; `start` then says which period is in force. A source that needs
 * perf's number of ibs_op finds it in /sys. */
int na_kmod_start(na_kmod_t *kmod, struct na_ibs_start *start, char why[NA_KMOD_WHY]);
int na_kmod_stop(na_kmod_t *kmod);

/* Hands out what is there, ring by ring, and returns how many records that was. A record is read
 * before its place is given back, so `each` may look at it, not keep it. */
size_t na_kmod_drain(na_kmod_t *kmod, void (*each)(void *argument, const struct na_ibs_record *),
                     void *argument);

/* Waits until a ring has reached the watermark, at most this long. 1: it has; 0: time is over;
 * negative: -errno, -ENXIO when the session has ended. */
int na_kmod_wait(na_kmod_t *kmod, int milliseconds);

/* Counters of one CPU's ring, or of all (-1); then CPUs that came meanwhile are given rings. */
int na_kmod_stats(na_kmod_t *kmod, int cpu, struct na_ibs_stats *stats);

/* Ends the session. Safe on an object that failed to open. */
void na_kmod_close(na_kmod_t *kmod);

#endif
