/* source.c - has the program of a trace or a shape made by numalloc-bench-compile. */
#include "bench/replay/source.h"

#include "bench/replay/shape.h"
#include "bench/system/process.h"

#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#define COMPILER "numalloc-bench-compile"

extern char **environ;

/* The environment without what is preloaded, and without options of the library. */
static char **plain_environment(void) {
    size_t count = 0, kept = 0;
    while (environ[count] != NULL)
        count++;
    char **made = mmap(NULL, (count + 1) * sizeof *made, PROT_READ | PROT_WRITE,
                       MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (made == MAP_FAILED) return NULL;
    for (size_t i = 0; i < count; i++)
        if (strncmp(environ[i], "LD_PRELOAD=", 11) != 0) made[kept++] = environ[i];
    return made;
}

/* The last line of what came, without its end and the prefix that the caller writes anew. */
static void last_line(char *text, char *error, size_t size) {
    static const char prefix[] = "numalloc-bench: replay: ";
    size_t length = strlen(text);
    while (length > 0 && text[length - 1] == '\n')
        text[--length] = '\0';
    char *line = strrchr(text, '\n');
    line = line == NULL ? text : line + 1;
    if (strncmp(line, prefix, sizeof prefix - 1) == 0) line += sizeof prefix - 1;
    snprintf(error, size, "%s", line);
}

static bool compile(const char *path, int to, uint64_t window, char *error, size_t size) {
    static char compiler[4096], text[2048];
    char descriptor[16], events[24];
    int ends[2], status;
    pid_t child;
    posix_spawn_file_actions_t actions;
    if (!na_beside_program(COMPILER, compiler, sizeof compiler)) {
        snprintf(error, size,
                 COMPILER " is not beside numalloc-bench: it was built without what reads traces "
                          "(NUMALLOC_DUMP=OFF)");
        return false;
    }
    char **environment = plain_environment();
    snprintf(descriptor, sizeof descriptor, "%d", to);
    snprintf(events, sizeof events, "%llu", (unsigned long long)window);
    char *arguments[] = {compiler, (char *)(uintptr_t)path, descriptor, events, NULL};
    if (environment == NULL || pipe2(ends, O_CLOEXEC) != 0) {
        snprintf(error, size, "cannot start " COMPILER ": %s", strerror(errno));
        return false;
    }
    posix_spawn_file_actions_init(&actions);
    posix_spawn_file_actions_adddup2(&actions, ends[1], STDERR_FILENO);
    int failed = posix_spawn(&child, compiler, &actions, NULL, arguments, environment);
    posix_spawn_file_actions_destroy(&actions);
    close(ends[1]);
    if (failed != 0) {
        close(ends[0]);
        snprintf(error, size, "cannot start %s: %s", compiler, strerror(failed));
        return false;
    }
    size_t length = 0;
    for (;;) {
        ssize_t got = read(ends[0], text + length, sizeof text - 1 - length);
        if (got < 0 && errno == EINTR) continue;
        if (got <= 0) break;
        length += (size_t)got;
    }
    text[length] = '\0';
    close(ends[0]);
    while (waitpid(child, &status, 0) < 0)
        if (errno != EINTR) break;
    if (WIFEXITED(status) && WEXITSTATUS(status) == 0) {
        fputs(text, stderr); /* what it left out */
        return true;
    }
    last_line(text, error, size);
    if (WIFSIGNALED(status))
        snprintf(error, size, "'%.200s' could not be read: " COMPILER " was ended by signal %d",
                 path, WTERMSIG(status));
    else if (*error == '\0')
        snprintf(error, size, "'%.200s' could not be read", path);
    return false;
}

int na_replay_open(const char *path, uint64_t window, na_replay_program_t *program, char *error,
                   size_t size) {
    char why[256];
    bool other;
    int file;
    if (!na_shape_named(path)) {
        file = open(path, O_RDONLY); /* children inherit it */
        if (file < 0) {
            snprintf(error, size, "cannot read '%.200s': %s", path, strerror(errno));
            return -1;
        }
        if (na_replay_map(file, program, &other, why, sizeof why)) return file;
        close(file);
        if (!other) {
            snprintf(error, size, "'%.200s': %s", path, why);
            return -1;
        }
    }
    file = memfd_create("numalloc-bench-replay", 0);
    if (file < 0) {
        snprintf(error, size, "no memory for the program of a trace: %s", strerror(errno));
        return -1;
    }
    if (compile(path, file, window, error, size)) {
        if (na_replay_map(file, program, &other, why, sizeof why)) return file;
        snprintf(error, size, "'%.200s': %s", path, why);
    }
    close(file);
    return -1;
}
