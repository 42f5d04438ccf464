/* trace.h - mode trace: every event by itself.
 *
 *      hooks (trace.c)                    pool and writer (trace_writer.c)
 *   thread -> its buffer, in the file --- full ---> queue -> coded, compressed -> TRACE chunk
 *                  ^                                   |
 *                  +------------- free buffers <-------+
 *
 * A buffer lies in the file's shared mapping, so that a kill loses no event that was in it. Full
 * ones are coded and compressed by a thread of the recorder's own. Where there is none (before the
 * library's constructor, in a forked child, or by option), and when the queue is full, the thread
 * that fills buffers does it itself: memory stays bounded, and nothing is lost unless an option
 * prefers that (it is counted). */
#ifndef NUMALLOC_PROFILER_RECORD_EVENTS_TRACE_H
#define NUMALLOC_PROFILER_RECORD_EVENTS_TRACE_H

#include "profiler/record/state/record.h"
#include "profiler/record/state/state.h"

/* ---- trace.c ---- */
extern NA_NEAR na_hooks_t na_trace_hooks;
void na_trace_hooks_set(void);
/* Keeps what of the configuration the hooks need. */
void na_trace_configure(const na_profile_config_t *config);
/* A thread takes over this state, and with it perhaps a buffer that another has begun. */
void na_trace_attached(na_rthread_t *t);
/* As na_site_moving_left. */
void na_trace_moving_left(na_rthread_t *t);
/* A stamp between the thread's last event and its next one, rounded as theirs will be. */
uint64_t na_trace_place(na_rthread_t *t);
/* The thread records no more, and nobody takes over: its buffer is done. */
void na_trace_ended(na_rthread_t *t);

/* ---- trace_writer.c ---- */
/* Begins with no buffers, in the file that has just been opened. */
void na_trace_writer_start(const na_profile_config_t *config);
/* Starts the recorder's own thread, if it may have one. From the library's constructor, or where
 * the program itself asked for the profile: it may call malloc. */
void na_trace_writer_thread(void);
/* The next buffer of the thread: the state's own one, full, goes to the queue. NULL: none, events
 * are lost. */
na_nprof_buffer_t *na_trace_writer_turn(na_rthread_t *t);
/* The file is lost: nobody waits for a buffer any more. Safe in a signal handler. */
void na_trace_writer_lost(void);
/* Stamps are rounded down to multiples of 1 << this. */
unsigned na_trace_writer_shift(void);
/* Units that a buffer holds. */
uint32_t na_trace_buffer_units(const na_nprof_buffer_t *buffer);
/* A buffer that its thread leaves. */
void na_trace_writer_take(na_nprof_buffer_t *buffer);
/* While no event can happen: waits until no full buffer is left, so that the file is at rest. */
void na_trace_writer_settle(void);
/* Nothing is recorded any more: everything in buffers that no running thread uses becomes chunks.
 * The recorder's own thread is gone after it. */
void na_trace_writer_finish(void);

#endif
