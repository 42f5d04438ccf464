/* family.c - --dump of a process that has forked others: by the file of requests all of them are
 * asked, and each answers for itself, or sleeps. */
#include <ctype.h>
#include <dirent.h>
#include <signal.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "profiler/containers/array.h"
#include "profiler/format/process_info.h"
#include "profiler/run/run.h"

/* Of the first answer, and of one more after another. */
enum { PATIENCE_MS = 10000, MORE_MS = 2000, STEP_MS = 50 };

/* The name, and the parent. */
static pid_t read_status(pid_t pid, char name[64]) {
    char *status = na_process_read(pid, "status");
    const char *line = status != NULL ? strstr(status, "\nPPid:") : NULL;
    long parent = line != NULL ? strtol(line + 6, NULL, 10) : -1;
    if (line == NULL || sscanf(status, "Name: %63[^\n]", name) != 1) strcpy(name, "?");
    free(status);
    return (pid_t)parent;
}

typedef struct relative {
    pid_t pid, parent;
    bool inside; /* is the process, or descends from it */
} relative_t;

static bool parent_is_inside(const relative_t *all, size_t count, pid_t parent) {
    for (size_t i = 0; i < count; i++)
        if (all[i].pid == parent) return all[i].inside;
    return false;
}

/* All processes; those that descend from `pid` are marked. free() it. */
static relative_t *read_relatives(pid_t pid, size_t *count) {
    relative_t *all = NULL;
    size_t room = 0;
    char name[64];
    *count = 0;
    DIR *directory = opendir("/proc");
    for (struct dirent *e; directory != NULL && (e = readdir(directory)) != NULL;) {
        pid_t at = (pid_t)atol(e->d_name);
        if (!isdigit((unsigned char)e->d_name[0])) continue;
        if (!NA_ARRAY_RESERVE(all, room, *count + 1u)) break;
        all[(*count)++] = (relative_t){at, read_status(at, name), at == pid};
    }
    if (directory != NULL) closedir(directory);
    for (bool more = true; more;) {
        more = false;
        for (size_t i = 0; i < *count; i++)
            if (!all[i].inside && parent_is_inside(all, *count, all[i].parent))
                all[i].inside = more = true;
    }
    return all;
}

bool na_run_find_family(na_run_family_t *family, pid_t pid) {
    *family = (na_run_family_t){.members = NULL};
    na_process_maps_t maps;
    size_t count, room = 0;
    uint64_t grows;
    char copy[PATH_MAX];
    relative_t *all = read_relatives(pid, &count);
    for (size_t i = 0; i < count; i++) {
        if (!all[i].inside || !na_process_look(all[i].pid, &maps) || maps.recording[0] == 0)
            continue;
        if (!NA_ARRAY_RESERVE(family->members, room, family->count + 1u)) break;
        na_run_member_t *m = &family->members[family->count++];
        *m = (na_run_member_t){.pid = all[i].pid};
        (void)read_status(m->pid, m->name);
        snprintf(m->path, sizeof m->path, "%s", maps.recording);
        m->copies = na_run_last_copy(m->path, copy, &grows);
    }
    free(all);
    return family->count > 1;
}

/* Looks at those that have not answered; *grows: of the copies that are under way, some sum. How
 * many may still. */
static size_t look_at_answers(na_run_family_t *family, uint64_t *grows) {
    size_t open = 0;
    char copy[PATH_MAX];
    *grows = 0;
    for (size_t i = 0; i < family->count; i++) {
        na_run_member_t *m = &family->members[i];
        uint64_t own = 0;
        if (m->answered) continue;
        bool ended = kill(m->pid, 0) != 0;
        m->answered = na_run_last_copy(m->path, copy, &own) > m->copies;
        if (m->answered) snprintf(m->path, sizeof m->path, "%s", copy);
        family->answers += m->answered;
        open += !m->answered && !ended;
        *grows += own;
    }
    return open;
}

void na_run_wait_for_family(na_run_family_t *family) {
    const struct timespec step = {0, STEP_MS * 1000000L};
    uint64_t grows, grew = 0;
    size_t answers = 0;
    for (int ms = 0; look_at_answers(family, &grows) != 0; ms += STEP_MS) {
        if (family->answers != answers || grows != grew) ms = 0; /* they are at it */
        answers = family->answers;
        grew = grows;
        if (ms >= (answers != 0 ? MORE_MS : PATIENCE_MS)) break;
        nanosleep(&step, NULL);
    }
}

void na_run_show_family(const na_run_family_t *family, const na_run_tools_t *tools, bool quiet) {
    size_t silent = 0;
    for (size_t i = 0; i < family->count; i++) {
        const na_run_member_t *m = &family->members[i];
        if (!m->answered) {
            na_run_say("process %d (%s) %s", (int)m->pid, m->name,
                       kill(m->pid, 0) != 0 ? "has ended" : "has not answered");
            silent += kill(m->pid, 0) == 0;
        } else if (!quiet) {
            dprintf(STDERR_FILENO, "  %-12s %s (%s, process %d)\n", "dump", m->path, m->name,
                    (int)m->pid);
        }
    }
    if (silent != 0)
        na_run_say("%zu of %zu processes answered; who does not allocate does so when it next does "
                   "(with NUMALLOC_BACKGROUND=1 within 100 ms)",
                   family->answers, family->count);
    for (size_t i = 0; i < family->count && !quiet; i++) {
        if (!family->members[i].answered) continue;
        const char *path = family->members[i].path;
        na_run_show_next(tools, family->answers == 1 ? "" : "list ", path, family->answers != 1);
        break;
    }
}
