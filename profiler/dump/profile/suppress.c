/* suppress.c - reads and applies suppressions of leaks. See suppress.h. */
#include "profiler/dump/profile/suppress.h"

#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "profiler/containers/array.h"
#include "profiler/dump/profile/pattern.h"

/* What the C library and the loader keep to the end on purpose. Only the frames inside the runtime,
 * below the first one of the program's, are held against these: a constructor that the loader calls
 * is the program's own. */
static const char *const builtin[] = {
    "^_dl_",
    "^__GI__dl_",
    "^dl_open_worker",
    "_IO_file_doallocate$",
    "^_nl_",
    "^setlocale$",
    "^__tz",
    "^tzset_internal$",
    "^__gconv_",
    "^__new_exitfn$",
    "^__nss_",
    "^allocate_dtv",
    "^__cxa_get_globals$",
    "^__cxa_thread_atexit",
};

static bool add_pattern(na_suppressions_t *list, const char *pattern, bool is_builtin) {
    if (!NA_ARRAY_RESERVE(list->items, list->room, list->count + 1u)) return false;
    char *copy = strdup(pattern);
    if (copy == NULL) return false;
    list->items[list->count++] = (na_suppression_t){.pattern = copy, .builtin = is_builtin};
    return true;
}

static na_status_t read_suppressions(na_suppressions_t *list, const char *path) {
    FILE *file = fopen(path, "re");
    if (file == NULL) return na_fail("cannot read %s: %s", path, strerror(errno));
    na_status_t status = NA_STATUS_WHOLE;
    char *line = NULL;
    size_t room = 0;
    unsigned number = 0;
    while (status == NA_STATUS_WHOLE && getline(&line, &room, file) >= 0) {
        number++;
        char *text = line + strspn(line, " \t");
        text[strcspn(text, "\r\n")] = 0;
        size_t length = strlen(text);
        while (length > 0 && (text[length - 1] == ' ' || text[length - 1] == '\t'))
            text[--length] = 0;
        if (text[0] == 0 || text[0] == '#') continue;
        if (strncmp(text, "leak:", 5) != 0 || text[5] == 0)
            status = na_fail("%s:%u: a suppression is leak:PATTERN, not: %s", path, number, text);
        else if (!add_pattern(list, text + 5, false))
            status = NA_STATUS_MEMORY;
    }
    if (status == NA_STATUS_WHOLE && ferror(file))
        status = na_fail("cannot read %s: %s", path, strerror(errno));
    free(line);
    fclose(file);
    return status;
}

na_status_t na_suppressions_read(na_suppressions_t *list, const na_options_t *options) {
    memset(list, 0, sizeof *list);
    na_status_t status = NA_STATUS_WHOLE;
    for (size_t i = 0; i < sizeof builtin / sizeof builtin[0] && !options->leaks.no_builtin; i++)
        if (!add_pattern(list, builtin[i], true)) status = NA_STATUS_MEMORY;
    for (size_t i = 0; i < options->leaks.suppressions.count && status == NA_STATUS_WHOLE; i++)
        status = read_suppressions(list, options->leaks.suppressions.items[i]);
    if (status != NA_STATUS_WHOLE) na_suppressions_free(list);
    return status;
}

void na_suppressions_free(na_suppressions_t *list) {
    for (size_t i = 0; i < list->count; i++)
        free(list->items[i].pattern);
    free(list->items);
    memset(list, 0, sizeof *list);
}

bool na_suppressed(na_suppressions_t *list, const na_view_input_t *in, const na_site_t *site,
                   const na_stack_t *stack) {
    for (size_t i = 0; i < list->count; i++) {
        na_suppression_t *s = &list->items[i];
        for (uint32_t f = 0; f < stack->count; f++) {
            const na_symbol_frame_t *frame = stack->items[f];
            if (s->builtin && !frame->runtime) break;
            if (!na_suppression_matches(s->pattern, frame->function) &&
                !na_suppression_matches(s->pattern, frame->module) &&
                (frame->file == NULL || !na_suppression_matches(s->pattern, frame->file)))
                continue;
            s->bytes += (double)site->sum.live_bytes;
            s->blocks += na_view_count(in, (double)site->sum.live_count);
            return true;
        }
    }
    return false;
}

bool na_leaks_sum(na_suppressions_t *list, const na_view_input_t *in, na_leaks_t *leaks) {
    memset(leaks, 0, sizeof *leaks);
    na_stack_t stack = {0};
    bool good = true;
    for (size_t i = 0; i < in->sites.count && good; i++) {
        const na_site_t *site = &in->sites.items[i];
        if (site->sum.live_bytes <= 0 && site->sum.live_count <= 0) continue;
        good = na_view_stack(in, site->site, &stack);
        if (!good || na_suppressed(list, in, site, &stack)) continue;
        leaks->bytes += (double)site->sum.live_bytes;
        leaks->blocks += na_view_count(in, (double)site->sum.live_count);
        leaks->sites++;
    }
    free(stack.items);
    return good;
}
