/* main.c - numalloc-dump: finds the view that the command line names and calls it. */
#include <locale.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "alloc/options/nearest.h"
#include "numalloc/numalloc.h"
#include "profiler/dump/files.h"
#include "profiler/dump/output.h"
#include "profiler/dump/ui/progress.h"
#include "profiler/dump/view_table.h"

/* Says so. `alone`: it may be a file's name; nothing is said where it resembles no view's. */
static na_status_t no_such_view(const char *word, bool alone) {
    char hint[80];
    na_nearest_t nearest = {.typed = word, .length = strlen(word)};
    for (size_t i = 0; i < na_view_count_all; i++)
        na_nearest_try(&nearest, na_views[i]->name);
    na_nearest_text(&nearest, "", hint);
    if (alone && hint[0] == 0) return NA_STATUS_WHOLE;
    return na_fail("no such %sview: %s%s; see numalloc-dump --help", alone ? "file or " : "", word,
                   hint);
}

/* The view, and the files after its name; NULL: said why not. A file may have the name of a view if
 * it is the only word. Without a view: the summary of a file, the list of several or of a
 * directory. */
static const na_view_t *choose_view(na_command_line_t *line, const char *const **files,
                                    size_t *count) {
    *files = line->words;
    *count = line->word_count;
    if (line->word_count == 0) return na_views[0];
    const char *first = line->words[0];
    const na_view_t *view = na_view_find(first, NULL);
    if (view != NULL && (line->word_count > 1 || access(first, F_OK) != 0)) {
        *files = line->words + 1;
        *count = line->word_count - 1;
        return na_view_find(first, &line->options);
    }
    if (line->word_count > 1 && access(first, F_OK) != 0) {
        no_such_view(first, false);
        return NULL;
    }
    if (access(first, F_OK) != 0 && no_such_view(first, true) != NA_STATUS_WHOLE) return NULL;
    if (na_is_error_file(first)) return na_view_find("errors", NULL);
    return line->word_count > 1 || na_is_directory(first) ? na_view_find("list", NULL)
                                                          : na_views[0];
}

static na_status_t help_command(const na_command_line_t *line, size_t word) {
    if (line->word_count <= word) {
        na_views_help(line->options.help.names);
        return NA_STATUS_WHOLE;
    }
    const na_view_t *view = na_view_find(line->words[word], NULL);
    if (view == NULL) return no_such_view(line->words[word], false);
    na_view_help(view,
                 line->options.help.names  ? NA_HELP_NAMES
                 : line->options.help.keys ? NA_HELP_KEYS
                                           : NA_HELP_TEXT,
                 line->options.given);
    return NA_STATUS_WHOLE;
}

static na_status_t find_and_show(const na_view_t *view, const na_command_line_t *line,
                                 const char *const *files, size_t count) {
    uint64_t set;
    const char *unwanted = na_options_unwanted(line->options.given, view->takes, &set);
    if (unwanted != NULL) return na_view_refuse_option(view, unwanted, set);
    size_t least, most;
    na_view_files(view, &least, &most);
    if (count == 0) return na_fail("no profile named; see numalloc-dump --help");
    if (count < least)
        return na_fail("'%s' takes %s; see numalloc-dump help %s", view->name, view->words,
                       view->name);
    if (count > most && most == 1)
        return na_fail("one profile at a time: %s; see numalloc-dump --help", files[1]);
    if (count > most)
        return na_fail("'%s' takes %s, not: %s", view->name, view->words, files[most]);
    const na_options_t *o = &line->options;
    if ((view->flags & NA_VIEW_PROFILE) != 0 && o->output == NULL)
        return na_fail("'%s' writes a profile: name it with -o FILE", view->name);
    if ((view->flags & NA_VIEW_FILE) != 0 && isatty(STDOUT_FILENO))
        return na_fail("'%s' writes nothing that a terminal shows: name a file with -o FILE",
                       view->name);
    na_order_t order;
    if (o->drawing.metric != NULL && !na_view_order(o->drawing.metric, &order))
        return na_fail("--metric takes peak, live, total or count, not: %s", o->drawing.metric);
    if (o->table.sort != NULL && !na_view_has_key(view, line->options.given, o->table.sort))
        return na_view_refuse_key(view, line->options.given, o->table.sort);

    if (most == SIZE_MAX) {
        na_files_t found;
        na_status_t status =
            na_files_find(files, count, (view->flags & NA_VIEW_ERRORS) != 0, &found);
        if (status == NA_STATUS_WHOLE)
            status = view->show_files((const char *const *)found.items, found.count, o);
        na_files_free(&found);
        return status;
    }
    for (size_t i = 0; i < count; i++)
        if (na_is_directory(files[i]))
            return na_fail("%s is a directory, '%s' takes %s; numalloc-dump %s says which profiles "
                           "of it matter",
                           files[i], view->name, view->words, files[i]);
    if (view->show_files != NULL) return view->show_files(files, count, o);
    na_view_input_t in;
    bool names =
        o->accesses.shown || (o->table.filter.given && (view->flags & NA_VIEW_FILTERS_STACKS) != 0);
    na_status_t status =
        (view->flags & NA_VIEW_PLAYS) != 0
            ? na_view_open(&in, files[0], o)
            : na_view_load(&in, files[0], o, (view->flags & NA_VIEW_LIGHT) != 0 && !names);
    if (status != NA_STATUS_WHOLE) return status;
    status = na_view_has_data(view, &in) ? view->show(&in) : NA_STATUS_NOTHING;
    na_status_t damage = na_view_unload(&in, false);
    return status == NA_STATUS_WHOLE ? damage : status;
}

