/* ask.c - asks a process that was started with no way to ask it: by its mailbox
 * (profiler/format/mailbox.h). */
#include <errno.h>
#include <fcntl.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "profiler/format/mailbox.h"
#include "profiler/format/process_info.h"
#include "profiler/run/run.h"

static bool read_mailbox(const na_run_mailbox_t *to, na_mailbox_t *box) {
    return to->memory >= 0 && to->at != 0 &&
           pread(to->memory, box, sizeof *box, (off_t)to->at) == (ssize_t)sizeof *box &&
           memcmp(box->magic, NA_MAILBOX_MAGIC, sizeof box->magic) == 0;
}

/* ---- finding it ---- */

/* In [from, to) of its memory, which is the data of a program or library. 0: not there. */
static uint64_t find_magic(int memory, uint64_t from, uint64_t to) {
    static char part[1 << 16];
    while (from < to) {
        size_t want = to - from < sizeof part ? (size_t)(to - from) : sizeof part;
        ssize_t n = pread(memory, part, want, (off_t)from);
        if (n < (ssize_t)sizeof(na_mailbox_t)) return 0;
        for (size_t at = 0; at + sizeof(na_mailbox_t) <= (size_t)n; at += NA_MAILBOX_ALIGN)
            if (memcmp(part + at, NA_MAILBOX_MAGIC, sizeof NA_MAILBOX_MAGIC - 1) == 0)
                return from + at;
        from += (uint64_t)n;
    }
    return 0;
}

/* The data of a file whose code is mapped as well; a library's comes behind its code. */
static uint64_t find_mailbox(int memory, char *maps) {
    const char *code = "";
    char *line;
    while ((line = strsep(&maps, "\n")) != NULL) {
        unsigned long long from, to;
        char permissions[8] = "";
        int at = 0;
        if (sscanf(line, "%llx-%llx %7s %*s %*s %*s %n", &from, &to, permissions, &at) != 3 ||
            at == 0 || line[at] != '/')
            continue;
        if (permissions[2] == 'x') code = line + at;
        if (strncmp(permissions, "rw-p", 4) != 0 || strcmp(code, line + at) != 0) continue;
        uint64_t found = find_magic(memory, from, to);
        if (found != 0) return found;
    }
    return 0;
}

static void say_refused(pid_t pid, int error) {
    char scope[16] = "";
    int fd = open("/proc/sys/kernel/yama/ptrace_scope", O_RDONLY | O_CLOEXEC);
    ssize_t n = fd >= 0 ? read(fd, scope, sizeof scope - 1) : 0;
    if (fd >= 0) close(fd);
    scope[n > 0 ? strcspn(scope, "\n") : 0] = 0;
    if (scope[0] == 0 || strcmp(scope, "0") == 0)
        na_run_say("process %d may not be asked: %s; be its user, or root (CAP_SYS_PTRACE)",
                   (int)pid, strerror(error));
    else if (strcmp(scope, "3") == 0)
        na_run_say("process %d may not be asked: kernel.yama.ptrace_scope is 3, up to the next "
                   "start of the machine; start the process with numalloc-run --later",
                   (int)pid);
    else
        na_run_say("process %d may not be asked: kernel.yama.ptrace_scope is %s; use sudo, or "
                   "sysctl kernel.yama.ptrace_scope=0, or start it with numalloc-run --later",
                   (int)pid, scope);
}

bool na_run_find_mailbox(na_run_mailbox_t *mailbox, pid_t pid) {
    char name[64];
    na_mailbox_t box;
    snprintf(name, sizeof name, "/proc/%d/mem", (int)pid);
    *mailbox = (na_run_mailbox_t){.memory = open(name, O_RDWR | O_CLOEXEC)};
    if (mailbox->memory < 0) {
        say_refused(pid, errno);
        return false;
    }
    char *maps = na_process_read(pid, "maps");
    if (maps != NULL) mailbox->at = find_mailbox(mailbox->memory, maps);
    free(maps);
    if (read_mailbox(mailbox, &box) && box.version == NA_MAILBOX_VERSION) return true;
    na_run_say("process %d runs with another version of numalloc; start it with numalloc-run "
               "--later",
               (int)pid);
    na_run_leave_mailbox(mailbox);
    return false;
}

void na_run_leave_mailbox(na_run_mailbox_t *mailbox) {
    if (mailbox->memory >= 0) close(mailbox->memory);
    mailbox->memory = -1;
}

/* ---- asking ---- */

static bool write_byte(const na_run_mailbox_t *to, uint64_t at, unsigned byte) {
    unsigned char value = (unsigned char)byte;
    return pwrite(to->memory, &value, 1, (off_t)at) == 1;
}

static uint64_t request_byte(const na_run_mailbox_t *mailbox, na_run_request_t request) {
    static const int bytes[] = {[NA_RUN_START] = NA_MAILBOX_START,
                                [NA_RUN_STOP] = NA_MAILBOX_STOP,
                                [NA_RUN_DUMP] = NA_MAILBOX_DUMP};
    return mailbox->at + offsetof(na_mailbox_t, requests) + (uint64_t)bytes[request];
}

bool na_run_is_open(const na_run_mailbox_t *mailbox) {
    na_mailbox_t box;
    return read_mailbox(mailbox, &box) && box.self == mailbox->at;
}

bool na_run_ask_mailbox(na_run_mailbox_t *mailbox, na_run_request_t request, const char *mode,
                        const char *file) {
    na_mailbox_t box;
    unsigned char alarm;
    char text[PATH_MAX + 256];
    if (!read_mailbox(mailbox, &box)) return false;
    mailbox->answers = box.answers;
    uint64_t alarm_at = mailbox->at + (uint64_t)(int64_t)box.alarm;
    if (request == NA_RUN_START) {
        int n = snprintf(text, sizeof text, "%s%c%s", mode, 0, file);
        if (n + 1 > (int)sizeof text || (size_t)n + 1 > box.text_size) return false;
        uint64_t text_at = mailbox->at + (uint64_t)(int64_t)box.text;
        if (pwrite(mailbox->memory, text, (size_t)n + 1, (off_t)text_at) != n + 1) return false;
    }
    return write_byte(mailbox, request_byte(mailbox, request), NA_MAILBOX_ASK) &&
           pread(mailbox->memory, &alarm, 1, (off_t)alarm_at) == 1 &&
           write_byte(mailbox, alarm_at, alarm + 1u);
}

int na_run_mailbox_answer(const na_run_mailbox_t *mailbox) {
    na_mailbox_t box;
    if (!read_mailbox(mailbox, &box) || box.answers == mailbox->answers) return -1;
    return box.error;
}

void na_run_take_back(const na_run_mailbox_t *mailbox, na_run_request_t request) {
    if (mailbox->memory >= 0) (void)write_byte(mailbox, request_byte(mailbox, request), 0);
}
