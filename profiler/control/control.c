/* control.c - carries out what control.h says. */
#include "profiler/control/control.h"

#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <string.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <sys/syscall.h>

#include "alloc/api/figures.h"
#include "alloc/core/malloc/large.h"
#include "alloc/core/page/pageheap.h"
#include "alloc/core/sys/lock.h"
#include "alloc/core/sys/os.h"
#include "alloc/core/sys/print.h"
#include "alloc/core/thread/attach.h"
#include "alloc/core/thread/switch.h"
#include "alloc/core/track/misuse.h"
#include "alloc/core/track/track.h"
#include "alloc/interpose/whose.h"
#include "alloc/options/options_read.h"
#include "alloc/record/lookup.h"
#include "alloc/record/recording.h"
#include "profiler/control/publish.h"
#include "profiler/format/nprof.h"
#include "profiler/leaks/leaks.h"
#include "profiler/policy/policy.h"
#include "profiler/policy/policy_report.h"
#include "profiler/record/state/record.h"
#include "profiler/record/state/where.h"

enum { LOOK_MS = 20, TRIGGER_MS = 100, POLICY_MS = 1000 }; /* least time between two looks */
enum { STAY_MS = 100 }; /* a forked child that lives longer has not just been about to exec */

static na_lock_t lock; /* guards all below but what is atomic */
static bool running;
static bool stuck;  /* a profile has ended whose memory a thread may still use */
static bool ended;  /* the process does */
static bool wanted; /* this program is one to profile */
static na_profile_config_t config;

/* Its requests (na_request_t, not yet carried out) are those of all. Nobody here reads what others
 * write, or writes what they read alone; so it is said that somebody does. */
__attribute__((used)) static na_mailbox_t mailbox = {.magic = NA_MAILBOX_MAGIC,
                                                     .version = NA_MAILBOX_VERSION};
__attribute__((used)) NA_SPARSE static char mailbox_text[4096 + 128];

static _Atomic(uint64_t) stays_at_ms; /* in a forked child whose profile may not have begun; 0 */

static _Atomic(bool) watching; /* there is something to look for */
static _Atomic(uint64_t) next_look_ms;
static struct watch {
    uint64_t start_at_ms, stop_at_ms, dump_at_ms; /* 0: never */
    uint64_t after_ms, for_ms, every_ms;
    uint64_t rss, live;               /* multiples that are dumped at, 0: none */
    uint64_t rss_passed, live_passed; /* the last ones */
    const char *trigger;              /* NULL: none */
    uint64_t trigger_at_ms;           /* next look */
    struct stat seen;                 /* the trigger as last read; st_ino 0: not there */
} watch;

/* All that is another process's in `requests`. */
#define ASKED (NA_MAILBOX_ASK * (unsigned)(NA_REQUEST_START | NA_REQUEST_STOP | NA_REQUEST_DUMP))

static bool try_lock(void) {
    return na_try_lock(&lock);
}

/* --- beginning and ending --- */

/* For the profile's timeline; takes no lock. */
static uint64_t mapped_bytes(void) {
    return na_pageheap_committed() + na_large_dedicated_bytes();
}

static uint32_t threads_most(bool from_now) {
    if (from_now) na_tcache_forget_most();
    return na_tcache_most();
}

static uint64_t mapped_on(unsigned node) {
    return na_pageheap_committed_on(node) + na_large_dedicated_on(node);
}

NA_RACY static uint64_t usable(const na_span_t *span) {
    uint8_t cls = span->cls;
    return cls != 0 ? na_classes[cls].size : (uint64_t)span->pages * NA_PAGE_SIZE;
}

static const na_record_t *record_of(const void *block) {
    const na_span_t *span = na_span_of(block);
    return span != NULL && na_is_block_start(span, block) ? na_record_of(span, block) : NULL;
}

/* The sources that only tests ask for come instead of any other. */
static na_access_choice_t access_source(uint64_t asked) {
    uint64_t test = na_option(NA_OPT_TEST_ACCESS);
    return asked == NA_ACCESS_OFF || test == 0
               ? (na_access_choice_t)asked
               : (na_access_choice_t)(NA_ACCESS_KMOD_FAULT - 1 + test);
}

