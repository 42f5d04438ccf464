/* control.c - begins, ends and copies the profile of a process that runs, by the means that it was
 * started with: its file of requests, or its signals. A process is asked only after it was seen
 * that it knows the means: to others such a signal means death. */
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

#include "profiler/format/nprof_live.h"
#include "profiler/run/run.h"

enum { PATIENCE_MS = 10000, SILENT_MS = 1000, STEP_MS = 50 };

typedef struct process {
    pid_t pid;
    char *environment;        /* na_run_environment_of */
    char recording[PATH_MAX]; /* its profile; "": none is under way */
} process_t;

/* ---- its memory ---- */

/* Reads the map of its memory: the library, and the file that it maps as its profile. False: it
 * cannot be read. */
static bool find_in_maps(process_t *process, bool *library) {
    char *maps = na_run_read_of(process->pid, "maps"), *rest = maps, *line;
    process->recording[0] = 0;
    *library = false;
    if (maps == NULL) return false;
    while ((line = strsep(&rest, "\n")) != NULL) {
        char permissions[8] = "";
        int at = 0;
        if (sscanf(line, "%*s %7s %*s %*s %*s %n", permissions, &at) != 1 || at == 0) continue;
        *library |= strstr(line + at, "/libnumalloc.so") != NULL;
        if (permissions[3] != 's' || line[at] != '/' || process->recording[0] != 0) continue;
        char path[PATH_MAX];
        int n = snprintf(path, sizeof path, "%s", line + at);
        bool is = n < PATH_MAX && na_nprof_is_live(path);
        if (!is) { /* in a container: as the process sees it */
            n = snprintf(path, sizeof path, "/proc/%d/root%s", (int)process->pid, line + at);
            is = n < PATH_MAX && na_nprof_is_live(path);
        }
        if (is) snprintf(process->recording, sizeof process->recording, "%s", path);
    }
    free(maps);
    return true;
}

static const char *environment_value(const process_t *process, const char *name) {
    size_t length = strlen(name);
    for (const char *v = process->environment; *v != 0; v += strlen(v) + 1)
        if (strncmp(v, name, length) == 0 && v[length] == '=' && v[length + 1] != 0)
            return v + length + 1;
    return NULL;
}

/* ---- the process ---- */

static bool has_it_linked(pid_t pid) {
    char path[64];
    snprintf(path, sizeof path, "/proc/%d/exe", (int)pid);
    int fd = open(path, O_RDONLY | O_CLOEXEC);
    bool has = fd >= 0 && na_run_has_numalloc(fd);
    if (fd >= 0) close(fd);
    return has;
}

static bool look_at_process(process_t *process, pid_t pid) {
    bool library;
    *process = (process_t){.pid = na_run_behind(pid)};
    if (kill(process->pid, 0) != 0 && errno == ESRCH) {
        na_run_say("there is no process %d", (int)pid);
        return false;
    }
    if (!find_in_maps(process, &library) ||
        (process->environment = na_run_environment_of(process->pid, process->recording)) == NULL) {
        na_run_say("process %d may not be looked at: %s; be its user, or root", (int)process->pid,
                   strerror(errno));
        return false;
    }
    if (library || has_it_linked(process->pid)) return true;
    na_run_say("process %d runs without numalloc, which cannot be added to it; start it with "
               "numalloc-run --later",
               (int)process->pid);
    return false;
}

/* ---- asking ---- */

/* The number of a signal that its library handles, as an option of its environment names it; 0:
 * none. */
static int handled_signal(const process_t *process, const char *option) {
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
    char *status = na_run_read_of(process->pid, "status");
    const char *caught = status != NULL ? strstr(status, "\nSigCgt:") : NULL;
    uint64_t set = caught != NULL ? strtoull(caught + 8, NULL, 16) : 0;
    free(status);
    return (set >> (number - 1) & 1) != 0 ? number : 0;
}

