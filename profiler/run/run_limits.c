/* run_limits.c - --limit and --baseline: numalloc-dump check over the profile of the run. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "profiler/containers/quantity.h"
#include "profiler/run/run.h"

static const char *const figures[] = {
#define NA_CHECK_FIGURE(name, bytes, what, order) name,
#include "profiler/dump/runs/check_figures.def"
#undef NA_CHECK_FIGURE
};

static bool is_figure(const char *text, size_t length) {
    for (size_t i = 0; i < sizeof figures / sizeof figures[0]; i++)
        if (strlen(figures[i]) == length && strncmp(figures[i], text, length) == 0) return true;
    return false;
}

static bool refuse(const char *text) {
    char names[256] = "";
    for (size_t i = 0, used = 0; i < sizeof figures / sizeof figures[0]; i++)
        used += (size_t)snprintf(names + used, sizeof names - used, "%s%s", i == 0 ? "" : ", ",
                                 figures[i]);
    na_run_say(
        "--limit takes FIGURE=MOST, such as peak=200M, or with --baseline peak=5%%; FIGURE is "
        "one of %s; not: %s",
        names, text);
    return false;
}

bool na_run_read_limit(na_run_command_t *c, const char *text) {
    size_t length = strcspn(text, "=");
    const char *end;
    double most;
    if (text[length] == 0 || !is_figure(text, length)) return refuse(text);
    const char *value = text + length + 1;
    bool percent = na_quantity_number(value, &most, &end) && strcmp(end, "%") == 0;
    if (!percent && !na_quantity_bytes(value, &most)) return refuse(text);
    if (percent && c->increase != NULL) {
        na_run_say("one --limit in percent, not several: %s", text);
        return false;
    }
    if (percent) {
        c->increase = text;
        return true;
    }
    if (c->limit_count == NA_RUN_LIMITS) {
        na_run_say("%d limits at most; one more is: %s", NA_RUN_LIMITS, text);
        return false;
    }
    c->limits[c->limit_count++] = text;
    return true;
}

bool na_run_has_limits(const na_run_command_t *c) {
    return c->limit_count != 0 || c->increase != NULL || c->baseline != NULL;
}

bool na_run_can_hold_limits(const na_run_command_t *c, const na_run_tools_t *tools) {
    if (!na_run_has_limits(c)) return true;
    if (tools->dump[0] == 0)
        na_run_say("limits need numalloc-dump, which is not installed");
    else if (c->baseline != NULL && access(c->baseline, R_OK) != 0)
        na_run_say("--baseline=%s: %s", c->baseline, strerror(errno));
    else
        return true;
    return false;
}

/* numalloc-dump check, to `to`. Its exit status. */
static int check(const na_run_command_t *c, const na_run_tools_t *tools, const char *file,
                 const char *format, int to) {
    char tests[NA_RUN_LIMITS][128];
    const char *words[2 * NA_RUN_LIMITS + 12] = {tools->dump, "check", file, "--format", format};
    size_t count = 5;
    for (size_t i = 0; i < c->limit_count; i++) {
        const char *limit = c->limits[i];
        int figure = (int)strcspn(limit, "=");
        snprintf(tests[i], sizeof tests[i], "%.*s>%s", figure, limit, limit + figure + 1);
        words[count++] = "--fail-if";
        words[count++] = tests[i];
    }
    if (c->baseline != NULL) {
        words[count++] = "--baseline";
        words[count++] = c->baseline;
        words[count++] = "--fail-on-increase";
        words[count++] = c->increase != NULL ? c->increase : "5%";
    }
    /* exec does not write to its words. */
    return na_run_tool_status((char *const *)(size_t)words, to);
}

int na_run_hold_limits(const na_run_command_t *c, const na_run_tools_t *tools,
                       const na_run_files_t *files) {
    const char *file = files->largest[0] != 0 ? files->largest : files->name;
    if (!na_run_has_limits(c)) return 0;
    if (files->count == 0) {
        na_run_say("no profile to hold against the limits");
        return NA_RUN_FAILED;
    }
    if (c->junit != NULL) {
        int to = open(c->junit, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0666);
        if (to < 0) {
            na_run_say("--junit=%s: %s", c->junit, strerror(errno));
            return NA_RUN_FAILED;
        }
        check(c, tools, file, "junit", to);
    }
    int memory = memfd_create("limits", MFD_CLOEXEC);
    int status = check(c, tools, file, c->github ? "github" : "text", dup(memory));
    char buffer[16384];
    ssize_t n;
    for (off_t at = 0;
         (status != 0 || !c->quiet) && (n = pread(memory, buffer, sizeof buffer, at)) > 0; at += n)
        if (write(STDERR_FILENO, buffer, (size_t)n) != n) break;
    if (memory >= 0) close(memory);
    return status == 0 ? 0 : status == 1 ? NA_RUN_FOUND : NA_RUN_FAILED;
}
