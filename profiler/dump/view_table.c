/* view_table.c - the table of views, and the help that comes from it. */
#include "profiler/dump/view_table.h"

#include <stdio.h>
#include <string.h>

#include "profiler/dump/profile/counter_columns.h"

/* Q("question") that the views X(NAME), na_view_row_NAME of some file, answer. The help has them in
 * this order. */
#define NA_VIEWS(Q, X)                                                                             \
    Q("Who uses memory?")                                                                          \
    X(summary)                                                                                     \
    X(brief)                                                                                       \
    X(functions)                                                                                   \
    X(sites)                                                                                       \
    X(callers)                                                                                     \
    X(callees)                                                                                     \
    X(libraries)                                                                                   \
    X(threads)                                                                                     \
    X(source)                                                                                      \
    X(globals)                                                                                     \
    X(pools)                                                                                       \
    Q("When, and for how long?")                                                                   \
    X(timeline)                                                                                    \
    X(at)                                                                                          \
    X(events)                                                                                      \
    X(sizes)                                                                                       \
    X(lifetimes)                                                                                   \
    X(temporary)                                                                                   \
    X(realloc)                                                                                     \
    X(markers)                                                                                     \
    Q("What is wrong?")                                                                            \
    X(warnings)                                                                                    \
    X(leaks)                                                                                       \
    X(errors)                                                                                      \
    X(check)                                                                                       \
    Q("How does it change?")                                                                       \
    X(diff)                                                                                        \
    X(compare)                                                                                     \
    X(list)                                                                                        \
    X(aggregate)                                                                                   \
    X(top)                                                                                         \
    Q("What does the allocator do?")                                                               \
    X(allocator)                                                                                   \
    X(rules)                                                                                       \
    X(policy)                                                                                      \
    Q("What is in the file?")                                                                      \
    X(run)                                                                                         \
    X(session)                                                                                     \
    X(inherited)                                                                                   \
    X(merge)                                                                                       \
    Q("Who touches which memory? (NUMALLOC_PROFILE=sites,access=auto)")                            \
    X(memory)                                                                                      \
    X(objects)                                                                                     \
    X(object)                                                                                      \
    X(sharing)                                                                                     \
    X(pages)                                                                                       \
    X(verdicts)                                                                                    \
    Q("Exports: for other programs and machines")                                                  \
    X(json)                                                                                        \
    X(folded)                                                                                      \
    X(callgrind)                                                                                   \
    X(pprof)                                                                                       \
    X(speedscope)                                                                                  \
    X(heaptrack)                                                                                   \
    X(massif)                                                                                      \
    X(html)                                                                                        \
    X(bundle)

#define Q(question)
#define X(view) extern const na_view_t na_view_row_##view;
NA_VIEWS(Q, X)
#undef X

#define X(view) &na_view_row_##view,
const na_view_t *const na_views[] = {NA_VIEWS(Q, X)};
#undef X
#undef Q

const size_t na_view_count_all = sizeof na_views / sizeof na_views[0];

/* Of the help: a question, or a view. */
static const struct help_line {
    const char *question;
    const na_view_t *view;
} help_lines[] = {
#define Q(question) {question, NULL},
#define X(view)     {NULL, &na_view_row_##view},
    NA_VIEWS(Q, X)
#undef X
#undef Q
};

/* Names of before, of views that are others with options. */
static const struct old_name {
    const char *name, *view;
    na_format_t format;
    size_t top;
} old_names[] = {
    {"csv", "sites", NA_FORMAT_CSV, SIZE_MAX},
};

/* In the order of the help. */
static const uint32_t modes[] = {NA_NPROF_MODE_SAMPLE, NA_NPROF_MODE_SITES, NA_NPROF_MODE_TRACE};
#define MODES (sizeof modes / sizeof modes[0])

static const na_view_t *find_view(const char *name) {
    for (size_t i = 0; i < na_view_count_all; i++)
        if (strcmp(na_views[i]->name, name) == 0) return na_views[i];
    return NULL;
}

const na_view_t *na_view_find(const char *name, na_options_t *options) {
    const na_view_t *view = find_view(name);
    for (size_t i = 0; view == NULL && i < sizeof old_names / sizeof old_names[0]; i++) {
        if (strcmp(old_names[i].name, name) != 0) continue;
        view = find_view(old_names[i].view);
        if (options == NULL) break;
        if (!na_option_given(options, NA_SET_JSON)) options->table.format = old_names[i].format;
        if (!na_option_given(options, NA_SET_TOP)) options->table.top = old_names[i].top;
    }
    return view;
}