/* What --errors and --baseline name is found first. */
static na_status_t show_view(const na_view_t *view, na_command_line_t *line,
                             const char *const *files, size_t count) {
    na_options_t *o = &line->options;
    na_files_t found = {0}, older = {0};
    na_status_t status = NA_STATUS_WHOLE;
    if (o->errors.named.count != 0 && (view->takes & NA_TAKES(ERRORS)) != 0)
        status = na_files_find(o->errors.named.items, o->errors.named.count, true, &found);
    if (status == NA_STATUS_WHOLE && o->check.baseline != NULL &&
        (view->takes & NA_TAKES(CHANGES)) != 0)
        status = na_files_find(&o->check.baseline, 1, false, &older);
    if (status == NA_STATUS_WHOLE) {
        o->errors.files = (const char *const *)found.items;
        o->errors.file_count = found.count;
        o->check.older = (const char *const *)older.items;
        o->check.older_count = older.count;
        status = find_and_show(view, line, files, count);
    }
    na_files_free(&found);
    na_files_free(&older);
    return status;
}

static bool begin_output(const na_view_t *view, const na_options_t *options) {
    na_output_kind_t kind = (view->flags & NA_VIEW_PACKED) != 0    ? NA_OUTPUT_PACKED
                            : (view->flags & NA_VIEW_PROFILE) != 0 ? NA_OUTPUT_PROFILE
                                                                   : NA_OUTPUT_TEXT;
    return na_output_begin(options->policy.follow ? NULL : options->output, kind);
}

int main(int argc, char **argv) {
    setlocale(LC_CTYPE, "");
    na_progress_begin();
    /* libdwfl asks these servers for debug information, if any are named. One that does not answer
     * must not hold a view up for the library's minute and a half. */
    if (getenv("DEBUGINFOD_URLS") != NULL) setenv("DEBUGINFOD_TIMEOUT", "10", 0);
    static na_command_line_t line;
    na_status_t status = NA_STATUS_NOTHING;
    if (na_options_read(&line, argc, argv)) {
        const char *const *files;
        size_t count;
        const na_view_t *view;
        if (line.options.help.version) {
            printf("numalloc-dump %d.%d.%d, profile format %u\n", NUMALLOC_VERSION_MAJOR,
                   NUMALLOC_VERSION_MINOR, NUMALLOC_VERSION_PATCH, NA_NPROF_VERSION);
            status = NA_STATUS_WHOLE;
        } else if (line.options.help.asked) {
            status = help_command(&line, 0);
        } else if (line.word_count > 0 && strcmp(line.words[0], "help") == 0) {
            status = help_command(&line, 1);
        } else if ((view = choose_view(&line, &files, &count)) != NULL &&
                   begin_output(view, &line.options)) {
            status = show_view(view, &line, files, count);
            na_progress_end();
            if (status == NA_STATUS_MEMORY)
                status = na_fail("not enough memory for this profile; use a machine with more");
            if (!na_output_end(status != NA_STATUS_NOTHING)) status = NA_STATUS_NOTHING;
        }
    }
    na_options_free(&line);
    return (int)status;
}
