/* record.c - the hook table: starts a profile, gives each thread its state, survives fork.
 *
 * A forked child inherits none of the recorder's mappings. It opens a file of its own at its first
 * event, linked to the parent's by pid and start time; blocks from before the fork carry an older
 * epoch. A child made behind the C library's back (a raw clone or fork system call, which runs no
 * fork handlers) is recognised by a page that the kernel wipes in it. */
#include "profiler/record/record.h"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/utsname.h>
#include <time.h>
#if defined(__x86_64__)
#include <cpuid.h>
#endif

#include "alloc/os.h"
#include "alloc/topology.h"
#include "profiler/record/state.h"
#include "profiler/record/sys.h"

#ifndef MADV_WIPEONFORK
#define MADV_WIPEONFORK 18
#endif

#define THREAD_CHUNK_BYTES (8u << 10)

na_recorder_t na_rec;

static char pattern[1024];
static na_profile_config_t config;
static int32_t parent_pid;
static uint64_t parent_start;
static uint64_t known_hz; /* of the ticks; measured once */
static na_lock_t starting;
static _Atomic bool need_start; /* a forked child that has seen no event yet */

static _Atomic uint32_t always = 1;
static _Atomic uint32_t *sentinel = &always; /* 0 in a child that no fork handler has seen */

/* ---- clocks ---- */

static uint64_t clock_ns(long id) {
    struct timespec t = {0};
    na_sys2(SYS_clock_gettime, id, (long)&t);
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

static uint64_t ticks(void) {
    if (NA_LIKELY(na_rec.tsc)) return na_ticks();
    struct timespec t = {0};
    clock_gettime(CLOCK_MONOTONIC, &t); /* no system call where the kernel can avoid it */
    return (uint64_t)t.tv_sec * 1000000000U + (uint64_t)t.tv_nsec;
}

uint64_t na_rec_ms(void) {
    int64_t t = (int64_t)(ticks() - na_rec.start_ticks);
    return t <= 0 ? 0 : (uint64_t)((unsigned __int128)(uint64_t)t * na_rec.tick_mult >> 64);
}

/* The time stamp counter serves if the processor says that it never changes its rate. */
static bool tsc_is_steady(void) {
#if defined(__x86_64__)
    unsigned a, b, c, d;
    return __get_cpuid(0x80000007, &a, &b, &c, &d) != 0 && (d & 1U << 8) != 0;
#else
    return false;
#endif
}

/* Ticks a second, over 2 ms: good to a few parts in ten thousand. The header's pair of closing
 * stamps makes it exact for the reader. */
static uint64_t measure_hz(void) {
    if (!na_rec.tsc) return 1000000000U;
    uint64_t n0 = clock_ns(CLOCK_MONOTONIC), t0 = na_ticks(), n1, t1;
    do {
        n1 = clock_ns(CLOCK_MONOTONIC);
        t1 = na_ticks();
    } while (n1 - n0 < 2000000);
    return (uint64_t)((unsigned __int128)(t1 - t0) * 1000000000U / (n1 - n0));
}

/* ---- the header ---- */

static void copy(char *to, size_t size, const char *from) {
    size_t i = 0;
    for (; from[i] != 0 && i < size - 1; i++)
        to[i] = from[i];
    to[i] = 0;
}

/* A decimal number from the environment, -1 if there is none. */
static int32_t env_number(const char *const *names) {
    for (; *names != NULL; names++) {
        const char *s = na_os_getenv(*names);
        if (s == NULL || *s < '0' || *s > '9') continue;
        int64_t v = 0;
        while (*s >= '0' && *s <= '9' && v < INT32_MAX)
            v = v * 10 + (*s++ - '0');
        if (*s == 0 && v <= INT32_MAX) return (int32_t)v;
    }
    return -1;
}

static bool fill_header(uint64_t start_unix_ns, int32_t pid) {
    static const char *const rank[] = {"OMPI_COMM_WORLD_RANK", "PMI_RANK", "PMIX_RANK",
                                       "SLURM_PROCID", NULL};
    static const char *const size[] = {"OMPI_COMM_WORLD_SIZE", "PMI_SIZE", "SLURM_NTASKS", NULL};
    na_nprof_header_t *h = na_rec.header;
    h->version = NA_NPROF_VERSION;
    h->header_size = NA_NPROF_PAGE;
    h->mode = na_rec.sampling ? NA_NPROF_MODE_SAMPLE : NA_NPROF_MODE_SITES;
    h->clock_kind = na_rec.tsc ? NA_NPROF_CLOCK_TSC : NA_NPROF_CLOCK_MONOTONIC;
    h->page_size = (uint32_t)na_os_page;
    h->count_scale = na_rec.sampling ? NA_COUNT_SCALE : 1;
    h->sample_interval = na_rec.sampling ? config.sample_interval : 0;
    h->publish_quantum = NA_QUANTUM;
    h->pid = pid;
    h->ppid = (int32_t)na_sys0(SYS_getppid);
    h->inherited_pid = parent_pid;
    h->inherited_start_unix_ns = parent_start;
    h->mpi_rank = env_number(rank);
    int32_t ranks = env_number(size);
    h->mpi_size = h->mpi_rank >= 0 && ranks > 0 ? (uint32_t)ranks : 0;
    h->start_unix_ns = start_unix_ns;
    h->start_mono_ns = clock_ns(CLOCK_MONOTONIC);
    h->start_ticks = na_rec.start_ticks = ticks();
    h->ticks_hz = known_hz;
    h->node_count = na_node_count < 1                    ? 1
                    : na_node_count > NA_NPROF_MAX_NODES ? NA_NPROF_MAX_NODES
                                                         : na_node_count;
    for (unsigned i = 0; i < h->node_count && na_node_count != 0; i++)
        h->node_ids[i] = (uint16_t)na_node_system_id(i);
    copy(h->writer, sizeof h->writer, "numalloc");
    struct utsname u;
    if (na_sys1(SYS_uname, (long)&u) == 0) copy(h->host, sizeof h->host, u.nodename);
    long n = na_sys4(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)h->program,
                     sizeof h->program - 1);
    if (n <= 0) copy(h->program, sizeof h->program, "program");
    n = na_os_read_file("/proc/self/cmdline", h->command, sizeof h->command);
    for (long i = 0; i + 1 < n; i++)
        if (h->command[i] == 0) h->command[i] = ' ';
    h->peak_epoch = 1;
    h->state = NA_NPROF_RUNNING;
    return true;
}