void na_view_files(const na_view_t *view, size_t *least, size_t *most) {
    bool two = strcmp(view->words, "OLD NEW") == 0 || strcmp(view->words, "ID FILE...") == 0;
    *least = two ? 2 : 1;
    *most = strstr(view->words, "...") != NULL ? SIZE_MAX : *least;
}

bool na_view_has_data(const na_view_t *view, const na_view_input_t *in) {
    uint32_t mode = na_reader_header(in->reader)->mode;
    if ((view->modes & NA_IN(mode)) != 0) return true;
    char with[64] = "";
    for (size_t i = 0; i < MODES; i++) {
        if ((view->modes & NA_IN(modes[i])) == 0) continue;
        size_t used = strlen(with);
        snprintf(with + used, sizeof with - used, "%s%s", used == 0 ? "" : " or ",
                 na_mode_name(modes[i]));
    }
    na_fail("%s: '%s' needs a profile of mode %s, this one is of mode %s; record it with "
            "NUMALLOC_PROFILE=%.*s",
            in->path, view->name, with, na_mode_name(mode), (int)strcspn(with, " "), with);
    return false;
}

static const char *view_kind(const na_view_t *view, uint32_t mode) {
    if ((view->modes & NA_IN(mode)) == 0) return "-";
    if (mode == NA_NPROF_MODE_SAMPLE && (view->flags & NA_VIEW_FACTS) == 0) return "estimates";
    return "yes";
}

/* ---- keys of --sort ---- */

static void visit_columns(const na_column_t *columns, size_t count, bool aliases,
                          void (*visit)(void *arg, const char *key), void *arg) {
    for (size_t i = 0; i < count; i++) {
        const char *key = aliases ? columns[i].alias : columns[i].key;
        if (key != NULL) visit(arg, key);
    }
}

void na_view_sort_keys(const na_view_t *view, uint64_t given,
                       void (*visit)(void *arg, const char *key), void *arg) {
    static const char *const orders[] = {"peak", "live", "total", "count"};
    if ((view->takes & NA_TAKES(SORT)) == 0) return;
    for (size_t i = 0; (view->flags & NA_VIEW_ORDERS) != 0 && i < 4; i++)
        visit(arg, orders[i]);
    const na_view_table_t *table = NULL;
    for (size_t i = 0; i < sizeof view->tables / sizeof view->tables[0]; i++)
        if (view->tables[i].columns != NULL && (view->tables[i].with & ~given) == 0)
            table = &view->tables[i];
    if (table == NULL) return;
    na_column_t counters[NA_COUNTER_COUNT];
    size_t count = table->columns->counters ? NA_COUNTER_COUNT : 0;
    if (count != 0) na_counters_columns(counters);
    for (int aliases = 1; aliases >= 0; aliases--) {
        visit_columns(counters, count, aliases != 0, visit, arg);
        visit_columns(table->columns->items, table->columns->count, aliases != 0, visit, arg);
    }
}

typedef struct wanted {
    const char *key;
    bool found;
} wanted_t;

static void compare_key(void *arg, const char *key) {
    wanted_t *wanted = arg;
    wanted->found |= strcmp(key, wanted->key) == 0;
}

bool na_view_has_key(const na_view_t *view, uint64_t given, const char *key) {
    wanted_t wanted = {.key = key};
    na_view_sort_keys(view, given, compare_key, &wanted);
    return wanted.found;
}

typedef struct list {
    char text[1536], last[64]; /* all but the last, and that */
    size_t used, count;
} list_t;

static void add_to_list(void *arg, const char *key) {
    list_t *list = arg;
    if (list->last[0] != 0 && list->used < sizeof list->text)
        list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                       "%s%s", list->used == 0 ? "" : ", ", list->last);
    snprintf(list->last, sizeof list->last, "%s", key);
    list->count++;
}

na_status_t na_view_refuse_key(const na_view_t *view, uint64_t given, const char *key) {
    list_t list = {.used = 0};
    na_view_sort_keys(view, given, add_to_list, &list);
    return na_fail("--sort takes one of %s or %s, not: %.200s", list.text, list.last, key);
}

