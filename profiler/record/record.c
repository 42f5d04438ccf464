/* record.c - begins and ends a profile, any number of times, and survives fork.
 *
 * The recorder's mappings belong to one profile: na_profile_discard lets go of them and the next
 * one begins with new ones. The caller (profiler/control/control.c) sees to it that no hook runs
 * meanwhile.
 *
 * A forked child inherits none of the recorder's mappings. It opens a file of its own at its first
 * event, or when it lives on (on_stay), linked to the parent's by pid and start time; other
 * threads' events wait until all is set up, which na_rec.ready says, last of all. Blocks from
 * before the fork carry an older epoch. A child made behind the C library's back (a raw clone or
 * fork system call, which runs no fork handlers) is recognised by a page that the kernel wipes in
 * it. */
#include "profiler/record/state/record.h"
#include "profiler/record/python/python.h"

#include <errno.h>
#include <sys/mman.h>
#include <time.h>

#include "alloc/core/sys/syscall.h"
#include "profiler/record/access/access.h"
#include "profiler/record/events/rthreads.h"
#include "profiler/record/events/series.h"
#include "profiler/record/events/trace.h"
#include "profiler/record/state/state.h"
#include "profiler/record/state/where.h"

na_recorder_t na_rec;

static char record_pattern[4096];
static na_profile_config_t record_config;
static int32_t parent_pid;
static uint64_t parent_start;
static uint64_t known_hz;   /* of the ticks; measured once */
static uint32_t sessions;   /* profiles begun in this process */
static bool unwinder_ready; /* it has met the loader */
static na_lock_t starting;
static _Atomic bool need_start; /* a forked child that has seen no event yet */

static _Atomic uint32_t always = NA_REC_OPEN;
_Atomic uint32_t *na_rec_sentinel = &always;

/* What a child knows of its parent must not lie in the parent's mappings. */
static struct {
    int32_t pid;
    uint64_t start;
} me;

/* As late as can be: the time since the header's stamps is measured. */
static void know_rate(void) {
    na_nprof_header_t *h = na_rec.header;
    if (known_hz == 0) known_hz = na_rec_measure_hz(h->start_mono_ns, h->start_ticks);
    h->ticks_hz = known_hz;
    na_rec.tick_mult = (uint64_t)(((unsigned __int128)1000 << 64) / known_hz);
    atomic_store(&na_rec.publish_ticks, na_rec_ticks_of_ms(1));
}

static void module_seen(const na_unwind_seen_t *seen) {
    na_modules_seen(seen);
    na_python_module(seen);
}

/* In a child other threads may wait for it; from `ready` on they use what is set up here. */
static bool begin_recording(bool in_child) {
    if (in_child && record_config.unnamed && !record_config.unnamed_in_children) return false;
    char program[512];
    int32_t pid = (int32_t)na_sys0(SYS_getpid);
    uint64_t start_unix_ns = na_rec_clock_ns(CLOCK_REALTIME);
    na_header_program(program, sizeof program);
    if (!in_child) na_rec = (na_recorder_t){.fd = -1}; /* there it is, and is being looked at */
    na_rec.unnamed = record_config.unnamed;
    if (!na_writer_open(record_pattern, pid, start_unix_ns, program)) return false;
    na_rec.sampling = record_config.mode == NA_PROFILE_SAMPLE;
    na_rec.tracing = record_config.mode == NA_PROFILE_TRACE;
    na_rec.interval = (double)record_config.sample_interval;
    na_rec.mapped = record_config.mapped;
    na_rec.each_records_room = record_config.each_records_room;
    na_rec.mapped_on = record_config.mapped_on;
    na_rec.threads_most = record_config.threads_most;
    if (na_rec.threads_most != NULL) na_rec.threads_most(true);
    na_rec.record_of = record_config.record_of;
    na_rec.own_limit = record_config.own_limit;
    na_rec.free_sites = record_config.free_sites && !na_rec.sampling;
    na_rec.tsc = na_rec_tsc_is_steady();
    na_rec.next_thread = na_rec.next_module = 1;
    na_header_fill(&(na_header_facts_t){.pid = pid,
                                        .other_malloc = record_config.other_malloc,
                                        .start_unix_ns = start_unix_ns,
                                        .parent_pid = parent_pid,
                                        .parent_start = parent_start});
    if (!na_stacks_start() || !na_shares_start()) {
        na_writer_abandon();
        return false;
    }
    if (na_rec.tracing) na_trace_writer_start(&record_config);
    na_timeline_start();
    na_series_start();
    na_resident_start(!record_config.trace_no_thread);
    na_maps_start();
    na_spans_start(&record_config);
    na_ruled_start(&record_config);
    na_header_environment();
    na_pools_start();
    na_session_start(&record_config, ++sessions);
    if (in_child) na_origins_start(&record_config);
    na_python_begin(record_config.python);
    know_rate();
    na_access_start(&record_config, in_child);
    na_header_seal();
    if (unwinder_ready)
        na_unwind_after_fork();
    else
        na_unwind_init(module_seen, true);
    unwinder_ready = true;
    na_python_ready();
    me.pid = pid;
    me.start = start_unix_ns;
    atomic_store_explicit(&na_rec.ready, true, memory_order_release);
    return true;
}

