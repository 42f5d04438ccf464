/* access.c - the access thread: which source it uses, its loop, and its end. See access.h. */
#include "profiler/record/access/access.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/futex.h>
#include <sched.h>
#include <stdarg.h>
#include <sys/utsname.h>
#include <time.h>

#include "alloc/core/sys/thread.h"
#include "profiler/record/access/access_pools.h"
#include "profiler/record/access/access_priv.h"
#include "profiler/record/events/rthreads.h"

#define SOURCES   9
#define SLICE     100000u /* ns that this thread asks for at a time */
#define PREFERRED (-10)   /* its nice value, where it may */

static na_profile_config_t access_config;
const na_profile_config_t *na_access_config = &access_config;
na_nprof_access_source_t *na_access_entry;
uint8_t na_access_entry_id;

static na_access_source_t sources[SOURCES]; /* from the first profile with accesses on */
static const na_access_source_t *in_use;
static bool with_accesses;              /* this profile is to have accesses */
static bool thread_wanted;              /* and its thread is still to be made */
static bool said;                       /* that there is none, once a process */
static _Atomic uint32_t recording_ends; /* futex word: GOES_ON, HURRIES, ENDS */

/* GOES_ON becomes HURRIES, by a thread that frees, where the notes of lives will soon be
 * overwritten; and that GOES_ON when the access thread comes. */
enum { GOES_ON, HURRIES, ENDS };
static _Atomic bool may_hurry; /* the source has samples that wait, and was at work a while ago */
#define HURRY_EVERY                                                                                \
    UINT64_C(1000000) /* ns; the thread is to need a few per cent of a CPU at most */

/* The thread touches nothing of the profile until it has taken WAITS to WORKS. Who ends a profile
 * that is as young as that takes it to NONE, and does not wait for it: it may outlive the profile,
 * and then have the next one's WAITS; who comes second finds that, and ends. */
enum { NONE, WAITS, WORKS };
static _Atomic uint32_t recorder_state; /* futex word */

/* ---- small things ---- */

void na_access_why(char why[NA_WHY], const char *first, ...) {
    size_t n = 0;
    va_list parts;
    va_start(parts, first);
    for (const char *p = first; p != NULL; p = va_arg(parts, const char *))
        for (; *p != 0 && n < NA_WHY - 1; p++)
            why[n++] = *p;
    va_end(parts);
    why[n] = 0;
}

long na_access_number_in(const char *path) {
    char text[32];
    if (na_os_read_file(path, text, sizeof text) <= 0) return -1;
    const char *p = text + (text[0] == '-');
    long v = 0;
    if (*p < '0' || *p > '9') return -1;
    for (; *p >= '0' && *p <= '9'; p++)
        v = v * 10 + (*p - '0');
    return text[0] == '-' ? -2 : v;
}

unsigned na_access_kernel(void) {
    struct utsname name;
    if (na_sys1(SYS_uname, (long)&name) != 0) return 0;
    unsigned part[2] = {0, 0};
    const char *p = name.release;
    for (unsigned i = 0; i < 2; i++) {
        for (; *p >= '0' && *p <= '9'; p++)
            part[i] = part[i] * 10 + (unsigned)(*p - '0');
        if (*p == '.') p++;
    }
    return part[0] * 1000 + part[1];
}

static bool sleep_until(uint64_t until, uint32_t word) {
    for (;;) {
        uint32_t state = atomic_load_explicit(&recording_ends, memory_order_acquire);
        if (state == ENDS) return false;
        uint64_t now = na_access_mono();
        if (state != word || now >= until) return true;
        struct timespec limit = {.tv_sec = (time_t)((until - now) / 1000000000U),
                                 .tv_nsec = (long)((until - now) % 1000000000U)};
        na_sys6(SYS_futex, (long)&recording_ends, FUTEX_WAIT_PRIVATE, word, (long)&limit, 0, 0);
    }
}

