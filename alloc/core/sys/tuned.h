/* tuned.h - the numbers that could be others: all of the core's, each with the program or the
 * promise that it is for.
 *
 * What is not here follows from these, or from the machine, the kernel, the layout of a word: it
 * says so where it stands. (`grep '^#define NA_' alloc/core/sys/tuned.h` lists them;
 * lint.conventions holds their number.) */
#ifndef NUMALLOC_ALLOC_CORE_SYS_TUNED_H
#define NUMALLOC_ALLOC_CORE_SYS_TUNED_H

/* Time. */
#define NA_SCAVENGE_CALLS   8u  /* slow paths between two looks at the clock: peak of postgres */
#define NA_POLL_MS          10u /* between two looks that do something: latency, threads that move */
#define NA_IDLE_MS          1000u /* unused for so long is not wanted: programs that idle */
#define NA_FORK_PATIENCE_MS 2u    /* fork stops others so long: threads that it waits for */
#define NA_SPINS            100 /* before a thread sleeps: locks held for some hundred instructions */

/* Bytes. */
#define NA_BATCH_BYTES  (16u << 10)  /* go from thread to thread as one: frees by others */
#define NA_LITTLE_BYTES (256u << 10) /* not worth a look: programs that do a little pay none */
#define NA_SLACK_BYTES  (1u << 20)   /* kept where little is to be kept: idle threads, pressure */
#define NA_CACHED_BYTES (64u << 20)  /* of one kind, by all threads: resident beside live memory */

/* Counts. */
#define NA_BATCH_BLOCKS   64u /* and no more blocks, linked one by one: frees by others */
#define NA_CREDIT_MAX     256 /* calls without a slow path: what a profile that begins may miss */
#define NA_TRIES          8u  /* places, runs or calls at once: no call takes long */
#define NA_SCATTERED_MANY 2   /* batches freed in random order: redis after FLUSHALL */
#define NA_INSPECTED      4   /* newest free blocks that are looked at: double frees */
#define NA_DENSE_PAGES    3   /* of a span while memory is short: control groups' limits */

/* Parts. */
#define NA_SPARE_PART 16u /* of small blocks' spans, for nothing yet: resident beside glibc's */
#define NA_KEPT_PART  32u /* of a node's spans, in kept runs; a power of two: openssl, php */
#define NA_COST_PART  4u  /* of what is sent away and back, lost: sizes in no order */

#endif