/* "MODE[,SETTINGS]", and more settings; NULL: none. They go to `numbers`. */
static bool mode_of(const char *text, const char *settings, na_profile_mode_t *mode,
                    uint64_t numbers[NA_OPT_ALL]) {
    static const struct {
        char name[8];
        na_profile_mode_t mode;
    } modes[] = {
        {"sample", NA_PROFILE_SAMPLE}, {"sites", NA_PROFILE_SITES}, {"trace", NA_PROFILE_TRACE}};
    size_t length = strcspn(text, ",");
    if (text[length] != 0 && !na_option_settings(text + length + 1, numbers)) return false;
    if (settings != NULL && *settings != 0 && !na_option_settings(settings, numbers)) return false;
    for (size_t i = 0; i < sizeof modes / sizeof modes[0]; i++) {
        if (strlen(modes[i].name) != length || memcmp(modes[i].name, text, length) != 0) continue;
        *mode = modes[i].mode;
        return true;
    }
    return false;
}

static int stop(const na_tcache_t *tcache) {
    if (!running) return EALREADY;
    running = false;
    watch.stop_at_ms = watch.dump_at_ms = 0;
    stuck = !na_switch_off(tcache);
    na_profile_stop(!stuck);
    if (!stuck) na_profile_discard();
    return 0;
}

/* Ends the profile that is there for the sake of call stacks alone. */
static bool make_room(const na_tcache_t *tcache) {
    return running && config.unnamed && stop(tcache) == 0;
}

/* `for_leaks`: nobody asked for a profile, but its call stacks are wanted. */
static int start(const na_tcache_t *tcache, const char *mode, const char *file,
                 const char *settings, bool for_leaks) {
    if (running && (for_leaks || !make_room(tcache))) return EALREADY;
    if (ended || !wanted) return ECANCELED;
    if (mode == NULL || *mode == 0) mode = na_option_text(NA_OPT_PROFILE);
    if (mode == NULL || *mode == 0) mode = "sites";
    static uint64_t number[NA_OPT_ALL]; /* under the lock; large for a small stack */
    for (unsigned id = 0; id < NA_OPT_ALL; id++)
        number[id] = na_option((na_option_id_t)id);
    if (!mode_of(mode, settings, &config.mode, number)) return EINVAL;
    /* Leaks are told by site. */
    if (na_leaks_on && config.mode == NA_PROFILE_SAMPLE) config.mode = NA_PROFILE_SITES;
    config.unnamed = for_leaks;
    config.unnamed_in_children = na_option(NA_OPT_LEAKS) > 1;
    config.access = access_source(number[NA_OPT_ACCESS]);
    config.access_period = number[NA_OPT_ACCESS_PERIOD];
    config.access_cost = (unsigned)number[NA_OPT_ACCESS_COST];
    config.access_stack = (uint32_t)number[NA_OPT_ACCESS_STACK] & ~7u;
    config.access_frames = (uint32_t)number[NA_OPT_ACCESS_FRAMES];
    config.find = na_lookup;
    if (!na_switch_prepare(tcache)) return EBUSY;
    if (stuck) na_profile_discard();
    stuck = false;
    config.file = file != NULL ? file : na_option_text(NA_OPT_PROFILE_FILE);
    config.named_by_call = file != NULL;
    config.sample_interval = 0;
    if (config.mode == NA_PROFILE_SAMPLE) /* 0 is every block; the sampler's 0 is none */
        config.sample_interval =
            number[NA_OPT_SAMPLE_INTERVAL] != 0 ? number[NA_OPT_SAMPLE_INTERVAL] : NA_SAMPLE_ALL;
    config.mapped = mapped_bytes;
    config.each_records_room = na_span_each_records_room;
    config.mapped_on = mapped_on;
    config.threads_most = threads_most;
    config.own_limit = number[NA_OPT_PROFILE_MEMORY];
    config.free_sites = number[NA_OPT_PROFILE_FREES] != 0;
    config.python = number[NA_OPT_PYTHON] != 0;
    config.age_records = na_span_age_records;
    config.forget_threads = na_switch_new_process;
    config.each_records = na_span_each_records;
    config.record_of = record_of;
    config.usable = usable;
    config.trace_stacks = (na_trace_stacks_t)number[NA_OPT_TRACE_STACKS];
    config.trace_buffer = number[NA_OPT_TRACE_BUFFER];
    config.trace_level = (unsigned)number[NA_OPT_TRACE_LEVEL];
    config.trace_lossy = number[NA_OPT_TRACE_LOSSY] != 0;
    config.trace_no_thread = number[NA_OPT_TRACE_THREAD] == 0;
    config.trace_max = number[NA_OPT_TRACE_MAX];
    config.policy = na_policy_report;
    config.policy_rules = na_policy_report_rules;
    config.policy_ruled = na_policy_ruled;
    config.other_malloc = na_whose_malloc();
    config.from_start = na_tcache_count() == 0;
    config.missed = NA_CREDIT_MAX;
    const na_hooks_t *hooks = na_profile_start(&config);
    if (hooks == NULL) {
        na_switch_give_up();
        return EIO;
    }
    na_traced_choose(hooks);
    na_switch_on(hooks, config.mode != NA_PROFILE_SAMPLE);
    running = true;
    if (for_leaks) return 0; /* one that is asked for comes at its time */
    uint64_t now = na_os_ms();
    watch.start_at_ms = 0;
    watch.stop_at_ms = watch.for_ms != 0 ? now + watch.for_ms : 0;
    watch.dump_at_ms = watch.every_ms != 0 ? now + watch.every_ms : 0;
    return 0;
}