static bool starts_with(const char *s, const char *prefix) {
    while (*prefix != 0)
        if (*s++ != *prefix++) return false;
    return true;
}

static void write_environment(void) {
    static const char *const wanted[] = {"NUMALLOC_",  "LD_PRELOAD=",   "OMPI_COMM_WORLD_", "PMI_",
                                         "PMIX_RANK=", "SLURM_PROCID=", "SLURM_NTASKS=",    NULL};
    na_nprof_chunk_t *c = na_writer_chunk(NA_NPROF_ENVIRONMENT, NA_NPROF_PAGE, 1, 0, 0, 0);
    if (c == NULL) return;
    char *text = (char *)(c + 1);
    uint32_t n = 0;
    const char *s;
    for (size_t i = 0; (s = na_os_env_at(i)) != NULL; i++) {
        for (const char *const *w = wanted; *w != NULL; w++) {
            size_t bytes = 0;
            while (s[bytes++] != 0) {
            }
            if (!starts_with(s, *w) || bytes > c->capacity - n) continue;
            copy(text + n, bytes, s);
            n += (uint32_t)bytes;
            break;
        }
    }
    c->count = n;
    na_writer_publish(c);
}

/* ---- beginning ---- */

/* Reads the name of the program before there is a header to read it into. */
static void program_name(char *name, size_t size) {
    long n = na_sys4(SYS_readlinkat, AT_FDCWD, (long)"/proc/self/exe", (long)name, (long)size - 1);
    if (n <= 0)
        copy(name, size, "program");
    else
        name[n] = 0;
}

/* The magic makes the file exist, so it comes last; the checksum covers it and is made on a copy.
 */
static void seal_header(void) {
    na_nprof_header_t *h = na_rec.header, *copied = na_own_alloc(sizeof *h, 4096);
    if (copied != NULL) {
        __builtin_memcpy(copied, h, sizeof *h);
        copied->magic = NA_NPROF_MAGIC;
        h->const_crc = na_nprof_header_crc(copied);
    }
    __atomic_store_n(&h->magic, NA_NPROF_MAGIC, __ATOMIC_RELEASE);
}

