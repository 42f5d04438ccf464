/* environment.c - what is set for the program. Options of the command line win over variables that
 * are set already, and say so; what no option is about stays as the user set it. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/run/run.h"

enum { MOST_SET = 20 };
static const char *changed[MOST_SET]; /* names, for na_run_print_environment */
static size_t changed_count;

const char *na_run_variable(const char *name) {
    const char *value = getenv(name);
    return value != NULL && *value != 0 ? value : NULL;
}

static bool set_variable(const char *name, const char *value) {
    if (setenv(name, value, 1) != 0) {
        na_run_say("not enough memory");
        return false;
    }
    if (changed_count < MOST_SET) changed[changed_count++] = name;
    return true;
}

/* For an option: `by` is its name. */
static bool set_option(const char *name, const char *value, const char *by) {
    const char *old = na_run_variable(name);
    if (old != NULL && strcmp(old, value) != 0)
        na_run_say("%s takes the place of %s=%s", by, name, old);
    return set_variable(name, value);
}

/* The library comes first: whose malloc comes first is the program's. One of numalloc's that is
 * there already would be a second heap. */
static bool preload(const char *library) {
    const char *old = na_run_variable("LD_PRELOAD");
    size_t room = strlen(library) + (old != NULL ? strlen(old) : 0) + 2;
    char *value = malloc(room);
    if (value == NULL) {
        na_run_say("not enough memory");
        return false;
    }
    size_t used = (size_t)snprintf(value, room, "%s", library);
    while (old != NULL && *old != 0) {
        size_t length = strcspn(old, " :\t\n");
        const char *name = old + length;
        while (name > old && name[-1] != '/')
            name--;
        if (strncmp(name, "libnumalloc.so", 14) == 0) {
            if (strlen(library) != length || strncmp(old, library, length) != 0)
                na_run_say("%s takes the place of %.*s in LD_PRELOAD", library, (int)length, old);
        } else if (length != 0) {
            used += (size_t)snprintf(value + used, room - used, ":%.*s", (int)length, old);
        }
        old += length + (old[length] != 0);
    }
    bool good = set_variable("LD_PRELOAD", value);
    free(value);
    return good;
}

/* In the name of a profile a % stands before a letter; two of them are one. The slash
 * at the end: a daemon's processes make it anew if it was removed when what began them ended. */
static bool set_directory(const char *directory) {
    char name[2 * PATH_MAX + 1];
    size_t used = 0;
    for (const char *c = directory; *c != 0; c++) {
        if (*c == '%') name[used++] = '%';
        name[used++] = *c;
    }
    name[used++] = '/';
    name[used] = 0;
    return set_variable("NUMALLOC_PROFILE_FILE", name);
}

bool na_run_set_environment(const na_run_command_t *c, const na_run_tools_t *tools,
                            const na_run_program_t *program, const na_run_place_t *place) {
    bool good = program->linked || preload(tools->library);
    if (c->check) good = good && set_option("NUMALLOC_HARDEN", "2", "--check");
    if (c->leaks) good = good && set_option("NUMALLOC_LEAKS", "1", "--leaks");
    if (c->policy != NULL) {
        /* The program may change its directory before it begins. */
        char *path = realpath(c->policy, NULL);
        if (path == NULL) na_run_say("%s: %s", c->policy, strerror(errno));
        good = good && path != NULL && set_option("NUMALLOC_POLICY", path, "--policy");
        free(path);
    }
    if (c->stats) good = good && set_option("NUMALLOC_STATS", "1", "--stats");
    if (c->mode != NULL) good = good && set_option("NUMALLOC_PROFILE", c->mode, c->by);
    if (c->interval != NULL)
        good = good && set_option("NUMALLOC_SAMPLE_INTERVAL", c->interval, "--sample");
    if (c->access != NULL) good = good && set_option("NUMALLOC_ACCESS", c->access, "--access");
    if (c->python)
        good = good && set_option("NUMALLOC_PYTHON", "1", "--python") &&
               set_option("PYTHONMALLOC", "malloc", "--python");
    if (c->every[0] != 0)
        good = good && set_option("NUMALLOC_PROFILE_DUMP_EVERY", c->every, "--dump-every");
    if (c->later) good = good && set_option("NUMALLOC_PROFILE_START", "later", "--later");
    if (place == NULL) return good;
    good = good && set_directory(place->directory);
    /* The user's own is obeyed as well as this one would be. */
    if (na_run_variable("NUMALLOC_PROFILE_TRIGGER") == NULL)
        good = good && set_variable("NUMALLOC_PROFILE_TRIGGER", place->trigger);
    return good;
}

void na_run_print_environment(void) {
    for (size_t i = 0; i < changed_count; i++)
        printf("%s=%s\n", changed[i], getenv(changed[i]));
}