static int dump(const na_tcache_t *tcache) {
    if (!running || config.unnamed) return ENODATA;
    if (!na_switch_pause(tcache)) return EBUSY;
    int error = na_profile_dump();
    na_switch_resume();
    return error;
}

/* --- requests --- */

void na_control_request(unsigned which) {
    atomic_fetch_or(&mailbox.requests, which);
    atomic_fetch_add(&na_alarm, NA_ALARM_RAISE);
}

static void complain(const char *what, int error) {
    if (error == EBUSY)
        na_warn("%s put off: a thread does not come out of the profiler; stop it, or ask again "
                "when it runs",
                what);
}

/* The beginning that another process asked for, with what it wrote. */
static int start_asked(const na_tcache_t *tcache) {
    char *mode = mailbox_text, *last = mailbox_text + sizeof mailbox_text - 1;
    *last = last[-1] = 0;
    const char *file = mode + strlen(mode) + 1;
    return start(tcache, mode, *file != 0 ? file : NULL, NULL, false);
}

static NA_COLD void carry_out(const na_tcache_t *tcache, unsigned which) {
    unsigned asked = which & ASKED;
    bool refused = asked != 0 && getauxval(AT_SECURE) != 0;
    int error = refused ? EPERM : 0;
    if (!refused) which |= asked / NA_MAILBOX_ASK;
    if ((which & NA_REQUEST_DUMP) != 0) complain("a profile's copy is", error = dump(tcache));
    if ((which & NA_REQUEST_TOGGLE) != 0)
        which |=
            running && !config.unnamed ? (unsigned)NA_REQUEST_STOP : (unsigned)NA_REQUEST_START;
    na_leak_totals_t leaks;
    if ((which & NA_REQUEST_LEAKS) != 0 && wanted &&
        na_leaks_scan(&leaks, NA_LEAK_REPORT, na_leaks_here()) == ENOTSUP)
        na_warn(
            "no scan for leaks: start the program with NUMALLOC_LEAKS=1 (numalloc-run --leaks)");
    if ((which & NA_REQUEST_STOP) != 0) error = config.unnamed ? EALREADY : stop(tcache);
    if ((which & NA_REQUEST_START) != 0) {
        bool by_other = !refused && (asked & NA_REQUEST_START * NA_MAILBOX_ASK) != 0;
        error = by_other ? start_asked(tcache) : start(tcache, NULL, NULL, NULL, false);
        complain("the start of a profile is", error);
    }
    if (asked == 0) return;
    mailbox.error = error;
    atomic_fetch_add(&mailbox.answers, 1);
}

static void attend_requests(na_tcache_t *tcache) {
    while (atomic_load(&mailbox.requests) != 0) {
        /* In a signal handler that interrupted a hook, or somebody else is at it: later. */
        if (atomic_load_explicit(&tcache->track.inside, memory_order_relaxed) != 0 || !try_lock())
            return;
        carry_out(tcache, atomic_exchange(&mailbox.requests, 0));
        na_unlock(&lock);
    }
}

/* Others may ask from here on. */
static void open_mailbox(void) {
    uintptr_t self = (uintptr_t)&mailbox;
    mailbox.alarm = (int32_t)((intptr_t)&na_alarm + NA_ALARM_OTHERS - (intptr_t)self);
    mailbox.text = (int32_t)((intptr_t)mailbox_text - (intptr_t)self);
    mailbox.text_size = sizeof mailbox_text;
    atomic_store_explicit(&mailbox.self, self, memory_order_release);
}