na_status_t na_view_refuse_option(const na_view_t *view, const char *option, uint64_t set) {
    if (view->without != NULL && (set & NA_TAKES_TABLE) != 0)
        return na_fail("'%s' does not take --%s: %s; see numalloc-dump help %s", view->name, option,
                       view->without, view->name);
    list_t list = {.used = 0};
    for (size_t i = 0; i < na_view_count_all; i++)
        if ((na_views[i]->takes & set) != 0) add_to_list(&list, na_views[i]->name);
    return na_fail("'%s' does not take --%s, but %s%s%s do%s; see numalloc-dump help %s",
                   view->name, option, list.text, list.count > 1 ? " and " : "", list.last,
                   list.count > 1 ? "" : "es", view->name);
}

/* ---- help ---- */

static void list_views(void) {
    printf("%-12s", "");
    for (size_t m = 0; m < MODES; m++)
        printf(" %-9s", na_mode_name(modes[m]));
    putchar('\n');
    for (size_t i = 0; i < sizeof help_lines / sizeof help_lines[0]; i++) {
        const na_view_t *view = help_lines[i].view;
        if (view == NULL) {
            printf("\n%s\n", help_lines[i].question);
            continue;
        }
        printf("  %-10s", view->name);
        for (size_t m = 0; m < MODES; m++)
            printf(" %-9s", view_kind(view, modes[m]));
        printf(" %s\n", view->help);
    }
}

static void exit_status(void) {
    printf("\n"
           "Exit status: 0 complete; 1 shown, but the file is damaged (what is missing is said on\n"
           "standard error), or a check failed; 2 nothing shown.\n"
           "Record a profile: numalloc-run --profile PROGRAM\n");
}

void na_views_help(bool names) {
    if (names) {
        for (size_t i = 0; i < na_view_count_all; i++)
            printf("%s\n", na_views[i]->name);
        puts("help");
        return;
    }
    printf("Usage: numalloc-dump [VIEW] FILE [OPTION]...\n"
           "       numalloc-dump help [VIEW]\n"
           "Shows a profile that numalloc recorded. Which view needs which mode of "
           "NUMALLOC_PROFILE:\n");
    list_views();
    printf("\nOptions of summary (numalloc-dump help VIEW has those of the others):\n");
    na_options_help(na_views[0]->takes, false);
    exit_status();
}

static void print_key(void *arg, const char *key) {
    (void)arg;
    puts(key);
}

/* Words of a paragraph, in lines of at most 78 characters. */
static void put_wrapped_word(void *arg, const char *word) {
    size_t *column = arg;
    if (*column + strlen(word) + 2 > 78) {
        printf(",\n  ");
        *column = 2;
    } else if (*column != 2) {
        *column += (size_t)printf(", ");
    }
    *column += (size_t)printf("%s", word);
}

static void put_option(void *arg, const char *name) {
    char option[64];
    snprintf(option, sizeof option, "--%s", name);
    put_wrapped_word(arg, option);
}

static void put_keys(const na_view_t *view, uint64_t given, const char *title) {
    size_t column = 2;
    printf("\n%s\n  ", title);
    na_view_sort_keys(view, given, put_wrapped_word, &column);
    putchar('\n');
}

void na_view_help(const na_view_t *view, na_help_t what, uint64_t given) {
    if (what == NA_HELP_NAMES) {
        na_options_help(view->takes, true);
        return;
    }
    if (what == NA_HELP_KEYS) {
        na_view_sort_keys(view, given, print_key, NULL);
        return;
    }
    printf("Usage: numalloc-dump %s %s [OPTION]...\n%s.\n", view->name, view->words, view->help);
    if (view->more != NULL) printf("%s\n", view->more);
    printf("\nProfiles:");
    for (size_t m = 0; m < MODES; m++)
        printf("%s %s: %s", m == 0 ? "" : ";", na_mode_name(modes[m]), view_kind(view, modes[m]));
    if ((view->flags & NA_VIEW_ACCESSES) != 0)
        printf("\nwith accesses: NUMALLOC_PROFILE=MODE,access=auto");
    printf("\n\nOptions:\n");
    na_options_help(view->takes, false);
    if ((view->takes & NA_TAKES(SORT)) != 0) put_keys(view, 0, "Keys of --sort:");
    for (size_t i = 1; i < sizeof view->tables / sizeof view->tables[0]; i++) {
        if (view->tables[i].columns == NULL) continue;
        char title[64];
        snprintf(title, sizeof title,
                 "Keys of --sort with --%s:", na_options_name(view->tables[i].with));
        put_keys(view, view->tables[i].with, title);
    }
    if (view->without != NULL) {
        size_t column = 2;
        printf("\nNot taken, since %s:\n  ", view->without);
        na_options_each(NA_TAKES_TABLE & ~view->takes, put_option, &column);
        putchar('\n');
    }
    exit_status();
}
