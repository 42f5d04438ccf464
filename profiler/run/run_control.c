/* run_control.c - begins, ends and copies the profile of a process that runs, by the means that it
 * was started with: its file of requests, or its signals. A process is asked only after it was seen
 * that it knows the means: to others such a signal means death. All others are asked by their
 * mailbox, and so is one whose profile is to have a mode or a place that it was not started with.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <time.h>
#include <unistd.h>

#include "profiler/format/nprof.h"
#include "profiler/format/process_info.h"
#include "profiler/run/run.h"

enum { PATIENCE_MS = 10000, SILENT_MS = 1000, STEP_MS = 50 };
enum { MOST_CLOSED = 40 }; /* steps: a process that lacks memory does not finish its profile */

volatile sig_atomic_t na_run_ended_by;

static const char *environment_value(const na_run_process_t *process, const char *name) {
    size_t length = strlen(name);
    for (const char *v = process->environment; *v != 0; v += strlen(v) + 1)
        if (strncmp(v, name, length) == 0 && v[length] == '=' && v[length + 1] != 0)
            return v + length + 1;
    return NULL;
}

/* ---- the process ---- */

static bool has_it_linked(pid_t pid) {
    char path[64];
    if (na_process_is_run(pid)) return false; /* its program is about to begin */
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool has = fd >= 0 && na_run_has_numalloc(fd);
    if (fd >= 0) close(fd);
    return has;
}

/* One that cannot have it at all is told why. */
static void say_without(pid_t pid, const char *library) {
    static na_run_program_t program;
    char name[64], path[PATH_MAX];
    snprintf(name, sizeof name, "/proc/%d/exe", (int)pid);
    ssize_t n = readlink(name, path, sizeof path - 1);
    path[n > 0 ? n : 0] = 0;
    if (access(path, X_OK) == 0 && na_run_find_program(&program, path, library) != 0) return;
    na_run_say("process %d runs without numalloc, which cannot be added to it; start it with "
               "numalloc-run",
               (int)pid);
}

bool na_run_look_at(na_run_process_t *process, pid_t pid, const char *library) {
    bool seen, numalloc;
    unsigned ms = 0;
    *process = (na_run_process_t){.pid = pid, .mailbox = {.memory = -1}};
    do {
        process->pid = na_process_behind(pid);
        if (kill(process->pid, 0) != 0 && errno == ESRCH) {
            na_run_say("there is no process %d", (int)pid);
            return false;
        }
        seen = na_process_look(process->pid, &process->maps);
        numalloc = seen && (process->maps.library || has_it_linked(process->pid));
    } while (seen && !numalloc && na_process_wait(process->pid, &ms));
    if (seen && !numalloc) {
        say_without(process->pid, library);
        return false;
    }
    if (seen) process->environment = na_run_environment_of(process->pid, process->maps.recording);
    if (process->environment != NULL) return true;
    na_run_say("process %d may not be looked at: %s; be its user, or root", (int)process->pid,
               strerror(errno));
    return false;
}

void na_run_leave(na_run_process_t *process) {
    na_run_leave_mailbox(&process->mailbox);
    free(process->environment);
    process->environment = NULL;
}

/* ---- asking ---- */

/* The number of a signal that its library handles, as an option of its environment names it; 0:
 * none. */
static int handled_signal(const na_run_process_t *process, const char *option) {
    static const struct {
        const char *name;
        int number;
    } signals[] = {{"hup", SIGHUP},     {"usr1", SIGUSR1}, {"usr2", SIGUSR2}, {"urg", SIGURG},
                   {"winch", SIGWINCH}, {"io", SIGIO},     {"pwr", SIGPWR}};
    const char *word = environment_value(process, option);
    int number = 0;
    for (size_t i = 0; word != NULL && i < sizeof signals / sizeof signals[0]; i++)
        if (strcasecmp(word, signals[i].name) == 0) number = signals[i].number;
    if (number == 0) return 0;
    char *status = na_process_read(process->pid, "status");
    const char *caught = status != NULL ? strstr(status, "\nSigCgt:") : NULL;
    uint64_t set = caught != NULL ? strtoull(caught + 8, NULL, 16) : 0;
    free(status);
    return (set >> (number - 1) & 1) != 0 ? number : 0;
}