int na_control_start(na_tcache_t *tcache, const char *mode, const char *file,
                     const char *settings) {
    na_lock(&lock);
    int error = start(tcache, mode, file, settings, false);
    const na_hooks_t *hooks = na_hooks;
    /* Here the program waits for us in a call of its own, so that a thread can be made. */
    if (error == 0 && hooks->on_load != NULL) hooks->on_load();
    na_unlock(&lock);
    na_switch_alarmed(tcache); /* what the caller does next is in the profile, all of it */
    return error;
}

int na_control_stop(na_tcache_t *tcache) {
    na_lock(&lock);
    int error = config.unnamed ? EALREADY : stop(tcache);
    na_unlock(&lock);
    attend_requests(tcache);
    return error;
}

int na_control_dump(na_tcache_t *tcache) {
    na_lock(&lock);
    int error = dump(tcache);
    na_unlock(&lock);
    attend_requests(tcache);
    return error;
}

/* --- signals --- */

/* In the order of the option's words. */
static const int signal_numbers[] = {0, SIGHUP, SIGUSR1, SIGUSR2, SIGURG, SIGWINCH, SIGIO, SIGPWR};

static void on_signal(int number) {
    if (number == signal_numbers[na_option(NA_OPT_PROFILE_SIGNAL)])
        na_control_request(NA_REQUEST_TOGGLE);
    if (number == signal_numbers[na_option(NA_OPT_PROFILE_DUMP_SIGNAL)])
        na_control_request(NA_REQUEST_DUMP);
}

static void handle(na_option_id_t option) {
    int number = signal_numbers[na_option(option)];
    if (number == 0) return;
    struct sigaction action = {.sa_handler = on_signal, .sa_flags = SA_RESTART}; /* no mask */
    if (sigaction(number, &action, NULL) != 0)
        na_warn("%s ignored: the system does not let the signal be handled; choose another",
                na_option_name(option));
}

void na_control_at_load(void) {
    if (!wanted) return;
    na_whose_warn();
    handle(NA_OPT_PROFILE_SIGNAL);
    handle(NA_OPT_PROFILE_DUMP_SIGNAL);
}

/* --- looking --- */

static bool has_policy; /* set at load */

void na_control_note_policy(void) {
    if (!has_policy) has_policy = true;
    if (!try_lock()) return;
    if (running) na_profile_note_policy();
    na_unlock(&lock);
}

/* A change of the file is what counts, so that all processes of a job see the same one. */
static unsigned look_at_trigger(uint64_t now) {
    if (watch.trigger == NULL || now < watch.trigger_at_ms) return 0;
    watch.trigger_at_ms = now + TRIGGER_MS;
    struct stat st = {0};
    if (na_syscall(SYS_newfstatat, AT_FDCWD, (long)watch.trigger, (long)&st, 0, 0, 0) != 0)
        st = (struct stat){0};
    bool changed = st.st_ino != watch.seen.st_ino ||
                   st.st_mtim.tv_sec != watch.seen.st_mtim.tv_sec ||
                   st.st_mtim.tv_nsec != watch.seen.st_mtim.tv_nsec;
    watch.seen = st;
    if (!changed || st.st_ino == 0) return 0;
    char text[16] = "";
    long n = na_os_read_file(watch.trigger, text, sizeof text);
    if (n < 0) return 0;
    switch (n >= 3 && text[0] == 's' ? text[2] : text[0]) {
    case 'a': /* start */
        return NA_REQUEST_START;
    case 'o': /* stop */
        return NA_REQUEST_STOP;
    case 'l': /* leaks */
        return NA_REQUEST_LEAKS;
    case 'd': /* dump */
    case 0:
    case '\n':
        return NA_REQUEST_DUMP;
    default:
        na_warn("%s: unknown request '%s'; write start, stop, dump or leaks", watch.trigger, text);
        return 0;
    }
}

/* `value` is beyond a multiple of `step` that it was never beyond before. */
static bool passes(uint64_t step, uint64_t value, uint64_t *passed) {
    if (step == 0 || value / step <= *passed) return false;
    *passed = value / step;
    return true;
}