static bool begin(bool in_child) {
    char program[512];
    int32_t pid = (int32_t)na_sys0(SYS_getpid);
    uint64_t start_unix_ns = clock_ns(CLOCK_REALTIME);
    program_name(program, sizeof program);
    na_rec = (na_recorder_t){.fd = -1};
    if (!na_writer_open(pattern, pid, start_unix_ns, program)) return false;
    na_rec.sampling = config.mode == NA_PROFILE_SAMPLE;
    na_rec.interval = (double)config.sample_interval;
    na_rec.mapped = config.mapped;
    na_rec.tsc = tsc_is_steady();
    if (known_hz == 0) known_hz = measure_hz();
    na_rec.tick_mult = (uint64_t)(((unsigned __int128)1000 << 64) / known_hz);
    na_rec.next_thread = na_rec.next_module = 1;
    fill_header(start_unix_ns, pid);
    if (!na_stacks_start()) {
        na_writer_abandon();
        return false;
    }
    na_timeline_start();
    write_environment();
    seal_header();
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
        sentinel = (_Atomic uint32_t *)p;
    atomic_store_explicit(sentinel, 1, memory_order_relaxed);
}

/* What a child knows of its parent must not lie in the parent's mappings. */
static struct {
    int32_t pid;
    uint64_t start;
} me;

static void became_child(void) {
    parent_pid = me.pid;
    parent_start = me.start;
    na_rec = (na_recorder_t){.fd = -1};
    na_lock_reset(&starting);
    na_profile_epoch = na_profile_epoch == 255 ? 1 : (uint8_t)(na_profile_epoch + 1);
    atomic_store(&need_start, true);
    atomic_store_explicit(sentinel, 1, memory_order_release);
}

/* The child's first event. False: no profile, now or ever. */
static NA_COLD bool begin_in_child(void) {
    na_lock(&starting);
    if (atomic_load(&need_start)) {
        if (begin(true)) me.pid = na_rec.header->pid, me.start = na_rec.header->start_unix_ns;
        atomic_store(&need_start, false);
    }
    na_unlock(&starting);
    return na_rec.header != NULL;
}

/* ---- threads ---- */

static void read_name(na_rthread_t *t) {
    char name[16] = "";
    na_sys2(SYS_prctl, PR_GET_NAME, (long)name);
    copy(t->entry->name, sizeof t->entry->name, name);
}

static na_rthread_t *take_idle(void) {
    na_rthread_t *all = atomic_exchange(&na_rec.idle, NULL), *t = all;
    if (t == NULL) return NULL;
    /* The whole list was taken, so nobody can have changed it: no ABA. Give the rest back. */
    na_rthread_t *rest = t->next;
    while (rest != NULL) {
        na_rthread_t *next = rest->next, *head = atomic_load(&na_rec.idle);
        do
            rest->next = head;
        while (!atomic_compare_exchange_weak(&na_rec.idle, &head, rest));
        rest = next;
    }
    return t;
}

static na_nprof_thread_t *new_entry(uint32_t *index) {
    na_lock(&na_rec.tables);
    na_nprof_chunk_t *c = na_rec.thread_chunk;
    if (na_rec.next_thread > UINT16_MAX)
        c = NULL; /* records have 16 bits for a thread */
    else if (c == NULL || c->count == c->capacity) {
        c = na_writer_chunk(NA_NPROF_THREADS, THREAD_CHUNK_BYTES, sizeof(na_nprof_thread_t), 0,
                            na_rec.thread_chunks, na_rec.next_thread);
        if (c != NULL) {
            na_writer_publish(c);
            na_rec.thread_chunks++;
            na_rec.thread_chunk = c;
        }
    }
    na_nprof_thread_t *e = NULL;
    if (c != NULL) {
        e = (na_nprof_thread_t *)(c + 1) + c->count;
        __atomic_store_n(&c->count, c->count + 1, __ATOMIC_RELEASE);
        *index = na_rec.next_thread++;
    }
    na_unlock(&na_rec.tables);
    return e;
}