/* A page that reads as zero in a child, however the child was made. Old kernels: never zero. */
static void make_sentinel(void) {
    long p = na_sys6(SYS_mmap, 0, (long)na_os_page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p > 0 && na_os_wipe_in_children((void *)p, na_os_page))
        na_rec_sentinel = (_Atomic uint32_t *)p;
    atomic_store_explicit(na_rec_sentinel, NA_REC_OPEN, memory_order_relaxed);
}

static void next_epoch(void) {
    if (na_profile_epoch == NA_EPOCH_LAST && record_config.age_records != NULL)
        record_config.age_records();
    na_profile_epoch = na_profile_epoch == NA_EPOCH_LAST ? 1 : (uint8_t)(na_profile_epoch + 1);
}

static bool inside; /* this child has copies that what was interrupted works on */

/* Of the recorder's locks others are held by threads that are not here. */
static bool may_seize(void) {
    return na_rthread_inside && atomic_load(na_rec_sentinel) == 0;
}

void na_rec_became_child_inside(void) {
    na_writer_detach();
    inside = true;
    na_lock_may_seize = may_seize;
    atomic_store_explicit(na_rec_sentinel, 0, memory_order_release);
}

void na_rec_became_child(void) {
    na_access_became_child();
    na_lock_may_seize = NULL;
    if (inside) na_writer_drop();
    na_writer_forget();
    inside = false;
    if (atomic_load(&na_rec.ready)) { /* otherwise the parent has recorded nothing */
        parent_pid = me.pid;
        parent_start = me.start;
        na_origins_add(me.pid, me.start, na_profile_epoch);
    }
    na_rec = (na_recorder_t){.fd = -1};
    na_lock_reset(&starting);
    next_epoch();
    sessions = 0;
    record_config.from_start = false;
    record_config.missed = 0;
    atomic_store(&need_start, true);
    atomic_store_explicit(na_rec_sentinel, NA_REC_OPEN, memory_order_release);
}

/* The child's first event. False: no profile, now or ever. */
NA_COLD bool na_rec_begin_in_child(void) {
    if (!atomic_load_explicit(&need_start, memory_order_acquire)) return na_rec_is_ready();
    na_lock(&starting);
    if (atomic_load(&need_start)) {
        begin_recording(true);
        atomic_store(&need_start, false);
    }
    na_unlock(&starting);
    return na_rec_is_ready();
}

/* (A thread that is inside the recorder may be the one that is beginning it.) */
void na_rec_begin_no_more(void) {
    if (!atomic_load(&need_start) || na_rthread_inside) return;
    na_lock(&starting);
    atomic_store(&need_start, false);
    na_unlock(&starting);
}

void na_rec_find_child(void) {
    uint32_t unknown = 0;
    if (atomic_compare_exchange_strong(na_rec_sentinel, &unknown, NA_REC_TURNING)) {
        if (record_config.forget_threads != NULL) record_config.forget_threads();
        na_rec_became_child();
    }
    while (atomic_load(na_rec_sentinel) == NA_REC_TURNING)
        na_os_yield();
}

void na_rec_lost_inside(void) {
    if (!na_rthread_own && na_rec_is_open()) na_rec_lose(&na_rec.header->lost_events, 1);
}

/* The program has done what it did: what the profile does from here on is no part of the run. */
static void note_run_end(void) {
    na_timeline_end();
    na_rec.header->last_ms = na_rec_ms();
    na_spans_walk();
    na_ruled_write();
}

