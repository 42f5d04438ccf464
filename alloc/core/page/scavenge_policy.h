/* scavenge_policy.h - when free memory goes down a level, how much of it, and at what cost.
 *
 *   level           goes when                          to              how much
 *   --------------  ---------------------------------  --------------  -------------------------
 *   bin             full                               overflow batch  the bin
 *                   young, beyond its share            spans           the bin
 *                   unused for IDLE_MS, or while its   spans           the bin
 *                   thread drew IDLE_DRAWN bytes
 *   overflow batch  not taken for IDLE_MS              spans           those
 *                   more than the limit is kept        spans           all of the thread's
 *                   new memory would be touched        spans           all of the thread's
 *                   others want it (pooled classes)    transfer cache  the oldest
 *                   its thread sleeps for OTHERS_MS    spans           OTHERS_BYTES a thread
 *   remote batch    64 blocks or 16 KiB; each POLL_MS  its owner       the batch
 *   outbox          256 blocks or 256 KiB; each POLL_MS nodes' inboxes, all of it
 *                                                      full ones: spans
 *   inbox         a thread of the node has a dry bin overflow batch  a parcel: 63 blocks
 *                   untouched for TRANSFER_IDLE_MS     spans           those parcels
 *   remote free     its owner wants the class          overflow batch  the class
 *   list            its owner is gone                  spans           all, but WARM_REMOTE
 *                   beyond REMOTE_LEAST, none taken    spans           all
 *                   from then on beyond a batch, until spans           all
 *                   its owner fills or empties bins
 *   warm cache      not adopted for 1 to 2 OTHERS_MS   spans           all
 *   transfer cache  untouched for TRANSFER_IDLE_MS     spans           those batches
 *   large bins      full                               run cache       other slots' runs, or the
 *                                                                      block and some of its slot
 *                   slot unused for IDLE_MS            page heap       the slot
 *   run cache       beyond its share                   page heap       as many runs as came
 *                   unused for TRANSFER_IDLE_MS        page heap       those runs
 *   either          new memory would be touched        page heap       all of thread and node
 *   list of a heap  64 blocks or 32 KiB; unused for    its heap        the list
 *   of the program  IDLE_MS
 *   span            empty                              page heap       all but one a class; that
 *                                                                      one with an idle bin
 *   free pages      older than NUMALLOC_PURGE_DELAY    system          PURGE_TICK a look
 *                   beyond the cap                     system          down to half of it
 *                   resident beyond the latest peak    moved, system   what is beyond (purge.h)
 *   any of these    memory pressure becomes critical   system          all, once a thread
 *                   malloc_trim                        system          the caller's, all free pages
 *
 * Who does it: the thread whose it is. What is nobody's, or belongs to threads that sleep or are
 * gone, whoever comes by first. Slow paths drive all of it (alloc/core/thread/scavenge.h).
 *
 * What it costs: a counter in each slow path, and the clock in one of SCAVENGE_CALLS. Of what is
 * due: each IDLE_MS a pass over the classes that the thread uses; one thread of a node looks over
 * its transfer cache, and one of the process over at most OTHERS_AT_ONCE thread caches. A block
 * that goes to its span costs a look at the page map; a free hugepage a system call, and faults
 * when it is wanted again.
 *
 * What follows is derived from the numbers of tuned.h. docs/decisions/ has the measurements
 * (giving-back, large-blocks, ahead). */
#ifndef NUMALLOC_ALLOC_CORE_PAGE_SCAVENGE_POLICY_H
#define NUMALLOC_ALLOC_CORE_PAGE_SCAVENGE_POLICY_H

#include "alloc/core/sys/tuned.h"

#define NA_OTHERS_AT_ONCE   (4 * NA_BATCH_BLOCKS) /* thread caches looked over at once */
#define NA_PURGE_CAP_MOST   7u /* doublings of the cap, from 8 MiB to 16 * NA_CACHED_BYTES */
#define NA_TRANSFER_IDLE_MS (NA_IDLE_MS / 2) /* batches in the transfer cache */
#define NA_IDLE_DRAWN       NA_LITTLE_BYTES /* drawn from spans, and a bin was not used meanwhile */
#define NA_OVERFLOW_TOTAL   NA_CACHED_BYTES /* of all threads, */
#define NA_OVERFLOW_MAX     (NA_CACHED_BYTES / 4) /* of one, */
#define NA_OVERFLOW_LEAST   NA_LITTLE_BYTES       /* and always */
#define NA_GROWN_BYTES      (NA_CACHED_BYTES / 4) /* of a grown-up bin, by the threads */
#define NA_YOUNG_BYTES      NA_SLACK_BYTES        /* of a young one, by their square (bin.h) */
#define NA_REMOTE_LEAST     (NA_CACHED_BYTES / 8) /* remote frees that no poster minds; doubles */
#define NA_REMOTE_MOST      NA_CACHED_BYTES       /* while the owner comes for them, up to this; */
#define NA_REMOTE_HALVINGS  9                     /* to a batch while it does not */
#define NA_OUTBOX_BYTES     NA_LITTLE_BYTES       /* of other nodes, by one thread */
#define NA_OTHERS_MS        NA_IDLE_MS            /* threads that sleep, warm thread caches */
#define NA_OTHERS_BYTES     NA_SLACK_BYTES /* of one that sleeps: what it can be made to wait for */
#define NA_WARM_ALL         (NA_CACHED_BYTES / 4)   /* kept by all warm ones: in the bins */
#define NA_WARM_BYTES       (NA_CACHED_BYTES / 128) /* of one at most, */
#define NA_WARM_REMOTE      NA_BATCH_BYTES          /* and for its remote frees */
/* Free pages of a node; bytes, in pages of ours where purge.c uses them. */
#define NA_PURGE_CAP_BASE     (NA_CACHED_BYTES / 8) /* or an eighth of what is used */
#define NA_PURGE_CAP_CRITICAL NA_SLACK_BYTES        /* while pressure is critical */
#define NA_PURGE_CALM_MS      (4 * NA_IDLE_MS)      /* without regret before the cap shrinks */
#define NA_PURGE_PEAK_MS      (2 * NA_IDLE_MS)      /* a peak older than that binds no more */
#define NA_PURGE_SLACK        NA_SLACK_BYTES        /* beyond the peak and an eighth */
#define NA_PURGE_TICK         NA_CACHED_BYTES       /* a tick purges no more */

/* Kept runs: bytes, as a part of what the node's spans hold (NA_KEPT_PART; it doubles for programs
 * that work in waves). */
#define NA_KEPT_LEAST        NA_LITTLE_BYTES        /* and one run of any length */
#define NA_KEPT_MOST         NA_CACHED_BYTES        /* of a node */
#define NA_LARGE_BINS_MOST   (NA_CACHED_BYTES / 16) /* of a thread, */
#define NA_LARGE_BINS_EARNED (NA_CACHED_BYTES / 8)  /* what it sends away and takes back, */
#define NA_LARGE_BINS_ALL    (NA_CACHED_BYTES / 4)  /* and of all, by the threads */

#endif