static NA_COLD na_rthread_t *attach(void **prof) {
    na_rthread_t *t = take_idle();
    if (t == NULL) {
        t = na_own_alloc(sizeof *t, 12 << 10);
        if (t == NULL) {
            __atomic_fetch_add(&na_rec.header->lost_events, 1, __ATOMIC_RELAXED);
            return NULL;
        }
    } else {
        na_cell_slot_t *cells = t->cells; /* the table serves again; the rest starts from zero */
        uint32_t mask = t->cell_mask;
        for (uint32_t i = 0; cells != NULL && i <= mask; i++)
            cells[i] = (na_cell_slot_t){0, 0};
        t->next = NULL;
        t->cell_used = t->cell_chunks = 0;
        t->cell_chunk = NULL;
        t->unwind = (na_unwind_thread_t){0, 0, 0, 0};
        t->last_count = 0;
    }
    t->index = 0;
    t->entry = new_entry(&t->index);
    if (t->entry == NULL) {
        t->scratch = (na_nprof_thread_t){0};
        t->entry = &t->scratch;
        __atomic_fetch_add(&na_rec.header->lost_threads, 1, __ATOMIC_RELAXED);
    }
    t->node = (uint8_t)na_node_current();
    t->owner = na_thread_pointer();
    t->self = t;
    read_name(t);
    t->entry->start_ms = na_rec_ms();
    t->entry->end_ms = NA_NPROF_MODULE_STILL;
    __atomic_store_n(&t->entry->tid, (uint32_t)na_sys0(SYS_gettid), __ATOMIC_RELEASE);
    atomic_fetch_add(&na_rec.threads_attached, 1);
    *prof = t;
    return t;
}

/* Is the heap's word this thread's state? In a child that no fork handler has seen it may point
 * anywhere inside what is now something else. */
static bool is_mine(const na_rthread_t *t) {
    uintptr_t offset = (uintptr_t)t - (uintptr_t)na_rec.own;
    return offset < atomic_load_explicit(&na_rec.own_used, memory_order_relaxed) && t->self == t &&
           t->owner == na_thread_pointer();
}

static na_rthread_t *find_or_attach(void **prof) {
    if (NA_UNLIKELY(atomic_load_explicit(sentinel, memory_order_acquire) == 0)) became_child();
    if (NA_UNLIKELY(na_rec.header == NULL) &&
        (!atomic_load_explicit(&need_start, memory_order_relaxed) || !begin_in_child()))
        return NULL;
    if (NA_UNLIKELY(atomic_load_explicit(&na_rec.closed, memory_order_relaxed))) return NULL;
    return NA_LIKELY(is_mine(*prof)) ? *prof : attach(prof);
}

/* The calling thread is inside the recorder: an event of a signal handler that interrupts it there
 * is counted as lost, because the thread's state is half changed and locks may be held. */
static NA_TLS bool inside;

static void leave_quietly(void) {
    atomic_signal_fence(memory_order_seq_cst);
    inside = false;
}

/* The calling thread's state; NULL: this event cannot be recorded. */
static na_rthread_t *enter(void **prof) {
    if (NA_UNLIKELY(inside)) {
        if (na_rec.header != NULL && atomic_load_explicit(sentinel, memory_order_acquire) != 0)
            __atomic_fetch_add(&na_rec.header->lost_events, 1, __ATOMIC_RELAXED);
        return NULL;
    }
    inside = true;
    atomic_signal_fence(memory_order_seq_cst);
    na_rthread_t *t = find_or_attach(prof);
    if (NA_UNLIKELY(t == NULL)) leave_quietly();
    return t;
}

static void leave(na_rthread_t *t) {
    int64_t b = t->pending_bytes;
    if (b >= NA_QUANTUM || b <= -NA_QUANTUM || t->pending_alloc_bytes >= (16 << 20) ||
        atomic_load_explicit(&na_rec.threads_attached, memory_order_relaxed) == 1)
        na_site_publish(t);
    leave_quietly();
}

/* ---- the hooks ---- */

static void stamp(na_rthread_t *t, na_record_t *record) {
    record->site = na_stacks_capture(t);
    record->birth = (uint32_t)na_rec_ms();
    record->thread = (uint16_t)t->index;
    record->epoch = na_profile_epoch;
}

