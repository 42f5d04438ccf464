/* tell.h - mode trace, an event's units and figures, to be inlined where events come in: trace.c
 * for the hooks, usual.c where they are inlined. See trace.c. */
#ifndef NUMALLOC_PROFILER_RECORD_EVENTS_TELL_H
#define NUMALLOC_PROFILER_RECORD_EVENTS_TELL_H

#include "profiler/record/events/rthreads.h"
#include "profiler/record/events/trace.h"
#include "profiler/record/stacks/walk.h"

/* trace.c */
extern NA_NEAR bool na_trace_stacks_of_allocs, na_trace_stacks_of_frees;
/* Another buffer; false: there is none, the event is lost, which is counted. */
bool na_trace_turn(na_rthread_t *t);
/* The block that waits (state.h) is told of at this time, and counts. */
void na_trace_tell_moving(na_rthread_t *t, uint64_t ticks);

/* Room for an event; false: it is lost, and counted. */
NA_INLINE bool na_trace_has_room(na_rthread_t *t) {
    return !NA_UNLIKELY(t->trace_end - t->trace_at < 2) || na_trace_turn(t);
}

/* Never earlier than the event before, whatever the clock does. */
NA_INLINE uint64_t na_trace_stamp(na_rthread_t *t) {
    uint64_t now = na_rec_now() - na_rec.start_ticks;
    if (NA_UNLIKELY((int64_t)(now - t->trace_last) < 0)) now = t->trace_last;
    return t->trace_last = now;
}

/* The units at trace_at, so many of them, become an event. */
NA_INLINE void na_trace_commit(na_rthread_t *t, unsigned units) {
    t->trace_at += units;
    uint32_t used = (uint32_t)(t->trace_at - (na_nprof_unit_t *)(t->trace + 1));
    __atomic_store_n(&t->trace->used, used, __ATOMIC_RELEASE);
}

NA_INLINE bool na_trace_put_alloc(na_rthread_t *t, unsigned kind, const void *block, unsigned align,
                                  size_t requested, uint32_t stack, uint32_t slack,
                                  uint64_t ticks) {
    if (!na_trace_has_room(t)) return false;
    if (NA_UNLIKELY(ticks < t->trace_last)) ticks = t->trace_last; /* of a new buffer */
    na_nprof_unit_t *u = t->trace_at;
    u[0].head = ticks << 8 | NA_NPROF_EVENT_MORE | kind;
    u[0].word = (uintptr_t)block | (uint64_t)align << 48;
    u[1].head = requested;
    u[1].word = stack | (uint64_t)slack << 32;
    na_trace_commit(t, 2);
    return true;
}

NA_INLINE void na_trace_put_free(na_rthread_t *t, unsigned kind, const void *block, size_t usable,
                                 const void *moved_to, uint32_t stack, uint64_t ticks) {
    if (!na_trace_has_room(t)) return;
    if (NA_UNLIKELY(ticks < t->trace_last)) ticks = t->trace_last; /* of a new buffer */
    na_nprof_unit_t *u = t->trace_at;
    bool more = moved_to != NULL || stack != NA_NPROF_NO_STACK;
    u[0].head = ticks << 8 | kind | (more ? NA_NPROF_EVENT_MORE : 0);
    u[0].word = (uintptr_t)block | (usable <= 32768 ? (uint64_t)usable / 16 << 48 : 0);
    if (more) u[1] = (na_nprof_unit_t){(uintptr_t)moved_to, stack};
    na_trace_commit(t, more ? 2 : 1);
}

/* The figures of the thread and of the process as a whole. */
NA_INLINE void na_trace_count_alloc(na_rthread_t *t, size_t requested, na_entry_t entry) {
    t->entry->alloc_count++;
    t->entry->alloc_bytes += requested;
    t->entry->calls[na_entry_kind(entry)]++;
}

NA_INLINE void na_trace_count_free(na_rthread_t *t, size_t requested) {
    t->entry->free_count++;
    t->entry->free_bytes += requested;
}

NA_INLINE void na_trace_leave(na_rthread_t *t) {
    const na_nprof_thread_t *e = t->entry;
    int64_t net = (int64_t)(e->alloc_bytes - e->free_bytes);
    if (NA_UNLIKELY(net > t->above || net < t->below ||
                    na_rec.start_ticks + t->trace_last >= t->due))
        na_site_publish(t);
    na_rthread_leave();
}

/* Of the event that was stamped last, whose clock's reading is a good part of what it costs;
 * `rest`: node and epoch, as they lie in words[1]. */
