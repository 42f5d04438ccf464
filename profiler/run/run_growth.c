/* run_growth.c - --growth: what grows in a process that runs. Begins a profile in it if it has
 * none, copies it several times, ends what it began, and has numalloc-dump judge the copies. */
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/format/nprof.h"
#include "profiler/run/run.h"

/* Copies over the whole time, the first and the last included. Of fewer than ENOUGH there is no
 * judgement, but what differs between two.
 *
 * A profile that begins now does not know what was there before. What only replaces that seems to
 * grow until all of it is replaced; so of a profile that was begun here the first quarter is not
 * judged, and how many such blocks were freed later is said. */
enum { COPIES = 13, ENOUGH = 5, UNJUDGED = 4, TICK_MS = 200 };

typedef struct watched {
    const na_run_command_t *command;
    na_run_process_t process;
    bool began;             /* the profile is ours to end */
    char profile[PATH_MAX]; /* as it is, or was */
    char *copies[COPIES];   /* their names */
    size_t count;
    double kib_at_first, kib_at_last; /* resident */
} watched_t;

static void on_end(int signal) {
    na_run_ended_by = signal;
}

static void take_ends(void) {
    const struct sigaction action = {.sa_handler = on_end}; /* no SA_RESTART: waits end */
    sigaction(SIGINT, &action, NULL);
    sigaction(SIGTERM, &action, NULL);
    sigaction(SIGHUP, &action, NULL);
}

static uint64_t now_ms(void) {
    struct timespec t;
    clock_gettime(CLOCK_MONOTONIC, &t);
    return (uint64_t)t.tv_sec * 1000 + (uint64_t)t.tv_nsec / 1000000;
}

/* ---- the place ---- */

/* A directory of its own. In a container: in its own /tmp. */
static const char *make_temporary(const na_run_process_t *process, char out[PATH_MAX]) {
    char path[PATH_MAX], root[64] = "";
    const char *folder = getenv("TMPDIR");
    if (folder == NULL || *folder != '/') folder = "/tmp";
    if (!na_run_is_same_for(process, folder)) {
        snprintf(root, sizeof root, "/proc/%d/root", (int)process->pid);
        folder = "/tmp";
    }
    int n = snprintf(path, sizeof path, "%s%s/numalloc-growth.XXXXXX", root, folder);
    if (n >= PATH_MAX || mkdtemp(path) == NULL) {
        na_run_say("no place for the profile in %s: %s; name a directory with -o", folder,
                   strerror(errno));
        return NULL;
    }
    na_run_give_to(process, path);
    na_run_profile_name(path + strlen(root), out);
    return out;
}

/* ---- while it goes on ---- */

static bool begin_profile(watched_t *w) {
    char mode[64], place[PATH_MAX];
    na_run_wish_t wish = {.request = NA_RUN_START};
    if (w->process.maps.recording[0] != 0) {
        snprintf(w->profile, sizeof w->profile, "%s", w->process.maps.recording);
        return true;
    }
    const char *output = w->command->output;
    na_run_mode_text(w->command, mode);
    bool own = output != NULL || mode[0] != 0 || !na_run_is_told_how(&w->process);
    if (own) {
        wish.mode = mode;
        wish.file = output != NULL ? na_run_place_for(&w->process, output, place)
                                   : make_temporary(&w->process, place);
        if (wish.file == NULL) return false;
    }
    w->began = na_run_ask(&w->process, &wish, w->profile);
    if (w->began) return true;
    if (w->process.mailbox.memory >= 0) na_run_take_back(&w->process.mailbox, NA_RUN_START);
    /* It may have begun at last. */
    w->began =
        na_process_look(w->process.pid, &w->process.maps) && w->process.maps.recording[0] != 0;
    if (w->began) snprintf(w->profile, sizeof w->profile, "%s", w->process.maps.recording);
    if (!w->began && own && output == NULL) rmdir(place);
    return false;
}

static void copy_profile(watched_t *w) {
    char path[PATH_MAX];
    const na_run_wish_t wish = {.request = NA_RUN_DUMP};
    if (w->count == COPIES) return;
    snprintf(path, sizeof path, "%s", w->profile);
    if (na_run_ask(&w->process, &wish, path)) w->copies[w->count] = strdup(path);
    w->count += w->copies[w->count] != NULL;
}

static void show_progress(const watched_t *w, uint64_t passed, bool begins) {
    bool terminal = isatty(STDERR_FILENO) == 1;
    double kib = w->kib_at_last;
    if (w->command->quiet || (!terminal && !begins)) return;
    if (begins)
        na_run_say("process %d is watched for %u s; Ctrl-C shows what is known so far",
                   (int)w->process.pid, (w->command->growth_ms + 999) / 1000);
    if (terminal)
        dprintf(STDERR_FILENO, "\r%u of %u s, %zu of %d copies, %.1f MiB resident (%+.1f) ",
                (unsigned)(passed / 1000), (w->command->growth_ms + 999) / 1000, w->count, COPIES,
                kib / 1024, (kib - w->kib_at_first) / 1024);
}

