/* publish.h - the page of figures that others read (profiler/format/status.h), if NUMALLOC_PUBLISH
 * asks for it.
 *
 * Slow paths of malloc write it: at most a hundred times a second, and so seldom that it takes at
 * most a thousandth of one processor's time. So a process that stops allocating leaves what was so
 * some hundredths of a second before; with NUMALLOC_BACKGROUND=1 a thread goes on. Nothing else
 * looks at it: without the option it costs one load where a slow path looks at the clock.
 *
 * The file is made by the first slow path that is LEAST_MS old: shells, which come and go by the
 * hundred and end past all exit handlers, would leave one each. A forked child gets a page of its
 * own the first time it has something to say. One that was made past our fork handler (clone), and
 * one that shares memory with its parent (vfork), has none. */
#ifndef NUMALLOC_PROFILER_CONTROL_PUBLISH_H
#define NUMALLOC_PROFILER_CONTROL_PUBLISH_H

#include <stdatomic.h>
#include <stdint.h>

#include "alloc/core/sys/base.h"

/* In the library's constructor: what is wrong with the directory is said now. */
void na_publish_at_load(void);
/* The file goes. */
void na_publish_at_exit(void);
void na_publish_after_fork_child(void);

/* When the next is due (ms); UINT64_MAX: there is none. */
extern _Atomic(uint64_t) na_publish_next;
void na_publish(uint64_t now);

/* By a slow path that knows the time. Not behind the gate. */
NA_INLINE void na_publish_poll(uint64_t now) {
    if (NA_UNLIKELY(now >= atomic_load_explicit(&na_publish_next, memory_order_relaxed)))
        na_publish(now);
}

#endif
