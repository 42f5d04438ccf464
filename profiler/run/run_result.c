/* run_result.c - what is said when the program has ended. All of it goes to standard error. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "profiler/run/run.h"

void na_run_say(const char *format, ...) {
    char line[PATH_MAX + 512];
    va_list arguments;
    va_start(arguments, format);
    int n = vsnprintf(line, sizeof line, format, arguments);
    va_end(arguments);
    /* Names may hold anything; the terminal gets a line. */
    for (int i = 0; i < n && i < (int)sizeof line - 1; i++)
        if ((unsigned char)line[i] < ' ' || line[i] == 127) line[i] = '?';
    dprintf(STDERR_FILENO, "numalloc-run: %s\n", line);
}

/* ---- words for a shell ---- */

/* As a shell reads it: quoted if it must be. */
static const char *quoted(const char *word, char out[2 * PATH_MAX]) {
    static const char plain[] =
        "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-./+,:@%=";
    size_t used = 0;
    if (*word != 0 && strspn(word, plain) == strlen(word)) {
        snprintf(out, 2 * PATH_MAX, "%s", word);
        return out;
    }
    out[used++] = '\'';
    for (const char *c = word; *c != 0 && used + 6 < 2 * PATH_MAX; c++) {
        if (*c == '\'') {
            memcpy(out + used, "'\\''", 4);
            used += 4;
        } else {
            out[used++] = *c;
        }
    }
    out[used++] = '\'';
    out[used] = 0;
    return out;
}

/* The command by which a user would start numalloc-dump: its name, if the shell finds this one. */
static const char *dump_word(const na_run_tools_t *tools, char out[2 * PATH_MAX]) {
    char path[PATH_MAX], found[PATH_MAX], own[PATH_MAX];
    const char *folder = getenv("PATH");
    while (folder != NULL && *folder != 0) {
        size_t length = strcspn(folder, ":");
        int n = snprintf(path, sizeof path, "%.*s/numalloc-dump", (int)length, folder);
        if (length != 0 && n < PATH_MAX && access(path, X_OK) == 0) {
            bool same = realpath(path, found) != NULL && realpath(tools->dump, own) != NULL &&
                        strcmp(found, own) == 0;
            return same ? "numalloc-dump" : quoted(tools->dump, out);
        }
        folder += length + (folder[length] == ':');
    }
    return quoted(tools->dump, out);
}

/* ---- numalloc-dump ---- */

/* `view`: NULL: that which it takes by itself. */
static bool run_dump(const na_run_tools_t *tools, const char *view, const char *file,
                     const char *output) {
    char *words[8];
    size_t count = 0;
    /* exec does not write to its words. */
    words[count++] = (char *)(size_t)tools->dump;
    if (view != NULL) words[count++] = (char *)(size_t)view;
    words[count++] = (char *)(size_t)file;
    static char option[] = "-o";
    if (output != NULL) {
        words[count++] = option;
        words[count++] = (char *)(size_t)output;
    }
    words[count] = NULL;
    return na_run_tool(words, dup(STDERR_FILENO));
}

/* A field of a line of CSV, from `*at` on, which moves behind its comma. */
static void take_field(const char **at, char *out, size_t room) {
    const char *c = *at;
    size_t used = 0;
    bool inside = *c == '"';
    if (inside) c++;
    while (*c != 0 && (inside || (*c != ',' && *c != '\n'))) {
        if (inside && *c == '"') {
            if (c[1] != '"') {
                inside = false;
                c++;
                continue;
            }
            c++;
        }
        if (used + 1 < room) out[used++] = *c;
        c++;
    }
    out[used] = 0;
    *at = *c == ',' ? c + 1 : c;
}

/* The list has the largest first. */
static bool read_first_file(const char *text, char out[PATH_MAX]) {
    char name[64];
    int column = 0;
    const char *at = text, *row = strchr(text, '\n');
    if (row == NULL) return false;
    for (row++; at < row && *at != '\n'; column++) {
        take_field(&at, name, sizeof name);
        if (strcmp(name, "file") == 0) {
            for (int i = 0; i <= column; i++)
                take_field(&row, out, PATH_MAX);
            return out[0] != 0;
        }
    }
    return false;
}

bool na_run_find_largest(const na_run_tools_t *tools, const char *directory, char out[PATH_MAX]) {
    static char view[] = "list", option[] = "--csv", top[] = "--top", one[] = "1";
    if (tools->dump[0] == 0) return false;
    int memory = memfd_create("list", MFD_CLOEXEC);
    if (memory < 0) return false;
    char *words[] = {
        (char *)(size_t)tools->dump, view, (char *)(size_t)directory, option, top, one, NULL};
    char text[2 * PATH_MAX];
    bool good = na_run_tool(words, dup(memory));
    ssize_t n = pread(memory, text, sizeof text - 1, 0);
    close(memory);
    text[n > 0 ? n : 0] = 0;
    return good && read_first_file(text, out);
}

/* ---- the page ---- */

