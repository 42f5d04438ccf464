/* view_table.c - the table of views, and the help that comes from it. */
#include "profiler/dump/view_table.h"

#include <stdio.h>
#include <string.h>

#include "profiler/dump/accesses/access_view.h"
#include "profiler/dump/profile/counter_columns.h"

#define NA_TAKES_SUMMARY                                                                           \
    (NA_TAKES_TABLE | NA_TAKES_FUNCTIONS | NA_TAKES_SITES | NA_TAKES_STACKS | NA_TAKES_WRAPPERS)

#define NA_TAKES_TREE (NA_TAKES_TABLE | NA_TAKES_DEPTH | NA_TAKES_MIN | NA_TAKES_WRAPPERS)

#define EXPORT "an export has what its reader wants, all of it"

const na_view_t na_views[] = {
    {.name = "summary",
     .words = "FILE",
     .help = "the run, and the functions that its memory came from (default)",
     .more =
         "--json writes functions and sites, with --stacks their stacks; --csv the functions, or\n"
         "the sites. --filter chooses functions and sites; what is said of the run stays as it is.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ORDERS,
     .takes = NA_TAKES_SUMMARY,
     .show = na_view_summary},
    {.name = "functions",
     .words = "FILE",
     .help = "functions, with what they asked for and what they called asked for",
     .more = "--access: functions that touch memory, and from where to where.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS | NA_TAKES_ACCESS | NA_TAKES_WHERE,
     .tables = {{&na_columns_functions, 0}, {&na_columns_access_functions, NA_TAKES_ACCESS}},
     .show = na_view_functions_show},
    {.name = "sites",
     .words = "FILE",
     .help = "sites, one for each distinct call stack",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_sites, 0}},
     .show = na_view_sites},
    {.name = "callers",
     .words = "FILE",
     .help = "functions that allocate, and below each its callers",
     .more = "--filter: paths begin at the innermost function that matches.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ORDERS,
     .takes = NA_TAKES_TREE,
     .show = na_view_callers},
    {.name = "callees",
     .words = "FILE",
     .help = "the calls from the start of each thread inwards",
     .more = "--filter: paths begin at the outermost function that matches.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ORDERS,
     .takes = NA_TAKES_TREE,
     .show = na_view_callees},
    {.name = "libraries",
     .words = "FILE",
     .help = "memory by program and library",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_libraries, 0}},
     .show = na_view_libraries},
    {.name = "threads",
     .words = "FILE",
     .help = "what each thread allocated, and whose blocks it freed",
     .more = "--access: what each thread touched, and on which nodes it ran.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_LIGHT,
     .takes = NA_TAKES_TABLE | NA_TAKES_ACCESS | NA_TAKES_WHERE,
     .tables = {{&na_columns_threads, 0}, {&na_columns_access_threads, NA_TAKES_ACCESS}},
     .show = na_view_threads},
    {.name = "timeline",
     .words = "FILE",
     .help = "memory over time",
     .more = "Drawn; --sort and --top ask for its points, which --json and --csv write. A point "
             "without\n"
             "a value: nothing happened in the interval.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_LIGHT,
     .takes = (NA_TAKES_TABLE & ~NA_TAKES_FILTER) | NA_TAKES_SIZE,
     .without = "moments have no names",
     .tables = {{&na_columns_timeline, 0}},
     .show = na_view_timeline},
    {.name = "events",
     .words = "FILE",
     .help = "every event, in the order in which they happened",
     .more =
         "--filter: events of that kind (free, realloc, ...), and all of blocks that were "
         "allocated or\n"
         "freed on a stack with such a name. Stacks are numbers, as in the JSON of other views.\n"
         "--sort keeps the first --top rows, 20 unless it is given.",
     .modes = NA_IN(NA_NPROF_MODE_TRACE),
     .flags = NA_VIEW_LIGHT | NA_VIEW_FILTERS_STACKS,
     .takes = NA_TAKES_TABLE,
     .tables = {{&na_columns_events, 0}},
     .show = na_view_events},
    {.name = "at",
     .words = "FILE",
     .help = "what lives at a moment, or what changed between two, by site",
     .more = "Any moment of a trace; of the other modes the peak and the end.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS | NA_TAKES_TIME,
     .tables = {{&na_columns_at, 0}},
     .show = na_view_at},
    {.name = "sizes",
     .words = "FILE",
     .help = "blocks by size, as asked for and as handed out",
     .more = "--filter chooses sites. Bytes of sites with blocks of several rows are a row of "
             "their own,\n"
             "but in a trace.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_sizes, 0}},
     .show = na_view_sizes},
    {.name = "lifetimes",
     .words = "FILE",
     .help = "blocks by lifetime, and lifetime by size",
     .more = "--filter chooses sites; --json has \"by_size\", frees by the number of binary digits "
             "of the "
             "size.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_lifetimes, 0}},
     .show = na_view_lifetimes},
    {.name = "temporary",
     .words = "FILE",
     .help = "sites whose blocks are freed before their thread allocates again",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_temporary, 0}},
     .show = na_view_temporary},
    {.name = "globals",
     .words = "FILE",
     .help = "global and thread-local variables, by variable or module",
     .more = "Read from the modules' own files, not from the profile.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
     .takes = NA_TAKES_TABLE | NA_TAKES_MODULES,
     .tables = {{&na_columns_globals, 0}, {&na_columns_global_modules, NA_TAKES_MODULES}},
     .show = na_view_globals},
    {.name = "allocator",
     .words = "FILE",
     .help = "the allocator's spans at the end: how full, what is lost, who keeps it",
     .more = "Blocks from before the profile are not seen. --retention: \"kept\" is what a site's "
             "blocks\n"
             "have of the memory that is resident in sparse spans and in no live block; \"of "
             "age\": how old\n"
             "they are.",
     .modes = NA_IN(NA_NPROF_MODE_SITES) | NA_IN(NA_NPROF_MODE_TRACE),
     .takes = NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS | NA_TAKES_RETENTION,
     .tables = {{&na_columns_allocator, 0}, {&na_columns_retention, NA_TAKES_RETENTION}},
     .show = na_view_allocator},
    {.name = "realloc",
     .words = "FILE",
     .help = "sites whose blocks grow, by realloc or by copying",
     .modes = NA_IN(NA_NPROF_MODE_SITES) | NA_IN(NA_NPROF_MODE_TRACE),
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_realloc, 0}},
     .show = na_view_realloc},
    {.name = "leaks",
     .words = "FILE",
     .help = "what was never freed, with LeakSanitizer's suppressions",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_STACKS | NA_TAKES_WRAPPERS | NA_TAKES_SUPPRESSIONS,
     .tables = {{&na_columns_leaks, 0}},
     .show = na_view_leaks},
    {.name = "source",
     .words = "FILE",
     .help = "source lines with their figures",
     .more = "--filter chooses files; without it those that allocate themselves are shown.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ORDERS,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE | NA_TAKES_SOURCE_PATH,
     .show = na_view_source},
    {.name = "warnings",
     .words = "FILE",
     .help = "what asks for attention, with reason and remedy",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_warnings, 0}},
     .show = na_view_warnings},
    {.name = "run",
     .words = "FILE",
     .help = "options, environment, modules, what the file is made of",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_JSON,
     .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
     .without = "it is no table",
     .show = na_view_run},
    {.name = "top",
     .words = "PID",
     .help = "a running process, again and again: functions by what they have live",
     .more =
         "Reads the profile that the process records, without stopping it. Written to a file or a "
         "pipe: "
         "once.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS | NA_TAKES_LIVE,
     .tables = {{&na_columns_functions, 0}},
     .show_files = na_view_top},
    {.name = "diff",
     .words = "OLD NEW",
     .help = "what changed between two profiles, by function",
     .more = "--sort peak, live, total or count says which figure is compared.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ORDERS,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_diff, 0}},
     .show_files = na_view_diff},
    {.name = "compare",
     .words = "FILE...",
     .help = "several runs beside each other, on one relative time axis",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE,
     .tables = {{&na_columns_compare, 0}},
     .show_files = na_view_compare},
    {.name = "list",
     .words = "FILE...",
     .help = "several profiles, or those of a directory: which of them matter, largest first",
     .more = "The view of several files, or of a directory, where none is named. Those with less "
             "than 1 % of the\nlargest peak and of the most allocated are one line; --top 0 shows "
             "all.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE,
     .tables = {{&na_columns_list, 0}},
     .show_files = na_view_list},
    {.name = "aggregate",
     .words = "FILE...",
     .help = "the ranks of a job: spread of peaks, highest and lowest rank",
     .more = "Of each rank the process counts that is the rank; its children, launchers and what "
             "starts\nranks are left out, and named. Exit status 1 where ranks are missing. A "
             "directory stands for the\nprofiles in it.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_aggregate, 0}},
     .show_files = na_view_aggregate},
    {.name = "check",
     .words = "FILE",
     .help = "validates a profile against limits and a baseline, for scripts",
     .more = "FIGURE: peak, live, leaks, leaked-blocks, total, allocations, reallocs, temporary, "
             "physical,\n"
             "waste, threads, lost. Exit status 1 and a few lines if one fails, or the file is "
             "damaged.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_CHECK | NA_TAKES_BASELINE | NA_TAKES_SUPPRESSIONS | NA_TAKES_WRAPPERS,
     .without = "it answers with its exit status, and says in lines what failed",
     .show = na_view_check},
    {.name = "bundle",
     .words = "FILE",
     .help = "writes a copy with symbols (-o FILE), which reads on any machine",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_FACTS,
     .without = "it writes a profile",
     .show = na_view_bundle},
    {.name = "pools",
     .words = "FILE",
     .help = "blocks that the program's own pools announced, by pool and site",
     .more =
         "Pools are a kind of their own: their memory is counted under malloc or mappings as well.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_FACTS,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_pools, 0}},
     .show = na_view_pools},
    {.name = "markers",
     .words = "FILE",
     .help = "moments that the program named",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
     .takes = NA_TAKES_TABLE,
     .tables = {{&na_columns_markers, 0}},
     .show = na_view_markers},
    {.name = "inherited",
     .words = "FILE",
     .help = "a forked child: blocks it has from its ancestors, and frees of them",
     .more = "Sites are named if the ancestor's profile lies where it was, or beside this one.",
     .modes = NA_IN_ALL,
     .takes = NA_TAKES_TABLE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_inherited, 0}},
     .show = na_view_inherited},
    {.name = "session",
     .words = "FILE",
     .help = "which part of which run of which process of a job this is",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_LIGHT | NA_VIEW_FACTS,
     .takes = NA_TAKES_TABLE,
     .tables = {{&na_columns_session, 0}},
     .show = na_view_session},
    {.name = "memory",
     .words = "FILE...",
     .help = "accesses: from which node to which, over time, by kind of object",
     .more = "Several files: the processes of one application. --csv writes a row for each pair of "
             "nodes,\n"
             "each kind of object, what answered, and each step of time; so does text with --sort, "
             "--filter\n"
             "or --top, which hold for these rows (\"rows\" of --json).",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ACCESSES,
     .takes = NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_memory, 0}},
     .show_files = na_view_memory},
    {.name = "objects",
     .words = "FILE...",
     .help = "accesses by object: what was touched from other nodes",
     .more = "By origin: site, variable, file. --instances: every object by itself.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ACCESSES,
     .takes = NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_INSTANCES | NA_TAKES_WRAPPERS |
              NA_TAKES_SOURCE_PATH,
     .tables = {{&na_columns_objects, 0}},
     .show_files = na_view_objects},
    {.name = "object",
     .words = "ID FILE...",
     .help = "accesses to one object over time, by thread and function",
     .more = "ID: as 'objects' has it. --sort, --filter, --top and --csv are about the functions.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ACCESSES,
     .takes = NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE_PATH,
     .tables = {{&na_columns_object, 0}},
     .show_files = na_view_object},
    {.name = "sharing",
     .words = "FILE...",
     .help = "objects that threads share, and the groups of threads that makes",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ACCESSES,
     .takes = NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE_PATH,
     .tables = {{&na_columns_sharing, 0}},
     .show_files = na_view_sharing},
    {.name = "pages",
     .words = "FILE...",
     .help = "accesses by page: where it lies, and from where it is touched",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ACCESSES,
     .takes = NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE_PATH,
     .tables = {{&na_columns_pages, 0}},
     .show_files = na_view_pages},
    {.name = "verdicts",
     .words = "FILE...",
     .help = "what is wrong with where memory lies, and what to do about it",
     .more = "docs/access-profiling.md has the rules and their thresholds.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_ACCESSES,
     .takes = NA_TAKES_TABLE | NA_TAKES_WHERE | NA_TAKES_WRAPPERS | NA_TAKES_SOURCE_PATH,
     .tables = {{&na_columns_verdicts, 0}},
     .show_files = na_view_verdicts},
    {.name = "json",
     .words = "FILE",
     .help = "all of the profile, for programs (docs/profile-json.md)",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .takes = NA_TAKES_WRAPPERS,
     .show = na_export_json},
    {.name = "csv",
     .words = "FILE",
     .help = "all sites as comma-separated values",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .takes = NA_TAKES_SORT | NA_TAKES_TOP | NA_TAKES_FILTER | NA_TAKES_WRAPPERS,
     .tables = {{&na_columns_sites, 0}},
     .show = na_export_csv},
    {.name = "folded",
     .words = "FILE",
     .help = "a line for each stack, as flamegraph.pl reads it",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .takes = NA_TAKES_METRIC,
     .show = na_export_folded},
    {.name = "callgrind",
     .words = "FILE",
     .help = "for kcachegrind and callgrind_annotate",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .show = na_export_callgrind},
    {.name = "pprof",
     .words = "FILE",
     .help = "for pprof (gzip-compressed profile.proto)",
     .more = "Sample types: alloc_objects, alloc_space, inuse_objects, inuse_space, peak.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .show = na_export_pprof},
    {.name = "speedscope",
     .words = "FILE",
     .help = "for speedscope",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .takes = NA_TAKES_METRIC,
     .show = na_export_speedscope},
    {.name = "heaptrack",
     .words = "FILE",
     .help = "for heaptrack_print and heaptrack_gui",
     .modes = NA_IN(NA_NPROF_MODE_TRACE),
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .show = na_export_heaptrack},
    {.name = "massif",
     .words = "FILE",
     .help = "for ms_print and massif-visualizer",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .takes = NA_TAKES_MIN,
     .show = na_export_massif},
    {.name = "html",
     .words = "FILE",
     .help = "one page with charts, flame graph and source, for a browser",
     .more =
         "The page needs no server and no network: numalloc-dump html FILE -o report.html. With\n"
         "--baseline OLD it colours the flame graph and lists the sites by what changed.",
     .modes = NA_IN_ALL,
     .flags = NA_VIEW_EXPORT,
     .without = EXPORT,
     .takes = NA_TAKES_WRAPPERS | NA_TAKES_BASELINE,
     .show = na_export_html},
};
const size_t na_view_count_all = sizeof na_views / sizeof na_views[0];

