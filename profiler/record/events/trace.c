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

#include "profiler/record/events/tell.h"

bool na_trace_stacks_of_allocs, na_trace_stacks_of_frees;

void na_trace_configure(const na_profile_config_t *config) {
    na_trace_stacks_of_allocs = config->trace_stacks != NA_TRACE_STACKS_NONE;
    na_trace_stacks_of_frees = config->trace_stacks == NA_TRACE_STACKS_ALL;
}

_Static_assert(NA_ADDRESS_BITS <= 48, "addresses share their word with 16 bits");

/* The first stamp that is later once both are rounded. */
static uint64_t next_rounded(uint64_t ticks, unsigned shift) {
    return ((ticks >> shift) + 1) << shift;
}

NA_NOINLINE bool na_trace_turn(na_rthread_t *t) {
    na_nprof_buffer_t *b = na_trace_writer_turn(t);
    t->trace = b;
    t->trace_at = t->trace_end = NULL;
    if (b == NULL) {
        na_rec_lose(&na_rec.header->lost_events, 1);
        return false;
    }
    /* Of equal stamps a free comes first: the first event here must not come before the last one
     * there. */
    t->trace_last = next_rounded(t->trace_last, b->tick_shift);
    t->trace_at = (na_nprof_unit_t *)(b + 1);
    t->trace_end = t->trace_at + na_trace_buffer_units(b);
    return true;
}

uint64_t na_trace_place(na_rthread_t *t) {
    return t->trace_last = next_rounded(na_trace_stamp(t), na_trace_writer_shift());
}

void na_trace_attached(na_rthread_t *t) {
    if (t->trace == NULL || !na_trace_has_room(t)) return;
    if (t->trace->used == 0) {
        t->trace->thread = t->index;
        return;
    }
    t->trace_at->head = na_trace_stamp(t) << 8 | NA_NPROF_EVENT_THREAD;
    t->trace_at->word = t->index;
    na_trace_commit(t, 1);
}

void na_trace_ended(na_rthread_t *t) {
    if (t->trace != NULL && t->trace->used != 0) na_trace_writer_take(t->trace);
    t->trace = NULL;
    t->trace_at = t->trace_end = NULL;
}

/* The block that waited is told of, and counts. */
void na_trace_tell_moving(na_rthread_t *t, uint64_t ticks) {
    const na_moving_t b = t->moving;
    t->moving.block = NULL;
    if (na_trace_put_alloc(t, NA_NPROF_EVENT_REALLOC, b.block, 0, b.requested, b.site,
                           (uint32_t)(b.usable - b.requested), ticks))
        na_trace_count_alloc(t, b.requested, b.entry);
    else
        na_record_set_site(b.record, NA_NPROF_NO_STACK); /* its free is not told either */
}

void na_trace_moving_left(na_rthread_t *t) {
    if (t->moving.block != NULL) na_trace_tell_moving(t, na_trace_stamp(t));
}

static void on_alloc(void **prof, na_record_t *record, void *block, size_t requested, size_t usable,
                     na_entry_t entry, const void *entered) {
    na_trace_alloc_event(prof, record, block, requested, usable, entry, entered);
}

static void on_trace_free(void **prof, const na_record_t *record, void *block, size_t usable,
                          na_release_t how, const void *moved_to) {
    na_trace_free_event(prof, record, block, usable, how, moved_to, false);
}

static void before_trace_move(void **prof, const na_record_t *record, const void *block) {
    (void)record;
    (void)block;
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    t->trace_move = na_trace_stamp(t);
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
    bool told = na_trace_tells(&old, old_usable, &flags);
    uint32_t stack = na_trace_stacks_of_allocs ? na_stacks_capture(t) : NA_NPROF_NO_STACK;
    size_t slack = usable - requested;
    uint64_t rest = record->node | (uint64_t)na_profile_epoch << NA_RECORD_EPOCH_SHIFT;
    unsigned kind = NA_NPROF_EVENT_RESIZE;
    /* Unless a signal handler's events came between: stamps must not go back. */
    bool in_order = block != old_block && t->trace_move == t->trace_last;
    uint64_t moved_at = in_order ? t->trace_move : na_trace_stamp(t);
    if (block != old_block || !told || flags != 0) {
        /* Nothing that the trace knows is resized: an old block goes (if it is known to have been
         * there), another comes. */
        kind = NA_NPROF_EVENT_REALLOC;
        if (told)
            na_trace_put_free(t, NA_NPROF_EVENT_MOVED | flags, old_block, old_usable, block,
                              NA_NPROF_NO_STACK, moved_at);
    }
    if (na_trace_put_alloc(t, kind, block, 0, requested, stack, (uint32_t)slack,
                           na_trace_stamp(t))) {
        na_trace_fill(t, record, rest, stack, slack);
        if (told && flags == 0) na_trace_count_free(t, old_usable - old.slack);
        na_trace_count_alloc(t, requested, NA_ENTRY_REALLOC);
    }
    na_trace_leave(t);
}

na_hooks_t na_trace_hooks;

void na_trace_hooks_set(void) {
    na_trace_hooks = na_rec_hooks;
    na_trace_hooks.on_alloc = on_alloc;
    na_trace_hooks.on_free = on_trace_free;
    na_trace_hooks.before_move = before_trace_move;
    na_trace_hooks.on_resize = on_trace_resize;
    na_trace_hooks.misses = &na_usual_trace;
}