/* The file changes at once and whole. */
static bool write_request(const na_run_process_t *process, const char *file, const char *word) {
    char path[PATH_MAX], next[PATH_MAX];
    int n = file[0] == '/'
                ? snprintf(path, sizeof path, "/proc/%d/root%s", (int)process->pid, file)
                : snprintf(path, sizeof path, "/proc/%d/cwd/%s", (int)process->pid, file);
    if (n >= PATH_MAX || snprintf(next, sizeof next, "%s.%d", path, (int)getpid()) >= PATH_MAX) {
        na_run_say("%.200s...: path too long", file);
        return false;
    }
    int fd = open(next, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
    size_t length = strlen(word);
    bool good = fd >= 0 && write(fd, word, length) == (ssize_t)length;
    int error = errno;
    if (fd >= 0 && close(fd) != 0) good = false;
    if (good && rename(next, path) == 0) return true;
    if (good) error = errno;
    if (fd >= 0) unlink(next);
    na_run_say("the request cannot be written: %s: %s", file, strerror(error));
    return false;
}

/* As it was started to be asked. */
static bool ask_as_told(const na_run_process_t *process, na_run_request_t request) {
    static const char *const words[] = {
        [NA_RUN_START] = "start\n", [NA_RUN_STOP] = "stop\n", [NA_RUN_DUMP] = "dump\n"};
    int number = handled_signal(process, request == NA_RUN_DUMP ? "NUMALLOC_PROFILE_DUMP_SIGNAL"
                                                                : "NUMALLOC_PROFILE_SIGNAL");
    const char *file = environment_value(process, "NUMALLOC_PROFILE_TRIGGER");
    /* A signal is for this process alone; the file is for all that were started with it. */
    if (number != 0 && kill(process->pid, number) == 0) return true;
    return file != NULL && write_request(process, file, words[request]);
}

bool na_run_is_told_how(const na_run_process_t *process) {
    return handled_signal(process, "NUMALLOC_PROFILE_SIGNAL") != 0 ||
           environment_value(process, "NUMALLOC_PROFILE_TRIGGER") != NULL;
}

static const char *silence(const na_run_process_t *process) {
    char state = na_run_process_state(process->pid);
    return state == 'T' || state == 't' ? "it is stopped; it looks when it goes on (kill -CONT)"
                                        : "it looks when it allocates";
}

bool na_run_has_ended(pid_t pid) {
    char state = na_run_process_state(pid);
    return state == '?' || state == 'Z' || state == 'X';
}

static void pause_step(void) {
    const struct timespec step = {0, STEP_MS * 1000000L};
    nanosleep(&step, NULL);
}

static bool ask_by_mailbox(na_run_process_t *process, const na_run_wish_t *wish) {
    na_run_mailbox_t *box = &process->mailbox;
    if (box->memory < 0 && !na_run_find_mailbox(box, process->pid)) return false;
    int ms = 0;
    for (; !na_run_is_open(box) && ms < PATIENCE_MS && na_run_ended_by == 0; ms += STEP_MS) {
        if (na_run_has_ended(process->pid)) break;
        if (ms == SILENT_MS)
            na_run_say("process %d has allocated nothing yet; %s", (int)process->pid,
                       silence(process));
        pause_step();
    }
    const char *mode = wish->mode != NULL ? wish->mode : "";
    if (na_run_is_open(box) &&
        na_run_ask_mailbox(box, wish->request, mode, wish->file != NULL ? wish->file : ""))
        return true;
    na_run_say("process %d %s", (int)process->pid,
               na_run_has_ended(process->pid) ? "has ended"
                                              : "has allocated nothing; ask it later");
    return false;
}

static bool ask_process(na_run_process_t *process, const na_run_wish_t *wish) {
    bool special = wish->mode != NULL || wish->file != NULL || process->mailbox.memory >= 0;
    return (!special && ask_as_told(process, wish->request)) || ask_by_mailbox(process, wish);
}

/* ---- what came of it ---- */

unsigned long na_run_last_copy(const char *profile, char path[PATH_MAX], uint64_t *grows) {
    char folder[PATH_MAX];
    const char *name = strrchr(profile, '/') + 1;
    snprintf(folder, sizeof folder, "%.*s", (int)(name - profile), profile);
    /* Of a profile that is numbered itself: those after it. */
    const char *end = name + strlen(name), *digits = end;
    while (digits > name && digits[-1] >= '0' && digits[-1] <= '9')
        digits--;
    if (digits != end && digits > name + 1 && digits[-1] == '.') end = digits - 1;
    size_t length = (size_t)(end - name);
    unsigned long most = 0;
    *grows = 0;
    DIR *directory = opendir(folder);
    for (struct dirent *e; directory != NULL && (e = readdir(directory)) != NULL;) {
        if (strncmp(e->d_name, name, length) != 0 || e->d_name[length] != '.') continue;
        char *rest;
        struct stat st;
        unsigned long number = strtoul(e->d_name + length + 1, &rest, 10);
        if (strcmp(rest, NA_NPROF_PART) == 0 && fstatat(dirfd(directory), e->d_name, &st, 0) == 0)
            *grows += 1 + (uint64_t)st.st_blocks + (uint64_t)st.st_mtim.tv_nsec;
        if (*rest != 0 || number <= most) continue;
        most = number;
        snprintf(path, PATH_MAX, "%.*s%s", (int)(name - profile), profile, e->d_name);
    }
    if (directory != NULL) closedir(directory);
    return most;
}

/* Closed, and what comes after that is in it, too. */
static bool is_finished(const char *path) {
    na_nprof_header_t header;
    int fd = open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    bool is = fd >= 0 && pread(fd, &header, sizeof header, 0) == (ssize_t)sizeof header &&
              header.finished == NA_NPROF_FINISHED;
    if (fd >= 0) close(fd);
    return is;
}

/* What was asked for is there, whole; `path` is the profile that it is about. *grows: as above. */
static bool has_answered(na_run_process_t *process, na_run_request_t request, unsigned long copies,
                         char path[PATH_MAX], uint64_t *grows) {
    char copy[PATH_MAX];
    bool none = process->maps.recording[0] == 0;
    switch (request) {
    case NA_RUN_START:
        if (!none) snprintf(path, PATH_MAX, "%s", process->maps.recording);
        return !none;
    case NA_RUN_DUMP:
        if (na_run_last_copy(path, copy, grows) <= copies) return false;
        snprintf(path, PATH_MAX, "%s", copy);
        return true;
    case NA_RUN_STOP:
        return none && (is_finished(path) || process->closed++ == MOST_CLOSED);
    case NA_RUN_GROWTH:
    case NA_RUN_ATTACH:
    case NA_RUN_STATUS:
    case NA_RUN_NONE:
        break;
    }
    return false;
}

static const char *why_refused(int error) {
    switch (error) {
    case EPERM:
        return "it began with more rights than its user (set-user-id), and takes no requests";
    case ECANCELED:
        return "NUMALLOC_PROFILE_ONLY or NUMALLOC_PROFILE_RANKS leaves it out, or it ends";
    case EIO:
        return "the file cannot be made (its standard error says why); name a directory with -o";
    case EBUSY:
        return "a thread of it does not come out of the profiler; ask again";
    default:
        return strerror(error);
    }
}

/* False: not in time; said. */
static bool wait_for_answer(na_run_process_t *process, na_run_request_t request,
                            unsigned long copies, char path[PATH_MAX]) {
    uint64_t grows = 0, grew = 0;
    bool said = false, by_mailbox = process->mailbox.memory >= 0;
    for (int ms = 0; ms < PATIENCE_MS && na_run_ended_by == 0; ms += STEP_MS) {
        int answer = by_mailbox ? na_run_mailbox_answer(&process->mailbox) : -1;
        if (answer > 0) {
            na_run_say("process %d: %s", (int)process->pid, why_refused(answer));
            return false;
        }
        (void)na_process_look(process->pid, &process->maps);
        if (has_answered(process, request, copies, path, &grows)) return true;
        if (na_run_has_ended(process->pid)) {
            na_run_say("process %d has ended", (int)process->pid);
            return false;
        }
        if (grows != grew) ms = 0; /* it is at it */
        grew = grows;
        if (ms >= SILENT_MS && !said)
            na_run_say("process %d was asked; %s", (int)process->pid, silence(process));
        said |= ms >= SILENT_MS;
        pause_step();
    }
    if (na_run_ended_by == 0)
        na_run_say(
            "process %d has not done so: if it does not allocate, the request stands until it "
            "does (with NUMALLOC_BACKGROUND=1 it looks every 100 ms); if it cannot, its standard "
            "error says why",
            (int)process->pid);
    return false;
}

bool na_run_ask(na_run_process_t *process, const na_run_wish_t *wish, char path[PATH_MAX]) {
    char copy[PATH_MAX];
    uint64_t grows;
    unsigned long copies = wish->request == NA_RUN_DUMP ? na_run_last_copy(path, copy, &grows) : 0;
    process->closed = 0;
    return ask_process(process, wish) && wait_for_answer(process, wish->request, copies, path);
}

/* ---- a place for it ---- */

bool na_run_is_same_for(const na_run_process_t *process, const char *path) {
    char other[PATH_MAX];
    struct stat here, there;
    return snprintf(other, sizeof other, "/proc/%d/root%s", (int)process->pid, path) < PATH_MAX &&
           stat(path, &here) == 0 && stat(other, &there) == 0 && here.st_dev == there.st_dev &&
           here.st_ino == there.st_ino;
}

void na_run_give_to(const na_run_process_t *process, const char *directory) {
    char name[64];
    struct stat user;
    snprintf(name, sizeof name, "/proc/%d", (int)process->pid);
    if (geteuid() == 0 && stat(name, &user) == 0 && chown(directory, user.st_uid, user.st_gid) != 0)
        na_run_say("%s: %s", directory, strerror(errno));
}

void na_run_profile_name(const char *directory, char out[PATH_MAX]) {
    size_t used = 0;
    for (const char *c = directory; *c != 0 && used + 4 < PATH_MAX; c++) {
        if (*c == '%') out[used++] = '%';
        out[used++] = *c;
    }
    out[used++] = '/';
    out[used] = 0;
}

const char *na_run_place_for(const na_run_process_t *process, const char *output,
                             char out[PATH_MAX]) {
    char whole[PATH_MAX];
    bool there = access(output, F_OK) == 0;
    if (!na_run_make_directory(output)) return NULL;
    if (realpath(output, whole) == NULL || !na_run_is_same_for(process, whole)) {
        na_run_say("%s: process %d has another root directory, and does not find it", output,
                   (int)process->pid);
        return NULL;
    }
    if (!there) na_run_give_to(process, whole);
    na_run_profile_name(whole, out);
    return out;
}

void na_run_mode_text(const na_run_command_t *command, char out[64]) {
    const char *mode = command->mode != NULL     ? command->mode
                       : command->access != NULL ? "sites"
                                                 : "";
    snprintf(out, 64, "%s%s%s", mode, command->access != NULL ? ",access=" : "",
             command->access != NULL ? command->access : "");
}

/* One that began just now, with a profile, may not have come to it. */
static void wait_for_profile(na_run_process_t *process) {
    const char *start = environment_value(process, "NUMALLOC_PROFILE_START");
    unsigned ms = 0;
    if (environment_value(process, "NUMALLOC_PROFILE") == NULL ||
        (start != NULL && strcasecmp(start, "later") == 0))
        return;
    while (process->maps.recording[0] == 0 && na_process_wait(process->pid, &ms) &&
           na_process_look(process->pid, &process->maps))
        ;
}

static bool carry_out_request(na_run_process_t *process, const na_run_command_t *command,
                              char path[PATH_MAX]) {
    char mode[64], place[PATH_MAX];
    na_run_wish_t wish = {.request = command->request};
    bool start = wish.request == NA_RUN_START;
    if (!start) wait_for_profile(process);
    bool recording = process->maps.recording[0] != 0;
    if (start && recording)
        na_run_say("process %d records already, in %s", (int)process->pid, process->maps.recording);
    if (!start && !recording)
        na_run_say("process %d records no profile now; --start %d begins one", (int)process->pid,
                   (int)process->pid);
    if (recording == start) return false;
    na_run_mode_text(command, mode);
    if (mode[0] != 0) wish.mode = mode;
    if (command->output != NULL &&
        (wish.file = na_run_place_for(process, command->output, place)) == NULL)
        return false;
    snprintf(path, PATH_MAX, "%s", process->maps.recording);
    return na_run_ask(process, &wish, path);
}

/* By its file of requests a process is asked with all that it has forked. -1: it is alone, or is
 * asked by signal; else the status to end with: one answer is one. */
static int dump_family(na_run_process_t *process, const na_run_command_t *command,
                       const na_run_tools_t *tools) {
    na_run_family_t family = {.members = NULL};
    const na_run_wish_t wish = {.request = NA_RUN_DUMP};
    int status = -1;
    if (environment_value(process, "NUMALLOC_PROFILE_TRIGGER") != NULL &&
        handled_signal(process, "NUMALLOC_PROFILE_DUMP_SIGNAL") == 0 &&
        na_run_find_family(&family, process->pid)) {
        status = NA_RUN_FAILED;
        if (ask_process(process, &wish)) {
            na_run_wait_for_family(&family);
            na_run_show_family(&family, tools, command->quiet);
            if (family.answers != 0) status = 0;
        }
    }
    free(family.members);
    return status;
}

int na_run_control(const na_run_command_t *command, const na_run_tools_t *tools) {
    na_run_process_t process;
    char path[PATH_MAX];
    if (!na_run_look_at(&process, command->pid, tools->library)) return NA_RUN_FAILED;
    int status = -1;
    if (command->request == NA_RUN_DUMP) {
        wait_for_profile(&process);
        if (process.maps.recording[0] != 0) status = dump_family(&process, command, tools);
    }
    bool good = status < 0 && carry_out_request(&process, command, path);
    na_run_leave(&process);
    if (status >= 0) return status;
    if (!good) return NA_RUN_FAILED;
    if (command->request == NA_RUN_START) {
        na_run_say("process %d records in %s; numalloc-run --stop %d ends it", (int)process.pid,
                   path, (int)process.pid);
        return 0;
    }
    na_run_files_t files = {.count = 1};
    snprintf(files.name, sizeof files.name, "%s", path);
    snprintf(files.largest, sizeof files.largest, "%s", path);
    na_run_take_signals();
    return command->quiet || na_run_show_files(command, tools, &files) ? 0 : NA_RUN_FAILED;
}