static void finish_profile(void) {
    if (na_rec.unnamed) return;
    na_access_finish();
    na_resident_finish();
    if (na_rec.tracing) na_trace_writer_finish();
    na_nprof_header_t *h = na_rec.header;
    na_rec_both_clocks(&h->last_mono_ns, &h->last_ticks);
    na_writer_trim();
    if (!atomic_load(&na_rec.lost)) __atomic_store_n(&h->state, NA_NPROF_CLOSED, __ATOMIC_RELEASE);
    bool frozen = !atomic_load(&na_rec.lost) && na_writer_freeze();
    bool packed = na_pack();
    if (frozen) na_sums_finish(packed);
}

static bool was_closed(void) {
    if (atomic_exchange(&na_rec.closed, true)) return true;
    atomic_store_explicit(na_rec_sentinel, NA_REC_CLOSED, memory_order_release);
    return false;
}

void na_rec_end_at_once(void) {
    was_closed();
    na_writer_lost();
    if (na_rec.tracing) na_trace_writer_lost();
}

void na_rec_close(void) {
    if (was_closed()) return;
    note_run_end();
    finish_profile();
}

const na_hooks_t *na_profile_start(const na_profile_config_t *c) {
    static bool used; /* the first epoch */
    record_config = *c;
    if (record_config.mode == NA_PROFILE_SAMPLE && record_config.sample_interval == 0)
        record_config.sample_interval = 512 << 10;
    na_rec_copy(record_pattern, sizeof record_pattern, c->file != NULL ? c->file : "");
    record_config.file = record_pattern;
    na_where_begin(c->named_by_call);
    parent_pid = 0;
    parent_start = 0;
    atomic_store(&need_start, false);
    atomic_store_explicit(na_rec_sentinel, NA_REC_OPEN,
                          memory_order_release); /* whosever child this is */
    na_origins_forget();                         /* their blocks may have been freed unseen */
    if (used) next_epoch();
    used = true;
    na_rec_catch_sigbus();
    if (!begin_recording(false)) return NULL;
    na_rec_hooks_set();
    if (na_rec_sentinel == &always) make_sentinel();
    if (record_config.mode == NA_PROFILE_TRACE) {
        na_trace_configure(&record_config);
        na_trace_hooks_set();
        return na_access_hooks(&na_trace_hooks);
    }
    bool sampling = record_config.mode == NA_PROFILE_SAMPLE;
    na_rec_hooks.sample_interval = sampling ? record_config.sample_interval : 0;
    na_rec_hooks.on_alloc = sampling ? na_site_on_sampled_alloc : na_site_on_alloc;
    na_rec_hooks.on_free = sampling ? na_site_on_sampled_free : na_site_on_free;
    bool usual = !sampling && !record_config.free_sites && na_rec.tsc && &na_usual_sites != NULL;
    na_rec_hooks.misses = usual ? &na_usual_sites : NULL;
    return na_access_hooks(&na_rec_hooks);
}

/* What the threads hold back becomes part of the process's figures. No hook may be running. */
static void publish_all(void) {
    na_rthread_t *t = atomic_load_explicit(&na_rec.all, memory_order_acquire);
    for (; t != NULL; t = t->all_next) {
        if (t->owner == 0) continue;
        na_site_publish_all(t);
        na_rthread_rename(t);
    }
}

/* No hook is running: the file gets all that there is. */
static void complete(void) {
    publish_all();
    if (na_rec.tracing)
        for (na_rthread_t *t = na_rec.all; t != NULL; t = t->all_next)
            if (t->owner != 0) na_trace_ended(t);
    note_run_end();
    finish_profile();
}

void na_profile_stop(bool quiet) {
    atomic_store(&need_start, false);
    if (!na_rec_is_open() || was_closed()) return;
    na_session_stopped();
    if (quiet) complete();
}

void na_profile_discard(void) {
    if (na_rec_is_open()) {
        if (na_rec.header->state != NA_NPROF_CLOSED) complete();
        na_writer_close();
    }
    na_rec = (na_recorder_t){.fd = -1}; /* in a child, what it named is not there */
}

int na_profile_dump(void) {
    if (!na_rec_is_open() || atomic_load(&na_rec.closed)) return ENODATA;
    publish_all();
    na_timeline_end();
    na_spans_walk();
    na_ruled_write();
    if (na_rec.tracing) na_trace_writer_settle();
    na_access_hold();
    na_series_hold();
    bool made = na_copy_make();
    na_series_let_go();
    na_access_release();
    return made ? 0 : EIO;
}

void na_profile_note_policy(void) {
    if (na_rec_is_open() && !atomic_load(&na_rec.closed)) na_ruled_write();
}

int64_t na_profile_live_bytes(void) {
    return na_rec_is_open() ? atomic_load_explicit(&na_rec.live_bytes, memory_order_relaxed) : 0;
}