static unsigned look(uint64_t now) {
    unsigned found = look_at_trigger(now);
    if (watch.start_at_ms != 0 && now >= watch.start_at_ms) {
        watch.start_at_ms = 0;
        found |= NA_REQUEST_START;
    }
    if (!running) return found;
    if (watch.stop_at_ms != 0 && now >= watch.stop_at_ms) found |= NA_REQUEST_STOP;
    bool due = watch.dump_at_ms != 0 && now >= watch.dump_at_ms;
    if (due) watch.dump_at_ms = now + watch.every_ms;
    if (watch.rss != 0 && passes(watch.rss, na_resident_bytes(), &watch.rss_passed)) due = true;
    if (watch.live != 0) {
        int64_t live = na_profile_live_bytes();
        if (live > 0 && passes(watch.live, (uint64_t)live, &watch.live_passed)) due = true;
    }
    return due ? found | NA_REQUEST_DUMP : found;
}

/* Of a child that takes no sample for long there is a profile as well. */
static NA_COLD void begin_in_child(na_tcache_t *tcache, uint64_t now) {
    uint64_t at = atomic_load_explicit(&stays_at_ms, memory_order_relaxed);
    if (at == 0 || now < at || atomic_load(&tcache->track.inside) != 0) return;
    if (!atomic_compare_exchange_strong(&stays_at_ms, &at, 0)) return;
    const na_hooks_t *hooks = na_section_enter(&tcache->track);
    if (hooks != NULL && hooks->on_stay != NULL) hooks->on_stay(&tcache->track.profile);
    na_section_leave(&tcache->track);
}

static void poll_triggers(na_tcache_t *tcache, uint64_t now) {
    na_publish_poll(now);
    if (NA_UNLIKELY(atomic_load_explicit(&stays_at_ms, memory_order_relaxed) != 0))
        begin_in_child(tcache, now);
    if (NA_UNLIKELY(has_policy)) {
        static _Atomic(uint64_t) next_policy_ms;
        uint64_t next = atomic_load_explicit(&next_policy_ms, memory_order_relaxed);
        if (now >= next &&
            atomic_compare_exchange_strong(&next_policy_ms, &next, now + POLICY_MS) &&
            atomic_load_explicit(&tcache->track.inside, memory_order_relaxed) == 0) {
            na_policy_look();
            na_control_note_policy();
        }
    }
    if (atomic_load_explicit(&watching, memory_order_relaxed)) {
        uint64_t next = atomic_load_explicit(&next_look_ms, memory_order_relaxed);
        if (now >= next && atomic_compare_exchange_strong(&next_look_ms, &next, now + LOOK_MS) &&
            try_lock()) {
            unsigned found = look(now);
            na_unlock(&lock);
            if (found != 0) atomic_fetch_or(&mailbox.requests, found);
        }
    }
    attend_requests(tcache);
}

/* --- the process --- */

/* The program may go to another directory. Too long, or nowhere: as it is. */
static const char *whole_name(const char *name) {
    NA_SPARSE static char whole[4096];
    if (name[0] == '/') return name;
    long n = na_syscall(SYS_getcwd, (long)whole, sizeof whole, 0, 0, 0, 0);
    if (n <= 1 || whole[0] != '/') return name;
    size_t at = (size_t)n - 1;
    if (whole[at - 1] != '/') whole[at++] = '/';
    for (const char *c = name; at < sizeof whole; at++, c++)
        if ((whole[at] = *c) == 0) return whole;
    return name;
}

static bool before_fork(void) {
    enum { LONG_MS = 2000 }; /* a switch waits for a second itself */
    return !na_lock_is_mine(&lock) && na_lock_for(&lock, LONG_MS);
}

static void after_fork_parent(void) {
    na_unlock(&lock);
}

/* What is due is the parent's affair; the child's own profile goes on as its hooks see fit. */
static void after_fork_child(bool held) {
    na_lock_reset(&lock);
    if (held) na_unlock(&lock);
    na_switch_after_fork_child();
    na_leaks_after_fork_child();
    na_pools_after_fork_child();
    na_publish_after_fork_child();
    atomic_store(&mailbox.requests, 0);
    atomic_store(&stays_at_ms, running ? na_os_ms() + STAY_MS : 0);
}

static const na_controller_t controller = {attend_requests, poll_triggers, before_fork,
                                           after_fork_parent, after_fork_child};

