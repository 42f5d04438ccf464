/* trace.c - mode trace, at each event: one or two units of 16 bytes into the thread's buffer.
 *
 * `used` of the buffer is stored after the units, so that at any instant the file holds whole
 * events only (a kill loses the one being written). Stamps: a free is stamped in on_trace_free,
 * before the block is in reach of others; an allocation in on_alloc, after the block was taken.
 * (That the processor does not read its time stamp counter before it took a block that another
 * thread may have freed is seen to by the caller: hooks.h.)
 *
 * Where realloc copies, the new block's event waits for the old one's, and both have one stamp,
 * that of the time when it was taken: nothing of another thread is told between them. */
#include "profiler/record/events/trace.h"

#include "profiler/record/events/rthreads.h"
#include "profiler/record/stacks/capture.h"

static bool stacks_of_allocs, stacks_of_frees;

void na_trace_configure(const na_profile_config_t *config) {
    stacks_of_allocs = config->trace_stacks != NA_TRACE_STACKS_NONE;
    stacks_of_frees = config->trace_stacks == NA_TRACE_STACKS_ALL;
}

_Static_assert(NA_ADDRESS_BITS <= 48, "addresses share their word with 16 bits");

static NA_NOINLINE bool turn_buffer(na_rthread_t *t) {
    na_nprof_buffer_t *b = na_trace_writer_turn(t);
    t->trace = b;
    t->trace_at = t->trace_end = NULL;
    if (b == NULL) {
        na_rec_lose(&na_rec.header->lost_events, 1);
        return false;
    }
    /* Stamps are rounded, and of equal ones a free comes first: the first event here must not come
     * before the last one there. */
    t->trace_last = ((t->trace_last >> b->tick_shift) + 1) << b->tick_shift;
    t->trace_at = (na_nprof_unit_t *)(b + 1);
    t->trace_end = t->trace_at + na_trace_buffer_units(b);
    return true;
}

/* Room for an event; false: it is lost, and counted. */
NA_INLINE bool has_room(na_rthread_t *t) {
    return !NA_UNLIKELY(t->trace_end - t->trace_at < 2) || turn_buffer(t);
}

/* Never earlier than the event before, whatever the clock does. */
NA_INLINE uint64_t stamp(na_rthread_t *t) {
    uint64_t now = na_rec_now() - na_rec.start_ticks;
    if (NA_UNLIKELY((int64_t)(now - t->trace_last) < 0)) now = t->trace_last;
    return t->trace_last = now;
}

/* The units at trace_at, `more` of them beyond one, become an event. */
NA_INLINE void commit(na_rthread_t *t, unsigned units) {
    t->trace_at += units;
    uint32_t used = (uint32_t)(t->trace_at - (na_nprof_unit_t *)(t->trace + 1));
    __atomic_store_n(&t->trace->used, used, __ATOMIC_RELEASE);
}

NA_INLINE bool put_alloc(na_rthread_t *t, unsigned kind, const void *block, unsigned align,
                         size_t requested, uint32_t stack, uint32_t slack, uint64_t ticks) {
    if (!has_room(t)) return false;
    if (NA_UNLIKELY(ticks < t->trace_last)) ticks = t->trace_last; /* of a new buffer */
    na_nprof_unit_t *u = t->trace_at;
    u[0].head = ticks << 8 | NA_NPROF_EVENT_MORE | kind;
    u[0].word = (uintptr_t)block | (uint64_t)align << 48;
    u[1].head = requested;
    u[1].word = stack | (uint64_t)slack << 32;
    commit(t, 2);
    return true;
}

NA_INLINE void put_free(na_rthread_t *t, unsigned kind, const void *block, size_t usable,
                        const void *moved_to, uint32_t stack, uint64_t ticks) {
    if (!has_room(t)) return;
    if (NA_UNLIKELY(ticks < t->trace_last)) ticks = t->trace_last; /* of a new buffer */
    na_nprof_unit_t *u = t->trace_at;
    bool more = moved_to != NULL || stack != NA_NPROF_NO_STACK;
    u[0].head = ticks << 8 | kind | (more ? NA_NPROF_EVENT_MORE : 0);
    u[0].word = (uintptr_t)block | (usable <= 32768 ? (uint64_t)usable / 16 << 48 : 0);
    u[1].head = (uintptr_t)moved_to;
    u[1].word = stack;
    commit(t, more ? 2 : 1);
}

