/* hooks.c - what the recorder does at each event: the table that the allocator calls through. */
#include "profiler/record/access/access.h"
#include "profiler/record/events/probes.h"
#include "profiler/record/events/rthreads.h"
#include "profiler/record/events/series.h"
#include "profiler/record/events/trace.h"
#include "profiler/record/python/python.h"

bool na_rec_not_ours_slow(const na_record_t *record, uint64_t usable) {
    if (record->epoch != na_profile_epoch) {
        if (na_origins_free(record, usable)) return true;
        __atomic_fetch_add(&na_rec.header->before_frees, 1, __ATOMIC_RELAXED);
        return true;
    }
    return record->site == NA_NPROF_NO_STACK;
}

/* Sites do not mind where a block lies. */
static void before_sites_move(void **prof, const na_record_t *record, const void *block) {
    (void)prof;
    (void)record;
    (void)block;
}

/* One block ends and another begins: at no moment were both there, or neither. */
static void on_sites_resize(void **prof, na_record_t *record, const void *old_block, void *block,
                            size_t old_usable, size_t requested, size_t usable) {
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) {
        na_record_unpublish(record, record->epoch);
        na_record_set_site(record, NA_NPROF_NO_STACK);
        return;
    }
    bool ours = !na_rec_not_ours(record, old_usable);
    bool heard = na_rec.sampling && na_probe_is_heard();
    if (heard) na_probe_free(record, old_block, old_usable);
    na_record_t old = *record;
    na_record_unpublish(record, na_profile_epoch);
    na_record_set_site(record, NA_NPROF_NO_STACK);
    na_record_set_slack(record, (uint16_t)(usable - requested));
    na_entry_t entry = NA_ENTRY_REALLOC;
    if (ours) entry |= (na_entry_t)NA_ENTRY_MOVES;
    na_site_alloc(t, record, block, requested, usable, entry);
    if (t->moving.block == block) t->moving.kept = true;
    if (heard) na_probe_alloc(record, block, requested, usable);
    if (ours) na_site_free(t, &old, old_block, old_usable, NA_RELEASE_REALLOC, block);
    na_rthread_leave();
}

_Static_assert(NA_CALL_FREE == NA_NPROF_ENTRY_FREE && NA_CALL_DELETE == NA_NPROF_ENTRY_DELETE,
               "calls have the same numbers in the file");

static void on_timed(void **prof, na_call_t call, uint64_t ticks, bool drawn) {
    if (!na_rec.tsc) return; /* ticks of another clock than the profile's */
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    na_nprof_thread_t *e = t->entry;
    if (drawn) {
        e->timed[call]++;
        e->ticks[call] += ticks;
        e->squares[call] += (double)ticks * (double)ticks;
    } else {
        e->always[call]++;
        e->always_ticks[call] += ticks;
    }
    na_rthread_leave();
}

static void on_map(void **prof, na_map_call_t call, size_t bytes) {
    /* First: the stack that is captured here may have a frame in what is gone. */
    if (call == NA_MAP_MUNMAP || call == NA_MAP_MREMAP || call == NA_MAP_UNBRK)
        na_python_unmapped();
    na_rthread_t *t = na_rthread_enter(prof);
    if (t == NULL) return;
    na_maps_count(t, call, bytes);
    na_rthread_leave();
}

static void on_thread_exit(void **prof) {
    if (*prof != NULL && na_rec_is_open()) {
        na_rthread_t *t = na_rthread_enter(prof);
        if (t != NULL) {
            na_rthread_retire(t);
            na_rthread_leave();
        }
    }
    *prof = NULL;
}

/* A signal handler that forks may have interrupted its thread inside the recorder, which then goes
 * on in the child as well: on a copy of what it works on, that ends with it. */
static void before_recorder_fork(void) {
    if (na_rthread_inside) na_writer_inherit(true);
}

static void after_recorder_fork_parent(void) {
    if (na_rthread_inside) na_writer_inherit(false);
}

static void after_recorder_fork_child(void **prof) {
    *prof = NULL;
    if (na_rthread_inside)
        na_rec_became_child_inside();
    else
        na_rec_became_child();
}

static void on_stay(void **prof) {
    if (na_rthread_enter(prof) != NULL) na_rthread_leave();
}

static void on_load(void) {
    if (!na_rec_is_open()) return;
    if (na_rec.tracing) na_trace_writer_thread();
    na_access_thread();
    na_resident_thread();
}

static void on_exit_hook(void **prof) {
    na_rec_begin_no_more();
    if (!na_rec_is_open()) return;
    na_rthread_t *t = *prof != NULL ? na_rthread_enter(prof) : NULL;
    if (t != NULL) {
        na_rthread_end(t);
        if (na_rec.tracing) na_trace_ended(t);
        na_rthread_leave();
    }
    na_rec_close();
}

na_hooks_t na_rec_hooks;

/* When it is wanted, not as initial values: those the loader would relocate in every process. */
void na_rec_hooks_set(void) {
    na_rec_hooks.on_alloc = na_site_on_alloc;
    na_rec_hooks.on_free = na_site_on_free;
    na_rec_hooks.before_move = before_sites_move;
    na_rec_hooks.on_resize = on_sites_resize;
    na_rec_hooks.on_map = on_map;
    na_rec_hooks.on_thread_exit = on_thread_exit;
    na_rec_hooks.before_fork = before_recorder_fork;
    na_rec_hooks.after_fork_parent = after_recorder_fork_parent;
    na_rec_hooks.after_fork_child = after_recorder_fork_child;
    na_rec_hooks.on_stay = on_stay;
    na_rec_hooks.on_load = on_load;
    na_rec_hooks.on_exit = on_exit_hook;
    na_rec_hooks.on_pool = na_rec_on_pool;
    na_rec_hooks.on_marker = na_rec_on_marker;
    na_rec_hooks.on_timed = on_timed;
}