bool na_access_sleep(uint64_t until) {
    return sleep_until(until, GOES_ON);
}

static bool sleep_or_hurry(uint64_t until) {
    uint64_t earliest = na_access_mono() + HURRY_EVERY;
    if (!sleep_until(earliest < until ? earliest : until, GOES_ON)) return false;
    if (until <= earliest) return true;
    atomic_store(&may_hurry, true);
    bool goes_on = sleep_until(until, GOES_ON);
    atomic_store(&may_hurry, false);
    uint32_t hurries = HURRIES;
    atomic_compare_exchange_strong(&recording_ends, &hurries, GOES_ON);
    return goes_on;
}

void na_access_hurry(void) {
    uint32_t goes_on = GOES_ON;
    if (atomic_load_explicit(&may_hurry, memory_order_relaxed) &&
        atomic_exchange(&may_hurry, false) &&
        atomic_compare_exchange_strong(&recording_ends, &goes_on, HURRIES))
        na_os_futex_wake((const uint32_t *)&recording_ends, 1);
}

/* ---- choosing ---- */

static void entry_for(const na_access_source_t *source, const char *why) {
    na_nprof_access_source_t *e = na_access_store_source(source);
    if (e != NULL) na_rec_copy(e->why, sizeof e->why, why);
    na_access_store_sources(false);
}

static void say_line(const char *line) {
    size_t n = 0;
    while (line[n] != 0)
        n++;
    na_os_say(line, n);
}

/* "numalloc: no accesses; kmod-ibs: ...; pebs: ...": that which of them was chosen, and why not a
 * better one, is in the file (numalloc-dump's summary), not on a stream that programs read. */
static void say_no_source(const char *reasons) {
    static char line[2048];
    if (said) return;
    said = true;
    size_t n = 0;
    const char *const parts[] = {"numalloc: no accesses", reasons};
    for (size_t i = 0; i < 2; i++)
        for (const char *p = parts[i]; *p != 0 && n < sizeof line - 2; p++)
            line[n++] = *p;
    line[n++] = '\n';
    line[n] = 0;
    say_line(line);
}

static const char *source_name(const na_access_source_t *source) {
    static const char names[][12] = {"",           "kmod-ibs", "perf-ibs", "pebs",
                                     "watch",      "numa",     "fault",    "kmod-fault",
                                     "kmod-watch", "kmod-sim", "spe"};
    return names[source->kind];
}

/* The best first. */
static void list_sources(void) {
    if (sources[0].start != NULL) return; /* a thread of an earlier profile may be using them */
    sources[0] = na_access_kmod();
    sources[1] = na_access_perf_ibs();
    sources[2] = na_access_pebs();
    sources[3] = na_access_spe();
    sources[4] = na_access_watch();
    sources[5] = na_access_numa();
    sources[6] = na_access_fault();
    sources[7] = na_access_kmod_fault();
    sources[8] = na_access_kmod_sim();
}

static void choose_source(void) {
    static char reasons[1600];
    char why[NA_WHY];
    size_t n = 0;
    reasons[0] = 0;
    uint8_t id = 0;
    for (size_t i = 0; i < SOURCES && in_use == NULL; i++) {
        const na_access_source_t *source = &sources[i];
        if (access_config.access == NA_ACCESS_AUTO ? !source->automatic
                                                   : source->choice != access_config.access)
            continue;
        why[0] = 0;
        id++;
        na_access_entry = na_access_store_source(source);
        if (na_access_entry == NULL) return;
        na_access_entry_id = id;
        na_access_entry->start_ns = na_access_since(na_access_mono());
        if (source->kind == NA_NPROF_SOURCE_WATCH)
            na_access_entry->cost = access_config.access_cost;
        if (source->start(access_config.access_period, why)) {
            na_rec_copy(na_access_entry->why, sizeof na_access_entry->why, why);
            __atomic_fetch_or(&na_access_entry->flags, NA_NPROF_ACCESS_USED, __ATOMIC_RELEASE);
            in_use = source;
            break;
        }
        na_rec_copy(na_access_entry->why, sizeof na_access_entry->why, why);
        const char *const parts[] = {"; ", source_name(source), ": ", why};
        for (size_t k = 0; k < 4; k++)
            for (const char *p = parts[k]; *p != 0 && n < sizeof reasons - 1; p++)
                reasons[n++] = *p;
        reasons[n] = 0;
    }
    if (in_use == NULL) say_no_source(reasons);
}