void na_trace_attached(na_rthread_t *t) {
    if (t->trace == NULL || !has_room(t)) return;
    if (t->trace->used == 0) {
        t->trace->thread = t->index;
        return;
    }
    t->trace_at->head = stamp(t) << 8 | NA_NPROF_EVENT_THREAD;
    t->trace_at->word = t->index;
    commit(t, 1);
}

void na_trace_ended(na_rthread_t *t) {
    if (t->trace != NULL && t->trace->used != 0) na_trace_writer_take(t->trace);
    t->trace = NULL;
    t->trace_at = t->trace_end = NULL;
}

/* The figures of the thread and of the process as a whole. */
NA_INLINE void count_alloc(na_rthread_t *t, size_t requested, na_entry_t entry) {
    t->entry->alloc_count++;
    t->entry->alloc_bytes += requested;
    t->entry->calls[na_entry_kind(entry)]++;
}

NA_INLINE void count_free(na_rthread_t *t, size_t requested) {
    t->entry->free_count++;
    t->entry->free_bytes += requested;
}

NA_INLINE void leave(na_rthread_t *t) {
    const na_nprof_thread_t *e = t->entry;
    int64_t net = (int64_t)(e->alloc_bytes - e->free_bytes);
    if (NA_UNLIKELY(net > t->above || net < t->below ||
                    na_rec.start_ticks + t->trace_last >= t->due))
        na_site_publish(t);
    na_rthread_leave();
}

NA_INLINE uint32_t stack_of(na_rthread_t *t, bool wanted) {
    return wanted ? na_stacks_capture(t) : NA_NPROF_NO_STACK;
}

static void fill_unit(na_rthread_t *t, na_record_t *record, uint32_t stack, size_t slack) {
    /* The event's own stamp: reading the clock is a good part of what an event costs. */
    uint64_t birth = na_ages(na_rec.start_ticks + t->trace_last);
    na_record_set_slack(record, (uint16_t)slack);
    na_record_set_thread(record, (uint16_t)t->index);
    na_record_set_site(record, stack != NA_NPROF_NO_STACK ? stack : NA_NPROF_ROOT);
    na_record_publish(record, birth, na_profile_epoch);
}

static unsigned alloc_kind(na_entry_t entry) {
    switch (na_entry_kind(entry)) {
    case NA_ENTRY_CALLOC:
        return NA_NPROF_EVENT_CALLOC;
    case NA_ENTRY_REALLOC:
        return NA_NPROF_EVENT_REALLOC;
    case NA_ENTRY_ALIGNED:
        return NA_NPROF_EVENT_ALIGNED;
    case NA_ENTRY_NEW:
        return NA_NPROF_EVENT_NEW;
    case NA_ENTRY_NEW_ARRAY:
        return NA_NPROF_EVENT_NEW_ARRAY;
    default:
        return NA_NPROF_EVENT_MALLOC;
    }
}

static unsigned free_kind(na_release_t how) {
    switch (how) {
    case NA_RELEASE_DELETE:
        return NA_NPROF_EVENT_DELETE;
    case NA_RELEASE_DELETE_ARRAY:
        return NA_NPROF_EVENT_DELETE_ARRAY;
    case NA_RELEASE_REALLOC:
        return NA_NPROF_EVENT_MOVED;
    default:
        return NA_NPROF_EVENT_FREE;
    }
}

/* The block that waited is told of, and counts. */
static void tell_moving(na_rthread_t *t, uint64_t ticks) {
    const na_moving_t b = t->moving;
    t->moving.block = NULL;
    if (put_alloc(t, NA_NPROF_EVENT_REALLOC, b.block, 0, b.requested, b.site,
                  (uint32_t)(b.usable - b.requested), ticks))
        count_alloc(t, b.requested, b.entry);
    else
        na_record_set_site(b.record, NA_NPROF_NO_STACK); /* its free is not told either */
}

void na_trace_moving_left(na_rthread_t *t) {
    if (t->moving.block != NULL) tell_moving(t, stamp(t));
}