/* In the order of the help. */
static const uint32_t modes[] = {NA_NPROF_MODE_SAMPLE, NA_NPROF_MODE_SITES, NA_NPROF_MODE_TRACE};
#define MODES (sizeof modes / sizeof modes[0])

const na_view_t *na_view_find(const char *name) {
    for (size_t i = 0; i < na_view_count_all; i++)
        if (strcmp(na_views[i].name, name) == 0) return &na_views[i];
    return NULL;
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

static const char *kind_of(const na_view_t *view, uint32_t mode) {
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
    if ((view->takes & NA_TAKES_SORT) == 0) return;
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
    size_t used;
} list_t;

static void add_to_list(void *arg, const char *key) {
    list_t *list = arg;
    if (list->last[0] != 0 && list->used < sizeof list->text)
        list->used += (size_t)snprintf(list->text + list->used, sizeof list->text - list->used,
                                       "%s%s", list->used == 0 ? "" : ", ", list->last);
    snprintf(list->last, sizeof list->last, "%s", key);
}

na_status_t na_view_refuse_key(const na_view_t *view, uint64_t given, const char *key) {
    list_t list = {.used = 0};
    na_view_sort_keys(view, given, add_to_list, &list);
    return na_fail("--sort takes one of %s or %s, not: %.200s", list.text, list.last, key);
}

/* ---- help ---- */

#define KINDS (NA_VIEW_EXPORT | NA_VIEW_ACCESSES)

/* Views with these of the flags KINDS. */
static void list(const char *title, uint32_t kind) {
    printf("\n%-12s", title);
    for (size_t m = 0; m < MODES; m++)
        printf(" %-9s", na_mode_name(modes[m]));
    putchar('\n');
    for (size_t i = 0; i < na_view_count_all; i++) {
        const na_view_t *view = &na_views[i];
        if ((view->flags & KINDS) != kind) continue;
        printf("  %-10s", view->name);
        for (size_t m = 0; m < MODES; m++)
            printf(" %-9s", kind_of(view, modes[m]));
        printf(" %s\n", view->help);
    }
}

static void exit_status(void) {
    printf("\n"
           "Exit status: 0 complete; 1 shown, but the file is damaged (what is missing is said on\n"
           "standard error), or a check failed; 2 nothing shown.\n"
           "Record a profile: NUMALLOC_PROFILE=sites LD_PRELOAD=libnumalloc.so PROGRAM\n");
}

void na_views_help(bool names) {
    if (names) {
        for (size_t i = 0; i < na_view_count_all; i++)
            printf("%s\n", na_views[i].name);
        puts("help");
        return;
    }
    printf("Usage: numalloc-dump [VIEW] FILE [OPTION]...\n"
           "       numalloc-dump help [VIEW]\n"
           "Shows a profile that numalloc recorded. Which view needs which mode of "
           "NUMALLOC_PROFILE:\n");
    list("Views", 0);
    list("Of accesses", NA_VIEW_ACCESSES);
    printf("  (with ,access=auto after the mode: NUMALLOC_PROFILE=sites,access=auto)\n");
    list("Exports", NA_VIEW_EXPORT);
    printf("\nOptions of summary (numalloc-dump help VIEW has those of the others):\n");
    na_options_help(na_views[0].takes, false);
    exit_status();
}

static void print_key(void *arg, const char *key) {
    (void)arg;
    puts(key);
}

/* Words of a paragraph, in lines of at most 78 characters. */
static void put_word(void *arg, const char *word) {
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
    put_word(arg, option);
}

static void put_keys(const na_view_t *view, uint64_t given, const char *title) {
    size_t column = 2;
    printf("\n%s\n  ", title);
    na_view_sort_keys(view, given, put_word, &column);
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
        printf("%s %s: %s", m == 0 ? "" : ";", na_mode_name(modes[m]), kind_of(view, modes[m]));
    if ((view->flags & NA_VIEW_ACCESSES) != 0)
        printf("\nwith accesses: NUMALLOC_PROFILE=MODE,access=auto");
    printf("\n\nOptions:\n");
    na_options_help(view->takes, false);
    if ((view->takes & NA_TAKES_SORT) != 0) put_keys(view, 0, "Keys of --sort:");
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
