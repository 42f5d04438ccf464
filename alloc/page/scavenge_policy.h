/* scavenge_policy.h - when free memory goes down a level, how much of it, and at what cost.
 *
 *   level           goes when                          to              how much
 *   --------------  ---------------------------------  --------------  -------------------------
 *   bin             full                               overflow batch  the bin
 *                   young, beyond its share            spans           the bin
 *                   unused for IDLE_MS, or while its   spans           the bin
 *                   thread drew IDLE_DRAWN bytes
 *                   (holds more, of the larger classes, where threads exchange them: FLOW_BYTES)
 *   overflow batch  not taken for IDLE_MS              spans           those
 *                   more than the limit is kept        spans           all of the thread's
 *                   new memory would be touched        spans           all of the thread's
 *                   others want it (pooled classes)    transfer cache  the oldest
 *                   its thread sleeps for OTHERS_MS    spans           OTHERS_BYTES a thread
 *   remote batch    64 blocks or 16 KiB; each POLL_MS  its owner       the batch
 *   remote free     its owner wants the class          overflow batch  the class
 *   list            its owner is gone                  spans           all, but WARM_REMOTE
 *                   beyond REMOTE_LEAST, none taken    spans           all
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
 * gone, whoever comes by first. Slow paths drive all of it (alloc/thread/scavenge.h).
 *
 * What it costs: a counter in each slow path, and the clock in one of SCAVENGE_CALLS. Of what is
 * due: each IDLE_MS a pass over the classes that the thread uses; one thread of a node looks over
 * its transfer cache, and one of the process over at most OTHERS_AT_ONCE thread caches. A block
 * that goes to its span costs a look at the page map; a free hugepage a system call, and faults
 * when it is wanted again.
 *
 * These constants are tuned against each other. Decisions 0002, 0005, 0014, 0034 and 0041 have the
 * measurements; for kept runs 0047, for what is ahead of use 0064. */
#ifndef NUMALLOC_ALLOC_PAGE_SCAVENGE_POLICY_H
#define NUMALLOC_ALLOC_PAGE_SCAVENGE_POLICY_H

/* The clock. */
#define NA_SCAVENGE_CALLS   32u   /* slow paths between two looks at it */
#define NA_POLL_MS          10u   /* between two polls that do something */
#define NA_IDLE_MS          1000u /* bins, overflow batches */
#define NA_TRANSFER_IDLE_MS 500u  /* batches in the transfer cache */
#define NA_OTHERS_MS        1000u /* threads that sleep, warm thread caches */

/* Bytes. */
#define NA_IDLE_DRAWN     (256u << 10) /* drawn from spans, and a bin was not used meanwhile */
#define NA_OVERFLOW_TOTAL (64u << 20)  /* of all threads, while they are fewer than 256 */
#define NA_OVERFLOW_MAX   (8u << 20)   /* of one, */
#define NA_OVERFLOW_WAVES 3u           /* which doubles for one that works in waves */
#define NA_OVERFLOW_LEAST (256u << 10) /* of one, always; and its limit after it only frees */
#define NA_YOUNG_BYTES    (1u << 20)   /* of a young bin, by the square of the threads (young.h) */
#define NA_LEFT_BYTES     (256u << 10) /* at least, where a thread has left, by the threads */
#define NA_FLOW_BYTES     (4u << 20)   /* of a bin, by the square of the threads (bin.c) */
#define NA_GROWN_BYTES    (16u << 20)  /* of a grown-up bin, by the threads */
#define NA_REMOTE_LEAST   (8u << 20)   /* remote frees that no poster minds; doubles while the */
#define NA_REMOTE_MOST    (64u << 20)  /* owner comes for them, up to this */
#define NA_OTHERS_BYTES   (1u << 20) /* of a thread that sleeps: what it can be made to wait for */
#define NA_WARM_BYTES     (512u << 10) /* in the bins of a warm thread cache */
#define NA_WARM_ALL       (2u << 20)   /* in all of them */
#define NA_WARM_REMOTE    (128u << 10) /* remote frees of one */

/* Kept runs: bytes, as a part of what the node's spans hold (a power of two; it doubles for
 * programs that work in waves). */
#define NA_KEPT_PART         32u
#define NA_KEPT_LEAST        (256u << 10) /* and one run of any length */
#define NA_KEPT_MOST         (64u << 20)  /* of a node */
#define NA_LARGE_BINS_MOST   (4u << 20)   /* of a thread, */
#define NA_LARGE_BINS_EARNED (8u << 20)   /* what it sends away and takes back, */
#define NA_LARGE_BINS_COST   4u           /* of which sending costs this part, */
#define NA_LARGE_BINS_ALL    (16u << 20)  /* and of all, by the threads */

/* Thread caches. */
#define NA_WARM_MOST      16u
#define NA_WARM_TRIES     4u   /* older ones that make room for one that is just abandoned */
#define NA_OTHERS_AT_ONCE 256u /* that there are thousands must not cost any thread much */
#define NA_PURGE_MANY     64u  /* from so many threads on the cap doubles only once */

/* Free pages of a node; bytes, in pages of ours where purge.c uses them. */
#define NA_PURGE_CAP_BASE     (8u << 20)  /* of a node, or an eighth of what is in use */
#define NA_PURGE_CAP_MOST     7u          /* doublings: 1 GiB */
#define NA_PURGE_CAP_CRITICAL (1u << 20)  /* while pressure is critical */
#define NA_PURGE_CALM_MS      4000u       /* without regret before the cap shrinks */
#define NA_PURGE_PEAK_MS      2000u       /* a peak older than that binds no more */
#define NA_PURGE_SLACK        (1u << 20)  /* beyond the peak and an eighth */
#define NA_PURGE_TICK         (64u << 20) /* a tick purges no more */

#endif