static void make_page(const na_run_tools_t *tools, const char *file) {
    char page[PATH_MAX], whole[PATH_MAX];
    size_t length = strlen(file);
    if (length > 6 && strcmp(file + length - 6, ".nprof") == 0) length -= 6;
    if (snprintf(page, sizeof page, "%.*s.html", (int)length, file) >= PATH_MAX) return;
    if (!run_dump(tools, "html", file, page)) return;
    dprintf(STDERR_FILENO, "  %-12s %s\n", "page", page);
    bool desktop = getenv("DISPLAY") != NULL || getenv("WAYLAND_DISPLAY") != NULL;
    if (!desktop || isatty(STDERR_FILENO) != 1 || realpath(page, whole) == NULL) return;
    static char opener[] = "xdg-open";
    char *words[] = {opener, whole, NULL};
    na_run_detached(words);
}

/* ---- together ---- */

/* Of fewer dumps numalloc-dump aggregate --leaks does not judge what grows. */
enum { ENOUGH_TO_GROW = 5 };

/* What to do about it; "": the reason says it. */
static void missing_words(const na_run_files_t *files, char *out, size_t room) {
    bool rights = files->missing_error == EACCES || files->missing_error == EPERM;
    snprintf(out, room, "%zu %s no profile (%s)%s", files->missing,
             files->missing == 1 ? "process, and what it forks, has"
                                 : "processes, and what they fork, have",
             strerror(files->missing_error),
             rights ? "; for all users: install -d -m 1777 DIRECTORY, and -o DIRECTORY/" : "");
}

bool na_run_show_files(const na_run_command_t *command, const na_run_tools_t *tools,
                       const na_run_files_t *files) {
    char name[2 * PATH_MAX], word[2 * PATH_MAX];
    if (tools->dump[0] == 0) {
        na_run_say("the profile is %s; numalloc-dump, which shows it, is not installed",
                   files->name);
        return true;
    }
    const char *largest = files->largest[0] != 0 ? files->largest : files->name;
    bool several = strcmp(largest, files->name) != 0;
    bool good = true;
    if (!command->report) {
        good = run_dump(tools, "brief", files->name, NULL);
    } else {
        if (several) good = run_dump(tools, "list", files->name, NULL);
        good = run_dump(tools, NULL, largest, NULL) && good;
    }
    if (command->html) make_page(tools, largest);
    dprintf(STDERR_FILENO, "  %-12s %s\n", several ? "profiles" : "profile", files->name);
    if (files->running != 0)
        dprintf(STDERR_FILENO, "  %-12s %zu of its processes: their profiles go on\n", "running",
                files->running);
    if (files->missing != 0) {
        missing_words(files, word, sizeof word);
        dprintf(STDERR_FILENO, "  %-12s %s\n", "missing", word);
    }
    bool grows = several && files->most >= ENOUGH_TO_GROW;
    dprintf(STDERR_FILENO, "  %-12s %s %s%s\n", "next", dump_word(tools, word),
            grows ? "aggregate --leaks " : "",
            quoted(grows || (command->report && several) ? files->name : largest, name));
    return good;
}

void na_run_show_diff(const na_run_command_t *command, const na_run_tools_t *tools,
                      const char *first, const char *last) {
    char name[2 * PATH_MAX], other[2 * PATH_MAX], word[2 * PATH_MAX];
    if (command->quiet) return;
    dprintf(STDERR_FILENO, "  %-12s %s diff %s %s\n", "next", dump_word(tools, word),
            quoted(first, name), quoted(last, other));
}

void na_run_show_next(const na_run_tools_t *tools, const char *view, const char *file,
                      bool directory) {
    char name[2 * PATH_MAX], word[2 * PATH_MAX], folder[PATH_MAX];
    const char *slash = strrchr(file, '/');
    snprintf(folder, sizeof folder, "%.*s", slash == NULL ? 0 : (int)(slash - file), file);
    if (tools->dump[0] != 0)
        dprintf(STDERR_FILENO, "  %-12s %s %s%s\n", "next", dump_word(tools, word), view,
                quoted(directory ? folder : file, name));
}

static void show_end(const char *program, int status) {
    if (WIFSIGNALED(status))
        na_run_say("%s was killed by signal %d (%s)%s", program, WTERMSIG(status),
                   strsignal(WTERMSIG(status)), WCOREDUMP(status) ? ", core dumped" : "");
    else if (WEXITSTATUS(status) != 0)
        na_run_say("%s ended with status %d", program, WEXITSTATUS(status));
}

void na_run_show(const na_run_command_t *command, const na_run_tools_t *tools,
                 const na_run_files_t *files, int status) {
    if (command->quiet) return;
    show_end(command->program[0], status);
    char words[256];
    missing_words(files, words, sizeof words);
    if (files->count != 0)
        na_run_show_files(command, tools, files);
    else if (files->missing != 0)
        na_run_say("no profile: %s", words);
    else if (command->later)
        na_run_say("no profile: none was begun (numalloc-run --start PID)");
    else if (na_run_variable("NUMALLOC_PROFILE_ONLY") != NULL ||
             na_run_variable("NUMALLOC_PROFILE_RANKS") != NULL)
        na_run_say(
            "no profile: NUMALLOC_PROFILE_ONLY or NUMALLOC_PROFILE_RANKS leaves %s out, or it "
            "allocated nothing",
            command->program[0]);
    else
        na_run_say("no profile: %s allocated nothing, or started what ignores LD_PRELOAD (static "
                   "and set-user-id programs, a cleared environment)",
                   command->program[0]);
}