/* The file changes at once and whole. */
static bool write_request(const process_t *process, const char *file, const char *word) {
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

static bool ask_process(const process_t *process, na_run_request_t request) {
    static const char *const words[] = {
        [NA_RUN_START] = "start\n", [NA_RUN_STOP] = "stop\n", [NA_RUN_DUMP] = "dump\n"};
    int number = handled_signal(process, request == NA_RUN_DUMP ? "NUMALLOC_PROFILE_DUMP_SIGNAL"
                                                                : "NUMALLOC_PROFILE_SIGNAL");
    const char *file = environment_value(process, "NUMALLOC_PROFILE_TRIGGER");
    /* A signal is for this process alone; the file is for all that were started with it. */
    if (number != 0 && kill(process->pid, number) == 0) return true;
    if (file != NULL) return write_request(process, file, words[request]);
    na_run_say("process %d was started with no way to ask it; start it with numalloc-run --later "
               "or a profile, or with NUMALLOC_PROFILE_TRIGGER=FILE",
               (int)process->pid);
    return false;
}

/* ---- what came of it ---- */

/* Copies of a profile are numbered: the name, a dot, a number. The highest one; 0: none. */
static unsigned long last_copy(const char *profile, char path[PATH_MAX]) {
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
    DIR *directory = opendir(folder);
    for (struct dirent *e; directory != NULL && (e = readdir(directory)) != NULL;) {
        if (strncmp(e->d_name, name, length) != 0 || e->d_name[length] != '.') continue;
        char *rest;
        unsigned long number = strtoul(e->d_name + length + 1, &rest, 10);
        if (*rest != 0 || number <= most) continue;
        most = number;
        snprintf(path, PATH_MAX, "%.*s%s", (int)(name - profile), profile, e->d_name);
    }
    if (directory != NULL) closedir(directory);
    return most;
}

static off_t file_size(const char *path) {
    struct stat st;
    return stat(path, &st) == 0 ? st.st_size : 0;
}

/* Waits for what was asked for; `path` is the profile that it is about. False: not in time. */
static bool wait_for_answer(process_t *process, na_run_request_t request, unsigned long copies,
                            char path[PATH_MAX]) {
    const struct timespec step = {0, STEP_MS * 1000000L};
    off_t size = 0;
    for (int ms = 0; ms < PATIENCE_MS; ms += STEP_MS) {
        bool library, there = find_in_maps(process, &library);
        if (request == NA_RUN_START && process->recording[0] != 0) {
            snprintf(path, PATH_MAX, "%s", process->recording);
            return true;
        }
        if (request == NA_RUN_STOP && process->recording[0] == 0) return true;
        char copy[PATH_MAX];
        if (request == NA_RUN_DUMP && last_copy(path, copy) > copies) {
            off_t now = file_size(copy); /* whole: it does not grow any more */
            if (now != 0 && now == size) {
                snprintf(path, PATH_MAX, "%s", copy);
                return true;
            }
            size = now;
        }
        if (!there && kill(process->pid, 0) != 0) {
            na_run_say("process %d has ended", (int)process->pid);
            return false;
        }
        if (ms == SILENT_MS)
            na_run_say("process %d was asked; it looks when it allocates", (int)process->pid);
        nanosleep(&step, NULL);
    }
    na_run_say("process %d has not allocated since: the request stands until it does; one that was "
               "started with NUMALLOC_BACKGROUND=1 looks every 100 ms",
               (int)process->pid);
    return false;
}

int na_run_control(const na_run_command_t *command, const na_run_tools_t *tools) {
    process_t process;
    char path[PATH_MAX], copy[PATH_MAX];
    na_run_request_t request = command->request;
    if (!look_at_process(&process, command->pid)) return NA_RUN_FAILED;
    bool recording = process.recording[0] != 0;
    if (request == NA_RUN_START && recording)
        na_run_say("process %d records already, in %s", (int)process.pid, process.recording);
    if (request != NA_RUN_START && !recording)
        na_run_say("process %d records no profile now; --start %d begins one", (int)process.pid,
                   (int)process.pid);
    bool good = recording == (request != NA_RUN_START);
    snprintf(path, sizeof path, "%s", process.recording);
    unsigned long copies = good && request == NA_RUN_DUMP ? last_copy(path, copy) : 0;
    good =
        good && ask_process(&process, request) && wait_for_answer(&process, request, copies, path);
    free(process.environment);
    if (!good) return NA_RUN_FAILED;
    if (request == NA_RUN_START) {
        na_run_say("process %d records in %s; numalloc-run --stop %d ends it", (int)process.pid,
                   path, (int)process.pid);
        return 0;
    }
    na_run_files_t files = {.count = 1};
    snprintf(files.name, sizeof files.name, "%s", path);
    snprintf(files.largest, sizeof files.largest, "%s", path);
    na_run_take_signals();
    if (!command->quiet) na_run_show_files(command, tools, &files);
    return 0;
}