/* When the next copy is to be made. */
static uint64_t next_copy(const watched_t *w) {
    uint64_t length = w->command->growth_ms, k = w->count;
    if (k == 0) return 0;
    if (!w->began) return length * k / (COPIES - 1);
    uint64_t from = length / UNJUDGED;
    return from + (length - from) * (k - 1) / (COPIES - 2);
}

/* Up to the end, or a signal. */
static void watch_process(watched_t *w) {
    uint64_t began = now_ms(), length = w->command->growth_ms, passed = 0;
    w->kib_at_first = w->kib_at_last = na_run_resident_kib(w->process.pid);
    show_progress(w, 0, true);
    while (na_run_ended_by == 0 && passed < length && !na_run_has_ended(w->process.pid)) {
        passed = now_ms() - began;
        w->kib_at_last = na_run_resident_kib(w->process.pid);
        show_progress(w, passed, false);
        if (passed >= next_copy(w) || passed >= length) {
            copy_profile(w);
        } else {
            const struct timespec tick = {0, TICK_MS * 1000000L / 4};
            nanosleep(&tick, NULL);
        }
    }
    if (na_run_ended_by != 0) { /* what is so far; another signal ends that, too */
        na_run_ended_by = 0;
        copy_profile(w);
    }
    if (!w->command->quiet && isatty(STDERR_FILENO) == 1) dprintf(STDERR_FILENO, "\r\033[K");
}

static void end_profile(watched_t *w) {
    const na_run_wish_t wish = {.request = NA_RUN_STOP};
    na_run_ended_by = 0;
    if (w->began && !na_run_has_ended(w->process.pid))
        (void)na_run_ask(&w->process, &wish, w->profile);
}

/* ---- what came of it ---- */

static uint64_t freed_from_before(const char *path) {
    na_nprof_header_t header;
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool good = fd >= 0 && pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header;
    if (fd >= 0) close(fd);
    return good ? header.before_frees : 0;
}

static bool show_growth(const watched_t *w, const na_run_tools_t *tools) {
    static char aggregate[] = "aggregate", leaks[] = "--leaks", diff[] = "diff";
    char *words[COPIES + 4];
    size_t n = 0, first = w->began && w->count > ENOUGH ? 1 : 0, last = w->count - 1;
    words[n++] = (char *)(size_t)tools->dump; /* exec does not write to its words */
    if (w->count - first >= ENOUGH) {
        words[n++] = aggregate;
        words[n++] = leaks;
        for (size_t i = first; i <= last; i++)
            words[n++] = w->copies[i];
    } else {
        na_run_say("%zu copies are too few to tell growth from chance; what differs between the "
                   "first and the last:",
                   w->count);
        words[n++] = diff;
        words[n++] = w->copies[first];
        words[n++] = w->copies[last];
    }
    words[n] = NULL;
    bool good = na_run_tool(words, dup(STDOUT_FILENO));
    uint64_t freed = freed_from_before(w->copies[last]) - freed_from_before(w->copies[first]);
    if (freed != 0 && !w->command->quiet)
        na_run_say("%llu blocks from before the profile were freed meanwhile: what only replaces "
                   "such blocks seems to grow; a longer time tells",
                   (unsigned long long)freed);
    if (!w->command->quiet)
        dprintf(STDERR_FILENO, "  %-12s %.1f MiB, %+.1f MiB meanwhile\n", "resident",
                w->kib_at_last / 1024, (w->kib_at_last - w->kib_at_first) / 1024);
    na_run_show_diff(w->command, tools, w->copies[first], w->copies[last]);
    return good;
}

int na_run_growth(const na_run_command_t *command, const na_run_tools_t *tools) {
    static watched_t w;
    w.command = command;
    if (tools->dump[0] == 0) {
        na_run_say("numalloc-dump, which says what grows, is not installed");
        return NA_RUN_FAILED;
    }
    if (!na_run_look_at(&w.process, command->pid, tools->library)) return NA_RUN_FAILED;
    take_ends();
    bool good = begin_profile(&w);
    if (good) watch_process(&w);
    end_profile(&w);
    na_run_leave(&w.process);
    if (good && w.count < 2) {
        na_run_say("process %d made no two copies, so nothing can be compared", (int)w.process.pid);
        good = false;
    }
    if (!good) return NA_RUN_FAILED;
    na_run_take_signals();
    return show_growth(&w, tools) ? 0 : NA_RUN_FAILED;
}