static void on_alloc(void **prof, na_record_t *record, void *block, size_t requested, size_t usable,
                     na_entry_t entry) {
    (void)block;
    record->site = NA_NPROF_NO_STACK; /* if it is lost, its free is not counted either */
    na_rthread_t *t = enter(prof);
    if (t == NULL) return;
    t->node = record->node;
    record->slack = (uint32_t)(usable - requested);
    stamp(t, record);
    na_site_alloc(t, record->site, requested, usable, entry == NA_ENTRY_REALLOC);
    leave(t);
}

/* Blocks that were never recorded in this profile; true: nothing more to do. */
static bool not_ours(const na_record_t *record) {
    if (record->epoch != na_profile_epoch) {
        __atomic_fetch_add(&na_rec.header->before_frees, 1, __ATOMIC_RELAXED);
        return true;
    }
    return record->site == NA_NPROF_NO_STACK;
}

static void on_free(void **prof, const na_record_t *record, void *block, size_t usable) {
    (void)block;
    na_rthread_t *t = enter(prof);
    if (t == NULL) return;
    if (!not_ours(record)) na_site_free(t, record, usable);
    leave(t);
}

static void on_resize(void **prof, na_record_t *record, void *block, size_t old_usable,
                      size_t requested, size_t usable) {
    (void)block;
    na_rthread_t *t = enter(prof);
    if (t == NULL) {
        record->site = NA_NPROF_NO_STACK;
        return;
    }
    if (!not_ours(record)) na_site_free(t, record, old_usable);
    record->slack = (uint32_t)(usable - requested);
    stamp(t, record);
    na_site_alloc(t, record->site, requested, usable, true);
    leave(t);
}

static void on_thread_exit(void **prof) {
    if (*prof == NULL || na_rec.header == NULL || atomic_load(sentinel) == 0) {
        *prof = NULL;
        return;
    }
    na_rthread_t *t = enter(prof);
    if (t != NULL) {
        na_site_publish(t);
        read_name(t);
        __atomic_store_n(&t->entry->end_ms, na_rec_ms(), __ATOMIC_RELEASE);
        t->owner = 0;
        na_rthread_t *head = atomic_load(&na_rec.idle);
        do
            t->next = head;
        while (!atomic_compare_exchange_weak(&na_rec.idle, &head, t));
        leave_quietly();
    }
    *prof = NULL;
}

static void before_fork(void) {}

static void after_fork_parent(void) {}

static void after_fork_child(void **prof) {
    *prof = NULL;
    became_child();
}

static void on_exit_hook(void **prof) {
    if (na_rec.header == NULL || atomic_load(sentinel) == 0) return;
    na_rthread_t *t = *prof != NULL ? enter(prof) : NULL;
    if (t != NULL) {
        na_site_publish(t);
        read_name(t);
        t->entry->end_ms = na_rec_ms();
        leave_quietly();
    }
    if (atomic_exchange(&na_rec.closed, true)) return;
    na_nprof_header_t *h = na_rec.header;
    h->last_mono_ns = clock_ns(CLOCK_MONOTONIC);
    h->last_ticks = ticks();
    h->last_ms = na_rec_ms();
    __atomic_store_n(&h->state, NA_NPROF_CLOSED, __ATOMIC_RELEASE);
}

static na_hooks_t hooks = {
    .on_alloc = on_alloc,
    .on_free = on_free,
    .on_resize = on_resize,
    .on_thread_exit = on_thread_exit,
    .before_fork = before_fork,
    .after_fork_parent = after_fork_parent,
    .after_fork_child = after_fork_child,
    .on_exit = on_exit_hook,
};

const na_hooks_t *na_profile_start(const na_profile_config_t *c) {
    config = *c;
    if (config.mode == NA_PROFILE_SAMPLE && config.sample_interval == 0)
        config.sample_interval = 512 << 10;
    copy(pattern, sizeof pattern, c->file != NULL ? c->file : "");
    config.file = pattern;
    parent_pid = 0;
    parent_start = 0;
    if (!begin(false)) return NULL;
    me.pid = na_rec.header->pid;
    me.start = na_rec.header->start_unix_ns;
    make_sentinel();
    hooks.sample_interval = config.mode == NA_PROFILE_SAMPLE ? config.sample_interval : 0;
    return &hooks;
}