/* What is there already asks for nothing. `name`: as the user wrote it. */
static NA_COLD void first_look_at_trigger(const char *name) {
    na_syscall(SYS_newfstatat, AT_FDCWD, (long)watch.trigger, (long)&watch.seen, 0, 0, 0);
    if (name == NULL || (!S_ISDIR(watch.seen.st_mode) && name[strlen(name) - 1] != '/')) return;
    na_warn("NUMALLOC_PROFILE_TRIGGER=%s ignored: it is a directory; name a file", name);
    watch.trigger = NULL;
}

void na_control_init(void) {
    na_controller = &controller;
    open_mailbox();
    na_leaks_ruled = na_policy_ruled;
    const char *mode = na_option_text(NA_OPT_PROFILE);
    bool bad_ranks;
    wanted = na_control_is_wanted(na_option_text(NA_OPT_PROFILE_ONLY),
                                  na_option_text(NA_OPT_PROFILE_RANKS), &bad_ranks);
    if (bad_ranks)
        na_warn("NUMALLOC_PROFILE_RANKS=%s ignored: numbers and ranges such as 0,4-7 are accepted",
                na_option_text(NA_OPT_PROFILE_RANKS));
    const char *labels = na_option_text(NA_OPT_PROFILE_LABELS);
    if (labels != NULL && *labels != 0 && !na_control_are_labels(labels))
        na_warn("NUMALLOC_PROFILE_LABELS=%s ignored: key=value pairs such as service=web,version=2 "
                "are accepted, %u characters at most",
                labels, NA_NPROF_LABELS - 1);
#ifndef __GLIBC__ /* stacks are not walked there */
    if (mode != NULL && *mode != 0)
        na_warn("NUMALLOC_PROFILE=%s ignored: there are no profiles with this C library", mode);
    if (na_leaks_on) na_warn("NUMALLOC_LEAKS ignored: there is no scan with this C library");
    wanted = false;
#endif
    if (!wanted) return;
    const char *trigger = na_option_text(NA_OPT_PROFILE_TRIGGER);
    watch.after_ms = na_option(NA_OPT_PROFILE_AFTER);
    watch.for_ms = na_option(NA_OPT_PROFILE_FOR);
    watch.every_ms = na_option(NA_OPT_PROFILE_DUMP_EVERY);
    watch.rss = na_option(NA_OPT_PROFILE_DUMP_RSS);
    watch.live = na_option(NA_OPT_PROFILE_DUMP_LIVE);
    if (trigger != NULL && *trigger != 0) watch.trigger = whole_name(trigger);
    if ((mode != NULL && *mode != 0) || watch.trigger != NULL ||
        na_option(NA_OPT_PROFILE_SIGNAL) != 0)
        na_where_start(na_option_text(NA_OPT_PROFILE_FILE));
    if (watch.trigger != NULL) first_look_at_trigger(trigger);
    if (mode != NULL && *mode != 0 && watch.after_ms != 0)
        watch.start_at_ms = na_os_ms() + watch.after_ms;
    watching = watch.trigger != NULL || watch.start_at_ms != 0 || watch.for_ms != 0 ||
               watch.every_ms != 0 || watch.rss != 0 || watch.live != 0;
    bool later = mode == NULL || *mode == 0 || watch.after_ms != 0 ||
                 na_option(NA_OPT_PROFILE_START) == NA_PROFILE_LATER;
    if (later && !na_leaks_on) return;
    na_lock(&lock);
    start(NULL, later ? "sites" : NULL, NULL, NULL, later);
    na_unlock(&lock);
}

int na_control_leaks(na_leak_totals_t *leaks, bool report, uintptr_t from) {
    na_lock(&lock);
    int error =
        wanted ? na_leaks_scan(leaks, report ? NA_LEAK_REPORT : NA_LEAK_NOTHING, from) : ENOTSUP;
    na_unlock(&lock);
    return error;
}

bool na_control_at_exit(na_tcache_t *tcache) {
    if (!try_lock()) return false; /* exit() out of a handler that interrupted a switch */
    ended = true;
    const na_hooks_t *hooks = na_hooks;
    bool lost = wanted && tcache->track.inside == 0 && na_leaks_at_exit();
    if (running && atomic_load(&stays_at_ms) != 0) begin_in_child(tcache, na_os_ms());
    if (running && hooks != NULL && tcache->track.inside == 0) {
        hooks = na_section_enter(&tcache->track);
        if (hooks != NULL) hooks->on_exit(&tcache->track.profile);
        na_section_leave(&tcache->track);
    }
    na_unlock(&lock);
    return lost;
}
