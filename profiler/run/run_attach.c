/* run_attach.c - --attach: why a process that runs cannot get numalloc any more, and how it gets it
 * when it is started next. (Its blocks are the other malloc's: a second one put beside it would be
 * asked to free what it never gave.) One that has numalloc already can be profiled at once. */
#include <errno.h>
#include <stdio.h>
#include <string.h>

#include "profiler/run/run.h"

/* What its malloc is, by the files it has mapped; NULL: the C library's. */
static const char *malloc_of(FILE *maps, bool *ours, bool *dynamic) {
    static const char *const others[] = {"jemalloc", "tcmalloc", "mimalloc", "libhoard",
                                         "snmalloc"};
    const char *other = NULL;
    char line[PATH_MAX + 128];
    while (fgets(line, sizeof line, maps) != NULL) {
        const char *file = strrchr(line, '/');
        if (file == NULL) continue;
        *ours = *ours || strncmp(file, "/libnumalloc.so", 15) == 0;
        *dynamic = *dynamic || strncmp(file, "/libc.so", 8) == 0 ||
                   strncmp(file, "/libc-", 6) == 0 || strncmp(file, "/ld-musl", 8) == 0;
        for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
            if (strstr(file, ".so") != NULL && strstr(file, others[i]) != NULL) other = others[i];
    }
    return other;
}

/* A word as a shell reads it. */
static void put_word(const char *word) {
    if (*word != 0 && strspn(word, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789"
                                   "_./=:,@%+-") == strlen(word)) {
        printf(" %s", word);
        return;
    }
    printf(" '");
    for (; *word != 0; word++) {
        if (*word == '\'')
            printf("'\\''");
        else
            putchar(*word);
    }
    putchar('\'');
}

/* The command line that the process was started with. */
static void put_command(pid_t pid) {
    char path[64], words[16384];
    snprintf(path, sizeof path, "/proc/%d/cmdline", (int)pid);
    FILE *file = fopen(path, "re");
    size_t size = file != NULL ? fread(words, 1, sizeof words - 1, file) : 0;
    if (file != NULL) fclose(file);
    words[size] = 0;
    for (size_t at = 0; at < size; at += strlen(words + at) + 1)
        put_word(words + at);
    puts(size == 0 ? " PROGRAM" : size == sizeof words - 1 ? " ..." : "");
}

int na_run_attach(const na_run_command_t *command) {
    char path[64];
    int pid = (int)command->pid;
    snprintf(path, sizeof path, "/proc/%d/maps", pid);
    FILE *maps = fopen(path, "re");
    if (maps == NULL) {
        na_run_say(errno == ENOENT ? "there is no process %d"
                                   : "process %d cannot be looked at: %s",
                   pid, strerror(errno));
        return NA_RUN_FAILED;
    }
    bool ours = false, dynamic = false;
    const char *other = malloc_of(maps, &ours, &dynamic);
    fclose(maps);
    if (ours) {
        printf("%d runs with numalloc: numalloc-run --start=%d begins a profile\n", pid, pid);
        return fflush(stdout) == 0 ? 0 : NA_RUN_FAILED;
    }
    printf("%d cannot get numalloc any more: its blocks are %s's, which alone can free them.\n"
           "What it allocated, and where, nobody has recorded. Start it next time with\n\n"
           "    numalloc-run --later",
           pid,
           other != NULL ? other
           : dynamic     ? "the C library"
                         : "its own malloc");
    put_command(command->pid);
    printf("\nand then numalloc-run --start=PID, --stop=PID. A service: the variables of\n"
           "numalloc-run --later --env in its unit.\n");
    if (other != NULL || !dynamic)
        printf("But %s comes before numalloc: build it without.\n",
               other != NULL ? other : "a malloc that is linked in");
    return fflush(stdout) == 0 ? NA_RUN_CANNOT : NA_RUN_FAILED;
}