/* For all that would have been tried. */
static void entries_for_all(const char *why) {
    for (size_t i = 0; i < SOURCES; i++)
        if (access_config.access == NA_ACCESS_AUTO ? sources[i].automatic
                                                   : sources[i].choice == access_config.access)
            entry_for(&sources[i], why);
}

/* ---- the thread ---- */

/* What a source needs takes milliseconds: not in processes that live no longer. */
#define FIRST_LOOK_NS UINT64_C(4000000)

/* Of linux/sched/types.h, which libc's sched.h is at odds with. */
typedef struct schedule {
    uint32_t size, policy;
    uint64_t flags;
    int32_t nice;
    uint32_t priority;
    uint64_t runtime, deadline, period;
} schedule_t;

/* On a machine with more to do than CPUs this thread, which needs a few per cent of one, waits for
 * its turn behind all others, several times in each round. It asks for short slices, which come
 * sooner (Linux 6.12; others ignore it), and, where the system lets it (root, CAP_SYS_NICE, ulimit
 * -e), to be preferred. Nothing in the process depends on either. */
static void ask_for_turns(void) {
    schedule_t s = {.size = sizeof s};
    if (na_sys4(SYS_sched_getattr, 0, (long)&s, sizeof s, 0) != 0) return;
    if (s.policy != SCHED_OTHER && s.policy != SCHED_BATCH) return;
    int32_t nice = s.nice;
    s.size = sizeof s;
    s.flags = 0;
    s.policy = SCHED_OTHER;
    s.runtime = SLICE;
    s.nice = nice < PREFERRED ? nice : PREFERRED;
    if (na_sys3(SYS_sched_setattr, 0, (long)&s, 0) == 0) return;
    s.nice = nice;
    na_sys3(SYS_sched_setattr, 0, (long)&s, 0);
}

static bool change_state(uint32_t from, uint32_t to) {
    return atomic_compare_exchange_strong(&recorder_state, &from, to);
}

static void watch_over(void) {
    uint64_t next = 0, looked = na_access_mono();
    na_access_store_sources(false);
    while (in_use != NULL && (in_use->rounds ? na_access_sleep : sleep_or_hurry)(next)) {
        na_access_store_sources(true);
        next = in_use->step();
        uint64_t now = na_access_mono();
        na_access_store_tick(now);
        na_access_store_sources(false);
        if (now - looked < 1000000000U) continue;
        looked = now;
        if (na_rthread_left_alone()) break;
    }
    if (in_use == NULL) return;
    na_access_store_sources(true);
    in_use->stop();
    na_access_store_stop();
    na_access_store_sources(false);
    in_use = NULL;
}

static void *record_accesses(void *unused) {
    (void)unused;
    na_rthread_inside = na_rthread_own = true;
    if (!na_access_sleep(na_access_mono() + FIRST_LOOK_NS) || !change_state(WAITS, WORKS))
        return NULL;
    ask_for_turns();
    if (na_access_store_start()) {
        atomic_store(&na_access_on, true);
        choose_source();
        if (in_use == NULL) atomic_store(&na_access_on, false); /* nobody will ask for lives */
        watch_over();
    } else {
        say_line("numalloc: no accesses: no memory for their tables; raise ulimit -v\n");
    }
    atomic_store(&recorder_state, NONE); /* nothing of the profile is touched any more */
    na_os_futex_wake((const uint32_t *)&recorder_state, INT32_MAX);
    return NULL;
}

