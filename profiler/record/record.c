/* record.c - begins and ends a profile, and survives fork.
 *
 * A forked child inherits none of the recorder's mappings. It opens a file of its own at its first
 * event, linked to the parent's by pid and start time; blocks from before the fork carry an older
 * epoch. A child made behind the C library's back (a raw clone or fork system call, which runs no
 * fork handlers) is recognised by a page that the kernel wipes in it. */
#include "profiler/record/record.h"

#include <sys/mman.h>
#include <time.h>

#include "profiler/record/rthreads.h"
#include "profiler/record/series.h"
#include "profiler/record/state.h"
#include "profiler/record/sys.h"
#include "profiler/record/trace.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

na_recorder_t na_rec;

static char pattern[1024];
static na_profile_config_t config;
static int32_t parent_pid;
static uint64_t parent_start;
static uint64_t known_hz; /* of the ticks; measured once */
static na_lock_t starting;
static _Atomic bool need_start; /* a forked child that has seen no event yet */

static _Atomic uint32_t always = 1;
_Atomic uint32_t *na_rec_sentinel = &always;

static bool begin(bool in_child) {
    char program[512];
    int32_t pid = (int32_t)na_sys0(SYS_getpid);
    uint64_t start_unix_ns = na_rec_clock_ns(CLOCK_REALTIME);
    na_header_program(program, sizeof program);
    na_rec = (na_recorder_t){.fd = -1};
    if (!na_writer_open(pattern, pid, start_unix_ns, program)) return false;
    na_rec.sampling = config.mode == NA_PROFILE_SAMPLE;
    na_rec.tracing = config.mode == NA_PROFILE_TRACE;
    na_rec.interval = (double)config.sample_interval;
    na_rec.mapped = config.mapped;
    na_rec.mapped_on = config.mapped_on;
    na_rec.own_limit = config.own_limit;
    na_rec.free_sites = config.free_sites && !na_rec.sampling;
    na_rec.tsc = na_rec_tsc_is_steady();
    if (known_hz == 0) known_hz = na_rec_measure_hz();
    na_rec.tick_mult = (uint64_t)(((unsigned __int128)1000 << 64) / known_hz);
    na_rec.next_thread = na_rec.next_module = 1;
    na_header_fill(&(na_header_facts_t){.pid = pid,
                                        .start_unix_ns = start_unix_ns,
                                        .parent_pid = parent_pid,
                                        .parent_start = parent_start,
                                        .ticks_hz = known_hz});
    atomic_store(&na_rec.publish_ticks, na_rec_ticks_of_ms(1));
    if (!na_stacks_start() || !na_shares_start()) {
        na_writer_abandon();
        return false;
    }
    if (na_rec.tracing) na_trace_writer_start(&config);
    na_timeline_start();
    na_series_start();
    na_maps_start();
    na_header_environment();
    na_header_seal();
    if (in_child)
        na_unwind_after_fork();
    else
        na_unwind_init(na_modules_seen, true);
    return true;
}

/* A page that reads as zero in a child, however the child was made. Old kernels: never zero. */
static void make_sentinel(void) {
    long p = na_sys6(SYS_mmap, 0, (long)na_os_page, PROT_READ | PROT_WRITE,
                     MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (p > 0 && na_sys3(SYS_madvise, p, (long)na_os_page, MADV_WIPEONFORK) == 0)
        na_rec_sentinel = (_Atomic uint32_t *)p;
    atomic_store_explicit(na_rec_sentinel, 1, memory_order_relaxed);
}

/* What a child knows of its parent must not lie in the parent's mappings. */
static struct {
    int32_t pid;
    uint64_t start;
} me;

void na_rec_became_child(void) {
    parent_pid = me.pid;
    parent_start = me.start;
    na_rec = (na_recorder_t){.fd = -1};
    na_lock_reset(&starting);
    na_profile_epoch = na_profile_epoch == 255 ? 1 : (uint8_t)(na_profile_epoch + 1);
    atomic_store(&need_start, true);
    atomic_store_explicit(na_rec_sentinel, 1, memory_order_release);
}

/* The child's first event. False: no profile, now or ever. */
NA_COLD bool na_rec_begin_in_child(void) {
    if (!atomic_load_explicit(&need_start, memory_order_relaxed)) return false;
    na_lock(&starting);
    if (atomic_load(&need_start)) {
        if (begin(true)) me.pid = na_rec.header->pid, me.start = na_rec.header->start_unix_ns;
        atomic_store(&need_start, false);
    }
    na_unlock(&starting);
    return na_rec.header != NULL;
}

void na_rec_lost_inside(void) {
    if (!na_rthread_own && na_rec_is_open())
        __atomic_fetch_add(&na_rec.header->lost_events, 1, __ATOMIC_RELAXED);
}

void na_rec_close(void) {
    if (atomic_exchange(&na_rec.closed, true)) return;
    if (na_rec.tracing) na_trace_writer_finish();
    na_nprof_header_t *h = na_rec.header;
    h->last_mono_ns = na_rec_clock_ns(CLOCK_MONOTONIC);
    h->last_ticks = na_rec_ticks();
    h->last_ms = na_rec_ms();
    __atomic_store_n(&h->state, NA_NPROF_CLOSED, __ATOMIC_RELEASE);
}

const na_hooks_t *na_profile_start(const na_profile_config_t *c) {
    config = *c;
    if (config.mode == NA_PROFILE_SAMPLE && config.sample_interval == 0)
        config.sample_interval = 512 << 10;
    na_rec_copy(pattern, sizeof pattern, c->file != NULL ? c->file : "");
    config.file = pattern;
    parent_pid = 0;
    parent_start = 0;
    if (!begin(false)) return NULL;
    me.pid = na_rec.header->pid;
    me.start = na_rec.header->start_unix_ns;
    make_sentinel();
    if (config.mode == NA_PROFILE_TRACE) {
        na_trace_configure(&config);
        na_hooks_t trace = na_trace_hooks;
        na_trace_hooks = na_rec_hooks;
        na_trace_hooks.on_alloc = trace.on_alloc;
        na_trace_hooks.on_free = trace.on_free;
        na_trace_hooks.before_move = trace.before_move;
        na_trace_hooks.on_resize = trace.on_resize;
        return &na_trace_hooks;
    }
    na_rec_hooks.sample_interval = config.mode == NA_PROFILE_SAMPLE ? config.sample_interval : 0;
    return &na_rec_hooks;
}