NA_INLINE void na_trace_fill(const na_rthread_t *t, na_record_t *record, uint64_t rest,
                             uint32_t stack, size_t slack) {
    uint64_t birth = na_ages(na_rec.start_ticks + t->trace_last);
    uint32_t site = stack != NA_NPROF_NO_STACK ? stack : NA_NPROF_ROOT;
    __atomic_store_n(&record->words[0],
                     site | (uint64_t)(uint16_t)slack << NA_RECORD_SLACK_SHIFT |
                         (uint64_t)t->known_as << NA_RECORD_THREAD_SHIFT,
                     __ATOMIC_RELAXED);
    __atomic_store_n(&record->words[1],
                     rest | (birth & NA_RECORD_TIME_MASK) << NA_RECORD_BIRTH_SHIFT,
                     __ATOMIC_RELEASE);
}

/* Kinds of events are entry points and releases, in their order. */
NA_INLINE unsigned na_trace_kind(na_entry_t entry) {
    _Static_assert(NA_NPROF_EVENT_MALLOC == NA_ENTRY_MALLOC + 1 &&
                       NA_NPROF_EVENT_NEW_ARRAY == NA_ENTRY_NEW_ARRAY + 1 &&
                       NA_NPROF_EVENT_FREE == NA_RELEASE_FREE + 8 &&
                       NA_NPROF_EVENT_MOVED == NA_RELEASE_REALLOC + 8,
                   "the numbers in the file");
    return (unsigned)na_entry_kind(entry) + NA_NPROF_EVENT_MALLOC;
}

/* ---- the hooks ---- */

/* A block of this profile, or one from before it; false: an allocation that was lost. */
NA_INLINE bool na_trace_tells(const na_record_t *record, size_t usable, unsigned *flags) {
    *flags = 0;
    if (!na_rec_not_ours(record, usable)) return true;
    if (record->epoch == na_profile_epoch) return false;
    *flags = NA_NPROF_EVENT_BEFORE;
    return true;
}

NA_INLINE void na_trace_alloc_event(void **prof, na_record_t *record, const void *block,
                                    size_t requested, size_t usable, na_entry_t entry,
                                    const void *entered) {
    na_record_set_site(record, NA_NPROF_NO_STACK); /* if it is lost, its free is not told either */
    na_rthread_t *t = na_rthread_enter(prof);
    if (NA_UNLIKELY(t == NULL)) return;
    na_rthread_on_node(t, record->node);
    uint32_t stack = NA_LIKELY(na_trace_stacks_of_allocs)
                         ? na_stacks_capture_from(t, entered, false).node
                         : NA_NPROF_NO_STACK;
    size_t slack = usable - requested;
    if (NA_UNLIKELY(na_entry_moves(entry))) {
        na_trace_moving_left(t);
        uint64_t ticks = na_trace_stamp(t);
        na_trace_fill(t, record, t->record_rest, stack, slack);
        t->moving =
            (na_moving_t){block, record, NULL, requested, usable, ticks, stack, entry, false};
    } else if (na_trace_put_alloc(t, na_trace_kind(entry), block, na_entry_align_log2(entry),
                                  requested, stack, (uint32_t)slack, na_trace_stamp(t))) {
        na_trace_fill(t, record, t->record_rest, stack, slack);
        na_trace_count_alloc(t, requested, entry);
    }
    na_trace_leave(t);
}

/* `usual`: the free of a small block of this profile, which nothing replaces. */
NA_INLINE void na_trace_free_event(void **prof, const na_record_t *record, const void *block,
                                   size_t usable, na_release_t how, const void *moved_to,
                                   const bool usual) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (NA_UNLIKELY(t == NULL)) return;
    unsigned flags = 0;
    bool told = usual ? NA_LIKELY(record->site != NA_NPROF_NO_STACK)
                      : na_trace_tells(record, usable, &flags);
    bool moves = false;
    uint64_t ticks = 0;
    if (!usual && NA_UNLIKELY(how == NA_RELEASE_REALLOC) && moved_to != NULL &&
        t->moving.block == moved_to) {
        /* One stamp for both, unless a signal handler's events came between. */
        moves = true;
        ticks = t->trace_last == t->moving.ticks ? t->moving.ticks : na_trace_stamp(t);
        na_trace_tell_moving(t, ticks);
    }
    if (told) {
        uint32_t stack =
            NA_UNLIKELY(na_trace_stacks_of_frees) ? na_stacks_capture(t) : NA_NPROF_NO_STACK;
        if (!moves) ticks = na_trace_stamp(t);
        na_trace_put_free(t, ((unsigned)how + NA_NPROF_EVENT_FREE) | flags, block, usable, moved_to,
                          stack, ticks);
        if (flags == 0) {
            na_trace_count_free(t, usable - record->slack);
            if (usual || how != NA_RELEASE_REALLOC) t->entry->calls[na_call_of_release(how)]++;
        }
    }
    na_trace_leave(t);
}

#endif