static void on_alloc(void **prof, na_record_t *record, void *block, size_t requested, size_t usable,
                     na_entry_t entry, const void *entered) {
    na_record_set_site(record, NA_NPROF_NO_STACK); /* if it is lost, its free is not told either */
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    t->node = record->node;
    uint32_t stack =
        stacks_of_allocs ? na_stacks_capture_from(t, entered, false).node : NA_NPROF_NO_STACK;
    size_t slack = usable - requested;
    if (NA_UNLIKELY(na_entry_moves(entry))) {
        na_trace_moving_left(t);
        uint64_t ticks = stamp(t);
        fill_unit(t, record, stack, slack);
        t->moving =
            (na_moving_t){block, record, NULL, requested, usable, ticks, stack, entry, false};
    } else if (put_alloc(t, alloc_kind(entry), block, na_entry_align_log2(entry), requested, stack,
                         (uint32_t)slack, stamp(t))) {
        fill_unit(t, record, stack, slack);
        count_alloc(t, requested, entry);
    }
    leave(t);
}

/* A block of this profile, or one from before it; false: an allocation that was lost. */
static bool is_traced(const na_record_t *record, size_t usable, unsigned *flags) {
    *flags = 0;
    if (!na_rec_not_ours(record, usable)) return true;
    if (record->epoch == na_profile_epoch) return false;
    *flags = NA_NPROF_EVENT_BEFORE;
    return true;
}

static void on_trace_free(void **prof, const na_record_t *record, void *block, size_t usable,
                          na_release_t how, const void *moved_to) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    unsigned flags;
    bool told = is_traced(record, usable, &flags), moves = false;
    uint64_t ticks = 0;
    if (NA_UNLIKELY(how == NA_RELEASE_REALLOC) && moved_to != NULL && t->moving.block == moved_to) {
        /* One stamp for both, unless a signal handler's events came between. */
        moves = true;
        ticks = t->trace_last == t->moving.ticks ? t->moving.ticks : stamp(t);
        tell_moving(t, ticks);
    }
    if (told) {
        uint32_t stack = stack_of(t, stacks_of_frees);
        if (!moves) ticks = stamp(t);
        put_free(t, free_kind(how) | flags, block, usable, moved_to, stack, ticks);
        if (flags == 0) {
            count_free(t, usable - record->slack);
            if (how != NA_RELEASE_REALLOC) t->entry->calls[na_call_of_release(how)]++;
        }
    }
    leave(t);
}

static void before_trace_move(void **prof, const na_record_t *record, const void *block) {
    (void)record;
    (void)block;
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    t->trace_move = stamp(t);
    na_rthread_leave();
}

static void on_trace_resize(void **prof, na_record_t *record, const void *old_block, void *block,
                            size_t old_usable, size_t requested, size_t usable) {
    na_record_t old = *record;
    na_record_unpublish(record, old.epoch);
    na_record_set_site(record, NA_NPROF_NO_STACK);
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    unsigned flags;
    bool told = is_traced(&old, old_usable, &flags);
    uint32_t stack = stack_of(t, stacks_of_allocs);
    size_t slack = usable - requested;
    unsigned kind = NA_NPROF_EVENT_RESIZE;
    /* Unless a signal handler's events came between: stamps must not go back. */
    bool in_order = block != old_block && t->trace_move == t->trace_last;
    uint64_t moved_at = in_order ? t->trace_move : stamp(t);
    if (block != old_block || !told || flags != 0) {
        /* Nothing that the trace knows is resized: an old block goes (if it is known to have been
         * there), another comes. */
        kind = NA_NPROF_EVENT_REALLOC;
        if (told)
            put_free(t, NA_NPROF_EVENT_MOVED | flags, old_block, old_usable, block,
                     NA_NPROF_NO_STACK, moved_at);
    }
    if (put_alloc(t, kind, block, 0, requested, stack, (uint32_t)slack, stamp(t))) {
        fill_unit(t, record, stack, slack);
        if (told && flags == 0) count_free(t, old_usable - old.slack);
        count_alloc(t, requested, NA_ENTRY_REALLOC);
    }
    leave(t);
}

na_hooks_t na_trace_hooks;

void na_trace_hooks_set(void) {
    na_trace_hooks = na_rec_hooks;
    na_trace_hooks.on_alloc = on_alloc;
    na_trace_hooks.on_free = on_trace_free;
    na_trace_hooks.before_move = before_trace_move;
    na_trace_hooks.on_resize = on_trace_resize;
    na_trace_hooks.traced_alloc = NULL;
    na_trace_hooks.traced_free = NULL;
}