void na_access_thread(void) {
    if (!thread_wanted || atomic_load(&recorder_state) != NONE) return;
    bool inside = na_rthread_inside, own = na_rthread_own;
    na_rthread_inside = na_rthread_own = true;
    atomic_store(&recorder_state, WAITS);
    if (!na_thread_start(record_accesses)) {
        change_state(WAITS, NONE);
        say_line("numalloc: no accesses: the system refuses one more thread; raise ulimit -u\n");
    }
    thread_wanted = false;
    na_rthread_inside = inside;
    na_rthread_own = own;
}

/* ---- hooks: the lives of blocks are noted, then all is as without ---- */

static const na_hooks_t *base;
static na_hooks_t noting;

static void note_block(const na_record_t *record, const void *block, size_t usable) {
    if (na_rec_is_open() && atomic_load_explicit(&na_access_on, memory_order_acquire) &&
        record->epoch == na_profile_epoch && record->site != NA_NPROF_NO_STACK) {
        na_caught_look(block, usable, record);
        na_access_death(block, usable, record);
    }
}

static void on_access_free(void **prof, const na_record_t *record, void *block, size_t usable,
                           na_release_t how, const void *moved_to) {
    note_block(record, block, usable);
    base->on_free(prof, record, block, usable, how, moved_to);
}

static void on_access_resize(void **prof, na_record_t *record, const void *old_block, void *block,
                             size_t old_usable, size_t requested, size_t usable) {
    note_block(record, old_block, old_usable);
    base->on_resize(prof, record, old_block, block, old_usable, requested, usable);
}

const na_hooks_t *na_access_hooks(const na_hooks_t *hooks) {
    if (access_config.access == NA_ACCESS_OFF) return hooks;
    base = hooks;
    noting = *hooks;
    noting.misses = hooks->misses == &na_usual_sites ? &na_usual_noted : NULL;
    noting.on_free = on_access_free;
    noting.on_resize = on_access_resize;
    return &noting;
}

/* ---- beginning and end ---- */

void na_access_start(const na_profile_config_t *c, bool in_child) {
    access_config = *c;
    with_accesses = thread_wanted = access_config.access != NA_ACCESS_OFF;
    in_use = NULL;
    na_access_entry = NULL;
    atomic_store(&na_access_on, false);
    atomic_store(&recording_ends, GOES_ON);
    na_pool_blocks_start(thread_wanted && !in_child);
    if (!thread_wanted) return;
    list_sources();
    na_access_store_init();
    if (in_child) {
        entries_for_all("a forked child is given no thread; begin a profile in it with "
                        "numalloc_record_start, or execute the program again");
        thread_wanted = false;
    }
}

void na_access_finish(void) {
    atomic_store(&na_access_on, false);
    if (!with_accesses) return;
    atomic_store(&recording_ends, ENDS);
    if (change_state(WAITS, NONE)) {
        entries_for_all("the process ended before it was looked at");
    } else {
        na_os_futex_wake((const uint32_t *)&recording_ends, INT32_MAX);
        while (atomic_load(&recorder_state) == WORKS)
            na_os_futex_wait((const uint32_t *)&recorder_state, WORKS);
    }
    if (thread_wanted) /* nobody came to make the thread */
        entries_for_all("the profile began where no thread can be made (by signal, time or "
                        "file); begin it with the program, or by numalloc_record_start");
    with_accesses = thread_wanted = false;
}

void na_access_hold(void) {
    if (with_accesses) na_lock(&na_access_store_lock);
}

void na_access_release(void) {
    if (with_accesses) na_unlock(&na_access_store_lock);
}

void na_access_became_child(void) {
    atomic_store(&na_access_on, false);
    if (in_use != NULL) in_use->forget();
    in_use = NULL;
    with_accesses = thread_wanted = false;
    atomic_store(&recorder_state, NONE);
}
